# SPDX-License-Identifier: Apache-2.0
"""Tools by name: allowed, denied, asked; on behalf of a sandbox and of nobody; as every identity."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, end, wait_for  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402

TOOLS = """version: 1
tools:
  - allow: [read_file, "list_*"]
  - ask: deploy
  - deny: deploy
    when: {env: production, force: true}
  - deny: "shell_*"
"""
ALL = """version: 1
egress:
  allow: [example.com]
tools:
  - allow: "*"
  - ask: shared
  - deny: never
"""


class Box(AskBox):
    """Helpers for the tests with one identity's coffer."""

    def __init__(self, tap, c):
        super().__init__(tap, c)
        self.tools = self.file("tools.yaml", TOOLS)
        self.all = self.file("all.yaml", ALL)

    def call(self, *args, command=("echo", "ran")):
        return ("call", *args, "--", *command)

    def start(self, *args, **kw):
        return self.c.popen(*self.call(*args, **kw))


def plain(tap, b):
    c = b.c
    r = c(*b.call("--policy", b.tools, "--tool", "list_x", "--args", '{"a":1}'))
    tap.ok(r.code == 0 and "ran" in r.out, f"{c.who}: an allowed tool runs", r)
    r = c(*b.call("--policy", b.tools, "--tool", "shell_x"))
    tap.ok(r.code == 125 and "ran" not in r.out and "deny: shell_*" in r.err and "tools.yaml:7" in r.err,
           f"{c.who}: a denied tool does not run, and the rule is named", r)
    r = c(*b.call("--policy", b.tools, "--tool", "unheard_of"))
    tap.ok(r.code == 125 and "ran" not in r.out and "no rule covers" in r.err, f"{c.who}: a tool that no rule covers does not run", r)
    r = c(*b.call("--policy", b.tools, "--tool", "deploy", "--args", '{"env":"production","force":true}'))
    tap.ok(r.code == 125 and "ran" not in r.out, f"{c.who}: a tool whose arguments a rule forbids does not run", r)
    r = c(*b.call("--tool", "anything"))
    tap.ok(r.code == 0 and "ran" in r.out, f"{c.who}: a tool runs without a policy", r)
    r = c(*b.call("--policy", b.tools))
    tap.ok(r.code == 0 and "ran" in r.out, f"{c.who}: a call without --tool runs under any policy", r)
    log = b.log("tool.call")
    tap.eq([(e["tool"], e["decision"], e["allowed"]) for e in log],
           [("list_x", "allow", True), ("shell_x", "deny", False), ("unheard_of", "deny", False),
            ("deploy", "deny", False), ("anything", "allow", True)], f"{c.who}: each tool call is in the log with its decision")
    starts = b.log("run.start")
    tap.ok(len(starts) == 3 and starts[0]["sandbox"] == log[0]["sandbox"] and log[0]["seq"] < starts[0]["seq"],
           f"{c.who}: tool.call is logged before the run starts, with its id", log[0], starts)


def asked(tap, b):
    c = b.c
    p = b.start("--policy", b.tools, "--tool", "deploy", "--args", '{"env":"x","esc":"\\u001b[2J\\u202e"}')
    q = b.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "tool" and q[0]["what"] == "deploy" and "echo ran" in q[0]["preview"] and
           q[0]["rule"] == "ask: deploy", f"{c.who}: a tool call waits as a question with rule and command", q)
    show = c("ask", "show", q[0]["id"])
    tap.ok("\033" not in show.out and "\u202e" not in show.out and '"env":"x"' in show.out and "echo ran" in show.out,
           f"{c.who}: ask show prints the arguments without control characters", show)
    tap.eq(len([e for e in b.log("run.start") if e["sandbox"] == q[0]["sandbox"]]), 0, f"{c.who}: a tool call does not run while it waits")
    tap.ok(c("approve", q[0]["id"], "--digest", "0" * 64).code == 125, f"{c.who}: approve with another digest is refused")
    r = c("approve", q[0]["id"], "--reason", "go")
    code, out, err = end(p)
    tap.ok(r.code == 0 and code == 0 and "ran" in out and q[0]["id"] in err, f"{c.who}: an approved tool call runs", r, code, out, err)
    log = [e["type"] for e in b.log() if e.get("sandbox") == q[0]["sandbox"]]
    tap.eq(log, ["ask.new", "ask.answer", "ask.use", "tool.call", "run.start", "run.end"], f"{c.who}: an approved call's events are logged in order")
    tap.ok(q[0]["sandbox"] not in os.listdir(os.path.join(c.state, "runs")), f"{c.who}: an approved call leaves no run directory")

    p = b.start("--policy", b.tools, "--tool", "deploy")
    q = b.pending()
    r = c("deny", q[0]["id"], "--reason", "not today")
    code, out, err = end(p)
    tap.ok(r.code == 0 and code == 125 and "ran" not in out and "not today" in err, f"{c.who}: a denied tool call does not run", code, err)
    r = c("approve", q[0]["id"])
    tap.ok(r.code == 125, f"{c.who}: a denied tool call cannot be approved", r)

    p = b.start("--policy", b.tools, "--ask-timeout", "1s", "--tool", "deploy")
    code, out, err = end(p)
    tap.ok(code == 125 and "in time" in err and "ran" not in out, f"{c.who}: a tool call without an answer in time is denied", code, err)

    p = b.start("--policy", b.tools, "--tool", "deploy")
    q = b.pending()
    os.kill(p.pid, signal.SIGINT)
    code, out, err = end(p)
    tap.ok(code == 130 and "withdrawn" in err and "ran" not in out, f"{c.who}: Ctrl-C withdraws a waiting tool call", code, err)
    tap.eq(b.asks(), [], f"{c.who}: a withdrawn tool call does not wait any more")
    tap.eq([e["allowed"] for e in b.log("tool.call") if e.get("sandbox") == q[0]["sandbox"]], [False],
           f"{c.who}: a withdrawn tool call is logged as not allowed")


