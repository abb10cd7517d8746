from __future__ import annotations

import subprocess
import sys

_CHATTY = """
import optuna
{quiet}
study = optuna.create_study()
study.tell(study.ask(), 1.0)
optuna.logging.get_logger("optuna.study").warning("a warning")
"""
_QUIET = "from tuner.search.optuna_logging import quiet_optuna; quiet_optuna(); quiet_optuna()"
_WITH_HANDLER = _QUIET + "; import logging; logging.basicConfig(format='%(name)s|%(message)s')"


def stderr_of(quiet: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CHATTY.format(quiet=quiet)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout == ""
    return done.stderr


def test_optuna_writes_nothing_once_it_is_quiet() -> None:
    assert "a warning" in stderr_of(""), "otherwise this test shows nothing"
    assert stderr_of(_QUIET) == ""


def test_its_warnings_reach_the_applications_handlers_once() -> None:
    assert stderr_of(_WITH_HANDLER) == "optuna.study|a warning\n"


def test_importing_the_package_neither_imports_nor_silences_optuna() -> None:
    code = (
        "import sys, logging, tuner.search.proposer, tuner.search.sampler, "
        "tuner.search.first_points, tuner.search.optuna_logging\n"
        "assert 'optuna' not in sys.modules and 'scipy' not in sys.modules\n"
        "assert logging.getLogger('optuna').handlers == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
