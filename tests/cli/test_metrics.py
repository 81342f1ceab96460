#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""cofferd's metrics.sock: counters of every running sandbox for Prometheus, and askers that mean no good."""

import os
import re
import socket
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import TEST_UID, Tap, coffer_as, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

GOOD, EVIL = "good.example.test", "evil.example.test"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? ([0-9.e+-]+)$')


class Scraper:
    """A client that asks, as the identity itself."""

    def __init__(self, c):
        self.c, self.path = c, os.path.join(c.state, "metrics.sock")

    def connect(self, uid=None):
        # Only its own user may ask; a test that is root becomes that user for the moment of connect().
        s = socket.socket(socket.AF_UNIX)
        os.seteuid(self.c.uid if uid is None else uid)
        try:
            s.connect(self.path)
        finally:
            os.seteuid(0)
        s.settimeout(60)
        return s

    def listens(self):
        try:
            self.connect().close()
            return True
        except ConnectionRefusedError:
            return False

    def ask(self, raw, end=True, uid=None):
        with self.connect(uid) as s:
            s.sendall(raw)
            if end:
                s.shutdown(socket.SHUT_WR)
            out = b""
            while piece := s.recv(65536):
                out += piece
            return out

    def text(self):
        head, _, body = self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", end=False).partition(b"\r\n\r\n")
        return body.decode() if head.startswith(b"HTTP/1.1 200") else ""

    def samples(self):
        """{(name, labels): value}"""
        found = {}
        for line in self.text().splitlines():
            m = SAMPLE.match(line)
            if m:
                found[m[1], m[2] or ""] = float(m[3])
        return found

    def value(self, name, *labels):
        for (n, have), v in self.samples().items():
            if n == name and all(x in have for x in labels):
                return v
        return None


def start_cofferd(tap, c):
    r = c("call", "--engine", "ns", "--", "true")
    tap.eq(r.code, 0, f"{c.who}: coffer call starts cofferd", r)
    path = os.path.join(c.state, "metrics.sock")
    tap.ok(wait_for(lambda: os.path.exists(path)), f"{c.who}: cofferd makes metrics.sock")
    mode = os.stat(path).st_mode
    tap.ok(stat.S_ISSOCK(mode) and mode & 0o077 == 0, f"{c.who}: metrics.sock is accessible to its owner alone", oct(mode))
    scraper = Scraper(c)
    # Its name is there a moment before it listens.
    tap.ok(wait_for(scraper.listens), f"{c.who}: cofferd listens on metrics.sock")
    return scraper


def counters(tap, c, net, web):
    who = c.who
    r = c("run", "-d", "--name", "box", "--allow", GOOD, "-v", f"{net.ca}:/ca.pem", "--", "sleep", "1000")
    tap.eq(r.code, 0, f"{who}: a sandbox starts in the background", r)
    run_id = r.out.strip()
    scraper = start_cofferd(tap, c)
    me = (f'sandbox="{run_id}"', 'name="box"')
    tap.eq(scraper.value("coffer_sandboxes"), 1.0, f"{who}: a running sandbox is counted", scraper.text())
    tap.eq(scraper.value("coffer_egress_up", *me), 0.0, f"{who}: coffer_egress_up is 0 before the first packet", scraper.text())
    tap.ok(scraper.value("coffer_sandbox_start_time_seconds", f'engine="{c.engine}"', *me), f"{who}: a sandbox's metrics have its engine")
    r = c("exec", "box", "--", "sh", "-c", f"curl -sS -m 60 --cacert /ca.pem {web.url}; curl -sS -m 60 https://{EVIL}/")
    tap.ok("hello" in r.out and "resolve" in r.err, f"{who}: a sandbox reaches an allowed host and no other", r)
    tap.ok(wait_for(lambda: (scraper.value("coffer_egress_connections_total", 'result="allowed"', *me) or 0) >= 1),
           f"{who}: an allowed connection is counted", scraper.text())
    # It is asked for its numbers every two seconds, and may have been in the middle of that.
    tap.ok(wait_for(lambda: (scraper.value("coffer_egress_lookups_total", 'result="denied"', *me) or 0) >= 1.0 and
                    (scraper.value("coffer_egress_bytes_total", 'direction="up"', *me) or 0) > 0 and
                    scraper.value("coffer_egress_up", *me) == 1.0), f"{who}: denied lookups and bytes are counted", scraper.text())
    before = scraper.value("coffer_audit_events_total")
    c("exec", "box", "--", "true")
    tap.ok(before > 0 and wait_for(lambda: scraper.value("coffer_audit_events_total") > before), f"{who}: the number of audit events grows")
    bad = [line for line in scraper.text().splitlines() if not line.startswith("# ") and not SAMPLE.match(line)]
    tap.eq(bad, [], f"{who}: every line is a sample or a comment")
    c("stop", "--time", "1", "box")
    tap.ok(wait_for(lambda: scraper.value("coffer_sandboxes") == 0.0), f"{who}: an ended sandbox is not counted", scraper.text())
    c("rm", "box")


