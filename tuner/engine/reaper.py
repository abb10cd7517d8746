"""Ending what an earlier worker and its guard left behind, by recorded identity, never by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.domain.clock import Clock, SystemClock
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.process_tree import (
    ProcessStat,
    ProcessTable,
    descendants,
    group_members,
    read_processes,
    send_signal,
)
from tuner.engine.shared_memory import (
    TRACKER_WAIT_S,
    mapped_segments,
    remove_segments,
    without_trackers,
)

POLL_S = 0.05
GUARD_WAIT_S = 60.0
"""A living guard cleans up by itself: its own grace, then SIGKILL."""
KILL_WAIT_S = 20.0
ORPHAN_WINDOW_S = 1800.0
"""A session whose leader is gone is ours only while its members started this soon after the leader:
later its number may have been reused by a stranger's session."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """Who was found, and who could not be ended (uninterruptible, or of another user)."""

    found: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()
    killed: bool = False


def reap(
    identities: Iterable[ProcessIdentity],
    *,
    grace_s: float = 10.0,
    clock: Clock | None = None,
) -> Reaped:
    """End recorded guards and engines, their groups, sessions and descendants; returns when gone.

    A guard that lives is asked to stop and given time. A pid that another process has by now
    (its start time differs) is left alone.
    """
    clock = clock or SystemClock()
    quarry = _Quarry(tuple(identities))
    if not quarry.running():
        return Reaped()
    deadline = clock.monotonic() + quarry.ask_politely(grace_s)
    while quarry.running() and clock.monotonic() < deadline:
        clock.sleep(POLL_S)
    killed = bool(quarry.running())
    rest = _kill(quarry, clock)
    survivors = tuple(sorted(process.pid for process in rest))
    return Reaped(tuple(sorted(quarry.found)), survivors, killed)


def _kill(quarry: _Quarry, clock: Clock) -> list[ProcessStat]:
    """SIGKILL until nobody is left or time is up; who removes shared memory has time to do it."""
    segments = mapped_segments(process.pid for process in quarry.running())
    started = clock.monotonic()
    while (rest := quarry.running()) and clock.monotonic() < started + KILL_WAIT_S:
        early = clock.monotonic() < started + TRACKER_WAIT_S
        for process in without_trackers(rest) if early else rest:
            send_signal(process, signal.SIGKILL)
        clock.sleep(POLL_S)
    remove_segments(segments)
    return rest


class _Quarry:
    """The recorded processes and whoever was seen to belong to them; nobody is ever forgotten."""

    def __init__(self, recorded: tuple[ProcessIdentity, ...]) -> None:
        self._recorded = recorded
        self._known: dict[int, ProcessStat] = {}

    @property
    def found(self) -> set[int]:
        return set(self._known)

    def running(self) -> list[ProcessStat]:
        """Those that run now, after looking for new ones."""
        table = read_processes()
        for process in _belongings(self._recorded, table):
            self._known.setdefault(process.pid, process)
        present = [p for p in self._known.values() if _is_same(p, table)]
        for process in descendants([p.pid for p in present], table):
            if process.running:
                self._known.setdefault(process.pid, process)
        return [p for p in self._known.values() if _is_same(p, table) and table[p.pid].running]

    def ask_politely(self, grace_s: float) -> float:
        """SIGTERM to whoever ends the others in order; returns how many seconds that may take."""
        running = self.running()
        leaders = {(identity.pid, identity.start_ticks) for identity in self._recorded}
        asked = [p for p in running if (p.pid, p.start_ticks) in leaders]
        pids = {p.pid for p in asked}
        outermost = [p for p in asked if p.ppid not in pids]
        for process in outermost or running:
            send_signal(process, signal.SIGTERM)
        return max(grace_s, GUARD_WAIT_S) if len(outermost) < len(asked) else grace_s


def _belongings(recorded: Iterable[ProcessIdentity], table: ProcessTable) -> list[ProcessStat]:
    """The running processes that belong to the recorded ones."""
    found: dict[int, ProcessStat] = {}
    for identity in recorded:
        leader = table.get(identity.pid)
        if leader is not None and leader.start_ticks != identity.start_ticks:
            continue
        members = group_members(identity.pid, table)
        if leader is None:
            members = [member for member in members if _is_orphan(member, identity)]
        roots = [process.pid for process in members]
        found |= {p.pid: p for p in (*members, *descendants(roots, table))}
    return [process for process in found.values() if process.running and process.pid != os.getpid()]


def _is_orphan(member: ProcessStat, leader: ProcessIdentity) -> bool:
    age_s = (member.start_ticks - leader.start_ticks) / os.sysconf("SC_CLK_TCK")
    return 0 <= age_s <= ORPHAN_WINDOW_S


def _is_same(process: ProcessStat, table: ProcessTable) -> bool:
    current = table.get(process.pid)
    return current is not None and current.start_ticks == process.start_ticks
