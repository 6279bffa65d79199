"""Mutants of the predicates that say which tiles end with the image: without padding, those of some shapes alone."""

from mutants.mutant import Mutant
from mutants.named import special

PAGES = "templates/conv2d/"

MUTANTS = (
    Mutant(
        "depthwise: a run ends with the image",
        PAGES + "depthwise.j2",
        "(!PADDED && OUT_W % COLUMNS == 0) || static_cast<unsigned>(first + i) < IN_W",
        "!PADDED || static_cast<unsigned>(first + i) < IN_W",
        "A run that reaches beyond the last column reads behind the array.",
        (special("depthwise, a narrow image"),),
    ),
    Mutant(
        "depthwise: rows of a thread end with the image",
        PAGES + "depthwise.j2",
        "(!PADDED && OUT_H % ROWS == 0) || row < IN_H;",
        "!PADDED || row < IN_H;",
        "Rows that reach beyond the last one are read behind the array.",
        (special("depthwise, a low image"),),
    ),
    Mutant(
        "direct: columns of a tile end with the image",
        PAGES + "direct.j2",
        "!PADDED && OUT_H % TILE_H == 0 && OUT_W % TILE_W == 0;",
        "!PADDED && OUT_H % TILE_H == 0;",
        "A tile that reaches beyond the last column reads behind the array.",
        (special("direct, a narrow image"),),
    ),
    Mutant(
        "direct: rows of a tile end with the image",
        PAGES + "direct.j2",
        "!PADDED && OUT_H % TILE_H == 0 && OUT_W % TILE_W == 0;",
        "!PADDED && OUT_W % TILE_W == 0;",
        "A tile that reaches beyond the last row reads behind the array.",
        (special("direct, a low image"),),
    ),
)
