from __future__ import annotations

import io

from rich.console import Console

from tuner.cli.start_forecast import forecast_line, forecast_table


def start(tokens: float | None, read_back: float | None) -> dict[str, object]:
    error = None if tokens is None or not read_back else tokens / read_back - 1
    nothing = {"forecast": 3.0, "read_back": None, "error": None}
    return {
        "label": "a prediction",
        "kv_cache_tokens": {"forecast": tokens, "read_back": read_back, "error": error},
        "weights_gib": nothing,
        "graph_gib": nothing,
        "startup_s": {"forecast": 60.0, "read_back": 80.0, "error": -0.25},
    }


def drawn(*starts: object) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=120, highlight=False).print(forecast_table(starts))
    return file.getvalue().splitlines()


def test_one_start_in_one_line() -> None:
    assert forecast_line(start(1100.0, 1000.0)) == (
        "KV tokens 1,100 forecast, 1,000 read back (+10.0 %); "
        "start-up 60 s forecast, 80 s read back (-25.0 %)"
    )


def test_nothing_is_said_where_nothing_could_be_compared() -> None:
    assert forecast_line({"label": "a prediction"}) is None
    assert forecast_line(None) is None


def test_the_table_of_one_start_has_no_range() -> None:
    head, tokens, weights, *_ = drawn(start(1100.0, 1000.0))
    assert head.split()[-3:] == ["forecast", "read", "back", "error"][-3:]
    assert tokens.split()[-3:] == ["1,000", "+10.0", "%"]
    assert weights.split()[-3:] == ["GiB", "-", "-"]


def test_the_table_of_several_shows_the_first_and_the_range_of_all() -> None:
    lines = drawn(start(1100.0, 1000.0), start(900.0, 1000.0), start(None, 1000.0))
    assert "first start" in lines[0]
    assert "errors of 3 starts" in lines[0]
    assert "-10.0 % to +10.0 %" in lines[1]
