from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.study_fakes import attempt_request
from tests.support.study_measurements import measurement
from tests.support.virtual_machines import small_spec
from tuner.domain.document import load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError
from tuner.loadgen.closing import ATTAINMENT, THROUGHPUT, AdaptiveWindow
from tuner.study.calibration import given_rate
from tuner.study.load_segments import measurement_segments, workload_of
from tuner.study.measurement_summary import closing_notes
from tuner.study.window_rule import part_of, window_rule

ASKED = {"enabled": True, "relative_half_width": 0.1, "shortest_share": 0.6}


def spec(objective: dict[str, Any] | None = None, asked: dict[str, Any] = ASKED) -> StudySpec:
    document = small_spec().model_dump(mode="json", exclude_defaults=True)
    document["workload"]["adaptive_window"] = asked
    return load_study(json.dumps(document | {"objective": objective or {}}), where="test")


def quantities(objective: dict[str, Any]) -> set[str]:
    rule = window_rule(spec(objective))
    assert rule is not None
    assert (rule.relative_half_width, rule.shortest_share) == (0.1, 0.6)
    return set(rule.quantities)


def test_windows_stay_whole_unless_asked() -> None:
    assert window_rule(small_spec()) is None
    assert window_rule(spec(asked={"enabled": False})) is None


def test_what_the_score_weighs_has_to_be_known() -> None:
    assert quantities({}) == {"ttft_p95", "tpot_p95", THROUGHPUT}
    weights = {"ttft_p95": 1, "tpot_p95": 0, "throughput": 0, "itl_p99": 1}
    assert quantities({"weights": weights}) == {"ttft_p95", "itl_p99"}
    assert quantities({"latency_percentile": "p50"}) == {"ttft_p50", "tpot_p50", THROUGHPUT}


def test_a_front_needs_its_three_quantities_whatever_the_weights() -> None:
    weights = {"ttft_p95": 1, "tpot_p95": 0, "throughput": 0}
    found = quantities({"mode": "pareto", "weights": weights})
    assert found == {"ttft_p95", "tpot_p95", THROUGHPUT}


def test_an_slo_is_to_be_known_too() -> None:
    slo = {"ttft_ms": 500}
    assert ATTAINMENT in quantities({"slo": slo})
    assert quantities({"slo": slo, "mode": "goodput"}) == {ATTAINMENT}


@pytest.mark.parametrize(
    "asked",
    [{"relative_half_width": 0}, {"relative_half_width": 0.6}, {"shortest_share": 0.3}, {"on": 1}],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"adaptive_window"):
        spec(asked=asked)


def test_each_window_is_held_to_its_own_quantities() -> None:
    rule = AdaptiveWindow(0.1, 0.5, ("ttft_p95", THROUGHPUT, ATTAINMENT))
    latency, capacity = part_of(rule, saturated=False), part_of(rule, saturated=True)
    assert latency is not None
    assert capacity is not None
    assert latency.quantities == ("ttft_p95", ATTAINMENT)
    assert capacity.quantities == (THROUGHPUT,)
    assert part_of(latency, saturated=True) is None
    assert part_of(None, saturated=True) is None


def test_requests_are_the_same_whether_windows_may_close_or_not(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    adaptive = dataclasses.replace(request, adaptive=window_rule(spec()))
    load, workload = given_rate(2.0, 24), workload_of(request)
    for whole, closing in zip(
        measurement_segments(request, workload, load),
        measurement_segments(adaptive, workload, load),
        strict=True,
    ):
        assert whole.adaptive is None
        assert closing.adaptive is not None
        assert dataclasses.replace(closing, adaptive=None) == whole


def test_a_window_that_closed_early_is_told() -> None:
    whole = measurement().latency
    assert closing_notes("latency", whole) == ()
    early = dataclasses.replace(whole, window_s=36.0, planned_window_s=60.0)
    (note,) = closing_notes("latency", early)
    assert note == ("latency window closed early, after 36.0 of 60 s: intervals narrow enough")
