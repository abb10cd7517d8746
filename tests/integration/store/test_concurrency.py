from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

from tests.support.ledger import SteppingClock, new_study
from tuner.domain.events import EventKind
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store

WRITERS = 4
EVENTS_EACH = 25

WRITER = """
import sys
from tests.support.ledger import SteppingClock
from tuner.domain.events import EventKind
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
url, study_id, name, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
with open_database(url) as database:
    store = Store(database, SteppingClock())
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        with store.writing() as work:
            event = work.events.append(study_id, EventKind.NOTICE, {"by": name, "number": number})
        print(event.seq, flush=True)
"""

CREATOR = """
import sys
from tests.support.ledger import SteppingClock
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
with open_database(sys.argv[1]) as database:
    store = Store(database, SteppingClock())
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(5):
        with store.writing() as work:
            made = work.studies.create("chat", "d1", {})
            print(made.study.id, made.created, flush=True)
"""

ENDLESS = 1_000_000


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_events_of_many_processes_are_numbered_without_gaps(database_url: str) -> None:
    with open_database(database_url) as database:
        store = Store(database, SteppingClock())
        with store.writing() as work:
            study_id = new_study(work)
        writers = [
            start(WRITER, database_url, study_id, name, EVENTS_EACH) for name in range(WRITERS)
        ]
        for writer in writers:
            go(writer)
        seen = follow(store, study_id, 1 + WRITERS * EVENTS_EACH)
        outputs = [writer.communicate()[0].split() for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * WRITERS

        events = store.events_after(study_id, 0)
    total = 1 + WRITERS * EVENTS_EACH
    assert [event.seq for event in events] == list(range(1, total + 1))
    assert seen == [event.seq for event in events]
    told = sorted(int(seq) for output in outputs for seq in output)
    assert told == list(range(2, total + 1))
    for name in range(WRITERS):
        mine = [event for event in events if event.payload.get("by") == str(name)]
        assert [event.payload["number"] for event in mine] == list(range(EVENTS_EACH))


def follow(store: Store, study_id: int, total: int) -> list[int]:
    """Read on from the last number seen, as a watcher does, while the writers write."""
    seen: list[int] = []
    while len(seen) < total:
        after = seen[-1] if seen else 0
        seen += [event.seq for event in store.events_after(study_id, after)]
    return seen


def test_one_study_comes_of_many_simultaneous_creations(database_url: str) -> None:
    creators = [start(CREATOR, database_url) for _ in range(WRITERS)]
    for creator in creators:
        go(creator)
    lines = [line for creator in creators for line in creator.communicate()[0].splitlines()]

    assert [creator.returncode for creator in creators] == [0] * WRITERS
    assert len(lines) == 5 * WRITERS
    assert len({line.split()[0] for line in lines}) == 1
    assert Counter(line.split()[1] for line in lines)["True"] == 1


def test_what_a_killed_process_was_told_is_stored_is_stored(database_url: str) -> None:
    with open_database(database_url) as database:
        store = Store(database, SteppingClock())
        with store.writing() as work:
            study_id = new_study(work)
        told: list[int] = []
        for _ in range(3):
            writer = start(WRITER, database_url, study_id, "victim", ENDLESS)
            go(writer)
            assert writer.stdout is not None
            told += [int(writer.stdout.readline()) for _ in range(5)]
            writer.send_signal(signal.SIGKILL)
            # `communicate` would pass over lines that `readline` had taken along.
            told += [int(line) for line in writer.stdout.read().split("\n")[:-1] if line]
            writer.communicate()

        events = store.events_after(study_id, 0)
        numbers = [event.seq for event in events]
        assert numbers == list(range(1, len(numbers) + 1))
        assert set(told) <= set(numbers)
        # At most the one commit per kill that had no time to be reported.
        assert len(numbers) - 1 - len(told) <= 3
        with store.writing() as work:
            event = work.events.append(study_id, EventKind.NOTICE)
        assert event.seq == numbers[-1] + 1
