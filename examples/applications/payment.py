#!/usr/bin/env python3
"""A checkout that asks Tollhouse before it tells the payer. Needs nothing but Python's standard library.

    tollhouse init --preset payment --data ./data && tollhouse serve --data ./data
    python3 examples/applications/payment.py http://127.0.0.1:8377
"""
import json
import sys
import urllib.request

TOLLHOUSE = sys.argv[1]


def decide(event):
    """Tollhouse's action, or `accept` where no answer comes: the shop does not close with its guard."""
    request = urllib.request.Request(f"{TOLLHOUSE}/v1/decide", json.dumps(event).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)["action"]
    except OSError:
        return "accept"


def charge(card, amount):
    """Stands for the payment provider: cards with an even last digit have money."""
    return "approved" if int(card[-1]) % 2 == 0 else "declined"


def pay(user, account_hours, ip, device, country, card, issuer, card_country, ship_country, amount):
    result = charge(card, amount)
    action = decide({
        "user": user, "account_hours": account_hours, "ip": ip, "device": device, "country": country, "card": card,
        "issuer": issuer, "card_country": card_country, "ship_country": ship_country, "amount": amount, "result": result,
    })
    if action == "reject":
        return action, "declined"  # and what was approved is voided
    if action == "review_before":
        return action, "confirmed by a second factor, or looked at before it is shipped"
    return action, result


print("honest:", *pay("ann", 9000, "198.51.100.7", "d-ann", "DE", "card-0", "400012", "DE", "DE", 4990))
# A list of stolen cards is tried, by another proxy each time, but from one computer.
for number in range(20):
    action, text = pay(f"t{number}", 1, f"203.0.{number}.9", "d-test", "US", f"card-{number * 3 + 11}", "500077", "US", "US", 100)
print("abuse:", action, text)
assert action in ("review_before", "reject"), action
