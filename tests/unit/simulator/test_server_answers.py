from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulator.requests import EngineRequest
from tuner.simulator.server.answers import AnswerIdentity, CollectedAnswer, StreamedAnswer
from tuner.simulator.server.openai_requests import Choice, GenerationRequest, Kind
from tuner.simulator.server.rejections import ENGINE_DEAD, RejectedRequestError
from tuner.simulator.server.sequence import Sequence, Sink
from tuner.simulator.server.tokens import SimulatedTokenizer

TOKENIZER = SimulatedTokenizer(5000)
IDENTITY = AnswerIdentity("cmpl-x", created=17, model='quoted "model"')
SEED = 99


def request_for(
    output: int, *, n: int = 1, kind: Kind = "completion", stops: bool = False, **changes: Any
) -> GenerationRequest:
    choice = Choice([1, 2, 3], output, output + int(stops), stops, SEED)
    defaults: dict[str, Any] = {
        "stream": True,
        "include_usage": True,
        "continuous_usage": False,
        "return_token_ids": False,
        "priority": 0,
        "cache_salt": None,
    }
    return GenerationRequest(
        kind=kind, model="m", choices=(choice,) * n, n=n, **{**defaults, **changes}
    )


def sequences_for(request: GenerationRequest, sink: Sink) -> list[Sequence]:
    return [
        Sequence(
            request=EngineRequest(index, 0.0, 3, choice.output_tokens),
            sink=sink,
            response_id="cmpl-x",
            choice=index,
            n=request.n,
            seed=choice.seed,
            max_tokens=choice.max_tokens,
            stops_naturally=choice.stops_naturally,
        )
        for index, choice in enumerate(request.choices)
    ]


def advance(sequence: Sequence, count: int) -> None:
    """What the engine does: `count` tokens more, with the reason when they are the last."""
    sequence.generated += count
    if sequence.generated == sequence.request.output_tokens:
        sequence.finish_reason = "stop" if sequence.stops_naturally else "length"
    sequence.sink.deliver(sequence, count)


