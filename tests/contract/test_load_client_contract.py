"""What every transport of the load generator must make of what a server sends."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop

from tests.support.scripted_server import (
    DONE_EVENT,
    HEAD,
    LAST_CHUNK,
    Abort,
    Close,
    Hang,
    Pause,
    Script,
    ScriptedServer,
    Step,
    chunked,
    event,
    plain_answer,
    scripted_server,
    token_event,
    usage_event,
)
from tuner.loadgen.aiohttp_transport import AiohttpTransport
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.socket_transport import SocketTransport
from tuner.loadgen.stream_fault import StreamFault
from tuner.loadgen.transport import Transport

BODY = json.dumps({"prompt": [1, 2, 3], "max_tokens": 3}).encode()
ENDING = [chunked(usage_event(3)), chunked(DONE_EVENT), LAST_CHUNK]


@dataclass
class Exchange:
    """One finished request and its verdict."""

    stream: ResponseStream
    outcome: Outcome
    detail: str = ""


class AnnouncedStream(ResponseStream):
    """Lets a test wait for the first bytes."""

    def __init__(self, asked_tokens: int) -> None:
        super().__init__(asked_tokens)
        self.fed = asyncio.Event()

    def feed(self, stamp_s: float, data: bytes) -> None:
        super().feed(stamp_s, data)
        self.fed.set()


async def exchange(transport: Transport, body: bytes = BODY, *, asked: int = 3) -> Exchange:
    stream = ResponseStream(asked)
    try:
        await transport.exchange(body, stream)
        stream.conclude()
    except StreamFault as fault:
        return Exchange(stream, fault.outcome, fault.detail)
    return Exchange(stream, Outcome.COMPLETED)


def tokens(total: int, *, counted: bool = True) -> list[bytes]:
    """Events of an answer of one token each, the last with the finish reason."""
    return [
        token_event(
            f" t{number}",
            total=number if counted else None,
            finish_reason="length" if number == total else None,
        )
        for number in range(1, total + 1)
    ]


class LoadClientContract(ABC):
    """Subclass and say how to open the transport."""

    @abstractmethod
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the kind of loop under test."""

    @abstractmethod
    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        """A transport for one URL, on the running loop."""

    def answer(self, *steps: Step, asked: int = 3) -> Exchange:
        """What the transport makes of an answer of these steps."""
        exchanges: list[Exchange] = []

        async def scenario() -> None:
            async with (
                scripted_server(lambda _: list(steps)) as server,
                self.open(server.url) as transport,
            ):
                exchanges.append(await exchange(transport, asked=asked))

        self.drive(scenario())
        return exchanges[0]

    def with_server(
        self,
        script: Script,
        scenario: Callable[[Transport, ScriptedServer], Coroutine[Any, Any, None]],
    ) -> None:
        async def whole() -> None:
            async with scripted_server(script) as server, self.open(server.url) as transport:
                await scenario(transport, server)

        self.drive(whole())

    def test_a_plain_answer_is_complete(self) -> None:
        done = self.answer(*plain_answer(3))
        assert (done.outcome, done.detail) == (Outcome.COMPLETED, "")
        assert done.stream.http_status == 200
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]
        assert done.stream.usage_tokens == 3
        assert done.stream.finish_reason == "length"

    def test_an_engine_without_running_counts_is_counted_by_frames(self) -> None:
        done = self.answer(*plain_answer(3, counted=False))
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_the_body_arrives_as_it_was_built(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            await exchange(transport)
            assert server.requests == [json.loads(BODY)]

        self.with_server(lambda _: plain_answer(3), scenario)

    def test_a_key_of_the_api_goes_with_every_request(self) -> None:
        async def whole() -> None:
            async with scripted_server(lambda _: plain_answer(3)) as server:
                async with self.open(server.url, "s3cret") as transport:
                    await exchange(transport)
                    await exchange(transport)
                async with self.open(server.url) as transport:
                    await exchange(transport)
                given = [b"authorization: bearer s3cret\r\n" in h.lower() for h in server.heads]
                assert given == [True, True, False]

        self.drive(whole())

    def test_stamps_are_ordered_and_follow_the_servers_pauses(self) -> None:
        first, second, third = tokens(3)
        before_s = time.monotonic()
        done = self.answer(
            HEAD,
            Pause(0.05),
            chunked(first),
            Pause(0.05),
            chunked(second),
            chunked(third),
            *ENDING,
        )
        after_s = time.monotonic()
        stream = done.stream
        assert stream.sent_s is not None
        assert stream.last_token_s is not None
        assert before_s <= stream.sent_s
        assert stream.frame_s[0] - stream.sent_s >= 0.05
        assert stream.frame_s[1] - stream.sent_s >= 0.1
        assert stream.frame_s.tolist() == sorted(stream.frame_s)
        assert stream.last_token_s == stream.frame_s[2] <= after_s

    def test_usage_and_done_do_not_extend_the_answer(self) -> None:
        done = self.answer(HEAD, *map(chunked, tokens(3)), Pause(0.1), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.last_token_s is not None
        assert done.stream.last_token_s == done.stream.frame_s[2]
        assert len(done.stream.frame_s) == 3

    def test_a_role_chunk_before_the_prefill_is_not_the_first_token(self) -> None:
        role = event(
            {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}
        )
        done = self.answer(HEAD, chunked(role), Pause(0.05), *map(chunked, tokens(3)), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.sent_s is not None
        assert done.stream.frame_s[0] - done.stream.sent_s >= 0.05
        assert len(done.stream.frame_s) == 3

    @pytest.mark.parametrize(
        "thought",
        [
            {"reasoning": "a"},
            {"reasoning_content": "a"},
            {"tool_calls": [{"index": 0, "function": {"arguments": "a"}}]},
        ],
        ids=["reasoning", "reasoning_content", "tool_calls"],
    )
    def test_what_the_model_thinks_first_is_the_first_token(
        self, thought: dict[str, object]
    ) -> None:
        def delta(content: dict[str, object], finish_reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": content, "finish_reason": finish_reason}
            return chunked(event({"choices": [choice]}))

        done = self.answer(
            HEAD,
            delta({"role": "assistant", "content": ""}),
            Pause(0.05),
            delta(thought),
            Pause(0.05),
            delta({"content": "b"}),
            delta({"content": "c"}, "length"),
            *ENDING,
        )
        assert done.outcome is Outcome.COMPLETED
        assert len(done.stream.frame_s) == 3
        assert done.stream.sent_s is not None
        assert done.stream.frame_s[0] - done.stream.sent_s >= 0.05
        assert done.stream.frame_s[1] - done.stream.sent_s >= 0.1

    def test_headers_that_come_slowly_are_no_first_token(self) -> None:
        done = self.answer(HEAD[:25], Pause(0.05), HEAD[25:], *map(chunked, tokens(3)), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.sent_s is not None
        assert done.stream.frame_s[0] - done.stream.sent_s >= 0.05

    def test_a_status_that_comes_at_once_is_no_first_token(self) -> None:
        done = self.answer(HEAD, Pause(0.05), *map(chunked, tokens(3)), *ENDING)
        assert done.stream.sent_s is not None
        assert done.stream.frame_s[0] - done.stream.sent_s >= 0.05

    def test_an_answer_may_end_without_a_usage_report(self) -> None:
        done = self.answer(HEAD, *map(chunked, tokens(3)), chunked(DONE_EVENT), LAST_CHUNK)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.usage_tokens is None
        assert done.stream.received_tokens == 3

    def test_an_empty_first_chunk_is_not_the_first_token(self) -> None:
        empty = token_event("", total=0)
        done = self.answer(HEAD, chunked(empty), Pause(0.05), *map(chunked, tokens(3)), *ENDING)
        assert done.stream.sent_s is not None
        assert done.stream.frame_s[0] - done.stream.sent_s >= 0.05

    def test_several_tokens_in_one_frame_are_counted(self) -> None:
        last = token_event(" d e f", total=7, finish_reason="length")
        done = self.answer(
            HEAD,
            chunked(token_event(" a", total=1)),
            chunked(token_event(" b c d", total=4)),
            chunked(last),
            chunked(usage_event(7)),
            chunked(DONE_EVENT),
            LAST_CHUNK,
            asked=7,
        )
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 3, 3]

    def test_several_frames_in_one_read_are_told_apart(self) -> None:
        body = b"".join(tokens(3)) + usage_event(3) + DONE_EVENT
        done = self.answer(HEAD + chunked(body) + LAST_CHUNK)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]
        assert len(set(done.stream.frame_s)) == 1

    def test_frames_may_be_cut_at_every_byte(self) -> None:
        body = b"".join(tokens(3)) + usage_event(3) + DONE_EVENT
        done = self.answer(HEAD, *(chunked(bytes([value])) for value in body), LAST_CHUNK)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_chunk_framing_may_be_cut_at_every_byte(self) -> None:
        raw = HEAD + b"".join(map(chunked, tokens(3))) + b"".join(ENDING[:2]) + LAST_CHUNK
        done = self.answer(*(bytes([value]) for value in raw))
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_text_that_looks_like_the_protocol_stays_text(self) -> None:
        texts = ["data: [DONE]\n\n", '{"error": {}}', 'data: {"choices":[]}']
        frames = [
            token_event(text, total=n, finish_reason="length" if n == 3 else None)
            for n, text in enumerate(texts, start=1)
        ]
        done = self.answer(HEAD, *map(chunked, frames), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_a_frame_of_a_megabyte_is_one_frame(self) -> None:
        big = token_event("x" * 2**20, total=1)
        rest = tokens(3)[1:]
        done = self.answer(HEAD, chunked(big), *map(chunked, rest), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_carriage_returns_and_comments_do_not_disturb(self) -> None:
        body = b": ping\r\n\r\n" + b"".join(tokens(3)).replace(b"\n", b"\r\n")
        done = self.answer(HEAD, chunked(body), *ENDING)
        assert done.outcome is Outcome.COMPLETED
        assert done.stream.frame_tokens.tolist() == [1, 1, 1]

    def test_an_answer_of_known_length_is_read_too(self) -> None:
        body = b"".join(tokens(3)) + usage_event(3) + DONE_EVENT
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert self.answer(head, body).outcome is Outcome.COMPLETED

    def test_an_error_inside_a_good_answer_is_a_failure(self) -> None:
        error = event({"error": {"message": "engine died", "type": "x", "code": 500}})
        done = self.answer(
            HEAD, chunked(tokens(3)[0]), chunked(error), chunked(DONE_EVENT), LAST_CHUNK
        )
        assert (done.outcome, done.detail) == (Outcome.ERROR_EVENT, "500: engine died")
        assert len(done.stream.frame_s) == 1

    def test_an_aborted_answer_is_a_failure(self) -> None:
        aborted = token_event("", total=1, finish_reason="abort")
        done = self.answer(
            HEAD,
            chunked(tokens(3)[0]),
            chunked(aborted),
            chunked(usage_event(1)),
            chunked(DONE_EVENT),
            LAST_CHUNK,
        )
        assert done.outcome is Outcome.ABORTED

    def test_an_answer_without_choices_is_a_failure(self) -> None:
        done = self.answer(HEAD, chunked(usage_event(0)), chunked(DONE_EVENT), LAST_CHUNK)
        assert done.outcome is Outcome.WRONG_TOKEN_COUNT

    def test_fewer_tokens_than_asked_are_a_failure(self) -> None:
        done = self.answer(*plain_answer(2))
        assert (done.outcome, done.detail) == (
            Outcome.WRONG_TOKEN_COUNT,
            "2 tokens instead of 3",
        )

    @pytest.mark.parametrize("ending", [Close, Abort])
    def test_a_connection_that_ends_midway_is_a_failure(self, ending: Step) -> None:
        done = self.answer(HEAD, chunked(tokens(3)[0]), Pause(0.02), ending)
        assert done.outcome is Outcome.DISCONNECTED
        assert done.detail
        assert len(done.stream.frame_s) == 1

    def test_a_chunked_answer_that_just_stops_keeps_the_tokens_before(self) -> None:
        done = self.answer(HEAD + b"".join(map(chunked, tokens(3)[:2])), Close)
        assert done.outcome is Outcome.DISCONNECTED
        assert len(done.stream.frame_s) == 2

    def test_a_connection_that_ends_before_any_answer_is_a_failure(self) -> None:
        assert self.answer(Close).outcome is Outcome.DISCONNECTED

    def test_an_answer_that_ends_in_order_but_too_early_is_a_failure(self) -> None:
        done = self.answer(HEAD, chunked(tokens(3)[0]), LAST_CHUNK)
        assert done.outcome is Outcome.DISCONNECTED

    @pytest.mark.parametrize("status", [b"503 Service Unavailable", b"400 Bad Request"])
    def test_any_other_status_is_a_failure_with_the_engines_words(self, status: bytes) -> None:
        complaint = b'{"error": {"message": "too many"}}'
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(complaint))
        done = self.answer(head + complaint)
        assert done.outcome is Outcome.HTTP_ERROR
        assert done.stream.http_status == int(status[:3])
        assert "too many" in done.detail
        assert not done.stream.frame_s

    def test_what_is_not_http_is_a_failure(self) -> None:
        done = self.answer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Close)
        assert done.outcome in (Outcome.PROTOCOL_ERROR, Outcome.DISCONNECTED)

    def test_what_are_not_events_is_a_failure_and_ends_the_connection(self) -> None:
        done = self.answer(HEAD, chunked(b"data: <html>\n\n"), Hang)
        assert done.outcome is Outcome.PROTOCOL_ERROR
        assert "<html>" in done.detail

    def test_nobody_listening_is_a_failure_to_connect(self) -> None:
        async def scenario() -> None:
            async with scripted_server(lambda _: []) as server:
                url = server.url
            async with self.open(url) as transport:
                done = await exchange(transport)
                assert done.outcome is Outcome.CONNECT_FAILED
                assert done.stream.sent_s is None

        self.drive(scenario())

    @pytest.mark.parametrize("begun", [True, False], ids=["after a token", "before the headers"])
    def test_a_stalled_answer_can_be_failed_from_outside(self, begun: bool) -> None:
        steps: list[Step] = [HEAD, chunked(tokens(3)[0]), Hang] if begun else [Hang]
        stall = StreamFault("no token", Outcome.STALLED)

        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            stream = AnnouncedStream(3)
            task = asyncio.ensure_future(transport.exchange(BODY, stream))
            async with asyncio.timeout(60):
                await (stream.fed if begun else server.asked).wait()
                stream.fail(stall)
                with pytest.raises(StreamFault) as caught:
                    await task
            assert caught.value is stall

        self.with_server(lambda _: steps, scenario)

    def test_a_cancelled_request_closes_its_connection(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            stream = AnnouncedStream(3)
            task = asyncio.ensure_future(transport.exchange(BODY, stream))
            async with asyncio.timeout(60):
                await stream.fed.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await server.closed.wait()

        self.with_server(lambda _: [HEAD, chunked(tokens(3)[0]), Hang], scenario)

    def test_nothing_is_sent_twice(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            for _ in range(3):
                await exchange(transport)
            assert len(server.requests) == 3

        self.with_server(lambda _: [Close], scenario)

    def test_a_connection_is_used_again(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            for _ in range(5):
                assert (await exchange(transport)).outcome is Outcome.COMPLETED
            assert server.connections == 1

        self.with_server(lambda _: plain_answer(3), scenario)

    def test_a_failed_answer_does_not_spoil_the_next_one(self) -> None:
        broken: list[Step] = [HEAD, chunked(tokens(3)[0]), Close]
        answers = iter([broken, plain_answer(3), plain_answer(3)])

        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            outcomes = [(await exchange(transport)).outcome for _ in range(3)]
            assert outcomes == [Outcome.DISCONNECTED, Outcome.COMPLETED, Outcome.COMPLETED]

        self.with_server(lambda _: next(answers), scenario)

    def test_many_answers_at_once_are_kept_apart(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            asked = [1 + number % 7 for number in range(200)]
            bodies = [json.dumps({"max_tokens": count}).encode() for count in asked]
            done = await asyncio.gather(
                *(exchange(transport, body, asked=n) for body, n in zip(bodies, asked, strict=True))
            )
            assert {each.outcome for each in done} == {Outcome.COMPLETED}
            assert [each.stream.tokens for each in done] == asked

        self.with_server(lambda body: plain_answer(body["max_tokens"]), scenario)

    def test_connections_prepared_beforehand_do_no_harm(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            await transport.prepare(5, keep=3)
            done = await asyncio.gather(*(exchange(transport) for _ in range(8)))
            assert {each.outcome for each in done} == {Outcome.COMPLETED}
            assert len(server.requests) == 8

        self.with_server(lambda _: plain_answer(3), scenario)

    def test_nothing_can_be_prepared_for_a_server_that_is_not_there(self) -> None:
        async def scenario() -> None:
            async with scripted_server(lambda _: []) as server:
                url = server.url
            async with self.open(url) as transport:
                await transport.prepare(3, keep=3)
                assert (await exchange(transport)).outcome is Outcome.CONNECT_FAILED

        self.drive(scenario())

    def test_a_connection_that_the_server_closed_meanwhile_is_not_used(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            for number in range(3):
                assert (await exchange(transport)).outcome is Outcome.COMPLETED
                assert server.connections == number + 1
                for _ in range(20):  # turns of the loop that server and client share
                    await asyncio.sleep(0.002)

        self.with_server(lambda _: [*plain_answer(3), Close], scenario)

    def test_a_body_larger_than_any_socket_buffer_arrives_whole(self) -> None:
        prompt = list(range(1_500_000))
        body = json.dumps({"prompt": prompt, "max_tokens": 3}).encode()

        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            for _ in range(2):
                assert (await exchange(transport, body)).outcome is Outcome.COMPLETED
            assert [request["prompt"] for request in server.requests] == [prompt, prompt]

        self.with_server(lambda _: plain_answer(3), scenario)

    def test_a_refusal_before_the_body_was_taken_does_not_spoil_the_next_request(self) -> None:
        body = b"x" * 20_000_000
        refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nhuge"

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(refusal)
                await reader.read()
            except ConnectionError:
                pass  # the client sends no more
            finally:
                writer.close()

        async def scenario() -> None:
            server = await asyncio.start_server(refuse, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with server, self.open(f"http://127.0.0.1:{port}") as transport:
                for _ in range(2):
                    done = await exchange(transport, body)
                    assert done.stream.http_status == 413
                    assert done.outcome is Outcome.HTTP_ERROR

        self.drive(scenario())

    def test_the_clock_is_named_and_was_not_set(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            await exchange(transport)
            assert transport.clock in ("kernel", "user space")
            assert transport.clock_step_s < 1e-3

        self.with_server(lambda _: plain_answer(3), scenario)

    def test_reads_are_counted(self) -> None:
        async def scenario(transport: Transport, server: ScriptedServer) -> None:
            await exchange(transport)
            assert transport.reads >= 1

        self.with_server(lambda _: plain_answer(3), scenario)


class TestAiohttpOnAsyncio(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return AiohttpTransport(url, api_key)


class TestAiohttpOnUvloop(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        uvloop.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return AiohttpTransport(url, api_key)


class TestSocketsOnAsyncio(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return SocketTransport(url, api_key)


class TestSocketsOnUvloop(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        uvloop.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return SocketTransport(url, api_key)


class TestSocketsReadTogetherOnAsyncio(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return SocketTransport(url, api_key, gather=True)


class TestSocketsReadTogetherOnUvloop(LoadClientContract):
    def drive(self, scenario: Coroutine[Any, Any, None]) -> None:
        uvloop.run(scenario)

    def open(self, url: str, api_key: str | None = None) -> AbstractAsyncContextManager[Transport]:
        return SocketTransport(url, api_key, gather=True)
