"""A kernel of the CPU device under a sanitizer: every access in bounds, every barrier there and met by all."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv import generator, reference
from qconv.device import cpu_runtime
from qconv.device.cache import cache_root
from qconv.device.cpu_runtime import Arguments, Pointer, Sanitizer, SanitizerReport
from qconv.generator import Plan
from qconv.quantization import Parameters
from qconv.sample import Sample


def run(
    plan: Plan, drawn: Sample, sanitizer: Sanitizer, *, source: str | None = None, seed: int = 0
) -> tuple[SanitizerReport, np.ndarray[Any, Any] | None]:
    """The first report that is not clean, or the last one with the output. `source` replaces the generated text."""
    text = generator.render(plan).text if source is None else source
    values = drawn.parameters.checked(plan.problem.quantization, plan.problem.k)
    buffers, arguments = _arguments(plan, drawn, values)
    names = [field.name for field in plan.fields if field.is_pointer]
    for launch in plan.launches:
        written = names.index("y" if launch is plan.main else "offset")
        report = cpu_runtime.run_sanitized(
            text,
            launch.kernel,
            sanitizer,
            arguments=arguments,
            buffers=buffers,
            outputs=[written],
            grid=launch.grid,
            threads=launch.threads,
            shared_bytes=launch.smem_bytes,
            warp_size=plan.target.warp_size,
            seed=seed,
            cache=cache_root() / "cpu",
        )
        if not report.clean:
            return report, None
        buffers[written] = report.outputs[0]
    out = np.frombuffer(report.outputs[0], plan.problem.quantization.out_type)
    return report, out.reshape(plan.problem.y_shape)


def mismatch(plan: Plan, drawn: Sample, sanitizer: Sanitizer) -> str | None:
    """None where the run is clean and right, else the report or the difference."""
    report, out = run(plan, drawn, sanitizer)
    if out is None:
        return f"{report.kind}\n{report.text}"
    values = drawn.parameters.checked(plan.problem.quantization, plan.problem.k)
    expected = reference.conv2d(plan.problem, drawn.x, drawn.w, values)
    return None if out.tobytes() == expected.tobytes() else "the output under the sanitizer differs from the oracle"


def _arguments(plan: Plan, drawn: Sample, values: Parameters) -> tuple[list[bytes], Arguments]:
    """Every array in a buffer of its own, exactly as long as the kernel may touch."""
    problem, q = plan.problem, plan.problem.quantization
    poison = b"\xa5"
    given = {
        "x": drawn.x.tobytes(),
        "w": drawn.w.tobytes(),
        "y": poison * int(np.prod(problem.y_shape) * np.dtype(q.out_type).itemsize),
        "offset": poison * (4 * problem.k),
    }
    buffers: list[bytes] = []
    pointers: list[Pointer] = []
    scalars: list[tuple[int, bytes]] = []
    offset = 0
    for field in plan.fields:
        if not field.is_pointer:
            scalars.append((offset, field.value(problem, values)))
            offset += 4
            continue
        content = given[field.name] if field.argument is None else field.value(problem, values)
        pointers.append(Pointer(offset, len(buffers)))
        buffers.append(content)
        offset += 8
    return buffers, Arguments(plan.argument_bytes, tuple(pointers), tuple(scalars))
