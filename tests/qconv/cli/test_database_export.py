"""`db export` writes the file that --out leads to."""

from __future__ import annotations

from pathlib import Path

from qconv.cli import main
from qconv.tune_db.database import Database


def test_db_export_writes_through_a_link(tmp_path: Path) -> None:
    Database.open(tmp_path / "tune.sqlite").close()
    (tmp_path / "link").symlink_to("rows.json")
    main(["db", "export", "--db", str(tmp_path / "tune.sqlite"), "--out", str(tmp_path / "link")])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "rows.json").is_file()