def short(tap, c):
    """A sandbox is counted with its engine. Its network's numbers come from coffer-egress, which is the same for everybody."""
    r = c("run", "-d", "--name", "box", "--net", "none", "--", "sleep", "1000")
    tap.eq(r.code, 0, f"{c.who}: a sandbox starts in the background", r)
    scraper = start_cofferd(tap, c)
    tap.ok(scraper.value("coffer_sandboxes") == 1.0 and
           scraper.value("coffer_sandbox_start_time_seconds", f'engine="{c.engine}"', f'sandbox="{r.out.strip()}"', 'name="box"'),
           f"{c.who}: a sandbox is counted, with its engine", scraper.text())
    c("rm", "-f", "box")


def pool(tap, c):
    scraper = Scraper(c)
    tap.ok(wait_for(lambda: (scraper.value("coffer_pool_ready") or 0) >= 1), f"{c.who}: ready sandboxes of the warm pool are counted",
           scraper.text())


def askers(tap, c):
    """Only one question is answered, and none does harm."""
    who, scraper = c.who, Scraper(c)
    for raw, wanted in ((b"GET /metrics HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 "), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 404 "),
                        (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 405 "),
                        (b"GET /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "), (b"\x16\x03\x01\x00\xff\r\n\r\n", b"HTTP/1.1 400 "),
                        (b"GET /" + b"a" * 9000, b"HTTP/1.1 4"), (b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"")):
        got = scraper.ask(raw)
        tap.ok(got.startswith(wanted) and (wanted or not got), f"{who}: {raw[:40]!r} gets {wanted.decode() or 'nothing'}", got[:200])
    got = scraper.ask(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    tap.ok(got.startswith(b"HTTP/1.1 200 ") and got.endswith(b"\r\n\r\n"), f"{who}: HEAD gets no body", got[-80:])
    some = [scraper.connect() for _ in range(40)]
    for s in some:
        s.close()
    tap.ok(wait_for(lambda: scraper.value("coffer_sandboxes") is not None), f"{who}: forty connections that send nothing do not stop the server")
    half = scraper.connect()
    half.sendall(b"GET /met")
    tap.ok(scraper.value("coffer_sandboxes") is not None, f"{who}: a slow client does not delay others")
    tap.eq(half.recv(1), b"", f"{who}: a slow client is disconnected")
    half.close()


def curl(tap, c):
    r = subprocess.run(["curl", "-sS", "-m", "60", "--unix-socket", os.path.join(c.state, "metrics.sock"), "http://x/metrics"],
                       capture_output=True, text=True, check=False, user=c.uid, group=c.gid, extra_groups=[])
    tap.ok(r.returncode == 0 and "\ncoffer_sandboxes 0\n" in r.stdout, f"{c.who}: curl --unix-socket reads the metrics", r)


def others(tap, c):
    """Another user gets nothing, even where the directory lets him in."""
    if c.uid == 0 or os.getuid() != 0:
        return
    for d in (c.dir, c.state):
        os.chmod(d, 0o755)
    os.chmod(os.path.join(c.state, "metrics.sock"), 0o666)
    ask = b"GET /metrics HTTP/1.0\r\n\r\n"
    for uid, wanted in ((TEST_UID + 1, False), (c.uid, True)):
        try:
            got = Scraper(c).ask(ask, uid=uid)
        except OSError:
            got = b""
        tap.eq(got.startswith(b"HTTP/1.1 200 "), wanted, f"{c.who}: uid {uid} {'gets the metrics' if wanted else 'gets no metrics'}", got[:100])


def main():
    tap = Tap()
    reason = why_not()  # all that it names is needed here too
    if reason:
        tap.skip("the gateway's metrics", reason)
        tap.done()
        return
    with Internet() as net:
        web = net.https(GOOD, lambda q: "hello\n")
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                if whole:
                    counters(tap, c, net, web)
                else:
                    short(tap, c)
                c("pool", "stop")
                c.check_clean(tap)
    for who, whole in covering(tap, ("ns",)):
        with coffer_as(who) as c:
            start_cofferd(tap, c)
            if whole:  # what cofferd reads from its socket, it reads alike for everybody
                pool(tap, c)
                askers(tap, c)
                curl(tap, c)
            others(tap, c)
            tap.eq(c("pool", "stop").code, 0, f"{who}: coffer pool stop ends cofferd")
            tap.ok(wait_for(lambda: not os.path.exists(os.path.join(c.state, "metrics.sock"))), f"{who}: metrics.sock is removed when cofferd ends")
            c.check_clean(tap)
    tap.done()


main()
