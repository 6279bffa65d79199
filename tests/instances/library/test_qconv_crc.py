"""The checksum of files is zlib's, for any number of bytes at any address."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import zlib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

SOURCE = """
#include "qconv_crc.h"
extern "C" uint32_t crc(const void* bytes, size_t count) { return qconv_crc::of(bytes, count); }
"""
# Below and above 4096, from which on four quarters are read at a time, whatever the last bytes are.
COUNTS = (*range(40), *range(4085, 4140), 65536, 65536 + 31, 1_000_003)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("optimization", ["-Os", "-O2"])
def test_it_is_zlibs(optimization: str, tmp_path: Path) -> None:
    (tmp_path / "crc.cpp").write_text(SOURCE)
    include = str(resources.files("qconv.instances.library"))
    flags = ["-std=c++17", optimization, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    library = tmp_path / "crc.so"
    subprocess.run(["g++", *flags, tmp_path / "crc.cpp", "-o", library], check=True)
    crc = ctypes.CDLL(str(library)).crc
    crc.restype = ctypes.c_uint32
    drawn = np.random.default_rng(2).integers(0, 256, max(COUNTS) + 8, dtype=np.uint8)
    for shift in (0, 1, 7):
        for count in COUNTS:
            content = np.ascontiguousarray(drawn[shift : shift + count])
            address = drawn.ctypes.data + shift
            assert crc(ctypes.c_void_p(address), ctypes.c_size_t(count)) == zlib.crc32(content.tobytes()), (
                shift,
                count,
            )
