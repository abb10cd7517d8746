from __future__ import annotations

import dataclasses

import pytest

from tests.support.engine_configs import PLAIN_PROVENANCE
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import render
from tuner.export.target_version import addressed_to

UNCHUNKED = EngineConfig.of({"enable-chunked-prefill": False, "max-num-active-seqs": 8})


def test_another_version_is_told_beside_the_measured_one() -> None:
    _, written = addressed_to("v0.27.1", PLAIN_PROVENANCE, LaunchCommand("m", UNCHUNKED))
    assert written.exported_for == "0.27.1"
    assert written.target_version == "0.27.1"
    assert written.vllm_version == "0.33.0"
    assert written.notes == ("vLLM 0.27.1 refuses --max-num-active-seqs: new in 0.31",)
    text = render("vllm", LaunchCommand("m", UNCHUNKED), written)
    assert "# vLLM: 0.33.0\n# written for vLLM: 0.27.1\n" in text
    assert "# note: vLLM 0.27.1 refuses --max-num-active-seqs" in text


def test_the_measured_version_needs_no_mention() -> None:
    _, written = addressed_to("0.33", PLAIN_PROVENANCE, LaunchCommand("m", UNCHUNKED))
    assert written == PLAIN_PROVENANCE


def test_an_unknown_measured_version_is_replaced_by_the_target() -> None:
    unknown = dataclasses.replace(PLAIN_PROVENANCE, vllm_version=None)
    _, written = addressed_to("0.33.0", unknown, LaunchCommand("m", EngineConfig()))
    assert written.target_version == "0.33.0"


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("0.8.5", "keeps chunked prefill on for generative models"),
        ("0.11.0", "keeps chunked prefill on for generative models"),
        ("0.7.0", "ServeTune knows the flags of vLLM 0.8.5 to 0.33.0"),
        ("1.0.0", "ServeTune knows the flags of vLLM 0.8.5 to 0.33.0"),
    ],
)
def test_what_a_version_ignores_is_said(version: str, note: str) -> None:
    _, written = addressed_to(version, PLAIN_PROVENANCE, LaunchCommand("m", UNCHUNKED))
    assert any(note in n for n in written.notes)


def test_since_0_11_1_chunked_prefill_can_be_switched_off() -> None:
    config = EngineConfig.of({"enable-chunked-prefill": False})
    _, written = addressed_to("0.11.1", PLAIN_PROVENANCE, LaunchCommand("m", config))
    assert written.notes == ()


@pytest.mark.parametrize("version", ["", "newest", "x0.28"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidCommandError, match="is not a version of vLLM"):
        addressed_to(version, PLAIN_PROVENANCE, LaunchCommand("m", UNCHUNKED))


@pytest.mark.parametrize("form", ["docker", "compose", "kubernetes"])
def test_the_image_is_that_of_the_version_that_will_run(form: str) -> None:
    _, written = addressed_to("0.30.0", PLAIN_PROVENANCE, LaunchCommand("m", EngineConfig()))
    assert "vllm/vllm-openai:v0.30.0" in render(form, LaunchCommand("m", EngineConfig()), written)


def test_a_command_is_written_without_what_a_version_no_longer_has() -> None:
    flags = {"disable-log-requests": True, "swap-space": 4.0, "max-num-seqs": 128}
    command = LaunchCommand("m", EngineConfig.of(flags))

    written, provenance = addressed_to("0.28.0", PLAIN_PROVENANCE, command)

    text = render("vllm", written, provenance)
    assert "--max-num-seqs 128" in text
    assert "\n  --disable-log-requests" not in text
    assert "--swap-space is left out for vLLM 0.28.0: removed in 0.18" in text


@pytest.mark.parametrize(
    ("version", "spelt"),
    [("0.12.0", "cuda-graph-sizes"), ("0.13.0", "cudagraph-capture-sizes")],
)
def test_renamed_flags_are_spelt_as_the_version_does(version: str, spelt: str) -> None:
    command = LaunchCommand("m", EngineConfig.of({"cuda-graph-sizes": "1 2 4"}))

    written, _ = addressed_to(version, PLAIN_PROVENANCE, command)

    assert written.config.get(spelt) == "1 2 4"
