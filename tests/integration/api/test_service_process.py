"""`servetune serve` as a process: start-up, the first key, streams, signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.api_client import SIMULATED, store_at
from tests.support.command import servetune
from tests.support.service_process import Service, service
from tuner.domain.states import StudyState

pytestmark = pytest.mark.timeout(600)

SUBSCRIBERS = 200
EVENTS = 60


def append(url: str, study_id: int, count: int, marker: str = "a") -> None:
    """As many events; a notice that is there already would tell none."""
    with store_at(url) as store:
        for number in range(count):
            with store.writing() as work:
                work.studies.add_notice(study_id, {"kind": f"{marker}{number}", "message": "x"})


def test_the_first_key_is_in_a_file_of_this_user_and_nowhere_else(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        file = tmp_path / "first-admin-key"
        assert file.stat().st_mode & 0o777 == 0o600
        assert re.fullmatch(r"st_[0-9a-f]{12}_[\w-]{43}", running.key)
        assert running.request("GET", "/api/v1/session")["scopes"] == ["admin"]
        assert running.request("GET", "/readyz")["ready"] is True
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{running.url}/api/v1/studies", timeout=30)  # noqa: S310
        assert refused.value.code == 401
        refused.value.close()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
    secret = running.key.split("_", maxsplit=2)[2].encode()
    for path in tmp_path.iterdir():
        if path.name != "first-admin-key":
            assert secret not in path.read_bytes()
    file.unlink()
    with service(tmp_path) as again:  # there is a key already: no other one is made
        assert not file.exists()
        assert again.key == ""


@pytest.mark.timeout(600)
def test_every_subscriber_gets_every_event_once_and_in_order(
    database_url: str, tmp_path: Path
) -> None:
    with service(tmp_path, database_url=database_url) as running:
        study = running.request("POST", "/api/v1/studies", SIMULATED)["id"]

        def watch(number: int) -> list[str]:
            with closing(running.events(study)) as stream:
                return [next(stream)[0] for _ in range(EVENTS + 1)]

        with ThreadPoolExecutor(SUBSCRIBERS) as pool:
            readers = [pool.submit(watch, number) for number in range(SUBSCRIBERS)]
            append(database_url, study, EVENTS)
            expected = [f"{study}:{seq}" for seq in range(1, EVENTS + 2)]
            for reader in readers:
                assert reader.result(timeout=240) == expected


def test_a_stream_goes_on_after_the_service_was_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'servetune.db'}"
    with service(tmp_path) as running:
        study = running.request("POST", "/api/v1/studies", SIMULATED)["id"]
        append(url, study, 5)
        stream = running.events(study)
        seen = [next(stream)[0] for _ in range(3)]
        running.process.kill()
        running.process.wait()
    append(url, study, 2, "b")
    with service(tmp_path) as again:
        stream = again.events(study, last=seen[-1])
        seen += [next(stream)[0] for _ in range(5)]
    assert seen == [f"{study}:{seq}" for seq in range(1, 9)]


def test_sigterm_ends_open_streams_and_the_service_at_once(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        study = running.request("POST", "/api/v1/studies", SIMULATED)["id"]
        stream = running.events(study)
        assert next(stream)[1]["kind"] == "study_created"
        running.process.send_signal(signal.SIGTERM)
        assert list(stream) == []
        assert running.process.wait(30) == 0


Command = Callable[..., subprocess.CompletedProcess[str]]


def forecast_and_upload(command: Command, document: Path, running: Service) -> None:
    """What comes before a study is stored."""
    plan = json.loads(command("plan", str(document), "-o", "json").stdout)
    assert plan["prediction"] is True
    assert "PREDICTION" in command("plan", str(document)).stdout
    faulty = document.with_name("faulty.json")
    faulty.write_text(json.dumps({**SIMULATED, "budget": {"trials": 0}}))
    refused = command("plan", str(faulty))
    assert (refused.returncode, "budget.trials" in refused.stderr) == (2, True)
    trace = document.with_name("trace.csv")
    lines = [f"2024-05-10 00:00:0{i}.1,374,44" for i in range(5)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]))
    upload = command("workload", "upload", str(trace)).stdout.strip()
    (stored,) = running.request("GET", "/api/v1/uploads")["items"]
    assert (upload, stored["name"]) == (stored["id"], "trace.csv")


def test_the_commands_work_on_a_service(tmp_path: Path) -> None:
    document = tmp_path / "study.json"
    document.write_text(json.dumps(SIMULATED))
    state_dir = tmp_path / "elsewhere"
    state_dir.mkdir()
    served = tmp_path / "served"
    served.mkdir()
    with service(served) as running:
        remote = {"SERVETUNE_SERVER": running.url, "SERVETUNE_API_KEY": running.key}

        def command(*arguments: str) -> subprocess.CompletedProcess[str]:
            return servetune(*arguments, state_dir=state_dir, cwd=tmp_path, **remote)

        forecast_and_upload(command, document, running)
        assert command("study", "create", str(document)).stdout == "chat@1\n"
        listed = json.loads(command("study", "list", "-o", "json").stdout)
        assert [study["reference"] for study in listed] == ["chat@1"]
        assert "queued" in command("study", "show", "chat").stdout
        assert command("study", "pause", "chat").returncode == 0
        export = command("export", "chat")
        assert (export.returncode, "no recommendation" in export.stderr) == (2, True)
        unknown = command("study", "show", "nope")
        assert (unknown.returncode, "no study" in unknown.stderr) == (2, True)
        watched: list[str] = []
        watcher = threading.Thread(
            target=lambda: watched.extend(
                command("study", "watch", "chat", "-o", "json").stdout.splitlines()
            )
        )
        watcher.start()
        assert command("study", "cancel", "chat").returncode == 0
        watcher.join(250)
        assert [json.loads(line)["seq"] for line in watched] == [1, 2, 3]
        assert command("study", "delete", "-y", "chat").returncode == 0
        del remote["SERVETUNE_API_KEY"]
        assert "needs a key" in command("study", "list").stderr
    gone = command("study", "list")
    assert (gone.returncode, "cannot be reached" in gone.stderr) == (3, True)
    assert list(state_dir.iterdir()) == []


def test_tuning_there_follows_the_study_and_prints_its_report(tmp_path: Path) -> None:
    document = tmp_path / "study.json"
    document.write_text(json.dumps(SIMULATED))
    with service(tmp_path) as running:
        extra = {"SERVETUNE_SERVER": running.url, "SERVETUNE_API_KEY": running.key}
        done: list[subprocess.CompletedProcess[str]] = []

        def tune() -> None:
            arguments = ("tune", str(document), "-o", "json")
            done.append(servetune(*arguments, state_dir=tmp_path / "elsewhere", cwd=None, **extra))

        follower = threading.Thread(target=tune)
        follower.start()
        url = f"sqlite:///{tmp_path / 'servetune.db'}"
        with store_at(url) as store:
            while True:  # as a worker would, once the study is there
                with store.writing() as work:
                    waiting = work.leases.claim("stand-in")
                    if waiting is not None:
                        work.studies.set_state(waiting.study_id, StudyState.COMPLETE)
                        break
        follower.join(250)
    assert done[0].returncode == 0, done[0].stderr
    assert json.loads(done[0].stdout)["study"]["state"] == "complete"


def test_a_port_that_is_taken_is_a_start_up_failure(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        port = str(urlsplit(running.url).port)
        done = servetune("serve", "--no-worker", "--port", port, state_dir=tmp_path)
    assert done.returncode == 3
    assert "cannot listen there" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--no-auth", "--host", "0.0.0.0"), 2, "authentication cannot be switched off"),  # noqa: S104
        (("--operator-config", "/nonexistent.toml"), 2, "cannot be read"),
        (("--host", "256.1.1.1"), 3, "cannot listen there"),
    ],
)
def test_what_cannot_be_served_is_said(
    tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    done = servetune("serve", "--no-worker", "--port", "0", *options, state_dir=tmp_path)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_watching_a_study_that_has_ended_prints_it_and_ends(tmp_path: Path) -> None:
    document = tmp_path / "study.json"
    document.write_text(json.dumps(SIMULATED))
    assert servetune("study", "create", str(document), state_dir=tmp_path).returncode == 0
    with store_at(f"sqlite:///{tmp_path / 'servetune.db'}") as store, store.writing() as work:
        work.studies.set_state(1, StudyState.COMPLETE)
    done = servetune("study", "watch", "chat", state_dir=tmp_path)
    assert done.returncode == 0
    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()] == [
        "study created",
        "study state complete",
    ]


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = servetune("key", "create", "ci", "--scope", "write", state_dir=tmp_path)
    assert re.fullmatch(r"st_[0-9a-f]{12}_[\w-]{43}\n", made.stdout)
    listed = servetune("key", "list", "-o", "json", state_dir=tmp_path)
    (key,) = json.loads(listed.stdout)
    assert (key["name"], key["scopes"], key["revoked_at"]) == ("ci", ["write"], None)
    assert made.stdout.strip() not in listed.stdout
    assert servetune("key", "revoke", key["id"], state_dir=tmp_path).returncode == 0
    assert "ci" in servetune("key", "list", state_dir=tmp_path).stdout
    assert servetune("key", "revoke", "nope", state_dir=tmp_path).returncode == 2
