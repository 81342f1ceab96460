# SPDX-License-Identifier: Apache-2.0
"""A secret whose rule says `ask: true`: before a request carries it a person is asked, over HTTP/1.1 and HTTP/2."""

import base64
import contextlib
import json
import os
import signal
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askagent import Agent, curl, end, hangs_up, preview  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from rawclient import END_HEADERS, END_STREAM, GOAWAY, HEADERS, SETTINGS  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
POLICY = """version: 1
egress:
  allow:
    - domain: api.sec.test
      secret: {name: github, ask: true}
      http:
        - allow: "* /**"
        - ask: PUT /both
    - domain: free.sec.test
      secret: github
    - domain: close.sec.test
      secret: {name: github, ask: true}
    - domain: leave.sec.test
      secret: {name: github, ask: true}
"""
LISTED = """version: 1
egress:
  allow:
    - domain: api.sec.test
      secret: {name: github, ask: true}
      credentials: only
      http:
        - allow: GET /**
"""


def call(path, *more, version="--http1.1", host="api.sec.test"):
    """A shell inside, for the variable is there."""
    args = " ".join(f"'{x}'" for x in more)
    return ["sh", "-c", f"curl -sS -m 150 {version} -w ' %{{http_code}} v%{{http_version}}' -H \"Authorization: Bearer $GITHUB_TOKEN\" "
            f"{args} https://{host}{path}"]


def carried(net, path):
    return [q for q in net.origin.requests if q.path == path and TOKEN in q.headers.get("Authorization", "")]


def version(tap, c, a, net, flag, shown):
    path = f"/v1/{shown}"
    p = a.start(call(path, version=flag))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "secret" and q[0]["what"] == "github" and q[0]["host"] == "api.sec.test" and
           q[0]["port"] == 443 and q[0]["preview"].startswith(f"GET {path}\n") and "policy.yaml" in q[0]["rule"],
           f"{c.who}: HTTP/{shown}: the first use of a secret is asked about with secret, host and request", q)
    text = c("ask", "show", q[0]["id"]).out
    tap.ok(f"GET {path}" in text and "github" in text and "any request to this host" in text and TOKEN not in text,
           f"{c.who}: HTTP/{shown}: ask show names the secret, the request and the scope, not the value", text)
    tap.eq(len([x for x in net.origin.requests if x.path == path]), 0,
           f"{c.who}: HTTP/{shown}: a request with a secret is not sent before the answer")
    tap.eq(len(a.logged("secret.use")), a.uses, f"{c.who}: HTTP/{shown}: a secret is not rendered before the answer")
    tap.ok(c("approve", q[0]["id"]).code == 0, f"{c.who}: HTTP/{shown}: approve of a secret succeeds")
    got = end(p)
    tap.ok(f"hello 200 v{shown}" in got and len(carried(net, path)) == 1, f"{c.who}: HTTP/{shown}: an approved secret is sent once", got)
    a.uses += 1
    tap.ok(wait_for(lambda: len(a.logged("secret.use")) == a.uses, 60),
           f"{c.who}: HTTP/{shown}: the use of an approved secret is in the log")
    p = a.start(call(path, version=flag))
    q = a.pending()
    tap.ok(len(q) == 1, f"{c.who}: HTTP/{shown}: the next use of a secret that was approved once is asked about", q)
    c("deny", q[0]["id"], "--reason", "not this one")
    got = end(p)
    tap.ok(" 403" in got and "not this one" in got and "secret" in got and len(carried(net, path)) == 1,
           f"{c.who}: HTTP/{shown}: a secret that was denied is not sent", got)
    p = a.start(call(path, version=flag))
    q = a.pending()
    p.terminate()
    end(p)
    tap.ok(wait_for(lambda: [x["waiters"] for x in a.asks() if x["id"] == q[0]["id"]] == [0], 60),
           f"{c.who}: HTTP/{shown}: a secret's question whose client was killed has no waiters")
    c("deny", q[0]["id"])
    tap.eq(len(carried(net, path)), 1, f"{c.who}: HTTP/{shown}: a secret is not sent for a client that was killed")


