#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""kill -9 of cofferd at many moments, while sandboxes are started, fail, are started again and stopped: nothing is lost,
nothing runs twice, and the database is whole."""

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, FULL, Tap, coffer_as, descendants, identities, kill_own, slow_build  # noqa: E402

PATIENCE = 120
KILLS = 60


def until(check, seconds=PATIENCE):
    deadline = time.monotonic() + seconds * slow_build()
    while True:
        got = check()
        if got or time.monotonic() > deadline:
            return got
        time.sleep(0.05)


def status(c):
    r = c("gateway", "status", "--json")
    return json.loads(r.out) if r.code == 0 else {}


def running(marker):
    """How many of our processes have this word as their last argument: each sandbox's command has one of its own."""
    n = 0
    for pid, what in descendants(os.getpid()):
        if what.endswith(" sleep"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
                n += f.read().split(b"\0")[1:2] == [marker.encode()]
    return n


class Killer(threading.Thread):
    """Kills cofferd again and again, as soon as one answers or a moment later, and starts the next one."""

    def __init__(self, c, rng, wanted):
        super().__init__()
        self.c, self.rng, self.wanted, self.kills, self.done = c, rng, wanted, 0, threading.Event()

    def run(self):
        while self.kills < self.wanted and not self.done.is_set():
            self.c("gateway", "start")
            pid = status(self.c).get("pid")
            time.sleep(self.rng.random() * 0.25)
            self.kills += bool(pid) and kill_own(pid)


class Twice(threading.Thread):
    """Looks for commands that run twice at the same time."""

    def __init__(self, markers):
        super().__init__()
        self.markers, self.seen, self.looks, self.done = markers, [], 0, threading.Event()

    def run(self):
        while not self.done.wait(0.1):
            for m in self.markers:
                n = running(m)
                self.looks += n > 0
                if n > 1:
                    self.seen.append((m, n))


def storm(tap, c, seed, kills):
    who = c.who
    rng = random.Random(seed)
    base = 40000 + os.getpid() % 20000
    steady = {f"steady{i}": f"{base + i}.25" for i in range(3)}
    flaky = {f"flaky{i}": f"{base + i}.5" for i in range(2)}
    codes = []
    for name, marker in steady.items():
        codes.append(c("run", "-d", "--net", "none", "--name", name, "--restart", "always", "--", "sleep", marker).code)
    for name, marker in flaky.items():
        script = f"sleep {rng.random() / 4:.2f}; sleep {marker} & sleep 0.1; exit 1"
        codes.append(c("run", "-d", "--net", "none", "--name", name, "--restart", "on-failure", "--", "sh", "-c", script).code)
    tap.eq(codes, [0] * 5, f"{who}: (control) five sandboxes")
    killer, twice = Killer(c, rng, kills), Twice(list(steady.values()) + list(flaky.values()))
    killer.start()
    twice.start()
    stopped, kept, i = [], [], 0
    while killer.is_alive():
        # One more, while there may be no cofferd, or one that dies just now.
        name, i = f"extra{i}", i + 1
        r = c("run", "-d", "--net", "none", "--name", name, "--restart", "always", "--", "sleep", "1000")
        if r.code == 0:
            (kept if rng.random() < 0.3 and len(kept) < 4 else stopped).append(name)
        if name in stopped:
            c("stop", "-t", "0", name)
        with contextlib.suppress(OSError, KeyError, ValueError):
            victim = rng.choice(list(steady))
            run = os.path.join(c.state, "runs", os.readlink(os.path.join(c.state, "names", victim)), "meta.json")
            with open(run, encoding="utf-8") as f:
                kill_own(json.load(f)["launcher"])
    killer.join()
    twice.done.set()
    twice.join()
    tap.ok(killer.kills >= kills, f"{who}: cofferd was killed {killer.kills} times")
    tap.ok(len(stopped) > kills // 20, f"{who}: (control) {len(stopped)} were stopped and {len(kept)} kept meanwhile")
    tap.eq((twice.seen, twice.looks > 0), ([], True), f"{who}: nothing ran twice at the same time")
    return kills, steady, kept, stopped


def settled(tap, c, kills, steady, kept, stopped):
    who = c.who
    tap.eq(c("gateway", "start").code, 0, f"{who}: cofferd starts after the storm")

    def all_up():
        got = {s["name"]: s for s in status(c).get("sandboxes", [])}
        return all(got.get(n, {}).get("watched") for n in [*steady, *kept])
    tap.ok(until(all_up), f"{who}: the last cofferd finds or starts every sandbox that is to run", status(c))
    tap.eq([running(m) for m in steady.values()], [1] * len(steady), f"{who}: each sandbox that is to run, runs once")
    live = {s["name"] for s in json.loads(c("ps", "--json").out)}
    tap.eq([n for n in stopped if n in live], [], f"{who}: no sandbox that was stopped runs again")
    states = {s["name"]: s["state"] for s in status(c)["sandboxes"]}
    tap.eq([n for n in stopped if states.get(n, "over") != "over"], [], f"{who}: no sandbox that was stopped will be started again")
    names = [s["name"] for s in json.loads(c("ps", "-a", "--json").out)]
    tap.eq(len(names), len(set(names)), f"{who}: no name is there twice", names)
    with contextlib.closing(sqlite3.connect(f"file:{c.state}/gateway.db?mode=ro", uri=True)) as db:
        tap.eq(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], f"{who}: the database is whole")
        tap.eq(db.execute("PRAGMA foreign_key_check").fetchall(), [], f"{who}: no row of the database lacks another")
    got = status(c)["database"]
    tap.ok(got["crashes"] >= kills // 3 and "moved_aside" not in got and "trouble" not in got, f"{who}: the database has counted the crashes", got)
    r = c("audit", "verify")
    tap.eq(r.code, 0, f"{who}: the log verifies", r)
    c("stop", "-t", "0", *names)
    c("gateway", "stop")
    c("rm", "-f", *names)


def alive(c, name):
    return any(s["name"] == name for s in json.loads(c("ps", "--json").out))


def end_sandbox(c, name):
    """Kills its launcher, and waits until all of it is over."""
    def over():
        if not alive(c, name):
            return True
        with contextlib.suppress(OSError, KeyError, ValueError):
            run = os.path.join(c.state, "runs", os.readlink(os.path.join(c.state, "names", name)), "meta.json")
            with open(run, encoding="utf-8") as f:
                kill_own(json.load(f)["launcher"])
        return False
    return until(over)


def pretend_reboot(c):
    """So that there is no pause before the start. False when what is there is no whole database."""
    path = os.path.join(c.state, "gateway.db")
    if not os.path.exists(path):
        return True
    with contextlib.closing(sqlite3.connect(path)) as db:
        whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if whole and db.execute("PRAGMA user_version").fetchone()[0]:
            db.execute("UPDATE sandbox SET boot = 'another'")
            db.commit()
    for name in os.listdir(c.state):
        if name.startswith("gateway.db"):
            c.own(os.path.join(c.state, name))
    return whole


def step_by_step(tap, c, stride):
    """Killed before each of its calls that could change a file, from its start to the restart of a sandbox that has ended."""
    who = c.who
    killat = os.path.join(c.bin, "killat")
    shutil.copy(os.path.join(BUILD, "tests", "killat"), killat)
    marker = f"{60000 + os.getpid() % 20000}.75"
    r = c("run", "-d", "--net", "none", "--name", "k", "--restart", "always", "--", "sleep", marker)
    tap.eq(r.code, 0, f"{who}: (control) a sandbox to be started again", r)
    c("gateway", "stop")
    for name in os.listdir(c.state):
        if name.startswith("gateway.db"):  # the first steps are to make it
            os.unlink(os.path.join(c.state, name))
    broken, twice, kills, step, done = [], [], 0, 1, False
    while not done and step < 1000:
        end_sandbox(c, "k")
        if not pretend_reboot(c):
            broken.append(step)
        p = c.popen(program=[killat, str(step), c.exe, "gateway", "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        got = until(lambda p=p: p.poll() is not None or any(s.get("watched") for s in status(c).get("sandboxes", [])))
        if p.poll() is None:
            done = bool(got)
            c("gateway", "stop")
            p.wait(timeout=PATIENCE * slow_build())
        kills += p.returncode == 137
        if running(marker) > 1:
            twice.append(step)
        step += stride
    tap.ok(done and kills > 5, f"{who}: cofferd is killed at {kills} steps, and gets through in the end", step)
    tap.eq((broken, twice), ([], []), f"{who}: the database was whole, and the sandbox there once, each time")
    tap.eq(c("gateway", "start").code, 0, f"{who}: cofferd starts after it was killed at each step")
    tap.ok(until(lambda: any(s["name"] == "k" and s["watched"] for s in status(c).get("sandboxes", []))),
           f"{who}: the cofferd that starts after the kills watches the sandbox", status(c))
    tap.eq(running(marker), 1, f"{who}: the sandbox runs once after the kills")
    r = c("audit", "verify")
    tap.eq(r.code, 0, f"{who}: the log verifies", r)
    c("rm", "-f", "k")
    c("gateway", "stop")


def main():
    tap = Tap()
    for who in identities(tap):
        if who == "userns":
            continue
        # Whole as root. The database is written by the same code for everybody: a user kills less often.
        whole = FULL or who == "root"
        with coffer_as(who) as c:
            settled(tap, c, *storm(tap, c, 7, KILLS if whole else KILLS // 5))
            step_by_step(tap, c, 1 if who == "root" else 7 if whole else 14)
            c.check_clean(tap)
    tap.done()


main()
