"""A time limit for a whole answer: a socket's own timeout begins anew with each of its pieces."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def time_limit(connected: socket.socket, within_s: float) -> Iterator[None]:
    """Shut the connection down unless the block ends in time; then raises TimeoutError.

    Headers and bodies that drip without end would otherwise never time out.
    """
    late = threading.Event()

    def shut_down() -> None:
        late.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(within_s, shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if late.is_set():
            raise TimeoutError(f"the answer was not whole after {within_s:g} s")
