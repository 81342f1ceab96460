#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer replay of what people were asked about: connections, requests, GraphQL, pushes, secrets, tools and apply, answered, denied, left
alone and withdrawn. By the policy that was in force nothing changes, and each question is counted once."""
# tests/run: timeout=1200

import base64
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import httptest as ht  # noqa: E402
from askagent import Agent, curl, end  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
POLICY = """version: 1
egress:
  allow:
    - domain: api.again.test
      http:
        - allow: GET /**
        - ask: POST /free/**
        - ask: GET /private/**
        - deny: DELETE /**
      graphql:
        - allow: query *
        - ask: mutation *
    - domain: git.again.test
      git:
        - allow: fetch o/r
        - ask: push o/r refs/heads/bot/**
    - domain: sec.again.test
      secret: {name: github, ask: true}
  ask:
    - domain: "*.later.test"
  deny:
    - domain: evil.again.test
tools:
  - allow: "list_*"
  - ask: deploy
  - deny: deploy
    when: {env: production}
apply: ask
"""
API = "https://api.again.test"
GRAPHQL = ("-H", "Content-Type: application/json", f"{API}/graphql", "-d")
PUSH = ("cd /tmp && export HOME=/tmp GIT_TERMINAL_PROMPT=0 && rm -rf r && git clone -q https://git.again.test/o/r && "
        "git -C r push -q origin HEAD:refs/heads/bot/{} 2>&1")
SECRET = ["sh", "-c", "curl -sS -m 150 -w ' %{http_code}' -H \"Authorization: Bearer $GITHUB_TOKEN\" https://sec.again.test/x"]


def replay(c, policy, *which):
    """The run's rows and sums by this policy."""
    r = c("replay", "--policy", policy, "--json", *which)
    lines = [json.loads(x) for x in r.out.splitlines()]
    return r, [x for x in lines if x["type"] != "sum"], next((x for x in lines if x["type"] == "sum"), {})


def write(c, name, text):
    path = os.path.join(c.home, name)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    c.own(path)
    return path


def has(rows, **want):
    return any(all(row.get(k) == v for k, v in want.items()) for row in rows)


def unchanged(tap, c, policy, what, *which):
    r, rows, n = replay(c, policy, *which)
    tap.ok(r.code == 0 and not rows and n["to_deny"] + n["to_ask"] + n["to_allow"] == 0, f"{c.who}: {what}: replay by the run's own policy changes nothing", r)
    text = c("replay", "--policy", policy, *which).out.strip()
    tap.like(text, r"\A\d+ decisions: nothing would change\Z", f"{c.who}: {what}: replay says that nothing would change", text)
    return n


def asked(a, argv, answer):
    """Starts it, and answers its question: approve, deny, nothing at all, or its client goes away."""
    p = a.start(argv)
    q = a.pending()
    if answer == "gone":
        p.terminate()
    elif answer != "expire":
        a.c(answer, q[0]["id"])
    got = end(p)
    wait_for(lambda: not [x for x in a.asks() if x["state"] == "pending" and x["waiters"]], 60)
    if answer == "gone":
        a.c("deny", q[0]["id"])
    return got


def record(tap, c, a):
    """Each kind of question, with each end. Returns how many questions there were."""
    tap.ok("403" in a.do(curl("-X", "DELETE", f"{API}/x")) and "200" in a.do(curl(f"{API}/g")), f"{c.who}: control: one rule denies and one allows")
    # A second path that a person would have to be asked about is refused at once.
    tap.ok("403" in a.do(curl("-H", "x-amz-copy-source: /private/1", f"{API}/g")), f"{c.who}: a second path that would need a question is refused at once")
    a.do(curl("https://evil.again.test/"))
    a.do(curl("https://nowhere.again.test/"))
    kinds = {"connection": curl("-k", "https://a.later.test/"), "request": curl("-d", "x", f"{API}/free/1"),
             "graphql": curl(*GRAPHQL, '{"query":"mutation { addComment }"}'), "secret": SECRET}
    for name, argv in kinds.items():
        tap.ok("200" in asked(a, argv, "approve"), f"{c.who}: an approved {name} goes through")
        tap.ok("200" not in asked(a, argv, "deny"), f"{c.who}: a denied {name} does not go through")
        asked(a, argv, "gone")
    p = a.start(["sh", "-c", PUSH.format(c.who)])
    q = a.pending()
    c("approve", q[0]["id"])
    tap.eq(p.wait(), 0, f"{c.who}: an approved git push succeeds", end(p))
    asked(a, ["sh", "-c", PUSH.format(f"{c.who}-gone")], "gone")
    asked(a, curl("-d", "x", f"{API}/free/2"), "expire")
    # The run ends while one waits.
    last = a.start(curl("-d", "x", f"{API}/free/3"))
    a.pending()
    return last


def questions(c, run):
    return [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == "ask.new" and e["sandbox"] == run]


def network(tap, c):
    with Agent(tap, c, POLICY, "--ask-timeout", "6s") as a:
        last = record(tap, c, a)
    end(last)
    n = unchanged(tap, c, a.policy, "the network", a.id)
    lines = [e for e in map(json.loads, c("net", "log", "--json", a.id).out.splitlines()) if e.get("act") == "also:GET:/private/1"]
    tap.ok(len(lines) == 1 and lines[0]["decision"] == "deny" and lines[0].get("said") == "ask", f"{c.who}: the log has the refused second path", lines)
    asks = questions(c, a.id)
    tap.eq(len(asks), 4 * 3 + 2 + 2, f"{c.who}: the log has every question of the run")
    # Everything that was asked is allowed, and counts once.
    free = write(c, "free.yaml", POLICY.replace("ask:", "allow:", 4).replace(", ask: true", "").replace("  ask:\n    - domain", "    - domain")
                 .replace("ask: push", "allow: push"))
    r, rows, m = replay(c, free, a.id)
    opens = sum(x["count"] for x in rows if x["kind"] == "connection" and x["was"] == "ask")
    acts = sum(x["count"] for x in rows if x["kind"] in ("request", "secret") and x["was"] == "ask" and x["now"] == "allow")
    tap.eq((m["decisions"], opens + acts), (n["decisions"], len(asks) + 1), f"{c.who}: replay counts each question as one decision", r)
    tap.ok(has(rows, was="ask", now="allow", kind="connection", host="a.later.test", count=3), f"{c.who}: replay counts a connection's question, however it ended", r)
    tap.ok(has(rows, was="ask", now="allow", method="POST", host="api.again.test", was_rule=next(
        (x["was_rule"] for x in rows if x.get("paths", [""])[:1] == ["/free/1"]), None), count=5), f"{c.who}: replay counts the questions of requests", r)
    tap.ok(not has(rows, was="deny", kind="request", now="allow") and not has(rows, type="change", was="allow"), f"{c.who}: replay changes no decision without a question", r)
    strict = write(c, "strict.yaml", POLICY.replace("ask: POST /free/**", "deny: POST /free/**").replace("ask: mutation *", "deny: mutation *")
                   .replace("ask: push", "deny: push").replace("domain: \"*.later.test\"", "domain: other.test"))
    r, rows, m = replay(c, strict, a.id)
    tap.ok(has(rows, was="ask", now="deny", kind="connection", host="a.later.test") and
           has(rows, was="ask", now="deny", paths=["/graphql"], count=3) and has(rows, was="ask", now="deny", host="git.again.test", count=2),
           f"{c.who}: replay by a stricter policy denies questions of each kind", r)


def granted(tap, c):
    """A grant beyond the policy is no change either."""
    policy = write(c, "narrow.yaml", "version: 1\nallow:\n  - api.again.test\ndeny:\n  - evil.again.test\n")
    with Agent(tap, c, None, "--policy", policy) as a:
        p = a.start(curl("-d", json.dumps({"rule": "new.later.test", "reason": "a test", "wait": 100}), "http://coffer.internal/v1/access"))
        c("approve", "--sandbox", a.pending()[0]["id"])
        end(p)
        tap.ok("200" in a.do(curl("-k", "https://new.later.test/")), f"{c.who}: a granted host is reached")
    unchanged(tap, c, policy, "a grant", a.id)
    r, rows, _ = replay(c, write(c, "never.yaml", "version: 1\nallow:\n  - api.again.test\ndeny:\n  - '*.later.test'\n"), a.id)
    tap.ok(r.code == 1 and has(rows, was="allow", now="deny", kind="connection", host="new.later.test"), f"{c.who}: replay by a policy that denies a granted host shows the change", r)


def observed(tap, c):
    policy = write(c, "observe.yaml", "version: 1\nmode: observe\nask:\n  - '*.later.test'\ndeny:\n  - evil.again.test\n")
    c("run", "--engine", c.engine, "--ask-timeout", "2s", "--policy", policy, "--", "sh", "-c",
      "curl -sk https://api.again.test/; curl -sk https://evil.again.test/; curl -sk https://a.later.test/; true", timeout=120)
    unchanged(tap, c, policy, "observe", "@last")


def tools(tap, c):
    policy = os.path.join(c.home, "policy.yaml")

    def call(name, args="{}"):
        return c.popen("call", "--engine", c.engine, "--ask-timeout", "3s", "--policy", policy, "--tool", name, "--args", args, "--", "true")

    since = c(program=["date", "-u", "+%Y-%m-%dT%H:%M:%S.%NZ"]).out.strip()[:26] + "Z"
    for name, args in (("list_a", "{}"), ("deploy", '{"env":"test"}'), ("deploy", '{"env":"production"}'), ("other", "{}")):
        end(call(name, args))
    n = unchanged(tap, c, policy, "tools", "--since", since)
    calls = [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == "tool.call"]
    tap.eq([e["decision"] for e in calls], ["allow", "ask", "deny", "deny"], f"{c.who}: control: four tool calls are logged with their decisions", calls)
    tap.ok(n["decisions"] >= 4, f"{c.who}: replay counts the tool calls", n)
    new = write(c, "tools.yaml", POLICY.replace('allow: "list_*"', 'ask: "list_*"').replace("ask: deploy", "allow: other"))
    r, rows, _ = replay(c, new, "--since", since)
    tap.ok(r.code == 1 and has(rows, kind="tool", tool="list_a", was="allow", now="ask", count=1) and
           has(rows, kind="tool", tool="other", was="deny", now="allow") and has(rows, kind="tool", tool="deploy", was="ask", now="deny"),
           f"{c.who}: replay by another policy shows changed tool calls", r)
    new = write(c, "tools2.yaml", POLICY.replace("{env: production}", "{env: test}"))
    r, rows, _ = replay(c, new, "--since", since)
    tap.ok(r.code == 0 and has(rows, type="unknown", kind="tool", tool="deploy"), f"{c.who}: replay reports a call whose arguments would decide as unknown", r)
    text = c("replay", "--policy", os.path.join(c.home, "tools.yaml"), "--since", since).out
    tap.like(text, r"allow -> ask\s+1\s+tool list_a\s+ask: list_\* \(\S+/tools\.yaml:\d+\)", f"{c.who}: replay prints a changed tool call with its rule", text)


def applied(tap, c):
    policy = os.path.join(c.home, "policy.yaml")
    c("run", "--engine", c.engine, "--policy", policy, "--", "sh", "-c", "echo x > made", timeout=120)
    run = json.loads(c("audit", "--json", "--type", "run.start").out.splitlines()[-1])["sandbox"]
    p = c.popen("apply", "--ask-timeout", "2s", run)
    end(p)
    p = c.popen("apply", run)
    waits = []
    wait_for(lambda: waits.extend(a for a in map(json.loads, c("ask", "ls", "--json").out.splitlines()) if a["state"] == "pending") or waits, 60)
    c("approve", waits[0]["id"])
    got = end(p)
    tap.ok("made" in os.listdir(c.work), f"{c.who}: an approved apply writes the file", got)
    os.unlink(os.path.join(c.work, "made"))
    unchanged(tap, c, policy, "apply", run)
    r, rows, _ = replay(c, write(c, "apply.yaml", POLICY.replace("apply: ask", "apply: deny")), run)
    tap.ok(r.code == 1 and has(rows, kind="apply", was="ask", now="deny", count=2), f"{c.who}: replay shows both applies as denied", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("replay of what was asked", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="replay-")
    os.chmod(base, 0o755)
    git = os.path.join(base, "git")
    ht.git_repo(git, "r")
    server = None
    try:
        with Internet() as net:
            for name in ("api.again.test", "sec.again.test", "a.later.test", "new.later.test", "evil.again.test"):
                net.https(name, lambda q: "{}")
            net.dns["git.again.test"] = net.address()
            server = ht.git_server(git, net.cert("git.again.test"), (net.dns["git.again.test"], 443), net.inet.do)
            for who, whole in covering(tap, ("ns",)):
                with net.coffer(who) as c:
                    r = c("secret", "set", "github", "-", "--host", "sec.again.test", "--as", "bearer", input=TOKEN)
                    tap.eq(r.code, 0, f"{who}: a secret is put into the vault", r)
                    network(tap, c)
                    if whole:  # a replay reads the log, and starts nothing
                        granted(tap, c)
                        observed(tap, c)
                        tools(tap, c)
                        applied(tap, c)
                    c("gateway", "stop")
                    c.check_clean(tap)
    finally:
        if server:
            server.close()
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
