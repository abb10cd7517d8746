from __future__ import annotations

import socket

import pytest

from tuner.domain.time_limit import time_limit


def read_to_the_end(connected: socket.socket) -> None:
    while connected.recv(100):
        pass


def test_who_waits_for_the_rest_of_an_answer_is_let_go() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"a beginning")
        with pytest.raises(TimeoutError, match="not whole"), time_limit(ours, 0.05):
            read_to_the_end(ours)


def test_an_answer_in_time_leaves_the_connection_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with time_limit(ours, 60.0):
            theirs.send(b"whole")
            assert ours.recv(100) == b"whole"
        theirs.send(b"the next")
        assert ours.recv(100) == b"the next"


def test_an_error_before_the_limit_stays_what_it_was() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ValueError, match="nonsense"), time_limit(ours, 60.0):
        raise ValueError("nonsense")
