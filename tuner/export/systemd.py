"""The form `systemd`: a service unit.

Ready means that /health answers, so that what is ordered after the unit finds a server; the
waiting is in a shell of its own, the engine's argv is in none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.domain.engine_config import LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.container import STARTUP_S, STOP_S, listening_port
from tuner.export.container_document import PLACE_VARIABLES
from tuner.export.launch_words import Launch, find_launch
from tuner.export.layout import Exportable, exportable
from tuner.export.provenance import Provenance, one_line
from tuner.export.shell_words import Word
from tuner.export.systemd_words import (
    quote,
    split_words,
    without_specifiers,
    without_variables,
)

ENVIRONMENT_FILE = "/etc/vllm/vllm.env"
_HEADER = re.compile(r"\[[A-Za-z][A-Za-z-]*\]")
_PREFIXES = "@-:+!|"
_BLANKS = " \t"
_HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectHostname=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077"""
"""Left out, because CUDA cannot do without: PrivateDevices=, ProtectClock= (it closes /dev) and
MemoryDenyWriteExecute= (kernels are compiled at run time)."""


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """Comments on what is missing, then the unit; raises InvalidCommandError."""
    parts = exportable(command)
    comments = [f"# needs {name} in {ENVIRONMENT_FILE}" for name in parts.secrets]
    comments.append("# the executable is looked up in systemd's own path: write yours in full")
    measured = "tuned on a SIMULATED GPU" if provenance.simulated else "tuned by ServeTune"
    description = f"vLLM serving {one_line(parts.model)} ({measured})".replace("%", "%%")
    return "\n".join(
        (
            *comments,
            "[Unit]",
            f"Description={description}",
            "Wants=network-online.target",
            "After=network-online.target",
            "StartLimitIntervalSec=3600",
            "StartLimitBurst=5",
            "",
            "[Service]",
            "Type=exec",
            *_environment(parts),
            _exec_start(parts),
            _wait_until_ready(listening_port(parts.config)),
            f"TimeoutStartSec={STARTUP_S}",
            f"TimeoutStopSec={STOP_S}",
            "KillMode=mixed",
            "Restart=on-failure",
            "RestartSec=10",
            "LimitNOFILE=65536",
            "LimitMEMLOCK=infinity",
            "DynamicUser=yes",
            "StateDirectory=vllm",
            _HARDENING,
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        )
    )


def _environment(parts: Exportable) -> Iterator[str]:
    """The caches of the hub, of vLLM and of its compilers are below HOME."""
    yield "Environment=HOME=%S/vllm"
    for name, value in parts.variables:
        yield f"Environment={quote(f'{name}={value}', in_command=False)}"
    yield f"EnvironmentFile={'' if parts.secrets else '-'}{ENVIRONMENT_FILE}"


def _exec_start(parts: Exportable) -> str:
    groups = [("vllm", "serve", parts.model), *parts.options]
    lines = [" ".join(quote(word, in_command=True) for word in group) for group in groups]
    return "ExecStart=" + " \\\n  ".join(lines)


def _wait_until_ready(port: int) -> str:
    """Gives up at once when the engine has died; without curl it does not wait."""
    check = f"curl --silent --fail --output /dev/null http://127.0.0.1:{port}/health"
    script = (
        "command -v curl >/dev/null || exit 0; "
        f'until {check}; do kill -0 "$MAINPID" || exit 1; sleep 2; done'
    )
    return f"ExecStartPost=/bin/sh -c {quote(script, in_command=True)}"


def is_unit(first_line: str) -> bool:
    """Whether a text whose first line of content is this one is a unit file."""
    return _HEADER.fullmatch(first_line.strip()) is not None


@dataclass(frozen=True, slots=True)
class _Setting:
    """One assignment of the section [Service]."""

    name: str
    value: str
    line: int


def read(text: str) -> tuple[Launch, list[tuple[str, str | None]]]:
    """The launch in ExecStart= and the variables of Environment=; raises InvalidCommandError."""
    found: Launch | None = None
    variables: dict[str, str | None] = {}
    notes: list[str] = []
    for setting in _service_settings(text):
        if setting.name == "Environment":
            _set_variables(setting, variables, notes)
        elif setting.name == "EnvironmentFile" and setting.value:
            notes.append(f"line {setting.line}: the variables in {setting.value} were not read")
        elif setting.name == "ExecStart":
            launch = find_launch(_command_words(setting))
            if launch is not None and found is not None:
                raise InvalidCommandError("more than one launch command", where=_place(setting))
            found = launch or found
    if found is None:
        raise InvalidCommandError("no ExecStart= of this unit starts vLLM")
    found.notes += notes
    if found.form != "docker":
        found.form = "systemd"
    return found, list(variables.items())


def _place(setting: _Setting) -> str:
    return f"line {setting.line}"


def _service_settings(text: str) -> Iterator[_Setting]:
    section = ""
    pending, started = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r")
        if line.lstrip(_BLANKS).startswith(("#", ";")):
            continue  # also between continued lines
        if not pending:
            started = number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole, pending = (pending + line).strip(_BLANKS), ""
        if is_unit(whole):
            section = whole[1:-1]
        elif section == "Service" and "=" in whole:
            name, _, value = whole.partition("=")
            yield _Setting(name.strip(_BLANKS), value.strip(_BLANKS), started)


def _set_variables(setting: _Setting, variables: dict[str, str | None], notes: list[str]) -> None:
    if not setting.value:
        variables.clear()
    for word in _words(setting):
        text, specifier = without_specifiers(word)
        name, equals, value = text.partition("=")
        if not equals or name in PLACE_VARIABLES:
            continue
        if specifier is not None:
            notes.append(f"{_place(setting)}: {specifier} is kept as text, not replaced")
        variables[name] = value


def _command_words(setting: _Setting) -> list[Word]:
    words = _words(setting)
    prefixes = ""
    if words:
        bare = words[0].lstrip(_PREFIXES)
        prefixes, words[0] = words[0][: len(words[0]) - len(bare)], bare
    if "@" in prefixes:
        del words[1:2]  # the name that the process shows itself under
    found = []
    for index, word in enumerate(words):
        text, expansion = without_specifiers(word)
        if index and ":" not in prefixes:
            text, variable = without_variables(text)
            expansion = expansion or variable
        found.append(Word(text, expansion=expansion, key=_place(setting)))
    return found


def _words(setting: _Setting) -> list[str]:
    try:
        return split_words(setting.value)
    except InvalidCommandError as error:
        raise InvalidCommandError(error.message, where=_place(setting)) from None
