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


def _died_worker(hit: Hit) -> Reading:
    return Reading(facts={"worker": hit.match["worker"], "exit_code": -9})


def _bytes_refused(hit: Hit) -> Reading:
    asked = hit.whole("bytes")
    gib = round(asked / 1024**3, 2) if asked else None
    return Reading(
        (Remedy("host_memory", "up"), Remedy("kv_cache_memory_bytes", "down")), {"asked_gib": gib}
    )


SURROUNDINGS = (
    Signature(
        "no_device",
        _re(
            r"Failed to infer device type|No CUDA GPUs are available"
            r"|CUDA driver initialization failed"
        ),
        Phase.INIT,
        _STOP,
        "the engine finds no device that it can use",
    ),
    Signature(
        "port_in_use",
        _re(r"\[Errno 98\].*[Aa]ddress already in use"),
        Phase.INIT,
        _RETRY,
        "the port is taken by another process",
    ),
    Signature(
        "memory_profile_race",
        _re(r"Error in memory profiling\. Initial free memory"),
        Phase.PROFILE,
        _RETRY,
        "another process freed GPU memory while the engine measured it",
    ),
    Signature(
        "host_oom",
        _re(r"Out of memory: Killed process|oom-kill:|\bOOMKilled\b"),
        None,
        _STOP,
        "the host ran out of memory and killed the engine",
        read=just(Remedy("host_memory", "up"), Remedy("mm_processor_cache_gb", "down")),
    ),
    Signature(
        "host_oom",
        _re(r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: -9\)"),
        None,
        _RETRY,
        "worker {worker} was killed, most likely for the host's memory",
        precedence=CONSEQUENCE,
        read=_died_worker,
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
        "nccl",
        _re(
            r"NCCL error|ncclUnhandledCudaError|unhandled system error|ncclSystemError"
            r"|creating shared memory segment /dev/shm"
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
        _re(r"KeyboardInterrupt: terminated|failed startup probe"),
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
