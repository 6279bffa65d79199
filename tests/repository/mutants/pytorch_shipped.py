"""Mutants of lowered graphs that are exported for C++."""

from mutants.mutant import Mutant

SHIP, SHIPPABLE = "torch/test_ship.py", "torch/test_shippable.py"

MUTANTS = (
    Mutant(
        "torch shippable: what stays in PyTorch is left out",
        "check_lowered",
        "if row.op is None}",
        "if False}",
        "Floats that PyTorch computes would be an expression, with other bits, and nobody would know.",
        (f"{SHIPPABLE}::test_what_stays_in_pytorch_is_named",),
    ),
    Mutant(
        "torch shippable: the tensors of expressions have the names of another's",
        "_Reading._expression",
        'f"{node.name}.{name}" for name',
        'f"{name}" for name',
        "The second expression would read the tensors of the first.",
        (f"{SHIPPABLE}::test_its_bits",),
    ),
    Mutant(
        "torch shippable: conversions are ONNX Runtime's",
        "_Reading._conversion",
        'mode=given["mode"], ',
        "",
        "A division rounds other ties than PyTorch's multiplication by the reciprocal.",
        (f"{SHIPPABLE}::test_conversions_at_the_ends_are_those_of_the_graph",),
    ),
    Mutant(
        "torch shippable: a conversion has its type's whole range",
        "_Reading._conversion",
        ", limits=limits",
        "",
        "An observer's narrow range is a part of the graph.",
        (f"{SHIPPABLE}::test_conversions_at_the_ends_are_those_of_the_graph",),
    ),
    Mutant(
        "torch ship: every input has the batch",
        "shapes_of",
        "(batch, *shape[1:]) if name in opened else shape",
        "(batch, *shape[1:])",
        "A table of fixed size beside the images is none of them.",
        (f"{SHIP}::test_an_input_of_fixed_size_has_no_batch",),
    ),
    Mutant(
        "export: a layer that no kernel serves is left to another runtime",
        "Runner.traced",
        "if self._prepare(served, tuple(values[name].shape for name in served.inputs)) is None:",
        "if False:",
        "The reason would be lost.",
        ("ship/test_network_export.py::test_a_layer_without_a_kernel_for_its_shape_is_named",),
    ),
    Mutant(
        "arguments: an open device is not one",
        "place_of",
        'if hasattr(device, "upload"):',
        "if False:",
        "A network that is traced would run on the CPU device.",
        (f"{SHIPPABLE}::test_its_bits",),
    ),
)
