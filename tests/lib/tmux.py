# SPDX-License-Identifier: Apache-2.0
"""coffer on a terminal of tmux's, for programs that draw: what a person sees, and what they type."""

import os
import shlex
import shutil
import subprocess
import time

from coffertest import slow_build


def why_not():
    return None if shutil.which("tmux") else "there is no tmux: tools/deps test"


class Tmux:
    """One command on a terminal of a tmux server of its own, which ends with it."""

    def __init__(self, c, argv, env=None, rows=40, cols=110):
        self.dir = os.path.join(c.dir, "tmux")
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        self.status = os.path.join(self.dir, "status")
        if os.path.exists(self.status):
            os.unlink(self.status)
        line = "env -i " + shlex.join([f"{k}={v}" for k, v in c.env({"TERM": "screen-256color", **(env or {})}).items()] + c.argv(*argv))
        self.tmux("new-session", "-d", "-x", str(cols), "-y", str(rows), "-c", c.work, f"{line}; echo $? > {shlex.quote(self.status)}")
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *args):
        p = subprocess.run(["tmux", "-f", "/dev/null", "-S", os.path.join(self.dir, "socket"), *args], capture_output=True, text=True, check=False,
                           env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "SHELL": "/bin/sh", "HOME": self.dir})
        return p.stdout

    def screen(self, history=False):
        """The rows that are seen now; with `history` also those that have scrolled away."""
        return self.tmux("capture-pane", "-p", *(["-S", "-2000"] if history else []))

    def wait(self, *texts, seconds=120):
        """Until one of these is on the screen; which one, or None."""
        end = time.monotonic() + seconds * slow_build()
        while time.monotonic() < end:
            # A program breaks its lines where it likes.
            seen = " ".join(self.screen().split())
            for t in texts:
                if t in seen:
                    return t
            if self.code() is not None:
                return None
            time.sleep(0.2)
        return None

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def key(self, *names):
        """Enter, Down, C-c and so on."""
        self.tmux("send-keys", *names)

    def code(self):
        try:
            with open(self.status, encoding="ascii") as f:
                return int(f.read() or -1)
        except OSError:
            return None

    def end(self, seconds=60):
        """The exit code, or None when it does not end."""
        end = time.monotonic() + seconds * slow_build()
        while time.monotonic() < end and self.code() is None:
            time.sleep(0.1)
        return self.code()

    def close(self):
        self.tmux("kill-server")
