"""How good the instrument has to be for a measurement to count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstrumentLimits:
    """Beyond these a measurement is not scored. Times are engine time.

    On an engine that runs faster than real time the generator's wall-clock errors weigh that much
    more: they are multiplied by the time scale before they are compared.
    """

    send_lag_ms: float = 2.0
    send_lag_share_of_slo: float = 0.02
    """From due to sent: the larger of these two is always allowed, and beyond it, where the engine
    is slow enough for it not to matter, these shares of the measured TTFT p95. A p95 moves by 5%
    only when one request in twenty is late by that much; one in a hundred may be later."""

    send_lag_p95_share_of_ttft_p95: float = 0.05
    send_lag_p99_share_of_ttft_p95: float = 0.25

    loop_stall_ms: float = 100.0
    """Or the TTFT p95, if that is larger."""

    cpu_share: float = 0.80
    clock_step_ms: float = 0.1
    sent_over_offered: float = 0.99
    token_count_error: float = 0.05
    """Between the client's count and the engine's counter. The counter is read once a second, so
    its value at the window's ends is interpolated."""

    fewest_tokens_to_compare: int = 1000
    """The error is relative to at least this many."""

    truth_error: float = 0.05
    """Of an engine faster than real time: between the TTFT p95 measured and the one that the
    engine's own account gives for the same requests, as a share of the latter."""
    foreign_prompts: float = 2.0
    foreign_share: float = 0.10
    """By so many of our longest prompts, or this share of all it read where that is more, the
    engine may have read more than we sent: a counter between two readings is interpolated, and
    prompts make it jump."""

    clock_error: float = 0.15
    """A coarser check of every segment: between the engine's mean TTFT and ours as a share of the
    TTFT p95. A real engine's clock begins behind its HTTP server, and what that adds is no error:
    users wait for it. But nobody can see a token before the engine made it. An engine faster than
    real time must keep up with its own clock: there ours must not be longer either, nor the mean
    token gap."""

    coalesced_share: float = 0.01
    """Of frames read together with the one before, where the generator stood still for longer than
    the mean gap between tokens: else the engine sent them together, and users see that too. In
    real time only: an embedded engine's own account tells more."""
    in_flight_missing: float = 0.2
    in_flight_foreign: float = 0.25
    in_flight_floor: float = 3.0
    """In saturation the engine's running and waiting requests may be fewer than ours by this share,
    or more by that one, and by so many in any case."""
    clock_error_floor_ms: float = 5.0
    prefix_hit_rate: float = 0.02
    """Prompts are unique: a prefix cache that answers was not empty for our requests."""


LIMITS = InstrumentLimits()
