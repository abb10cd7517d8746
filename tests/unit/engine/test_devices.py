from __future__ import annotations

import pytest

from tuner.engine.devices import gpu_set


@pytest.mark.parametrize(
    ("own", "inherited", "count", "chosen", "expected"),
    [
        (None, None, 2, (), ("0", "1")),
        (None, "2,3", 2, (), ("2", "3")),
        ("4, 5", "0,1", 2, (), ("4", "5")),
        (None, "MIG-1-2,MIG-1-3", 1, (), ("MIG-1-2",)),
        ("0,1,2,3", None, 2, (), ("0", "1")),
        ("1,-1,2", None, 3, (), ("1",)),
        ("", None, 1, (), ("0",)),
        ("0", None, 2, ("GPU-a", "GPU-b"), ("GPU-a", "GPU-b")),
        (None, None, 1, ("GPU-a", "GPU-b"), ("GPU-a",)),
    ],
)
def test_an_engine_gets_as_many_gpus_as_it_is_wide(
    own: str | None,
    inherited: str | None,
    count: int,
    chosen: tuple[str, ...],
    expected: tuple[str, ...],
) -> None:
    ours = {} if own is None else {"CUDA_VISIBLE_DEVICES": own}
    environ = {} if inherited is None else {"CUDA_VISIBLE_DEVICES": inherited}
    assert gpu_set(ours, environ, count, chosen) == expected
