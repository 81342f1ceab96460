# SPDX-License-Identifier: Apache-2.0
"""coffer apply where a person elsewhere has to say yes: to exactly what is written, and to nothing else."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, end  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402

EGRESS = "version: 1\negress: {allow: [example.com]}\n"
WORK = "echo new > a; echo more > b; echo token > .envrc; rm gone"


class Box(AskBox):
    """Runs that change a workspace."""

    def __init__(self, tap, c):
        super().__init__(tap, c)
        for name, word in (("ask.yaml", "ask"), ("deny.yaml", "deny"), ("allow.yaml", "allow")):
            self.file(name, EGRESS + f"apply: {word}\n")

    def work(self, *args, command=WORK):
        """A run with changes; its id."""
        self.c.write("a", "old\n")
        self.c.write("gone", "old\n")
        for name in ("b", ".envrc"):
            if os.path.exists(os.path.join(self.c.work, name)):
                os.unlink(os.path.join(self.c.work, name))
        r = self.c("run", *args, "--", "sh", "-c", command)
        self.tap.ok(r.code == 0, f"{self.c.who}: a run {' '.join(args[:1])} succeeds", r)
        return r.err.split("coffer apply ")[1].split()[0]

    def policy(self, word):
        return ("--policy", os.path.join(self.c.home, word + ".yaml"))

    def is_old(self):
        return self.read("a") == "old\n" and self.read("gone") == "old\n" and self.read("b") is None

    def is_new(self):
        return self.read("a") == "new\n" and self.read("gone") is None and self.read("b") == "more\n"

    def read(self, name):
        try:
            with open(os.path.join(self.c.work, name), encoding="utf-8") as f:
                return f.read()
        except FileNotFoundError:
            return None


def by_policy(tap, b):
    c = b.c
    run = b.work(*b.policy("ask"))
    p = c.popen("apply", run, "--allow", ".envrc")
    q = b.pending()
    q = q[0] if q else {}
    tap.ok(q.get("kind") == "apply" and q.get("sandbox") == run and q.get("rule") == "apply: ask" and
           q["preview"].startswith("! A .envrc") and "  M a\n" in q["preview"] and "  D gone\n" in q["preview"],
           f"{c.who}: the question of coffer apply lists the changes, the guarded file first", q)
    tap.ok(b.is_old(), f"{c.who}: coffer apply writes nothing before the answer")
    r = c("approve", q["id"])
    code, _, err = end(p)
    tap.ok(r.code == 0 and code == 0 and b.is_new() and b.read(".envrc") == "token\n",
           f"{c.who}: coffer apply writes the changes once they are approved", r, code, err)
    tap.eq([e["type"] for e in b.log() if e.get("sandbox") == run and e["type"].split(".")[0] in ("ask", "workspace")],
           ["ask.new", "ask.answer", "ask.use", "workspace.apply", "workspace.applied", "workspace.wiped"],
           f"{c.who}: the log has question, answer, use and apply in order")

    run = b.work(*b.policy("ask"))
    b.file("ask.yaml", EGRESS + "apply: allow\n")
    p = c.popen("apply", run, "--yes")
    q = b.pending()
    tap.eq(len(q), 1, f"{c.who}: coffer apply asks by the policy of the run's start, also with --yes")
    c("deny", q[0]["id"], "--reason", "not like this")
    code, _, err = end(p)
    tap.ok(code == 1 and "not like this" in err and b.is_old(), f"{c.who}: coffer apply writes nothing when it is denied", code, err)
    b.file("ask.yaml", EGRESS + "apply: ask\n")

    p = c.popen("apply", run)
    q = b.pending()
    os.kill(p.pid, signal.SIGINT)
    code, _, err = end(p)
    tap.ok(code == 130 and "withdrawn" in err and b.is_old(),
           f"{c.who}: coffer apply writes nothing when SIGINT withdraws the question", code, err)
    code, _, err = end(c.popen("apply", run, "--ask-timeout", "1s"))
    tap.ok(code == 1 and "in time" in err and b.is_old(), f"{c.who}: coffer apply writes nothing when nobody answers in time", code, err)
    r = c("apply", run, "--dry-run")
    tap.ok("M a" in r.out and not b.asks(), f"{c.who}: coffer apply --dry-run asks nobody", r)
    tap.eq(c("discard", run).code, 0, f"{c.who}: coffer discard removes a run whose apply was denied")


def bound(tap, b):
    """The written changes are those that were shown."""
    c = b.c
    run = b.work()
    upper = os.path.join(c.state, "runs", run, "upper")
    p = c.popen("apply", run, "--ask")
    q = b.pending()
    with open(os.path.join(upper, "a"), "w", encoding="utf-8") as f:
        f.write("evil\n")
    r = c("approve", q[0]["id"])
    code, _, err = end(p)
    tap.ok(r.code == 0 and code == 125 and "differ from those that were approved" in err and b.is_old(),
           f"{c.who}: coffer apply does not write a layer that changed after the question", code, err)
    p = c.popen("apply", run, "--ask")
    q2 = b.pending()
    tap.ok(len(q2) == 1 and q2[0]["digest"] != q[0]["digest"] and q2[0]["what"] != q[0]["what"],
           f"{c.who}: a changed layer is another question of coffer apply", q2)
    tap.ok(c("approve", q2[0]["id"], "--digest", q[0]["digest"]).code == 125,
           f"{c.who}: approve refuses the digest of the question about the old layer")
    # A grant holds for this very content.
    tap.eq(c("approve", q2[0]["id"], "--sandbox").code, 0, f"{c.who}: approve --sandbox of coffer apply succeeds")
    code, _, err = end(p)
    tap.ok(b.read("a") == "evil\n", f"{c.who}: (control) coffer apply writes the layer that was shown", code, err)
    c("discard", run)


def denied(tap, b):
    c = b.c
    run = b.work(*b.policy("deny"))
    b.file("deny.yaml", EGRESS + "apply: allow\n")
    r = c("apply", run)
    tap.ok(r.code == 1 and "apply: deny" in r.err and b.is_old(), f"{c.who}: coffer apply writes nothing under apply: deny", r)
    tap.ok("M a" in c("apply", "-n", run).out and "M a" in c("diff", run).out,
           f"{c.who}: apply -n and diff show the changes under apply: deny")
    c("discard", run)
    run, before = b.work(*b.policy("allow")), b.asks("--all")
    r = c("apply", run)
    tap.ok(b.read("a") == "new\n" and b.asks("--all") == before, f"{c.who}: coffer apply writes without a question under apply: allow", r)
    c("discard", run)


def of_a_tool(tap, b):
    """A policy without egress: a call gets no network by it, and what it says of apply holds all the same."""
    c = b.c
    b.c.write("a", "old\n")
    for word, refused in (("deny", True), ("allow", False)):
        p = b.file(f"tool-{word}.yaml", f"version: 1\ntools:\n  - allow: x\napply: {word}\n")
        r = c("call", "--policy", p, "--tool", "x", "--workspace", "--", "sh", "-c", "echo by-tool > a")
        tap.ok(r.code == 0, f"{c.who}: a tool call with a workspace succeeds", r)
        call = r.err.split("coffer apply ")[1].split()[0]
        r = c("apply", call)
        tap.ok("apply: deny" in r.err and b.read("a") == "old\n" if refused else b.read("a") == "by-tool\n",
               f"{c.who}: apply: {word} of a policy without egress holds for a tool call", r)
        c("discard", call)
    b.c.write("a", "old\n")


def of_a_call(tap, b):
    """Into another sandbox, which goes on meanwhile."""
    c = b.c
    b.c.write("a", "old\n")
    r = c("run", "-d", "--net", "none", "--name", "agent", "--", "sh", "-c", "while :; do date +%N > tick; sleep 0.1; done")
    tap.ok(r.code == 0, f"{c.who}: a detached sandbox starts", r)
    r = c("call", "--from", "agent", "--workspace", "--", "sh", "-c", "echo by-call > a")
    tap.ok(r.code == 0, f"{c.who}: a call in the sandbox's workspace succeeds", r)
    call = r.err.split("coffer apply ")[1].split()[0]
    p = c.popen("apply", "--ask", call)
    q = b.pending()
    tap.ok(len(q) == 1 and q[0]["sandbox"] == call and "M a" in q[0]["preview"],
           f"{c.who}: coffer apply --ask of a call asks about its changes", q)
    look = "look() { x=; until [ \"$x\" ]; do x=$(cat tick); done; echo $x; }; "  # it is empty for a moment each time
    tick = c("exec", "agent", "--", "sh", "-c", look + "look; sleep 1; look").out.split()
    tap.ok(len(tick) == 2 and tick[0] != tick[1], f"{c.who}: the sandbox goes on while coffer apply of its call waits", tick)
    tap.eq(c("exec", "agent", "--", "cat", "a").out, "old\n", f"{c.who}: coffer apply of a call writes nothing before the answer")
    c("approve", q[0]["id"])
    code, _, err = end(p)
    tap.ok(code == 0 and c("exec", "agent", "--", "cat", "a").out == "by-call\n",
           f"{c.who}: coffer apply of a call writes into the sandbox once it is approved", code, err)
    c("stop", "-t", "1", "agent")
    c("discard", "agent")


def main():
    tap = Tap()
    for who in identities(tap):
        with coffer_as(who) as c:
            b = Box(tap, c)
            by_policy(tap, b)
            if c.who == "root":
                denied(tap, b)
            of_a_tool(tap, b)
            bound(tap, b)
            if c.who != "userns":
                of_a_call(tap, b)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
