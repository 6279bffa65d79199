"""The analysis of a disassembly: its main loop, and the code after it."""

from __future__ import annotations

import pytest

LISTING = """
	s_mov_b32 s0, 0                                            // 000000001600: BE800080
	v_mfma_i32_32x32x16_i8 a[0:15], v[0:1], v[2:3], 0          // 000000001604: D3D68000
	s_branch 1                                                 // 00000000160C: BF820001 <kernel+0x14>
	s_nop 0                                                    // 000000001610: BF800000
	v_mfma_i32_32x32x16_i8 a[0:15], v[0:1], v[2:3], a[0:15]    // 000000001614: D3D68000
	s_cbranch_execz 1                                          // 00000000161C: BF880001 <kernel+0x24>
	ds_read_b128 v[0:3], v4                                    // 000000001620: D9FE0000
	s_cbranch_scc1 65530                                       // 000000001624: BF85FFFA <kernel+0x14>
	global_store_dword v[0:1], v2, off                         // 000000001628: DC708000
	s_cbranch_scc0 65510                                       // 000000001630: BF84FFE6 <kernel>
	v_add_u32_e32 v1, v2, v3                                   // 000000001634: 68020702
	s_endpgm                                                   // 000000001638: BF810000
	s_nop 0                                                    // 00000000163C: BF800000
"""


@pytest.fixture
def code() -> list[object]:
    from amd_static import read_listing

    return read_listing(LISTING)


def test_the_main_loop_is_the_one_that_writes_nothing(code: list[object]) -> None:
    from amd_static import main_loop

    loop, is_loop = main_loop(code)
    assert is_loop
    assert [hex(each.address) for each in loop] == ["0x1614", "0x161c", "0x1620", "0x1624"]


def test_the_epilogue_ends_with_the_program(code: list[object]) -> None:
    from amd_static import behind

    assert [each.text.split()[0] for each in behind(code)][-2:] == ["v_add_u32_e32", "s_endpgm"]


def test_straight_code_is_from_the_first_product_to_the_last(code: list[object]) -> None:
    from amd_static import main_loop

    straight = [each for each in code if each.goes_to is None]
    loop, is_loop = main_loop(straight)
    assert not is_loop
    assert (hex(loop[0].address), hex(loop[-1].address)) == ("0x1604", "0x1614")


def test_llvm_mca_gets_addresses_for_descriptors() -> None:
    from amd_static import BUFFER, by_address

    load = "buffer_load_dwordx4 v[2:5], v19, s[12:15], s4 offen offset:16"
    assert BUFFER.sub(by_address, load) == "global_load_dwordx4 v[2:5], v19, s[12:13]"
    assert BUFFER.sub(by_address, "buffer_store_b32 v1, v2, s[4:7], 0 offen") == "global_store_b32 v2, v1, s[4:5]"
