"""`restarting_engine.py SECONDS PORT COMMAND…`: a supervisor that starts a served engine anew once.

The process that was launched lives on, so only the engine's own counters tell.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

POLL_S = 0.05


def main() -> int:
    seconds, port, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    engine = subprocess.Popen(command)
    try:
        while not answers(port):
            time.sleep(POLL_S)
        time.sleep(seconds)
        engine.kill()
        engine.wait()
        engine = subprocess.Popen(command)
        return engine.wait()
    finally:
        engine.terminate()
        engine.wait()


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
