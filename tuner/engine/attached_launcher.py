"""Engines that are not ours to start: an endpoint which a command of its owner restarts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.clock import Clock, SystemClock
from tuner.domain.proxy import Proxy
from tuner.engine.executable import cannot_run, find_executable
from tuner.engine.guard_channel import GuardChannel, GuardProgram
from tuner.engine.http_probe import Probe
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity
from tuner.engine.places import EndpointPlace
from tuner.engine.process_launcher import GuardedEngine, open_log
from tuner.engine.reaper import Reaped
from tuner.errors import InfrastructureError

ATTACHED_GUARD = GuardProgram("tuner.engine.attached_guard")
PLACEHOLDER = "{flags}"
_BARE = re.compile(r"[A-Za-z0-9_./:,=+@%-]+", re.ASCII)
_START_TIME = re.compile(r"^process_start_time_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """What an attached guard is told; commands with the path of their program in front."""

    restart: tuple[str, ...]
    status: tuple[str, ...]
    stop: tuple[str, ...]
    env: Mapping[str, str]
    log_file: str | None
    grace_s: float

    def document(self) -> Mapping[str, object]:
        return {
            "restart": self.restart,
            "status": self.status,
            "stop": self.stop,
            "env": dict(self.env),
            "log_file": self.log_file,
            "grace_s": self.grace_s,
        }


class AttachedLauncher:
    """Restarts endpoints by their owner's command."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def launch(self, request: LaunchRequest) -> AttachedEngine:
        """Start the restart command without waiting for its end.

        Raises ExecutableNotFoundError for a command that does not exist, StartupError for a proxy
        whose credentials are not there, or InfrastructureError (no log file, no flags file, or no
        guard could be started).
        """
        place = _place(request)
        asked = EndpointRequest(
            restart=_found(restart_words(place), request.env),
            status=_found(place.status_command, request.env),
            stop=_found(place.stop_command, request.env),
            env=request.env,
            log_file=place.log_file,
            grace_s=request.stop_grace_s,
        )
        before = start_time(place.url, request.env.get("VLLM_API_KEY"), place.proxy)
        if place.flags_file is not None:
            _write_flags(Path(place.flags_file), place.flags)
        with open_log(request.log_path) as log:
            channel = GuardChannel.start(asked, log, ATTACHED_GUARD)
        state = channel.await_engine(self._clock)
        if state.engine is None:
            channel.close()
            message = state.failure or "no reason given"
            refusal = cannot_run(asked.restart[0], state.failure_errno, message)
            raise refusal or InfrastructureError(f"cannot run {asked.restart[0]}: {message}")
        return AttachedEngine(request, channel, state.engine, self._clock, before)


class AttachedEngine(GuardedEngine):
    """An endpoint after its restart command was started. Safe to use from several threads.

    `engine` is the guard: the server's own process may be on another host.
    """

    def __init__(
        self,
        request: LaunchRequest,
        channel: GuardChannel,
        engine: ProcessIdentity,
        clock: Clock,
        started_before: float | None,
    ) -> None:
        super().__init__(request, channel, engine, clock)
        self._started_before = started_before

    @property
    def base_url(self) -> str:
        return _place(self.request).url

    @property
    def asked_flags(self) -> tuple[str, ...]:
        """The arguments that the endpoint must run with."""
        return _place(self.request).flags

    def owns_port(self) -> bool:
        """Whether the restart command has ended well: what answers from then on is taken for it."""
        return self._channel.state().restarted and self.exit_status() is None

    def was_replaced(self) -> bool:
        """False while the server that answers is the one from before the restart.

        By its start time in `/metrics`; where that is not told, the restart command is believed.
        """
        if self._started_before is None:
            return True
        place = _place(self.request)
        now = start_time(place.url, self.request.env.get("VLLM_API_KEY"), place.proxy)
        return now is None or now != self._started_before

    def _end_without_guard(self, state: object) -> tuple[ExitStatus, tuple[int, ...]]:
        """Without its guard nobody runs the stop command any more; the endpoint is its owner's."""
        self._channel.kill()
        before = self.exit_status()
        return before or ExitStatus(None, stop_requested=True, killed=False), Reaped().survivors

    def _await_port(self) -> None:
        """The endpoint may go on, where there is no stop command."""


def restart_words(place: EndpointPlace) -> tuple[str, ...]:
    """The restart command with the flags where they belong; see `EndpointPlace`."""
    command = place.restart_command
    if place.flags_file is not None:
        return command
    if PLACEHOLDER not in command:
        return (*command, *place.flags)
    at = command.index(PLACEHOLDER)
    return (*command[:at], *place.flags, *command[at + 1 :])


def flags_text(flags: Sequence[str]) -> str:
    """A file in the form of systemd's EnvironmentFile and of a shell.

    `ENGINE_FLAGS` is one word of words: systemd and `eval` split it again, quotes respected.
    """
    words = " ".join(word if _BARE.fullmatch(word) else _quoted(word, "'") for word in flags)
    return f"ENGINE_FLAGS={_quoted(words, chr(34))}\n"


def start_time(url: str, api_key: str | None, proxy: Proxy | None = None) -> float | None:
    """When the server at this URL says that it started (Unix seconds); None when it does not."""
    answer = Probe(url, api_key=api_key, proxy=proxy).get("/metrics")
    if answer is None or answer.status != 200:
        return None
    found = _START_TIME.search(answer.body.decode(errors="replace"))
    return float(found[1]) if found else None


def _quoted(text: str, quote: str) -> str:
    if "\n" in text:
        raise InfrastructureError("a flag with a line break cannot be written to a flags file")
    if quote == "'":
        return "'" + text.replace("'", "'\\''") + "'"
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    return f'"{escaped}"'


def _write_flags(path: Path, flags: Sequence[str]) -> None:
    """Complete or as it was before; readable by the service that it is for."""
    beside = path.with_name(f".{path.name}.servetune")
    try:
        beside.write_text(flags_text(flags))
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        raise InfrastructureError(f"cannot write the flags file {path}: {error}") from error


def _found(command: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    return (find_executable(command[0], env), *command[1:]) if command else ()


def _place(request: LaunchRequest) -> EndpointPlace:
    if not isinstance(request.place, EndpointPlace):
        raise TypeError("the attached launcher restarts endpoints only")
    return request.place
