from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientResponse

from tests.support.simulated_server import MODEL, Served, run_served, until


async def events_of(response: ClientResponse) -> list[Any]:
    """The data of each event, `[DONE]` as text."""
    text = await response.text()
    frames = [frame for frame in text.split("\n\n") if frame]
    assert all(frame.startswith("data: ") for frame in frames)
    data = [frame.removeprefix("data: ") for frame in frames]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


async def stream(served: Served, path: str = "/v1/completions", **body: Any) -> list[Any]:
    response = await served.client.post(path, json={"stream": True, "ignore_eos": True, **body})
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    return await events_of(response)


def test_a_completion_has_exact_counts_and_vllms_fields() -> None:
    async def check(served: Served) -> None:
        document = await served.complete(prompt=[1, 2, 3], max_tokens=5, ignore_eos=True)
        assert document["id"].startswith("cmpl-")
        assert document["object"] == "text_completion"
        assert document["model"] == MODEL
        (choice,) = document["choices"]
        assert choice["finish_reason"] == "length"
        assert len(choice["text"].split()) == 5
        assert document["usage"] == {
            "prompt_tokens": 3,
            "total_tokens": 8,
            "completion_tokens": 5,
        }

    run_served(check)


def test_a_stream_carries_the_same_text_token_by_token() -> None:
    async def check(served: Served) -> None:
        body: dict[str, Any] = {"prompt": [1, 2, 3], "max_tokens": 6}
        whole = await served.complete(**body, ignore_eos=True)
        events = await stream(served, **body, stream_options={"include_usage": True})
        assert events[-1] == "[DONE]"
        usage, chunks = events[-2], events[:-2]
        assert usage["choices"] == []
        assert usage["usage"] == whole["usage"]
        assert all("usage" not in chunk for chunk in chunks)
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        assert text == whole["choices"][0]["text"]
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
        assert reasons == [None] * (len(chunks) - 1) + ["length"]
        assert len({chunk["id"] for chunk in events[:-1]}) == 1

    run_served(check)


def test_a_chat_stream_opens_with_the_role_and_no_content() -> None:
    async def check(served: Served) -> None:
        messages = [{"role": "user", "content": "hello"}]
        events = await stream(served, "/v1/chat/completions", messages=messages, max_tokens=3)
        first, *rest = events[:-1]
        assert first["object"] == "chat.completion.chunk"
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert first["choices"][0]["finish_reason"] is None
        assert all(set(chunk["choices"][0]["delta"]) == {"content"} for chunk in rest)
        assert rest[-1]["choices"][0]["finish_reason"] == "length"
        text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in rest)
        assert len(text.split()) == 3
        assert events[-1] == "[DONE]"

    run_served(check)


def test_a_chat_answer_is_a_message() -> None:
    async def check(served: Served) -> None:
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        response = await served.client.post("/v1/chat/completions", json=body)
        document = await response.json()
        message = document["choices"][0]["message"]
        assert message["role"] == "assistant"
        assert document["usage"]["prompt_tokens"] == 8
        counted = await served.client.post("/tokenize", json={"prompt": message["content"]})
        assert (await counted.json())["count"] <= document["usage"]["completion_tokens"]

    run_served(check)


def test_continuous_usage_counts_up_to_the_total() -> None:
    async def check(served: Served) -> None:
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = await stream(served, prompt=[1], max_tokens=5, stream_options=options)
        counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
        assert counts == sorted(counts)
        assert counts[-2:] == [5, 5]

    run_served(check)


def test_token_ids_are_returned_on_request() -> None:
    async def check(served: Served) -> None:
        events = await stream(served, prompt=[7, 8], max_tokens=4, return_token_ids=True)
        choices = [event["choices"][0] for event in events[:-1]]
        assert choices[0]["prompt_token_ids"] == [7, 8]
        assert all(choice["prompt_token_ids"] is None for choice in choices[1:])
        tokens = [token for choice in choices for token in choice["token_ids"]]
        assert len(tokens) == 4
        response = await served.client.post("/detokenize", json={"tokens": tokens})
        text = "".join(choice["text"] for choice in choices)
        assert (await response.json())["prompt"] == text

    run_served(check)


