"""Which GPUs of this host an engine gets."""

from __future__ import annotations

from collections.abc import Mapping

VISIBLE = "CUDA_VISIBLE_DEVICES"


def gpu_set(
    own: Mapping[str, str], environ: Mapping[str, str], count: int, chosen: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Indices, UUIDs or MIG names: `chosen`, else those made visible, else the first `count`.

    `own` is the engine's environment as the study sets it; it goes before the worker's, `environ`.
    A visible list longer than the engine is wide is cut: vLLM takes the first ones. As CUDA reads
    it, what follows a negative number is invisible. An empty list counts as none given.
    """
    if chosen:
        return chosen[:count]
    visible = own.get(VISIBLE, environ.get(VISIBLE))
    if not visible:
        return tuple(str(index) for index in range(count))
    names: list[str] = []
    for part in visible.split(","):
        name = part.strip()
        if not name or name.startswith("-"):
            break
        names.append(name)
    return tuple(names[:count])
