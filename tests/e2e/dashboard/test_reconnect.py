"""The page of a study while its server is killed and comes again: no event is lost or doubled."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.support.api_client import store_at
from tests.support.seeded_study import seed_study
from tests.support.service_process import service
from tuner.store import schema

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MARK = "what happened"


def tell(url: str, study: int, *names: str) -> None:
    with store_at(url) as store:
        for name in names:
            with store.writing() as work:
                work.studies.add_notice(study, {"kind": "test", "message": f"{MARK}: {name}"})


def told(page: Page) -> list[str]:
    """Newest first, as the page lists them."""
    lines = page.locator(".events li", has_text=MARK).all_inner_texts()
    return [line.rpartition(": ")[2] for line in lines]


def test_every_event_is_shown_once_and_in_order_over_a_kill(page: Page, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'servetune.db'}"
    schema.upgrade(url)
    with store_at(url) as store:
        study = seed_study(store, tmp_path / "artifacts", files_of=0, finished=False)
    lines = page.locator(".events li", has_text=MARK)
    with service(tmp_path, "--no-auth") as running:
        port = urlsplit(running.url).port
        page.goto(f"{running.url}/studies/seeded@1")
        expect(page.locator("h1")).to_contain_text("seeded@1")
        tell(url, study, "a", "b")
        expect(lines).to_have_count(2)
        running.process.kill()
        running.process.wait()
        expect(page.locator("#connection")).to_be_visible()
    tell(url, study, "c", "d", "e")
    with service(tmp_path, "--no-auth", "--port", str(port)):
        expect(lines).to_have_count(5)
        expect(page.locator("#connection")).to_be_hidden()
        tell(url, study, "f")
        expect(lines).to_have_count(6)
        assert told(page) == ["f", "e", "d", "c", "b", "a"]
