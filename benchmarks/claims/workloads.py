"""Request patterns that the claims speak of, seeded."""

from __future__ import annotations

import random

from tuner.simulator.requests import EngineRequest

LONG_TOKENS = 6000


def uniform(
    count: int,
    prompt: tuple[int, int],
    output: tuple[int, int],
    rate_per_s: float | None = None,
    seed: int = 1,
) -> list[EngineRequest]:
    """Uniform lengths; Poisson arrivals, or all at once without a rate."""
    source = random.Random(seed)
    now_s = 0.0
    requests = []
    for index in range(count):
        if rate_per_s is not None:
            now_s += source.expovariate(rate_per_s)
        lengths = source.randint(*prompt), source.randint(*output)
        requests.append(EngineRequest(index, now_s, *lengths))
    return requests


def short_chat(count: int = 400) -> list[EngineRequest]:
    """Prompts of 300-500 tokens and answers of 8-32: prefill decides."""
    return uniform(count, (300, 500), (8, 32))


def long_generation(count: int = 200) -> list[EngineRequest]:
    """Short prompts, long answers."""
    return uniform(count, (50, 100), (400, 800))


def long_and_short(
    count: int, rate_per_s: float, long_share: float, seed: int = 1
) -> list[EngineRequest]:
    """Documents of 6,000-12,000 tokens among short questions."""
    source = random.Random(seed)
    now_s = 0.0
    requests = []
    for index in range(count):
        now_s += source.expovariate(rate_per_s)
        if source.random() < long_share:
            lengths = source.randint(LONG_TOKENS, 2 * LONG_TOKENS), source.randint(100, 200)
        else:
            lengths = source.randint(100, 500), source.randint(100, 300)
        requests.append(EngineRequest(index, now_s, *lengths))
    return requests
