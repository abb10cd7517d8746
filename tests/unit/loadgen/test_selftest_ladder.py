from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tuner.loadgen.instrument_capacity import TrustedLoad
from tuner.loadgen.selftest.known_schedule import asked_tokens
from tuner.loadgen.selftest.ladder import (
    climb,
    climb_processes,
    process_counts,
    servers_for,
    trusted_load,
)
from tuner.loadgen.selftest.rungs import MOST_SERVER_LATE_MS, Rung


def rung(offered: float, *, wrong: bool = False, late: bool = False, processes: int = 1) -> Rung:
    return Rung(
        kind="tokens",
        processes=processes,
        offered=offered,
        tokens_per_s=offered * 10,
        requests_per_s=offered,
        ttft_mean_error=0.0,
        itl_mean_error=0.0,
        ttft_p99_error=0.0,
        itl_p99_error=0.0,
        send_lag_p99_ms=None,
        cpu_share=0.5,
        cpu_ms_per_1000_tokens=20.0,
        server_late_ms=MOST_SERVER_LATE_MS * (2 if late else 0.1),
        clock="kernel",
        reasons=("off",) if wrong else (),
    )


def off_from(limit: float) -> Callable[[float], Rung]:
    return lambda offered: rung(offered, wrong=offered >= limit)


def ignore(_: Rung) -> None:
    pass


def test_a_ladder_ends_where_the_instrument_is_off_twice() -> None:
    told: list[Rung] = []
    found = climb(off_from(500.0), 100.0, 6400.0, told.append)
    middle = 400.0 * math.sqrt(2)
    assert [each.offered for each in found.rungs] == [
        100.0, 200.0, 400.0, 800.0, 800.0, middle, middle
    ]  # fmt: skip
    assert found.good is not None
    assert found.wrong is not None
    assert (found.good.offered, found.wrong.offered) == (400.0, middle)
    assert tuple(told) == found.rungs


def test_the_last_step_is_halved() -> None:
    found = climb(off_from(700.0), 100.0, 6400.0, ignore)
    assert found.good is not None
    assert found.wrong is not None
    assert found.good.offered == pytest.approx(400.0 * math.sqrt(2))
    assert found.wrong.offered == 800.0


def test_one_bad_moment_is_forgiven() -> None:
    tries: dict[float, int] = {}

    def run(offered: float) -> Rung:
        tries[offered] = tries.get(offered, 0) + 1
        return rung(offered, wrong=offered >= 800.0 or (offered == 100.0 and tries[offered] == 1))

    found = climb(run, 100.0, 6400.0, ignore)
    assert tries[100.0] == 2
    assert found.good is not None
    assert found.good.offered >= 400.0


def test_servers_that_are_late_prove_nothing_against_the_instrument() -> None:
    found = climb(
        lambda offered: rung(offered, wrong=offered > 400.0, late=offered > 400.0),
        100.0,
        6400.0,
        ignore,
    )
    assert found.wrong is None
    assert found.good is not None
    assert found.good.offered == 400.0


def test_a_ladder_has_an_end() -> None:
    found = climb(rung, 100.0, 400.0, ignore)
    assert [each.offered for each in found.rungs] == [100.0, 200.0, 400.0]
    assert found.wrong is None


def test_nothing_right_is_no_load() -> None:
    found = climb(off_from(0.0), 100.0, 400.0, ignore)
    assert found.good is None
    load = trusted_load(1, lambda _, at: rung(at, wrong=True), lambda _, at: rung(at), ignore)
    assert load.tokens_per_s == 0.0
    assert load.wrong_from_tokens_per_s == 1000.0
    assert load.requests_per_s == 16_000.0
    assert load.wrong_from_requests_per_s is None


def test_so_many_processes_begin_with_so_many_times_the_load() -> None:
    seen: list[tuple[int, float]] = []

    def run(processes: int, offered: float) -> Rung:
        seen.append((processes, offered))
        return rung(offered, wrong=True)

    trusted_load(3, run, run, ignore)
    assert seen == [(3, 300.0)] * 2 + [(3, 750.0)] * 2


def load(processes: int, tokens_per_s: float) -> TrustedLoad:
    return TrustedLoad(processes, tokens_per_s, None, 1.0, None)


def test_more_processes_are_tried_while_they_carry_more() -> None:
    carried = {1: 100.0, 2: 190.0, 4: 200.0, 8: 400.0}
    found = climb_processes((1, 2, 4, 8), lambda count: load(count, carried[count]))
    assert [each.processes for each in found] == [1, 2, 4]


@pytest.mark.parametrize(
    ("processors", "counts"), [(1, (1,)), (2, (1,)), (4, (1, 2)), (8, (1, 2, 4)), (15, (1, 2, 4))]
)
def test_half_of_the_host_is_left_to_others(processors: int, counts: tuple[int, ...]) -> None:
    assert process_counts(processors) == counts


def test_there_is_always_a_server() -> None:
    assert [servers_for(1, count) for count in (1, 2, 4)] == [1, 1, 2]
    assert servers_for(4, 8) == 4


HEAD = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 17\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "tokens"),
    [
        (HEAD + b'{"max_tokens": 7}', 7),
        (HEAD + b'{"max_tokens": 7', None),
        (HEAD[:-2], None),
        (b"POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n{}", 1),
    ],
)
def test_the_server_waits_for_a_whole_request(request_bytes: bytes, tokens: int | None) -> None:
    assert asked_tokens(request_bytes) == tokens
