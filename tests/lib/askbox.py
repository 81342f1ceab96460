# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of questions with one identity's coffer: files, questions that wait, the log."""

import json
import os
import time

from coffertest import remember, slow_build


def wait_for(test, seconds=60):
    """Polls until test() is true; False when it never was."""
    end = time.monotonic() + seconds * slow_build()
    while not test():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def end(p):
    """Exit code, stdout and stderr of a process that is waited for."""
    out, err = p.communicate(timeout=300)
    return remember((p.returncode, out.decode(errors="replace"), err.decode(errors="replace")))


class AskBox:
    """One Coffer and its questions."""

    def __init__(self, tap, c):
        self.tap, self.c = tap, c

    def file(self, name, text):
        """A file of the identity's that no sandbox sees."""
        path = os.path.join(self.c.home, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        self.c.own(path)
        return path

    def asks(self, *more):
        return [json.loads(x) for x in self.c("ask", "ls", "--json", *more).out.splitlines()]

    def pending(self, n=1):
        """Waits until so many wait."""
        got = []

        def enough():
            got[:] = [a for a in self.asks() if a["state"] == "pending"]
            return len(got) >= n

        wait_for(enough)
        return got

    def log(self, kind=None):
        got = [json.loads(x) for x in self.c("audit", "--json").out.splitlines()]
        return [e for e in got if e["type"] == kind] if kind else got
