from __future__ import annotations

import pytest

from tuner.simulator.server.serve import main


@pytest.mark.parametrize("option", ["--help", "--help=all", "-h"])
def test_serve_help_lists_flags_and_says_simulated(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", option]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: vllm serve")
    assert "--max-num-seqs MAX_NUM_SEQS" in printed
    assert "--enable-chunked-prefill, --no-enable-chunked-prefill" in printed
    assert "--sim-time-scale" in printed
    assert "simulated engine" in printed


def test_help_leaves_out_flags_that_this_version_removed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["serve", "--help"])
    assert "--swap-space" not in capsys.readouterr().out


def test_help_wins_over_bad_flags_as_in_argparse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "m", "--help", "--no-such-flag"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["--version", "-v"])
def test_version_is_one_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    assert capsys.readouterr().out == "0.32.0\n"


def test_help_without_a_command_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "serve" in capsys.readouterr().out
