"""The ops between convolutions on the command line: the options of each."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from qconv.cli.command_line import commands
from qconv.ops.registry import OPS

IMAGE = "--n 2 --h 9 --w 9 --c 16"
ASKED = {
    "add --shape 2,8,8,16 --b-shape 16 --activation relu": "repeat=128:inner=16:a_type=int8:b_type=int8:out_type=int8:",
    "add --shape 64 --a-type uint8": "add:outer=1:repeat=1:inner=64:a_type=uint8:b_type=int8",
    "mul --shape 2,8,8,16 --b-shape 2,1,1,16": "mul:outer=2:repeat=64:inner=16",
    "table --shape 4,1000 --out-type uint8": "table:elements=4000:x_type=int8:out_type=uint8",
    "concat --rows 9 --widths 16,8 --strides 24,8 --tables 0,1": (
        "concat:rows=9:widths=16,8:strides=24,8:tables=0,1:x_type=int8"
    ),
    f"max_pool {IMAGE} --r 3 --s 3 --stride 2 --pad 1 --ceil-mode --dilation 1,2": (
        "stride=2,2:pad=1,1,1,1:ceil_mode:x_type=int8:dilation=1,2"
    ),
    f"average_pool {IMAGE} --r 3 --s 3 --count-include-pad": "r=3:s=3:x_type=int8:out_type=int8:count_include_pad",
    "channel_shuffle --rows 49 --c 116 --groups 2": "channel_shuffle:rows=49:groups=2:width=58:x_type=int8",
    "argmax --shape 2,8,8,19 --axis -1 --last": "argmax:outer=128:length=19:inner=1:last:x_type=int8",
    "argmax --shape 2,8,8,19 --axis 1 --x-type uint8": "argmax:outer=2:length=8:inner=152:x_type=uint8",
    "nms --images 1 --classes 80 --boxes 840 --most 30 --center": "nms:images=1:classes=80:boxes=840:most=30:center",
    f"global_average_pool {IMAGE} --x-type uint8": "n=2:pixels=81:c=16:x_type=uint8:out_type=int8",
}


@pytest.mark.parametrize("flags", ASKED)
def test_what_is_asked_for(flags: str) -> None:
    said = CliRunner().invoke(commands, ["source", *flags.split(), "--target", "cpu"])
    assert said.exit_code == 0, said.output
    header = "".join(line.removeprefix("//").strip() for line in said.output.splitlines()[:3])
    assert ASKED[flags] in header


def test_it_is_run_and_verified() -> None:
    (flags, *_) = ASKED
    said = CliRunner().invoke(commands, ["run", *flags.split(), "--device", "cpu", "--verify", "--json"])
    assert json.loads(said.stdout)["verified"] is True


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("add", "add needs --shape"),
        ("add --shape 4,4 --stride 2", "add has no option --stride, which belongs to conv2d"),
        ("add --shape 4,4 --b-shape 3", "does not broadcast"),
        ("add --shape 4,4 --activation gelu", "activation='gelu' is not one of none, relu"),
        ("table --shape 4 --x-type int16", "x_type='int16' is not one of int8, uint8"),
        (f"max_pool {IMAGE} --r 3", "max_pool needs --s"),
        ("argmax --shape 4,8 --axis token", "axis='token' in a problem key must be an integer"),
        ("channel_shuffle --rows 4 --c 9 --groups 2", "groups=2 does not divide 9 channels"),
        ("argmax --shape 4,8 --axis 2", "axis=2 must be between -2 and 1"),
        (f"average_pool {IMAGE} --r 9 --s 9", "use that"),
    ],
)
def test_what_is_refused(flags: str, says: str) -> None:
    said = CliRunner().invoke(commands, ["source", *flags.split(), "--target", "cpu"])
    refused = str(said.exception) if said.exit_code == 1 else said.output
    assert says in refused


def test_every_op_is_listed_once() -> None:
    names = [op.name for op in OPS]
    assert len(set(names)) == len(names)
    between = {op.name for op in OPS if any(kind.__module__.startswith("qconv.tensor_ops") for kind in op.problems)}
    assert between == {flags.split()[0] for flags in ASKED}
