"""More failures, in the words of other versions, libraries and kernels than `engine_logs`."""

from __future__ import annotations

from tests.support.engine_logs import (
    ALL,
    CORE_FAILED,
    FAILURES,
    MORE_HOST_MEMORY,
    QUANTISE,
    READY,
    SEQS_DOWN,
    TOKENS_DOWN,
    TP_UP,
    UTIL_DOWN,
    UTIL_UP,
    LogCase,
)
from tuner.domain.diagnosis import Remedy

_CORE = "(EngineCore_DP0 pid=71) ERROR 10-02 09:15:00 [core.py:708] "
_TP1 = "(VllmWorker TP1 pid=73) ERROR 10-02 09:15:00 [multiproc_executor.py:596] "
_TP_DOWN = Remedy("tensor_parallel_size", "down")


def _stop(
    name: str,
    log: str,
    failure_class: str,
    phase: str,
    *remedies: Remedy,
    reason: str | None = None,
    tunable: bool = False,
) -> LogCase:
    facts = {} if reason is None else {"reason": reason}
    return LogCase(name, log, failure_class, phase, remedies=remedies, facts=facts, tunable=tunable)


FITTING = (
    _stop(
        "awq_in_bfloat16",
        "Value error, torch.bfloat16 is not supported for quantization method awq. Supported "
        "dtypes: [torch.float16]",
        "config_rejected",
        "config",
        Remedy("dtype", "set", "half"),
    ),
    LogCase(
        "gpu_too_old_for_fp8",
        _CORE + "ValueError: The quantization method fp8 is not supported for the current GPU. "
        "Minimum capability: 89. Current capability: 75.\n" + CORE_FAILED,
        "config_rejected",
        "config",
        remedies=(QUANTISE,),
        facts={"needed_capability": 89, "gpu_capability": 75},
    ),
    LogCase(
        "gpu_too_old_for_a_scheme",
        _TP1 + "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min "
        "capability: 80. ', 'Current capability: 75.')\n" + CORE_FAILED,
        "config_rejected",
        "config",
        remedies=(QUANTISE,),
        facts={"needed_capability": 80, "gpu_capability": 75},
    ),
    _stop(
        "another_quantisation",
        "Value error, Quantization method specified in the model config (awq) does not match the "
        "quantization method specified in the `quantization` argument (gptq).",
        "config_rejected",
        "config",
        QUANTISE,
    ),
    _stop(
        "fp8_cache_on_ampere",
        _CORE + 'ValueError("type fp8e4nv not supported in this architecture. The supported fp8 '
        "dtypes are ('fp8e4b15', 'fp8e5')\")",
        "config_rejected",
        "any",
        Remedy("kv_cache_dtype", "set", "auto"),
        tunable=True,
    ),
    _stop(
        "no_backend",
        _CORE + "ValueError: No valid attention backend found for cuda with head_size: 80",
        "config_rejected",
        "init",
        Remedy("attention_backend", "drop"),
        Remedy("kv_cache_dtype", "set", "auto"),
    ),
    LogCase(
        "adapter_rank",
        _CORE + "ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
        "config_rejected",
        "config",
        remedies=(Remedy("max_lora_rank", "up", 64),),
        facts={"lora_rank": 64, "max_lora_rank": 16},
    ),
    _stop(
        "adapters_on_the_host",
        "Value error, max_cpu_loras (2) must be greater than or equal to max_loras (8)",
        "config_rejected",
        "config",
        Remedy("max_cpu_loras", "up", 8),
    ),
    _stop(
        "no_adapters_for_this_model",
        _CORE + "ValueError: BarForCausalLM does not support LoRA yet.",
        "config_rejected",
        "config",
        Remedy("enable_lora", "drop"),
    ),
    _stop(
        "marlin_split",
        _TP1 + "ValueError: Weight input_size_per_partition = 1856 is not divisible by "
        "min_thread_k = 128. Consider reducing tensor_parallel_size or running with "
        "--quantization gptq.",
        "config_rejected",
        "load",
        _TP_DOWN,
        tunable=True,
    ),
    LogCase(
        "vocabulary_split",
        _TP1 + "AssertionError: 151937 is not divisible by 2",
        "config_rejected",
        "load",
        tunable=True,
        remedies=(_TP_DOWN,),
        facts={"size": 151937, "tensor_parallel_size": 2},
    ),
    LogCase(
        "old_world_size",
        "ValueError: Tensor parallel size (4) cannot be larger than the number of available GPUs "
        "(1).",
        "config_rejected",
        "config",
        tunable=True,
        remedies=(Remedy("tensor_parallel_size", "down", 1),),
        facts={"world_size": 4, "gpus": 1},
    ),
    _stop(
        "invisible_gpu",
        _TP1 + "RuntimeError: CUDA error: invalid device ordinal",
        "config_rejected",
        "init",
        _TP_DOWN,
        tunable=True,
    ),
    _stop(
        "custom_code",
        "ValueError: The repository for org/m contains custom code which must be executed to "
        "correctly load the model. Please pass the argument `trust_remote_code=True`.",
        "config_rejected",
        "config",
        Remedy("trust_remote_code", "set", True),
    ),
    _stop(
        "second_vllm_serve",
        "usage: vllm serve [model_tag]\nvllm: error: unrecognized arguments: serve org/m",
        "bad_flag",
        "argparse",
        Remedy("entrypoint", "set", "vllm"),
    ),
)

