"""Mutants of the identity of a source: what its digest is of, and what is named by its text instead."""

from mutants.mutant import Mutant

HERE = "generator/digest.py"
DIGEST, EXPORT = "tests/generator/test_digest.py", "tests/instances/library/test_export.py"
OTHERS = DIGEST + "::test_another_program_has_another_digest"
SAME = DIGEST + "::test_words_and_layout_change_nothing"

MUTANTS = (
    Mutant(
        "source: a digest of the config",
        "generator/source.py",
        "source_digest(text, launches)",
        "source_digest(str(plan.config), launches)",
        "Sources that differ have digests that differ.",
        ("tests/generator/test_source.py::test_the_digest_is_of_the_code",),
    ),
    Mutant(
        "source: a digest without the launches",
        "generator/source.py",
        "source_digest(text, launches)",
        "source_digest(text, [])",
        "A kernel on another grid takes another time.",
        ("tests/generator/test_source.py::test_the_digest_is_of_the_code",),
    ),
    Mutant(
        "digest: without the size of clusters",
        HERE,
        "one.smem_bytes, one.cluster)",
        "one.smem_bytes)",
        "A kernel in other clusters takes another time.",
        (DIGEST + "::test_the_same_kernel_launched_otherwise_is_another_measurement",),
    ),
    Mutant(
        "digest: strings are words",
        HERE,
        "literals.append(found[0])",
        'literals.append("")',
        "What stands in asm is code.",
        (OTHERS,),
    ),
    Mutant(
        "digest: raw strings are comments",
        HERE,
        'if found["raw"] is None and found["quoted"] is None:',
        'if found["quoted"] is None:',
        "What stands in a raw string is code.",
        (OTHERS,),
    ),
    Mutant(
        "digest: an apostrophe between digits opens a character",
        HERE,
        "(?<=')(?<!(?<!u8)(?<=[0-9a-fA-F])')(?:",
        "(?<=')(?:",
        "A comment behind such a number is taken for code.",
        (SAME,),
    ),
    Mutant(
        "digest: a character behind u8 is a number's digits",
        HERE,
        "(?<!(?<!u8)(?<=[0-9a-fA-F])')",
        "(?<!(?<=[0-9a-fA-F])')",
        "What is quoted is taken for code.",
        (DIGEST,),
    ),
    Mutant(
        "digest: a comment ends with its line",
        HERE,
        r"(?<=/)(?:/(?:\\\n|[^\n])*|",
        r"(?<=/)(?:/[^\n]*|",
        "Behind a backslash it goes on.",
        (SAME,),
    ),
    Mutant(
        "digest: a word that goes on in the next line ends there",
        HERE,
        r'code.replace("\\\n", _CONTINUED).split()',
        r'code.replace("\\\n", "\\ ").split()',
        "A word in two lines, and two words, are two programs.",
        (OTHERS,),
    ),
    Mutant(
        "digest: operators meet",
        HERE,
        '_ALONE = "(){}[];,"',
        '_ALONE = "(){}[];,+"',
        "Two operators are one.",
        (OTHERS,),
    ),
    Mutant(
        "digest: a directive goes on in the next line",
        HERE,
        r'^[ \t]*\#((?:\\\n|[^\n])*)", re.MULTILINE)',
        r'\A[ \t]*\#((?:\\\n|[^\n])*)", re.MULTILINE)',
        "Where its line ends, the directive ends.",
        (OTHERS,),
    ),
    Mutant(
        "digest: blanks of a directive are layout",
        HERE,
        'f"#{_one_line(part)}" if at % 2',
        'f"#{_close(_one_line(part))}" if at % 2',
        "A blank decides whether a macro has arguments.",
        (OTHERS,),
    ),
    Mutant(
        "cache: by the digest of the code",
        "src/qconv/device/cache.py",
        "place, text_digest(source.text)",
        "place, source.digest",
        "An entry holds another text than was asked for, and a failure names a line of that.",
        ("tests/qconv/device/test_cache.py",),
    ),
    Mutant(
        "export: files by the digest of the code",
        "instances/library/export.py",
        "return text_digest(self.source.text)[:8]",
        "return self.source.digest[:8]",
        "Of two that differ in comments alone, one file is written over the other.",
        (EXPORT,),
    ),
    Mutant(
        "export: parts of an older pair are of today",
        "instances/library/export.py",
        "digest = source.digest if is_of_today else winner.digest",
        "digest = source.digest",
        "A time of an older template is not this source's.",
        (EXPORT,),
    ),
)
