#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A caller with real-time scheduling, raised priorities, no address randomization and a timer slack of its own: none of it applies inside,
nor to runsc. A lower priority than usual does."""

import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, descendants, identities, slow_build  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
NO_RANDOMIZE = 0x0040000
REAL_TIME_IO = 1 << 13 | 3
PR_SET_TIMERSLACK = 29
SYS = {"x86_64": (251, 252), "aarch64": (30, 31)}[os.uname().machine]  # ioprio_set, ioprio_get


def tried(f, *args):
    try:
        f(*args)
    except OSError:
        pass


def favoured():
    """Makes this process such a caller, as far as the machine allows it; the processes that it starts are too."""
    tried(os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1))
    tried(os.setpriority, os.PRIO_PROCESS, 0, -5)
    LIBC.syscall(SYS[0], 1, 0, REAL_TIME_IO)
    LIBC.personality(NO_RANDOMIZE)
    LIBC.prctl(PR_SET_TIMERSLACK, 777000, 0, 0, 0)


def usual():
    tried(os.sched_setscheduler, 0, os.SCHED_OTHER, os.sched_param(0))
    tried(os.setpriority, os.PRIO_PROCESS, 0, 0)
    LIBC.syscall(SYS[0], 1, 0, 0)
    LIBC.personality(0)
    LIBC.prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0)


def state_of(pid):
    """The host's attributes of a process."""
    with open(f"/proc/{pid}/personality") as f:
        personality = int(f.read(), 16)
    try:
        with open(f"/proc/{pid}/timerslack_ns") as f:
            slack = int(f.read())
    except OSError:
        slack = None
    return {"policy": os.sched_getscheduler(pid) & 0xff, "nice": os.getpriority(os.PRIO_PROCESS, pid), "io": LIBC.syscall(SYS[1], 1, pid) >> 13,
            "personality": personality, "slack": slack}


def inside(c, p):
    """The processes on the host that the sandbox consists of: those in a pid namespace of its own, and runsc."""
    mine, got = os.readlink("/proc/self/ns/pid"), []
    for pid, _ in descendants(p.pid):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                words = f.read().split("\0")
            if os.readlink(f"/proc/{pid}/ns/pid") != mine:
                got.append((words[0], pid))
        except OSError:
            continue
    return got


def states_inside(c, p):
    got = []
    for name, pid in inside(c, p):
        try:
            got.append((name, state_of(pid)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it was there for a moment, as the one that maps ids
    return got


def look(tap, c, set_up, what, check):
    set_up()
    try:
        caller = state_of(os.getpid())
        p = c.popen("run", "-q", "--ephemeral", "--", "sleep", "300")
        wanted = "runsc-sandbox" if c.engine == "gvisor" else "sleep"
        end = time.monotonic() + 60 * slow_build()
        while not any(wanted in name for name, _ in inside(c, p)) and time.monotonic() < end:
            time.sleep(0.1)
        got = states_inside(c, p)
    finally:
        usual()
    p.terminate()
    p.communicate()
    tap.ok(any(wanted in name for name, _ in got), f"{c.who}: control: the sandbox of {what} runs", got)
    check(caller, got)


def main():
    tap = Tap()
    if os.getuid() != 0:
        tap.skip("callers with raised priorities", "the tests do not run as root")
        tap.done()
        return
    for who in identities(tap, ENGINES):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            def none_of_it(caller, got):
                tap.ok(caller["personality"] == NO_RANDOMIZE and caller["io"] == 1 and (caller["policy"] == os.SCHED_RR or caller["nice"] == -5),
                       f"{c.who}: control: the caller has scheduling of its own", caller)
                bad = [x for x in got if x[1]["policy"] or x[1]["nice"] < 0 or x[1]["io"] == 1 or x[1]["personality"] or x[1]["slack"] == 777000]
                tap.ok(not bad, f"{c.who}: no scheduling favour of the caller applies inside", *bad)

            def lower(caller, got):
                tap.ok(caller["nice"] == 7 and all(s["nice"] >= 7 for _, s in got), f"{c.who}: a lower priority of the caller applies inside", *got)

            look(tap, c, favoured, "a favoured caller", none_of_it)
            look(tap, c, lambda: os.setpriority(os.PRIO_PROCESS, 0, 7), "a modest caller", lower)
            c.check_clean(tap)
    tap.done()


main()
