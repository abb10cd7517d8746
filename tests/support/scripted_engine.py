"""A stand-in engine whose manners are chosen on its command line; used as `python THIS --…`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STARTED = "scripted engine started"
BORN_UNIX_S = time.time()


class Handler(BaseHTTPRequestHandler):
    model = "tiny"
    health_status = 200
    completion_status = 200

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(self.health_status, {})
        elif self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": [{"id": self.model}]})
        elif self.path == "/metrics":
            labels = 'block_size="16",num_gpu_blocks="64",kv_cache_size_tokens="1024"'
            started = f"process_start_time_seconds {BORN_UNIX_S}\n"
            self._answer_text(f"{started}vllm:cache_config_info{{{labels}}} 1.0\n")
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(self.completion_status, {"choices": [{"text": "a"}]})

    def _answer(self, status: int, document: object) -> None:
        self._answer_text(json.dumps(document), status)

    def _answer_text(self, text: str, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the log holds only what a test looks for."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--lose-terms", type=int, default=0)
    parser.add_argument("--exit-code", type=int)
    parser.add_argument("--grandchild-file")
    parser.add_argument("--shared-memory", action="store_true")
    parser.add_argument("--log-line", action="append", default=[])
    parser.add_argument("--never-listen", action="store_true")
    parser.add_argument("--health-status", type=int, default=200)
    parser.add_argument("--completion-status", type=int, default=200)
    parser.add_argument("--chatter-mib", type=int, default=0)
    parser.add_argument("--print-environment", action="store_true")
    parser.add_argument("--print-file")
    parser.add_argument("--take-mib", type=int, default=0)
    return parser.parse_args()


def obey(options: argparse.Namespace) -> None:
    terms = 0

    def on_term(_number: int, _frame: object) -> None:
        nonlocal terms
        terms += 1
        if terms > options.lose_terms:
            say("orderly end")
            os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.ignore_term else on_term)


def leave_grandchild(path: str) -> None:
    """A daemon in a session of its own that ignores SIGTERM; its pid goes to `path`.

    It holds a lock on the file, by which its life shows in other namespaces of pids too.
    """
    code = (
        "import fcntl, os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "marker = open(sys.argv[1] + '.new', 'w')\n"
        "fcntl.flock(marker, fcntl.LOCK_EX)\n"
        "marker.write(str(os.getpid()))\n"
        "marker.flush()\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)\n"
    )
    subprocess.run([sys.executable, "-S", "-c", code, path], check=True)


def hold_shared_memory() -> object:
    """A segment that only this process, or the tracker it starts, would ever remove."""
    from multiprocessing.shared_memory import SharedMemory

    segment = SharedMemory(create=True, size=4096)
    say(f"shared memory: {segment.name}")
    return segment


def main() -> int:
    options = parse()
    obey(options)
    held = hold_shared_memory() if options.shared_memory else None
    for number in range(options.chatter_mib * 1024):
        sys.stdout.write(f"chatter {number} ".ljust(1023, ".") + "\n")
    if options.print_environment:
        say(f"environment: {json.dumps(dict(os.environ))}")
    if options.print_file:
        with open(options.print_file) as shown:  # noqa: PTH123 - pathlib would slow the start
            say(f"{options.print_file}: {shown.read()}")
    taken = bytearray(options.take_mib << 20)
    taken[::4096] = b"x" * len(taken[::4096])
    if options.grandchild_file:
        leave_grandchild(options.grandchild_file)
    for line in options.log_line:
        say(line)
    say(STARTED)
    if options.exit_code is not None:
        return int(options.exit_code)
    if options.never_listen:
        while True:
            time.sleep(60)
    Handler.model = options.model
    Handler.health_status = options.health_status
    Handler.completion_status = options.completion_status
    ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()
    return 0 if held is None else 1


if __name__ == "__main__":
    sys.exit(main())
