"""Every page of the dashboard in a real browser, against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.e2e.dashboard.conftest import HOSTILE, WAIT_MS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PAGES = {
    "studies": "/",
    "new-study": "/studies/new",
    "study": "/studies/seeded@1",
    "trial": "/studies/seeded@1/trials/1",
    "infeasible-trial": "/studies/seeded@1/trials/7",
    "compare": "/studies/seeded@1/compare?trials=0,1,2",
    "export": "/studies/seeded@1/export",
    "keep-the-baseline": "/studies/kept@1/export",
    "sign-in": "/login",
}
HEADINGS = {
    "studies": "Studies",
    "new-study": "New study",
    "study": "seeded@1",
    "trial": "Trial 1",
    "infeasible-trial": "Trial 7",
    "compare": "Trials side by side",
    "export": "Launch command",
    "keep-the-baseline": "Launch command",
    "sign-in": "Sign in",
}
SIMULATED = {"study", "trial", "infeasible-trial", "compare", "export", "keep-the-baseline"}


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("h1")
    page.wait_for_load_state("networkidle") if "/studies/" not in address else None


def drawn(page: Page, charts: int) -> None:
    """Wait until so many charts hold a drawing."""
    page.locator(".main-svg").nth(charts - 1).wait_for(state="attached")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_without_complaints_and_is_accessible(
    name: str,
    theme: str,
    page: Page,
    seeded: str,
    complaints: list[str],
    picture: Callable[[str], None],
) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_page(page, f"{seeded}{PAGES[name]}")
    expect(page.locator("h1")).to_contain_text(HEADINGS[name])
    expect(page.locator("#simulated")).to_be_visible(visible=name in SIMULATED)
    if name in ("study", "trial"):
        drawn(page, 3)
    if name == "infeasible-trial":
        expect(page.locator("pre.log mark")).to_contain_text("out of memory")
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    serious = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, json.dumps(
        [(v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in serious], indent=1
    )
    assert complaints == []
    picture(f"{name}-{theme}")


@pytest.mark.parametrize("name", PAGES)
def test_no_page_scrolls_sideways_on_a_phone(name: str, browser: Browser, seeded: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    open_page(page, f"{seeded}{PAGES[name]}")
    if name == "study":
        drawn(page, 3)
    width = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert width <= 390


@pytest.mark.parametrize("path", ["", "/trials/1", "/trials/7", "/export"])
def test_hostile_text_is_shown_as_text(
    path: str, page: Page, seeded: str, complaints: list[str]
) -> None:
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    open_page(page, f"{seeded}/studies/hostile@1{path}")
    if path == "":
        page.locator("summary", has_text="notice").click()
        expect(page.locator(".notice", has_text="onerror")).to_contain_text(HOSTILE)
    if path == "/trials/1":
        expect(page.locator("pre.log")).to_contain_text(HOSTILE)
    assert page.title() != "owned"
    assert page.locator("main img").count() == 0
    assert complaints == []


def test_the_front_shows_trials_and_opens_one(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    drawn(page, 3)
    page.get_by_text("The same as a table").click()
    rows = page.locator("details table tbody tr", has_text="on the front")
    assert rows.count() >= 1
    expect(
        page.locator("details table tbody tr", has_text="out of memory while profiling")
    ).to_have_count(1)
    page.get_by_role("link", name="3", exact=True).click()
    expect(page.locator("h1")).to_contain_text("Trial 3")


def test_moving_a_weight_ranks_the_stored_trials_anew(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    ranking = page.get_by_role("region", name="Best trials under these weights")
    page.get_by_role("slider", name="TTFT").focus()
    page.keyboard.press("End")
    expect(ranking).to_be_visible()
    first = ranking.locator("tbody tr").first.inner_text()
    for name in ("TTFT", "TPOT"):
        page.get_by_role("slider", name=name).focus()
        page.keyboard.press("Home")
    page.get_by_role("slider", name="Throughput").focus()
    page.keyboard.press("End")
    expect(ranking.locator("tbody tr").first).not_to_have_text(first)
    page.get_by_role("button", name="As in the study").click()
    expect(ranking).to_have_count(0)


def dragged_line(page: Page) -> tuple[float, float]:
    """The middle of the chart's first SLO line."""
    line = page.locator(".shapelayer path").first
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def asked_limit(request: Request) -> float:
    """The TTFT limit that the stored trials were to be ranked under."""
    return float(json.loads(request.post_data or "{}")["slo"]["ttft_ms"])


def test_a_dragged_slo_line_counts_the_stored_requests_anew(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    drawn(page, 3)
    limit = page.get_by_label("SLO: TTFT (ms)", exact=True)
    before = float(limit.input_value())
    x, y = dragged_line(page)
    with page.expect_response("**/rescore") as answered:
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 40, y, steps=5)
        page.mouse.up()
    assert answered.value.ok
    moved = asked_limit(answered.value.request)
    assert moved > before
    assert float(limit.input_value()) == pytest.approx(moved, rel=1e-3)


