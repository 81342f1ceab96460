# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow, endless or a nuisance: each is bounded and ended, and the others do not notice.

The inspecting part runs as tests/lib/inspectbox.c, once with long limits of time and once with limits of two seconds. Beside
each attack the same in moderation passes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
import rawclient as raw  # noqa: E402
from coffertest import BUILD, Tap, sanitizer_env  # noqa: E402
from egressrig import PATIENCE, wait_for  # noqa: E402
from rawclient import frame  # noqa: E402

tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="flood-")
D = TMP.name
NAME = "api.example.test"
CONNECTIONS_MAX = 64  # POOL_KEY_MAX
WAITING, ENDED = 200, 10
HEAD = f"GET /x HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode()


class Box:
    def __init__(self, path, ca, port, times="", ledger=""):
        os.mkdir(path)
        self.path, self.store = path, ca
        bundle = self.write_policy("1", "secret")
        self.ca, self.journal = os.path.join(path, "inside.pem"), os.path.join(path, "journal")
        env = dict(sanitizer_env(), INSPECTBOX_TIMES=times, INSPECTBOX_LEDGER=ledger)
        self.p = subprocess.Popen([os.path.join(BUILD, "tests/inspectbox"), bundle, self.journal, ca, self.ca, f"{NAME}:443={port}"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.addr = self.p.stdout.readline().split()[1]
        assert self.p.stdout.readline() == "ready\n"
        self.open = []

    def write_policy(self, generation, denied, more=""):
        yaml, bundle = os.path.join(self.path, "policy.yaml"), os.path.join(self.path, "bundle")
        with open(yaml, "w", encoding="ascii") as f:
            f.write(f"version: 1\negress:\n  allow:\n    - domain: {NAME}\n      port: 443\n      ca: {self.store}\n{more}"
                    f"      http: [{{allow: \"* /**\"}}, {{deny: \"* /{denied}/**\"}}]\n      graphql: [{{allow: query *}}]\n")
        with open(bundle, "wb") as f:
            subprocess.run([os.path.join(BUILD, "tests/mkpolicy"), generation, yaml], stdout=f, check=True)
        return bundle

    def connect(self, alpn):
        s = socket.create_connection((self.addr, 443), PATIENCE)
        s.settimeout(PATIENCE)
        return raw.tls(s, NAME, self.ca, alpn)

    def h1(self):
        self.open.append(raw.H1(self.connect("http/1.1")))
        return self.open[-1]

    def h2(self, settings=b""):
        self.open.append(raw.H2(self.connect("h2"), NAME, settings))
        return self.open[-1]

    def stats(self):
        self.p.send_signal(signal.SIGUSR2)
        return json.loads(self.p.stdout.readline())["inspect"]

    def alerts(self):
        with open(self.journal, encoding="utf-8") as f:
            return [x for x in f if '"http2_flood"' in x]

    def is_empty(self):
        """No request is left, and no connection of the test's."""
        for c in self.open:
            c.close()
        self.open = []
        return wait_for("all requests to end", lambda: self.stats()["requests_now"] == 0)

    def close(self):
        for c in self.open:
            c.close()
        self.p.stdin.close()
        return self.p.wait(PATIENCE)


def flood(c, data, times):
    """Says it again and again, until nobody listens."""
    try:
        for _ in range(times):
            c.send(data)
    except OSError:
        pass


def floods(box):
    """The frames that each client repeats: (name, what few of it is, what many of it is)."""
    ping, window = frame(raw.PING, payload=b"12345678"), frame(raw.WINDOW, payload=b"\0\0\0\1")
    settings, odd = frame(raw.SETTINGS, payload=b"\0\4\0\0\xff\xff"), frame(0xfe, payload=b"x" * 200)

    def resets(c, n):
        for _ in range(n):
            s = c.headers(c.block("/x"), end=False)
            c.send(frame(raw.RST, 0, s, b"\0\0\0\x08"))

    def wrong(c, n):
        """We are made to do the resetting: a window that is opened too far."""
        for _ in range(n):
            s = c.headers(c.block("/x"), end=False)
            c.send(frame(raw.WINDOW, 0, s, b"\x7f\xff\xff\xff"))

    def empty(c, n):
        s = c.headers(c.block("/x", "POST"), end=False)
        for _ in range(n):
            c.send(frame(raw.DATA, 0, s))

    def continuations(c, n, part):
        s, c.next = c.next, c.next + 2
        c.send(frame(raw.HEADERS, raw.END_STREAM, s, c.block("/x")))
        for _ in range(n):
            c.send(frame(raw.CONTINUATION, 0, s, part))
        c.send(frame(raw.CONTINUATION, raw.END_HEADERS, s))

    def table(c, n):
        """A field of 4000 bytes once, then a byte for each time more."""
        for _ in range(n):
            c.headers(c.block("/x", more=()) + raw.literal("x-a", "y" * 4000, 0x40) + b"\xbe" * (10 if n < 10 else 12000))

    return [
        ("pings", lambda c: flood(c, ping, 10), lambda c: flood(c, ping, 20000)),
        ("settings", lambda c: flood(c, settings, 10), lambda c: flood(c, settings, 20000)),
        ("windows of a byte", lambda c: flood(c, window, 10), lambda c: flood(c, window, 40000)),
        ("frames of no known type", lambda c: flood(c, odd, 10), lambda c: flood(c, odd, 9000)),
        ("streams that are reset", lambda c: resets(c, 10), lambda c: resets(c, 12000)),
        ("streams that we must reset", lambda c: wrong(c, 10), lambda c: wrong(c, 12000)),
        ("empty DATA", lambda c: empty(c, 10), lambda c: empty(c, 12000)),
        ("CONTINUATION", lambda c: continuations(c, 4, raw.literal("x-a", "y" * 100)),
         lambda c: continuations(c, 400, raw.literal("x-a", "y" * 4000))),
        ("fields out of the table", lambda c: table(c, 2), lambda c: table(c, 1000)),
    ]


def nuisances(box):
    bystander, other = box.h1(), box.h2()
    for what, few, many in floods(box):
        c = box.h2()
        few(c)
        tap.eq(c.get("/x"), True, f"a request after a few {what} is answered")
        c = box.h2()
        try:
            many(c)
        except OSError:
            pass
        tap.ok(c.why_gone() in (raw.CALM, None), f"a client with many {what} is told to calm down, or left", c.seen[-3:])
        tap.eq((bystander.ask(HEAD)[0], other.get("/y")), (200, True), f"other clients are served during many {what}")
    tap.ok(wait_for("the alert", box.alerts), "a flood over HTTP/2 raises an alert in the journal")
    tap.ok(box.is_empty(), "no request is left after the floods")
    tap.ok(box.stats()["upstream_now"] <= 64, "no more connections to servers than allowed are open after the floods", box.stats())


def endless(box):
    held = f"POST /graphql HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n".encode()
    c = box.h1()
    code, _ = c.ask(b"GET /x HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\n" + b"X: " + b"y" * 70000)
    tap.eq(code, 431, "a head of more than 64 KiB is refused")
    c = box.h1()
    code, _ = c.ask(b"GET /x HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\n" + b"X: y\r\n" * 200 + b"\r\n")
    tap.eq(code, 431, "a head of more than 128 fields is refused")
    c = box.h2()
    tap.eq(c.get("/x", more=[(f"x-{i}", "y") for i in range(200)]), False, "a head of more than 128 fields is refused in HTTP/2")
    tap.eq(c.get("/x", more=[(f"x-{i}", "y") for i in range(100)]), True, "a head of a hundred fields is accepted in HTTP/2")
    c = box.h1()
    c.send(held + b"Transfer-Encoding: chunked\r\n\r\n")
    flood(c, b"4000\r\n" + b"x" * 16384 + b"\r\n", 80)
    tap.eq(c.answer()[0], 413, "an endless chunked body that must be judged is refused at 1 MiB")
    c = box.h1()
    c.send(held + b"Content-Length: 9007199254740992\r\n\r\n")
    flood(c, b"x" * 16384, 80)
    tap.eq(c.answer()[0], 413, "a body that must be judged with a huge Content-Length is refused")
    tap.ok(box.is_empty(), "no request is left after endless heads and bodies")


def large(box):
    """Heads that are too large, in HTTP/2: answered, and the connection goes on; or, where it cannot, that is written down."""
    def denied(why):
        with open(box.journal, encoding="utf-8") as f:
            return len([x for x in f if '"ev":"request"' in x and '"decision":"deny"' in x and why in x])

    def said(c):
        return b"".join(f[3] for f in c.seen if f[0] == raw.DATA)

    fields = [(f"x-{i}", "y" * 4000) for i in range(34)]
    head = b"".join(raw.literal(*f) for f in ((":method", "GET"), (":scheme", "https"), (":authority", NAME)))
    for what, block, code, why in (("a path of 40 kB", lambda c: c.block("/" + "a" * 40000), b"414", "the request target is too long"),
                                   ("a path of 100 kB, compressed", lambda c: head + raw.path_of(100000), b"414", "the request target is too long"),
                                   ("fields of 136 kB", lambda c: c.block("/large", more=fields), b"431", "the request has too many headers"),
                                   ("cookies of 136 kB", lambda c: c.block("/cookies", more=[("cookie", "y" * 4000)] * 34), b"431",
                                    "the request has too many headers"),
                                   ("thousands of fields that say nothing", lambda c: c.block("/te", more=[("te", "trailers")] * 3500), b"431",
                                    "the head is too large")):
        c = box.h2()
        got = c.status(c.headers(block(c)))
        answer = c.seen[-1][3]
        tap.ok(got is False and code in answer, f"HTTP/2: {what} is answered with {code.decode()}", got, c.seen[-1])
        tap.eq(c.get("/after"), True, f"HTTP/2: {what}: the next request of the connection is answered")
        tap.ok(b'"error":"denied"' in said(c) and why.encode() in said(c) and denied(why),
               f"HTTP/2: {what}: the reason is in the response and in the journal", said(c)[:300])
    for what, block, why in (("a field of 100 kB", lambda c: c.block("/" + "b" * 100000), "the head is too large"),
                             ("a head of 200 kB", lambda c: c.block("/more", more=fields + fields[:16]), "the head is too large"),
                             ("no HPACK", lambda c: b"\xff" * 20, "the head cannot be read")):
        c, before = box.h2(), denied(why)
        try:
            c.headers(block(c))
        except OSError:
            pass
        tap.ok(c.why_gone() not in (None, -1, 0), f"HTTP/2: {what}: the client is told that the connection ends", c.seen[-2:])
        tap.ok(before or wait_for("the line", lambda: denied(why) > before), f"HTTP/2: {what}: the reason is in the journal")
    tap.ok(box.is_empty(), "no request is left after heads that are too large")


def begin(box, first):
    """None when it was ended before it had said that much, as it may be on a machine that is slower than the client."""
    try:
        return box.h1().send(first)
    except OSError:
        return None


def begin_stream(box, kind, body):
    try:
        c = box.h2(b"\0\4\0\0\0\0" if kind == "window" else b"")
        c.next = 3
        if kind == "head":
            c.send(frame(raw.HEADERS, raw.END_STREAM, 1, c.block("/x")))
        elif kind == "held":
            c.send(frame(raw.HEADERS, raw.END_HEADERS, 1, c.block("/graphql", "POST", (("content-type", "application/json"),))))
            c.send(frame(raw.DATA, 0, 1, body))
        else:
            c.send(frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, c.block("/secret/x")))
        return c
    except OSError:
        return None


def slow(quick, usual):
    """Each begins and does not go on. In the one box it is ended; in the other it goes on when it likes."""
    post = f"POST /up HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 5\r\n\r\n".encode()
    held = f"POST /graphql HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n".encode()
    body = b'{"query":"{viewer{login}}"}'
    cases = [("half a head", HEAD[:20], HEAD[20:]), ("a body", post + b"ab", b"cde"), ("a body that must be judged", held + body[:9], body[9:]),
             ("between two requests", b"", HEAD)]
    waiting = [(what, begin(quick, first), usual.h1().send(first), rest) for what, first, rest in cases]
    streams = []
    for what, kind in (("a head", "head"), ("a body that must be judged", "held"), ("no window for an answer of ours", "window")):
        streams.append((what, kind, begin_stream(quick, kind, body[:9]), begin_stream(usual, kind, body[:9])))
        if kind == "window":
            tap.eq(streams[-1][3].status(1), False, "a response of ours begins without a window")
    for what, a, b, rest in waiting:
        tap.ok(a is None or a.is_ended(), f"slow: {what}: the connection is ended")
        tap.eq(b.send(rest).answer()[0], 200, f"slow: {what}: the request is answered with more time")
    t = 1
    for what, kind, a, b in streams:
        tap.ok(a is None or a.is_reset(1), f"slow, HTTP/2: {what}: the stream is reset, or the connection ended")
        if kind == "head":
            b.send(frame(raw.CONTINUATION, raw.END_HEADERS, t))
            tap.eq(b.status(t), True, f"slow, HTTP/2: {what}: the request is answered with more time")
        elif kind == "held":
            b.send(frame(raw.DATA, raw.END_STREAM, t, body[9:]))
            tap.eq(b.status(t), True, f"slow, HTTP/2: {what}: the request is answered with more time")
        else:
            b.send(frame(raw.WINDOW, 0, t, b"\0\0\xff\xff"))
            got = b""
            while (f := b.read()) and not (f[0] == raw.DATA and f[1] & raw.END_STREAM):
                got += f[3] if f[0] == raw.DATA else b""
            tap.ok(b'"denied"' in got + f[3], f"slow, HTTP/2: {what}: the response is whole with more time")
    tap.eq(usual.h1().ask(HEAD)[0], 200, "other clients are served beside slow ones")
    tap.ok(quick.is_empty() and usual.is_empty(), "no request is left of slow clients")


def crowded(busy, origin):
    """As many answers as may be open to one server, and none of them ends: who comes next waits for some time, not for ever."""
    holders = [busy.h1() for _ in range(CONNECTIONS_MAX)]
    for c in holders:
        c.send(HEAD.replace(b"/x", b"/hold"))
    for c in holders:
        c.f.readline()  # its answer has begun
    code, body = busy.h1().ask(HEAD)
    tap.ok(code == 502 and b"were in use for too long" in body,
           "a request beyond the connections to a server is 502 after its time", code, body)
    tap.eq(busy.stats()["upstream_now"], CONNECTIONS_MAX, "all connections to a server are in use while a request waits")
    origin.go.set()
    tap.ok(wait_for("an answer", lambda: busy.h1().ask(HEAD)[0] == 200), "a request is answered once connections are free")
    tap.ok(busy.is_empty(), "no request is left after all connections were in use")


def queue(ca, origin):
    """Many wait for connections to one server: when some get free, not all that wait are compared with all connections."""
    origin.go.clear()
    box = Box(os.path.join(D, "queue"), ca.pem, origin.addr[1], "answer=900 stall=900")
    holders = [box.h1().send(HEAD.replace(b"/x", b"/hold")) for _ in range(CONNECTIONS_MAX)]
    for c in holders:
        c.f.readline()
    waiting = [box.h1().send(HEAD) for _ in range(WAITING)]
    wait_for("them to wait", lambda: box.stats()["requests_now"] >= CONNECTIONS_MAX + WAITING)
    before = box.stats()["upstream_looked"]
    for c in holders[:ENDED]:
        c.close()
    tap.eq([c.answer()[0] for c in waiting], [200] * WAITING, "requests that wait for a connection are answered when others end")
    looked = box.stats()["upstream_looked"] - before
    tap.ok(0 < looked <= 4 * (WAITING + ENDED) * CONNECTIONS_MAX,
           "the cost of waiting for a connection does not grow with the number that wait", looked)
    origin.go.set()
    for c in holders[ENDED:] + waiting:
        c.close()
    tap.ok(box.is_empty(), "no request is left of those that waited for a connection")
    tap.eq(box.close(), 0, "inspectbox ends with 0 after a queue")


def changed(name, ca, origin, more, heads, expected):
    """A request that waits for a connection while the policy changes is judged anew in every respect."""
    del origin.requests[:]
    origin.go.clear()
    busy = Box(os.path.join(D, name), ca.pem, origin.addr[1], "answer=60 stall=900")
    holders = [busy.h1() for _ in range(CONNECTIONS_MAX)]
    for c in holders:
        c.send(HEAD.replace(b"/x", b"/hold"))
    for c in holders:
        c.f.readline()
    waits = [busy.h1().send(request("MOVE", f"/{i}").replace(b"\r\n\r\n", b"\r\n" + h + b"\r\n\r\n")) for i, h in enumerate(heads)]
    wait_for("all to wait", lambda: busy.stats()["requests_now"] == CONNECTIONS_MAX + len(waits))
    busy.write_policy("2", "later", more)
    busy.p.send_signal(signal.SIGUSR1)
    busy.p.stdout.readline()
    tap.eq([c.answer()[0] for c in waits], expected,
           f"{name}: a request that waits while the policy changes is judged by the new one")
    tap.eq([r.target for r in origin.requests if r.method == "MOVE"], [f"/{i}" for i, s in enumerate(expected) if s == 200],
           f"{name}: the server receives no request that the new policy denies")
    origin.go.set()
    tap.ok(busy.is_empty() and busy.close() == 0, f"{name}: no request is left, and inspectbox ends with 0")


def request(method, path, body=b""):
    return f"{method} {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n".encode() + body


def query(text):
    return request("POST", "/graphql", json.dumps({"query": text}).encode())


def log_budget(ca, origin):
    """A new request waits for room in the log, and is denied in the end; a known one does not wait."""
    del origin.requests[:]
    # One for the connection, then GET, POST /a, a query and DELETE /b.
    box = Box(os.path.join(D, "budget"), ca.pem, origin.addr[1], "head=900 keep=900 body=900", f"5 1500 {1 << 30}")
    c = box.h1()
    tap.eq([c.ask(q)[0] for q in (HEAD, request("POST", "/a"), query("{ a }"), request("DELETE", "/b"))], [200] * 4,
           "new requests are let through while the log has room")
    slow_h2 = box.h2()
    waits = slow_h2.headers(slow_h2.block("/c", "PUT"))
    tap.eq([c.ask(q)[0] for q in (HEAD, HEAD.replace(b"/x", b"/y"), request("POST", "/a"), query("{ a }"), request("DELETE", "/b"))], [200] * 5,
           "known requests and GETs of other paths do not wait while a new request does")
    tap.ok(slow_h2.status(slow_h2.headers(slow_h2.block("/x"))),
           "a known request does not wait beside a new one on the same HTTP/2 connection")
    tap.ok(slow_h2.status(waits) is False, "a new request is denied after its time")
    status, body = c.ask(query("{ a b }"))
    tap.ok(status == 503 and b"too many new destinations" in body,
           "another query at a known path is denied while the log has no room, with the reason", (status, body))
    tap.eq(c.ask(request("POST", "/a?x=1"))[0], 503, "a POST with another query is denied while the log has no room")
    gone = box.h1().send(request("PUT", "/gone"))
    gone.close()
    tap.ok(box.is_empty(), "a client that leaves while its request waits leaves nothing")
    tap.eq(box.close(), 0, "inspectbox ends with 0 after its log budget was used up")
    seen = {(r.method, r.target) for r in origin.requests}
    tap.eq(seen, {("GET", "/x"), ("GET", "/y"), ("POST", "/a"), ("POST", "/graphql"), ("DELETE", "/b")},
           "the server received the known requests and no other")
    with open(box.journal, encoding="utf-8") as f:
        lines = [json.loads(x) for x in f]
    first = [(e["method"], e["path"].split("?")[0]) for e in lines if e["ev"] == "request" and e.get("first")]
    tap.eq(sorted(first), [("DELETE", "/b"), ("GET", "/x"), ("POST", "/a"), ("POST", "/graphql")],
           "each kind of request is marked as new once in the journal")
    tap.ok(any(e["ev"] == "request" and e["decision"] == "deny" and e["path"] == "/c" for e in lines),
           "a request that was denied for lack of room is in the journal")

    full = Box(os.path.join(D, "full"), ca.pem, origin.addr[1], "", "100 1500 1")
    with full.connect("http/1.1") as s:
        c = raw.H1(s)
        got = [c.ask(request("POST", f"/full/{i}")) for i in range(3)]
        tap.ok(all(s == 503 and b"the log of this run is full" in b for s, b in got),
               "a new request is denied when the log of a run is full", got)
    tap.eq(full.close(), 0, "inspectbox ends with 0 with a full log")
    with open(full.journal, encoding="utf-8") as f:
        tap.eq(sum('"log_full"' in x for x in f), 1, "a full log raises one alert")


def main():
    ca = ht.Authority(D)
    origin = ht.Origin(ca.cert("server", NAME), {"/hold": ht.sse})
    busy = Box(os.path.join(D, "busy"), ca.pem, origin.addr[1], "answer=2 stall=900")
    crowded(busy, origin)
    tap.eq(busy.close(), 0, "inspectbox ends with 0 after all connections were in use")
    queue(ca, origin)
    changed("second path", ca, origin, "", (b"Destination: /later/x", b"Destination: /other/x"), [403, 200])
    changed("credentials", ca, origin, "      credentials: only\n", (b"Authorization: Bearer of-their-own-0123456789", b"X-A: b"), [403, 503])
    quick = Box(os.path.join(D, "quick"), ca.pem, origin.addr[1], "head=2 keep=2 body=2")
    usual = Box(os.path.join(D, "usual"), ca.pem, origin.addr[1], "head=900 keep=900 body=900")
    slow(quick, usual)
    endless(usual)
    large(usual)
    nuisances(usual)
    tap.eq((quick.close(), usual.close()), (0, 0), "inspectbox ends with 0 after slow clients and floods")
    log_budget(ca, origin)


main()
tap.done()
