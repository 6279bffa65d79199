"""Check that every link within a built site leads to one of its files, and to an anchor in that file.

python tests/repository/site_links.py build/site
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.places = list[str](), {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


@cache
def read(path: Path) -> Page:
    return Page(path.read_text())


def broken(site: Path) -> list[str]:
    said = []
    for path in sorted(site.rglob("*.html")):
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                said.append(f"{path.relative_to(site)}: {link} is not there")
            elif there.suffix == ".html" and unquote(parts.fragment) not in read(there).places:
                said.append(f"{path.relative_to(site)}: {link} names no place there")
    return said


if __name__ == "__main__":
    found = broken(Path(sys.argv[1]))
    print("\n".join(found) if found else "every link leads somewhere")
    sys.exit(bool(found))
