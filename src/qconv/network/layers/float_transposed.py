"""Transposed convolutions of floats, as one convolution of all their phases. The shape of the input is known."""

from __future__ import annotations

import numpy as np

from qconv.network.graph.served import Unserved
from qconv.network.layers.float_convolution import FloatReader
from qconv.network.layers.packed_convolution import PackedConvolution, as_images
from qconv.network.layers.transposed import Geometry


def conv_transpose(reader: FloatReader) -> PackedConvolution:
    reading, w = reader.reading, reader.weights((3, 4, 5))
    layer, taps = reading.layer, w.shape[2:]
    groups = int(layer.attributes.get("group", 1))
    k, bias = w.shape[1] * groups, reading.optional(2, "bias")
    shape = reading.network.tensor(layer.inputs[0]).extents or ()
    try:
        geometry = Geometry.of(layer.attributes, shape, k, taps)
    except ValueError as error:
        raise Unserved(str(error)) from None
    if geometry.frames is not None:
        raise Unserved("the phases along its third axis are moved by a copy, which only integers have")
    filters = geometry.filters(as_images(w), np.zeros((), w.dtype))
    given = geometry.by_phase({} if bias is None else {"bias": bias}, k)
    return reader.made(filters, given.get("bias"), geometry.window(len(taps)), len(taps))
