"""Mutants of the ONNX backend: its nodes, its graph, what a session is asked for."""

from mutants.mutant import Mutant

HERE = "src/qconv/onnx/"
GRAPH, ASKED = "tests/qconv/onnx/test_graph.py", "tests/qconv/onnx/test_asked.py"
SUMMING, SHAPES, SESSION = (f"tests/qconv/onnx/test_{name}.py" for name in ("summing", "shapes", "session"))

MUTANTS = (
    Mutant(
        "backend: every device is here",
        HERE + "__init__.py",
        '        return _spec(device) in ("cpu", *gpu_specs())\n',
        "        return bool(_spec(device))\n",
        "A device that is not here is refused before a model is read.",
        (GRAPH + "::test_devices",),
    ),
    Mutant(
        "asked: a provider that is not installed",
        HERE + "asked.py",
        "        if name not in there:\n",
        "        if not name:\n",
        "ONNX Runtime takes another provider with a warning that nobody reads.",
        (ASKED + "::test_what_is_asked_for_wrongly_is_refused",),
    ),
    Mutant(
        "asked: strict is any value",
        HERE + "asked.py",
        "    if not isinstance(strict, bool):\n",
        "    if strict is None:\n",
        "A word such as 'false' is true.",
        (ASKED + "::test_what_is_asked_for_wrongly_is_refused",),
    ),
    Mutant(
        "backend convolution: groups are left out",
        HERE + "convolution.py",
        'groups=int(self._given.get("group", 1))',
        "groups=1",
        "Each group of channels has filters of its own.",
        (GRAPH + "::test_qlinearconv_is_onnx_runtime",),
    ),
    Mutant(
        "backend convolution: one axis comes back as two",
        HERE + "convolution.py",
        "        return [y if len(x.shape) == 4 else y.reshape((*y.shape[:2], y.shape[3]))]\n",
        "        return [y]\n",
        "An output of one axis has three dimensions.",
        (GRAPH + "::test_convinteger_of_one_axis",),
    ),
    Mutant(
        "graph: inputs with a default are required",
        HERE + "graph.py",
        "        required = [name for name in self._inputs if name not in self.constants]\n",
        "        required = list(self._inputs)\n",
        "An input that has an initializer may be left out.",
        (GRAPH + "::test_inputs_with_a_default_may_be_left_out",),
    ),
    Mutant(
        "graph: an input of any type",
        HERE + "graph.py",
        "        if str(array.dtype) != type_name(declared.elem_type):\n",
        "        if array.dtype.itemsize == 0:\n",
        "Bytes of another type are read as if they were the model's.",
        (GRAPH + "::test_a_wrong_input_is_refused",),
    ),
    Mutant(
        "linear: the zero point is left out",
        HERE + "linear.py",
        "        return None if zero is None or not zero.on_host.any() else zero.on_device\n",
        "        return None\n",
        "A zero point moves all outputs.",
        (GRAPH + "::test_quantize_and_dequantize_per_axis",),
    ),
    Mutant(
        "linear: the axis is the first one",
        HERE + "linear.py",
        'else int(self._given.get("axis", 1))',
        "else 0",
        "Scales lie along the axis that the node names.",
        (GRAPH + "::test_quantize_and_dequantize_per_axis",),
    ),
    Mutant(
        "node: an input of any type",
        HERE + "node.py",
        "        elif value.dtype not in types:\n",
        "        elif not types:\n",
        "A kernel reads bytes of another type, or none is found where the node runs.",
        (GRAPH + "::test_what_is_not_supported_is_refused_by_name",),
    ),
    Mutant(
        "summing: the way back is none",
        HERE + "summing.py",
        "    back = [left.index(axis) for axis in sorted(left)]\n",
        "    back = [*range(len(left))]\n",
        "What follows a sum with the channels last finds them elsewhere.",
        (SUMMING,),
    ),
    Mutant(
        "tensor: unsigned shorts are signed",
        HERE + "tensor.py",
        '    TensorProto.UINT16: "uint16",\n',
        '    TensorProto.UINT16: "int16",\n',
        "The upper half of their range is negative.",
        (GRAPH,),
    ),
)
