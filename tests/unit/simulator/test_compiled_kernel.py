"""The compiled path: identical to the interpreted one, lazy, and safe where nothing is writable."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.engine_model import H100, L4, LLAMA_7B, LLAMA_8B, MISTRAL_7B, config, random_load
from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator import compiled_kernel, engine_model
from tuner.simulator.engine_model import Backend, SimulatedRun, simulate
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest

ROOT = Path(__file__).resolve().parents[3]


def shared_prefixes(requests: list[EngineRequest]) -> list[EngineRequest]:
    return [
        EngineRequest(
            r.request_id,
            r.arrival_s,
            r.prompt_tokens,
            r.output_tokens,
            r.request_id % 3,
            tuple(1000 * (r.request_id % 5) + k for k in range(r.prompt_tokens // 16)),
        )
        for r in requests
    ]


def run_both(
    requests: list[EngineRequest],
    engine: EngineConfig,
    gpu: Gpu,
    model: ModelGeometry,
    hardware: Hardware,
    concurrency: int | None,
) -> tuple[SimulatedRun, SimulatedRun]:
    def one(backend: Backend) -> SimulatedRun:
        return simulate(
            requests,
            engine,
            gpu,
            1,
            model,
            8192,
            hardware,
            concurrency=concurrency,
            backend=backend,
        )

    return one("python"), one("numba")


CASES = [
    (config(64, 2048), H100, LLAMA_8B, None, None),
    (config(256, 512, long_prefill_token_threshold=128), H100, LLAMA_8B, 5, None),
    (config(64, 8192, enable_chunked_prefill=False), H100, LLAMA_8B, 5, 32),
    (config(256, 2048, scheduling_policy="priority"), L4, LLAMA_7B, 9, None),
    (config(64, 2048, enable_prefix_caching=False), L4, LLAMA_8B, 7, 64),
    (config(64, 2048), H100, MISTRAL_7B, 2, None),
    (config(256, 8192, scheduler_reserve_full_isl=False), L4, LLAMA_8B, 1, None),
]


@pytest.mark.parametrize(("engine", "gpu", "model", "seed", "concurrency"), CASES)
def test_compiled_and_interpreted_runs_are_identical_to_the_last_bit(
    engine: EngineConfig,
    gpu: Gpu,
    model: ModelGeometry,
    seed: int | None,
    concurrency: int | None,
) -> None:
    load = random_load(120, 4, prompt=(1, 3000), output=(1, 300), rate_per_s=15.0)
    interpreted, compiled = run_both(
        shared_prefixes(load), engine, gpu, model, Hardware.of_seed(seed), concurrency
    )
    assert interpreted.counters == compiled.counters
    assert interpreted.out_of_memory == compiled.out_of_memory
    for name in ("entered_s", "first_token_s", "last_token_s", "max_gap_s"):
        np.testing.assert_array_equal(
            getattr(interpreted, name), getattr(compiled, name), err_msg=name
        )
    np.testing.assert_array_equal(interpreted.preemptions, compiled.preemptions)
    for name in type(interpreted.steps).__slots__:
        np.testing.assert_array_equal(
            getattr(interpreted.steps, name), getattr(compiled.steps, name), err_msg=name
        )


def test_the_cases_reach_preemption_and_prefix_hits() -> None:
    load = shared_prefixes(random_load(120, 4, prompt=(1, 3000), output=(1, 300), rate_per_s=15.0))
    run = simulate(load, config(256, 2048), L4, 1, LLAMA_7B, 8192, backend="numba")
    assert run.counters["preemptions"] > 10
    assert run.counters["prefix_hit_tokens"] > 0


def test_a_record_that_fills_up_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    load = random_load(40, 4, prompt=(1, 300), output=(1, 100), rate_per_s=15.0)
    whole = simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096, backend="python")
    monkeypatch.setattr(engine_model, "_FIRST_ROWS", 3)
    pieces = simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096, backend="python")
    assert len(pieces.steps) == len(whole.steps) > 100
    np.testing.assert_array_equal(pieces.steps.start_s, whole.steps.start_s)
    np.testing.assert_array_equal(pieces.last_token_s, whole.last_token_s)


def test_until_warmed_up_runs_are_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("compiled without having been asked")

    monkeypatch.setattr(engine_model, "compiled_advance", refuse)
    monkeypatch.setattr(engine_model, "_warmed", threading.Event())
    load = random_load(5, 4, prompt=(1, 300), output=(1, 10))
    assert simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096).finished.all()


def test_after_warming_up_runs_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_model, "_warmed", threading.Event())
    assert engine_model.warm_up()
    used: list[str] = []
    compiled = compiled_kernel.compiled_advance()
    assert compiled is not None

    def counting(*arguments: object) -> tuple[int, int]:
        used.append("compiled")
        return compiled(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_model, "compiled_advance", lambda: counting)
    load = random_load(5, 4, prompt=(1, 300), output=(1, 10))
    assert simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096).finished.all()
    assert used == ["compiled"]


def test_without_numba_everything_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_model, "_warmed", threading.Event())
    monkeypatch.setattr(engine_model, "compiled_advance", lambda: None)
    assert not engine_model.warm_up()
    load = random_load(5, 4, prompt=(1, 300), output=(1, 10))
    assert simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096).finished.all()
    with pytest.raises(InvalidInputError, match="numba"):
        simulate(load, config(16, 512), H100, 1, LLAMA_8B, 4096, backend="numba")


def test_an_environment_without_numba_has_no_compiled_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    compiled_kernel.compiled_advance.cache_clear()
    try:
        assert compiled_kernel.compiled_advance() is None
    finally:
        compiled_kernel.compiled_advance.cache_clear()


COMPILING_S = 300
"""Some 20 s of processor time, on a machine that others use as well."""

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from tuner.simulator import engine_model, compiled_kernel, scheduler
assert not {"numba", "llvmlite"} & set(sys.modules), "numba is imported at import time"
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.models import model_preset
from tuner.simulator.requests import EngineRequest
if sys.argv[2] != "import":
    advance = compiled_kernel.compiled_advance()
    if sys.argv[2] == "compile":
        config = EngineConfig.of({"max-num-seqs": 4, "max-num-batched-tokens": 64})
        model, gpu = model_preset("Qwen/Qwen2.5-0.5B-Instruct"), gpu_preset("L4")
        load = [EngineRequest(0, 0.0, 100, 5)]
        run = engine_model.simulate(load, config, gpu, 1, model, 256, backend="numba")
        assert run.finished.all()
    stats = advance.stats
    print(stats.cache_path, len(stats.cache_hits), len(stats.cache_misses))
"""


