#!/usr/bin/env python3
"""A guest book with accounts, which asks Tollhouse about each sign-up and each entry, and has its forms and bait from it. Needs nothing
but Python's standard library.

    python3 guestbook.py --tollhouse http://127.0.0.1:8377

The proxy in front has asked about the request before it comes here. A farm that behaves like browsers do can only be told by
what it writes into forms, so those are asked about here. Where no answer comes, the book stays open. Who fills in what nobody sees
gets the pages of a success, and sees entries that nobody else does.

Accounts and entries are kept in memory. `--record` names a file for what became of each request, by the header `X-Actor` of the
example's actors: nothing else reads that header.
"""
import argparse
import html
import http.client
import http.server
import json
import random
import secrets
import threading
import time
import urllib.parse

PER_PAGE = 10
DAY = 86_400
STYLE = "body{font:1rem/1.5 Georgia,serif;max-width:42rem;margin:2rem auto;padding:0 1rem}label{display:block;margin:.5rem 0}"
SCRIPT = "document.documentElement.classList.add('scripted');"
LOGO = "<svg xmlns='http://www.w3.org/2000/svg' width='32' height='32'><circle cx='16' cy='16' r='14' fill='#357'/></svg>"
OPENINGS = ("We walked here from", "Thank you for the warm welcome after", "The view was hidden by fog on the way from",
            "Our children still talk of", "It rained all day, so we read about")
PLACES = ("the lake", "the old mill", "the northern pass", "the station", "the second hut", "the harbour", "the museum")
CLOSINGS = ("We shall come again.", "The soup was excellent.", "Greetings to the cook!", "A pity that we had to leave so early.",
            "The stove smokes a little.", "The dog liked it, too.")


class Book:
    """Accounts, sessions and entries."""

    def __init__(self, seed, entries, outbox):
        chance = random.Random(f"book {seed}")
        now = time.time()
        self.lock = threading.Lock()
        self.sessions = {}
        self.silenced = set()
        self.accounts = {}
        self.codes = {}
        self.outbox = outbox
        self.entries = []
        for number in range(entries):
            text = f"{chance.choice(OPENINGS)} {chance.choice(PLACES)}. {chance.choice(CLOSINGS)}"
            self.entries.append({"id": number + 1, "user": f"guest{chance.randrange(60)}", "time": now - (entries - number) * DAY / 7,
                                 "text": text})

    def send_code(self, email):
        """Sends a code by mail: here into a file, which has the mail of everybody."""
        with self.lock:
            code = f"{secrets.randbelow(1_000_000):06d}"
            self.codes[email] = code
            if self.outbox:
                with open(self.outbox, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"to": email, "code": code}) + "\n")


