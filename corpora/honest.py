#!/usr/bin/env python3
"""Makes honest.log: an hour of people and programs that mean no harm, as a site's access log.

    python3 corpora/honest.py > corpora/honest.log
"""
import random
import time
from urllib.parse import quote_plus

draw = random.Random(42)
START = 1_779_008_400  # 2026-05-17T09:00:00Z
BROWSERS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36 Edg/125.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
]
SITE = "https://example.org"
lines = []


def add(at, ip, path, agent=BROWSERS[0], referer="-", method="GET", status=200, user="-", protocol="HTTP/1.1"):
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(START + at))
    size = 0 if status == 304 else draw.randrange(80, 40_000)
    line = f'{ip} - {user} [{when}] "{method} {path} {protocol}" {status} {size} "{referer}" "{agent}"'
    lines.append((at, line))


def page(at, ip, path, agent, referer, parts, cached=0.5):
    """A page, and what a browser loads for it."""
    add(at, ip, path, agent, referer)
    for part in range(parts):
        path_of = draw.choice(["/static/app%d.js", "/static/site%d.css", "/img/%d.webp", "/font/%d.woff2"]) % part
        add(at + draw.uniform(0, 2), ip, path_of, agent, SITE + path, status=304 if draw.random() < cached else 200)


# An office of ten behind one address: they read, search, post, and some of their apps ask for news every few seconds.
for person, agent in enumerate(BROWSERS):
    at, before = draw.uniform(0, 20), "-"
    while at < 360:
        path = draw.choice(["/article/%d" % draw.randrange(600), "/", "/search?q=" + quote_plus("annual report %d" % person)])
        page(at, "198.51.100.7", path, agent, before, parts=8)
        before, at = SITE + path, at + draw.expovariate(1 / 15)
    for turn in range(60 if person < 4 else 0):
        add(5 * turn + person, "198.51.100.7", "/api/notifications", agent, SITE + "/")
    add(person, "198.51.100.7", "/favicon.ico", agent, SITE + "/", status=404)
    add(person * 30, "198.51.100.7", "/comments", agent, SITE + "/", method="POST", status=302)

# An office whose site's parts come from elsewhere: each opens the first page at nine, and signs in; one mistypes.
for person, agent in enumerate(BROWSERS):
    add(2 * person, "198.51.100.8", "/", agent)
    add(2 * person + 9, "198.51.100.8", "/login", agent, SITE + "/", method="POST", status=401 if person in (3, 4) else 302)
    add(2 * person + 20, "198.51.100.8", "/inbox", agent, SITE + "/login")

# A gallery: a page with more than a hundred small pictures, some of which are gone.
for turn in range(3):
    add(100 + 20 * turn, "203.0.113.50", f"/gallery/{turn}", BROWSERS[4], SITE + "/")
    for part in range(110):
        add(101 + 20 * turn + part / 50, "203.0.113.50", f"/thumb/{turn}-{part}.jpg", BROWSERS[4], f"{SITE}/gallery/{turn}",
            status=404 if part % 9 == 0 else 200)

# An app that asks twice a second, and goes on after its session has ended.
for turn in range(480):
    add(turn / 2, "203.0.113.60", "/api/notifications", BROWSERS[1], SITE + "/", status=200 if turn < 360 else 401)

# Somebody types into a search that answers each letter; somebody opens forty results at once.
for word in ["union select committee", "rock 'n' roll and more", "bats or cats"]:
    for end in range(1, len(word) + 1):
        add(200 + end / 4, "203.0.113.62", "/suggest?q=" + quote_plus(word[:end]), BROWSERS[6], SITE + "/")
page(300, "203.0.113.63", "/results", BROWSERS[7], "-", parts=8)
for turn in range(40):
    page(305 + turn, "203.0.113.63", f"/product/{turn}", BROWSERS[7], SITE + "/results", parts=2)

