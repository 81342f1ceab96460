#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer approve --always of a tool's call and of coffer apply: one rule in the file, and nothing more than was asked."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from askbox import AskBox, end  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402

TOOLS = """# who may do what
version: 1
tools:
  - allow: read_file
  - ask:   deploy          # to the world
  - deny:  deploy
    when:  {env: production, force: true}
  - ask:   [tag, "rm_*"]   # careful
    when:
      scope: "all*"
  - deny:  "*_secret"
apply: ask                 # by a person
"""
TURNED = TOOLS.replace("- ask:   deploy ", "- allow:   deploy ")
TAGGED = TURNED.replace('[tag, "rm_*"]', '["rm_*"]').replace(
    '      scope: "all*"\n', '      scope: "all*"\n  - allow: tag\n    when: {"scope": "all*"}\n')
REMOVED = TAGGED.replace('  - allow: tag\n', '  - allow: rm_tmp\n    when: {"scope": "all*"}\n  - allow: tag\n')
APPLIED = TOOLS.replace("apply: ask ", "apply: allow ")
EGRESS = "egress: {allow: [example.com]}\n"


class Box(AskBox):
    """Calls of tools by one policy file."""

    def __init__(self, tap, c, text=TOOLS):
        super().__init__(tap, c)
        self.policy = self.file("team.yaml", text)

    def text(self):
        with open(self.policy, encoding="utf-8") as f:
            return f.read()

    def call(self, tool, args="{}", *more):
        return ("call", "--policy", self.policy, *more, "--tool", tool, "--args", args, "--", "echo", "ran")

    def always(self, *argv):
        """Asked, and approved for good: the question, the answer to the approval, and how it ended."""
        p = self.c.popen(*argv)
        q = self.pending()
        self.tap.eq(len(q), 1, f"{self.c.who}: the tool call {argv[-4]} waits for an answer", q)
        r = self.c("approve", q[0]["id"], "--always", "--yes") if q else None
        if r and r.code:
            self.c("deny", q[0]["id"])
        return q[0] if q else {}, r, end(p)


def tools(tap, b):
    c = b.c

    def good(tool, args, wanted, what):
        q, r, (code, out, err) = b.always(*b.call(tool, args))
        tap.ok(r.code == 0 and code == 0 and "ran" in out, f"{c.who}: {what} runs after approve --always", r, err)
        tap.eq(b.text(), wanted, f"{c.who}: {what}: approve --always changes one rule and no other byte")
        r2 = c(*b.call(tool, args))
        tap.ok(r2.code == 0 and "ran" in r2.out and "waiting" not in r2.err,
               f"{c.who}: {what} is not asked about again after approve --always", r2)
        return q, r

    q, r = good("deploy", '{"env":"x"}', TURNED, "a tool that a rule is exactly for")
    tap.ok("-  - ask:   deploy " in r.out and "+  - allow:   deploy " in r.out and "team.yaml" in r.out,
           f"{c.who}: approve --always shows the change of a tool's rule", r)
    log = [e for e in b.log() if e["type"] in ("policy.edit", "ask.answer")]
    tap.ok([e["type"] for e in log] == ["policy.edit", "ask.answer"] and log[0]["ask"] == q["id"] and
           log[0]["file"] == os.path.realpath(b.policy), f"{c.who}: the log has the edit of a tool's rule before the answer", log)
    r = c(*b.call("deploy", '{"env":"production","force":true}'))
    tap.ok(r.code == 125 and "ran" not in r.out, f"{c.who}: arguments that a rule denies stay denied after approve --always of the tool", r)
    good("tag", '{"scope":"all-of-it"}', TAGGED, "a tool of a list")
    good("rm_tmp", '{"scope":"all"}', REMOVED, "a tool of a pattern")
    r = c(*b.call("rm_tmp", '{"scope":"one"}'))
    tap.ok(r.code == 125 and "no rule covers" in r.err,
           f"{c.who}: approve --always of a tool allows no arguments outside the conditions of its rule", r)
    p = c.popen(*b.call("rm_other", '{"scope":"all"}'))
    q = b.pending()
    tap.eq(len(q), 1, f"{c.who}: approve --always of a tool leaves other tools of the pattern to be asked about")
    c("deny", q[0]["id"])
    end(p)
    tap.ok(c("policy", "check", b.policy).code == 0, f"{c.who}: the policy file is valid after approve --always")


