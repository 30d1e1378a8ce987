#!/usr/bin/env python3
"""Makes analytics.ndjson: two hours of a shop's tracker, honest visitors and four kinds of made-up ones.

    python3 corpora/analytics.py > corpora/analytics.ndjson
"""
import json
import random

draw = random.Random(16)
START = 1_779_008_400  # 2026-05-17T09:00:00Z
AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/137.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Version/18.4 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Android 15; Mobile; rv:139.0) Gecko/139.0 Firefox/139.0",
]
SCREENS = ["1920x969", "1280x720", "390x844", "412x915", "1440x900"]
LOCALES = ["en-GB/Europe/London", "de-DE/Europe/Berlin", "fi-FI/Europe/Helsinki"]
PAGES = ["/", "/shoes", "/shoes/42", "/coats", "/cart", "/about"]
events = []


def add(at, who, **more):
    event = {"id": f"e{len(events)}", "time": round(START + at, 3), "event": "view", "site": "shop.example"}
    event.update(who)
    event.update(more)
    events.append((at, event))


def visitor(number):
    return {
        "user": f"u{number}",
        "ip": f"198.51.100.{number % 200 + 1}" if number % 5 else f"2001:db8:{number:x}::7",
        "device": f"d{number}",
        "session": f"s{number}",
        "agent": draw.choice(AGENTS),
        "screen": draw.choice(SCREENS),
        "locale": draw.choice(LOCALES),
    }


for number in range(40):
    who, at = visitor(number), draw.uniform(0, 6000)
    add(at, who, page="/", referer=draw.choice(["https://www.search.example/?q=shoes", "https://news.example/a"]),
        campaign=draw.choice(["spring", "brand"]))
    for _ in range(draw.randrange(1, 7)):
        at += draw.expovariate(1 / 35)
        add(at, who, page=draw.choice(PAGES), event=draw.choice(["view", "view", "view", "click"]))

# One device that poses as a new user for each click it is paid for.
farm = visitor(900)
for turn in range(24):
    add(3000 + 20 * turn, farm, user=f"farm{turn}", session=f"f{turn}", event="click", campaign="spring", page="/shoes")

# A script that loads a page as fast as it can.
script = visitor(901)
for turn in range(90):
    add(4200 + 0.4 * turn, script, ip="203.0.113.9", page="/shoes/42")

# Browsers without a window.
for turn in range(12):
    add(5000 + 11 * turn, visitor(902), ip="203.0.113.77", agent="Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/126.0",
        screen="0x0", page="/coats", event="click", campaign="brand")

# A cookie that was sold and is used all over the world.
for turn in range(16):
    add(5600 + 40 * turn, visitor(903), ip=f"192.0.{turn}.20", page="/cart", locale=LOCALES[turn % 3])

# One in thirty comes late, some of them twice.
order = []
for at, event in events:
    late = draw.random() < 1 / 30
    order.append((at + (draw.uniform(60, 1800) if late else 0), event))
    if late and draw.random() < 0.5:
        order.append((at + 1800, event))
for _, event in sorted(order, key=lambda one: one[0]):
    print(json.dumps(event))
