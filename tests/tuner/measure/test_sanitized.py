"""A kernel that reads its input only through a tensor map, launched by an executable and under the sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from altered_plan import altered
from cpu_kernels import unoptimised
from matrix_kernels import with_prelude

from qconv import Conv2d, Quantization, generator
from qconv.device.cache import Binary
from qconv.device.cpu import CpuDevice, CpuKernel
from qconv.device.cpu_runtime import Sanitizer
from qconv.generator import Plan
from qconv.generator.plan import Field, Launch
from qconv.generator.tensor_map import matrix
from qconv.instances.load.executable import Executable
from qconv.ops import registry
from qconv.ops.registry import compute
from qconv.targets.target import target
from qconv.tuner.measure import sanitized

PROBLEM = Conv2d(1, 5, 5, 32, 24, 1, 1, quantization=Quantization(out_type="int32"))
PIXELS, TILE = 25, 8  # the last tile extends past the pixels
MAP = matrix("x", "int8", PIXELS, 32, TILE, 32)
TEXT = """
struct Arguments { const signed char* w; int* y; tile::TensorMap x_map; };
struct Shared { alignas(128) signed char x[8][32]; tile::Mbarrier full; };
static void sums(const Arguments& args) {
    Shared& shared = tile::shared_memory<Shared>();
    const int t = tile::thread(), first = 8 * tile::block_x();
    if (t == 0) {
        shared.full.init(1);
        shared.full.expect_next(sizeof shared.x);
        tile::load_tile_2d(args.x_map, shared.x, shared.full, 0, first);
    }
    tile::barrier();
    shared.full.wait_for_phase(0);
    for (int i = t; i < 8 * 24; i += 32) {
        int sum = 0;
        for (int c = 0; c < 32; ++c) sum += shared.x[i / 24][c] * args.w[i % 24 * 32 + c];
        if (first + i / 24 < 25) args.y[first * 24 + i] = sum;
    }
}
extern "C" void sums_entry(const void* args) { sums(*static_cast<const Arguments*>(args)); }
"""


def plan_and_text() -> tuple[Plan, str]:
    plain = generator.default(PROBLEM, target("cpu.sm_90a"))
    fields = (
        Field("w", "const W*", "w", "weights"),
        Field("y", "Y*", "y", "sums"),
        Field("x_map", "tile::TensorMap", "tensor_map", "activations", tensor_map=MAP),
    )
    launch = Launch("sums", (-(-PIXELS // TILE), 1, 1), 32, 384)
    plan = altered(plain, fields=fields, launches=(launch,), alignment={"x": 16, "w": 1, "y": 4})
    return plan, with_prelude(TEXT, {"tensors"})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_executable_encodes_it(seed: int) -> None:
    plan, text = plan_and_text()
    path = unoptimised(text)
    kernel = CpuKernel(plan.target, Binary(b"", path, "g++", 0.0, {}), plan.launches, seed)
    drawn = registry.draw(PROBLEM, seed)
    y = Executable(plan, Binary(b"", path, "g++", 0.0, {}), kernel, CpuDevice(plan.target, seed))(
        *drawn.arrays, **drawn.parameters
    )
    np.testing.assert_array_equal(y, compute(PROBLEM, drawn)[0])


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_sanitizer_is_given_its_array(sanitizer: Sanitizer) -> None:
    plan, text = plan_and_text()
    drawn = registry.draw(PROBLEM, 3)
    report, outs = sanitized.run(plan, drawn, sanitizer, source=text, seed=2)
    assert (report.kind, report.text) == ("clean", "")
    np.testing.assert_array_equal(outs[0], compute(PROBLEM, drawn)[0])
