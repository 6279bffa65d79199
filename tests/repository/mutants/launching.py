"""Mutants of the launcher's choices: which kernel serves a device, and where an output may lie."""

from mutants.mutant import Mutant

LAUNCHER = "test_qconv_launcher.py"
CHOSEN = f"{LAUNCHER}::test_the_kernel_of_the_latest_target_that_runs_goes_before_a_tuned_one"
TAKEN = f"{LAUNCHER}::test_arrays_that_lie_beside_each_other_are_taken"
SHARED = f"{LAUNCHER}::test_an_output_over_a_byte_of_another_array_is_refused"

MUTANTS = (
    Mutant(
        "launching: another status of a thread without a context",
        "thread_context.py",
        "INVALID_CONTEXT = 201",
        "INVALID_CONTEXT = 200",
        "A session that another thread runs is refused by the driver.",
        ("qconv/device/test_thread_context.py::test_it_is_repeated_once",),
    ),
    Mutant(
        "launching: a launch in a thread without a context",
        "_plain",
        "            thread_context.give()\n",
        "",
        "The launch is refused again.",
        ("qconv/device/test_thread_context.py::test_it_is_repeated_once",),
    ),
    Mutant(
        "launching: a thread's capture ends another's",
        "thread_context.py",
        "if not driver.ctxGetCurrent():",
        "if True:",
        "cudaFree is forbidden while another thread captures.",
        ("qconv/device/test_thread_context.py::test_a_call_that_ends_captures_is_the_last_resort",),
    ),
    Mutant(
        "launcher: an output right behind an input",
        "share_bytes",
        "return begin < first + other_bytes &&",
        "return begin <= first + other_bytes &&",
        "Arrays of one buffer that share no byte are refused.",
        (TAKEN,),
    ),
    Mutant(
        "launcher: an output that ends with an input's first byte",
        "share_bytes",
        "&& first < begin + one_bytes;",
        "&& first + 1 < begin + one_bytes;",
        "A byte is written that a thread has yet to read.",
        (SHARED,),
    ),
    Mutant(
        "launcher: outputs may share memory",
        "check_aliasing",
        "if (j == i || other.role == Role::between) continue;",
        "if (other.role == Role::output || other.role == Role::between) continue;",
        "One of them holds bytes of the other.",
        (SHARED,),
    ),
    Mutant(
        "launcher: a residual of another size is an output",
        "check_aliasing",
        "if (other.may_be_output && first == begin && other.bytes == out.bytes) continue;",
        "if (other.may_be_output && first == begin) continue;",
        "Where an element is wider, a thread writes over what others have yet to read.",
        (SHARED,),
    ),
    Mutant(
        "launcher: a residual may be shifted",
        "check_aliasing",
        "if (other.may_be_output && first == begin &&",
        "if (other.may_be_output && first <= begin &&",
        "An output is written over the residual of another.",
        (SHARED,),
    ),
    Mutant(
        "launcher: half of an alignment",
        "check_alignment",
        "% tensor.alignment != 0)",
        "% (tensor.alignment / 2) != 0)",
        "A load of 16 bytes from between two of them is an error of the device.",
        (SHARED,),
    ),
    Mutant(
        "launcher: one tuned here for a lesser target",
        "chosen",
        "rank = runs > 0 ? 4 * runs + preference : 0;",
        "rank = runs > 0 ? runs + preference : 0;",
        "The device's own target has instructions that the other lacks.",
        (CHOSEN,),
    ),
    Mutant(
        "launcher: tuned here or elsewhere",
        "chosen",
        "device.name == entry.device ? 2 : entry.time_us > 0 ? 1 : 0;",
        "entry.time_us > 0 ? 1 : 0;",
        "What was fastest on another device is launched.",
        (CHOSEN,),
    ),
    Mutant(
        "launcher: a default before one tuned elsewhere",
        "chosen",
        "entry.time_us > 0 ? 1 : 0;",
        "entry.time_us > 0 ? 0 : 1;",
        "What was fastest on a like device is nearer than a guess.",
        (CHOSEN,),
    ),
    Mutant(
        "device: code for a later minor",
        "rank",
        "minor == minor_ : minor <= minor_);",
        "minor == minor_ : true);",
        "The driver refuses it.",
        (CHOSEN,),
    ),
    Mutant(
        "device: code for one capability is code for later ones",
        "rank",
        "(is_specific ? minor == minor_ : minor <= minor_);",
        "minor <= minor_;",
        "The driver refuses sm_100a on 10.3.",
        (CHOSEN,),
    ),
    Mutant(
        "device: every target that runs is as good",
        "rank",
        "return runs ? 1 + minor : 0;",
        "return runs ? 1 : 0;",
        "The latest that runs has instructions that the others lack.",
        (CHOSEN,),
    ),
    Mutant(
        "launcher: what runs elsewhere is packed",
        "qconv_pack",
        "if (device->device.rank(kernel->target) == 0)",
        "if (device->device.rank(kernel->target) < 0)",
        "The driver refuses to load it, and says nothing of targets.",
        (f"{LAUNCHER}::test_a_kernel_that_does_not_run_on_the_device_is_not_packed",),
    ),
)
