"""The load-test kernel, compiled by numba on first use where that is possible."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from tuner.simulator import kernel_blocks, kernel_state, load_kernel, step_kernel
from tuner.simulator.load_kernel import Advance

_SOURCES: tuple[ModuleType, ...] = (kernel_state, kernel_blocks, step_kernel, load_kernel)


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
    cached = source_digest() != 0

    def compile_function(function: FunctionType, *, cache: bool) -> Any:
        try:
            return numba.njit(cache=cache and cached, error_model="numpy")(function)
        except RuntimeError:
            # numba's way to say that it found no place for its cache.
            return numba.njit(error_model="numpy")(function)

    namespace = _merged_namespace(compile_function)
    maker = FunctionType(load_kernel.advance_for.__code__, namespace, "advance_for")
    advance: Advance = compile_function(maker(source_digest()), cache=True)
    return advance


def _merged_namespace(compile_function: Callable[..., Any]) -> dict[str, Any]:
    """All kernel modules' names in one place, with every function compiled.

    A function finds its callees through its globals when it is first called, so all of them share
    one dictionary in which the callees are compiled as well.
    """
    namespace: dict[str, Any] = {"__name__": __name__, "__builtins__": __builtins__}
    for module in _SOURCES:
        for name, value in vars(module).items():
            if not name.startswith("__"):
                namespace[name] = value
    for module in _SOURCES:
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                own = FunctionType(value.__code__, namespace, name)
                namespace[name] = compile_function(own, cache=False)
    return namespace