class Guard:
    """Questions to Tollhouse."""

    NO_BAIT = {"css": "", "robots": "", "fields": [], "links": []}

    def __init__(self, url, timeout):
        self.address = urllib.parse.urlsplit(url).netloc
        self.timeout = timeout
        self.lock = threading.Lock()
        self.kept = {}

    def ask(self, method, path, event=None):
        """Tollhouse's answer, or None where none comes: the book does not close with its guard."""
        connection = http.client.HTTPConnection(self.address, timeout=self.timeout)
        try:
            body = event and json.dumps({name: value for name, value in event.items() if value not in (None, "")})
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = json.loads(answer.read())
            if answer.status != 200:
                raise OSError(said)
            return said
        except (OSError, ValueError, http.client.HTTPException) as error:
            print("no decision:", error, flush=True)
            return None
        finally:
            connection.close()

    def decide(self, pipeline, event):
        """Tollhouse's decision, or `accept` where no answer comes."""
        decision = self.ask("POST", f"/v1/decide?pipeline={pipeline}", event)
        if not decision:
            return "accept", ["NO_ANSWER"]
        return decision["action"], [reason["name"] for reason in decision.get("reasons", ())]

    def token(self, pipeline, form, device):
        """The token of a form that is shown to a device."""
        answer = self.ask("POST", f"/v1/forms?pipeline={pipeline}&form={form}", {"device": device})
        return answer["token"] if answer else ""

    def bait(self, pipeline):
        """Bait for the pages, the same for all visitors until there is other."""
        with self.lock:
            bait, until = self.kept.get(pipeline, (self.NO_BAIT, 0))
        if time.monotonic() < until:
            return bait
        bait = self.ask("GET", f"/v1/baits?pipeline={pipeline}")
        until = time.monotonic() + (bait["seconds"] if bait else 10)
        with self.lock:
            self.kept[pipeline] = bait or self.NO_BAIT, until
        return bait or self.NO_BAIT


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    book = guard = record = None

    # Answers.

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="text/html; charset=utf-8", fields=()):
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.new_device:
            self.send_header("Set-Cookie", f"device={self.new_device}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax")
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def page(self, status, title, body, fields=(), style=""):
        user = self.user()
        who = f"<p>You are {html.escape(user)}.</p>" if user else ""
        # The proxy sees who follows the link: that is the pipeline `gate`.
        trap = "".join(link["html"] for link in self.guard.bait("gate")["links"][:1])
        self.send(status, f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>
<link rel="stylesheet" href="/static/style.css"><link rel="icon" href="/static/logo.svg">
<link rel="alternate" type="application/rss+xml" href="/feed.xml"><script src="/static/book.js" defer></script>{style}</head>
<body><header><img src="/static/logo.svg" alt=""><nav aria-label="Book"><a href="/">All entries</a> <a href="/sign-up">Sign up</a>
<a href="/write">Write an entry</a></nav></header><main><h1>{html.escape(title)}</h1>{who}{body}</main>{trap}</body></html>""", fields=fields)

    def note(self, what, done, rules=()):
        """Keeps what became of a request, for the example's figures."""
        if self.record:
            line = {"actor": self.headers.get("X-Actor", ""), "what": what, "done": done, "rules": list(rules)}
            with self.book.lock:
                self.record.write(json.dumps(line) + "\n")
                self.record.flush()

    # Who asks.

    def cookie(self, name):
        for pair in self.headers.get("Cookie", "").split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                return value
        return ""

    def user(self):
        return self.book.sessions.get(self.cookie("session"))

    def begin(self):
        self.new_device = ""
        if not self.cookie("device") and not self.path.startswith(("/static/", "/feed.xml", "/robots.txt", "/health")):
            self.new_device = secrets.token_hex(8)
        self.ip = self.headers.get("X-Real-IP", self.client_address[0])
        self.url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(self.url.query))

    # Pages.

    def do_GET(self):
        self.begin()
        path = self.url.path
        parts = {"/static/style.css": ("text/css", STYLE), "/static/book.js": ("text/javascript", SCRIPT),
                 "/static/logo.svg": ("image/svg+xml", LOGO), "/favicon.ico": ("image/svg+xml", LOGO)}
        if path in parts:
            kind, body = parts[path]
            self.send(200, body, kind, [("Cache-Control", "max-age=3600")])
        elif path == "/robots.txt":
            self.send(200, f"User-agent: *\nDisallow: /write\n{self.bait_rules()}", "text/plain")
        elif path == "/health":
            self.send(200, "well\n", "text/plain")
        elif path == "/feed.xml":
            self.feed()
        elif path == "/":
            self.index()
        elif path.startswith("/entry/"):
            self.entry(path.removeprefix("/entry/"))
        elif path == "/sign-up":
            self.sign_up_form()
        elif path == "/write":
            self.write_form()
        else:
            self.page(404, "Not found", "<p>There is no such page.</p>")

    do_HEAD = do_GET

    def bait_rules(self):
        """The lines by which honest robots leave the bait alone."""
        lines = self.guard.bait("gate")["robots"].splitlines()
        return "".join(f"{line}\n" for line in lines if line.startswith("Disallow"))

    def seen(self):
        """The entries that this visitor sees: not those of others that were refused silently."""
        user = self.user()
        return [entry for entry in self.book.entries if entry.get("only", user) == user]

    def index(self):
        shown = self.seen()[::-1]
        pages = max(1, -(-len(shown) // PER_PAGE))
        number = self.query.get("page", "1")
        number = min(int(number), pages) if number.isdigit() and number != "0" else 1
        items = "".join(f'<li><a href="/entry/{entry["id"]}">Entry {entry["id"]} of {html.escape(entry["user"])}</a>'
                        f'<p>{html.escape(entry["text"][:80])}</p></li>'
                        for entry in shown[(number - 1) * PER_PAGE:number * PER_PAGE])
        older = f'<a href="/?page={number + 1}">Older entries</a>' if number < pages else ""
        self.note("page", True)
        self.page(200, "Guest book", f"<ul>{items}</ul>{older}")

    def entry(self, number):
        seen = self.seen()
        at = next((at for at, entry in enumerate(seen) if str(entry["id"]) == number), None)
        if at is None:
            return self.page(404, "Not found", "<p>There is no such entry.</p>")
        self.note("page", True)
        entry = seen[at]
        older = f'<p><a href="/entry/{seen[at - 1]["id"]}">The entry before</a></p>' if at else ""
        self.page(200, f'Entry {entry["id"]}', f'<article><p>{html.escape(entry["text"])}</p><p>{html.escape(entry["user"])}</p></article>{older}')

    def feed(self):
        items = "".join(f'<item><title>Entry {entry["id"]}</title><link>/entry/{entry["id"]}</link></item>' for entry in self.seen()[-20:])
        self.send(200, f'<?xml version="1.0"?><rss version="2.0"><channel><title>Guest book</title>{items}</channel></rss>', "application/rss+xml")

    def form(self, title, path, pipeline, inside, problem=""):
        """A page with a form: its token says when it was opened and by which device, and a field of it is bait."""
        bait = self.guard.bait(pipeline)
        token = self.guard.token(pipeline, path.strip("/"), self.new_device or self.cookie("device"))
        trap = "".join(field["html"] for field in bait["fields"][:1])
        self.page(200, title, f"""{problem}<form method="post" action="{path}"><input type="hidden" name="form" value="{html.escape(token)}">
{inside}{trap}</form>""", style=f'<style>{bait["css"]}</style>')

    def sent(self, name, fields):
        """What Tollhouse is told of a form that came back. Fields that are left empty are not among them."""
        return {"ip": self.ip, "device": self.cookie("device"), "agent": self.headers.get("User-Agent"), "form.token": fields.get("form"),
                "form.expected": name, "bait.fields": list(fields)}

    def sign_up_form(self, problem=""):
        self.form("Sign up", "/sign-up", "signup", """<label>Name <input name="name" required maxlength="60" autocomplete="username"></label>
<label>Mail address <input name="email" type="email" required maxlength="200"></label><button>Make my account</button>""", problem)

    def write_form(self):
        if not self.user():
            return self.page(200, "Write an entry", '<p>Please <a href="/sign-up">make an account</a> first.</p>')
        self.form("Write an entry", "/write", "comments", """<label>Your entry <textarea name="text" required maxlength="2000"></textarea></label>
<button>Publish my entry</button>""")

    # Forms.

    def do_POST(self):
        self.begin()
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > 16_384:
            self.close_connection = True
            return self.page(413, "Too long", "<p>Please write less.</p>")
        fields = dict(urllib.parse.parse_qsl(self.rfile.read(int(length)).decode("utf-8", "replace")))
        path = self.url.path
        if path == "/sign-up":
            self.sign_up(fields)
        elif path == "/confirm":
            self.confirm(fields)
        elif path == "/write":
            self.write(fields)
        else:
            self.page(404, "Not found", "<p>There is no such form.</p>")

    def sign_up(self, fields):
        name, email = fields.get("name", "").strip()[:60], fields.get("email", "").strip()[:200].lower()
        if not name or "@" not in email:
            self.note("sign-up", False, ["EMPTY"])
            return self.page(400, "Please try again", '<p><a href="/sign-up">Open the form</a> and fill in all of it.</p>')
        action, rules = self.guard.decide("signup", {**self.sent("sign-up", fields), "email": email, "name": name})
        if action in ("accept", "shadow"):
            return self.welcome(name, rules, action == "accept")
        self.note("sign-up", False, rules)
        if action == "challenge":
            self.book.send_code(email)
            self.book.accounts[email] = name
            return self.page(200, "One more step", f"""<form method="post" action="/confirm"><input type="hidden" name="email" value="{html.escape(email)}">
<label>The code that we have sent you <input name="code" required inputmode="numeric"></label><button>Confirm</button></form>""")
        # Somebody looks at it, or nobody does: that is the same from outside.
        self.page(200, "Thank you", "<p>We will write to you.</p>")

    def confirm(self, fields):
        email, code = fields.get("email", ""), fields.get("code", "")
        # One try for each code.
        if not code or self.book.codes.pop(email, None) != code:
            return self.page(400, "Please try again", '<p>That is not the code. <a href="/sign-up">Sign up again</a>.</p>')
        self.welcome(self.book.accounts.pop(email, email), ["CONFIRMED"])

    def welcome(self, name, rules, is_meant=True):
        """An account; one that was refused silently looks like all, and all that it writes is refused so, too."""
        session = secrets.token_hex(16)
        # The example's accounts are new: nobody in it has been here for years.
        self.book.sessions[session] = name
        if not is_meant:
            self.book.silenced.add(session)
        self.note("sign-up", is_meant, rules)
        self.page(200, "Welcome!", '<p>You can <a href="/write">write an entry</a> now.</p>',
                  [("Set-Cookie", f"session={session}; Path=/; HttpOnly; SameSite=Lax")])

    def write(self, fields):
        user, text = self.user(), fields.get("text", "").strip()[:2000]
        if not user or not text:
            self.note("entry", False, ["EMPTY" if user else "NO_ACCOUNT"])
            return self.page(400, "Please try again", '<p><a href="/write">Open the form</a> and fill in all of it.</p>')
        # Everybody who comes writes into the one book, and nearly all are new: a `place` would say nothing.
        action, rules = self.guard.decide("comments", {
            **self.sent("write", fields), "user": user, "joined": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "text": text,
        })
        if self.cookie("session") in self.book.silenced:
            action = "shadow"
        self.note("entry", action == "accept", rules)
        if action in ("accept", "shadow"):
            only = {"only": user} if action == "shadow" else {}
            with self.book.lock:
                entry = {"id": len(self.book.entries) + 1, "user": user, "time": time.time(), "text": text, **only}
                self.book.entries.append(entry)
            return self.page(200, "Your entry is in the book", f'<p><a href="/entry/{entry["id"]}">Look at it</a></p>')
        self.page(200, "Thank you", "<p>Your entry will be in the book when somebody has read it.</p>")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tollhouse", required=True, help="URL of the server that is asked")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=0.5, help="seconds until the book goes on without an answer")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--entries", type=int, default=400, help="entries that are there from the start")
    parser.add_argument("--outbox", help="file that takes the mail")
    parser.add_argument("--record", help="file that takes what became of each request")
    options = parser.parse_args()
    Handler.book = Book(options.seed, options.entries, options.outbox)
    Handler.guard = Guard(options.tollhouse, options.timeout)
    Handler.record = open(options.record, "a", encoding="utf-8") if options.record else None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    print(f"listens on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
