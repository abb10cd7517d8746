"""A launch whose flags are partly in the file that `--config FILE` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.domain.argv import read_argv
from tuner.errors import InvalidCommandError
from tuner.export import config_yaml
from tuner.export.launch_words import Launch
from tuner.export.yaml_text import read_yaml

OPTION = "--config"


def expand(launch: Launch, read_file: Callable[[str], str]) -> None:
    """Put the file's flags where vLLM puts them: before those of the command, which win.

    `--config=FILE` stays as it is, because vLLM does not read that file. Raises
    InvalidCommandError for a file that holds no flags.
    """
    texts = [word.text for word in launch.words]
    if launch.image is not None or OPTION not in texts:
        return
    at = texts.index(OPTION)
    if at + 1 == len(texts):
        raise InvalidCommandError("--config expects a file", where=launch.words[at].place)
    name, place = texts[at + 1], launch.words[at].place
    text = read_file(name)
    documents = read_yaml(text)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise InvalidCommandError(f"{name} holds no flags", where=place)
    in_file = config_yaml.read(documents[0], text)
    rest = (*launch.words[:at], *launch.words[at + 2 :])
    names_model = read_argv([word.text for word in rest]).positionals
    words = [w for w in in_file.words if not (names_model and w.key == "model")]
    launch.words = (*words, *rest)
    launch.notes += [f"{name}: {note}" for note in in_file.notes]
