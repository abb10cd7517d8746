"""How soon the page of a large study is readable, and how soon its charts are drawn.

python -m benchmarks.dashboard_paint      # writes benchmarks/results/dashboard_paint.json

A real `servetune serve` with a study of 1,000 trials, Debian's Chromium, both on this machine. Each
navigation is a fresh browser profile, so that nothing is cached, Plotly's script included. Wants a
quiet machine with Chromium (scripts/setup-chromium).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from tests.e2e.dashboard.conftest import CHROMIUM, QUIET
from tests.support.api_client import store_at
from tests.support.seeded_study import seed_study
from tests.support.served import served
from tuner.store import schema

RESULTS = Path(__file__).with_name("results") / "dashboard_paint.json"
TRIALS = 1000
WANTED_MS = 1000.0
LONGEST_MS = 60_000

WATCH = """
window.readableAt = null;
window.frontDrawnAt = null;
const front = () => document.querySelectorAll('.chart-tall .scatterlayer .point').length > 500;
const drawn = () => requestAnimationFrame(() => { window.frontDrawnAt ??= performance.now(); });
document.addEventListener('load', (event) => {
  if (event.target.src?.includes('/plotly-')) window.plotlyReadyAt = performance.now();
}, true);
new MutationObserver(() => {
  if (document.querySelector('main h1')) window.readableAt ??= performance.now();
  if (window.frontDrawnAt === null && front()) drawn();
}).observe(document, { childList: true, subtree: true });
"""
NEXT_FRAMES = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
READ = """
() => {
  const resources = performance.getEntriesByType('resource');
  const end = (part) => resources.find((entry) => entry.name.includes(part)).responseEnd;
  return {
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    readable: window.readableAt, data: end('/pareto'), plotly: window.plotlyReadyAt,
    drawn: window.frontDrawnAt,
  };
}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.dashboard_paint", description=__doc__)
    parser.add_argument("--visits", type=int, default=5)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    report = judged(visits(given.visits, given.trials), given.trials)
    print(json.dumps(report, indent=1))
    given.output.parent.mkdir(exist_ok=True)
    given.output.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if report["holds"] else 1


def visits(count: int, trials: int) -> list[dict[str, float]]:
    """Milliseconds since each navigation; the first visit, which warms the server, is left out."""
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        state = Path(directory)
        url = f"sqlite:///{state / 'servetune.db'}"
        schema.upgrade(url)
        with store_at(url) as store:
            seed_study(store, state / "artifacts", trials=trials, files_of=0)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        with served(state, "--no-worker", "--no-auth") as address:
            found = [visit(browser, f"{address}/studies/seeded@1") for _ in range(count + 1)]
        browser.close()
    return found[1:]


def visit(browser: Browser, address: str) -> dict[str, float]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(LONGEST_MS)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.locator(".chart-tall .scatterlayer .point").nth(500).wait_for(state="attached")
    page.evaluate(NEXT_FRAMES)
    found: dict[str, float] = page.evaluate(READ)
    context.close()
    return found


def judged(found: Sequence[dict[str, float]], trials: int) -> dict[str, object]:
    """The worst visit counts. A chart is drawn from when its data are there and Plotly has run."""
    paint, readable = [one["paint"] for one in found], [one["readable"] for one in found]
    draw = [one["drawn"] - max(one["data"], one["plotly"]) for one in found]
    whole = [one["drawn"] for one in found]
    return {
        "trials": trials,
        "visits": len(found),
        "cores": os.cpu_count(),
        "first_contentful_paint_ms": _spread(paint),
        "heading_and_figures_ms": _spread(readable),
        "plotly_has_run_ms": _spread([one["plotly"] for one in found]),
        "front_drawn_after_its_data_ms": _spread(draw),
        "front_drawn_after_navigation_ms": _spread(whole),
        "wanted_ms": WANTED_MS,
        "holds": max(readable) < WANTED_MS and max(draw) < WANTED_MS,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 1), "worst": round(max(values), 1)}


if __name__ == "__main__":
    raise SystemExit(main())
