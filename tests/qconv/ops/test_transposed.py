"""The op conv_transpose2d: keys and options become the convolution of all phases."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from qconv import ConvTranspose2d, Quantization, parse
from qconv.cli.command_line import commands

KEY = "conv_transpose2d:n=1:h=6:w=6:c=8:k=8:r=4:s=4:stride=2:pad=1"


def test_a_key() -> None:
    q = Quantization(per_channel=True, bias="int32")
    made = ConvTranspose2d(1, 6, 6, 8, 8, 4, 4, 2, (1, 2), (1, 0, 1, 3), (1, 0), 2, q)
    geometry = "stride=2:dilation=1,2:pad=1,0,1,3:output_padding=1,0:groups=2"
    key = f"conv_transpose2d:n=1:h=6:w=6:c=8:k=8:r=4:s=4:{geometry}:per_channel:bias=int32"
    assert parse(key) == made.phases
    assert parse(str(parse(key))) == made.phases


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (KEY.replace(":c=8", ""), "has no c; it needs n, h, w, c, k, r, s"),
        (f"{KEY}:pixel_shuffle=2", "unknown field 'pixel_shuffle' in the key .* it has n, .*output_padding.*bias"),
        (f"{KEY}:output_padding=2", "output_padding=2 along h must be less than its stride, 2"),
    ],
)
def test_what_is_no_key(key: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(key)


def test_a_command() -> None:
    sizes = [word for name in ("n", "h", "w", "c", "k", "r", "s") for word in (f"--{name}", "4")]
    asked = ["conv_transpose2d", *sizes, "--stride", "2", "--output-padding", "1", "--bias", "--per-channel"]
    said = CliRunner().invoke(commands, ["run", *asked, "--device", "cpu", "--verify"])
    assert said.exit_code == 0, said.output
    q = Quantization(bias="int32", per_channel=True)
    assert str(ConvTranspose2d(4, 4, 4, 4, 4, 4, 4, stride=2, output_padding=1, quantization=q).phases) in said.output
    refused = CliRunner().invoke(commands, ["run", *asked, "--crop", "1", "--device", "cpu"])
    assert "conv_transpose2d has no option --crop" in refused.output
