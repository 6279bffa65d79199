"""A library in the build systems that people have: pkg-config, a Debian package, a project that embeds it as a header,
and a machine of another architecture. The program is C++, with the header of classes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from built_library import CROSS, EMULATOR, STUB_CUDA, build, builds, emulated, stub_driver, without, write_uncompiled
from library_cases import SMALL, gpu_winners, small

from qconv.instances.library.key_constants import constant_of
from qconv.instances.library.write import write
from qconv.ops import registry
from qconv.ops.registry import op_of

pytestmark = [builds, pytest.mark.slow, pytest.mark.thirds]


DRAWN = registry.draw(SMALL, 3)
# Runs SMALL on the sample, and prints the output; then what each misuse is told.
PROGRAM = r"""
#include <cstdio>
#include "qconv_kernels.hpp"
#include "qconv_problems.h"

namespace qk = qconv_kernels;

template <typename Work>
void told(Work work) {
    try {
        work();
    } catch (const qk::Error& error) {
        printf("%d %s\n", error.status(), error.what());
    }
}

int main() {
    const std::vector<int8_t> x = {X}, w = {W};
    const std::vector<int32_t> bias = {BIAS};
    qk::Device device;
    const qk::Kernel kernel = device.lookup(KEY);
    const qk::Memory weights(device, w), input(device, x);
    qk::Parameters parameters;
    parameters.set("bias", bias);
SET
    const qk::Packed packed(device, kernel, {weights.data()}, parameters);
    const qk::Workspace workspace(device, packed);
    for (int launch = 0; launch < 2; ++launch) {
        const qk::Memory output(device, kernel.tensors(QCONV_OUTPUT)[0].bytes);
        packed.launch({input.data()}, {output.data()}, workspace);
        device.synchronize();
        std::vector<int8_t> y(output.bytes());
        output.download(y.data());
        for (int8_t each : y) printf("%d ", each);
        printf("\n");
    }
    told([&] { device.lookup("conv2d:n=1"); });
    told([&] { packed.launch({input.data(), input.data()}, {input.data()}, workspace); });
    told([&] { qk::Packed(device, kernel, {}, parameters); });
    told([&] { qk::Packed(device, kernel, {weights.data()}, qk::Parameters().set("bias", int32_t(1))); });
    for (const auto& one : kernel.parameters()) printf("%s%s ", one.first.c_str(), one.second ? "!" : "");
}
"""
SAID = [
    "2 QCONV_NO_KERNEL: this library has no kernel for conv2d:n=1: export one, or give one of the keys in"
    " qconv_problems.h",
    f"1 QCONV_BAD_ARGUMENT: 2 inputs were given, and {SMALL} takes 1: give those of its tensors()",
    f"1 QCONV_BAD_ARGUMENT: 0 weights were given, and {SMALL} takes 1: give those of its tensors()",
    "1 QCONV_BAD_ARGUMENT: bias has 1 values; it must have 8, one per output channel: give as many",
    "x_scale w_scale y_scale x_zero_point bias! low! high! ",
]


def program_text() -> str:
    x, w = (", ".join(map(str, array.reshape(-1))) for array in DRAWN.arrays)
    values = dict(DRAWN.parameters)
    bias = ", ".join(map(str, values.pop("bias")))
    named = {"x_scale", "w_scale", "y_scale", "x_zero_point", "low", "high"}
    lines = [
        f'    parameters.set("{name}", {int(value) if name.endswith("point") else float(value).hex()});'
        for name, value in values.items()
        if name in named and value is not None
    ]
    text = PROGRAM.replace("{X}", f"{{{x}}}").replace("{W}", f"{{{w}}}").replace("{BIAS}", f"{{{bias}}}")
    return text.replace("SET", "\n".join(lines)).replace("KEY", constant_of(SMALL))


def check_printed(lines: Sequence[str]) -> None:
    (wanted,) = op_of(SMALL).compute(SMALL, DRAWN)
    first, second, *others = lines
    assert first == second
    assert list(map(int, first.split())) == wanted.reshape(-1).tolist()
    assert others == SAID


def run(*command: object, **how: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library")
    write([small()], made)
    return made


@without("pkg-config")
@pytest.mark.parametrize("shared", ["OFF", "ON"])
def test_pkg_config_finds_it_where_it_is_moved_to(folder: Path, tmp_path: Path, shared: str) -> None:
    flags = (f"-DBUILD_SHARED_LIBS={shared}", "-DQCONV_PREBUILT=ON", "-DQCONV_PREFIX=own")
    made = build(folder, *flags, into=tmp_path / "build")
    run("cmake", "--install", made, "--prefix", tmp_path / "first")
    where = (tmp_path / "first").rename(tmp_path / "second")
    (tmp_path / "main.cpp").write_text("#define QCONV_PREFIX own\n" + program_text())
    known = {"PKG_CONFIG_PATH": str(where / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(where / "lib")}
    asked = run("pkg-config", "--cflags", "--libs", "own_qconv_kernels", env=os.environ | known).split()
    run("g++", "-std=c++17", "-Wall", "-Werror", "main.cpp", *asked, "-o", "main", cwd=tmp_path)
    check_printed(run(tmp_path / "main", env=os.environ | known).splitlines())
    # C links what the archive needs of C++ by the same flags.
    (tmp_path / "main.c").write_text('#include "qconv_kernels.h"\nint main(void) { return 0; }\n')
    run("gcc", "main.c", *asked, "-o", "c", cwd=tmp_path)


@without("dpkg-deb", "cpack")
def test_a_debian_package_has_an_install_tree(folder: Path, tmp_path: Path) -> None:
    made = build(folder, "-DBUILD_SHARED_LIBS=ON", "-DQCONV_PREBUILT=ON", into=tmp_path / "build")
    run("cpack", cwd=made)
    (package,) = made.glob("qconv-kernels_1.0_*.deb")
    (archive,) = made.glob("*.tar.gz")
    run("dpkg-deb", "-x", package, tmp_path / "root")
    assert "Maintainer: the makers of qconv_kernels" in run("dpkg-deb", "-f", package)
    held = {str(path.relative_to(tmp_path / "root/usr")) for path in (tmp_path / "root/usr").rglob("*")}
    assert {
        *("bin/qconv_self_test", "lib/libqconv_kernels.so.1", "lib/pkgconfig/qconv_kernels.pc"),
        *("include/qconv_kernels/qconv_kernels.hpp", "include/qconv_kernels/qconv_problems.h"),
        "lib/cmake/qconv_kernels/qconv_kernelsConfig.cmake",
    } <= held
    assert "usr/bin/qconv_self_test" in run("tar", "-tzf", archive)
    assert "1 right, 0 wrong" in run(tmp_path / "root/usr/bin/qconv_self_test")
    (tmp_path / "main.cpp").write_text(program_text())
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES CXX)\nfind_package(qconv_kernels 1 REQUIRED)\n"
        "add_executable(user main.cpp)\ntarget_link_libraries(user qconv::kernels)\n"
    )
    user = build(tmp_path, f"-DCMAKE_PREFIX_PATH={tmp_path / 'root/usr'}", into=tmp_path / "user")
    check_printed(run(user / "user").splitlines())


@without(CROSS, EMULATOR)
def test_it_is_built_for_a_machine_of_another_architecture(folder: Path, tmp_path: Path) -> None:
    """Kernels for the CPU are compiled for it, and run in an emulator with the same bits."""
    made = cross_built(folder, tmp_path / "build")
    (tmp_path / "main.cpp").write_text(program_text())
    library = made / "libqconv_kernels.a"
    run(CROSS, "-std=c++17", f"-I{folder / 'include'}", "main.cpp", library, "-pthread", "-o", "main", cwd=tmp_path)
    check_printed(run(*emulated(tmp_path / "main")).splitlines())
    assert "1 right, 0 wrong" in run(*emulated(made / "qconv_self_test"))


def cross_built(folder: Path, into: Path, *flags: str) -> Path:
    return build(folder, f"-DCMAKE_TOOLCHAIN_FILE={folder / 'cmake/aarch64-linux-gnu.cmake'}", *flags, into=into)


@pytest.fixture(scope="module")
def for_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    winners = [one for one in gpu_winners("sm_80", "sm_90a") if one.problem.op in ("add", "conv2d")]
    return write_uncompiled(winners, tmp_path_factory.mktemp("gpus"))


@without(CROSS, EMULATOR, "dpkg-deb", "cpack")
def test_an_example_for_a_jetson_links_here_against_a_stub(for_gpus: Path, tmp_path: Path) -> None:
    """The stub is of that architecture, too: it logs the launches of a device with compute capability 8.7."""
    made = cross_built(for_gpus, tmp_path / "build", f"-DQCONV_CUDA_INCLUDE={STUB_CUDA}")
    driver, log = stub_driver(tmp_path / "driver", CROSS), tmp_path / "log"
    known = {"QCONV_STUB_MAJOR": "8", "QCONV_STUB_MINOR": "7", "QCONV_STUB_LOG": str(log)}
    said = run(*emulated(made / "qconv_example", driver), env=os.environ | known)
    assert "on NVIDIA H200: the first byte of y is 1" in said
    assert sum(line.startswith("launch ") for line in log.read_text().splitlines()) >= 3
    run("cpack", "-G", "DEB", cwd=made)
    (package,) = made.glob("*.deb")
    assert "Architecture: arm64" in run("dpkg-deb", "-f", package)


EMBEDDED = r"""
#define QCONV_IMPLEMENTATION
#include "qconv_embedded.h"
#include <cstdio>

