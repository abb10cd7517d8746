"""The simulated engine as a process: what a launcher, a probe and a user see of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.simulated_process import DEADLINE_S, MODEL, Launcher, free_port

pytestmark = pytest.mark.engine

FIVE_TOKENS = re.compile(r"^vllm:generation_tokens_total\{.*\} 5\.0$", re.MULTILINE)
BODY = {"prompt": [1, 2, 3], "max_tokens": 20_000, "ignore_eos": True, "stream": True}


def test_it_starts_serves_and_stops_on_sigterm(start: Launcher) -> None:
    engine = start("--max-num-seqs", "8").ready()
    with engine.post("/v1/completions", {**BODY, "max_tokens": 5}) as response:
        frames = response.read().split(b"\n\n")
    models = json.loads(engine.get("/v1/models")[1])
    metrics = engine.get("/metrics")[1].decode()
    truth = engine.get("/sim/truth")[0]

    engine.process.terminate()

    assert engine.ends() == 0
    assert models["data"][0]["id"] == MODEL
    assert len([frame for frame in frames if b'"text":"' in frame]) <= 5
    assert frames[-2] == b"data: [DONE]"
    assert FIVE_TOKENS.search(metrics)
    assert "INFO:     Application startup complete." in engine.log
    assert "[shutdown] API server: shutdown triggered" in engine.log
    assert "Traceback" not in engine.log
    assert truth == 404, "told only with --sim-truth"
    assert engine.get_refused()


def test_sigterm_under_load_ends_streams_with_abort(start: Launcher) -> None:
    engine = start().ready()
    options = {"stream_options": {"include_usage": True}}
    with engine.post("/v1/completions", {**BODY, **options}) as response:
        response.readline()
        engine.process.terminate()
        frames = [frame for frame in response.read().split(b"\n\n") if frame]

    assert engine.ends() == 0
    assert b'"finish_reason":"abort"' in frames[-3]
    assert json.loads(frames[-2].removeprefix(b"data: "))["choices"] == []
    assert frames[-1] == b"data: [DONE]"


def test_a_shutdown_timeout_lets_answers_finish(start: Launcher) -> None:
    engine = start("--shutdown-timeout", "50").ready()
    with engine.post("/v1/completions", {**BODY, "max_tokens": 200}) as response:
        response.readline()
        engine.process.terminate()
        frames = response.read()

    assert engine.ends() == 0
    assert b'"finish_reason":"length"' in frames


def test_the_port_is_taken_before_it_listens(start: Launcher) -> None:
    slow = start("--sim-startup-delay-s", "600")
    while "Using max model len" not in slow.log:
        assert slow.process.poll() is None
        time.sleep(0.02)

    with pytest.raises(ConnectionRefusedError):
        slow.get("/health")
    slow.process.terminate()
    assert slow.ends() == -signal.SIGTERM


def test_a_port_in_use_fails_before_the_engine_starts(start: Launcher) -> None:
    first = start().ready()

    second = start(port=first.port)

    assert second.ends() == 1
    assert second.log.splitlines()[-1] == "OSError: [Errno 98] Address already in use"
    assert "EngineCore" not in second.log
    assert first.get("/health")[0] == 200


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("--no-such-flag", "3"), 2, "vllm: error: unrecognized arguments: --no-such-flag 3"),
        (
            ("--max-num-seqs", "64", "--max-num-batched-tokens", "32"),
            1,
            "max_num_batched_tokens (32) must be greater than or equal to max_num_seqs (64).",
        ),
        (("--gpu-memory-utilization", "0.05"), 1, "No available memory for the cache blocks"),
        (("--sim-gpu-busy-gib", "19"), 1, "on startup is less than desired GPU memory"),
        (("--sim-startup-failure", "oom_capture"), 1, "CUDA out of memory. Tried to allocate"),
    ],
)
def test_failing_starts_have_vllms_exit_codes(
    start: Launcher, args: tuple[str, ...], code: int, text: str
) -> None:
    engine = start(*args)

    assert engine.ends() == code
    assert text in engine.log


def test_a_missing_model_fails_in_hugging_faces_words(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tuner.simulator", "serve", str(tmp_path / "nope")]
    argv += ["--port", str(free_port())]

    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("huggingface_hub.errors.HFValidationError: ")


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("--sim-crash-at-step", 1, "EngineCore encountered a fatal error."),
        ("--sim-exit-zero-at-step", 0, "engine core exited unexpectedly"),
        ("--sim-oom-at-step", 0, "torch.OutOfMemoryError: CUDA out of memory."),
    ],
)
def test_a_dying_engine_tells_its_clients_and_leaves(
    start: Launcher, fault: str, code: int, text: str
) -> None:
    engine = start(fault, "20").ready()
    with engine.post("/v1/completions", BODY) as response:
        frames = [frame for frame in response.read().split(b"\n\n") if frame]

    assert engine.ends() == code
    assert b'"error":{"message":"EngineCore encountered an issue.' in frames[-2]
    assert text in engine.log
    assert "EngineDeadError: EngineCore encountered an issue." in engine.log


def test_a_killed_engine_says_nothing(start: Launcher) -> None:
    engine = start("--sim-kill-at-step", "20").ready()
    # The connection breaks somewhere in the answer.
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        engine.post("/v1/completions", BODY) as response,
    ):
        response.read()

    assert engine.ends() == -signal.SIGKILL
    assert "ERROR" not in engine.log


def test_a_hung_engine_is_healthy_and_silent(start: Launcher) -> None:
    engine = start("--sim-hang-after-step", "5").ready()
    with engine.post("/v1/completions", BODY) as response:
        response.readline()
        while not FIVE_TOKENS.search(engine.get("/metrics")[1].decode()):
            assert engine.process.poll() is None
        assert engine.get("/health")[0] == 200
        engine.process.terminate()
        assert b'"finish_reason":"abort"' in response.read()

    assert engine.ends() == 0


def test_an_engine_can_ignore_sigterm(start: Launcher) -> None:
    engine = start("--sim-ignore-sigterm").ready()

    engine.process.terminate()

    with pytest.raises(subprocess.TimeoutExpired):
        engine.process.wait(0.5)
    assert engine.get("/health")[0] == 200


def test_an_orphan_survives_sigkill_but_not_its_group(start: Launcher) -> None:
    engine = start("--sim-orphan").ready()
    assert len(engine.group()) == 2

    engine.process.kill()
    engine.ends()
    (orphan,) = engine.group()

    assert Path(f"/proc/{orphan}/comm").read_text() == "VLLM::EngineCor\n"
    assert engine.get_refused()
    engine.kill_group()
    assert engine.group() == []


def test_a_clean_stop_takes_the_child_along(start: Launcher) -> None:
    engine = start("--sim-orphan").ready()

    engine.process.terminate()

    assert engine.ends() == 0
    engine.left_alone()
