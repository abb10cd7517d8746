"""Reading sockets together with the moment at which the kernel received what is read.

A stamp of the kernel does not depend on when this process gets to read: with hundreds of streams,
a busy processor or a pause of the interpreter that is milliseconds later.
"""

from __future__ import annotations

import socket
import struct
import time

from tuner.loadgen.realtime_clock import RealtimeClock
from tuner.loadgen.transport import KERNEL_CLOCK, USER_SPACE_CLOCK

SO_TIMESTAMPNS = 35
"""Of Linux; the kind of message with the stamp has the same number. Python does not name it."""

BUFFER_BYTES = 2**18
_TIMESPEC = struct.Struct("@qq")
_CONTROL_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0


class StampedReader:
    """Reads any number of sockets, one after the other, into one buffer."""

    def __init__(self, clock: RealtimeClock) -> None:
        self._clock = clock
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._space = [self._view]
        self._unstamped = 0
        self.reads = 0

    @staticmethod
    def adopt(sock: socket.socket) -> None:
        """Have the kernel stamp what this socket receives, if it can."""
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return  # reads will come unstamped

    @property
    def clock(self) -> str:
        """`kernel` as long as every read came with its stamp."""
        return USER_SPACE_CLOCK if self._unstamped else KERNEL_CLOCK

    def read(self, sock: socket.socket) -> tuple[float, memoryview]:
        """When the last of these bytes arrived, and the bytes: valid until the next read.

        No bytes at the end of the stream. Raises OSError, BlockingIOError when nothing is there.
        """
        size, control, _, _ = sock.recvmsg_into(self._space, _CONTROL_BYTES)
        self.reads += 1
        if control:
            seconds, nanoseconds = _TIMESPEC.unpack(control[0][2])
            stamp_s = self._clock.monotonic_s(seconds * 1_000_000_000 + nanoseconds)
        else:
            stamp_s = time.monotonic()
            self._unstamped += size > 0
        return stamp_s, self._view[:size]
