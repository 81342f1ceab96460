# SPDX-License-Identifier: Apache-2.0
"""coffer mcp under a policy with a list of tools: allowed, denied, asked while the call waits."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, wait_for  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402
from mcpclient import Client, Reply  # noqa: E402

TOOLS = """version: 1
tools:
  - allow: [read_file, diff, checkpoint]
  - allow: exec
    when: {command: "ls*"}
  - ask: exec
  - deny: exec
    when: {command: "*rm -rf*"}
  - ask: write_file
  - allow: write_file
    when: {path: "tmp/*"}
  - deny: rollback
apply: deny
"""


def decided(tap, b, m):
    c = b.c
    r = m.call("exec", command="ls -A")
    tap.ok(r.is_error is False and r.data["exit_code"] == 0, f"{c.who}: an allowed tool runs", r)
    r = m.call("rollback", id="c0")
    tap.ok(r.is_error and "deny: rollback" in r.text, f"{c.who}: a denied tool names the rule", r)
    r = m.call("request_access", rule="example.com", reason="x")
    tap.ok(r.is_error and "no rule covers" in r.text, f"{c.who}: a tool that no rule covers is refused with the reason", r)
    r = m.call("exec", command="true; rm -rf x")
    tap.ok(r.is_error and "deny: exec" in r.text, f"{c.who}: a tool whose arguments a rule forbids is refused with the rule", r)
    r = m.call("write_file", path="tmp/x", content="y" * 300000)
    tap.ok(not r.is_error, f"{c.who}: a call with 300 kB of arguments is allowed by its rule", r)
    r = m.call("read_file", path="tmp/x")
    tap.ok(not r.is_error, f"{c.who}: read_file reads what a long write_file wrote", r)


def asked(tap, b, m):
    c = b.c
    n = m.begin_call("write_file", _meta={"progressToken": "t"}, path="a.txt", content="by hand\n")
    q = b.pending()
    q = q[0] if q else {}
    tap.ok(q.get("kind") == "tool" and q.get("what") == "write_file" and '"path":"a.txt"' in q.get("preview", ""),
           f"{c.who}: a tool call waits as a question with its arguments", q)
    note = m.wait_note()
    tap.ok(note["method"] == "notifications/progress" and q["id"] in note["params"]["message"],
           f"{c.who}: the client is told the id of the question", note)
    tap.eq(c("approve", q["id"]).code, 0, f"{c.who}: coffer approve allows a tool call")
    r = Reply(m.wait_for(n))
    tap.ok(not r.is_error, f"{c.who}: an approved tool call runs", r)
    n = m.begin_call("exec", command="echo no > never")
    q = b.pending()
    c("deny", q[0]["id"], "--reason", "rather not")
    r = Reply(m.wait_for(n))
    tap.ok(r.is_error and "rather not" in r.text, f"{c.who}: a denied tool call tells the client the reason", r)
    n = m.begin_call("exec", command="echo no > never")
    q = b.pending()
    tap.eq(len(q), 1, f"{c.who}: the same call asks again after a denial")
    m.cancel(n)
    tap.ok(wait_for(lambda: not b.asks()), f"{c.who}: the question of a cancelled call stops waiting", b.asks())
    tap.eq(c("approve", q[0]["id"]).code, 125, f"{c.who}: the question of a cancelled call cannot be approved")
    r = m.call("exec", command="ls never")
    tap.ok(r.data["exit_code"] != 0, f"{c.who}: denied and cancelled calls did not run", r)
    log = [(e["tool"], e["decision"], e["allowed"]) for e in b.log("tool.call")]
    tap.ok(("exec", "ask", False) in log and ("write_file", "ask", True) in log and ("rollback", "deny", False) in log,
           f"{c.who}: the log has allowed and denied tool calls", log)


def died(tap, b, m):
    """A server that is killed takes its question along."""
    c = b.c
    m.begin_call("exec", command="echo no > never")
    q = b.pending()
    m.p.kill()
    tap.ok(wait_for(lambda: not b.asks()), f"{c.who}: a question lapses when its server is killed", b.asks())
    tap.eq(c("approve", q[0]["id"]).code, 125, f"{c.who}: a question of a killed server cannot be approved")


def main():
    tap = Tap()
    for who in identities(tap):
        with coffer_as(who) as c:
            b = AskBox(tap, c)
            policy = b.file("tools.yaml", TOOLS)
            c.write("a.txt", "first\n")
            with Client(c, "--policy", policy) as m:
                m.initialize()
                decided(tap, b, m)
                asked(tap, b, m)
            r = c("apply", "@last")
            tap.ok(r.code == 1 and "apply: deny" in r.err, f"{c.who}: coffer apply obeys the policy of the session", r)
            tap.ok("M a.txt" in c("diff", "@last").out, f"{c.who}: coffer diff shows what the session changed", r)
            with Client(c, "--policy", policy) as m:
                m.initialize()
                died(tap, b, m)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
