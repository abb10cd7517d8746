from __future__ import annotations

import pytest

from tests.support.study_documents import document, faults, load, the_fault
from tuner.domain.document import StudyContext
from tuner.domain.document_rules import Values, semantic_faults

CONSTANT = {"type": "constant", "value": 100}
LONG = {"type": "constant", "value": 9000}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"model": {}}, "model", "give either id or path"),
        ({"model": {"id": None, "path": None}}, "model", "give either id or path"),
        ({"model.path": "/models/x"}, "model", "give either id or path, not both"),
        ({"model.id": "/models/x"}, "model.id", "is a path"),
        ({"model.id": "./x"}, "model.id", "is a path"),
        ({"model.id": "~/x"}, "model.id", "is a path"),
        ({"model.id": "a b"}, "model.id", "is not a model's name"),
        ({"model.id": "-x"}, "model.id", "is not a model's name"),
        ({"model.id": "a/b/c"}, "model.id", "is not a model's name"),
        ({"model.id": "https://hub/x"}, "model.id", "is not a model's name"),
        (
            {"search_space.max_num_seqs": {"low": 9, "high": 8}},
            "search_space.max_num_seqs",
            "low 9 is greater than high 8",
        ),
        (
            {"search_space.gpu_memory_utilization": {"low": 0.9, "high": 0.8}},
            "search_space.gpu_memory_utilization",
            "low 0.9 is greater than high 0.8",
        ),
        (
            {"search_space.enable_chunked_prefill": {"choices": [True, True]}},
            "search_space.enable_chunked_prefill.choices",
            "the same choice twice",
        ),
        (
            {
                "search_space.max_num_seqs": {"low": 512, "high": 1024},
                "search_space.max_num_batched_tokens": {"low": 128, "high": 511},
            },
            "search_space.max_num_batched_tokens.high",
            "511 is less than max_num_seqs.low 512",
        ),
        (
            {"search_space.max_num_batched_tokens": {"low": 1, "high": 7}},
            "search_space.max_num_batched_tokens.high",
            "7 is less than max_num_seqs.low 8",
        ),
        (
            {
                "model.max_model_len": 40000,
                "search_space.enable_chunked_prefill": {"choices": [False]},
            },
            "search_space.max_num_batched_tokens.high",
            "32768 is less than max_model_len 40000, and chunked prefill is off",
        ),
        (
            {
                "engine.flags": {"max-model-len": 40000},
                "search_space.enable_chunked_prefill": {"choices": [False]},
            },
            "search_space.max_num_batched_tokens.high",
            "32768 is less than max_model_len 40000",
        ),
        (
            {"engine.flags": {"max-num-seqs": 4}},
            "engine.flags.max-num-seqs",
            "is searched and cannot also be fixed",
        ),
        (
            {"engine.flags": {"gpu-memory-utilization": 0.9}},
            "engine.flags.gpu-memory-utilization",
            "is searched and cannot also be fixed",
        ),
        (
            {
                "engine.flags": {"kv-cache-memory-bytes": 2**30},
                "search_space.kv_cache_memory_bytes": {"low": 2**28, "high": 2**30},
            },
            "engine.flags.kv-cache-memory-bytes",
            "is searched and cannot also be fixed",
        ),
        (
            {
                "search_space.gpu_memory_utilization": {"low": 0.5, "high": 0.9},
                "search_space.kv_cache_memory_bytes": {"low": 2**28, "high": 2**30},
            },
            "search_space.kv_cache_memory_bytes",
            "ignores gpu_memory_utilization",
        ),
        (
            {"search_space.kv_cache_memory_bytes": {"low": 2**30, "high": 2**28}},
            "search_space.kv_cache_memory_bytes",
            "is greater than high",
        ),
        (
            {"engine.flags": {"max-model-len": 4096}, "model.max_model_len": 8192},
            "engine.flags.max-model-len",
            "4096 contradicts model.max_model_len 8192",
        ),
        (
            {"engine.flags": {"max-model-len": "auto"}, "model.max_model_len": 8192},
            "engine.flags.max-model-len",
            "auto contradicts model.max_model_len 8192",
        ),
        (
            {
                "engine.flags": {"long-prefill-token-threshold": 9000},
                "model.max_model_len": 8192,
            },
            "engine.flags.long-prefill-token-threshold",
            "cannot be greater than the max_model_len (8192)",
        ),
        (
            {"workload": {"preset": "chat", "trace": {"file": "x.csv"}}},
            "workload",
            "gives preset and trace",
        ),
        (
            {
                "workload": {
                    "preset": "chat",
                    "lengths": {"prompt_tokens": CONSTANT, "output_tokens": CONSTANT},
                }
            },
            "workload",
            "gives preset and lengths",
        ),
        (
            {"workload": {"preset": "long-context-qa", "arrival": {"process": "trace"}}},
            "workload.arrival.process",
            "needs a recorded trace",
        ),
        (
            {
                "workload": {
                    "lengths": {"prompt_tokens": CONSTANT, "output_tokens": CONSTANT},
                    "arrival": {"process": "trace"},
                }
            },
            "workload.arrival.process",
            "needs a recorded trace",
        ),
        (
            {
                "objective": {"mode": "goodput", "slo": {"ttft_ms": 500}},
                "workload": {"arrival": {"process": "closed_loop", "concurrency": 8}},
            },
            "objective.mode",
            "a closed loop has none",
        ),
        (
            {"workload": {"trace": {"file": "x.csv", "scale": 2}}},
            "workload.trace.scale",
            "arrival.process is not trace",
        ),
        (
            {
                "workload": {
                    "trace": {"file": "x.csv", "scale": 2},
                    "arrival": {"process": "trace", "rate": 3},
                }
            },
            "workload.trace.scale",
            "arrival.rate both give a rate",
        ),
        (
            {
                "workload.lengths": {
                    "prompt_tokens": {"type": "uniform", "low": 9, "high": 8},
                    "output_tokens": CONSTANT,
                }
            },
            "workload.lengths.prompt_tokens",
            "low 9 is greater than high 8",
        ),
        (
            {
                "workload.lengths": {
                    "prompt_tokens": CONSTANT,
                    "output_tokens": {"type": "lognormal", "median": 5, "sigma": 1, "low": 10},
                }
            },
            "workload.lengths.output_tokens.median",
            "median 5 is outside [10, 131072]",
        ),
        (
            {
                "workload.lengths": {"prompt_tokens": LONG, "output_tokens": CONSTANT},
                "model.max_model_len": 9099,
            },
            "workload.lengths",
            "the shortest request has 9100 tokens, max_model_len is 9099",
        ),
        (
            {"model.max_model_len": 1},
            "model.max_model_len",
            "leaves no room for a token of prompt and one of output",
        ),
        (
            {"objective.weights": {"ttft_p95": 0, "tpot_p95": 0, "throughput": 0}},
            "objective.weights",
            "all weights are zero",
        ),
        (
            {
                "objective.weights": {"ttft_p95": 0, "tpot_p95": 0.0, "throughput": 0},
                "objective.mode": "pareto",
            },
            "objective.weights",
            "all weights are zero",
        ),
        ({"objective.slo": {}}, "objective.slo", "gives no limit"),
        ({"objective.slo": {"attainment": 0.9}}, "objective.slo", "gives no limit"),
        ({"objective.mode": "goodput"}, "objective.mode", "goodput needs objective.slo"),
        ({"confirmation.rounds": 15}, "confirmation.max_rounds", "14 is less than rounds 15"),
        ({"confirmation.max_rounds": 2}, "confirmation.max_rounds", "2 is less than rounds 3"),
        (
            {"deadlines.attempt_s": 99.0},
            "deadlines.attempt_s",
            "99 s is less than the load of one attempt, 100 s",
        ),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(
    changes: dict[str, object], path: str, message: str
) -> None:
    fault = the_fault(changes)
    assert fault.path == path
    assert message in fault.message


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"path": "models/x"}},
        {"model.id": "gpt2"},
        {"search_space.max_num_seqs": {"low": 8, "high": 8}},
        {"search_space.enable_chunked_prefill": {"choices": [False]}},
        {
            "model.max_model_len": 32768,
            "search_space.enable_chunked_prefill": {"choices": [False]},
        },
        {"model.max_model_len": 40000},
        {"engine.flags": {"kv-cache-memory-bytes": 2**30}},
        {
            "engine.flags": {"kv-cache-memory-bytes": 2**30},
            "search_space.gpu_memory_utilization": {"low": 0.9, "high": 0.9},
        },
        {"search_space.kv_cache_memory_bytes": {"low": 2**28, "high": 2**30}},
        {
            "search_space.gpu_memory_utilization": {"low": 0.9, "high": 0.9},
            "search_space.kv_cache_memory_bytes": {"low": 2**28, "high": 2**30},
        },
        {"engine.flags": {"max-model-len": 8192}, "model.max_model_len": 8192},
        {"engine.flags": {"max-model-len": -1}},
        {"baseline.flags": {"max-num-seqs": 256, "max-num-batched-tokens": 64}},
        {"workload": {"trace": {"file": "x.csv"}, "arrival": {"process": "trace"}}},
        {"workload": {"trace": {"file": "x.csv", "scale": 2}, "arrival": {"process": "trace"}}},
        {"workload": {"preset": "mixed", "arrival": {"process": "trace"}}},
        {"workload": {"arrival": {"process": "gamma", "cv": 3}}},
        {"workload": {"arrival": {"process": "ramp", "rate": 2}}},
        {"workload": {"arrival": {"rate": 2}}},
        {"workload": {"arrival": {"process": "trace"}}},
        {
            "objective.weights": {"ttft_p95": 0, "tpot_p95": 0, "throughput": 0},
            "objective.mode": "goodput",
            "objective.slo": {"ttft_ms": 500},
        },
        {"objective.weights": {"ttft_p95": 0, "tpot_p95": 0, "throughput": 0, "itl_p99": 1}},
        {"confirmation": {"rounds": 6}},
        {"deadlines.attempt_s": 100},
        {
            "workload.lengths": {"prompt_tokens": LONG, "output_tokens": CONSTANT},
            "model.max_model_len": 9100,
        },
        {
            "workload.lengths": {
                "prompt_tokens": {"type": "lognormal", "median": 10, "sigma": 0, "low": 10},
                "output_tokens": {"type": "uniform", "low": 8, "high": 8},
            }
        },
    ],
)
def test_a_document_at_the_edge_is_accepted(changes: dict[str, object]) -> None:
    assert faults(changes) == ()
    assert load(changes) is not None