void other();  // includes the header without the implementation

int main() {
    try {
        qconv_kernels::Device device(0);
        for (size_t i = 0; i < qconv_kernel_count(); ++i)
            printf("%s\n", device.lookup(qconv_key_of(qconv_kernel_at(i))).target().c_str());
        other();
    } catch (const qconv_kernels::Error& error) {
        printf("%s\n", error.what());
    }
}
"""
OTHER = (
    '#include <cstdio>\n#include "qconv_embedded.h"\nvoid other() { printf("%zu kernels\\n", qconv_kernel_count()); }\n'
)


@pytest.mark.parametrize("prefix", ["", "#define QCONV_PREFIX gpu\n"], ids=["plain", "prefix"])
def test_a_header_embeds_it(for_gpus: Path, tmp_path: Path, prefix: str) -> None:
    """The program builds no library, and has every warning as an error."""
    (tmp_path / "main.cpp").write_text(prefix + EMBEDDED)
    (tmp_path / "other.cpp").write_text(prefix + OTHER)
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{for_gpus / 'include'}", f"-I{STUB_CUDA}"]
    run("g++", *strict, "main.cpp", "other.cpp", "-ldl", "-pthread", "-o", "main", cwd=tmp_path)
    count = len({one.problem for one in gpu_winners("sm_80", "sm_90a") if one.problem.op in ("add", "conv2d")})
    known = {"LD_LIBRARY_PATH": str(stub_driver(tmp_path / "driver")), "QCONV_STUB_MAJOR": "9"}
    printed = run(tmp_path / "main", env=os.environ | known)
    assert "QCONV_NO_KERNEL" in printed or printed.endswith(f"{count} kernels\n")
    assert "QCONV_NO_DEVICE: libcuda.so.1 cannot be loaded" in run(tmp_path / "main", env=no_driver(tmp_path))


def no_driver(folder: Path) -> dict[str, str]:
    """Return an environment in which an empty file hides an installed driver."""
    (folder / "none").mkdir()
    (folder / "none/libcuda.so.1").touch()
    return os.environ | {"LD_LIBRARY_PATH": str(folder / "none")}


def test_fast_math_is_refused_where_it_is_embedded(for_gpus: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(EMBEDDED)
    command = ["g++", "-std=c++17", "-ffast-math", f"-I{for_gpus / 'include'}", f"-I{STUB_CUDA}", "-c", "main.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "-ffast-math would change the values of kernel arguments: compile the file" in done.stderr
