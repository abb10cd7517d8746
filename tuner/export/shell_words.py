"""Splitting shell text into commands and words without ever evaluating it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.errors import InvalidCommandError

MAX_CHARACTERS = 100_000
_VARIABLE = re.compile(r"\$(?:\{?[A-Za-z_]\w*|[0-9@*#?])", re.ASCII)
_CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
_OPERATOR = re.compile(r"\d*>>?&?|<<?<?|&&|\|\||&>>?|[;&|()\n]")
_REDIRECTION = re.compile(r"\d*(?:>>?&?|<)|&>>?")


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its quotes removed, and where it starts (both count from 1)."""

    text: str
    line: int = 0
    column: int = 0
    expansion: str | None = None
    """The first variable that a shell would have replaced; the text keeps it as written."""
    key: str | None = None
    """Where the word stands in a document of keys (`services.vllm.command[2]`)."""

    @property
    def place(self) -> str:
        return self.key or f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class ShellText:
    """Simple commands (never empty) in order, without redirections, and remarks."""

    commands: tuple[tuple[Word, ...], ...]
    notes: tuple[str, ...]


def split_commands(text: str) -> ShellText:
    """The simple commands in POSIX shell text; comments and redirections are dropped.

    Raises InvalidCommandError for open quotes and for substitutions, which only a shell can read.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidCommandError(f"the command is longer than {MAX_CHARACTERS} characters")
    splitter = _Splitter(text)
    splitter.run()
    return ShellText(tuple(c for c in splitter.commands if c), tuple(splitter.notes))


class _Splitter:
    """One pass over the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._skip_next_word = False
        self.commands: list[tuple[Word, ...]] = []
        self._words: list[Word] = []
        self.notes: list[str] = []

    def run(self) -> None:
        while self._at < len(self._text):
            character = self._text[self._at]
            operator = _OPERATOR.match(self._text, self._at)
            if self._skip_continuation():
                continue
            if operator:
                self._take_operator(operator.group())
            elif character.isspace():
                self._at += 1
            elif character == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                self._take_word()
        self.commands.append(tuple(self._words))

    def _place(self, at: int) -> tuple[int, int]:
        before = self._text[:at]
        return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1

    def _refuse(self, message: str, at: int, hint: str | None = None) -> InvalidCommandError:
        line, column = self._place(at)
        return InvalidCommandError(message, hint=hint, where=f"line {line}, column {column}")

    def _skip_continuation(self) -> bool:
        match = _CONTINUATION.match(self._text, self._at)
        if match is None:
            return False
        if match.group().rstrip("\r\n") != "\\":
            line, _ = self._place(self._at)
            note = "a space follows the backslash: a shell would end the command there"
            self.notes.append(f"line {line}: {note}")
        self._at = match.end()
        return True

    def _take_operator(self, operator: str) -> None:
        self._at += len(operator)
        if _REDIRECTION.fullmatch(operator):
            self._skip_next_word = True
            return
        if operator.startswith("<<"):
            raise self._refuse("a here-document is not a launch command", self._at - len(operator))
        self.commands.append(tuple(self._words))
        self._words = []

    def _take_word(self) -> None:
        start = self._at
        line, column = self._place(start)
        parts: list[str] = []
        expansion: str | None = None
        while self._at < len(self._text):
            character = self._text[self._at]
            if self._skip_continuation():
                continue
            if character.isspace() or character in ";&|()<>":
                break
            if character == "'":
                parts.append(self._single_quoted())
            elif character == '"':
                quoted, variable = self._double_quoted()
                parts.append(quoted)
                expansion = expansion or variable
            elif character == "\\":
                parts.append(self._escaped())
            else:
                expansion = expansion or self._variable()
                parts.append(character)
                self._at += 1
        if self._skip_next_word:
            self._skip_next_word = False
        else:
            self._words.append(Word("".join(parts), line, column, expansion))

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._refuse("a single quote is never closed", self._at)
        quoted = self._text[self._at + 1 : end]
        self._at = end + 1
        return quoted

    def _double_quoted(self) -> tuple[str, str | None]:
        opened = self._at
        parts: list[str] = []
        expansion: str | None = None
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return "".join(parts), expansion
            following = self._text[self._at + 1 : self._at + 2]
            if character == "\\" and following and following in '$`"\\\n':
                parts.append("" if following == "\n" else following)
                self._at += 2
                continue
            expansion = expansion or self._variable()
            parts.append(character)
            self._at += 1
        raise self._refuse("a double quote is never closed", opened)

    def _escaped(self) -> str:
        if self._at + 1 >= len(self._text):
            raise self._refuse(
                "the command ends with a backslash", self._at, "a line is missing, or delete it"
            )
        character = self._text[self._at + 1]
        self._at += 2
        return character

    def _variable(self) -> str | None:
        """The variable that starts here, if one does; substitutions are refused."""
        rest = self._text[self._at : self._at + 2]
        if rest.startswith("`") or rest == "$(":
            raise self._refuse("a command substitution", self._at, "write its value")
        if rest == "$'":
            raise self._refuse("$'...' quoting is not supported", self._at, "use plain quotes")
        match = _VARIABLE.match(self._text, self._at)
        return match.group().replace("{", "") if match else None
