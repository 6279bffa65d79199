"""The code blocks of the documents; the words after a block's language say where it can run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "bench/*.md", "docs/**/*.md", "tests/repository/mutants/*.md")
# Written by docs/conf.py when the site is built, from tested sources.
GENERATED = re.compile(r"docs/reference/(commands|targets|functions|gallery|kernels/.*)\.md")
DOCUMENTS = sorted(
    name
    for name in {str(path.relative_to(ROOT)) for pattern in PATTERNS for path in ROOT.glob(pattern)}
    if not GENERATED.fullmatch(name)
)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Language -> the words that may follow it, and who runs such a block. Without a word, the tests of the documents run it
# here.
WORDS = {
    "python": {
        "": "in one go with the page's others, on the CPU device",
        "slow": "behind those, in the slow suite",
        "onnx": "by itself, with a model beside it",
        "torch": "by itself, where there is PyTorch",
        "gpu": "in one go with the others for a GPU, where there is one; here, its syntax and its names are checked",
    },
    "sh": {
        "": "in a folder of its own, in the slow suite",
        "newcomer": "by .ci/run, in a clean copy",
        "site": "by .ci/run, which builds the site",
        "long": "by .ci/run, or whoever changes the code",
        "gpu": "where there is a GPU: here, only that the commands and their options exist",
        "hosts": "where there are other hosts: as before",
        "elsewhere": "on a fresh machine: .ci/run does the same with another extra",
    },
    "cpp": {"": "the compiler reads it, behind the header of an export"},
}


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    language: str
    word: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(document: str, language: str = "", word: str | None = None) -> list[Block]:
    """Return the blocks of a language and with a word, or all blocks. Directives of the site, and output, are not
    included."""
    text = (ROOT / document).read_text()
    found = []
    for fence in FENCE.finditer(text):
        words = fence[1].split()
        if words and not words[0].startswith("{") and words[0] != "text":
            at = text.count("\n", 0, fence.start(2)) + 1
            found.append(Block(document, at, words[0], " ".join(words[1:]), fence[2]))
    return [b for b in found if language in ("", b.language) and word in (None, b.word)]


def with_blocks(language: str, *words: str) -> list[str]:
    return [name for name in DOCUMENTS if any(blocks_of(name, language, word) for word in words)]
