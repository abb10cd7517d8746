"""vLLM's HTTP API over the engine loop."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion11
from prometheus_client import CollectorRegistry, generate_latest

from tuner.simulator.requests import EngineRequest
from tuner.simulator.server.answers import AnswerIdentity, CollectedAnswer, StreamedAnswer
from tuner.simulator.server.arguments import VLLM_VERSION
from tuner.simulator.server.engine_log import EngineLog
from tuner.simulator.server.engine_loop import EngineLoop
from tuner.simulator.server.openai_requests import (
    GenerationRequest,
    Kind,
    ServedModel,
    chat_messages,
    check_model,
    parse_body,
    read_request,
)
from tuner.simulator.server.rejections import ENGINE_DEAD, RejectedRequestError
from tuner.simulator.server.sequence import Sequence, Sink
from tuner.simulator.server.tokens import SimulatedTokenizer, prefix_hashes

_MAX_BODY_BYTES = 64 * 2**20
_EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Server": "uvicorn"}
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """What the API needs to know beside the engine."""

    block_size: int
    prefix_caching: bool
    prompt_tokens_details: bool
    api_key: str | None
    access_log: bool
    developer_routes: bool


class HttpApi:
    """Routes and handlers; `application` is what is served."""

    def __init__(
        self,
        engine: EngineLoop,
        model: ServedModel,
        registry: CollectorRegistry,
        settings: ApiSettings,
        log: EngineLog,
    ) -> None:
        self._engine = engine
        self._model = model
        self._registry = registry
        self._settings = settings
        self._log = log
        self._tokenizer = SimulatedTokenizer(model.vocabulary_size)
        self._created = int(time.time())

    def application(self) -> web.Application:
        application = web.Application(
            client_max_size=_MAX_BODY_BYTES, middlewares=[self._errors, self._authentication]
        )
        application.on_response_prepare.append(self._before_response)
        for method, path, handler in self.routes():
            application.router.add_route(method, path, handler)
        return application

    def routes(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler) of everything this server answers."""
        found: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self._health),
            ("GET", "/ping", self._health),
            ("POST", "/ping", self._health),
            ("GET", "/load", self._load),
            ("GET", "/version", self._version),
            ("GET", "/metrics", self._metrics),
            ("GET", "/v1/models", self._models),
            ("POST", "/v1/completions", self._completions),
            ("POST", "/v1/chat/completions", self._chat),
            ("POST", "/tokenize", self._tokenize),
            ("POST", "/detokenize", self._detokenize),
        ]
        if self._settings.developer_routes:
            found.append(("POST", "/reset_prefix_cache", self._reset_prefix_cache))
        if self._engine.truth is not None:
            found.append(("GET", "/sim/truth", self._truth))
        return found

    # -- around every request --------------------------------------------------------------------

    @web.middleware
    async def _errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RejectedRequestError as error:
            return _json_response(error.document(), error.status)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            detail = json.dumps({"detail": HTTPStatus(error.status).phrase})
            return _json_response(detail.encode(), error.status)

    @web.middleware
    async def _authentication(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = self._settings.api_key
        if key is not None and request.path.startswith("/v1"):
            given = request.headers.get("Authorization", "")
            if given != f"Bearer {key}":
                return _json_response(b'{"error":"Unauthorized"}', 401)
        return await handler(request)

    async def _before_response(self, request: web.Request, response: web.StreamResponse) -> None:
        """uvicorn's header and, unless switched off, its access line."""
        response.headers["Server"] = "uvicorn"
        if not self._settings.access_log:
            return
        peer = request.transport.get_extra_info("peername") if request.transport else None
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "-"
        phrase = HTTPStatus(response.status).phrase
        self._log.plain(
            f'INFO:     {address} - "{request.method} {request.path_qs} HTTP/1.1" '
            f"{response.status} {phrase}"
        )

    # -- generation --------------------------------------------------------------------------------

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "completion")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "chat")

    async def _generate(self, http: web.Request, kind: Kind) -> web.StreamResponse:
        arrival_s = self._engine.clock.now_s()
        body = parse_body(await http.read())
        if self._engine.death.done():
            raise RejectedRequestError(ENGINE_DEAD, status=500)
        request = read_request(body, kind, self._model, self._tokenizer)
        identity = self._identity(http, request)
        if request.stream:
            return await self._stream(http, request, identity, arrival_s)
        answer = CollectedAnswer(request, identity, self._tokenizer)
        sequences = answer.sequences = self._sequences(request, identity, answer, arrival_s)
        try:
            self._submit(sequences)
            return _json_response(await answer.done, 200)
        finally:
            self._engine.abort(sequences)

    async def _stream(
        self,
        http: web.Request,
        request: GenerationRequest,
        identity: AnswerIdentity,
        arrival_s: float,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_EVENT_STREAM)
        await response.prepare(http)
        answer = StreamedAnswer(request, identity, self._tokenizer, _event_writer(http))
        sequences = answer.sequences = self._sequences(request, identity, answer, arrival_s)
        try:
            self._submit(sequences)
            await answer.done
        finally:
            self._engine.abort(sequences)
        # A client that has read `[DONE]` may be gone already.
        with contextlib.suppress(ConnectionResetError):
            await response.write_eof()
        return response

    def _identity(self, http: web.Request, request: GenerationRequest) -> AnswerIdentity:
        prefix = "cmpl" if request.kind == "completion" else "chatcmpl"
        given = http.headers.get("X-Request-Id") or request.request_id or uuid.uuid4().hex
        return AnswerIdentity(
            response_id=f"{prefix}-{given}",
            created=int(time.time()),
            model=request.model,
            prompt_tokens_details=self._settings.prompt_tokens_details,
        )

    def _sequences(
        self, request: GenerationRequest, identity: AnswerIdentity, sink: Sink, arrival_s: float
    ) -> list[Sequence]:
        return [
            Sequence(
                request=EngineRequest(
                    request_id=self._engine.next_id(),
                    arrival_s=arrival_s,
                    prompt_tokens=len(choice.prompt),
                    output_tokens=choice.output_tokens,
                    priority=request.priority,
                    prefix_blocks=self._prefix(choice.prompt, request.cache_salt),
                ),
                sink=sink,
                response_id=identity.response_id,
                choice=index,
                n=request.n,
                seed=choice.seed,
                max_tokens=choice.max_tokens,
                stops_naturally=choice.stops_naturally,
            )
            for index, choice in enumerate(request.choices)
        ]

    def _prefix(self, prompt: list[int], salt: str | None) -> tuple[int, ...]:
        if not self._settings.prefix_caching:
            return ()
        return prefix_hashes(prompt, self._settings.block_size, salt)

    def _submit(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            self._engine.submit(sequence)

    # -- the rest ----------------------------------------------------------------------------------

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self._engine.death.done() else 200)

    async def _load(self, _: web.Request) -> web.Response:
        return _document({"server_load": self._engine.in_flight})

    async def _version(self, _: web.Request) -> web.Response:
        return _document({"version": VLLM_VERSION})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": _METRICS_TYPE}
        )

    async def _models(self, _: web.Request) -> web.Response:
        model = self._model
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "vllm",
                "root": model.root,
                "parent": None,
                "max_model_len": model.max_model_len,
            }
            for name in model.names
        ]
        return _document({"object": "list", "data": cards})

    async def _tokenize(self, http: web.Request) -> web.Response:
        body = parse_body(await http.read())
        check_model(body, self._model)
        if "messages" in body:
            tokens = self._tokenizer.encode_chat(chat_messages(body))
        elif isinstance(body.get("prompt"), str):
            tokens = self._tokenizer.encode(body["prompt"])
        else:
            raise RejectedRequestError("Either prompt or messages must be provided.")
        limit = self._model.max_model_len
        document = {"count": len(tokens), "max_model_len": limit, "tokens": tokens}
        return _document({**document, "token_strs": None})

    async def _detokenize(self, http: web.Request) -> web.Response:
        body = parse_body(await http.read())
        check_model(body, self._model)
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise RejectedRequestError("tokens must be a list of integers", parameter="tokens")
        return _document({"prompt": self._tokenizer.decode(tokens)})

    async def _reset_prefix_cache(self, _: web.Request) -> web.Response:
        return _document({"success": self._engine.reset_prefix_cache()})

    async def _truth(self, http: web.Request) -> web.Response:
        truth = self._engine.truth
        assert truth is not None  # noqa: S101 -- the route exists only with it
        scale = self._engine.clock.time_scale
        return _document(truth.document(scale, with_tokens=http.query.get("tokens") == "1"))


def _event_writer(http: web.Request) -> Callable[[bytes], None]:
    """Writes one chunk straight to the transport: a coroutine per token would cost as much again.

    Nothing is held back for a slow reader; a closed connection swallows what comes.
    """
    transport = http.transport
    chunked = http.version >= HttpVersion11

    def write(events: bytes) -> None:
        if transport is None or transport.is_closing():
            return
        transport.write(b"%x\r\n%b\r\n" % (len(events), events) if chunked else events)

    return write


def _document(content: dict[str, Any]) -> web.Response:
    return _json_response(json.dumps(content, separators=(",", ":")).encode(), 200)


def _json_response(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": "application/json"})
