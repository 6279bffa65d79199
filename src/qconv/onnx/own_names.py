"""The model's own names for the nodes that ONNX Runtime's optimizer has made of it, so that a report, a profile and a
refusal name what the user can find in the model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import count

import onnx

from qconv.onnx.model import Source, read_by

# ONNX Runtime appends this to the name of a node that it copies.
SUFFIX = re.compile(r"(/duplicated)?(_token_\d+)?$")


def graph_of(source: Source) -> onnx.GraphProto:
    """Return the graph of the model that the user gave; an empty one of ONNX Runtime's own format."""
    try:
        if isinstance(source, str):
            return onnx.load(source, load_external_data=False).graph
        return onnx.load_from_string(source).graph
    except Exception:  # from protobuf's reader
        return onnx.GraphProto()


def with_own_names(proto: onnx.ModelProto, before: onnx.GraphProto) -> onnx.ModelProto:
    """Name the nodes of a rewritten model as they are in the graph that the user gave."""
    if before.node:  # otherwise the names are all that there are
        with suppress(UnicodeDecodeError):  # of a name that is no text: ONNX Runtime takes it
            adopt_names(proto.graph.node, before.node, ())
    return proto


def adopt_names(nodes: Sequence[onnx.NodeProto], before: Sequence[onnx.NodeProto], taken: Collection[str]) -> None:
    """Give nodes the names that they had `before`. A node that ONNX Runtime has added has the name of the one that it
    was made for, with a number behind it. Names that are `taken` are not given again."""
    makers = {name: _name_of(node) for node in before for name in node.output if name}
    own = {_name_of(node) for node in before}
    kept = [node.name if node.name in own else _maker(node, makers) for node in nodes]
    names = [name or _copied(node, own) for node, name in zip(nodes, kept, strict=True)]
    made = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    for at in reversed(range(len(nodes))):  # from a reader, such as the end of a function
        for name in read_by(nodes[at]):
            if name in made and names[made[name]] is None:
                names[made[name]] = names[at]
    for at, node in enumerate(nodes):  # from a maker, where nothing reads it
        sources = (names[made[name]] for name in read_by(node) if name in made)
        names[at] = names[at] or next(filter(None, sources), None)
    given = set(taken)
    for at in sorted(range(len(nodes)), key=lambda at: kept[at] is None):
        unique = (f"{names[at]}#{number}" if number > 1 else names[at] or "" for number in count(1))
        if names[at]:
            nodes[at].name = next(one for one in unique if one not in given)
        given.add(nodes[at].name)


def _maker(node: onnx.NodeProto, makers: dict[str, str]) -> str | None:
    """Return the name of the node that made the same tensor before."""
    return next((makers[name] for name in node.output if name in makers), None)


def _copied(node: onnx.NodeProto, own: set[str]) -> str | None:
    """Return the name of the node of which this one is a copy."""
    name = SUFFIX.sub("", node.name) if isinstance(node.name, str) else ""
    return name if name in own else None


def _name_of(node: onnx.NodeProto) -> str:
    """Return the name of a node, else of its first output. Protobuf has bytes for invalid UTF-8, and takes none."""
    names = (node.name, *node.output, node.op_type)
    return next((name for name in names if name and isinstance(name, str)), "")
