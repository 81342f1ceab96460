#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many who ask the API for the same at once: one does the work for all of them, each has a whole answer of his own, and none is older than
what he knows to be done."""

import json
import os
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as, identities, slow_build  # noqa: E402
from webtest import PATIENCE, child, connection, free_port, send  # noqa: E402

EVENTS = 60000 if slow_build() == 1 else 6000
CLIENTS = 24
TICK = os.sysconf("SC_CLK_TCK")


class Rig:
    def __init__(self, tap, c):
        self.tap, self.c, self.port = tap, c, free_port()
        self.sock = os.path.join(c.state, "api.sock")
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{self.port}").code, 0, "the gateway starts")
        self.daemon = json.loads(c("gateway", "status", "--json").out)["pid"]
        self.auth = [{"Authorization": "Bearer " + c("token", "new", "--role", "observer", "--name", f"t{i}").out.strip()} for i in range(CLIENTS // 3)]
        send(self.sock, "GET", "/v1/status")
        self.web = child(self.daemon, "coffer-web")

    def cpu(self):
        """Seconds of all that cofferd has started and that has ended."""
        with open(f"/proc/{self.daemon}/stat", encoding="utf-8", errors="replace") as f:
            return sum(int(x) for x in f.read().rpartition(")")[2].split()[13:15]) / TICK

    def ask(self, i, path):
        return send(self.port, "GET", path, headers=self.auth[i % len(self.auth)])


def at_once(n, act):
    """act(i) in n threads that begin together; what each gave."""
    got, gate = [None] * n, threading.Barrier(n)

    def run(i):
        gate.wait()
        got[i] = act(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


def test_verify(rig):
    """It reads all of the log, and observers may ask for it: what they can burn has a bound."""
    tap = rig.tap
    before, start = rig.cpu(), time.monotonic()
    want = rig.ask(0, "/v1/audit/verify")
    one, took = rig.cpu() - before, time.monotonic() - start
    tap.ok(want[0] == 200 and json.loads(want[2])["ok"], "verify: control: the log verifies", want)
    before, start = rig.cpu(), time.monotonic()
    got = at_once(CLIENTS, lambda i: rig.ask(i, "/v1/audit/verify"))
    many = rig.cpu() - before
    tap.eq({r[0] for r in got}, {200}, "verify: concurrent requests are all answered")
    tap.eq({json.loads(r[2])["ok"] for r in got}, {True}, "verify: concurrent requests get the right answer")
    tap.note(f"verify: {one:.2f} s of CPU and {took:.2f} s for one, {many:.2f} s and {time.monotonic() - start:.2f} s for {CLIENTS} at once")
    tap.ok(many < CLIENTS * one / 3 + 0.1, "verify: concurrent requests share the work", many, one)
    # Again and again: less than half of a processor, and that of no more than one.
    before, start = rig.cpu(), time.monotonic()
    end = start + max(3.0, 12 * took)
    counts = at_once(CLIENTS, lambda i: sum(rig.ask(i, "/v1/audit/verify")[0] == 200 for _ in iter(lambda: time.monotonic() < end, False)))
    used, wall = rig.cpu() - before, time.monotonic() - start
    tap.note(f"verify: {sum(counts)} answers in {wall:.1f} s, {used / wall * 100:.0f} % of a processor")
    tap.ok(min(counts) >= 1, "verify: each client gets an answer", counts)
    tap.ok(used < 0.45 * wall, "verify: repeated requests use less than half of a processor", used, wall)
    tap.eq(rig.ask(0, "/v1/sandboxes")[0], 200, "verify: other requests are served meanwhile")


def test_whole(rig):
    """Long answers, to many at once, some of whom do not wait for them."""
    tap, path = rig.tap, "/v1/audit?limit=1000&before=5001"
    want = send(rig.sock, "GET", path)

    def act(i):
        if i % 4:
            return rig.ask(i, path)
        conn = connection(rig.port)
        conn.request("GET", path, headers=rig.auth[i % len(rig.auth)])
        conn.close()
        return None

    for _ in range(5):
        got = [r for r in at_once(3 * CLIENTS, act) if r]
        bad = [(r[0], len(r[2])) for r in got if r[0] != 200 or r[2] != want[2]]
        if bad:
            break
    tap.ok(want[0] == 200 and len(json.loads(want[2])["items"]) == 1000 and not bad, "whole: each client gets the whole response", bad[:5], len(want[2]))
    before = rig.cpu()
    got = at_once(2 * CLIENTS, lambda i: rig.ask(i, "/v1/egress?limit=10&host=nowhere.test"))
    many, before = rig.cpu() - before, rig.cpu()
    rig.ask(0, "/v1/egress?limit=10&host=nowhere.test")
    one = rig.cpu() - before
    tap.note(f"whole: a search of the log: {one:.2f} s of CPU for one, {many:.2f} s for {2 * CLIENTS} at once")
    tap.ok({r[0] for r in got} == {200} and many < CLIENTS * one / 2 + 0.1, "whole: concurrent searches share the work", many, one)
    tap.eq(send(rig.sock, "GET", "/v1/audit?limit=1&before=3")[0], 200, "whole: another query is answered")


def test_own_writes(rig, c):
    """A client that was told that an act is done sees it done, however many ask meanwhile."""
    tap, stop, asked = rig.tap, threading.Event(), []

    def hammer(i):
        conn = connection(rig.port)
        n = 0
        while not stop.is_set():
            conn.request("GET", "/v1/sandboxes?all=true", headers=rig.auth[i % len(rig.auth)])
            r = conn.getresponse()
            r.read()
            n += r.status == 200
        conn.close()
        asked.append(n)

    def listed(how):
        got = send(rig.sock, "GET", "/v1/sandboxes?all=true") if how else rig.ask(0, "/v1/sandboxes?all=true")
        return {x["name"]: x["status"] for x in json.loads(got[2])["items"]} if got[0] == 200 else got

    threads = [threading.Thread(target=hammer, args=(i + 1,)) for i in range(len(rig.auth) - 1)]
    for t in threads:
        t.start()
    bad = []
    for i in range(6):
        name, how = f"box{i}", i % 2
        c("run", "-d", "--name", name, "--", "sleep", "600")
        seen = [listed(how).get(name)]
        send(rig.sock, "POST", f"/v1/sandboxes/{name}/stop", {"grace_s": 0})
        seen.append(listed(how).get(name))
        send(rig.sock, "DELETE", f"/v1/sandboxes/{name}")
        seen.append(listed(how).get(name))
        if seen != ["running", "ended", None]:
            bad.append(seen)
    stop.set()
    for t in threads:
        t.join()
    tap.note(f"own writes: {sum(asked)} others were answered meanwhile")
    tap.eq(bad, [], "own writes: a started, stopped or removed sandbox is listed so at once")
    tap.ok(min(asked) > 0, "own writes: control: other clients were served meanwhile", asked)


def main(tap, who):
    with coffer_as(who) as c:
        rig = Rig(tap, c)
        program = shutil.copy(os.path.join(BUILD, "bench", "audit_load"), c.bin)  # where this identity may read it
        tap.eq(c(program=[program, c.state, "1", str(EVENTS)], timeout=PATIENCE * 4).code, 0, "control: a long log is written")
        test_verify(rig)
        test_whole(rig)
        test_own_writes(rig, c)
        tap.eq(child(rig.daemon, "coffer-web"), rig.web, "coffer-web was not restarted")
        tap.eq(c("audit", "verify").code, 0, "the log verifies")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
found = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
main(tap, found[-1])
tap.done()
