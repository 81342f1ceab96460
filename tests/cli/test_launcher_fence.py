#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The launcher's two lists of system calls, in each of its lives: both are in force while a command runs, the guard and the sandbox
inherit neither, and a call that is on no list ends the launcher, whose guard then finishes the run. What each list forbids is tested
in unit/launcher_fence.

Left out of the short form: all lives but the foreground, the held start, the attack and the story of a named sandbox.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, descendants, kill_own, proc_stat, sanitized, slow_build  # noqa: E402
from mcpclient import Client  # noqa: E402

PATIENCE = 90 * slow_build()


def options(who):
    """Without subordinate ids the command's user on gvisor is root inside, and the caller outside."""
    return ["--user", "0"] if who.engine == "gvisor" and who != "root" else []


def wait_for(test):
    end = time.monotonic() + PATIENCE
    while not (got := test()) and time.monotonic() < end:
        time.sleep(0.02)
    return got


def fence(pid):
    """(mode, number of lists, no_new_privs) of a process, as the kernel tells; None when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    except OSError:
        return None
    return status["Seccomp"], status["Seccomp_filters"], status["NoNewPrivs"]


def children(pid):
    return [p for p, _ in descendants(pid) if (proc_stat(p) or (0,))[0] == pid]


def guard_of(launcher):
    return next((p for p in children(launcher) if (proc_stat(p) or (0, "", ""))[2] == "coffer-guard"), None)


def launcher_below(pid):
    """The process with a guard among those below one."""
    return next((p for p, _ in descendants(pid) if guard_of(p)), None)


def events(c, kind):
    return [json.loads(line) for line in c("audit", "--type", kind, "--json").out.splitlines()]


def check_fenced(tap, c, life, pid):
    """Both lists are in force in the launcher, and neither in what it has made before."""
    want = ("2", "2", "1")
    wait_for(lambda: pid and fence(pid) == want)
    tap.eq(pid and fence(pid), want, f"{c.who}, {life}: a launcher that supervises has both lists of system calls")
    guard = wait_for(lambda: guard_of(pid)) if pid else None
    tap.eq(guard and fence(guard)[:2], ("0", "0"), f"{c.who}, {life}: the guard has no list of the launcher's")
    # The one of coffer-init is the sandbox's own, made at the end of its construction; runsc makes lists for its processes itself.
    own = [1 if c.engine == "ns" else 0]

    def inside():
        return [int((fence(p) or (0, -1))[1]) for p in children(pid) if p != guard] if pid else []

    wait_for(lambda: inside() == own)
    tap.eq(inside(), own, f"{c.who}, {life}: the sandbox has no list of the launcher's")


def ended(tap, c, life, p, data=None, code=0):
    try:
        out = p.communicate(data, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        out = p.communicate()
    return tap.eq(p.returncode, code, f"{c.who}, {life}: the run ends with {code}", *out)


def check_end(tap, c, life, run, wanted):
    """The launcher itself has ended its run: a guard that does it in its place knows no other cause than `caller`."""
    end = wait_for(lambda: [e for e in events(c, "run.end") if e["sandbox"] == run])
    tap.eq([(e["cause"], e["exit"]) for e in end], [wanted], f"{c.who}, {life}: the log has the end of the run", end)


def foreground(tap, c):
    p = c.popen("run", "-q", *options(c.who), "--", "cat", stdin=subprocess.PIPE)
    check_fenced(tap, c, "foreground", p.pid)
    ended(tap, c, "foreground", p, b"x")


def call(tap, c):
    p = c.popen("call", "--cold", *options(c.who), "--", "cat", stdin=subprocess.PIPE)
    check_fenced(tap, c, "call", p.pid)
    ended(tap, c, "call", p, b"x")


def standby(tap, c):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    p = c.popen("call", f"--standby={theirs.fileno()}", *options(c.who), pass_fds=(theirs.fileno(),))
    theirs.close()
    ours.settimeout(PATIENCE)
    ready = ours.recv(4096)
    tap.eq(ready[4:8], b"\1\0\0\0", f"{c.who}: a sandbox of the warm pool is ready under both lists", ready)
    check_fenced(tap, c, "warm pool", p.pid)
    ours.close()
    ended(tap, c, "warm pool", p)


def detached(tap, c):
    for life, more in (("detached", []), ("kept", ["--restart", "always"])):
        r = c("run", "-d", "--name", life, *more, *options(c.who), "--", "sleep", "1000")
        tap.eq(r.code, 0, f"{c.who}, {life}: a sandbox starts in the background", r)
        run = r.out.strip()
        with open(os.path.join(c.state, "runs", run, "meta.json"), encoding="utf-8") as f:
            pid = json.load(f)["launcher"]
        check_fenced(tap, c, life, pid)
        r = c("stop", "-t", "0", life)
        tap.eq(r.code, 0, f"{c.who}, {life}: a sandbox in the background can be stopped", r)
        check_end(tap, c, life, run, ("stopped", 143))
    c("gateway", "stop")


def mcp(tap, c):
    with Client(c, "-C", c.work, *options(c.who)) as m:
        m.initialize()
        n = m.begin_call("exec", command="while [ ! -e go ]; do sleep 0.1; done; echo done")
        check_fenced(tap, c, "mcp", wait_for(lambda: launcher_below(m.p.pid)))
        run = events(c, "run.start")[-1]["sandbox"]
        c("exec", run, "--", "touch", "/workspace/go")
        got = m.wait_for(n)
        tap.ok("done" in json.dumps(got), f"{c.who}, mcp: a tool call ends with its output", got)


def held_at_the_log(tap, c):
    """A launcher between the two phases: another process holds the lock of the log, to which run.start is not written yet."""
    with open(os.path.join(c.state, "audit", "lock"), "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        p = c.popen("run", "-q", *options(c.who), "--", "true")
        wait_for(lambda: guard_of(p.pid) and fence(p.pid)[0] == "2" and len(children(p.pid)) == 2)
        time.sleep(0.2)  # the second list, if it came too early, would be there by now
        tap.eq(fence(p.pid), ("2", "1", "1"), f"{c.who}: a launcher has the first list alone before run.start is in the log")
        guard = guard_of(p.pid)
        others = [fence(x)[:2] for x in children(p.pid) if x != guard]
        tap.eq((guard and fence(guard)[:2], others), (("0", "0"), [("0", "0")]),
               f"{c.who}: guard and sandbox are made before the first list")
        fcntl.lockf(lock, fcntl.LOCK_UN)
    ended(tap, c, "held", p)


def killed_before_its_command(tap, c):
    """Whoever waits for a detached launcher is told what killed it, because the launcher itself can say nothing."""
    with open(os.path.join(c.state, "audit", "lock"), "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        p = c.popen("run", "-q", "-d", *options(c.who), "--", "true")
        pid = wait_for(lambda: launcher_below(p.pid))
        wait_for(lambda: fence(pid)[0] == "2")
        kill_own(pid, signal.SIGSYS)
        fcntl.lockf(lock, fcntl.LOCK_UN)
    out = p.communicate(timeout=PATIENCE)
    tap.ok(p.returncode == 125 and b"signal 31" in out[1], f"{c.who}: a detached launcher that the kernel ended is reported with the signal", p.returncode, *out)


def replace_call(pid, number):
    """Makes the next system call of a process another one; number None: leaves it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    attach, until_call, poke_user, detach, orig_rax = 16, 24, 6, 17, 15 * 8

    def ptrace(*args):
        if libc.ptrace(*args) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    ptrace(attach, pid, 0, 0)
    os.waitpid(pid, 0)
    ptrace(until_call, pid, 0, 0)
    os.waitpid(pid, 0)
    if number is not None:
        ptrace(poke_user, pid, orig_rax, number)
    ptrace(detach, pid, 0, 0)


