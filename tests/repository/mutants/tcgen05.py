"""Mutants of the family tcgen05: its page, its plan, its cost, what it shares with wgmma, and tensor memory on the CPU
device."""

from mutants.mutant import Mutant
from mutants.named import special_random

PAGES = "templates/conv2d/"
TESTS = "tests/templates/test_tcgen05.py"
COST = "tests/generator/families/tcgen05/test_cost.py"
CODE = "tests/generator/test_nvidia_code.py"
MEMORY = "src/qconv/device/cpu_tensor_memory.h"
CHANNELS, PIXELS, ODD, SUMS = (
    f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("channels", "pixels", "odd", "sums")
)


def found(name: str) -> str:
    """What the CPU device finds in a page that lacks it."""
    return f"{TESTS}::test_what_is_left_out_is_found[{name}]"


OF_PAGE = (
    Mutant(
        "tcgen05: slabs are multiplied before they are there",
        "templates/families/tcgen05/page.j2",
        "            shared.slabs.wait(at);\n",
        "",
        "Their bytes may be on their way.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: a thread says that slots are empty",
        "templates/families/tcgen05/page.j2",
        "            tile::commit_products(shared.slabs.empty[at.slot]);\n",
        "            tile::fence_before_thread_sync();\n            shared.slabs.release(at);\n",
        "Products that it has asked for still read them.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: accumulators are full a slab early",
        "templates/families/tcgen05/page.j2",
        "            const Operand pixels(",
        "            if (slab == SLABS - 1) shared.accumulators.commit(accumulator);\n"
        "            const Operand pixels(",
        "The last slab's products are not among those that the commit tracks.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: products go to the accumulator that is written",
        "templates/families/tcgen05/page.j2",
        "        shared.accumulators.acquire(accumulator);\n",
        "",
        "Its sums are not in registers yet.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: one accumulator",
        "templates/families/tcgen05/page.j2",
        "const unsigned sums = tensor_memory + accumulator.slot * ACCUMULATOR;",
        "const unsigned sums = tensor_memory;",
        "The epilogue finds the sums of every other tile in the second.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: the first warp's release empties an accumulator",
        "templates/families/tcgen05/page.j2",
        "open(4 * WRITERS);  // the warps",
        "open(1);  // the warps",
        "Each warp has lanes of its own.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: an accumulator is released while lanes load",
        "templates/families/tcgen05/page.j2",
        "                tile::warp_barrier();  // all lanes have theirs\n",
        "",
        "One lane says so for all of them.",
        (f"{TESTS}::test_nothing_is_found[channels-thread-2]",),
    ),
    Mutant(
        "tcgen05: sums are used before they are loaded",
        "templates/families/tcgen05/page.j2",
        "            tile::wait_for_sums(sums);\n",
        "",
        "Loads from tensor memory are asynchronous.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: the second warpgroup writes the first one's strips",
        "templates/families/tcgen05/page.j2",
        "first_strip = warp / 4;",
        "first_strip = warp / 8;",
        "They divide a tile.",
        (CHANNELS, SUMS),
    ),
    Mutant(
        "tcgen05: no fence behind the wait for a slab",
        "templates/families/tcgen05/page.j2",
        "            tile::fence_after_thread_sync();\n            const Operand",
        "            const Operand",
        "Tensor memory is used behind a wait.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: no fence before the last barrier",
        "templates/families/tcgen05/page.j2",
        "    tile::fence_before_thread_sync();\n    tile::barrier();  // all sums",
        "    tile::barrier();  // all sums",
        "Tensor memory is freed behind it.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: a block ends before its slots are told to be empty",
        "templates/families/tcgen05/page.j2",
        "    shared.slabs.drain(at);\n",
        "",
        "What tells it arrives in shared memory that another block may have by then.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: pixels are asked for before the launch before has ended",
        "templates/families/tcgen05/page.j2",
        "            tile::wait_on_dependency();\n",
        "",
        "They are outputs of the launch before.",
        (f"{TESTS}::test_a_launch_waits_for_the_one_before",),
    ),
    Mutant(
        "tcgen05: weights of another tap",
        "templates/families/tcgen05/page.j2",
        "(r * S + s) * C + c, channel",
        "(s * R + r) * C + c, channel",
        "Taps follow each other along a row of the filter.",
        (PIXELS,),
    ),
    Mutant(
        "tcgen05: an accumulator is read at once",
        "templates/pipeline/accumulators.j2",
        "        full[state.slot].wait_for_phase(state.phase);\n",
        "",
        "Its products may be under way.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: an accumulator is written again a use too early",
        "templates/pipeline/accumulators.j2",
        "if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);",
        "if (state.phase > 1) empty[state.slot].wait_for_phase(state.phase - 2);",
        "The use before is the one that must be over.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: channels past the last are written",
        "templates/families/tcgen05/outputs.j2",
        "        if (!WHOLE_TILES && k + at >= K) return;\n",
        "",
        "The last tile reaches beyond the channels.",
        (f"{TESTS}::test_nothing_is_found[odd-address-2]",),
    ),
    Mutant(
        "tcgen05: the first channels' parameters",
        "templates/families/tcgen05/outputs.j2",
        "load_channels(args, k + at, channels);",
        "load_channels(args, k, channels);",
        "Every channel has its own.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: a descriptor of another distance",
        "templates/instruction/tcgen05.j2",
        "EIGHT_ROWS = 8 * SLAB",
        "EIGHT_ROWS = 4 * SLAB",
        "Eight rows lie behind the eight before.",
        (CHANNELS,),
    ),
    Mutant(
        "tcgen05: the signs of x for those of w",
        "templates/instruction/tcgen05.j2",
        "(W_SIGNED ? 1u : 0u) << 10",
        "(X_SIGNED ? 1u : 0u) << 10",
        "Each factor has a bit of its own.",
        (PIXELS,),
    ),
)

