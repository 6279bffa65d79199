"""Mutants of the CPU device's C++: what it checks, what it orders, what it says."""

from mutants.mutant import Mutant

HERE = "src/qconv/device/"
RUNTIME, CLUSTER, MEMORY, SANITIZERS = (
    f"tests/qconv/device/test_{name}.py" for name in ("cpu_runtime", "cpu_cluster", "cpu_memory", "cpu_sanitizers")
)

MUTANTS = (
    Mutant(
        "cpu arena: what follows a block's shared memory may be read",
        HERE + "cpu_arena.h",
        "        __asan_unpoison_memory_region(shared_.of(block), shared_.bytes);\n",
        "        __asan_unpoison_memory_region(shared_.of(block), shared_.pitch);\n",
        "A kernel that reads past its shared memory passes.",
        (SANITIZERS,),
    ),
    Mutant(
        "cpu cluster: a wait for any phase",
        HERE + "cpu_cluster.h",
        "    if (phase > barrier.phases || phase + 1 < barrier.phases)\n",
        "    if (phase > barrier.phases)\n",
        "Hardware tells adjacent phases apart, and no others.",
        (CLUSTER + "::test_a_wait_is_for_this_phase_or_the_one_before",),
    ),
    Mutant(
        "cpu cluster: an address of any block",
        HERE + "cpu_cluster.h",
        "    if (block >= launch_->cluster || shared().block_of(address) != static_cast<int>(rank()))\n",
        "    if (block >= launch_->cluster)\n",
        "A block that names the place of another gets the place of nobody.",
        (CLUSTER + "::test_what_a_cluster_does_wrong_is_reported",),
    ),
    Mutant(
        "cpu context: nobody watches what a copy reads",
        HERE + "cpu_context.h",
        "        if (from != nullptr) observe_read(from, bytes);\n",
        "        if (from != nullptr) observe_read(from, 0);\n",
        "A thread that writes the source of a copy under way is a race.",
        (CLUSTER + "::test_the_thread_sanitizer_sees_what_a_copy_reads",),
    ),
    Mutant(
        "cpu launch: late ones are early",
        HERE + "cpu_launch.h",
        "    bool is_late() const { return seed % 2 == 0; }\n",
        "    bool is_late() const { return seed % 2 == 2; }\n",
        "A wait too few would show in no launch.",
        (MEMORY,),
    ),
    Mutant(
        "cpu runtime: the ABI has two fields the other way round",
        HERE + "cpu_runtime.h",
        "    unsigned grid[3], threads, cluster, warp_size, workers, seed;\n",
        "    unsigned grid[3], threads, cluster, warp_size, seed, workers;\n",
        "Python and the exported launcher pass them in this order.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu thread: those that have returned are not counted",
        HERE + "cpu_thread.h",
        "    if (returned > 0) groups.push_back(",
        "    if (returned > count) groups.push_back(",
        "Who reads of a divergence looks for the threads that are missing.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: shared memory has one poison",
        HERE + "cpu_worker.h",
        "        const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x3F);",
        "        const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x00);",
        "A result that depends on what nobody wrote would be the same each time.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: threads of a barrier may wait at different lines",
        HERE + "cpu_worker.h",
        "        if (meeting.mixed) report_deadlock();\n",
        "        if (meeting.mixed && line < 0) report_deadlock();\n",
        "Two barriers that half of the threads reach each are a deadlock on a GPU.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: seed 0 descends",
        HERE + "cpu_worker.h",
        "(seed == 0 ? count - 1 - place : place));",
        "(seed == 1 ? count - 1 - place : place));",
        "The orders of two seeds are named, and who debugs relies on them.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu harness: an argument that ends outside of its struct",
        HERE + "cpu_harness.cpp",
        "bytes > job.arguments.bytes - offset)",
        "bytes > job.arguments.bytes)",
        "The harness would write where the sanitizer then finds the kernel at fault.",
        (SANITIZERS,),
    ),
)
