"""Asks a Tollhouse node: within a deadline, again where that helps, and with a decision where no answer comes.

    from tollhouse import Tollhouse

    tollhouse = Tollhouse("http://127.0.0.1:8377", on_error="allow")
    if tollhouse.decide({"user": "ann", "ip": "198.51.100.7"}).action == "reject": ...
"""
from __future__ import annotations

import asyncio
import time
from typing import Any, Iterable, List, Union

import httpx

from .protocol import Action, Call, Decision, Object, Protocol, Steps, T, TollhouseError

__all__ = ["Action", "AsyncTollhouse", "Decision", "Tollhouse", "TollhouseError"]


class Tollhouse(Protocol):
    """A client for threads. It keeps connections: make one for the whole program."""

    def open(self, options: Any) -> None:
        self.http = httpx.Client(**options)

    def decide(self, event: Object) -> Decision:
        return self._run(self.deciding(event))

    def decide_many(self, events: Iterable[Object]) -> List[Decision]:
        return self._run(self.deciding_many(events))

    def feedback(self, labels: Iterable[Object]) -> List[Object]:
        return self._run(self.telling(labels))

    def challenge(self, event: Object) -> Object:
        return self._run(self.challenging(event))

    def verify(self, payload: str, event: Object) -> Object:
        return self._run(self.verifying(payload, event))

    def close(self) -> None:
        self.http.close()

    def _run(self, steps: Steps[T]) -> T:
        came: Any = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Call):
                came = self._send(step)
            else:
                time.sleep(step)

    def _send(self, call: Call) -> Any:
        headers, body = {"Content-Type": call.media}, bytearray()
        try:
            with self.http.stream("POST", call.path, content=call.body, headers=headers, timeout=call.left) as answer:
                for piece in answer.iter_bytes():
                    body += piece
                    if time.monotonic() > call.deadline or len(body) > self.answer_max:
                        raise httpx.ReadError("the answer is too late, or too long")
                return answer.status_code, answer.headers, bytes(body)
        except httpx.HTTPError as error:
            return error


class AsyncTollhouse(Protocol):
    """A client for asyncio."""

    def open(self, options: Any) -> None:
        self.http = httpx.AsyncClient(**options)

    async def decide(self, event: Object) -> Decision:
        return await self._run(self.deciding(event))

    async def decide_many(self, events: Iterable[Object]) -> List[Decision]:
        return await self._run(self.deciding_many(events))

    async def feedback(self, labels: Iterable[Object]) -> List[Object]:
        return await self._run(self.telling(labels))

    async def challenge(self, event: Object) -> Object:
        return await self._run(self.challenging(event))

    async def verify(self, payload: str, event: Object) -> Object:
        return await self._run(self.verifying(payload, event))

    async def close(self) -> None:
        await self.http.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        came: Any = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            came = await (self._in_time(step) if isinstance(step, Call) else asyncio.sleep(step))

    async def _in_time(self, call: Call) -> Union[httpx.HTTPError, Any]:
        try:
            return await asyncio.wait_for(self._send(call), call.left)
        except asyncio.TimeoutError:
            return httpx.ReadTimeout("no answer in time")
        except httpx.HTTPError as error:
            return error

    async def _send(self, call: Call) -> Any:
        headers, body = {"Content-Type": call.media}, bytearray()
        async with self.http.stream("POST", call.path, content=call.body, headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > self.answer_max:
                    raise httpx.ReadError("the answer is too long")
            return answer.status_code, answer.headers, bytes(body)
