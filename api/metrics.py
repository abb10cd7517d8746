"""What the HTTP front end tells Prometheus: one registry per application."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.event_feed import EventFeed
from tuner.store.unit_of_work import Store
from tuner.study.fleet_metrics import FleetCollector

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"
"""Of a request that was refused before it reached a route, or asked for a path that is none."""


class ApiMetrics:
    """The metrics of one application. No label is a caller's text: their number is bounded."""

    def __init__(self, store: Store, feed: EventFeed, prefix: str) -> None:
        """`prefix` is what the resources' routes are included under."""
        self._prefix = prefix
        self.registry = CollectorRegistry()
        self.registry.register(FleetCollector(store))
        ProcessCollector(registry=self.registry)
        Info("servetune_build", "What is running.", registry=self.registry).info(
            {"version": version("servetune"), "python": platform.python_version()}
        )
        Gauge(
            "servetune_sse_streams", "Event streams that are open.", registry=self.registry
        ).set_function(lambda: feed.streams)
        self._latency = Histogram(
            "servetune_http_request_seconds",
            "Seconds until an answer began, by method, route and class of status.",
            ["method", "route", "status"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )

    def answered(self, scope: Scope, status: int, seconds: float) -> None:
        """A request's answer began: streams go on for long, which is no latency."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._latency.labels(method, self._route(scope), f"{status // 100}xx").observe(seconds)

    def _route(self, scope: Scope) -> str:
        """The template of the matched route; some versions of FastAPI leave out its prefix."""
        template: str = getattr(scope.get("route"), "path", NO_ROUTE)
        if template == NO_ROUTE or template.startswith(f"{self._prefix}/"):
            return template
        below = scope["path"].startswith(f"{self._prefix}/")
        return f"{self._prefix}{template}" if below else template


class RequestTimes:
    """Middleware around everything else, so that refusals are counted, too."""

    def __init__(
        self, app: ASGIApp, metrics: ApiMetrics, now: Callable[[], float] = perf_counter
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._now()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answered(scope, message["status"], self._now() - started)
            await send(message)

        await self._app(scope, receive, timed)
