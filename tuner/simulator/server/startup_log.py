"""The lines vLLM 0.32 writes while it starts on GPUs, and how it words a start that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.domain.diagnosis import Phase
from tuner.domain.engine_config import EngineConfig
from tuner.domain.flag_catalogue import flag
from tuner.domain.rules import warnings
from tuner.simulator.memory import CONTEXT_GIB, GIB, StartupFailure
from tuner.simulator.server import tracebacks
from tuner.simulator.server.arguments import VLLM_VERSION, ServeArguments
from tuner.simulator.server.config_check import ConfigFault
from tuner.simulator.server.engine_log import API_SERVER, ENGINE_CORE, EngineLog

if TYPE_CHECKING:
    from tuner.simulator.server.launch import Launch

_LOGO = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)
_RAW_OOM = frozenset({"oom_profile", "oom_capture", "oom_kv_allocation", "oom_weights"})
_STAGES = {
    Phase.INIT: 0,
    Phase.LOAD: 1,
    Phase.PROFILE: 2,
    Phase.KV_SIZING: 3,
    Phase.CAPTURE: 5,
    Phase.WARMUP: 6,
}
INITIALIZATION_FAILED = (
    "RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore': 1}"
)


def write_banner(log: EngineLog, arguments: ServeArguments) -> None:
    """Logo, version, model and the arguments that are not default, secrets masked."""
    for line in _LOGO:
        text = line.format(version=VLLM_VERSION, model=arguments.model)
        log.info(API_SERVER, "api_utils.py:347", text)
    values: dict[str, object] = {"model_tag": arguments.model, "model": arguments.model}
    for name, value in arguments.config.flags:
        info = flag(name)
        secret = info is not None and info.secret
        values[name.replace("-", "_")] = "***" if secret else value
    if "served_model_name" in values:
        values["served_model_name"] = list(arguments.served_names)
    log.info(API_SERVER, "api_utils.py:286", f"non-default args: {values!r}")


def write_config_fault(
    log: EngineLog, fault: ConfigFault, config: EngineConfig, architecture: str
) -> None:
    """The lines before a configuration class refuses, and its validation error."""
    log.info(API_SERVER, "model.py:733", f"Resolved architecture: {architecture}")
    if fault.class_name != "ModelConfig":
        log.info(API_SERVER, "model.py:2152", f"Using max model len {config.max_model_len}")
    if fault.class_name == "VllmConfig" or (
        fault.class_name == "SchedulerConfig" and fault.between_fields
    ):
        _write_chunking(log, config)
    log.plain(tracebacks.traceback_text(tracebacks.CONFIG, fault.text))


def write_config(log: EngineLog, launch: Launch) -> None:
    """What the API server says once the configuration stands."""
    log.info(API_SERVER, "model.py:733", f"Resolved architecture: {launch.architecture}")
    log.info(API_SERVER, "model.py:2152", f"Using max model len {launch.max_model_len}")
    _write_chunking(log, launch.config)
    for text in warnings(launch.config, launch.max_model_len):
        log.warning(API_SERVER, "scheduler.py:331", text)
    if launch.limits.graph_tokens == 0:
        log.warning(
            API_SERVER,
            "vllm.py:1703",
            "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup. This "
            "is equivalent to setting -cc.mode=none -cc.cudagraph_mode=none and "
            "--kernel_config.enable_jit_warmup=False",
        )


def _write_chunking(log: EngineLog, config: EngineConfig) -> None:
    if config.enable_chunked_prefill is False:
        log.warning(
            API_SERVER,
            "arg_utils.py:3005",
            "This model does not officially support disabling chunked prefill. Disabling this "
            "manually may cause the engine to crash or produce incorrect outputs.",
        )
        return
    tokens = config.max_num_batched_tokens
    text = f"Chunked prefill is enabled with max_num_batched_tokens={tokens}."
    log.info(API_SERVER, "scheduler.py:307", text)


@dataclass(frozen=True, slots=True)
class EngineStart:
    """Writes the engine's own lines, phase by phase, up to where the start fails."""

    log: EngineLog
    launch: Launch

    @property
    def _worker(self) -> str:
        """With one device the worker lives in the engine core's process."""
        return ENGINE_CORE if self.launch.limits.tensor_parallel == 1 else "Worker_TP0"

    def write(self) -> None:
        """All lines of a start, or those before its failure and the failure itself."""
        failure = self.launch.failure
        self._initializing()
        parts = (
            self._loading,
            self._loaded,
            self._profiled,
            self._kv_sized,
            self._capturing,
            self._captured,
        )
        for write_part in parts[: _parts_before(failure)]:
            write_part()
        if failure is not None:
            self._fail(failure)
            return
        self._initialized()

    def _initializing(self) -> None:
        launch = self.launch
        config = launch.config
        settings = {
            "model": launch.arguments.model,
            "tokenizer": launch.arguments.model,
            "dtype": "torch.bfloat16",
            "max_seq_len": launch.max_model_len,
            "tensor_parallel_size": launch.limits.tensor_parallel,
            "quantization": config.get("quantization"),
            "enforce_eager": launch.limits.graph_tokens == 0,
            "kv_cache_dtype": config.get("kv-cache-dtype"),
            "device_config": "cuda",
            "served_model_name": launch.arguments.served_names[0],
            "enable_prefix_caching": launch.limits.prefix_caching,
            "enable_chunked_prefill": launch.limits.chunked_prefill,
        }
        text = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        self._core(
            "core.py:133", f"Initializing a V1 LLM engine (v{VLLM_VERSION}) with config: {text}"
        )
        self._info(
            "parallel_state.py:1906",
            f"world_size={launch.limits.tensor_parallel} rank=0 local_rank=0 backend=nccl",
        )

    def _loading(self) -> None:
        model = self.launch.arguments.model
        self._info("gpu_model_runner.py:5088", f"Starting to load model {model}...")

    def _loaded(self) -> None:
        launch = self.launch
        load_s = launch.durations.load_s
        self._info("default_loader.py:501", f"Loading weights took {load_s:.2f} seconds")
        self._info(
            "gpu_model_runner.py:5150",
            f"Model loading took {launch.account.weights_gib:.2f} GiB memory and "
            f"{load_s:.6f} seconds",
        )

    def _profiled(self) -> None:
        launch = self.launch
        if launch.durations.compile_s:
            text = f"[backbone] torch.compile took {launch.durations.compile_s:.2f} s in total"
            self._info("monitor.py:91", text)
        if launch.limits.graph_tokens:
            estimate = launch.account.graph_estimate_bytes / GIB
            self._info(
                "gpu_model_runner.py:6475", f"Estimated CUDA graph memory: {estimate:.2f} GiB total"
            )
        available = launch.account.kv_cache_gib
        self._info("gpu_worker.py:772", f"Available KV cache memory: {available:.2f} GiB")

    def _kv_sized(self) -> None:
        launch = self.launch
        if launch.limits.graph_tokens and launch.limits.kv_cache_bytes is None:
            self._graph_profiling_note()
        account = launch.account
        if launch.arguments.config.get("max-model-len") in (-1, "auto"):
            self._fitted_length()
        self._core(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {account.kv_cache_tokens:,} tokens, Maximum concurrency for "
            f"{launch.max_model_len:,} tokens per request: {account.max_concurrency:.2f}x",
        )

    def _fitted_length(self) -> None:
        longest, fitted = self.launch.model.max_position, self.launch.max_model_len
        if fitted < longest:
            text = f"Auto-fit max_model_len: reduced from {longest} to {fitted} to fit in available"
            self._core("kv_cache_utils.py:1702", f"{text} GPU memory")

    def _graph_profiling_note(self) -> None:
        launch = self.launch
        share = launch.account.graph_estimate_bytes / launch.account.total_bytes
        current = launch.limits.utilization
        self._info(
            "gpu_worker.py:787",
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
            f"--gpu-memory-utilization={current:.4f} is equivalent to "
            f"--gpu-memory-utilization={current - share:.4f} without CUDA graph memory profiling. "
            "To maintain the same effective KV cache size as before, increase "
            f"--gpu-memory-utilization to {min(1.0, current + share):.4f}.",
        )

    def _capturing(self) -> None:
        sizes = self.launch.limits.graph_sizes
        if sizes:
            self.log.plain(
                f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%| | 0/{sizes}"
            )

    def _captured(self) -> None:
        launch = self.launch
        sizes = launch.limits.graph_sizes
        if sizes:
            self.log.plain(
                f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|#| {sizes}/{sizes}"
            )
            self._info(
                "gpu_model_runner.py:6560",
                f"Graph capturing finished in {launch.durations.capture_s:.0f} secs, took "
                f"{launch.account.graph_gib:.2f} GiB",
            )
        self._memory_summary()

    def _memory_summary(self) -> None:
        launch = self.launch
        account = launch.account
        total = account.total_bytes / GIB
        consumed = account.weights_gib + account.non_torch_gib
        self._info(
            "gpu_worker.py:804",
            f"Free memory on device ({total - CONTEXT_GIB:.2f}/{total:.2f} GiB) on startup. "
            f"Desired GPU memory utilization is ({launch.limits.utilization:g}, "
            f"{account.requested_bytes / GIB:.2f} GiB). Actual usage is {consumed:.2f} GiB for "
            f"consumed memory (weights + non-torch), {account.activation_gib:.2f} GiB for peak "
            f"activation, and {account.graph_gib:.2f} GiB for CUDAGraph memory. Current kv cache "
            f"memory in use is {account.kv_cache_gib:.2f} GiB.",
        )

    def _initialized(self) -> None:
        launch = self.launch
        durations = launch.durations
        self._core(
            "core.py:402",
            "init engine (profile, create kv cache, warmup model) took "
            f"{durations.init_engine_s:.2f} s (compilation: {durations.compile_s:.2f} s)",
        )
        options = launch.arguments.options
        self._core(
            "simulator.py:1",
            f"This engine is simulated: {options.gpu_count} x {launch.gpu.name}, "
            f"{options.time_scale:g} engine seconds per wall second; the start took "
            f"{durations.total_s:.2f} s of engine time",
        )

    def _fail(self, failure: StartupFailure) -> None:
        error = failure_text(failure, self.launch)
        frames = tracebacks.PHASE_FRAMES[failure.failure_class]
        worker = self._worker
        if failure.failure_class == "oom_weights":
            text = error.removeprefix("torch.OutOfMemoryError: ")
            self.log.error(worker, "gpu_model_runner.py:5121", _weights_advice(text))
        core_error = error
        core_frames = (*tracebacks.ENGINE_CORE, *frames)
        if worker != ENGINE_CORE:
            self.log.error(
                worker,
                "multiproc_executor.py:1063",
                "WorkerProc hit an exception.\n" + tracebacks.traceback_text(frames[1:], error),
            )
            core_error = (
                f"RuntimeError: Worker failed with error '{error.partition(': ')[2]}', please "
                "check the stack trace above for the root cause"
            )
            core_frames = tracebacks.ENGINE_CORE
        trace = tracebacks.traceback_text(core_frames, core_error)
        self.log.error(ENGINE_CORE, "core.py:1510", "EngineCore failed to start.\n" + trace)
        self.log.plain("Process EngineCore:", trace)
        self.log.plain(tracebacks.traceback_text(tracebacks.ENGINE_CLIENT, INITIALIZATION_FAILED))

    def _info(self, source: str, text: str) -> None:
        self.log.info(self._worker, source, text)

    def _core(self, source: str, text: str) -> None:
        self.log.info(ENGINE_CORE, source, text)


