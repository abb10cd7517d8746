from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tuner.engine import port
from tuner.errors import PortUnavailableError


def test_a_free_port_can_be_bound() -> None:
    found = port.free_port("127.0.0.1")

    assert port.is_free("127.0.0.1", found)
    with socket.create_server(("127.0.0.1", found)):
        assert not port.is_free("127.0.0.1", found)


def test_a_free_port_is_none_that_outgoing_connections_use() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    assert all(not low <= port.free_port("127.0.0.1") <= high for _ in range(20))


def test_without_room_outside_the_range_the_kernel_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "range"
    whole.write_text("1024 65535\n")
    monkeypatch.setattr(port, "_RANGE_FILE", whole)

    assert port.free_port("127.0.0.1") > 0


def test_the_usual_range_is_taken_where_the_kernel_tells_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "_RANGE_FILE", tmp_path / "absent")

    assert not 32768 <= port.free_port("127.0.0.1") <= 60999


def test_connections_that_linger_do_not_take_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        client = socket.create_connection(address)
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first: its end stays in TIME_WAIT
        client.close()

    assert port.is_free("127.0.0.1", address[1])


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.name.invalid"])
def test_an_address_that_is_not_ours_is_an_error_and_no_free_port(host: str) -> None:
    with pytest.raises(PortUnavailableError, match=host):
        port.is_free(host, 0)


def test_every_port_taken_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_bind", lambda _host, _port: None)

    with pytest.raises(PortUnavailableError, match="no free port"):
        port.free_port("127.0.0.1")
