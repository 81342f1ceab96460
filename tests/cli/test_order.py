#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of a start come in the order that run_execute() gives its reasons for, as the kernel sees them (strace).

Engine ns only: run_execute() is the same for every engine, and runsc, which traces its own processes, cannot be traced.
"""

import os
import re
import shutil
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, identities, sanitized  # noqa: E402

CALLS = ("clone,clone3,fork,vfork,mkdir,mkdirat,openat,write,pwrite64,writev,sendmsg,sendto,prctl,read,recvfrom,recvmsg,"
         "execve,execveat,kill,wait4,waitid,seccomp")
MARK = "the-command-itself"


def strace(c, path, *args):
    return ["strace", "-f", "-q", "-s", "4000", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", path,
            os.path.join(c.bin, "coffer"), *args]


def read_trace(path):
    lines = []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            pid, text = line.split(None, 1)
            if not text.startswith(("<...", "+++", "---")):
                lines.append((int(pid), text))
    os.unlink(path)
    return lines


def trace(c, *args):
    """Runs coffer under strace. A list of (pid, text of one system call), in the order in which they began."""
    path = os.path.join(c.work, "trace")
    r = c(program=strace(c, path, *args))
    return r, read_trace(path)


class Start:
    """One start: who the launcher is, and where in the trace each landmark is."""

    def __init__(self, lines):
        self.lines = lines
        spawned = self.find(None, r"clone3?\(.*CLONE_NEWUSER")
        self.launcher = lines[spawned][0] if spawned is not None else None
        made = self.find(self.launcher, r'mkdirat\(\d+, "[0-9a-f]{12}"')
        self.id = re.search(r'"([0-9a-f]{12})"', lines[made][1])[1] if made is not None else "no id"
        self.at = {"spawn": spawned, "directory": made}
        # The fork before the directory is made: nothing else is forked so late by a launcher whose engine is named.
        forks = [i for i in range(made or 0) if lines[i][0] == self.launcher and
                 re.match(r"(clone|fork|vfork)\(", lines[i][1]) and "CLONE_VM" not in lines[i][1]]
        self.at["guard"] = forks[-1] if forks else None
        self.at["id seen"] = next((i for i, (_, t) in enumerate(lines) if self.id in t), None)
        self.at["guard told"] = self.find(self.launcher, r"sendmsg\(.*SCM_RIGHTS", spawned)
        self.at["layers"] = self.find(self.launcher, r'mkdirat\(\d+, "upper"')
        self.at["run.start"] = self.find(self.launcher, r'(write|pwrite64|writev)\(.*run\.start')
        self.at["go"] = self.find(self.launcher, r'sendmsg\(.*iov_base="G\\')
        # A list of system calls is the last that each phase of confining does; a sanitizer's build has none.
        last = r"prctl\(PR_SET_(NO_NEW_PRIVS|DUMPABLE)" if sanitized() else r"seccomp\(SECCOMP_SET_MODE_FILTER"
        self.at["forbidden"] = self.find(self.launcher, last, spawned)
        self.at["confined"] = self.find(self.launcher, last, self.at["forbidden"])
        self.at["command sent"] = self.find(self.launcher, rf"(sendto|sendmsg)\(.*{MARK}", spawned)
        sent = self.at["command sent"]
        self.stream = re.match(r"\w+\((\d+)", lines[sent][1])[1] if sent is not None else "none"
        self.at["first read from inside"] = self.find(self.launcher, rf"(read|recvfrom|recvmsg)\({self.stream},", spawned)
        self.at["engine's program"] = self.find(None, r"execveat\(", spawned)
        self.at["command"] = self.find(None, rf'execve\(.*"{MARK}"', spawned)
        self.at["run.end"] = self.find(self.launcher, r'(write|pwrite64|writev)\(.*run\.end')
        self.at["caller let go"] = self.find(self.launcher, rf'write\(\d+, "{self.id}", 12')

    def find(self, pid, pattern, after=None):
        for i, (who, text) in enumerate(self.lines):
            if (pid is None or who == pid) and i > (after if after is not None else -1) and re.match(pattern, text):
                return i
        return None

    def check(self, tap, who, *order):
        """Each landmark is there, and comes before the next."""
        where = [self.at[name] for name in order]
        good = None not in where and where == sorted(where)
        tap.ok(good, f"{who}: a start has this order: {', '.join(order)}", dict(zip(order, where)))


STEPS = ("guard", "id seen", "directory", "spawn", "guard told", "forbidden", "layers", "run.start", "go", "confined")


def attached(tap, c):
    r, lines = trace(c, "run", "--net", "none", "--user", "0", "--", "true", MARK)
    tap.eq(r.code, 0, f"{c.who}: coffer run under strace exits with 0", r)
    s = Start(lines)
    s.check(tap, c.who, *STEPS)
    if c.who == "user":  # strace of an ordinary user cannot read the memory of a confined launcher
        return
    s.check(tap, c.who, "confined", "command sent", "command")
    s.check(tap, c.who, "confined", "first read from inside")
    s.check(tap, c.who, "run.start", "go", "engine's program", "command", "run.end")
    kills = [i for i, (pid, t) in enumerate(lines) if pid == s.launcher and re.match(r"kill\(\d+, SIGKILL", t)]
    tap.ok(kills and s.at["run.end"] is not None and kills[-1] > s.at["run.end"],
           f"{c.who}: the guard is ended after run.end is in the log", kills, s.at)


def detached(tap, c):
    _, lines = trace(c, "run", "-d", "--net", "none", "--user", "0", "--", "sh", "-c", f": {MARK}")
    s = Start(lines)
    who = f"{c.who}, detached"
    s.check(tap, who, *STEPS)
    if c.who == "user":
        return
    s.check(tap, who, "confined", "command sent", "caller let go")
    s.check(tap, who, "confined", "first read from inside")


def abandoned(tap, c):
    """A sandbox of the warm pool that gets no command: the start fails at its last step before supervision."""
    path = os.path.join(c.work, "trace")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    p = c.popen(program=strace(c, path, "call", f"--standby={theirs.fileno()}", "--user", "0"), pass_fds=(theirs.fileno(),))
    theirs.close()
    ours.settimeout(60)
    ready = ours.recv(4096)
    ours.close()
    out = p.communicate(timeout=60)
    tap.ok(len(ready) > 8 and ready[4:8] == b"\1\0\0\0" and p.returncode == 0, f"{c.who}: a warm sandbox is ready, and ends when nobody wants it", out)
    lines = read_trace(path)
    s = Start(lines)
    if c.who == "user":  # strace of an ordinary user cannot follow into the sandbox
        return
    child = lines[s.at["engine's program"]][0] if s.at["engine's program"] is not None else None
    tap.ok(child and s.find(s.launcher, rf"(wait4\({child}|waitid\(P_PIDFD)", s.at["engine's program"]) is not None,
           f"{c.who}: the launcher reaps the first process of a sandbox that is not wanted", child, lines[-40:])


def wait_until_over(c):
    """A detached launcher lives on after strace's own child has ended, and strace with it."""
    end = time.monotonic() + 60
    while time.monotonic() < end and '"running"' in c("ps", "--json").out:
        time.sleep(0.1)


def main():
    tap = Tap()
    if not shutil.which("strace"):
        tap.skip("the order of a start", "there is no strace")
        tap.done()
        return
    for who in identities(tap):
        with coffer_as(who) as c:
            attached(tap, c)
            detached(tap, c)
            abandoned(tap, c)
            wait_until_over(c)
            c.check_clean(tap)
    tap.done()


main()
