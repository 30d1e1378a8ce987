"""What scripts that measure verdicts share: labelled messages and texts, a server of their own, and figures of scores."""
import bisect
import csv
import datetime
import email
import email.utils
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

LABELS = ("ham", "spam")
PROGRAM = "target/release/tollhouse"


def time_of(path):
    """When a message was received, by its topmost Received field, else by Date; 0 if neither says."""
    message = email.message_from_bytes(path.read_bytes())
    received = str((message.get_all("Received") or [""])[0]).rsplit(";", 1)[-1]
    for text in (received, str(message.get("Date"))):
        try:
            when = email.utils.parsedate_to_datetime(text.strip())
        except (TypeError, ValueError, IndexError):
            continue
        return (when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)).timestamp()
    return 0


def read_messages(**folders):
    """Messages as (time, label, path), in order of time, from a folder for each label."""
    messages = []
    for label, folder in folders.items():
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size) if folder else ()
        messages += [(time_of(path), label, path) for path in paths]
    return sorted(messages)


def read_texts(path):
    """Texts as (label, text), in order of their file."""
    if path.suffix == ".csv":
        with open(path, encoding="utf-8", newline="") as file:
            return [("spam" if row["CLASS"] == "1" else "ham", row["CONTENT"]) for row in csv.DictReader(file)]
    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if "\t" in line]
    return [(label, text) for label, text in lines if label in LABELS]


def evenly(items, count):
    """So many of the items, in their order, as far apart as they can be."""
    return [items[number * len(items) // count] for number in range(min(count, len(items)))]


class Server:
    """A server with a data directory of its own and one kept connection, which ends with the block."""

    def __init__(self, program, preset, more=""):
        self.program, self.preset, self.more = program, preset, more

    def __enter__(self):
        # Who ends the script ends its server.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.folder = tempfile.TemporaryDirectory()
        data = self.folder.name + "/data"
        subprocess.run([self.program, "init", "--preset", self.preset, "--data", data], check=True, capture_output=True)
        with open(f"{data}/tollhouse.toml", "a", encoding="utf-8") as config:
            config.write("\n" + self.more)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [self.program, "serve", "--data", data, "--listen", f"127.0.0.1:{port}"]
        self.log = open(self.folder.name + "/log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        self.client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def connect(self):
        for _ in range(300):
            try:
                return self.client.connect()
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.log.seek(0)
        raise SystemExit(f"{self.program} does not serve: {self.log.read()[-2000:]}")

    def __exit__(self, *_):
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def ask(self, method, path, body=None, content_type="application/json"):
        self.client.request(method, path, body, {"Content-Type": content_type} if body is not None else {})
        answer = self.client.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)

    def cpu(self):
        """Seconds of processor time of all its threads, by the scheduler's own count."""
        return time.clock_gettime((~self.process.pid << 3) | 2)


class Message:
    """A message as a server is asked about it."""

    def __init__(self, label, path):
        self.label, self.path = label, path

    def post(self, server, path):
        path += ("&" if "?" in path else "?") + "message_time=true&envelope=headers"
        return server.ask("POST", path, self.path.read_bytes(), "message/rfc822")


class Text:
    """A text as a server is asked about it, each by another author."""

    def __init__(self, label, text, number):
        self.label, self.body = label, json.dumps({"user": f"user{number}", "text": text}).encode()

    def post(self, server, path):
        return server.ask("POST", path, self.body)


class Scores:
    """Scores of both classes, and how well they tell one from the other."""

    def __init__(self, scored):
        self.ham = sorted(score for label, score in scored if label == "ham")
        self.spam = sorted(score for label, score in scored if label == "spam")

    def area_above(self):
        """1 - AUC: the share of pairs of a spam and a ham in the wrong order, where ties count half."""
        if not self.ham or not self.spam:
            return float("nan")
        wrong = sum(2 * len(self.ham) - bisect.bisect_left(self.ham, score) - bisect.bisect_right(self.ham, score)
                    for score in self.spam)
        return wrong / 2 / (len(self.ham) * len(self.spam))

    def recall(self, share):
        """The share of spam above the line that so large a share of ham exceeds at most."""
        if not self.ham or not self.spam:
            return float("nan")
        line = self.ham[len(self.ham) - 1 - int(share * len(self.ham))]
        return (len(self.spam) - bisect.bisect_right(self.spam, line)) / len(self.spam)
