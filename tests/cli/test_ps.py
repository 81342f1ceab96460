#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer ps and coffer rm: what is listed, what is removed, what is refused."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities  # noqa: E402

tap = Tap()
HEAD = r"^ID +NAME +ENGINE +ROOT +STATUS +STARTED +CHANGES +COMMAND\n"


def check_empty(c):
    tap.like(c("ps").out, HEAD + "$", f"{c.who}: an empty list has its heads")
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: no ids")
    tap.eq(json.loads(c("ps", "-a", "--json").out), [], f"{c.who}: an empty array")
    r = c("run", "-q", "--", "true")
    tap.eq((r.code, c("ps", "-aq").out), (0, ""), f"{c.who}: a run that changed nothing leaves nothing", r)
    tap.eq(c("ps", "x").code, 2, f"{c.who}: ps takes no arguments")


def check_ended(c):
    r = c("run", "-q", "--", "sh", "-c", "echo hi > made; exit 3 # \x1b[31m\x07")
    tap.eq(r.code, 3, f"{c.who}: a run with a change", r)
    runs = json.loads(c("ps", "-a", "--json").out)
    tap.ok(len(runs) == 1 and runs[0]["status"] == "ended" and runs[0]["exit"] == 3 and runs[0]["changes"] == 1 and
           runs[0]["workspace"] == c.work, f"{c.who}: is listed with its end", runs)
    run_id = runs[0]["id"]
    text = c("ps", "-a")
    tap.like(text.out, HEAD + rf"{run_id} +- +{c.engine} +host +exited 3, \d+ s ago +\d+ s ago +1 +sh -c", f"{c.who}: and shown", text)
    tap.unlike(text.out + c("ps", "-a", "--no-trunc").out, "\x1b|\x07", f"{c.who}: without what it tried to draw")
    tap.eq(c("ps", "-q").out, "", f"{c.who}: but not among those that run")
    tap.eq(c("ps", "-aq").out, run_id + "\n", f"{c.who}: -q gives the id")
    tap.eq(c("rm", run_id[:4]).code, 0, f"{c.who}: a short id is enough to remove it")
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: and it is gone")
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{c.who}: with its layers")
    events = [json.loads(l) for l in c("audit", "--json").out.splitlines()]
    tap.ok(any(e["type"] == "run.rm" and e["sandbox"] == run_id for e in events), f"{c.who}: the log knows", events[-3:])


def check_alive(c):
    r = c("run", "-d", "--name", "web", "--", "sleep", "1000")
    run_id = r.out.strip()
    tap.ok(r.code == 0 and len(run_id) == 12, f"{c.who}: one that runs", r)
    text = c("ps")
    tap.like(text.out, HEAD + rf"{run_id} +web +{c.engine} +host +running \d+ s +\d+ s ago +- +sleep 1000\n$", f"{c.who}: is listed", text)
    r = c("rm", "web")
    tap.ok(r.code == 125 and "still running" in r.err and "coffer stop" in r.err, f"{c.who}: and not removed", r)
    tap.eq(c("ps", "-q").out, run_id + "\n", f"{c.who}: it still runs")
    r = c("rm", "-f", "web")
    tap.eq((r.code, r.err), (0, ""), f"{c.who}: but with -f it is", r)
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: gone")


def check_refused(c):
    r = c("rm")
    tap.ok(r.code == 2 and "usage: coffer rm" in r.err, f"{c.who}: rm wants a name", r)
    r = c("rm", "nosuch")
    tap.ok(r.code == 125 and "nosuch" in r.err, f"{c.who}: one that is not there is an error", r)
    tap.eq(c("rm", "-f", "nosuch").code, 0, f"{c.who}: but not with -f")
    for bad in ("../../etc", "", "a/b", "."):
        r = c("rm", bad)
        tap.ok(r.code in (2, 125) and os.path.isdir(c.state), f"{c.who}: {bad!r} is no name", r)


for who in identities(tap, ENGINES):
    with coffer_as(who) as coffer:
        check_empty(coffer)
        check_ended(coffer)
        check_alive(coffer)
        check_refused(coffer)
        coffer.check_clean(tap)
tap.done()
