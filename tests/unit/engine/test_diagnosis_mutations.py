"""The same failure in other clothes: prefixes, colours, bars, ranks, strangers, lost heads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_logs import CORE_FAILED, LogCase
from tests.support.more_engine_logs import EVERY_FAILURE
from tuner.engine.diagnosis import diagnose

Mutation = Callable[[str], str]


def colours(log: str) -> str:
    return "\n".join(f"\x1b[1;36m{line[:5]}\x1b[0;0m{line[5:]}" for line in log.split("\n"))


def windows_line_ends(log: str) -> str:
    return log.replace("\n", "\r\n")


def progress_bars(log: str) -> str:
    bar = "Loading safetensors:   0% 0/2\rLoading safetensors: 100% 2/2\r"
    return "\n".join(bar + line for line in log.split("\n"))


def compose_prefix(log: str) -> str:
    return "\n".join(f"vllm-1  | {line}" for line in log.split("\n"))


def trial_prefix(log: str) -> str:
    return "\n".join(f"[trial-7] {line}" for line in log.split("\n"))


def harmless_head(log: str) -> str:
    return (
        "INFO 10-02 09:14:00 [network_utils.py:187] Port 29500 is already in use, trying port 2\n"
        "(APIServer pid=70) WARNING 10-02 09:14:01 [x.py:1] Available memory is low\n"
        "Triton is installed, but doesn't include CPU backend. Disabling Triton.\n" + log
    )


def stranger_before(log: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "plugins.py", line 3, in load\n    import extra\n'
        "ModuleNotFoundError: No module named 'extra'\n\n" + log
    )


def wrappers_after(log: str) -> str:
    return (
        log + "\n(EngineCore pid=71) ERROR 10-02 09:20:00 [core.py:1] Exception: WorkerProc "
        "initialization failed due to an exception in a background process. See stack trace for "
        f"root cause.\n{CORE_FAILED}\n"
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker"
    )


def echo_of_another_rank(log: str) -> str:
    """Every line of a worker once more, by its sister, right after."""
    lines = []
    for line in log.split("\n"):
        lines.append(line)
        if line.startswith("(Worker_TP0 pid=72)"):
            lines.append(line.replace("(Worker_TP0 pid=72)", "(Worker_TP1 pid=73)"))
    return "\n".join(lines)


def torchrun_prefix(log: str) -> str:
    """Where no level stands between the process and the text."""
    return re.sub(r"^(\(Worker\w* pid=\d+\)) (?!ERROR|INFO)", r"\1 [rank0]: ", log, flags=re.M)


def older_location(log: str) -> str:
    """`[core.py:7]` was `core.py:7]` in 0.6 and 0.7."""
    return re.sub(r"\[(\w+\.py:\d+)\]", r"\1]", log)


def year_in_time(log: str) -> str:
    return log.replace(" 10-02 09:", " 2026-10-02 09:")


def core_of_older_versions(log: str) -> str:
    return log.replace("(EngineCore pid=", "(EngineCore_0 pid=")


def workers_of_080(log: str) -> str:
    return log.replace("(Worker_TP0 pid=", "(VllmWorker rank=0 pid=")


def workers_of_092(log: str) -> str:
    return log.replace("(Worker_TP0 pid=", "(VllmWorker TP0 pid=")


def workers_of_many_ranks(log: str) -> str:
    return log.replace("(Worker_TP0 pid=", "(Worker_DP1_PP0_TP0_EP3 pid=")


def kubectl_timestamps(log: str) -> str:
    return "\n".join(f"2026-10-02T09:15:00.123456789Z {line}" for line in log.split("\n"))


def containerd(log: str) -> str:
    stamp = "2026-10-02T09:15:00.123456789+00:00 stdout F "
    return "\n".join(stamp + line for line in log.split("\n"))


def journald(log: str) -> str:
    return "\n".join(f"Oct  2 09:15:00 host vllm[812]: {line}" for line in log.split("\n"))


def json_lines(log: str) -> str:
    return "\n".join(json.dumps({"time": "x", "message": line}) for line in log.split("\n"))


def harmless_lines_between(log: str) -> str:
    """Sisters and servers that are well, or only speak of trouble."""
    between = (
        '(APIServer pid=70) INFO 10-02 09:14:03 [logger.py:1] Received request cmpl-1: prompt: "No '
        'available memory for the cache blocks. torch.OutOfMemoryError: CUDA out of memory"\n'
        "(Worker_TP3 pid=79) INFO 10-02 09:14:03 [parallel_state.py:1] rank 3 in world size 4\n"
        "(Worker_TP3 pid=79) WARNING 10-02 09:14:03 [x.py:1] Try increasing "
        "`gpu_memory_utilization`: max_num_seqs (9) exceeds available Mamba cache blocks (3)\n"
        'INFO:     10.0.0.1:4000 - "GET /health HTTP/1.1" 200 OK\n'
    )
    return "\n".join(between + line for line in log.split("\n"))


def strangers_after(log: str) -> str:
    return log + (
        "\nException ignored in: <function Handle.__del__ at 0x7f>\nTraceback (most recent call "
        "last):\n  File \"x.py\", line 3, in __del__\nAttributeError: 'NoneType' object has no "
        "attribute 'close'\n"
    )


PREFIXES = (compose_prefix, kubectl_timestamps, containerd, journald, json_lines)

ANY_FAILURE = st.sampled_from(EVERY_FAILURE)
MUTATIONS: st.SearchStrategy[list[Mutation]] = st.lists(
    st.sampled_from(
        [
            colours,
            windows_line_ends,
            progress_bars,
            harmless_head,
            stranger_before,
            echo_of_another_rank,
            older_location,
            year_in_time,
            torchrun_prefix,
            core_of_older_versions,
            workers_of_080,
            workers_of_092,
            workers_of_many_ranks,
            harmless_lines_between,
            strangers_after,
        ]
    ),
    max_size=4,
    unique=True,
)


def _same(case: LogCase, log: str) -> None:
    found = diagnose(log, exit_status=None, ready=False)
    assert found.failure_class == case.failure_class
    assert found.remedies == case.remedies


@settings(deadline=None, max_examples=150)
@given(case=ANY_FAILURE, mutations=MUTATIONS)
def test_the_answer_does_not_depend_on_the_clothes(
    case: LogCase, mutations: list[Mutation]
) -> None:
    log = case.log
    for mutate in mutations:
        log = mutate(log)

    if case.failure_class == "unknown":
        assert diagnose(log, exit_status=None, ready=False).failure_class == "unknown"
    else:
        _same(case, log)


@settings(deadline=None, max_examples=60)
@given(case=ANY_FAILURE)
def test_wrappers_behind_a_known_cause_change_nothing(case: LogCase) -> None:
    if case.failure_class not in ("unknown", "engine_dead_unknown"):
        _same(case, wrappers_after(case.log))


@settings(deadline=None, max_examples=60)
@given(case=ANY_FAILURE, prefix=st.sampled_from([*PREFIXES, trial_prefix]))
def test_a_supervisors_prefix_hides_nothing_that_is_named(case: LogCase, prefix: Mutation) -> None:
    found = diagnose(prefix(case.log), exit_status=None, ready=False)

    if case.failure_class == "unknown":
        assert found.failure_class in ("unknown", "ok")
    else:
        assert found.failure_class == case.failure_class


@settings(deadline=None, max_examples=150)
@given(case=ANY_FAILURE, mutations=MUTATIONS, prefix=st.sampled_from(PREFIXES))
def test_mutations_behind_a_supervisors_prefix_neither_hide_nor_turn_anything(
    case: LogCase, mutations: list[Mutation], prefix: Mutation
) -> None:
    log = case.log
    for mutate in mutations:
        if mutate not in (progress_bars, windows_line_ends, colours):
            log = mutate(log)

    _never_opposite(case, prefix(log))
    found = diagnose(prefix(log), exit_status=None, ready=False)
    assert found.failure_class in (case.failure_class, "unknown")
    if case.failure_class != "unknown":
        assert found.failure_class == case.failure_class


@settings(deadline=None, max_examples=200)
@given(case=ANY_FAILURE, mutations=MUTATIONS, lost=st.sets(st.integers(0, 40), max_size=12))
def test_lost_lines_never_turn_a_remedy_around(
    case: LogCase, mutations: list[Mutation], lost: set[int]
) -> None:
    log = case.log
    for mutate in mutations:
        log = mutate(log)

    lines = log.split("\n")
    _never_opposite(case, "\n".join(line for at, line in enumerate(lines) if at not in lost))


@settings(deadline=None, max_examples=200)
@given(case=ANY_FAILURE, begin=st.floats(0, 0.9), end=st.floats(0.1, 1))
def test_a_lost_head_or_tail_never_turns_a_remedy_around(
    case: LogCase, begin: float, end: float
) -> None:
    length = len(case.log)

    _never_opposite(case, case.log[int(begin * length) : int(end * length)])


def _never_opposite(case: LogCase, log: str) -> None:
    opposite = {"up": "down", "down": "up"}
    wanted = {remedy.knob: remedy.direction for remedy in case.remedies}
    for remedy in diagnose(log, exit_status=None, ready=False).remedies:
        assert opposite.get(remedy.direction) != wanted.get(remedy.knob, remedy.direction)


@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=400))
def test_any_text_gets_an_answer(text: str) -> None:
    found = diagnose(text, exit_status=None, ready=False)

    assert found.failure_class
    assert found.summary
