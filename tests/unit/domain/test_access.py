from __future__ import annotations

import pytest

from tuner.domain.access import LOCAL, Principal, Scope, allows


@pytest.mark.parametrize(
    ("granted", "wanted", "allowed"),
    [
        (Scope.READ, Scope.READ, True),
        (Scope.READ, Scope.WRITE, False),
        (Scope.WRITE, Scope.READ, True),
        (Scope.WRITE, Scope.ADMIN, False),
        (Scope.ADMIN, Scope.READ, True),
        (Scope.ADMIN, Scope.ADMIN, True),
    ],
)
def test_a_scope_includes_the_lesser_ones(granted: Scope, wanted: Scope, allowed: bool) -> None:
    assert allows([granted], wanted) is allowed
    assert Principal("key:a", (granted,)).may(wanted) is allowed


def test_no_scope_allows_nothing() -> None:
    assert not allows([], Scope.READ)


def test_everybody_on_an_open_loopback_may_all() -> None:
    assert LOCAL.may(Scope.ADMIN)