def hostile(tap, b):
    c = b.c
    for name, args, what in (
            ("a b", None, "a space"), ("\033[2Jx", None, "an escape"), ("\u202ex", None, "a mark"), ("*", None, "a star"),
            ("", None, "nothing"), ("x" * 100000, None, "100 kB"), ("read_file", '{"a":1,"a":2}', "a key twice"),
            ("read_file", '{"a":' * 40 + "1" + "}" * 40, "deep arguments"), ("read_file", "[]", "a list"),
            ("read_file", '{"a":"\\u0000"}', "a NUL"), ("read_file", '{"a":"' + "x" * 70000 + '"}', "long arguments"),
            ("read_file", '{"a":', "half of an object")):
        r = c(*b.call("--policy", b.tools, "--tool", name, *(["--args", args] if args is not None else [])))
        tap.ok(r.code == 2 and "ran" not in r.out and "\033" not in r.err and "\u202e" not in r.err and len(r.err) < 600,
               f"{c.who}: {what} in a tool call is refused with a short message", r.err[:700])
    r = c(*b.call("--args", "{}"))
    tap.ok(r.code == 2 and "--tool" in r.err, f"{c.who}: --args without --tool is refused", r)
    p = b.start("--policy", b.tools, "--tool", "deploy", "--args", json.dumps({"a": "y" * 50000}))
    q = b.pending()
    tap.ok(len(q) == 1 and len(q[0]["preview"]) <= 2048 and q[0]["body_len"] > 50000, f"{c.who}: a question shows long arguments cut and covers all of them",
           [len(x["preview"]) for x in q])
    c("deny", q[0]["id"])
    end(p)