def scopes(tap, c, a, net):
    p = a.start(call("/scope/a", "-d", "x"))
    q = a.pending()
    tap.ok(c("approve", q[0]["id"], "--uses", "2").code == 0 and "hello 200" in end(p),
           f"{c.who}: approve --uses 2 of a secret lets the first request through")
    tap.ok("hello 200" in a.do(call("/scope/other", "-X", "DELETE", version="--http2")),
           f"{c.who}: approve --uses 2 of a secret lets another request through")
    p = a.start(call("/scope/c"))
    q = a.pending()
    tap.eq(len(q), 1, f"{c.who}: a third use is asked about after approve --uses 2 of a secret")
    tap.ok(c("approve", q[0]["id"], "--sandbox").code == 0 and "hello 200" in end(p),
           f"{c.who}: approve --sandbox of a secret lets the request through")
    tap.ok("hello 200" in a.do(call("/scope/d")), f"{c.who}: approve --sandbox of a secret lets the next request through")
    tap.ok("401" in a.do(["curl", "-sS", "-w", " %{http_code}", "https://api.sec.test/none"]),
           f"{c.who}: a request without the secret asks nobody")
    p = a.start(call("/both", "-X", "PUT"))
    both = a.pending()
    tap.ok(len(both) == 1 and both[0]["kind"] == "request",
           f"{c.who}: the question of a request's own rule comes before that of its secret", both)
    c("approve", both[0]["id"])
    tap.ok("hello 200" in end(p), f"{c.who}: a request that was approved uses the grant of its secret")
    tap.ok(c("deny", q[0]["id"]).code == 0, f"{c.who}: deny takes back the grant of a secret")
    p = a.start(call("/both", "-X", "PUT"))
    one = a.pending()
    c("approve", one[0]["id"])
    two = a.pending()
    tap.ok(len(two) == 1 and two[0]["kind"] == "secret",
           f"{c.who}: a request and its secret are both asked about once the grant is taken back", two)
    c("approve", two[0]["id"])
    tap.ok("hello 200" in end(p), f"{c.who}: a request is sent when it and its secret are approved")
    tap.ok("hello 200" in a.do(call("/free", host="free.sec.test")),
           f"{c.who}: a secret whose rule does not ask is sent without a question")


def sent_once(tap, c, a, net):
    """A server that takes the request and hangs up: the secret is not sent a second time by one answer."""
    net.closed.clear()
    p = a.start(call("/go", host="close.sec.test"))
    q = a.pending()
    c("approve", q[0]["id"])
    got = end(p)
    tap.ok(" 502" in got and net.closed == [f"GET /go Bearer {TOKEN}"],
           f"{c.who}: a secret that was approved once is sent once to a server that hangs up", got, len(net.closed))


class Leaving:
    """An HTTP/2 server whose first connection is told to go away before a request has come; the next ones answer 200."""

    def __init__(self, net, host):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*net.cert(host))
        self.context.set_alpn_protocols(["h2"])
        self.reset()
        net.tcp(host, 443, self.serve)

    def reset(self):
        self.connections, self.requests, self.went = 0, 0, threading.Event()

    def serve(self, conn, _server):
        self.connections += 1
        with self.context.wrap_socket(conn, server_side=True) as tls, tls.makefile("rb") as f:
            first = self.connections == 1
            f.read(24)
            tls.sendall(frame(SETTINGS))
            while len(head := f.read(9)) == 9:
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                f.read(int.from_bytes(head[:3], "big"))
                if kind == SETTINGS and flags & 1 and first:  # it has taken ours, and is a connection that requests may use
                    time.sleep(0.2)
                    tls.sendall(frame(GOAWAY, data=bytes(8)))
                    self.went.set()
                elif kind == SETTINGS and not flags & 1:
                    tls.sendall(frame(SETTINGS, 1))
                elif kind == HEADERS:
                    self.requests += 1
                    tls.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, b"\x20\x88"))  # no dynamic table, as it wants; :status 200