STRANGE_MODELS = (
    _stop(
        "kind_of_model_not_known",
        "ValueError: The checkpoint you are trying to load has model type `bar9` but Transformers "
        "does not recognize this architecture.",
        "model_unsupported",
        "config",
    ),
    _stop(
        "dropped_architecture",
        "Value error, Model architectures ['OldForCausalLM'] were supported in vLLM until "
        "v0.10.2, and is not supported anymore.",
        "model_unsupported",
        "config",
    ),
    _stop(
        "weights_of_another_model",
        _CORE + "ValueError: There is no module or parameter named 'lm_headx' in BarForCausalLM",
        "model_unsupported",
        "load",
    ),
    _stop(
        "restricted",
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
        "https://huggingface.co/org/m.",
        "model_unavailable",
        "config",
        reason="gated",
    ),
    _stop(
        "wrong_token",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://hub/x",
        "model_unavailable",
        "config",
        reason="token",
    ),
    _stop(
        "no_tokenizer",
        "OSError: Can't load tokenizer for '/m'. If you were trying to load it from the hub, make "
        "sure you don't have a local directory with the same name.",
        "model_unavailable",
        "config",
        reason="tokenizer",
    ),
    _stop(
        "no_tokenizer_backend",
        "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a file",
        "model_unavailable",
        "config",
        reason="tokenizer",
    ),
    LogCase(
        "hub_does_not_answer",
        "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='hub', "
        'port=443): Max retries exceeded with url: /org/m"))',
        "model_unavailable",
        "config",
        retry=True,
        facts={"reason": "network_or_cache"},
    ),
    _stop(
        "private_or_absent",
        "Repository Not Found for url: https://huggingface.co/api/models/org/none.",
        "model_unavailable",
        "config",
        reason="not_found",
    ),
    _stop(
        "no_configuration_file",
        "OSError: /m/half does not appear to have a file named config.json.",
        "model_unavailable",
        "config",
        reason="not_found",
    ),
    _stop(
        "broken_weights",
        _TP1 + "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        "model_unavailable",
        "load",
        reason="broken_weights",
    ),
)

