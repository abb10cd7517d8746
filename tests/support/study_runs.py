"""Runs studies in processes of their own and states what must hold of their ledgers."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.support.study_driver import locations_in, main
from tuner.domain.states import AttemptOutcome, AttemptPurpose, StudyState, TrialState
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.process_tree import read_processes
from tuner.search.optuna_logging import quiet_optuna
from tuner.store.database import open_database
from tuner.store.optuna_storage import close_optuna_storage, optuna_storage
from tuner.store.unit_of_work import Store
from tuner.study.ledger import History
from tuner.study.trial_score import score_value
from tuner.worker.composition import load_history

NAME = "crash"


def document(trials: int = 4, **changes: Any) -> dict[str, Any]:
    """A small study with something to gain: the baseline runs few sequences.

    Without the engine model, which would have to be compiled in every process of a test, and for
    as many trials as it says.
    """
    return {
        "name": NAME,
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 20, "hardware_seed": 3},
        "search_space": {
            "max_num_seqs": {"low": 8, "high": 64},
            "max_num_batched_tokens": {"low": 512, "high": 4096},
            "gpu_memory_utilization": {"low": 0.9, "high": 0.95},
        },
        "baseline": {"flags": {"max-num-seqs": 2}},
        "workload": {
            "lengths": {
                "prompt_tokens": {"type": "constant", "value": 600},
                "output_tokens": {"type": "constant", "value": 20},
            },
            "warmup_s": 2,
            "latency_window_s": 12,
            "capacity_window_s": 10,
        },
        "budget": {"trials": trials},
        "first_points": {"engine_model": False},
        "stopping": {"enabled": False},
        "confirmation": {"finalists": 1, "rounds": 2, "max_rounds": 2},
        **changes,
    }


def drive(
    directory: Path,
    study: Mapping[str, Any],
    *,
    engine: str = "fake",
    crash_at: str | None = None,
    occurrence: int = 1,
    kill_after_s: float | None = None,
    insistent: bool = False,
    process: str = "tune",
    request: str | None = None,
) -> bool:
    """Run the study in a process; True when it ended, False when it was killed as ordered.

    Forked from a server which has everything imported: a kill costs seconds otherwise.
    """
    order = {
        "state_dir": str(directory),
        "document": study,
        "engine": engine,
        "crash_at": crash_at,
        "occurrence": occurrence,
        "kill_after_s": kill_after_s,
        "insistent": insistent,
        "process": process,
        "request": request,
    }
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.study_driver"])
    driver = context.Process(target=main, args=(order,))
    driver.start()
    driver.join(timeout=110)
    ordered = crash_at is not None or kill_after_s is not None
    if driver.exitcode == -signal.SIGKILL and ordered:
        return False
    assert driver.exitcode == 0, f"the driver ended with {driver.exitcode}"
    return True


def history_of(directory: Path, name: str = NAME) -> History:
    return load_history(name, locations_in(directory))


def conclusive(history: History) -> dict[int, tuple[int, AttemptPurpose, int | None]]:
    """Attempts by id that ended with knowledge, and what each was for."""
    return {
        a.id: (a.trial_number, a.purpose, a.round)
        for a in history.attempts
        if a.outcome in (AttemptOutcome.MEASURED, AttemptOutcome.INFEASIBLE)
    }


def optuna_trials(directory: Path, history: History) -> list[optuna.trial.FrozenTrial]:
    quiet_optuna()
    storage = optuna_storage(locations_in(directory).database)
    try:
        study = optuna.load_study(storage=storage, study_name=history.study.optuna_study_name)
        return study.get_trials()
    finally:
        close_optuna_storage(storage)


def engines_alive(history: History) -> list[int]:
    """Recorded processes of any attempt that still run."""
    table = read_processes()
    recorded = [
        ProcessIdentity(p.pid, p.start_ticks)
        for a in history.attempts
        for p in (a.guard, a.engine)
        if p is not None
    ]
    return [
        i.pid
        for i in recorded
        if i.pid in table and table[i.pid].start_ticks == i.start_ticks and table[i.pid].running
    ]


def assert_whole(directory: Path, *, trials: int) -> History:
    """Everything that must hold of a finished study, however often it was interrupted."""
    history = history_of(directory)
    assert history.study.state is StudyState.COMPLETE
    assert history.study.recommendation is not None
    assert all(trial.state.terminal for trial in history.trials)
    assert all(a.outcome is not AttemptOutcome.RUNNING for a in history.attempts)
    repeated = [what for what, times in Counter(conclusive(history).values()).items() if times > 1]
    assert repeated == [], "a finished measurement was made again"
    launched = {a.trial_number for a in history.attempts if a.purpose is AttemptPurpose.SEARCH}
    known = {t.number for t in history.trials if t.state is not TrialState.FAILED}
    assert len((launched & known) - {0}) == trials
    assert engines_alive(history) == []
    _assert_ledgers_agree(directory, history)
    _assert_history_without_gaps(directory, history)
    return history


def _assert_ledgers_agree(directory: Path, history: History) -> None:
    told = {t.number: t for t in optuna_trials(directory, history)}
    # A first point still waits where a trial by hand took its place in the budget.
    assert {t.state.name for t in told.values()} <= {"COMPLETE", "FAIL", "WAITING"}
    ours = {t.optuna_number: t for t in history.trials if t.optuna_number is not None}
    moved = []
    for number, trial in ours.items():
        score = score_value(trial.score)
        if trial.state is TrialState.COMPLETE and score is not None:
            (value,) = told[number].values
            moved.append(value - score)
        elif trial.state is TrialState.INFEASIBLE:
            assert any(value > 0 for value in told[number].constraints.values())
    # Told against the baseline's first measurement, ranked in the end against all of them.
    assert moved == pytest.approx(moved[:1] * len(moved))
    strangers = [t for n, t in told.items() if n not in ours and t.state.name == "COMPLETE"]
    known = {"servetune:duplicate_of", "servetune:origin"}
    assert all(known & t.user_attrs.keys() for t in strangers)


def _assert_history_without_gaps(directory: Path, history: History) -> None:
    with open_database(locations_in(directory).database) as database:
        from tuner.domain.clock import SystemClock

        events = Store(database, SystemClock()).events_after(history.study.id, 0)
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
