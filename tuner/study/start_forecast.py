"""What was forecast of a start against what the started engine says of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from objectives.measurement import EngineFacts
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.forecast import LABEL
from tuner.simulator.limits import engine_limits
from tuner.simulator.startup import StartRates, start_durations
from tuner.study.target import Target


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Nominal, as every forecast; None where model or GPU is not known."""

    kv_cache_tokens: int | None = None
    weights_gib: float | None = None
    graph_gib: float | None = None
    startup_s: float | None = None


QUANTITIES = ("kv_cache_tokens", "weights_gib", "graph_gib", "startup_s")


def start_forecast(target: Target, config: EngineConfig) -> StartForecast:
    """What the memory account and the nominal durations expect of this configuration's start."""
    account = target.memory(config)
    if account is None or target.geometry is None:
        return StartForecast()
    limits = engine_limits(target.effective(config), target.max_model_len)
    durations = start_durations(target.geometry, limits, account, StartRates())
    return StartForecast(
        kv_cache_tokens=account.kv_cache_tokens,
        weights_gib=account.weights_gib,
        graph_gib=account.graph_gib,
        startup_s=durations.total_s,
    )


def read_back_document(forecast: StartForecast, facts: EngineFacts) -> dict[str, object]:
    """Both, JSON-able, with the error of each quantity that both know (forecast / read back - 1).

    What the engine does not tell, or nobody can forecast, is null.
    """
    compared = {
        name: _compared(getattr(forecast, name), getattr(facts, name)) for name in QUANTITIES
    }
    return {"engine": asdict(facts), "forecast": {"label": LABEL, **compared}}


def _compared(forecast: float | None, read_back: float | None) -> dict[str, float | None]:
    error = None
    if forecast is not None and read_back:
        error = forecast / read_back - 1.0
    return {"forecast": forecast, "read_back": read_back, "error": error}
