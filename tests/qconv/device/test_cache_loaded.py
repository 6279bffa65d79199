"""Objects that hold a loaded kernel refuse to be pickled; problems can be."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import qconv
from qconv import Conv2d, FusedConv2d


def test_instances_and_what_they_bound_stay_in_their_process() -> None:
    layer = Conv2d(1, 6, 6, 8, 8, 1, 1)
    w = np.ones((8, 1, 1, 8), np.int8)
    for problem, weights in ((layer, (w,)), (FusedConv2d(layer, layer), (w, w))):
        instance = qconv.lookup(problem, device="cpu")
        packed = instance.pack(*weights)
        for one in (instance, packed, packed.bind(np.zeros((1, 6, 6, 8), np.int8))):
            for leave in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot leave its process: pickle the problem"):
                    leave(one)  # type: ignore[operator]
        assert pickle.loads(pickle.dumps(instance.problem)) == problem
