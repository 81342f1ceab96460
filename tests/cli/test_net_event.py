#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer net log, metrics and learn over a log that is written by hand, so that each kind of line is in it."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as  # noqa: E402

SANDBOX = "0123456789ab"
EVENTS = (("run.start", {"net": "observe"}),
          ("net.dns", {"name": "a.test", "qtype": "A", "decision": "allow", "count": 4}),
          ("net.dns", {"name": "*", "decision": "deny", "count": 7}),
          ("net.open", {"c": 1, "name": "a.test", "port": 443, "depth": "peek", "decision": "allow"}),
          ("net.open", {"name": "b.test", "port": 443, "decision": "deny", "why": "no rule", "count": 2}),
          ("net.folded", {"ev": "open", "name": "b.test", "port": 443, "decision": "deny", "count": 10}),
          ("net.request", {"c": 1, "method": "GET", "host": "a.test", "port": 443, "path": "/", "decision": "allow", "count": 1}),
          ("net.secret", {"c": 1, "r": 1, "secret": "key", "host": "a.test", "port": 443}),
          ("net.close", {"c": 1, "name": "a.test", "port": 443, "up": 10, "down": 20, "ms": 5}))


def write_log(c):
    """The lines as src/audit/line.h describes them. Only `coffer audit verify` would notice that they are no chain."""
    path = os.path.join(c.state, "audit")
    tap.eq(c("ps").code, 0, "there is a state directory")
    os.makedirs(path, 0o700, exist_ok=True)
    with open(os.path.join(path, "log.jsonl"), "w", encoding="ascii") as f:
        for seq, (kind, fields) in enumerate(EVENTS, 1):
            body = json.dumps(fields, separators=(",", ":"))[1:-1]
            f.write('{"seq":%d,"time":"2026-01-31T12:00:%02d.000000Z","boot":%d,"boot_id":"%s","type":"%s","sandbox":"%s",%s,"prev":"%s"}\n'
                    % (seq, seq, seq, "00000000-0000-0000-0000-000000000000", kind, SANDBOX, body, "0" * 64))
    for top, _, files in os.walk(path):
        c.own(top)
        for name in files:
            c.own(os.path.join(top, name))


def check_types(c):
    r = c("net", "log", "--json", SANDBOX)
    kinds = [json.loads(line)["type"] for line in r.out.splitlines()]
    tap.eq(kinds, [k for k, _ in EVENTS if k.startswith("net.")], "net log --json has the type of each event", r)


def check_counts(c):
    r = c("net", "metrics")
    for line in ('lookups_total{decision="allow"} 5', 'lookups_total{decision="deny"} 7', 'connections_total{decision="allow"} 1',
                 'connections_total{decision="deny"} 13', 'requests_total{decision="allow"} 2', 'bytes_total{direction="up"} 10'):
        tap.ok("coffer_net_" + line + "\n" in r.out, f"net metrics counts what a line stands for: {line}", r)


# A write beyond the limit fails with EFBIG, without the signal that comes by default.
LIMITED = ("import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
           "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); os.execv(sys.argv[1], sys.argv[1:])")


def check_half_a_policy(c):
    path = os.path.join(c.tmp, "learned.yaml")
    r = c(program=[sys.executable, "-c", LIMITED, c.exe, "net", "learn", SANDBOX, "-o", path])
    tap.ok(r.code == 125 and "cannot write" in r.err and not os.path.exists(path), "net learn leaves no half-written policy", r)
    r = c("net", "learn", SANDBOX, "-o", path)
    tap.ok(r.code == 0 and os.path.exists(path), "net learn writes the policy when there is room", r)


tap = Tap()
with coffer_as("root" if os.getuid() == 0 else "user") as coffer:
    write_log(coffer)
    check_types(coffer)
    check_counts(coffer)
    check_half_a_policy(coffer)
tap.done()
