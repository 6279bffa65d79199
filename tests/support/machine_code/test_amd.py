"""The reader of AMD machine code, on kernels whose instructions are known to be correctly or wrongly placed."""

from __future__ import annotations

import random

import pytest
from machine_code import amd
from machine_code.masks import OPERATIONS, Masks

from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.targets.target import TARGETS, Target

# 64 lanes; 32 lanes in the spelling before gfx11; 32 lanes with compares that write EXEC; split barriers.
NAMES = ("gfx942", "gfx1030", "gfx1100", "gfx1201")

PRELUDE = """
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void
#define DEVICE __attribute__((device)) inline __attribute__((always_inline))
DEVICE int thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int neighbour(int a) { return __builtin_amdgcn_ds_bpermute((thread() ^ 1) * 4, a); }
DEVICE int quad(int a) { return __builtin_amdgcn_mov_dpp(a, 0xb1, 0xf, 0xf, true); }
"""
REFUSED = {
    "permuted_in_a_branch": "if (thread() < 7) y[thread()] = neighbour(x[thread()]);",
    "permuted_in_the_other_branch": "if (thread() < 7) y[0] = x[0]; else y[thread()] = neighbour(x[thread()]);",
    "dpp_in_a_branch": "if (x[0] < thread()) y[thread()] = quad(x[thread()]);",
    "barrier_in_a_branch": "if (thread() < 7) { y[1] = x[1]; __builtin_amdgcn_s_barrier(); y[2] = x[3]; }",
    "barrier_in_a_loop_of_lanes": """
        for (int i = thread(); i < x[0]; i += 9) { y[i] = x[i]; __builtin_amdgcn_s_barrier(); }""",
    "permuted_where_some_have_returned": """
        if (x[thread()] < 3) return;
        y[thread()] = neighbour(x[thread() + 1]);""",
    # The compiler does not know whether all lanes of the wave agree.
    "permuted_in_a_loop_of_waves": """
        for (int i = thread() / WAVE; i < x[0]; i += 2) y[i * WAVE + thread() % WAVE] = neighbour(x[thread() + i]);""",
}
ACCEPTED = {
    "permuted_behind_a_branch": """
        int a = x[thread()];
        if (a < 7) { y[thread()] = a; a = x[a]; }
        y[thread() + 1] = neighbour(a);""",
    "permuted_behind_two_branches": """
        int a = x[thread()];
        if (a < 7) { y[thread()] = 5; a = x[a]; } else { y[thread() + 9] = a; a += x[a + 3]; y[a] = 1; }
        y[thread() + 1] = neighbour(a);""",
    "permuted_behind_branches_in_branches": """
        int a = x[thread()];
        if (a < 7) { y[a] = 1; if (x[a] > thread()) { y[thread()] = a; a = x[a + 1]; } a += x[a + 2]; }
        y[thread() + 1] = neighbour(a);""",
    "permuted_behind_a_loop_of_lanes": """
        int a = x[thread()];
        for (int i = thread(); i < x[a]; i += 9) { if (x[i] == 4) y[i] = x[i + 1]; a += x[i]; }
        y[thread() + 1] = neighbour(a);""",
    "permuted_behind_a_loop_with_two_ends": """
        int a = x[thread()];
        for (int i = thread(); i < x[a]; i += 9) { a += x[i]; if (a == 77) { y[i] = 1; break; } y[a] = i; }
        y[thread() + 1] = neighbour(a);""",
    # No mask keeps the EXEC from before the loop: the masks of both sides and of the departed lanes are whole together.
    "permuted_behind_a_branch_in_a_loop_of_lanes": """
        int a = x[thread()], i = thread();
        do {
            if (x[i] == 4) { y[i] = x[i + 1]; a += x[i]; } else { y[i + 3] = x[i + 2]; a += x[i + 5]; y[a] = i; }
            i += 9;
        } while (i < x[a]);
        y[thread() + 1] = neighbour(a);""",
    "permuted_in_a_loop_of_waves_that_is_told": """
        for (int i = __builtin_amdgcn_readfirstlane(thread() / WAVE); i < x[0]; i += 2)
            y[i * WAVE + thread() % WAVE] = neighbour(x[thread() + i]);""",
    "first_lane_in_a_branch": "if (thread() < 7) y[thread()] = x[__builtin_amdgcn_readfirstlane(x[thread()])];",
    "one_lane_in_a_branch": "if (thread() < 7) y[thread()] = x[__builtin_amdgcn_readlane(x[thread()], 3)];",
    "ballot_in_a_branch": "if (thread() < 7 && BALLOT(x[thread()] > 3) == 0) y[thread()] = 1;",
    "barrier_of_all": "y[thread()] = 1; __builtin_amdgcn_s_barrier(); y[thread() + 1] = quad(x[3]);",
}


