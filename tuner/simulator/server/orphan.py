"""A child process that outlives its parent, as vLLM's engine core does after a SIGKILL."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

PROCESS_NAME = "VLLM::EngineCore"
_LIFETIME_S = 600
"""The child ends by itself after this: no test leaves one behind for good."""
_PROGRAM = (
    "import ctypes, time\n"
    f"ctypes.CDLL(None).prctl(15, {PROCESS_NAME.encode()!r}, 0, 0, 0)\n"
    f"time.sleep({_LIFETIME_S})\n"
)


@contextlib.contextmanager
def engine_core_child(*, wanted: bool) -> Iterator[None]:
    """Keep such a child for the time of the context; a clean exit ends it, SIGKILL does not."""
    if not wanted:
        yield
        return
    argv = [PROCESS_NAME, "-I", "-S", "-c", _PROGRAM]
    child = subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.DEVNULL)  # noqa: S603
    try:
        yield
    finally:
        child.terminate()
        child.wait()
