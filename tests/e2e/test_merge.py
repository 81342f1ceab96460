#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1800
"""The whole story: an agent wants to merge a pull request, over REST and over GraphQL. It waits, is allowed by a person on a phone,
merges once, and is asked again the second time; the log tells somebody who was not there, and verifies."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from browser import Browser  # noqa: E402
from coffertest import Tap, free_port, identities  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.github.test
      port: 443
      http:
        - allow: GET /**
        - ask: PUT /repos/*/*/pulls/*/merge
      graphql:
        - allow: query *
        - ask: mutation mergePullRequest
"""
SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
AGENT = r'''
import json, sys, urllib.error, urllib.request

API = "https://api.github.test"
SHA = json.load(urllib.request.urlopen(API + "/repos/o/r/pulls/7"))["head"]["sha"]


def call(name, method, path, body):
    q = urllib.request.Request(API + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(q, timeout=300) as r:
            print(name, r.status, r.read().decode(), flush=True)
    except urllib.error.HTTPError as e:
        print(name, e.code, e.read().decode(), flush=True)


def rest(name):
    call(name, "PUT", "/repos/o/r/pulls/7/merge", {"sha": SHA, "merge_method": "squash"})


def graphql(name):
    call(name, "POST", "/graphql", {"query": "mutation M($i: MergePullRequestInput!) { mergePullRequest(input: $i) { clientMutationId } }",
                                    "variables": {"i": {"pullRequestId": "PR_7", "expectedHeadOid": SHA}}})


rest("rest-1")
rest("rest-2")
graphql("graphql-1")
graphql("graphql-2")
'''


class Hub:
    """As much of GitHub as an agent needs that merges."""

    def __init__(self):
        self.merged = []

    def __call__(self, q):
        kind = {"Content-Type": "application/json"}
        if q.method == "GET":
            return 200, kind, json.dumps({"number": 7, "state": "open", "head": {"sha": SHA}})
        body = json.loads(q.body)
        if q.path == "/graphql":
            self.merged.append(("graphql", body["variables"]["i"]["expectedHeadOid"]))
            return 200, kind, json.dumps({"data": {"mergePullRequest": {"clientMutationId": None}}})
        if q.method == "PUT" and q.path == "/repos/o/r/pulls/7/merge":
            self.merged.append(("rest", body["sha"]))
            return 200, kind, json.dumps({"merged": True, "sha": SHA})
        return 404, kind, "{}"


def asks(c):
    return [json.loads(x) for x in c("ask", "ls", "--json").out.splitlines()]


def next_ask(tap, c, b, n, what):
    """The nth question: on the page, and as the command line has it."""
    b.until(f"document.querySelectorAll('.card.ask').length === {n} && document.querySelectorAll('.card.ask:not(.done)').length === 1")
    ask = asks(c)[0]
    b.click(".card.ask:not(.done) .digests summary")
    text = b.text(".card.ask:not(.done)")
    tap.ok("agent wants to" in text and what in text and SHA in text and ask["digest"] in text and "api.github.test" in text, f"question {n} shows sandbox, request, body and digest", text)
    return ask


def allow(tap, b):
    b.tap(".card.ask:not(.done) button.allow")
    b.wait(".card.ask form button[type=submit]")
    tap.eq(b.text(".card.ask form button[type=submit]"), "Allow once", "the form's button says Allow once")
    b.tap(".card.ask form button[type=submit]")
    b.wait(".card.ask form", "detached")


def deny(b, why):
    b.tap(".card.ask:not(.done) button.deny")
    b.fill(".card.ask form input[name=reason]", why)
    b.tap(".card.ask form button[type=submit]")
    b.wait(".card.ask form", "detached")


def answer(tap, c, b, hub):
    """The acts of the person on the phone, and the state at each moment."""
    run = next_ask(tap, c, b, 1, "PUT")["sandbox"]
    tap.eq(hub.merged, [], "nothing is merged while the question waits")
    allow(tap, b)
    next_ask(tap, c, b, 2, "PUT")
    tap.eq(hub.merged, [("rest", SHA)], "an allowed merge is done once, and the second one asks again")
    deny(b, "it is merged already")
    next_ask(tap, c, b, 3, "mutation mergePullRequest")
    tap.eq(hub.merged, [("rest", SHA)], "a merge by GraphQL waits")
    allow(tap, b)
    next_ask(tap, c, b, 4, "mutation mergePullRequest")
    tap.eq(hub.merged, [("rest", SHA), ("graphql", SHA)], "an allowed merge by GraphQL is done once, and the second one asks again")
    deny(b, "that one, too")
    b.until("document.querySelectorAll('.card.ask.done').length === 4")
    return run


