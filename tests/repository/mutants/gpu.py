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
        "wgmma, swizzled: eight rows lie closer",
        "templates/instruction/wgmma_swizzled.j2",
        "1024ull / 16 << 32",
        "512ull / 16 << 32",
        "Eight rows of 128 bytes lie behind the eight before.",
        (f"{SPECIAL}::test_a_few_for_the_sanitizer[wgmma]",),
        gpu=True,
    ),
    Mutant(
        "wgmma: sums of another eight",
        "templates/instruction/wgmma_sums.j2",
        "          SUMS_OF_ATOM(${ atom }),",
        "          SUMS_OF_ATOM(${ atom - 1 }),",
        "Each eight columns have sums of their own.",
        (FUSED,),
        gpu=True,
    ),
    Mutant(
        "wgmma: the compiler does not know that sums change",
        "templates/instruction/await_sums.j2",
        'asm volatile("" : "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3]));',
        "static_cast<void>(d[i][0]);",
        "It may move what reads them before the wait.",
        (FUSED,),
        gpu=True,
        equivalent="ptxas 13.0 waits by itself before it reads a sum, or says that it serializes, which "
        "tests/generator/test_nvidia_code.py reads: 300 random chains on an H200 gave the same bits.",
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
        ("tests/qconv/arithmetic/test_activation.py",),
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
        "torch: numbers of conversions lie in PyTorch's memory",
        "src/qconv/torch/conversion.py",
        "device.upload(np.full(1, value, ELEMENT_TYPES[name_of(dtype)].numpy))",
        "array_of(torch.full((1,), value, dtype=dtype, device=place))",
        "Where a graph is about to be captured it is the graph's, and nothing may stay there.",
        ("tests/qconv/torch/test_library_gpu.py::test_inductor",),
        gpu=True,
    ),
)