def _parts_before(failure: StartupFailure | None) -> int:
    """How many parts of a start are through when it fails; all of them without a failure."""
    if failure is None:
        return len(_STAGES)
    if failure.failure_class == "oom_kv_allocation":
        return _STAGES[Phase.KV_SIZING] + 1
    return _STAGES[failure.phase]


def failure_text(failure: StartupFailure, launch: Launch) -> str:
    """The root cause as the deepest process raises it."""
    if failure.failure_class in _RAW_OOM:
        return out_of_memory_text(
            failure.requested_bytes, failure.free_bytes, launch.account.total_bytes
        )
    if failure.failure_class == "oom_sampler_warmup":
        return (
            f"RuntimeError: {failure.message} Please try lowering `max_num_seqs` or "
            "`gpu_memory_utilization` when initializing the engine."
        )
    return f"ValueError: {failure.message}"


def out_of_memory_text(requested_bytes: float, free_bytes: float, total_bytes: float) -> str:
    """PyTorch's out-of-memory error on device 0."""
    used_gib = max(0.0, total_bytes - free_bytes) / GIB
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {_size(requested_bytes)}. "
        f"GPU 0 has a total capacity of {total_bytes / GIB:.2f} GiB of which {_size(free_bytes)} "
        f"is free. Including non-PyTorch memory, this process has {used_gib:.2f} GiB memory in "
        f"use. Of the allocated memory {0.96 * used_gib:.2f} GiB is allocated by PyTorch, and "
        "148.52 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def _size(size_bytes: float) -> str:
    if size_bytes < GIB:
        return f"{size_bytes / 2**20:.2f} MiB"
    return f"{size_bytes / GIB:.2f} GiB"


def _weights_advice(original: str) -> str:
    return (
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to "
        "free memory for weights, increasing --tensor-parallel-size, or using --quantization. "
        f"(original error: {original})"
    )
