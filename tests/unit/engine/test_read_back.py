from __future__ import annotations

from objectives.measurement import EngineFacts
from tuner.engine.log_lines import read_lines
from tuner.engine.read_back import cache_config, engine_facts, startup_facts

NEW = """\
(APIServer pid=1) INFO 10-02 09:15:00 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0
(APIServer pid=1) INFO 10-02 09:15:00 [api_utils.py:286] non-default args: {'model': 'm', \
'max_num_seqs': 48}
(APIServer pid=1) INFO 10-02 09:15:00 [scheduler.py:307] Chunked prefill is enabled with \
max_num_batched_tokens=4096.
(Worker pid=3) INFO 10-02 09:15:01 [r.py:5150] Model loading took 7.5 GiB memory and 3.25 seconds
(Worker pid=3) INFO 10-02 09:15:20 [monitor.py:91] [backbone] torch.compile took 15.5 s in total
(Worker pid=3) INFO 10-02 09:15:22 [r.py:6475] Estimated CUDA graph memory: 0.5 GiB total
(Worker pid=3) INFO 10-02 09:15:22 [w.py:772] Available KV cache memory: 30.25 GiB
(Worker pid=3) INFO 10-02 09:15:22 [w.py:787] The current --gpu-memory-utilization=0.9200 is \
equivalent to --gpu-memory-utilization=0.9123 without CUDA graph memory profiling.
(EngineCore pid=2) INFO 10-02 09:15:23 [kv_cache_utils.py:2327] GPU KV cache size: 123,456 tokens, \
Maximum concurrency for 8,192 tokens per request: 15.07x
(Worker pid=3) INFO 10-02 09:15:30 [r.py:1] Graph capturing finished in 7 secs, took 0.75 GiB
(EngineCore pid=2) INFO 10-02 09:15:40 [core.py:404] init engine (profile, create kv cache, warmup \
model) took 40.5 s (compilation: 15.5 s)
"""
OLD = """\
INFO 03-27 16:43:19 api_server.py:712] vLLM API server version 0.8.5
INFO 03-27 16:43:19 api_server.py:713] args: Namespace(model='m', max_num_batched_tokens=2048, \
max_num_seqs=32, enable_chunked_prefill=False)
INFO 03-27 16:43:20 model_runner.py:1] Model loading took 14.25 GiB and 6.2 seconds
INFO 03-27 16:43:30 kv_cache_utils.py:578] GPU KV cache size: 9,000 tokens
INFO 03-27 16:43:30 kv_cache_utils.py:578] GPU KV cache size: 8,000 tokens
INFO 03-27 16:43:30 kv_cache_utils.py:581] Maximum concurrency for 4,096 tokens per request: 1.95x
INFO 03-27 16:43:40 core.py:1] init engine (profile, create kv cache, warmup model) took 9.8 seconds
"""
METRICS = """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",gpu_memory_utilization="0.85",\
kv_cache_max_concurrency="3.5",kv_cache_size_tokens="28672",num_gpu_blocks="1792"} 1.0
"""


def test_newest_start_up_log() -> None:
    facts = engine_facts(NEW, startup_s=61.5)

    assert facts == EngineFacts(
        version="0.32.0",
        kv_cache_tokens=123456,
        max_concurrency=15.07,
        weights_gib=7.5,
        kv_cache_gib=30.25,
        graph_gib=0.75,
        startup_s=61.5,
        max_num_seqs=48,
        max_num_batched_tokens=4096,
        chunked_prefill=True,
        gpu_memory_utilization=None,
        simulated=False,
    )


def test_everything_the_newest_log_tells_is_a_fact() -> None:
    assert startup_facts(read_lines(NEW)) == {
        "version": "0.32.0",
        "max_num_batched_tokens": 4096,
        "model_gib": 7.5,
        "load_s": 3.25,
        "compile_s": 15.5,
        "graph_est_gib": 0.5,
        "available_kv_gib": 30.25,
        "equiv_util": 0.9123,
        "kv_cache_tokens": 123456,
        "max_model_len": 8192,
        "max_concurrency": 15.07,
        "graph_gib": 0.75,
        "capture_s": 7.0,
        "init_engine_s": 40.5,
    }