def test_an_slo_limit_can_be_typed_and_taken_back(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    drawn(page, 3)
    limit = page.get_by_label("SLO: TTFT (ms)", exact=True)
    with page.expect_response("**/rescore") as answered:
        limit.fill("321")
        limit.press("Tab")
    assert asked_limit(answered.value.request) == 321
    expect(page.locator(".annotation-text", has_text="SLO 321 ms")).to_have_count(1)
    page.get_by_role("button", name="As in the study").click()
    expect(page.locator(".annotation-text", has_text="SLO 500 ms")).to_have_count(1)


def test_a_thousand_trials_are_drawn(page: Page, seeded: str) -> None:
    """A study of the same shape, enlarged on its way to the page."""

    def enlarge(route: Route) -> None:
        found: dict[str, Any] = route.fetch().json()
        base = found["points"]
        found["points"] = [{**base[i % len(base)], "trial": i} for i in range(1000)]
        route.fulfill(json=found)

    page.route("**/pareto?*", enlarge)
    open_page(page, f"{seeded}/studies/seeded@1")
    drawn(page, 3)
    page.locator(".scatterlayer .point").nth(500).wait_for(state="attached")


def test_the_list_is_sorted_and_trials_are_chosen_for_comparison(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    page.get_by_role("button", name="Sort by Score").click()
    page.get_by_role("checkbox", name="Choose trial 0").check()
    page.get_by_role("checkbox", name="Choose trial 2").check()
    page.get_by_role("button", name="Compare chosen trials").click()
    expect(page.locator("h1")).to_have_text("Trials side by side")
    expect(page.get_by_role("columnheader", name="Trial 2").first).to_be_visible()


def test_times_are_in_utc_or_local_as_the_reader_chooses(browser: Browser, seeded: str) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    open_page(page, f"{seeded}/")
    cell = page.locator("tbody tr").first.locator("td").last
    utc = cell.inner_text()
    assert utc.endswith("UTC")
    page.get_by_role("button", name="UTC").click()
    expect(page.get_by_role("button", name="Local time")).to_be_visible()
    expect(cell).not_to_have_text(utc)
    context.close()


def test_the_theme_is_remembered(page: Page, seeded: str) -> None:
    page.emulate_media(color_scheme="light")
    open_page(page, f"{seeded}/")
    page.get_by_role("button", name="Dark").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_export_changes_with_its_form_and_shows_what_differs_today(
    page: Page, seeded: str
) -> None:
    open_page(page, f"{seeded}/studies/seeded@1/export")
    command = page.locator("pre.command")
    expect(command).to_contain_text("vllm serve")
    page.get_by_role("tab", name="vllm serve").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Kubernetes")).to_be_focused()
    expect(command).to_contain_text("kind: Deployment")
    page.keyboard.press("Home")
    expect(command).to_contain_text("vllm serve")
    difference = page.get_by_role("region", name="Difference from today's command")
    removed = difference.locator(".diff-remove", has_text="--max-num-seqs").inner_text()
    added = difference.locator(".diff-add", has_text="--max-num-seqs").inner_text()
    assert (removed[0], added[0]) == ("-", "+")
    assert added.split()[-1] in command.inner_text()


def test_where_nothing_is_better_todays_command_is_kept(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/studies/kept@1/export")
    expect(page.get_by_role("heading", name="Keep the baseline", exact=True)).to_be_visible()
    expect(page.get_by_text("Nothing changes: this is today's configuration.")).to_be_visible()
    expect(page.locator("pre.command")).to_contain_text("vllm serve")


def test_a_trial_shows_how_its_requests_were_spread_and_gives_their_records(
    page: Page, seeded: str
) -> None:
    open_page(page, f"{seeded}/studies/seeded@1/trials/1")
    spread = page.get_by_role("region", name="How requests were spread")
    expect(spread.locator(".main-svg .legendtext", has_text="baseline")).to_have_count(2)
    expect(spread.locator(".annotation-text", has_text="SLO 500 ms")).to_have_count(1)
    lengths = page.get_by_role("region", name="Latency by prompt length, milliseconds")
    expect(lengths.locator("tbody tr")).to_have_count(2)
    page.get_by_text("Raw files").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="measurement/segment-0.npz").click()
    assert found.value.suggested_filename == "segment-0.npz"
    assert found.value.path().stat().st_size > 1000


def test_what_could_not_run_stands_where_it_was_tried_with_its_class(
    page: Page, seeded: str
) -> None:
    open_page(page, f"{seeded}/studies/seeded@1")
    drawn(page, 3)
    space = page.get_by_role("region", name="Configuration space")
    told = space.locator(".legendtext", has_text="OOM in profiling")
    expect(told).to_have_count(1)


def test_nothing_and_unknown_things_are_no_dead_ends(page: Page, seeded: str) -> None:
    open_page_without_title(page, f"{seeded}/studies/nobody@1")
    expect(page.get_by_role("alert")).to_contain_text("There is no such thing here")
    page.get_by_role("link", name="All studies").click()
    page.locator("#state-filter").select_option("paused")
    expect(page.get_by_text("No study is in this state")).to_be_visible()


def open_page_without_title(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("main h2")


def test_a_server_that_is_away_is_told_and_asked_again(page: Page, seeded: str) -> None:
    page.route("**/api/v1/**", lambda route: route.abort())
    page.goto(f"{seeded}/studies/seeded@1")
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    page.unroute("**/api/v1/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("h1")).to_contain_text("seeded@1")


def test_a_key_without_the_scope_is_told_what_to_do(page: Page, seeded: str) -> None:
    problem = {"title": "Forbidden", "status": 403, "detail": "the key may only read"}
    page.route(
        "**/api/v1/studies/seeded%401", lambda route: route.fulfill(status=403, json=problem)
    )
    page.goto(f"{seeded}/studies/seeded@1")
    expect(page.get_by_role("alert")).to_contain_text("Your key does not allow this")
    expect(page.get_by_role("link", name="Sign in with another key")).to_be_visible()


def test_a_lost_stream_is_told_and_no_event_comes_twice(page: Page, seeded: str) -> None:
    lost = {"times": 0}

    def drop_first(route: Route) -> None:
        lost["times"] += 1
        if lost["times"] == 1:
            route.abort()
        else:
            route.continue_()

    page.route("**/events?*", drop_first)
    page.goto(f"{seeded}/studies/seeded@1")
    expect(page.locator("#connection")).to_be_visible()
    expect(page.locator("#connection")).to_be_hidden()
    page.locator(".events li").nth(20).wait_for(state="attached")
    created = page.locator(".events li", has_text="The study was created.")
    expect(created).to_have_count(1)


def test_from_the_list_to_the_command_by_keyboard_alone(page: Page, seeded: str) -> None:
    open_page(page, f"{seeded}/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    tab_to(page, page.get_by_role("link", name="seeded@1"))
    page.keyboard.press("Enter")
    command = page.get_by_role("link", name="Take the launch command")
    tab_to(page, command)
    page.keyboard.press("Enter")
    expect(page.locator("pre.command")).to_contain_text("vllm serve")
    tab_to(page, page.get_by_role("button", name="Copy"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text=re.compile("Copied|Marked"))).to_be_visible()


def tab_to(page: Page, wanted: Locator, most: int = 40) -> None:
    """Press Tab until this has the focus."""
    wanted.wait_for()
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError("the keyboard does not get there")


def test_faults_stand_at_their_fields_and_the_forecast_waits_for_them(
    page: Page, seeded: str
) -> None:
    open_page(page, f"{seeded}/studies/new")
    expect(page.get_by_text("engine starts")).to_be_visible()
    trials = page.get_by_label("Trials")
    trials.fill("0")
    expect(trials).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("when the faults are gone")).to_be_visible()
    trials.fill("3")
    expect(trials).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_label("The study as YAML")).to_contain_text("trials: 3")
    most = page.get_by_label("max-num-seqs, to")
    suggested = most.input_value()
    page.get_by_label("Model", exact=True).select_option("meta-llama/Llama-3.2-1B-Instruct")
    expect(most).not_to_have_value(suggested)
    most.fill("48")
    page.get_by_label("Engine", exact=True).select_option("simulated:H100")
    expect(page.get_by_label("The study as YAML")).to_contain_text("high: 48")
    expect(page.get_by_label("The same as a curl command")).to_contain_text("/api/v1/studies")


def test_a_trace_is_described_before_it_is_used(page: Page, seeded: str, tmp_path: Any) -> None:
    open_page(page, f"{seeded}/studies/new")
    page.get_by_label("Requests", exact=True).select_option("upload")
    trace = tmp_path / "day.csv"
    rows = [f"2030-01-01 00:00:{i:02d}.5,{100 + i},{20 + i}" for i in range(60)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    page.get_by_label("Trace of requests").set_input_files(trace)
    expect(page.get_by_text("60 requests over 59 s")).to_be_visible()
    for chart in ("Histogram of prompt and output lengths", "Requests over time"):
        expect(page.get_by_label(chart).locator(".main-svg").first).to_be_attached()
    expect(page.get_by_label("The study as YAML")).to_contain_text("upload:")
    chats = tmp_path / "chats.jsonl"
    turn = '{"prompt_tokens": 90, "output_tokens": 10, "session": 1}\n'
    chats.write_text(turn * 2)
    page.get_by_label("Trace of requests").set_input_files(chats)
    expect(page.get_by_text("2 requests, lengths only.")).to_be_visible()
    expect(page.get_by_text("1, of 2 turns on average")).to_be_visible()
    expect(page.get_by_label("Histogram of prompt and output lengths")).to_be_visible()
    expect(page.get_by_label("Requests over time")).to_have_count(0)
    other = tmp_path / "other.csv"
    other.write_text("nonsense\n")
    page.get_by_label("Trace of requests").set_input_files(other)
    expect(page.get_by_role("alert")).to_contain_text("The trace cannot be used")
