"""Middleware for FastAPI, Starlette and any other ASGI application on Starlette's requests."""
from __future__ import annotations

from typing import Any, Awaitable, Callable, Mapping, Optional

from starlette.requests import Request
from starlette.responses import JSONResponse

from . import AsyncTollhouse
from .visitor import cookie, shown


class TollhouseMiddleware:
    """Asks about each request for which `event` returns one, and refuses, or hands a challenge on. Routes find the decision
    in `request.state.tollhouse`."""

    def __init__(self, app: Any, client: AsyncTollhouse, event: Callable[[Request], Optional[Mapping[str, Any]]]) -> None:
        self.app, self.client, self.event = app, client, event

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        request = Request(scope) if scope["type"] == "http" else None
        event = self.event(request) if request else None
        if request is None or event is None:
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]
        decision = await self.client.decide(shown(event, request.headers, request.cookies))
        if refusal := decision.refusal:
            return await JSONResponse(refusal[1], refusal[0])(scope, receive, send)
        request.state.tollhouse = decision

        async def with_pass(message: Any) -> None:
            if message["type"] == "http.response.start" and decision.passed:
                field = cookie(decision.passed, request.url.scheme == "https").encode()
                message = {**message, "headers": [*message.get("headers", []), (b"set-cookie", field)]}
            await send(message)

        await self.app(scope, receive, with_pass)
