"""What the processes whose clocks matter ask of the kernel's scheduler.

On a busy machine the ordinary scheduler lets a process that wakes wait until whoever runs has used
up his slice: some 4 ms, by which a request, or an embedded engine's token, is late. The load
generator and the embedded engine need little of the processor, but at once.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

SLICE_NS = 100_000
"""The shortest that the kernel grants; it gives no more of the processor in all."""

NICENESS = -10
AUTOGROUP = Path("/proc/self/autogroup")
"""Niceness of the session among sessions, where the kernel groups processes by session."""

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}


class _SchedAttr(ctypes.Structure):
    """`struct sched_attr` of Linux, first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def ask_for_precedence() -> None:
    """Ask to be let in at once on waking; what is not granted is done without.

    A higher priority is only for the privileged; short slices are for everybody. Whoever was given
    another policy than the ordinary one keeps it.
    """
    if sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    if may_be_raised():
        raise_priority()
    ask_for_short_slices()


def may_be_raised() -> bool:
    """Whether this process leads a session of its own: else others would be raised with it."""
    return os.getsid(0) == os.getpid()


def raise_priority() -> bool:
    """Lower the niceness of this process and of its session; whether that was allowed."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
        if AUTOGROUP.exists():
            AUTOGROUP.write_text(str(NICENESS), encoding="ascii")
    except OSError:
        return False
    return True


def ask_for_short_slices() -> bool:
    """Ask for the shortest time slices for this thread; whether the kernel took the request.

    Linux before 6.12 takes it and does nothing.
    """
    call = _SCHED_SETATTR.get(platform.machine())
    if call is None:
        return False
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SchedAttr(policy=os.SCHED_OTHER, nice=niceness, runtime_ns=SLICE_NS)
    attributes.size = ctypes.sizeof(attributes)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(call, 0, ctypes.byref(attributes), 0) == 0)
