from __future__ import annotations

import json
from dataclasses import replace

from tuner.cli.selftesting import bound, document, line, sentence
from tuner.loadgen.instrument_capacity import Host, InstrumentCapacity, TrustedLoad
from tuner.loadgen.selftest.run import Selftest
from tuner.loadgen.selftest.rungs import Rung

GOOD = Rung(
    "tokens", 1, 400.0, 19500.0, 200.0, 0.0, 0.0, 0.001, 0.002, None, 0.4, 19.0, 0.8, "kernel", ()
)
LOADS = (TrustedLoad(1, 19500.0, 39000.0, 2000.0, None), TrustedLoad(2, 38000.0, None, 9.0, None))
CAPACITY = InstrumentCapacity(
    Host("h", 4, "x86_64", "Linux"), "2026-12-01T00:00:00+00:00", "0.1.0", "kernel", 1, LOADS
)


def test_a_load_is_told_in_words() -> None:
    assert line(GOOD) == "400 streams, 19,500 tokens/s, 1 process(es), 40% CPU: good"
    wrong = replace(GOOD, kind="requests", reasons=("TTFT mean is off by +9.0%", "late"))
    assert line(wrong) == (
        "400 requests/s, 1 process(es), 40% CPU: TTFT mean is off by +9.0%; late"
    )
    assert "servers were 99.0 ms late: no verdict" in line(replace(wrong, server_late_ms=99.0))


def test_what_was_not_found_wrong_is_or_more() -> None:
    assert bound(2000.0, None) == "2,000 or more"
    assert bound(19500.0, 39000.0) == "19,500 (39,000 was wrong)"


def test_errors_that_are_not_numbers_are_null_in_json() -> None:
    nothing = replace(GOOD, ttft_mean_error=float("inf"), reasons=("nothing arrived",))
    printed = json.loads(json.dumps(document(Selftest(CAPACITY, (GOOD, nothing))), allow_nan=False))
    assert printed["rungs"][0]["trusted"] is True
    assert printed["rungs"][1]["ttft_mean_error"] is None
    assert printed["loads"][1]["processes"] == 2
    assert printed["host"]["processors"] == 4


def test_the_result_says_what_it_means_for_studies() -> None:
    assert "with 1 process(es), with up to 2 where the load needs them" in sentence(CAPACITY)
    alone = replace(CAPACITY, loads=LOADS[:1])
    assert "up to" not in sentence(alone)
    hopeless = replace(CAPACITY, loads=(replace(LOADS[0], tokens_per_s=0.0),))
    assert "too busy" in sentence(hopeless)
