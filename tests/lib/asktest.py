# SPDX-License-Identifier: Apache-2.0
"""A sandbox whose requests wait for a person, for tests of what such a person does."""

import fcntl
import json
import os
import pty
import select
import struct
import termios
import time

from coffertest import remember
from nettest import wait_for


def curl(*args):
    return ["curl", "-sS", "-m", "120", "-w", " %{http_code}", *args]


def end(p, timeout=300):
    out, err = p.communicate(timeout=timeout)
    return remember(out.decode(errors="replace") + err.decode(errors="replace"))


class Asker:
    """Stays; each request of its is a `coffer exec`."""

    def __init__(self, tap, c, policy, *more, name="policy.yaml"):
        self.tap, self.c, self.more = tap, c, more
        self.policy = os.path.join(c.home, name)
        if policy is not None:
            self.set_policy(policy)

    def set_policy(self, text, mode=0o644):
        new = self.policy + ".new"
        with open(new, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(new, mode)
        self.c.own(new)
        os.rename(new, self.policy)

    def change_policy(self, text, mode=0o644):
        """And waits until the guard has it."""
        if self.text() == text:
            os.chmod(self.policy, mode)
            return
        n = len(self.log("policy.change"))
        self.set_policy(text, mode)
        wait_for(lambda: len(self.log("policy.change")) > n, 90)

    def text(self):
        with open(self.policy, "rb") as f:
            return f.read().decode()

    def __enter__(self):
        r = self.c("run", "-d", "--engine", self.c.engine, *self.more, "--", "sleep", "3600")
        self.id = r.out.strip()
        self.tap.ok(r.code == 0 and self.id, f"{self.c.who}: the sandbox starts", r)
        return self

    def __exit__(self, *exc):
        self.c("stop", "-t", "1", self.id)

    def start(self, argv):
        return self.c.popen("exec", self.id, "--", *argv)

    def asks(self, *more):
        return [a for a in map(json.loads, self.c("ask", "ls", "--json", *more).out.splitlines()) if a["sandbox"] == self.id]

    def pending_now(self):
        return [a for a in self.asks() if a["state"] == "pending"]

    def pending(self, n=1):
        """Waits until so many wait."""
        got = []

        def enough():
            got[:] = self.pending_now()
            return len(got) >= n

        wait_for(enough, 90)
        return got

    def log(self, kind=None):
        return [e for e in map(json.loads, self.c("audit", "--json").out.splitlines())
                if e.get("sandbox") == self.id and (kind is None or e["type"] == kind)]


def at_terminal(c, args, answers, timeout=300):
    """coffer at a terminal of its own: each of `answers` is typed when its prompt stands there. (code, what was shown)"""
    master, slave = pty.openpty()
    # So tall that no question comes in pages.
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 100, 0, 0))
    p = c.popen(*args, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown, left, until = b"", list(answers), time.monotonic() + timeout
    while time.monotonic() < until:
        if left and left[0][0].encode() in shown:
            os.write(master, left.pop(0)[1].encode())
        if select.select([master], [], [], 0.2)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        elif p.poll() is not None:
            break
    code = p.wait(timeout=60)
    os.close(master)
    return code, shown.decode(errors="replace")