# Nextcloud's client, which asks for each file, and is asked for its password at first; git, which is asked each time.
for turn in range(400):
    agent = "Mozilla/5.0 (Linux) mirall/3.13.0 (Nextcloud)"
    path = f"/remote.php/dav/files/ann/Photos/{turn}.jpg"
    if turn % 3 == 0:
        add(400 + turn / 5, "203.0.113.70", path, agent, method="PROPFIND", status=401)
    add(400 + turn / 5, "203.0.113.70", path, agent, method="PROPFIND", status=404 if turn % 5 == 0 else 207, user="ann")
    add(400 + turn / 5, "203.0.113.70", path, agent, method="PUT", status=201, user="ann")
for turn in range(12):
    for status, user in [(401, "-"), (200, "bob")]:
        add(900 + 4 * turn, "203.0.113.71", f"/git/project{turn}.git/info/refs?service=git-upload-pack", "git/2.45.1", status=status, user=user)

# Programs that say what they are: an interface's client, a webhook, a monitor, a reader of feeds, a package manager.
for turn in range(100):
    add(500 + 3 * turn, "203.0.113.72", "/api/v1/orders", "python-requests/2.32", method="POST", status=201)
for turn in range(5):
    add(600 + 70 * turn, "192.0.2.90", "/hooks/payment", "-", method="POST", status=204)
for turn in range(120):
    add(30 * turn, "192.0.2.10", "/health", "curl/8.5")
for turn in range(10):
    add(360 * turn, "203.0.113.61", "/feed.xml", "Java/17.0.2", status=304)
for turn in range(60):
    add(1500 + turn / 4, "192.0.2.11", f"/debian/pool/{turn}.deb", "Debian APT-HTTP/1.3 (2.6.1)", status=200 if turn % 10 else 404)

# A search engine, and the check of a certificate.
for turn in range(200):
    add(2 * turn, "192.0.2.66", f"/article/{turn}", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
add(700, "192.0.2.12", "/.well-known/acme-challenge/abc",
    "Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)")

# Readers who come for the first time, and for something that sounds like an attack.
FIRST = [
    ("GET", "/blog/powershell-tips", 200, "https://www.google.com/"),
    ("GET", "/search?q=" + quote_plus("curl tutorial"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("curl http request"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("union all the workers") + "&sort=asc", 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus('"rock" or "roll"') + "&page=2", 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("rock 'n' roll 'and more"), 200, "-"),
    ("GET", "/search?q=" + quote_plus("time.sleep(5) python"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("confirm() or prompt() in javascript"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("how to use <table> and <br>"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("os.system() vs subprocess"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("#!/bin/bash set -e"), 200, SITE + "/"),
    ("GET", "/search?q=" + quote_plus("what is cmd.exe"), 200, SITE + "/"),
    ("GET", "/docs/javascript:void-operator", 200, "-"),
    ("GET", "/api/items?filter=concat(first,last)", 200, "-"),
    ("GET", "/wiki/Brazil?ref=news/<br", 200, "-"),
    ("GET", "/img/${product.id}", 404, SITE + "/"),
    ("GET", "/maps/..hidden/a", 404, "-"),
    ("GET", "/view?return=../list", 200, SITE + "/"),
    ("GET", "/products/telescopes", 200, SITE + "/"),
    ("GET", "/recipes/shellfish-pasta", 200, SITE + "/"),
    ("GET", "/jenkins/job/build/12/", 200, "https://ci.example.org/"),
    ("GET", "/learn/python-course", 200, "-"),
    ("GET", "/owa/", 404, "-"),
    ("GET", "/old/bookmark.html", 404, "-"),
    ("POST", "/wp-login.php", 302, "https://blog.example.org/wp-login.php"),
    ("GET", "/login?next=https%3A%2F%2Fexample.org%2Faccount%3Ftab%3D1", 200, "-"),
    ("GET", "/oauth/callback?state=" + "a1b2" * 300, 302, "https://login.example.org/"),
    ("GET", "/caf%E9/men%FC", 200, "-"),
]
for number, (method, path, status, referer) in enumerate(FIRST):
    add(1800 + 40 * number, f"192.0.2.{100 + number}", path, draw.choice(BROWSERS), referer, method, status)

for _, line in sorted(lines, key=lambda one: one[0]):
    print(line)
