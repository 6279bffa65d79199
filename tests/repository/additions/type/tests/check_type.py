"""The added type and its instructions: a problem with it is keyed, planned, rendered, compiled and run."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import Conv2d, Quantization, generator, parse
from qconv.device.compile import compile_source
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import CompileError
from qconv.generator.families.mma.plan import MmaPlan
from qconv.instances.load.serving import lookup
from qconv.op import Sample
from qconv.ops.convolution import compute
from qconv.targets.target import TARGETS

E4M3 = ELEMENT_TYPES["float8_e4m3fnuz"]
REAL = Quantization(E4M3.name, E4M3.name, "float32", per_channel=True, bias="float32", activation="relu")


def drawn(problem: Conv2d, seed: int) -> Sample:
    """Draw small integers: their sums do not depend on the order."""
    rng = np.random.default_rng(seed)
    arrays = tuple(rng.integers(-8, 9, t.shape).astype(E4M3.numpy) for t in problem.inputs)
    scales = {"x_scale": 0.5, "w_scale": 2.0 ** rng.integers(-3, 3, problem.k)}
    return Sample(arrays, scales | {"bias": rng.integers(-9, 9, problem.k).astype(np.float32)})


@pytest.mark.parametrize(
    "problem",
    [
        Conv2d(2, 7, 9, 32, 24, 3, 3, pad=1, quantization=REAL),
        Conv2d(1, 8, 8, 3, 16, 3, 3, stride=2, pad=1, quantization=REAL),
        Conv2d(1, 6, 6, 20, 8, 3, 3, pad=1, layout="nchw", quantization=REAL),
        Conv2d(1, 6, 6, 8, 8, 1, 1, quantization=Quantization(E4M3.name, E4M3.name, "int8")),
    ],
    ids=str,
)
def test_simt_computes_it(problem: Conv2d) -> None:
    assert parse(str(problem)) == problem
    instance, sample = lookup(problem, "cpu"), drawn(problem, 1)
    if problem.quantization.requantizes:
        sample = Sample(sample.arrays, {"x_scale": 0.5, "w_scale": 0.25, "y_scale": 2.0})
    assert instance.choice.plan.config.family == "simt"
    (want,) = compute(problem, sample)
    np.testing.assert_array_equal(instance(*sample.arrays, **sample.parameters), want)
    assert np.unique(want.astype(np.float32)).size > 16


def test_matrix_instructions_multiply_it() -> None:
    problem, target = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, quantization=REAL), TARGETS["gfx942"]
    plan = generator.default(problem, target)
    assert isinstance(plan, MmaPlan)
    source = generator.render(plan)
    assert "__builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8" in source.text
    assert "using Sum = float;" in source.text
    try:
        compile_source(source, target, ("conv2d_mma",))
    except CompileError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x_zero_point": True}, "x_zero_point=True with x_type='float8_e4m3fnuz': only integers have a zero point"),
        ({"bias": "int32"}, "bias='int32' .* x_type='float8_e4m3fnuz', whose products add up in float32"),
        (
            {"out_type": "int32", "bias": "none", "activation": "none", "per_channel": False},
            "out_type='int32' with x_type='float8_e4m3fnuz', whose products add up in float32",
        ),
        ({"w_type": "int8"}, "their products add up in float32 and int32"),
    ],
)
def test_what_it_has_not_is_refused(given: dict[str, object], says: str) -> None:
    fields = {name: getattr(REAL, name) for name in REAL.__dataclass_fields__} | given
    with pytest.raises(ValueError, match=says):
        Quantization(**fields)


def test_a_family_of_bytes_refuses_it() -> None:
    problem = Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1, groups=64, quantization=REAL)
    plans, _ = generator.space(problem, TARGETS["sm_80"])
    assert {plan.config.family for plan in plans} == {"depthwise", "simt"}
