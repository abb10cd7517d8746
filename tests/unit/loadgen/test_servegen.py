from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.servegen import ClientFiles, draw_clients
from tuner.loadgen.trace import Trace
from tuner.loadgen.traces import read_trace

DATA = Path(__file__).parents[2] / "support" / "data" / "traces"
CLIENT = "servegen_r1_48-trace.csv"
LENGTHS = json.dumps({"0": {"input_tokens": "{10: 0.25, 20: 0.75}", "output_tokens": "{5: 1.0}"}})


def draw(rows: str, dataset: str = LENGTHS, *, seed: int = 0, clients: int = 1) -> Trace:
    files = [ClientFiles(rows, "c-trace.csv", dataset, "c-dataset.json")] * clients
    return draw_clients(files, source="c", rng=np.random.default_rng(seed))


def rate_of(trace: Trace) -> float:
    assert trace.gaps_s is not None
    return float(1 / trace.gaps_s.mean())


def variation_of(trace: Trace) -> float:
    assert trace.gaps_s is not None
    gaps = trace.gaps_s[1:]
    return float(gaps.std() / gaps.mean())


def test_a_real_client_is_drawn_at_its_rate_and_variation() -> None:
    rows = [line.split(",") for line in (DATA / CLIENT).read_text().splitlines()]
    busiest = max(rows, key=lambda row: float(row[1]))
    trace = read_trace(CLIENT, base_dir=DATA)
    assert trace.format == "servegen"
    assert rate_of(trace) == pytest.approx(float(busiest[1]), rel=0.1)
    assert variation_of(trace) == pytest.approx(float(busiest[2]), rel=0.15)
    assert "the busiest; 1 client(s)" in trace.notes[0]


def test_equal_seeds_draw_equal_requests_and_others_do_not() -> None:
    one, again = (read_trace(CLIENT, base_dir=DATA, rng=np.random.default_rng(7)) for _ in "ab")
    other = read_trace(CLIENT, base_dir=DATA, rng=np.random.default_rng(8))
    assert one.prompt_tokens.tolist() == again.prompt_tokens.tolist()
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_lengths_follow_their_distribution() -> None:
    trace = draw("0,20,1,Gamma,1,0.05\n")
    assert set(trace.prompt_tokens.tolist()) == {10, 20}
    assert (trace.prompt_tokens == 10).mean() == pytest.approx(0.25, abs=0.02)
    assert set(trace.output_tokens.tolist()) == {5}


def test_weibull_gaps_have_their_mean() -> None:
    trace = draw("0,10,2.24,Weibull,0.5,0.05\n")  # mean 0.05 * Gamma(3) = 0.1
    assert rate_of(trace) == pytest.approx(10, rel=0.1)
    assert variation_of(trace) == pytest.approx(np.sqrt(5), rel=0.15)


def test_the_busiest_window_of_all_clients_is_drawn() -> None:
    trace = draw("0,1,1,Gamma,1,1\n600,30,1,Gamma,1,0.03333\n", clients=2)
    assert rate_of(trace) == pytest.approx(60, rel=0.05)
    assert trace.notes[0].startswith("drawn from ServeGen's window at 600 s")


def test_a_directory_is_all_its_clients(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for part in ("trace.csv", "dataset.json"):
            shutil.copy(DATA / f"servegen_r1_48-{part}", tmp_path / f"{name}-{part}")
    both = read_trace(".", base_dir=tmp_path, format="servegen")
    assert "2 client(s)" in both.notes[0]
    assert rate_of(both) == pytest.approx(2 * rate_of(read_trace(CLIENT, base_dir=DATA)), rel=0.1)


def test_a_client_without_its_lengths_names_the_missing_file(tmp_path: Path) -> None:
    shutil.copy(DATA / CLIENT, tmp_path / "a-trace.csv")
    with pytest.raises(InvalidTraceError, match="cannot be read") as caught:
        read_trace("a-trace.csv", base_dir=tmp_path)
    assert caught.value.where == "a-dataset.json"


@pytest.mark.parametrize("file", ["empty", "other.csv"])
def test_what_is_no_client_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidTraceError, match=r"-trace\.csv"):
        read_trace(file, base_dir=tmp_path, format="servegen")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("600,1,1,Gamma,1", "5 fields instead of 6"),
        ("600,x,1,Gamma,1,1", "'x' is not a number"),
        ("600,-1,1,Gamma,1,1", "'-1' is not a number"),
        ("600,inf,1,Gamma,1,1", "'inf' is not a number"),
        ("600,1,1,Pareto,1,1", "neither Gamma nor Weibull"),
        ("600,1,1,Gamma,0,1", "must be above 0"),
        ("", "0 fields instead of 6"),
    ],
)
def test_a_malformed_row_is_named(row: str, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        draw(f"0,1,1,Gamma,1,1\n{row}\n")
    assert caught.value.where == "c-trace.csv, line 2"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"0": 3}', "is not an object"),
        ('{"x": {"input_tokens": "{1: 1}", "output_tokens": "{1: 1}"}}', "no window's start"),
        ('{"0": {"input_tokens": "{1: 1}"}}', r"0\.output_tokens is no distribution"),
        ('{"0": {"input_tokens": "__import__", "output_tokens": "{1: 1}"}}', "no distribution"),
        ('{"0": {"input_tokens": "{1: -1}", "output_tokens": "{1: 1}"}}', "no distribution"),
        ('{"0": {"input_tokens": "{1: 0}", "output_tokens": "{1: 1}"}}', "no share above 0"),
        ('{"0": {}}', "no window has lengths"),
    ],
)
def test_lengths_that_are_none_are_refused(dataset: str, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        draw("0,1,1,Gamma,1,1\n", dataset)
    assert caught.value.where == "c-dataset.json"


def test_more_requests_than_anybody_measures_are_refused() -> None:
    with pytest.raises(InvalidTraceError, match="more than 500,000 requests"):
        draw("0,1e6,1,Gamma,1,1e-6\n")
