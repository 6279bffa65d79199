"""The devices that a property is tested on: `@pytest.mark.parametrize("device", EVERY_DEVICE, indirect=True)`, and the
fixture `device` of tests/conftest.py opens them."""

import pytest

# Many problems take minutes on the CPU; on a GPU, which may not be there, they take seconds.
EVERY_DEVICE = (
    pytest.param("cpu", marks=pytest.mark.slow),
    pytest.param("gpu", marks=pytest.mark.gpu),
)
