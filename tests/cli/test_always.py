#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer approve --always: the policy file gets one rule, every other byte stays, and nothing is dropped or asked twice."""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from asktest import Asker, at_terminal, curl, end  # noqa: E402
from coffertest import BUILD, Tap, identities  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

KILLAT = os.path.join(BUILD, "tests", "killat")
SHA = "0123456789abcdef0123456789abcdef01234567"
POLICY = """# The team's policy: comments stay.
version: 1
egress:
  allow:
    - domain: api.github.test   # code
      port: 443
      http:
        - allow: GET /**
        # merges are looked at
        - ask:   PUT /repos/*/*/pulls/*/merge   # each of them
        - ask: POST /exact
        - deny: POST /repos/*/*/pulls/9/merge
      graphql:
        - allow: query *
        - ask: mutation mergePullRequest
  ask:
    # tunnels
    - domain: tunnel.github.test
      port: 443
    - domain: "*.wide.test"

# the end
"""
MERGED = POLICY.replace("# each of them\n", "# each of them\n        - allow: PUT /repos/o/r/pulls/7/merge\n")
EXACT = MERGED.replace("- ask: POST /exact", "- allow: POST /exact")
GQL = EXACT.replace("- ask: mutation mergePullRequest", "- allow: mutation mergePullRequest")
MOVED = GQL.replace("    - domain: tunnel.github.test\n      port: 443\n", "").replace(
    "  ask:\n", "    - domain: tunnel.github.test\n      port: 443\n  ask:\n")
WIDE = MOVED.replace("  ask:\n", "    - domain: a.wide.test\n      port: 443\n  ask:\n")
MUTATION = json.dumps({"query": "mutation M($i: MergePullRequestInput!) { mergePullRequest(input: $i) { clientMutationId } }",
                       "variables": {"i": {"pullRequestId": "x", "expectedHeadOid": SHA}}})


def merge(n=7):
    return curl("-X", "PUT", "-H", "Content-Type: application/json", "-d", json.dumps({"sha": SHA}),
                f"https://api.github.test/repos/o/r/pulls/{n}/merge")


def graphql():
    return curl("-H", "Content-Type: application/json", "-d", MUTATION, "https://api.github.test/graphql")


def once(tap, c, a, argv, answer, wanted, what):
    """Asked, approved for good, goes through, and is not asked again."""
    p = a.start(argv)
    q = a.pending()
    tap.eq(len(q), 1, f"{c.who}: {what} waits for an answer")
    r = c("approve", q[0]["id"], "--always", "--yes")
    got = end(p)
    tap.ok(r.code == 0 and answer in got, f"{c.who}: {what} is sent after approve --always", r, got)
    tap.eq(a.text(), wanted, f"{c.who}: {what}: approve --always adds one rule and changes no other byte")
    got = end(a.start(argv))
    tap.ok(answer in got and not a.pending_now(), f"{c.who}: {what} is not asked about again after approve --always", got)
    return q[0], r


def kinds(tap, c, a):
    q, r = once(tap, c, a, merge(), "merged 200", MERGED, "a request")
    tap.ok("+        - allow: PUT /repos/o/r/pulls/7/merge" in r.out and "policy.yaml" in r.out,
           f"{c.who}: approve --always shows the change of the policy file", r)
    edits = a.log("policy.edit")
    tap.ok(len(edits) == 1 and edits[0]["ask"] == q["id"] and edits[0]["file"] == a.policy and edits[0]["via"] == "cli" and
           edits[0]["before"] != edits[0]["after"] and (edits[0]["uid"] == c.uid or c.who == "userns"),
           f"{c.who}: approve --always writes the edit of the policy to the log", edits)
    order = [e["type"] for e in a.log() if e["type"] in ("policy.edit", "ask.answer")]
    tap.eq(order[:2], ["policy.edit", "ask.answer"], f"{c.who}: the log has the edit of the policy before the answer")
    tap.ok(wait_for(lambda: a.log("policy.change"), 60), f"{c.who}: the guard takes the policy that approve --always edited")
    p = a.start(merge(8))
    tap.eq(len(a.pending()), 1, f"{c.who}: a request for another pull request is asked about after approve --always")
    c("deny", a.pending()[0]["id"])
    end(p)
    once(tap, c, a, curl("-d", "x", "https://api.github.test/exact"), "free 200", EXACT, "a request that a line is exactly for")
    once(tap, c, a, graphql(), "gql 200", GQL, "a mutation")
    once(tap, c, a, curl("-k", "https://tunnel.github.test/"), "tunnel 200", MOVED, "a connection that a rule is exactly for")
    once(tap, c, a, curl("-k", "https://a.wide.test/"), "wide 200", WIDE, "a connection of many")
    p = a.start(curl("-k", "https://b.wide.test/"))
    tap.eq(len(a.pending()), 1, f"{c.who}: a connection to another host of a rule for many is asked about after approve --always")
    c("deny", a.pending()[0]["id"])
    end(p)
    r = c("policy", "check", a.policy)
    tap.ok(r.code == 0, f"{c.who}: the policy file is valid after approve --always", r)
    tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")


