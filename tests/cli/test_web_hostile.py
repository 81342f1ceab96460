#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of the API: bodies without an end, heads that never come, framing that two readers understand in two ways,
other sites, more connections than there may be, more questions than anybody reads."""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as, identities, slow_build  # noqa: E402
from webtest import PATIENCE, child, connection, free_port, metric, raise_files, raw, resident, send, until  # noqa: E402

CONNS = 4300  # more than WEB_CONNS
RUNS = 160    # of 64 questions each: more than ten thousand
MEMORY = (48 << 10) * (16 if slow_build() > 1 else 1)  # KiB that coffer-web may have, whatever it is sent; a sanitizer's own beside it


class Rig:
    def __init__(self, tap, c):
        self.tap, self.c, self.port = tap, c, free_port()
        self.sock = os.path.join(c.state, "api.sock")
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{self.port}").code, 0, "the gateway starts")
        self.token = c("token", "new", "--role", "operator", "--name", "op").out.strip()
        self.daemon = json.loads(c("gateway", "status", "--json").out)["pid"]
        self.auth = f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        send(self.sock, "GET", "/v1/status")
        self.web = child(self.daemon, "coffer-web")

    def status(self, text, more=b""):
        """Of the first answer; and there may be one only."""
        got = raw(self.port, text.encode("latin-1") + more)
        self.tap.ok(got.count(b"HTTP/1.1 ") <= 1, "a connection gets at most one response", text[:200], got[:600])
        return got[9:12].decode()

    def works(self, name):
        got = send(self.port, "GET", "/v1/status", headers={"Authorization": f"Bearer {self.token}"})
        self.tap.eq(got[0], 200, f"{name}: the next request is served")
        self.tap.ok(resident(self.web) < MEMORY, f"{name}: coffer-web needs little memory", f"{resident(self.web)} KiB")


def pour(port, head, piece, limit):
    """Sends without an end, or up to the limit: how much was taken, and what was said."""
    sent, got = 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE * slow_build()) as s:
        try:
            s.sendall(head)
            while sent < limit:
                sent += s.send(piece)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            while more := s.recv(65536):
                got += more
    return sent, got


def test_bodies(rig):
    """A gigabyte, announced and not."""
    tap, post = rig.tap, f"POST /v1/sandboxes/x/stop HTTP/1.1\r\n{rig.auth}Content-Type: application/json\r\n"
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    for name, head, piece in (("announced", "Content-Length: 1073741824\r\n", b"x" * 65536), ("in chunks", "Transfer-Encoding: chunked\r\n", chunk)):
        sent, got = pour(rig.port, f"{post}{head}\r\n".encode(), piece, 1 << 30)
        tap.ok(sent < 64 << 20, f"a gigabyte {name} is not read", sent)
        tap.ok(not got or got.startswith(b"HTTP/1.1 413 "), f"a gigabyte {name} gets a 413 or no response", got[:200])
        rig.works(f"a gigabyte {name}")
    tap.eq(rig.status(f"{post}Content-Length: 65537\r\n\r\n"), "413", "a body one byte too long is refused")
    body = json.dumps({"grace_s": 1}).ljust(65536)
    tap.eq(rig.status(f"{post}Connection: close\r\nContent-Length: 65536\r\n\r\n{body}"), "404", "control: a body of the largest size is accepted")


SMUGGLED = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"


def test_framing(rig):
    """Requests that a proxy before us may have read in another way: refused, and nothing behind it is looked at."""
    tap, post = rig.tap, f"POST /v1/sandboxes/x/stop HTTP/1.1\r\n{rig.auth}Content-Type: application/json\r\n"
    both = f"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"
    cases = {
        "length and chunks": both,
        "chunks and length": f"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "two lengths": f"Content-Length: 2\r\nContent-Length: 60\r\n\r\n{{}}{SMUGGLED}",
        "a list of lengths": f"Content-Length: 2, 2\r\n\r\n{{}}{SMUGGLED}",
        "a length with a sign": f"Content-Length: +2\r\n\r\n{{}}{SMUGGLED}",
        "a length in hex": f"Content-Length: 0x2\r\n\r\n{{}}{SMUGGLED}",
        "a length below zero": f"Content-Length: -1\r\n\r\n{SMUGGLED}",
        "a length beyond all numbers": f"Content-Length: 18446744073709551618\r\n\r\n{{}}{SMUGGLED}",
        "a folded field": f"Content-Length: 2\r\nX: a\r\n b\r\n\r\n{{}}{SMUGGLED}",
        "a folded coding": f"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "a space before the colon": f"Content-Length : 2\r\n\r\n{{}}{SMUGGLED}",
        "a coding twice": f"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "a coding that is none": f"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "a coding with a tab inside": f"Transfer-Encoding: chun\x0bked\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "chunked and something behind it": f"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{SMUGGLED}",
        "a chunk's size that is none": f"Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}",
        "a chunk's size with a sign": f"Transfer-Encoding: chunked\r\n\r\n+2\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}",
        "a chunk's size beyond all numbers": f"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}",
        "a chunk without its end": f"Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}xx0\r\n\r\n{SMUGGLED}",
        "a line feed alone in chunks": f"Transfer-Encoding: chunked\r\n\r\n2\n{{}}\n0\n\n{SMUGGLED}",
        "a line feed alone": f"Content-Length: 2\n\n{{}}{SMUGGLED}",
        "a carriage return alone": f"X: a\rContent-Length: 60\r\nContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
        "a NUL": f"X: a\0b\r\nContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
        "two hosts": f"Host: evil.test\r\nContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
    }
    for name, rest in cases.items():
        got = rig.status(post + rest)
        tap.ok(got in ("400", "501", "413"), f"framing: {name} is refused", got)
    no_host = f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {rig.token}\r\n\r\n"
    tap.ok(rig.status(no_host) in ("400", "421"), "framing: a request without Host is refused")
    good = f"{post}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    tap.eq(rig.status(good), "404", "framing: control: a good chunked request is accepted")
    rig.works("framing")


def ends_by_itself(rig, where, data):
    """The response, and whether the connection was ended by the other side, long before it would be for being idle."""
    s = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
    with s:
        s.settimeout(10 * slow_build())
        s.connect(where if isinstance(where, str) else ("127.0.0.1", where))
        s.sendall(data)
        got = b""
        try:
            while more := s.recv(65536):
                got += more
        except ConnectionError:
            pass
        except TimeoutError:
            return got, False
        return got, True


def test_values(rig):
    """Bytes that do not belong into a field: refused, the connection ended, and nothing of the request read as the next one."""
    tap = rig.tap
    inner = f"GET /v1/openapi.yaml HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\n\r\n"
    odd = {"a NUL": "a\0b", "a NUL at the end": "a\0", "a NUL alone": "\0", "a carriage return": "a\rb", "a carriage return at the end": "a\r", "a line feed": "a\nb",
           "a line feed at the end": "a\n", "a line feed and a field": "a\nContent-Length: 0", "a carriage return and a field": "a\rContent-Length: 0",
           "a fold by a space": "a\r\n b", "a fold by a tab": "a\r\n\tb", "a fold of nothing": "a\r\n ", "a fold by a bare line feed": "a\n b",
           "a bell": "a\x07b", "DEL": "a\x7fb", "an escape": "\x1b[2J", "the end of a head by line feeds": "a\n\n" + inner}
    names = ("X-Anything", "Accept", "User-Agent", "Content-Type", "Idempotency-Key", "Origin", "Last-Event-ID")
    for where in (rig.port, rig.sock):
        via = "the owner's socket" if where == rig.sock else "an address"
        base = f"GET /v1/status HTTP/1.1\r\n{rig.auth}"
        good, ended = ends_by_itself(rig, where, f"{base}X-Anything: a\tb\r\nConnection: close\r\n\r\n{inner}".encode())
        tap.ok(ended and good.startswith(b"HTTP/1.1 200 ") and good.count(b"HTTP/1.1 ") == 1, f"values: control: a tab in a value is accepted, by {via}", good[:200])
        for i, (what, value) in enumerate(odd.items()):
            # One of the fields for each, and all of them in turn.
            for name in {names[i % len(names)], "X-Anything"}:
                got, ended = ends_by_itself(rig, where, f"{base}{name}: {value}\r\n\r\n{inner}{inner}".encode("latin-1"))
                tap.ok(got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1 and b"openapi:" not in got and ended,
                       f"values: {what} in {name} is refused, by {via}", got[:300], ended)
        for what, field in (("a NUL in a name", "X-A\0B: c"), ("a carriage return in a name", "X-A\rB: c"), ("a line feed before a name", "\nX: c"),
                            ("no name", ": c"), ("a fold before any field", " X: c"), ("no colon", "X")):
            head = f"GET /v1/status HTTP/1.1\r\n{field}\r\n{rig.auth}\r\n{inner}"
            got, ended = ends_by_itself(rig, where, head.encode("latin-1"))
            tap.ok(got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1 and ended, f"values: {what} is refused, by {via}", got[:300], ended)
        # With a body that would be a request by itself.
        size = f"Content-Length: {len(inner)}\r\nContent-Type: application/json\r\n"
        for what, value in odd.items():
            got, ended = ends_by_itself(rig, where, f"POST /v1/asks HTTP/1.1\r\n{rig.auth}{size}X: {value}\r\n\r\n{inner}".encode("latin-1"))
            tap.ok(got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1 and b"openapi:" not in got and ended,
                   f"values: {what} before a body is refused, by {via}", got[:300], ended)
        # And behind one: what follows the last chunk is a head's equal.
        for what, value in odd.items():
            chunks = f"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n2\r\n{{}}\r\n0\r\nX: {value}\r\n\r\n{inner}"
            got, ended = ends_by_itself(rig, where, f"POST /v1/sandboxes/x/stop HTTP/1.1\r\n{rig.auth}{chunks}".encode("latin-1"))
            tap.ok(got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1 and b"openapi:" not in got and ended,
                   f"values: {what} after chunks is refused, by {via}", got[:300], ended)
    rig.works("values")


def test_bodies_of_refused(rig):
    """A request that is refused by its head: what it carries is not taken for the next request."""
    tap, port = rig.tap, rig.port
    ours = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {rig.token}\r\n"
    inner = f"GET /v1/status HTTP/1.1\r\n{ours}\r\n"
    size = f"Content-Length: {len(inner)}\r\nContent-Type: application/json\r\n"
    chunks = "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
    heads = {
        "400": f"GET /v1/status HTTP/1.1\r\n{ours}{size}",
        "401": f"POST /v1/asks HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{size}",
        "403": f"POST /v1/asks HTTP/1.1\r\n{ours}Origin: http://evil.test\r\n{size}",
        "403 by Sec-Fetch-Site": f"POST /v1/asks HTTP/1.1\r\n{ours}Sec-Fetch-Site: same-site\r\n{size}",
        "404": f"POST /v1/nosuch HTTP/1.1\r\n{ours}{size}",
        "405": f"POST /v1/status HTTP/1.1\r\n{ours}{size}",
        "405 in chunks": f"POST /v1/status HTTP/1.1\r\n{ours}{chunks}",
        "413": f"POST /v1/asks HTTP/1.1\r\n{ours}Content-Length: 70000\r\nContent-Type: application/json\r\n",
        "415": f"POST /v1/asks HTTP/1.1\r\n{ours}Content-Length: {len(inner)}\r\nContent-Type: text/plain\r\n",
        "417": f"POST /v1/asks HTTP/1.1\r\n{ours}Expect: 100-continue\r\n{size}",
        "421": f"POST /v1/asks HTTP/1.1\r\nHost: evil.test:{port}\r\n{size}",
    }
    for name, head in heads.items():
        # For chunks the body is the request itself: it is no chunk, and would be a head.
        got = raw(port, f"{head}\r\n{inner}".encode())
        tap.ok(got.startswith(f"HTTP/1.1 {name[:3]} ".encode()) and got.count(b"HTTP/1.1 ") == 1 and b'"version"' not in got,
               f"refused: a {name} ends the connection, and its body is not read as a request", got[:120], got[-300:])
    two = f"GET /v1/status HTTP/1.1\r\n{ours}\r\nGET /v1/status HTTP/1.1\r\nConnection: close\r\n{ours}\r\n"
    tap.eq(raw(port, two.encode()).count(b"HTTP/1.1 200 "), 2, "refused: control: two good requests on one connection are both answered")
    rig.works("refused")


def test_refusals(rig, c):
    """Refused again and again: a line and a count, not a line each."""
    weak = {"Authorization": "Bearer " + c("token", "new", "--role", "observer", "--name", "again").out.strip()}

    def lines():
        return [e for e in json.loads(send(rig.sock, "GET", "/v1/audit?limit=1000&type=api.refused")[2])["items"] if e["who"] == "again"]

    conn, said = connection(rig.port), []
    for _ in range(150):
        conn.request("POST", "/v1/sandboxes/nosuch/stop", "{}", {**weak, "Content-Type": "application/json"})
        r = conn.getresponse()
        r.read()
        said.append(r.status)
    conn.close()
    rig.tap.eq(set(said), {403}, "refusals: 150 requests are refused")
    rig.tap.ok(until(lambda: sum(e["times"] for e in lines()) == 150), "refusals: the log counts all 150", lines())
    rig.tap.ok(len(lines()) <= 40, "refusals: the log has at most 40 lines", len(lines()))
    c("token", "rm", "again")


def test_locked_out(rig, c):
    """A client without a token asks as much as it can: one with a token is served."""
    tap = rig.tap

    def storm(n):
        """All connected before the first of them says a word: a client that is slow would not ask more in a second than it may."""
        socks = [socket.create_connection(("127.0.0.1", rig.port), timeout=PATIENCE * slow_build()) for _ in range(n)]
        for i, s in enumerate(socks):
            s.sendall(f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer coffer_{i:043d}\r\n\r\n".encode())
        got = [s.recv(65536)[9:12].decode() for s in socks]
        for s in socks:
            s.close()
        return got

    rig.works("locked out")
    got = storm(2000)
    tap.ok(set(got) == {"401", "429"}, "locked out: made-up tokens share a rate limit", {x: got.count(x) for x in set(got)})
    tap.eq(send(rig.port, "GET", "/v1/status", headers={"Authorization": f"Bearer {rig.token}"})[0], 200, "locked out: a valid token is served during the flood")
    tap.eq(until(lambda: send(rig.port, "POST", "/v1/session", {"code": c("ui").out.strip().split("=")[1]})[0] == 200), True, "locked out: signing in works after the flood")


def test_sites(rig, c):
    """Another page in the same browser, by every name and origin that it can have."""
    tap, port = rig.tap, rig.port
    url = c("ui").out.strip()
    page = {"Origin": f"http://127.0.0.1:{port}"}
    status, _, data = send(port, "POST", "/v1/session", {"code": url.split("=")[1]}, page)
    auth = {"Authorization": f"Bearer {json.loads(data)['session']}"}
    stop = ("POST", "/v1/sandboxes/nosuch/stop", {})
    tap.ok(status == 200 and send(port, *stop, {**auth, **page})[0] == 404, "sites: control: the page itself may change something")
    for origin in ("null", "http://127.0.0.1", f"http://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}.evil.test",
                   f"http://localhost:{port}", f"http://127.0.0.1:{port}/", "", f"http://[::1]:{port}", f"http://127.0.0.1:{port} http://evil.test"):
        tap.eq(send(port, *stop, {**auth, **page, "Origin": origin})[0], 403, f"sites: a change from origin '{origin}' is refused")
        if origin:
            tap.eq(send(port, "GET", "/v1/sandboxes", headers={**auth, "Origin": origin})[0], 403, f"sites: a read from origin '{origin}' is refused")
    form = {**auth, **page, "Content-Type": "text/plain"}
    tap.ok(send(port, "POST", "/v1/sandboxes/nosuch/stop", "{}", form)[0] in (400, 403, 415), "sites: a content type that a form can send is refused")
    for host in (f"127.0.0.1.evil.test:{port}", f"evil.test:{port}", f"127.0.0.1:{port + 1}", "[::1", f"127.0.0.1:{port}@evil.test",
                 f"127.0.0.1%00.evil.test:{port}", f"2130706433:{port}", f"0x7f.1:{port}"):
        got = send(port, "GET", "/v1/status", headers={**auth, "Host": host})[0]
        tap.ok(got in (400, 421), f"sites: Host {host} is refused", got)
    tap.eq(send(port, "OPTIONS", "/v1/status", headers={**auth, "Origin": "http://evil.test", "Access-Control-Request-Method": "POST"})[0] // 100, 4,
           "sites: a preflight request of another site is refused")


def test_tokens(rig, c):
    """Texts that are not quite a token."""
    tap, good = rig.tap, rig.token
    for name, value in (("cut", good[:-1]), ("longer", good + "x"), ("in capitals", good.upper()), ("without its beginning", good.split("_")[1]),
                        ("empty", ""), ("of 8 KiB", "x" * 8192), ("another", "coffer_" + "A" * 43)):
        tap.ok(send(rig.port, "GET", "/v1/status", headers={"Authorization": f"Bearer {value}"})[0] in (400, 401), f"tokens: a token that is {name} is refused")
    for value in (f"Basic {good}", good, f"Bearer  {good} x", f"Bearer {good}, Bearer {good}"):
        tap.ok(send(rig.port, "GET", "/v1/status", headers={"Authorization": value})[0] in (400, 401), "tokens: a malformed Authorization field is refused")
    tap.ok(send(rig.port, "GET", f"/v1/status?token={good}")[0] in (400, 401), "tokens: a token in the URL is refused")
    weak = c("token", "new", "--role", "observer", "--name", "weak").out.strip()
    auth = {"Authorization": f"Bearer {weak}"}
    tap.eq(send(rig.port, "POST", "/v1/sandboxes/nosuch/stop", {}, auth)[0], 403, "tokens: a role that is too low is refused")
    events = json.loads(send(rig.sock, "GET", "/v1/audit?limit=20&type=api.refused")[2])["items"]
    tap.ok(events and events[0]["who"] == "weak" and events[0]["act"] == "sandbox.stop", "tokens: a role that is too low is logged", events[:1])
    conn = connection(rig.port)
    conn.request("GET", "/v1/status", headers=auth)
    tap.eq(conn.getresponse().read() and 1, 1, "tokens: control: an open connection is served")
    c("token", "rm", "weak")
    conn.request("GET", "/v1/status", headers=auth)
    tap.eq(conn.getresponse().status, 401, "tokens: an open connection is refused after its token was removed")
    conn.close()


def test_once(rig, c):
    """Idempotency-Key: an answer of before is for who may still ask; what was begun is not begun twice."""
    tap = rig.tap
    c("run", "-d", "--name", "once", "--", "sleep", "600")
    weak = c("token", "new", "--role", "observer", "--name", "soon-gone").out.strip()
    head = {"Authorization": f"Bearer {weak}", "Idempotency-Key": "once-key-1"}
    body = {"sandbox": "once", "what": "Once?", "seconds": 600}
    first, again = (send(rig.port, "POST", "/v1/asks", body, head) for _ in range(2))
    tap.ok(first[0] == again[0] == 201 and first[2] == again[2] and again[1]["Idempotency-Replayed"] == "true", "once: control: a repeated request gets the same response", again)
    c("token", "rm", "soon-gone")
    tap.eq(send(rig.port, "POST", "/v1/asks", body, head)[0], 401, "once: a repeated request is refused when its token is gone")
    for i in range(50):
        send(rig.port, "POST", "/v1/asks", body, {"Authorization": f"Bearer coffer_{i:043d}", "Idempotency-Key": f"stranger-{i}"})
    c("run", "-d", "--name", "deaf", "--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    tap.ok(until(lambda: "up" in c("logs", "deaf").out), "once: control: a sandbox that ignores SIGTERM runs")
    key = {"Idempotency-Key": "once-key-2", "Content-Type": "application/json"}
    conn = connection(rig.sock)
    conn.request("POST", "/v1/sandboxes/deaf/stop", json.dumps({"grace_s": 3}), key)
    acts = ("GET", "/v1/audit?type=api.request&limit=50")
    tap.ok(until(lambda: any(e["act"] == "sandbox.stop" and e.get("sandbox") for e in json.loads(send(rig.sock, *acts)[2])["items"])), "once: control: the stop is begun")
    conn.close()
    tap.ok(until(lambda: send(rig.sock, "POST", "/v1/sandboxes/deaf/stop", {"grace_s": 3}, key)[2].count(b"was begun")), "once: a repeated stop is refused because it was begun")
    n = [e for e in json.loads(send(rig.sock, *acts)[2])["items"] if e["act"] == "sandbox.stop" and e.get("sandbox")]
    tap.eq(len(n), 1, "once: the stop was begun once", n)
    for name in ("once", "deaf"):
        c("rm", "--force", name)


STRANGERS = 80


def test_strangers(rig, c):
    """Idempotency-Key with a made-up token: while cofferd has not judged any of them, a client with a new good token is not refused."""
    tap, socks = rig.tap, []
    fresh = c("token", "new", "--role", "operator", "--name", "fresh").out.strip()
    body = "POST /v1/sandboxes/nosuch/stop HTTP/1.1\r\n" f"Host: 127.0.0.1:{rig.port}\r\nContent-Length: 0\r\nConnection: close\r\n"
    os.kill(rig.daemon, signal.SIGSTOP)
    try:
        for who in [f"coffer_{i:041d}zz" for i in range(STRANGERS)] + [fresh]:
            socks.append(socket.create_connection(("127.0.0.1", rig.port), timeout=PATIENCE * slow_build()))
            socks[-1].sendall(f"{body}Authorization: Bearer {who}\r\nIdempotency-Key: {who[-20:]}\r\n\r\n".encode())
        ready = select.select(socks, [], [], 0.5)[0]
        tap.eq([s.recv(4096)[9:12] for s in ready], [], "strangers: nobody is answered before cofferd has checked the token")
    finally:
        os.kill(rig.daemon, signal.SIGCONT)
    said = [s.recv(4096)[9:12].decode() for s in socks]
    tap.eq(set(said[:-1]), {"401"}, "strangers: each made-up token is refused")
    tap.eq(said[-1], "404", "strangers: the client with a good token is served")
    for s in socks:
        s.close()
    c("token", "rm", "fresh")


KEYS = 1300  # more than there are places for


def test_pushed_out(rig, c):
    """A request with a key is still known after others have asked with more keys than are kept: it is not done a second time."""
    tap = rig.tap
    c("run", "-d", "--name", "mine", "--", "sleep", "600")
    tokens = {who: c("token", "new", "--role", "operator", "--name", who).out.strip() for who in ("careful", "noisy")}
    mine = {"Authorization": f"Bearer {tokens['careful']}", "Idempotency-Key": "careful-key-1"}
    first = send(rig.port, "POST", "/v1/sandboxes/mine/checkpoints", {"label": "once"}, mine)
    tap.eq(first[0], 201, "pushed out: control: the checkpoint is made", first)

    def storm(auth, n, name):
        conn, said = connection(rig.port), {}
        for i in range(n):
            head = {**auth(i), "Idempotency-Key": f"{name}-key-{i}", "Content-Type": "application/json"}
            while True:
                conn.request("POST", "/v1/sandboxes/nosuch/stop", "{}", head)
                r = conn.getresponse()
                r.read()
                if r.status != 429 or name == "strangers":
                    break
                time.sleep(0.2)
            said[r.status] = said.get(r.status, 0) + 1
            if r.status == 429:
                time.sleep(0.01)
        conn.close()
        return said

    def kept(name):
        again = send(rig.port, "POST", "/v1/sandboxes/mine/checkpoints", {"label": "once"}, mine)
        tap.ok(again[0] == 201 and again[1]["Idempotency-Replayed"] == "true" and again[2] == first[2], f"pushed out: the stored response survives {name}", again)

    tap.eq(storm(lambda i: {"Authorization": f"Bearer {tokens['noisy']}"}, KEYS, "noisy"), {404: KEYS}, "pushed out: control: another client uses more keys than are stored")
    kept("somebody with a token of his own")
    said = storm(lambda i: {"Authorization": f"Bearer coffer_{i:043d}"}, KEYS, "strangers")
    tap.ok(set(said) <= {401, 429} and said[401] > 300, "pushed out: control: made-up tokens are refused up to their limit", said)
    kept("strangers with made-up tokens")
    for i in range(200):
        # Gone before the answer: what such a one began is remembered, but not in the place of another's.
        with socket.create_connection(("127.0.0.1", rig.port)) as s:
            s.sendall(f"POST /v1/sandboxes/mine/stop HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer coffer_{i:042d}x\r\n"
                      f"Idempotency-Key: gone-key-{i}\r\nContent-Length: 0\r\n\r\n".encode())
    kept("strangers who do not wait")
    tap.eq(send(rig.port, "POST", "/v1/sandboxes/nosuch/stop", {}, {**mine, "Idempotency-Key": "careful-key-2"})[0], 404, "pushed out: a new key is accepted")
    made = json.loads(send(rig.sock, "GET", "/v1/sandboxes/mine/checkpoints")[2])["checkpoints"]
    tap.eq(len(made), 1, "pushed out: the checkpoint was made once", made)
    c("rm", "--force", "mine")
    for who in tokens:
        c("token", "rm", who)


def test_submitted(rig, c):
    """A client that may only ask does not take the list of questions from the sandbox, and is named."""
    tap = rig.tap
    c("run", "-d", "--name", "asked", "--", "sleep", "600")
    tokens = [c("token", "new", "--role", "observer", "--name", f"asker{i}").out.strip() for i in range(3)]

    def put(token, n):
        return [send(rig.port, "POST", "/v1/asks", {"sandbox": "asked", "what": f"Question {n} of {token[-6:]}?", "seconds": 600},
                     {"Authorization": f"Bearer {token}"}) for n in range(n)]

    got = put(tokens[0], 10)
    tap.eq([r[0] for r in got], [201] * 8 + [409] * 2, "submitted: eight questions of one asker wait, and no more", got[-1])
    ask = json.loads(got[0][2])
    tap.eq(ask["by"], "asker0 (api)", "submitted: a question has its asker")
    tap.ok("asker0 (api)" in c("ask", "show", ask["id"]).out, "submitted: ask show prints the asker")
    log = json.loads(send(rig.sock, "GET", "/v1/audit?type=ask.new&limit=1")[2])["items"][0]
    tap.eq(log["by"], "asker0 (api)", "submitted: the log has the asker")
    c("run", "-d", "--name", "asked2", "--", "sleep", "600")
    other = send(rig.port, "POST", "/v1/asks", {"sandbox": "asked2", "what": "Elsewhere?"}, {"Authorization": f"Bearer {tokens[0]}"})
    tap.eq(other[0], 409, "submitted: the limit of eight covers all sandboxes", other)
    tap.eq([r[0] for t in tokens[1:] for r in put(t, 8)], [201] * 8 + [409] * 8, "submitted: sixteen questions wait for one sandbox, and no more")
    listed = json.loads(send(rig.sock, "GET", "/v1/asks?sandbox=asked&order=newest&limit=5")[2])
    every = json.loads(send(rig.sock, "GET", "/v1/asks?sandbox=asked&limit=100")[2])["items"]
    tap.eq([a["id"] for a in listed["items"]], [a["id"] for a in reversed(every)][:5], "submitted: order=newest lists the newest first")
    rest = json.loads(send(rig.sock, "GET", f"/v1/asks?sandbox=asked&order=newest&limit=100&after={listed['next']}")[2])["items"]
    tap.eq([a["id"] for a in rest], [a["id"] for a in reversed(every)][5:], "submitted: order=newest continues after the cursor")
    say = {"digest": ask["digest"], "decision": "allow", "scope": "sandbox"}
    tap.eq(send(rig.sock, "POST", f"/v1/asks/{ask['id']}/answer", say)[0], 200, "submitted: a question is allowed for the sandbox")
    last = every[-1]
    tap.eq(send(rig.sock, "POST", f"/v1/asks/{last['id']}/answer", {"digest": last["digest"], "decision": "allow"})[0], 200, "submitted: a question is allowed once")
    for state, want in (("granted", {ask["id"]}), ("parked", {last["id"]}), ("in_force", {ask["id"], last["id"]})):
        page = json.loads(send(rig.sock, "GET", f"/v1/asks?state={state}")[2])
        tap.eq(({a["id"] for a in page["items"]}, page["total"]), (want, len(want)), f"submitted: state={state} lists the right questions")
    for name in ("asked", "asked2"):
        c("rm", "--force", name)
    for i in range(3):
        c("token", "rm", f"asker{i}")


def test_rollback(rig):
    """The name of a checkpoint cannot be an option."""
    for name in ("--help", "-h", "--no-start", "c", "c1x", "1", "c 1"):
        got = send(rig.sock, "POST", "/v1/sandboxes/nosuch/rollback", {"checkpoint": name})
        rig.tap.eq(got[0], 400, f"rollback: '{name}' is refused as a checkpoint", got[2])
    rig.tap.eq(send(rig.sock, "POST", "/v1/sandboxes/nosuch/rollback", {"checkpoint": "c1"})[0], 404, "rollback: control: c1 is accepted as a checkpoint")


class Slow(threading.Thread):
    """Heads, a byte at a time, that never end."""

    def __init__(self, port, n=60):
        super().__init__(daemon=True)
        self.socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(n)]
        self.closed, self.stop, self.began = 0, False, time.monotonic()
        for s in self.socks:
            s.sendall(b"GET /v1/status HTTP/1.1\r\nX: ")
            s.setblocking(False)

    def run(self):
        live = list(self.socks)
        while live and not self.stop:
            for s in list(live):
                try:
                    s.send(b"a")
                    ended = s.recv(4096) == b""
                except BlockingIOError:
                    ended = False
                except OSError:
                    ended = True
                if ended:
                    live.remove(s)
                    self.closed += 1
            time.sleep(0.5)
        self.took = time.monotonic() - self.began


def test_connections(rig):
    """More than there may be: strangers are turned away, and the owner is not."""
    tap, socks = rig.tap, []
    for _ in range(min(CONNS, raise_files(CONNS + 200) - 200)):
        with contextlib.suppress(OSError):
            socks.append(socket.create_connection(("127.0.0.1", rig.port), timeout=PATIENCE))
    count = until(lambda: (metric(rig.sock, "coffer_api_connections") or 0) > 400 and metric(rig.sock, "coffer_api_connections"))
    tap.ok(count and count <= 4096, "connections: the number of connections is limited", count)
    tap.eq(send(rig.sock, "GET", "/v1/status")[0], 200, "connections: the owner's socket is served meanwhile")
    tap.ok(resident(rig.web) < 2 * MEMORY, "connections: coffer-web needs little memory", f"{resident(rig.web)} KiB")
    for s in socks:
        s.close()
    tap.ok(until(lambda: metric(rig.sock, "coffer_api_connections") < 100), "connections: closed connections are not counted")
    rig.works("connections")


def test_gone(rig, c):
    """A client that goes away hangs up on its command; one that does not read holds it up and no more."""
    tap = rig.tap
    c("run", "-d", "--name", "box", "--", "sleep", "600")

    def begin(command):
        conn = connection(rig.sock)
        conn.request("POST", "/v1/sandboxes/box/exec", json.dumps({"command": command}), {"Content-Type": "application/json"})
        return conn, conn.getresponse()

    def runs(word):
        return word in c("exec", "box", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out

    conn, r = begin(["sh", "-c", "echo began; exec sleep 4321"])
    tap.ok(b"stdout" in r.readline(), "gone: a command's output comes as it is printed")
    tap.ok(until(lambda: runs("sleep 4321")), "gone: control: the command runs")
    conn.sock.close()
    r.close()
    tap.ok(until(lambda: not runs("sleep 4321")), "gone: a command ends when its client disconnects")
    conn, r = begin(["sh", "-c", "trap 'exit 3' PIPE; i=0; while [ $i -lt 100000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done; echo all"])
    time.sleep(2)  # it does not read
    tap.ok(resident(rig.web) < MEMORY, "gone: output that nobody reads is not buffered", f"{resident(rig.web)} KiB")
    tap.eq(json.loads(r.read().splitlines()[-1]), {"stream": "end", "exit_code": 0}, "gone: a slow reader gets the whole output")
    conn.close()
    key = {"Idempotency-Key": "hostile-key-1", "Content-Type": "application/json"}
    first = connection(rig.sock)
    first.request("POST", "/v1/sandboxes/box/stop", json.dumps({"grace_s": 1}), key)
    second = send(rig.sock, "POST", "/v1/sandboxes/box/stop", {"grace_s": 1}, key)
    both = sorted((first.getresponse().status, second[0]))
    tap.ok(both in ([204, 204], [204, 409]), "gone: two requests with one key are one request", both)
    stops = json.loads(send(rig.sock, "GET", "/v1/audit?type=api.request&limit=50")[2])["items"]
    tap.eq(len([e for e in stops if e["act"] == "sandbox.stop" and e.get("sandbox") == stops[0]["sandbox"]]), 1, "gone: the stop was begun once", stops[:3])
    c("rm", "--force", "box")


def test_asks(rig, c):
    """Ten thousand questions of many runs."""
    tap = rig.tap
    program = shutil.copy(os.path.join(BUILD, "tests", "mkasks"), c.bin)  # where this identity may read it
    p = c.popen(program=[program, c.state, str(RUNS)], stdin=subprocess.PIPE)
    tap.eq(p.stdout.readline(), b"ready\n", "asks: control: the questions wait")
    try:
        start = time.monotonic()
        page = json.loads(send(rig.sock, "GET", "/v1/asks?limit=1000")[2])
        tap.note(f"a page of a thousand out of ten thousand questions: {time.monotonic() - start:.2f} s")
        tap.eq(page["total"], RUNS * 64, "asks: the total counts all questions")
        seen, pages = [a["id"] for a in page["items"]], 1
        while page["next"] and pages < 20:
            page = json.loads(send(rig.sock, "GET", f"/v1/asks?limit=1000&after={page['next']}")[2])
            seen += [a["id"] for a in page["items"]]
            pages += 1
        tap.eq((len(seen), len(set(seen))), (RUNS * 64, RUNS * 64), "asks: each question is listed once over all pages")
        r = c("ask", "ls", "--json", timeout=300)
        tap.ok(r.code == 0 and r.out.count('"id"') == RUNS * 64, "asks: coffer ask ls --json lists all questions", r.code, r.err[-300:])
        r = c("ask", "ls", timeout=300)
        tap.ok("\x1b" not in r.out and "\u202e" not in r.out, "asks: coffer ask ls prints no control characters")
        ask = json.loads(send(rig.sock, "GET", f"/v1/asks/{seen[5000]}")[2])
        got = send(rig.sock, "POST", f"/v1/asks/{ask['id']}/answer", {"digest": ask["digest"], "decision": "deny"})
        tap.ok(got[0] == 200 and json.loads(got[2])["state"] == "denied", "asks: one question of many is denied", got)
        page = json.loads(send(rig.sock, "GET", f"/v1/asks?limit=5&after={ask['id']}")[2])
        tap.eq([x["id"] for x in page["items"]], seen[5001:5006], "asks: paging continues after a question that was answered")
        rig.works("asks")
    finally:
        p.stdin.close()
        p.wait(timeout=PATIENCE)


def test_public(tap, c, port):
    """An address that others can reach is taken only when somebody says so."""
    for address in (f"0.0.0.0:{port}", f"[::]:{port}", f"192.0.2.1:{port}", f"8.8.8.8:{port}", f"[2001:db8::1]:{port}"):
        r = c("gateway", "start", "--listen", address)
        tap.ok(r.code == 125 and "whole network" in r.err and "--public" in r.err, f"public: {address} is refused with the reason", r)
    tap.ok(c("gateway", "start", "--listen", f"example.com:{port}").code == 125, "public: a name instead of an address is refused")
    r = c("gateway", "start", "--listen", f"0.0.0.0:{port}", "--public")
    tap.eq(r.code, 0, "public: --public accepts a public address", r)
    log = json.loads(send(os.path.join(c.state, "api.sock"), "GET", "/v1/audit?type=api.listen&limit=1")[2])["items"]
    tap.ok(log and log[0].get("public") is True, "public: the log marks the address as public", log)


def main(tap, who):
    with coffer_as(who) as c:
        rig = Rig(tap, c)
        slow = Slow(rig.port)
        slow.start()
        test_bodies(rig)
        test_framing(rig)
        test_values(rig)
        test_bodies_of_refused(rig)
        test_sites(rig, c)
        test_refusals(rig, c)
        test_once(rig, c)
        test_strangers(rig, c)
        test_pushed_out(rig, c)
        test_submitted(rig, c)
        test_rollback(rig)
        test_tokens(rig, c)
        test_gone(rig, c)
        test_asks(rig, c)
        slow.join(timeout=PATIENCE * slow_build())
        slow.stop = True
        tap.eq(slow.closed, len(slow.socks), "a connection that never completes its head is closed")
        test_connections(rig)
        test_public(tap, c, free_port())
        test_locked_out(rig, c)
        tap.eq(child(rig.daemon, "coffer-web"), rig.web, "coffer-web was not restarted")
        tap.eq(c("audit", "verify").code, 0, "the log verifies")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
raise_files(CONNS + 200)  # cofferd has them from us
found = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
main(tap, found[-1])
tap.done()
