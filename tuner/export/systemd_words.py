"""systemd's quoting (systemd.service(5)): words of a line, escapes, specifiers, variables."""

from __future__ import annotations

import re

from tuner.errors import InvalidCommandError

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@,+-]+", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
_UNESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "s": " ",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
_WHITESPACE = " \t\n\r"
_CODES = (("x", 2, 16), ("u", 4, 16), ("U", 8, 16), ("", 3, 8))
_SPECIFIER = re.compile(r"%(?:%|[A-Za-z])")
_VARIABLE = re.compile(r"\$(?:\$|\{[A-Za-z_]\w*\})", re.ASCII)
_WHOLE_VARIABLE = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)


def quote(text: str, *, in_command: bool) -> str:
    """One word for a unit file, in double quotes where it needs them.

    In a command (`in_command`) `$` starts a variable and is doubled; in Environment= it does not.
    Raises InvalidCommandError for characters that no unit file can carry.
    """
    if _PLAIN.fullmatch(text):
        return text
    return '"' + "".join(_escaped(character, in_command) for character in text) + '"'


def _escaped(character: str, in_command: bool) -> str:
    code = ord(character)
    if code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:
        raise InvalidCommandError(f"systemd takes no character U+{code:04X}")
    if character == "$":
        return "$$" if in_command else "$"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character == " " or character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def split_words(line: str) -> list[str]:
    """The words of a line, quotes and escapes removed; InvalidCommandError for an open quote."""
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] in _WHITESPACE:
            at += 1
            continue
        word, at = _word(line, at)
        words.append(word)
    return words


def _word(line: str, at: int) -> tuple[str, int]:
    parts = bytearray()
    quote_character = ""
    while at < len(line):
        character = line[at]
        if quote_character and character == quote_character:
            quote_character = ""
            at += 1
        elif not quote_character and character in "\"'":
            quote_character = character
            at += 1
        elif character == "\\" and at + 1 < len(line):
            piece, at = _escape(line, at + 1)
            parts += piece
        elif not quote_character and character in _WHITESPACE:
            break
        else:
            parts += character.encode("utf-8", "surrogatepass")
            at += 1
    if quote_character:
        raise InvalidCommandError(f"a quote {quote_character} is never closed")
    return parts.decode("utf-8", "replace"), at


def _escape(line: str, at: int) -> tuple[bytes, int]:
    """The bytes of the escape after a backslash, and where it ends; unknown ones stay."""
    character = line[at]
    if character in _UNESCAPED:
        return _UNESCAPED[character].encode(), at + 1
    for letter, digits, base in _CODES:
        start = at + len(letter)
        text = line[start : start + digits]
        if character == letter or (not letter and character in "01234567"):
            try:
                code = int(text, base) if len(text) == digits else -1
                piece = bytes([code]) if letter in ("x", "") else chr(code).encode()
            except (ValueError, UnicodeEncodeError, OverflowError):
                break
            return piece, start + digits
    return b"\\" + character.encode("utf-8", "surrogatepass"), at + 1


def without_specifiers(text: str) -> tuple[str, str | None]:
    """`%%` as `%`; the first specifier that systemd would have replaced stays as text."""
    found = [m.group() for m in _SPECIFIER.finditer(text) if m.group() != "%%"]
    plain = _SPECIFIER.sub(lambda m: "%" if m.group() == "%%" else m.group(), text)
    return plain, found[0] if found else None


def without_variables(text: str) -> tuple[str, str | None]:
    """`$$` as `$`; the first variable that systemd would have replaced stays as text."""
    if _WHOLE_VARIABLE.fullmatch(text):
        return text, text
    found = [m.group() for m in _VARIABLE.finditer(text) if m.group() != "$$"]
    plain = _VARIABLE.sub(lambda m: "$" if m.group() == "$$" else m.group(), text)
    return plain, found[0] if found else None
