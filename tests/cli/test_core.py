#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Core dumps: with no limit on them for who calls coffer, coffer-vault and coffer-egress die of SIGSEGV and SIGABRT while a request
that carries a secret lasts. No core of them appears anywhere; a plain program with the same limit leaves one."""

import base64
import os
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering, descendants, kill_own, proc_stat, slow_build  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
LIMIT = ["prlimit", "--core=unlimited:unlimited"]
PATIENCE = 60

tap = Tap()


def no_cores():
    """Why a core could not be seen here, or None."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        pattern = f.read().strip()
    if pattern.startswith(("|", "@")) or not pattern:
        return f"cores of this machine do not become files (core_pattern is {pattern!r})"
    return None


def places(c, pids):
    """Where a core could be: the working directories of all, where the pattern says, and what is the test's own."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        found = {"/", "/tmp", "/var/tmp", os.getcwd(), c.dir, os.path.dirname(f.read().strip()) or "/"}
    for pid in pids:
        try:
            found.add(os.readlink(f"/proc/{pid}/cwd"))
        except OSError:
            pass
    return found


def files(c, dirs):
    """{path: (mtime, size)} of what is in them, and of all below the test's own."""
    found = {}
    for d in dirs:
        for top, below, names in os.walk(d):
            if d != c.dir:
                below.clear()
            for n in names:
                path = os.path.join(top, n)
                try:
                    st = os.lstat(path)
                except OSError:
                    continue
                found[path] = (st.st_mtime_ns, st.st_size)
    return found


def has_token(path):
    try:
        with open(path, "rb") as f:
            return bool(has_any(f.read(64 << 20), TOKEN))
    except OSError:
        return False


def control(c):
    """The same limit, a program that has the token in its memory, and the same signals."""
    for sig in (signal.SIGSEGV, signal.SIGABRT):
        where = tempfile.mkdtemp(prefix="core-", dir=c.dir)
        c.own(where)
        p = c.popen(program=LIMIT + ["python3", "-c", "import sys; t = sys.stdin.read(); print(len(t), flush=True); "
                                     f"import os; os.kill(os.getpid(), {int(sig)})"], cwd=where, stdin=subprocess.PIPE)
        p.communicate(TOKEN.encode(), timeout=300 * slow_build())
        cores = os.listdir(where)
        tap.ok(cores and any(has_token(os.path.join(where, n)) for n in cores), f"{c.who}: a plain program leaves a core with the token",
               p.returncode, cores)
        for n in cores:
            os.unlink(os.path.join(where, n))


def wait_gone(pid):
    return wait_for(lambda: (proc_stat(pid) or (pid, "X"))[1] in "ZX", PATIENCE)


class Slow:
    """Answers when it is told to."""

    def __init__(self):
        self.came, self.go = threading.Event(), threading.Event()

    def __call__(self, q):
        if q.headers.get("Authorization") != "Bearer " + TOKEN:
            return 401, {}, "who are you?"
        self.came.set()
        self.go.wait(PATIENCE)
        return "done"


def dies(c, slow, victim, sig, kept):
    """One request, and the death of one while it lasts."""
    who, name = c.who, f"{victim}{' of cofferd' if kept else ''}, {sig.name}"
    slow.came.clear()
    slow.go.clear()
    p = c.popen(program=LIMIT + [c.exe, "run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "sh", "-c",
                                 'curl -sS -m 60 -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1/x'])
    if not tap.ok(slow.came.wait(PATIENCE * slow_build()), f"{who}: {name}: a request with the token has arrived, and lasts"):
        print(p.stderr.read())
    everyone = [pid for pid, text in descendants(os.getpid()) if text[0] != "Z"]
    pids = [pid for pid, text in descendants(os.getpid()) if text[2:] == victim and text[0] != "Z"]
    tap.ok(len(pids) == 1 and TOKEN in search(pids[0], TOKEN), f"{who}: {name}: the process has the token in its memory", pids)
    dirs = places(c, everyone)
    before = files(c, dirs)
    kill_own(pids[0], sig)
    tap.ok(wait_gone(pids[0]), f"{who}: {name}: the process ends by the signal")
    slow.go.set()
    p.communicate(timeout=300 * slow_build())
    new = [f for f, what in files(c, dirs).items() if before.get(f) != what]
    tap.eq([f for f in new if os.path.basename(f).startswith("core") or has_token(f)], [],
           f"{who}: {name}: no core, and no file with the token, in {len(dirs)} directories", new)


def main():
    reason = why_not() or no_cores()
    if reason:
        tap.skip("core dumps", reason)
        tap.done()
    slow = Slow()
    with Internet() as net:
        net.https("api.example.test", slow)
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                control(c)
                r = c("secret", "set", "github", "-", "--host", "api.example.test/v1", "--as", "bearer", input=TOKEN)
                tap.eq(r.code, 0, f"{who}: a token is in the vault", r)
                # In short: one signal. Both are handled by the same code.
                for sig in (signal.SIGSEGV, signal.SIGABRT) if whole else (signal.SIGSEGV,):
                    for victim in ("coffer-vault", "coffer-egress"):
                        dies(c, slow, victim, sig, False)
                p = c.popen(program=LIMIT + [c.exe, "gateway", "start"])
                p.communicate(timeout=300 * slow_build())
                for sig in (signal.SIGSEGV, signal.SIGABRT) if whole else (signal.SIGABRT,):
                    tap.eq(c("secret", "unlock").code, 0, f"{who}: cofferd keeps a vault")
                    dies(c, slow, "coffer-vault", sig, True)
                c("gateway", "stop")
                c.check_clean(tap)
    tap.done()


main()
