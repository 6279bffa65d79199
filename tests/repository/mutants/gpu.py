"""Mutants of what only a GPU executes: the CUDA prelude, matrix instructions. `mutate.py --gpu` plants them."""

from mutants.mutant import Mutant

CUDA = "templates/prelude/cuda.j2"
RANDOM, MATRICES = "tests/templates/test_simt_random.py", "tests/templates/test_mma_random_gpu.py"
SPECIAL, FUSED = "tests/templates/test_special_random.py", "tests/templates/test_fused_random_gpu.py"

MUTANTS = (
    Mutant(
        "dp4a: bytes of x times signed weights",
        "templates/dot/dp4a.j2",
        'asm("dp4a.s32.u32 %0',
        'asm("dp4a.s32.s32 %0',
        "An unsigned weight of 255 is not minus one.",
        (RANDOM,),
        gpu=True,
    ),
    Mutant(
        "m16n8k32: two registers of A change places",
        "templates/instruction/mma_m16n8k32.j2",
        '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])',
        '"r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3])',
        "The second register of A holds its lower rows.",
        (MATRICES,),
        gpu=True,
    ),
    Mutant(
        "wgmma: half of the way behind",
        "templates/instruction/wgmma.j2",
        "return Operand(descriptor + bytes / 16);",
        "return Operand(descriptor + bytes / 32);",
        "Descriptors count sixteen bytes.",
        (FUSED,),
        gpu=True,
    ),
    Mutant(
        "wgmma: nobody waits for the sums",
        "templates/instruction/wgmma.j2",
        '        "wgmma.wait_group.sync.aligned 0;" ::: "memory");',
        '        ::: "memory");',
        "Sums are read before they are there.",
        (FUSED,),
        gpu=True,
    ),
    Mutant(
        "cuda: the first two bytes change places",
        CUDA,
        "B0 | B1 << 4 | B2 << 8 | B3 << 12",
        "B1 | B0 << 4 | B2 << 8 | B3 << 12",
        "A byte is picked to its own place.",
        (SPECIAL,),
        gpu=True,
    ),
    Mutant(
        "cuda: a rough reciprocal",
        CUDA,
        "return __fmaf_rn(rough, __fmaf_rn(-a, rough, 1.0f), rough);",
        "return rough;",
        "The hardware's reciprocal is an approximation.",
        ("tests/qconv/test_activation.py",),
        gpu=True,
    ),
    Mutant(
        "cuda: a wait for a group too few",
        CUDA,
        '"cp.async.wait_group %0;" ::"n"(GROUPS)',
        '"cp.async.wait_group %0;" ::"n"(GROUPS + 1)',
        "A step is multiplied before it has come.",
        (MATRICES,),
        gpu=True,
    ),
    Mutant(
        "cuda mbarrier: words of a vector change places",
        "templates/prelude/cuda_mbarrier.j2",
        "v4.b32 [%0], {%1, %2, %3, %4}, [%5];",
        "v4.b32 [%0], {%2, %1, %3, %4}, [%5];",
        "Products are sent in their order.",
        (MATRICES,),
        gpu=True,
    ),
    Mutant(
        "scratch: a block arrives before its threads have added",
        "templates/combine/scratch.j2",
        "    tile::publish();\n    tile::barrier();\n",
        "    tile::publish();\n",
        "The last block takes sums that are not all there: no block is interrupted between the two on the CPU device.",
        (MATRICES,),
        gpu=True,
    ),
)
