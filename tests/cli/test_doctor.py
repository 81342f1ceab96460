#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer doctor: true findings, useful words, bounded time, nothing left behind."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, identities, slow_build  # noqa: E402

MANDATORY = ["userns", "userns-nested", "pidns", "mountns", "netns", "ipcns", "utsns", "proc", "private-fs", "overlay",
             "seccomp", "syscalls", "kernel", "helper"]
tap = Tap()


def fake_runsc(c, text):
    """A program called runsc, first in PATH."""
    path = os.path.join(c.dir, "fake")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "runsc"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(os.path.join(path, "runsc"), 0o755)
    return {"PATH": f"{path}:/usr/bin:/bin"}


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
    tap.unlike(text.out, "\x1b", f"{c.who}: no colour in a pipe")
    return data


def check_runsc(c):
    r = c("doctor", "--json", env=fake_runsc(c, "echo 'runsc version release-20240729.0'; echo 'spec: 1.1.0'"))
    got = status(r, "runsc")
    tap.ok(got["status"] == "ok" and "20240729" in got["detail"] and "systrap" in got["detail"],
           f"{c.who}: runsc's version is shown", got)
    r = c("doctor", "--json", env=fake_runsc(c, "echo 'runsc version release-20221102.1'"))
    tap.eq(status(r, "runsc")["status"], "warn", f"{c.who}: an old runsc is a warning", r)
    r = c("doctor", "--json", env=fake_runsc(c, "printf 'runsc \\033[31mred\\n'"))
    tap.ok("\x1b" not in status(r, "runsc")["detail"], f"{c.who}: what runsc prints is made harmless", r)
    start = time.monotonic()
    r = c("doctor", "--json", env=fake_runsc(c, "sleep 1000 & sleep 1000"))
    took = time.monotonic() - start
    tap.ok("seconds" in status(r, "runsc")["detail"] and took < 8 * slow_build(), f"{c.who}: a hanging runsc is ended",
           f"{took:.1f} s", r)
    r = c("doctor", "--json", env=fake_runsc(c, "exec yes"))
    tap.eq(status(r, "runsc")["status"], "warn", f"{c.who}: a runsc that floods is ended", r)


def check_bad(c):
    """A host without user namespaces: made by forbidding them in a namespace of our own."""
    script = ("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" doctor --json")
    r = c(program=["unshare", "--user", "--map-root-user", "sh", "-c", script, c.exe])
    data = json.loads(r.out)
    bad = {x["id"] for x in data["checks"] if x["status"] == "fail"}
    tap.eq((r.code, data["can_run"]), (1, False), f"{c.who}: without user namespaces it says so and exits 1", r)
    tap.ok({"userns", "userns-nested", "overlay", "proc"} <= bad, f"{c.who}: what depends on them fails", sorted(bad))
    r = c(program=["unshare", "--user", "--map-root-user", "sh", "-c", script.replace(" --json", ""), c.exe])
    tap.like(r.out, r"^  fail +user namespaces .*\n +means: .*\n +fix", f"{c.who}: and how to mend it", r)
    tap.like(r.out, r"^coffer run cannot work here: ", f"{c.who}: the last line sums up", r)


for who in identities(tap):
    with coffer_as(who) as coffer:
        check_plain(coffer)
        tap.ok(not os.path.exists(coffer.state), f"{who}: the state directory is not made by looking")
        check_runsc(coffer)
        if who == "user":
            check_bad(coffer)
        tap.eq(coffer("doctor", "now").code, 2, f"{who}: an argument is refused")
        left = [n for d in (coffer.dir, coffer.home, "/var/lib") for n in os.listdir(d) if "doctor" in n]
        tap.eq(left, [], f"{who}: no directory is left")
        coffer.check_clean(tap)
tap.done()
