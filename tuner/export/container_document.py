"""Finding the launch among the containers that a deployment document describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.errors import InvalidCommandError
from tuner.export.launch_words import Launch, find_launch, launch_in_container
from tuner.export.shell_words import Word

PLACE_VARIABLES = frozenset({"HOME", "USER", "LOGNAME"})
"""They belong to where the engine runs, not to the engine."""


@dataclass(slots=True)
class Container:
    """One container: `entrypoint` and `arguments` are None-free words, empty when not given."""

    key: str
    image: str
    entrypoint: tuple[Word, ...]
    arguments: tuple[Word, ...]
    variables: list[tuple[str, str | None]]
    notes: list[str] = field(default_factory=list)


def only_launch(containers: Sequence[Container], form: str) -> Launch:
    """The launch of the one container that serves; InvalidCommandError for none and for more."""
    found: Launch | None = None
    for container in containers:
        launch = _launch(container)
        if launch is None:
            continue
        if found is not None:
            raise InvalidCommandError("more than one launch command", where=container.key)
        found = launch
    if found is None:
        keys = ", ".join(container.key for container in containers) or "no container"
        raise InvalidCommandError(f"nothing here starts vLLM ({keys})")
    found.form = form
    return found


def _launch(container: Container) -> Launch | None:
    is_engine = "vllm" in container.image.lower()
    if not is_engine and find_launch((*container.entrypoint, *container.arguments)) is None:
        return None
    launch = launch_in_container(container.entrypoint, container.arguments, container.key)
    launch.image = container.image or None
    launch.executable = None
    variables = [pair for pair in container.variables if pair[0] not in PLACE_VARIABLES]
    launch.variables = variables + launch.variables
    launch.notes[:0] = container.notes
    return launch


def words_of(
    value: object, key: str, read: Callable[[str], tuple[str, str | None]]
) -> tuple[Word, ...]:
    """A list of texts as words; `read` undoes the document's escaping and names a variable."""
    if not isinstance(value, list):
        raise InvalidCommandError("expected a list of texts", where=key)
    words = []
    for index, item in enumerate(value):
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise InvalidCommandError("expected text", where=f"{key}[{index}]")
        text, expansion = read(str(item))
        words.append(Word(text, key=f"{key}[{index}]", expansion=expansion))
    return tuple(words)


def mapping_of(value: object, key: str) -> Mapping[str, object]:
    """A mapping, empty for nothing; InvalidCommandError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidCommandError("expected a mapping", where=key)
    return {str(name): item for name, item in value.items()}


def scalar_text(value: object, key: str) -> str:
    """The text of a scalar as a container gets it; InvalidCommandError for lists and mappings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise InvalidCommandError("expected text", where=key)
    return str(value)
