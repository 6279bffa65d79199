"""Weights are packed once, and again whenever one of the tensors from which they are packed was written."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from overlaps import asked_to_overlap  # noqa: E402
from torch_calls import nhwc  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.torch import convolution, packing  # noqa: E402

NAMED = {"padding": 1, "x_scale": 0.02, "y_scale": 0.1, "x_zero_point": 3, "y_zero_point": 7}


class Layer:
    """Weights with all other packed tensors, and the result of a call; also by NumPy."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.x = self.tensor(rng.integers(-128, 128, (1, 8, 5, 5), np.int8))
        self.w = self.tensor(rng.integers(-128, 128, (16, 8, 3, 3), np.int8))
        self.w_scale = self.tensor(rng.uniform(0.001, 0.009, 16).astype(np.float32))
        self.bias = self.tensor(rng.integers(-3000, 3000, 16, np.int32))

    @staticmethod
    def tensor(array: Any) -> Any:
        return torch.from_numpy(array).clone()

    def __call__(self) -> Any:
        return nhwc(torch.ops.qconv.conv2d(self.x, self.w, self.w_scale, self.bias, **NAMED))

    def wanted(self) -> Any:
        x, w = (tensor.permute(0, 2, 3, 1).contiguous().numpy() for tensor in (self.x, self.w))
        named = {name: value for name, value in NAMED.items() if name != "padding"}
        return qconv.conv2d(x, w, pad=1, w_scale=self.w_scale.numpy(), bias=self.bias.numpy(), **named)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record one entry per packing."""
    packing.forget()
    made: list[int] = []
    pack = convolution.packed_on

    def counted(*given: Any) -> Any:
        made.append(1)
        return pack(*given)

    monkeypatch.setattr(convolution, "packed_on", counted)
    yield made
    packing.forget()


def test_once_for_any_number_of_calls(packed: list[int]) -> None:
    layer = Layer()
    for _ in range(3):
        assert np.array_equal(layer(), layer.wanted())
        layer.x = layer.x.roll(1)
    assert len(packed) == 1


def test_once_for_every_shape_of_the_input(packed: list[int]) -> None:
    layer = Layer()
    small, large = layer.x, layer.x.repeat(2, 1, 1, 1)
    for x in (small, large, small, large):
        layer.x = x
        assert np.array_equal(layer(), layer.wanted())
    assert len(packed) == 2


@pytest.mark.parametrize(
    "write",
    [
        lambda layer: layer.w.add_(1),
        lambda layer: layer.w[3].zero_(),
        lambda layer: layer.w.view(-1)[:7].fill_(5),
        lambda layer: layer.w_scale.mul_(2),
        lambda layer: layer.bias.neg_(),
        lambda layer: layer.w.copy_(Layer(1).w),
        lambda layer: setattr(layer, "w", Layer(1).w),
        lambda layer: setattr(layer.w, "data", Layer(1).w),
    ],
    ids=["add_", "a filter", "a view", "scales", "bias", "load", "another tensor", "data"],
)
def test_what_is_written_is_packed_again(packed: list[int], write: Callable[[Layer], Any]) -> None:
    layer = Layer()
    before = layer()
    write(layer)
    after = layer()
    assert not np.array_equal(before, after)
    assert np.array_equal(after, layer.wanted())
    layer()
    assert len(packed) == 2


def test_a_module_that_loads_a_state_is_packed_again(packed: list[int]) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.register_buffer("w", layer.w)

        def forward(self, x: Any) -> Any:
            return torch.ops.qconv.conv2d(x, self.w, 0.005, **NAMED)

    module, other = Module(Layer()), Module(Layer(1))
    x = Layer().x
    first, second = module(x), other(x)
    module.load_state_dict(other.state_dict())
    assert torch.equal(module(x), second)
    assert not torch.equal(first, second)


def test_weights_that_are_gone_are_let_go(packed: list[int]) -> None:
    for seed in range(4):
        Layer(seed)()
    gc.collect()
    kept = Layer(9)
    kept()
    assert len(packed) == 5
    assert len(packing._kept) == 1


def test_of_numbers_the_last_few_are_kept(packed: list[int]) -> None:
    """A scale that is measured for every input packs at every call, which must not fill the memory."""
    layer, named = Layer(), {**NAMED, "y_scale": 0.2}
    scales = [0.02 + 0.001 * i for i in range(2 * packing.REMEMBERED)]
    for scale in scales:
        torch.ops.qconv.conv2d(layer.x, layer.w, layer.w_scale, **{**named, "x_scale": scale})
    assert len(packing._kept) == packing.REMEMBERED
    for scale in reversed(scales[-packing.REMEMBERED :]):
        torch.ops.qconv.conv2d(layer.x, layer.w, layer.w_scale, **{**named, "x_scale": scale})
    assert len(packed) == len(scales)


def test_what_a_captured_graph_reads_is_kept(packed: list[int]) -> None:
    tensor = torch.zeros(1)

    def pack(number: int) -> packing.Packing:
        return packing.packing_of((number, "shapes"), [tensor], tensor.device, lambda: number)

    pack(-1).captured.append("read by a graph")
    for number in range(2 * packing.REMEMBERED):
        pack(number)
    assert [kept.packed for kept in packing._kept.values()][:2] == [-1, packing.REMEMBERED]


def test_threads_pack_at_the_same_time(packed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread packs while another removes expired entries."""
    tensor = torch.zeros(1)

    def pack(key: str) -> None:
        packing.packing_of((key, "shapes"), [tensor], tensor.device, lambda: key)

    pack("kept")
    other = threading.Thread(target=pack, args=("other",))

    def looked_at(_: packing.Packing) -> bool:
        if other.ident is None:
            other.start()
            other.join(0.2)
        return False

    monkeypatch.setattr(packing.Packing, "is_gone", property(looked_at))
    pack("new")
    other.join()
    assert {key for key, _ in packing._kept} == {"kept", "new", "other"}


