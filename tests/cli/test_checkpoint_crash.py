#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1800
"""checkpoint, rollback and fork, each killed with SIGKILL before every single call that changes something: both states are
always there, nothing half-done shows, and the audit log is whole."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, FULL, Tap, coffer_as, identities  # noqa: E402
from treedump import differences, dump  # noqa: E402

tap = Tap()
KILLAT = os.path.join(BUILD, "tests", "killat")
STEPS_MAX = 600
SPARSE = 5  # for a user, whose steps are those of root, each fifth step is enough in a covering set

STATE_1 = "mkdir -p d/e; echo one > d/f; ln d/f d/g; ln -s x l; rm gone; chmod 700 keep; echo same > d/e/same"
STATE_2 = "rm -rf d/f l; echo two > d/f; echo more > n; mkdir l; mkfifo l/p; rm keep"


def killed(c, step, *args, child=False):
    """Runs coffer until it (or its first child) is killed before its given step; False when it came to its end first."""
    # beside coffer, where every identity can reach it
    killat = os.path.join(c.bin, "killat")
    if not os.path.exists(killat):
        shutil.copy(KILLAT, killat)
    r = c(program=[killat, *(["-c"] if child else []), str(step), c.exe, *args], timeout=300)
    return r.code == 137, r


class World:
    """A run with two states, each a checkpoint: c1 and c2; it is at the second."""

    def __init__(self, c, live):
        self.c, self.live, self.problems = c, live, []
        for n in ("gone", "keep"):
            c.write(n, n)
        if live:
            r = c("run", "-d", "--name", "w", "--home", "h", "--", "sleep", "1000")
            self.id = r.out.strip()
            c("exec", "w", "--", "sh", "-c", STATE_1 + "; echo 1 > $HOME/f")
            c("checkpoint", "w")
            self.one = self.look()
            c("exec", "w", "--", "sh", "-c", STATE_2 + "; echo 2 > $HOME/f; echo g > $HOME/g")
        else:
            c("run", "--name", "w", "--home", "h", "--", "sh", "-c", STATE_1 + "; echo 1 > $HOME/f")
            self.id = os.readlink(os.path.join(c.state, "names", "w"))
            c("checkpoint", "w")
            self.one = self.look()
            up = self.upper()
            subprocess.run(["sh", "-c", "cd " + up + " && rm d/f l && echo two > d/f && mkdir l && mkfifo l/p && "
                            "echo more > n && chmod 4711 n"], check=True)
            for base, dirs, files in os.walk(up):
                for n in dirs + files:
                    p = os.path.join(base, n)
                    if os.lstat(p).st_uid != c.uid:
                        os.lchown(p, c.uid, c.uid)
            home = os.path.join(c.state, "homes", "h")
            with open(os.path.join(home, "g"), "w", encoding="ascii") as f:
                f.write("g")
            c.own(os.path.join(home, "g"))
        r = c("checkpoint", "w")
        tap.eq(r.out, "c2\n", f"{c.who}: a second checkpoint is made", r)
        self.two = self.look()
        tap.ok(self.one != self.two, f"{c.who}: the two states differ")

    def upper(self):
        return os.path.join(self.c.state, "runs", self.id, "upper")

    def look(self):
        return {"upper": dump(self.upper()), "home": dump(os.path.join(self.c.state, "homes", "h"))}

    def numbers(self):
        r = self.c("checkpoint", "ls", "w", "--json")
        if r.code != 0:
            return f"ls: {r}"
        return {x["checkpoint"] for x in json.loads(r.out)["checkpoints"]}

    def check(self, step, allowed):
        """After a kill: what must hold. Anything wrong is remembered with the step it happened at."""
        c = self.c

        def wrong(what):
            self.problems.append(f"step {step}: {what}")

        r = c("diff", "w")  # whoever looks next finishes what was begun
        if r.code != 0:
            wrong(f"diff: {r}")
        state = self.look()
        if state not in allowed:
            wrong(f"neither state: {differences(allowed[0]['upper'], state['upper'])} "
                  f"{differences(allowed[0]['home'], state['home'])}")
        n = self.numbers()
        if isinstance(n, str) or not {"c1", "c2"} <= n:
            wrong(f"checkpoints: {n}")
        r = c("audit", "verify")
        if r.code != 0:
            wrong(f"audit: {r}")

    def back_to_two(self, step):
        r = self.c("rollback", "w", "c2")
        if r.code != 0 or self.look() != self.two:
            self.problems.append(f"step {step}: cannot go to c2: {r} {differences(self.two['upper'], self.look()['upper'])}")
        left = [n for n in os.listdir(os.path.join(self.c.state, "runs", self.id)) if "new" in n or n == "rollback"]
        left += [n for n in os.listdir(os.path.join(self.c.state, "homes")) if n.startswith(".")]
        if left:
            self.problems.append(f"step {step}: left behind: {left}")


def each_step(w, name, args, check, stride=1, child=False):
    """Kills at step 1, 2, … until it is not killed any more; at each `stride`th, and more sparsely for a user."""
    if not FULL and w.c.who != "root":
        stride *= SPARSE
    w.problems = []
    step = 0
    for step in range(1, STEPS_MAX, stride):
        hit, r = killed(w.c, step, *args, child=child)
        if not hit:
            if r.code != 0:
                w.problems.append(f"step {step}: not killed, and failed: {r}")
            break
        check(step)
        if len(w.problems) > 5:
            break
    tap.ok(not w.problems and step > 4, f"{w.c.who}: {name}: killed at {step // stride} of {step} steps, both states are there each time",
           *(p[:600] for p in w.problems))


def test(c):
    w = World(c, live=False)

    each_step(w, "checkpoint", ["checkpoint", "w", "-l", "k"], lambda s: w.check(s, [w.two]))

    def after_rollback(step):
        w.check(step, [w.one, w.two])
        w.back_to_two(step)

    each_step(w, "rollback", ["rollback", "w", "c1"], after_rollback)
    w.back_to_two(0)

    def after_fork(step):
        w.check(step, [w.two])
        names = c("ps", "-a")
        # The launcher is a process of its own, which goes on: the fork is there and whole, or it is not there.
        end = time.monotonic() + 90
        while time.monotonic() < end:
            r = c("exec", "f", "--", "sh", "-c", "cat d/f $HOME/f")
            if r.code == 0 or "no run" in r.err or "too short" in r.err:  # there is none of that name
                break
            if "is not running" in r.err:  # it never will, or is about to
                end = min(end, time.monotonic() + 1)
            time.sleep(0.02)
        if r.code == 0 and r.out != "one\n1\n":
            w.problems.append(f"step {step}: half a fork: {r} {names}")
        r = c("rm", "-f", "f")
        if r.code != 0:
            w.problems.append(f"step {step}: rm: {r}")
        subprocess.run(["rm", "-rf", os.path.join(c.state, "homes", "f")], check=False)

    each_step(w, "fork", ["fork", "w", "c1", "--name", "f"], after_fork)
    c("rm", "-f", "f")
    subprocess.run(["rm", "-rf", os.path.join(c.state, "homes", "f")], check=False)
    each_step(w, "fork, the launcher", ["fork", "w", "c1", "--name", "f"], after_fork, child=True)
    c("rm", "-f", "f")
    r = c("checkpoint", "gc")
    tap.eq(r.code, 0, f"{c.who}: checkpoint gc works after all kills", r)
    each_step(w, "gc", ["checkpoint", "gc"], lambda s: w.check(s, [w.two]))
    w.back_to_two(0)
    tap.ok(not w.problems, f"{c.who}: after all kills both states are there", *w.problems)
    tap.eq(c("rm", "-f", "w").code, 0, f"{c.who}: rm -f of the ended sandbox succeeds")


def test_live(c):
    """The same with processes that run: the client is killed, the sandbox lives on or is rolled back, never in between."""
    w = World(c, live=True)

    def after(step):
        w.check(step, [w.one, w.two])
        r = c("exec", "w", "--", "true", timeout=90)
        if r.code not in (0, 125) or (r.code == 125 and not re.search("not running|has ended", r.err)):
            w.problems.append(f"step {step}: it neither runs nor has ended: {r}")
        w.back_to_two(step)
        if r.code == 125 and c("ps", "-q").out.strip() == "":
            restart(step)

    def restart(step):
        """One that ended stays ended: a fork takes its place, so that the next step finds one that lives."""
        c("rm", "-f", "w")
        subprocess.run(["rm", "-rf", os.path.join(c.state, "homes", "h")], check=False)
        fresh = World(c, live=True)
        w.id, w.one, w.two = fresh.id, fresh.one, fresh.two
        del step

    each_step(w, "checkpoint of a live one", ["checkpoint", "w"], lambda s: w.check(s, [w.two]), stride=3)
    each_step(w, "rollback of a live one", ["rollback", "w", "c1"], after, stride=7)
    tap.eq(c("rm", "-f", "w").code, 0, f"{c.who}: rm -f of the live sandbox succeeds")


if os.getuid() != 0:
    tap.skip("killed at each step", "only root can look into every layer")
else:
    for who in identities(tap):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            test(c)
            test_live(c)
            c.check_clean(tap)
tap.done()
