"""Tracebacks in the shape Python prints, with the frames that tell vLLM's phases apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    function: str
    code: str


def traceback_text(frames: Sequence[Frame], error: str) -> str:
    """`Traceback (most recent call last):`, the frames, then `error` (possibly several lines)."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        lines.append(f"    {frame.code}")
    return "\n".join([*lines, error])


_SERVER = "vllm/entrypoints/launchers/api_server/entry.py"
API_SERVER = (
    Frame("vllm/entrypoints/cli/main.py", 120, "main", "args.dispatch_function(args)"),
    Frame("vllm/entrypoints/cli/serve.py", 156, "cmd", "uvloop.run(run_server(args))"),
)
SOCKET = (
    *API_SERVER,
    Frame(_SERVER, 164, "setup_server", "sock = create_server_socket(sock_addr)"),
    Frame("vllm/entrypoints/launchers/launcher.py", 348, "create_server_socket", "sock.bind(addr)"),
)
ARGUMENTS = (
    *API_SERVER,
    Frame(_SERVER, 53, "build_async_engine_client", "AsyncEngineArgs.from_cli_args(args)"),
)
MODEL_PATH = (
    *ARGUMENTS,
    Frame(
        "vllm/engine/arg_utils.py",
        914,
        "__post_init__",
        "self.model = get_model_path(self.model, self.revision)",
    ),
)
CONFIG = (
    *API_SERVER,
    Frame(
        _SERVER,
        83,
        "build_async_engine_client_from_engine_args",
        "vllm_config = engine_args.create_engine_config(usage_context=usage_context)",
    ),
)
ENGINE_CLIENT = (
    *API_SERVER,
    Frame(
        "vllm/v1/engine/core_client.py",
        1120,
        "__init__",
        "with launch_core_engines(",
    ),
    Frame("vllm/v1/engine/utils.py", 1431, "wait_for_engine_startup", "raise RuntimeError("),
)
ENGINE_CORE = (
    Frame(
        "vllm/v1/engine/core.py",
        1482,
        "run_engine_core",
        "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
    ),
)
_KV_CACHES = Frame(
    "vllm/v1/engine/core.py",
    157,
    "__init__",
    "kv_cache_config = self._initialize_kv_caches(vllm_config)",
)
_PROFILE = Frame(
    "vllm/v1/engine/core.py",
    315,
    "_initialize_kv_caches",
    "available_gpu_memory = self.model_executor.determine_available_memory()",
)
_WORKER = "vllm/v1/worker/gpu_worker.py"
_RUNNER = "vllm/v1/worker/gpu_model_runner.py"

PHASE_FRAMES: dict[str, tuple[Frame, ...]] = {
    "gpu_memory_busy": (
        Frame("vllm/v1/engine/core.py", 144, "__init__", "executor_class(vllm_config)"),
        Frame(_WORKER, 318, "init_device", "self.requested_memory = request_memory("),
        Frame("vllm/v1/worker/utils.py", 412, "request_memory", "raise ValueError("),
    ),
    "oom_weights": (
        Frame("vllm/v1/engine/core.py", 144, "__init__", "executor_class(vllm_config)"),
        Frame(_WORKER, 402, "load_model", "self.model_runner.load_model("),
        Frame(_RUNNER, 5102, "load_model", "self.model = model_loader.load_model("),
    ),
    "oom_profile": (
        _KV_CACHES,
        _PROFILE,
        Frame(_WORKER, 472, "determine_available_memory", "self.model_runner.profile_run()"),
        Frame(_RUNNER, 6210, "profile_run", "hidden_states, last = self._dummy_run("),
    ),
    "oom_sampler_warmup": (
        _KV_CACHES,
        _PROFILE,
        Frame(_WORKER, 472, "determine_available_memory", "self.model_runner.profile_run()"),
        Frame(_RUNNER, 6118, "_dummy_sampler_run", "raise RuntimeError("),
    ),
    "kv_none": (
        _KV_CACHES,
        Frame(
            "vllm/v1/core/kv_cache_utils.py",
            812,
            "check_enough_kv_cache_memory",
            "raise ValueError(",
        ),
    ),
    "kv_too_small": (
        _KV_CACHES,
        Frame(
            "vllm/v1/core/kv_cache_utils.py",
            836,
            "_check_enough_kv_cache_memory",
            "raise ValueError(",
        ),
    ),
    "oom_kv_allocation": (
        _KV_CACHES,
        Frame(_WORKER, 588, "initialize_from_config", "self.model_runner.initialize_kv_cache("),
        Frame(_RUNNER, 6890, "_allocate_kv_cache_tensors", "tensor = torch.zeros("),
    ),
    "oom_capture": (
        _KV_CACHES,
        Frame(_WORKER, 640, "compile_or_warm_up_model", "self.model_runner.capture_model()"),
        Frame(_RUNNER, 6502, "capture_model", "self._capture_cudagraphs("),
    ),
}
STEP = (
    Frame("vllm/v1/engine/core.py", 1560, "run_engine_core", "engine_core.run_busy_loop()"),
    Frame("vllm/v1/engine/core.py", 1322, "_process_engine_step", "outputs = self.step_fn()"),
    Frame(_WORKER, 702, "execute_model", "output = self.model_runner.execute_model("),
)
