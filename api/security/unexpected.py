"""The last resort: a mistake of ours is logged whole and told to the caller in one sentence."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problem import ApiError, problem_response

log = logging.getLogger(__name__)


class Unexpected:
    """Answers 500 for whatever the application lets through, inside the other middleware.

    An answer that has begun cannot be taken back: then the connection breaks off.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:  # the API's own boundary
            if scope["type"] != "http" or begun:
                raise
            log.error("request failed", extra={"path": scope["path"]}, exc_info=error)
            answer = ApiError(500, "ServeTune made a mistake; its log says which")
            await problem_response(answer, scope["path"])(scope, receive, send)
