from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Dialect, create_engine

from tuner.store.column_types import UtcDateTime

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
TOKYO = timezone(timedelta(hours=9))


@pytest.fixture(params=["sqlite://", "postgresql://host/db"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Dialects of engines that never connect."""
    return create_engine(request.param).dialect


class TestUtcDateTime:
    def test_another_zone_is_stored_as_utc(self, dialect: Dialect) -> None:
        bound = UtcDateTime().process_bind_param(NOON.astimezone(TOKYO), dialect)

        assert bound == NOON
        assert bound is not None
        assert bound.tzinfo is UTC

    def test_a_naive_moment_is_refused(self, dialect: Dialect) -> None:
        with pytest.raises(ValueError, match="time zone"):
            UtcDateTime().process_bind_param(NOON.replace(tzinfo=None), dialect)

    def test_what_is_read_is_aware_and_utc(self, dialect: Dialect) -> None:
        column = UtcDateTime()

        for stored in (NOON.replace(tzinfo=None), NOON.astimezone(TOKYO)):
            read = column.process_result_value(stored, dialect)
            assert read == NOON
            assert read is not None
            assert read.tzinfo is UTC

    def test_none_stays_none(self, dialect: Dialect) -> None:
        assert UtcDateTime().process_bind_param(None, dialect) is None
        assert UtcDateTime().process_result_value(None, dialect) is None
