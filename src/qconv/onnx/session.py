"""Sessions: any model that ONNX Runtime accepts, with its quantized layers on this project's kernels."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx
from onnx import numpy_helper

from qconv.device import Device, open_device
from qconv.dtypes import FLOAT8
from qconv.errors import SlowNetwork
from qconv.host_array import check_unmasked
from qconv.instances.load.expected import Expectations
from qconv.instances.load.serving import found
from qconv.narrow_floats import numpy_of, type_of
from qconv.network import (
    Arranger,
    Contender,
    Explanation,
    Memory,
    Network,
    Profile,
    Value,
)
from qconv.network.graph.value import Form, Shape
from qconv.network.run.again import Again
from qconv.network.run.buffers import Buffer, buffers_of
from qconv.network.run.runner import MOST_SHAPES
from qconv.onnx import options
from qconv.onnx.asked_shapes import own_proto, with_batch
from qconv.onnx.blocked import in_blocks
from qconv.onnx.fallback import Fallback
from qconv.onnx.known_shapes import computes_shapes, deciding_inputs, with_known_shapes
from qconv.onnx.lowering import Lowered, lower
from qconv.onnx.model import ReadModel, is_cpu_only, is_folder, loaded, read, source_of
from qconv.onnx.options import Feeds
from qconv.onnx.ready import ReadyModel
from qconv.onnx.tensor import Unsupported
from qconv.op import WIDEST
from qconv.tensor_ops.problem import BYTES
from qconv.tuner.workload import NetworkProblems

if TYPE_CHECKING:
    from qconv.tune_db.database import Database


log = logging.getLogger("qconv")
# Frames from a warning to the caller of `run`.
CALLERS = 4


class Session:
    """A drop-in for `onnxruntime.InferenceSession`. The model may also be a folder that `qconv-tune build` or
    `qconv-tune export` has written, which makes a `ShippedSession`.

    `device` is one of qconv's (`"cpu"`, `"cuda:0"`; the first GPU by default). `strict` rejects a model with layers
    that would run elsewhere, and names all of them. `config` are ONNX Runtime's own session settings. `providers` run
    the layers that no kernel computes.

    `bits` says what a layer between DequantizeLinear and QuantizeLinear is. By default, "integers": an integer layer
    wherever a kernel has one, whatever the sign of the activations; floats run on kernels as expressions, in fp32, each
    op rounded to the type of its output and sums in a stated order, with the same bits on every GPU and config.
    "onnxruntime": what ONNX Runtime computes on this processor, bit for bit, which on x86 is floats for many models
    with int8 activations; layers of floats then run there.

    `floats` is the type in which float convolutions and matrix products with constant weights multiply. By default,
    "float32": an expression, whose bits are the same everywhere. With "float16" or "bfloat16" they are convolutions on
    tensor cores, whose tensors have that type and whose sums are fp32; their last bits may depend on the kernel's
    config. Layers named in `keep` stay float32.

    A sum of two tensors, a function of the output or a max pool can be folded into the convolution before it, and two
    or three convolutions can be one kernel. No bit changes. By default, the faster way is chosen by measured times, or
    else by predicted ones. `sums_in_convolutions`, `tables_in_convolutions`, `pools_in_convolutions` and
    `fused_convolutions` force it wherever such a kernel exists (True), or forbid it (False).
    """

    of_folders: ClassVar[type[Session]]  # which the module of that class sets, since it imports this one

    def __new__(cls, model: Any, *_: Any, **__: Any) -> Session:
        return super().__new__(cls.of_folders if cls is Session and is_folder(model) else cls)

    def __init__(
        self,
        model: onnx.ModelProto | bytes | str | Path,
        device: str | None = None,
        strict: bool = False,
        config: Mapping[str, str] | None = None,
        providers: Sequence[str] | None = None,
        sums_in_convolutions: bool | None = None,
        fused_convolutions: bool | None = None,
        tables_in_convolutions: bool | None = None,
        pools_in_convolutions: bool | None = None,
        bits: str | None = None,
        floats: str | None = None,
        keep: Collection[str] | None = None,
    ) -> None:
        options.check_strict(strict)
        self._device = open_device(device.lower() if isinstance(device, str) else device)
        self._choices = options.choices(
            sums_in_convolutions, fused_convolutions, tables_in_convolutions, pools_in_convolutions
        )
        providers = options.providers(providers, self._device.spec)
        self._meaning = options.meaning(bits, floats, keep)
        self._config = options.settings(config, self._meaning.bits)
        self._arranger = Arranger(Expectations(self._device, in_sequence=True), self._choices)
        model_read = read(own_proto(model, self._config, self._meaning), self._config)
        options.check_kept(self._meaning.keep, model_read.network)
        blocks = self._meaning.bits is options.Bits.ONNXRUNTIME and is_cpu_only(providers)
        self._model = in_blocks(model_read, self._config) if blocks else model_read
        self._fallback = Fallback(self._model, self._config, providers)
        self._strict = strict
        self._seen: dict[str, Form] = {}  # per input, its form in the last run
        network = self._model.network
        self._inputs = network.inputs
        self._defaults = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in self._model.proto.graph.initializer
            if tensor.name in network.inputs
        }
        self._deciding = deciding_inputs(network)
        known = {name: network.tensor(name).extents for name in self._inputs}
        # Expressions are of known shapes.
        is_open = None in known.values() and self._meaning.bits is options.Bits.INTEGERS
        self._computes_shapes = computes_shapes(network)
        self._ready: dict[Known, ReadyModel] = {}
        self._last: ReadyModel | None = None
        self._again: Again | None = None  # the last run
        self._making = Lock()
        self._has_advised = False
        if is_open and not self._computes_shapes:
            self._computes_shapes = bool(self._lowered.why_not) or self._lowered.waits_for_shapes
        if not self._computes_shapes:
            self._last = self._of_any_shape
        elif not self._deciding and None not in known.values():
            self._last = self._prepared({name: shape for name, shape in known.items() if shape is not None}, {})

    @property
    def device(self) -> Device:
        return self._device

    @property
    def input_names(self) -> tuple[str, ...]:
        """Return the inputs that must be fed."""
        return tuple(name for name in self._inputs if name not in self._defaults)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self._model.network.outputs

    def __repr__(self) -> str:
        inputs = ", ".join(str(self._model.network.tensor(name)) for name in self.input_names)
        return f"<{type(self).__name__}: {inputs} to {', '.join(self.output_names)} on {self.device.name}>"

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Run like `run` and return all outputs. Arrays are given in the order of `input_names`, or by name."""
        return self.run(None, options.feeds_of(arrays, named, self.input_names))

    def run(self, output_names: Sequence[str] | None, feeds: Feeds, out: Mapping[str, Any] | None = None) -> list[Any]:
        """Run and return the named outputs as NumPy arrays; all of them for None or an empty list. `feeds` are arrays
        by the names of inputs, or a list of them in the order of `input_names`. They may be on the device. Images whose
        channels are last in memory, such as a `transpose` or PyTorch's `channels_last`, are used without a copy, which
        saves a launch. Images that the network quantizes itself are faster as NCHW.

        `out` has arrays on the device for some outputs, by their names: NumPy's on the CPU device, on a GPU those of
        any library with DLPack or `__cuda_array_interface__`. These outputs are written there, in the order of the
        current stream, and the same arrays are returned for them."""
        return self._run(output_names, feeds, out, self._downloaded)

    def _downloaded(self, name: str, value: Value) -> Any:
        """Return NumPy's array of a tensor, whose 8-bit floats CuPy holds as bytes."""
        dtype = self._dtype_of(name)
        return numpy_of(value.on_host, dtype) if dtype in FLOAT8 else value.on_host

    def _dtype_of(self, name: str) -> str | None:
        return self._model.network.tensor(name).dtype

    def run_on_device(
        self, output_names: Sequence[str] | None, feeds: Feeds, out: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Run like `run`, but return arrays on the device."""
        return self._run(output_names, feeds, out, lambda _, value: value.on_device)

    def _run(
        self,
        output_names: Sequence[str] | None,
        feeds: Feeds,
        out: Mapping[str, Any] | None,
        as_array: Callable[[str, Value], Any],
    ) -> list[Any]:
        names = options.outputs(output_names, self.output_names)
        buffers = buffers_of(self._device, out, names)
        values = self._values(names, feeds, buffers)
        return [buffers[name].given if name in buffers else as_array(name, values[name]) for name in names]

    def prepare(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any] | None = None) -> None:
        """Look up and compile all kernels for inputs of these shapes, before the first run with them. `values` are the
        inputs whose values decide shapes, such as the sizes of a Resize."""
        values = {name: np.asarray(array) for name, array in (values or {}).items()}
        options.check_inputs({*shapes, *values}, self.input_names, self._inputs)
        known = {name: np.shape(array) for name, array in self._defaults.items()} | {
            name: options.shape(name, shape, self._model.network.tensor(name)) for name, shape in shapes.items()
        }
        values = {name: self._defaults[name] for name in self._deciding if name in self._defaults} | values
        for name in self._deciding:
            if name not in values:
                raise ValueError(f"the input {name!r} decides shapes: give it in values, not its shape")
        self._last = self._prepared(known | {name: array.shape for name, array in values.items()}, values)

    @property
    def problems(self) -> NetworkProblems:
        """Return the problems of the kernels, for `qconv.tune`: one per layer and shape that was known or has run,
        followed by those whose times decide between one kernel and several."""
        return NetworkProblems((problem for one in self._every for problem in one.runner.problems), self)

    @property
    def _every(self) -> Collection[ReadyModel]:
        """Return the models that were made ready, each once."""
        of_any_shape = () if self._computes_shapes else (self._of_any_shape,)
        return dict.fromkeys((*of_any_shape, *self._ready.values()))

    def contender(self, rows: Database, in_sequence: bool) -> Contender:
        """Return this network, for inputs like those of the last run, with the kernels that a lookup in these rows
        chooses, ready to race. Raise ValueError without a run or known shapes, or where there is nothing to choose."""
        ready = self._described
        forms = {name: self._form(name) for name in ready.network.inputs}
        arranger = Arranger(Expectations(self._device, rows, in_sequence), self._choices)
        return Contender(
            replace(ready.parts, forms=forms),
            arranger,
            lambda problem: found(problem, self._device, rows, in_sequence),
        )

    @cached_property
    def _lowered(self) -> Lowered:
        return self._lower(self._model, self._fallback)

    @cached_property
    def _of_any_shape(self) -> ReadyModel:
        # Layers that read computed shapes may run here once the shapes are known.
        return self._made(self._lowered, self._fallback, self._strict and not self._computes_shapes)

    @property
    def _described(self) -> ReadyModel:
        """Return the model as it ran last; before the first run, as far as it is known without shapes."""
        return self._last or self._of_any_shape

    def _ready_for(self, feeds: Mapping[str, Value]) -> tuple[ReadyModel, dict[str, Value]]:
        """Return the model that serves these inputs, and those of them that it reads."""
        ready = self._last = self._model_for(feeds)  # another thread may run with other shapes meanwhile
        return ready, {name: value for name, value in feeds.items() if name in ready.network.inputs}

    def _model_for(self, feeds: Mapping[str, Value]) -> ReadyModel:
        if not self._computes_shapes and not self._ready:
            return self._of_any_shape
        tensors = {name: value for name, value in feeds.items() if self._model.network.tensor(name).dtype is not None}
        shapes = {name: value.shape for name, value in tensors.items()}
        values = {name: tensors[name].on_host for name in self._deciding}
        if not self._computes_shapes and _known(shapes, values) not in self._ready:
            return self._of_any_shape
        return self._prepared(shapes, values)

    def _prepared(self, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> ReadyModel:
        key = _known(shapes, values)
        with self._making:
            made = self._ready.pop(key, None)
            if made is None:
                made = self._of_shapes(shapes, values)
            self._ready[key] = made  # most recently used; the first entry is dropped next
            if len(self._ready) > MOST_SHAPES:
                del self._ready[next(iter(self._ready))]
            return made

    def _of_shapes(self, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> ReadyModel:
        try:
            model = with_known_shapes(self._model, shapes, values, self._config)
            fallback = self._fallback.for_model(model)
            return self._made(self._lower(model, fallback), fallback, self._strict)
        except Unsupported as error:
            # ONNX Runtime infers wrong shapes for some models, and then rejects them.
            if self._strict:
                raise
            log.info("shapes are computed in each run: %s", error)
            return self._of_any_shape

    def _lower(self, model: ReadModel, fallback: Fallback) -> Lowered:
        return lower(model.network, fallback.function, self._choices, self._meaning)

    def _made(self, lowered: Lowered, fallback: Fallback, strict: bool) -> ReadyModel:
        return ReadyModel(lowered, fallback, self._device, self._arranger, strict)

    def _form(self, name: str) -> Form:
        return self._form_in(self._model.network, name)

    def _form_in(self, network: Network, name: str) -> Form:
        if name in self._seen:
            return self._seen[name]
        tensor = network.tensor(name)
        if tensor.extents is None or tensor.dtype in (None, "object"):
            raise ValueError(f"the shape of its input {name!r} is unknown before the first run")
        return tensor.extents, str(tensor.dtype), False

    @property
    def memory(self) -> Memory:
        """Return the bytes of intermediate tensors and of the arenas that hold them, for all recordings. Runs are
        recorded from the second with the same shapes."""
        return sum((one.runner.memory for one in self._every), Memory())

    def explain(self, profile: Profile | None = None) -> Explanation:
        """Return a report on each layer of the last run: where it runs, why, how many bytes cross, the memory that it
        needs and the time that it is predicted to take; with a profile of this session, the measured time as well.
        Printing shows a table, and `as_dict()` has the same as data."""
        made = self._described.explain()
        return made if profile is None else made.with_times(profile)

    def random_feeds(self, seed: int = 0) -> dict[str, Any]:
        """Return random inputs like those of the last run, or of the shapes that are known: floats of the standard
        normal distribution, bytes of their whole range, and 0 or 1 for others."""
        rng = np.random.default_rng(seed)
        network = self._described.network
        deciding = {name: self._defaults[name] for name in self._deciding if name in self._defaults}
        return {
            name: random_array(rng, *self._form_in(network, name)[:2])
            for name in network.inputs
            if name not in deciding
        }

    def profile(self, feeds: Feeds) -> Profile:
        """Return the time of every served layer and of every subgraph elsewhere, in one run that waits for each."""
        ready, values = self._ready_for(self._checked(feeds))
        return ready.runner.profile(values)

    def _values(self, names: Sequence[str], feeds: Feeds, buffers: Mapping[str, Buffer]) -> Mapping[str, Value]:
        again = self._again  # another thread may run meanwhile
        if again is not None and not buffers and (repeated := again(feeds, names)) is not None:
            return repeated
        values = self._checked(feeds)
        ready, given = self._ready_for(values)
        for name, buffer in buffers.items():
            tensor = ready.network.tensor(name)
            if tensor.extents is not None and tensor.dtype is not None:
                buffer.check(tensor.extents, str(tensor.dtype))  # before anything runs, where they are known
        made = ready.runner.run(given, names, buffers)
        # Defaults and inputs that decide shapes are no part of a recording.
        self._again = None if self._defaults or self._deciding else Again.of(ready.runner, values, names)
        if not self._has_advised:
            self._has_advised = True
            if advice := ready.advice:
                warnings.warn(advice, SlowNetwork, stacklevel=CALLERS)
        return made

    def _checked(self, feeds: Feeds) -> dict[str, Value]:
        feeds = options.checked_feeds(feeds, self.input_names, self._inputs)
        return {name: self._fed(name, array) for name, array in {**self._defaults, **feeds}.items()}

    def _fed(self, name: str, array: Any) -> Value:
        tensor = self._model.network.tensor(name)
        if tensor.dtype is None:  # such as a sequence, which only ONNX Runtime interprets
            return Value(self._device, host=array)
        held, address = fed(self._device, name, array, tensor.dtype)
        if not tensor.may_be(held.shape):
            shown = ", ".join("?" if size is None else str(size) for size in tensor.shape or ())
            raise ValueError(f"the input {name!r} has shape {tuple(held.shape)}; the model takes ({shown})")
        value = Value(self._device, host=held) if address is None else Value(self._device, there=held)
        self._seen[name] = value.form
        # The first layer's kernel may read vectors.
        return value.copied() if (address or 0) % WIDEST else value


# The shapes of all inputs, and the values of those that decide shapes.
Known = tuple[tuple[tuple[str, Shape], ...], tuple[tuple[str, bytes], ...]]


def _known(shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Known:
    return (
        tuple(sorted((name, tuple(shape)) for name, shape in shapes.items())),
        tuple(sorted((name, array.tobytes()) for name, array in values.items())),
    )


def fed(device: Device, name: str, array: Any, dtype: str) -> tuple[Any, int | None]:
    """Return an input of this type as an array of the device with its address there, or of the host with None."""
    check_unmasked(f"the input {name!r}", array)
    elsewhere = not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__")
    held, address = device.adopt(name, array) if elsewhere else (np.asarray(array), None)
    if type_of(held) != dtype and dtype != "object":
        raise ValueError(f"the input {name!r} is {held.dtype}; the model takes {dtype}")
    return held, address


def random_array(rng: np.random.Generator, shape: Shape, dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    least, most = (np.iinfo(kind).min, np.iinfo(kind).max) if dtype in BYTES else (0, 1)
    return rng.integers(least, most, shape, endpoint=True).astype(kind)


def session_of(path: Path, batch: int | None, device: str | None, **computed: Any) -> Session:
    """Return a session of a model for one batch, as read by `qconv-tune tune`. `computed` are its `floats` and `keep`.
    Raise ValueError where no layer runs on kernels, or where the batch is open and none is given."""
    session = Session(path if batch is None else with_batch(loaded(source_of(path)), batch), device, **computed)
    if not session.problems:
        raise ValueError("a session runs none of its layers on a kernel; quantize it, or give its open batch")
    return session