def refused(tap, b):
    """Rules that must not be written; tools() is the control."""
    c = b.c

    def no(text, tool, words, args="{}"):
        b.file("team.yaml", text)
        _, r, (code, out, _) = b.always(*b.call(tool, args))
        tap.ok(r.code == 125 and words in r.err and b.text() == text and code == 125 and "ran" not in out,
               f"{c.who}: approve --always refuses with '{words}' and leaves the file", r)

    head = "version: 1\ntools:\n"
    no(head + '- ask: "d*"\n- deny: "d*"\n  when: {env: production}\n', "deploy", "would override deny: d* when env=production")
    no(head + '- ask: "d*"\n- ask: "dep*"\n  when: {env: production}\n', "deploy", "would override ask: dep*")
    no(head + '- ask: "d*"\n  when: {env: a}\n- deny: "d*"\n  when: {env: b}\n', "deploy", "would override", '{"env":"a"}')
    no(head + "- ask: deploy\n", "Deploy", "spells the name")
    no(head + "- ask: deploy\n- ask: deploy\n", "deploy", "would not end the question")
    b.file("team.yaml", TOOLS)
    # A file that has changed meanwhile: what it is now counts.
    p = c.popen(*b.call("deploy"))
    q = b.pending()
    b.file("team.yaml", TOOLS.replace("ask:   deploy ", "deny:  deploy "))
    r = c("approve", q[0]["id"], "--always", "--yes")
    tap.ok(r.code == 125 and "denied" in r.err and "deny:  deploy" in b.text(),
           f"{c.who}: approve --always is refused where the file denies the tool by now", r)
    b.file("team.yaml", TOOLS)
    r = c("approve", q[0]["id"], "--always")
    tap.ok(r.code == 125 and "--yes" in r.err and b.text() == TOOLS, f"{c.who}: approve --always without --yes does not edit the file", r)
    c("deny", q[0]["id"])
    end(p)


def on_behalf(tap, b):
    """The question is the sandbox's, and so is the file."""
    c = b.c
    b.file("team.yaml", TOOLS + EGRESS)
    box = c("run", "-d", "--policy", b.policy, "--", "sleep", "3600").out.strip()
    argv = ("call", "--from", box, "--tool", "deploy", "--args", "{}", "--", "echo", "ran")
    _, r, (code, out, err) = b.always(*argv)
    tap.ok(r.code == 0 and code == 0 and "ran" in out and b.text() == TURNED + EGRESS,
           f"{c.who}: approve --always for a call from a sandbox edits the sandbox's policy file", r, err)
    r = c(*argv)
    tap.ok(r.code == 0 and "ran" in r.out and "waiting" not in r.err,
           f"{c.who}: a tool approved with --always is not asked about again while the sandbox lives", r)
    c("rm", "-f", box)
    box = c("run", "-d", "--allow", "example.com", "--", "sleep", "3600").out.strip()
    before = b.text()
    _, r, (code, out, _) = b.always("call", "--from", box, "--policy", b.policy, "--tool", "tag", "--args", '{"scope":"all"}',
                                    "--", "echo", "ran")
    tap.ok(r.code == 125 and "started without --policy" in r.err and b.text() == before and "ran" not in out,
           f"{c.who}: approve --always is refused for a sandbox that was started without --policy", r)
    c("rm", "-f", box)


def applies(tap, b):
    c = b.c
    b.file("team.yaml", TOOLS + EGRESS)

    def work():
        r = c("run", "--policy", b.policy, "--", "sh", "-c", "echo new > a")
        return r.err.split("coffer apply ")[1].split()[0]

    def said():
        with open(os.path.join(c.work, "a"), encoding="utf-8") as f:
            return f.read()

    c.write("a", "old\n")
    run = work()
    p = c.popen("apply", run)
    q = b.pending()
    r = c("approve", q[0]["id"], "--always", "--yes")
    code, _, err = end(p)
    tap.ok(r.code == 0 and code == 0 and said() == "new\n", f"{c.who}: coffer apply writes the changes after approve --always", r, err)
    tap.eq(b.text(), APPLIED + EGRESS, f"{c.who}: approve --always of coffer apply changes one word of the file")
    c("discard", run)
    c.write("a", "old\n")
    run = work()
    r = c("apply", run)
    tap.ok(r.code == 0 and said() == "new\n", f"{c.who}: coffer apply of the next run is not asked about after approve --always", r)
    c("discard", run)
    c.write("a", "old\n")
    run = work()
    p = c.popen("apply", run, "--ask")
    q = b.pending()
    r = c("approve", q[0]["id"], "--always", "--yes")
    tap.ok(r.code == 125 and "--ask" in r.err and b.text() == APPLIED + EGRESS,
           f"{c.who}: approve --always is refused for coffer apply --ask, which no rule asked for", r)
    c("deny", q[0]["id"])
    end(p)
    c("discard", run)


def main():
    tap = Tap()
    for who in identities(tap):
        if who == "userns":
            continue
        with coffer_as(who) as c:
            b = Box(tap, c)
            tools(tap, b)
            applies(tap, b)
            if who == "root":
                refused(tap, b)
                on_behalf(tap, b)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
