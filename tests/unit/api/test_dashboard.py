from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

import api.dashboard
from api.dashboard.assets import Asset, Assets, installed_assets
from tests.support.api_client import api_settings, client_of

STATIC = Path(api.dashboard.__file__).parent / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
PAGES = (
    "/",
    "/login",
    "/studies/new",
    "/studies/chat@1",
    "/studies/chat@1/trials/0",
    "/studies/chat@1/compare?trials=0,1",
    "/studies/chat@1/export",
)


class Elements(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    directory = tmp_path_factory.mktemp("dashboard")
    with client_of(api_settings(f"sqlite:///{directory / 'none.db'}", directory)) as found:
        yield found


def elements(client: TestClient, page: str) -> list[tuple[str, dict[str, str | None]]]:
    answer = client.get(page)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Elements(answer.text).found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_language_a_title_a_main_part_and_a_way_past_the_header(
    client: TestClient, page: str
) -> None:
    found = elements(client, page)
    attributes = {tag: values for tag, values in reversed(found)}
    assert attributes["html"]["lang"] == "en"
    assert "title" in attributes
    assert attributes["main"]["id"] == "main"
    assert any(values.get("href") == "#main" for tag, values in found if tag == "a")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_holds_nothing_that_the_content_security_policy_forbids(
    client: TestClient, page: str
) -> None:
    for tag, values in elements(client, page):
        assert tag != "style"
        assert not [name for name in values if name.startswith("on")]
        if tag == "script":
            assert (values.get("src") or "").startswith("/static/")
        for name in ("src", "href"):
            assert not re.match(r"(https?:)?//", values.get(name) or "")


@pytest.mark.parametrize("page", PAGES)
def test_everything_a_page_loads_is_there_and_may_be_kept_for_good(
    client: TestClient, page: str
) -> None:
    loaded = [
        values[name]
        for tag, values in elements(client, page)
        if tag in ("script", "link")
        for name in ("src", "href")
        if values.get(name)
    ]
    assert len(loaded) >= 5
    for address in loaded:
        answer = client.get(str(address))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "name",
    ['"><script>alert(1)', "' onload='x", "&lt;b&gt;", "{{ 7 * 7 }}", "a\u2028b"],
)
def test_a_hostile_study_name_stays_text(client: TestClient, name: str) -> None:
    from urllib.parse import quote

    found = elements(client, f"/studies/{quote(name, safe='')}/export")
    body = next(values for tag, values in found if tag == "body")
    assert body["data-study"] == name
    assert sum(tag == "script" for tag, _ in found) == 2
    assert not [v for _, values in found for v in values if v.startswith("on")]


@pytest.mark.parametrize(
    "path",
    [
        "/static/nothing.js",
        "/static/../app.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/000000000000/style.css",
    ],
)
def test_only_the_dashboards_own_files_are_served(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_plotly_comes_packed_and_under_the_digest_of_its_content(client: TestClient) -> None:
    body = next(values for tag, values in elements(client, "/") if tag == "body")
    packed = client.get(str(body["data-plotly"]), headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    plain = client.get(str(body["data-plotly"]), headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == packed.content
    assert len(plain.content) > 1_000_000


def test_the_pages_are_no_part_of_the_api(client: TestClient) -> None:
    from api.app import create_app
    from api.settings import ApiSettings
    from tuner.store.url import DatabaseUrl

    settings = ApiSettings(DatabaseUrl.parse("sqlite:////none/none.db"), Path("/none"))
    paths = create_app(settings).openapi()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith(("/static", "/studies"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_import_of_a_script_names_a_file_and_something_it_exports(script: Path) -> None:
    for names, target in re.findall(
        r'^import (?:\{([^}]*)\} from )?"([^"]+)";', script.read_text(), re.MULTILINE
    ):
        imported = (script.parent / target).resolve()
        assert imported.is_relative_to(STATIC)
        exported = set(
            re.findall(
                r"^export (?:async )?(?:function|const|class|let) (\w+)",
                imported.read_text(),
                re.MULTILINE,
            )
        )
        assert {name.strip() for name in names.split(",") if name.strip()} <= exported


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_script_makes_markup_or_code_out_of_text(script: Path) -> None:
    text = script.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert re.search(forbidden, text) is None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_chart_needs_what_the_policy_forbids(script: Path) -> None:
    assert re.search(r"scattergl|parcoords|heatmapgl|splom", script.read_text()) is None


def directory_of(files: dict[str, str], root: Path) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_any_change_of_a_file_changes_every_address(tmp_path: Path) -> None:
    before = Assets(directory_of({"a.js": "1", "b/c.css": "2"}, tmp_path), b"plotly")
    after = Assets(directory_of({"b/c.css": "3"}, tmp_path), b"plotly")
    assert before.root != after.root
    assert before.plotly == after.plotly
    assert before.find(f"{after.root}/a.js") is None


def test_moving_bytes_between_files_changes_the_address(tmp_path: Path) -> None:
    one = Assets(directory_of({"a.js": "12", "b.js": "3"}, tmp_path), b"")
    other = Assets(directory_of({"a.js": "1", "b.js": "23"}, tmp_path), b"")
    assert one.root != other.root


def test_files_of_other_kinds_are_not_served(tmp_path: Path) -> None:
    assets = Assets(directory_of({"a.js": "1", "notes.py": "secret"}, tmp_path), b"")
    assert assets.find(f"{assets.root}/a.js") is not None
    assert assets.find(f"{assets.root}/notes.py") is None


@given(st.binary(max_size=4000))
def test_what_is_packed_unpacks_to_the_same(content: bytes) -> None:
    asset = Asset(content, "text/css")
    body, headers = asset.encoded("br, gzip")
    unpacked = gzip.decompress(body) if "Content-Encoding" in headers else body
    assert unpacked == content


def test_the_installed_plotly_names_the_sheet_it_would_make(tmp_path: Path) -> None:
    sheet = installed_assets().plotly_sheet
    assert sheet is None or re.fullmatch(r"[0-9a-f]{64}", sheet)
    without = Assets(directory_of({"a.js": "1"}, tmp_path), b"no map in here")
    assert without.plotly_sheet is None
