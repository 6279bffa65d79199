"""Kernels of every family on a GPU: in CUDA graphs, in chains with and without overlap, on two streams, in clusters.

Every family in FAMILIES that serves the problem is tested automatically: its cheapest config, a random one, and the
cheapest with scratch, with a cluster and with overlap, if it has them.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import pytest
from altered_plan import altered
from exactness import POISON, assert_same, expected

from qconv import Conv2d, Quantization, generator
from qconv.device import Device
from qconv.device.compile import compile_source
from qconv.generator import Plan, Source
from qconv.instances.load.executable import Executable
from qconv.instances.load.pair import Runnable, load
from qconv.ops import registry
from qconv.targets.target import Target

pytestmark = pytest.mark.gpu

# The output has the input's form, for chains; and the weights are folded.
QUANTIZATION = Quantization(per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32")
PROBLEM = Conv2d(2, 9, 9, 64, 64, 3, 3, pad=(1, 1, 1, 1), quantization=QUANTIZATION)
LAYERS = [registry.draw(PROBLEM, seed) for seed in range(6)]
X = [registry.draw(PROBLEM, seed).arrays[0] for seed in (100, 101)]
WAITING = "simt, made to wait"
KERNELS = [*generator.families(PROBLEM), WAITING]


@lru_cache(maxsize=4)
def feasible(target: Target) -> list[Plan]:
    return generator.space(PROBLEM, target)[0]


def chosen(family: str, target: Target) -> list[Plan]:
    plans = [plan for plan in feasible(target) if plan.config.family == family]
    picks = [
        plans[:1],
        random.Random(f"graph {family}").sample(plans, min(1, len(plans))),
        [plan for plan in plans if plan.scratch][:1],
        [plan for plan in plans if plan.main.cluster > 1][:1],
        [plan for plan in plans if getattr(plan.config, "stream_k", 0)][:1],
        [plan for plan in plans if plan.overlaps][:1],
    ]
    return list({str(plan.config): plan for pick in picks for plan in pick}.values())


def instances(kernel: str, gpu: Device, overlap: bool = False) -> list[Runnable]:
    if kernel == WAITING:
        return [waiting(gpu)]
    plans = [plan for plan in chosen(kernel, gpu.target) if plan.overlaps or not overlap]
    if not plans:
        pytest.skip(f"no {kernel} kernel {'overlaps' if overlap else 'serves the problem'} on {gpu.target.name}")
    return [load(plan, gpu) for plan in plans]


def require_hopper(gpu: Device) -> None:
    if gpu.target.vendor != "nvidia" or int(re.sub(r"\D", "", gpu.target.name)) < 90:
        pytest.skip(f"clusters and programmatic launches begin with sm_90a; this is {gpu.target.name}")


WAIT = """    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
"""


@lru_cache(maxsize=1)
def waiting(gpu: Device) -> Executable:
    """Return the simplest kernel that obeys the rules of overlap: it launches its dependents, and waits."""
    require_hopper(gpu)
    plan = altered(chosen("simt", gpu.target)[0], overlaps=True)
    begin = "    Shared& shared = tile::shared_memory<Shared>();\n"
    text = generator.render(plan).text
    assert text.count(begin) == 1, "the text to replace has changed: wait elsewhere"
    text = text.replace(begin, WAIT + begin)
    source = Source(text, hashlib.sha256(text.encode()).hexdigest()[:32], ".cu")
    binary = compile_source(source, plan.target, tuple(launch.kernel for launch in plan.launches))
    return Executable(plan, binary, gpu.load(plan, binary), gpu)


def want(index: int, x: Any) -> Any:
    """Return the output of layer `index` for x."""
    return expected(PROBLEM, replace(LAYERS[index], arrays=(x, LAYERS[index].arrays[1])))


def captured(stream: Any, launches: list[Callable[[Any], None]]) -> Any:
    with stream:
        stream.begin_capture()
        for launch in launches:
            launch(None)
        return stream.end_capture()


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_captured_launch_reads_what_lies_there_when_it_is_replayed(kernel: str, gpu: Device, cupy: Any) -> None:
    for instance in instances(kernel, gpu):
        x = gpu.empty(PROBLEM.x_shape, "int8")
        bound = instance.bind(x, gpu.upload(LAYERS[0].arrays[1]), **LAYERS[0].parameters)
        stream = cupy.cuda.Stream(non_blocking=True)
        graph = captured(stream, [bound.launch])
        for content in X:
            x.set(content)
            gpu.fill(bound.y, POISON)
            gpu.synchronize()
            graph.launch(stream)
            stream.synchronize()
            assert_same(gpu.download(bound.y), want(0, content), str(instance.plan.config))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_launch_captured_by_torch(kernel: str, gpu: Device) -> None:
    torch = pytest.importorskip("torch")
    for instance in instances(kernel, gpu):
        x = torch.empty(PROBLEM.x_shape, dtype=torch.int8, device="cuda")
        y = torch.empty(PROBLEM.y_shape, dtype=torch.int8, device="cuda")
        w = torch.from_numpy(LAYERS[0].arrays[1]).cuda()
        bound = instance.bind(x, w, out=y, overlap=instance.plan.overlaps, **LAYERS[0].parameters)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            bound.launch(torch.cuda.current_stream())
        for content in X:
            x.copy_(torch.from_numpy(content))
            y.fill_(77)
            torch.cuda.synchronize()
            graph.replay()
            torch.cuda.synchronize()
            assert_same(y.cpu().numpy(), want(0, content), str(instance.plan.config))


@pytest.mark.parametrize("way", ["graph", "stream"])
@pytest.mark.parametrize("buffers", [2, len(LAYERS) + 1])
@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlapping"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_reads_what_the_one_before_it_wrote(
    kernel: str, overlap: bool, buffers: int, way: str, gpu: Device, cupy: Any
) -> None:
    """With two buffers each layer also overwrites the input of the previous one; otherwise every result is checked."""
    for instance in instances(kernel, gpu, overlap):
        arrays = [gpu.empty(PROBLEM.x_shape, "int8") for _ in range(buffers)]
        bounds = [
            instance.bind(
                arrays[index % buffers],
                gpu.upload(layer.arrays[1]),
                out=arrays[(index + 1) % buffers],
                overlap=overlap,
                **layer.parameters,
            )
            for index, layer in enumerate(LAYERS)
        ]
        stream = cupy.cuda.Stream(non_blocking=True)
        graph = captured(stream, [bound.launch for bound in bounds]) if way == "graph" else None
        for content in X:
            for array in arrays:
                gpu.fill(array, POISON)
            arrays[0].set(content)
            gpu.synchronize()
            if graph is not None:
                graph.launch(stream)
            else:
                for bound in bounds:
                    bound(stream)
            stream.synchronize()
            left, value = {}, content
            for index in range(len(LAYERS)):
                value = left[(index + 1) % buffers] = want(index, value)
            for index, wanted in left.items():
                about = f"{instance.plan.config}, buffer {index} of {buffers}"
                assert_same(gpu.download(arrays[index]), wanted, about)


@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlapping"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_launches_of_one_bound_follow_each_other(kernel: str, overlap: bool, gpu: Device, cupy: Any) -> None:
    """Each launch begins with the scratch that the previous one left."""
    for instance in instances(kernel, gpu, overlap):
        x = gpu.upload(X[0])
        bound = instance.bind(x, gpu.upload(LAYERS[0].arrays[1]), overlap=overlap, **LAYERS[0].parameters)
        stream = cupy.cuda.Stream(non_blocking=True)
        for _ in range(100):
            bound(stream)
        stream.synchronize()
        gpu.fill(bound.y, POISON)
        gpu.synchronize()
        bound(stream)
        stream.synchronize()
        assert_same(gpu.download(bound.y), want(0, X[0]), str(instance.plan.config))


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_of_one_packed_run_at_the_same_time(kernel: str, gpu: Device, cupy: Any) -> None:
    for instance in instances(kernel, gpu):
        packed = instance.pack(gpu.upload(LAYERS[0].arrays[1]), **LAYERS[0].parameters)
        bounds = [packed.bind(gpu.upload(content)) for content in X]
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in X]
        graphs = [captured(stream, [bound.launch] * 50) for stream, bound in zip(streams, bounds, strict=True)]
        for _ in range(4):
            for bound in bounds:
                gpu.fill(bound.y, POISON)
            gpu.synchronize()
            for graph, stream in zip(graphs, streams, strict=True):
                graph.launch(stream)
            gpu.synchronize()
            for bound, content in zip(bounds, X, strict=True):
                assert_same(gpu.download(bound.y), want(0, content), str(instance.plan.config))


@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlapping"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_calls_that_are_not_bound_on_a_stream_given_by_its_address(
    kernel: str, overlap: bool, gpu: Device, cupy: Any
) -> None:
    """Nothing waits between them, so the scratch of one is the memory of the next."""
    for instance in instances(kernel, gpu, overlap):
        stream = cupy.cuda.Stream(non_blocking=True)
        packed = instance.pack(gpu.upload(LAYERS[0].arrays[1]), stream=stream.ptr, **LAYERS[0].parameters)
        inputs = [gpu.upload(content) for content in X]
        gpu.synchronize()
        outs = [packed(inputs[turn % 2], stream=stream.ptr, overlap=overlap) for turn in range(20)]
        w = gpu.upload(LAYERS[0].arrays[1])
        gpu.synchronize()
        for turn in range(4):
            outs.append(instance(inputs[turn % 2], w, stream=stream.ptr, overlap=overlap, **LAYERS[0].parameters))
        stream.synchronize()
        for turn, out in enumerate(outs):
            assert_same(gpu.download(out), want(0, X[turn % 2]), f"{instance.plan.config}, turn {turn}")


@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlapping"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_launch_is_the_first_call_of_a_thread(kernel: str, overlap: bool, gpu: Device, cupy: Any) -> None:
    """The thread has no context yet, neither for the driver's encoding of tensor maps nor for its launches."""
    for instance in instances(kernel, gpu, overlap):
        stream = cupy.cuda.Stream(non_blocking=True)
        packed = instance.pack(gpu.upload(LAYERS[0].arrays[1]), **LAYERS[0].parameters)
        x, out = gpu.upload(X[0]), gpu.empty(PROBLEM.y_shape, "int8")
        bound = packed.bind(x, out=out, overlap=overlap)
        call = partial(packed, x, out=out, stream=stream.ptr, overlap=overlap)
        for launch in (call, partial(bound, stream.ptr)):
            gpu.fill(out, POISON)
            gpu.synchronize()
            with ThreadPoolExecutor(1) as thread:
                thread.submit(launch).result()
            stream.synchronize()
            assert_same(gpu.download(out), want(0, X[0]), str(instance.plan.config))


@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "overlapping"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_written_on_the_stream_are_there_behind_refold(
    kernel: str, overlap: bool, gpu: Device, cupy: Any
) -> None:
    """All layers use the first layer's parameters; only their weights are written, by a CuPy kernel."""
    for instance in instances(kernel, gpu, overlap):
        x, weights = gpu.upload(X[0]), [gpu.upload(layer.arrays[1]) for layer in LAYERS]
        w = gpu.empty(PROBLEM.w_shape, "int8")
        packed = instance.pack(w, **LAYERS[0].parameters)
        bound = packed.bind(x, overlap=overlap)
        stream = cupy.cuda.Stream(non_blocking=True)
        outs = []
        with stream:
            for content in weights:
                cupy.add(content, 0, out=w)
                packed.refold()
                bound()
                outs.append(bound.y.copy())
        stream.synchronize()
        for out, layer in zip(outs, LAYERS, strict=True):
            wanted = expected(PROBLEM, replace(LAYERS[0], arrays=(X[0], layer.arrays[1])))
            assert_same(gpu.download(out), wanted, str(instance.plan.config))
