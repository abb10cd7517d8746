from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.engine.attached_launcher import flags_text, restart_words
from tuner.engine.places import EndpointPlace
from tuner.errors import InfrastructureError

FLAGS = ("--max-num-seqs", "64")
WORDS = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1)


def place(*command: str, flags_file: str | None = None) -> EndpointPlace:
    return EndpointPlace("http://h:1", command, FLAGS, flags_file=flags_file)


def test_flags_are_appended() -> None:
    assert restart_words(place("restart", "vllm")) == ("restart", "vllm", *FLAGS)


def test_flags_replace_their_placeholder() -> None:
    assert restart_words(place("ssh", "{flags}", "now")) == ("ssh", *FLAGS, "now")


def test_a_placeholder_inside_a_word_is_that_words_own() -> None:
    assert restart_words(place("sh", "x{flags}")) == ("sh", "x{flags}", *FLAGS)


def test_flags_in_a_file_are_not_in_the_command() -> None:
    assert restart_words(place("restart", flags_file="/x")) == ("restart",)


@given(st.lists(WORDS))
def test_a_flags_file_gives_back_every_word(words: list[str]) -> None:
    name, _, value = flags_text(words).strip("\n").partition("=")
    (text,) = shlex.split(value.replace("\\$", "$").replace("\\`", "`"))
    assert name == "ENGINE_FLAGS"
    assert shlex.split(text) == words


def test_a_shell_reads_a_flags_file_alike(tmp_path: Path) -> None:
    words = ["--compilation-config", '{"mode": 3}', "it's", "$HOME", "`id`", "a\\b", "*"]
    (tmp_path / "flags.env").write_text(flags_text(words))
    script = '. ./flags.env; eval "set -- $ENGINE_FLAGS"; printf "%s\\0" "$@"'
    read = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert read.stdout.decode().split("\0")[:-1] == words


def test_a_line_break_cannot_be_written() -> None:
    with pytest.raises(InfrastructureError, match="line break"):
        flags_text(["a\nb"])
