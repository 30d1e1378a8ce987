"""What a visitor shows, and gets to show: solved challenges and passes."""
from __future__ import annotations

from typing import Any, Mapping

SOLUTION, PASS = "Tollhouse-Solution", "tollhouse-pass"


def shown(event: Mapping[str, Any], headers: Mapping[str, str], cookies: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns an event with the solution and the pass that came with a request."""
    solution, token = headers.get(SOLUTION), cookies.get(PASS)
    more = {"challenge.solution": solution, "pass.token": token}
    return {**event, **{name: value for name, value in more.items() if value}}


def cookie(passed: Mapping[str, Any], is_secure: bool) -> str:
    """Returns the cookie that keeps a pass."""
    return f"{PASS}={passed['token']}; Path=/; Max-Age={passed['seconds']}; HttpOnly; SameSite=Lax{'; Secure' if is_secure else ''}"