def test_faults_of_meaning_carry_a_remedy() -> None:
    hints = [
        the_fault({"engine.flags": {"max-num-seqs": 4}}).hint,
        the_fault({"objective.mode": "goodput"}).hint,
        the_fault({"confirmation.rounds": 15}).hint,
        the_fault({"search_space.max_num_seqs": {"low": 9, "high": 8}}).hint,
    ]
    assert hints == [
        "fix it in search_space.max_num_seqs (low equal to high) or delete it here",
        "for example slo: {ttft_ms: 500, tpot_ms: 50}",
        "write 15 or more",
        "swap them",
    ]


CONTEXT = StudyContext(
    known_gpus=frozenset({"L4", "H100"}), known_models=frozenset({"Qwen/Qwen2.5-7B-Instruct"})
)


def test_an_unknown_simulated_gpu_is_refused_with_the_known_ones() -> None:
    fault = the_fault({"engine.gpu": "h100"}, CONTEXT)
    assert (fault.path, fault.message) == ("engine.gpu", '"h100" is not a known simulated GPU')
    assert fault.hint == "did you mean H100? Known: H100, L4"
    fault = the_fault({"engine.gpu": "RTX 4090"}, CONTEXT)
    assert fault.hint == "known: H100, L4"


def test_an_unknown_simulated_model_is_refused() -> None:
    fault = the_fault({"model.id": "Qwen/Qwen2.5-7B"}, CONTEXT)
    assert fault.path == "model.id"
    assert "is not a known simulated model" in fault.message
    assert "did you mean Qwen/Qwen2.5-7B-Instruct?" in (fault.hint or "")


