# SPDX-License-Identifier: Apache-2.0
"""An agent asks for a rule at http://coffer.internal/v1/access; a person grants it, for a time or as long as the sandbox lives."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askagent import Agent, curl, end  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.widen.test
      http:
        - allow: GET /**
        - deny: GET /secret/**
        - ask: PUT /asked
  deny:
    - domain: evil.widen.test
    - domain: "*.denied.test"
    - domain: "*"
"""
ASK = "http://coffer.internal/v1/access"


def ask(rule, wait=120, reason="the build needs it"):
    return curl("-d", json.dumps({"rule": rule, "reason": reason, "wait": wait}), ASK)


def body_of(text):
    """The output of curl: JSON, then the status."""
    head, _, status = text.rpartition(" ")
    try:
        return json.loads(head), status.strip()
    except ValueError:
        return {}, text


def is_open(a, url, want="open 200"):
    return want in a.do(curl("-k", url))


def granted(tap, c, a):
    url = "https://new.widen.test/"
    tap.ok(not is_open(a, url), f"{c.who}: a host without a rule is closed")
    p = a.start(ask("new.widen.test"))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "widen" and q[0]["what"] == "new.widen.test:443" and
           q[0]["reason"] == "the build needs it", f"{c.who}: a rule waits as a question in its canonical form", q)
    shown = c("ask", "show", q[0]["id"]).out
    tap.ok("new.widen.test:443" in shown and "the build needs it" in shown and "whatever the rule covers" in shown,
           f"{c.who}: ask show prints the rule with its reason", shown)
    tap.ok(not is_open(a, url), f"{c.who}: the host is closed while the question waits")
    r = c("approve", q[0]["id"])
    tap.ok(r.code == 125 and "not for a number of uses" in r.err, f"{c.who}: a rule cannot be granted for one use", r)
    r = c("approve", q[0]["id"], "--sandbox")
    tap.ok(r.code == 0, f"{c.who}: approve --sandbox grants a rule", r)
    tap.ok(is_open(a, url), f"{c.who}: the host is open when approve returns")
    got, status = body_of(end(p))
    tap.ok(status == "200" and got.get("state") == "granted" and got.get("id") == q[0]["id"], f"{c.who}: the process that asked gets the answer", got)
    tap.ok(not is_open(a, "https://other.widen.test/"), f"{c.who}: a grant opens no other host")
    page = a.do(["curl", "-sS", "http://coffer.internal/"])
    tap.ok('"granted":[{"rule":"allow new.widen.test:443"' in page, f"{c.who}: coffer.internal lists the grant", page)
    got, status = body_of(a.do(ask("new.widen.test")))
    tap.ok(status == "200" and got.get("state") == "granted" and len(a.asks("--all")) == 1,
           f"{c.who}: a granted rule is granted again without a question", got)
    return q[0]["id"]


def kept(tap, c, a, qid):
    """Over a change of the file, and over a broken one; a deny in the file wins; taken back, it closes."""
    url = "https://new.widen.test/"
    a.set_policy(POLICY + "    - domain: more.denied.test\n")
    tap.ok(wait_for(lambda: len(a.logged("policy.change")) >= 2, 60), f"{c.who}: control: the changed file is in force")
    tap.ok(is_open(a, url), f"{c.who}: a grant holds after a change of the file")
    a.set_policy(POLICY + "    - domain: new.widen.test\n")
    tap.ok(wait_for(lambda: len(a.logged("policy.change")) >= 3, 60), f"{c.who}: control: the file that denies the host is in force")
    tap.ok(wait_for(lambda: not is_open(a, url), 60), f"{c.who}: a deny in the file overrides a grant")
    a.set_policy(POLICY)
    tap.ok(wait_for(lambda: len(a.logged("policy.change")) >= 4, 60), f"{c.who}: control: the first file is in force again")
    tap.ok(wait_for(lambda: is_open(a, url), 60), f"{c.who}: a grant holds again when the file does not deny the host")
    a.set_policy("egress: [broken")
    tap.ok(wait_for(lambda: a.logged("policy.broken"), 60), f"{c.who}: control: the broken file is logged")
    tap.ok(is_open(a, url), f"{c.who}: a grant holds while the file is broken")
    p = a.start(curl("-k", "-N", "https://new.widen.test/slow"))
    tap.ok(wait_for(lambda: a.slow.started, 60), f"{c.who}: control: a connection is open")
    r = c("deny", qid)
    tap.ok(r.code == 0, f"{c.who}: deny takes back a grant while the file is broken", r)
    tap.ok("whole" not in end(p), f"{c.who}: an open connection is closed when its grant is taken back")
    a.slow.go_on()
    tap.ok(not is_open(a, url), f"{c.who}: the host stays closed after its grant was taken back")
    got, status = body_of(a.do(curl(f"{ASK}/{qid}")))
    tap.ok(status == "200" and got.get("state") == "ended", f"{c.who}: the sandbox can read that its grant has ended", got)
    a.set_policy(POLICY)


