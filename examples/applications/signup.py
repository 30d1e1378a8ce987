#!/usr/bin/env python3
"""A form that asks Tollhouse before it makes an account. Needs nothing but Python's standard library.

    tollhouse init --preset signup --data ./data && tollhouse serve --data ./data
    python3 examples/applications/signup.py http://127.0.0.1:8377
"""
import json
import sys
import urllib.request

TOLLHOUSE = sys.argv[1]


def decide(event):
    """Tollhouse's action, or `accept` where no answer comes: the form does not close with its guard."""
    request = urllib.request.Request(f"{TOLLHOUSE}/v1/decide", json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)["action"]
    except OSError:
        return "accept"


def sign_up(email, name, ip, device, agent, country, form_seconds):
    action = decide({
        "email": email, "name": name, "ip": ip, "device": device, "agent": agent,
        "country": country, "form_seconds": form_seconds,
    })
    if action == "challenge":
        return action, "Please enter the code that we sent you."
    if action in ("review_before", "reject"):
        return action, "Thank you! We will write to you."
    return action, "Welcome!"


firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0"
print("honest:", *sign_up("anna.meyer@gmx.de", "Anna Meyer", "198.51.100.7", "d-ann", firefox, "DE", 48))
# One telephone makes account after account, by another proxy each time.
for number in range(15):
    action, text = sign_up(f"bonus.hunter{number}@gmail.com", "Max Muster", f"203.0.{number}.9", "d-farm", firefox, "DE", 9)
print("abuse:", action, text)
assert action in ("challenge", "review_before", "reject"), action
