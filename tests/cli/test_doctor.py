#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer doctor: true findings, useful words, bounded time, nothing left behind."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import RUNSC, Tap, coffer_as, fake_runsc, identities, slow_build  # noqa: E402

MANDATORY = ["userns", "userns-nested", "pidns", "mountns", "netns", "wall", "ipcns", "utsns", "proc", "private-fs", "overlay",
             "seccomp", "syscalls", "kernel", "helper",
             "net-programs", "secrets"]
tap = Tap()


def status(result, check):
    return next(c for c in json.loads(result.out)["checks"] if c["id"] == check)


def check_plain(c):
    r = c("doctor", "--json")
    data = json.loads(r.out)
    by_id = {x["id"]: x for x in data["checks"]}
    tap.eq((r.code, data["can_run"]), (0, True), f"{c.who}: coffer run can work here", r)
    for name in MANDATORY:
        tap.eq(by_id[name]["status"], "ok", f"{c.who}: {name} is ok", by_id[name])
    for x in data["checks"]:
        good = x["status"] in ("ok", "info", "warn", "fail") and x["detail"] and x["meaning"]
        tap.ok(good and set(x["fix"]) == {"debian", "ubuntu", "fedora"}, f"{c.who}: {x['id']} is complete", x)
    tap.ok(os.uname().release in by_id["kernel"]["detail"], f"{c.who}: the kernel is the running one", by_id["kernel"])
    text = c("doctor")
    for x in data["checks"]:
        tap.like(text.out, rf"^  {x['status']} +{x['title'].replace('(', '.').replace(')', '.')} ",
                 f"{c.who}: the text says the same about {x['id']}")
    tap.unlike(text.out, "\x1b", f"{c.who}: doctor prints no colour into a pipe")
    return data


def check_runsc(c):
    if RUNSC:
        got = status(c("doctor", "--json"), "runsc")
        tap.ok(got["status"] == "ok" and "started a sandbox" in got["detail"] and "systrap" in got["detail"],
               f"{c.who}: runsc is tried, and its platform named", got)
    ns = {"COFFER_ENGINE": "ns"}  # with it a runsc that is named need not work
    r = c("doctor", "--json", env={**ns, "COFFER_RUNSC": "/no/such/runsc"})
    got = status(r, "runsc")
    tap.ok(r.code == 0 and got["status"] == "warn" and "/no/such/runsc" in got["detail"],
           f"{c.who}: a runsc that does not exist is a warning", r)
    for how, words in (("old", "20221102"), ("red", "does not print a version"), ("flood", "does not print a version"), ("deaf", "does not respond")):  # one that hangs: cli/hang
        start = time.monotonic()
        r = c("doctor", "--json", env={**ns, "COFFER_RUNSC": fake_runsc(c, how)})
        took, got = time.monotonic() - start, status(r, "runsc")
        tap.ok(r.code == 0 and got["status"] == "warn" and words in got["detail"] and "\x1b" not in got["detail"]
               and took < 75 * slow_build(), f"{c.who}: a runsc of the kind {how} is a warning", f"{took:.1f} s", got)
        if c.who != "root" and how == "flood":  # the slow ones are the same for everybody
            break


def check_bad(c):
    """A host without user namespaces: made by forbidding them in a namespace of our own."""
    script = ("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" doctor --json")
    r = c(program=["unshare", "--user", "--map-root-user", "sh", "-c", script, c.exe])
    data = json.loads(r.out)
    bad = {x["id"] for x in data["checks"] if x["status"] == "fail"}
    tap.eq((r.code, data["can_run"]), (1, False), f"{c.who}: doctor without user namespaces says so and exits 1", r)
    tap.ok({"userns", "userns-nested", "overlay", "proc"} <= bad,
           f"{c.who}: checks that depend on user namespaces fail without them", sorted(bad))
    r = c(program=["unshare", "--user", "--map-root-user", "sh", "-c", script.replace(" --json", ""), c.exe])
    tap.like(r.out, r"^  fail +user namespaces .*\n +means: .*\n +fix", f"{c.who}: doctor says how to mend a host without user namespaces", r)
    tap.like(r.out, r"^coffer run cannot work here: ", f"{c.who}: the last line of doctor says that coffer run cannot work here", r)


def check_read_only(c):
    """A state directory that cannot be written is one finding; checks that need it do not offer remedies of their own."""
    os.makedirs(c.state, exist_ok=True)
    script = 'mount -t tmpfs -o ro tmpfs "$1" && exec "$0" doctor --json'
    r = c(program=["unshare", "-m", "sh", "-c", script, c.exe, c.state])
    found = {x["id"]: x["status"] for x in json.loads(r.out)["checks"]}
    bad = sorted(n for n, s in found.items() if s in ("warn", "fail"))
    tap.ok(r.code == 1 and "disk" in bad, f"{c.who}: a read-only state directory is a finding", found)
    tap.eq([n for n in bad if n in ("idmap", "disk-limit", "runsc")], [], f"{c.who}: a read-only state directory is no reason for another kernel or runsc", found)


def check_small(c):
    """A disk image of 16 MiB for a check has no room: that is no reason to install e2fsprogs."""
    os.makedirs(c.state, exist_ok=True)
    script = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$0" doctor --json'
    r = c(program=["unshare", "-m", "sh", "-c", script, c.exe, c.state])
    found = {x["id"]: x for x in json.loads(r.out)["checks"]}
    tap.eq([found[n]["status"] for n in ("disk", "disk-limit")], ["warn", "info"], f"{c.who}: too little space is one finding of doctor", found)
    tap.like(json.dumps(found["disk-limit"]), "too little space is left", f"{c.who}: doctor gives the reason why the disk limit was not tried", found)


for who in identities(tap):
    with coffer_as(who) as coffer:
        check_plain(coffer)
        tap.ok(not os.path.exists(coffer.state), f"{who}: doctor does not make the state directory")
        check_runsc(coffer)
        if who == "user":
            check_bad(coffer)
        if who == "root":
            check_read_only(coffer)
            check_small(coffer)
        tap.eq(coffer("doctor", "now").code, 2, f"{who}: doctor refuses an argument")
        left = [n for d in (coffer.dir, coffer.home, "/var/lib") for n in os.listdir(d) if "doctor" in n]
        tap.eq(left, [], f"{who}: doctor leaves no directory behind")
        coffer.check_clean(tap)
tap.done()