def timed(tap, c, a):
    p = a.start(ask("new.widen.test:443", wait=0))
    got, status = body_of(end(p))
    tap.ok(status == "202" and got.get("state") == "waiting" and got.get("id"), f"{c.who}: a request without wait gets an id", got)
    qid = got.get("id", "")
    tap.eq(body_of(a.do(curl(f"{ASK}/{qid}")))[0].get("state"), "waiting", f"{c.who}: the state of a waiting rule is waiting")
    tap.ok(c("approve", qid, "--for", "4s").code == 0, f"{c.who}: approve --for grants a rule for a time")
    state = body_of(a.do(curl(f"{ASK}/{qid}")))[0].get("state")
    tap.ok(state == "granted" or (state == "ended" and a.logged("ask.lapse")), f"{c.who}: the state of a granted rule is granted", state)
    tap.ok(wait_for(lambda: a.logged("ask.lapse"), 60), f"{c.who}: a grant for a time is logged as lapsed")
    tap.ok(wait_for(lambda: not is_open(a, "https://new.widen.test/"), 60), f"{c.who}: the host is closed after the grant's time")
    tap.eq(body_of(a.do(curl(f"{ASK}/{qid}")))[0].get("state"), "ended", f"{c.who}: the state of a lapsed grant is ended")


def requests(tap, c, a):
    """Single requests, beside what the policy lists; what it denies or asks stays so."""
    post = curl("-d", "x", "https://api.widen.test/v1/things")
    tap.ok("403" in a.do(post), f"{c.who}: a request that the policy does not list is denied")
    p = a.start(ask("POST https://api.widen.test/v1/**"))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["what"] == "POST https://api.widen.test/v1/**", f"{c.who}: a request rule waits as a question", q)
    tap.ok(c("approve", q[0]["id"], "--sandbox").code == 0 and body_of(end(p))[1] == "200", f"{c.who}: approve --sandbox grants a request rule")
    tap.ok("open 200" in a.do(post), f"{c.who}: a granted request goes through")
    tap.ok("403" in a.do(curl("-d", "x", "https://api.widen.test/v2/things")), f"{c.who}: a granted request rule does not cover another path")
    tap.ok("403" in a.do(curl("https://api.widen.test/secret/x")), f"{c.who}: a granted request rule does not override a deny")


def denied(tap, c, a):
    p = a.start(ask("third.widen.test"))
    q = a.pending()
    c("deny", q[0]["id"], "--reason", "use the mirror")
    got, status = body_of(end(p))
    tap.ok(status == "403" and got.get("state") == "denied" and "use the mirror" in got.get("why", ""),
           f"{c.who}: a denied rule is answered with the reason", got)
    tap.ok(not is_open(a, "https://third.widen.test/"), f"{c.who}: a host is closed after its rule was denied")


