#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals to any of our processes, at any instant: nothing is left, and the log verifies."""

import ctypes
import glob
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, descendants, identities, kill_quietly, slow_build  # noqa: E402

RUNS = {"ns": {"root": 100, "user": 70, "userns": 30}, "gvisor": {"root": 30, "user": 20, "userns": 10}}
PIDFD_GETFD = 438
PTRACE_SEIZE = 0x4206
WINDOW = {"ns": 0.03, "gvisor": 0.25}  # seconds that a run takes, about: a kill falls anywhere in it


def shown_name(pid, comm):
    """runsc starts its parts from /proc/self/exe: only their first argument tells which is which."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            first = f.read().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return comm
    return first if first.startswith("runsc") else comm


def victims(p):
    """coffer itself and all below it; but not the processes that gVisor runs its guests' code in, which it calls exe as
    well: it waits for ever for one that somebody on the host has killed, and the guest's process with it."""
    return [p.pid] + [pid for pid, what in descendants(p.pid)
                      if what.split(" ", 1)[1] != "exe" or shown_name(pid, "exe") != "exe"]


def random_kills(tap, c, rng):
    left_over = []
    runs = RUNS[c.engine][c.who]
    for i in range(runs):
        args = ["run", "--", "sh", "-c", "echo x > f; sleep 0.02"] if i % 3 else ["run", "--ephemeral", "--", "true"]
        p = c.popen(*args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * WINDOW[c.engine] * slow_build())
        sig = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        pid = rng.choice(victims(p))
        try:
            os.kill(pid, sig)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            p.wait(90 * slow_build())
        except subprocess.TimeoutExpired:
            left_over.append(f"run {i}: {signal.Signals(sig).name} to {pid}: coffer still there after 90 s")
            kill_quietly(p.pid)
    tap.eq(left_over, [], f"{c.who}: coffer ends after every signal")
    c.check_clean(tap)
    for entry in os.listdir(os.path.join(c.state, "runs")):
        meta = os.path.join(c.state, "runs", entry, "meta.json")
        with open(meta, encoding="utf-8") if os.path.exists(meta) else open(os.devnull, encoding="utf-8") as f:
            text = f.read()
        # Only a run that changed a file, and whose end was written, may still be there; or what an engine said last.
        log = os.path.join(c.state, "runs", entry, "engine.log")
        if '"cause":"broken"' in text and os.path.exists(log) and os.path.getsize(log):
            continue
        if '"ended":0' in text or '"ended"' not in text or '"changes":0' in text:
            left_over.append(f"runs/{entry}: {text or 'no meta.json'}")
    tap.eq(left_over, [], f"{c.who}: {runs} random kills leave no unfinished run")
    r = c("audit", "verify")
    tap.eq(r.code, 0, f"{c.who}: the log verifies after {runs} random kills", r)


# By the name that each shows itself with. In gVisor a command is no process of the host's.
VICTIMS = {"ns": ("coffer", "coffer-guard", "coffer-init", "sleep"),
           "gvisor": ("coffer", "coffer-guard", "runsc", "runsc-gofer", "runsc-sandbox")}


def start_sleeper(c, name="coffer"):
    """A run whose command sleeps, and the processes below us by name, once there is one of that name."""
    p = c.popen("run", "--", "sh", "-c", "echo READY; exec sleep 600", stderr=subprocess.PIPE)
    p.stdout.readline()
    deadline, found = time.monotonic() + 90 * slow_build(), {}
    while name not in found and time.monotonic() < deadline:
        found = {shown_name(pid, what.split(" ", 1)[1]): pid for pid, what in descendants(os.getpid())}
    return p, found


def targeted(tap, c):
    """Each kind of process in turn, while a command sleeps."""
    for name in VICTIMS[c.engine]:
        p, found = start_sleeper(c, name)
        target = p.pid if name == "coffer" and c.who != "userns" else found.get(name)
        if not tap.ok(target, f"{c.who}: a process {name} runs", found):
            p.kill()
            continue
        start = time.monotonic()
        os.kill(target, signal.SIGKILL)
        if name == "coffer-guard":
            time.sleep(0.3)
            tap.ok(p.poll() is None, f"{c.who}: a run goes on without its guard")
            os.kill(p.pid, signal.SIGTERM)
        try:
            err = p.communicate(timeout=90 * slow_build())[1].decode()
            done = True
        except subprocess.TimeoutExpired:
            done, err = False, ""
            p.kill()
        tap.ok(done, f"{c.who}: SIGKILL to {name} ends the run", f"{time.monotonic() - start:.1f} s", err)
        if name.startswith("runsc"):
            tap.ok(p.returncode == 125 and "failed" in err, f"{c.who}: the end of {name} is reported as a failure",
                   p.returncode, err)
        c.check_clean(tap)
        if name.startswith("runsc"):  # its last words are kept where it had any
            c("rm", "-f", "@last")
        tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{c.who}: no run directory is left after SIGKILL to {name}")


