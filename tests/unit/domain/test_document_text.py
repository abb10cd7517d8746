from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.unhurried import UNHURRIED
from tuner.domain.document_text import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    excerpt,
    nearest,
    path_text,
    read_document,
)


def values_of(text: str) -> object:
    document = read_document(text)
    assert document.faults == ()
    return document.values


def faults_of(text: str) -> list[str]:
    return [str(fault) for fault in read_document(text).faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("null", None),
        ("~", None),
        ("", None),
        ("8", 8),
        ("-8", -8),
        ("+8", 8),
        ("0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("8k", "8k"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("2001-12-14", "2001-12-14"),
        ("2001-12-14 21:59:43.10 -5", "2001-12-14 21:59:43.10 -5"),
        ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
        ("=", "="),
        ("'8'", "8"),
        ('"true"', "true"),
        ("!!str 8", "8"),
        ("!!int '8'", 8),
        ("!!float '8'", 8.0),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("0.31.0", "0.31.0"),
    ],
)
def test_scalars_are_what_a_reader_expects(text: str, value: object) -> None:
    document = values_of(f"key: {text}\n")
    assert document == {"key": value}
    assert isinstance(document, dict)
    assert type(document["key"]) is type(value)


@pytest.mark.parametrize("text", ["010", "-007", "00", "0_0", "08"])
def test_leading_zeros_are_octal_traps(text: str) -> None:
    if text == "0_0":
        assert values_of("key: 0_0") == {"key": "0_0"}
        return
    (fault,) = read_document(f"key: {text}").faults
    assert fault.path == "key"
    assert "leading zero" in fault.message
    assert fault.hint is not None
    assert f"write {int(text.lstrip('-'))}," in fault.hint


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan", ".NaN", "1e999"])
def test_numbers_that_are_not_finite_are_faults(text: str) -> None:
    assert faults_of(f"a: [{text}]") == ["a[0]: expected a finite number"]


def test_json_numbers_that_are_not_finite_are_faults() -> None:
    text = '{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999}'
    assert [fault.split(":")[0] for fault in faults_of(text)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("digits", [19, 20, 40, 41, 5000, 100_000])
@pytest.mark.parametrize("template", ["a: {}", '{{"a": {}}}', "a: -{}"])
def test_very_large_integers_are_faults(digits: int, template: str) -> None:
    (fault,) = read_document(template.format("9" * digits)).faults
    assert fault.path == "a"


def test_the_largest_integers_of_a_database_are_fine() -> None:
    assert values_of(f"a: {2**63 - 1}") == {"a": 2**63 - 1}


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "# only a comment\n", "---\n", "null", "~"])
def test_an_empty_document_is_said_to_be_empty(text: str) -> None:
    document = read_document(text)
    assert document.values is None
    (fault,) = document.faults
    assert fault.path == ""
    assert "empty" in fault.message
    assert fault.hint is not None
    assert "model:" in fault.hint


@pytest.mark.parametrize("text", ["- 1", "[1]", "5", "text", '"text"', "true", "[]"])
def test_what_is_not_a_mapping_is_refused(text: str) -> None:
    document = read_document(text)
    assert document.values is None
    assert "expected a mapping" in document.faults[0].message


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("a: b: c", "line 1, column 5", "check the indentation"),
        ("a:\n\t- b", "line 2, column 1", "indent with spaces"),
        ("a: [1, 2", "line 1, column 9", None),
        ("a: 'x", "line 1, column 6", None),
        ("a: 1\n b: 2", "line 2, column 3", "check the indentation"),
        ("a: 1\n---\nb: 2", "line 2, column 1", "one study per file"),
        ("a: *nowhere", "line 1, column 4", None),
        ("{", "line 1, column 2", None),
        ('{"a": 1,, "b": 2}', "line 1, column 9", "not valid JSON"),
        ('{"a" 1}', "line 1", "not valid JSON"),
        ('{\n"a": 1\n"b": 2}', "line 3, column 1", "not valid JSON"),
        ("a: %x", "line 1, column 4", None),
        ("a: @x", "line 1, column 4", None),
    ],
)
def test_syntax_errors_say_where(text: str, where: str, hint: str | None) -> None:
    document = read_document(text)
    assert document.values is None
    (fault,) = document.faults
    assert fault.message.startswith(where)
    if hint:
        assert hint in (fault.hint or "")


def test_every_duplicate_key_is_a_fault_and_the_first_value_is_kept() -> None:
    document = read_document("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert document.values == {"a": 1, "b": {"c": 1}}
    assert [(fault.path, fault.message) for fault in document.faults] == [
        ("b.c", "the key is given twice, again on line 2"),
        ("a", "the key is given twice, again on line 3"),
    ]


def test_duplicate_keys_of_json_are_faults_too() -> None:
    document = read_document('{"a": {"b": 1, "b": 2}, "a": 2}')
    assert document.values == {"a": {"b": 1}}
    assert [fault.path for fault in document.faults] == ["a.b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8: x", 'the key "8" must be text'),
        ("true: x", 'the key "true" must be text'),
        ("? [a]\n: x", "a key must be text"),
        ("<<: {a: 1}", "merge keys (<<) are not supported"),
        ("null: x", 'the key "null" must be text'),
    ],
)
def test_keys_that_are_not_text_are_faults(text: str, message: str) -> None:
    assert message in faults_of(text)[0]


