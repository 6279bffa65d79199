"""An instance on the CPU device: the arguments that it accepts, refuses and caches."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from exactness import expected
from foreign import Foreign
from numpy.typing import NDArray

from qconv import Conv2d, Quantization, generator
from qconv.device import open_device
from qconv.instances.choose import Choice
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import Runnable, load
from qconv.ops import registry

Array = NDArray[Any]

FULL = Conv2d(
    2, 6, 5, 16, 12, 3, 3, pad=1,
    quantization=Quantization("uint8", "int8", "uint8", True, True, True, True, "int32"),
)  # fmt: skip
PLAIN = Conv2d(1, 6, 5, 16, 12, 3, 3, pad=1)


def instance_of(problem: Conv2d) -> Runnable:
    device = open_device("cpu")
    return load(generator.default(problem, device.target), device)


@dataclass
class Case:
    instance: Runnable
    x: Array
    w: Array
    parameters: dict[str, Any]

    def expected(self) -> Array:
        drawn = registry.Sample((self.x, self.w), self.parameters)
        return expected(self.instance.problem, drawn)


def case_of(problem: Conv2d, seed: int = 0) -> Case:
    drawn = registry.draw(problem, seed)
    return Case(instance_of(problem), *drawn.arrays, dict(drawn.parameters))


@pytest.fixture
def full() -> Case:
    return case_of(FULL)


@pytest.fixture
def plain() -> Case:
    return case_of(PLAIN)


class OldDlpack(Foreign):
    """An array of a library from before the protocol had arguments."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


class TestCall:
    def test_returns_a_new_array_of_the_output_s_shape_and_type(self, full: Case) -> None:
        y = full.instance(full.x, full.w, **full.parameters)
        assert (y.shape, str(y.dtype)) == (FULL.y_shape, "uint8")
        assert np.array_equal(y, full.expected())
        assert full.instance(full.x, full.w, **full.parameters) is not y

    def test_writes_into_out_and_nowhere_else(self, full: Case) -> None:
        around = np.full((4, *FULL.y_shape[1:]), 0xA5, "uint8")
        assert full.instance(full.x, full.w, out=around[1:3], **full.parameters).base is around
        assert np.array_equal(around[1:3], full.expected())
        assert (around[0] == 0xA5).all()
        assert (around[3] == 0xA5).all()

    def test_defaults_are_scales_of_one(self) -> None:
        case = case_of(PLAIN)
        case.parameters = {}
        assert np.array_equal(case.instance(case.x, case.w), case.expected())

    @pytest.mark.parametrize("wrapper", [Foreign, OldDlpack])
    def test_takes_dlpack_objects(self, full: Case, wrapper: type[Foreign]) -> None:
        y = full.instance(wrapper(full.x), wrapper(full.w), **full.parameters)
        assert np.array_equal(y, full.expected())

    def test_writes_into_a_dlpack_object(self, full: Case) -> None:
        memory = np.zeros(FULL.y_shape, "uint8")
        out = Foreign(memory)
        assert full.instance(full.x, full.w, out=out, **full.parameters) is out
        assert np.array_equal(memory, full.expected())

    def test_takes_inputs_that_are_read_only(self, full: Case) -> None:
        full.x.flags.writeable = full.w.flags.writeable = False
        assert np.array_equal(full.instance(full.x, full.w, **full.parameters), full.expected())

    def test_leaves_its_inputs_alone(self, full: Case) -> None:
        before = full.x.copy(), full.w.copy()
        full.instance(full.x, full.w, **full.parameters)
        assert np.array_equal(full.x, before[0])
        assert np.array_equal(full.w, before[1])

    def test_scalars_stand_for_every_channel(self, full: Case) -> None:
        full.parameters |= {"w_scale": 0.004, "w_zero_point": -7}
        assert np.array_equal(full.instance(full.x, full.w, **full.parameters), full.expected())


