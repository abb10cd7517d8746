"""Keeps a lease alive while a study is driven, and hears what its users want."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Self

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.states import StudyRequest, WorkerState
from tuner.errors import DatabaseError, LeaseLostError
from tuner.store.leases import Claim
from tuner.store.records import JsonObject
from tuner.store.unit_of_work import Store

logger = logging.getLogger(__name__)

POLL_S = 1.0
"""How often a user's request is looked for: within how long a pause acts."""

REPORT_S = 2.0
"""How often the worker's progress is written down for whoever watches."""

RENEWALS_PER_LEASE = 3.0


class LeaseKeeper:
    """A thread beside the driver; what it does is a few statements, and never waits for the driver.

    It asks `cancellation` to stop when a user wants the study stopped, or when the token is known
    to be lost. A database that is away, or a lease that ran out, is no reason: others find the
    study's token, and this process its own, only in the database.
    """

    def __init__(
        self,
        store: Store,
        claim: Claim,
        cancellation: Cancellation,
        clock: Clock,
        *,
        progress: Callable[[], JsonObject | None] = lambda: None,
        poll_s: float = POLL_S,
    ) -> None:
        self._store = store
        self._claim = claim
        self._cancellation = cancellation
        self._clock = clock
        self._progress = progress
        self._poll_s = min(poll_s, claim.ttl_s / RENEWALS_PER_LEASE)
        self._closed = threading.Event()
        self._renew_at = self._report_at = 0.0
        self._away = False
        # What the thread logs is of the same study.
        keep = partial(copy_context().run, self._keep)
        self._thread = threading.Thread(target=keep, name="lease-keeper", daemon=True)

    def __enter__(self) -> Self:
        self._renew_at = self._clock.monotonic() + self._claim.ttl_s / RENEWALS_PER_LEASE
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join()

    def _keep(self) -> None:
        while True:
            try:
                requested = self._look()
            except LeaseLostError as error:
                logger.warning("%s", error.message)
                self._cancellation.request(error.message)
                return
            except DatabaseError as error:
                if not self._away:
                    logger.warning("%s; the lease cannot be renewed now", error.message)
                self._away = True
            else:
                self._away = False
                if requested is not None:
                    self._cancellation.request(f"a user asked to {requested.value} the study")
            if self._closed.wait(self._poll_s):
                return

    def _look(self) -> StudyRequest | None:
        now = self._clock.monotonic()
        if now < min(self._renew_at, self._report_at):
            with self._store.reading() as work:
                return work.leases.look(self._claim)
        with self._store.writing() as work:
            # Where the lease is renewed, it is also seen whether it is still ours.
            requested = work.leases.renew(self._claim)
            work.workers.beat(
                self._claim.worker_id,
                WorkerState.DRIVING,
                self._claim.study_id,
                progress=self._progress(),
            )
        self._renew_at = now + self._claim.ttl_s / RENEWALS_PER_LEASE
        self._report_at = now + REPORT_S
        return requested
