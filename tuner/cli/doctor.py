"""Looks at this machine and says what would keep a study from running."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.output import OutputFormat, emit
from tuner.errors import ServeTuneError, StartupError
from tuner.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

STARTUP_FAILURE = StartupError.exit_code

PACKAGES = ("optuna", "sqlalchemy", "aiohttp", "fastapi", "numpy", "numba")
TOP_LEVEL_PACKAGES = ("tuner", "api", "objectives")
MINIMUM_OPEN_FILES = 1024
MINIMUM_FREE_BYTES = 1 << 30


class Verdict(StrEnum):
    """`warning` limits what can be done; `failure` means that studies cannot run."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at, what was found and, if it is not well, what to do."""

    name: str
    verdict: Verdict
    found: str
    hint: str | None = None


def examine(settings: Settings) -> tuple[Check, ...]:
    """Run every check; a check that itself fails is a failure of that check only."""
    checks: list[Check] = []
    probes: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("import names", _import_names),
        ("state directory", lambda: _state_directory(settings)),
        ("database", lambda: _database(settings)),
        ("loopback", _loopback),
        ("open files", _open_files),
        ("processors", _processors),
        ("embedded engine", _embedded_engine),
        ("vllm", lambda: _vllm(settings)),
        ("orphaned engines", _orphans),
        ("gpu", _gpu),
        ("load generator", lambda: _load_generator(settings)),
    )
    for name, probe in probes:
        try:
            checks.append(probe())
        except ServeTuneError as error:
            checks.append(Check(name, Verdict.FAILURE, error.message, error.hint))
        except OSError as error:
            checks.append(Check(name, Verdict.FAILURE, str(error)))
    return tuple(checks)


def _python() -> Check:
    return Check("python", Verdict.OK, f"{sys.version.split()[0]} at {sys.executable}")


def _packages() -> Check:
    versions = []
    for package in ("servetune", *PACKAGES):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            return Check("packages", Verdict.FAILURE, f"{package} is not installed", "pip install")
    return Check("packages", Verdict.OK, ", ".join(versions))


def _import_names() -> Check:
    """A directory called `api` or `tuner` in the working directory can shadow ours."""
    own = importlib.util.find_spec("tuner")
    root = Path(own.origin).parent.parent if own and own.origin else None
    for name in TOP_LEVEL_PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).parent.parent if spec and spec.origin else None
        if origin is None or origin != root:
            hint = "run the installed `servetune` command, or set PYTHONSAFEPATH=1"
            return Check("import names", Verdict.FAILURE, f"`{name}` comes from {origin}", hint)
    return Check("import names", Verdict.OK, ", ".join(TOP_LEVEL_PACKAGES))


def _state_directory(settings: Settings) -> Check:
    from tuner.worker.locations import resolve_locations

    directory = resolve_locations(settings).state_dir
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        hint = "set SERVETUNE_STATE_DIR to a directory of yours"
        return Check("state directory", Verdict.FAILURE, f"{directory} is not writable", hint)
    free = shutil.disk_usage(directory).free
    found = f"{directory}, {free / 2**30:.1f} GiB free"
    if free < MINIMUM_FREE_BYTES:
        hint = "records and logs of a study need about 10 MiB a trial"
        return Check("state directory", Verdict.WARNING, found, hint)
    return Check("state directory", Verdict.OK, found)


def _database(settings: Settings) -> Check:
    from tuner.worker.locations import database_status

    status = database_status(settings)
    verdict = Verdict.OK if status.usable else Verdict.FAILURE
    return Check("database", verdict, status.description, status.hint)


def _loopback() -> Check:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return Check("loopback", Verdict.OK, "a port on 127.0.0.1 can be bound")


def _open_files() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MINIMUM_OPEN_FILES:
        hint = f"each request in flight needs one: ulimit -n {MINIMUM_OPEN_FILES * 4}"
        return Check("open files", Verdict.WARNING, f"limit {soft}", hint)
    return Check("open files", Verdict.OK, f"limit {soft}")


