"""Files that nobody plants a bug in, each by the end of its path, and why."""

_GPU = "runs on a GPU only; no test here executes it: "
_NAMES = "a list of names without a line that computes"

EXCUSED = {
    "sdot4.j2": _GPU + "an emulator outside of this repository does",
    "sudot4.j2": _GPU + "an emulator outside of this repository does",
    "instruction/mfma.j2": _GPU + "an emulator outside of this repository does",
    "wmma.j2": _GPU + "an emulator outside of this repository does",
    "instruction/mma_m8n8k16.j2": _GPU + "it is compiled for sm_75",
    "hip.j2": _GPU + "an emulator outside of this repository does",
    "wgmma_filters.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "wgmma_filter_operands.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "wgmma_operands.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "wgmma_sum_registers.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "wgmma_under_way.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "wgmma_windows.j2": _GPU + "it is compiled for sm_90a, and golden sources have it",
    "cuda_matrices.j2": _GPU + "it is compiled for sm_90a, and random problems run it there",
    "rules.j2": "assertions: what they refuse, no plan asks for",
    "kept_x.j2": _GPU + "on the CPU device no load moves; tests/templates/test_overlap_gpu.py runs it there",
    "header.j2": "comments, which no compiler reads; tests/generator/test_source.py reads them",
    "constants.j2": "prints what generator/plan.py declares, which has its own",
    "arguments.j2": "a declaration: a wrong one does not compile, or test_export.py compares its size",
    "cpu_copies.j2": "declarations of the runtime's functions: a wrong one does not link",
    "entry/cpu.j2": "one call: without it nothing runs on the CPU device",
    "convolution/fold.j2": "a frame around fold_channel.j2, which has its own",
    "fused/fold.j2": "a frame around convolution/fold_channel.j2, which has its own",
    "qconv/conversion/__init__.py": _NAMES,
    "qconv/tensor_ops/__init__.py": _NAMES,
    "network/__init__.py": _NAMES,
    "torch/__init__.py": _NAMES,
    "integer_input.py": "a declaration of fields, without a line that computes",
    "tune_db/__init__.py": _NAMES,
    "qconv_table.h": "declarations of what table.py writes, which has its own",
    "self_test_vectors.h": "declarations of what vectors.py writes, which has its own",
}
