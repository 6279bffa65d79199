"""Mutants of first layers of floats: the words of wide elements in `stem`."""

from mutants.floats import RANDOM
from mutants.mutant import Mutant
from mutants.named import special, special_random

STEM, STEM_80 = f"{RANDOM}[stem-cpu.sm_90a]", f"{RANDOM}[stem-cpu.sm_80]"
WIDE = "families/stem/wide"
PLANS = "generator/test_plan.py::"

MUTANTS = (
    Mutant(
        "stem of bytes: the rows of a filter are not dilated",
        "families/stem/bytes/offset.j2",
        "(row < R ? row : 0) * DILATION_H * PITCH",
        "(row < R ? row : 0) * PITCH",
        "Rows of taps lie DILATION_H rows apart.",
        (special_random("stem"),),
    ),
    Mutant(
        "stem of bytes: the second eight pixels are the first",
        "families/stem/bytes/multiply.j2",
        "+ i % 2 * ON]",
        "+ 0 * ON]",
        "A lane has two pixels.",
        (special_random("stem"),),
    ),
    Mutant(
        "stem floats: windows begin at a multiple of four pixels",
        f"{WIDE}/load.j2",
        "(tile.column * STRIDE_W - PAD_LEFT) & 3; }",
        "0 * tile.column; }",
        "A tile's first window begins up to three pixels behind the first that is loaded.",
        (special("stem, halves"),),
    ),
    Mutant(
        "stem floats: a word begins with the lower half of the first that it lies in",
        f"{WIDE}/load.j2",
        "tile::pick<2, 3, 4, 5>(vector.word[first], vector.word[first + 1])",
        "vector.word[first]",
        "Every second pixel of three channels begins in the middle of a word.",
        (special("stem, halves"),),
    ),
    Mutant(
        "stem floats: elements of one word lie a byte apart",
        f"{WIDE}/load.j2",
        "|= bits << (32 / PER_WORD * (j % PER_WORD))",
        "|= bits << (8 * (j % PER_WORD))",
        "Two halves fill a word.",
        (special("stem, odd halves"),),
    ),
    Mutant(
        "stem floats: the words of a pixel have its first channels",
        f"{WIDE}/elements.j2",
        "word % PIXEL_WORDS * PER_WORD + i % CHANNELS_OF_WORD",
        "i % CHANNELS_OF_WORD",
        "Three halves are two words.",
        (special("stem, halves"), STEM),
    ),
    Mutant(
        "stem floats: a filter row goes on behind its end",
        f"{WIDE}/elements.j2",
        "r < R && s < S && c < C};",
        "r < R && c < C};",
        "Words behind the last tap meet the next row's weights.",
        (STEM, STEM_80),
    ),
    Mutant(
        "stem floats: taps that are not dilated",
        f"{WIDE}/offset.j2",
        "TAPS_OF_WORD * DILATION_W;",
        "TAPS_OF_WORD;",
        "Taps lie DILATION_W columns apart.",
        (STEM, STEM_80),
    ),
    Mutant(
        "stem floats: both halves of a step have the first word of a pair",
        f"{WIDE}/multiply.j2",
        "x[2 + i] = words.word[1];",
        "x[2 + i] = words.word[0];",
        "The second word has the other channels of the pixel.",
        (special("stem, halves"),),
    ),
    Mutant(
        "stem floats: weights of one word lie a byte apart",
        f"{WIDE}/repack.j2",
        "(32 / PER_WORD * i)",
        "(8 * i)",
        "Two halves fill a word.",
        (special("stem, halves"),),
    ),
    Mutant(
        "stem floats: bytes correct the expected time of floats",
        "generator/families/stem.py",
        "{} if plan.problem.quantization.types.sum.is_integer else",
        "{} if True else",
        "The trees are fitted to kernels of bytes.",
        ("expect/test_expect.py::test_a_layer_of_floats_is_not_corrected_by_bytes",),
    ),
    Mutant(
        "stem floats: aligned as bytes",
        "generator/families/stem.py",
        "(4 if self.quads else 1) * element",
        "4 if self.quads else 1",
        "Four halves are loaded at once.",
        (f"{PLANS}test_a_first_layer_of_floats_loads_four_pixels",),
    ),
    Mutant(
        "stem floats: the rows of a filter are rounded up whatever that costs",
        "generator/families/stem.py",
        "if of_rounded <= steps + spare else",
        "if of_rounded <= 2 * steps else",
        "A step is a twelfth of the products, at most.",
        (f"{PLANS}test_how_many_steps_a_first_layer_takes",),
    ),
)
