"""Plays cases.json to both clients and their middleware, or asks a real node. Prints a line for each; fails on the first that
differs.

    python3 test_cases.py URL-OF-THE-FAULT-SERVER
    python3 test_cases.py --node URL TOKEN
"""
import asyncio
import json
import sys
import time
import urllib.request
import uuid
from pathlib import Path

from tollhouse import AsyncTollhouse, Decision, Tollhouse, TollhouseError

HERE = Path(__file__).parent
CASES = json.loads((HERE / "../cases/cases.json").read_text())
FAULTS = sys.argv[1]


def ask(path):
    with urllib.request.urlopen(FAULTS + path, data=b"") as answer:
        return json.load(answer)


def threads(url, options, call, arguments):
    client = Tollhouse(url, **options)
    try:
        return getattr(client, call)(*arguments)
    finally:
        client.close()


def coroutines(url, options, call, arguments):
    async def run():
        client = AsyncTollhouse(url, **options)
        try:
            return await getattr(client, call)(*arguments)
        finally:
            await client.close()

    return asyncio.run(run())


def asked(way, url, case, **more):
    """Returns what came of a call, by the names that expectations have, and the answer."""
    arguments = ["payload", case["input"]] if case["call"] == "verify" else [case["input"]]
    try:
        answer = way(url, {"timeout": 30, "on_error": "raise", **more, **case.get("client", {})}, case["call"], arguments)
    except TollhouseError as error:
        return {"raises": error.status}, None
    if case["call"] == "decide":
        came = {"action": answer.action, "challenge": answer.challenge, "pass": answer.passed}
        return {**came, "error": bool(answer.error), "decided": bool(answer.id), "duplicate": answer.raw.get("duplicate")}, answer
    if case["call"] == "decide_many":
        came = {"actions": [one.action for one in answer], "decided": [bool(one.id) for one in answer]}
        return {**came, "errors": [bool(one.error) for one in answer]}, answer
    if case["call"] == "feedback":
        return {"outcomes": len(answer), "errors": ["error" in one for one in answer]}, answer
    return {"answer": answer, "given": bool(answer)}, answer


def compare(name, came, expect):
    differ = {what: (came.get(what), value) for what, value in expect.items() if came.get(what) != value}
    assert not differ and ("raises" in came) == ("raises" in expect), f"{name}: {differ} {came}"


def check(number, case, way):
    case_at, expect = ask(f"/open/{number}"), dict(case["expect"])
    began = time.monotonic()
    came, _ = asked(way, case_at["url"], case)
    seconds, seen = time.monotonic() - began, ask(f"/seen/{case_at['port']}")
    # A server that hangs does so for ten minutes.
    assert seconds < 100, f"{case['name']}: {seconds} s"
    assert seconds >= expect.pop("seconds_min", 0), f"{case['name']}: {seconds} s"
    ids = [one["ids"] for one in seen]
    if expect.pop("one_id", False):
        assert ids[0][0] and all(one == ids[0] for one in ids), f"{case['name']}: {ids}"
    came.update(requests=len(seen), lines=[one["lines"] for one in seen], ids=[one for each in ids for one in each])
    came.update({name: seen[0][name] for name in ("path", "authorization") if seen})
    compare(case["name"], came, expect)
    print(f"{way.__name__}: {case['name']}")


def check_node(url, token):
    """Asks a real node; then goes on asking while somebody kills it and starts it again."""
    for way in (threads, coroutines):
        run, decided = uuid.uuid4().hex, ""
        text = (HERE / "../cases/live.json").read_text().replace("$run", run).replace("$large", "x" * 100_000)
        for number in range(len(json.loads(text))):
            case = json.loads(text.replace("$decided", decided))[number]
            came, answer = asked(way, url, case, **{} if "token" in case.get("client", {}) else {"token": token})
            decided = answer.id if isinstance(answer, Decision) else decided
            compare(case["name"], came, case["expect"])
            print(f"{way.__name__}: {case['name']}", flush=True)
    client = Tollhouse(url, token=token, pipeline="web", timeout=100, retries=100_000, on_error="raise")
    for number in range(1, 61):
        client.decide({"client.ip": "192.0.2.1", "http.path": f"/{number}"})
        print(f"{number} asked", flush=True)


def number_of(name):
    return next(number for number, case in enumerate(CASES) if case["name"] == name)


# What visitors get from both frameworks: a case, the status, and what is handed on.
VISITS = [
    ("an answer", 200, None),
    ("an error of the node itself goes by on_error at once", 403, None),
    ("a challenge is handed on", 401, "challenge"),
    ("a pass is handed on", 200, "pass"),
    ("503 with Retry-After is asked again, no sooner", 200, None),
]


def event(request):
    return {"ip": "192.0.2.1"} if request.headers.get("x-asks") == "yes" else None


def visits(name, get):
    """`get` makes an application that asks a URL, and sends a request with header fields to it."""
    for case, status, handed in VISITS:
        case_at = ask(f"/open/{number_of(case)}")
        options = {"timeout": 30, **CASES[number_of(case)].get("client", {})}
        headers = {"x-asks": "yes", "Tollhouse-Solution": "abc", "Cookie": "tollhouse-pass=p0"}
        answer = get(case_at["url"], options, headers)
        assert answer.status_code == status, f"{name}: {case}: {answer.status_code}"
        cookies = f"{answer.cookies} {answer.headers.get('set-cookie')}"
        assert ("tollhouse-pass=p1" in cookies) == (handed == "pass"), f"{name}: {case}: {cookies}"
        assert ("challenge" in json.loads(answer.content)) == (handed == "challenge"), f"{name}: {case}"
        assert ask(f"/seen/{case_at['port']}")[0]["shown"] == ["abc", "p0"], f"{name}: {case}"
        print(f"{name}: {case}")
    # Nobody is asked about a request without an event.
    case_at = ask(f"/open/{number_of('no answer in time, deny')}")
    assert get(case_at["url"], {"on_error": "deny"}, {}).status_code == 200
    assert ask(f"/seen/{case_at['port']}") == []


def fastapi():
    import httpx
    from fastapi import FastAPI, Request

    from tollhouse.fastapi import TollhouseMiddleware

    def get(url, options, headers):
        async def run():
            app, client = FastAPI(), AsyncTollhouse(url, **options)

            @app.get("/")
            def index(request: Request):
                return {"action": getattr(getattr(request.state, "tollhouse", None), "action", None)}

            app.add_middleware(TollhouseMiddleware, client=client, event=event)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as visitor:
                answer = await visitor.get("/", headers=headers)
            await client.close()
            return answer

        return asyncio.run(run())

    visits("fastapi", get)


def django():
    import django as framework
    from django.conf import settings
    from django.http import JsonResponse
    from django.test import Client, override_settings
    from django.urls import path

    def index(request):
        return JsonResponse({"action": getattr(getattr(request, "tollhouse", None), "action", None)})

    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF=type("urls", (), {"urlpatterns": [path("", index)]}),
        MIDDLEWARE=["tollhouse.django.TollhouseMiddleware"],
    )
    framework.setup()

    def get(url, options, headers):
        with override_settings(TOLLHOUSE={"url": url, "event": event, **options}):
            return Client().get("/", headers=headers)

    visits("django", get)


if FAULTS == "--node":
    check_node(*sys.argv[2:])
    sys.exit()
assert Decision("shadow").refusal is None, "who is shadowed is not told"
for number, case in enumerate(CASES):
    for way in (threads, coroutines):
        check(number, case, way)
fastapi()
django()
print(f"{len(CASES)} cases passed")
