"""Files that a caller named: regular files are replaced as a whole, anything else is written to."""

from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qconv.device.folders import write_whole

CONTENT = b"rows\n" * 20_000  # more than a pipe holds


def test_a_regular_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text("before")
    with file.open() as reader:
        write_whole(file, CONTENT)
        assert reader.read() == "before"
    assert file.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_stays_a_pipe_and_its_reader_gets_the_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as readers:
        # Opened for both, so that neither side blocks if the writer never comes.
        held = os.open(pipe, os.O_RDWR)
        read = readers.submit(lambda: _read(held, len(CONTENT)))
        write_whole(pipe, CONTENT)
        if not stat.S_ISFIFO(os.lstat(pipe).st_mode):
            os.write(held, bytes(len(CONTENT)))
        assert read.result() == CONTENT
        os.close(held)
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def _read(pipe: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += os.read(pipe, count - len(found))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the pipes of a process in a folder")
def test_a_pipe_that_has_no_path_gets_the_text() -> None:
    """Such as `--out /dev/stdout`."""
    reading, writing = os.pipe()
    write_whole(Path(f"/dev/fd/{writing}"), b"rows")
    os.close(writing)
    assert os.read(reading, 100) == b"rows"
    os.close(reading)


def test_a_terminal_is_written_to() -> None:
    """A terminal is a device node."""
    master, terminal = os.openpty()
    write_whole(Path(os.ttyname(terminal)), b"rows")
    assert os.read(master, 100) == b"rows"
    os.close(master)
    os.close(terminal)


@pytest.mark.parametrize("there", [True, False], ids=["a file", "no file yet"])
def test_a_link_stays_and_the_file_it_leads_to_is_replaced(there: bool, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    file, link = tmp_path / "kept" / "rows.json", tmp_path / "latest.json"
    if there:
        file.write_text("before")
    link.symlink_to("kept/rows.json")
    write_whole(link, CONTENT)
    assert link.is_symlink()
    assert not file.is_symlink()
    assert file.read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "latest.json", "rows.json"]


def test_a_loop_of_links_is_refused_by_its_name(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match=r"loop'$"):
        write_whole(loop, CONTENT)
    assert loop.is_symlink()