OF_PLAN = (
    Mutant(
        "tcgen05 plan: room for one accumulator",
        "generator/families/tcgen05/plan.py",
        "columns=instruction.allocated(columns),",
        "columns=instruction.allocated(columns // 2),",
        "Two take turns.",
        (f"{TESTS}::test_columns_of_tensor_memory",),
    ),
    Mutant(
        "tcgen05 plan: the last pixels have no tile",
        "generator/families/tcgen05/plan.py",
        "tiles = channel_tiles * ceil_div(problem.pixels, config.pixels)",
        "tiles = channel_tiles * max(1, problem.pixels // config.pixels)",
        "The last tile has the pixels that fill no other.",
        (special_random("tcgen05"), ODD),
    ),
    Mutant(
        "tcgen05 plan: a warpgroup may have less to write",
        "generator/families/tcgen05/plan.py",
        "if config.strips % config.writers:",
        "if config.strips < config.writers:",
        "It would release an accumulator that it has not read, or wait for one that nobody releases.",
        (f"{TESTS}::test_configs_that_make_no_sense",),
    ),
    Mutant(
        "persistent: borders of the image are inner pixels",
        "generator/persistent.py",
        "Borders.of(self.problem) if pads_with_zero_point(self.problem) else None",
        "None",
        "The copy engine pads with zeros, and not with the zero point.",
        (PIXELS,),
    ),
    Mutant(
        "slabs: weights are not swizzled",
        "generator/slabs.py",
        "channels, slab, swizzle=slab)",
        "channels, slab)",
        "The products read them as swizzled.",
        (CHANNELS,),
    ),
    Mutant(
        "persistent: channels that are no whole sixteens",
        "generator/persistent.py",
        "if problem.c % CHUNK:",
        "if problem.c % 8:",
        "The copy engine has no such rows.",
        (f"{TESTS}::test_what_it_does_not_serve",),
    ),
    Mutant(
        "tcgen05 cost: writing overlaps nothing",
        "generator/families/tcgen05/cost.py",
        "rounds * max(multiplied, written) + min(multiplied, written)",
        "rounds * (multiplied + written)",
        "One accumulator is written while the other is multiplied.",
        (COST,),
    ),
    Mutant(
        "tcgen05 cost: the last wave is free",
        "generator/families/tcgen05/cost.py",
        "rounds = ceil_div(plan.tiles, plan.target.processors)",
        "rounds = plan.tiles / plan.target.processors",
        "Multiprocessors without a tile wait for the others.",
        (f"{COST}::test_waves_are_whole",),
    ),
    Mutant(
        "tcgen05 cost: the rate of a Hopper",
        "generator/families/tcgen05/cost.py",
        "PRODUCTS = 8192",
        "PRODUCTS = 4096",
        "A multiprocessor of a B200 makes twice as many.",
        (f"{COST}::test_the_rate_is_the_data_sheets",),
    ),
    Mutant(
        "tensor memory: allocations of any size",
        "src/qconv/targets/instruction.py",
        "return max(self.least_columns, 1 << (columns - 1).bit_length())",
        "return max(self.least_columns, columns)",
        "The hardware allocates powers of two.",
        (f"{TESTS}::test_columns_of_tensor_memory",),
    ),
)

