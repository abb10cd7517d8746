from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulator.server.openai_requests import (
    GenerationRequest,
    Kind,
    ServedModel,
    natural_length,
    parse_body,
    read_request,
)
from tuner.simulator.server.rejections import RejectedRequestError
from tuner.simulator.server.tokens import SimulatedTokenizer

MODEL = ServedModel(("m", "alias"), "root/m", max_model_len=100, vocabulary_size=1000)
TOKENIZER = SimulatedTokenizer(1000)


def read(kind: Kind = "completion", served: ServedModel = MODEL, **body: Any) -> GenerationRequest:
    return read_request(body, kind, served, TOKENIZER)


def refusal(kind: Kind = "completion", **body: Any) -> RejectedRequestError:
    with pytest.raises(RejectedRequestError) as caught:
        read(kind, **body)
    return caught.value


def test_a_plain_completion_has_vllms_defaults() -> None:
    request = read(prompt=[1, 2, 3], ignore_eos=True)

    assert request.model == "m"
    assert not request.stream
    assert [choice.prompt for choice in request.choices] == [[1, 2, 3]]
    assert request.choices[0].output_tokens == 16


def test_a_chat_without_limit_may_fill_the_context() -> None:
    request = read("chat", messages=[{"role": "user", "content": "hi"}], ignore_eos=True)

    choice = request.choices[0]
    assert choice.output_tokens == choice.max_tokens == 100 - len(choice.prompt)


@pytest.mark.parametrize("limit", [{"max_tokens": 7}, {"max_completion_tokens": 7}])
def test_a_chat_takes_either_name_of_the_limit(limit: dict[str, Any]) -> None:
    request = read("chat", messages=[{"role": "user", "content": "hi"}], ignore_eos=True, **limit)

    assert request.choices[0].output_tokens == 7


def test_chat_content_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "a b"}, {"type": "image_url", "image_url": {}}]
    split = read("chat", messages=[{"role": "user", "content": parts}])
    whole = read("chat", messages=[{"role": "user", "content": "a b\n"}])

    assert split.choices[0].prompt == whole.choices[0].prompt


def test_the_limit_is_clamped_to_the_context() -> None:
    request = read(prompt=[1] * 60, max_tokens=200, ignore_eos=True)

    assert request.choices[0].output_tokens == 40


def test_a_prompt_that_fills_the_context_has_vllms_message() -> None:
    error = refusal(prompt=[1] * 100, max_tokens=5)

    assert error.status == 400
    assert error.message.startswith("max_tokens must be at least 1, got 0.")


def test_a_prompt_beyond_the_context_states_both_lengths() -> None:
    error = refusal(prompt=[1] * 130, max_tokens=5)

    assert "This model's maximum context length is 100 tokens." in error.message
    assert "your prompt contains at least 130 input tokens" in error.message


def test_lists_of_prompts_and_n_make_choices_in_vllms_order() -> None:
    request = read(prompt=["aaab", "aaac"], n=2, ignore_eos=True)

    assert [choice.prompt for choice in request.choices] == [[1], [1], [2], [2]]
    assert len({choice.seed for choice in request.choices}) == 4


