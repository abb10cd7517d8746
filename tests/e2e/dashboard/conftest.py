from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.api_client import store_at
from tests.support.seeded_study import seed_study
from tests.support.served import served
from tuner.store import schema
from tuner.study.recommendation import Verdict

CHROMIUM = "/usr/bin/chromium"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = "<img src=x onerror=document.title='owned'> & \"'</script><script>alert(1)</script>"
WAIT_MS = 60_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)  # a neighbour may hold both cores for a while
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile, 1280 wide."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(WAIT_MS)
    yield made
    made.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained of; a page must leave it empty."""
    return []


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """A page that notes errors, warnings of the security policy and uncaught exceptions."""
    opened = context.new_page()
    opened.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service without a worker and without keys, with finished studies."""
    state = tmp_path_factory.mktemp("seeded")
    url = f"sqlite:///{state / 'servetune.db'}"
    schema.upgrade(url)
    with store_at(url) as store:
        seed_study(store, state / "artifacts", files_of=8)
        seed_study(
            store, state / "artifacts", name="kept", files_of=0, verdict=Verdict.KEEP_BASELINE
        )
        seed_study(
            store, state / "artifacts", name="hostile", log=f"{HOSTILE}\n" * 5, notice=HOSTILE
        )
    with served(state, "--no-worker", "--no-auth") as address:
        yield address


@pytest.fixture
def picture(page: Page, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Saves a picture of the whole page where SERVETUNE_SCREENSHOTS says, else nowhere."""
    folder = os.environ.get("SERVETUNE_SCREENSHOTS")

    def take(name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return take