def test_several_prompts_and_answers_interleave_in_one_stream() -> None:
    async def check(served: Served) -> None:
        events = await stream(
            served,
            prompt=[[1], [2, 3]],
            n=2,
            max_tokens=3,
            stream_options={"include_usage": True},
        )
        usage = events[-2]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 12)
        ends = [e["choices"][0] for e in events[:-2] if e["choices"][0]["finish_reason"]]
        assert sorted(choice["index"] for choice in ends) == [0, 1, 2, 3]

    run_served(check)


def test_an_answer_that_ends_by_itself_says_stop_and_counts_its_last_token() -> None:
    async def check(served: Served) -> None:
        document = await served.complete(prompt=[5], max_tokens=8000)
        choice = document["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert document["usage"]["completion_tokens"] == len(choice["text"].split()) + 1
        assert (
            document["choices"] == (await served.complete(prompt=[5], max_tokens=8000))["choices"]
        )

    run_served(check)


def test_the_request_id_of_the_client_is_kept() -> None:
    async def check(served: Served) -> None:
        response = await served.client.post(
            "/v1/completions",
            json={"prompt": [1], "max_tokens": 1},
            headers={"X-Request-Id": "mine"},
        )
        assert (await response.json())["id"] == "cmpl-mine"

    run_served(check)


@pytest.mark.parametrize(
    ("path", "raw", "status", "kind"),
    [
        ("/v1/completions", b'{"prompt": [1]', 400, "BadRequestError"),
        ("/v1/completions", b'{"model": "x", "prompt": [1]}', 404, "NotFoundError"),
        ("/v1/completions", b'{"prompt": [99999999]}', 400, "BadRequestError"),
        ("/v1/chat/completions", b"{}", 400, "BadRequestError"),
        ("/tokenize", b"{}", 400, "BadRequestError"),
        ("/detokenize", b'{"tokens": ["a"]}', 400, "BadRequestError"),
    ],
)
def test_refusals_are_error_documents(path: str, raw: bytes, status: int, kind: str) -> None:
    async def check(served: Served) -> None:
        response = await served.client.post(path, data=raw)
        error = (await response.json())["error"]
        assert response.status == status == error["code"]
        assert error["type"] == kind
        assert error["message"]

    run_served(check)


def test_refused_streams_are_refused_before_they_start() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [99999999], "stream": True}
        response = await served.client.post("/v1/completions", json=body)
        assert response.status == 400
        assert response.content_type == "application/json"

    run_served(check)


def test_health_models_and_version() -> None:
    async def check(served: Served) -> None:
        health = await served.client.get("/health")
        models = await (await served.client.get("/v1/models")).json()
        version = await (await served.client.get("/version")).json()
        assert (health.status, await health.read()) == (200, b"")
        assert [card["id"] for card in models["data"]] == ["one", "two"]
        assert models["data"][0]["root"] == MODEL
        assert models["data"][0]["max_model_len"] == 1024
        assert version == {"version": "0.32.0"}

    run_served(check, "--served-model-name", "one", "two", "--max-model-len", "1024")


def test_unknown_routes_and_methods() -> None:
    async def check(served: Served) -> None:
        missing = await served.client.get("/nothing")
        wrong = await served.client.get("/v1/completions")
        developer = await served.client.post("/reset_prefix_cache")
        assert (missing.status, await missing.json()) == (404, {"detail": "Not Found"})
        assert (wrong.status, await wrong.json()) == (405, {"detail": "Method Not Allowed"})
        assert developer.status == 404

    run_served(check)


def test_an_api_key_guards_the_openai_routes_only() -> None:
    async def check(served: Served) -> None:
        refused = await served.client.get("/v1/models")
        allowed = await served.client.get("/v1/models", headers={"Authorization": "Bearer k"})
        health = await served.client.get("/health")
        assert (refused.status, allowed.status, health.status) == (401, 200, 200)

    run_served(check, "--api-key", "k")


def test_a_client_that_leaves_takes_its_request_out_of_the_engine() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [1], "max_tokens": 30_000, "stream": True, "ignore_eos": True}
        response = await served.client.post("/v1/completions", json=body)
        await response.content.readany()
        assert served.engine.in_flight == 1
        response.close()
        await served.engine.drain(30.0)
        assert served.engine.in_flight == 0
        assert served.engine.metrics.finished["abort"] == 1

    run_served(check)


