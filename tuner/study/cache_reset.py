"""Emptying an engine's prefix cache before a load, where it can be asked to."""

from __future__ import annotations

from collections.abc import Callable

from tuner.engine.http_probe import Probe

PATH = "/reset_prefix_cache"
"""vLLM has it in developer mode (VLLM_SERVER_DEV_MODE=1) only."""

PATIENCE_S = 5.0


def reset_prefix_cache(probe: Probe) -> bool:
    """Whether the engine says that its cache is empty now; an engine without the route says no.

    It also says no while requests still hold blocks. Nothing rests on a yes: prompts are unique and
    salted, and what the cache answers all the same makes a measurement invalid.
    """
    answer = probe.post(PATH, {}, _once(PATIENCE_S))
    if answer is None or answer.status != 200:
        return False
    document = answer.json()
    return not (isinstance(document, dict) and document.get("success") is False)


def _once(pause_s: float) -> Callable[[], float | None]:
    pauses = iter((pause_s,))
    return lambda: next(pauses, None)
