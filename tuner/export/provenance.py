"""Where an exported command comes from, as comment lines that nothing can break out of."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_VALUE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Gain:
    """The measured change against the baseline, percent; positive is better. 90% interval."""

    metric: str
    percent: float
    low_percent: float | None = None
    high_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a reader needs to trust a command, and to notice when it no longer applies.

    `trial` None is the baseline. None elsewhere is unknown and said so. `image` is the container
    image of the forms that run in one, best by digest. `exported_for` is the vLLM version the text
    is written for where that is not the measured one.
    """

    study: str
    trial: int | None
    at: datetime
    servetune_version: str
    simulated: bool
    verdict: str
    vllm_version: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    workload_digest: str | None = None
    gain: Gain | None = None
    model_revision: str | None = None
    image: str | None = None
    notes: tuple[str, ...] = ()
    exported_for: str | None = None

    @property
    def target_version(self) -> str | None:
        """The vLLM version that will read the command, None when it is not known."""
        return self.exported_for or self.vllm_version


SIMULATED = (
    "SIMULATED: every number below comes from ServeTune's engine model, NOT from a GPU. "
    "Measure on real hardware before relying on it."
)
MEASURE_AGAIN = "Measure again when the model, vLLM, the GPU or the workload changes."


def comment_lines(provenance: Provenance) -> tuple[str, ...]:
    """`# key: value` lines, each one line whatever the values hold."""
    lines = [f"# {SIMULATED}"] if provenance.simulated else []
    lines += [f"# {key}: {value}" for key, value in facts(provenance)]
    return (*lines, f"# {MEASURE_AGAIN}")


def facts(provenance: Provenance) -> tuple[tuple[str, str], ...]:
    """What is known, for people: names and values of one line each, always in the same order."""
    pairs = [
        ("study", provenance.study),
        ("trial", "baseline" if provenance.trial is None else str(provenance.trial)),
        ("date", _date(provenance.at)),
        ("ServeTune", provenance.servetune_version),
        ("vLLM", provenance.vllm_version or "unknown version"),
        ("GPU", _gpu(provenance)),
        ("workload", provenance.workload_digest or "unknown"),
        ("gain", _gain(provenance.gain)),
        ("verdict", provenance.verdict),
    ]
    if provenance.model_revision:
        pairs.insert(5, ("model revision", provenance.model_revision))
    if provenance.exported_for:
        pairs.insert(5, ("written for vLLM", provenance.exported_for))
    pairs += [("note", note) for note in provenance.notes]
    return tuple((key, one_line(value)) for key, value in pairs)


def record(provenance: Provenance) -> dict[str, object]:
    """The same for programs: JSON-able, what is not known is None."""
    gain = provenance.gain
    return {
        "simulated": provenance.simulated,
        "study": one_line(provenance.study),
        "trial": provenance.trial,
        "date": _date(provenance.at),
        "servetune_version": one_line(provenance.servetune_version),
        "vllm_version": _optional(provenance.vllm_version),
        "exported_for": _optional(provenance.exported_for),
        "model_revision": _optional(provenance.model_revision),
        "gpu": _optional(provenance.gpu),
        "gpu_count": provenance.gpu_count,
        "workload_digest": _optional(provenance.workload_digest),
        "gain": None
        if gain is None
        else {
            "metric": one_line(gain.metric),
            "percent": gain.percent,
            "low_percent": gain.low_percent,
            "high_percent": gain.high_percent,
        },
        "verdict": one_line(provenance.verdict),
        "image": _optional(provenance.image),
        "notes": [one_line(note) for note in provenance.notes],
        "advice": MEASURE_AGAIN,
    }


def _optional(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def one_line(text: str) -> str:
    """`text` without line breaks, control, direction and invisible characters; shortened.

    What a terminal or an editor could take for the end of the line becomes a space.
    """
    cleaned = "".join(" " if _is_unsafe(character) else character for character in text)
    joined = " ".join(cleaned.split())
    if len(joined) <= MAX_VALUE_CHARACTERS:
        return joined
    return joined[: MAX_VALUE_CHARACTERS - 1] + "…"


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _date(at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError("provenance needs a time with a time zone")
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _gpu(provenance: Provenance) -> str:
    name = provenance.gpu or "unknown"
    return f"{provenance.gpu_count} x {name}" if provenance.gpu_count else name


def _gain(gain: Gain | None) -> str:
    if gain is None:
        return "not measured"
    text = f"{gain.metric} {gain.percent:+.1f}%"
    if gain.low_percent is None or gain.high_percent is None:
        return f"{text} (no interval)"
    return f"{text} (90% interval {gain.low_percent:+.1f}% to {gain.high_percent:+.1f}%)"
