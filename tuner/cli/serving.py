"""The service's process: HTTP front end here, the worker in a supervised process beside it."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import uvicorn

from api.app import create_app
from api.event_feed import EventFeed
from api.settings import ApiSettings, require_safe_bind
from tuner.cli.embedded_worker import EmbeddedWorker, worker_command, worker_environment
from tuner.cli.keys import ensure_first_key
from tuner.cli.output import notice
from tuner.domain.clock import SystemClock
from tuner.domain.operator_config import OperatorSpec, load_operator
from tuner.errors import InvalidInputError, StartupError
from tuner.logs import configure_logs
from tuner.settings import Settings
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.worker.locations import Locations, prepare, resolve_locations

GRACE_S = 10
"""For requests under way when the service is asked to stop."""

CONNECTIONS = 2000


def run_service(settings: Settings, *, worker: bool, authentication: bool) -> int:
    """Serve until asked to stop; the exit code. Raises StartupError, InvalidInputError."""
    configure_logs(settings.log_level, settings.log_format)
    require_safe_bind(settings.host, authentication=authentication)
    locations = resolve_locations(settings)
    operator = read_operator(settings.operator_config)
    prepare(locations)
    if authentication:
        with open_database(locations.database) as database:
            ensure_first_key(Store(database, SystemClock()), locations)
    api_settings = ApiSettings(
        database=locations.database,
        artifacts=locations.artifacts,
        operator=operator,
        authentication=authentication,
        allowed_hosts=tuple(settings.allowed_hosts),
        needs_worker=worker,
    )
    with ExitStack() as stack:
        listener = stack.enter_context(bound(settings.host, settings.port))
        notice(f"listening on {address_of(listener)}")
        if not authentication:
            notice("anybody on this machine may do everything: --no-auth")
        beside = stack.enter_context(_worker(locations)) if worker else None
        return serve_on(listener, api_settings, settings, beside)


def serve_on(
    listener: socket.socket,
    api_settings: ApiSettings,
    settings: Settings,
    beside: EmbeddedWorker | None,
) -> int:
    """Serve on a bound socket until asked to stop."""
    app = create_app(api_settings)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=settings.log_level,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, app.state.services.feed, beside)
    # The modules loaded by now stay: no collection need look through them while callers wait.
    gc.freeze()
    server.run(sockets=[listener])
    return 0 if server.started else StartupError.exit_code


class _Server(uvicorn.Server):
    """Ends the endless answers first, so that asking to stop is enough to stop."""

    def __init__(
        self, config: uvicorn.Config, feed: EventFeed, beside: EmbeddedWorker | None
    ) -> None:
        super().__init__(config)
        self._feed = feed
        self._beside = beside

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second signal does not wait for requests under way."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """The worker begins to drain while the last requests are answered."""
        if self._beside is not None:
            self._beside.ask_to_stop()
        self._feed.close()
        await asyncio.sleep(0)
        await super().shutdown(sockets)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; StartupError when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StartupError(
            f"cannot listen there: {reason}",
            where=f"{host}:{port}",
            hint="name another address with --host and --port",
        ) from error


def address_of(listener: socket.socket) -> str:
    """The URL under which the service answers."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def read_operator(path: Path | None) -> OperatorSpec:
    """The operator's configuration; without a file the embedded engine is all there is."""
    if path is None:
        return OperatorSpec()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", where=str(path)) from error
    return load_operator(text, where=str(path))


def _worker(locations: Locations) -> EmbeddedWorker:
    return EmbeddedWorker(worker_command(locations), worker_environment(locations))
