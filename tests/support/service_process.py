"""`servetune serve` in a process of its own, and a caller of it."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.command import COMMAND, environment


@dataclass
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    key: str
    state_dir: Path

    def request(
        self, method: str, path: str, body: object = None, more: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of an answer; raises HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        headers.update(more or {})
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def events(
        self, study: int, last: str | None = None
    ) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """Identifier and data of each event of the stream."""
        headers = {"Authorization": f"Bearer {self.key}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=90)
        try:
            connection.request("GET", f"/api/v1/studies/{study}/events", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield from _messages(answer)
        finally:
            connection.close()


def _messages(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    data = ""
    with answer:
        for raw in iter(answer.readline, b""):
            line = raw.decode().rstrip("\n")
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
            elif line.startswith("id: "):
                yield line.removeprefix("id: "), json.loads(data)


@contextmanager
def service(state_dir: Path, *options: str, database_url: str | None = None) -> Iterator[Service]:
    extra = {} if database_url is None else {"SERVETUNE_DATABASE_URL": database_url}
    process = subprocess.Popen(
        [str(COMMAND), "serve", "--no-worker", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(state_dir, **extra),
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    said: list[str] = []
    rest = threading.Thread(target=lambda: said.extend(lines), daemon=True)
    try:
        url = next(line.split()[-1] for line in lines if line.startswith("listening on"))
        rest.start()
        file = state_dir / "first-admin-key"
        key = file.read_text().strip() if file.exists() else ""
        yield Service(process, url, key, state_dir)
    finally:
        process.kill()
        process.wait()
        if rest.is_alive():
            rest.join()
        process.stderr.close()
