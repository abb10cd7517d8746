from __future__ import annotations

import pytest

from tuner.search.optuna_logging import quiet_optuna


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    quiet_optuna()
