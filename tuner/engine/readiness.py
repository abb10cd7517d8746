"""Waiting until an engine really serves: ours, the right model, and one completion done."""

from __future__ import annotations

from dataclasses import dataclass

from objectives.measurement import EngineFacts
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.engine.diagnosis import diagnose
from tuner.engine.http_probe import Probe
from tuner.engine.launcher import RunningEngine
from tuner.engine.places import proxy_of
from tuner.engine.read_back import engine_facts

LOG_BYTES = 2 * 1024 * 1024
REQUEST_TIMEOUT_S = 2.0
_ANSWER_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine serves; `startup_s` counts from the call."""

    facts: EngineFacts
    startup_s: float


@dataclass(frozen=True, slots=True)
class NotReady:
    """The engine died, was not ready in time, or is not what answers on its port."""

    diagnosis: Diagnosis


def wait_until_ready(
    engine: RunningEngine,
    *,
    deadline_s: float,
    poll_s: float,
    clock: Clock,
    cancellation: Cancellation,
) -> Ready | NotReady:
    """Poll until the engine is ready, dead, or `deadline_s` seconds have passed.

    Ready is: `/health` says 200, the listening process is the engine's, `/v1/models` shows the
    intended model and one completion of one token works. Raises CancelledError. The engine is
    not stopped here.
    """
    return _Wait(engine, deadline_s, poll_s, clock, cancellation).run()


class _Wait:
    def __init__(
        self,
        engine: RunningEngine,
        deadline_s: float,
        poll_s: float,
        clock: Clock,
        cancellation: Cancellation,
    ) -> None:
        self._engine = engine
        self._poll_s = poll_s
        self._clock = clock
        self._cancellation = cancellation
        self._begin = clock.monotonic()
        self._deadline = self._begin + deadline_s
        self._strange_answers = 0
        api_key = engine.request.env.get("VLLM_API_KEY")
        self._probe = Probe(
            engine.base_url,
            timeout_s=REQUEST_TIMEOUT_S,
            api_key=api_key,
            proxy=proxy_of(engine.request.place),
        )

    def run(self) -> Ready | NotReady:
        while True:
            self._cancellation.raise_if_requested()
            verdict = self._look()
            if verdict is not None:
                return verdict
            if self._clock.monotonic() >= self._deadline:
                return self._too_late()
            self._clock.sleep(self._poll_s)

    def _look(self) -> Ready | NotReady | None:
        """None while nothing is decided."""
        if self._engine.exit_status() is not None:
            return self._ended()
        health = self._probe.get("/health")
        if health is None:
            return None
        if not self._engine.owns_port():
            return self._not_ours()
        self._strange_answers = 0
        if health.status != 200:
            return None
        served = self._served_models()
        if served is None:
            return None
        if self._engine.request.served_model not in served:
            return NotReady(_wrong_model(self._engine.request.served_model, served))
        return self._ready() if self._completes() else None

    def _not_ours(self) -> NotReady | None:
        """A stranger answers when it does so twice: once may be an engine that just ended."""
        self._strange_answers += 1
        if self._strange_answers < 2:
            return None
        return NotReady(_foreign_server(self._engine.request.port))

    def _ended(self) -> NotReady:
        log = self._engine.log_tail(LOG_BYTES)
        return NotReady(diagnose(log, exit_status=self._engine.exit_status(), ready=False))

    def _too_late(self) -> NotReady:
        log = self._engine.log_tail(LOG_BYTES)
        diagnosis = diagnose(log, exit_status=None, ready=False, deadline_exceeded=True)
        return NotReady(diagnosis)

    def _served_models(self) -> tuple[str, ...] | None:
        answer = self._probe.get("/v1/models")
        document = answer.json() if answer is not None and answer.status == 200 else None
        entries = document.get("data") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            return None
        return tuple(str(entry.get("id")) for entry in entries if isinstance(entry, dict))

    def _completes(self) -> bool:
        document = {
            "model": self._engine.request.served_model,
            "prompt": "Hello",
            "max_tokens": 1,
            "temperature": 0,
        }
        answer = self._probe.post("/v1/completions", document, self._patience)
        if answer is None or answer.status != 200:
            return False
        body = answer.json()
        return isinstance(body, dict) and bool(body.get("choices"))

    def _patience(self) -> float | None:
        """How long to wait for the completion until the next look; None gives up."""
        self._cancellation.raise_if_requested()
        late = self._clock.monotonic() >= self._deadline
        return None if late or self._engine.exit_status() is not None else _ANSWER_POLL_S

    def _ready(self) -> Ready:
        startup_s = self._clock.monotonic() - self._begin
        metrics = self._probe.get("/metrics")
        text = metrics.body.decode(errors="replace") if metrics and metrics.status == 200 else None
        facts = engine_facts(self._engine.log_tail(LOG_BYTES), text, startup_s=startup_s)
        return Ready(facts, startup_s)


def _foreign_server(port: int) -> Diagnosis:
    return Diagnosis(
        failure_class="port_in_use",
        phase=Phase.INIT,
        consequence=Consequence.RETRY,
        summary=f"a process that is not ours answers on port {port}",
    )


def _wrong_model(intended: str, served: tuple[str, ...]) -> Diagnosis:
    """Some images ignore a positional model without a word and serve their default."""
    return Diagnosis(
        failure_class="wrong_model",
        phase=Phase.READY,
        consequence=Consequence.STOP_STUDY,
        summary=f"the engine serves {', '.join(served) or 'nothing'} instead of {intended}",
    )
