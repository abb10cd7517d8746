"""Why an engine ended or fell ill: one class, told by the deepest process, never guessed."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.diagnosis import Consequence, Diagnosis, FactValue, Phase, Remedy
from tuner.engine import illness
from tuner.engine.launcher import ExitStatus
from tuner.engine.log_lines import LogLine
from tuner.engine.log_record import LogRecord
from tuner.engine.memory_signatures import OUT_OF_MEMORY, frame_phase, out_of_memory
from tuner.engine.phases import latest
from tuner.engine.signature import Hit, Signature
from tuner.engine.signatures import SIGNATURES
from tuner.engine.surroundings_signatures import MORE_HOST_MEMORY

EVIDENCE_CHARACTERS = 500
_AFTER_LINES = 4
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Case:
    """What is known: the log, how it ended, who asked."""

    record: LogRecord
    exit_status: ExitStatus | None
    ready: bool
    deadline_exceeded: bool

    @property
    def asked(self) -> bool:
        return self.exit_status is not None and self.exit_status.stop_requested

    @property
    def ended_by_itself(self) -> bool:
        return self.exit_status is not None and not self.exit_status.stop_requested

    @property
    def returncode(self) -> int | None:
        return self.exit_status.returncode if self.exit_status is not None else None


@dataclass(frozen=True, slots=True)
class _Candidate:
    signature: Signature
    match: re.Match[str]
    at: int


def diagnose(
    log: str,
    *,
    exit_status: ExitStatus | None,
    ready: bool,
    deadline_exceeded: bool = False,
) -> Diagnosis:
    """What happened, from the log, the exit status and who asked for the end.

    `ready` says that the engine had served; `deadline_exceeded` that a deadline of ours ran out.
    Without an exit status the engine lives, or its end is not known. A return code of 0 without
    our stop is a crash. What no signature explains is `unknown`, with the lines that stand out.
    """
    record = LogRecord.read(log)
    case = _Case(record, exit_status, ready or record.ready_at is not None, deadline_exceeded)
    return (
        _root_cause(case)
        or _killed(case)
        or _died(case)
        or _stalled(case)
        or _deadline(case)
        or _unexplained(case)
        or _preempting(case)
        or _nothing_wrong(case)
    )


def _root_cause(case: _Case) -> Diagnosis | None:
    """The first telling line of the deepest process; what is often a consequence comes last."""
    candidates = _candidates(case)
    if not candidates:
        return None
    lines = case.record.lines
    best = min(candidates, key=lambda c: (-lines[c.at].depth, c.signature.precedence, c.at))
    return _read(case, best)


def _candidates(case: _Case) -> list[_Candidate]:
    record = case.record
    begin = 0 if record.ready_at is None else record.ready_at + 1
    found = []
    for at in range(begin, record.stop_at(asked=case.asked)):
        line = record.lines[at]
        if not line.may_fail:
            continue
        for signature in SIGNATURES:
            match = signature.pattern.search(line.text)
            if match is not None:
                found.append(_Candidate(signature, match, at))
                break
        else:
            match = OUT_OF_MEMORY.search(line.text)
            if match is not None:
                found.append(_Candidate(out_of_memory(_memory_phase(case, at)), match, at))
    return found


def _memory_phase(case: _Case, at: int) -> Phase | None:
    """Frames tell more exactly than milestones, except once the engine serves."""
    if case.ready:
        return Phase.SERVING
    reached = case.record.phases[at]
    by_frame = frame_phase(case.record.traceback(at))
    if by_frame is None or (by_frame is Phase.SERVING and reached is not None):
        return reached
    return by_frame


def _read(case: _Case, candidate: _Candidate) -> Diagnosis:
    record, signature, at = case.record, candidate.signature, candidate.at
    before = [line.text for line in record.around(at, 1, 0)[:-1]]
    after = [line.text for line in record.around(at, 0, _AFTER_LINES)[1:]]
    hit = Hit(candidate.match, "\n".join(before), "\n".join(after), record.facts)
    reading = signature.read(hit)
    phase = signature.phase or _at_least(_reached(record, at), signature.phase_unknown)
    evidence = record.around(at, *signature.quoted)
    words = {name: text or "?" for name, text in candidate.match.groupdict().items()}
    return _diagnosis(
        case,
        signature.failure_class,
        phase,
        reading.consequence or signature.consequence,
        signature.summary.format_map(words) if words else signature.summary,
        evidence,
        remedies=reading.remedies,
        facts=tuple(reading.facts.items()),
        severity=reading.severity,
        tunable=signature.tunable,
    )


def _at_least(reached: Phase | None, first: Phase) -> Phase:
    """Where it had come, but no earlier than such a failure can be."""
    if reached is None:
        return first
    return reached if first is Phase.ANY else latest(first, reached)


def _reached(record: LogRecord, at: int) -> Phase | None:
    """How far the writer had come; a line that no process signed counts for all of them."""
    if record.phases[at] is not None or record.lines[at].process:
        return record.phases[at]
    return record.phase


def _killed(case: _Case) -> Diagnosis | None:
    if not case.ended_by_itself or case.returncode not in _KILLED:
        return None
    return _diagnosis(
        case,
        "host_oom",
        case.record.phase or Phase.ANY,
        Consequence.RETRY,
        "the engine was killed from outside, most likely for the host's memory",
        case.record.lines[-2:],
        remedies=MORE_HOST_MEMORY,
    )


def _died(case: _Case) -> Diagnosis | None:
    sign = illness.death(case.record, asked=case.asked)
    if sign is None:
        return None
    in_start = "nitialization failed" in sign.evidence[0].text and not case.ready
    unknown = Phase.INIT if in_start else Phase.SERVING
    return _diagnosis(
        case,
        "engine_dead_unknown",
        case.record.phase or unknown,
        Consequence.RETRY,
        "the engine died and its log does not hold the cause; set VLLM_LOGGING_LEVEL=DEBUG",
        sign.evidence,
    )


def _stalled(case: _Case) -> Diagnosis | None:
    sign = illness.stall(case.record)
    if sign is not None:
        return _diagnosis(
            case,
            "stalled",
            Phase.SERVING,
            Consequence.INFEASIBLE,
            "requests wait, nothing runs and the KV cache is empty: one needs more than the cache",
            sign.evidence,
            remedies=sign.remedies,
            facts=sign.facts,
            tunable=True,
        )
    sign = illness.hang(case.record)
    if sign is None:
        return None
    summary = "the engine's processes no longer answer each other"
    return _diagnosis(case, "hang", Phase.SERVING, Consequence.RETRY, summary, sign.evidence)


def _deadline(case: _Case) -> Diagnosis | None:
    if not case.deadline_exceeded:
        return None
    lines = case.record.lines[-3:]
    if case.ready:
        summary = "the engine answered nothing until the deadline"
        return _diagnosis(case, "hang", Phase.SERVING, Consequence.RETRY, summary, lines)
    return _diagnosis(
        case,
        "startup_timeout",
        case.record.phase or Phase.INIT,
        Consequence.RETRY,
        "the engine was not ready when the start-up deadline ran out",
        lines,
        remedies=(Remedy("deadlines.startup_s", "up"),),
    )


def _unexplained(case: _Case) -> Diagnosis | None:
    """It ended by itself, or its log ends in exceptions before it served; no signature fits."""
    named = illness.exceptions(case.record.lines[: case.record.stop_at(asked=case.asked)])
    suspicious = case.exit_status is None and not case.ready and bool(named)
    if not case.ended_by_itself and not suspicious:
        return None
    return _diagnosis(
        case,
        "unknown",
        case.record.phase or Phase.ANY,
        Consequence.RETRY,
        f"{_how_it_ended(case)} and its log does not say why in words that are known",
        named or case.record.lines[-3:],
    )


def _how_it_ended(case: _Case) -> str:
    code = case.returncode
    if case.exit_status is None:
        return "the engine failed"
    if code is None:
        return "the engine ended unseen"
    if code < 0:
        return f"the engine was ended by {_signal_name(-code)}"
    asked = " although nobody asked it to end" if code == 0 else ""
    return f"the engine ended with status {code}{asked}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _preempting(case: _Case) -> Diagnosis | None:
    sign = illness.preemption(case.record)
    if sign is None:
        return None
    return _diagnosis(
        case,
        "preemption",
        Phase.SERVING,
        Consequence.NONE,
        "the KV cache is too small for the sequences that run together",
        sign.evidence,
        remedies=sign.remedies,
        facts=sign.facts,
        tunable=True,
    )


def _nothing_wrong(case: _Case) -> Diagnosis:
    phase = Phase.READY if case.ready else case.record.phase or Phase.ANY
    summary = "the engine ended as it was asked to" if case.asked else "nothing is wrong"
    return _diagnosis(case, "ok", phase, Consequence.NONE, summary, ())


def _diagnosis(
    case: _Case,
    failure_class: str,
    phase: Phase,
    consequence: Consequence,
    summary: str,
    evidence: Sequence[LogLine],
    *,
    remedies: tuple[Remedy, ...] = (),
    facts: Sequence[tuple[str, FactValue]] = (),
    severity: float | None = None,
    tunable: bool = False,
) -> Diagnosis:
    return Diagnosis(
        failure_class=failure_class,
        phase=phase,
        consequence=consequence,
        summary=summary,
        evidence=tuple(line.quoted[:EVIDENCE_CHARACTERS] for line in evidence),
        remedies=remedies,
        returncode=case.returncode,
        severity=severity,
        tunable=tunable,
        facts={**case.record.facts, **dict(facts)},
    )
