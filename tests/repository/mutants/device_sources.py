"""Mutants of the CPU device's C++: what it checks, what it orders, what it says."""

from mutants.mutant import Mutant

RUNTIME, CLUSTER, MEMORY, SANITIZERS = (
    f"device/test_{name}.py" for name in ("cpu_runtime", "cpu_cluster", "cpu_memory", "cpu_sanitizers")
)

MUTANTS = (
    Mutant(
        "disassembly: kernels of the CPU have no instructions",
        "device/disassembly",
        '"isa": ("amd", "cpu")',
        '"isa": ("amd",)',
        "Where there is no GPU, nobody sees the machine code of a kernel.",
        ("test_disassembly.py::test_a_kernel_has_the_forms_of_its_vendor",),
    ),
    Mutant(
        "cpu arena: what follows a block's shared memory may be read",
        "mark_redzones",
        "__asan_unpoison_memory_region(shared_.of(block), shared_.bytes);",
        "__asan_unpoison_memory_region(shared_.of(block), shared_.pitch);",
        "A kernel that reads past its shared memory passes.",
        (SANITIZERS,),
    ),
    Mutant(
        "cpu cluster: a wait for any phase",
        "wait",
        "if (phase > barrier.phases || phase + 1 < barrier.phases)",
        "if (phase > barrier.phases)",
        "Hardware tells adjacent phases apart, and no others.",
        (CLUSTER + "::test_a_wait_is_for_this_phase_or_the_one_before",),
    ),
    Mutant(
        "cpu cluster: an address of any block",
        "in_block",
        "if (block >= launch_->cluster || shared().block_of(address) != static_cast<int>(rank()))",
        "if (block >= launch_->cluster)",
        "A block that names the place of another gets the place of nobody.",
        (CLUSTER + "::test_what_a_cluster_does_wrong_is_reported",),
    ),
    Mutant(
        "cpu context: nobody watches what a copy reads",
        "act_as",
        "if (from != nullptr) observe_read(from, bytes);",
        "if (from != nullptr) observe_read(from, 0);",
        "A thread that writes the source of a copy under way is a race.",
        (CLUSTER + "::test_the_thread_sanitizer_sees_what_a_copy_reads",),
    ),
    Mutant(
        "cpu launch: late ones are early",
        "is_late",
        "bool is_late() const { return seed % 2 == 0; }",
        "bool is_late() const { return seed % 2 == 2; }",
        "A wait too few would show in no launch.",
        (MEMORY,),
    ),
    Mutant(
        "cpu runtime: the ABI has two fields the other way round",
        "qconv_cpu_grid",
        "unsigned grid[3], threads, cluster, warp_size, workers, seed;",
        "unsigned grid[3], threads, cluster, warp_size, seed, workers;",
        "Python and the exported launcher pass them in this order.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu thread: those that have returned are not counted",
        "describe",
        "if (returned > 0) groups.push_back(",
        "if (returned > count) groups.push_back(",
        "Who reads of a divergence looks for the threads that are missing.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: shared memory has one poison",
        "run_cluster",
        "const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x3F);",
        "const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x00);",
        "A result that depends on what nobody wrote would be the same each time.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: threads of a barrier may wait at different lines",
        "meet",
        "if (meeting.mixed) report_deadlock();",
        "if (meeting.mixed && line < 0) report_deadlock();",
        "Two barriers that half of the threads reach each are a deadlock on a GPU.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu worker: seed 0 descends",
        "ready",
        "(seed == 0 ? count - 1 - place : place));",
        "(seed == 1 ? count - 1 - place : place));",
        "The orders of two seeds are named, and who debugs relies on them.",
        (RUNTIME,),
    ),
    Mutant(
        "cpu harness: an argument that ends outside of its struct",
        "argument",
        "bytes > job.arguments.bytes - offset)",
        "bytes > job.arguments.bytes)",
        "The harness would write where the sanitizer then finds the kernel at fault.",
        (SANITIZERS,),
    ),
)
