#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of approvals in one run (ten thousand with make test-full): none stalls, each reaches the server once, and nothing of them is
left afterwards."""

import collections
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import httptest as ht  # noqa: E402
from askagent import Agent  # noqa: E402
from askwire import Approver, Wire  # noqa: E402
from coffertest import ENGINES, FULL, TESTS, Tap, identities  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

CLEAR, TLS = "clear.ask.test", "tls.ask.test"
NO_RULES = 8   # with a denial or four each: after five of one rule nobody is asked
POLICY = f"""version: 1
egress:
  allow:
    - domain: {CLEAR}
      port: 80
      http:
        - allow: GET /**
        - ask: POST /yes/**
        - ask: POST /gone/**
        - ask: POST /race/**
        - ask: POST /late/**
""" + "".join(f"        - ask: POST /no{i}/**\n" for i in range(NO_RULES + 1)) + f"""    - domain: {TLS}
      http:
        - ask: POST /**
"""
# How many: root with namespaces, and the rest, where the sandbox is slower and nothing else is different outside.
MANY = {"keep": 3500, "new": 3500, "h2": 2200, "gone": 300, "race": 500} if FULL else {"keep": 1200, "new": 1200, "h2": 700, "gone": 150, "race": 200}
FEW = {"keep": 150, "new": 150, "h2": 100, "gone": 40, "race": 50}
IDLE_MAX = 16  # connections to one server that nobody uses (POOL_IDLE_KEY_MAX)

AT_ONCE = 8

# Inside: HOW N AT_ONCE PREFIX. Prints how often each status came, and what went wrong.
CLIENT = r"""
import collections, socket, sys, threading, time
how, n, at_once, prefix = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
got, wrong, lock = collections.Counter(), [], threading.Lock()
PATIENCE = 30

def text(i):
    return f"POST {prefix}{i} HTTP/1.1\r\nHost: CLEAR\r\nContent-Length: 3\r\n\r\nabc".encode()

def connect(host, port):
    s = socket.create_connection((host, port), PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s

def one(c, i):
    status = c.ask(text(i))[0]
    with lock:
        got[status] += 1
        if status == 0:
            wrong.append(i)
    return status

def keep(start):
    c = H1(connect("CLEAR", 80))
    for i in range(start, n, at_once):
        if not one(c, i):
            return

def new(start):
    for i in range(start, n, at_once):
        c = H1(connect("CLEAR", 80))
        done = one(c, i)
        c.close()
        if not done:
            return

def leave(start):
    # Each of a batch is sent and left. "gone": when its question waits; "race": at once, so that the answer may be on its way.
    for i in range(start, n, at_once):
        s = connect("CLEAR", 80)
        s.sendall(text(i))
        s.settimeout(0.05 if how == "gone" else 0.0001 * (i % 40) + 0.0001)
        try:
            s.recv(1)
        except OSError:
            pass
        s.close()

def h2(start):
    c = H2(tls(connect("TLS", 443), "TLS", None, "h2"), "TLS")
    todo, waiting = list(range(start, n, 2)), set()
    while todo or waiting:
        while todo and len(waiting) < at_once:
            waiting.add(c.headers(c.block(f"{prefix}{todo.pop()}", "POST")))
        f = c.read()
        if f is None or f[0] == GOAWAY:
            wrong.append(("the connection ended", len(waiting), f))
            return
        c.seen.clear()
        if f[0] == HEADERS and f[2] in waiting:
            with lock:
                got[200 if f[3][:1] == b"\x88" or f[3][1:2] == b"\x88" else -1] += 1
        if f[0] in (HEADERS, DATA) and f[1] & END_STREAM or f[0] == RST:
            waiting.discard(f[2])

def run(work, start):
    try:
        work(start)
    except Exception as e:
        wrong.append(repr(e))

work = {"keep": keep, "new": new, "gone": leave, "race": leave, "h2": h2}[how]
threads = [threading.Thread(target=run, args=(work, i)) for i in range(2 if how == "h2" else at_once)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(dict(got), wrong[:5])
"""


def client():
    with open(os.path.join(TESTS, "lib", "rawclient.py"), encoding="utf-8") as f:
        return f.read() + CLIENT.replace("CLEAR", CLEAR).replace('"TLS"', f'"{TLS}"')


class Server:
    """The requests that each path reached, by nginx's own log."""

    def __init__(self, net, path):
        self.log, self.servers = os.path.join(path, "log"), []
        more = f'location / {{ access_log {self.log}; return 200 done; }}'
        for name, port, cert in ((CLEAR, 80, None), (TLS, 443, net.cert(TLS))):
            net.dns[name] = net.address()
            d = os.path.join(path, name)
            os.mkdir(d)
            self.servers.append(ht.nginx(d, cert, path, (net.dns[name], port), net.inet.do, more))

    def arrived(self, prefix):
        """path -> how often"""
        with open(self.log, encoding="latin-1") as f:
            return collections.Counter(p for p in re.findall(r'"POST (\S+) HTTP', f.read()) if p.startswith(prefix))

    def close(self):
        for s in self.servers:
            s.close()


class Storm:
    def __init__(self, tap, c, a, server):
        self.tap, self.c, self.a, self.server, self.asked = tap, c, a, server, 0
        self.leaving = False  # clients that are asked about /gone/ do not wait

    def decide(self, ask):
        path = ask["path"]
        if path.startswith("/late/") or (path.startswith("/gone/") and self.leaving and ask["waiters"]):
            return None
        return not path.startswith("/no")

    def go(self, how, n, at_once, prefix, name):
        """All are answered 200, and each has reached the server once."""
        out = self.a.do(["python3", "-c", client(), how, str(n), str(at_once), prefix])
        self.tap.eq(out.strip(), f"{{200: {n}}} []", f"{self.c.who}: {n} requests, {name}: each is approved and answered", out)
        self.tap.eq(self.server.arrived(prefix), {f"{prefix}{i}": 1 for i in range(n)},
                    f"{self.c.who}: {n} requests, {name}: each has reached the server once")
        self.asked += n

    def left(self, how, n, prefix, name):
        """Clients that do not wait for the answer; the identical request, sent later, is let through by the approval or by a new one."""
        self.leaving = True
        out = self.a.do(["python3", "-c", client(), how, str(n), str(AT_ONCE), prefix])
        self.tap.ok("[]" in out, f"{self.c.who}: {n} clients {name}", out)
        wait_for(lambda: not [q for q in self.list() if q["state"] == "pending"], 60)
        # On a slow machine some have left before anybody was asked about them: those are asked about now.
        self.leaving = False
        once = self.server.arrived(prefix)
        self.tap.ok(set(once.values()) <= {1} and (how == "race" or not once), f"{self.c.who}: {name}: nothing is sent twice, or without a client",
                    once.most_common(3))
        again = self.a.do(["python3", "-c", client(), "keep", str(n), "4", prefix])
        self.tap.eq(again.strip(), f"{{200: {n}}} []", f"{self.c.who}: {name}: all the same requests are answered when they are sent again")
        twice = self.server.arrived(prefix)
        self.tap.eq(twice, {p: 1 + once[p] for p in twice},
                    f"{self.c.who}: {name}: each request that was sent again reached the server once")

    def list(self):
        w = Wire(self.c.state, self.a.id)
        try:
            return w.list()
        finally:
            w.close()

    def denials(self):
        tap, who = self.tap, self.c.who
        for i in range(NO_RULES):
            out = self.a.do(["python3", "-c", client(), "keep", "4", "2", f"/no{i}/"])
            tap.eq(out.strip(), "{403: 4} []", f"{who}: rule {i}: four are denied by a person")
        out = self.a.do(["python3", "-c", client(), "new", "200", "4", f"/no{NO_RULES}/"])
        tap.eq(out.strip(), "{403: 200} []", f"{who}: after five denials of one rule the others are denied without a question")
        tap.eq(self.server.arrived("/no"), {}, f"{who}: nothing that was denied has reached the server")

    def stats(self):
        with open(os.path.join(self.c.state, "runs", self.a.id, "net-egress.json"), encoding="utf-8") as f:
            return json.load(f)

    def check_empty(self):
        def now():
            s = self.stats()
            return {"asking": s["asking"], "requests": s["inspect"]["requests_now"], "held": s["inspect"]["held_bytes"],
                    "connections": s["connections"]["open"]}
        wait_for(lambda: not any(now().values()), 60)
        self.tap.eq(now(), {"asking": 0, "requests": 0, "held": 0, "connections": 0},
                    f"{self.c.who}: afterwards no request, held byte or connection is left")
        ups = self.stats()["inspect"]["upstream_now"]
        self.tap.ok(ups <= 2 * (IDLE_MAX + AT_ONCE), f"{self.c.who}: no more connections to the servers are kept than may be idle", ups)
        asks = self.list()
        self.tap.eq([(q["id"], q["state"], q["waiters"]) for q in asks if q["waiters"] or q["state"] in ("pending", "parked", "granted")], [],
                    f"{self.c.who}: no question is open, and nobody waits")
        self.tap.ok(len(asks) <= 256 + 80, f"{self.c.who}: no more questions that are over are kept than may be", len(asks))
        r = self.c("ask", "ls", "--all", "--json")
        self.tap.ok(r.code == 0 and len(r.out.splitlines()) == len(asks),
                    f"{self.c.who}: coffer ask ls --all lists the questions that the ask server keeps", r.code, r.err)


def storm(tap, net, who, path):
    n = MANY if who == "root" else FEW
    with net.coffer(who) as c, Agent(tap, c, POLICY) as a:
        server = Server(net, path)
        s, approver = Storm(tap, c, a, server), None
        try:
            first = a.start(["curl", "-sS", "-m", "60", "-d", "x", f"http://{CLEAR}/yes/first"])
            a.pending()
            approver = Approver(c.state, a.id, s.decide)
            tap.eq(first.communicate(timeout=120)[0], b"done", f"{c.who}: the first request is approved")
            s.go("keep", n["keep"], 1, "/yes/keep/", "one after the other over one connection")
            s.go("new", n["new"], AT_ONCE, "/yes/new/", "eight at once, each over a connection of its own")
            s.go("h2", n["h2"], 4, "/yes/h2/", "over HTTP/2, four streams of each of two connections")
            s.left("gone", n["gone"], "/gone/", "give up while their questions wait")
            s.left("race", n["race"], "/race/", "give up while they are answered")
            s.denials()
            tap.eq(approver.errors, [], f"{c.who}: every answer was taken")
            tap.ok(approver.answered >= s.asked, f"{c.who}: {approver.answered} questions were answered in all", s.asked)
            s.check_empty()
            tap.eq(c("audit", "verify").code, 0, f"{c.who}: the log is whole")
        finally:
            if approver:
                approver.close()
            server.close()


def late(tap, net, who, path):
    """Nobody answers: each request waits its time and is denied, round after round, and its place is the next one's."""
    with net.coffer(who) as c, Agent(tap, c, POLICY, "--ask-timeout", "1s") as a:
        server = Server(net, path)
        try:
            s = Storm(tap, c, a, server)
            # Sixty-four may wait at once: three times as many want a place.
            for i in range(3):
                out = a.do(["python3", "-c", client(), "new", "64", "64", f"/late/{i}/"])
                tap.eq(out.strip(), "{403: 64} []", f"{c.who}: round {i}: 64 requests that nobody answers are denied")
            wait_for(lambda: len(s.list()) == 3 * 64 and all(q["state"] == "expired" for q in s.list()), 30)
            tap.eq(collections.Counter(q["state"] for q in s.list()), {"expired": 3 * 64},
                   f"{c.who}: each of 192 requests was asked about, and has expired")
            tap.eq(server.arrived("/late/"), {}, f"{c.who}: no request that expired has reached the server")
            s.check_empty()
        finally:
            server.close()


def main():
    tap = Tap()
    if why_not():
        tap.skip("ten thousand approvals", why_not())
        tap.done()
    with Internet() as net:
        for who in identities(tap, ENGINES):
            if (str(who), who.engine) not in (("root", "ns"), ("user", "gvisor")):
                continue
            with tempfile.TemporaryDirectory(prefix="coffertest-storm-") as d:
                os.chmod(d, 0o755)
                for work in (storm, late) if who == "root" else (storm,):
                    os.mkdir(os.path.join(d, work.__name__))
                    open(os.path.join(d, work.__name__, "log"), "wb").close()
                    work(tap, net, who, os.path.join(d, work.__name__))
    tap.done()


if __name__ == "__main__":
    main()
