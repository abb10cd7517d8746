"""What `--version` and `serve --help` print."""

from __future__ import annotations

from tuner.domain.flag_catalogue import FlagInfo, catalogue, has_flag
from tuner.simulator.server.arguments import USAGE, VLLM_VERSION
from tuner.simulator.simulator_options import simulator_help

FIRST_LINE = "usage: vllm serve [model_tag] [options]"
HELP_COLUMN = 46


def wants_help(args: tuple[str, ...]) -> bool:
    """Whether argparse would print help before it reads anything else: `--help`, `--help=all`."""
    return any(arg in ("-h", "--help") or arg.startswith("--help=") for arg in args)


def serve_help() -> str:
    """The flags this version knows, then the simulator's own."""
    flags = [info for info in catalogue().flags.values() if _is_shown(info)]
    lines = [f"  {_spelling(info):<{HELP_COLUMN}}{_values(info)}".rstrip() for info in flags]
    note = "A simulated engine: a model of vLLM on a named GPU. Its numbers are not a GPU's."
    return "\n".join([FIRST_LINE, "", note, "", "options:", *lines, "", simulator_help()])


def general_help() -> str:
    """`vllm --help`, of which only `serve` exists here."""
    return USAGE


def version_text() -> str:
    """What `vllm --version` prints."""
    return f"{VLLM_VERSION}\n"


def _is_shown(info: FlagInfo) -> bool:
    return has_flag(info, VLLM_VERSION) is not False


def _spelling(info: FlagInfo) -> str:
    if info.is_boolean and info.negatable:
        return f"--{info.name}, --no-{info.name}"
    if info.is_boolean:
        return f"--{info.name}"
    return f"--{info.name} {info.name.replace('-', '_').upper()}"


def _values(info: FlagInfo) -> str:
    return f"one of {', '.join(info.choices)}" if info.choices else ""
