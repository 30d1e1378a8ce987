"""All of a client but sending and waiting: what is sent, when again, and what an answer, or none, means."""
from __future__ import annotations

import itertools
import json
import logging
import random
import ssl
import time
import uuid
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Generator, Iterable, Iterator, List, Literal, Mapping, Optional, Tuple, TypeVar, Union

import httpx

Action = Literal[
    "accept", "tag", "quarantine", "reject", "throttle", "shadow", "challenge", "review_before", "review_after"
]
Object = Mapping[str, Any]
T = TypeVar("T")
AGAIN = frozenset({408, 429, 502, 503, 504})  # another try may be answered
UNDONE = frozenset({429, 503})  # nothing was done
PAUSE, PAUSE_MAX = 0.05, 1.0  # seconds before the first try again; at most
REFUSED = {"reject": 403, "throttle": 429, "challenge": 401}
log = logging.getLogger("tollhouse")


class TollhouseError(Exception):
    """A call without the answer that was wished. `status` is the node's; 0 if no whole answer came in time."""

    def __init__(self, message: str, status: int = 0, problem: Optional[Object] = None) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem

    @property
    def is_callers(self) -> bool:
        """True if event, token or URL are wrong. `on_error` is not asked then: strangers could send what fails."""
        return 0 < self.status < 500 and self.status not in AGAIN


@dataclass(frozen=True)
class Decision:
    """The decision about an event. `error` says why the node did not make it; `raw` is all of its answer."""

    action: Action
    id: Optional[str] = None
    score: float = 0.0
    reasons: List[str] = field(default_factory=list)
    challenge: Optional[Object] = None
    passed: Optional[Object] = None
    error: Optional[str] = None
    raw: Object = field(default_factory=dict, repr=False)

    @property
    def refusal(self) -> Optional[Tuple[int, Object]]:
        """The HTTP status and JSON for a visitor who may not go on."""
        if self.action not in REFUSED:
            return None
        return REFUSED[self.action], {"action": self.action, **({"challenge": self.challenge} if self.challenge else {})}


@dataclass(frozen=True)
class Call:
    """A request that is to be sent, and when its answer must be there. The answer: status, header fields, body."""

    path: str
    body: bytes
    media: str
    deadline: float

    @property
    def left(self) -> float:
        return max(0.001, self.deadline - time.monotonic())


Steps = Generator[Union[Call, float], Any, T]  # requests to send, and seconds to wait


