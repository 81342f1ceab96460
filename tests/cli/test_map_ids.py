#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer run --map-ids: a sandbox with a range of ids, and what these ids own afterwards."""

import glob
import json
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import TEST_UID, Coffer, Tap, can_userns, descendants, kill_quietly, slow_build, user_with_subuids  # noqa: E402

CAPS = ["--map-ids", "--user", "0", "--cap", "chown", "--cap", "dac_override"]
# Directories that only their owner may search, at both ends of the range, and no rights for anybody.
RESIST = ("mkdir -p a/b/c d; touch a/f a/b/f a/b/c/f d/f; ln -s /etc x; chmod 700 a a/b a/b/c; chmod 000 d; "
          "chown -hR 1:1 a; chown -R 65535:65535 a/b; chown -h 1234:4321 d/f d x . && echo resists")


def runs(c):
    return os.listdir(os.path.join(c.state, "runs"))


def last_end(c):
    return c("audit", "--type", "run.end", "--json", "-n", "1").out


def control(tap, c):
    """The tree that is to be wiped really resists its caller."""
    r = c("run", *CAPS, "--", "sh", "-c", RESIST)
    tap.eq(r.out, "resists\n", "a sandbox gives files to its subordinate ids", r)
    left = [os.path.join(c.state, "runs", n, "upper") for n in runs(c)]
    if tap.eq(len(left), 1, "control: an overlay keeps files of subordinate ids"):
        r = c(program=["rm", "-rf", left[0]])
        tap.ok(r.code != 0 and "ermission denied" in r.err, "control: the caller cannot remove files of subordinate ids", r)
    tap.eq(c("discard", "@last").code, 0, "coffer discard removes files of subordinate ids")
    tap.eq(runs(c), [], "coffer discard leaves no run directory")


def by_launcher(tap, c):
    r = c("run", *CAPS, "--ephemeral", "--", "sh", "-c", RESIST)
    tap.ok(r.code == 0 and r.out == "resists\n", "an ephemeral run makes files that resist removal", r)
    tap.like(last_end(c), r'"wiped":10,"wipe_verified":true', "the launcher wipes an ephemeral workspace of subordinate ids, verified")
    tap.eq(runs(c), [], "an ephemeral run leaves no run directory")


def in_root_layer(tap, c):
    """The layer over a root file system is wiped at the end too, whatever the workspace is."""
    busybox = shutil.which("busybox")
    if not busybox:
        tap.skip("a root layer with files of subordinate ids", "busybox is not installed")
        return
    root = os.path.join(c.dir, "root")
    for d in (root, os.path.join(root, "bin")):
        os.mkdir(d, 0o755)
        c.own(d)
    shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
    r = c("run", *CAPS, "--root", root, "--", "/bin/busybox", "sh", "-c",
          "b=/bin/busybox; $b mkdir -p /x/y && $b touch /x/y/f && $b chmod 700 /x /x/y && $b chown -hR 1:1 /x && echo resists")
    tap.eq((r.code, r.out, r.err), (0, "resists\n", ""), "a run over a root file system makes files that resist removal, and ends without an error", r)
    tap.eq(runs(c), [], "the launcher wipes a root layer of subordinate ids")


def start_and_wait(c):
    p = c.popen("run", *CAPS, "--ephemeral", "--", "sh", "-c", RESIST + "; sleep 600")
    if p.stdout.readline() != b"resists\n":
        p.kill()
    return p, {what.split(" ", 1)[1]: pid for pid, what in descendants(os.getpid())}


def wait_for(test):
    end = time.monotonic() + 90 * slow_build()
    while not test() and time.monotonic() < end:
        time.sleep(0.05)
    return test()


def by_guard(tap, c):
    p, names = start_and_wait(c)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    p.stdout.close()
    p.stderr.close()
    tap.ok("coffer-guard" in names and wait_for(lambda: not runs(c)), "the guard wipes after a launcher that was killed",
           runs(c), names)
    tap.like(last_end(c), r'"wiped":10,"wipe_verified":true', "the guard's wipe is logged as verified")


def by_sweep(tap, c):
    p, names = start_and_wait(c)
    wait_for(lambda: glob.glob(os.path.join(c.state, "runs/*/meta.json")))  # by then it can be found
    for pid in (names.get("coffer-guard"), p.pid):
        kill_quietly(pid)
    p.wait()
    p.stdout.close()
    p.stderr.close()
    tap.eq(len(runs(c)), 1, "control: the run directory remains when launcher and guard are killed")
    r = c("ps", "-a")
    tap.ok(r.code == 0 and wait_for(lambda: not runs(c)), "the next coffer wipes the run of a killed launcher and guard", r, runs(c))
    tap.like(last_end(c), r'"wiped":10,"wipe_verified":true', "the wipe by the next coffer is logged as verified")


def fallback(tap, c):
    """A runsc that does not work: what --engine auto takes instead needs no range of ids."""
    shown, auto = ("run", "--ephemeral", "--", "cat", "/proc/self/uid_map"), {"COFFER_ENGINE": None}
    c(*shown, env=auto)
    verdicts = glob.glob(os.path.join(c.state, "runsc-*"))
    if not tap.eq(len(verdicts), 1, "control: --engine auto has stored whether runsc works"):
        return
    with open(verdicts[0], encoding="utf-8") as f:
        verdict = json.load(f)
    with open(verdicts[0], "w", encoding="utf-8") as f:
        json.dump(verdict | {"works": False, "why": "runsc does not work here", "when": time.time_ns()}, f)
    r = c(shown[0], "--engine", "ns", "--map-ids", *shown[1:])
    tap.ok(r.code == 0 and len(r.out.splitlines()) > 1, "control: --map-ids maps a range of ids", r)
    r = c(*shown, env=auto)
    tap.ok(r.code == 0 and "engine ns" in r.err and "runsc does not work here" in r.err and len(r.out.splitlines()) == 1,
           "a run that falls back to engine ns maps no range of ids", r)


def main():
    tap = Tap()
    user = user_with_subuids()
    if not can_userns() or (not user and os.getuid() != 0) or not shutil.which("newuidmap"):
        tap.skip("a sandbox with a range of ids", "no ordinary user here has subordinate ids and may use them")
        tap.done()
    with Coffer("user", user=user or (TEST_UID, TEST_UID)) as c:
        if not user:
            c.have_sub_ids()
        for part in (control, by_launcher, in_root_layer, by_guard, by_sweep):
            part(tap, c)
        if shutil.which("runsc"):
            fallback(tap, c)
        else:
            tap.skip("the engine when runsc does not work", "runsc is not installed")
        tap.eq(c("audit", "verify").code, 0, "the log of all runs verifies")
        c.check_clean(tap)
    tap.done()


main()
