"""What every test starts from: one event loop, patient hypothesis, no settings of the person who runs it."""

import os

import pytest
from hypothesis import settings

# No test measures time, so a busy machine fails none. Under CI hypothesis is also derandomized.
settings.register_profile("patient", settings(), deadline=None)
# `make fuzz` asks for this one, with as many examples a test as it is told.
settings.register_profile(
    "fuzz", deadline=None, derandomize=False, max_examples=int(os.environ.get("EXAMPLES", "20000"))
)
settings.load_profile("patient")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("STATEBOX_")]:
        monkeypatch.delenv(name)
