"""Waiting until an attached endpoint was restarted, serves, and runs with the flags asked for."""

from __future__ import annotations

from dataclasses import replace

from tuner.domain.argv import from_argv
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.engine.applied_flags import compare_flags
from tuner.engine.attached_launcher import AttachedEngine
from tuner.engine.http_probe import Probe
from tuner.engine.places import proxy_of
from tuner.engine.read_back import cache_config
from tuner.engine.readiness import NotReady, Ready, wait_until_ready

NOT_APPLIED = "flags_not_applied"
LOG_HINT = "engine.launcher.log_file lets ServeTune read what vLLM applied"


def wait_until_applied(
    engine: AttachedEngine,
    *,
    deadline_s: float,
    poll_s: float,
    clock: Clock,
    cancellation: Cancellation,
) -> Ready | NotReady:
    """As `wait_until_ready`, after the restart command has ended and the old server is gone."""
    begin = clock.monotonic()
    while not engine.owns_port() and engine.exit_status() is None:
        cancellation.raise_if_requested()
        if clock.monotonic() - begin >= deadline_s:
            return _failed("the restart command did not end in time", "startup_timeout")
        clock.sleep(poll_s)
    while not engine.was_replaced():
        cancellation.raise_if_requested()
        if clock.monotonic() - begin >= deadline_s:
            return _failed("the server that answers is the one from before the restart")
        clock.sleep(poll_s)
    answer = wait_until_ready(
        engine,
        deadline_s=max(0.0, deadline_s - (clock.monotonic() - begin)),
        poll_s=poll_s,
        clock=clock,
        cancellation=cancellation,
    )
    if isinstance(answer, NotReady):
        return answer
    return _checked(engine, replace(answer, startup_s=clock.monotonic() - begin))


def _checked(engine: AttachedEngine, answer: Ready) -> Ready | NotReady:
    key = engine.request.env.get("VLLM_API_KEY")
    proxy = proxy_of(engine.request.place)
    metrics = Probe(engine.base_url, api_key=key, proxy=proxy).get("/metrics")
    text = metrics.body.decode(errors="replace") if metrics and metrics.status == 200 else ""
    found = compare_flags(from_argv(engine.asked_flags), answer.facts, cache_config(text))
    if found.differing:
        return _failed(f"the endpoint does not run what was asked: {'; '.join(found.differing)}")
    if found.unseen:
        names = ", ".join(found.unseen)
        return _failed(f"nothing tells whether the endpoint applied {names}; {LOG_HINT}")
    return answer


def _failed(summary: str, failure_class: str = NOT_APPLIED) -> NotReady:
    return NotReady(Diagnosis(failure_class, Phase.READY, Consequence.RETRY, summary))
