from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tests.support.simulated_server import launch_of, log_into
from tuner.simulator.server.arguments import read_arguments
from tuner.simulator.server.startup_log import EngineStart, write_banner, write_config
from tuner.simulator.simulator_options import STARTUP_FAILURES

PREFIXED = re.compile(
    r"\((APIServer|EngineCore|Worker_TP0) pid=4711\) (INFO|WARNING|ERROR) "
    r"\d\d-\d\d \d\d:\d\d:\d\d \[\w+\.py:\d+\] ?(.*)"
)
MILESTONES = (
    "Resolved architecture: ",
    "Using max model len 32768",
    "Chunked prefill is enabled with max_num_batched_tokens=2048.",
    "Initializing a V1 LLM engine (v0.32.0) with config: ",
    "Starting to load model ",
    "Model loading took ",
    "Estimated CUDA graph memory: ",
    "Available KV cache memory: ",
    "GPU KV cache size: ",
    "Graph capturing finished in ",
    "init engine (profile, create kv cache, warmup model) took ",
    "This engine is simulated: 1 x L4",
)
WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore': 1}"
)


def start_log(*flags: str) -> str:
    stream = io.StringIO()
    launch = launch_of(*flags)
    write_config(log_into(stream), launch)
    EngineStart(log_into(stream), launch).write()
    return stream.getvalue()


def messages(log: str) -> list[str]:
    found = [PREFIXED.fullmatch(line) for line in log.splitlines()]
    return [match.group(3) for match in found if match]


def test_a_start_passes_the_milestones_in_order() -> None:
    said = messages(start_log())

    positions = [
        next(index for index, text in enumerate(said) if text.startswith(milestone))
        for milestone in MILESTONES
    ]
    assert positions == sorted(positions)


def test_the_kv_line_states_tokens_and_concurrency_of_the_account() -> None:
    launch = launch_of("--max-model-len", "4096")
    said = "\n".join(messages(start_log("--max-model-len", "4096")))

    match = re.search(
        r"GPU KV cache size: ([\d,]+) tokens, Maximum concurrency for 4,096 tokens per request: "
        r"([\d.]+)x",
        said,
    )
    assert match is not None
    assert int(match[1].replace(",", "")) == launch.account.kv_cache_tokens
    assert float(match[2]) == pytest.approx(launch.account.max_concurrency, abs=0.005)


def test_eager_mode_neither_compiles_nor_captures() -> None:
    log = start_log("--enforce-eager")

    assert "Enforce eager set" in log
    assert "torch.compile took" not in log
    assert "Graph capturing" not in log
    assert "(compilation: 0.00 s)" in log


def test_switching_chunked_prefill_off_warns_instead_of_announcing() -> None:
    log = start_log("--no-enable-chunked-prefill")

    assert "Chunked prefill is enabled" not in log
    assert "does not officially support disabling chunked prefill" in log


def test_more_tokens_than_sequences_can_have_is_warned_about() -> None:
    log = start_log("--max-num-seqs", "2", "--max-model-len", "512", *TOKENS_8192)

    assert "max_num_batched_tokens (8192) exceeds max_num_seqs * max_model_len (1024)" in log


TOKENS_8192 = ("--max-num-batched-tokens", "8192")

LAST_BEFORE = {
    "gpu_memory_busy": "world_size=1",
    "oom_weights": "Starting to load model",
    "oom_profile": "Model loading took",
    "kv_none": "Available KV cache memory",
    "kv_too_small": "Available KV cache memory",
    "oom_capture": "GPU KV cache size",
    "oom_sampler_warmup": "Free memory on device",
}
CAUSES = {
    "gpu_memory_busy": r"ValueError: Free memory on device cuda:0 \(1\.\d+/22\.00 GiB\) on startup "
    r"is less than desired GPU memory utilization \(0\.92, 20\.24 GiB\)",
    "oom_weights": r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate 2\.00 GiB\. "
    r"GPU 0 has a total capacity of 22\.00 GiB of which 512\.00 MiB is free\.",
    "oom_profile": r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate",
    "kv_none": r"ValueError: No available memory for the cache blocks\. Try increasing",
    "kv_too_small": r"ValueError: To serve at least one request with the model's max seq len "
    r"\(32768\), \([\d.]+ GiB KV cache is needed, which is larger than the available KV cache "
    r"memory \([\d.]+ GiB\)\. Based on the available memory, the estimated maximum model length "
    r"is 16384\.",
    "oom_capture": r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate",
    "oom_sampler_warmup": r"RuntimeError: CUDA out of memory occurred when warming up sampler "
    r"with 256 dummy requests\. Please try lowering `max_num_seqs` or `gpu_memory_utilization`",
}