class Protocol:
    def __init__(
        self, url: str, *, token: Optional[str] = None, pipeline: Optional[str] = None, timeout: float = 1.0,
        on_error: Literal["allow", "deny", "raise"] = "allow", retries: int = 2, batch: int = 1000,
        batch_bytes: int = 4 << 20, answer_max: int = 64 << 20, id_field: Optional[str] = "id", ca: Optional[str] = None,
    ) -> None:
        self.timeout, self.on_error, self.retries, self.id_field = timeout, on_error, retries, id_field
        self.batch, self.batch_bytes, self.answer_max = batch, batch_bytes, answer_max
        self.query = f"?{httpx.QueryParams({'pipeline': pipeline})}" if pipeline else ""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = ssl.create_default_context(cafile=ca) if ca else True  # who vouches for a node at https://
        self.open({"base_url": url, "headers": headers, "timeout": timeout, "trust_env": False, "verify": verify})

    def open(self, options: Any) -> None:
        raise NotImplementedError

    def call(self, path: str, body: bytes, media: str, read: Callable[[bytes], T], once: bool = False) -> Steps[T]:
        """Sends until an answer can be read. With `once` not again where the node may have done it already."""
        deadline = time.monotonic() + self.timeout
        for tried in itertools.count():
            wait = 0.0
            try:
                answer = yield Call(path, body, media, deadline)
                if isinstance(answer, Exception):
                    raise answer
                status, headers, text = answer
                if status == 200:
                    return read(text)
                failure, again = failed(path, status, text), status in (UNDONE if once else AGAIN)
                wait = seconds(headers.get("retry-after"))
            except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                failure = TollhouseError(f"{path}: {type(error).__name__}: {error}")
                again = not once or isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            # All of it by chance, so that those who failed together do not come again together.
            wait = max(wait, random.uniform(0, min(PAUSE_MAX, PAUSE * 2 ** min(tried, 10))))
            if not again or tried >= self.retries or time.monotonic() + wait >= deadline:
                raise failure
            yield wait
        raise AssertionError("counting does not end")

    def undecided(self, failure: TollhouseError) -> Decision:
        if self.on_error == "raise" or failure.is_callers:
            raise failure
        log.warning("%s: %s", self.on_error, failure)
        return Decision("accept" if self.on_error == "allow" else "reject", error=str(failure))

    def deciding(self, event: Object) -> Steps[Decision]:
        try:
            return (yield from self.call("/v1/decide" + self.query, self.line(event), "application/json", lambda text: decision(loaded(text))))
        except TollhouseError as failure:
            return self.undecided(failure)

    def deciding_many(self, events: Iterable[Object]) -> Steps[List[Decision]]:
        decisions: List[Decision] = []
        for lines in self.parts(map(self.line, events)):
            try:
                answers = yield from self.lines("/v1/decide/batch" + self.query, lines)
            except TollhouseError as failure:
                decisions += [self.undecided(failure)] * len(lines)
                continue
            for answer in answers:
                if "line" not in answer:
                    decisions.append(decision(answer))
                    continue
                why = TollhouseError(answer["error"]["detail"], answer["error"]["status"], answer["error"])
                # A line that is no event spoils no other, and does not pass.
                decisions.append(Decision("reject", error=str(why)) if why.is_callers else self.undecided(why))
        return decisions

    def telling(self, labels: Iterable[Object]) -> Steps[List[Object]]:
        outcomes: List[Object] = []
        for lines in self.parts(json.dumps(label).encode() for label in labels):
            outcomes += yield from self.lines("/v1/feedback/batch", lines)
        return outcomes

    def lines(self, path: str, lines: List[bytes]) -> Steps[List[Object]]:
        """Returns an answer to each line: to halves of them where the node does not take so much at once."""

        def read(text: bytes) -> List[Object]:
            answers: List[Object] = [loaded(line) for line in text.splitlines()]
            if len(answers) != len(lines) or not all("line" in one or "id" in one for one in answers):
                raise ValueError("it does not answer each line")
            return answers

        try:
            return (yield from self.call(path, b"\n".join(lines) + b"\n", "application/x-ndjson", read))
        except TollhouseError as failure:
            if failure.status != 413:
                raise
            if len(lines) == 1:
                return [{"line": 1, "error": {"detail": str(failure), "status": 413}}]
        half = len(lines) // 2
        first = yield from self.lines(path, lines[:half])
        return first + (yield from self.lines(path, lines[half:]))

    def parts(self, lines: Iterable[bytes]) -> Iterator[List[bytes]]:
        part: List[bytes] = []
        size = 0
        for line in lines:
            if part and (len(part) == self.batch or size + len(line) >= self.batch_bytes):
                yield part
                part, size = [], 0
            part.append(line)
            size += len(line) + 1
        if part:
            yield part

    def line(self, event: Object) -> bytes:
        """Returns an event with an id, so that it counts once however often it is sent."""
        named = self.id_field is None or self.id_field in event
        return json.dumps(event if named else {self.id_field: uuid.uuid4().hex, **event}).encode()

    def challenging(self, event: Object) -> Steps[Object]:
        return self.call("/v1/challenges" + self.query, json.dumps(event).encode(), "application/json", loaded)

    def verifying(self, payload: str, event: Object) -> Steps[Object]:
        body = json.dumps({"payload": payload, "event": event}).encode()
        return self.call("/v1/challenges/verify" + self.query, body, "application/json", loaded, once=True)


def loaded(text: bytes) -> Dict[str, Any]:
    read = json.loads(text)
    if not isinstance(read, dict):
        raise ValueError("it is no object")
    return read


def decision(raw: Object) -> Decision:
    names = [reason["name"] for reason in raw.get("reasons", [])]
    return Decision(
        raw["action"], raw.get("id"), raw.get("score", 0.0), names, raw.get("challenge"), raw.get("pass"), raw.get("error"), raw
    )


def failed(path: str, status: int, text: bytes) -> TollhouseError:
    try:
        problem = loaded(text)
        return TollhouseError(f"{path}: {status} {problem.get('detail', '')}", status, problem)
    except ValueError:
        return TollhouseError(f"{path}: {status}", status)


def seconds(after: Optional[str]) -> float:
    """Returns what `Retry-After` says, a number or a date."""
    try:
        return float(after or 0) if (after or "0").isdigit() else parsedate_to_datetime(after or "").timestamp() - time.time()
    except (ValueError, TypeError):
        return 0.0
