"""Runs of a kernel on the CPU device under a sanitizer, which finds accesses out of bounds, missing barriers and
barriers that some threads do not reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qconv import generator
from qconv.arithmetic.step import Array
from qconv.device import cpu_runtime, tensor_maps
from qconv.device.cpu import runtime_cache
from qconv.device.cpu_runtime import Arguments, Pointer, Sanitizer, SanitizerReport
from qconv.generator import Plan
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.tuner.measure.verification import differences, opposite

# Threads of a prepare launch that have a fiber of their own under ThreadSanitizer. Prepare kernels are short and their
# blocks are alike, so the first few blocks show any interference.
FEW_FIBERS = 256


def run(
    plan: Plan,
    drawn: Sample,
    sanitizer: Sanitizer,
    *,
    source: str | None = None,
    seed: int = 0,
    before: Sequence[Array] | None = None,
) -> tuple[SanitizerReport, list[Array]]:
    """Run all launches. Return the first report that is not clean, or the last report with the outputs. `source`
    replaces the generated text; `before` is the initial content of the outputs, which is otherwise a constant byte."""
    text = generator.render(plan).text if source is None else source
    buffers, arguments = _arguments(plan, drawn, before)
    names, roles = zip(*_arrays(plan), strict=True)
    outputs = [tensor.name for tensor in plan.problem.outputs]
    written = [index for index, role in enumerate(roles) if role in ("workspace", "scratch", *outputs)]
    for launch in plan.launches:
        report = cpu_runtime.run_sanitized(
            text,
            launch.kernel,
            sanitizer,
            arguments=arguments,
            buffers=buffers,
            outputs=written,
            grid=launch.grid,
            threads=launch.threads,
            shared_bytes=launch.smem_bytes,
            cluster=launch.cluster,
            warp_size=plan.target.warp_size,
            seed=seed,
            fresh_fibers=cpu_runtime.FRESH_FIBERS if launch.when == "call" else FEW_FIBERS,
            cache=runtime_cache(),
        )
        if not report.clean:
            return report, []
        for index, content in zip(written, report.outputs, strict=True):
            buffers[index] = content
    for name, role, content in zip(names, roles, buffers, strict=True):
        if role == "scratch" and any(content):
            text = f"{plan.main.kernel} leaves {name} other than zero: the next launch begins with what is left"
            return SanitizerReport(False, "dirty scratch", text, ()), []
    content_of = dict(zip(roles, buffers, strict=True))
    return report, [np.frombuffer(content_of[t.name], t.dtype).reshape(t.shape) for t in plan.problem.outputs]


def mismatch(plan: Plan, drawn: Sample, sanitizer: Sanitizer) -> str | None:
    """Return the report or the difference from the oracle, or None where the run is clean and right."""
    expected = registry.compute(plan.problem, drawn)
    report, outs = run(plan, drawn, sanitizer, before=[opposite(want) for want in expected])
    if not report.clean:
        return f"{report.kind}\n{report.text}"
    difference = differences(plan.problem.outputs, outs, expected)
    return None if difference is None else f"under the sanitizer {difference}"


def _arrays(plan: Plan) -> list[tuple[str, str]]:
    """Return name and role of each buffer: targets of pointers, and arrays that only tensor maps name."""
    found = [(field.path, field.role) for field in plan.fields if field.is_pointer]
    known = {name for both in found for name in both}
    mapped = dict.fromkeys(field.tensor_map.array for field in plan.fields if field.tensor_map is not None)
    return found + [(array, array) for array in mapped if array not in known]


def _arguments(plan: Plan, drawn: Sample, before: Sequence[Array] | None) -> tuple[list[bytes], Arguments]:
    """Allocate every array in its own buffer, exactly as long as the kernel may access."""
    problem, values = plan.problem, plan.problem.checked(drawn.parameters)
    poison = b"\xa5"
    given = {t.name: array.tobytes() for t, array in zip(problem.inputs, drawn.arrays, strict=True)}
    for i, tensor in enumerate(problem.outputs):
        size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
        given[tensor.name] = poison * size if before is None else before[i].tobytes()
    buffers: list[bytes] = []
    pointers: list[Pointer] = []
    scalars: list[tuple[int, bytes]] = []
    for offset, field in zip(plan.offsets, plan.fields, strict=True):
        if field.tensor_map is not None:
            index = next(i for i, both in enumerate(_arrays(plan)) if field.tensor_map.array in both)
            # A map begins with the array's address.
            pointers.append(Pointer(offset, index))
            scalars.append((offset + 8, tensor_maps.described(field.tensor_map, 0)[8:]))
            continue
        if not field.is_pointer:
            scalars.append((offset, field.value(problem, values)))
            continue
        if field.role in ("workspace", "scratch"):
            content = (poison if field.role == "workspace" else b"\0") * (4 * field.elements)
        else:
            content = given[field.role] if field.argument is None else field.value(problem, values)
        pointers.append(Pointer(offset, len(buffers)))
        buffers.append(content)
    buffers += [given[role] for _, role in _arrays(plan)[len(buffers) :]]
    return buffers, Arguments(plan.argument_bytes, tuple(pointers), tuple(scalars))