def failing(name: str) -> tuple[str, ...]:
    if name == "gpu_memory_busy":
        return ("--sim-gpu-busy-gib", "20")
    return ("--sim-startup-failure", name)


@pytest.mark.parametrize("name", ["gpu_memory_busy", *STARTUP_FAILURES])
def test_a_failing_start_ends_where_it_fails(name: str) -> None:
    log = start_log(*failing(name))

    infos = [line for line in log.splitlines() if " INFO " in line]
    assert LAST_BEFORE[name] in infos[-1]
    assert re.search(CAUSES[name], log)
    assert log.splitlines()[-1] == WRAPPER
    assert "init engine" not in log


def test_the_frames_tell_the_phase() -> None:
    assert "in profile_run" in start_log("--sim-startup-failure", "oom_profile")
    assert "in capture_model" in start_log("--sim-startup-failure", "oom_capture")
    assert "in load_model" in start_log("--sim-startup-failure", "oom_weights")


def test_weights_that_do_not_fit_come_with_vllms_misleading_advice() -> None:
    log = start_log("--sim-startup-failure", "oom_weights")

    assert "Failed to load model - not enough GPU memory. Try lowering" in log


def test_with_several_devices_the_worker_fails_and_the_engine_core_wraps() -> None:
    flags = ("--sim-gpu-count", "2", "--tensor-parallel-size", "2")
    log = start_log("--sim-startup-failure", "kv_none", *flags)

    assert re.search(r"\(Worker_TP0 pid=4711\) ERROR .*No available memory for the cache", log)
    assert re.search(r"\(EngineCore pid=4711\) ERROR .*Worker failed with error 'No available", log)


@pytest.mark.parametrize(
    ("flags", "failure"),
    [
        (("--gpu-memory-utilization", "1.0"), "gpu_memory_busy"),
        (("--gpu-memory-utilization", "0.05"), "kv_none"),
        (("--num-gpu-blocks-override", "12"), "kv_too_small"),
        (("--max-num-batched-tokens", "4M", "--gpu-memory-utilization", "0.9"), "oom_profile"),
    ],
)
def test_the_memory_account_decides_how_a_start_fails(flags: tuple[str, ...], failure: str) -> None:
    launch = launch_of(*flags)

    assert launch.failure is not None
    assert launch.failure.failure_class == failure
    assert re.search(CAUSES[failure].split(r"\(", 1)[0], start_log(*flags))


def test_auto_length_fits_the_context_to_the_memory() -> None:
    small = ("--kv-cache-memory-bytes", "64M")

    assert launch_of(*small).failure is not None
    fitted = launch_of(*small, "--max-model-len", "auto")
    assert fitted.failure is None
    assert 0 < fitted.max_model_len <= fitted.account.kv_cache_tokens


def test_the_banner_names_version_model_and_arguments_but_no_secret() -> None:
    stream = io.StringIO()
    line = "M --port 9 --served-model-name a b --api-key hush"
    arguments = read_arguments(line.split(" "))

    write_banner(log_into(stream), arguments)

    log = stream.getvalue()
    assert "version 0.32.0" in log
    assert "model   M" in log
    assert "hush" not in log
    assert (
        "non-default args: {'model_tag': 'M', 'model': 'M', 'api_key': '***', 'port': 9, "
        "'served_model_name': ['a', 'b']}"
    ) in log


def test_a_local_directory_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"architectures": ["TinyForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, '
        '"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, '
        '"num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512}'
    )

    launch = launch_of(model=str(tmp_path))

    assert launch.architecture == "TinyForCausalLM"
    assert (launch.model.vocab, launch.max_model_len) == (1000, 512)
    assert launch.failure is None
