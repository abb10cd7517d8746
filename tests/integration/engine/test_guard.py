"""The guard process by itself, and starts that fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.engines import scripted_request, until
from tuner.engine.launcher import LaunchRequest
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.process_tree import descendants, read_processes
from tuner.engine.shared_memory import DIRECTORY
from tuner.errors import ExecutableNotFoundError, InfrastructureError

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[3]


def guard(text: str) -> subprocess.CompletedProcess[str]:
    """The guard as a module, given `text`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "tuner.engine.guard"],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )


def children() -> set[int]:
    return {process.pid for process in descendants([os.getpid()], read_processes())}


def request_for(path: Path, tmp_path: Path) -> LaunchRequest:
    return replace(scripted_request(tmp_path), argv=(str(path),))


def test_it_imports_only_the_standard_library() -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); import tuner.engine.guard"
    report = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stderr
    imported = set(re.findall(r"\|\s+([\w.]+)$", report, re.MULTILINE))
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}

    assert foreign == {
        *("tuner", "tuner.engine"),
        *("tuner.engine.guard", "tuner.engine.log_writer"),
        *("tuner.engine.process_tree", "tuner.engine.shared_memory"),
    }
    assert not {"subprocess", "asyncio", "dataclasses", "logging"} & imported


@pytest.mark.parametrize("text", ["", "not json\n", "{}\n", '{"grace_s": "x", "worker_pid": 1}\n'])
def test_a_request_that_cannot_be_used_is_answered_and_starts_nothing(text: str) -> None:
    finished = guard(text)

    assert finished.returncode == 1
    assert json.loads(finished.stdout)["event"] == "failed"


def test_a_worker_that_is_gone_already_gets_its_engine_stopped(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    request = {
        "worker_pid": gone.pid,
        "executable": "/bin/sleep",
        "argv": ["sleep", "600"],
        "env": {},
        "grace_s": 5.0,
        "log_path": str(tmp_path / "engine.log"),
        "secrets": [],
    }

    finished = guard(json.dumps(request) + "\n")

    events = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "exited", "done"]
    assert events[1]["returncode"] == -15
    assert events[2] == {"event": "done", "killed": False, "survivors": []}


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"\x00\x01 neither ELF nor script")
    nonsense.chmod(0o755)
    before = children()

    with pytest.raises(ExecutableNotFoundError, match=r"nonsense.*not a program"):
        ProcessLauncher().launch(request_for(nonsense, tmp_path))

    assert children() == before


def test_a_script_whose_interpreter_is_missing_is_named(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)

    with pytest.raises(ExecutableNotFoundError, match=r"vllm.*interpreter"):
        ProcessLauncher().launch(request_for(script, tmp_path))


def test_arguments_that_are_too_long_are_our_fault_and_not_the_executables(
    tmp_path: Path,
) -> None:
    request = scripted_request(tmp_path)
    request = replace(request, argv=(*request.argv, "x" * 4_000_000))

    with pytest.raises(InfrastructureError, match="cannot start"):
        ProcessLauncher().launch(request)


def test_a_full_table_of_descriptors_fails_the_attempt_and_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, pathlib, resource, sys
from tests.support.engines import scripted_request
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.process_tree import descendants, read_processes
from tuner.errors import InfrastructureError
request = scripted_request(pathlib.Path(sys.argv[1]))
free = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
held = []
try:
    while True: held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    for descriptor in held[:free]: os.close(descriptor)
try:
    ProcessLauncher().launch(request).stop()
    outcome = "started"
except InfrastructureError as error:
    outcome = "failed"
for descriptor in held[free:]: os.close(descriptor)
print(outcome, len(descendants([os.getpid()], read_processes())))
"""
    outcomes = set()
    for free in range(0, 12, 2):
        finished = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / str(free)), str(free)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
            check=False,
        )
        assert finished.stdout in ("failed 0\n", "started 0\n"), finished.stderr
        outcomes.add(finished.stdout)
    assert "failed 0\n" in outcomes


def test_two_engines_of_one_worker_do_not_hold_each_other(tmp_path: Path) -> None:
    first = ProcessLauncher().launch(scripted_request(tmp_path / "1"))
    second = ProcessLauncher().launch(scripted_request(tmp_path / "2"))
    until(second.owns_port, "the second listens")

    assert first.stop().returncode == 0
    assert second.exit_status() is None
    assert second.owns_port()
    assert second.stop().returncode == 0


def test_a_killed_engine_leaves_no_shared_memory(tmp_path: Path) -> None:
    request = scripted_request(tmp_path, "--shared-memory", "--ignore-term", grace_s=0.1)
    engine = ProcessLauncher().launch(request)
    until(lambda: "scripted engine started" in engine.log_tail(), "the engine starts")
    found = re.search(r"shared memory: (\S+)", engine.log_tail())
    assert found is not None
    segment = Path(DIRECTORY) / found[1]
    assert segment.exists()

    status = engine.stop()

    assert status.killed
    assert not segment.exists()


def test_a_killed_engine_whose_tracker_was_killed_first_leaves_no_shared_memory(
    tmp_path: Path,
) -> None:
    request = scripted_request(tmp_path, "--shared-memory", "--ignore-term", grace_s=0.1)
    engine = ProcessLauncher().launch(request)
    until(lambda: "scripted engine started" in engine.log_tail(), "the engine starts")
    found = re.search(r"shared memory: (\S+)", engine.log_tail())
    assert found is not None
    for process in descendants([engine.engine.pid], read_processes()):
        os.kill(process.pid, signal.SIGKILL)

    assert engine.stop().killed
    assert not (Path(DIRECTORY) / found[1]).exists()