def test_on_is_a_key_like_any_other() -> None:
    assert values_of("on: push") == {"on": "push"}


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "!custom x",
        "!!binary aGk=",
        "!!set {a, b}",
        "!!timestamp 2001-01-01",
        "!!bool on",
    ],
)
def test_nothing_is_constructed_from_a_tag(tag: str) -> None:
    document = read_document(f"a: {tag}")
    assert document.values == {"a": None}
    assert "is refused" in document.faults[0].message


@pytest.mark.parametrize(
    "value",
    [*("!!int abc", "!!int 0b1", "!!int 1_0", "!!int ''"), *("!!float 3x", "!!float x.inf")],
)
def test_a_number_s_tag_makes_no_number_of_other_text(value: str) -> None:
    assert [fault.path for fault in read_document(f"a: {value}").faults] == ["a"]


@pytest.mark.parametrize(("value", "number"), [("!!int '8'", 8), ("!!float 5", 5.0)])
def test_a_number_s_tag_is_accepted_where_it_is_true(value: str, number: float) -> None:
    assert values_of(f"a: {value}") == {"a": number}


def test_anchors_and_aliases_are_read() -> None:
    assert values_of("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    document = read_document("\n".join(lines))
    assert document.values is None
    assert "more than" in document.faults[0].message


def test_an_alias_of_itself_is_refused() -> None:
    assert "levels deep" in faults_of("a: &x {b: *x}")[0]


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000, "{a: " * 5000, "- " * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    document = read_document(text)
    assert document.values is None
    assert document.faults


def test_the_depth_limit_is_the_same_for_both_languages() -> None:
    for depth, fine in ((MAX_DEPTH - 1, True), (MAX_DEPTH + 2, False)):
        as_json = '{"a": ' + "[" * depth + "]" * depth + "}"
        as_yaml = "a: " + "[" * depth + "]" * depth
        for text in (as_json, as_yaml):
            assert (read_document(text).faults == ()) is fine


def test_long_documents_are_refused_before_they_are_parsed() -> None:
    document = read_document("#" * (MAX_CHARACTERS + 1))
    assert document.values is None
    assert "longer than" in document.faults[0].message


def test_many_values_are_refused() -> None:
    document = read_document("a: [" + "1," * 60_000 + "]")
    assert document.values is None
    assert "more than" in document.faults[0].message


@pytest.mark.parametrize("text", ['{"a": "\\u0000"}', '{"a": "\\ud800"}', 'a: "\\0"'])
def test_characters_that_cannot_be_stored_are_faults(text: str) -> None:
    assert faults_of(text) == ["a: the text has a character that cannot be stored"]


def test_control_characters_are_refused() -> None:
    assert "is not allowed in YAML" in faults_of("a: \x07")[0]


@pytest.mark.parametrize("text", ['\ufeff{"a": 1}', "\ufeffa: 1", '{"a": 1}\n', " \n{a: 1}"])
def test_marks_and_blanks_around_a_document_do_no_harm(text: str) -> None:
    assert values_of(text) == {"a": 1}


def test_flow_yaml_that_looks_like_json_is_yaml() -> None:
    assert values_of('{"a": 1, b: [x,],}') == {"a": 1, "b": ["x"]}
    assert values_of("{a: 1}") == {"a": 1}


KEYS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=5)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@UNHURRIED
@given(st.dictionaries(KEYS, JSON_VALUES, max_size=4))
def test_json_is_read_exactly(value: dict[str, object]) -> None:
    assert values_of(json.dumps(value)) == value


@UNHURRIED
@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*!|>'\"#%@ \n\tab01.~", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    document = read_document(text)
    assert document.values is not None or document.faults


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("search_space", "max_num_seqs", "low"), "search_space.max_num_seqs.low"),
        (("choices", 0), "choices[0]"),
        (("flags", "max-num-seqs"), "flags.max-num-seqs"),
        (("flags", "--x y"), 'flags["--x y"]'),
        (("a.b",), '["a.b"]'),
        (("a\nb",), '["a\\nb"]'),
        (("",), '[""]'),
    ],
)
def test_paths_are_unambiguous_and_on_one_line(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "nothing"),
        ({}, "a mapping"),
        ([], "a list"),
        (1.5, "1.5"),
        ("a\nb", '"a\\nb"'),
        (math.inf, "inf"),
    ],
)
def test_values_in_messages_are_plain(value: object, text: str) -> None:
    assert excerpt(value) == text


@UNHURRIED
@given(st.text() | st.integers())
def test_values_in_messages_are_short_and_on_one_line(value: object) -> None:
    text = excerpt(value)
    assert len(text) <= 60
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "choices", "expected"),
    [
        ("TPE", ["tpe", "gp"], "tpe"),
        ("long_context_qa", ["chat", "long-context-qa"], "long-context-qa"),
        ("chatt", ["chat", "mixed"], "chat"),
        ("h-100", ["H100", "L4"], "H100"),
        ("zebra", ["chat", "mixed"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_choice_ignores_case_and_separators(
    text: str, choices: list[str], expected: str | None
) -> None:
    assert nearest(text, choices) == expected
