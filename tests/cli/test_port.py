#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine that lead inside: -p, with every engine, with and without a network."""

import concurrent.futures
import json
import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities, slow_build  # noqa: E402

PLACES = 128  # connections at once, as in src/run/supervise/supervise_port.c

# Port 8080: "N\n" is answered with N bytes; "echo\n" with all that follows, once the client has said its last word;
# "hold\n" with nothing for ever. Port 8086 the same on ::1 alone.
SERVER = r"""
import socket, threading
def serve(c):
    with c, c.makefile("rb") as f:
        word = f.readline().strip()
        if word == b"echo":
            c.sendall(f.read())
        elif word == b"hold":
            f.read()
        elif word:
            c.sendall(b"x" * int(word))
def listen(family, address):
    s = socket.create_server(address, family=family, backlog=256)
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=listen, args=(socket.AF_INET6, ("::1", 8086)), daemon=True).start()
listen(socket.AF_INET, ("127.0.0.1", 8080))
"""


def until(check, seconds=90):
    deadline = time.monotonic() + seconds * slow_build()
    while True:
        got = check()
        if got or time.monotonic() > deadline:
            return got
        time.sleep(0.05)


def connect(port):
    s = socket.create_connection(("127.0.0.1", port))
    s.settimeout(60 * slow_build())
    return s


def read_all(s):
    data = b""
    while piece := s.recv(65536):
        data += piece
    return data


def ask(port, word, rest=b"", shut=False):
    """The response, or None when the connection is reset."""
    try:
        with connect(port) as s:
            s.sendall(word + b"\n" + rest)
            if shut:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)
    except ConnectionError:
        return None


def exchange(tap, c, ports):
    who = c.who
    web, v6, nobody = ports
    tap.ok(until(lambda: ask(web, b"5") == b"xxxxx"), f"{who}: a published port leads to the server inside")
    tap.ok(until(lambda: ask(v6, b"5") == b"xxxxx"), f"{who}: a published port leads to a server on ::1 alone")
    tap.eq(ask(nobody, b"5"), None, f"{who}: a published port without a server resets the connection")
    tap.eq(len(ask(web, b"3000000") or b""), 3000000, f"{who}: three megabytes come out of a published port")
    data = os.urandom(2000000)
    tap.ok(ask(web, b"echo", data, shut=True) == data, f"{who}: two megabytes come back after a half-close")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda _: len(ask(web, b"100000") or b""), range(32)))
    tap.eq(got, [100000] * 32, f"{who}: 32 concurrent connections get all their data")


def is_reset(s):
    try:
        return s.recv(1) == b""
    except ConnectionError:
        return True


def places(tap, c, web):
    """All places taken by clients that say nothing: the next is reset, and none is held for ever."""
    held = []
    for _ in range(PLACES):
        s = connect(web)
        s.sendall(b"hold\n")
        held.append(s)
    refused = ask(web, b"5")
    tap.eq(refused, None, f"{c.who}: the next connection is reset when all places are taken")
    for s in held[:8]:
        s.close()
    tap.ok(until(lambda: ask(web, b"5") == b"xxxxx"), f"{c.who}: closed connections free their places")
    r = c("exec", "web", "--", "echo", "still here")
    tap.eq(r.out, "still here\n", f"{c.who}: commands run while all places of ports are taken", r)
    for s in held[8:]:
        s.close()
    tap.ok(until(lambda: ask(web, b"5") == b"xxxxx"), f"{c.who}: a published port works after all connections were closed")


def life(tap, c, net):
    who = c.who
    r = c("run", "-d", "--name", "web", "--net", net, "-p", "0:8080", "-p", "127.0.0.1:0:8086", "-p", "0:9", "--",
          "python3", "-c", SERVER)
    tap.eq(r.code, 0, f"{who}: coffer run -p starts with --net {net}", r)
    row = json.loads(c("ps", "--json").out)[0]
    ports = [int(p) for p in re.findall(r"127\.0\.0\.1:(\d+)->", row["ports"] or "")]
    if not tap.ok(len(ports) == 3 and row["net"] == net, f"{who}: coffer ps lists the published ports", row):
        return
    exchange(tap, c, ports)
    if c.engine == "ns":
        places(tap, c, ports[0])
    with connect(ports[0]) as s:
        s.sendall(b"hold\n")
        r = c("stop", "web")
        tap.eq(r.code, 0, f"{who}: coffer stop ends a sandbox with a client connected", r)
        tap.ok(is_reset(s), f"{who}: the client is disconnected when the sandbox stops")
    with socket.socket() as s:
        tap.ok(s.connect_ex(("127.0.0.1", ports[0])) != 0, f"{who}: the port is closed after the sandbox stopped")
    c("rm", "web")


def words(tap, c):
    for bad in ("80", "a:80", "80:b", "0:0", "1:70000", "1.2.3:0:80", "::1:0:80", "1:2:3:4", ":80", "80:", "-1:80"):
        r = c("run", "-p", bad, "--", "true")
        tap.ok(r.code == 2 and bad in r.err and "expected" in r.err, f"{c.who}: -p {bad} is refused", r)
    r = c("run", "--net", "none", "-p", "0.0.0.0:0:80", "--", "true")
    tap.ok(r.code == 2 and "--public" in r.err, f"{c.who}: an address for everybody is refused without --public", r)
    r = c("run", "--net", "none", "--public", "-p", "0.0.0.0:0:80", "--", "true")
    tap.ok(r.code == 0 and "WARNING" in r.err, f"{c.who}: --public prints a warning", r)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        r = c("run", "--net", "none", "-p", f"{port}:80", "--", "true")
        tap.ok(r.code == 125 and str(port) in r.err, f"{c.who}: a port in use is refused before the command runs", r)
    report = os.path.join(c.tmp, "report.json")
    r = c("run", "--net", "none", "-p", "[::1]:0:80", "--report", report, "--", "true")
    with open(report, encoding="utf-8") as f:
        tap.like(json.load(f)["ports"], r"^\[::1\]:\d+->80$", f"{c.who}: the report has the published port of an IPv6 address", r)
    os.unlink(report)


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        with coffer_as(who) as c:
            life(tap, c, "enforce" if who == "user" else "none")
            if c.engine == "ns":
                words(tap, c)
            c.check_clean(tap)
    tap.done()


main()
