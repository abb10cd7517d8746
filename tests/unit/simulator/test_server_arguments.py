from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.simulator.command import simulator_argv
from tuner.simulator.server.arguments import DEFAULT_MODEL, UsageError, read_arguments
from tuner.simulator.server.serve import main
from tuner.simulator.simulator_options import (
    STARTUP_FAILURES,
    Faults,
    SimulatorOptions,
    simulator_option_argv,
    split_simulator_options,
)

_STEPS = st.none() | st.integers(1, 10**6)
_FAULTS = st.builds(
    Faults,
    crash_at_step=_STEPS,
    exit_zero_at_step=_STEPS,
    oom_at_step=_STEPS,
    kill_at_step=_STEPS,
    hang_after_step=_STEPS,
    startup_delay_s=st.floats(0.0, 1e4),
    startup_failure=st.none() | st.sampled_from(STARTUP_FAILURES),
    gpu_busy_gib=st.floats(0.0, 100.0),
    ignore_sigterm=st.booleans(),
    orphan=st.booleans(),
)
_OPTIONS = st.builds(
    SimulatorOptions,
    gpu=st.sampled_from(["L4", "H100"]),
    gpu_count=st.integers(1, 16),
    time_scale=st.floats(0.01, 1000.0),
    hardware_seed=st.none() | st.integers(0, 2**31),
    truth=st.booleans(),
    faults=_FAULTS,
)


@given(_OPTIONS)
def test_simulator_options_survive_the_command_line(options: SimulatorOptions) -> None:
    argv = simulator_option_argv(options)

    assert split_simulator_options(argv) == (options, ())
    assert all(word.startswith("--sim-") or not word.startswith("--") for word in argv)


def test_simulator_options_are_told_from_vllms_wherever_they_stand() -> None:
    options, rest = split_simulator_options(
        ["M", "--sim-gpu", "L4", "--port", "1", "--sim-orphan", "--enforce-eager"]
    )

    assert (options.gpu, options.faults.orphan) == ("L4", True)
    assert rest == ("M", "--port", "1", "--enforce-eager")


@pytest.mark.parametrize(
    "args",
    [
        ("--sim-time-scale", "0"),
        ("--sim-gpu-count", "0"),
        ("--sim-crash-at-step", "0"),
        ("--sim-startup-failure", "nonsense"),
        ("--sim-time-scale", "fast"),
    ],
)
def test_a_bad_simulator_option_is_a_usage_error(args: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as caught:
        split_simulator_options(args)
    assert caught.value.code == 2


def test_flags_are_read_in_vllms_spelling() -> None:
    line = (
        "org/model --max-num-seqs 8 --max_num_batched_tokens=4K --no-enable-prefix-caching "
        "--served-model-name one two --port 9 --host 127.0.0.1 -tp 2"
    )
    arguments = read_arguments(line.split())

    assert arguments.model == "org/model"
    assert arguments.config.max_num_seqs == 8
    assert arguments.config.max_num_batched_tokens == 4096
    assert arguments.config.get("enable-prefix-caching") is False
    assert arguments.config.get("tensor-parallel-size") == 2
    assert arguments.served_names == ("one", "two")
    assert (arguments.host, arguments.port) == ("127.0.0.1", 9)


@pytest.mark.parametrize("args", ["-O1 M", "-O 1 M", "M -O1", "M --optimization-level 1"])
def test_the_optimization_level_has_a_spelling_of_its_own(args: str) -> None:
    arguments = read_arguments(args.split())

    assert (arguments.model, arguments.config.get("optimization-level")) == ("M", 1)


def test_defaults_are_vllms() -> None:
    arguments = read_arguments([])

    assert arguments.model == DEFAULT_MODEL
    assert arguments.served_names == (DEFAULT_MODEL,)
    assert (arguments.host, arguments.port) == (None, 8000)
    assert arguments.shutdown_timeout_s == 0.0
    assert arguments.api_key is None
    assert arguments.access_log


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("M --no-such-flag 3", "unrecognized arguments: --no-such-flag 3"),
        ("M --swap-space 4", "unrecognized arguments: --swap-space 4"),
        ("M --max-num-seqs 8 extra more", "unrecognized arguments: extra more"),
        ("M --num-scheduler-steps=8 --port 1", "unrecognized arguments: --num-scheduler-steps=8"),
        (
            "M --enable-chunked-prefill=False",
            "argument --enable-chunked-prefill, --no-enable-chunked-prefill: "
            "ignored explicit argument 'False'",
        ),
        (
            "M --scheduling-policy lifo",
            "argument --scheduling-policy: invalid choice: 'lifo' (choose from 'fcfs', 'priority')",
        ),
    ],
)
def test_what_argparse_refuses(args: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_arguments(args.split())
    assert caught.value.message == message


@pytest.mark.parametrize("args", ["M --max-num-seqs many", "M --max-num-seqs"])
def test_a_value_of_the_wrong_type_names_its_flag(args: str) -> None:
    with pytest.raises(UsageError, match=r"^argument .*--max-num-seqs"):
        read_arguments(args.split())


def test_the_model_is_positional_only() -> None:
    with pytest.raises(InvalidCommandError, match="provide the model as a positional argument"):
        read_arguments(["--model", "M"])


def test_usage_errors_go_to_stderr_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["serve", "M", "--no-such-flag", "3"])

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("usage: vllm")
    assert captured.err.endswith("vllm: error: unrecognized arguments: --no-such-flag 3\n")


def test_the_model_option_fails_as_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "M"]) == 1
    assert "ValueError: With `vllm serve`" in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["bench"], ["serve", "M", "--sim-gpu", "Abacus"]])
def test_other_commands_and_unknown_gpus_are_usage_errors(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert "vllm: error: " in capsys.readouterr().err


def test_the_launch_command_reads_back_as_the_configuration() -> None:
    config = EngineConfig.of({"max-num-seqs": 8, "enable-chunked-prefill": False})
    command = LaunchCommand("org/model", config)

    argv = simulator_argv(command, "L4", 2, 10.0, 7, "127.0.0.1", 4000, "--sim-orphan")
    serve = argv.index("serve")
    arguments = read_arguments(argv[serve + 1 :])

    assert argv[serve - 2 : serve] == ("-m", "tuner.simulator")
    assert arguments.model == "org/model"
    assert arguments.config == config.with_flags({"host": "127.0.0.1", "port": 4000})
    assert arguments.options == SimulatorOptions(
        gpu="L4", gpu_count=2, time_scale=10.0, hardware_seed=7, faults=Faults(orphan=True)
    )


def test_the_launch_command_decides_the_address() -> None:
    command = LaunchCommand("m", EngineConfig.of({"port": 1, "host": "localhost"}))

    arguments = read_arguments(simulator_argv(command, "L4", 1, 1.0, None, "::1", 2)[5:])

    assert (arguments.host, arguments.port) == ("::1", 2)
