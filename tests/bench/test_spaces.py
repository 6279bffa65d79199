"""Recorded spaces: a sweep on the CPU device that resumes where it stopped, and the format of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from qconv import generator, parse
from qconv.targets.target import target

KEY = "conv2d:n=1:h=4:w=4:c=8:k=8:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import recorded
    import spaces

    arguments = ["tiny", "--key", KEY, "--device", "cpu", "--out", str(tmp_path), "--seconds", "60", "--workers", "1"]
    spaces.main([*arguments, "--most", "2"])
    first = recorded.read(tmp_path / "tiny.json.gz")
    assert len(first.times_us) == 2
    spaces.main([*arguments, "--most", "3"])
    both = recorded.read(tmp_path / "tiny.json.gz")
    assert len(both.times_us) == 3
    assert first.times_us.items() <= both.times_us.items()
    assert not both.failures
    assert f"3 of {both.about['configs']} configs" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="choose another --out"):
        spaces.main(["tiny", "--key", KEY.replace("n=1", "n=2"), *arguments[3:]])


def test_a_file_is_as_kernel_tuner_writes_it(tmp_path: Path) -> None:
    """Parameters of other families are -1, failures are errors, and times are milliseconds."""
    import recorded

    problem = parse(KEY.replace("n=1", "n=64"))
    plans, _ = generator.space(problem, target("sm_90a"))
    some = [next(plan.config for plan in plans if plan.config.family == family) for family in ("simt", "mma")]
    space = recorded.RecordedSpace(problem, "a device", "sm_90a", {some[0]: 1234.0, some[1]: None})
    space.failures[some[1]] = "CompilationFailedConfig"
    recorded.write(tmp_path / "one.json.gz", space)
    document = recorded.document_of(tmp_path / "one.json.gz")
    names = document["tune_params_keys"]
    assert names == list(document["tune_params"])
    assert document["tune_params"]["family"] == ["simt", "mma"]
    for key, values in document["cache"].items():
        assert key == ",".join(str(values[name]) for name in names)
        other = {"simt": "mma_", "mma": "simt_"}[values["family"]]
        assert {values[name] for name in names if name.startswith(other)} == {-1}
        assert all(values[name] in document["tune_params"][name] for name in names)
    times = {values["family"]: values["time"] for values in document["cache"].values()}
    assert times == {"simt": 1.234, "mma": "CompilationFailedConfig"}
    again = recorded.read(tmp_path / "one.json.gz")
    assert (again.times_us, again.failures) == (space.times_us, space.failures)
    assert again.best_us == 1234.0
    assert [plan.config for plan in again.plans()] == [p.config for p in plans if p.config in some]


def test_families_whose_names_begin_alike(tmp_path: Path) -> None:
    """A dense layer is served by `halo` and by `halo_split`, a first one by `stem` and `stem_wgmma`."""
    import recorded
    import spaces

    for key in (spaces.PROBLEMS["dense_large"], spaces.PROBLEMS["stem"]):
        plans, _ = generator.space(parse(key), target("sm_90a"))
        configs = list({plan.config.family: plan.config for plan in plans}.values())
        assert len(configs) > 3
        space = recorded.RecordedSpace(parse(key), "made up", "sm_90a", dict.fromkeys(configs, 1.0))
        recorded.write(tmp_path / "space.json.gz", space)
        assert recorded.read(tmp_path / "space.json.gz").times_us == space.times_us
