"""The dashboard's pages: shells without data, whose scripts ask the JSON API for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.dashboard.assets import Assets
from api.problem import ApiError

FOREVER = "public, max-age=31536000, immutable"
Reference = Annotated[str, PathParameter(max_length=120)]
TrialNumber = Annotated[int, PathParameter(ge=0, le=2**31 - 1)]


def dashboard_router(assets: Assets, version: str) -> APIRouter:
    """Pages and static files; none of it is part of the API's contract."""
    router = APIRouter(include_in_schema=False)
    shell = _Shell(assets, version)
    _pages(router, shell)

    @router.get("/static/{path:path}")
    def static(path: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
        found = assets.find(f"/static/{path}")
        if found is None:
            raise ApiError(404, "there is no such file")
        body, headers = found.encoded(accept_encoding)
        headers["Cache-Control"] = FOREVER
        return Response(body, media_type=found.content_type, headers=headers)

    return router


def _pages(router: APIRouter, shell: _Shell) -> None:
    @router.get("/")
    def studies() -> HTMLResponse:
        return shell.page("studies", "Studies")

    @router.get("/login")
    def login() -> HTMLResponse:
        return shell.page("login", "Sign in")

    @router.get("/studies/new")
    def new_study() -> HTMLResponse:
        return shell.page("new_study", "New study")

    @router.get("/studies/{study}")
    def study(study: Reference) -> HTMLResponse:
        return shell.page("study", study, study=study)

    @router.get("/studies/{study}/trials/{number}")
    def trial(study: Reference, number: TrialNumber) -> HTMLResponse:
        return shell.page("trial", f"Trial {number} · {study}", study=study, trial=number)

    @router.get("/studies/{study}/compare")
    def compare(study: Reference) -> HTMLResponse:
        return shell.page("compare", f"Compare · {study}", study=study)

    @router.get("/studies/{study}/export")
    def export(study: Reference) -> HTMLResponse:
        return shell.page("export", f"Export · {study}", study=study)


class _Shell:
    """Fills the one template; everything from the address is escaped."""

    def __init__(self, assets: Assets, version: str) -> None:
        templates = FileSystemLoader(Path(__file__).parent / "templates")
        environment = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
        self._template = environment.get_template("page.html")
        self._assets = assets
        self._version = version

    def page(
        self, page: str, title: str, *, study: str | None = None, trial: int | None = None
    ) -> HTMLResponse:
        html = self._template.render(
            page=page,
            title=title,
            study=study,
            trial=trial,
            static=self._assets.root,
            plotly=self._assets.plotly,
            plotly_sheet=self._assets.plotly_sheet,
            version=self._version,
        )
        return HTMLResponse(html, headers={"Cache-Control": "no-store"})
