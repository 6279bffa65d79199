"""The extended launch, with a driver in C that records its arguments: its structs are those of cuda.h 13.0."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from qconv.device import launch_attributes
from qconv.errors import LaunchError
from qconv.generator.plan import Launch

# The declarations of cuda.h, reduced to the layout.
DRIVER = """
#include <stddef.h>
typedef struct { int id; char pad[8 - sizeof(int)];
    union { char pad[64]; struct { void *base; size_t bytes; } window; int allowed; unsigned cluster[3]; } value;
} Attribute;
typedef struct { unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, smem_bytes; void *stream;
    Attribute *attributes; unsigned count; } Config;
long long seen[40];
int cuLaunchKernelEx(const Config *c, void *function, void **parameters, void **extra) {
    long long values[] = {c->grid_x, c->grid_y, c->grid_z, c->block_x, c->block_y, c->block_z, c->smem_bytes,
        (long long)c->stream, (long long)function, (long long)parameters, (long long)extra, c->count};
    for (int i = 0; i < 12; ++i) seen[i] = values[i];
    for (unsigned i = 0; i < c->count; ++i) {
        seen[12 + 4 * i] = c->attributes[i].id;
        for (int j = 0; j < 3; ++j) seen[13 + 4 * i + j] = c->attributes[i].value.cluster[j];
    }
    return c->stream == (void *)13 ? 1 : 0;
}
int cuGetErrorString(int status, const char **text) { *text = status == 1 ? "invalid argument" : NULL; return 0; }
const size_t sizes[] = {sizeof(Config), offsetof(Config, stream), offsetof(Config, attributes), offsetof(Config, count),
    sizeof(Attribute), offsetof(Attribute, value), sizeof(((Attribute *)0)->value)};
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    cc = shutil.which("gcc") or shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run([cc, "-std=c11", "-O2", "-shared", "-fPIC", "driver.c", "-o", "driver.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder, "driver.so")))


@pytest.fixture
def seen(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(launch_attributes, "driver", lambda: library)
    return (ctypes.c_longlong * 40).in_dll(library, "seen")


def test_the_structs_lie_as_the_driver_reads_them(library: ctypes.CDLL) -> None:
    config, attribute = launch_attributes.LaunchConfig, launch_attributes.Attribute
    ours = [
        ctypes.sizeof(config),
        config.stream.offset,
        config.attributes.offset,
        config.attribute_count.offset,
        ctypes.sizeof(attribute),
        attribute.value.offset,
        ctypes.sizeof(launch_attributes.Value),
    ]
    assert ours == list((ctypes.c_size_t * 7).in_dll(library, "sizes"))
    # Values printed by a program with cuda.h 13.0 for CUlaunchConfig and CUlaunchAttribute.
    assert ours == [56, 32, 40, 48, 72, 8, 64]


def test_everything_arrives(seen: Any) -> None:
    run = launch_attributes.launcher(0x1234_5678_9ABC, Launch("k", (7, 5, 6), 96, 4096), 0x7FFF_1234_5678)
    for stream in (0, 2, 0x5555_0000_1111, 0):
        run(stream)
        assert seen[:12] == [7, 5, 6, 96, 1, 1, 4096, stream, 0x1234_5678_9ABC, 0x7FFF_1234_5678, 0, 1]
        assert seen[12:14] == [launch_attributes.PROGRAMMATIC_STREAM_SERIALIZATION, 1]


def test_a_refusal_is_an_error_that_says_which_launch(seen: Any) -> None:
    launch = Launch("k", (1, 1, 1), 32, 0)
    run = launch_attributes.launcher(1, launch, 2)
    with pytest.raises(
        LaunchError, match=r"k<<<1x1x1, 32, 0 B>>> when: call was refused: CUDA error 1, invalid argument"
    ):
        run(13)


def test_threads_that_launch_on_streams_of_their_own_do_not_mix_them_up(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: set[tuple[int, int]] = set()

    class Driver:
        @staticmethod
        def cuLaunchKernelEx(config: Any, function: Any, parameters: Any, extra: Any) -> int:
            given.add((threading.get_ident(), config._obj.stream or 0))
            return 0

    monkeypatch.setattr(launch_attributes, "driver", Driver)
    launch = Launch("k", (1, 1, 1), 32, 0)
    run = launch_attributes.launcher(1, launch, 2)
    # All of them at once, so that no identity is reused.
    barrier = threading.Barrier(4)

    def work(stream: int) -> None:
        barrier.wait()
        for _ in range(2000):
            run(stream)
        barrier.wait()

    threads = [threading.Thread(target=work, args=(100 + index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 4
    assert {stream for _, stream in given} == {100, 101, 102, 103}
