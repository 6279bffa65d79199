"""A source's digest covers code and launches, but not comments and layout."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from golden_cases import plan_of

from qconv import generator
from qconv.generator.source import code_of, source_digest, text_digest

# A text, and the same program with another text.
SAME = {
    "a comment to the line's end": ("int a;", "int a;  // the first"),
    "a comment between words": ("int a;", "int/* of 32 bits */a;"),
    "a comment of several lines": ("int a;\nint b;", "int a;\n/* and\n\n the next */\nint b;"),
    "a comment that goes on behind a backslash": ("int a;\nint b;", "int a;  // one \\\n int c;\nint b;"),
    "// within /* */": ("int a; int b;", "int a; /* // */ int b;"),
    "/* within //": ("int a;\nint b; /* c */", "int a;  // /*\nint b;"),
    "* and / that touch": ("a = b * /**/ c;", "a = b * c;"),
    "quotes in comments": ("char a = '\"'; int b;", "char a = '\"'; // don't \"\nint b;"),
    "indentation and blank lines": ("{\n    int a;\n}\n", "{\n\n  int a;\n\n}\n\n"),
    "a wrapped line": ("f(a, b) + c;", "f(\n    a,\n    b\n) +\n    c;"),
    "blanks of a directive": ("#pragma unroll 4\n", "  #  pragma   unroll  4\n"),
    "a comment behind a directive": ("#define A 1\nint a;", "#define A 1  // one\n\nint a;"),
    "a comment before a directive": ("#define A 1\nint a;", "/* one */ #define A 1\nint a;"),
    "a directive in a comment": ("int a;", "/*\n#define a b\n*/ int a;"),
    "the layout of a macro's body": ("#define A(b) \\\n    b + 1\nint a;", "#define A(b) \\\n  b  + 1\nint a;"),
    "a comment behind digits in groups": ("int a = 1'000; int b;", "int a = 1'000; int b; // it's"),
    "a comment behind a character of a prefix": ("auto a = u8'\"', b = 1;", "auto a = u8'\"', /* \" */ b = 1;"),
}
# Two different programs with similar texts.
OTHERS = {
    "a comment's mark in a string": ('f("a // b");', 'f("a // c");'),
    "a comment's opening in a string": ('f("/*"); a; f("*/");', 'f("/*"); b; f("*/");'),
    "a quote in a string": (r'f("\"// a");', r'f("\"// b");'),
    "a quote in a character": ("f('\"', a /* \" */);", "f('\"', b /* \" */);"),
    "an escaped apostrophe": (r"f('\'', '//a');", r"f('\'', '//b');"),
    "blanks of a string": ('f("a b");', 'f("a  b");'),
    "a string or two": ('f("a" "b");', 'f("ab");'),
    "lines of asm": ('asm volatile("a;\\n// b\\n");', 'asm volatile("a;\\n// c\\n");'),
    "layout of asm": ('asm volatile("a  %0;" :: "r"(b));', 'asm volatile("a %0;" :: "r"(b));'),
    "a raw string": ('f(R"(a // b\n  "c")");', 'f(R"(a // d\n  "c")");'),
    "blanks of a raw string": ('f(R"x(a\n b)" c)x");', 'f(R"x(a\nb)" c)x");'),
    "digits in groups": ("int a = 1'0; // '\nint b;", "int a = 1'1; // '\nint b;"),
    "words that meet": ("int a;", "inta;"),
    "operators that meet": ("a + +b;", "a ++b;"),
    "a directive's end": ("int d;\n#define A b\nc;", "int d;\n#define A b c\n;"),
    "what a directive is": ("#define A\nB", "\n#define A B\n"),
    "arguments of a macro": ("#define A(b) c\n", "#define A (b) c\n"),
    "a line that goes on": ("#define A b \\\n c\nd;", "#define A b\n c\nd;"),
    "a word that goes on": ("int a\\\nb;", "int a\\\n b;"),
    "which string": ('f("a", "b");', 'f("b", "a");'),
    "where the string is": ('f("a", b);', 'f(b, "a");'),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_words_and_layout_change_nothing(one: str, other: str) -> None:
    assert code_of(one) == code_of(other)
    assert source_digest(one, []) == source_digest(other, [])
    assert text_digest(one) != text_digest(other)


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_another_program_has_another_digest(one: str, other: str) -> None:
    assert source_digest(one, []) != source_digest(other, [])


@pytest.mark.parametrize(
    "name", ["fused-warpgroups-sm_90a.cu", "mma-everything-gfx1100.hip", "mma-bytes-cpu.gfx1100.cpp"]
)
def test_of_a_kernel_that_is_worded_and_wrapped_otherwise(name: str) -> None:
    """With comments removed and planted, and the indentation changed, every changed line of code is noticed."""
    plan = plan_of(name)
    source = generator.render(plan)
    lines = re.sub(r"(?<!:)//[^\n\"]*$", "", source.text, flags=re.MULTILINE).splitlines()
    reworded = "\n".join(f"   {line}  // {at}: don't\n" for at, line in enumerate(lines))
    assert source_digest(reworded, plan.launches) == source.digest
    code = [at for at, line in enumerate(source.text.splitlines()) if re.search(r"\w", line.partition("//")[0])]
    for at in random.Random(name).sample(code, 20):
        changed = source.text.splitlines()
        changed[at] = re.sub(r"\w", lambda word: "b" if word[0] == "a" else "a", changed[at], count=1)
        assert source_digest("\n".join(changed), plan.launches) != source.digest, changed[at]


@pytest.mark.parametrize("change", [{"grid": (1, 1, 1)}, {"threads": 32}, {"smem_bytes": 4}, {"cluster": 3}])
def test_the_same_kernel_launched_otherwise_is_another_measurement(change: dict[str, object]) -> None:
    plan = plan_of("mma-body-sm_90a.cu")
    text, launches = generator.render(plan).text, plan.launches
    assert source_digest(text, launches) == generator.render(plan).digest
    assert source_digest(text, [replace(launches[0], **change)]) != source_digest(text, launches)  # type: ignore[arg-type]
