"""The example for a machine without a GPU, run as a user runs it: a whole study on a real vLLM."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import Measurement
from tests.support.command import COMMAND, data, environment, servetune
from tests.support.real_vllm import ROOT, Installation, Scene, attempt, attempt_request
from tuner.cli.study_file import read_study
from tuner.domain.states import AttemptOutcome, AttemptPurpose, StudyState, TrialState
from tuner.export.forms import parse
from tuner.store.url import DatabaseUrl
from tuner.study.confirmation import held_out_seed
from tuner.study.intervals import GainInterval, expected_spread, gain_interval
from tuner.study.ledger import History
from tuner.study.noise import noise_of, pair_spread
from tuner.study.scoring import objective_of, paired_difference
from tuner.telemetry.exposition import SOURCES, EngineMetric
from tuner.telemetry.series import MetricSeries
from tuner.worker.composition import Locations, load_history

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(2400)]

EXAMPLE = ROOT / "examples" / "vllm-cpu.yaml"
KV_BYTES_PER_TOKEN = 2048
BLOCK_TOKENS = 128
HALF_WIDTH = math.log(1.25)
MOST_STARTS = 6


@dataclass(frozen=True, slots=True)
class Finished:
    """The study at its end: what was printed, and what is stored."""

    state_dir: Path
    report: dict[str, Any]
    history: History

    @property
    def measured(self) -> list[Measurement]:
        return [record.measurement for record in self.history.measurements if record.valid]


@pytest.fixture(scope="module")
def finished(vllm: Installation, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    state_dir = tmp_path_factory.mktemp("state")
    arguments = ["tune", "--engine", "vllm", str(EXAMPLE), "--output", "json"]
    done = subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        env=environment(state_dir),
        timeout=2300,
        check=False,
    )
    report = data(done)
    return Finished(state_dir, report, stored(state_dir))


def stored(state_dir: Path) -> History:
    locations = Locations(DatabaseUrl.of_file(state_dir / "servetune.db"), state_dir)
    return load_history("tiny-llama-cpu", locations)


def test_it_ends_with_a_verdict_and_is_not_simulated(finished: Finished) -> None:
    assert finished.history.study.state is StudyState.COMPLETE
    assert finished.report["simulated"] is False
    assert finished.report["recommendation"]["verdict"] in ("better", "keep_baseline")
    assert not any(measurement.simulated for measurement in finished.measured)
    assert {m.engine.version for m in finished.measured} == {"0.32.0"}


def test_baseline_trials_and_confirmation_were_measured(finished: Finished) -> None:
    history = finished.history
    purposes = [a.purpose for a in history.attempts if a.outcome is AttemptOutcome.MEASURED]
    assert purposes.count(AttemptPurpose.BASELINE_REPEAT) >= 1
    ended = [
        t for t in history.trials[1:] if t.state in (TrialState.COMPLETE, TrialState.INFEASIBLE)
    ]
    assert len(ended) >= 6
    if finished.report["recommendation"]["trial"] != 0:
        assert purposes.count(AttemptPurpose.CONFIRMATION) >= 4


def test_all_four_parameters_varied(finished: Finished) -> None:
    flags = [trial.config.as_dict() for trial in finished.history.trials[1:]]
    for name in (
        "max-num-seqs",
        "max-num-batched-tokens",
        "enable-chunked-prefill",
        "kv-cache-memory-bytes",
    ):
        assert len({config[name] for config in flags}) > 1, name


def test_a_cache_too_small_for_one_request_is_infeasible(finished: Finished) -> None:
    infeasible = [t for t in finished.history.trials if t.state is TrialState.INFEASIBLE]
    launched = [t for t in infeasible if t.diagnosis is not None]
    assert launched
    for trial in launched:
        assert trial.diagnosis is not None
        assert trial.diagnosis.failure_class == "kv_too_small"
        assert trial.score is None or trial.score.get("value") is None


def test_some_configuration_preempts_and_says_so(finished: Finished) -> None:
    """vLLM itself writes nothing of it; the counter's growth in the window does."""
    rates = [m.capacity.preemptions_per_request for m in finished.measured]
    known = [rate for rate in rates if rate is not None]
    assert len(known) == len(rates)
    assert max(known) > 0
    # A counter's `_created` sibling holds the Unix time: nobody took that for preemptions.
    assert max(m.capacity.preemptions or 0 for m in finished.measured) < 1e6


def test_what_the_engine_applied_is_what_was_asked(finished: Finished) -> None:
    for record in finished.history.measurements:
        config, facts = (
            finished.history.trial(record.trial_number).config,
            record.measurement.engine,
        )
        assert facts.max_num_seqs == config.max_num_seqs
        assert facts.max_num_batched_tokens == config.max_num_batched_tokens
        if config.enable_chunked_prefill is not None:
            assert facts.chunked_prefill is config.enable_chunked_prefill
        blocks = (config.kv_cache_memory_bytes or 0) // (KV_BYTES_PER_TOKEN * BLOCK_TOKENS)
        assert facts.kv_cache_tokens == blocks * BLOCK_TOKENS


