"""Writing launch commands in the forms people use, and reading them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tuner.domain.argv import ArgvReading, read_argv
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.flag_catalogue import (
    catalogue,
    flag,
    has_flag,
    is_allowed_environment,
    is_secret_environment,
    managed_flags,
)
from tuner.domain.rules import violations
from tuner.errors import InvalidCommandError
from tuner.export import (
    compose,
    config_yaml,
    configuration_file,
    docker,
    json_form,
    kubernetes,
    python_module,
    systemd,
    vllm_serve,
)
from tuner.export.documents import read_document
from tuner.export.launch_words import Launch, assignments_in, find_launch
from tuner.export.provenance import Provenance, comment_lines
from tuner.export.shell_words import ShellText, Word, split_commands

FORMS: Mapping[str, Callable[[LaunchCommand, Provenance], str]] = MappingProxyType(
    {
        "vllm": vllm_serve.render,
        "python-module": python_module.render,
        "docker": docker.render,
        "config-yaml": config_yaml.render,
        "compose": compose.render,
        "kubernetes": kubernetes.render,
        "systemd": systemd.render,
        "json": json_form.render,
    }
)
_WITHOUT_COMMENTS = frozenset({"json"})


def render(form: str, command: LaunchCommand, provenance: Provenance) -> str:
    """The command as text of this form, a newline at its end.

    Provenance is in leading comments, or in the JSON object. Numbers are plain, secrets are named
    and never written. Raises InvalidCommandError for an unknown form and for a command that the
    form cannot carry.
    """
    writer = FORMS.get(form)
    if writer is None:
        raise InvalidCommandError(f"{form!r} is not a form", hint=f"one of {', '.join(FORMS)}")
    comments = () if form in _WITHOUT_COMMENTS else comment_lines(provenance)
    return "\n".join((*comments, writer(command, provenance))) + "\n"


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A launch command found in text, with remarks on what was not taken over as it stands.

    `secrets` are variables or flags whose values were not kept. `executable` is the program that
    was named, where the engine does not run in a container.
    """

    command: LaunchCommand
    form: str
    image: str | None
    secrets: tuple[str, ...]
    notes: tuple[str, ...]
    executable: str | None = None

    @property
    def tunable_config(self) -> EngineConfig:
        """The configuration without what ServeTune sets itself: what a baseline may hold."""
        return self.command.config.without(*managed_flags())


def parse(text: str) -> LaunchCommand:
    """The launch command in text of any form; nothing is ever evaluated.

    Raises InvalidCommandError with what is wrong and where.
    """
    return parse_with_notes(text).command


def parse_with_notes(text: str, *, read_file: Callable[[str], str] | None = None) -> ParsedCommand:
    """`parse`, with everything worth telling about the command.

    `read_file` gives the text of the file that `--config FILE` names; without it that flag stays.
    """
    launch, exported, notes = _launch_in(text)
    if read_file is not None:
        configuration_file.expand(launch, read_file)
    notes += launch.notes
    notes += [
        f"{word.place}: {word.expansion} is kept as text, not replaced"
        for word in launch.words
        if word.expansion
    ]
    reading = read_argv([w.text for w in launch.words], [w.place for w in launch.words])
    model, config = _model_and_config(launch, reading, notes)
    variables = launch.variables if launch.form == "docker" else [*exported, *launch.variables]
    notes += [
        f"{word.place}: vLLM takes --config=FILE and does not read the file: use a space"
        for word in launch.words
        if word.text.startswith("--config=")
    ]
    env, secrets = _environment(variables, notes)
    config, secret_flags = _without_secret_flags(config, notes)
    notes += _remarks(config)
    return ParsedCommand(
        command=LaunchCommand(model=model, config=config, env=env),
        form=launch.form,
        image=launch.image,
        secrets=(*secrets, *secret_flags),
        notes=tuple(notes + list(reading.notes)),
        executable=launch.executable,
    )


def _launch_in(text: str) -> tuple[Launch, list[tuple[str, str | None]], list[str]]:
    """The launch, the variables set around it, and remarks: from a document or from shell text."""
    document = read_document(text)
    if document is not None:
        return document.launch, document.variables, []
    shell = split_commands(text)
    launch, exported = _only_launch(shell)
    return launch, exported, list(shell.notes)


