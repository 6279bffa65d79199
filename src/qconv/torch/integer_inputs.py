"""Lowered networks with integer inputs: a quarter of the bytes to the device, and one kernel less."""

from __future__ import annotations

from typing import Any

from qconv.integer_input import IntegerInput
from qconv.torch.arrays import name_of
from qconv.torch.lowering import copy_of
from qconv.torch.pattern import target_of

QUANTIZE = "qconv.quantize.scalar"
# The node with which torch.export checks its assumptions about the inputs, which were real numbers.
GUARDS = "_guards_fn"
# Ops that read only the size of a dynamic batch, no elements.
SIZES = ("aten.sym_size.int",)


def with_integer_inputs(lowered: Any) -> tuple[Any, dict[str, IntegerInput]]:
    """Return a module from `lower` without the `quantize` behind its inputs, and the inputs that are integers now, by
    name. Inputs with other readers stay as they are. The weights are shared."""
    module = copy_of(lowered)
    found: dict[str, IntegerInput] = {}
    reasons: list[str] = []
    for guard in [node for node in module.graph.nodes if node.target == GUARDS]:
        module.graph.erase_node(guard)
    for node in [node for node in module.graph.nodes if node.op == "placeholder"]:
        readers = [reader for reader in node.users if target_of(reader) not in SIZES]
        if len(readers) != 1 or target_of(readers[0]) != QUANTIZE:
            read = ", ".join(target_of(reader) or str(reader) for reader in readers) or "nobody"
            reasons.append(f"{node.name!r} is read by {read}, where one {QUANTIZE} alone should read it")
            continue
        (reader,) = readers
        _, scale, zero_point = reader.args
        found[node.name] = IntegerInput(name_of(reader.kwargs["out_dtype"]), float(scale), int(zero_point))
        node.meta["val"] = reader.meta.get("val")
        reader.replace_all_uses_with(node)
        module.graph.erase_node(reader)
    if not found:
        raise ValueError(f"no input can take integers: {'; '.join(reasons) or 'the network has no inputs'}")
    module.graph.lint()
    module.recompile()
    return module, found