def attacked(tap, c):
    """Somebody has taken the launcher over and makes a call that it never makes."""
    if platform.machine() != "x86_64" or os.getuid() != 0 or sanitized():
        tap.skip(f"{c.who}: a launcher that makes another call", "root alone traces it, the registers are those of x86_64, and a sanitizer's build has no list")
        return
    for number, what, code in ((None, "control: of its own", 0), (59, "execve", -signal.SIGSYS), (41, "socket of any family", -signal.SIGSYS)):
        p = c.popen("run", "-q", *options(c.who), "--", "cat", stdin=subprocess.PIPE)
        wait_for(lambda p=p: fence(p.pid) == ("2", "2", "1"))
        run = events(c, "run.start")[-1]["sandbox"]
        replace_call(p.pid, number)
        ended(tap, c, f"call {what}", p, b"x", code)
        check_end(tap, c, f"call {what}", run, ("exit", 0) if code == 0 else ("caller", 137))
    tap.eq(c("audit", "verify").code, 0, f"{c.who}: the log verifies after a launcher was ended")


def story(tap, c):
    """What a sandbox with a name goes through, the end of each life under the second list."""
    c.write("a.txt", "original\n")
    steps = (("run", "-d", "--name", "w", *options(c.who), "--", "sleep", "1000"),
             ("exec", "w", "--", "sh", "-c", "echo one > a.txt; mkdir -p d/e; echo new > d/e/f"),
             ("checkpoint", "w"),
             ("exec", "w", "--", "rm", "-r", "a.txt", "d"),
             ("rollback", "w", "c1"),
             ("exec", "w", "--", "grep", "one", "a.txt"),
             ("stop", "-t", "0", "w"),
             ("start", "w"),
             ("exec", "w", "--", "test", "-e", "d/e/f"),
             ("stop", "-t", "0", "w"),
             ("diff", "w"),
             ("apply", "w"))
    for args in steps:
        r = c(*args)
        tap.eq(r.code, 0, f"{c.who}: coffer {' '.join(args)} works", r)
        if args[0] == "stop":
            c("wait", "w")
    with contextlib.suppress(OSError), open(os.path.join(c.work, "a.txt"), encoding="utf-8") as f:
        tap.eq(f.read(), "one\n", f"{c.who}: the change that was rolled back to is applied")
    names = [run["name"] for run in json.loads(c("ps", "-a", "--json").out)]
    tap.ok("w" not in names, f"{c.who}: nothing is left of a sandbox whose changes were applied", names)


def main():
    tap = Tap()
    for who, whole in covering(tap):
        with coffer_as(who) as c:
            if sanitized():
                tap.skip(f"{who}: the launcher's lists", "a sanitizer's build has none")
                continue
            foreground(tap, c)
            for part in (call, standby, detached, mcp, held_at_the_log, killed_before_its_command, attacked, story) if whole else ():
                part(tap, c)
            c.check_clean(tap)
    tap.done()


main()
