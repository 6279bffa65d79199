"""Files that nobody plants a bug in, and why."""

_GPU = "runs on a GPU only; no test here executes it: "
_NAMES = "a list of names without a line that computes"

EXCUSED = {
    "generator/stem.py": "its page asserts what follows from a plan: with another number it does not compile",
    "templates/dot/sdot4.j2": _GPU + "an emulator outside of this repository does",
    "templates/dot/sudot4.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/mfma.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/wmma.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/mma_m8n8k16.j2": _GPU + "it is compiled for sm_75",
    "templates/prelude/hip.j2": _GPU + "an emulator outside of this repository does",
    "templates/header.j2": "comments, which no compiler reads; tests/generator/test_source.py reads them",
    "templates/constants.j2": "prints what generator/plan.py declares, which has its own",
    "templates/arguments.j2": "a declaration: a wrong one does not compile, or test_export.py compares its size",
    "templates/prelude/cpu_copies.j2": "declarations of the runtime's functions: a wrong one does not link",
    "templates/entry/cpu.j2": "one call: without it nothing runs on the CPU device",
    "templates/conv2d/fold.j2": "a frame around fold_channel.j2, which has its own",
    "templates/fused/fold.j2": "a frame around conv2d/fold_channel.j2, which has its own",
    "src/qconv/conversion/__init__.py": _NAMES,
    "src/qconv/tensor_ops/__init__.py": _NAMES,
    "src/qconv/tensor_ops/ops.py": _NAMES,
    "src/qconv/network/__init__.py": _NAMES,
    "src/qconv/network/served.py": "protocols: who keeps them has its own",
    "src/qconv/torch/__init__.py": _NAMES,
    "src/qconv/reference.py": "asks the op, which has its own",
    "src/qconv/sample.py": "asks the op, which has its own",
    "tune_db/__init__.py": _NAMES,
    "tuner/__init__.py": _NAMES,
    "tuner/strategies/__init__.py": _NAMES,
    "instances/__init__.py": _NAMES,
    "instances/library/__init__.py": _NAMES,
    "instances/library/qconv_kernels.h": "declarations: a wrong one does not link, or no program can call it",
    "instances/library/qconv_table.h": "declarations of what table.py writes, which has its own",
    "instances/library/self_test_vectors.h": "declarations of what vectors.py writes, which has its own",
    "src/qconv/network/choices.py": "a declaration of fields, without a line that computes",
}
