#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When each secret was used last, as the API says it: found in the log, of which only the newest part is searched."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import replaylog  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402

tap = Tap()
LOOK_BACK = 20000
TOKEN = "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"


def use(name):
    return "secret.use", {"secret": name, "host": f"{name}.example.com", "port": 443, "method": "GET"}


def write_log(c, *events):
    audit = os.path.join(c.state, "audit")
    path = os.path.join(audit, "log.jsonl")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(replaylog.line(i, kind, fields) for i, (kind, fields) in enumerate(events, 1))


def view(c):
    r = c("web-work", "secrets")
    got = json.loads(r.out)
    return got["searched_all"], {s["name"]: s["used"]["host"] if s["used"] else None for s in got["items"]}


def check(c, who):
    for name in ("early", "late"):
        r = c("secret", "set", name, "-", "--host", f"{name}.example.com", input=TOKEN + name + "\n")
        tap.eq(r.code, 0, f"{who}: the secret {name} is put into the vault", r)
    many = list(replaylog.events(LOOK_BACK + 1000))
    write_log(c, use("early"), *many[:1000], use("late"))
    tap.eq(view(c), (True, {"early": "early.example.com", "late": "late.example.com"}), f"{who}: the last use of each secret is found in a short log")
    write_log(c, use("early"), *many, use("late"))
    tap.eq(view(c), (False, {"early": None, "late": "late.example.com"}),
           f"{who}: only the newest part of a long log is searched, and the answer says so")
    write_log(c, *many, use("late"), use("early"))
    tap.eq(view(c), (True, {"early": "early.example.com", "late": "late.example.com"}),
           f"{who}: the answer is complete when each secret has a use in the newest part")


with coffer_as(next(iter(identities(tap)))) as c0:
    check(c0, "secrets")
tap.done()
