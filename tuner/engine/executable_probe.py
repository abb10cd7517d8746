"""What an engine's executable says of itself: its version and its flags, asked once and kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.flag_catalogue import catalogue, flag, has_flag, resolve, version_tuple

VERSION_TIMEOUT_S = 300.0
HELP_TIMEOUT_S = 300.0
"""`vllm serve --help=all` imports the engine: 12 s of processor time."""
LARGEST_OUTPUT_CHARACTERS = 4 * 2**20
FORMAT_VERSION = 1
_VERSION_LINE = re.compile(r"^\s*(?:vllm\s+)?v?(\d+\.\d+(?:\.\d+)?\S*)\s*$", re.MULTILINE)
_OPTION_LINE = re.compile(r"^ {1,8}-[^\n]*", re.MULTILINE)
_LONG_NAME = re.compile(r"(?<![\w-])--([a-z0-9][a-z0-9_-]*[a-z0-9])", re.IGNORECASE)
_EXAMPLE = "json-arg"
"""Stands in the help's introduction for any flag that takes JSON."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ExecutableProbe:
    """An executable's answers. `version` None: it did not tell; `flags` None: no help was had.

    `flags` are the long names in its help, as they stand there, without dashes.
    """

    path: str
    version: str | None
    flags: frozenset[str] | None
    problem: str | None = None


def probe_executable(
    path: str,
    env: Mapping[str, str],
    cache: Path,
    *,
    version_timeout_s: float = VERSION_TIMEOUT_S,
    help_timeout_s: float = HELP_TIMEOUT_S,
) -> ExecutableProbe:
    """Ask `--version` and `serve --help=all` of the executable at this path.

    `cache` is a directory for the answers, which hold while path, modification time and size stay;
    half an answer is not kept. `env` is the whole environment. Never raises: an executable that
    cannot be asked is a problem in words.
    """
    kept = _Kept(cache, path)
    known = kept.read()
    if known is not None:
        return known
    told, problem = _ask((path, "--version"), env, version_timeout_s)
    found = _VERSION_LINE.findall(told)
    version = found[-1] if found else None
    if version is None:
        return ExecutableProbe(path, None, None, problem or "its --version names no version")
    text, problem = _ask((path, "serve", "--help=all"), env, help_timeout_s)
    names = help_flags(text)
    if not names:
        problem = problem or "its help names no flags"
        return ExecutableProbe(path, version, None, f"serve --help=all: {problem}")
    probe = ExecutableProbe(path, version, names)
    kept.write(probe)
    return probe


def help_flags(text: str) -> frozenset[str]:
    """The long names in the option lines of argparse's help, lower case, with `-` for `_`."""
    names: set[str] = set()
    for line in _OPTION_LINE.findall(text):
        head = re.split(r" {2,}", line.strip(), maxsplit=1)[0]
        names.update(n.lower().replace("_", "-") for n in _LONG_NAME.findall(head))
    return frozenset(names - {"help", _EXAMPLE})


def _ask(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> tuple[str, str | None]:
    """Standard output of one call, and what went wrong."""
    try:
        asked = subprocess.Popen(  # noqa: S603 - an argv list, never a shell
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return "", error.strerror or str(error)
    with asked:
        try:
            out, err = asked.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # What it started holds our pipes as well.
            os.killpg(asked.pid, signal.SIGKILL)
            asked.communicate()
            return "", f"no answer within {timeout_s:g} s"
    text = out.decode(errors="replace")[:LARGEST_OUTPUT_CHARACTERS]
    if asked.returncode == 0:
        return text, None
    last = err.decode(errors="replace").strip().splitlines()[-1:]
    return text, f"status {asked.returncode}{': ' + last[0][:200] if last else ''}"


class _Kept:
    """One executable's answers in a file of their own."""

    def __init__(self, cache: Path, path: str) -> None:
        self._path = path
        self._file = cache / f"{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"

    def _identity(self) -> dict[str, object]:
        status = os.stat(self._path)  # noqa: PTH116 - follows links, as the launch does
        return {
            "format": FORMAT_VERSION,
            "path": self._path,
            "mtime_ns": status.st_mtime_ns,
            "size": status.st_size,
        }

    def read(self) -> ExecutableProbe | None:
        try:
            document = json.loads(self._file.read_text(encoding="utf-8"))
            if {k: document[k] for k in ("format", "path", "mtime_ns", "size")} != self._identity():
                return None
            return ExecutableProbe(self._path, document["version"], frozenset(document["flags"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, probe: ExecutableProbe) -> None:
        """Whole or not at all; a directory that cannot be written costs only the next question."""
        document = {
            **self._identity(),
            "version": probe.version,
            "flags": sorted(probe.flags or ()),
        }
        partial = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(json.dumps(document), encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            return


def differences(probe: ExecutableProbe) -> tuple[str, ...]:
    """How an executable differs from the catalogue, one sentence each.

    Help may hide flags that are accepted (negative forms in 0.33), so nothing is refused over it.
    """
    if probe.version is None:
        return (f"{probe.path} does not tell its version: {probe.problem}",)
    target, known = version_tuple(probe.version), catalogue()
    oldest, newest = version_tuple(known.oldest), version_tuple(known.newest)
    notes = []
    if target and newest and target > newest:
        notes.append(
            f"vLLM {probe.version} is newer than the newest that ServeTune knows "
            f"({known.newest}): its rules and defaults are taken for those of {known.newest}"
        )
    if target and oldest and target < oldest:
        notes.append(f"vLLM {probe.version} is older than {known.oldest}, the oldest known version")
    if probe.flags is None:
        notes.append(f"the flags of vLLM {probe.version} could not be read: {probe.problem}")
        return tuple(notes)
    unknown = sorted(name for name in probe.flags if flag(resolve(f"--{name}")[0]) is None)
    if unknown:
        notes.append(f"flags of this vLLM that ServeTune does not know: {_some(unknown)}")
    missing = sorted(missing_flags(probe))
    if missing:
        notes.append(f"flags that ServeTune expects and its help does not show: {_some(missing)}")
    return tuple(notes)


def missing_flags(probe: ExecutableProbe) -> frozenset[str]:
    """Flags that the catalogue gives this version and its help does not show in any form."""
    if probe.flags is None or probe.version is None:
        return frozenset()
    shown = {resolve(f"--{name}")[0] for name in probe.flags}
    return frozenset(
        info.name
        for info in catalogue().flags.values()
        if has_flag(info, probe.version) and info.name not in shown
    )


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"--{name}" for name in names[:_SHOWN]) + rest