@pytest.fixture(scope="module", params=NAMES)
def reading(request: pytest.FixtureRequest) -> amd.Reading:
    target = TARGETS[request.param]
    skip_without_tools(target)
    wave = target.warp_size
    words = f"constexpr int WAVE = {wave};\n#define BALLOT __builtin_amdgcn_ballot_w{wave}\n"
    kernels = [
        f"KERNEL {name}(const int* __restrict__ x, int* __restrict__ y) {{ {body} }}"
        for name, body in (REFUSED | ACCEPTED).items()
    ]
    source = Source("\n".join([words, PRELUDE, *kernels]), "", ".hip")
    return amd.read(compiler_for(target).run(source)[0], wave)


def skip_without_tools(target: Target) -> None:
    if reason := amd.missing():
        pytest.skip(reason)
    try:
        compiler_for(target)
    except CompileError as error:
        pytest.skip(str(error))


def test_what_needs_every_lane_is_refused_where_some_are_off(reading: amd.Reading) -> None:
    assert {refusal.kernel for refusal in reading.refused} == set(REFUSED)


def test_every_such_instruction_is_counted(reading: amd.Reading) -> None:
    assert reading.cross_lane >= len([body for body in (REFUSED | ACCEPTED).values() if "neighbour" in body])
    assert reading.barriers >= 3


def test_a_write_of_exec_that_it_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="s_bitset1_b32 exec_lo, s4 writes EXEC"):
        Masks.at_entry(32).after("s_bitset1_b32", ("exec_lo", "s4"))


def test_a_mask_comes_back_from_the_lanes_that_it_was_spilled_to() -> None:
    spilled = Masks.at_entry(64)
    for operation, *operands in (
        ("s_and_saveexec_b64", "s[4:5]", "vcc"),
        ("v_writelane_b32", "v40", "s4", "2"),
        ("v_writelane_b32", "v40", "s5", "3"),
        ("s_mov_b64", "s[4:5]", "0"),
    ):
        spilled = spilled.after(operation, tuple(operands))
    for lane, is_whole in (("3", True), ("2", False)):
        masks = spilled.after("v_readlane_b32", ("s8", "v40", "2")).after("v_readlane_b32", ("s9", "v40", lane))
        assert masks.after("s_or_b64", ("exec", "exec", "s[8:9]")).whole == is_whole
        assert not masks.after("s_or_b64", ("exec", "exec", "s[4:5]")).whole


def test_what_is_known_of_masks_is_true_of_their_values() -> None:
    """In random programs for eight lanes, the masks of a fact together have every lane."""
    draw, lengths = random.Random(0), set()
    registers = ("s0", "s1", "s2", "vcc_lo", "exec_lo")
    names = [name for name in OPERATIONS if name != "cselect"]
    for _ in range(400):
        masks, values = Masks.at_entry(32), {each: draw.randrange(256) for each in registers} | {"-1": 255}
        values["exec_lo"] = 255
        for _ in range(16):
            name, kind = draw.choice(names), draw.choice(("", "", "_saveexec", "_wrexec"))
            to, a = draw.choice(registers[: 4 if kind else 5]), draw.choice(registers)
            b = "exec_lo" if kind else draw.choice((*registers, "-1"))
            before = values["exec_lo"]
            result = 255 & eval(OPERATIONS[name], {"a": values[a], "b": values[b]})
            values |= {to: before if kind == "_saveexec" else result} | ({"exec_lo": result} if kind else {})
            reads_one = kind or OPERATIONS[name] in ("a", "~a")
            masks = masks.after(f"s_{name}{kind}_b32", (to, a) if reads_one else (to, a, b))
            for fact in masks.facts:
                assert sum({1 << i for (each,) in fact for i in range(8) if values[each] >> i & 1}) == 255, (name, kind)
                lengths.add(len(fact))
    assert lengths == {1, 2, 3}


@pytest.mark.parametrize(
    "text",
    [
        "v_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7]",
        "v_swmmac_i32_16x16x32_iu8 v[0:7], v[8:9], v[12:15], v16",
        "v_mfma_i32_32x32x16_i8 a[0:15], v[0:1], v[2:3], a[0:15]",
        "v_smfmac_i32_16x16x64_i8 v[0:3], v[4:5], v[6:9], v10",
        "s_barrier",
        "s_barrier_signal -1",
        "s_barrier_wait 0xffff",
        "v_add_u32_dpp v0, v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        "v_add_f32_dpp v0, v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]",
        "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,1)",
        "ds_permute_b32 v0, v1, v2",
        "v_permlanex16_b32 v0, v1, s2, s3",
        "v_permlane32_swap_b32_e32 v0, v1",
    ],
)
def test_what_needs_every_lane(text: str) -> None:
    for gap, needs in ((text, True), ("v_add_u32_e32 v0, v1, v2", False), ("v_readlane_b32 s0, v1, s2", False)):
        (code,) = amd.parse(f"0000000000001600 <kernel>:\n\t{gap} // 000000001600: 00000000\n").values()
        assert amd.needs_every_lane(code[0]) == needs
