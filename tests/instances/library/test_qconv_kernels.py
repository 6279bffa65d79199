"""Two libraries in one program, and the symbols that a library exports: each calls its own functions only."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from built_library import Library, build, builds
from library_cases import SMALL, TURNED, plan_of, small, winner_of

from qconv import Conv2d, Quantization
from qconv.conversion import Dynamic
from qconv.instances.library.write import write
from qconv.ops import registry
from qconv.ops.registry import op_of

pytestmark = pytest.mark.thirds

OTHER = "other"
UPWARD = 0x800  # FE_UPWARD, on x86
REAL = Quantization(out_type="float32", per_channel=True, x_zero_point=True, w_zero_point=True, bias="float32")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    write([small()], first)
    write([winner_of(plan_of("simt", "cpu", TURNED))], second)
    return first, second


def test_every_function_and_handle_has_its_prefix(folders: tuple[Path, Path]) -> None:
    text = (folders[0] / "include/qconv_kernels.h").read_text()
    renamed = set(re.findall(r"^#define (qconv_\w+) QCONV_NAMED\(\1\)$", text, flags=re.M))
    handles = re.findall(r"^typedef struct (\w+) \1;", text, flags=re.M)
    assert renamed == {*handles, *functions_of(folders[0])}
    # No function is declared in another form.
    assert len(functions_of(folders[0])) == len(re.findall(r"^\w[\w *]*\bqconv_\w+\([^)]*\);", text, flags=re.M)) > 20


def test_a_folder_that_is_written_again_builds_what_it_has_now(tmp_path: Path) -> None:
    write([small()], tmp_path)
    own = tmp_path / "kernels/mine.cpp"
    own.write_text("int mine;\n")
    write([winner_of(plan_of("simt", "cpu", TURNED))], tmp_path)
    built = (tmp_path / "CMakeLists.txt").read_text()
    assert len(list((tmp_path / "kernels").iterdir())) == 2
    assert own.stem not in built
    assert len(re.findall(r"^    (kernels|binaries)/", built, flags=re.M)) == 2
    assert "GLOB" not in built


ONE = """#include "qconv_kernels.h"
#include <stdio.h>
int ask_{name}(void) {{
    qconv_device* device;
    const qconv_kernel* kernel;
    if (qconv_open(0, &device) != QCONV_OK) return 1;
    const char* key = qconv_key_of(qconv_kernel_at(0));
    if (qconv_lookup(device, key, &kernel) != QCONV_OK) return 2;
    printf("%zu %s\\n", qconv_kernel_count(), key);
    qconv_close(device);
    return 0;
}}
"""
BOTH = """int ask_first(void);
int ask_second(void);
int main(void) { return ask_first() + 10 * ask_second(); }
"""


@builds
@pytest.mark.slow
@pytest.mark.parametrize("shared", ["OFF", "ON"])
def test_a_program_links_both(folders: tuple[Path, Path], tmp_path: Path, shared: str) -> None:
    (tmp_path / "first.c").write_text(ONE.format(name="first"))
    (tmp_path / "second.c").write_text(f"#define QCONV_PREFIX {OTHER}\n" + ONE.format(name="second"))
    (tmp_path / "main.c").write_text(BOTH)
    first, second = folders
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(both LANGUAGES C CXX)\n"
        f"add_subdirectory({first} first)\nset(QCONV_PREFIX {OTHER})\nadd_subdirectory({second} second)\n"
        "add_executable(both main.c first.c second.c)\n"
        f"target_link_libraries(both qconv::kernels {OTHER}_qconv::kernels)\n"
    )
    built = build(tmp_path, f"-DBUILD_SHARED_LIBS={shared}", "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON")
    run = subprocess.run([built / "both"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"1 {SMALL}", f"1 {TURNED}"]
    for program in ("first/qconv_self_test", f"second/{OTHER}_qconv_self_test"):
        subprocess.run([built / program], check=True, capture_output=True)


@builds
@pytest.mark.slow
def test_what_is_loaded_beside_it_is_not_taken_for_its_own(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Libraries without a prefix are loaded as plugins, one of them before all others."""
    paths = [build(folder, "-DBUILD_SHARED_LIBS=ON", into=tmp_path / folder.name) for folder in folders]
    program = (
        "import ctypes, sys; from built_library import Library\n"
        "ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
        "for path in sys.argv[1:]:\n"
        "    library = Library(path)\n"
        "    key = library.c.qconv_key_of(ctypes.c_void_p(library.c.qconv_kernel_at(ctypes.c_size_t(0))))\n"
        "    print(library.c.qconv_kernel_count(), key.decode(), library.lookup(key.decode())[0])\n"
    )
    libraries = [path / "libqconv_kernels.so" for path in paths]
    support = Path(__file__).parents[2] / "support"
    command = [sys.executable, "-c", program, *map(str, libraries)]
    run = subprocess.run(command, cwd=support, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [f"1 {SMALL} 0", f"1 {TURNED} 0"], run.stderr
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    seen = subprocess.run(["nm", "-DC", "--defined-only", libraries[0]], capture_output=True, text=True, check=True)
    names = {line.split(maxsplit=2)[2] for line in seen.stdout.splitlines()}
    assert {name for name in names if "qconv" in name and "conv2d" not in name} == functions_of(folders[0])


def functions_of(folder: Path) -> set[str]:
    return set(re.findall(r"^QCONV_API .*?\b(qconv_\w+)\(", (folder / "include/qconv_kernels.h").read_text(), re.M))


@builds
@pytest.mark.slow
def test_a_shared_library_is_installed_with_a_self_test_that_runs(tmp_path: Path) -> None:
    """Built by a project whose flags would change the arithmetic of a dynamic quantization."""
    dynamic = plan_of("choosing", "cpu", Dynamic(1, 3, 17))
    write([small(), winner_of(dynamic)], tmp_path / "folder")
    made = build(tmp_path / "folder", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_CXX_FLAGS=-ffast-math")
    subprocess.run(["cmake", "--install", made, "--prefix", tmp_path / "to"], check=True, capture_output=True)
    run = subprocess.run([tmp_path / "to/bin/qconv_self_test"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "to/lib/libqconv_kernels.so.1").exists()
    assert Library(tmp_path / "to/lib/libqconv_kernels.so").lookup(str(SMALL))[0] == 0


@builds
@pytest.mark.slow
def test_a_project_has_its_own_rules(tmp_path: Path) -> None:
    """Every warning is an error, files are compiled together, and the program rounds upwards: the bits stay the
    same."""
    problem = Conv2d(1, 6, 5, 12, 10, 3, 3, pad=(1, 1, 1, 1), quantization=REAL)
    write([winner_of(plan_of("simt", "cpu", problem)), small()], tmp_path)
    strict = "-DCMAKE_CXX_FLAGS=-Wall -Wextra -pedantic -Werror"
    made = build(tmp_path, strict, "-DCMAKE_UNITY_BUILD=ON", "-DBUILD_SHARED_LIBS=ON")
    subprocess.run([made / "qconv_self_test"], check=True, capture_output=True)
    library, drawn = Library(made / "libqconv_kernels.so"), registry.draw(problem, 1)
    (wanted,) = op_of(problem).compute(problem, drawn)
    floats = ctypes.CDLL("libm.so.6")
    floats.fesetround(UPWARD)
    try:
        (got,) = library.call(problem, drawn)
        kept = floats.fegetround()
    finally:
        floats.fesetround(0)
    assert kept == UPWARD
    assert np.array_equal(got.view(np.uint8), wanted.view(np.uint8))