def probe(tree: Path, action: str, **environment: str) -> str:
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "LANG")}
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", PROBE, str(tree), action],
        env={**keep, **environment},
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=COMPILING_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages outside the checkout."""
    for package in ("tuner", "objectives"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


@pytest.mark.timeout(2 * COMPILING_S)
def test_importing_the_engine_model_does_not_import_numba(tree: Path) -> None:
    assert probe(tree, "import", HOME=str(tree)) == ""


def unwritable(tree: Path) -> None:
    """Root writes into read-only folders, so files stand where cache folders would have to be."""
    (tree / "tuner" / "simulator" / "__pycache__").write_text("", encoding="utf-8")
    (tree / "home").mkdir()
    for name in (".cache", ".local"):
        (tree / "home" / name).write_text("", encoding="utf-8")


@pytest.mark.timeout(2 * COMPILING_S)
def test_where_nothing_is_writable_there_is_no_cache_and_no_complaint(tree: Path) -> None:
    unwritable(tree)
    assert probe(tree, "prepare", HOME=str(tree / "home")) == "None 0 0"


@pytest.mark.timeout(2 * COMPILING_S)
def test_without_a_named_directory_the_cache_lies_beside_the_sources(tree: Path) -> None:
    place = tree / "tuner" / "simulator" / "__pycache__"
    assert probe(tree, "prepare", HOME=str(tree)) == f"{place} 0 0"


@pytest.mark.timeout(2 * COMPILING_S)
def test_the_named_cache_directory_is_used_by_the_next_process(tree: Path) -> None:
    unwritable(tree)
    cache = tree / "cache"
    environment = {"HOME": str(tree / "home"), "NUMBA_CACHE_DIR": str(cache)}
    first = probe(tree, "compile", **environment)
    assert first.startswith(str(cache))
    assert first.endswith(" 0 1")
    assert probe(tree, "compile", **environment).endswith(" 1 0")


@pytest.mark.parametrize("name", ["kernel_state", "kernel_blocks", "step_kernel", "load_kernel"])
def test_a_change_in_any_kernel_source_changes_what_the_cache_is_keyed_by(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba's own check sees the cached function's file only; the closure is part of its key."""

    def digest_with(suffix: str) -> int:
        def source(module: ModuleType) -> str:
            return str(original(module)) + (suffix if module.__name__.endswith(name) else "")

        monkeypatch.setattr(inspect, "getsource", source)
        compiled_kernel.source_digest.cache_clear()
        return compiled_kernel.source_digest()

    original = inspect.getsource
    try:
        assert digest_with("") == digest_with("")
        assert digest_with("") != digest_with("# changed")
    finally:
        monkeypatch.undo()
        compiled_kernel.source_digest.cache_clear()


def test_the_cached_function_closes_over_the_digest() -> None:
    compiled: Any = compiled_kernel.compiled_advance()
    cells = [cell.cell_contents for cell in compiled.py_func.__closure__]
    assert cells == [compiled_kernel.source_digest()]
    assert cells[0] > 0
