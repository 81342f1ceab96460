# SPDX-License-Identifier: Apache-2.0
"""A request that a rule wants asked waits for a person: a GitHub-shaped server, REST and GraphQL, every identity, both engines."""

import json
import os
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askagent import preview  # noqa: E402
from coffertest import Tap, covering, kill_own, remember  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    # comments stay
    - domain: api.github.test
      port: 443
      http:
        - allow: GET /**
        - ask: PUT /repos/*/*/pulls/*/merge
        - ask: POST /free/**
      graphql:
        - allow: query *
        - ask: mutation mergePullRequest
  ask:
    - domain: tunnel.github.test
      port: 443
"""
SHA = "0123456789abcdef0123456789abcdef01234567"
MERGE = "https://api.github.test/repos/o/r/pulls/7/merge"
GQL = json.dumps({"query": "mutation M($i: MergePullRequestInput!) { mergePullRequest(input: $i) { clientMutationId } }",
                  "variables": {"i": {"pullRequestId": "x", "expectedHeadOid": SHA}}})


def curl(*args):
    return ["curl", "-sS", "-m", "120", "-w", " %{http_code}", *args]


def put(body=None, url=MERGE):
    return curl("-X", "PUT", "-H", "Content-Type: application/json", "-d",
                json.dumps({"sha": SHA}) if body is None else body, url)


class Agent:
    """A sandbox that stays; each request of its is a `coffer exec`."""

    def __init__(self, tap, c, net, *more):
        self.tap, self.c, self.net, self.more = tap, c, net, more
        self.policy = os.path.join(c.home, "policy.yaml")
        self.set_policy(POLICY)

    def set_policy(self, text):
        new = self.policy + ".new"
        with open(new, "w", encoding="utf-8") as f:
            f.write(text)
        self.c.own(new)
        os.rename(new, self.policy)

    def __enter__(self):
        r = self.c("run", "-d", "--engine", self.c.engine, "--policy", self.policy, *self.more, "--", "sleep", "3600")
        self.id = r.out.strip()
        self.tap.ok(r.code == 0 and self.id, f"{self.c.who}: the sandbox starts", r)
        return self

    def __exit__(self, *exc):
        self.c("stop", "-t", "1", self.id)

    def start(self, argv):
        return self.c.popen("exec", self.id, "--", *argv)

    def asks(self, *more):
        return [json.loads(x) for x in self.c("ask", "ls", "--json", *more).out.splitlines()]

    def pending(self, n=1):
        """Waits until so many wait."""
        got = []

        def enough():
            got[:] = [a for a in self.asks() if a["state"] == "pending"]
            return len(got) >= n

        wait_for(enough, 60)
        return got

    def log(self):
        return [json.loads(x) for x in self.c("audit", "--json").out.splitlines()]


def end(p):
    out, err = p.communicate(timeout=300)
    return remember(out.decode(errors="replace") + err.decode(errors="replace"))


def events_of(a, path):
    return sum(path in json.dumps(e) for e in a.log())


def past(tap, c, a):
    """The events before a question stay the same, whatever the sandbox does while it waits; for a repeated question they are those before the first."""
    follow = c.popen("ask", "ls", "--follow")
    end(a.start(["curl", "-sS", "https://api.github.test/secrets/steal-me"]))
    p = a.start(put(url=MERGE.replace("/7/", "/71/")))
    q = a.pending()[0]
    asked = next(e for e in a.log() if e["type"] == "ask.new" and e["ask"] == q["id"])
    tap.eq(q.get("seq"), asked["seq"], f"{c.who}: a question has its sequence number in the log")
    end(a.start(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do curl -sS -o /dev/null https://api.github.test/harmless/$i; done"]))
    wait_for(lambda: events_of(a, "/harmless/20"), 30)
    tap.ok(sum(e["seq"] > asked["seq"] for e in a.log()) > 40, f"{c.who}: control: more than 40 events follow the question")
    again = a.start(put(url=MERGE.replace("/7/", "/71/")))
    wait_for(lambda: a.pending()[0]["times"] == 2, 30)
    show = c("ask", "show", q["id"])
    before = show.out[show.out.find("\nbefore "):]
    tap.ok("/secrets/steal-me" in before and "/harmless/" not in before and "exec.start  curl " in before,
           f"{c.who}: ask show lists what the sandbox did before its question, and nothing after it", show)
    c("approve", q["id"], env={"LOGNAME": "", "SUDO_USER": ""})
    end(p)
    end(again)
    uid = next(e for e in a.log() if e["type"] == "ask.answer" and e["ask"] == q["id"])["uid"]
    known = c(program=["id", "-un"])
    name = known.out.strip() if known.code == 0 else "somebody"
    r, show = c("approve", q["id"]), c("ask", "show", q["id"])
    tap.ok(f"answered already: allow, once by {name} (uid {uid}, cli)" in r.err and f"by {name} (uid" in show.out,
           f"{c.who}: a second approve and ask show name who answered first", r, show)
    follow.terminate()
    lines = [x.split() for x in end(follow).splitlines() if q["id"] in x]
    tap.eq([x[2] for x in lines], ["pending", "allowed", "spent"], f"{c.who}: ask ls --follow prints each state of a question once")


def merges(net):
    return [q for q in net.origin.requests if q.path.endswith("/merge")]


def rest(tap, c, a, net):
    before = len(merges(net))
    p = a.start(put())
    q = a.pending()
    tap.eq(len(q), 1, f"{c.who}: a merge waits for an answer")
    q = q[0] if q else {}
    tap.ok(q.get("method") == "PUT" and q.get("host") == "api.github.test" and q.get("kind") == "request" and
           q.get("path") == "/repos/o/r/pulls/7/merge" and SHA in q.get("preview", "") and "policy.yaml:9" in q.get("rule", ""),
           f"{c.who}: a question has its method, host, path, preview and rule", q)
    tap.eq(len(merges(net)), before, f"{c.who}: a merge is not sent before the answer")
    show = c("ask", "show", q["id"])
    tap.ok("PUT https://api.github.test/repos/o/r/pulls/7/merge" in show.out and "before" in show.out and
           "this very request" in show.out, f"{c.who}: ask show describes the request and what its approval covers", show)
    r = c("approve", q["id"], "--digest", "0" * 64)
    tap.ok(r.code == 125 and "another question" in r.err, f"{c.who}: approve refuses another digest", r)
    r = c("approve", q["id"], "--reason", "looks good")
    tap.ok(r.code == 0, f"{c.who}: approve succeeds", r)
    got = end(p)
    tap.ok("merged 200" in got, f"{c.who}: a merge that was approved gets its response", got)
    tap.eq(len(merges(net)), before + 1, f"{c.who}: a merge that was approved is sent once")
    r = c("approve", q["id"])
    tap.ok(r.code == 125 and "answered already" in r.err, f"{c.who}: a second approve is told that the question is answered already", r)
    p = a.start(put())
    q2 = a.pending()
    tap.ok(len(q2) == 1 and q2[0]["id"] != q["id"], f"{c.who}: a request that was approved once is asked about the second time", q2)
    r = c("deny", q2[0]["id"], "--reason", "not today")
    got = end(p)
    tap.ok(r.code == 0 and "403" in got and "not today" in got and q2[0]["id"] in got,
           f"{c.who}: the client of a request that was denied reads the reason and the id", got)
    tap.eq(len(merges(net)), before + 1, f"{c.who}: a request that was denied is not sent")
    got = end(a.start(put("{}")))
    tap.ok("403" in got and "sha" in got, f"{c.who}: a merge that names no commit is denied", got)
    big = a.start(["sh", "-c", "head -c 1100000 /dev/zero | " + " ".join(curl("-T", "-", "-X", "POST",
                                                                              "https://api.github.test/free/x")).replace(
        " %{http_code}", "'%{http_code}'")])
    got = end(big)
    tap.ok("413" in got, f"{c.who}: a body too large to digest is denied", got[-300:])


def graphql(tap, c, a, net):
    p = a.start(curl("-H", "Content-Type: application/json", "-d", GQL, "https://api.github.test/graphql"))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "graphql" and q[0]["what"] == "mutation mergePullRequest",
           f"{c.who}: a GraphQL mutation waits", q)
    tap.ok(c("approve", q[0]["id"]).code == 0 and "gql 200" in end(p), f"{c.who}: a GraphQL mutation is sent once it is approved")
    got = end(a.start(curl("-H", "Content-Type: application/json", "-d", GQL.replace(SHA, "?"),
                           "https://api.github.test/graphql")))
    tap.ok("403" in got and "expectedHeadOid" in got, f"{c.who}: a GraphQL merge without the commit is denied", got)


def retries(tap, c, a, net):
    before = len(merges(net))
    ps = [a.start(put()) for _ in range(10)]
    ok = wait_for(lambda: [x["waiters"] for x in a.asks() if x["state"] == "pending"] == [10], 90)
    tap.ok(ok, f"{c.who}: ten identical requests are one question with ten waiters", a.asks())
    q = a.pending()
    c("approve", q[0]["id"])
    got = [end(p) for p in ps]
    tap.eq((sum("merged 200" in g for g in got), sum("403" in g for g in got)), (1, 9),
           f"{c.who}: one approval lets one of ten identical requests through")
    tap.eq(len(merges(net)), before + 1, f"{c.who}: one approval of ten identical requests sends one of them")


def gone(tap, c, a, net):
    before = len(merges(net))
    p = a.start(["sh", "-c", '"$@" & while [ ! -e /tmp/go ]; do sleep 0.1; done; rm /tmp/go; kill -9 $!', "sh", *put()])
    q = a.pending()
    tap.eq(c("exec", a.id, "--", "touch", "/tmp/go").code, 0, f"{c.who}: the client of a question is told to end")
    end(p)
    tap.ok(wait_for(lambda: [x["waiters"] for x in a.asks() if x["id"] == q[0]["id"]] == [0], 60),
           f"{c.who}: a question whose client was killed has no waiters", a.asks())
    c("approve", q[0]["id"])
    tap.eq([x["state"] for x in a.asks() if x["id"] == q[0]["id"]], ["parked"],
           f"{c.who}: the answer to a question without waiters is parked")
    tap.eq(len(merges(net)), before, f"{c.who}: nothing is sent for a client that was killed")
    got = end(a.start(put()))
    tap.ok("merged 200" in got, f"{c.who}: a parked answer holds for the identical request", got)
    tap.eq(len(merges(net)), before + 1, f"{c.who}: a request with a parked answer is sent once")


def grants(tap, c, a, net):
    p = a.start(curl("-d", "x", "https://api.github.test/free/a"))
    q = a.pending()
    tap.ok(c("approve", q[0]["id"], "--uses", "2").code == 0 and "free 200" in end(p),
           f"{c.who}: approve --uses 2 lets the first request through")
    tap.ok("free 200" in end(a.start(curl("-d", "other", "https://api.github.test/free/a?y"))),
           f"{c.who}: approve --uses 2 lets a second request of the rule through")
    p = a.start(curl("-d", "x", "https://api.github.test/free/a"))
    q = a.pending()
    tap.eq(len(q), 1, f"{c.who}: a third request is asked about after approve --uses 2")
    tap.ok(c("approve", q[0]["id"], "--sandbox").code == 0 and "free 200" in end(p), f"{c.who}: approve --sandbox lets the request through")
    tap.ok("free 200" in end(a.start(curl("-d", "x", "https://api.github.test/free/a"))),
           f"{c.who}: approve --sandbox lets the next request through")
    tap.ok(c("deny", q[0]["id"]).code == 0, f"{c.who}: deny takes a grant for the sandbox back")
    p = a.start(curl("-d", "x", "https://api.github.test/free/a"))
    q = a.pending()
    tap.eq(len(q), 1, f"{c.who}: a request is asked about again once its grant is taken back")
    c("deny", q[0]["id"])
    end(p)


def changed(tap, c, a, net):
    p = a.start(put())
    q = a.pending()
    a.set_policy(POLICY.replace("ask: PUT", "deny: PUT"))
    got = end(p)
    tap.ok("403" in got, f"{c.who}: a request that waits is denied when a new policy denies it", got)
    r = c("approve", q[0]["id"])
    tap.ok(r.code == 125, f"{c.who}: a question that a new policy denied cannot be approved", r)
    a.set_policy(POLICY)
    tap.ok(wait_for(lambda: sum(e["type"] == "policy.change" for e in a.log()) >= 2, 60), f"{c.who}: the first policy is loaded again")


def connection(tap, c, a, net):
    url = "https://tunnel.github.test/"
    p = a.start(curl("-k", url))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "connect" and q[0]["host"] == "tunnel.github.test", f"{c.who}: a connection waits", q)
    c("approve", q[0]["id"])
    got = end(p)
    tap.ok("tunnel 200" in got, f"{c.who}: a connection opens once it is approved", got)
    p = a.start(curl("-k", url))
    q = a.pending()
    page = end(a.start(["curl", "-sS", "http://coffer.internal/"]))
    tap.ok('"waiting":[{"kind":"connect","host":"tunnel.github.test"' in page,
           f"{c.who}: coffer.internal lists a connection that waits", page)
    w = json.loads(page)["waiting"][0]
    tap.ok(w.get("id") == q[0]["id"] and 0 < w.get("seconds_left", 0) <= 300,
           f"{c.who}: coffer.internal shows the id of a question and its seconds left", w)
    c("deny", q[0]["id"], "--reason", 'use the "mirror" instead <\u202e>')
    tap.ok("tunnel" not in end(p).replace(url, "").replace("tunnel.github.test", ""),
           f"{c.who}: a connection that was denied does not open")
    page = inside(a)
    got = page.get("answered", [{}])[0]
    tap.ok(got.get("kind") == "connect" and got.get("host") == "tunnel.github.test" and got.get("port") == 443 and got.get("outcome") == "denied" and
           'use the "mirror" instead' in got.get("why", "") and got.get("id") == q[0]["id"] and "seconds" in got and not page["waiting"],
           f"{c.who}: coffer.internal says why a connection was denied", page)
    before = [x for x in page.get("answered", []) if x["kind"] == "connect"][1:]
    tap.eq([x["outcome"] for x in before], ["allowed"], f"{c.who}: coffer.internal lists the earlier answer that allowed the connection")
    text = end(a.start(["curl", "-sS", "-H", "Accept: text/plain", "http://coffer.internal/"]))
    tap.ok("denied: connect tunnel.github.test:443: a person denied it: use the" in text and "\u202e" not in text,
           f"{c.who}: coffer.internal says in plain text why a connection was denied", text)


def inside(a):
    """The response of http://coffer.internal/, which is JSON whatever was asked."""
    return json.loads(end(a.start(["curl", "-sS", "http://coffer.internal/"])))


def bounded(tap, c, a, net):
    """However much is answered: the last sixteen are there, each once, and the size of it is bounded."""
    long = "https://api.github.test/free/" + "x" * 3000 + "/%22%e2%80%ae"
    q = []
    for i in range(18):
        p = a.start(curl("-d", "x", f"https://api.github.test/free/past{i}") if i else curl("-d", "x", long))
        q.append(a.pending()[0])
        c("approve", q[-1]["id"], *(("--uses", "3") if i == 17 else ()))
        end(p)
    got = inside(a)["answered"]
    tap.ok(len(got) == 16 and [x["path"] for x in got] == [f"/free/past{i}" for i in range(17, 1, -1)],
           f"{c.who}: coffer.internal lists the last sixteen answers", got)
    end(a.start(curl("-d", "x", "https://api.github.test/free/past17")))
    got = inside(a)["answered"]
    tap.ok(len(got) == 16 and got[0]["times"] == 2 and got[0]["id"] == q[17]["id"] and got[15]["path"] == "/free/past2",
           f"{c.who}: coffer.internal counts a second use of an answer in the same entry", got)
    p = a.start(curl("-d", "y", long))
    c("approve", a.pending()[0]["id"])
    end(p)
    got = inside(a)["answered"][0]
    tap.ok(got["path"].startswith("/free/xxx") and len(got["path"]) < 300, f"{c.who}: coffer.internal cuts a long path", got)


def killed(tap, c, a, net):
    """coffer-egress dies while somebody waits: nothing goes, and the question is asked again."""
    before = len(merges(net))
    p = a.start(put())
    a.pending()
    pids = []
    for d in os.listdir("/proc"):
        try:
            with open(f"/proc/{d}/cmdline", "rb") as f, open(f"/proc/{d}/stat", encoding="latin-1") as s:
                if b"coffer-egress" in f.read() or "(coffer-egress)" in s.read():
                    pids.append(int(d))
        except (OSError, ValueError):
            pass
    mine = [x for x in pids if is_below(x, c)]
    ups = len([e for e in a.log() if e["type"] == "net.up"])
    tap.ok(mine, f"{c.who}: coffer-egress runs while a request waits", pids)
    for x in mine:
        kill_own(x, signal.SIGKILL)
    got = end(p)
    tap.ok("merged" not in got, f"{c.who}: a request that waits gets no response when coffer-egress is killed", got)
    tap.eq(len(merges(net)), before, f"{c.who}: nothing is sent when coffer-egress is killed")
    tap.ok(wait_for(lambda: len([e for e in a.log() if e["type"] == "net.up"]) > ups, 90),
           f"{c.who}: coffer-egress is started again after it was killed", a.log()[-10:])
    p = a.start(put())
    q = a.pending()
    tap.ok(c("approve", q[0]["id"]).code == 0 and "merged 200" in end(p), f"{c.who}: a new coffer-egress asks again about the request")


def is_below(pid, c):
    """Is it a program of this test's own directory?"""
    try:
        return os.readlink(f"/proc/{pid}/exe").startswith(c.dir)
    except OSError:
        return False


def hostile(tap, c, a, net):
    evil = "https://api.github.test/free/%e2%80%ae%3cscript%3e"
    p = a.start(curl("--data-binary", "\x1b]0;x\x07<script>alert(1)</script>\u202e \x1b[2J", evil))
    q = a.pending()
    for args in (("ask", "ls"), ("ask", "show", q[0]["id"])):
        out = c(*args).out
        tap.ok("\x1b" not in out and "\u202e" not in out and "\x07" not in out,
               f"{c.who}: ask {args[1]} prints no control characters of a request", repr(out))
    c("deny", q[0]["id"])
    end(p)
    got = end(a.start(["sh", "-c", "curl -sS -m 60 -w ' %{http_code}' -d x https://api.github.test/free/$(head -c 6000 /dev/zero | tr '\\0' a)"]))
    tap.ok("403" in got and "too long" in got, f"{c.who}: a path that cannot be shown is denied", got[-200:])


def bound(tap, c, a, net):
    """An act in a header or behind a NUL is shown, and a different one is a different question."""
    def post(target):
        return a.start(["sh", "-c", "printf 'a\\0b' | curl -sS -m 120 -w ' %{http_code}' --data-binary @- "
                        f"-H 'X-Target: {target}' -H 'Authorization: Bearer own' https://api.github.test/free/bound"])

    one = post("Describe")
    q = a.pending()
    tap.ok(len(q) == 1 and "a\u2400b" in q[0]["preview"] and "x-target: Describe" in q[0]["what"] and
           "own" not in q[0]["what"], f"{c.who}: headers and what is behind a NUL are shown, credentials are not", q)
    two = post("Delete")
    both = a.pending(2)
    tap.eq(len(both), 2, f"{c.who}: another header is another question")
    for x in both:
        r = c("approve" if "Describe" in x["what"] else "deny", x["id"])
        tap.eq(r.code, 0, f"{c.who}: each of two questions that differ in a header can be answered", r)
    tap.ok(" 403" in end(two) and " 403" not in end(one), f"{c.who}: each of two requests that differ in a header gets its own answer")
    # Any number of others does not hide the one that says what is done.
    junk = " ".join(f"-H 'x-junk{i}: {i}'" for i in range(8))
    p = a.start(["sh", "-c", f"curl -sS -m 120 -w ' %{{http_code}}' -d x {junk} -H 'X-Amz-Target: DeleteTable' https://api.github.test/free/junk"])
    q = a.pending()
    tap.ok(len(q) == 1 and "x-amz-target: DeleteTable" in q[0]["what"] and "x-junk7: 7" in q[0]["what"],
           f"{c.who}: many headers do not hide the one that names the act", q)
    c("approve", q[0]["id"])
    end(p)
    got = end(a.start(["sh", "-c", "curl -sS -m 120 -w ' %{http_code}' -d x $(for i in $(seq 60); do echo -H x-a-header-with-a-long-name-$i:1; done) "
                "https://api.github.test/free/junk"]))
    tap.ok(" 403" in got and "its description is too long for a question" in got,
           f"{c.who}: a request with more headers than a question can name is denied", got[-300:])
    # The shown body is whole, or is marked as cut.
    p = a.start(["sh", "-c", "(head -c 700 /dev/zero; printf TAIL) | curl -sS -m 120 --data-binary @- https://api.github.test/free/nul"])
    q = a.pending()
    text = c("ask", "show", q[0]["id"]).out
    tap.ok("TAIL" in text and q[0].get("preview_bytes") == 704 and "| \u2026" not in preview(text),
           f"{c.who}: ask show shows the bytes after NULs", text[-300:])
    c("approve", q[0]["id"])
    end(p)


def strangers(tap, c, a):
    """The socket itself: bytes that are no request, a client that says nothing."""
    path = os.path.join(c.state, "runs", a.id, "asks.sock")
    tap.eq(oct(os.stat(path).st_mode & 0o777), "0o600", f"{c.who}: the socket for questions has mode 0600")
    s = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    s.connect("asks.sock")
    quiet = socket.socket(socket.AF_UNIX)
    quiet.connect("asks.sock")
    os.chdir(here)
    s.settimeout(60)
    try:
        s.sendall(struct.pack("<IBBHI", 9, 4, 0, 0, 0) + b"{\"id\":\"1\"")
        data = s.recv(65536)
    except OSError:
        data = b""
    tap.ok(not data or b"invalid" in data, f"{c.who}: the ask server refuses a message that is no request", data)
    tap.ok(c("ask", "ls").code == 0, f"{c.who}: ask ls works beside a client that says nothing")
    s.close()
    quiet.close()


def story(tap, c, a):
    lines = [e for e in a.log() if e["type"].startswith("ask.")]
    first = [e["type"] for e in lines][:3]
    tap.eq(first, ["ask.new", "ask.answer", "ask.use"], f"{c.who}: the log has ask.new, ask.answer and ask.use in this order")
    answer = [e for e in lines if e["type"] == "ask.answer"][0]
    tap.ok(answer["answer"] == "allow" and answer["scope"] == "once" and answer["via"] == "cli" and
           (answer["uid"] == c.uid or c.who == "userns"), f"{c.who}: the log says who answered, how and for what scope", answer)
    tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")


def expiring(tap, c, net):
    with Agent(tap, c, net, "--ask-timeout", "2s") as a:
        got = end(a.start(put()))
        tap.ok("403" in got and "nobody answered in time" in got, f"{c.who}: a request that nobody answers in time is denied", got)
        q = [x for x in a.asks("--all") if x["sandbox"] == a.id]
        tap.eq([x["state"] for x in q], ["expired"], f"{c.who}: a question that nobody answered has the state expired")
        got = inside(a).get("answered", [])
        tap.ok(len(got) == 1 and got[0]["outcome"] == "expired" and got[0]["id"] == q[0]["id"] and got[0]["method"] == "PUT" and
               "in time" in got[0]["why"], f"{c.who}: coffer.internal says that a question expired", got)
        r = c("approve", q[0]["id"])
        tap.ok(r.code == 125 and "expired" in r.err, f"{c.who}: approve refuses a question that expired", r)
    p_id = q[0]["id"]
    r = c("approve", p_id)
    tap.ok(r.code == 125 and "ended" in r.err, f"{c.who}: approve refuses a question whose sandbox has ended", r)


def after(tap, c, net):
    """A sandbox that leaves nothing: what was asked is in the log, and `ask ls --all` has it from there."""
    long = "/free/" + "p" * 150 + "/end"
    agent = Agent(tap, c, net)
    script = "; ".join(" ".join(curl("-d", "'a" + " " * 300 + "b'", "https://api.github.test" + path)) for path in (long, "/free/no"))
    p = c.popen("run", "--engine", c.engine, "--policy", agent.policy, "--", "sh", "-c", script)
    wait_for(lambda: '"pending"' in c("ask", "ls", "--json").out)
    ask = json.loads(c("ask", "ls", "--json").out)
    r = c("ask", "ls")
    tap.ok(ask["id"] in r.out and f"POST https://api.github.test{long}\n" in r.out,
           f"{c.who}: ask ls into a pipe shows the whole URL, however long", r)
    r = c("ask", "show", ask["id"])
    tap.ok(r.out.count("preview") == 1 and "a[300 spaces]b" in preview(r.out) and preview(r.out).count("\n") == 2,
           f"{c.who}: ask show counts the spaces of a preview, and shows no empty rows", r)
    tap.ok(", once, 1 waiting, until " in r.out and "1 times" not in r.out,
           f"{c.who}: ask show says that a question was asked once, and that one client waits", r)
    c("approve", ask["id"])
    wait_for(lambda: "/free/no" in c("ask", "ls").out)
    no = next(a for a in map(json.loads, c("ask", "ls", "--json").out.splitlines()) if a["path"] == "/free/no")
    c("deny", no["id"], "--reason", "not now")
    end(p)
    tap.ok(not os.path.exists(os.path.join(c.state, "runs", ask["sandbox"])),
           f"{c.who}: nothing is left in the state of the sandbox that ended")
    tap.eq(c("ask", "ls").out, "nothing waits for an answer\n", f"{c.who}: ask ls shows no question of a sandbox that ended")
    r = c("ask", "ls", "--all")
    rows = [x.split() for x in r.out.splitlines()]
    tap.eq([x[:2] + x[3:] for x in rows if x[0] in (ask["id"], no["id"])],
           [[ask["id"], "spent", "request", "POST", f"https://api.github.test{long}"],
            [no["id"], "denied", "request", "POST", "https://api.github.test/free/no"]],
           f"{c.who}: ask ls --all shows the questions of a sandbox that is gone, and what became of them", r)
    past = {a["id"]: a for a in map(json.loads, c("ask", "ls", "--all", "--json").out.splitlines())}
    same = ("sandbox", "number", "seq", "kind", "host", "port", "tls", "method", "path", "rule", "digest", "body", "body_len")
    tap.ok(all(past[q["id"]].get(k) == q.get(k) for q in (ask, no) for k in same) and past[ask["id"]]["answer"]["allow"] is True and
           past[no["id"]]["answer"]["reason"] == "not now",
           f"{c.who}: ask ls --all --json shows the questions of an ended sandbox as they were asked and answered", past, ask, no)
    r = c("ask", "show", no["id"])
    tap.ok(r.code == 0 and "denied" in r.out and "not now" in r.out and "/free/no" in r.out,
           f"{c.who}: ask show shows a denied question of a sandbox that ended", r)
    r = c("ask", "show", "ffffff-1")
    tap.ok(r.code == 125 and not r.out, f"{c.who}: ask show does not find a question that nobody asked", r)


def visit(tap, c, net):
    if (str(c.who), c.engine) in (("root", "ns"), ("user", "gvisor")):
        after(tap, c, net)
    with Agent(tap, c, net) as a:
        rest(tap, c, a, net)
        past(tap, c, a)
        graphql(tap, c, a, net)
        connection(tap, c, a, net)
        bounded(tap, c, a, net)
        gone(tap, c, a, net)
        grants(tap, c, a, net)
        strangers(tap, c, a)
        hostile(tap, c, a, net)
        bound(tap, c, a, net)
        retries(tap, c, a, net)
        killed(tap, c, a, net)
        changed(tap, c, a, net)
        story(tap, c, a)
        p = a.start(put())
        a.pending()
    end(p)
    tap.ok([e for e in a.log() if e["type"] == "ask.gone"], f"{c.who}: the log has ask.gone for a question whose sandbox ends")
    expiring(tap, c, net)
    c.check_clean(tap)


def short(tap, c, net):
    """A question is asked, approved, denied and sent. The rest of visit() is about the guard and coffer-egress, which are outside."""
    with Agent(tap, c, net) as a:
        rest(tap, c, a, net)
    c.check_clean(tap)


def serve(q):
    return "merged" if q.path.endswith("/merge") else "gql" if q.path == "/graphql" else "free"


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("approvals", reason)
        tap.done()
    with Internet() as net:
        net.origin = net.https("api.github.test", serve)
        net.https("tunnel.github.test", lambda q: "tunnel")
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                (visit if whole else short)(tap, c, net)
    tap.done()


main()