MACHINES = (
    _stop("no_driver", "RuntimeError: Found no NVIDIA driver on your system.", "no_device", "init"),
    _stop(
        "old_driver",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "no_device",
        "init",
    ),
    _stop(
        "strange_gpu",
        _CORE + "RuntimeError: CUDA error: no kernel image is available for execution on the "
        "device",
        "no_device",
        "init",
    ),
    _stop(
        "no_cuda_library",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "no_device",
        "init",
    ),
    LogCase(
        "port_taken_says_uvicorn",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address "
        "already in use",
        "port_in_use",
        "init",
        retry=True,
    ),
    LogCase(
        "port_taken_says_torch",
        _CORE + "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
        "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
        "port_in_use",
        "init",
        retry=True,
    ),
    _stop(
        "cgroup_limit",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:2338] Starting to load model "
        "org/m...\nMemory cgroup out of memory: Killed process 812 (VLLM::Worker_TP), UID 0",
        "host_oom",
        "load",
        *MORE_HOST_MEMORY,
    ),
    _stop("pod_killed", "    Reason:       OOMKilled", "host_oom", "any", *MORE_HOST_MEMORY),
    _stop(
        "no_host_memory",
        _TP1 + "OSError: [Errno 12] Cannot allocate memory",
        "host_oom",
        "any",
        *MORE_HOST_MEMORY,
    ),
    LogCase(
        "engine_core_killed",
        "(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause "
        "above. Failed core proc(s): {'EngineCore_DP0': -9}",
        "host_oom",
        "any",
        retry=True,
        facts={"worker": "EngineCore_DP0", "exit_code": -9},
    ),
    _stop(
        "disk_full",
        _CORE + "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/x'",
        "disk_full",
        "any",
        Remedy("disk_space", "up"),
        Remedy("download_dir", "set"),
    ),
    LogCase(
        "shared_memory_full",
        _TP1 + "OSError: [Errno 28] No space left on device: '/psm_1aa432c1'",
        "nccl",
        "init",
        retry=True,
        remedies=(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
    ),
    LogCase(
        "shared_memory_lost",
        "host:77:99 [0] NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- "
        "(size 192814336), error: No such file or directory (2)",
        "nccl",
        "init",
        retry=True,
        remedies=(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
    ),
    LogCase(
        "collective_timeout",
        READY + "\n" + _TP1 + "[PG ID 2 Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=90, OpType=ALLREDUCE)",
        "nccl",
        "serving",
        retry=True,
        remedies=(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
    ),
    LogCase(
        "front_end_gone",
        "(EngineCore_DP0 pid=71) ERROR 10-02 09:15:00 [core.py:1] TimeoutError: Did not receive "
        "response from front-end process within 5 minutes",
        "startup_timeout",
        "init",
        retry=True,
    ),
    LogCase(
        "old_engine_dead",
        "ERROR 10-02 09:15:00 [client.py:305] vllm.engine.multiprocessing.MQEngineDeadError: "
        "Engine loop is not running. Inspect the stacktrace to find the original error",
        "engine_dead_unknown",
        "serving",
        retry=True,
    ),
)

OTHER_MEMORY = (
    LogCase(
        "silent_rank_out_of_memory_while_loading",
        "(Worker_TP0 pid=72) INFO 10-02 09:15:00 [gpu_model_runner.py:2338] Starting to load model "
        "org/m...\n" + _TP1 + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 "
        "GiB. GPU 1 has a total capacity of 23.57 GiB of which 256.00 MiB is free.",
        "oom_weights",
        "load",
        remedies=(TP_UP, QUANTISE),
        severity=4.0,
    ),
    LogCase(
        "old_profiling_run",
        _TP1
        + '  File "worker.py", line 229, in determine_num_available_blocks\n'
        + _TP1
        + "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 3.00 GiB.",
        "oom_profile",
        "profile",
        tunable=True,
        remedies=(TOKENS_DOWN, SEQS_DOWN, Remedy("limit_mm_per_prompt", "down")),
    ),
    LogCase(
        "driver_out_of_memory_under_load",
        'INFO:     10.0.0.1:5100 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        + _CORE
        + "RuntimeError: CUDA error: out of memory",
        "oom_runtime",
        "serving",
        tunable=True,
        remedies=(UTIL_DOWN, TOKENS_DOWN),
    ),
    LogCase(
        "second_runner_warm_up",
        _TP1
        + '  File "vllm/v1/worker/gpu/warmup.py", line 40, in warmup_kernels\n'
        + _TP1
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.",
        "oom_sampler_warmup",
        "warmup",
        tunable=True,
        remedies=(SEQS_DOWN, UTIL_DOWN),
    ),
    LogCase(
        "nothing_fits_even_fitted",
        _CORE + "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to "
        "serve even a single token. Try increasing `gpu_memory_utilization`.\n" + CORE_FAILED,
        "kv_none",
        "kv_sizing",
        tunable=True,
        remedies=(UTIL_UP, TOKENS_DOWN, SEQS_DOWN, TP_UP),
    ),
)

MORE = (*FITTING, *STRANGE_MODELS, *MACHINES, *OTHER_MEMORY)
EVERY_FAILURE = (*FAILURES, *MORE)
EVERY = (*ALL, *MORE)
