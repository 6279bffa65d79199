"""Mutants of models that are built for another machine."""

from mutants.mutant import Mutant

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
)