class TestBound:
    def test_every_launch_writes_the_same_array(self, full: Case) -> None:
        bound = full.instance.bind(full.x, full.w, **full.parameters)
        first = bound()
        assert first is bound.y
        bound.y[...] = 0xA5
        assert bound() is first
        assert np.array_equal(first, full.expected())

    def test_it_reads_the_same_memory_again(self, plain: Case) -> None:
        out = np.empty(PLAIN.y_shape, "int8")
        bound = plain.instance.bind(plain.x, plain.w, out=out, **plain.parameters)
        assert bound.y is out
        bound()
        other = case_of(PLAIN, seed=1)
        plain.x[...] = other.x
        plain.w[...] = other.w
        bound()
        assert np.array_equal(out, plain.expected())

    def test_new_weights_need_refold_where_the_input_has_a_zero_point(self, full: Case) -> None:
        bound = full.instance.bind(full.x, full.w, **full.parameters)
        full.w[...] = case_of(FULL, seed=1).w
        assert not np.array_equal(bound(), full.expected())
        bound.refold()
        assert np.array_equal(bound(), full.expected())

    def test_refold_is_nothing_where_there_is_nothing_to_fold(self, plain: Case) -> None:
        bound = plain.instance.bind(plain.x, plain.w, **plain.parameters)
        bound.refold()
        assert np.array_equal(bound(), plain.expected())

    @pytest.mark.parametrize("bias", ["int32", "float32"])
    @pytest.mark.parametrize("shifted", [False, True])
    def test_the_parameters_are_as_they_were(self, bias: str, shifted: bool) -> None:
        q = Quantization(bias=bias, per_channel=True, w_zero_point=True, x_zero_point=shifted)
        case = case_of(Conv2d(1, 4, 4, 8, 8, 1, 1, quantization=q))
        bound = case.instance.bind(case.x, case.w, **case.parameters)
        before = bound().copy()
        for array in case.parameters.values():
            if isinstance(array, np.ndarray):
                array[...] = 1
        bound.refold()
        assert np.array_equal(bound(), before)

    def test_it_keeps_alive_what_the_kernel_reads(self) -> None:
        case = case_of(FULL)
        want = case.expected()
        bound = case.instance.bind(case.x, case.w, **case.parameters)
        del case
        gc.collect()
        junk = [np.full(100_000, 0xA5, "uint8") for _ in range(20)]
        assert np.array_equal(bound(), want)
        del junk

    def test_two_of_one_instance_do_not_disturb_each_other(self) -> None:
        cases = [case_of(FULL, seed) for seed in (1, 2)]
        bounds = [cases[0].instance.bind(case.x, case.w, **case.parameters) for case in cases]
        for bound, case in [*zip(bounds, cases, strict=True)] * 2:
            assert np.array_equal(bound(), case.expected())

    def test_the_cpu_device_has_no_streams(self, plain: Case) -> None:
        with pytest.raises(ValueError, match=r"stream=7 was given, but the CPU device has no streams"):
            plain.instance(plain.x, plain.w, stream=7, **plain.parameters)


