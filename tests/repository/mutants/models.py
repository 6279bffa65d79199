"""Mutants of models that are built for another machine."""

from mutants.mutant import Mutant

RESIZING, RESIZED = "src/qconv/onnx/resizing.py", "tests/qconv/onnx/test_resizing.py"
INPUTS, INTEGERS = "src/qconv/onnx/integer_inputs.py", "tests/qconv/onnx/test_integer_inputs.py"
BUILT, DEPLOYED = "tests/qconv/onnx/test_built.py", "tests/instances/test_deployed.py"

MUTANTS = (
    Mutant(
        "models: a changed file is loaded",
        "instances/deployed.py",
        "if there.get(name) != digest:",
        "if name not in there:",
        "A binary that somebody changed runs.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: a folder of another target is loaded",
        "instances/deployed.py",
        'if manifest["target"] != device.target.name:',
        "if False:",
        "The driver refuses its binaries, if all goes well.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: anybody may have written a folder",
        "instances/deployed.py",
        "        folders.Layer(folder).check_all(folder / MANIFEST)\n",
        "",
        "Whoever can write it makes us run anything.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: kernels of another version are launched",
        "instances/deployed.py",
        'if rendered.digest != chosen["digest"] or not there:',
        "if False:",
        "The arguments are another version's.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: the user's cache is asked too",
        "src/qconv/device/folders.py",
        "        return chosen\n",
        "        pass\n",
        "What runs is not what was built.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: a folder answers for ever",
        "instances/serving.py",
        "        _instead.reset(token)\n",
        "        pass\n",
        "Other sessions find no kernels.",
        (DEPLOYED,),
    ),
    Mutant(
        "models: what was decided is forgotten",
        "src/qconv/onnx/built.py",
        'spans = tuple((begin, end) for begin, end in one["fused"])',
        "spans = ()",
        "Kernels are asked for that the folder does not have.",
        (BUILT,),
    ),
    Mutant(
        "models: extents that are no batch stay open",
        "src/qconv/onnx/built.py",
        '            if not dim.HasField("dim_value"):\n',
        "            if False:\n",
        "No kernel is built, and nobody says why.",
        (BUILT,),
    ),
    Mutant(
        "models: an input that others read as well takes integers",
        INPUTS,
        "if others or len(readers) != 1:",
        "if len(readers) == len(others):",
        "Who reads real numbers gets integers.",
        (f"{INTEGERS}::test_an_input_that_has_to_stay_is_named",),
    ),
    Mutant(
        "models: integers without a zero point are int8",
        INPUTS,
        'if stated else "uint8"',
        'if stated else "int8"',
        "ONNX says uint8 where nothing is said.",
        (f"{INTEGERS}::test_what_it_says_of_an_input",),
    ),
    Mutant(
        "models: integers are as far from zero as they are",
        INPUTS,
        "return int(zero_point[0].reshape(())) if zero_point else 0",
        "return 0",
        "The caller quantizes with another zero point than the network has.",
        (INTEGERS,),
    ),
    Mutant(
        "models: a Resize has its channels first wherever it is",
        RESIZING,
        "return not stays and all(",
        "return False and all(",
        "Beside quantized layers, bytes are one off.",
        (RESIZED + "::test_beside_a_convolution",),
    ),
    Mutant(
        "models: what says nothing of an order of axes says that they are turned",
        RESIZING,
        "return not stays and all(",
        "return all(",
        "Beside layers in floats, bytes are one off.",
        (RESIZED + "::test_where_nothing_is_quantized_beside_it",),
    ),
    Mutant(
        "models: a Resize is optimized with its neighbours",
        "src/qconv/onnx/fallback.py",
        'lambda layer: layer.name if layer.name in self._alone else ""',
        'lambda layer: ""',
        "ONNX Runtime moves the channels of the part back.",
        (RESIZED + "::test_behind_a_layer_that_runs_elsewhere_as_well",),
    ),
)
