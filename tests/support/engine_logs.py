"""Short engine logs with what is right about them. Texts follow vLLM's source and runs of 0.32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuner.domain.diagnosis import Remedy

UTIL_UP = Remedy("gpu_memory_utilization", "up")
UTIL_DOWN = Remedy("gpu_memory_utilization", "down")
TOKENS_DOWN = Remedy("max_num_batched_tokens", "down")
SEQS_DOWN = Remedy("max_num_seqs", "down")
TP_UP = Remedy("tensor_parallel_size", "up")
QUANTISE = Remedy("quantization", "set")
MORE_HOST_MEMORY = (
    Remedy("host_memory", "up"),
    Remedy("load_format/streamer concurrency", "down"),
    Remedy("mm_processor_cache_gb", "down"),
    Remedy("swap_space(<=0.17)", "down", 0),
    TP_UP,
)

CORE_FAILED = (
    "(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore_DP0': 1}"
)
READY = "(APIServer pid=70) INFO:     Application startup complete."
_CORE = "(EngineCore pid=71) ERROR 10-02 09:15:00 [core.py:1330] "
_WORKER = "(Worker_TP0 pid=72) ERROR 10-02 09:15:00 [multiproc_executor.py:870] "
_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 39.49 GiB of which 512.00 MiB is free. Process 9 has 38.98 GiB memory in use."
)


@dataclass(frozen=True, slots=True)
class LogCase:
    """A log and the answer that is right for it (without exit status)."""

    name: str
    log: str
    failure_class: str
    phase: str
    retry: bool = False
    tunable: bool = False
    remedies: tuple[Remedy, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    severity: float | None = None
    own_words: str = ""
    """A part of the line which must be quoted as evidence."""

    def __str__(self) -> str:
        return self.name


def _raised(frames: str, error: str, writer: str = _WORKER) -> str:
    lines = ["Traceback (most recent call last):", *frames.splitlines(), error]
    return "\n".join(writer + line for line in lines)


COMMAND_LINE = (
    LogCase(
        "unrecognized_flag",
        "usage: vllm serve [model_tag] [options]\n"
        "vllm: error: unrecognized arguments: --swap-space 4 --num-scheduler-steps=8",
        "bad_flag",
        "argparse",
        remedies=(Remedy("swap_space", "drop"), Remedy("num_scheduler_steps", "drop")),
        facts={"flags": ("--swap-space", "--num-scheduler-steps=8")},
        own_words="--swap-space",
    ),
    LogCase(
        "compilation_level_as_integer",
        "api_server.py: error: argument --compilation-config/-O: 1 validation error for "
        "CompilationConfig\n  Input should be an object [type=dataclass_type, input_value=2, "
        "input_type=int]",
        "bad_flag",
        "argparse",
        remedies=(Remedy("compilation_config", "set", '{"mode":2}'),),
        facts={"flags": ("--compilation-config",)},
    ),
    LogCase(
        "searched_flag_refused",
        "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'fp4' (choose from 'auto')",
        "bad_flag",
        "argparse",
        remedies=(Remedy("kv_cache_dtype", "set"),),
        facts={"flags": ("--kv-cache-dtype",)},
    ),
    LogCase(
        "ambiguous_flag",
        "vllm serve: error: ambiguous option: --max-num could match --max-num-seqs, --max-num-x",
        "bad_flag",
        "argparse",
        remedies=(Remedy("max_num", "set"),),
        facts={"flags": ("--max-num",)},
    ),
    LogCase(
        "model_as_flag",
        "ValueError: With `vllm serve`, you should provide the model as a positional argument or "
        "in a config file instead of via the `--model` option.",
        "bad_flag",
        "argparse",
        remedies=(Remedy("model", "set", "positional"),),
    ),
)

CONFIGURATION = (
    LogCase(
        "tokens_below_sequences",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n"
        "  Value error, max_num_batched_tokens (48) must be greater than or equal to max_num_seqs "
        "(96). [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(
            Remedy("max_num_batched_tokens", "up", 96),
            Remedy("max_num_seqs", "down", 48),
        ),
        facts={"max_num_batched_tokens": 48, "max_num_seqs": 96},
        severity=2.0,
        own_words="max_num_batched_tokens (48)",
    ),
    LogCase(
        "tokens_below_length_without_chunks",
        "Value error, max_num_batched_tokens (1024) is smaller than max_model_len (8192). This "
        "effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM "
        "reject longer sequences. Please increase max_num_batched_tokens or decrease "
        "max_model_len.",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(
            Remedy("enable_chunked_prefill", "set", True),
            Remedy("max_num_batched_tokens", "up", 8192),
            Remedy("max_model_len", "down", 1024),
        ),
        severity=8.0,
    ),
    LogCase(
        "utilization_above_one_old",
        "ValueError: GPU memory utilization must be less than 1.0. Got 1.2.",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("gpu_memory_utilization", "down", "<=1.0"),),
    ),
    LogCase(
        "utilization_above_one_new",
        "1 validation error for CacheConfig\ngpu_memory_utilization\n  Input should be less than "
        "or equal to 1 [type=less_than_equal, input_value=1.3, input_type=float]",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("gpu_memory_utilization", "down", "<=1.0"),),
        own_words="gpu_memory_utilization",
    ),
    LogCase(
        "no_sequences",
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for SchedulerConfig\n"
        "max_num_batched_tokens\n  Input should be greater than or equal to 1 [type=x, "
        "input_value=0]\nmax_num_seqs\n  Input should be greater than or equal to 1 [type=x, "
        "input_value=0]",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("max_num_seqs", "up", 1),),
    ),
    LogCase(
        "longer_than_the_model",
        "Value error, User-specified max_model_len (40000) is greater than the derived "
        "max_model_len (max_position_embeddings=32768.0 or model_max_length=None in model's "
        "config.json).",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("max_model_len", "down", 32768),),
        facts={"derived_max_model_len": 32768},
    ),
    LogCase(
        "threshold_above_length",
        "ValueError: long_prefill_token_threshold (9000) cannot be greater than the max_model_len "
        "(4096).",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("long_prefill_token_threshold", "down", 4096),),
    ),
    LogCase(
        "active_above_sequences",
        "Value error, max_num_active_seqs (64) cannot be greater than max_num_seqs (32).",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("max_num_active_seqs", "down", 32),),
    ),
    LogCase(
        "heads_not_divisible",
        "Value error, Total number of attention heads (40) must be divisible by tensor parallel "
        "size (16).",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("tensor_parallel_size", "set", "divisor of 40"),),
    ),
    LogCase(
        "too_few_gpus",
        "Value error, World size (4) is larger than the number of available GPUs (2) in this "
        "node. If this is intentional and you are using:\n- ray, set '--distributed-executor-"
        "backend ray'.",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("tensor_parallel_size", "down", 2),),
        facts={"world_size": 4, "gpus": 2},
    ),
    LogCase(
        "partial_prefills",
        "NotImplementedError: Concurrent Partial Prefill is not supported. We recommend to remove "
        "Concurrent Partial Prefill from your config.",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(
            Remedy("max_num_partial_prefills", "drop"),
            Remedy("long_prefill_token_threshold", "set"),
        ),
    ),
    LogCase(
        "no_room_for_drafts",
        "ValueError: max_num_scheduled_tokens is set to 0. Consider increasing "
        "max_num_batched_tokens to accommodate the additional draft token slots.",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("max_num_batched_tokens", "up"),),
    ),
    LogCase(
        "no_bfloat16",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
        "Your Quadro RTX GPU has compute capability 7.5.",
        "config_rejected",
        "init",
        remedies=(Remedy("dtype", "set", "half"),),
    ),
    LogCase(
        "other_rejection",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, Sleep mode is not supported on current platform. [type=value_error]",
        "config_rejected",
        "config",
        own_words="Sleep mode",
    ),
)

MODELS = (
    LogCase(
        "unknown_architecture",
        "Value error, Model architectures ['BarForCausalLM'] are not supported for now. Supported "
        "architectures: dict_keys([...])",
        "model_unsupported",
        "config",
    ),
    LogCase(
        "gated",
        "huggingface_hub.errors.GatedRepoError: 403 Client Error.\nCannot access gated repo for "
        "url https://huggingface.co/org/m/resolve/main/config.json.",
        "model_unavailable",
        "config",
        facts={"reason": "gated"},
    ),
    LogCase(
        "hub_not_reachable",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached "
        "snapshot folder for the specified revision.\nOSError: We couldn't connect to "
        "'https://huggingface.co' to load the files.",
        "model_unavailable",
        "config",
        retry=True,
        facts={"reason": "network_or_cache"},
    ),
    LogCase(
        "offline_and_not_cached",
        "OfflineModeIsEnabled: Cannot reach https://huggingface.co/x: outgoing traffic has been "
        "disabled. To enable hf.co look-ups set 'HF_HUB_OFFLINE=0'.",
        "model_unavailable",
        "config",
        facts={"reason": "offline"},
    ),
    LogCase(
        "no_such_directory",
        "Value error, Invalid repository ID or local directory specified: '/m/none'.",
        "model_unavailable",
        "config",
        facts={"reason": "not_found"},
    ),
    LogCase(
        "no_such_repository",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/m/none'.",
        "model_unavailable",
        "config",
        facts={"reason": "not_found"},
    ),
    LogCase(
        "no_weights",
        "RuntimeError: Cannot find any model weights with `/m/empty`",
        "model_unavailable",
        "load",
        facts={"reason": "no_weights"},
    ),
)

MEMORY = (
    LogCase(
        "gpu_busy",
        _CORE + "ValueError: Free memory on device cuda:1 (20.00/80.00 GiB) on startup is less "
        "than desired GPU memory utilization (0.9, 72.0 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes.\n" + CORE_FAILED,
        "gpu_memory_busy",
        "init",
        retry=True,
        tunable=True,
        remedies=(Remedy("gpu_memory_utilization", "down", "<=0.25"),),
        facts={"free_gib": 20.0, "total_gib": 80.0, "requested_util": 0.9, "device": "cuda:1"},
        severity=3.6,
    ),
    LogCase(
        "gpu_busy_by_a_context",
        "ValueError: Free memory on device (23.10/23.69 GiB) on startup is less than desired GPU "
        "memory utilization (0.98, 23.22 GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes.",
        "gpu_memory_busy",
        "init",
        retry=True,
        tunable=True,
        remedies=(Remedy("gpu_memory_utilization", "down", 0.97),),
        facts={"device": None},
    ),
    LogCase(
        "node_busy",
        "(VllmWorker-0 pid=72) ERROR 10-02 09:15:00 [multiproc_executor.py:953] ValueError: "
        "Available memory on node 0 (8.00/16.00 GiB) on startup is less than desired CPU memory "
        "utilization (0.92, 14.72 GiB). To resolve: decrease `--gpu-memory-utilization`\n"
        + CORE_FAILED,
        "gpu_memory_busy",
        "init",
        retry=True,
        tunable=True,
        remedies=(Remedy("gpu_memory_utilization", "down", "<=0.5"),),
    ),
    LogCase(
        "memory_profile_race",
        _WORKER + "AssertionError: Error in memory profiling. Initial free memory 20 GiB, current "
        "free memory 30 GiB. This happens when other processes release GPU memory.",
        "memory_profile_race",
        "profile",
        retry=True,
    ),
    LogCase(
        "weights_too_large",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:2338] Starting to load "
        "model org/big...\n"
        + _raised('  File "loader.py", line 12, in load_weights', _OOM)
        + "\n"
        + CORE_FAILED,
        "oom_weights",
        "load",
        remedies=(TP_UP, QUANTISE),
        severity=4.0,
    ),
    LogCase(
        "weights_too_large_new",
        _WORKER + "torch.OutOfMemoryError: Failed to load model - not enough GPU memory. Try "
        "lowering --gpu-memory-utilization to free memory for weights.",
        "oom_weights",
        "load",
        remedies=(TP_UP, QUANTISE),
    ),
    LogCase(
        "profiling_run",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:1] Model loading took 15.1 "
        "GiB memory and 3 seconds\n"
        + _raised('  File "gpu_worker.py", line 263, in determine_available_memory', _OOM)
        + "\n"
        + CORE_FAILED,
        "oom_profile",
        "profile",
        tunable=True,
        remedies=(TOKENS_DOWN, SEQS_DOWN, Remedy("limit_mm_per_prompt", "down")),
        facts={"model_gib": 15.1, "tried_gib": 2.0, "free_gib": 0.5},
        severity=4.0,
    ),
    LogCase(
        "graph_estimate_while_profiling",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:1] Model loading took 15.1 "
        "GiB memory and 3 seconds\nCapturing CUDA graphs:  50%|#####     | 1/2\n"
        + _raised(
            '  File "gpu_worker.py", line 263, in determine_available_memory\n'
            '  File "gpu_model_runner.py", line 900, in profile_cudagraph_memory\n'
            '  File "gpu_model_runner.py", line 800, in capture_model',
            _OOM,
        ),
        "oom_profile",
        "profile",
        tunable=True,
        remedies=(TOKENS_DOWN, SEQS_DOWN, Remedy("limit_mm_per_prompt", "down")),
    ),
    LogCase(
        "nothing_left_for_the_cache",
        _CORE + "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.\n" + CORE_FAILED,
        "kv_none",
        "kv_sizing",
        tunable=True,
        remedies=(UTIL_UP, TOKENS_DOWN, SEQS_DOWN, TP_UP),
    ),
    LogCase(
        "absurd_graph_estimate",
        "INFO [gpu_model_runner.py:6936] Estimated CUDA graph memory: 97.2 GiB total\nValueError: "
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine",
        "kv_none",
        "kv_sizing",
        tunable=True,
        remedies=(
            Remedy("env:VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "set", 0),
            Remedy("gpu_memory_utilization", "down", "<=0.85"),
            Remedy("max_cudagraph_capture_size", "down"),
        ),
        facts={"graph_est_gib": 97.2},
    ),
    LogCase(
        "nothing_left_on_the_node",
        "(Worker pid=72) ERROR 10-02 09:15:00 [multiproc_executor.py:1063] ValueError: Available "
        "memory on node 0 (14.00/16.00 GiB) on kv cache allocation is less than requested memory "
        "for kv (-0.5/0.3 GiB). Reduce CPU memory used by other processes.",
        "kv_none",
        "kv_sizing",
        tunable=True,
        remedies=(UTIL_UP,),
        facts={"available_kv_gib": -0.5},
    ),
    LogCase(
        "cache_larger_than_the_node",
        "(Worker pid=72) ERROR 10-02 09:15:00 [multiproc_executor.py:1063] ValueError: Available "
        "memory on node 0 (10.00/16.00 GiB) on kv cache allocation is less than requested memory "
        "for kv (50.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce "
        "CPU memory used by other processes.",
        "kv_too_large",
        "kv_sizing",
        tunable=True,
        remedies=(Remedy("kv_cache_memory_bytes", "down"), UTIL_DOWN),
        severity=5.0,
    ),
    LogCase(
        "request_larger_than_the_cache",
        _CORE + "ValueError: To serve at least one request with the models's max seq len (65536), "
        "(8.0 GiB KV cache is needed, which is larger than the available KV cache memory (5.0 "
        "GiB). Based on the available memory, the estimated maximum model length is 40960. Try "
        "increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n" + CORE_FAILED,
        "kv_too_small",
        "kv_sizing",
        tunable=True,
        remedies=(
            UTIL_UP,
            Remedy("max_model_len", "down", 40960),
            Remedy("kv_cache_dtype", "set", "fp8"),
        ),
        facts={"needed_gib": 8.0, "available_gib": 5.0, "estimated_max_model_len": 40960},
        severity=1.6,
    ),
    LogCase(
        "request_larger_than_the_cache_no_estimate",
        "ValueError: To serve at least one request with the model's max seq len (4096), (0.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (0.0 GiB). Try "
        "increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
        "kv_too_small",
        "kv_sizing",
        tunable=True,
        remedies=(UTIL_UP, Remedy("max_model_len", "down")),
        facts={"estimated_max_model_len": None},
    ),
    LogCase(
        "request_larger_than_the_cache_v0",
        "ValueError: The model's max seq len (16384) is larger than the maximum number of tokens "
        "that can be stored in KV cache (8192). Try increasing `gpu_memory_utilization`.",
        "kv_too_small",
        "kv_sizing",
        tunable=True,
        remedies=(UTIL_UP, Remedy("max_model_len", "down", 8192)),
        facts={"kv_cache_tokens": 8192},
        severity=2.0,
    ),
    LogCase(
        "mamba_blocks",
        _CORE + "ValueError: max_num_seqs (512) exceeds available Mamba cache blocks (256). Each "
        "decode sequence requires one Mamba cache block.\n" + CORE_FAILED,
        "mamba_blocks",
        "capture",
        tunable=True,
        remedies=(Remedy("max_num_seqs", "down", 256), UTIL_UP),
        severity=2.0,
    ),
    LogCase(
        "capturing_graphs",
        "(EngineCore pid=71) INFO 10-02 09:15:00 [kv_cache_utils.py:1] GPU KV cache size: 9,216 "
        "tokens\n" + _raised('  File "cudagraph_utils.py", line 3, in capture', _OOM),
        "oom_capture",
        "capture",
        tunable=True,
        remedies=(
            UTIL_DOWN,
            Remedy("max_cudagraph_capture_size", "down"),
            Remedy("enforce_eager", "set", True),
        ),
    ),
    LogCase(
        "warming_up_sampler",
        _raised(
            '  File "gpu_worker.py", line 9, in compile_or_warm_up_model\n'
            '  File "gpu_model_runner.py", line 1, in _dummy_sampler_run',
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
            "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`.",
        ),
        "oom_sampler_warmup",
        "warmup",
        tunable=True,
        remedies=(Remedy("max_num_seqs", "down", "<1024"), UTIL_DOWN),
        facts={"dummy_requests": 1024},
    ),
    LogCase(
        "warming_up_second_runner",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:1] Graph capturing finished "
        "in 9 secs, took 0.61 GiB\n" + _WORKER + _OOM,
        "oom_sampler_warmup",
        "warmup",
        tunable=True,
        remedies=(SEQS_DOWN, UTIL_DOWN),
    ),
    LogCase(
        "under_load",
        READY
        + "\n"
        + _raised('  File "gpu_model_runner.py", line 5, in execute_model', _OOM)
        + "\n(EngineCore pid=71) ERROR 10-02 09:15:01 [core.py:1586] EngineCore encountered a "
        "fatal error.",
        "oom_runtime",
        "serving",
        tunable=True,
        remedies=(UTIL_DOWN, TOKENS_DOWN),
    ),
    LogCase(
        "out_of_memory_nobody_knows_when",
        _OOM,
        "unknown",
        "any",
        retry=True,
        own_words="OutOfMemoryError",
    ),
)

SURROUNDINGS = (
    LogCase(
        "no_device",
        "RuntimeError: No CUDA GPUs are available",
        "no_device",
        "init",
    ),
    LogCase(
        "port_in_use",
        '  File "launcher.py", line 1, in create_server_socket\n    sock.bind(addr)\n'
        "OSError: [Errno 98] Address already in use",
        "port_in_use",
        "init",
        retry=True,
    ),
    LogCase(
        "worker_killed",
        "(EngineCore pid=71) ERROR 10-02 09:15:00 [multiproc_executor.py:380] Worker proc "
        "VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor.",
        "host_oom",
        "any",
        retry=True,
        facts={"worker": "VllmWorker-3", "exit_code": -9},
    ),
    LogCase(
        "kernel_killed",
        "Out of memory: Killed process 4242 (python) total-vm:1kB",
        "host_oom",
        "any",
        remedies=MORE_HOST_MEMORY,
    ),
    LogCase(
        "host_allocation_refused",
        _WORKER + "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. "
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes.",
        "host_oom",
        "any",
        tunable=True,
        remedies=(Remedy("host_memory", "up"), Remedy("kv_cache_memory_bytes", "down")),
        facts={"asked_gib": 8.0},
    ),
    LogCase(
        "nccl",
        _WORKER + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3, "
        "unhandled system error",
        "nccl",
        "init",
        retry=True,
        remedies=(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
    ),
    LogCase(
        "engines_own_deadline",
        "(APIServer pid=70) TimeoutError: Timed out waiting for engine core processes to start. "
        "This is often caused by slow weight loading for large models. Waited 300s (configured by "
        "VLLM_ENGINE_READY_TIMEOUT_S).",
        "startup_timeout",
        "init",
        retry=True,
        remedies=(Remedy("env:VLLM_ENGINE_READY_TIMEOUT_S", "up", 900),),
    ),
    LogCase(
        "told_to_end_while_starting",
        "KeyboardInterrupt: terminated",
        "startup_timeout",
        "init",
        retry=True,
    ),
    LogCase(
        "worker_silent",
        _CORE + "EngineCore encountered a fatal error.\n" + _CORE + "TimeoutError: RPC call to "
        "execute_model timed out.",
        "hang",
        "serving",
        retry=True,
    ),
    LogCase(
        "dead_without_a_cause",
        "(APIServer pid=70) ERROR 10-02 09:15:00 [async_llm.py:425] "
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
        "trace (above) for the root cause.",
        "engine_dead_unknown",
        "serving",
        retry=True,
        own_words="EngineDeadError",
    ),
    LogCase(
        "start_failed_without_a_cause",
        CORE_FAILED,
        "engine_dead_unknown",
        "init",
        retry=True,
    ),
    LogCase(
        "unknown_error",
        "Traceback (most recent call last):\nfoo.bar.SomethingError: the frobnicator is out",
        "unknown",
        "any",
        retry=True,
        own_words="frobnicator",
    ),
)

HEALTHY = (
    LogCase(
        "internal_port_taken",
        "INFO 10-02 09:15:00 [network_utils.py:187] Port 29501 is already in use, trying port "
        f"29502\n{READY}",
        "ok",
        "ready",
    ),
    LogCase(
        "compiling_looks_like_a_hang",
        "(EngineCore pid=71) INFO 10-02 09:15:00 [shm_broadcast.py:871] No available shared "
        "memory broadcast block found in 60 seconds.\n"
        * 4
        + "(EngineCore pid=71) INFO 10-02 09:15:50 [core.py:402] init engine (profile, create kv "
        f"cache, warmup model) took 70.25 s\n{READY}",
        "ok",
        "ready",
        facts={"init_engine_s": 70.25},
    ),
    LogCase(
        "memory_breakdown_looks_like_busy",
        "Free memory on device (78.6/79.18 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 71.26 GiB). Actual usage is 14.99 GiB for weight, 1.43 GiB for peak activation, "
        "0.26 GiB for non-torch memory, and 0.55 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=57885802496` (53.91 GiB) to fit "
        "into requested memory, or `--kv-cache-memory=65498140672` (61.0 GiB) to fully utilize "
        "gpu memory.",
        "ok",
        "any",
        facts={"weights_gib": 14.99, "graph_gib": 0.55, "suggested_kv_bytes": 57885802496},
    ),
    LogCase(
        "stopped_in_order",
        f"{READY}\n(APIServer pid=70) INFO 10-02 09:16:00 [launcher.py:254] [shutdown] API "
        "server: shutdown triggered\n(APIServer pid=70) ERROR 10-02 09:16:01 [async_llm.py:906] "
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "ok",
        "ready",
    ),
)

FAILURES = (*COMMAND_LINE, *CONFIGURATION, *MODELS, *MEMORY, *SURROUNDINGS)
ALL = (*FAILURES, *HEALTHY)
