"""An op with one family is three files, its module, its family's and their page, and a row in each list that names it:
`additions/op` holds the files, and this the rows. Both are put into a copy of the repository."""

from __future__ import annotations

import shutil
from pathlib import Path

import mutate

ADDED = Path(__file__).with_name("additions") / "op"
PARTS = {"src/qconv/add.py", "generator/add.py", "templates/add.j2"}
# What is put into each list: before the line that follows it there.
ROWS = {
    "src/qconv/ops.py": (
        ("from qconv import add\n", "from qconv import chain, convolution\n"),
        ("    add.OP,\n", "    convolution.OP,\n"),
    ),
    "generator/__init__.py": (
        ("    add,\n", "    apart,\n"),
        ("        add.FAMILY,\n", "        simt.FAMILY,\n"),
    ),
}


def test_an_op_with_one_family_is_three_files_and_their_rows(tmp_path: Path) -> None:
    files = {str(path.relative_to(ADDED)) for path in ADDED.rglob("*.*")}
    assert files == {*PARTS, "tests/check_add.py"}
    copy = mutate.Copy(tmp_path / "copy", tmp_path / "cache")
    shutil.copytree(ADDED, copy.root, dirs_exist_ok=True)
    for name, rows in ROWS.items():
        text = (copy.root / name).read_text()
        for row, follows in rows:
            assert text.count(follows) == 1, f"{name}: {follows!r}"
            text = text.replace(follows, row + follows)
        (copy.root / name).write_text(text)
    copy.check_imports()
    status, output = copy.pytest(["tests/check_add.py"])
    assert status == mutate.PASSED, output
