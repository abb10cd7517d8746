"""From an empty form to a launch command, at a browser: real server, worker and engine."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import COMMAND, TIMEOUT_S, environment, servetune
from tests.support.served import served

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.timeout(600)]

STUDY_MS = 240_000
FIELDS = {
    "Name": "from-the-form",
    "max-model-len": "4096",
    "Trials": "2",
    "Warm-up (s)": "5",
    "Latency window (s)": "15",
    "Capacity window (s)": "8",
    "Finalists": "1",
    "Confirmation rounds, at least": "2",
    "at most": "2",
    "Time scale": "5",
    "Requests per second": "2",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A service with its worker and with keys; its address and state directory."""
    state = tmp_path_factory.mktemp("service")
    with served(state) as address:
        yield address, state


@pytest.fixture(scope="module")
def key(service: tuple[str, Path]) -> str:
    made = servetune("key", "create", "browser", "--scope", "write", state_dir=service[1])
    assert made.returncode == 0, made.stderr
    return made.stdout.split()[-1]


def test_a_study_is_started_watched_read_and_taken_away(
    page: Page,
    service: tuple[str, Path],
    key: str,
    complaints: list[str],
    picture: Callable[[str], None],
    tmp_path: Path,
) -> None:
    address, state = service
    sign_in(page, address, key)
    complaints.clear()  # of the first page, which asked without a key and was turned away
    document = tmp_path / "study.yaml"
    document.write_text(start(page))
    with followed(document, address, key, tmp_path) as follower:
        watch(page, picture)
        finished(follower)
    read(page)
    command = take_away(page)
    planned(command, state, tmp_path)
    assert complaints == []


def sign_in(page: Page, address: str, key: str) -> None:
    page.goto(f"{address}/studies/new")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("New study")


def start(page: Page) -> str:
    """Fill the form and start; the study as the page writes it in YAML."""
    page.get_by_text("Measurement and confirmation").click()
    page.get_by_label("Engine", exact=True).select_option("simulated:L4")
    page.get_by_label("Model", exact=True).select_option("meta-llama/Llama-3.1-8B-Instruct")
    for label, value in FIELDS.items():
        page.get_by_label(label, exact=True).fill(value)
    expect(page.get_by_text("engine starts,")).to_be_visible()
    document = page.get_by_label("The study as YAML").inner_text()
    page.get_by_role("button", name="Start the study").click()
    expect(page.locator("h1")).to_have_text("from-the-form@1")
    return document


@contextmanager
def followed(
    document: Path, address: str, key: str, directory: Path
) -> Iterator[subprocess.Popen[str]]:
    """`servetune tune` of the same document on the same service, from another machine's view."""
    extra = {"SERVETUNE_SERVER": address, "SERVETUNE_API_KEY": key}
    process = subprocess.Popen(
        [str(COMMAND), "tune", str(document), "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(directory / "elsewhere", **extra),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(follower: subprocess.Popen[str]) -> None:
    """It took the study for the one that runs, followed it to its end and printed its report."""
    out, err = follower.communicate(timeout=TIMEOUT_S)
    assert follower.returncode == 0, err
    report = json.loads(out)
    assert report["study"]["reference"] == "from-the-form@1"
    assert report["study"]["state"] == "complete"
    assert report["recommendation"]["verdict"]


def watch(page: Page, picture: Callable[[str], None]) -> None:
    """Without a reload: what happens arrives by itself."""
    expect(page.locator("#live-title")).to_be_visible(timeout=STUDY_MS)
    picture("study-running")
    expect(page.locator("#verdict-title")).to_be_visible(timeout=STUDY_MS)
    expect(page.locator("main .badge", has_text="complete").first).to_be_visible()
    expect(page.locator("#live-title")).to_be_hidden()
    picture("study-complete")


def read(page: Page) -> None:
    page.get_by_role("slider", name="Throughput").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("region", name="Best trials under these weights")).to_be_visible()
    page.get_by_role("region", name="Trials", exact=True).get_by_role("link", name="1").click()
    expect(page.locator("h1")).to_contain_text("Trial 1")
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()
    page.go_back()


def take_away(page: Page) -> str:
    page.goto(page.url.split("/trials/")[0] + "/export")
    shown = page.get_by_label("Launch command", exact=True)
    expect(shown).to_contain_text("vllm serve")
    return shown.inner_text()


def planned(command: str, state: Path, directory: Path) -> None:
    """The exported command, pasted back, is a study's baseline again."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    words = " ".join(shlex.split(" ".join(lines).replace("\\", "")))
    printed = servetune(
        "tune",
        "--from-command",
        words,
        "--simulate",
        "L4",
        "--print-study",
        state_dir=state,
        cwd=directory,
    )
    assert printed.returncode == 0, printed.stderr
    (directory / "again.yaml").write_text(printed.stdout)
    plan = servetune("plan", "again.yaml", state_dir=state, cwd=directory)
    assert plan.returncode == 0, plan.stderr
    assert "max-num-seqs" in plan.stdout


def test_a_stranger_gets_no_further_than_the_sign_in(page: Page, service: tuple[str, Path]) -> None:
    page.goto(f"{service[0]}/")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("API key").fill("st_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
