"""Middleware for Django. In its settings:

    MIDDLEWARE = [..., "tollhouse.django.TollhouseMiddleware"]
    TOLLHOUSE = {"url": "http://127.0.0.1:8377", "event": "shop.abuse.event"}

`event` takes a request and returns the event, or None for requests that nobody is asked about; all else are options of the client.
"""
from __future__ import annotations

from typing import Any, Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.module_loading import import_string

from . import Tollhouse
from .visitor import PASS, shown


class TollhouseMiddleware:
    """Refuses, or hands a challenge on. Views find the decision in `request.tollhouse`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        options = dict(settings.TOLLHOUSE)
        event = options.pop("event")
        self.event: Callable[[HttpRequest], Any] = import_string(event) if isinstance(event, str) else event
        self.get_response, self.client = get_response, Tollhouse(**options)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        event = self.event(request)
        if event is None:
            return self.get_response(request)
        decision = self.client.decide(shown(event, request.headers, request.COOKIES))
        if refusal := decision.refusal:
            return JsonResponse(refusal[1], status=refusal[0])
        request.tollhouse = decision
        response = self.get_response(request)
        if decision.passed:
            passed, secure = decision.passed, request.is_secure()
            response.set_cookie(PASS, passed["token"], passed["seconds"], httponly=True, samesite="Lax", secure=secure)
        return response
