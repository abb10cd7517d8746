from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import ODD_TEXT
from tests.support.unhurried import UNHURRIED
from tuner.errors import InvalidCommandError
from tuner.export.shell_words import MAX_CHARACTERS, Word, split_commands


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command] for command in split_commands(text).commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n\t ", []),
        ("# only a comment", []),
        ("a b  c", [["a", "b", "c"]]),
        ("a\tb", [["a", "b"]]),
        ("'a b' c", [["a b", "c"]]),
        ('"a b" c', [["a b", "c"]]),
        ("a' 'b", [["a b"]]),
        ("''", [[""]]),
        ('a "" b', [["a", "", "b"]]),
        (r"a\ b", [["a b"]]),
        (r"\'", [["'"]]),
        (r"'a\b'", [[r"a\b"]]),
        (r'"a\"b"', [['a"b']]),
        (r'"a\\b"', [[r"a\b"]]),
        (r'"a\nb"', [[r"a\nb"]]),
        (r'"\$HOME"', [["$HOME"]]),
        ("'$(rm -rf /)'", [["$(rm -rf /)"]]),
        ("'`id`'", [["`id`"]]),
        ("a \\\n b", [["a", "b"]]),
        ("a\\\nb", [["ab"]]),
        ("a \\\r\n b", [["a", "b"]]),
        ('"a\\\nb"', [["ab"]]),
        ("'a\nb'", [["a\nb"]]),
        ("a\nb", [["a"], ["b"]]),
        ("a; b", [["a"], ["b"]]),
        ("a && b || c", [["a"], ["b"], ["c"]]),
        ("a | b & c &", [["a"], ["b"], ["c"]]),
        ("(a)", [["a"]]),
        ("a # comment 'x\nb", [["a"], ["b"]]),
        ("a#b", [["a#b"]]),
        ("'#' a", [["#", "a"]]),
        ("a > log 2>&1", [["a"]]),
        ("a >> log b", [["a", "b"]]),
        ("a &> log", [["a"]]),
        ("a 2> 'my log' b", [["a", "b"]]),
        ("a < in", [["a"]]),
        ("a>log", [["a"]]),
        ("--x='{\"a\": 1}'", [['--x={"a": 1}']]),
        ("a ~/x *.y {1,2}", [["a", "~/x", "*.y", "{1,2}"]]),
        ("a $", [["a", "$"]]),
        ("a 5$", [["a", "5$"]]),
    ],
)
def test_text_is_split_as_a_shell_would(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@UNHURRIED
@given(st.lists(ODD_TEXT, min_size=1, max_size=5))
def test_quoted_words_survive(texts: list[str]) -> None:
    assert words(" ".join(shlex.quote(text) for text in texts)) == [texts]


@UNHURRIED
@given(st.lists(ODD_TEXT, min_size=1, max_size=5))
def test_words_in_double_quotes_survive(texts: list[str]) -> None:
    quoted = ['"' + "".join(f"\\{c}" if c in '$`"\\' else c for c in t) + '"' for t in texts]
    assert words(" ".join(quoted)) == [texts]


@UNHURRIED
@given(st.text(alphabet="ab \t'\"\\", max_size=30))
def test_pythons_own_splitter_agrees(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(InvalidCommandError):
            split_commands(text)
        return
    assert words(text) == ([expected] if expected else [])


@UNHURRIED
@given(st.text(max_size=80) | st.text(alphabet="ab '\"\\$`(){}<>|&;#\n=-", max_size=40))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        shell = split_commands(text)
    except InvalidCommandError as error:
        assert error.where or len(text) > MAX_CHARACTERS  # noqa: PT017 - either way is fine
        return
    assert all(shell.commands)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("a 'b", "a single quote is never closed", "line 1, column 3"),
        ("a\n  'b", "a single quote is never closed", "line 2, column 3"),
        ('a "b', "a double quote is never closed", "line 1, column 3"),
        ("a $(id)", "a command substitution", "line 1, column 3"),
        ('a "$(id)"', "a command substitution", "line 1, column 4"),
        ("a `id`", "a command substitution", "line 1, column 3"),
        ('a "`id`"', "a command substitution", "line 1, column 4"),
        ("a $'x'", "quoting is not supported", "line 1, column 3"),
        ("a \\", "the command ends with a backslash", "line 1, column 3"),
        ("cat <<EOF", "a here-document is not a launch command", "line 1, column 5"),
    ],
)
def test_what_only_a_shell_can_read_is_refused_with_its_place(
    text: str, message: str, where: str
) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        split_commands(text)
    assert message in caught.value.message
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("text", "expansion"),
    [
        ("$HOME", "$HOME"),
        ("${HOME}/x", "$HOME"),
        ('"$HOME"', "$HOME"),
        ("a$1", "$1"),
        ("'$HOME'", None),
        (r"\$HOME", None),
        (r'"\$HOME"', None),
        ("a", None),
    ],
)
def test_variables_are_kept_as_text_and_marked(text: str, expansion: str | None) -> None:
    (((word),),) = split_commands(text).commands
    assert word.expansion == expansion
    assert expansion is None or "$" in word.text


def test_words_know_their_place() -> None:
    ((first, second),) = split_commands("a \\\n   'b c'").commands
    assert first == Word("a", 1, 1)
    assert second == Word("b c", 2, 4)
    assert second.place == "line 2, column 4"


def test_a_space_after_the_backslash_is_forgiven_and_remarked() -> None:
    shell = split_commands("vllm serve m \\ \n  --seed 1")
    assert [word.text for word in shell.commands[0]] == ["vllm", "serve", "m", "--seed", "1"]
    assert shell.notes == (
        "line 1: a space follows the backslash: a shell would end the command there",
    )


def test_clean_text_needs_no_remark() -> None:
    assert split_commands("a \\\n b").notes == ()


def test_long_text_is_refused() -> None:
    with pytest.raises(InvalidCommandError, match="longer than"):
        split_commands("a" * (MAX_CHARACTERS + 1))