def _processors() -> Check:
    usable = len(os.sched_getaffinity(0))
    if usable < 2:
        hint = "the load generator needs a core of its own to measure rightly"
        return Check("processors", Verdict.WARNING, f"{usable} usable", hint)
    return Check("processors", Verdict.OK, f"{usable} usable")


def _embedded_engine() -> Check:
    argv = [sys.executable, "-m", "tuner.simulator", "serve", "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - fixed argv
    if done.returncode == 0:
        return Check("embedded engine", Verdict.OK, "starts (simulated results only)")
    return Check("embedded engine", Verdict.FAILURE, done.stderr.strip()[-200:])


def _vllm(settings: Settings) -> Check:
    from tuner.engine.environment import engine_environment
    from tuner.engine.executable_probe import differences, probe_executable
    from tuner.study.engine_version import PROBES
    from tuner.worker.locations import resolve_locations

    executable = shutil.which("vllm")
    if executable is None:
        hint = "needed only to tune a real engine; name its path in engine.launcher.executable"
        return Check("vllm", Verdict.WARNING, "no `vllm` on the PATH", hint)
    cache = resolve_locations(settings).state_dir / PROBES
    probe = probe_executable(str(Path(executable).resolve()), engine_environment({}), cache)
    found = f"{probe.version or 'version not known'} at {executable}"
    notes = differences(probe)
    if notes:
        return Check("vllm", Verdict.WARNING, found, "; ".join(notes))
    return Check("vllm", Verdict.OK, found)


def _orphans() -> Check:
    """Engines whose server is gone keep their GPU, while their port is free."""
    from tuner.engine.orphans import orphaned_engines

    found = orphaned_engines()
    if not found:
        return Check("orphaned engines", Verdict.OK, "none")
    said = ", ".join(f"{orphan.name} ({orphan.pid})" for orphan in found)
    hint = "their server was killed; end these process ids yourself, they hold GPU memory"
    return Check("orphaned engines", Verdict.WARNING, said, hint)


def _gpu() -> Check:
    devices = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if not devices:
        return Check("gpu", Verdict.WARNING, "no NVIDIA device", "the embedded engine needs none")
    return Check("gpu", Verdict.OK, ", ".join(devices))


def _load_generator(settings: Settings) -> Check:
    from tuner.loadgen.instrument_capacity import Host, read_capacity
    from tuner.worker.locations import resolve_locations

    capacity = read_capacity(resolve_locations(settings).state_dir, Host.this())
    trusted = None if capacity is None else capacity.of(capacity.load_processes)
    if capacity is None or trusted is None:
        found = (
            "not tested on this host: `servetune selftest` says what load it can be trusted with"
        )
        return Check("load generator", Verdict.OK, found)
    found = (
        f"good up to {trusted.tokens_per_s:,.0f} tokens/s and {trusted.requests_per_s:,.0f} "
        f"requests/s by {trusted.processes} process(es), tested {capacity.taken_at}"
    )
    if trusted.tokens_per_s > 0:
        return Check("load generator", Verdict.OK, found)
    return Check("load generator", Verdict.WARNING, found, "run it again on a quieter host")


def show(settings: Settings, output: OutputFormat) -> int:
    """Print every check; the exit code is 3 when one of them failed."""
    checks = examine(settings)
    data = [
        {"check": c.name, "verdict": c.verdict.value, "found": c.found, "hint": c.hint}
        for c in checks
    ]
    emit(data, output, lambda console: _draw(checks, console))
    return STARTUP_FAILURE if any(c.verdict is Verdict.FAILURE for c in checks) else 0


def _draw(checks: tuple[Check, ...], console: Console) -> None:
    styles = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILURE: "bold red"}
    for check in checks:
        console.print(f"{check.verdict.value:<8}", style=styles[check.verdict], end="")
        console.print(f"{check.name}: {check.found}", markup=False, soft_wrap=True)
        if check.hint and check.verdict is not Verdict.OK:
            console.print(f"{'':<8}{check.hint}", markup=False, soft_wrap=True)
