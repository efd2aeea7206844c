"""Answers that faults make, as HTTP's bytes."""

import json
from typing import Any

from .faults import Hit, Kind
from .server import Answer

PHRASES = {200: "OK", 201: "Created"}

LONGEST_DELAY = 4.0
"""Seconds for which a fault delays an answer at most."""


def answer_instead(hit: Hit) -> Answer | None:
    """The answer that a fault gives in place of the server; None if it gives none."""
    chance = hit.chance
    if hit.kind == Kind.HTML:
        page = b"<html><body><h1>It works!</h1></body></html>"
        return Answer(chance.choice((200, 404, 502, 503)), page, {"Content-Type": "text/html"})
    if hit.kind == Kind.BUSY:
        return _status(429, "TooManyRequests", {"Retry-After": str(chance.choice((1, 2, 5)))})
    if hit.kind == Kind.BUSY_FOR_LONG:
        return _status(429, "TooManyRequests", {"Retry-After": "40"})
    if hit.kind == Kind.BROKEN:
        return _status(chance.choice((500, 502, 503, 504)), "InternalError")
    if hit.kind == Kind.FORBIDDEN:
        code = chance.choice((401, 403))
        return _status(code, "Forbidden" if code == 403 else "Unauthorized")
    if hit.kind == Kind.FORGOTTEN:
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(201, json.dumps(said).encode(), {"Content-Type": "application/json"})
    return _status(410, "Expired") if hit.kind == Kind.EXPIRED else None


def forbidden() -> Answer:
    """The answer to who lacks a right."""
    return _status(403, "Forbidden")


def failed(hit: Hit) -> Answer:
    """The answer when the server did its work, and says that it failed."""
    return _status(hit.chance.choice((500, 503, 504)), "Timeout")


def corrupted(answer: Answer, hit: Hit) -> Answer:
    """An answer with some of its bytes changed."""
    at = hit.chance.randrange(max(1, len(answer.body)))
    body = answer.body[:at] + b"\x00{[\xff" + answer.body[at + 4 :]
    return Answer(answer.code, body, answer.headers)


def _status(code: int, reason: str, headers: dict[str, str] | None = None) -> Answer:
    said: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "made to fail",
        "reason": reason,
        "code": code,
    }
    return Answer(code, json.dumps(said).encode(), {"Content-Type": "application/json", **(headers or {})})


TOO_OLD = b'{"type":"ERROR","object":%b}\n' % _status(410, "Expired").body
"""The line of a watch that says that it is too old."""


def head_of(code: int, headers: dict[str, str]) -> bytes:
    """The head of an answer."""
    lines = [
        f"HTTP/1.1 {code} {PHRASES.get(code, 'Other')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk_of(content: bytes) -> bytes:
    """A piece of an answer whose length isn't known; the last one is empty."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def http_bytes(answer: Answer) -> bytes:
    """A whole answer."""
    return head_of(answer.code, {**answer.headers, "Content-Length": str(len(answer.body))}) + answer.body
