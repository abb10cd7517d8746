"""Signatures of what is around an engine: device, port, host memory, interconnect, time."""

from __future__ import annotations

import re

from tuner.domain.diagnosis import Consequence, Phase, Remedy
from tuner.engine.signature import CONSEQUENCE, Hit, Reading, Signature, just

_re = re.compile
_INFEASIBLE, _RETRY, _STOP = Consequence.INFEASIBLE, Consequence.RETRY, Consequence.STOP_STUDY


def _waited(hit: Hit) -> Reading:
    waited_s = hit.whole("waited")
    value = 3 * waited_s if waited_s else None
    return Reading(
        (Remedy("env:VLLM_ENGINE_READY_TIMEOUT_S", "up", value),), {"waited_s": waited_s}
    )


def _killed_worker(hit: Hit) -> Reading:
    return Reading(facts={"worker": hit.match["worker"], "exit_code": hit.whole("code")})


def _bytes_refused(hit: Hit) -> Reading:
    asked = hit.whole("bytes")
    gib = round(asked / 1024**3, 2) if asked else None
    return Reading(
        (Remedy("host_memory", "up"), Remedy("kv_cache_memory_bytes", "down")), {"asked_gib": gib}
    )


MORE_HOST_MEMORY = (
    Remedy("host_memory", "up"),
    Remedy("load_format/streamer concurrency", "down"),
    Remedy("mm_processor_cache_gb", "down"),
    Remedy("swap_space(<=0.17)", "down", 0),
    Remedy("tensor_parallel_size", "up"),
)

SURROUNDINGS = (
    Signature(
        "no_device",
        _re(
            r"Failed to infer device type|No CUDA GPUs are available"
            r"|CUDA driver initialization failed|Found no NVIDIA driver on your system"
            r"|NVIDIA driver on your system is too old|CUDA driver version is insufficient"
            r"|no CUDA-capable device|No HIP GPUs are available|no ROCm-capable device"
            r"|no kernel image is available for execution|Unexpected error from cudaGetDeviceCount"
            r"|unsupported display driver / cuda driver combination"
            r"|lib(?:cuda|cudart|nvidia-ml)\.so\S*: cannot open shared object"
            r"|could not select device driver"
        ),
        Phase.INIT,
        _STOP,
        "the engine finds no device that it can use",
    ),
    Signature(
        "port_in_use",
        _re(
            r"\[Errno (?:98|48)\].*[Aa]ddress already in use|ZMQError: Address already in use"
            r"|\bEADDRINUSE\b"
        ),
        Phase.INIT,
        _RETRY,
        "the port is taken by another process",
    ),
    Signature(
        "memory_profile_race",
        _re(r"Error in memory profiling\. (?:Initial free memory|This happens when)"),
        Phase.PROFILE,
        _RETRY,
        "another process freed GPU memory while the engine measured it",
    ),
    Signature(
        "host_oom",
        _re(
            r"[Oo]ut of memory: Killed process|oom-kill:|\bOOMKilled\b|oom_reaper: reaped process"
            r"|Task was killed due to the node running low on memory|invoked oom-killer"
        ),
        None,
        _STOP,
        "the host or its memory limit ran out, and the engine was killed",
        read=just(*MORE_HOST_MEMORY),
    ),
    Signature(
        "host_oom",
        _re(r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: (?P<code>-9|137)\)"),
        None,
        _RETRY,
        "worker {worker} was killed, most likely for the host's memory",
        precedence=CONSEQUENCE,
        read=_killed_worker,
    ),
    Signature(
        "host_oom",
        _re(r"Failed core proc\(s\): \{[^}]*'(?P<worker>\w+)': (?P<code>-9|137)\b"),
        None,
        _RETRY,
        "engine core {worker} was killed, most likely for the host's memory",
        precedence=CONSEQUENCE,
        read=_killed_worker,
    ),
    Signature(
        "host_oom",
        _re(r"\[Errno 12\] Cannot allocate memory|\bMemoryError\b(?!\w)|std::bad_alloc"),
        None,
        _STOP,
        "the host has no memory left for the engine",
        read=just(*MORE_HOST_MEMORY),
    ),
    Signature(
        "host_oom",
        _re(r"can't allocate memory: you tried to allocate (?P<bytes>\d+) bytes"),
        None,
        _INFEASIBLE,
        "the host has not the memory that the engine asked for",
        tunable=True,
        read=_bytes_refused,
    ),
    Signature(
        "disk_full",
        _re(r"\[Errno 28\] No space left on device(?!: '?/(?:dev/shm|psm_))|\(os error 28\)"),
        None,
        _STOP,
        "a disk is full: the model's cache, the compile cache or the temporary directory",
        read=just(Remedy("disk_space", "up"), Remedy("download_dir", "set")),
    ),
    Signature(
        "nccl",
        _re(
            r"NCCL error|ncclUnhandledCudaError|unhandled system error|ncclSystemError"
            r"|shared memory segment /dev/shm|ncclInternalError|ncclInvalidUsage|ncclRemoteError"
            r"|[Uu]nexpected bus error|\bSIGBUS\b|Duplicate GPU detected|ibv_reg_mr failed"
            r"|Watchdog caught collective operation timeout"
            r"|No space left on device: '?/(?:dev/shm/)?(?:psm_|nccl-|sem\.|torch_)"
        ),
        None,
        _RETRY,
        "the GPUs cannot talk to each other, often for want of shared memory",
        precedence=CONSEQUENCE,
        read=just(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "startup_timeout",
        _re(r"Timed out waiting for engine core processes to start(?:.*?Waited (?P<waited>\d+)s)?"),
        None,
        _RETRY,
        "the engine's own start-up deadline ran out",
        precedence=CONSEQUENCE,
        read=_waited,
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "startup_timeout",
        _re(
            r"KeyboardInterrupt: terminated|[Ff]ailed startup probe|Startup probe failed"
            r"|Timed out waiting for engines? to send initial message"
            r"|Did not receive response from front-end process"
        ),
        None,
        _RETRY,
        "the engine was told to end before it had started",
        precedence=CONSEQUENCE,
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "hang",
        _re(r"RPC call to (?P<method>\w+) timed out"),
        None,
        _RETRY,
        "a worker did not answer {method}",
        precedence=CONSEQUENCE,
        phase_unknown=Phase.SERVING,
    ),
)