def test_a_stopping_server_ends_streams_with_abort_and_usage() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [1], "max_tokens": 30_000, "stream": True, "ignore_eos": True}
        body["stream_options"] = {"include_usage": True}
        first = await served.client.post("/v1/completions", json=body)
        queued = await served.client.post("/v1/completions", json=body)
        start = await first.content.readuntil(b"\n\n")
        served.engine.abort_all()
        first_events = await events_of(first)
        queued_events = await events_of(queued)
        assert b'"finish_reason":null' in start
        assert first_events[-3]["choices"][0]["finish_reason"] == "abort"
        assert 0 < first_events[-2]["usage"]["completion_tokens"] < 30_000
        assert [event if event == "[DONE]" else event["choices"] for event in queued_events] == [
            [],
            "[DONE]",
        ]
        assert queued_events[0]["usage"]["completion_tokens"] == 0

    run_served(check, "--max-num-seqs", "1")


def test_a_queued_answer_that_is_aborted_has_no_choices() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [1], "max_tokens": 30_000, "ignore_eos": True}
        running = asyncio.create_task(served.complete(**body))
        await until(lambda: served.engine.metrics.gauges.running == 1)
        queued = asyncio.create_task(served.complete(**body))
        await until(lambda: served.engine.in_flight == 2)
        served.engine.abort_all()
        assert (await running)["choices"][0]["finish_reason"] == "abort"
        assert (await queued)["choices"] == []

    run_served(check, "--max-num-seqs", "1")


def test_an_engine_that_dies_ends_streams_with_an_error_event() -> None:
    async def check(served: Served) -> None:
        events = await stream(served, prompt=[1], max_tokens=10)
        error = events[-2]["error"]
        assert events[-1] == "[DONE]"
        assert (error["code"], error["type"]) == (500, "InternalServerError")
        assert error["message"].startswith("EngineCore encountered an issue.")
        assert len(events) <= 4
        health = await served.client.get("/health")
        later = await served.client.post("/v1/completions", json={"prompt": [1]})
        assert (health.status, later.status) == (503, 500)

    run_served(check, "--sim-crash-at-step", "3")


def test_an_engine_that_dies_answers_500_to_who_waits() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [1], "max_tokens": 10, "ignore_eos": True}
        response = await served.client.post("/v1/completions", json=body)
        assert response.status == 500
        assert "EngineCore encountered an issue." in (await response.json())["error"]["message"]

    run_served(check, "--sim-oom-at-step", "3")


def test_repeated_prompts_hit_the_prefix_cache_unless_salted() -> None:
    prompt = list(range(100, 164))

    async def check(served: Served) -> None:
        for salt in (None, None, "a", "b"):
            await served.complete(prompt=prompt, max_tokens=2, cache_salt=salt)
        cached = [entry["cached_tokens"] for entry in (await served.truth())["requests"]]
        assert cached == [0, 48, 0, 0]

    run_served(check)


def test_the_prefix_cache_can_be_reset_in_developer_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    prompt = list(range(100, 164))

    async def check(served: Served) -> None:
        await served.complete(prompt=prompt, max_tokens=2)
        response = await served.client.post("/reset_prefix_cache")
        await served.complete(prompt=prompt, max_tokens=2)
        cached = [entry["cached_tokens"] for entry in (await served.truth())["requests"]]
        assert await response.json() == {"success": True}
        assert cached == [0, 0]

    run_served(check)


def test_without_prefix_caching_nothing_is_cached_or_asked() -> None:
    async def check(served: Served) -> None:
        for _ in range(2):
            await served.complete(prompt=list(range(64)), max_tokens=2)
        assert served.engine.metrics.counters["prefix_cache_queries"] == 0

    run_served(check, "--no-enable-prefix-caching")


def test_cached_tokens_are_part_of_the_usage_on_request() -> None:
    prompt = list(range(64))

    async def check(served: Served) -> None:
        await served.complete(prompt=prompt, max_tokens=2)
        second = await served.complete(prompt=prompt, max_tokens=2)
        assert second["usage"]["prompt_tokens_details"] == {"cached_tokens": 48}

    run_served(check, "--enable-prompt-tokens-details")


def test_access_lines_are_uvicorns_and_can_be_switched_off() -> None:
    async def check(served: Served) -> str:
        await served.client.get("/health")
        await served.client.get("/nothing")
        return served.log.getvalue()

    said = run_served(check)
    assert '"GET /health HTTP/1.1" 200 OK\n' in said
    assert '"GET /nothing HTTP/1.1" 404 Not Found\n' in said
    assert run_served(check, "--disable-uvicorn-access-log") == ""
