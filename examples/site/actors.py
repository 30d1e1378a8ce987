"""Those who come to the guest book and are no browsers: honest programs, and abusers with scripts.

Each actor returns what it counted. Chance is drawn from a seed; only the order in which threads come is left to the machine.
"""
import base64
import hashlib
import html
import http.client
import json
import random
import re
import subprocess
import threading
import time
import urllib.parse

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:152.0) Gecko/20100101 Firefox/152.0"
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
BROWSER = {"User-Agent": CHROME, "Accept": HTML, "Accept-Language": "en-US,en;q=0.9", "Accept-Encoding": "identity"}
TOOLS = ({"User-Agent": "python-requests/2.32.3", "Accept": "*/*"}, {"User-Agent": "Scrapy/2.13 (+https://scrapy.org)", "Accept": HTML},
         {"User-Agent": "Go-http-client/1.1"}, {"User-Agent": "curl/8.5.0", "Accept": "*/*"})
PARTS = ("/static/style.css", "/static/book.js", "/static/logo.svg")
PATIENCE = 60
# Iterations that a page is worth to a scraper: some seconds of a core.
WORK_MAX = 10_000_000


def address(chance):
    """An address that may be anybody's. It only stands in a header field."""
    return f"{chance.choice((24, 46, 62, 77, 81, 89, 91, 109, 151, 178))}.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"


class Client:
    """One address with its cookies."""

    def __init__(self, site, actor, ip, head):
        self.site = urllib.parse.urlsplit(site).netloc
        self.head = {**head, "X-Actor-Address": ip, "X-Actor": actor}
        self.cookies = {}
        self.connection = None
        self.asked = 0
        self.decisions = []

    def request(self, method, path, body=None, **more):
        head = {**self.head, **more}
        if self.cookies:
            head["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            head["Content-Type"] = "application/x-www-form-urlencoded"
            body = urllib.parse.urlencode(body)
        for attempt in (1, 2):
            if not self.connection:
                self.connection = http.client.HTTPConnection(self.site, timeout=PATIENCE)
            try:
                self.connection.putrequest(method, path, skip_accept_encoding=True)
                for name, value in head.items():
                    self.connection.putheader(name, value)
                if body is not None:
                    self.connection.putheader("Content-Length", str(len(body)))
                self.connection.endheaders(body.encode() if body is not None else None)
                answer = self.connection.getresponse()
                text = answer.read().decode("utf-8", "replace")
                break
            except (http.client.HTTPException, OSError):
                # A connection that was kept may have been closed meanwhile.
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise
        for field in answer.headers.get_all("Set-Cookie", ()):
            name, _, value = field.split(";")[0].partition("=")
            self.cookies[name] = value
        handed = answer.headers.get("Tollhouse-Challenge")
        if answer.status in (401, 403, 429):
            self.asked += 1
            if handed:
                self.decisions.append(json.loads(base64.b64decode(handed))["id"])
        return answer.status, text, handed

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, fields, **more):
        return self.request("POST", path, fields, **more)

    def solve(self, handed, back):
        """Solves a challenge as a program of its own does, and returns the processor seconds that it took; None where it gives up."""
        began = time.thread_time()
        challenge = json.loads(json.loads(base64.b64decode(handed))["challenge"])
        if work_of(challenge["parameters"]) > WORK_MAX:
            return None
        solution = solution_of(challenge["parameters"])
        payload = base64.b64encode(json.dumps({"challenge": challenge, "solution": solution}).encode()).decode()
        self.post("/.tollhouse/verify", {"altcha": payload, "return": back})
        return time.thread_time() - began


def work_of(parameters):
    """Iterations that are expected until a key has the prefix."""
    return parameters["cost"] * 16 ** len(parameters["keyPrefix"])


def solution_of(parameters):
    """The counter whose key has the prefix: PBKDF2, by OpenSSL."""
    salt, nonce = bytes.fromhex(parameters["salt"]), bytes.fromhex(parameters["nonce"])
    length = parameters.get("keyLength", 32)
    counter = 0
    while True:
        key = hashlib.pbkdf2_hmac("sha256", nonce + counter.to_bytes(4, "big"), salt, parameters["cost"], length)
        if key.hex().startswith(parameters["keyPrefix"]):
            return {"counter": counter, "derivedKey": key.hex()}
        counter += 1


def form_token(page):
    found = re.search(r'name="form" value="([^"]*)"', page)
    return html.unescape(found[1]) if found else ""


