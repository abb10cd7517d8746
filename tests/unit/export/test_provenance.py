from __future__ import annotations

import dataclasses
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import PLAIN_PROVENANCE, provenances
from tests.support.unhurried import UNHURRIED
from tuner.export.provenance import MAX_VALUE_CHARACTERS, Gain, Provenance, comment_lines, one_line


def test_everything_a_reader_needs_is_said() -> None:
    assert comment_lines(PLAIN_PROVENANCE) == (
        "# study: chat",
        "# trial: 7",
        "# date: 2030-01-31T18:00:00Z",
        "# ServeTune: 0.1.0",
        "# vLLM: 0.33.0",
        "# GPU: 1 x NVIDIA H100 80GB HBM3",
        "# workload: d1d2d3d4",
        "# gain: score +21.4% (90% interval +12.0% to +30.5%)",
        "# verdict: better than the baseline",
        "# Measure again when the model, vLLM, the GPU or the workload changes.",
    )


def test_what_is_unknown_is_said_to_be_unknown() -> None:
    bare = Provenance(
        study="s",
        trial=None,
        at=PLAIN_PROVENANCE.at,
        servetune_version="0.1.0",
        simulated=False,
        verdict="keep the baseline",
    )
    lines = comment_lines(bare)
    assert "# trial: baseline" in lines
    assert "# vLLM: unknown version" in lines
    assert "# GPU: unknown" in lines
    assert "# workload: unknown" in lines
    assert "# gain: not measured" in lines


def test_simulated_results_say_so_first_and_loudly() -> None:
    lines = comment_lines(dataclasses.replace(PLAIN_PROVENANCE, simulated=True))
    assert lines[0].startswith("# SIMULATED: ")
    assert "NOT from a GPU" in lines[0]
    assert not any("SIMULATED" in line for line in comment_lines(PLAIN_PROVENANCE))


def test_a_revision_and_notes_are_added() -> None:
    provenance = dataclasses.replace(
        PLAIN_PROVENANCE, model_revision="abc123", notes=("KV cache 120,000 tokens", "two")
    )
    lines = comment_lines(provenance)
    assert "# model revision: abc123" in lines
    assert "# note: KV cache 120,000 tokens" in lines
    assert "# note: two" in lines


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (Gain("score", 5.0), "# gain: score +5.0% (no interval)"),
        (Gain("score", -5.25, -9.0, 0.5), "# gain: score -5.2% (90% interval -9.0% to +0.5%)"),
        (Gain("output tokens/s", 0.0, 0.0, 0.0), "# gain: output tokens/s +0.0% (90% interval"),
    ],
)
def test_a_gain_carries_its_sign_and_interval(gain: Gain, text: str) -> None:
    lines = comment_lines(dataclasses.replace(PLAIN_PROVENANCE, gain=gain))
    assert any(line.startswith(text) for line in lines)


def test_a_date_without_a_zone_is_a_programming_error() -> None:
    naive = dataclasses.replace(PLAIN_PROVENANCE, at=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="time zone"):
        comment_lines(naive)


@UNHURRIED
@given(provenances())
def test_nothing_breaks_out_of_its_comment(provenance: Provenance) -> None:
    for line in comment_lines(provenance):
        assert line.startswith("# ")
        assert line.splitlines() == [line]
        assert line.isprintable()


@UNHURRIED
@given(st.text())
def test_any_text_becomes_one_short_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= MAX_VALUE_CHARACTERS
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("a\nrm -rf /", "a rm -rf /"),
        ("a\r\n\tb", "a b"),
        ("a\u2028b\u2029c\x85d\x0be\x0cf", "a b c d e f"),
        ("a\x1b[31mb", "a [31mb"),
        ("a\u202eb", "a b"),
        ("a\u200bb", "a b"),
        ("Größe 語", "Größe 語"),
        ("", ""),
    ],
)
def test_what_an_editor_could_take_for_a_line_end_becomes_a_space(text: str, line: str) -> None:
    assert one_line(text) == line
