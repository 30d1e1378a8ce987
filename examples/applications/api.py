#!/usr/bin/env python3
"""An interface that asks Tollhouse before its answer goes out. Needs nothing but Python's standard library.

    tollhouse init --preset api --data ./data && tollhouse serve --data ./data
    python3 examples/applications/api.py http://127.0.0.1:8377
"""
import json
import sys
import urllib.request

TOLLHOUSE = sys.argv[1]


def decide(event):
    """Tollhouse's action, or `accept` where no answer comes: the interface does not close with its guard."""
    request = urllib.request.Request(f"{TOLLHOUSE}/v1/decide", json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)["action"]
    except OSError:
        return "accept"


ORDERS = {f"order/{number}": {"total": number} for number in range(0, 1000, 10)}


def get(key, item, ip, agent):
    """The status and body of an answer: looked up first, then asked about, then sent."""
    found = ORDERS.get(item)
    status = 200 if found else 404
    action = decide({
        "key": key, "ip": ip, "agent": agent, "endpoint": "/v1/orders", "object": item, "method": "GET", "status": status,
    })
    if action == "throttle":
        return action, 429, "too many requests, try again in a minute"
    if action == "reject":
        return action, 403, "this key is blocked"
    return action, status, found


print("honest:", *get("partner-1", "order/10", "198.51.100.7", "shop-sdk/3.1"))
# Somebody goes through all numbers, to find those that there are.
for number in range(60):
    action, status, body = get("free-77", f"order/{number * 3 + 1}", "203.0.113.9", "python-requests/2.32")
print("abuse:", action, status, body)
assert action in ("throttle", "reject"), action