def refused(tap, c, a):
    """Rules that must not be written; kinds() is the control."""
    def no(n, words, text=POLICY, mode=0o644, prepare=None, argv=None):
        a.change_policy(text, mode)
        p = a.start(argv or merge(n))
        q = a.pending()
        if prepare:
            prepare()
        before = a.text()
        r = c("approve", q[0]["id"], "--always", "--yes") if q else None
        tap.ok(r and r.code == 125 and words in r.err and a.text() == before,
               f"{c.who}: approve --always refuses with '{words}' and leaves the file", r)
        return p, q

    def goes(p, q, words):
        tap.ok(c("approve", q[0]["id"]).code == 0 and "merged 200" in end(p),
               f"{c.who}: a request whose approve --always was refused still waits ({words})")

    star = curl("-X", "PUT", "-d", json.dumps({"sha": SHA}), "-g", "https://api.github.test/repos/o/*/pulls/7/merge")
    goes(*no(0, "pattern", argv=star), "a star")
    flow = "version: 1\nallow:\n- domain: api.github.test\n  http: [{ask: GET /x}, {ask: PUT /repos/*/*/pulls/*/merge}]\n"
    goes(*no(41, "several are in that line", flow), "several in one line")
    goes(*no(42, "is not writable", mode=0o444), "read-only")
    # A link that leads elsewhere, and a second name.
    other = a.policy + ".other"

    def symlink():
        os.rename(a.policy, other)
        os.symlink(other, a.policy)
    p, _ = no(43, "a link in its path was changed", prepare=symlink)
    os.rename(other, a.policy)
    for q in a.pending():
        c("approve", q["id"])
    end(p)
    p, _ = no(44, "another hard link", prepare=lambda: os.link(a.policy, other))
    os.unlink(other)
    for q in a.pending():
        c("approve", q["id"])
    end(p)
    # Meanwhile somebody has denied it: said, and left as it is.
    later = POLICY.replace("- ask:   PUT", "- deny: PUT /repos/o/r/pulls/45/merge\n        - ask:   PUT")
    p, _ = no(45, "denied", prepare=lambda: a.set_policy(later))
    tap.ok("403" in end(p), f"{c.who}: a request that the policy denies by now is denied after a refused approve --always")


def brackets(tap, c, a):
    flow = "version: 1\nallow:\n- domain: api.github.test\n  http: [{allow: GET /**}, {ask: PUT /repos/*/*/pulls/*/merge}]\n"
    a.change_policy(flow)
    once(tap, c, a, merge(61), "merged 200", flow.replace("{ask: PUT", '{allow: "PUT /repos/o/r/pulls/61/merge"}, {ask: PUT'),
         "a list in brackets")


def many(tap, c, a):
    """A rule for many hosts that lists requests: one like it for the host that was asked, which the other hosts do not have."""
    rule = '- domain: "*.wide.test"   # all\n  http:\n  - allow: GET /**\n  - ask: PUT /x/*\n  - deny: GET /no\n'
    one = rule.replace('"*.wide.test"', "a.wide.test").replace("# all\n", "# all\n  port: 443\n").replace(
        "PUT /x/*\n", "PUT /x/*\n  - allow: PUT /x/1\n")
    a.change_policy("version: 1\nallow:\n" + rule)
    once(tap, c, a, curl("-X", "PUT", "https://a.wide.test/x/1"), "wide 200", "version: 1\nallow:\n" + rule + one, "a request of many hosts")
    tap.ok("wide 200" in end(a.start(curl("https://a.wide.test/"))) and "403" in end(a.start(curl("https://a.wide.test/no"))) and
           "403" in end(a.start(curl("-X", "DELETE", "https://a.wide.test/x/1"))),
           f"{c.who}: approve --always for one of many hosts keeps the other rules of that host")
    for url in ("https://b.wide.test/x/1", "https://a.wide.test/x/2"):
        p = a.start(curl("-X", "PUT", url))
        q = a.pending()
        tap.eq(len(q), 1, f"{c.who}: {url} is asked about after approve --always for another URL of the rule")
        c("deny", q[0]["id"])
        end(p)
    beside = "version: 1\nallow:\n" + rule + 'deny:\n- domain: "*.wide.test"\n  port: 443\n  http:\n  - deny: GET /admin\n'
    a.change_policy(beside.replace("PUT /x/*", "PUT /z/*"))
    p = a.start(curl("-X", "PUT", "https://a.wide.test/z/1"))
    q = a.pending()
    r = c("approve", q[0]["id"], "--always", "--yes")
    tap.ok(r.code == 125 and "another rule matches this one too" in r.err and a.text() == beside.replace("PUT /x/*", "PUT /z/*"),
           f"{c.who}: approve --always refuses to overrule another rule of the file", r)
    c("deny", q[0]["id"])
    end(p)


