"""Mutants of a library beside others in a program, and of how it is built, installed and closed."""

from mutants.mutant import Mutant

HERE = "instances/library/"
CUDA = "tests/instances/library/test_device_cuda.py"
WRITE, BESIDE = "tests/instances/library/test_write.py", "tests/instances/library/test_qconv_kernels.py"

MUTANTS = (
    Mutant(
        "library: all of it is seen",
        HERE + "CMakeLists.txt.in",
        " CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON",
        "",
        "A library that is loaded beside another one shows it what is private to both.",
        (BESIDE + "::test_what_is_loaded_beside_it_is_not_taken_for_its_own",),
        slow=True,
    ),
    Mutant(
        "library: the namespace without a prefix",
        HERE + "CMakeLists.txt.in",
        " qconv=${QCONV_NAME})",
        ")",
        "A program that links two has the tables of one.",
        (BESIDE + "::test_a_program_links_both",),
        slow=True,
    ),
    Mutant(
        "library: a function without a prefix",
        HERE + "qconv_kernels.h",
        "#define qconv_tuned_on QCONV_NAMED(qconv_tuned_on)\n",
        "",
        "A program that links two asks one of them for the other's kernels.",
        (BESIDE + "::test_every_function_and_handle_has_its_prefix",),
    ),
    Mutant(
        "library: as fast as a project asks for",
        HERE + "CMakeLists.txt.in",
        " -fno-fast-math",
        "",
        "A project's flags change the bits of an op.",
        (BESIDE + "::test_a_shared_library_is_installed_with_a_self_test_that_runs",),
        slow=True,
    ),
    Mutant(
        "library: the self-test does not look beside itself",
        HERE + "CMakeLists.txt.in",
        ' PROPERTIES INSTALL_RPATH "$ORIGIN/${QCONV_FROM_BIN}"',
        ' PROPERTIES INSTALL_RPATH ""',
        "An installed self-test does not start.",
        (BESIDE + "::test_a_shared_library_is_installed_with_a_self_test_that_runs",),
        slow=True,
    ),
    Mutant(
        "library: every kernel that lies in the folder",
        HERE + "write.py",
        "  set(QCONV_KERNELS@KERNELS@)",
        "  file(GLOB QCONV_KERNELS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cpp)",
        "What an older export left in the folder is built in.",
        (BESIDE + "::test_a_folder_that_is_written_again_builds_what_it_has_now",),
    ),
    Mutant(
        "device_cuda: what is given back may throw",
        HERE + "device_cuda.h",
        "        } catch (const Failure&) {\n",
        "        } catch (const std::bad_alloc&) {\n",
        "A program that ends after the driver has is aborted.",
        (CUDA + "::test_what_is_closed_after_the_driver_ends_nothing",),
        slow=True,
    ),
    Mutant(
        "device_cpu: sizes that wrap",
        HERE + "device_cpu.h",
        "whole < bytes ? nullptr : ",
        "",
        "Memory is smaller than what was asked for.",
        (WRITE + "::test_what_is_wrong_is_refused_with_a_sentence",),
        slow=True,
    ),
    Mutant(
        "parameters: none of some",
        HERE + "qconv_parameters.h",
        "        if (first_ == nullptr && count_ > 0)",
        "        if (first_ == nullptr && count_ > 3)",
        "A null array of parameters ends the process.",
        (WRITE + "::test_what_is_wrong_is_refused_with_a_sentence",),
        slow=True,
    ),
)
