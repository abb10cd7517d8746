from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from tuner.loadgen.realtime_clock import RealtimeClock
from tuner.loadgen.stamped_reader import BUFFER_BYTES, StampedReader

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not stamp")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    with sender, receiver:
        receiver.settimeout(60)
        yield sender, receiver


@pytest.fixture
def reader() -> StampedReader:
    return StampedReader(RealtimeClock())


Pair = tuple[socket.socket, socket.socket]


@ON_LINUX
def test_what_was_read_late_is_stamped_when_it_arrived(pair: Pair, reader: StampedReader) -> None:
    sender, receiver = pair
    reader.adopt(receiver)
    late_s = []
    for _ in range(20):
        before_s = time.monotonic()
        sender.sendall(b"token")
        arrived_s = time.monotonic()
        time.sleep(0.05)
        stamp_s, data = reader.read(receiver)
        assert bytes(data) == b"token"
        # Reading the two clocks one after the other costs some microseconds of exactness.
        assert before_s - 1e-3 <= stamp_s
        late_s.append(stamp_s - arrived_s)
        # The kernel begins to stamp packets a little after the first socket asked for it; until
        # then it gives the time of reading.
        if late_s[-1] <= 0.025:
            break
    assert min(late_s) <= 0.025
    assert reader.clock == "kernel"


def test_without_stamps_the_time_of_reading_counts_and_is_owned_up_to(
    pair: Pair, reader: StampedReader
) -> None:
    sender, receiver = pair
    sender.sendall(b"token")
    before_s = time.monotonic()
    stamp_s, data = reader.read(receiver)
    assert bytes(data) == b"token"
    assert before_s <= stamp_s <= time.monotonic()
    assert reader.clock == "user space"


@ON_LINUX
def test_the_end_of_a_stream_carries_no_stamp_and_changes_nothing(
    pair: Pair, reader: StampedReader
) -> None:
    sender, receiver = pair
    reader.adopt(receiver)
    sender.close()
    _, data = reader.read(receiver)
    assert not data
    assert reader.clock == "kernel"


def test_large_answers_come_in_several_reads(pair: Pair, reader: StampedReader) -> None:
    sender, receiver = pair
    whole = bytes(range(256)) * (2 * BUFFER_BYTES // 256)
    sender.settimeout(60)
    received = b""
    sent = 0
    while len(received) < len(whole):
        sent += sender.send(whole[sent : sent + 65_536]) if sent < len(whole) else 0
        received += bytes(reader.read(receiver)[1])
    assert received == whole
    assert reader.reads >= 2


def test_nothing_to_read_is_told(pair: Pair, reader: StampedReader) -> None:
    receiver = pair[1]
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        reader.read(receiver)
    assert reader.reads == 0