def test_older_log_with_the_least_of_the_ranks() -> None:
    facts = engine_facts(OLD)

    assert facts.version == "0.8.5"
    assert facts.kv_cache_tokens == 8000
    assert facts.max_concurrency == 1.95
    assert (facts.max_num_seqs, facts.max_num_batched_tokens) == (32, 2048)
    assert facts.chunked_prefill is False


def test_engine_of_the_first_generation() -> None:
    log = (
        "INFO 01-02 10:00:00 engine.py:234] Initializing an LLM engine (v0.6.6) with config: x\n"
        "INFO 01-02 10:00:09 model_runner.py:1094] Loading model weights took 14.9605 GB\n"
        "INFO 01-02 10:00:12 worker.py:241] the rest of the memory reserved for KV Cache is "
        "5.06GiB.\n"
        "INFO 01-02 10:00:12 gpu_executor.py:76] # GPU blocks: 2589, # CPU blocks: 2048\n"
    )

    facts = engine_facts(log, 'vllm:cache_config_info{block_size="16",num_gpu_blocks="2589"} 1.0\n')

    assert (facts.version, facts.weights_gib, facts.kv_cache_gib) == ("0.6.6", 14.9605, 5.06)
    assert facts.kv_cache_tokens == 2589 * 16


def test_cpu_build() -> None:
    log = (
        "(Worker pid=3) INFO 10-02 09:15:00 [cpu_worker.py:260] Auto set (2.5/16.0) GiB for KV "
        "cache on node 0, with 3.29 GiB requested memory for the worker.\n"
        "(EngineCore pid=2) INFO 10-02 09:15:00 [k.py:1] CPU KV cache size: 32,768 tokens, "
        "Maximum concurrency for 4,096 tokens per request: 8.00x\n"
    )

    facts = engine_facts(log)

    assert (facts.kv_cache_gib, facts.kv_cache_tokens, facts.max_concurrency) == (2.5, 32768, 8.0)


def test_metrics_are_nearer_than_the_log() -> None:
    facts = engine_facts(NEW, METRICS)

    assert facts.kv_cache_tokens == 28672
    assert facts.max_concurrency == 3.5
    assert facts.gpu_memory_utilization == 0.85


def test_missing_is_unknown_and_never_zero() -> None:
    assert engine_facts("") == EngineFacts()
    assert engine_facts("", 'vllm:cache_config_info{block_size="None"} 1.0\n') == EngineFacts()


def test_labels_of_the_configuration_row() -> None:
    assert cache_config(METRICS)["num_gpu_blocks"] == "1792"
    assert cache_config("vllm:other 1.0\n") == {}


def test_a_simulated_engine_is_called_one() -> None:
    assert engine_facts("WARNING This engine is simulated: 1 x L4").simulated


def test_chunks_switched_off_by_the_user() -> None:
    log = "INFO [u.py:1] non-default args: {'enable_chunked_prefill': False}"

    assert engine_facts(log).chunked_prefill is False
    assert engine_facts("INFO [u.py:1] non-default args: {}").chunked_prefill is None
    asked = "INFO [u.py:1] non-default args: {'enable_chunked_prefill': True}"
    assert engine_facts(asked).chunked_prefill is True


def test_a_simulated_engine_tells_its_start_in_engine_time() -> None:
    line = (
        "(EngineCore pid=1) INFO 11-30 15:03:48 [simulator.py:1] This engine is simulated: "
        "1 x L4, 12 engine seconds per wall second; the start took 48.25 s of engine time\n"
    )
    assert engine_facts(line, startup_s=3.1).startup_s == 48.25
    assert engine_facts("", startup_s=3.1).startup_s == 3.1
