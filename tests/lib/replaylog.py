# SPDX-License-Identifier: Apache-2.0
"""An audit log of many decisions, written by hand: for the test of coffer replay and for bench/replay."""

import json
import os

RUN = "0123456789ab"
RULE = "allow api.example.test:443 (old.yaml:4)"


def events(n):
    """n decisions: a tenth lookups, a tenth connections, the rest requests of which one in ten deletes something."""
    for i in range(n):
        host = f"h{i % 50}.example.test"
        if i % 10 == 0:
            yield "net.dns", {"name": host, "qtype": "A", "decision": "allow", "rule": RULE}
        elif i % 10 == 1:
            yield "net.open", {"c": i, "name": host, "port": 443, "depth": "inspect", "decision": "allow", "rule": RULE}
        else:
            yield "net.request", {"c": i, "r": i, "method": "DELETE" if i % 100 == 55 else "GET",
                                  "path": f"/repos/o{i % 997}/r/issues/{i}?page=#01234567", "host": host, "port": 443,
                                  "decision": "allow", "rule": RULE}


def line(seq, kind, fields, run=RUN, time="2026-01-02T03:04:05.000000Z"):
    members = json.dumps({"t": 1700000000000000000 + seq, **fields}, separators=(",", ":"))[1:-1]
    return (f'{{"seq":{seq},"time":"{time}","boot":{seq},"boot_id":"01234567-89ab-cdef-0123-456789abcdef","type":"{kind}","sandbox":"{run}",{members},'
            f'"prev":"{"0" * 64}"}}\n')


def write(state, n, run=RUN):
    """The log of a state directory that has no other. Its chain does not verify, and nobody asks that of it here."""
    audit = os.path.join(state, "audit")
    os.makedirs(audit, 0o700, exist_ok=True)
    path = os.path.join(audit, "log.jsonl")
    with open(path, "w", encoding="ascii") as f:
        for seq, (kind, fields) in enumerate(events(n), 1):
            f.write(line(seq, kind, fields, run))
    os.chmod(path, 0o600)
    return path


def append(state, n, time, run=RUN):
    """Behind what a log has, as somebody would who forges it: it is read, and does not verify."""
    path = os.path.join(state, "audit", "log.jsonl")
    with open(path, "r+", encoding="ascii") as f:
        last = json.loads(f.read().splitlines()[-1])["seq"]
        f.writelines(line(seq, kind, fields, run, time) for seq, (kind, fields) in enumerate(events(n), last + 1))
