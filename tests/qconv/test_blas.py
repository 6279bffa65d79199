"""One thread for NumPy's matrix products: while requested, and no longer."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import blas


def known() -> blas.Threads:
    found = blas.threads()
    if found is None:
        pytest.skip("NumPy's matrices are not OpenBLAS's here")
    return found


def test_numpys_wheels_have_the_functions() -> None:
    """The libraries that they report to be linked with."""
    config = np.show_config(mode="dicts")
    assert isinstance(config, dict)
    if "openblas" in config["Build Dependencies"]["blas"]["name"]:
        assert blas.threads() is not None


def test_one_thread_and_then_as_many_as_before() -> None:
    count = known()
    before = count.get()
    try:
        count.set(2)
        with blas.one_thread():
            assert count.get() == 1
        assert count.get() == 2
        with pytest.raises(ZeroDivisionError), blas.one_thread():
            raise ZeroDivisionError
        assert count.get() == 2
    finally:
        count.set(before)


def test_of_two_that_overlap_the_last_gives_the_threads_back() -> None:
    count = known()
    before = count.get()
    try:
        count.set(2)
        first, second = blas.one_thread(), blas.one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert count.get() == 1
        second.__exit__(None, None, None)
        assert count.get() == 2
    finally:
        count.set(before)


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "threads", lambda: None)
    with blas.one_thread():
        assert np.linalg.solve(np.eye(2), np.ones(2)).tolist() == [1.0, 1.0]
