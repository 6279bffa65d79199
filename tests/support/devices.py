"""The devices on which a property is tested. `@pytest.mark.parametrize("device", EVERY_DEVICE, indirect=True)` names
them, and the fixture `device` of tests/conftest.py opens them."""

import pytest

# Large sets of problems take minutes on the CPU but seconds on a GPU, which may be absent.
EVERY_DEVICE = (
    pytest.param("cpu", marks=pytest.mark.slow),
    pytest.param("gpu", marks=pytest.mark.gpu),
)
