"""One connection to the engine: sends a request, takes its answer apart, is used again."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from http import HTTPStatus

from httptools import HttpParserError, HttpResponseParser

from tuner.loadgen.readiness import Readiness
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.stamped_reader import StampedReader
from tuner.loadgen.stream_fault import LONGEST_DETAIL, StreamFault

BODY_FRAMINGS = (b"content-length", b"transfer-encoding")


class Connection:
    """A connected socket on the running loop, with one request at a time.

    `on_free` is called when another request may follow.
    """

    def __init__(
        self,
        sock: socket.socket,
        reader: StampedReader,
        on_free: Callable[[Connection], None],
        readiness: Readiness,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._reader = reader
        self._on_free = on_free
        self._readiness = readiness
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._stream: ResponseStream | None = None
        self._answer: asyncio.Future[None] | None = None
        self._unsent = b""
        self._stamp_s = 0.0
        self._expect_answer()
        self.free_since_s = time.monotonic()
        readiness.watch(sock.fileno(), self._readable)

    def _expect_answer(self) -> None:
        self._status = 0
        self._framed = False
        self._complaint = b""

    @property
    def closed(self) -> bool:
        return self._parser is None

    def exchange(self, head: bytes, body: bytes, stream: ResponseStream) -> asyncio.Future[None]:
        """Send now; the future ends with the answer. See `Transport.exchange`."""
        self._expect_answer()
        self._stream = stream
        self._answer = answer = self._loop.create_future()
        answer.add_done_callback(self._after_answer)
        stream.close_connection = self._give_up
        stream.sent_s = time.monotonic()
        try:
            sent = self._socket.sendmsg((head, body))
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(error)
            return answer
        if sent < len(head) + len(body):
            self._unsent = (head + body)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._writable)
        return answer

    def close(self) -> None:
        """Close at once. An answer still awaited is not told."""
        if self.closed:
            return
        self._parser = None
        self._readiness.forget(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    # What the loop reports

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error)
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            self._stamp_s, data = self._reader.read(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        parser = self._parser
        if not data or parser is None or self._answer is None:
            self._end_of_stream()  # between answers, whatever the engine says ends the connection
            return
        try:
            parser.feed_data(data)
        except HttpParserError as error:
            self._fail(StreamFault(f"{type(error).__name__}: {error}"))

    # What the parser reports

    def on_header(self, name: bytes, value: bytes) -> None:
        self._framed = self._framed or name.lower() in BODY_FRAMINGS

    def on_headers_complete(self) -> None:
        if self._parser is not None and self._stream is not None:
            self._status = self._stream.http_status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        stream = self._stream
        if stream is None or stream.fault is not None:
            return
        if self._status != HTTPStatus.OK:
            self._complaint += data[:LONGEST_DETAIL]
            if len(self._complaint) >= LONGEST_DETAIL:
                self._fail(self._http_error())
            return
        try:
            stream.feed(self._stamp_s, data)
        except StreamFault as fault:
            stream.fail(fault)

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None or self._status < HTTPStatus.OK:
            return  # closed meanwhile, or an interim answer before the real one
        self._end_answer(keep=parser.should_keep_alive() and not self._unsent)

    # How an answer ends

    def _end_answer(self, *, keep: bool) -> None:
        """The answer is whole."""
        answer, stream = self._answer, self._stream
        if self._status != HTTPStatus.OK:
            self._conclude(self._http_error())
        elif stream is not None:
            self._conclude(stream.fault)
        if not keep or answer is None:
            self.close()
            return
        self.free_since_s = time.monotonic()
        self._on_free(self)

    def _end_of_stream(self) -> None:
        if self._answer is not None and self._status and not self._framed:
            self._end_answer(keep=False)
        else:
            inside = "inside" if self._status else "before"
            detail = f"the connection was closed {inside} the answer"
            self._fail(StreamFault(detail, Outcome.DISCONNECTED))

    def _give_up(self) -> None:
        """The stream was failed: from outside, or by what was fed to it."""
        detail = "the connection was given up"
        self._fail(StreamFault(detail, Outcome.DISCONNECTED))

    def _lost(self, error: OSError) -> None:
        self._fail(StreamFault(f"{type(error).__name__}: {error}", Outcome.DISCONNECTED))

    def _fail(self, fault: StreamFault) -> None:
        self.close()
        if self._stream is not None:
            self._conclude(self._stream.fault or fault)

    def _conclude(self, fault: StreamFault | None) -> None:
        """Tell whoever waits for the answer."""
        answer, self._answer = self._answer, None
        if self._stream is not None:
            self._stream.close_connection = None
            self._stream = None
        if answer is None or answer.done():
            return
        if fault is None:
            answer.set_result(None)
        else:
            answer.set_exception(fault)

    def _after_answer(self, answer: asyncio.Future[None]) -> None:
        if answer.cancelled() and answer is self._answer:
            self._answer = None
            self.close()

    def _http_error(self) -> StreamFault:
        detail = self._complaint[:LONGEST_DETAIL].decode("utf-8", errors="replace").strip()
        return StreamFault(f"HTTP {self._status}: {detail}", Outcome.HTTP_ERROR)
