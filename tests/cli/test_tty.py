#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a terminal: a private pty inside, resizes, Ctrl-C, job control, and the outer terminal as it was afterwards."""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities, slow_build  # noqa: E402
from nettest import wait_for  # noqa: E402
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


DRAWS = """
import select, socket, sys, termios, tty
how = sys.argv[1]
sys.stdout.write('\\x1b[?1049h' if how == 'alternate' else '')
print('BEG' + 'IN', flush=True)
if how == 'raw':
    tty.setraw(0, termios.TCSANOW)
for name in ('denied.test', 'denied.test', 'other.test', 'denied.test'):
    try: socket.getaddrinfo(name, 443)
    except OSError: pass
print('MID' + 'DLE', flush=True)
sys.stdin.read(1)
sys.stdout.write('\\x1b[?1049l' if how == 'alternate' else '')
print('DO' + 'NE', flush=True)
"""


def is_logged(c, name):
    return any(json.loads(x).get("name") == name for x in c("net", "log", "--denied", "--json", "@last").out.splitlines())


def notices(tap, c):
    """A line about a denial is written at once, but never over a screen that the command draws itself."""
    for how in ("plain", "raw", "alternate"):
        t = Terminal(c, "run", "--name", f"draws-{how}", "--allow", "example.com", "--", "python3", "-c", DRAWS, how)
        tap.ok(t.read("MIDDLE"), f"{c.who}: a program with a {how} terminal has tried to reach a name", t.text)
        if how == "plain":
            tap.ok(t.read("denied  other.test"), f"{c.who}: a denial is told at once on a terminal that is read by lines", t.text)
        tap.ok(wait_for(lambda: is_logged(c, "other.test"), 60), f"{c.who}: the denials of a {how} terminal are in the log")
        t.type("x\n")
        tap.ok(t.read("DONE"), f"{c.who}: the program with a {how} terminal goes on", t.text)
        tap.eq(t.wait(), 0, f"{c.who}: the program with a {how} terminal ends well")
        t.read("\0never\0", 30)
        before, _, after = t.text.partition("DONE")
        if how == "plain":
            tap.ok("denied  denied.test" in before, f"{c.who}: a plain terminal has had its lines before the end", t.text)
        else:
            tap.ok("denied" not in before, f"{c.who}: nothing is written over a terminal in {how} mode", t.text)
            tap.like(after, r"denied  denied\.test .*(\n.*)*denied  other\.test ", f"{c.who}: {how} mode: all is told at the end", t.text)
            tap.eq(after.count("denied  other.test"), 1, f"{c.who}: {how} mode: each name is told once", t.text)
        t.close()
        c("rm", f"draws-{how}")


HIDES = """
import socket, sys, time
def deny(name):
    try: socket.getaddrinfo(name, 443)
    except OSError: pass
print('BEG' + 'IN', flush=True)
sys.stdout.write('\\x1b[8m\\x1b(0\\x0e\\x1b[4h\\x1bP' if sys.argv[1] == 'midway' else '\\x1b[?1049h\\x1b]0;')
sys.stdout.flush()
deny('hidden.test')
sys.stdin.read(1)
"""


def hiding(tap, c):
    """A command that conceals what is written next, or leaves a sequence open, or the alternate screen, hides no line."""
    for how, wanted in (("midway", "\x18\x1b\\\x1b[0m\x1b(B\x0f\x1b[4l"), ("at its end", "\x1b[?1049l")):
        t = Terminal(c, "run", "--name", "hides", "--allow", "example.com", "--", "python3", "-c", HIDES, how)
        tap.ok(t.read("BEGIN"), f"{c.who}: a command that hides what is written {how} has begun", t.text)
        tap.ok(wait_for(lambda: is_logged(c, "hidden.test"), 60), f"{c.who}: its denial {how} is in the log")
        if how == "midway":
            tap.ok(t.read("denied  hidden.test"), f"{c.who}: and is told {how}", t.text)
        t.type("x\n")
        t.wait()
        t.read("\0never\0", 30)
        before, _, after = t.text.partition("denied  hidden.test")
        tap.ok(after and wanted in before and "\x1b\\" in before, f"{c.who}: the line about it begins with a reset ({how})", repr(t.text))
        t.close()
        c("rm", "hides")


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            for part in (private, resize, interrupt, shell, killed, injected, notices, hiding):
                part(tap, c)
            c.check_clean(tap)
    tap.done()


main()
