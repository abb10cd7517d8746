"""A whole small study on a real vLLM in containers, and on one that a script of its owner manages.

Not in `make test-vllm`: `scripts/test-vllm tests/real_vllm/test_launchers.py` runs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import COMMAND, data, environment
from tests.support.launcher_benches import MANAGER
from tests.support.podman import IMAGE, Podman, engine_mounts, podman_service
from tests.support.real_vllm import MIB, Installation, document
from tuner.domain.states import AttemptOutcome, AttemptPurpose, StudyState
from tuner.engine.port import free_port
from tuner.store.url import DatabaseUrl
from tuner.study.ledger import History
from tuner.worker.composition import Locations, load_history

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(1500)]

NAME = "launched"
SETTINGS = {
    "name": NAME,
    # Memory in bytes: a share is of the node's, which other programs use.
    "search_space": {
        "max_num_seqs": {"low": 4, "high": 64},
        "kv_cache_memory_bytes": {"low": 8 * MIB, "high": 32 * MIB},
    },
    "baseline": {"flags": {"max-num-seqs": 8, "kv-cache-memory-bytes": 32 * MIB}},
    "budget": {"trials": 2, "early_abort": False},
    "stopping": {"enabled": False},
    "sampler": {"type": "tpe", "seed": 5},
    "confirmation": {"finalists": 1, "rounds": 2, "max_rounds": 2},
}


def tuned(
    vllm: Installation, launcher: dict[str, Any], directory: Path, **variables: str
) -> tuple[dict[str, Any], History]:
    """What `servetune tune` printed of the study, and what it stored."""
    study = document(vllm, **SETTINGS)
    study["engine"]["launcher"] = launcher
    path = directory / "study.yaml"
    path.write_text(json.dumps(study))
    state = directory / "state"
    done = subprocess.run(
        [str(COMMAND), "tune", "--engine", "vllm", str(path), "--output", "json"],
        capture_output=True,
        text=True,
        env=environment(state, **variables),
        timeout=1400,
        check=False,
    )
    locations = Locations(DatabaseUrl.of_file(state / "servetune.db"), state)
    return data(done), load_history(NAME, locations)


def require_whole(report: dict[str, Any], history: History) -> None:
    assert history.study.state is StudyState.COMPLETE
    assert report["simulated"] is False
    assert report["recommendation"]["verdict"] in ("better", "better_but_fragile", "keep_baseline")
    assert {a.outcome for a in history.attempts} == {AttemptOutcome.MEASURED}
    purposes = [a.purpose for a in history.attempts]
    assert purposes.count(AttemptPurpose.SEARCH) >= 2
    for record in history.measurements:
        facts, config = record.measurement.engine, history.trial(record.trial_number).config
        assert facts.version == "0.32.0"
        assert facts.max_num_seqs == config.max_num_seqs


def test_a_study_in_containers(vllm: Installation, tmp_path: Path) -> None:
    """The image's `vllm` is a script that starts the installed one, which is mounted."""
    program = tmp_path / "program"
    program.mkdir()
    (program / "vllm").write_text(f'#!/bin/sh\nexec {vllm.vllm.resolve()} "$@"\n')
    (program / "vllm").chmod(0o755)
    installed = vllm.vllm.resolve().parent.parent
    mounts = [f"{m.source}:{m.target}:ro" for m in engine_mounts()]
    mounts += [f"{installed}:{installed}:ro", f"{program}:/opt/engine:ro"]
    launcher = {"type": "docker", "image": IMAGE, "gpus": [], "caches": False, "mounts": mounts}
    with podman_service() as podman:
        report, history = tuned(vllm, launcher, tmp_path, DOCKER_HOST=podman.docker_host)
        require_whole(report, history)
        require_none_left(podman)


def require_none_left(podman: Podman) -> None:
    assert podman.containers() == []


def test_a_study_on_an_endpoint_that_a_script_manages(vllm: Installation, tmp_path: Path) -> None:
    """The script appends what it is given to `vllm serve`; the study reads back what it applied."""
    port = free_port("127.0.0.1")
    manage = [sys.executable, "-S", str(MANAGER)]
    serve = [str(vllm.vllm), "serve", str(vllm.model), "--port", str(port)]
    launcher = {
        "type": "attached",
        "url": f"http://127.0.0.1:{port}",
        "restart_command": [*manage, "restart", str(tmp_path), *serve, "{flags}"],
        "stop_command": [*manage, "stop", str(tmp_path)],
        "status_command": [*manage, "status", str(tmp_path)],
        "log_file": str(tmp_path / "server.log"),
    }
    report, history = tuned(vllm, launcher, tmp_path)
    require_whole(report, history)
    stopped = subprocess.run([*manage, "status", str(tmp_path)], check=False)
    assert stopped.returncode != 0
