#!/usr/bin/env python3
"""A server with every fault of cases.json, for the tests of all clients. Needs nothing but Python's standard library.

    python3 server.py            prints its URL, and ends with its standard input
    POST /open/NUMBER            opens a case, on a port of its own: {"url": ..., "seen": ...}
    GET  /seen/PORT              what came there: a list of {"path", "authorization", "lines", "ids", "shown"}
"""
import json
import socket
import struct
import sys
import threading
import time
from pathlib import Path

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
REASONS = {200: "OK", 302: "Found", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 413: "Payload Too Large",
           422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable",
           504: "Gateway Timeout"}


def bound(port=0):
    """Returns a socket with a port that is its own, also while nobody listens there."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", port))
    return one


def request(reader):
    """Returns the head's first line, the header fields and the body of a request; None at the end."""
    line = reader.readline().decode("latin-1").strip()
    if not line:
        return None
    fields = {}
    while field := reader.readline().decode("latin-1").strip():
        name, value = field.split(":", 1)
        fields[name.lower()] = value.strip()
    return line.split(" ")[:2], fields, reader.read(int(fields.get("content-length", 0)))


def answer(status, body, fields=None):
    fields = {"Content-Type": "application/json", "Content-Length": len(body), **(fields or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {REASONS[status]}\r\n{head}\r\n".encode(), body


def problem(status):
    return {"type": "urn:tollhouse:problem:test", "title": "A fault", "status": status, "detail": f"a fault with {status}"}


def decided(step, path, body):
    """Returns status and body of a good answer to each line."""
    lines = body.splitlines()
    text = body.decode()
    if len(lines) > step.get("lines_max", len(lines)) or step.get("refuse_with", "\0") in text:
        return 413, json.dumps(problem(413)).encode()
    answers = []
    for number, line in enumerate(lines, 1):
        sent = json.loads(line)
        if status := step.get("line_errors", {}).get(str(number)):
            answers.append({"line": number, "error": problem(status)})
        elif "feedback" in step:
            answers.append({**sent, "keys": 9, "tokens": 0, "duplicate": False, "weight": 1, "limited": False, "standing": "operator"})
        else:
            more = {name: step[name] for name in ("error", "challenge", "pass") if name in step}
            answers.append({
                "id": "01k9s4x7qc000", "event_id": sent.get("id"), "pipeline": "web", "version": "00",
                "time": "2026-05-17T10:00:00Z", "action": step.get("decide", "accept"), "score": 3.0, "probability": 0.5,
                "duplicate": False, "shadow": [],
                "reasons": [{"name": "PROBE", "score": 3.0, "detail": "http.probe = true", "values": {"http.probe": True}}], **more,
            })
    answers = answers[:len(answers) - step.get("missing", 0)]
    return 200, b" " * step.get("padding", 0) + b"".join(json.dumps(one).encode() + b"\n" for one in answers)


class Case:
    """A case that is played to one client."""

    def __init__(self, case):
        self.steps, self.seen, self.lock = list(case.get("server", [])), [], threading.Lock()
        # It keeps the port while the other one does not listen.
        self.holder = bound()
        self.port = self.holder.getsockname()[1]
        self.open = set()
        if not case.get("refuse"):
            self.listen()

    def listen(self):
        self.listener = bound(self.port)
        self.listener.listen(64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def down(self, seconds):
        """Goes away as a killed process does."""
        # Closing alone would not wake up who waits in `accept`.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in list(self.open):
            connection.close()
        threading.Timer(seconds, self.listen).start() if seconds < 60 else None

    def serve(self, connection):
        self.open.add(connection)
        try:
            with connection, connection.makefile("rb") as reader:
                while got := request(reader):
                    if not self.play(connection, *got):
                        return
        except OSError:
            pass
        finally:
            self.open.discard(connection)

    def play(self, connection, line, fields, body):
        """Plays the next step, the last one again and again. Returns false where the connection ends."""
        path = line[1]
        with self.lock:
            lines = body.splitlines()
            sent = list(map(json.loads, lines))
            shown = [sent[0].get(name) for name in ("challenge.solution", "pass.token")] if sent else []
            self.seen.append({
                "path": path, "authorization": fields.get("authorization"), "lines": len(lines),
                "ids": [one.get("id") for one in sent], "shown": shown,
            })
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if step.get("hang"):
            time.sleep(600)
            return False
        if step.get("reset"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if "raw" in step:
            connection.sendall(step["raw"].encode())
            return False
        if step.get("drip"):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                connection.sendall(b" ")
                time.sleep(0.02)
        if "status" in step:
            status, text = step["status"], step.get("body")
            text = json.dumps(problem(status)) if text is None else text
            connection.sendall(b"".join(answer(status, text.encode(), step.get("headers"))))
            return True
        head, text = answer(*decided(step, path, body))
        if "torn" in step:
            connection.sendall(head + text[:step["torn"]])
            if "down" in step:
                self.down(step["down"])
            return False
        connection.sendall(head + text)
        return True


def control(connection, cases):
    with connection, connection.makefile("rb") as reader:
        while got := request(reader):
            (method, path), _, _ = got
            _, what, which = path.split("/")
            if what == "open":
                case = Case(CASES[int(which)])
                cases[case.port] = case
                said = {"url": f"http://127.0.0.1:{case.port}", "port": case.port}
            else:
                said = cases[int(which)].seen
            connection.sendall(b"".join(answer(200, json.dumps(said).encode())))


def main():
    listener, cases = bound(), {}
    listener.listen(64)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=control, args=(connection, cases), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    sys.stdin.read()


main()