def on_behalf(tap, b, *net):
    """Grants and denials of a sandbox hold for all calls that are made for it; its own policy counts too."""
    c = b.c
    who = f"{c.who}{' with a network' if net else ''}"
    r = c("run", "-d", *(net or ("--net", "none")), "--", "sleep", "3600")
    box = r.out.strip()
    tap.ok(r.code == 0 and box, f"{who}: a sandbox starts in the background", r)
    deploy = ("--from", box, "--policy", b.tools, "--tool", "deploy")
    p = b.start(*deploy, "--args", '{"n":1}')
    q = b.pending()
    tap.ok(len(q) == 1 and q[0]["sandbox"] == box, f"{who}: a question of call --from belongs to the sandbox", q)
    r = c("approve", q[0]["id"], "--sandbox")
    code, out, err = end(p)
    tap.ok(r.code == 0 and code == 0 and "ran" in out, f"{who}: an approved call --from runs", r, err)
    r = c(*b.call(*deploy, "--args", '{"n":2}'))
    tap.ok(r.code == 0 and "ran" in r.out and "waiting" not in r.err, f"{who}: a granted tool asks nobody in the next call", r)
    tap.ok(c("deny", q[0]["id"]).code == 0, f"{who}: coffer deny takes back the grant of a tool")
    for i in range(5):
        p = b.start(*deploy, "--args", json.dumps({"again": i}))
        q = b.pending()
        c("deny", q[0]["id"])
        end(p)
    r = c(*b.call(*deploy))
    tap.ok(r.code == 125 and "without asking" in r.err and "ran" not in r.out, f"{who}: a sandbox that was denied several times cannot ask any more",
           r)
    if net:
        r = c(*b.call("--from", box, "--tool", "never"))
        tap.ok(r.code == 125 and "deny: never" in r.err and box in r.err, f"{who}: the sandbox's own policy applies to call --from", r)
        b.file("all.yaml", ALL.replace("deny: never", "allow: never"))
        r = c(*b.call("--from", box, "--tool", "never"))
        tap.ok(r.code == 125 and "deny: never" in r.err, f"{who}: the sandbox's policy applies as it was at the start", r)
        r = c(*b.call("--from", box, "--policy", b.tools, "--tool", "other"))
        tap.ok(r.code == 125, f"{who}: the stricter of two policies wins", r)
        b.file("all.yaml", ALL)
        p = b.start("--from", box, "--tool", "shared")
    else:
        p = b.start("--from", box, "--policy", b.file("two.yaml", "tools: [{ask: shared}]\n"), "--tool", "shared")
    q = b.pending()
    tap.eq(len(q), 1, f"{who}: another tool makes a question")
    c("stop", "-t", "1", box)
    code, out, err = end(p)
    tap.ok(code == 125 and "the sandbox has ended" in err and "ran" not in out, f"{who}: a question lapses when its sandbox ends", code, err)
    r = c("approve", q[0]["id"])
    tap.ok(r.code == 125 and ("ended" in r.err or "gone" in r.err), f"{who}: a question of an ended sandbox cannot be approved", r)
    c("rm", box)


def killed(tap, b):
    c = b.c
    p = b.start("--policy", b.tools, "--tool", "deploy")
    q = b.pending()
    os.killpg(p.pid, signal.SIGKILL)
    end(p)
    r = c("approve", q[0]["id"])
    tap.ok(r.code == 125, f"{c.who}: a question of a killed call cannot be approved", r)
    c("call", "--", "true")
    tap.ok(wait_for(lambda: c("ps", "-a").code == 0 and
                    q[0]["sandbox"] not in os.listdir(os.path.join(c.state, "runs"))), f"{c.who}: the directory of a killed call is removed",
           os.listdir(os.path.join(c.state, "runs")))


def policy(tap, b):
    c = b.c
    r = c("policy", "check", b.tools)
    tap.ok(r.code == 0 and "rules on tools" in r.out, f"{c.who}: policy check counts rules on tools", r)
    r = c("policy", "explain", b.tools, "--tool", "deploy", "--args", '{"env":"production","force":true}')
    tap.ok(r.code == 1 and "deny: deploy when env=production, force=true" in r.out and "tools.yaml:5" in r.out,
           f"{c.who}: policy explain --tool names the rule", r)
    r = c("policy", "explain", b.tools, "--tool", "read_file", "--json")
    tap.ok(r.code == 0 and json.loads(r.out)["decision"] == "allow", f"{c.who}: policy explain --tool --json has the decision", r)
    r = c("policy", "diff", b.tools, b.file("other.yaml", TOOLS.replace("ask: deploy", "allow: deploy") + "apply: deny\n"))
    tap.ok(r.code == 1 and "~ tools: no longer ask: deploy" in r.out and "~ tools: now allow: deploy" in r.out and
           "~ apply: deny, was allow" in r.out and "3 otherwise" in r.out, f"{c.who}: policy diff shows changed rules on tools", r)
    tap.eq(c("policy", "diff", b.tools, b.tools).code, 0, f"{c.who}: policy diff of equal rules on tools exits with 0")
    r = c("policy", "show", b.tools)
    tap.ok("  deny: shell_*\n" in r.out, f"{c.who}: policy show prints the rules on tools", r)
    r = c("policy", "check", b.file("bad.yaml", "version: 1\ntools:\n  - alow: x\n"))
    tap.ok(r.code == 1 and "bad.yaml:3:5" in r.err and "try: allow:" in r.err, f"{c.who}: policy check names the place of a misspelled tool rule", r)


def main():
    tap = Tap()
    for who in identities(tap):
        with coffer_as(who) as c:
            b = Box(tap, c)
            plain(tap, b)
            asked(tap, b)
            if c.who == "root":
                hostile(tap, b)
                policy(tap, b)
                killed(tap, b)
            on_behalf(tap, b)
            if c.who == "root":
                on_behalf(tap, b, "--policy", b.all)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
