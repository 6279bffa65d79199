"""Configs as text, as stored in database rows and manifests."""

from __future__ import annotations

import itertools
import json
import math
import random
import string
from dataclasses import fields

import pytest

from qconv.generator import FAMILIES, Config, config_from_json
from qconv.generator.families.simt import Simt

CONFIG = Simt(tile_m=64, tile_n=32, tile_k=16, thread_m=4, thread_n=8, pipeline_stages=2)
TEXT = '{"family":"simt","tile_m":64,"tile_n":32,"tile_k":16,"thread_m":4,"thread_n":8,"pipeline_stages":2}'
VALUES = json.loads(TEXT)
# The configs of `unfused` are pairs of other configs.
SEARCHED = [name for name in FAMILIES if name != "unfused"]


def test_the_text_is_canonical() -> None:
    assert CONFIG.as_json() == TEXT
    assert str(CONFIG) == "simt tile_m=64 tile_n=32 tile_k=16 thread_m=4 thread_n=8 pipeline_stages=2"


def combinations(family: str) -> list[Config]:
    """Return all combinations of the choices, or some thousands of them if there are millions."""
    choices = FAMILIES[family].choices
    if math.prod(map(len, choices.values())) < 10_000:
        drawn = itertools.product(*choices.values())
    else:
        rng = random.Random(family)
        drawn = iter(sorted({tuple(map(rng.choice, choices.values())) for _ in range(3000)}))
    return [FAMILIES[family].config(*values) for values in drawn]


@pytest.mark.parametrize("family", SEARCHED)
def test_every_config_reads_back(family: str) -> None:
    texts, configs = set(), combinations(family)
    for config in configs:
        again = config_from_json(config.as_json())
        assert (again, type(again), again.as_json()) == (config, type(config), config.as_json())
        texts.add(config.as_json())
    assert len(texts) == len(configs)


@pytest.mark.parametrize("family", SEARCHED)
def test_choices_are_the_fields_and_their_values_differ(family: str) -> None:
    choices = FAMILIES[family].choices
    assert list(choices) == [field.name for field in fields(FAMILIES[family].config)]
    assert all(list(values) == sorted(set(values)) for values in choices.values())
    assert all(set(values) <= set(choices[name]) for name, values in FAMILIES[family].likely.items())
    assert issubclass(FAMILIES[family].config, Config)
    assert FAMILIES[family].config.family == family


def test_the_order_of_the_text_is_free() -> None:
    assert config_from_json(json.dumps(dict(reversed(VALUES.items())), indent=2)) == CONFIG


def without(name: str) -> str:
    return json.dumps({key: value for key, value in VALUES.items() if key != name})


NO_FAMILY = (
    "names no known family (simt, mma, depthwise, direct, stem, stem_wgmma, stem_pool, gemv, pointwise, wgmma, halo, "
    "halo_split, tcgen05, fused, block, unfused, elementwise, choosing, binary, table, concat, pooling, "
    "global_pooling, argmax, shuffle, nms, map, reduce, matmul, matmul_mma, "
    "attention)"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ("7", "is not a JSON object"),
        ("{}", NO_FAMILY),
        (without("family"), NO_FAMILY),
        (
            json.dumps(VALUES | {"family": "mma9"}),
            NO_FAMILY,
        ),
        (
            json.dumps(VALUES | {"family": ["simt"]}),
            NO_FAMILY,
        ),
        (
            without("pipeline_stages"),
            "must have exactly the fields pipeline_stages, thread_m, thread_n, tile_k, tile_m, tile_n",
        ),
        (json.dumps(VALUES | {"split": 1}), "must have exactly the fields"),
        (json.dumps(VALUES | {"pipeline_stages": "2"}), "pipeline_stages='2' in the config must be an integer"),
        (json.dumps(VALUES | {"pipeline_stages": 2.0}), "pipeline_stages=2.0 in the config must be an integer"),
        (json.dumps(VALUES | {"pipeline_stages": True}), "pipeline_stages=True in the config must be an integer"),
        (json.dumps(VALUES | {"pipeline_stages": None}), "pipeline_stages=None in the config must be an integer"),
        ('{"family": "unfused"}', "must have exactly the fields first, second"),
        ('{"family": "unfused","first":1,"second":2}', "is not a JSON object"),
        (
            json.dumps({"family": "unfused", "first": VALUES, "second": {"family": "unfused"}}),
            "exactly the fields first",
        ),
        (json.dumps(VALUES | {"pipeline_stages": [2]}), "pipeline_stages=[2] in the config must be an integer"),
    ],
)
def test_other_text_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it says is checked below
        config_from_json(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 450


@pytest.mark.turns
@pytest.mark.parametrize("depth", [5, 500, 501, 502, 503, 5000])
def test_configs_in_configs_are_refused_at_any_depth(depth: int) -> None:
    """The depth at which reading or writing JSON first exhausts the stack varies."""
    with pytest.raises(ValueError, match="the config"):
        config_from_json('{"family": "unfused","first":' * depth + TEXT + ',"second":1}' * depth)


def test_random_text_raises_value_error_only() -> None:
    rng = random.Random(0)
    for _ in range(5000):
        text = list(TEXT)
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text)) : rng.randrange(len(text))] = rng.choices(
                string.printable, k=rng.randrange(3)
            )
        try:
            config = config_from_json("".join(text))
        except ValueError:
            continue
        assert config_from_json(config.as_json()) == config