def test_memory_that_is_used_again_is_other_weights(packed: list[int]) -> None:
    """Freed memory is reused at the same address, with other weights in it."""
    for seed in range(6):
        layer = Layer(seed)
        assert np.array_equal(layer(), layer.wanted())
        del layer
    assert len(packed) == 6


def test_two_views_of_one_memory_are_two_weights(packed: list[int]) -> None:
    layer, both = Layer(), torch.cat([Layer().w, Layer(1).w])
    for w in (both[:16], both[16:], both[:16], both[16:]):
        layer.w = w
        assert np.array_equal(layer(), layer.wanted())
    assert len(packed) == 2


def test_inference_tensors_are_packed_at_every_call(packed: list[int]) -> None:
    """They have no version, so writes cannot be detected."""
    with torch.inference_mode():
        layer = Layer()
        layer()
        layer.w.add_(1)
        assert np.array_equal(layer(), layer.wanted())
    assert len(packed) == 2


def test_what_was_made_before_inference_mode_is_packed_once(packed: list[int]) -> None:
    layer = Layer()
    with torch.inference_mode():
        layer()
        layer()
    assert len(packed) == 1


def test_a_copy_is_packed(packed: list[int]) -> None:
    """Writing past autograd has no effect at all, not even a partial one; `forget` makes it visible."""
    layer = Layer()
    layer.w = layer.w.to(memory_format=torch.channels_last)
    before = layer()
    layer.w.detach().numpy()[...] = 1
    assert np.array_equal(layer(), before)
    packing.forget()
    assert np.array_equal(layer(), layer.wanted())


def test_a_graph_that_is_captured_cannot_pack(packed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "is_capturing", lambda place: True)
    with pytest.raises(RuntimeError, match="call once with inputs of this shape before the capture"):
        Layer()()
    assert packed == []


@pytest.mark.parametrize("gains", [False, True])
def test_a_launch_overlaps_where_that_gains(gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_to_overlap(gains, monkeypatch)
    Layer()()
    assert asked == [gains]


@pytest.mark.slow
@pytest.mark.skipif(which("g++") is None, reason="AOTInductor compiles with a C++ compiler, and there is no g++")
def test_few_scales_are_kept_in_a_package(packed: list[int], tmp_path: Path) -> None:
    """By the option that docs/tasks/pytorch.md names: without it Inductor recreates constants of 8 numbers."""

    class Few(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            for name, tensor in {"w": layer.w[:8].clone(), "scales": layer.w_scale[:8].clone()}.items():
                self.register_buffer(name, tensor)

        def forward(self, x: Any) -> Any:
            return torch.ops.qconv.conv2d(x, self.w, self.scales, **NAMED)

    layer = Layer()
    network = Few(layer)
    path = torch._inductor.aoti_compile_and_package(
        torch.export.export(network, (layer.x,)),
        package_path=str(tmp_path / "few.pt2"),
        inductor_configs={"always_keep_tensor_constants": True},
    )
    loaded = torch._inductor.aoti_load_package(path)
    packed.clear()
    for _ in range(3):
        assert torch.equal(loaded(layer.x), network(layer.x))
    assert len(packed) == 2  # those of the package, and the module's own
