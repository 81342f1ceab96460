# SPDX-License-Identifier: Apache-2.0
"""request_access of `coffer mcp`: a person is asked while the call waits, and a grant holds for the rest of the session."""

import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering  # noqa: E402
from mcpclient import Client, Reply  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: given.mcp.test
      http:
        - allow: GET /**
  deny:
    - domain: evil.mcp.test
"""


hits = {"back": 0}


def count(q):
    hits["back"] += 1
    return "open"


def pending(c):
    got = []

    def some():
        got[:] = [x for x in map(json.loads, c("ask", "ls", "--json").out.splitlines()) if x["state"] == "pending"]
        return got

    wait_for(some, 60)
    return got


def is_open(m, name, *more):
    r = m.call("exec", command=f"curl -ksS -m 60 {' '.join(more)} https://{name}.mcp.test/x")
    return r.data["stdout"].startswith("open")


def ask(m, rule, reason="the tests need it"):
    return m.begin_call("request_access", rule=rule, reason=reason, wait=200)


def told(m, n):
    return Reply(m.wait_for(n))


def granted(tap, c, m):
    tap.ok(not is_open(m, "new"), f"{c.who}: a host without a rule is closed")
    n = ask(m, "new.mcp.test", "for \x1b[2J\u202e<b>tests</b>")
    q = pending(c)
    tap.ok(len(q) == 1 and q[0]["kind"] == "widen" and q[0]["what"] == "new.mcp.test:443", f"{c.who}: request_access asks a person about the host", q)
    text = c("ask", "show", q[0]["id"]).out
    tap.ok("\x1b" not in text and "\u202e" not in text and "whatever the rule covers" in text, f"{c.who}: coffer ask show writes an agent's reason without control characters", repr(text))
    r = c("approve", q[0]["id"], "--sandbox")
    tap.eq(r.code, 0, f"{c.who}: coffer approve --sandbox grants a rule", r)
    r = told(m, n)
    tap.ok(r.data["granted"] is True and q[0]["id"] in r.data["answer"], f"{c.who}: the agent is told that its rule was granted", r)
    tap.ok(is_open(m, "new") and is_open(m, "new"), f"{c.who}: a granted host is open for the following calls")
    tap.ok(not is_open(m, "other"), f"{c.who}: a grant for one host opens no other host")
    log = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    tap.ok([e for e in log if e["type"] == "access.grant" and e["rule"] == "new.mcp.test:443"], f"{c.who}: the log has the grant of a rule")


def timed(tap, c, m):
    n = ask(m, "other.mcp.test")
    q = pending(c)
    tap.eq(c("approve", q[0]["id"], "--for", "25s").code, 0, f"{c.who}: coffer approve --for grants a rule for a time")
    tap.ok(told(m, n).data["granted"], f"{c.who}: the agent is told of a grant for a time")
    # One call that lives longer than the grant: within it the host closes.
    r = m.call("exec", command="n=0; while curl -ksS -m 60 https://other.mcp.test/x >/dev/null 2>&1; do n=$((n+1)); sleep 0.2; done; "
               "echo closed after $n", timeout_s=110)
    tap.like(r.data["stdout"], r"^closed after [1-9]", f"{c.who}: a grant for a time ends while a call runs", r)
    tap.ok(not is_open(m, "other"), f"{c.who}: the next call does not have a grant whose time is over")


def logged(c, kind, ask):
    return [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == kind and e.get("ask") == ask]


def open_up(tap, c, m, name):
    n = ask(m, f"{name}.mcp.test")
    q = pending(c)
    tap.eq(c("approve", q[0]["id"], "--sandbox").code, 0, f"{c.who}: coffer approve --sandbox grants {name}")
    tap.ok(told(m, n).data["granted"] and is_open(m, name), f"{c.who}: {name} is open after its grant")
    return q[0]["id"]


def taken_back(tap, c, m):
    which = open_up(tap, c, m, "back")
    got = [json.loads(x) for x in c("ask", "ls", "--json").out.splitlines()]
    tap.ok(which in [a["id"] for a in got if a["state"] == "granted"], f"{c.who}: coffer ask ls shows a granted rule between calls", got)
    r = c("deny", which)
    tap.ok(r.code == 0 and len(logged(c, "ask.revoke", which)) == 1, f"{c.who}: coffer deny takes back a granted rule between calls", r)
    tap.ok(not is_open(m, "back"), f"{c.who}: the next call does not have a rule that was taken back")
    tap.ok(is_open(m, "new"), f"{c.who}: other grants stay when one is taken back")
    tap.eq(c("deny", which).code, 125, f"{c.who}: coffer deny refuses a grant that was already taken back")
    # While a call runs: it is closed by the time that the command returns, but for what was on its way.
    which = open_up(tap, c, m, "back")
    n = m.begin_call("exec", command="while curl -ksS -m 20 https://back.mcp.test/x >/dev/null 2>&1; do echo open >> seen; sleep 0.1; done; "
                     "echo closed", timeout_s=100)
    wait_for(lambda: hits["back"] > 2, 60)
    r = c("deny", which)
    before = hits["back"]
    tap.ok(r.code == 0 and len(logged(c, "ask.revoke", which)) == 1, f"{c.who}: coffer deny takes back a granted rule while a call runs", r)
    r = told(m, n)
    tap.ok(r.data["stdout"] == "closed\n" and hits["back"] <= before + 1, f"{c.who}: a running call loses a rule that is taken back at once", r, before, hits)
    tap.ok(not is_open(m, "back") and is_open(m, "new"), f"{c.who}: the next call does not have the rule that was taken back, and has the others")
    hits["back"] = 0


def damaged(tap, c, m):
    path = glob.glob(os.path.join(c.state, "runs", "*", "granted"))
    tap.eq(len(path), 1, f"{c.who}: a session has one file of grants", path)
    with open(path[0], "rb") as f:
        whole = f.read()
    with open(path[0], "wb") as f:
        f.write(whole.replace(b"new.mcp.test", b"other.mcp.test"))
    r = m.call("exec", command="true")
    tap.ok(r.is_error and "none of them holds" in r.text, f"{c.who}: no command is started with a damaged file of grants", r)
    with open(path[0], "wb") as f:
        f.write(whole)
    tap.ok(is_open(m, "new") and not is_open(m, "other"), f"{c.who}: a restored file of grants holds again")


def killed(tap, c, m):
    """A grant lapses with the server, of whatever that dies."""
    which = open_up(tap, c, m, "new")
    m.p.kill()
    tap.ok(wait_for(lambda: logged(c, "ask.lapse", which), 60), f"{c.who}: a granted rule lapses when its server is killed")
    tap.ok(not c("ask", "ls", "--json").out and c("deny", which).code == 125, f"{c.who}: a lapsed rule is not listed and cannot be taken back")


def refused(tap, c, m):
    n = ask(m, "other.mcp.test:8443")
    q = pending(c)
    c("deny", q[0]["id"], "--reason", "use the mirror")
    r = told(m, n)
    tap.ok(r.data["granted"] is False and "use the mirror" in r.data["answer"], f"{c.who}: a denied request_access tells the agent the reason", r)
    for rule, why in (("evil.mcp.test", "a grant cannot override"), ("*.com", "public suffix"), ("10.0.0.1", "grant"), ("given.mcp.test", "lists what"),
                      ("@npm", "preset")):
        r = told(m, ask(m, rule))
        tap.ok(r.data["granted"] is False and why in r.data["answer"], f"{c.who}: {rule} is refused without asking", r)
    r = m.call("request_access", rule="late.mcp.test", reason="x", wait=1)
    tap.ok(r.data["granted"] is False and "in time" in r.data["answer"], f"{c.who}: request_access without an answer in time is not granted", r)
    n = ask(m, "gone.mcp.test")
    pending(c)
    m.cancel(n)
    tap.ok(wait_for(lambda: not [x for x in map(json.loads, c("ask", "ls", "--json").out.splitlines()) if x["state"] == "pending"], 60),
           f"{c.who}: the question of a cancelled request_access stops waiting")
    r = m.call("exec", command="echo fine")
    tap.eq(r.data["stdout"], "fine\n", f"{c.who}: the session continues after a cancelled call", r)


def requests(tap, c, m):
    tap.ok(not is_open(m, "given", "-d", "x"), f"{c.who}: control: a POST that the policy does not list is denied")
    n = ask(m, "POST https://given.mcp.test/**")
    q = pending(c)
    c("approve", q[0]["id"], "--sandbox")
    tap.ok(told(m, n).data["granted"] and is_open(m, "given", "-d", "x"), f"{c.who}: request_access can grant a single request")


def without(tap, c):
    """A session that was started without a word about the network."""
    with Client(c, "-C", c.work) as m:
        m.initialize()
        r = m.call("exec", command="getent hosts new.mcp.test coffer.internal; cat /etc/resolv.conf | wc -l")
        before = r.data["stdout"]
        tap.ok("mcp.test" not in before and "coffer.internal" not in before, f"{c.who}: a session without network options has no network", r)
        tap.eq(r.data.get("network_notes", []), [], f"{c.who}: a command that succeeds gets no note about the network", r)
        r = m.call("exec", command="getent hosts new.mcp.test")
        tap.ok("request_access" in " ".join(r.data["network_notes"]), f"{c.who}: a command that fails to resolve a name is pointed to request_access", r)
        which = open_up(tap, c, m, "new")
        tap.ok(is_open(m, "new") and not is_open(m, "other"), f"{c.who}: a granted host is open in a session without network options, and no other is")
        r = m.call("exec", command="echo kept > file; cat file")
        tap.eq(r.data["stdout"], "kept\n", f"{c.who}: the workspace is the same after the network was opened", r)
        tap.ok(c("deny", which).code == 0 and not is_open(m, "new"), f"{c.who}: a host is closed after its grant was taken back")
        r = m.call("exec", command="getent hosts new.mcp.test coffer.internal; cat /etc/resolv.conf | wc -l; cat file")
        tap.eq(r.data["stdout"], before + "kept\n", f"{c.who}: a session without grants has no network again", r)
        r = told(m, ask(m, "POST https://new.mcp.test/x"))
        tap.ok(r.data["granted"] is False and "ask for the host" in r.data["answer"], f"{c.who}: a single request cannot be granted in a session without a policy", r)
        which = open_up(tap, c, m, "new")
        path = glob.glob(os.path.join(c.state, "runs", "*", "granted"))
        with open(path[0], "ab") as f:
            f.write(b"x")
        tap.ok(not is_open(m, "new"), f"{c.who}: a damaged file of grants opens no host")
        tap.eq(m.end(), 0, f"{c.who}: a session without network options exits with 0")
    c("discard", "@last")
    with Client(c, "--net", "none", "-C", c.work) as m:
        m.initialize()
        r = m.call("request_access", rule="new.mcp.test:8443", reason="I want\nit")
        tap.ok(r.data["granted"] is False and "--allow 'new.mcp.test:8443'" in r.data["answer"],
               f"{c.who}: --net none: request_access is not granted, and names the option to use", r)
        wishes = [json.loads(x) for x in c("audit", "--json", "--type", "access.request").out.splitlines()]
        tap.ok(len(wishes) == 1 and wishes[0]["rule"] == "new.mcp.test:8443" and wishes[0]["reason"] == "I want\nit",
               f"{c.who}: --net none: the request for access is in the log", wishes)
        r = m.call("request_access", rule="*", reason="all")
        tap.ok(r.is_error, f"{c.who}: --net none: request_access refuses a rule for every name", r)
        tap.eq(m.end(), 0, f"{c.who}: --net none: the session exits with 0")


def visit(tap, c, whole):
    """In short: a session asks for access, is granted it, and loses it. The server that asks is outside, and the same for everybody."""
    path = os.path.join(c.home, "policy.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(POLICY)
    c.own(path)
    with Client(c, "--policy", path, "-C", c.work) as m:
        m.initialize()
        granted(tap, c, m)
        taken_back(tap, c, m)
        if c.who == "root":
            timed(tap, c, m)
        if whole:
            requests(tap, c, m)
            damaged(tap, c, m)
            refused(tap, c, m)
        tap.eq(m.end(), 0, f"{c.who}: the session exits with 0")
    with Client(c, "--policy", path, "-C", c.work) as m:
        m.initialize()
        tap.ok(not is_open(m, "new"), f"{c.who}: the next session has no grants of the previous one")
        if whole:
            killed(tap, c, m)
    if whole:
        without(tap, c)
    tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("request_access", reason)
        tap.done()
    with Internet() as net:
        net.https("back.mcp.test", count)
        for name in ("new", "other", "given", "evil"):
            net.https(f"{name}.mcp.test", lambda q: "open")
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                visit(tap, c, whole)
    tap.done()


main()