def held_descriptors(pid):
    """Ours, of the same open files as those of a process that hold a lock."""
    libc, pidfd, held = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid), []
    for n in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{n}", encoding="ascii") as f:
            if "FLOCK" in f.read():
                held.append(libc.syscall(PIDFD_GETFD, pidfd, int(n), 0))
    os.close(pidfd)
    return [fd for fd in held if fd >= 0]


def slow_death(tap, c):
    """The end of a launcher takes its time, as on a busy machine: its descriptors outlive it. The guard waits for that."""
    p, _ = start_sleeper(c)
    held = held_descriptors(p.pid)
    p.kill()
    p.communicate()
    time.sleep(1.5)
    tap.ok(held and os.listdir(os.path.join(c.state, "runs")), f"{c.who}: (control) while the launcher's lock is held its run is there", held)
    for fd in held:
        os.close(fd)
    end = time.monotonic() + 90 * slow_build()
    while os.listdir(os.path.join(c.state, "runs")) and time.monotonic() < end:
        time.sleep(0.05)
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{c.who}: the guard removes the run once the launcher's lock is free")
    c.check_clean(tap)


def slow_sandbox(tap, c):
    """The end of the sandbox takes its time, as on a busy machine: its first process waits for one that somebody outside traces and does
    not reap. The guard waits for that, also where the sandbox has no control group."""
    p, found = start_sleeper(c, "sleep")
    said, told = os.pipe()
    go_on, end_of_tracer = os.pipe()
    tracer = os.fork()
    if tracer == 0:
        os.close(end_of_tracer)
        seized = ctypes.CDLL(None).ptrace(PTRACE_SEIZE, found.get("sleep", 0), None, None)
        os.write(told, b"y" if seized == 0 else b"n")
        os.read(go_on, 1)
        os._exit(0)
    os.close(go_on)
    seized = os.read(said, 1) == b"y"
    p.kill()
    p.communicate()
    time.sleep(1.5)
    tap.ok(seized and os.listdir(os.path.join(c.state, "runs")), f"{c.who}: (control) while a process of the sandbox is not reaped its run is there",
           found)
    os.close(end_of_tracer)
    os.waitpid(tracer, 0)
    for fd in (said, told):
        os.close(fd)
    end = time.monotonic() + 90 * slow_build()
    while os.listdir(os.path.join(c.state, "runs")) and time.monotonic() < end:
        time.sleep(0.05)
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{c.who}: the guard removes the run of a sandbox that dies slowly")
    c.check_clean(tap)


def signals(tap, c):
    for sig, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        p, _ = start_sleeper(c)
        os.kill(p.pid, sig)
        try:
            p.wait(90 * slow_build())
        except subprocess.TimeoutExpired:
            kill_quietly(p.pid)
        tap.eq(p.returncode, code, f"{c.who}: {sig.name} reaches the command")
    c.check_clean(tap)


def crash_of_all(tap, c):
    """Launcher and guard killed together: the next coffer sweeps."""
    p = c.popen("run", "--", "sh", "-c", "echo x > f; echo READY; sleep 600", stderr=subprocess.DEVNULL)
    p.stdout.readline()
    end = time.monotonic() + 90 * slow_build()
    while not glob.glob(os.path.join(c.state, "runs/*/meta.json")) and time.monotonic() < end:
        time.sleep(0.05)  # a run is written down a moment after it began
    pids = victims(p)
    names = {what.split(" ", 1)[1]: pid for pid, what in descendants(os.getpid())}
    for pid in (names.get("coffer-guard"), names.get("coffer"), p.pid):
        if pid:
            kill_quietly(pid)
    p.wait()
    tap.ok(len(pids) >= 3, f"{c.who}: launcher, guard and init run", pids)
    r = c("ps", "-a")
    tap.eq(r.code, 0, f"{c.who}: ps works after launcher and guard were killed", r)
    c.check_clean(tap)
    r = c("discard", "@last")
    tap.eq(r.code, 0, f"{c.who}: changes of a run whose launcher and guard were killed can be discarded", r)


def main():
    tap = Tap()
    seed = int(os.environ.get("COFFER_SEED", "0")) or random.randrange(1 << 30)
    tap.note(f"COFFER_SEED={seed}")
    for who in identities(tap, ENGINES):
        with coffer_as(who) as c:
            rng = random.Random(seed)
            c("run", "--", "true")
            random_kills(tap, c, rng)
        with coffer_as(who) as c:
            targeted(tap, c)
            if who == "root" and c.engine == "ns":  # who else may not take a process's descriptors
                slow_death(tap, c)
            if os.getuid() == 0 and c.who == "user" and c.engine == "ns":
                slow_sandbox(tap, c)
            if who != "userns":
                signals(tap, c)
            crash_of_all(tap, c)
            c.check_clean(tap)  # which looks again: another coffer's group is empty for an instant as well
    tap.done()


main()
