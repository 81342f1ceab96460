#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer replay: a real run with requests, GraphQL, a clone and pushes is recorded under one policy and decided again by others;
then a log of 100 000 decisions."""
# tests/run: timeout=1200

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import httptest as ht  # noqa: E402
import replaylog  # noqa: E402
from coffertest import Coffer, Tap, covering, plain_identities  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

OLD = """version: 1
egress:
  allow:
    - domain: api.example.test
      port: 443
      http:
        - allow: "* /**"
      graphql:
        - allow: query *
        - allow: mutation addComment
    - domain: git.example.test
      port: 443
      git:
        - allow: fetch o/r
        - allow: push o/r refs/heads/bot/** create,update,force
    - domain: peeked.example.test
      port: 443
"""

SCRIPT = r"""
c() { curl -sS -m 60 -o /dev/null "$@" 2>&1; }
c https://api.example.test/repos/1; c https://api.example.test/repos/2?token=hush
c -X DELETE https://api.example.test/repos/3
c https://api.example.test/graphql -H 'Content-Type: application/json' -d '{"query":"{ viewer { login } }"}'
c https://api.example.test/graphql -H 'Content-Type: application/json' -d '{"query":"mutation { addComment }"}'
c https://api.example.test/graphql -H 'Content-Type: application/json' -d '{"query":"mutation { mergePullRequest }"}'
c -k https://peeked.example.test/; c https://other.example.test/
cd /tmp && export HOME=/tmp GIT_TERMINAL_PROMPT=0
git clone -q https://git.example.test/o/r 2>&1
git -C r push -q origin HEAD:refs/heads/bot/BRANCH 2>&1
git -C r push -q origin HEAD:refs/heads/other 2>&1
true
"""


def change(text, *pairs):
    for a, b in pairs:
        assert a in text, a
        text = text.replace(a, b)
    return text


def replay(c, policy, *more):
    """Exit code, rows and sums."""
    path = os.path.join(c.home, "new.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(policy)
    c.own(path)
    r = c("replay", "--policy", path, "--json", *(more or ["@last"]))
    lines = [json.loads(x) for x in r.out.splitlines()]
    return r, [x for x in lines if x["type"] != "sum"], next((x for x in lines if x["type"] == "sum"), {})


def has(rows, **want):
    return any(all(row.get(k) == v for k, v in want.items()) for row in rows)


def recorded(tap, c):
    who = c.who
    path = os.path.join(c.home, "old.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(OLD)
    c.own(path)
    r = c("run", "--engine", c.engine, "--policy", path, "--", "sh", "-c", SCRIPT.replace("BRANCH", f"{who}"), timeout=300)
    tap.eq(r.code, 0, f"{who}: control: the recorded run exits with 0", r)
    log = [json.loads(x) for x in c("net", "log", "--json", "@last").out.splitlines()]
    acts = {e["act"] for e in log if e.get("act")}
    tap.ok({"query:viewer", "mutation:addComment", "mutation:mergePullRequest", "refs:fetch", "refs:push"} <= acts,
           f"{who}: the log has GraphQL operations and git services", acts)
    tap.ok(any(a.startswith("create:refs/heads/bot/") for a in acts) and "create:refs/heads/other" in acts,
           f"{who}: the log has the refs of pushes", acts)
    tap.unlike(json.dumps(log), "hush", f"{who}: the log has no value of a query")
    return r


def same(tap, c):
    r, rows, n = replay(c, OLD)
    tap.ok(r.code == 0 and not rows, f"{c.who}: replay by the run's own policy changes nothing", r)
    tap.ok(n.get("decisions", 0) > 15 and n["same"] > 15, f"{c.who}: replay counts the decisions that stay the same", r)


def other(tap, c):
    who = c.who
    r, rows, _ = replay(c, change(OLD, ('"* /**"\n', '"* /**"\n        - ask: DELETE /**\n'),
                                  ("mutation addComment", "mutation mergePullRequest"), ("bot/**", "other"),
                                  ("peeked.example", "other.example")))
    tap.eq(r.code, 1, f"{who}: replay by another policy exits with 1", r)
    tap.ok(has(rows, was="allow", now="ask", method="DELETE", host="api.example.test", port=443), f"{who}: replay shows a request that would be asked about", r)
    tap.ok(has(rows, was="allow", now="deny", method="POST", paths=["/graphql"]), f"{who}: replay shows a mutation that would be denied", r)
    tap.ok(has(rows, was="deny", now="allow", method="POST", paths=["/graphql"]), f"{who}: replay shows a mutation that would be allowed", r)
    tap.ok(has(rows, was="allow", now="deny", method="POST", host="git.example.test"), f"{who}: replay shows a push that would be denied", r)
    tap.ok(has(rows, was="deny", now="allow", method="POST", host="git.example.test"), f"{who}: replay shows a push that would be allowed", r)
    tap.ok(has(rows, was="allow", now="deny", kind="connection", host="peeked.example.test"), f"{who}: replay shows a connection that would be denied", r)
    tap.ok(has(rows, was="deny", now="allow", kind="lookup", host="other.example.test"), f"{who}: replay shows a lookup that would be allowed", r)
    tap.ok(not has(rows, method="GET", host="api.example.test"), f"{who}: replay shows no row for an unchanged request", r)
    tap.ok(any("new.yaml:" in row["rule"] for row in rows), f"{who}: replay names rules with their lines", r)


def untold(tap, c):
    """A question that the log cannot answer is not answered."""
    who = c.who
    r, rows, n = replay(c, change(OLD, ("    - domain: peeked.example.test\n      port: 443\n",
                                        "    - domain: peeked.example.test\n      port: 443\n      http: [{allow: GET /x}]\n")))
    tap.ok(r.code == 0 and n["unknown"] >= 1 and has(rows, type="unknown", host="peeked.example.test", now=None),
           f"{who}: replay reports requests that were not inspected as unknown", r)
    r = c("replay", "--policy", os.path.join(c.home, "new.yaml"), "@last")
    tap.like(r.out, r"allow -> \?\s+\d+\s+peeked\.example\.test:443\s+the rule decides by request", f"{who}: replay prints why a decision is unknown", r)
    plain = "version: 1\nallow:\n- domain: api.example.test\n- domain: git.example.test\n"
    path = os.path.join(c.home, "plain.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(plain + "  depth: inspect\n")
    c.own(path)
    c("run", "--engine", c.engine, "--policy", path, "--", "sh", "-c",
      "curl -sS -m 60 https://git.example.test/o/r.git/git-receive-pack -d 0000 -o /dev/null", timeout=300)
    r, rows, _ = replay(c, OLD)
    tap.ok(has(rows, type="unknown", host="git.example.test", why="the refs of the push are not in the log"),
           f"{who}: replay reports refs that are not in the log as unknown", r)


def many_runs(tap, c):
    who = c.who
    ids = [json.loads(x)["sandbox"] for x in c("audit", "--json").out.splitlines() if '"run.start"' in x]
    _, _, one = replay(c, OLD, ids[0])
    _, _, two = replay(c, OLD, ids[1])
    _, _, both = replay(c, OLD, *ids[:2])
    _, _, since = replay(c, OLD, "--since", "1d")
    tap.eq(both["decisions"], one["decisions"] + two["decisions"], f"{who}: replay of two runs counts the decisions of both", one, two)
    tap.eq(since["decisions"], both["decisions"], f"{who}: replay --since counts the decisions of all runs", since)
    _, _, none = replay(c, OLD, "--since", "2099-01-01")
    tap.eq(none["decisions"], 0, f"{who}: replay --since a future date counts nothing")


def bad_input(tap, c):
    new = os.path.join(c.home, "new.yaml")
    bad = os.path.join(c.home, "bad.yaml")
    with open(bad, "w", encoding="ascii") as f:
        f.write("version: 1\nalow: []\n")
    c.own(bad)
    for args, code, words in ((("replay",), 2, "--policy"), (("replay", "--policy", new), 2, "needs a run"),
                              (("replay", "@last"), 2, "--policy"), (("replay", "@last", "--policy", bad), 2, "bad.yaml:2:1"),
                              (("replay", "@last", "--policy", "/nonexistent"), 2, "/nonexistent"),
                              (("replay", "no-such", "--policy", new), 125, "no-such"),
                              (("replay", "@last", "--policy", new, "--since", "nonsense"), 2, "time")):
        r = c(*args)
        tap.ok(r.code == code and words in r.err, f"coffer {' '.join(args)[:40]}: {code}, with {words!r}", r)


def large(tap):
    """100 000 decisions that no sandbox had to make."""
    n = 100000
    for who in plain_identities(tap):
        with Coffer(who) as c:
            os.makedirs(c.state, 0o700)
            replaylog.write(c.state, n)
            for path in (c.state, os.path.join(c.state, "audit"), os.path.join(c.state, "audit/log.jsonl")):
                c.own(path)
            new = "version: 1\nallow:\n- domain: '*.example.test'\n  http:\n  - allow: '* /**'\n  - deny: DELETE /**\n"
            r, rows, sums = replay(c, new, replaylog.RUN)
            tap.note(f"{who}: {n} decisions in {r.seconds:.2f} s")
            tap.ok(r.code == 1 and sums["decisions"] == n and sums["to_deny"] == n // 100 and sums["unknown"] == 0,
                   f"{who}: replay counts each of {n} decisions", r.err, sums)
            # i % 100 == 55 meets i % 50 == 5 alone.
            tap.ok(len(rows) == 1 and rows[0]["count"] == n // 100 and len(rows[0]["paths"]) == 3 and rows[0]["more"],
                   f"{who}: replay folds equal decisions into one row", rows)
            # A prefix of an id that nobody has: the log remembers what is gone, or has nothing.
            r, _, sums = replay(c, new, "feed")
            tap.ok(r.code == 0 and sums["decisions"] == 0, f"{who}: replay of an unknown run counts nothing", r)
        break


def main():
    tap = Tap()
    large(tap)
    reason = why_not()
    if reason:
        tap.skip("replay of real runs", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="replay-")
    os.chmod(base, 0o755)
    git = os.path.join(base, "git")
    ht.git_repo(git, "r", "other")
    procs = []
    try:
        with Internet() as net:
            net.https("api.example.test", lambda q: "{}")
            net.https("peeked.example.test")
            net.https("other.example.test")
            net.dns["git.example.test"] = net.address()
            procs.append(ht.git_server(git, net.cert("git.example.test"), (net.dns["git.example.test"], 443), net.inet.do))
            for who, whole in covering(tap, ("ns",)):
                with net.coffer(who) as c:
                    recorded(tap, c)
                    same(tap, c)
                    if whole:  # a replay reads the log, and starts nothing
                        other(tap, c)
                        untold(tap, c)
                        many_runs(tap, c)
                    if who == "user":
                        bad_input(tap, c)
                    c.check_clean(tap)
    finally:
        for p in procs:
            p.close()
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
