#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: alone
"""On a terminal: a private pty inside, resizes, Ctrl-C, job control, and the outer terminal as it was afterwards."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities, slow_build  # noqa: E402
from terminal import Terminal  # noqa: E402


def private(tap, c):
    t = Terminal(c, "run", "--", "sh", "-c", "tty; stty size; test -t 0 && test -t 1 && echo TTY-OK; ps -o tty= $$")
    tap.ok(t.read("TTY-OK"), f"{c.who}: the command has a terminal", t.text)
    tap.ok("/dev/pts/0" in t.text, f"{c.who}: one of the sandbox's own", t.text)
    tap.ok("24 80" in t.text, f"{c.who}: of the outer size", t.text)
    tap.eq(t.wait(), 0, f"{c.who}: and it ends")
    tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is as it was")
    t.close()


def resize(tap, c):
    t = Terminal(c, "run", "--", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo READY; while :; do sleep 0.1; done")
    tap.ok(t.read("READY"), f"{c.who}: ready", t.text)
    t.resize(50, 132)
    tap.ok(t.read("50 132"), f"{c.who}: a resize arrives", t.text)
    t.wait()
    t.close()


def interrupt(tap, c):
    t = Terminal(c, "run", "--", "sh", "-c", "trap 'echo GOT-INT; exit 42' INT; echo READY; while :; do sleep 0.1; done")
    t.read("READY")
    t.type("\x03")
    tap.ok(t.read("GOT-INT"), f"{c.who}: Ctrl-C reaches the command as a signal", t.text)
    tap.eq(t.wait(), 42, f"{c.who}: and its exit status comes out")
    tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is as it was")
    t.close()


def shell(tap, c):
    t = Terminal(c, "run", "--", "bash", "--norc", "-i")
    t.type("sh -c 'echo BE''GUN; exec sleep 100'\n")
    t.read("BEGUN", 20)
    # One that comes while the job becomes another program may be lost in gVisor; a person presses again.
    stopped = any(t.type("\x1a") or t.read("Stopped", 10) for _ in range(4))
    tap.ok(stopped, f"{c.who}: job control works: Ctrl-Z stops a job", t.text)
    t.type("kill -9 %1; wait; echo A$((40+2))B\n")
    tap.ok(t.read("A42B"), f"{c.who}: the shell goes on", t.text)
    t.type("exit 3\n")
    if t.wait(5) is None:  # "There are stopped jobs": the second time it is meant
        t.type("exit 3\n")
    tap.eq(t.wait(), 3, f"{c.who}: and ends")
    t.close()


def killed(tap, c):
    for sig in (signal.SIGTERM, signal.SIGKILL):
        t = Terminal(c, "run", "--", "sh", "-c", "echo READY; sleep 100")
        t.read("READY")
        tap.ok(not t.same_as_before(), f"{c.who}: while it runs the terminal is raw (control)")
        os.kill(t.p.pid, sig)
        t.wait()
        deadline = time.monotonic() + 90 * slow_build()
        while not t.same_as_before() and time.monotonic() < deadline:
            time.sleep(0.05)
        tap.ok(t.same_as_before(), f"{c.who}: {sig.name} to coffer, and the terminal is as it was")
        t.close()


def injected(tap, c):
    """TIOCSTI from inside must not type into the outer terminal."""
    code = ("import fcntl,termios,sys\n"
            "for ch in 'echo OWNED\\n':\n"
            "  try: fcntl.ioctl(0, termios.TIOCSTI, ch)\n"
            "  except OSError as e: print('refused', e.errno); break\n"
            "else: print('typed')\n")
    t = Terminal(c, "run", "--", "python3", "-c", code)
    tap.ok(t.read("refused"), f"{c.who}: TIOCSTI is refused", t.text)
    t.wait()
    t.close()


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            for part in (private, resize, interrupt, shell, killed, injected):
                part(tap, c)
            c.check_clean(tap)
    tap.done()


main()