def filled(page, fields):
    """The fields of a form, and what a script writes into all others that take text: it does not see which of them people see."""
    names = (re.search(r'name="([^"]*)"', field) for field in re.findall(r'<input type="text"[^>]*>', page))
    return {**{html.unescape(name[1]): "https://cash-1.example/" for name in names if name}, **fields}


# Honest programs. Each session returns whether it got all that it wanted, and how often it was asked.

def feed_reader(site, chance):
    client = Client(site, "honest", address(chance), {"User-Agent": chance.choice((
        "Miniflux/2.2.9", "Feedly/1.0 (+https://feedly.com/fetcher.html; 14 subscribers)", "NetNewsWire (RSS Reader; https://netnewswire.com/)",
        "Tiny Tiny RSS/25.06 (https://tt-rss.org/)", "FreshRSS/1.26.2 (Linux; https://freshrss.org)")), "Accept": "application/rss+xml, */*"})
    fine = True
    for _ in range(chance.randint(3, 12)):
        status, text, _ = client.get("/feed.xml")
        fine &= status == 200 and "<rss" in text
        time.sleep(chance.uniform(0.05, 0.3))
    # Some show the picture of the site, and some fetch what is new in full.
    if chance.random() < 0.5:
        fine &= client.get("/favicon.ico")[0] == 200
    if chance.random() < 0.3:
        for link in re.findall("<link>(/entry/[0-9]+)</link>", text)[-2:]:
            fine &= client.get(link)[0] == 200
    return fine, client


def monitor(site, chance):
    client = Client(site, "honest", address(chance), {"User-Agent": chance.choice((
        "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "Uptime-Kuma/2.0.2", "Better Stack Better Uptime Bot Mozilla/5.0",
        "curl/8.5.0"))})
    paths = chance.choice((["/health"], ["/"], ["/", "/health"], ["/", "/sign-up"]))
    fine = True
    for _ in range(chance.randint(10, 40)):
        for path in paths:
            fine &= client.request(chance.choice(("GET", "HEAD")), path)[0] == 200
        time.sleep(chance.uniform(0.02, 0.1))
    return fine, client