def test_known_names_are_accepted_and_real_engines_know_more() -> None:
    assert faults({"engine.gpu": "H100"}, CONTEXT) == ()
    assert faults({"engine": {"kind": "vllm"}, "model.id": "my/model"}, CONTEXT) == ()
    assert faults({"model": {"path": "here"}}, CONTEXT) == ()


def test_without_a_list_every_name_may_be_known() -> None:
    assert faults({"engine.gpu": "RTX 9090", "model.id": "my/model"}) == ()


def test_flags_are_judged_against_the_version_when_it_is_known() -> None:
    changes = {"baseline.flags": {"swap-space": 4}}
    assert faults(changes, StudyContext(vllm_version="0.17.0")) == ()
    fault = the_fault(changes, StudyContext(vllm_version="0.33.0"))
    assert fault.path == "baseline.flags.swap-space"
    assert "vLLM 0.33.0 does not have it: it was removed in 0.18" in fault.message
    assert faults(changes) == ()


def test_rules_look_only_at_what_is_well_typed() -> None:
    changes = {
        "search_space.max_num_seqs": {"low": "9", "high": 8},
        "objective.weights": 3,
        "confirmation.rounds": "x",
        "engine.flags": 3,
        "workload": [],
    }
    assert semantic_faults(document(changes), StudyContext()) == ()


def test_a_partial_range_is_not_judged_against_a_default() -> None:
    assert (
        semantic_faults(document({"search_space.max_num_seqs": {"low": 5000}}), StudyContext())
        == ()
    )


def test_absent_keys_are_read_as_their_defaults() -> None:
    values = Values(document({"search_space.max_num_seqs": {"low": 5}, "confirmation": {}}))
    assert values.integer("search_space", "max_num_batched_tokens", "high") == 32768
    assert values.integer("search_space", "max_num_seqs", "low") == 5
    assert values.integer("search_space", "max_num_seqs", "high") is None
    assert values.integer("confirmation", "max_rounds") == 14
    assert values.number("objective", "weights", "throughput") == 1.0
    assert values.text("objective", "mode") == "weighted"
    assert values.text("engine", "gpu") == "L4"
    assert values.integer("nowhere", "at", "all") is None
    assert values.raw("confirmation", "max_rounds") is None
    assert values.mapping("model", "id") == {}
