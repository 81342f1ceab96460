#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=900
"""The API's answers about a sandbox's policy: rules that a person granted on top, acts that depend on a body, tools and apply; and tools that
a client asks about."""

import json
import os
import sys
import urllib.parse

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from askagent import Agent, curl, end  # noqa: E402
from coffertest import ROOT, Tap, identities  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from webtest import send  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.github.test
      http:
        - allow: GET /**
      graphql:
        - allow: query *
        - ask: mutation mergePullRequest
      git:
        - allow: push /o/r refs/heads/bot/*
  deny:
    - domain: evil.test
tools:
  - deny: "rm_*"
  - ask: deploy
    when: {env: production}
  - allow: "*"
apply: ask
"""
with open(os.path.join(ROOT, "doc", "openapi.yaml"), encoding="utf-8") as f:
    API = yaml.safe_load(f)


class Client:
    """A client that asks the API about one sandbox, as its owner or with a token; each answer is as it is described."""

    def __init__(self, tap, c, box):
        self.tap, self.c, self.box = tap, c, box
        self.sock = os.path.join(c.state, "api.sock")
        tap.eq(c("gateway", "start").code, 0, f"{c.who}: gateway start starts cofferd")
        tap.ok(wait_for(lambda: os.path.exists(self.sock)), f"{c.who}: cofferd makes api.sock")

    def held(self, path, method, status, value):
        said = API["paths"][path][method]["responses"].get(str(status), API["components"]["responses"]["Error"])
        schema = said["content"]["application/json"]["schema"]
        try:
            jsonschema.Draft202012Validator({**schema, "components": API["components"]}).validate(value)
        except jsonschema.ValidationError as e:
            self.tap.ok(False, f"{path}: the response {status} is as described", e.message, value)

    def get(self, what, **query):
        path = f"/v1/sandboxes/{self.box}/{what}" + ("?" + urllib.parse.urlencode(query) if query else "")
        status, _, body = send(self.sock, "GET", path)
        value = json.loads(body)
        self.held(f"/v1/sandboxes/{{sandbox}}/{what}", "get", status, value)
        return status, value

    def explain(self, **query):
        return self.get("explain", **query)[1]

    def post(self, path, body, described=None):
        status, _, text = send(self.sock, "POST", path, body)
        value = json.loads(text)
        self.held(described or path, "post", status, value)
        return status, value

    def ask(self, what, args=None, **more):
        body = {"sandbox": self.box, "kind": "tool", "what": what, **more}
        return self.post("/v1/asks", {**body, "preview": json.dumps(args)} if args else body)

    def answer(self, ask, **how):
        return self.post(f"/v1/asks/{ask['id']}/answer", {"digest": ask["digest"], "decision": "allow", **how}, "/v1/asks/{ask}/answer")


def widen(a, rule):
    body = json.dumps({"rule": rule, "reason": "the build needs it", "wait": 120})
    return a.start(curl("-d", body, "http://coffer.internal/v1/access"))


def granted(tap, a, api):
    """A rule that a person granted on top is shown, decides, and is gone when it is over."""
    who, url = api.c.who, "https://new.widen.test/"
    p = api.get("policy")[1]
    tap.ok(p["current"] and p["granted"] == [], f"{who}: the policy has no grants at first", p)
    v = api.explain(url=url)
    tap.ok(v["decision"] == "deny" and v["question"] is None and v["current"], f"{who}: a host without a rule is explained as denied", v)
    base = p["digest"]
    waits = widen(a, "new.widen.test")
    q = a.pending()[0]
    tap.eq(api.get("policy")[1]["granted"], [], f"{who}: a question is not listed as a grant")
    status, _ = api.answer(q, scope="for", seconds=3600)
    tap.ok(status == 200 and "200" in end(waits) and "open 200" in a.do(curl("-k", url)), f"{who}: a host is open after its rule was granted")
    status, p = api.get("policy")
    tap.ok(status == 200 and p["current"] and p["note"] is None and len(p["granted"]) == 1, f"{who}: the policy lists the grant and is in force", p)
    tap.ok(p["granted"] and p["granted"][0]["rule"] == "new.widen.test:443" and p["granted"][0]["question"] == q["id"] and
           p["granted"][0]["until"], f"{who}: a grant has its rule, question and end", p)
    tap.ok(p["digest"] != base and p["digest"].startswith("sha256:"), f"{who}: a grant changes the digest of the policy", p)
    v = api.explain(url=url)
    tap.ok(v["decision"] == "allow" and v["question"] == q["id"] and q["id"] in v["rule"] and "new.widen.test:443" in v["why"] and v["current"],
           f"{who}: the explanation names the granted rule and its question", v)
    v = api.explain(url="https://evil.test/")
    tap.ok(v["decision"] == "deny" and v["question"] is None, f"{who}: a denial by the file has no question", v)
    waits = widen(a, "POST https://api.github.test/v1/**")
    q2 = a.pending()[0]
    tap.ok(api.answer(q2, scope="sandbox")[0] == 200 and "200" in end(waits), f"{who}: a single request is granted")
    v = api.explain(method="POST", url="https://api.github.test/v1/x")
    tap.ok(v["decision"] == "allow" and v["question"] == q2["id"], f"{who}: a granted request is explained with its question", v)
    p = api.get("policy")[1]
    tap.ok(p["current"] and [g["until"] for g in p["granted"]][1:] == [None], f"{who}: a grant for the sandbox has no end", p)
    file_changes(tap, a, api)
    tap.eq(api.post(f"/v1/asks/{q['id']}/revoke", {}, "/v1/asks/{ask}/revoke")[0], 200, f"{who}: a grant can be revoked")
    p = api.get("policy")[1]
    tap.ok(p["current"] and [g["question"] for g in p["granted"]] == [q2["id"]], f"{who}: a revoked grant is not listed", p)
    tap.eq(api.explain(url=url)["decision"], "deny", f"{who}: a revoked grant allows nothing")


def file_changes(tap, a, api):
    """A grant does not hide that the file is another one by now."""
    who = api.c.who
    a.set_policy("egress: [broken")
    wait_for(lambda: a.logged("policy.broken"))
    p = api.get("policy")[1]
    tap.ok(not p["current"] and "broken" not in p["layers"] and len(p["granted"]) == 2, f"{who}: the policy is not current while its file is broken", p)
    n = len(a.logged("policy.change"))
    a.set_policy(POLICY + "# the same\n")
    tap.ok(wait_for(lambda: api.get("policy")[1]["current"]), f"{who}: the policy is current after the file was repaired")
    a.set_policy(POLICY.replace("evil.test", "worse.test"))
    tap.ok(wait_for(lambda: len(a.logged("policy.change")) > n), f"{who}: a changed file is put in force")
    p = api.get("policy")[1]
    tap.ok(p["current"] and len(p["granted"]) == 2 and "worse.test" in json.dumps(p["layers"]), f"{who}: a changed policy keeps its grants", p)
    a.set_policy(POLICY)
    tap.ok(wait_for(lambda: len(a.logged("policy.change")) > n + 1), f"{who}: the first file is put in force again")


def bodies(tap, api):
    """An act that depends on the body is marked so, and the body may be given."""
    who, post = api.c.who, {"method": "POST", "url": "https://api.github.test/graphql"}
    v = api.explain(**post)
    tap.ok(v["needs_body"] and "body" in v["why"], f"{who}: a request that depends on its body is explained so", v)
    for text, want in (("query { viewer { login } }", "allow"), ("mutation {\n mergePullRequest(input: {}) { x } }", "ask"),
                       ("mutation { deleteRef(input: {}) { x } }", "deny")):
        v = api.explain(**post, graphql=text)
        tap.ok(v["decision"] == want and not v["needs_body"], f"{who}: {text[:30]!r} is explained as {want}", v)
    push = {"method": "POST", "url": "https://api.github.test/o/r.git/git-receive-pack"}
    for ref, want in (("refs/heads/bot/x=create", "allow"), ("refs/heads/main=update", "deny")):
        v = api.explain(**push, push=ref)
        tap.ok(v["decision"] == want and not v["needs_body"], f"{who}: push {ref} is explained as {want}", v)
    for tool, args, want in (("ls", None, "allow"), ("deploy", '{"env":"production"}', "ask"), ("deploy", None, "allow"), ("rm_all", None, "deny")):
        v = api.explain(tool=tool, **({"args": args} if args else {}))
        tap.ok(v["decision"] == want and tool in v["why"], f"{who}: tool {tool} {args} is explained as {want}", v)
    for bad in ({}, {"tool": "ls", "url": "https://x.test/"}, {"args": "{}", "url": "https://x.test/"}, {"tool": "ls", "method": "GET"},
                {"tool": "a b"}, {"tool": "ls", "args": "[]"}, {**post, "graphql": "query {"}, {**push, "push": "refs/x=burn"},
                {"url": "x.test:443", "graphql": "query { x }"}, {"tool": "ls", "nosuch": "1"}):
        status, got = api.get("explain", **bad)
        tap.ok(status == 400 and "--" not in got["error"]["message"], f"{who}: explain refuses {bad}", got)


def acts(tap, api):
    p = api.get("policy")[1]
    tap.eq(p["tools"], ["deny: rm_*", "ask: deploy when env=production", "allow: *"], f"{api.c.who}: the policy lists the rules on tools")
    tap.eq(p["apply"], "ask", f"{api.c.who}: the policy has the rule for apply")


def asked(tap, a, api):
    """A client's call of a tool: allowed by the policy, asked by a rule, denied; and never a grant for the sandbox's own."""
    who, c = api.c.who, api.c
    status, got = api.ask("ls", {"dir": "/"})
    tap.ok(status == 201 and got.get("state") == "allowed" and got.get("rule") == "allow: *" and "id" not in got, f"{who}: an allowed tool is answered without a question", got)
    tap.eq(a.asks("--all")[-1]["kind"] != "tool" and [x for x in a.asks() if x["state"] == "pending"], [], f"{who}: an allowed tool makes no question")
    log = a.logged("tool.call")
    tap.ok(len(log) == 1 and log[0]["tool"] == "ls" and log[0]["decision"] == "allow" and log[0]["allowed"] is True and log[0]["rule"] == "allow: *" and
           log[0]["by"] == "owner (api)", f"{who}: an allowed tool call is in the log with its client", log)
    status, got = api.ask("rm_all")
    tap.ok(status == 409 and "deny: rm_*" in got["error"]["message"], f"{who}: a denied tool is refused with the rule", got)
    tap.eq([(e["tool"], e["allowed"]) for e in a.logged("tool.call")[1:]], [("rm_all", False)], f"{who}: a denied tool call is in the log")
    args = {"env": "production", "n": 1}
    status, q = api.ask("deploy", args, reason="all tests pass")
    tap.ok(status == 201 and q["state"] == "pending" and q.get("rule") == "ask: deploy when env=production" and q["by"] == "owner (api)" and
           q["what"] == "deploy when env=production" and q["reason"] == "all tests pass" and json.loads(q["preview"]) == args,
           f"{who}: a tool question has rule, client, reason and arguments", q)
    tap.eq(api.ask("deploy", {"n": 1, "env": "production"})[1].get("id"), q["id"], f"{who}: equal arguments are the same question")
    status, got = api.answer(q, decision="deny", scope="sandbox")
    tap.ok(status == 400 and "scope" in got["error"]["message"], f"{who}: a denial with a scope is refused", got)
    status, got = api.answer(q, scope="sandbox")
    tap.ok(status == 200 and got["state"] == "granted", f"{who}: scope sandbox grants the tool to the client", got)
    tap.eq(api.ask("deploy", {"env": "production", "n": 2})[1]["state"], "granted", f"{who}: a granted tool is allowed to the client")
    call = ("call", "--from", api.box, "--tool", "deploy", "--args", json.dumps(args), "--", "echo", "ran")
    p = c.popen(*call)
    own = a.pending()
    tap.ok(len(own) == 1 and own[0]["id"] != q["id"] and "by" not in own[0] and p.poll() is None, f"{who}: a client's grant does not hold for coffer call", own)
    c("deny", own[0]["id"])
    tap.ok("ran" not in end(p), f"{who}: a denied coffer call does not run")
    tap.eq(api.post(f"/v1/asks/{q['id']}/revoke", {}, "/v1/asks/{ask}/revoke")[0], 200, f"{who}: the client's grant can be revoked")
    for i in range(5):
        _, q = api.ask("deploy", {"env": "production", "again": i})
        api.answer(q, decision="deny")
    status, got = api.ask("deploy", {"env": "production", "again": 6})
    tap.ok(got.get("state") != "pending", f"{who}: a client that was denied several times cannot ask any more", got)
    p = c.popen(*call)
    own = a.pending()
    tap.eq(len(own), 1, f"{who}: coffer call can ask after the client was denied several times")
    c("approve", own[0]["id"])
    tap.ok("ran" in end(p), f"{who}: an approved coffer call runs")


def over(tap, a, api):
    api.c("stop", "-t", "1", a.id)
    p = api.get("policy")[1]
    tap.ok(p["current"] and p["granted"] == [] and p["tools"], f"{api.c.who}: the policy of an ended sandbox has its rules and no grants", p)
    status, got = api.ask("ls")
    tap.ok(status == 409 and "ended" in got["error"]["message"], f"{api.c.who}: a tool call for an ended sandbox is refused", got)
    box = api.c("run", "-d", "--net", "none", "--", "sleep", "3600").out.strip()
    api.box = box
    p = api.get("policy")[1]
    tap.ok(p["current"] and p["tools"] is None and p["apply"] is None and p["layers"] in ([], [[]]), f"{api.c.who}: the policy of a sandbox without a network is empty", p)
    status, q = api.ask("ls")
    tap.ok(status == 201 and q["state"] == "pending", f"{api.c.who}: a tool call without rules on tools asks a person", q)
    api.c("stop", "-t", "1", box)
    api.box = box = api.c("run", "-d", "--net", "enforce", "--resolver", "9.9.9.9", "--", "sleep", "3600").out.strip()
    tap.ok(api.get("policy")[1]["current"], f"{api.c.who}: the policy of a sandbox with a resolver is current")
    api.c("stop", "-t", "1", box)


def with_profile(tap, c):
    """The need of a profile is a layer under the profile's name; with it the policy that is shown is the one in force."""
    profile, policy = c.write("agent.yaml", 'version: 1\nabout: an agent\nallow: ["api.github.test"]\n'), os.path.join(c.home, "ceiling.yaml")
    with open(policy, "w", encoding="utf-8") as f:
        f.write(POLICY)
    c.own(policy)
    r = c("run", "-d", "--name", "agent", "--engine", c.engine, "--policy", policy, "--profile", profile, "--", "sleep", "600")
    tap.eq(r.code, 0, f"{c.who}: a sandbox with a profile and a policy starts", r)
    api = Client(tap, c, r.out.strip())
    p = api.get("policy")[1]
    tap.ok(p["current"] and len(p["layers"]) == 2, f"{c.who}: with a profile, the policy that is shown is the one in force", p)
    with open(policy, "w", encoding="utf-8") as f:
        f.write("version: 1\negress: {allow: [")
    p = api.get("policy")
    tap.ok(p[0] != 200 or not p[1]["current"], f"{c.who}: with a profile, a broken file is not shown as in force", p)
    c("stop", "-t", "0", "agent")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("the policy over the API", reason)
        tap.done()
    with Internet() as net:
        net.https("new.widen.test", lambda q: "open")
        net.https("api.github.test", lambda q: "ok")
        for who in [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]:
            with net.coffer(who) as c:
                with Agent(tap, c, POLICY) as a:
                    api = Client(tap, c, a.id)
                    acts(tap, api)
                    bodies(tap, api)
                    granted(tap, a, api)
                    asked(tap, a, api)
                    over(tap, a, api)
                with_profile(tap, c)
                c("rm", "--all")
                c("gateway", "stop")
                c.check_clean(tap)
    tap.done()


main()