# Networks that operators publish for their robots, as the example's configuration has them.
ROBOTS = (
    ("Googlebot", "66.249.66.", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/150.0.0.0 Safari/537.36"),
    ("Bingbot", "157.55.39.", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/150.0.0.0 Safari/537.36"),
    ("Applebot", "17.241.75.", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)"),
    ("DuckDuckBot", "57.152.72.", "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)"),
    ("archive.org_bot", "207.241.237.", "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)"),
)


def robot(site, chance):
    """A search engine's: from its own network, obeys robots.txt, follows links."""
    _, net, agent = chance.choice(ROBOTS)
    client = Client(site, "honest", net + str(chance.randrange(1, 255)), {"User-Agent": agent, "Accept": HTML, "From": "robot(at)example.net"})
    fine = client.get("/robots.txt")[0] == 200
    ahead, seen = ["/"], set()
    for _ in range(chance.randint(15, 60)):
        path = ahead.pop(chance.randrange(len(ahead)))
        seen.add(path)
        status, text, _ = client.get(path)
        fine &= status == 200
        ahead += [link for link in dict.fromkeys(re.findall('href="(/(?:entry/|[?])[^"]*)"', text)) if link not in seen and link not in ahead]
        if not ahead:
            break
        time.sleep(chance.uniform(0.05, 0.25))
    return fine, client


def preview(site, chance):
    """A messenger or a server of the fediverse that shows what is behind a link."""
    client = Client(site, "honest", address(chance), {"User-Agent": chance.choice((
        "http.rb/5.3.1 (Mastodon/4.5.0; +https://social.example/) Bot", "WhatsApp/2.24", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"))})
    return client.get(f"/entry/{chance.randint(1, 200)}")[0] == 200, client


HONEST = {"feed reader": feed_reader, "monitor": monitor, "robot": robot, "link preview": preview}


# Abusers. Each returns how many requests it made for what it wanted; what it got is in the book's own record.

def entries(chance, count):
    """Pages of entries in the order in which a scraper comes by them."""
    first = chance.randint(1, 40)
    return [f"/entry/{first + number % 350}" for number in range(count)]


class Tally:
    """Counts of an abuser, of all its threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.attempts = 0
        self.asked = 0
        self.processor = 0.0
        self.solved = 0
        self.solving = 0.0

    def add(self, attempts=0, asked=0, processor=0.0, solved=0, solving=0.0):
        with self.lock:
            self.attempts += attempts
            self.asked += asked
            self.processor += processor
            self.solved += solved
            self.solving += solving


def scrape(site, actor, ip, head, paths, tally, solves=False, pause=0.0):
    began = time.thread_time()
    client = Client(site, actor, ip, head)
    for path in paths:
        status, _, handed = client.get(path)
        tally.add(attempts=1)
        seconds = client.solve(handed, path) if solves and handed else None
        if seconds is not None:
            tally.add(attempts=1, solved=1, solving=seconds)
            client.get(path)
        if pause:
            time.sleep(pause)
    tally.add(asked=client.asked, processor=time.thread_time() - began)


def scraper_as_browser(site, chance, size):
    """Sends what a browser sends, and opens page after page."""
    tally = Tally()
    scrape(site, "scraper, a browser's head", address(chance), BROWSER, entries(chance, size), tally)
    return tally


def scraper_with_tools(site, chance, size):
    """Says which library it is."""
    tally = Tally()
    for head in TOOLS:
        scrape(site, "scraper, a tool's head", address(chance), head, entries(chance, size // len(TOOLS)), tally)
    return tally


def scraper_as_robot(site, chance, size):
    """Says that it is a search engine's robot, from an address that is none."""
    tally = Tally()
    head = {"User-Agent": ROBOTS[0][2], "Accept": HTML}
    scrape(site, "scraper, says it is Googlebot", address(chance), head, entries(chance, size // 2), tally, pause=0.05)
    return tally


def scraper_of_many(site, chance, size):
    """Has an address for every few pages."""
    tally = Tally()
    paths = entries(chance, size // 2)
    # The same old browser everywhere, as rented addresses have it.
    head = {**BROWSER, "User-Agent": CHROME.replace("150", "131")}
    for at in range(0, len(paths), 10):
        scrape(site, "scraper, an address each 10 pages", address(chance), head, paths[at:at + 10], tally)
    return tally


def scraper_that_solves(site, chance, size):
    """Solves what it is asked, with a program made for it, and goes on with the pass."""
    tally = Tally()
    scrape(site, "scraper, solves challenges", address(chance), BROWSER, entries(chance, size // 2), tally, solves=True)
    return tally


FIRST = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "henry", "ida", "jonas", "karla", "leo", "mia", "noah", "olga", "paul")
LAST = ("meyer", "smith", "novak", "rossi", "dubois", "garcia", "larsen", "kowalski", "silva", "jensen", "horvat", "moreau", "brown", "weber")


def farm(site, chance, size):
    """Makes accounts by some telephones and many proxies, with all that browsers send. It reads the mail of its own domain only."""
    tally, threads = Tally(), []
    domain = f"{''.join(chance.choice('abcdefghkmnprstuvwxz') for _ in range(7))}.example"
    name = f"{chance.choice(FIRST)}.{chance.choice(LAST)}"
    nets = [address(chance).rsplit(".", 1)[0] for _ in range(30)]
    plans = []
    for _ in range(size // 4):
        kind = chance.choice(("shape", "domain", "odd"))
        email = {"shape": f"{name}{chance.randrange(100, 999)}@gmail.com",
                 "domain": f"{chance.choice(FIRST)}.{chance.choice(LAST)}@{domain}",
                 "odd": f"{''.join(chance.choice('bcdfghjkmnpqrstvwxz0123456789') for _ in range(11))}@outlook.com"}[kind]
        plans.append((f"{chance.choice(nets)}.{chance.randrange(1, 255)}", email, chance.uniform(3.1, 5)))

    def telephone(plans, number):
        began = time.thread_time()
        device = hashlib.sha256(f"{domain} {number}".encode()).hexdigest()[:16]
        for ip, email, seconds in plans:
            client = Client(site, "sign-up farm", ip, {**BROWSER, "User-Agent": (CHROME, FIREFOX)[number % 2]})
            client.cookies["device"] = device
            client.get("/")
            for part in PARTS:
                client.get(part, Referer=f"{site}/")
            _, page, _ = client.get("/sign-up", Referer=f"{site}/")
            time.sleep(seconds)
            _, page, _ = client.post("/sign-up", {"form": form_token(page), "name": email.split("@")[0], "email": email}, Referer=f"{site}/sign-up")
            if email.endswith(domain) and "/confirm" in page:
                code = sign_up_code(email)
                client.post("/confirm", {"email": email, "code": code}, Referer=f"{site}/sign-up")
            tally.add(attempts=1, asked=client.asked)
        tally.add(processor=time.thread_time() - began)

    telephones = 8
    for number in range(telephones):
        threads.append(threading.Thread(target=telephone, args=(plans[number::telephones], number)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


outbox = None


def sign_up_code(email):
    """The code that was sent to somebody, as one who has the mailbox reads it."""
    with open(outbox, encoding="utf-8") as file:
        codes = [mail["code"] for mail in map(json.loads, file) if mail["to"] == email]
    return codes[-1] if codes else ""


def spam(chance):
    return (f"{chance.choice(('Earn', 'Make', 'Get'))} {chance.randrange(100, 999)} euro a day from home, {chance.choice(('no risk', 'no boss', 'start now'))}: "
            f"https://{chance.choice(('cash', 'quick', 'rich'))}-{chance.randrange(3)}.example/{chance.randrange(10_000)}")


def curl(site, actor, ip, jar, head, method, path, fields=None):
    """Runs `curl`, and returns the status and the body."""
    command = ["curl", "-s", "--max-time", str(PATIENCE), "-b", jar, "-c", jar, "-w", "\n%{http_code}", "-H", f"X-Actor-Address: {ip}", "-H", f"X-Actor: {actor}"]
    for name, value in head.items():
        command += ["-H", f"{name}: {value}"]
    for name, value in (fields or {}).items():
        command += ["--data-urlencode", f"{name}={value}"]
    ran = subprocess.run([*command, "-X", method, site + path], stdout=subprocess.PIPE, check=False)
    body, _, status = ran.stdout.decode("utf-8", "replace").rpartition("\n")
    return int(status or 0), body


def spammer(site, chance, size, actor, head, directory):
    """Makes an account and writes, by `curl`, into all fields that it finds; with each account from another address, of few networks."""
    tally = Tally()
    nets = [address(chance).rsplit(".", 1)[0] for _ in range(4)]
    for number in range(max(3, size // 40)):
        jar = f"{directory}/{actor.replace(' ', '-')}-{number}.jar"
        ip = f"{chance.choice(nets)}.{chance.randrange(1, 255)}"

        def ask(method, path, fields=None):
            status, body = curl(site, actor, ip, jar, head, method, path, fields)
            tally.add(asked=status in (401, 403, 429))
            return body

        name = f"{chance.choice(FIRST)}{chance.randrange(10_000)}"
        page = ask("GET", "/sign-up")
        email = f"{name}@{chance.choice(('gmail.com', 'outlook.com', 'web.de'))}"
        ask("POST", "/sign-up", filled(page, {"form": form_token(page), "name": name, "email": email}))
        for _ in range(2):
            page = ask("GET", "/write")
            ask("POST", "/write", filled(page, {"form": form_token(page), "text": spam(chance)}))
            tally.add(attempts=1)
    return tally


def spammer_with_curl(directory):
    return lambda site, chance, size: spammer(site, chance, size, "spammer, curl", {}, directory)


def spammer_with_curl_as_browser(directory):
    head = {"User-Agent": CHROME, "Accept": HTML, "Accept-Language": "en-US,en;q=0.9"}
    return lambda site, chance, size: spammer(site, chance, size, "spammer, curl with a browser's head", head, directory)


def abusers(directory):
    """Abusers by what they are called in the record, and the pages or entries that they are after."""
    return {
        "scraper, a browser's head": ("page", scraper_as_browser),
        "scraper, a tool's head": ("page", scraper_with_tools),
        "scraper, says it is Googlebot": ("page", scraper_as_robot),
        "scraper, an address each 10 pages": ("page", scraper_of_many),
        "scraper, solves challenges": ("page", scraper_that_solves),
        "sign-up farm": ("sign-up", farm),
        "spammer, curl": ("entry", spammer_with_curl(directory)),
        "spammer, curl with a browser's head": ("entry", spammer_with_curl_as_browser(directory)),
    }


# Abusers who know what they are up against, and are counted by themselves.
HARDER = {"scraper, says it is Googlebot", "scraper, an address each 10 pages", "scraper, solves challenges"}


def seeded(seed, name):
    return random.Random(f"{seed} {name}")
