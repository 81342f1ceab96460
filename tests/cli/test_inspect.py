# SPDX-License-Identifier: Apache-2.0
"""Inspection with real clients and servers: the real coffer-egress, confined as in a run, behind a wall of the rig's own.

Every refusal has a positive control beside it. Numbers are those of the list of what has gone wrong elsewhere.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import PATIENCE, Rig, wait_for  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="inspect-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")  # what clients inside trust: the sandbox's own authority

POLICY = """
version: 1
egress:
  allow:
    - domain: api.example.test
      port: [443, 80]
      http:
        - allow: ["* /**", "WEBSOCKET /ws", "WEBSOCKET /x", "WEBSOCKET /**/ws"]
        - deny: ["* /secret/**", "DELETE /**"]
    - domain: h2.example.test
      port: 443
      http: [{allow: "* /**"}, {deny: "* /secret/**"}]
    - domain: web.example.test
      port: 443
      http: [{allow: "GET /**"}]
    - domain: gql.example.test
      port: 443
      graphql:
        - allow: query *
        - allow: mutation addComment
    - domain: git.example.test
      port: 443
      git:
        - allow: fetch o/r
        - allow: push o/r refs/heads/bot/** create,update,force
    - domain: own.example.test
      port: 443
      http: [{allow: "* /**"}]
      credentials: only
    - domain: expired.example.test
      port: 443
      http: [{allow: "GET /**"}]
    - domain: wrong.example.test
      port: 443
      http: [{allow: "GET /**"}]
    - domain: stranger.example.test
      port: 443
      http: [{allow: "GET /**"}]
    - domain: own-ca.example.test
      port: 443
      ca: CAFILE
      http: [{allow: "GET /**"}]
    - domain: few.example.test
      port: 443
      http: [{allow: "* /**"}]
      limits: {requests_per_minute: 3}
    - domain: narrow.example.test
      port: 443
      http: [{allow: "* /**"}]
      limits: {bandwidth: 1000000}
    - domain: small.example.test
      port: 443
      http: [{allow: "* /**"}]
      limits: {bytes_up: 20000}
"""


def run(*args, **kw):
    env = {"PATH": os.environ["PATH"], "HOME": D, "SSL_CERT_FILE": TRUST, "GIT_SSL_CAINFO": TRUST, "CURL_CA_BUNDLE": TRUST,
           "NODE_EXTRA_CA_CERTS": TRUST, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE * 2,
                          check=False, **kw)


def curl(*args):
    return run("curl", "-sS", "--max-time", str(int(PATIENCE)), *args)


def status(*args):
    return curl("-o", "/dev/null", "-w", "%{http_code} %{http_version}", *args).stdout


class Client:
    """One connection that says exactly what it is told."""

    def __init__(self, rig, host, port=443, alpn=("http/1.1",), sni=None):
        s = rig.connect(rig.lookup(host), port)
        s.settimeout(PATIENCE)
        if port == 443:
            ctx = ssl.create_default_context(cafile=TRUST)
            if alpn:
                ctx.set_alpn_protocols(list(alpn))
            if sni:
                ctx.check_hostname = False
            s = ctx.wrap_socket(s, server_hostname=sni or host)
        self.s, self.f = s, s.makefile("rb")

    def send(self, data):
        self.s.sendall(data)
        return self

    def head(self):
        out = b""
        while not out.endswith(b"\r\n\r\n"):
            line = self.f.readline()
            if not line:
                break
            out += line
        return out.decode("latin-1")

    def answer(self):
        """(status, head, body) of an answer with a length."""
        head = self.head()
        n = next((int(x.split(":")[1]) for x in head.split("\r\n") if x.lower().startswith("content-length:")), 0)
        return int(head.split(" ")[1]) if head else 0, head, self.f.read(n)

    def close(self):
        self.f.close()
        self.s.close()


def ask(rig, text, host="api.example.test", port=443):
    c = Client(rig, host, port)
    try:
        c.send(text.replace("\n", "\r\n").encode("latin-1"))
        return c.answer()
    except (OSError, ValueError) as e:
        return 0, str(e), b""
    finally:
        c.close()


def versions(rig, api):
    """Every pair of versions, small and large, down and up."""
    big = os.path.join(D, "www", "big")
    for v in ("--http1.1", "--http2"):
        want = "2" if v == "--http2" else "1.1"
        for host in ("api", "web"):
            tap.eq(status(v, f"https://{host}.example.test/small"), f"200 {want}", f"curl {v}: GET from {host}")
        r = curl(v, "https://web.example.test/big", "-o", os.path.join(D, "got"))
        with open(big, "rb") as a, open(os.path.join(D, "got"), "rb") as b:
            tap.ok(a.read() == b.read(), f"curl {v}: 3 MB come through whole", r.stderr)
        r = curl(v, "-T", big, "https://api.example.test/put", "-H", "Expect: 100-continue")
        got = api.last("/put")
        with open(big, "rb") as a:
            tap.ok(got and got.body == a.read(), f"curl {v}: 3 MB go up whole", r.stderr)
        r = curl(v, "--data-binary", "@" + big, "https://h2.example.test/up")
        tap.ok(r.stdout and json.loads(r.stdout)["length"] == 3000000,
               f"curl {v}: an upload to an HTTP/2 server arrives whole", r.stdout, r.stderr)
    tap.eq(status("http://api.example.test/plain"), "200 1.1", "plain HTTP is handled as HTTP")
    tap.eq(api.last("/plain").get("host"), "api.example.test", "plain HTTP reaches its server with its Host")
    r = curl("-I", "https://api.example.test/head")
    tap.like(r.stdout, r"^HTTP/2 200", "HEAD ends without a body", r.stderr)
    many = curl("--http1.1", *["https://web.example.test/small"] * 30)
    tap.eq(many.stdout, "hello\n" * 30, "thirty requests over one connection are answered", many.stderr)


def streaming(rig, api):
    c = Client(rig, "api.example.test").send(b"GET /sse HTTP/1.1\r\nHost: api.example.test\r\n\r\n")
    c.head()
    tap.eq(c.f.readline() + c.f.readline(), b"b\r\ndata: one\n", "an event comes while the response is still being made")
    api.go.set()
    c.f.readline(), c.f.readline()
    tap.eq(c.f.readline() + c.f.readline(), b"b\r\ndata: two\n", "the next event comes after the first")
    c.close()
    c = Client(rig, "api.example.test").send(b"GET /trailers HTTP/1.1\r\nHost: api.example.test\r\nTE: trailers\r\n"
                                             b"Connection: TE\r\n\r\n")
    head = c.head()
    tap.like(head, "(?i)transfer-encoding: chunked", "a response with trailers is chunked")
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        text += c.f.readline()
    tap.eq(text, b"2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n", "the trailer of a response comes through")
    c.close()
    r = run("node", "-e", "fetch('https://api.example.test/sse2').then(r=>r.text()).then(t=>console.log(JSON.stringify(t)))")
    tap.eq(r.stdout.strip(), json.dumps("data: a\n\ndata: b\n\n"), "node fetch reads a stream", r.stderr)


def upgrade(rig):
    c = Client(rig, "api.example.test")
    c.send(b"GET /ws HTTP/1.1\r\nHost: api.example.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    tap.like(c.head(), r"^HTTP/1.1 101 .*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=", "a WebSocket is opened")
    c.send(ht.ws_frame(b"hello" * 200))
    tap.eq(ht.ws_read(c.f), "hello" * 200, "a WebSocket carries frames both ways")
    c.send(ht.ws_frame(b"bye"))
    ht.ws_read(c.f)
    tap.eq(c.f.read(), b"", "a WebSocket ends with the server")
    c.close()
    code, _, body = ask(rig, "GET /x HTTP/1.1\nHost: api.example.test\nUpgrade: foo\nConnection: Upgrade\n\n")
    tap.ok(code == 403 and b"upgrade" in body, "any other upgrade is refused", code, body)
    code, _, _ = ask(rig, "GET /secret/ws HTTP/1.1\nHost: api.example.test\nUpgrade: websocket\nConnection: Upgrade\n\n")
    tap.eq(code, 403, "a WebSocket is denied by path, although the deny does not name WEBSOCKET")
    code, _, body = ask(rig, "GET /other HTTP/1.1\nHost: api.example.test\nUpgrade: websocket\nConnection: Upgrade\n\n")
    tap.ok(code == 403 and b"does not list WEBSOCKET /other" in body and b"GET and * do not cover it" in body,
           "a rule for every method opens no WebSocket, and the denial names WEBSOCKET", code, body)
    code, _, _ = ask(rig, "GET /other HTTP/1.1\nHost: api.example.test\n\n")
    tap.eq(code, 200, "a path whose WebSocket is denied is allowed by GET")
    code, _, body = ask(rig, "WEBSOCKET /ws HTTP/1.1\nHost: api.example.test\n\n")
    tap.ok(code == 400 and b"a method only in rules" in body, "WEBSOCKET as the method of a request is 400", code, body)


def denials(rig, api):
    code, head, body = ask(rig, "GET /secret/x HTTP/1.1\nHost: api.example.test\n\n")
    tap.eq(code, 403, "a denied path is 403")
    said = json.loads(body)
    tap.ok(said["error"] == "denied" and said["path"] == "/secret/x" and said["rule"] and said["how_to_ask"] and
           said["message"].startswith("coffer: GET "), "a denial names the rule, the reason and how to ask", body)
    tap.like(head, "(?i)content-type: application/json", "a denial has the content type of JSON")
    line = rig.events("request", path="/secret/x", decision="deny")[0]
    tap.ok(line["method"] == "GET" and line["host"] == "api.example.test" and line["why"], "a denial has its line in the journal", line)
    for what, target in (("dot segments", "/a/../secret/x"), ("encoded letters", "/%73ecret/x"), ("upper case", "/SECRET/x"),
                         ("encoded dots", "/a/%2e%2e/secret/x"), ("a slash behind", "/secret/x/")):
        code, _, body = ask(rig, f"GET {target} HTTP/1.1\nHost: api.example.test\n\n")
        tap.eq(code, 403, f"{what} in a denied path are 403", body)
    for target in ("//x/secret", "/a\\b", "/a%00b", "/a%5cb", "/..;/secret/x", "/%zz", "/../x"):
        code, _, body = ask(rig, f"GET {target} HTTP/1.1\nHost: api.example.test\n\n")
        tap.eq(code, 400, f"{target}, which can be read in two ways, is 400", body)
    tap.eq(ask(rig, "DELETE /x HTTP/1.1\nHost: api.example.test\n\n")[0], 403, "a denied method is 403")
    tap.eq(ask(rig, "GET /a/./b/%7Euser?q=%2e HTTP/1.1\nHost: api.example.test\n\n")[0], 200, "a request that is allowed is sent")
    tap.ok(api.last("/a/b/~user?q=%2e"), "a path is sent in its canonical form, the query unchanged",
           [r.target for r in api.requests])
    n = len(api.requests)
    c = Client(rig, "api.example.test")
    for path, want in (("/one", 200), ("/secret/x", 403), ("/two", 200)):
        c.send(f"GET {path} HTTP/1.1\r\nHost: api.example.test\r\n\r\n".encode())
        tap.eq(c.answer()[0], want, f"on one connection {path} is {want}")
    tap.eq([r.target for r in api.requests[n:]], ["/one", "/two"], "only the allowed requests of a connection reached the server")
    c.close()
    tap.ok(rig.events("request", path="/a/b/~user?q=#48edc529"), "the journal has a digest instead of a query's value")


def names(rig):
    """1, 2: who is meant."""
    addr = rig.lookup("api.example.test")
    try:
        Client(rig, "api.example.test", sni="h2.example.test")
        tap.ok(False, "1: another name in the SNI is refused")
    except (ssl.SSLError, OSError) as e:
        tap.like(str(e), "(?i)unrecognized.name", "1: another name in the SNI is refused by an alert")
    tap.ok(rig.events("alert", kind="sni_mismatch"), "1: both names of an SNI mismatch are in the journal")
    code, _, body = ask(rig, "GET / HTTP/1.1\nHost: h2.example.test\n\n")
    tap.ok(code == 421 and b"looked up" in body, "2: another Host inside is 421", code, body)
    tap.eq(ask(rig, "GET / HTTP/1.1\nHost: api.example.test:444\n\n")[0], 421, "another port in Host is 421")
    tap.eq(ask(rig, "GET / HTTP/1.1\nHost: API.Example.TEST.:443\n\n")[0], 200, "Host in another spelling is 200")
    r = curl("--http2", "-H", "Host: h2.example.test", "https://api.example.test/", "-w", "%{http_code}")
    tap.like(r.stdout, "421$", "2: another :authority is 421")
    tap.eq(ask(rig, "GET http://h2.example.test/ HTTP/1.1\nHost: api.example.test\n\n")[0], 400,
           "33: an absolute target that differs from Host is refused")
    tap.eq(ask(rig, "GET https://api.example.test/abs HTTP/1.1\nHost: api.example.test\n\n")[0], 200,
           "33: an absolute target that agrees with Host is 200")
    tap.eq(ask(rig, "GET http://api.example.test/abs HTTP/1.1\nHost: api.example.test\n\n")[0], 421,
           "an absolute target with another scheme is 421")
    tap.eq(ask(rig, "CONNECT h2.example.test:443 HTTP/1.1\nHost: h2.example.test:443\n\n")[0] in (421, 405, 400), True,
           "35: CONNECT inside is refused")
    code, head, _ = ask(rig, "GET /redirect HTTP/1.1\nHost: api.example.test\n\n")
    tap.like(head, "(?i)location: http://169.254.169.254/", "29: a redirect is passed on to the client")
    r = curl("-L", "https://api.example.test/redirect")
    tap.ok('"host":"169.254.169.254"' in r.stdout and '"error":"denied"' in r.stdout, "29: the target of a redirect is denied", r.stdout)
    return addr


def smuggling(rig, api):
    """30, 32: what two programs could read differently."""
    n = len(api.requests)
    cases = {
        "30: Content-Length with Transfer-Encoding": "POST /s HTTP/1.1\nHost: api.example.test\nContent-Length: 4\n"
                                                     "Transfer-Encoding: chunked\n\n0\n\n",
        "30: two Content-Lengths": "POST /s HTTP/1.1\nHost: api.example.test\nContent-Length: 4\nContent-Length: 5\n\nabcde",
        "30: a Content-Length with a sign": "POST /s HTTP/1.1\nHost: api.example.test\nContent-Length: +4\n\nabcd",
        "30: chunked twice": "POST /s HTTP/1.1\nHost: api.example.test\nTransfer-Encoding: chunked, chunked\n\n0\n\n",
        "30: chunked in disguise": "POST /s HTTP/1.1\nHost: api.example.test\nTransfer-Encoding: xchunked\n\n0\n\n",
        "32: a folded header": "GET /s HTTP/1.1\nHost: api.example.test\nX: a\n b\n\n",
        "32: a space before the colon": "GET /s HTTP/1.1\nHost: api.example.test\nX : a\n\n",
        "two Hosts": "GET /s HTTP/1.1\nHost: api.example.test\nHost: h2.example.test\n\n",
        "no Host": "GET /s HTTP/1.1\n\n",
        "HTTP/0.9": "GET /s\n\n",
        "a method of small size": "GE\tT /s HTTP/1.1\nHost: api.example.test\n\n",
    }
    for what, text in cases.items():
        code, _, body = ask(rig, text)
        tap.ok(code in (400, 501, 505), f"{what} is refused", code, body)
    c = Client(rig, "api.example.test").send(b"GET /s HTTP/1.1\nHost: api.example.test\n\n")
    tap.eq(c.answer()[0], 400, "32: bare LF is refused")
    c.close()
    c = Client(rig, "api.example.test")
    c.send(b"POST /s HTTP/1.1\r\nHost: api.example.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n")
    tap.eq(c.f.read(), b"", "a chunk that is longer than it says ends the connection")
    c.close()
    tap.ok(not [r for r in api.requests[n:] if r.target == "/s" and r.body],
           "none of the malformed requests reached the server with a body", [(r.target, r.body) for r in api.requests[n:]])
    tap.eq(ask(rig, "POST /ok HTTP/1.1\nHost: api.example.test\nContent-Length: 4\n\nabcd")[0], 200,
           "a well-formed request with a body is 200")
    for what in ("cl-te", "two-cl", "bare-lf", "fold", "big-head", "many", "garbage", "half"):
        code, _, body = ask(rig, f"GET /bad/{what} HTTP/1.1\nHost: api.example.test\n\n")
        tap.eq(code, 502, f"a server that answers with {what} is 502", body)
    code, head, body = ask(rig, "GET /short HTTP/1.1\nHost: api.example.test\n\n")
    tap.ok(len(body) < 100, "a response that is cut short is not completed", head)


def overrides(rig, api):
    text = "".join(f"{k}: evil.test\n" for k in ("X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Original-URL", "X-Rewrite-URL",
                                                   "X-HTTP-Method-Override", "X-Method-Override", "X-Host", "X_Forwarded_Host"))
    code, _, _ = ask(rig, f"GET /over HTTP/1.1\nHost: api.example.test\nX-Plain: stays\n{text}\n")
    got = {k.lower() for k, _ in api.last("/over").fields}
    tap.eq((code, sorted(got)), (200, ["host", "x-plain"]), "headers that would change the decision are removed")
    tap.like(rig.events("request", path="/over")[0].get("why", ""), "left out: ", "removed headers are named in the journal")
    code, _, _ = ask(rig, "POST /x?_method=DELETE HTTP/1.1\nHost: api.example.test\nContent-Length: 0\n\n")
    tap.eq(code, 403, "a parameter that would change the method is 403")
    ask(rig, "GET /hop HTTP/1.1\nHost: api.example.test\nConnection: X-Private\nX-Private: 1\nKeep-Alive: 5\n"
             "Proxy-Authorization: x\nProxy-Connection: x\n\n")
    tap.eq({k.lower() for k, _ in api.last("/hop").fields}, {"host"}, "headers of the connection are not forwarded")
    c = Client(rig, "api.example.test")
    c.send(b"POST /trail HTTP/1.1\r\nHost: api.example.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: 1\r\n\r\n")
    tap.eq((c.answer()[0], api.last("/trail").trailers), (200, []), "trailers of a request are not forwarded")
    c.close()


def continues(rig, api):
    c = Client(rig, "api.example.test")
    c.send(b"POST /cont HTTP/1.1\r\nHost: api.example.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    tap.like(c.head(), "^HTTP/1.1 100", "the server's 100 Continue comes through")
    c.send(b"hello")
    tap.eq((c.answer()[0], api.last("/cont").body), (200, b"hello"), "the body after 100 Continue reaches the server")
    c.send(b"POST /no-continue HTTP/1.1\r\nHost: api.example.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    tap.eq(c.answer()[0], 417, "a final response instead of 100 Continue comes through")
    c.close()
    code, _, _ = ask(rig, "POST /secret/c HTTP/1.1\nHost: api.example.test\nExpect: 100-continue\nContent-Length: 5\n\n")
    tap.eq(code, 403, "a denied request with Expect gets 403 and no 100")


def http2(rig):
    r = run("nghttp", "-n", "-v", "https://h2.example.test/pkg.Service/Call", "-d", os.path.join(D, "www", "small"), "-H",
            "te: trailers", "-H", "content-type: application/grpc")
    tap.like(r.stdout, "grpc-status: 0", "gRPC-like: trailers come through over HTTP/2 on both sides", r.stderr)
    tap.like(r.stdout, "x-te: trailers", "the server receives te: trailers over HTTP/2")
    r = run("nghttp", "-n", "--stat", *[f"https://h2.example.test/m{i}" for i in range(60)])
    tap.eq(r.stdout.count(" 200 "), 60, "sixty streams at once are answered", r.stdout[-400:], r.stderr)
    tap.eq(status("--http2", "https://h2.example.test/secret/x"), "403 2", "a denied path is 403 in HTTP/2")
    tap.eq(status("--http2", "https://h2.example.test/goaway"), "200 2", "a request whose server sends GOAWAY is answered")
    tap.eq(status("--http2", "https://h2.example.test/after"), "200 2", "the request after GOAWAY uses a new connection")
    long = "https://h2.example.test/" + "a" * 40000
    say = "%{http_code} v%{http_version} %{num_connects} "
    r = curl("--http2", "-o", "/dev/null", "-w", say, long, "--next", "-sS", "--http2", "-o", "/dev/null", "-w", say, "https://h2.example.test/next")
    tap.ok("414 v2 1 200 v2 0" in r.stdout, "a path that is too long is 414 in HTTP/2, and the connection goes on", r.stdout, r.stderr)
    tap.ok(rig.events("request", why="the request target is too long", decision="deny"), "a path that is too long is in the journal")
    r = curl("--http2", "https://h2.example.test/reset")
    tap.ok(r.returncode != 0, "a stream that the server resets is an error for the client", r.stdout)
    tap.eq(status("--http1.1", "https://h2.example.test/h1"), "200 1.1", "an HTTP/1.1 client reaches a server that speaks only HTTP/2")
    r = run("h2load", "-n", "300", "-c", "3", "-m", "20", "https://web.example.test/small")
    tap.like(r.stdout, "300 succeeded, 0 failed", "h2load: three hundred requests succeed", r.stdout, r.stderr)


def credentials(rig, own):
    """40: an upload to an allowed host with the attacker's own token."""
    tap.eq(ask(rig, "GET /a HTTP/1.1\nHost: own.example.test\n\n", "own.example.test")[0], 200, "40: a request without a credential passes")
    for line in ("Authorization: Bearer x", "Cookie: s=1", "X-Api-Key: k", "PRIVATE-TOKEN: t"):
        code, _, body = ask(rig, f"GET /a HTTP/1.1\nHost: own.example.test\n{line}\n\n", "own.example.test")
        tap.ok(code == 403 and b"credential" in body, f"40: a request with {line.split(':')[0]} is refused", code, body)
    tap.eq(ask(rig, "GET /a?access_token=x HTTP/1.1\nHost: own.example.test\n\n", "own.example.test")[0], 403,
           "40: a request with a token in the query is refused")
    tap.ok(not [r for r in own.requests if r.get("authorization") or "token" in r.target],
           "40: no request with a credential reached the server")


def certificates(rig):
    for host, why in (("expired", "expired"), ("wrong", "mismatch"), ("stranger", "unable to get|self.signed")):
        code, _, body = ask(rig, f"GET / HTTP/1.1\nHost: {host}.example.test\n\n", f"{host}.example.test")
        tap.eq((code, json.loads(body or "{}").get("error")), (502, "upstream"), f"a server with a certificate that is {host} is 502")
        tap.like(body.decode(), why, f"the 502 for a certificate that is {host} says why")
        tap.ok(rig.events("alert", kind="certificate", name=f"{host}.example.test"),
               f"a certificate that is {host} raises an alert in the journal")
    tap.eq(ask(rig, "GET / HTTP/1.1\nHost: own-ca.example.test\n\n", "own-ca.example.test")[0], 200,
           "a server is verified by the ca: of its rule")


def graphql(rig, gql):
    def post(body, ctype="application/json", path="/graphql", extra=""):
        return ask(rig, f"POST {path} HTTP/1.1\nHost: gql.example.test\nContent-Type: {ctype}\n{extra}Content-Length: {len(body)}\n\n"
                        + body.replace("\n", " "), "gql.example.test")[0]

    q, m, bad = "{viewer{login}}", "mutation{addComment(x:1){id}}", "mutation{mergePullRequest(x:1){id}}"
    tap.eq(post(json.dumps({"query": q})), 200, "graphql: a query passes")
    tap.eq(post(json.dumps({"query": m})), 200, "graphql: the mutation that is allowed passes")
    tap.eq(post(json.dumps({"query": bad})), 403, "graphql: another mutation is denied")
    tap.eq(post(json.dumps({"query": "mutation{addComment: mergePullRequest(x:1){id}}"})), 403, "graphql: an alias hides nothing")
    tap.eq(post(json.dumps([{"query": q}, {"query": bad}])), 403, "graphql: a batch hides no denied mutation")
    tap.eq(post(json.dumps([{"query": q}, {"query": m}])), 200, "graphql: a batch of a query and an allowed mutation passes")
    tap.eq(post(f'{{"query":"{q}","query":"{bad}"}}'), 403, "graphql: a key that occurs twice is refused")
    tap.eq(post(bad, "application/graphql"), 403, "graphql: a bare document with a denied mutation is refused")
    tap.eq(post(m, "application/graphql"), 200, "graphql: a bare document with an allowed mutation passes")
    form = urllib.parse.urlencode({"query": bad})
    tap.eq(post(form, "application/x-www-form-urlencoded"), 403, "graphql: a form with a denied mutation is refused")
    tap.eq(post(urllib.parse.urlencode({"query": m}), "application/x-www-form-urlencoded"), 200,
           "graphql: a form with an allowed mutation passes")
    tap.eq(post("x", "multipart/form-data; boundary=x"), 403, "graphql: multipart is refused")
    tap.eq(post(json.dumps({"query": q}), extra="Content-Encoding: gzip\n"), 403, "graphql: a compressed body is refused")
    tap.eq(post(json.dumps({"query": q}), path="/graphql?query=" + urllib.parse.quote(bad)), 403, "graphql: two documents are refused")
    tap.eq(ask(rig, f"GET /graphql?query={urllib.parse.quote(q)} HTTP/1.1\nHost: gql.example.test\n\n", "gql.example.test")[0], 200,
           "graphql: a query by GET passes")
    tap.eq(ask(rig, f"GET /graphql?query={urllib.parse.quote(bad)} HTTP/1.1\nHost: gql.example.test\n\n", "gql.example.test")[0], 403,
           "graphql: a denied mutation by GET is refused")
    tap.eq(post(json.dumps({"id": "abc"})), 403, "graphql: a persisted query is refused")
    tap.eq(post(json.dumps({"query": q, "pad": "x" * 1100000})), 413, "graphql: a body over 1 MiB is 413")
    tap.ok(not [r for r in gql.requests if b"merge" in r.body or "merge" in r.target], "graphql: no denied mutation reached the server")


def git(rig):
    work = os.path.join(D, "work")
    r = run("git", "clone", "-q", "https://git.example.test/o/r", work)
    tap.ok(r.returncode == 0 and os.path.exists(os.path.join(work, "file")), "git clone over HTTPS succeeds", r.stderr)
    r = run("git", "clone", "-q", "https://git.example.test/o/other", os.path.join(D, "other"))
    tap.ok(r.returncode != 0, "git clone of another repository is denied", r.stderr)

    def push(*refs):
        return run("git", "-C", work, "push", "-q", "origin", *refs)

    conf = ["-c", "user.name=t", "-c", "user.email=t@t"]
    with open(os.path.join(work, "more"), "wb") as f:
        f.write(os.urandom(2500000))
    run("git", "-C", work, "add", "more")
    run("git", "-C", work, *conf, "commit", "-q", "-m", "more")
    r = push("HEAD:refs/heads/bot/one")
    tap.eq(r.returncode, 0, "a push of 2.5 MB in chunks to an allowed branch succeeds", r.stderr)
    r = push("HEAD:refs/heads/main")
    tap.ok(r.returncode != 0 and "403" in r.stderr, "a push to main is denied", r.stderr)
    r = push("HEAD:refs/heads/bot/two", "HEAD:refs/heads/main")
    tap.ok(r.returncode != 0, "a push to main and another branch is denied", r.stderr)
    r = push(":refs/heads/bot/one")
    tap.ok(r.returncode != 0, "a push that deletes a branch is denied", r.stderr)
    run("git", "-C", work, *conf, "commit", "-q", "--amend", "-m", "again")
    tap.eq(push("+HEAD:refs/heads/bot/one").returncode, 0, "a forced push that is allowed succeeds")
    heads = run("git", "--git-dir", os.path.join(D, "git", "o", "r"), "for-each-ref", "--format=%(refname)").stdout.split()
    tap.eq(heads, ["refs/heads/bot/one", "refs/heads/main"], "the server has the branches of allowed pushes only")
    tap.eq(run("git", "-C", work, "fetch", "-q", "origin").returncode, 0, "git fetch succeeds")


def limits(rig):
    got = [ask(rig, "GET / HTTP/1.1\nHost: few.example.test\n\n", "few.example.test")[0] for _ in range(5)]
    # A minute may begin in between.
    tap.ok(got.count(429) >= 1 and got[:1] == [200], "the limit of requests a minute holds", got)
    body = "x" * 12000
    text = f"POST /up HTTP/1.1\nHost: small.example.test\nContent-Length: {len(body)}\n\n{body}"
    got = [ask(rig, text, "small.example.test")[0] for _ in range(3)]
    tap.eq(got, [200, 403, 403], "the limit of bytes up holds")
    for v in ("--http1.1", "--http2"):
        r = curl(v, "https://narrow.example.test/big", "-o", os.path.join(D, "got"), "-w", "%{time_total}")
        with open(os.path.join(D, "www", "big"), "rb") as a, open(os.path.join(D, "got"), "rb") as b:
            tap.ok(a.read() == b.read() and float(r.stdout) > 1,
                   f"curl {v}: a limited bandwidth is slower, and the response whole", r.stdout, r.stderr)


def clients(rig):
    ctx = ssl.create_default_context(cafile=TRUST)
    with urllib.request.urlopen("https://api.example.test/py", context=ctx, timeout=PATIENCE) as r:
        tap.eq(r.status, 200, "python urllib reads a response")
    try:
        urllib.request.urlopen("https://api.example.test/secret/py", context=ctx, timeout=PATIENCE)
        tap.ok(False, "python urllib sees a denial")
    except urllib.error.HTTPError as e:
        tap.eq((e.code, json.load(e)["error"]), (403, "denied"), "python urllib sees a denial")
    r = run("node", "-e", "fetch('https://api.example.test/n').then(r=>r.json()).then(j=>console.log(j.target))")
    tap.eq(r.stdout.strip(), "/n", "node fetch reads a response", r.stderr)
    r = curl("https://api.example.test/x", "--cacert", CA.pem)
    tap.ok(r.returncode == 60, "a client that trusts another authority does not trust ours", r.returncode, r.stderr)


def hostile(rig):
    """Slow, large, many."""
    slow = Client(rig, "api.example.test").send(b"GET /slow HTTP/1.1\r\nHost: api.exa")
    c = Client(rig, "api.example.test").send(b"GET / HTTP/1.1\r\nHost: api.example.test\r\n")
    try:
        for i in range(3000):
            c.send(f"X-{i}: {'y' * 40}\r\n".encode())
        code = c.answer()[0]
    except OSError:
        code = 431
    tap.eq(code, 431, "endless headers are refused")
    c.close()
    slow.send(b"mple.test\r\n\r\n")
    tap.eq(slow.answer()[0], 200, "a slow client is served beside endless headers")
    slow.close()
    many = [Client(rig, "api.example.test") for _ in range(60)]
    for c in many:
        c.send(b"GET /many HTTP/1.1\r\nHost: api.example.test\r\n\r\n")
    tap.eq([c.answer()[0] for c in many], [200] * 60, "sixty connections at once are served")
    for c in many:
        c.close()
    c = Client(rig, "h2.example.test", alpn=("h2",))
    c.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
    try:
        for _ in range(2000):
            c.send(b"\0\0\x08\x06\0\0\0\0\0" + b"12345678")
        c.f.read()
        ended = True
    except TimeoutError:
        ended = False
    except OSError:
        ended = True
    tap.ok(ended, "a flood of pings ends its connection")
    c.close()
    tap.ok(rig.events("alert", kind="http2_flood"), "a flood of pings raises an alert in the journal")
    tap.eq(status("https://api.example.test/after"), "200 2", "other clients are served after a flood of pings")


def reload(rig):
    c = Client(rig, "api.example.test").send(b"GET /before HTTP/1.1\r\nHost: api.example.test\r\n\r\n")
    tap.eq(c.answer()[0], 200, "a request before a new policy is 200")
    rig.policy(POLICY.replace("CAFILE", CA.pem).replace('"* /secret/**", "DELETE /**"', '"* /secret/**", "* /before"'))
    c.send(b"GET /before HTTP/1.1\r\nHost: api.example.test\r\n\r\n")
    tap.eq(c.answer()[0], 403, "a new policy holds for the next request of an old connection")
    c.send(b"GET /other HTTP/1.1\r\nHost: api.example.test\r\n\r\n")
    tap.eq(c.answer()[0], 200, "an old connection serves allowed requests under a new policy")
    c.close()


def restart(rig):
    before = rig.ca
    rig.kill()
    rig.start()
    rig.dial.update(DIAL)
    tap.eq(rig.ca, before, "a restarted egress goes on with the same authority")
    tap.eq(status("https://api.example.test/again"), "200 2", "a restarted egress serves requests")


def late():
    """Nothing of inspection is there until a policy wants it: all of it is made behind the fence then."""
    with Rig("version: 1\n", store=CA.pem) as rig:
        rig.dial.update(DIAL)
        tap.eq(rig.ca, None, "a policy that needs no authority gets none")
        rig.policy(POLICY.replace("CAFILE", CA.pem))
        tap.eq(status("-k", "https://api.example.test/late"), "200 2", "an authority is made when a later policy needs one")
        tap.eq(rig.quit(), 0, "an egress with a late authority ends with 0")


BAD = {
    "cl-te": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "two-cl": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
    "fold": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc",
    "big-head": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
    "many": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    "garbage": b"\x00\x01\x02 what\r\n\r\n",
    "half": b"HTTP/1.1 200 OK\r\nContent-Le",
}
DIAL = {}


def main():
    www = os.path.join(D, "www")
    os.mkdir(www)
    with open(os.path.join(www, "small"), "w", encoding="ascii") as f:
        f.write("hello\n")
    with open(os.path.join(www, "big"), "wb") as f:
        f.write(os.urandom(3000000))
    ht.git_repo(os.path.join(D, "git"), "r", "other")
    names_ = [f"{x}.example.test" for x in ("api", "h2", "web", "gql", "git", "own", "few", "small", "narrow", "own-ca")]
    cert = CA.cert("server", *names_)
    other = ht.Authority(tempfile.mkdtemp(dir=D))
    handlers = {"/sse": ht.sse, "/ws": ht.websocket, "/no-continue": ht.no_continue,
                "/sse2": ht.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
                                b"9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n0\r\n\r\n", last=False),
                "/trailers": ht.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nhi\r\n0\r\n"
                                    b"x-sum: 7\r\n\r\n", last=False),
                "/short": ht.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
                "/redirect": ht.raw(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", last=False)}
    handlers.update({f"/bad/{k}": ht.raw(v) for k, v in BAD.items()})
    api = ht.Origin(cert, handlers)
    plain = ht.Origin(None, handlers)
    plain.requests = api.requests
    gql, own = ht.Origin(cert), ht.Origin(cert)
    procs = [ht.nginx(D, cert, www), ht.node_h2(cert), ht.git_server(os.path.join(D, "git"), cert)]
    web, h2, gits = procs
    DIAL.update({"api.example.test": api.addr, ("api.example.test", 80): plain.addr, "h2.example.test": h2.addr, "web.example.test": web.addr,
                 "gql.example.test": gql.addr, "git.example.test": gits.addr, "own.example.test": own.addr,
                 "few.example.test": own.addr, "narrow.example.test": web.addr, "small.example.test": own.addr, "own-ca.example.test": own.addr,
                 "expired.example.test": ht.Origin(CA.cert("expired", "expired.example.test", days=-1)).addr,
                 "wrong.example.test": own.addr,
                 "stranger.example.test": ht.Origin(other.cert("stranger", "stranger.example.test")).addr})
    try:
        with Rig(POLICY.replace("CAFILE", CA.pem), store=CA.pem) as rig:
            rig.dial.update(DIAL)
            with open(TRUST, "w", encoding="ascii") as f:
                f.write(rig.ca)
            os.chmod(D, 0o755)
            versions(rig, api)
            streaming(rig, api)
            upgrade(rig)
            denials(rig, api)
            names(rig)
            smuggling(rig, api)
            overrides(rig, api)
            continues(rig, api)
            http2(rig)
            credentials(rig, own)
            certificates(rig)
            graphql(rig, gql)
            git(rig)
            limits(rig)
            clients(rig)
            hostile(rig)
            reload(rig)
            restart(rig)
            tap.eq(rig.quit(), 0, "the egress ends with 0")
        late()
    finally:
        for p in procs:
            p.close()


main()
tap.done()
