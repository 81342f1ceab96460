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
    tap.ok("/dev/pts/0" in t.text, f"{c.who}: the command's terminal is the sandbox's own", t.text)
    tap.ok("24 80" in t.text, f"{c.who}: the command's terminal has the outer size", t.text)
    tap.eq(t.wait(), 0, f"{c.who}: a command with a terminal exits with 0")
    tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is restored after the run")
    t.close()


def resize(tap, c):
    t = Terminal(c, "run", "--", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo READY; while :; do sleep 0.1; done")
    tap.ok(t.read("READY"), f"{c.who}: control: the command waits for a resize", t.text)
    t.resize(50, 132)
    tap.ok(t.read("50 132"), f"{c.who}: a resize reaches the command", t.text)
    t.wait()
    t.close()


def interrupt(tap, c):
    t = Terminal(c, "run", "--", "sh", "-c", "trap 'echo GOT-INT; exit 42' INT; echo READY; while :; do sleep 0.1; done")
    t.read("READY")
    t.type("\x03")
    tap.ok(t.read("GOT-INT"), f"{c.who}: Ctrl-C reaches the command as a signal", t.text)
    tap.eq(t.wait(), 42, f"{c.who}: the exit status after Ctrl-C is the command's")
    tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is restored after Ctrl-C")
    t.close()


def shell(tap, c):
    t = Terminal(c, "run", "--", "bash", "--norc", "-i")
    t.type("sh -c 'echo BE''GUN; exec sleep 100'\n")
    t.read("BEGUN", 20)
    # One that comes while the job becomes another program may be lost in gVisor; a person presses again.
    stopped = any(t.type("\x1a") or t.read("Stopped", 10) for _ in range(4))
    tap.ok(stopped, f"{c.who}: Ctrl-Z stops a job of a shell", t.text)
    t.type("kill -9 %1; wait; echo A$((40+2))B\n")
    tap.ok(t.read("A42B"), f"{c.who}: a shell continues after a stopped job", t.text)
    t.type("exit 3\n")
    if t.wait(5) is None:  # "There are stopped jobs": the second time it is meant
        t.type("exit 3\n")
    tap.eq(t.wait(), 3, f"{c.who}: a shell exits with its own status")
    t.close()


def suspended(tap, c):
    """No shell above the command could continue it, so Ctrl-Z must not stop it for good; a shell inside stops and continues its jobs."""
    for what, line in (("a command", "echo BE''GUN; exec sleep 100"), ("a command with a child", "echo BE''GUN; sleep 100; exit 3")):
        t = Terminal(c, "run", "--", "sh", "-c", line)
        tap.ok(t.read("BEGUN"), f"{c.who}: control: {what} waits for Ctrl-Z", t.text)
        time.sleep(1)
        t.type("\x1a")
        time.sleep(1)
        t.type("\x03")
        tap.eq(t.wait(20), 130, f"{c.who}: Ctrl-C ends {what} after Ctrl-Z")
        tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is restored after Ctrl-Z and Ctrl-C to {what}")
        t.close()
    t = Terminal(c, "run", "--", "sh", "-i")
    t.type("sh -c 'echo BE''GUN; read line; echo GOT-$line'\n")
    t.read("BEGUN", 20)
    stopped = any(t.type("\x1a") or t.read("Stopped", 10) for _ in range(4))
    tap.ok(stopped, f"{c.who}: Ctrl-Z stops a job of sh -i", t.text)
    t.type("\n")  # gVisor leaves the Ctrl-Z itself in the line
    t.type("fg\n")
    time.sleep(1)
    t.type("more\n")
    tap.ok(t.read("GOT-more"), f"{c.who}: fg continues the stopped job of sh -i", t.text)
    t.type("exit 4\n")
    tap.eq(t.wait(20), 4, f"{c.who}: sh -i exits with its own status after fg")
    t.close()


def killed(tap, c):
    for sig in (signal.SIGTERM, signal.SIGKILL):
        t = Terminal(c, "run", "--", "sh", "-c", "echo READY; sleep 100")
        t.read("READY")
        tap.ok(not t.same_as_before(), f"{c.who}: control: the outer terminal is raw during the run")
        os.kill(t.p.pid, sig)
        t.wait()
        deadline = time.monotonic() + 90 * slow_build()
        while not t.same_as_before() and time.monotonic() < deadline:
            time.sleep(0.05)
        tap.ok(t.same_as_before(), f"{c.who}: the outer terminal is restored after {sig.name} to coffer")
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
        tap.ok(t.read("MIDDLE"), f"{c.who}: control: a program with a {how} terminal has tried to reach a name", t.text)
        if how == "plain":
            tap.ok(t.read("denied  other.test"), f"{c.who}: a denial is printed at once on a terminal in line mode", t.text)
        tap.ok(wait_for(lambda: is_logged(c, "other.test"), 60), f"{c.who}: the denials of a {how} terminal are in the log")
        t.type("x\n")
        tap.ok(t.read("DONE"), f"{c.who}: the program with a {how} terminal continues", t.text)
        tap.eq(t.wait(), 0, f"{c.who}: the program with a {how} terminal exits with 0")
        t.read("\0never\0", 30)
        before, _, after = t.text.partition("DONE")
        if how == "plain":
            tap.ok("denied  denied.test" in before, f"{c.who}: denials are printed before the end on a plain terminal", t.text)
        else:
            tap.ok("denied" not in before, f"{c.who}: denials are not printed on a terminal in {how} mode", t.text)
            tap.like(after, r"denied  denied\.test .*(\n.*)*denied  other\.test ", f"{c.who}: {how} mode: all denials are printed at the end", t.text)
            tap.eq(after.count("denied  other.test"), 1, f"{c.who}: {how} mode: each denied name is printed once", t.text)
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
        tap.ok(t.read("BEGIN"), f"{c.who}: control: a command that hides output {how} has begun", t.text)
        tap.ok(wait_for(lambda: is_logged(c, "hidden.test"), 60), f"{c.who}: the denial of a command that hides output {how} is in the log")
        if how == "midway":
            tap.ok(t.read("denied  hidden.test"), f"{c.who}: the denial of a command that hides output {how} is printed", t.text)
        t.type("x\n")
        t.wait()
        t.read("\0never\0", 30)
        before, _, after = t.text.partition("denied  hidden.test")
        tap.ok(after and wanted in before and "\x1b\\" in before, f"{c.who}: the line of a denial begins with a terminal reset ({how})", repr(t.text))
        t.close()
        c("rm", "hides")


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            for part in (private, resize, interrupt, shell, suspended, killed, injected, notices, hiding):
                part(tap, c)
            c.check_clean(tap)
    tap.done()


main()