REFUSED = (
    ("*.com", "public suffix"),
    ("*", "every name"),
    ("10.1.2.3", "which no range can grant"),
    ("169.254.169.254:80", "no range can grant"),
    ("8.8.0.0/16", "range"),
    ("localhost", "private network"),
    ("db.internal", "private network"),
    ("coffer.internal", "private"),
    ("evil.widen.test", "a grant cannot override"),
    ("x.denied.test:8443", "a grant cannot override"),
    ("api.widen.test", "lists what may be sent"),
    ("GET https://api.widen.test/secret/x", "a grant cannot override"),
    ("PUT https://api.widen.test/asked", "just try it"),
    ("GET https://api.widen.test/x", "already"),
    ("@github-read", "preset"),
    ("DELETE api.widen.test/x", "METHOD https"),
    ("GET ftp://api.widen.test/x", "METHOD https"),
    ("GET https://u@api.widen.test/x", ""),
    ("a" * 300 + ".test", ""),
)


def refused(tap, c, a):
    before = len(a.asks("--all"))
    script = "\n".join(" ".join(f"'{x}'" for x in ask(rule, wait=20)) + "; echo" for rule, _ in REFUSED)
    lines = [x for x in a.do(["sh", "-c", script]).splitlines() if x.strip()]
    answers = [x for x in lines if x.startswith("{")]
    status = [x.strip() for x in lines if not x.startswith("{")]
    tap.eq((len(answers), status), (len(REFUSED), ["409"] * len(REFUSED)), f"{c.who}: each refused rule gets a 409", lines)
    for (rule, why), line in zip(REFUSED, answers):
        got = json.loads(line)
        tap.ok(got["state"] == "refused" and why in got["why"], f"{c.who}: {rule[:40]} is refused at once", got)
    tap.eq(len(a.asks("--all")), before, f"{c.who}: refused rules make no question")


EVIL = "\x1b]0;pwned\x07\x1b[2J<script>alert(1)</script>\u202e\u2066txt.exe\u200f \x9b31m"


def hostile(tap, c, a):
    p = a.start(ask("fourth.widen.test", reason=EVIL))
    q = a.pending()
    for args in (("ask", "ls"), ("ask", "show", q[0]["id"])):
        out = c(*args).out
        tap.ok(not any(x in out for x in ("\x1b", "\x07", "\u202e", "\u2066", "\u200f", "\x9b")),
               f"{c.who}: ask {args[1]} prints no control characters", repr(out))
    c("deny", q[0]["id"])
    end(p)
    for rule in ("\x1b[31mevil.test", "e\u202evil.test", "<b>x</b>.test", "x.test\n", "x.test\x00y"):
        got, status = body_of(a.do(ask(rule, wait=0)))
        tap.ok(status in ("400", "409") and got.get("state") in (None, "refused"), f"{c.who}: {rule!r} is refused as a rule", got)
    big = ("head -c 1000000 /dev/zero | tr '\\0' a | curl -sS -m 60 -o /dev/null -w '%{http_code}' --data-binary @- " + ASK)
    got = a.do(["sh", "-c", big])
    tap.ok("200" not in got and "202" not in got, f"{c.who}: a body of 1 MB is refused", got)
    got = a.do(["sh", "-c", f"head -c 1000000 /dev/zero | tr '\\0' a | curl -sS -m 60 -w '%{{http_code}}' -K - {ASK}/x -o /dev/null; "
                f"curl -sS -m 60 -o /dev/null -w '%{{http_code}}' {ASK}/$(head -c 100000 /dev/zero | tr '\\0' a)"])
    tap.ok("200" not in got and "202" not in got, f"{c.who}: a URL of 100 KB is refused", got[-200:])
    for body in ("[]", "{", '{"rule":"a.test","rule":"b.test"}', '{"rule":7}', '{"rule":"a.test","wait":1e9}',
                 '{"rule":"a.test","x":1}', "{}", "[" * 5000):
        got, status = body_of(a.do(curl("-d", body, ASK)))
        tap.eq(status, "400", f"{c.who}: the body {body[:30]} is refused")
    tap.eq([x["state"] for x in a.asks() if x["kind"] == "widen" and x["state"] == "pending"], [], f"{c.who}: no malformed request waits as a question")