class Wire:
    """Collects what is written; `events` are the data of the frames so far."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    @property
    def events(self) -> list[Any]:
        frames = b"".join(self.written).split(b"\n\n")
        assert frames.pop() == b""
        data = [frame.removeprefix(b"data: ") for frame in frames]
        return ["[DONE]" if item == b"[DONE]" else json.loads(item) for item in data]


def within_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def text_of(events: list[Any]) -> str:
    parts = [choice for event in events for choice in event["choices"]]
    return "".join(
        part["text"] if "text" in part else part["delta"].get("content", "") for part in parts
    )


CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=12)


@given(CUTS, st.booleans(), st.sampled_from(["completion", "chat"]))
def test_however_tokens_are_merged_text_and_counts_are_the_same(
    cuts: list[int], stops: bool, kind: Kind
) -> None:
    output = sum(cuts)

    async def check() -> None:
        request, wire = request_for(output, kind=kind, stops=stops), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        for count in cuts:
            assert not answer.done.done()
            advance(sequence, count)
        *chunks, usage, done = wire.events
        shown = output - int(stops)
        assert text_of(chunks) == TOKENIZER.generated_text(SEED, 0, shown).decode()
        assert usage["usage"]["completion_tokens"] == output
        assert done == "[DONE]"
        assert answer.done.done()
        assert len(wire.written) == len(cuts), "one write for each delivery"
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
        assert reasons[-1] == ("stop" if stops else "length")
        assert set(reasons[:-1]) <= {None}

    within_loop(check)


@given(CUTS)
def test_token_ids_of_merged_chunks_are_those_of_the_text(cuts: list[int]) -> None:
    async def check() -> None:
        request, wire = request_for(sum(cuts), return_token_ids=True), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        for count in cuts:
            advance(sequence, count)
        for chunk in wire.events[:-2]:
            choice = chunk["choices"][0]
            assert TOKENIZER.encode(choice["text"]) == choice["token_ids"]

    within_loop(check)


def test_every_document_repeats_the_identity() -> None:
    async def check() -> None:
        request, wire = request_for(3), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        for _ in range(3):
            advance(sequence, 1)
        for event in wire.events[:-1]:
            assert event["id"] == "cmpl-x"
            assert event["created"] == 17
            assert event["model"] == 'quoted "model"'
            assert event["object"] == "text_completion"

    within_loop(check)


def test_the_fields_of_a_chunk_are_vllms() -> None:
    async def check() -> None:
        request, wire = request_for(2), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        advance(sequence, 1)
        advance(sequence, 1)
        for chunk in wire.events[:-2]:
            assert list(chunk) == ["id", "object", "created", "model", "choices"]
            assert list(chunk["choices"][0]) == [
                "index",
                "text",
                "logprobs",
                "finish_reason",
                "stop_reason",
                "prompt_token_ids",
                "token_ids",
            ]

    within_loop(check)


def test_a_stream_ends_when_its_last_choice_does() -> None:
    async def check() -> None:
        request, wire = request_for(2, n=2), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        one, two = answer.sequences = sequences_for(request, answer)
        advance(one, 1)
        advance(one, 1)
        assert not answer.done.done()
        assert "[DONE]" not in wire.events
        advance(two, 2)
        assert answer.done.done()
        assert [event["choices"][0]["index"] for event in wire.events[:-2]] == [0, 0, 1]
        assert wire.events[-2]["usage"] == {
            "prompt_tokens": 3,
            "total_tokens": 7,
            "completion_tokens": 4,
        }

    within_loop(check)


def test_without_usage_the_stream_just_ends() -> None:
    async def check() -> None:
        request, wire = request_for(1, include_usage=False), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        advance(sequence, 1)
        assert len(wire.events) == 2
        assert wire.events[1] == "[DONE]"

    within_loop(check)


def test_a_failing_stream_says_so_once() -> None:
    async def check() -> None:
        request, wire = request_for(5), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        advance(sequence, 1)
        answer.fail(ENGINE_DEAD)
        answer.fail(ENGINE_DEAD)
        assert answer.done.done()
        chunk, error, done = wire.events
        assert chunk["choices"][0]["finish_reason"] is None
        assert error["error"] == {
            "message": ENGINE_DEAD,
            "type": "InternalServerError",
            "param": None,
            "code": 500,
        }
        assert done == "[DONE]"

    within_loop(check)


@pytest.mark.parametrize("generated", [0, 3])
def test_an_aborted_stream_has_a_last_chunk_only_if_it_had_a_first(generated: int) -> None:
    async def check() -> None:
        request, wire = request_for(10), Wire()
        answer = StreamedAnswer(request, IDENTITY, TOKENIZER, wire.written.append)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        if generated:
            advance(sequence, generated)
        sequence.finish_reason = "abort"
        answer.deliver(sequence, 0)
        chunks = wire.events[:-2]
        assert wire.events[-2]["usage"]["completion_tokens"] == generated
        if generated:
            last = chunks[-1]["choices"][0]
            assert (last["text"], last["finish_reason"]) == ("", "abort")
        else:
            assert chunks == []

    within_loop(check)


@given(CUTS, st.booleans(), st.sampled_from(["completion", "chat"]))
def test_a_collected_answer_is_the_stream_put_together(
    cuts: list[int], stops: bool, kind: Kind
) -> None:
    output = sum(cuts)

    async def check() -> None:
        request = request_for(output, kind=kind, stops=stops, stream=False)
        answer = CollectedAnswer(request, IDENTITY, TOKENIZER)
        (sequence,) = answer.sequences = sequences_for(request, answer)
        for count in cuts:
            advance(sequence, count)
        document = json.loads(await answer.done)
        (choice,) = document["choices"]
        text = choice["text"] if kind == "completion" else choice["message"]["content"]
        shown = output - int(stops)
        assert text == TOKENIZER.generated_text(SEED, 0, shown).decode()
        assert document["usage"]["completion_tokens"] == output
        assert document["usage"]["prompt_tokens"] == 3

    within_loop(check)


def test_a_collected_answer_that_fails_raises_for_who_waits() -> None:
    async def check() -> None:
        request = request_for(3, stream=False)
        answer = CollectedAnswer(request, IDENTITY, TOKENIZER)
        answer.fail(ENGINE_DEAD)
        answer.fail(ENGINE_DEAD)
        with pytest.raises(RejectedRequestError) as caught:
            await answer.done
        assert caught.value.status == 500
        assert json.loads(caught.value.document())["error"]["code"] == 500

    within_loop(check)


def test_several_collected_answers_count_their_prompt_once() -> None:
    async def check() -> None:
        request = request_for(4, n=3, stream=False, return_token_ids=True)
        answer = CollectedAnswer(request, IDENTITY, TOKENIZER)
        answer.sequences = sequences_for(request, answer)
        for sequence in reversed(answer.sequences):
            assert not answer.done.done()
            advance(sequence, 4)
        document = json.loads(await answer.done)
        assert [choice["index"] for choice in document["choices"]] == [0, 1, 2]
        assert document["usage"]["prompt_tokens"] == 3
        assert document["usage"]["completion_tokens"] == 12
        assert all(choice["prompt_token_ids"] == [1, 2, 3] for choice in document["choices"])
        assert all(len(choice["token_ids"]) == 4 for choice in document["choices"])

    within_loop(check)