def _only_launch(shell: ShellText) -> tuple[Launch, list[tuple[str, str | None]]]:
    """The one launch in the text, and the variables exported before it."""
    found: Launch | None = None
    exported: list[tuple[str, str | None]] = []
    ignored: list[str] = []
    for words in shell.commands:
        launch = find_launch(words)
        if launch is not None and found is not None:
            raise InvalidCommandError("more than one launch command", where=words[0].place)
        found = launch or found
        variables = assignments_in(words) if launch is None else []
        exported += variables if found is None else []
        if launch is None and not variables:
            ignored.append(f"{words[0].place}: {words[0].text!r} and what follows is ignored")
    if found is None:
        raise _no_launch(shell)
    found.notes += ignored
    return found, exported


def _no_launch(shell: ShellText) -> InvalidCommandError:
    first = shell.commands[0][0] if shell.commands else None
    what = f"{first.text!r} does not start vLLM" if first else "there is no command"
    hint = (
        "give `vllm serve …`, `python -m vllm.entrypoints.openai.api_server …`, `docker run …`, "
        "or a file of another form that `servetune export` writes"
    )
    return InvalidCommandError(what, hint=hint, where=first.place if first else None)


def _model_and_config(
    launch: Launch, reading: ArgvReading, notes: list[str]
) -> tuple[str, EngineConfig]:
    named = reading.config.get("model")
    positionals = list(reading.positionals)
    if named is not None and launch.form == "vllm":
        notes.append("`vllm serve` takes the model without --model")
    if named is None and positionals:
        named = positionals.pop(0)
        if launch.form == "python-module":
            notes.append("this form ignores a model that is not given by --model")
    if positionals:
        raise InvalidCommandError(
            f"{positionals[0]!r} belongs to no flag", where=_place_of(positionals[0], launch.words)
        )
    if not isinstance(named, str) or not named:
        place = launch.words[0].place if launch.words else None
        raise InvalidCommandError("the command names no model", where=place)
    _refuse_variable(named, launch.words)
    return named, reading.config.without("model")


def _place_of(text: str, words: tuple[Word, ...]) -> str | None:
    return next((word.place for word in reversed(words) if word.text == text), None)


def _refuse_variable(model: str, words: tuple[Word, ...]) -> None:
    for word in words:
        if word.expansion and word.text in (model, f"--model={model}"):
            raise InvalidCommandError(
                f"the model is the shell variable {word.expansion}",
                hint="write its value",
                where=word.place,
            )


def _environment(
    variables: list[tuple[str, str | None]], notes: list[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    env: dict[str, str] = {}
    secrets: list[str] = []
    for name, value in variables:
        if is_secret_environment(name):
            secrets.append(name)
            if value is not None:
                notes.append(f"the value of {name} is a secret and was not kept")
        elif value is None:
            notes.append(f"{name} is passed on from the caller's environment")
        elif is_allowed_environment(name):
            env[name] = value
        else:
            notes.append(f"the environment variable {name} is not allowed and was left out")
    return tuple(env.items()), tuple(dict.fromkeys(secrets))


def _without_secret_flags(
    config: EngineConfig, notes: list[str]
) -> tuple[EngineConfig, tuple[str, ...]]:
    secret = tuple(n for n, _ in config.flags if (info := flag(n)) is not None and info.secret)
    notes += [f"the value of --{name} is a secret and was not kept" for name in secret]
    return config.without(*secret), secret


def _remarks(config: EngineConfig) -> list[str]:
    """What the newest vLLM that ServeTune knows would make of the flags."""
    newest = catalogue().newest
    remarks = []
    for name, _ in config.flags:
        info = flag(name)
        if info is None:
            remarks.append(f"--{name} is not a flag that ServeTune knows")
        elif info.until and has_flag(info, newest) is False:
            remarks.append(f"--{name} was removed in vLLM {info.until}")
        elif info.managed:
            remarks.append(f"--{name} is not for a study to set: {info.managed}")
    remarks += [f"vLLM refuses this: {v.message}" for v in violations(config, None)]
    return remarks
