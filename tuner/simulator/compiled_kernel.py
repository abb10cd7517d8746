"""The load-test kernel, compiled by numba on first use where that is possible."""

from __future__ import annotations

import builtins
import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from tuner.simulator import kernel_blocks, kernel_state, load_kernel, step_kernel
from tuner.simulator.load_kernel import Advance

_SOURCES: tuple[ModuleType, ...] = (kernel_state, kernel_blocks, step_kernel, load_kernel)

# Nothing is allocated in the kernel, so reference counts (most of its time otherwise) can go.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


@lru_cache(maxsize=1)
def source_digest() -> int:
    """A number that changes with the text of any kernel source; 0 where there are no sources."""
    digest = hashlib.sha256()
    try:
        for module in _SOURCES:
            digest.update(inspect.getsource(module).encode())
    except OSError:
        return 0
    return int.from_bytes(digest.digest()[:7])


@lru_cache(maxsize=1)
def interpreted_advance() -> Advance:
    """The kernel as CPython runs it, on lists."""
    return load_kernel.advance_for(source_digest())


@lru_cache(maxsize=1)
def compiled_advance() -> Advance | None:
    """The kernel as numba compiles it, on arrays; None where numba cannot be imported.

    Machine code is cached where numba finds a writable place (`NUMBA_CACHE_DIR`, beside the
    sources, the user's cache directory), and compiled per process where it finds none.
    """
    try:
        import numba
    except ImportError:
        return None
    # Any: numba's annotations know the documented options only.
    njit: Any = numba.njit
    namespace = _merged_namespace(lambda f: njit(f, **_OPTIONS, no_cpython_wrapper=True))
    maker = FunctionType(load_kernel.advance_for.__code__, namespace, "advance_for")
    loop = maker(source_digest())
    try:
        advance: Advance = njit(loop, cache=source_digest() != 0, **_OPTIONS)
    except RuntimeError:
        # numba's way to say that it found no place for its cache.
        advance = njit(loop, **_OPTIONS)
    return advance


def _merged_namespace(compile_function: Callable[..., Any]) -> dict[str, Any]:
    """All kernel modules' names in one place, with every function compiled.

    A function finds its callees through its globals when it is first called, so all of them share
    one dictionary in which the callees are compiled as well.
    """
    namespace: dict[str, Any] = {"__name__": __name__, "__builtins__": builtins}
    for module in _SOURCES:
        namespace |= {k: v for k, v in vars(module).items() if not k.startswith("__")}
    for module in _SOURCES:
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                own = FunctionType(value.__code__, namespace, name)
                namespace[name] = compile_function(own)
    return namespace
