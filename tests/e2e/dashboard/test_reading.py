"""What somebody sees whose key may read and nothing else: no button that would be refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.api_client import make_key, store_at
from tests.support.seeded_study import seed_study
from tests.support.served import served
from tuner.domain.access import Scope
from tuner.store import schema

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[Scope, str]]]:
    """A service that asks for keys, with a running and a finished study; a key of each scope."""
    state = tmp_path_factory.mktemp("guarded")
    url = f"sqlite:///{state / 'servetune.db'}"
    schema.upgrade(url)
    with store_at(url) as store:
        seed_study(store, state / "artifacts", files_of=0)
        seed_study(store, state / "artifacts", name="going-on", files_of=0, finished=False)
    keys = {scope: make_key(url, scope) for scope in (Scope.READ, Scope.WRITE)}
    with served(state, "--no-worker") as address:
        yield address, keys


def signed_in(page: Page, address: str, key: str, path: str) -> None:
    page.goto(f"{address}/login?next={path}")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{address}{path}")


BUTTONS = {"seeded@1": ("Delete",), "going-on@1": ("Pause", "Cancel")}


@pytest.mark.parametrize("study", BUTTONS)
def test_a_study_is_shown_without_what_would_be_refused(
    study: str, page: Page, guarded: tuple[str, dict[Scope, str]]
) -> None:
    address, keys = guarded
    signed_in(page, address, keys[Scope.READ], f"/studies/{study}")
    expect(page.locator("h1")).to_contain_text(study)
    for name in (*BUTTONS[study], "New study"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)


@pytest.mark.parametrize("study", BUTTONS)
def test_a_writer_has_the_buttons(
    study: str, page: Page, guarded: tuple[str, dict[Scope, str]]
) -> None:
    address, keys = guarded
    signed_in(page, address, keys[Scope.WRITE], f"/studies/{study}")
    for name in BUTTONS[study]:
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="New study", exact=True)).to_be_visible()
    page.get_by_role("button", name=BUTTONS[study][-1], exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{BUTTONS[study][-1]} {study}?")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("h1")).to_contain_text(study)


def test_who_is_signed_out_meanwhile_is_asked_to_sign_in(
    page: Page, guarded: tuple[str, dict[Scope, str]]
) -> None:
    """An event stream does not say why it ends; the page finds out instead of trying for ever."""
    address, keys = guarded
    page.route("**/events?*", lambda route: route.abort())
    signed_in(page, address, keys[Scope.READ], "/studies/seeded@1")
    expect(page.locator("#connection")).to_be_visible()
    page.context.clear_cookies()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert page.url.endswith("next=%2Fstudies%2Fseeded%401")


def test_a_reader_may_ask_for_other_wishes(
    page: Page, guarded: tuple[str, dict[Scope, str]]
) -> None:
    address, keys = guarded
    signed_in(page, address, keys[Scope.READ], "/studies/seeded@1")
    page.get_by_role("slider", name="TTFT").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("region", name="Best trials under these weights")).to_be_visible()


def test_the_form_says_what_key_it_takes(
    page: Page, guarded: tuple[str, dict[Scope, str]], complaints: list[str]
) -> None:
    address, keys = guarded
    signed_in(page, address, keys[Scope.READ], "/studies/new")
    expect(page.get_by_role("heading", name="Your key may only read")).to_be_visible()
    page.get_by_role("link", name="Sign in with another key").click()
    page.get_by_label("API key").fill(keys[Scope.WRITE])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Start the study")).to_be_visible()
    assert [c for c in complaints if "401" not in c] == []


def test_the_list_of_studies_is_one_request(
    page: Page, guarded: tuple[str, dict[Scope, str]]
) -> None:
    address, keys = guarded
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    signed_in(page, address, keys[Scope.READ], "/")
    expect(page.get_by_role("link", name="going-on@1")).to_be_visible()
    expect(page.get_by_role("row", name="seeded@1")).to_contain_text("better")
    expect(page.get_by_role("row", name="seeded@1")).to_contain_text("confirmed")
    assert [url for url in asked if "/api/v1/studies/" in url] == []