def flooded(tap, c, a):
    """Sixteen wait; more are told to come later. Five denials, and nobody is asked for a while."""
    script = "for i in $(seq 1 40); do curl -sS -m 60 -o /dev/null -w '%{http_code}\\n' -d " \
             f"'{{\"rule\":\"flood'$i'.widen.test\",\"reason\":\"x\"}}' {ASK}; done"
    got = a.do(["sh", "-c", script]).split()
    tap.eq((got.count("202"), got.count("429")), (16, 24), f"{c.who}: 16 of 40 rules wait, and the others get a 429")
    waiting = [x for x in a.asks() if x["state"] == "pending"]
    tap.eq(len(waiting), 16, f"{c.who}: ask ls lists the 16 waiting rules")
    for x in waiting[:5]:
        c("deny", x["id"])
    got, status = body_of(a.do(ask("tired.widen.test", wait=20)))
    tap.ok(status == "409" and "without asking" in got.get("why", ""), f"{c.who}: a sandbox that was denied five times cannot ask any more", got)
    tap.ok(not is_open(a, "https://flood1.widen.test/"), f"{c.who}: a host of a denied flood is closed")


def visit(tap, c, net, whole):
    """In short: access is asked for, granted and kept. The possible requests and their times are decided by the guard, outside."""
    with Agent(tap, c, POLICY) as a:
        a.slow = net.slow
        net.slow.reset()
        kept(tap, c, a, granted(tap, c, a))
        if whole:
            timed(tap, c, a)
            requests(tap, c, a)
            denied(tap, c, a)
            refused(tap, c, a)
            hostile(tap, c, a)
            flooded(tap, c, a)
        lines = [e["type"] for e in a.log() if e["type"] in ("ask.new", "ask.answer", "policy.change", "ask.use", "ask.revoke")]
        tap.eq(lines[:4], ["ask.new", "ask.answer", "policy.change", "ask.use"],
               f"{c.who}: the log has question, answer, policy change and use in this order")
        tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")
    c.check_clean(tap)


def without_file(tap, c):
    """Nothing but --net: the grant stands alone. And in observe there is nothing to ask for."""
    with Agent(tap, c, None, "--net", "enforce") as a:
        p = a.start(ask("new.widen.test"))
        q = a.pending()
        tap.ok(c("approve", q[0]["id"], "--sandbox").code == 0 and body_of(end(p))[1] == "200" and
               is_open(a, "https://new.widen.test/"), f"{c.who}: a rule can be granted without a policy file")
        tap.ok(not is_open(a, "https://third.widen.test/"), f"{c.who}: a grant without a policy file opens no other host")
    with Agent(tap, c, None, "--net", "observe") as a:
        got, status = body_of(a.do(ask("new.widen.test", wait=20)))
        tap.ok(status == "409" and "already" in got.get("why", ""), f"{c.who}: with --net observe a rule is refused as unnecessary", got)


class Slow:
    """A server whose answer has a beginning, and an end that waits to be let go."""

    def __init__(self):
        import threading
        self.event = threading.Event()
        self.started = False

    def reset(self):
        self.event.clear()
        self.started = False

    def go_on(self):
        self.event.set()

    def serve(self, q):
        if q.path != "/slow":
            yield "open"
            return
        yield "part"
        self.started = True
        self.event.wait(60)
        yield "whole"


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("widening", reason)
        tap.done()
    with Internet() as net:
        net.slow = Slow()
        net.https("new.widen.test", net.slow.serve)
        for name in ("api", "other", "third", "evil", "flood1"):
            net.https(f"{name}.widen.test", lambda q: "open")
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                visit(tap, c, net, whole)
                if c.who == "root":
                    without_file(tap, c)
    tap.done()


main()
