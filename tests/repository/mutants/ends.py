"""Mutants of predicates that hold for some shapes alone: tiles that end with the image, shares that are whole."""

from mutants.mutant import Mutant
from mutants.named import special

PAGES = "templates/conv2d/"

MUTANTS = (
    Mutant(
        "depthwise: a run ends with the image",
        "templates/families/depthwise/page.j2",
        "(!PADDED && OUT_W % COLUMNS == 0) || static_cast<unsigned>(first + i) < IN_W",
        "!PADDED || static_cast<unsigned>(first + i) < IN_W",
        "A run that reaches beyond the last column reads behind the array.",
        (special("depthwise, a narrow image"),),
    ),
    Mutant(
        "depthwise: rows of a thread end with the image",
        "templates/families/depthwise/page.j2",
        "(!PADDED && OUT_H % ROWS == 0) || row < IN_H;",
        "!PADDED || row < IN_H;",
        "Rows that reach beyond the last one are read behind the array.",
        (special("depthwise, a low image"),),
    ),
    Mutant(
        "direct: columns of a tile end with the image",
        "templates/families/direct/page.j2",
        "!PADDED && OUT_H % TILE_H == 0 && OUT_W % TILE_W == 0;",
        "!PADDED && OUT_H % TILE_H == 0;",
        "A tile that reaches beyond the last column reads behind the array.",
        (special("direct, a narrow image"),),
    ),
    Mutant(
        "direct: rows of a tile end with the image",
        "templates/families/direct/page.j2",
        "!PADDED && OUT_H % TILE_H == 0 && OUT_W % TILE_W == 0;",
        "!PADDED && OUT_W % TILE_W == 0;",
        "A tile that reaches beyond the last row reads behind the array.",
        (special("direct, a low image"),),
    ),
    Mutant(
        "warpgroup: every block of a cluster has as many slabs",
        "templates/families/fused/warpgroup.j2",
        "        if (ALL_SLABS % BLOCK_SLABS != 0 && slab >= ALL_SLABS) return;\n",
        "",
        "The last block finishes channels that do not exist, over those of the next pixel.",
        ("tests/templates/test_fused_roles.py::test_the_last_block_of_a_cluster_has_fewer_slabs",),
    ),
)