def test_token_prompts_in_a_list_stay_as_they_are() -> None:
    assert [c.prompt for c in read(prompt=[[1, 2], [3]]).choices] == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": [5, 1000]}, "Token id 1000 is out of vocabulary"),
        ({"prompt": [-1]}, "Input should be greater than or equal to 0"),
        ({}, "Either prompt or prompt_embeds must be provided and non-empty."),
        ({"prompt": []}, "Either prompt or prompt_embeds must be provided"),
        ({"prompt": ""}, "The decoder prompt cannot be empty"),
        ({"prompt": [1, "a"]}, "Input should be a valid list"),
        ({"prompt": [True]}, "Input should be a valid list"),
        ({"prompt": [1], "max_tokens": "x"}, "Input should be a valid integer"),
        ({"prompt": [1], "max_tokens": True}, "Input should be a valid integer"),
        ({"prompt": [1], "max_tokens": 0}, "max_tokens must be at least 1, got 0."),
        ({"prompt": [1], "n": 0}, "Input should be greater than or equal to 1"),
        ({"prompt": [1], "stream": "yes"}, "Input should be a valid boolean"),
        ({"prompt": [1], "seed": 2**70}, "Input should fit into 64 bits"),
        (
            {"prompt": [1], "max_tokens": 3, "min_tokens": 5},
            "min_tokens must be less than or equal to max_tokens=3, got 5.",
        ),
        (
            {"prompt": [1], "stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
        ),
        (
            {"prompt": [1], "stream": True, "stream_options": 3},
            "Input should be a valid dictionary",
        ),
        ({"prompt": [1], "request_id": 7}, "valid string"),
        ({"prompt": [1], "cache_salt": ""}, "'cache_salt' must be a non-empty string"),
        ({"prompt": [1], "priority": 3}, "Got priority 3 but Priority scheduling is not enabled."),
    ],
)
def test_a_bad_field_is_answered_with_400(body: dict[str, Any], message: str) -> None:
    error = refusal(**body)

    assert error.status == 400
    assert message in error.message


@pytest.mark.parametrize("messages", [None, [], "hi", [{"content": "no role"}], ["hi"]])
def test_a_chat_needs_messages_with_roles(messages: object) -> None:
    assert refusal("chat", messages=messages).parameter == "messages"


def test_an_unknown_model_is_404_and_comes_first() -> None:
    error = refusal(model="other", prompt=None)

    assert (error.status, error.parameter) == (404, "model")
    assert error.message == "The model `other` does not exist."


def test_any_served_name_is_answered_under_that_name() -> None:
    assert read(model="alias", prompt=[1]).model == "alias"


def test_priority_is_passed_on_where_it_is_scheduled() -> None:
    model = ServedModel(("m",), "m", 100, 1000, priority_scheduling=True)

    assert read(served=model, prompt=[1], priority=-2).priority == -2


@pytest.mark.parametrize(
    ("options", "usage", "continuous"),
    [
        (None, False, False),
        ({}, True, False),
        ({"include_usage": False, "continuous_usage_stats": True}, False, False),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
    ],
)
def test_stream_options(options: dict[str, bool] | None, usage: bool, continuous: bool) -> None:
    request = read(prompt=[1], stream=True, stream_options=options)

    assert (request.include_usage, request.continuous_usage) == (usage, continuous)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=90), st.integers(1, 10))
def test_an_answer_is_the_same_every_time_and_within_its_limit(
    prompt: list[int], limit: int
) -> None:
    one = read(prompt=prompt, max_tokens=limit).choices[0]

    assert one == read(prompt=list(prompt), max_tokens=limit).choices[0]
    assert 1 <= one.output_tokens <= min(limit, 100 - len(prompt))
    assert one.stops_naturally or one.output_tokens == one.max_tokens


def test_answers_end_by_themselves_at_various_lengths() -> None:
    lengths = [natural_length(seed) for seed in range(300)]

    assert min(lengths) >= 1
    assert 120 < sorted(lengths)[150] < 260
    assert len(set(lengths)) > 100


def test_min_tokens_delays_the_natural_end() -> None:
    model = ServedModel(("m",), "m", 10_000, 1000)
    prompts = [[token] for token in range(50)]

    for prompt in prompts:
        choice = read(served=model, prompt=prompt, max_tokens=5000, min_tokens=900).choices[0]
        assert choice.output_tokens >= 900


def test_ignoring_the_end_of_sequence_gives_exactly_the_limit() -> None:
    model = ServedModel(("m",), "m", 10_000, 1000)

    choice = read(served=model, prompt=[1], max_tokens=5000, ignore_eos=True).choices[0]

    assert (choice.output_tokens, choice.stops_naturally) == (5000, False)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a": nope}', b"\xff\xfe{}"])
def test_a_body_that_is_no_json_is_400(raw: bytes) -> None:
    with pytest.raises(RejectedRequestError, match="JSON decode error") as caught:
        parse_body(raw)
    assert caught.value.status == 400


def test_a_body_that_is_no_object_is_400() -> None:
    with pytest.raises(RejectedRequestError, match="valid dictionary"):
        parse_body(b"[1]")
