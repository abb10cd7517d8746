from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from objectives.measurement import MaxRate, Measurement, PromptClass, RateProbe, SloLimits
from tests.support.study_measurements import distribution, measurement
from tuner.cli.measuring import _draw, document, measure_configuration, with_rate
from tuner.cli.output import OutputFormat
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.states import AttemptOutcome
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError
from tuner.settings import Settings
from tuner.study.executor import AttemptResult
from tuner.worker.single_measurement import SingleMeasurement

SHORT = PromptClass("short", 3, 100, 120, distribution(150.0), distribution(30.0))
LONG = PromptClass("long", 900, 4000, 7, None, None)


def measured(found: Measurement) -> SingleMeasurement:
    command = LaunchCommand("a/model", EngineConfig.of({}))
    result = AttemptResult(AttemptOutcome.MEASURED, "measured", 1.0, measurement=found)
    return SingleMeasurement(command, result, 1, Path("files"))


def with_classes(*classes: PromptClass) -> Measurement:
    plain = measurement()
    return dataclasses.replace(
        plain, latency=dataclasses.replace(plain.latency, by_prompt_length=classes)
    )


def drawn(found: Measurement) -> str:
    file = io.StringIO()
    _draw(measured(found), Console(file=file, width=200, highlight=False))
    return file.getvalue()


def row(text: str, beginning: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(beginning))


def test_latencies_are_shown_for_each_length_of_prompt() -> None:
    text = drawn(with_classes(SHORT, LONG))
    assert "150 ms" in row(text, "TTFT p95, short prompts (3 to 100 tokens)")
    assert "30 ms" in row(text, "TPOT p95, short prompts (3 to 100 tokens)")


def test_a_class_of_too_few_requests_is_a_dash() -> None:
    cells = row(drawn(with_classes(LONG)), "TTFT p95, long prompts").split()
    assert cells[-3:] == ["-", "-", "-"]


def test_classes_are_in_the_json_with_nulls_where_nothing_is_known() -> None:
    found = document(measured(with_classes(SHORT, LONG)))["measurement"]
    assert isinstance(found, dict)
    short, long = found["latency"]["by_prompt_length"]
    assert short["ttft_ms"]["p95"]["value"] == 150.0
    assert (long["requests"], long["ttft_ms"], long["tpot_ms"]) == (7, None, None)


def test_notes_of_a_measurement_are_shown() -> None:
    noted = dataclasses.replace(measurement(), notes=("throughput is not steady",))
    assert "note: throughput is not steady" in drawn(noted)
    assert "note:" not in drawn(measurement())


def test_the_start_is_compared_with_its_forecast() -> None:
    entry = {"forecast": 90.0, "read_back": 100.0, "error": -0.1}
    read_back = {"engine": {"version": "1"}, "forecast": {"kv_cache_tokens": entry}}
    done = dataclasses.replace(measured(measurement()), read_back=read_back)
    file = io.StringIO()
    _draw(done, Console(file=file, width=200, highlight=False))
    assert row(file.getvalue(), "KV tokens").split()[-2:] == ["-10.0", "%"]
    assert document(done)["forecast"] == {"kv_cache_tokens": entry}
    assert document(measured(measurement()))["forecast"] is None


HELD = RateProbe(4.0, True, "attainment", 120, 119, -5.0, 1.2, 42.0, "seen")
GUESSED = RateProbe(4.4, False, "share", 300, 280, 1.0, 7.0, 130.0, "seen")


def found_rate(*probes: RateProbe, **changes: float | None) -> Measurement:
    values = {"value_per_s": 4.2, "low_per_s": 4.0, "high_per_s": None, **changes}
    slo = SloLimits(500, None, None, 0.95)
    ends = (values["value_per_s"], values["low_per_s"], values["high_per_s"])
    rate = MaxRate(*ends, slo=slo, confidence=0.9, probes=probes, engine_s=172.0, ended="narrow")
    return dataclasses.replace(measurement(), max_rate=rate)