OF_MEMORY = (
    Mutant(
        "tensor memory: products are early in every launch",
        MEMORY,
        "if (late_) queue_.push_back({product, nullptr});",
        "if (false) queue_.push_back({product, nullptr});",
        "A slot that is overwritten too early would not show.",
        (found("that the tensor core empties a slot"),),
    ),
    Mutant(
        "tensor memory: what a commit tells arrives whether somebody waits or not",
        MEMORY,
        "else if (waited(operation.mbarrier)) return operation.mbarrier;",
        "else if (true) return operation.mbarrier;",
        "A block that ends before would not show.",
        (found("that the last slots are emptied"),),
    ),
    Mutant(
        "tensor memory: it always begins at column 0",
        MEMORY,
        "first_ = static_cast<unsigned>(chance",
        "first_ = static_cast<unsigned>(0 * chance",
        "A page that does not ask where it begins would not show.",
        (found("where tensor memory begins"),),
    ),
    Mutant(
        "tensor memory: a warp reaches all lanes",
        MEMORY,
        "if (address >> 16 != thread / 32 % 4 * 32) return",
        "if (address >> 16 > 96) return",
        "A load from lanes of another warp would not show.",
        (found("the lanes of a warp"),),
    ),
    Mutant(
        "tensor memory: nobody needs to wait for loads",
        MEMORY,
        'if (!threads_[thread].loads.empty()) return "an arrival',
        'if (false) return "an arrival',
        "Sums that are overwritten while they are loaded would not show.",
        (found("that a tile's sums are in registers"),),
    ),
    Mutant(
        "tensor memory: no fence is needed behind a wait",
        MEMORY,
        "if (!threads_.empty()) threads_[thread].has_met = true;",
        "",
        "A fence that is left out would not show.",
        (found("the fence behind the wait for a slab"), found("the fence behind the wait for sums")),
    ),
    Mutant(
        "tensor memory: no fence is needed before an arrival",
        MEMORY,
        "threads_[thread].has_used = true;",
        "",
        "A fence that is left out would not show.",
        (found("the fence before the release"),),
    ),
    Mutant(
        "tensor memory: a block may keep it",
        MEMORY,
        'return columns_ == 0 ? nullptr : "',
        'return true ? nullptr : "',
        "The next block of the multiprocessor would wait forever.",
        (found("that tensor memory is freed"),),
    ),
    Mutant(
        "tensor memory: products of other threads' sums",
        MEMORY,
        "observe_write(cell(lane, first), columns * sizeof(int));",
        "observe_read(cell(lane, first), columns * sizeof(int));",
        "Loads that race with products would not show.",
        (f"{TESTS}::test_planted_bugs_are_found[an accumulator is released while lanes load]",),
    ),
    Mutant(
        "tensor memory: chunks are where they were",
        MEMORY,
        "(row_bytes() / 16 - 1)",
        "(row_bytes() / 32 - 1)",
        "A swizzle of 128 bytes exchanges eight chunks.",
        (CHANNELS,),
    ),
    Mutant(
        "tensor memory on the CPU: sums are there without a wait",
        "templates/prelude/cpu_tensor_memory.j2",
        "    qconv_cpu_tensor_wait_for_loads();\n",
        "",
        "The emulation gives them to who waits.",
        (CHANNELS,),
    ),
    Mutant(
        "tensor memory on a GPU: the lane that works is compared with",
        "templates/prelude/cuda_tensor_memory.j2",
        "    return is_elected != 0;",
        "    return lane() == 0;",
        "ptxas makes a loop of every product.",
        (f"{CODE}::test_products_in_tensor_memory_are_asked_for_once",),
        needs="cupy",
    ),
)

MUTANTS = (*OF_PAGE, *OF_PLAN, *OF_MEMORY)