def check_agent(tap, out, hub):
    lines = {x.split(" ", 1)[0]: x for x in out.splitlines() if " " in x}
    tap.ok(lines.get("rest-1", "").startswith("rest-1 200") and lines.get("graphql-1", "").startswith("graphql-1 200"), "the agent's first merge of each kind gets a 200", out)
    tap.ok("403" in lines.get("rest-2", "") and "it is merged already" in lines.get("rest-2", "") and "that one, too" in lines.get("graphql-2", ""),
           "the agent's second merge of each kind gets a 403 with the reason", out)
    tap.eq(hub.merged, [("rest", SHA), ("graphql", SHA)], "the server merged once each")


def check_log(tap, c, run):
    log = [json.loads(x) for x in c("audit", "--json", "--sandbox", run).out.splitlines()]
    story = [(e["type"], e.get("answer"), e.get("via")) for e in log if e["type"] in ("ask.new", "ask.answer", "ask.use")]
    once = [("ask.new", None, None), ("ask.answer", "allow", "page"), ("ask.use", None, None), ("ask.new", None, None), ("ask.answer", "deny", "page")]
    tap.eq(story, once * 2, "the log has questions, answers and uses in order")
    first, last = log[0], log[-1]
    tap.ok(first["type"] == "run.start" and last["type"] == "run.end", "the log of the sandbox has run.start first and run.end last", first, last)
    said = [e for e in log if e["type"] == "ask.answer"]
    tap.ok(all(e["who"] == "ann" for e in said) and said[1]["reason"] == "it is merged already", "the log has the approver and the reason", said)
    tap.eq(c("audit", "verify").code, 0, "the log verifies")


def check_page(tap, b, run):
    """The page that somebody reads who was not there."""
    b.go(f"#/run/{run}")
    b.until("[...document.querySelectorAll('.timeline .entry')].some((e) => e.textContent.includes('Ended ('))")
    told = b.js("[...document.querySelectorAll('.timeline > .entry > .told')].map((e) => e.textContent)")
    wanted = ["Started:", "Asks a person to allow a request: PUT", "Allowed once by ann, on the page", "The approval was used", "Asks a person to allow a request: PUT",
              "Denied by ann, on the page: it is merged already", "Asks a person to allow a GraphQL operation", "Allowed once by ann, on the page", "The approval was used",
              "Asks a person to allow a GraphQL operation", "Denied by ann, on the page: that one, too", "Ended ("]
    at = 0
    for line in told:
        at += at < len(wanted) and line.startswith(wanted[at])
    tap.ok(at == len(wanted), "the timeline on the page tells the story in order", wanted[at:at + 1], *told)
    b.go("#/audit")
    tap.ok(b.holds("document.querySelector('.verify .note').textContent.startsWith('Whole.')"), "the page says that the log is whole")


def visit(tap, c, net, hub):
    port, policy = free_port(), os.path.join(c.home, "policy.yaml")
    with open(policy, "w", encoding="utf-8") as f:
        f.write(POLICY)
    c.own(policy)
    c.write("agent.py", AGENT)
    tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}").code, 0, "the gateway listens")
    with Browser(c) as b:
        b.open(c("ui", "--role", "approver", "--name", "ann").out.strip(), width=360, height=740, touch=True)
        b.wait("#nav a")
        p = c.popen("run", "--name", "agent", "--policy", policy, "--", "python3", "agent.py")
        run = answer(tap, c, b, hub)
        out, err = p.communicate(timeout=300)
        tap.eq(p.returncode, 0, "the agent exits with 0", out, err)
        check_agent(tap, out.decode(), hub)
        wait_for(lambda: '"run.end"' in c("audit", "--json", "--sandbox", run).out, 60)
        check_log(tap, c, run)
        check_page(tap, b, run)
        seen = b.do("seen")
        tap.eq(([u for u in seen["requests"] if not u.startswith(f"http://127.0.0.1:{port}/")], seen["violations"], seen["errors"]), ([], [], []),
               "the browser sent requests to no other host and broke no policy")
    c("gateway", "stop")
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("a merge", reason)
        tap.done()
    with Internet() as net:
        hub = Hub()
        net.https("api.github.test", hub)
        with net.coffer(identities(tap)[0]) as c:
            visit(tap, c, net, hub)
    tap.done()


main()
