#!/usr/bin/env python3
"""A board that asks Tollhouse before it shows a comment. Needs nothing but Python's standard library.

    tollhouse init --preset comments --data ./data && tollhouse serve --data ./data
    python3 examples/applications/comments.py http://127.0.0.1:8377
"""
import json
import sys
import time
import urllib.request

TOLLHOUSE = sys.argv[1]


def decide(event):
    """Tollhouse's action, or `accept` where no answer comes: the board does not close with its guard."""
    request = urllib.request.Request(f"{TOLLHOUSE}/v1/decide", json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)["action"]
    except OSError:
        return "accept"


DAY = 86_400


def publish(user, joined, place, opened, text, typed_seconds, ip, device):
    """What becomes of a comment: shown, held for a moderator, or refused."""
    action = decide({
        "user": user, "joined": joined, "place": place, "opened": opened, "text": text,
        "typed_seconds": typed_seconds, "ip": ip, "device": device,
    })
    if action == "review_after":
        return action, "shown, and a moderator looks at it"
    if action == "review_before":
        return action, "shown to its author, until a moderator has decided"
    if action == "reject":
        return action, "refused"
    return action, "shown"


now = time.time()
print("honest:", *publish("ann", now - 300 * DAY, "bikes", now - 900 * DAY, "Try another pump: mine leaked, too.", 25,
                          "198.51.100.7", "d-ann"))
# New accounts post one text with other numbers and the same link, from one place to the next.
for number in range(12):
    action, text = publish(f"new{number % 4}", now - 600, f"place{number}", now - 300 * DAY,
                           f"Earn {number * 7 + 100} euro a day from home, see how: https://cash.example/",
                           2, f"203.0.113.{number}", f"d-new{number}")
print("abuse:", action, text)
assert action in ("review_after", "review_before", "reject"), action
