"""What the load generator's process asks of the kernel's scheduler."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

SLICE_NS = 100_000
"""The shortest that the kernel grants. A process that asks for short slices is let in sooner when
it wakes and gets no more of the processor for it: just what a timer and a reader of sockets needs.
"""

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


def ask_for_short_slices() -> bool:
    """Ask for the shortest time slices for this thread; whether the kernel took the request.

    Needs no privilege. Linux before 6.12 takes it and does nothing. A thread that somebody gave
    another policy than the ordinary one keeps it.
    """
    call = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or call is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    attributes = _SchedAttr(policy=os.SCHED_OTHER, nice=os.nice(0), runtime_ns=SLICE_NS)
    attributes.size = ctypes.sizeof(attributes)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(call, 0, ctypes.byref(attributes), 0) == 0)
