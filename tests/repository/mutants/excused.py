"""Files that nobody plants a bug in, and why."""

_GPU = "runs on a GPU only; no test here executes it: "
_NAMES = "a list of names without a line that computes"

EXCUSED = {
    "templates/dot/sdot4.j2": _GPU + "an emulator outside of this repository does",
    "templates/dot/sudot4.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/mfma.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/wmma.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/mma_m8n8k16.j2": _GPU + "it is compiled for sm_75",
    "templates/prelude/hip.j2": _GPU + "an emulator outside of this repository does",
    "templates/instruction/wgmma_filters.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/instruction/wgmma_filter_operands.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/instruction/wgmma_operands.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/instruction/wgmma_sum_registers.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/instruction/wgmma_under_way.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/instruction/wgmma_windows.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "templates/prelude/cuda_matrices.j2": _GPU + "it is compiled for sm_90a, and random problems run it there",
    "templates/families/stem_wgmma/rules.j2": "assertions: what they refuse, no plan asks for",
    "templates/kept_x.j2": _GPU + "on the CPU device no load moves; tests/templates/test_overlap_gpu.py runs it there",
    "templates/header.j2": "comments, which no compiler reads; tests/generator/test_source.py reads them",
    "templates/constants.j2": "prints what generator/plan.py declares, which has its own",
    "templates/arguments.j2": "a declaration: a wrong one does not compile, or test_export.py compares its size",
    "templates/prelude/cpu_copies.j2": "declarations of the runtime's functions: a wrong one does not link",
    "templates/entry/cpu.j2": "one call: without it nothing runs on the CPU device",
    "templates/convolution/fold.j2": "a frame around fold_channel.j2, which has its own",
    "templates/families/fused/fold.j2": "a frame around convolution/fold_channel.j2, which has its own",
    "src/qconv/conversion/__init__.py": _NAMES,
    "src/qconv/tensor_ops/__init__.py": _NAMES,
    "src/qconv/network/__init__.py": _NAMES,
    "src/qconv/torch/__init__.py": _NAMES,
    "src/qconv/integer_input.py": "a declaration of fields, without a line that computes",
    "tune_db/__init__.py": _NAMES,
    "instances/library/qconv_table.h": "declarations of what table.py writes, which has its own",
    "instances/library/self_test_vectors.h": "declarations of what vectors.py writes, which has its own",
}
