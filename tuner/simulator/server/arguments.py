"""The command line of the simulated `vllm serve`, read and refused as vLLM reads and refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.argv import read_argv
from tuner.domain.engine_config import EngineConfig
from tuner.domain.flag_catalogue import FlagInfo, flag, has_flag, resolve
from tuner.domain.flag_values import range_fault
from tuner.errors import InvalidCommandError
from tuner.simulator.simulator_options import SimulatorOptions, split_simulator_options

VLLM_VERSION = "0.32.0"
DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
USAGE = (
    "usage: vllm [-h] [-v]\n"
    "            {chat,complete,serve,launch,bench,collect-env,run-batch}\n"
    "            ...\n"
)
_MODEL_OPTION = (
    "With `vllm serve`, you should provide the model as a positional argument or in a config file "
    "instead of via the `--model` option."
)


class UsageError(InvalidCommandError):
    """What argparse refuses: printed below the usage block, exit code 2."""


@dataclass(frozen=True, slots=True)
class ServeArguments:
    """A command line that argparse accepts."""

    model: str
    config: EngineConfig
    options: SimulatorOptions

    @property
    def host(self) -> str | None:
        value = self.config.get("host")
        return value if isinstance(value, str) else None

    @property
    def port(self) -> int:
        value = self.config.get("port")
        return value if isinstance(value, int) else 8000

    @property
    def served_names(self) -> tuple[str, ...]:
        value = self.config.get("served-model-name")
        names = tuple(value.split()) if isinstance(value, str) else ()
        return names or (self.model,)

    @property
    def api_key(self) -> str | None:
        value = self.config.get("api-key")
        return value if isinstance(value, str) else None

    @property
    def shutdown_timeout_s(self) -> float:
        value = self.config.get("shutdown-timeout")
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def access_log(self) -> bool:
        return self.config.get("disable-uvicorn-access-log") is not True


def read_arguments(args: Sequence[str]) -> ServeArguments:
    """Read what follows `serve`.

    Raises UsageError for what argparse refuses, InvalidCommandError for `--model`; exits with 2
    for a bad `--sim-…` option.
    """
    options, rest = split_simulator_options(args)
    unrecognized = _unrecognized(rest)
    _refuse_attached_booleans(rest)
    try:
        reading = read_argv(rest)
    except InvalidCommandError as error:
        raise UsageError(f"argument {error.message}") from None
    if reading.config.get("model") is not None:
        raise InvalidCommandError(_MODEL_OPTION)
    if unrecognized:
        raise UsageError(f"unrecognized arguments: {' '.join(unrecognized)}")
    _refuse_choices(reading.config)
    model = reading.positionals[0] if reading.positionals else DEFAULT_MODEL
    return ServeArguments(model, reading.config, options)


def _is_known(token: str) -> FlagInfo | None:
    """The flag an option token names in this version of vLLM, or None."""
    if token.startswith("-O"):
        return flag("optimization-level")
    name, _ = resolve(token.partition("=")[0])
    info = flag(name) or flag(name.partition(".")[0])
    if info is None or has_flag(info, VLLM_VERSION) is False:
        return None
    return info


def _unrecognized(args: Sequence[str]) -> list[str]:
    """Unknown options with the values after them, and every positional but the first."""
    found: list[str] = []
    positionals = 0
    position = 0
    while position < len(args):
        token = args[position]
        position += 1
        if not _is_option(token):
            positionals += 1
            if positionals > 1:
                found.append(token)
            continue
        values = _values_after(args, position)
        info = _is_known(token)
        if info is None:
            found += [token, *values]
            position += len(values)
        elif _takes_values(token, info):
            position += len(values) if info.type.value == "words" else min(1, len(values))
    return found


def _takes_values(token: str, info: FlagInfo) -> bool:
    """Whether the flag's value is not part of the token: `-O3` and `--name=value` carry theirs."""
    attached = "=" in token or (token.startswith("-O") and len(token) > 2)
    return not info.is_boolean and not attached


def _values_after(args: Sequence[str], position: int) -> list[str]:
    values = []
    while position < len(args) and not _is_option(args[position]):
        values.append(args[position])
        position += 1
    return values


def _is_option(token: str) -> bool:
    return token.startswith("-") and len(token) > 1 and not token[1].isdigit()


def _refuse_attached_booleans(args: Sequence[str]) -> None:
    for token in args:
        name, equals, value = token.partition("=")
        if not equals or not token.startswith("--"):
            continue
        info = _is_known(token)
        if info is not None and info.is_boolean and "." not in name:
            raise UsageError(
                f"argument --{info.name}, --no-{info.name}: ignored explicit argument '{value}'"
            )


def _refuse_choices(config: EngineConfig) -> None:
    for name, value in config.flags:
        info = flag(name)
        if info is not None and info.choices and value not in info.choices:
            choices = ", ".join(f"'{choice}'" for choice in info.choices)
            raise UsageError(
                f"argument --{info.name}: invalid choice: '{value}' (choose from {choices})"
            )


def range_findings(config: EngineConfig) -> list[tuple[str, str]]:
    """(field, message) of every flag outside its own limits that no rule between flags covers."""
    found = []
    for name, value in config.flags:
        info = flag(name)
        if info is None or isinstance(value, bool | str) or range_fault(info, value) is None:
            continue
        found.append((name.replace("-", "_"), _range_message(info, float(value))))
    return found


def _range_message(info: FlagInfo, value: float) -> str:
    if info.minimum is not None and value < info.minimum:
        return f"Input should be greater than or equal to {info.minimum:g}"
    if info.above is not None and value <= info.above:
        return f"Input should be greater than {info.above:g}"
    return f"Input should be less than or equal to {info.maximum:g}"
