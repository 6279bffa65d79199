"""The text of a plan, a line for each thing."""

from __future__ import annotations

from pathlib import Path

from qconv.device.cache import Binary
from qconv.device.traced import Called, Copied, Filled, Gathered, Launched, Spot
from qconv.generator.plan import Launch
from qconv.network.ship.plan import plan_of
from qconv.network.ship.plan_text import FORMAT, Span, plan_text, quoted
from qconv.network.ship.program import Made, Place, Port, Program
from qconv.targets.target import target

BINARY = Binary(b"code", Path("here"), "compiler", 0.0, {})


def test_every_kind_of_step() -> None:
    launch = Launch("kernel", (1, 2, 3), 64, 128, cluster=2)
    written = frozenset({1})
    steps = (
        Filled(Spot(1, 4), "first", 16, 255),
        Copied(Spot(1, 0), "sec ond", Spot(0, 8), 32),
        Gathered(Spot(1, 0), "third", Spot(0, 0), 2, (3, 4), (2, -6)),
        Launched(BINARY, launch, bytes(8) + b"\x01\x02", ((0, Spot(0, 4)),), (), True, written, "fourth"),
        Launched(BINARY, launch, b"", (), (), False, written, ""),
        Called("elsewhere/x.onnx", b"model", ((Spot(0, 0), 6),), ((Spot(1, 0), 12),), "fifth"),
    )
    program = Program(
        (Port("x", "int8", (2, 3)),),
        (Port("y", "float32", (), True),),
        (),
        steps,
        {0: Place("input", 0, 0), 1: Place("arena", 0, 256)},
        (),
        (),
        512,
        (Made("first", True, 0, Spot(1, 4), 16), Made("t wo", False, 2, Spot(1, 0), 12)),
    )
    text = plan_text(plan_of(target("sm_80"), [program]), [Span(256, 4)], [], lambda step: step.launch.kernel)
    assert text.splitlines() == [
        FORMAT,
        "target sm_80 32",
        "kernel 256 4",
        "setup",
        "program 512",
        'input "x" int8 0 2 2 3',
        'output "y" float32 1 0',
        'fill a0+260 16 255 "first"',
        'made "first" 1 a0+260 16',
        'copy a0+256 i0+8 32 "sec%20ond"',
        'gather a0+256 i0 2 2 3 4 2 2 -6 "third"',
        'made "t%20wo" 0 a0+256 12',
        'launch 0 kernel 1 2 3 64 128 2 1 .8.0102 "fourth"',
        "pointers 0 i0+4",
        'launch 0 kernel 1 2 3 64 128 2 0 - ""',
        'call "elsewhere/x.onnx" 1 i0 6 1 a0+256 12 "fifth"',
        "end",
    ]


def test_names_are_one_word() -> None:
    assert quoted('a "b"\n%é') == '"a%20%22b%22%0A%25%C3%A9"'