def at_once(tap, c, a):
    a.change_policy(POLICY)
    ps = [a.start(merge(n)) for n in (21, 22, 23)]
    q = a.pending(3)
    tap.eq(len(q), 3, f"{c.who}: three requests wait for an answer")
    # From the first change on each is decided by the policy anew, and asked again: its question may be another by then.
    answers = [c.popen("approve", x["id"], "--always", "--yes") for x in q]
    said = [end(x) for x in answers]
    until = time.monotonic() + 90
    while time.monotonic() < until:
        left = a.pending_now()
        if not left and all(f"pulls/{n}/merge" in a.text() for n in (21, 22, 23)):
            break
        for x in left:
            c("approve", x["id"], "--always", "--yes")
        time.sleep(0.05)
    got = [end(p) for p in ps]
    tap.ok(all("merged 200" in g for g in got),
           f"{c.who}: three requests that are approved with --always at the same time are sent", got, said)
    tap.ok(all(a.text().count(f"- allow: PUT /repos/o/r/pulls/{n}/merge\n") == 1 for n in (21, 22, 23)),
           f"{c.who}: the file has each rule once after three approvals at the same time", a.text())
    tap.ok(c("policy", "check", a.policy).code == 0, f"{c.who}: the file is a valid policy after three approvals at the same time")


def killed(tap, c, a):
    """Killed at each step that changes something: the file is the old one or the new one."""
    killat = os.path.join(c.bin, "killat")
    shutil.copy(KILLAT, killat)
    seen, step, torn = set(), 0, []
    a.change_policy(POLICY)
    p = a.start(merge(31))
    q = a.pending()
    wanted = POLICY.replace("# each of them\n", "# each of them\n        - allow: PUT /repos/o/r/pulls/31/merge\n")
    while q and step < 60:
        step += 1
        r = c(program=[killat, str(step), c.exe, "approve", q[0]["id"], "--always", "--yes"])
        text = a.text()
        if text not in (POLICY, wanted):
            torn.append((step, text))
        seen.add("new" if text == wanted else "old")
        if r.code != 137 or text == wanted:
            break
    tap.eq(torn, [], f"{c.who}: approve --always, killed at each of {step} steps, never leaves half an edit")
    tap.eq(seen, {"old", "new"}, f"{c.who}: the kills of approve --always leave the old file and the new file at least once each")
    tap.ok("merged 200" in end(p), f"{c.who}: a request is sent after its approve --always was killed")
    r = c("approve", "--always", "--yes", q[0]["id"])
    left = [x for x in os.listdir(os.path.dirname(a.policy)) if "coffer-new" in x]
    tap.ok(r.code == 125, f"{c.who}: approve --always for a question that is over is refused", r)
    tap.eq(left, [], f"{c.who}: approve --always, killed, leaves no temporary file beside the policy")
    tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")


def full(tap, c):
    """A file system without room."""
    place = os.path.join(c.home, "small")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=755", "none", place], check=True)
    try:
        c.own(place)
        with Asker(tap, c, POLICY, "--policy", os.path.join(place, "policy.yaml"), name="small/policy.yaml") as a:
            p = a.start(merge())
            q = a.pending()
            try:
                with open(os.path.join(place, "filler"), "wb", buffering=0) as f:
                    while f.write(b"x" * 1024):
                        pass
            except OSError:
                pass
            r = c("approve", q[0]["id"], "--always", "--yes")
            tap.ok(r.code == 125 and "it is unchanged" in r.err and a.text() == POLICY,
                   f"{c.who}: approve --always on a full disk leaves the file as it was", r)
            tap.eq(sorted(os.listdir(place)), ["filler", "policy.yaml"],
                   f"{c.who}: approve --always on a full disk leaves no temporary file")
            os.unlink(os.path.join(place, "filler"))
            r = c("approve", q[0]["id"], "--always", "--yes")
            tap.ok(r.code == 0 and "merged 200" in end(p) and a.text() == MERGED,
                   f"{c.who}: (control) approve --always works once the disk has room", r)
    finally:
        subprocess.run(["umount", place], check=True)


