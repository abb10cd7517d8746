"""Takes the pictures of docs/pictures from a seeded study in Chromium. Its numbers are made up.

Each is a PNG below 250 KB, and shows the banner that says simulated.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.e2e.dashboard.conftest import CHROMIUM, QUIET
from tests.support.ledger import SteppingClock
from tests.support.seeded_study import seed_study
from tests.support.served import served
from tuner.store import schema
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
LARGEST_BYTES = 250_000
TRIALS = 40
HEIGHT = 1340
PICTURES = (
    ("studies-light", "/", "light", 0, 620),
    ("study-light", "/studies/chat-8b-l4@1", "light", 3, HEIGHT),
    ("study-dark", "/studies/chat-8b-l4@1", "dark", 3, HEIGHT),
    ("trial-light", "/studies/chat-8b-l4@1/trials/1", "light", 3, HEIGHT),
    ("export-light", "/studies/chat-8b-l4@1/export", "light", 0, 900),
    ("new-study-light", "/studies/new", "light", 0, HEIGHT),
)
"""Name, address, theme, charts to wait for, height."""


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        state = Path(directory)
        url = f"sqlite:///{state / 'servetune.db'}"
        schema.upgrade(url)
        with open_database(url) as database:
            store = Store(database, SteppingClock())
            seed_study(store, state / "artifacts", name="mixed-8b-l4", trials=12, finished=False)
            seed_study(store, state / "artifacts", name="chat-8b-l4", trials=TRIALS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        with served(state, "--no-worker", "--no-auth") as address:
            sizes = [take(browser, address, *picture) for picture in PICTURES]
        browser.close()
    return 0 if all(size < LARGEST_BYTES for size in sizes) else 1


def take(
    browser: Browser, address: str, name: str, path: str, theme: str, charts: int, height: int
) -> int:
    """Save one picture; its size in bytes."""
    context = browser.new_context(viewport={"width": 1280, "height": height})
    page = context.new_page()
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto(f"{address}{path}")
    page.wait_for_selector("h1")
    if charts:
        page.locator(".main-svg").nth(charts - 1).wait_for(state="attached")
    else:
        page.wait_for_load_state("networkidle")
    file = FOLDER / f"{name}.png"
    page.screenshot(path=file)
    context.close()
    print(f"{file.name}: {file.stat().st_size:,} bytes")
    return file.stat().st_size


if __name__ == "__main__":
    raise SystemExit(main())
