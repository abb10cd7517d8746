"""A finished study put into a store without running it: for pages, lists and their load."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from objectives.measurement import Distribution, Estimate, Measurement, PromptClass
from tests.support.ledger import out_of_memory
from tests.support.load_records import Row
from tests.support.stored_loads import store_latency_load
from tests.support.study_measurements import measurement
from tuner.domain.document import study_digest
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyPhase,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.domain.study_spec import ObjectiveSpec, StudySpec
from tuner.store.attempts import NewAttempt
from tuner.store.records import AttemptEnd
from tuner.store.trials import NewTrial, TrialEnd
from tuner.store.unit_of_work import Store, Work
from tuner.study.changes import MetricChange, Served, flag_changes
from tuner.study.intervals import GainInterval
from tuner.study.load_progress import MEASUREMENT, SERIES_FILE
from tuner.study.recommendation import Recommendation, Verdict
from tuner.study.recommendation_document import recommendation_to_dict
from tuner.study.report import trial_summary
from tuner.study.standing import best_number
from tuner.study.trial_score import trial_score
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

DOCUMENT: dict[str, Any] = {
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
    "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 10},
    "objective": {"slo": {"ttft_ms": 500, "tpot_ms": 50}},
}
INFEASIBLE_EVERY = 7


def seed_study(
    store: Store,
    artifacts: Path,
    *,
    name: str = "seeded",
    trials: int = 12,
    seed: int = 1,
    log: str = "INFO engine ready\n",
    notice: str | None = None,
    files_of: int = 3,
    finished: bool = True,
    verdict: Verdict = Verdict.BETTER,
) -> int:
    """The study's id; every seventh trial could not run, the others have measurements.

    The first `files_of` trials have an engine log, request records and metric series on disk.
    """
    spec = StudySpec.model_validate({**DOCUMENT, "name": name, "budget": {"trials": trials}})
    document = spec.model_dump(mode="json")
    chance = random.Random(seed)
    with store.writing() as work:
        study = work.studies.create(name, study_digest(spec), document).study.id
        work.studies.set_state(study, StudyState.RUNNING)
    baseline = whole_measurement()
    with store.writing() as work:
        directories = [
            add_trial(work, study, number, chance, spec.objective, baseline)
            for number in range(trials + 1)
        ]
    for number, directory in enumerate(directories[:files_of]):
        ended = _evidence() if number and number % INFEASIBLE_EVERY == 0 else ""
        _files(artifacts / directory, log + ended, chance)
    with store.writing() as work:
        if notice is not None:
            work.studies.add_notice(study, {"kind": "warning", "message": notice})
        if finished:
            _finish(work, study, verdict)
    return study


def objective_of_seed() -> ObjectiveSpec:
    """Of every seeded study."""
    return StudySpec.model_validate(DOCUMENT).objective


def add_trial(
    work: Work,
    study: int,
    number: int,
    chance: random.Random,
    objective: ObjectiveSpec,
    baseline: Measurement,
) -> str:
    """One more trial, proposed, run and ended; the directory of its attempt."""
    flags = {
        "max-num-seqs": 2 ** chance.randint(3, 10),
        "max-num-batched-tokens": 2 ** chance.randint(8, 15),
        "enable-chunked-prefill": chance.random() < 0.7,
        "gpu-memory-utilization": round(chance.uniform(0.8, 0.96), 3),
    }
    origin = TrialOrigin.SAMPLER if number else TrialOrigin.BASELINE
    coordinates = {"log2_max_num_seqs": math.log2(flags["max-num-seqs"]), "token_budget": 0.5}
    trial = NewTrial(origin=origin, config=EngineConfig.of(flags), coordinates=coordinates)
    work.trials.propose(study, trial)
    attempt = work.attempts.start(
        study, number, NewAttempt(purpose=AttemptPurpose.SEARCH, workload_seed=0)
    )
    end, outcome = _end(number, chance, objective, baseline)
    work.finish_trial(study, number, end, attempt.id, outcome)
    return attempt.directory


def _end(
    number: int, chance: random.Random, objective: ObjectiveSpec, baseline: Measurement
) -> tuple[TrialEnd, AttemptEnd]:
    if number and number % INFEASIBLE_EVERY == 0:
        diagnosis = out_of_memory()
        infeasibility = {"constraint": "memory", "grade": 1.0, "reason": diagnosis.summary}
        return (
            TrialEnd(TrialState.INFEASIBLE, diagnosis=diagnosis, infeasibility=infeasibility),
            AttemptEnd(AttemptOutcome.INFEASIBLE, diagnosis=diagnosis),
        )
    found = baseline
    if number:
        found = whole_measurement(
            ttft_ms=400 * chance.lognormvariate(0, 0.2),
            tpot_ms=40 * chance.lognormvariate(0, 0.1),
            tokens_per_s=1000 * chance.lognormvariate(0, 0.15),
        )
    score = trial_score(objective, found, baseline)
    return (
        TrialEnd(TrialState.COMPLETE, score=score, summary=trial_summary(found)),
        AttemptEnd(AttemptOutcome.MEASURED, measurement=found),
    )


def whole_measurement(
    *, ttft_ms: float = 400.0, tpot_ms: float = 40.0, tokens_per_s: float = 1000.0
) -> Measurement:
    """With what pages show besides: intervals, prompts by length, how busy the GPU was."""
    found = measurement(ttft_ms=ttft_ms, tpot_ms=tpot_ms, tokens_per_s=tokens_per_s)
    ttft, tpot = _spread(found.latency.ttft_ms, 0.05), _spread(found.latency.tpot_ms, 0.03)
    classes = tuple(
        PromptClass(name, low, high, 100, _scaled(ttft, by), tpot)
        for name, low, high, by in (("short", 20, 180, 0.7), ("long", 181, 2900, 1.4))
    )
    latency = replace(
        found.latency,
        ttft_ms=ttft,
        tpot_ms=tpot,
        gpu_utilization=0.74,
        slo_attainment=Estimate(0.97, 300, 0.95, 0.985),
        goodput_per_s=Estimate(4.85, 300, 4.75, 4.93),
        by_prompt_length=classes,
    )
    rate = Estimate(tokens_per_s, 200, tokens_per_s * 0.98, tokens_per_s * 1.02)
    capacity = replace(found.capacity, output_tokens_per_s=rate, gpu_utilization=0.98)
    return replace(found, latency=latency, capacity=capacity)


def _spread(found: Distribution | None, share: float) -> Distribution | None:
    return None if found is None else _each(found, lambda one: _between(one, share))


def _scaled(found: Distribution | None, by: float) -> Distribution | None:
    return None if found is None else _each(found, lambda one: Estimate(one.value * by, one.n))


def _each(found: Distribution, change: Callable[[Estimate], Estimate]) -> Distribution:
    return Distribution(
        mean=change(found.mean),
        p50=change(found.p50),
        p90=change(found.p90),
        p95=change(found.p95),
        p99=change(found.p99),
        max=change(found.max),
    )


def _between(found: Estimate, share: float) -> Estimate:
    return replace(found, low=found.value * (1 - share), high=found.value * (1 + share))


def _files(directory: Path, log: str, chance: random.Random) -> None:
    store_latency_load(directory, [_request(chance, 10.0 + i / 30) for i in range(300)])
    (directory / "engine.log").write_text(log, errors="surrogateescape")
    scrapes = tuple(
        Scrape(float(i), 1e9 + i, {EngineMetric.KV_USAGE: i / 60, EngineMetric.RUNNING: float(i)})
        for i in range(60)
    )
    MetricSeries(scrapes).save(directory / MEASUREMENT / SERIES_FILE)


def _evidence() -> str:
    """What an engine that could not run says at its end."""
    return "".join(f"{line}\n" for line in out_of_memory().evidence)


def _request(chance: random.Random, due_s: float) -> Row:
    first_s = due_s + 0.18 * chance.lognormvariate(0, 0.5)
    last_s = first_s + 20 * 0.022 * chance.lognormvariate(0, 0.25)
    return Row(due_s=due_s, sent_s=due_s, frames=(first_s, last_s), frame_tokens=(1.0, 20.0))


def _finish(work: Work, study: int, verdict: Verdict) -> None:
    best = best_number(work.standings.trials([study])[study]) or 1
    found = _better(work, study, best) if verdict is Verdict.BETTER else _kept(work, study)
    for phase in (StudyPhase.SEARCH, StudyPhase.CONFIRMATION, StudyPhase.RECOMMENDATION):
        work.studies.set_phase(study, phase)
    work.studies.set_recommendation(study, recommendation_to_dict(found))
    work.studies.set_phase(study, StudyPhase.DONE)
    work.studies.set_state(study, StudyState.COMPLETE)


def _better(work: Work, study: int, best: int) -> Recommendation:
    config, today = work.trials.get(study, best).config, work.trials.get(study, 0).config
    return Recommendation(
        verdict=Verdict.BETTER,
        headline=f"Trial {best} is better than the baseline by 4.1 to 12.7 %.",
        reason="The baseline was bound by the cap on sequences.",
        simulated=True,
        trial_number=best,
        config=config,
        reference_trial=0,
        reference_is_baseline=True,
        gain=GainInterval(0.08, 0.04, 0.12, 3, 0.9, 0.02),
        metrics=(
            MetricChange("TTFT p95", "ms", 402.0, 361.0, -13.1, -7.2),
            MetricChange("TPOT p95", "ms", 40.1, 38.7, -5.0, -1.9),
            MetricChange("output throughput", "tokens/s", 1003.0, 1102.0, 7.4, 12.3),
        ),
        changes=flag_changes(Served(today), Served(config)),
    )


def _kept(work: Work, study: int) -> Recommendation:
    return Recommendation(
        verdict=Verdict.KEEP_BASELINE,
        headline="Keep the baseline: nothing was confirmed to be better.",
        reason="The best candidate's interval, -1.2 to +3.4 %, holds no gain that is certain.",
        simulated=True,
        trial_number=0,
        config=work.trials.get(study, 0).config,
        reference_trial=0,
        reference_is_baseline=True,
        gain=GainInterval(0.01, -0.012, 0.033, 5, 0.9, 0.02),
    )
