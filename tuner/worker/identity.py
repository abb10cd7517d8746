"""Who this process is to others, and which of the others on this host are dead."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from tuner.domain.states import WorkerState
from tuner.engine.process_tree import is_running, read_process
from tuner.errors import DatabaseError
from tuner.store.records import HeldLease, WorkerRecord
from tuner.store.unit_of_work import Store, Work
from tuner.store.workers import WorkerIdentity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_worker(gpus: tuple[str, ...] = ()) -> WorkerIdentity:
    """This process under a name it has never had before."""
    pid = os.getpid()
    own = read_process(pid)
    return WorkerIdentity(
        id=f"{socket.gethostname()[:40]}-{pid}-{secrets.token_hex(4)}",
        host=socket.gethostname(),
        namespace=process_namespace(),
        pid=pid,
        start_ticks=0 if own is None else own.start_ticks,
        version=version("servetune"),
        gpus=gpus,
    )


def process_namespace() -> str | None:
    """Within what a pid of this process means something; None where that cannot be read.

    Containers may share their host's name and not its processes.
    """
    try:
        boot = BOOT_ID.read_text(encoding="ascii").strip()
        return f"{boot[:36]}:{PID_NAMESPACE.readlink()}"[:64]
    except OSError:
        return None


def is_dead(worker: WorkerRecord, host: str, namespace: str | None) -> bool:
    """Whether this worker has certainly ended; False for one that cannot be seen from here."""
    if worker.state is WorkerState.GONE:
        return True
    if namespace is None or (worker.host, worker.namespace) != (host, namespace):
        return False
    return not is_running(worker.pid, worker.start_ticks)


def leases_of_the_dead(work: Work, me: WorkerIdentity) -> tuple[HeldLease, ...]:
    """Leases that nobody will renew, although they may not have run out."""
    return tuple(lease for lease in work.leases.held() if _holder_is_dead(work, lease, me))


def _holder_is_dead(work: Work, lease: HeldLease, me: WorkerIdentity) -> bool:
    holder = work.workers.find(lease.worker_id)
    return holder is not None and is_dead(holder, me.host, me.namespace)


def described(workers: Iterable[WorkerRecord], worker_id: str) -> str:
    """A worker for people: the process it is."""
    for worker in workers:
        if worker.id == worker_id:
            return f"process {worker.pid} on {worker.host}"
    return f"worker {worker_id}"


@contextmanager
def enlisted(store: Store, gpus: tuple[str, ...] = ()) -> Iterator[WorkerIdentity]:
    """Be known to other processes for the block, as one that may drive studies."""
    me = this_worker(gpus)
    with store.writing() as work:
        work.workers.register(me)
    try:
        yield me
    finally:
        with suppress(DatabaseError, KeyError), store.writing() as work:
            work.workers.beat(me.id, WorkerState.GONE)
