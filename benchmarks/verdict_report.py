"""Outcomes of whole studies as the committed document and as a table for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from benchmarks.scenarios import START_NOISE
from benchmarks.verdict_shares import NO_GAIN, Share, best_gain, mean, shares
from benchmarks.verdict_study import LARGE_GAIN, FinalistOutcome, StudyOutcome
from tuner.domain.states import AttemptPurpose

DIGITS = 4


def document(studies: Sequence[StudyOutcome]) -> dict[str, object]:
    """JSON-able; gains are score differences (logarithms of the improvement)."""
    return {
        "start_noise": START_NOISE,
        "large_gain": LARGE_GAIN,
        "no_gain": NO_GAIN,
        "cpu_s": round(sum(s.total_cpu_s for s in studies), 1),
        "aims": [_share_row(share) for share in shares(studies)],
        "studies": [_study_row(study) for study in studies],
    }


def written(found: Mapping[str, object]) -> str:
    """The document as text, one study a line: small, and a change of one shows as one."""
    studies = found["studies"]
    head = json.dumps({**found, "studies": []}, indent=1, ensure_ascii=False)
    rows = (json.dumps(row, ensure_ascii=False) for row in studies)  # type: ignore[attr-defined]
    return head.replace('"studies": []', '"studies": [\n' + ",\n".join(rows) + "\n]") + "\n"


def _share_row(share: Share) -> dict[str, object]:
    return {
        "aim": share.aim.name,
        "at_least": share.aim.at_least,
        "threshold": share.aim.threshold,
        "hits": share.hits,
        "total": share.total,
        "met": share.met,
    }


def _study_row(study: StudyOutcome) -> dict[str, object]:
    best = study.best
    return {
        "number": study.number,
        "deployment": study.deployment,
        "baseline": study.baseline,
        "baseline_flags": dict(study.baseline_flags),
        "verdict": study.verdict,
        "recommended_trial": study.recommended_trial if study.winner else None,
        "best_config": dict(study.best_config),
        "best_true_gain": _rounded(best_gain(study)),
        "best_true_error": _rounded(best.standard_error if best else None),
        "starts": {p.value: n for p, n in study.cost.starts.items()},
        "gpu_minutes": {p.value: _rounded(m) for p, m in study.cost.gpu_minutes.items()},
        "rate_per_s": _rounded(study.rate_per_s),
        "concurrency": study.concurrency,
        "latency_requests": study.latency_requests,
        "finalists": [_finalist_row(finalist) for finalist in study.finalists],
    }


def _finalist_row(finalist: FinalistOutcome) -> dict[str, object]:
    true = finalist.true
    return {
        "trial": finalist.trial_number,
        "config": dict(finalist.config),
        "search_score": _rounded(finalist.search_score),
        "differences": [_rounded(value) for value in finalist.differences],
        "interval": [_rounded(finalist.low), _rounded(finalist.high)],
        "true_gain": _rounded(true.mean if true else None),
        "true_error": _rounded(true.standard_error if true else None),
        "true_failures": true.failures if true else len(finalist.true_differences),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def table(studies: Sequence[StudyOutcome]) -> str:
    """Markdown: the four aims, then what a typical study looked like per deployment."""
    cpu_s = sum(s.total_cpu_s for s in studies)
    lines = [
        "# Verdicts of whole studies on hidden hardware (simulated)",
        "",
        "Written by `python -m benchmarks.verdicts`. Every study ran the real driver, store, "
        "sampler, load plans, summaries, confirmation and verdict; only the engine, the load "
        "generator's process and the waiting are the engine model's. Nothing here was measured "
        "on a GPU.",
        "",
        f"{len(studies)} studies, {cpu_s / 60:.0f} CPU minutes.",
        "",
        "| aim | wanted | reached | 90% interval | met |",
        "|---|---|---|---|---|",
        *(_aim_row(share) for share in shares(studies)),
        "",
        *_cost_lines(studies),
        "",
        "| deployment | studies | requests per window | gain in the space | of the recommended | "
        "recommended | spread of one pair |",
        "|---|---|---|---|---|---|---|",
        *_deployment_rows(studies),
        "",
    ]
    return "\n".join(lines)


def _aim_row(share: Share) -> str:
    wanted = f"{'≥' if share.aim.at_least else '≤'} {share.aim.threshold:.0%}"
    interval = share.interval
    if share.value is None or interval is None:
        return f"| {share.aim.name} | {wanted} | no study | | |"
    reached = f"{share.value:.1%} ({share.hits} of {share.total})"
    verdict = "yes" if share.met else "**no**"
    bounds = f"{interval[0]:.0%} to {interval[1]:.0%}"
    return f"| {share.aim.name} | {wanted} | {reached} | {bounds} | {verdict} |"


def _cost_lines(studies: Sequence[StudyOutcome]) -> list[str]:
    """What an average study takes, by what there was to find."""
    groups = (
        ("all", studies),
        ("gain ≥ 10%", [s for s in studies if best_gain(s) >= LARGE_GAIN]),
        ("no gain", [s for s in studies if best_gain(s) < NO_GAIN]),
    )
    return [
        "What a study takes on average, in starts of the engine and in GPU minutes (engine time, "
        "the last requests of a window and the bursts aside):",
        "",
        "| studies | search | baseline again | confirmation | of all minutes, the confirmation |",
        "|---|---|---|---|---|",
        *(_cost_row(f"{name} ({len(group)})", group) for name, group in groups if group),
    ]


def _cost_row(name: str, group: Sequence[StudyOutcome]) -> str:
    cells = []
    for purpose in AttemptPurpose:
        starts = sum(s.cost.starts[purpose] for s in group) / len(group)
        minutes = sum(s.cost.gpu_minutes[purpose] for s in group) / len(group)
        cells.append(f"{starts:.1f} starts, {minutes:.0f} min")
    own = sum(s.cost.gpu_minutes[AttemptPurpose.CONFIRMATION] for s in group)
    share = own / sum(sum(s.cost.gpu_minutes.values()) for s in group)
    return f"| {name} | {' | '.join(cells)} | {share:.0%} |"


def _deployment_rows(studies: Sequence[StudyOutcome]) -> list[str]:
    groups: dict[str, list[StudyOutcome]] = {}
    for study in studies:
        groups.setdefault(study.deployment, []).append(study)
    return [_deployment_row(name, group) for name, group in groups.items()]


def _deployment_row(name: str, group: Sequence[StudyOutcome]) -> str:
    requests = mean(s.latency_requests for s in group)
    best = mean(best_gain(s) for s in group)
    gains = mean(s.winner.true.mean for s in group if s.winner and s.winner.true)
    spread = mean(pair_spread(f) for s in group for f in s.finalists if f.true)
    recommended = sum(s.winner is not None for s in group)
    cells = (
        name,
        str(len(group)),
        "" if requests is None else f"{requests:.0f}",
        _percent(best),
        _percent(gains),
        str(recommended),
        "" if spread is None else f"{spread:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def pair_spread(finalist: FinalistOutcome) -> float:
    """Standard deviation of one paired difference, over the loads the truth was averaged over."""
    true = finalist.true
    return 0.0 if true is None else true.standard_error * math.sqrt(true.loads)


def _percent(gain: float | None) -> str:
    return "" if gain is None else f"{100 * math.expm1(gain):+.1f}%"


def summary(studies: Sequence[StudyOutcome]) -> Mapping[str, float | None]:
    """Shares by the aims' names."""
    return {share.aim.name: share.value for share in shares(studies)}
