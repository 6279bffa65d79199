"""Mutants of recorded runs of a network."""

from mutants.mutant import Mutant

HERE = "src/qconv/network/"
RECORDED = "tests/qconv/network/test_recorded.py"

MUTANTS = (
    Mutant(
        "runs: the first images are replayed for ever",
        HERE + "recorded.py",
        "            value.copy_into(self._given[name].array)\n",
        "            pass\n",
        "What is given never reaches the arrays that the recording reads.",
        (RECORDED,),
    ),
    Mutant(
        "runs: the caller's own arrays are recorded",
        HERE + "recorded.py",
        "{name: value.copied() for name, value in given.items()}",
        "{name: value.with_array(value.array) for name, value in given.items()}",
        "The next run writes its images over what the caller holds.",
        (RECORDED,),
    ),
    Mutant(
        "runs: a recording turns its input once",
        HERE + "recorded.py",
        "{name: value.with_array(value.array) for name, value in self._given.items()}",
        "self._given",
        "The input that was turned when it was recorded is read for ever.",
        (RECORDED,),
    ),
    Mutant(
        "runs: the order of axes is no part of a form",
        HERE + "recorded.py",
        "(value.shape, value.dtype, value.is_channels_last)",
        "(value.shape, value.dtype, True)",
        "An array in the other order is copied as it lies.",
        (RECORDED,),
    ),
    Mutant(
        "runs: what a recording gives is not copied",
        HERE + "runner.py",
        "value.copied() if name in made else value",
        "value",
        "The next run writes over what the caller holds.",
        (RECORDED,),
    ),
    Mutant(
        "runs: every recording is kept",
        HERE + "runner.py",
        "        if len(self._recordings) > MOST_RECORDINGS:\n",
        "        if not self._recordings:\n",
        "Whoever runs images of many sizes runs out of memory.",
        (RECORDED,),
    ),
    Mutant(
        "runs: a segment is recorded anew for each run",
        HERE + "runner.py",
        "        if recorded is None:\n            recorded = Recorded",
        "        if True:\n            recorded = Recorded",
        "Every run takes as long as the second.",
        (RECORDED,),
    ),
    Mutant(
        "runs: a segment that ran elsewhere in part is recorded",
        HERE + "runner.py",
        "if all(self._ran(step) is not None for layer in segment.layers for step in self._of(layer)):",
        "if segment.layers:",
        "A graph of launches cannot ask ONNX Runtime.",
        (RECORDED,),
    ),
    Mutant(
        "runs: a tensor between two layers is kept to the end",
        HERE + "runner.py",
        "                    held.pop(name, None)\n",
        "                    pass\n",
        "A recording takes the memory of all of its tensors together.",
        (RECORDED,),
    ),
    Mutant(
        "runs: what is wanted within a segment is forgotten",
        HERE + "runner.py",
        "dict.fromkeys((*segment.outputs, *asked))",
        "segment.outputs",
        "Only tensors that leave a segment could be asked for.",
        ("tests/qconv/onnx/test_session.py::test_a_network",),
    ),
    Mutant(
        "runs: on the CPU device a replay leaves its arrays as they were",
        "src/qconv/device/cpu.py",
        "                self.copy(made, array)\n",
        "                pass\n",
        "A replay gives what was recorded.",
        (RECORDED,),
    ),
    Mutant(
        "runs: a recording forgets what its launches read",
        HERE + "recorded.py",
        "self._kept = tuple(prepared)",
        "self._kept = ()",
        "Packed weights of a shape are freed behind others, and the graph reads their memory.",
        (RECORDED,),
    ),
    Mutant(
        "runs: the shapes of what ran elsewhere are not seen",
        HERE + "runner.py",
        "        for name, value in zip(served.inputs, inputs, strict=True):\n",
        "        for name, value in ():\n",
        "A segment is judged by the shapes of an earlier run.",
        (RECORDED,),
    ),
)
