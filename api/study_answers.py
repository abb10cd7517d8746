"""Answers computed from a study's rows, kept until the study's next event.

Every change of a trial, an attempt or a result tells an event in its own transaction, so the number
of a study's last event says whether an answer still holds. What changes without one (lease, wishes,
the clock) is in none of them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from fastapi.responses import Response

from tuner.store.records import StudyRecord
from tuner.store.study_reader import StudyReader, StudyRows
from tuner.store.unit_of_work import Work
from tuner.study.ledger import StudyLedger
from tuner.study.standing import Standing, standing_of, standings

MOST_STANDINGS = 2000
MOST_ANSWERS = 64
MOST_READERS = 32
"""Studies whose trials are kept: a thousand of them take some five MiB."""

TURNS = 64
"""Locks that the studies share: what many ask for at once is computed by one of them."""

MOST_LEDGERS = 4
"""Studies whose measurements are kept: a thousand of them take some ten MiB."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The values asked for last, at most `most`; safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
            return value

    def keep(self, key: Key, value: Value) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class StudyAnswers:
    """What was computed of studies that have not changed since."""

    def __init__(self) -> None:
        self._standings: Recent[int, tuple[int, Standing]] = Recent(MOST_STANDINGS)
        self._bodies: Recent[tuple[int, str], tuple[int, bytes]] = Recent(MOST_ANSWERS)
        self._readers: Recent[int, StudyReader] = Recent(MOST_READERS)
        self._ledgers: Recent[int, StudyLedger] = Recent(MOST_LEDGERS)
        self._turns = tuple(Lock() for _ in range(TURNS))

    def rows(self, work: Work, study_id: int) -> StudyRows:
        """The study's trials and attempts, without measurements; only what changed is read."""
        reader = self._readers.get(study_id)
        if reader is None:
            reader = StudyReader(study_id, measurements=False)
            self._readers.keep(study_id, reader)
        return reader.read(work)

    def standing(self, work: Work, study: StudyRecord) -> Standing:
        """The study's standing; `study` is what `work` has read of it."""

        def known() -> Standing | None:
            kept = self._standings.get(study.id)
            return None if kept is None or kept[0] < study.last_event_seq else kept[1]

        found = known()
        if found is None:
            with self._turn(study.id):
                found = known()
                if found is None:
                    rows = self.rows(work, study.id)
                    found = standing_of(rows)
                    self._standings.keep(study.id, (rows.study.last_event_seq, found))
        return found

    def standings(self, work: Work, studies: Sequence[StudyRecord]) -> Mapping[int, Standing]:
        """The standing of each study, in as many queries for few as for many."""
        found: dict[int, Standing] = {}
        for study in studies:
            kept = self._standings.get(study.id)
            if kept is not None and kept[0] >= study.last_event_seq:
                found[study.id] = kept[1]
            elif self._readers.get(study.id) is not None:
                found[study.id] = self.standing(work, study)
        unread = [study for study in studies if study.id not in found]
        computed = standings(work, unread) if unread else {}
        for study in unread:
            self._standings.keep(study.id, (study.last_event_seq, computed[study.id]))
        return {**found, **computed}

    def json(self, study: StudyRecord, view: str, make: Callable[[], object]) -> Response:
        """The JSON answer called `view`, its parameters included; made where it is not known.

        `study` is read before `make` reads: an answer may be newer than its number, never older.
        Whoever asks for what is being made waits for it.
        """
        key = (study.id, view)

        def known() -> bytes | None:
            kept = self._bodies.get(key)
            return None if kept is None or kept[0] < study.last_event_seq else kept[1]

        body = known()
        if body is None:
            with self._turn(key):
                body = known()
                if body is None:
                    text = json.dumps(make(), separators=(",", ":"), allow_nan=False)
                    body = text.encode()
                    self._bodies.keep(key, (study.last_event_seq, body))
        return Response(body, media_type="application/json")

    def ledger(self, study_id: int, make: Callable[[], StudyLedger]) -> StudyLedger:
        """The ledger of this study, which remembers the measurements it has read."""
        found = self._ledgers.get(study_id)
        if found is None:
            found = make()
            self._ledgers.keep(study_id, found)
        return found

    def _turn(self, key: object) -> Lock:
        return self._turns[hash(key) % TURNS]
