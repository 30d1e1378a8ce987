#!/usr/bin/env python3
"""A log-in that asks Tollhouse before it answers. Needs nothing but Python's standard library.

    tollhouse init --preset login --data ./data && tollhouse serve --data ./data
    python3 examples/applications/login.py http://127.0.0.1:8377
"""
import hashlib
import hmac
import json
import sys
import urllib.request

TOLLHOUSE = sys.argv[1]
KEY = b"a secret of this application"
ACCOUNTS = {"ann": "correct horse", **{f"user{number}": f"secret {number}" for number in range(30)}}


def decide(event):
    """Tollhouse's action, or `accept` where no answer comes: the site does not close with its guard."""
    request = urllib.request.Request(f"{TOLLHOUSE}/v1/decide", json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)["action"]
    except OSError:
        return "accept"


def log_in(user, password, ip, device, agent, country):
    event = {"site": "shop.example", "user": user, "ip": ip, "device": device, "agent": agent, "country": country}
    if user not in ACCOUNTS:
        event["result"] = "unknown_user"
    elif not hmac.compare_digest(ACCOUNTS[user], password):
        # Four digits of a keyed hash: enough to see one password tried everywhere, too little to find it out.
        event["result"] = "wrong_password"
        event["password"] = hmac.new(KEY, password.encode(), hashlib.sha256).hexdigest()[:4]
    else:
        event["result"] = "success"
    action = decide(event)
    if action in ("throttle", "reject"):
        return action, "Wrong name or password, or try again later."  # also if both are right
    if action == "challenge":
        return action, "Please enter the code that we sent you."
    return action, "Welcome!" if event["result"] == "success" else "Wrong name or password."


firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0"
print("honest:", *log_in("ann", "correct horse", "198.51.100.7", "d-ann", firefox, "DE"))
# Somebody tries a leaked list from one address, and its last pair is right.
for number in range(20):
    log_in(f"user{number}", "letmein", "203.0.113.9", None, "python-requests/2.32", "US")
action, text = log_in("user20", "secret 20", "203.0.113.9", None, "python-requests/2.32", "US")
print("abuse:", action, text)
assert action in ("throttle", "reject"), action
