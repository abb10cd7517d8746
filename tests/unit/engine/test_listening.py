from __future__ import annotations

import os
import socket

import pytest

from tuner.engine.listening import Listener, holds_any, listeners, parse_listeners

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the wildcard is what is tested
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0
   1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 778 1 0
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 779 1 0
"""
TABLE_6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0 0 0 0 0 881
   1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 0 0 0 0 0 882
"""


def test_only_listening_rows_count() -> None:
    assert parse_listeners(TABLE) == [
        Listener("127.0.0.1", 8080, 777),
        Listener(EVERYWHERE, 8081, 778),
    ]


def test_addresses_of_the_sixth_version_and_mapped_ones() -> None:
    assert [listener.address for listener in parse_listeners(TABLE_6)] == ["::1", "127.0.0.1"]


def test_our_own_listener_is_found_and_held_by_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (listener,) = listeners("127.0.0.1", server.getsockname()[1])

        assert holds_any([os.getpid()], [listener.inode]) == {listener.inode}
        assert holds_any([], [listener.inode]) == set()
        assert holds_any([os.getpid()], [1]) == set()


def test_a_wildcard_listener_answers_for_every_address() -> None:
    with socket.create_server((EVERYWHERE, 0)) as server:
        (listener,) = listeners("127.0.0.1", server.getsockname()[1])

        assert listener.address == EVERYWHERE


def test_an_exact_address_goes_before_a_wildcard() -> None:
    with socket.socket() as wildcard, socket.socket() as exact:
        for server in (wildcard, exact):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        wildcard.bind((EVERYWHERE, 0))
        port = wildcard.getsockname()[1]
        exact.bind(("127.0.0.1", port))
        wildcard.listen()
        exact.listen()

        assert [found.address for found in listeners("127.0.0.1", port)] == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "name.that.does.not.exist.invalid"])
def test_nobody_listens(host: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        assert listeners(host, bound.getsockname()[1]) == []


def test_a_process_that_is_gone_holds_nothing() -> None:
    assert holds_any([2**22 - 1], [1]) == set()