def frame(kind, flags=0, stream=0, data=b""):
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


def vaults(c):
    """The processes coffer-vault that something of this installation has started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
                text = f.read()
            if "(coffer-vault)" in text:
                with open(f"/proc/{text.rsplit(')', 1)[1].split()[1]}/cmdline", encoding="latin-1") as f:
                    found += [int(pid)] if os.path.dirname(c.exe) in f.read() else []
    return found


def begun_again(tap, c, a, net):
    """A connection that takes no more streams by the time when the vault has answered: nothing was sent, so the approval holds for the next one."""
    net.leaving.reset()
    p = a.start(call("/later", version="--http2", host="leave.sec.test"))
    q = a.pending()
    held = vaults(c)
    try:
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        c("approve", q[0]["id"])
        went = net.leaving.went.wait(60)
        time.sleep(0.2)
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)
    got = end(p)
    tap.ok(held and went and " 200 v2" in got, f"{c.who}: an approved request goes over another connection when the first takes no more streams", got, held)
    tap.eq((net.leaving.connections, net.leaving.requests), (2, 1),
           f"{c.who}: an approved request that changed its connection is sent once")
    a.uses = len(a.logged("secret.use"))


def changed(tap, c, a, net):
    p = a.start(call("/changed"))
    q = a.pending()
    a.set_policy(POLICY.replace('"* /**"', '"* /v1/**"'))
    got = end(p)
    tap.ok(" 403" in got and not carried(net, "/changed"),
           f"{c.who}: a request whose secret waits is denied when a new policy denies it", got)
    tap.ok(c("approve", q[0]["id"]).code == 125, f"{c.who}: a secret's question that a new policy denied cannot be approved")


def cut(tap, c, a):
    """Text before the body does not count as a part of it."""
    body = "7" * 1400 + "TAIL"
    p = a.start(call("/cut?q=" + "0" * 1200, "-d", body))
    q = a.pending()
    q = q[0] if q else {}
    text = c("ask", "show", q.get("id", "none")).out
    tap.ok(q.get("body_len") == len(body) and 0 < q.get("preview_bytes", 0) < len(body) and "TAIL" not in text and "| \u2026" in preview(text),
           f"{c.who}: ask show marks a body that is not shown whole", q, text)
    c("approve", q.get("id", "none"))
    end(p)
    p = a.start(call("/cut", "-d", body))
    q = a.pending()
    q = q[0] if q else {}
    text = c("ask", "show", q.get("id", "none")).out
    tap.ok(q.get("preview_bytes") == len(body) and "TAIL" in text and "| \u2026" not in preview(text),
           f"{c.who}: control: ask show does not mark a body that is shown whole", q, text)
    c("approve", q.get("id", "none"))
    end(p)


def widened(tap, c, net):
    """A rule that is granted on top of one that lists requests: all else that the listing rule says holds for it."""
    with Agent(tap, c, LISTED) as a:
        post = call("/unlisted", "-X", "POST", "-d", "x")
        tap.ok(" 403" in a.do(post), f"{c.who}: a request that the policy does not list is denied")
        p = a.start(curl("-d", json.dumps({"rule": "POST https://api.sec.test/unlisted", "reason": "r", "wait": 60}),
                         "http://coffer.internal/v1/access"))
        q = a.pending()
        tap.ok(len(q) == 1 and q[0]["kind"] == "widen" and c("approve", q[0]["id"], "--sandbox").code == 0,
               f"{c.who}: a request to widen the policy is granted", q)
        tap.ok("granted" in end(p), f"{c.who}: the sandbox is told that its request to widen the policy was granted")
        p = a.start(post)
        q = a.pending()
        tap.ok(len(q) == 1 and q[0]["kind"] == "secret", f"{c.who}: a granted rule still asks about the secret", q)
        tap.eq(len(carried(net, "/unlisted")), 0, f"{c.who}: a secret is not sent by a granted rule before its answer")
        c("deny", q[0]["id"])
        tap.ok(" 403" in end(p), f"{c.who}: a request by a granted rule is denied when its secret is denied")
        got = a.do(curl("-d", "x", "-H", "Authorization: Bearer of-my-own-0123456789", "https://api.sec.test/unlisted"))
        tap.ok(" 403" in got, f"{c.who}: a granted rule still refuses the sandbox's own credentials", got)
        p = a.start(post)
        q = a.pending()
        c("approve", q[0]["id"])
        tap.ok("hello 200" in end(p) and len(carried(net, "/unlisted")) == 1,
               f"{c.who}: control: a request by a granted rule is sent when its secret is approved")


def for_good(tap, c, net):
    """--always: that rule does not ask any more, and no other."""
    other = '    - domain: "*.sec.test"   # many\n      secret: {name: github, ask: true}\n'
    before = POLICY.split("    - domain: free")[0] + other
    with Agent(tap, c, before) as a:
        def text():
            with open(a.policy, encoding="utf-8") as f:
                return f.read()
        p = a.start(call("/good/many", host="free.sec.test"))
        q = a.pending()
        r = c("approve", q[0]["id"], "--always", "--yes")
        tap.ok(r.code == 125 and "covers other hosts or ports" in r.err and text() == before,
               f"{c.who}: --always: approve refuses to edit a rule for many hosts", r)
        c("deny", q[0]["id"])
        tap.ok(" 403" in end(p), f"{c.who}: --always: a request that was denied after a refused edit gets 403")
        p = a.start(call("/good/one"))
        q = a.pending()
        r = c("approve", q[0]["id"], "--always", "--yes")
        got = end(p)
        tap.ok(r.code == 0 and "hello 200" in got, f"{c.who}: --always: the request that waited for its secret is sent", r, got)
        tap.eq(text(), before.replace("ask: true", "ask: false", 1), f"{c.who}: --always: approve of a secret changes one word of the file")
        tap.ok("hello 200" in a.do(call("/good/two", "-X", "DELETE")), f"{c.who}: --always: the secret is not asked about again")
        p = a.start(call("/good/many", host="free.sec.test"))
        q = a.pending()
        tap.eq(len(q), 1, f"{c.who}: --always: the secret is still asked about under another rule")
        c("deny", q[0]["id"])
        end(p)
        p = a.start(call("/both", "-X", "PUT"))
        q = a.pending()
        tap.ok(len(q) == 1 and q[0]["kind"] == "request",
               f"{c.who}: --always: approve of a secret allows no request that its own rule asks about", q)
        c("deny", q[0]["id"])
        end(p)


def visit(tap, c, net, whole):
    """In short: a use of the secret by HTTP/1.1 is asked for. The acts that an answer covers are decided by coffer-egress and the guard, outside."""
    r = c("secret", "set", "github", "-", "--host", "api.sec.test", "--host", "free.sec.test", "--host", "close.sec.test", "--host", "leave.sec.test",
          "--as", "bearer", input=TOKEN)
    tap.eq(r.code, 0, f"{c.who}: the secret is in the vault", r)
    with Agent(tap, c, POLICY) as a:
        a.uses = 0
        version(tap, c, a, net, "--http1.1", "1.1")
        if whole:
            version(tap, c, a, net, "--http2", "2")
            scopes(tap, c, a, net)
            cut(tap, c, a)
            sent_once(tap, c, a, net)
            begun_again(tap, c, a, net)
            changed(tap, c, a, net)
        tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")
    if whole:
        widened(tap, c, net)
        for_good(tap, c, net)
    net.origin.requests.clear()
    c.check_clean(tap)


def serve(q):
    return "hello" if TOKEN in q.headers.get("Authorization", "") else (401, {}, "who are you?")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("asking for secrets", reason)
        tap.done()
    with Internet() as net:
        net.origin = net.https("api.sec.test", serve)
        net.https("free.sec.test", serve)
        net.closed = hangs_up(net, "close.sec.test")
        net.leaving = Leaving(net, "leave.sec.test")
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                visit(tap, c, net, whole)
    tap.done()


main()
