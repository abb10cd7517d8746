"""A service that is killed at random moments while a caller creates studies, and what must hold."""

from __future__ import annotations

import http.client
import random
import threading
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.api_client import SIMULATED, store_at
from tests.support.service_process import Service, service
from tuner.domain.events import EventKind

CREATE = "/api/v1/studies?new=true"
"""Every request that is carried out makes another generation: nothing else forbids doubles."""

CREATION = "study.create"
"""In the audit."""

LONGEST_S = 0.6
"""After the first request, so that a kill falls on one of the next ones."""


@dataclass
class Created:
    """Study ids by the number of the request, as they were answered, and how it came to that."""

    answered: dict[int, int] = field(default_factory=dict)
    kills: int = 0
    sent_again: int = 0


def kill_while_creating(state_dir: Path, *, kills: int, seed: int) -> Created:
    """Create one study after the other, each asked for until it is answered.

    AssertionError where a study is lost or there twice.
    """
    chance = random.Random(seed)
    done = Created()
    while done.kills < kills:
        with service(state_dir) as running:
            _create_until_killed(running, done, chance.uniform(0.0, LONGEST_S))
        done.kills += 1
    with service(state_dir) as running:
        _create(running, done)
    assert_each_once(state_dir, done)
    return done


def _create_until_killed(running: Service, done: Created, delay_s: float) -> None:
    _create(running, done)
    killer = threading.Timer(delay_s, running.process.kill)
    killer.start()
    try:
        while True:
            _create(running, done)
    except (http.client.HTTPException, urllib.error.URLError, OSError):
        done.sent_again += 1
    finally:
        killer.join()


def _create(running: Service, done: Created) -> None:
    number = len(done.answered)
    study = running.request("POST", CREATE, SIMULATED, {"Idempotency-Key": f"request-{number}"})
    done.answered[number] = study["id"]


def assert_each_once(state_dir: Path, done: Created) -> None:
    """Every answered study is there, no other one is, and each was created and noted once."""
    with store_at(f"sqlite:///{state_dir / 'servetune.db'}") as store, store.reading() as work:
        stored = [study.id for study in work.studies.all()]
        noted = [entry for entry in work.audit.page(None, 10_000) if entry.action == CREATION]
        made = [len(work.events.of_kind(s, EventKind.STUDY_CREATED)) for s in stored]
    assert sorted(done.answered.values()) == stored
    assert made == [1] * len(stored)
    assert len(noted) == len(stored)
