#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A caller that ignores SIGCHLD, or that blocks signals: both survive exec. coffer then still knows how its children ended, and obeys
signals. tests/run itself ignores and blocks none, so each command here is started through a program that does."""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, slow_build  # noqa: E402

tap = Tap()
CALLERS = (("SIGCHLD is ignored", "--ignore-signal=CHLD"), ("all signals are blocked", "--block-signal"))


def program(c, how, *args):
    return ["env", how, c.exe, *args]


def wait_for(what, patience=60.0):
    end = time.monotonic() + patience * slow_build()
    while not (got := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return got


def control(c):
    got = [c(program=["env", how, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).out.split() for _, how in CALLERS]
    tap.ok(int(got[0][3], 16) >> (signal.SIGCHLD - 1) & 1 and int(got[1][1], 16) >> (signal.SIGTERM - 1) & 1,
           f"{c.who}: (control) a program that these callers execute inherits an ignored SIGCHLD and a blocked SIGTERM", got)


def short(c, what, how):
    """One run, whose launcher waits for a child of its own. Leaves out detached runs, secrets, signals and cofferd, whose steps are the same
    for every identity and engine."""
    r = c(program=program(c, how, "run", "-q", "--rm", "--", "sh", "-c", "exit 7"))
    tap.eq(r.code, 7, f"{c.who}: where {what}: coffer run --rm exits with 7 as its command does", r)


def secrets(c, what, how):
    """The output of a command that failed is no value."""
    r = c(program=program(c, how, "secret", "set", "often", "--replace", "--command", "echo a value of some length"))
    tap.eq(r.code, 0, f"{c.who}: where {what}: a secret is set from a command", r)
    r = c(program=program(c, how, "secret", "rotate", "often", "--command", "echo another value of some length; exit 3"))
    tap.ok(r.code != 0 and "exit code 3: nothing was changed" in r.err,
           f"{c.who}: where {what}: a command that printed a value and failed rotates nothing", r)


def runs(c, what, how):
    for code in (0, 7):
        r = c(program=program(c, how, "run", "-q", "--", "sh", "-c", f"exit {code}"))
        tap.eq(r.code, code, f"{c.who}: where {what}: coffer run exits with {code} as its command does", r)
        r = c(program=program(c, how, "run", "-q", "--rm", "--", "sh", "-c", f"exit {code}"))
        tap.eq(r.code, code, f"{c.who}: where {what}: coffer run --rm exits with {code} as its command does", r)
    r = c(program=program(c, how, "run", "-q", "--", "sh", "-c", "(exit 5) & wait $!"))
    tap.eq(r.code, 5, f"{c.who}: where {what}: a command knows how its own children ended", r)
    r = c(program=program(c, how, "run", "-d", "--name", "box", "--", "sleep", "1000"))
    tap.eq(r.code, 0, f"{c.who}: where {what}: coffer run -d starts a sandbox", r)
    r = c(program=program(c, how, "run", "-d", "--name", "box", "--", "sleep", "1000"))
    tap.ok(r.code == 125 and "box" in r.err, f"{c.who}: where {what}: coffer run -d whose start fails exits with 125", r)
    r = c(program=program(c, how, "exec", "box", "--", "sh", "-c", "exit 9"))
    tap.eq(r.code, 9, f"{c.who}: where {what}: coffer exec exits as its command does", r)
    tap.eq(c("rm", "-f", "box").code, 0, f"{c.who}: where {what}: the sandbox is removed")


def end_with_sigterm(p):
    """The first line that it prints, and how it ended."""
    up = p.stdout.readline()
    os.kill(p.pid, signal.SIGTERM)
    try:
        p.communicate(timeout=60 * slow_build())
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
    return up, p.returncode


def terminated(c, what, how):
    up = "echo up; exec sleep 1000"
    got = end_with_sigterm(c.popen(program=program(c, how, "run", "-q", "--", "sh", "-c", up)))
    tap.eq(got, (b"up\n", 128 + signal.SIGTERM), f"{c.who}: where {what}: SIGTERM ends coffer run and its command")
    c("run", "-d", "--name", "box", "--", "sh", "-c", up)
    got = end_with_sigterm(c.popen(program=program(c, how, "logs", "-f", "box")))
    tap.eq(got, (b"up\n", -signal.SIGTERM), f"{c.who}: where {what}: SIGTERM ends a command that does not handle it (logs -f)")
    c("rm", "-f", "box")


def daemon(c, what, how):
    """cofferd waits for its children by SIGCHLD: a due rotation that fails is logged, and the next one starts."""
    count = os.path.join(c.work, "count")
    c.put(count)
    c("secret", "set", "due", "--replace", "--command", f"printf 'a value of some length'; echo x >> {count}; test $(wc -l < {count}) -lt 2", "--every", "1s")
    r = c(program=program(c, how, "gateway", "start"))
    tap.eq(r.code, 0, f"{c.who}: where {what}: cofferd starts", r)
    tap.ok(wait_for(lambda: "coffer secret rotate died 1 time:" in c("gateway", "status").out),
           f"{c.who}: where {what}: cofferd notices a rotation that failed", c("gateway", "status").out)
    p = c.popen(program=program(c, how, "call", "-q", "--", "sh", "-c", "exit 6"))
    p.communicate()
    tap.eq(p.returncode, 6, f"{c.who}: where {what}: coffer call exits as its command does")
    tap.eq(c("gateway", "stop").code, 0, f"{c.who}: where {what}: cofferd stops")
    c("secret", "rm", "due")


def main():
    for who, whole in covering(tap):
        with coffer_as(who) as c:
            control(c)
            for what, how in CALLERS:
                if not whole:
                    short(c, what, how)
                    continue
                runs(c, what, how)
                secrets(c, what, how)
                terminated(c, what, how)
                daemon(c, what, how)
            c.check_clean(tap)
    tap.done()


main()
