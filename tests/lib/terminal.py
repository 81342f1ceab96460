# SPDX-License-Identifier: Apache-2.0
"""coffer on a terminal that the test holds the other end of."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from coffertest import slow_build


class Screen:
    """The screen that a person sees: rows of a terminal that breaks lines, scrolls, clears, and moves only where coffer's own prompt does."""

    TOKEN = re.compile(r"\x1b\[([0-9;?>=!]*)[ ]?([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[()*+].|\x1b.|([^\x1b])", re.S)

    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.cells = [[" "] * cols for _ in range(rows)]
        self.y = self.x = 0

    def down(self):
        self.y += 1
        if self.y == self.rows:
            self.cells = self.cells[1:] + [[" "] * self.cols]
            self.y -= 1

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.down()
        elif c == "\b":
            self.x = max(0, self.x - 1)
        elif c >= " ":
            if self.x == self.cols:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = c
            self.x += 1

    def feed(self, text):
        for m in self.TOKEN.finditer(text):
            if m.group(3):
                self.put(m.group(3))
            elif m.group(2) == "H":
                at = [int(n or 1) for n in (m.group(1) + ";").split(";")[:2]]
                self.y, self.x = min(at[0], self.rows) - 1, min(at[1], self.cols) - 1
            elif m.group(2) == "J":
                self.cells = [[" "] * self.cols for _ in range(self.rows)]
        return self

    def lines(self):
        return ["".join(r).rstrip() for r in self.cells]


class Terminal:
    """coffer, or `program`, on a pty of its own."""

    def __init__(self, c, *args, rows=24, cols=80, stdin=None, become=True, program=None):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self.slave)

        def child():
            os.setsid()
            fcntl.ioctl(2, termios.TIOCSCTTY, 0)
            if become:
                c.become()
        os.fchmod(self.slave, 0o666)
        self.p = subprocess.Popen(c.prefix() + program if program else c.argv(*args), stdin=stdin if stdin is not None else self.slave, stdout=self.slave, stderr=self.slave, cwd=c.work,
                                  env=c.env({"TERM": "xterm"}), preexec_fn=child)
        self.data = b""
        self.rows, self.cols = rows, cols

    @property
    def text(self):
        return self.data.decode(errors="replace")

    def screen(self):
        """The rows that are seen now."""
        return Screen(self.rows, self.cols).feed(self.text).lines()

    def resize(self, rows, cols):
        self.rows, self.cols = rows, cols
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, until, seconds=90, after=0):
        """Reads until this has come behind so many bytes; whether it has."""
        deadline = time.monotonic() + seconds * slow_build()
        until = until.encode()
        while self.data.find(until, after) < 0 and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.data += os.read(self.master, 65536)
                except OSError:
                    break
            elif self.p.poll() is not None:
                break
        return self.data.find(until, after) >= 0

    def type(self, text):
        os.write(self.master, text.encode())

    def wait(self, seconds=90):
        try:
            return self.p.wait(seconds * slow_build())
        except subprocess.TimeoutExpired:
            return None

    def same_as_before(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        os.close(self.master)
        os.close(self.slave)
