from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.unhurried import UNHURRIED
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes
from tuner.export.yaml_text import MAX_NODES, Quoted, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("vllm serve m", "vllm"),
        ("{ vllm serve m; }", "vllm"),
        ("HF_HOME='a: b' vllm serve m", "vllm"),
        ("# model: x\nvllm serve m", "vllm"),
        ("vllm serve 'm\n[Service]\nmodel: x'", "vllm"),
        ("model: m", "config-yaml"),
        ("\ufeffmodel: m", "config-yaml"),
        ("\n  # x\n\nmodel: m", "config-yaml"),
        ("services: {a: {image: i, command: vllm serve m}}", "compose"),
        ("[Service]\nExecStart=vllm serve m", "systemd"),
        ("# x\n; y\n[Unit]\n[Service]\nExecStart=vllm serve m", "systemd"),
        ('{"argv": ["vllm", "serve", "m"]}', "json"),
    ],
)
def test_the_form_is_recognised(text: str, form: str) -> None:
    try:
        assert parse_with_notes(text).form == form
    except InvalidCommandError:
        assert text.startswith("{ ")  # `{` is a word to us, as it is to a shell


def test_too_long_a_document_is_refused() -> None:
    with pytest.raises(InvalidCommandError, match="longer than"):
        parse("model: " + "m" * 100_000)


BOMB = "model: m\na: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)
)


def test_a_document_that_only_aliases_make_large_is_refused() -> None:
    with pytest.raises(InvalidCommandError, match=f"more than {MAX_NODES} values"):
        parse(BOMB)
    with pytest.raises(InvalidCommandError, match=f"more than {MAX_NODES} values"):
        parse("model: m\na: &a [*a]\n")


@pytest.mark.parametrize(
    "text",
    [
        "model: !!python/object/apply:os.system [id]",
        "model: [",
        "model: m\n  seed: 1",
        "model: \x07",
        "model: 2024-13-99",
        "a: " + "[" * 5000,
    ],
)
def test_bad_yaml_is_refused(text: str) -> None:
    with pytest.raises(InvalidCommandError, match="not YAML"):
        parse(text)


@UNHURRIED
@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=60))
def test_quoted_text_is_read_back_exactly(text: str) -> None:
    written = write_yaml([{"a": Quoted(text), "b": [text], text: 1}])
    assert read_yaml(written) == [
        {"a": text, "b": [text], text: 1} if text != "a" else {"a": 1, "b": [text]}
    ]


PIECES = st.sampled_from(
    [
        *("model: m", "services:", "kind: Pod", "apiVersion: v1", "spec:", "  a:", "containers:"),
        *("    image: vllm", "    command: vllm serve m", "- x", "---", "{", "}", "env:", "'", '"'),
        *("[Service]", "ExecStart=vllm serve m", "Environment=A=1", "\\"),
        '{"argv": ["vllm", "serve", "m"]}',
    ]
)


@UNHURRIED
@given(st.lists(PIECES, max_size=10).map("\n".join))
def test_any_document_is_read_or_refused(text: str) -> None:
    try:
        parsed = parse(text)
    except InvalidCommandError:
        return
    assert parsed.model