def unaligned(array: Array) -> Array:
    memory = np.empty(array.nbytes + 1, "uint8")
    shifted = memory[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


NEW = np.zeros(FULL.y_shape, "uint8")
# Replacements of x, w, out or a parameter, and the refusal's text.
REFUSED: dict[str, tuple[str, Any, list[str]]] = {
    "x of another shape": ("x", lambda x: x[:, :-1], ["x has shape (2, 5, 5, 16)", "takes (2, 6, 5, 16)"]),
    "x of other dimensions": ("x", lambda x: x.reshape(-1), ["x has shape (960,)", "takes (2, 6, 5, 16)"]),
    "x in NCHW": ("x", lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2)), ["x has shape (2, 16, 6, 5)"]),
    "x of another type": ("x", lambda x: x.view("int8"), ["x has type int8", "takes uint8"]),
    "x as floats": ("x", lambda x: x.astype("float32"), ["x has type float32", "takes uint8"]),
    "x in Fortran's order": ("x", np.asfortranarray, ["x is not contiguous", "copy it with ascontiguousarray"]),
    "x with gaps": ("x", lambda x: np.repeat(x, 2, 3)[..., ::2], ["x is not contiguous"]),
    "x backwards": ("x", lambda x: x[:, ::-1], ["x is not contiguous"]),
    "x at an odd address": ("x", unaligned, ["x lies at address 0x", "needs 16-byte alignment", "copy it"]),
    "x as a list": ("x", lambda x: x.tolist(), ["x (list) is not an array"]),
    "no x": ("x", lambda x: None, ["x (NoneType) is not an array"]),
    "w of another shape": ("w", lambda w: w[:8], ["w has shape (8, 3, 3, 16)", "takes (12, 3, 3, 16)"]),
    "w of another type": ("w", lambda w: w.view("uint8"), ["w has type uint8", "takes int8"]),
    "w with gaps": ("w", lambda w: np.concatenate([w, w])[::2], ["w is not contiguous"]),
    "w at an odd address": ("w", unaligned, ["w lies at address 0x", "alignment"]),
    "out of another shape": ("out", lambda _: NEW[:1], ["out has shape (1, 6, 5, 12)", "takes (2, 6, 5, 12)"]),
    "out of another type": ("out", lambda _: NEW.view("int8"), ["out has type int8", "takes uint8"]),
    "out in Fortran's order": ("out", lambda _: np.asfortranarray(NEW), ["out is not contiguous"]),
    "out at an odd address": ("out", lambda _: unaligned(NEW), ["out lies at address 0x", "alignment"]),
    "out that is read-only": ("out", lambda _: read_only(NEW), ["out is read-only"]),
    "out through an old protocol": ("out", lambda _: OldDlpack(NEW), ["out is read-only"]),
    "no bias": ("bias", lambda _: None, ["bias was not given", "bias='int32'"]),
    "a bias too short": ("bias", lambda bias: bias[1:], ["bias has shape (11,)", "(12,)"]),
    "a bias of floats": ("bias", lambda bias: bias + 0.5, ["bias must hold int32 integers, not float64"]),
    "too few scales": ("w_scale", lambda scale: scale[1:], ["w_scale has shape (11,)", "12 values"]),
    "a zero point out of range": ("x_zero_point", lambda _: 256, ["x_zero_point=256", "0 to 255"]),
    "a zero point of a half": ("y_zero_point", lambda _: 0.5, ["y_zero_point=0.5", "integers"]),
    "an unknown parameter": ("z_scale", lambda _: 1.0, ["z_scale", "the parameters are x_scale, w_scale, y_scale"]),
}


@pytest.mark.parametrize(("name", "change", "says"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_argument_is_refused(full: Case, name: str, change: Any, says: list[str]) -> None:
    arguments: dict[str, Any] = {"x": full.x, "w": full.w, **full.parameters}
    arguments[name] = change(arguments.get(name))
    for use in (full.instance, full.instance.bind):
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it says is checked below
            use(**arguments)
        for part in says:
            assert part in str(refused.value)


@pytest.mark.parametrize("name", ["x_zero_point", "w_zero_point", "y_zero_point"])
def test_a_zero_point_that_the_kernel_does_not_have_is_refused(plain: Case, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}=3 was given, but the problem was made without {name}"):
        plain.instance(plain.x, plain.w, **plain.parameters | {name: 3})


def test_an_array_that_is_given_twice_is_refused(plain: Case) -> None:
    with pytest.raises(ValueError, match="w was given twice, in order and by name: leave one out"):
        plain.instance(plain.x, plain.w, w=plain.w, **plain.parameters)


def test_it_is_shown_without_its_code(plain: Case) -> None:
    executable = plain.instance
    made = Instance(Choice(executable.plan, "default", "default: untuned"), executable)
    kernel, device = f"{executable.plan.config} for {executable.problem}", executable.device.name
    assert repr(made) == f"<Instance: default, {kernel} on {device}>"
    assert repr(made.choice) == f"<Choice: default, {kernel} on cpu>"
    assert repr(executable) == f"<Executable: {kernel} on {device}>"
    assert repr(executable.plan) == f"<SimtPlan: {kernel} on cpu>"
    packed = executable.pack(plain.w, **plain.parameters)
    assert repr(packed) == f"<Packed: weights of {executable.problem} on {device}>"
    assert repr(packed.bind(plain.x)) == f"<Bound: x, y of {executable.problem} on {device}>"


def test_it_says_its_family_and_what_decided(plain: Case) -> None:
    made = Instance(Choice(plain.instance.plan, "exact", "exact: measured here"), plain.instance)
    assert made.why == "simt, exact: measured here"


def test_an_array_on_a_gpu_is_refused_on_the_cpu_device(plain: Case) -> None:
    class OnGpu:
        __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012

    with pytest.raises(ValueError, match=r"x lies on a GPU, but the kernel runs on the CPU device"):
        plain.instance(OnGpu(), plain.w, **plain.parameters)