def test_client_and_engine_agree_on_tokens_and_first_tokens(finished: Finished) -> None:
    for measurement in finished.measured:
        instrument = measurement.instrument
        ours, theirs = instrument.client_output_tokens, instrument.server_output_tokens
        assert ours is not None
        assert theirs is not None
        assert ours == pytest.approx(theirs, rel=0.05, abs=50)
        first_ms, engine_ms = instrument.client_ttft_mean_ms, instrument.server_ttft_mean_ms
        assert first_ms is not None
        assert engine_ms is not None
        assert first_ms == pytest.approx(engine_ms, rel=0.5, abs=50)


def test_no_prompt_was_answered_by_the_prefix_cache(finished: Finished) -> None:
    rates = [m.instrument.prefix_hit_rate for m in finished.measured if not m.capacity.preemptions]
    assert rates
    assert all(rate is not None and rate <= 0.02 for rate in rates)


def test_every_metric_of_the_engine_was_read(finished: Finished) -> None:
    """By 0.32's names, but for a gauge of the V0 line and a counter that waits for its first."""
    (first, *_) = (a for a in finished.history.attempts if a.outcome is AttemptOutcome.MEASURED)
    path = finished.state_dir / "artifacts" / first.directory / "measurement" / "metrics.json"
    series = MetricSeries.load(path)
    read = {metric for scrape in series.scrapes for metric in scrape.values}
    own = {m for m, source in SOURCES.items() if not source.names[0].startswith("sim:")}
    absent = {EngineMetric.PREFIX_HIT_RATE, EngineMetric.REJECTED_REQUESTS}
    assert own - absent <= read
    assert len(series.gaps) <= len(series.scrapes) // 4


@lru_cache(maxsize=1)
def exported_text(state_dir: Path) -> str:
    done = servetune("export", "tiny-llama-cpu", state_dir=state_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_exported_command_starts_again_and_does_the_same(
    finished: Finished, vllm: Installation, tmp_path: Path
) -> None:
    """Fresh starts of the command as printed, each under the requests of a start of the study.

    Of two equal servers a 90% interval over two starts misses 0 once in ten: then there are more.
    """
    command = parse(exported_text(finished.state_dir))
    assert command.model == str(vllm.model.resolve())
    pairs: list[tuple[Measurement, Measurement]] = []
    interval: GainInterval | None = None
    for number, (seed, before) in enumerate(islice(cycle(known_starts(finished)), MOST_STARTS)):
        directory = tmp_path / f"start-{number}"
        again = measure_again(finished, command.config.as_dict(), seed, directory)
        pairs.append((again, before))
        interval = ratio_of(finished.history, pairs)
        if interval is not None and same(interval):
            break
    assert interval is not None
    assert same(interval), interval


def same(interval: GainInterval) -> bool:
    """Whether it contains 0 and is narrow enough to mean something."""
    assert interval.low is not None
    assert interval.high is not None
    half_width = (interval.high - interval.low) / 2
    return half_width <= HALF_WIDTH and interval.low <= 0 <= interval.high


def known_starts(finished: Finished) -> list[tuple[int, Measurement]]:
    """The recommended configuration's starts in the study, each with its seed."""
    number = finished.report["recommendation"]["trial"]
    seed = read_study(EXAMPLE).workload.seed
    found = []
    for record in finished.history.measurements:
        if record.trial_number == number and record.valid:
            of_round = record.purpose is AttemptPurpose.CONFIRMATION and record.round is not None
            own = held_out_seed(seed, record.round or 0) if of_round else seed
            found.append((own, record.measurement))
    return found


def measure_again(
    finished: Finished, flags: dict[str, Any], seed: int, directory: Path
) -> Measurement:
    """One fresh start of the exported flags, under the study's load."""
    spec = read_study(EXAMPLE)
    spec = spec.model_copy(update={"baseline": spec.baseline.model_copy(update={"flags": flags})})
    directory.mkdir()
    request = attempt_request(spec, EXAMPLE.parent)
    request = replace(
        request,
        calibration=finished.history.calibration,
        workload_seed=seed,
        directory=directory,
        salt=int(directory.name.removeprefix("start-")) + 1000,
    )
    scene = Scene.quiet()
    for _ in range(3):
        result = attempt(request, scene)
        if result.outcome is AttemptOutcome.MEASURED:
            break
    assert result.measurement is not None, result.reason
    assert result.outcome is AttemptOutcome.MEASURED, result.reason
    return result.measurement


def ratio_of(history: History, pairs: list[tuple[Measurement, Measurement]]) -> GainInterval | None:
    """The log-ratio of the new starts to the old ones, with its interval; None for one pair."""
    objective = objective_of(read_study(EXAMPLE).objective)
    noise = noise_of(objective, history)
    start_sd = 0.0 if noise is None else noise.start_sd
    differences = [paired_difference(objective, *pair) for pair in pairs]
    spreads = [pair_spread(objective, *pair, start_sd) for pair in pairs]
    known = [difference for difference in differences if difference is not None]
    if len(known) < 2:
        return None
    return gain_interval(known, expected_spread=expected_spread(spreads))


def test_the_report_is_data(finished: Finished) -> None:
    assert json.loads(json.dumps(finished.report)) == finished.report
    assert finished.report["launch_command"].rstrip().splitlines()[-1].strip().startswith("--")