def beside(tap, c):
    with Asker(tap, c, "version: 1\nask:\n- domain: tunnel.github.test\n", "--allow", "tunnel.github.test", "--policy",
               os.path.join(c.home, "both.yaml"), name="both.yaml") as a:
        p = a.start(curl("-k", "https://tunnel.github.test/"))
        q = a.pending()
        r = c("approve", q[0]["id"], "--always")
        tap.ok(r.code == 125 and "--yes" in r.err and "+allow:" in r.out and "ask:\n- domain" in a.text(),
               f"{c.who}: approve --always without a terminal and without --yes only shows the change", r)
        r = c("approve", q[0]["id"], "--always", "--yes")
        tap.ok(r.code == 0 and "tunnel 200" in end(p), f"{c.who}: approve --always works for a run with --allow beside its policy file", r)
        tap.eq(a.text(), "version: 1\nask:\nallow:\n  - domain: tunnel.github.test\n",
               f"{c.who}: approve --always moves a host from a bare ask list to the allow list")


def terminal(tap, c, a):
    """The question as a person sees and answers it; a number alone."""
    a.change_policy(POLICY)
    p = a.start(merge())
    q = a.pending()
    number = q[0]["id"].split("-")[1]
    r = c("approve", number)
    tap.ok(r.code == 125 and q[0]["id"] in r.err and "whole id" in r.err,
           f"{c.who}: approve refuses a number alone and names the whole id", r)
    r = c("deny", number)
    tap.ok(r.code == 125 and q[0]["id"] in r.err, f"{c.who}: deny refuses a number alone and names the whole id", r)
    code, shown = at_terminal(c, ("approve", number), [("Allow this? [y/N]", "n\n")])
    tap.ok(code == 125 and "PUT https://api.github.test/repos/o/r/pulls/7/merge" in shown and "nothing was answered" in shown,
           f"{c.who}: approve at a terminal shows the request, and the answer n approves nothing", shown)
    code, shown = at_terminal(c, ("approve", "--always", q[0]["id"]), [("like this? [y/N]", "n\n")])
    tap.ok(code == 125 and a.text() == POLICY and "+        - allow: PUT" in shown,
           f"{c.who}: approve --always at a terminal edits nothing after the answer n", shown)
    code, shown = at_terminal(c, ("approve", "--always", number), [("Allow this? [y/N]", "y\n"), ("like this? [y/N]", "y\n")])
    tap.ok(code == 0 and a.text() == MERGED and "merged 200" in end(p),
           f"{c.who}: approve --always at a terminal edits the policy after the answer y", shown)
    # A path so long that the terminal would break its line, and go on with what looks like another.
    p = a.start(merge(f"{'7' * 72}+%20%20%20%20-%20domain:evil.test"))
    code, shown = at_terminal(c, ("approve", "--always", a.pending()[0]["id"]), [("like this? [y/N]", "n\n")])
    rows = shown[shown.index("--- "):shown.index("Edit the policy")].splitlines()
    tap.ok(code == 125 and all(len(r) < 100 and r[:1] in "-+ @|" for r in rows) and any(r.startswith("| ") for r in rows),
           f"{c.who}: the change of a long rule is shown in short rows with a mark of ours", shown)
    p.kill()
    end(p)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("--always", reason)
        tap.done()
    with Internet() as net:
        net.https("api.github.test", lambda q: "merged" if q.path.endswith("/merge") else "gql" if q.path == "/graphql" else "free")
        net.https("tunnel.github.test", lambda q: "tunnel")
        net.https("a.wide.test", lambda q: "wide")
        net.https("b.wide.test", lambda q: "wide")
        for who in identities(tap, ("ns",)):
            if who == "userns":
                continue
            with net.coffer(who) as c:
                path = os.path.join(c.home, "policy.yaml")
                with Asker(tap, c, POLICY, "--policy", path) as a:
                    kinds(tap, c, a)
                    if who == "user":
                        refused(tap, c, a)
                        brackets(tap, c, a)
                        many(tap, c, a)
                with Asker(tap, c, POLICY, "--policy", path) as a:
                    if who == "user":
                        terminal(tap, c, a)
                        beside(tap, c)
                    else:
                        at_once(tap, c, a)
                        killed(tap, c, a)
                        full(tap, c)
                c.check_clean(tap)
    tap.done()


main()