def test_the_highest_rate_is_shown_with_its_interval_and_its_probes() -> None:
    text = drawn(found_rate(HELD, GUESSED))
    assert "highest rate that meets the SLO: between 4 (met) and 4.4 requests/s;" in text
    assert "with 90% confidence it is at least 4;" in text
    assert "confirmed" not in text, "nobody asked for it"
    probes = [" ".join(line.split()) for line in text.splitlines()]
    assert "4/s met attainment 119 of 120 good 42 s" in probes
    assert "4.4/s missed? share 280 of 300 good 130 s" in probes
    assert "highest rate" not in drawn(measurement())


def test_a_rate_that_never_held_is_between_nothing_and_what_failed() -> None:
    missed = dataclasses.replace(HELD, rate_per_s=1.0, holds=False)
    text = drawn(found_rate(missed, value_per_s=0.5, low_per_s=None, high_per_s=1.0))
    assert "no rate tried meets the SLO: the lowest, 1 requests/s, does not;" in text
    assert "between 0 and 1;" in text
    assert "0.5" not in text.split("requests/s")[0]
    assert "no rate was tried" in drawn(found_rate(value_per_s=None, low_per_s=None))


def test_without_a_sure_probe_nothing_is_known_with_confidence() -> None:
    text = drawn(found_rate(GUESSED, low_per_s=None))
    assert "no probe was sure of its verdict, so with 90% nothing is known;" in text


def test_a_rate_above_which_nothing_failed_is_no_highest_one() -> None:
    text = drawn(found_rate(HELD))
    assert "no limit found up to 4 requests/s: every rate tried meets the SLO;" in text
    assert "highest rate" not in text


def test_a_confirmation_is_told_with_its_probe() -> None:
    plain = found_rate(HELD, GUESSED).max_rate
    assert plain is not None
    found = dataclasses.replace(plain, confirmation="held", confirmations=(HELD,))
    text = drawn(dataclasses.replace(measurement(), max_rate=found))
    assert "confirmed: 4/s was met 2 times, last with new requests;" in text
    assert "4/s met again attainment" in " ".join(text.split())
    guessed = dataclasses.replace(found, confirmations=(dataclasses.replace(HELD, rule="share"),))
    text = drawn(dataclasses.replace(measurement(), max_rate=guessed))
    assert "last with new requests, by its share of good requests;" in text
    missed = dataclasses.replace(HELD, holds=False)
    failed = dataclasses.replace(plain, confirmation="failed", confirmations=(missed,))
    text = drawn(dataclasses.replace(measurement(), max_rate=failed))
    assert "not confirmed: with new requests every rate that was tried again missed" in text
    assert "missed this time" in text
    late = dataclasses.replace(plain, confirmation="time")
    assert "not confirmed: no time" in drawn(dataclasses.replace(measurement(), max_rate=late))


def test_the_highest_rate_is_in_the_document() -> None:
    stored = document(measured(found_rate(HELD)))["measurement"]
    assert isinstance(stored, dict)
    assert stored["max_rate"]["probes"][0]["rule"] == "attainment"
    assert (stored["max_rate"]["low_per_s"], stored["max_rate"]["high_per_s"]) == (4.0, None)


def test_every_percentile_and_the_maximum_are_shown() -> None:
    text = drawn(measurement())
    for name in ("p50", "p90", "p95", "p99", "max"):
        assert row(text, f"TTFT {name}")
    assert "800 ms" in row(text, "TTFT max")


CLOSED = StudySpec.model_validate(
    {
        "model": {"id": "meta-llama/Llama-3.2-3B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4"},
        "workload": {"arrival": {"process": "closed_loop", "concurrency": 8}},
        "objective": {"slo": {"ttft_ms": 500}},
    }
)


def test_users_in_a_closed_loop_take_no_rate_and_have_no_highest_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="--rate needs requests that come at a rate"):
        with_rate(CLOSED, 2.0)
    settings = Settings(state_dir=tmp_path)
    with pytest.raises(InvalidInputError, match="--find-max-rate needs requests that come"):
        measure_configuration(
            CLOSED, tmp_path, (), None, settings, OutputFormat.JSON, find_max_rate=True
        )
    assert with_rate(CLOSED, None) is CLOSED
