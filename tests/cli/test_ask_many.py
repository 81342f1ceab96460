#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer ask with ten thousand questions in two hundred sandboxes: listed in bounded time and memory, also when some do not answer."""

import json
import os
import resource
import selectors
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from askwire import ASK, DONE, pack  # noqa: E402
from coffertest import Coffer, Tap, slow_build  # noqa: E402

RUNS, EACH = 200, 64


def question(run, n):
    return {"id": f"{run[:6]}-{n}", "sandbox": run, "number": n, "state": "pending", "kind": "request", "host": "api.example.test",
            "port": 443, "tls": True, "method": "POST", "path": f"/{n}/" + "a" * 900, "rule": "ask x", "preview": "\x1b[31m" + "b" * 2000,
            "digest": "0" * 64, "asked": "2026-01-02T03:04:05.000000Z", "waiters": 1, "times": 1, "used": 0}


class Guards:
    """Sockets as guards would serve them, for as many runs: each answers LIST and FOLLOW, or says nothing at all."""

    def __init__(self, c, silent):
        self.runs = [f"{i:06x}{i:06x}" for i in range(1, RUNS + 1)]
        self.silent = set(self.runs[:silent])
        self.sel, self.stop, here = selectors.DefaultSelector(), os.pipe(), os.getcwd()
        for run in self.runs:
            d = os.path.join(c.state, "runs", run)
            os.mkdir(d, 0o700)
            os.chdir(d)
            s = socket.socket(socket.AF_UNIX)
            s.bind("asks.sock")
            s.listen(8)
            self.sel.register(s, selectors.EVENT_READ, (self.accept, run))
        os.chdir(here)
        self.sel.register(self.stop[0], selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def accept(self, s, run):
        conn, _ = s.accept()
        self.sel.register(conn, selectors.EVENT_READ, (self.answer, run))

    def answer(self, conn, run):
        try:
            data = conn.recv(65536)
            if data and run not in self.silent:
                out = b""
                for n in range(1, EACH + 1):
                    out += pack(ASK, question(run, n))
                # Each waits for its reader, as a guard's loop does not: a thread for what does not fit.
                threading.Thread(target=send, args=(conn, out + pack(DONE, {})), daemon=True).start()
        except OSError:
            data = b""
        if not data:
            self.sel.unregister(conn)

    def loop(self):
        while True:
            for key, _ in self.sel.select():
                if key.data is None:
                    return
                key.data[0](key.fileobj, key.data[1])

    def close(self):
        os.write(self.stop[1], b"x")
        self.thread.join()
        for key in list(self.sel.get_map().values()):
            if key.data is not None:
                key.fileobj.close()


def send(conn, data):
    try:
        conn.sendall(data)
    except OSError:
        pass


def main():
    tap = Tap()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    with Coffer("root" if os.getuid() == 0 else "user") as c:
        c("ps")
        guards = Guards(c, 0)
        try:
            r = c("ask", "ls", "--json", timeout=300)
            lines = r.out.splitlines()
            tap.ok(r.code == 0 and len(lines) == RUNS * EACH and len({json.loads(x)["id"] for x in lines}) == RUNS * EACH,
                   f"{RUNS * EACH} questions are listed as JSON", r.code, len(lines), r.err[-300:])
            tap.ok(r.seconds < 120 * slow_build(), f"{RUNS * EACH} questions are listed as JSON in bounded time ({r.seconds:.1f} s)")
            r = c("ask", "ls", timeout=300)
            tap.ok(r.code == 0 and len(r.out.splitlines()) == RUNS * EACH + 1 and "\x1b" not in r.out,
                   f"{RUNS * EACH} questions are listed as a table", r.code, r.err[-300:])
            tap.ok(r.seconds < 120 * slow_build(), f"{RUNS * EACH} questions are listed as a table in bounded time ({r.seconds:.1f} s)")
            if slow_build() == 1:
                for how in ((), ("--json",)):
                    r = c(program=["prlimit", f"--as={96 << 20}", c.exe, "ask", "ls", *how], timeout=300)
                    tap.ok(r.code == 0 and len(r.out.splitlines()) >= RUNS * EACH,
                           f"ask ls {' '.join(how)} of {RUNS * EACH} questions fits into 96 MiB", r.code, r.err[-300:])
            one = guards.runs[77][:6] + "-9"
            r = c("ask", "show", one, timeout=300)
            tap.ok(r.code == 0 and one in r.out and "/9/aaa" in r.out and "\x1b" not in r.out, "ask show shows one of many questions", r)
            r = c("approve", "9", timeout=300)
            tap.ok(r.code == 125 and "whole id" in r.err and len(r.err) < 1000,
                   "approve refuses a number that two hundred questions have", r)
            guards.silent = set(guards.runs[:3])
            r = c("ask", "ls", "--json", timeout=300)
            tap.ok(r.code == 0 and len(r.out.splitlines()) == (RUNS - 3) * EACH,
                   "three sandboxes that do not respond hide no questions of others", r.code)
            tap.ok("3 sandboxes did not respond" in r.err and guards.runs[0] in r.err, "three sandboxes that do not respond are named", r.err)
            tap.ok(r.seconds < 150 * slow_build(),
                   f"three sandboxes that do not respond delay ask ls by a bounded time ({r.seconds:.1f} s)")
        finally:
            guards.close()
    tap.done()


main()
