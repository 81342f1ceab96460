# SPDX-License-Identifier: Apache-2.0
"""Servers that say a secret back in ways of their own: websocket messages in fragments, encoders that escape what they need not,
and connections that stay logged in. The real coffer-egress and a stand-in for the vault; each check has a positive control."""

import base64
import hashlib
import html
import json
import os
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import PATIENCE, FakeVault, Rig, grants  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="echoed-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")
PH, REAL = "key-" + "Ab1" * 12, "key-" + "Zy9+/=" * 6
OTHER_PH, OTHER = "tok-" + "Cd2" * 12, "tok-" + "Xw8" * 12
assert len(PH) == len(REAL)
CONTROL = "ctl-" + "Q+/=" * 6
POLICY = """
version: 1
egress:
  allow:
    - {domain: api.example.test, port: 443, http: [{allow: "* /**"}, {allow: "WEBSOCKET /**"}]}
    - {domain: h2.example.test, port: 443, http: [{allow: "* /**"}]}
"""
HOSTS = "|api.example.test bearer|h2.example.test bearer"


def token_of(r):
    return (r.get("authorization") or " ").split(" ", 1)[1]


def system_text_json(text):
    """As .NET writes it by default."""
    return "".join(c if c.isalnum() or c in "-_." else f"\\u{ord(c):04X}" for c in text)


ENCODERS = {
    "System.Text.Json": system_text_json,
    "lower-case hex": lambda t: "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in t),
    "a JSON that escapes slashes": lambda t: json.dumps(t)[1:-1].replace("/", "\\/").replace("=", "\\u003d"),
    "HTML with hex": lambda t: "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in t),
    "HTML with decimals": lambda t: "".join(c if c.isalnum() else f"&#{ord(c):03d};" for c in t),
    "HTML with names": lambda t: t.replace("+", "&plus;").replace("/", "&sol;").replace("=", "&equals;"),
}


def escaped(c, r):
    body = "\n".join(f"{name}: {enc(token_of(r))} {enc(CONTROL)}" for name, enc in ENCODERS.items())
    ht.reply(c, body.encode())


def decoded(data):
    text = html.unescape(data.decode()).replace("\\/", "/")
    for c in "+/=-":
        for form in (f"\\u{ord(c):04X}", f"\\u{ord(c):04x}"):
            text = text.replace(form, c)
    return text


def frame(first, data):
    return bytes([first, len(data)]) + data


def upgraded(c, r, extra=""):
    key = (r.get("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{extra}"
              f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())


def fragments(c, r):
    """The token, broken at a place that the client names, with a ping between."""
    t, at = token_of(r).encode(), int(r.target.split("=")[1])
    upgraded(c, r)
    c.sendall(frame(0x01, b"you said " + t[:at]) + frame(0x89, b"ping") + frame(0x80, t[at:] + b" " + CONTROL.encode()))
    r.f.read(1)
    return False


def masked(c, r):
    upgraded(c, r)
    c.sendall(ht.ws_frame(token_of(r).encode()))
    r.f.read(1)
    return False


def deflate(c, r):
    upgraded(c, r, "Sec-WebSocket-Extensions: permessage-deflate\r\n")
    r.f.read(1)
    return False


def who(c, r):
    """Remembers on the connection who has logged in, as Negotiate does."""
    logins = r.origin.__dict__.setdefault("logins", {})
    if token_of(r):
        logins[id(c)] = token_of(r)
    ht.reply(c, f"logged in as {logins.get(id(c), 'nobody')}".encode())


class Client:
    def __init__(self, rig, host):
        s = rig.connect(rig.lookup(host), 443)
        s.settimeout(PATIENCE)
        self.s = ssl.create_default_context(cafile=TRUST).wrap_socket(s, server_hostname=host)
        self.f = self.s.makefile("rb")

    def upgrade(self, path, token):
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: api.example.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                       f"Authorization: Bearer {token}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.f.readline()
            if not line:
                break
            head += line
        return head.decode()

    def frame(self):
        """(first byte, payload); None at the end."""
        head = self.f.read(2)
        return (head[0], self.f.read(head[1] & 127)) if len(head) == 2 else None


def curl(url, *args, token=None):
    auth = ["-H", f"Authorization: Bearer {token}"] if token else []
    env = {"PATH": os.environ["PATH"], "HOME": D}
    r = subprocess.run(["curl", "-sS", "--cacert", TRUST, "--max-time", str(int(PATIENCE)), *args, *auth, url], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return r.stdout


def websocket(rig):
    text = f" {CONTROL}".encode()
    passed = []
    for at in (0, 1, 4, 20, len(REAL) - 1, len(REAL)):
        c = Client(rig, "api.example.test")
        c.upgrade(f"/ws?at={at}", PH)
        first, ping, last = c.frame(), c.frame(), c.frame()
        said = first[1] + last[1]
        if REAL.encode()[4:] in said or not said.startswith(b"you said ") or not said.endswith(text) or \
                (first[0], ping, last[0]) != (0x01, (0x89, b"ping"), 0x80):
            passed.append((at, first, ping, last))
        c.s.close()
    tap.eq(passed, [], "a secret that a websocket's server breaks into fragments, with a ping between, is written over")
    c = Client(rig, "api.example.test")
    c.upgrade("/ws?at=5", "nobody-s-" + CONTROL)
    tap.ok(CONTROL.encode() in c.frame()[1] + c.frame()[1] + c.frame()[1],
           "(other text of a websocket's server comes through in fragments)")
    c.s.close()
    c = Client(rig, "api.example.test")
    c.upgrade("/masked", PH)
    tap.eq(c.frame(), None, "a server that masks its frames on a connection with a secret is cut off")
    c.s.close()
    head = Client(rig, "api.example.test").upgrade("/deflate", PH)
    tap.ok(" 502 " in head.split("\r\n")[0], "a server that chooses compression although none was offered is refused", head)
    head = Client(rig, "api.example.test").upgrade("/deflate", "nobody")
    tap.ok(" 101 " in head, "(a server that chooses compression is accepted without a secret)", head)


def encoders(rig):
    for version in ("--http1.1", "--http2"):
        text = curl("https://api.example.test/escaped", version, token=PH)
        lines = decoded(text).split("\n")
        left = [x for x in lines if REAL[4:] in x]
        tap.eq(left, [], f"a secret is found in whatever way JSON or HTML escape it ({version})")
        tap.eq(sum(CONTROL in x for x in lines), len(ENCODERS), f"an escaped text that is not the secret is left as it is ({version})")


def connections(rig):
    for i in range(2):
        tap.eq(curl("https://api.example.test/who", token=PH), f"logged in as {PH}".encode(), f"request {i} with a secret is sent with it")
        tap.eq(curl("https://api.example.test/who"), b"logged in as nobody",
               f"request {i} without a secret has no connection that carried one")
    tap.eq(curl("https://api.example.test/who", token=OTHER_PH), f"logged in as {OTHER_PH}".encode(),
           "a request with another secret has no connection that carried the first")
    tap.eq(curl("https://api.example.test/who"), b"logged in as nobody",
           "a request without a secret has no connection that carried another one")


def dialled(rig, what):
    before = rig.stats()["inspect"]["upstream_dialled"]
    what()
    return rig.stats()["inspect"]["upstream_dialled"] - before


def pools(rig):
    """The same by counting, over both protocols."""
    for host, version in (("api", "--http1.1"), ("h2", "--http2")):
        url = f"https://{host}.example.test/count"

        def ask(*tokens, url=url, version=version):
            return lambda: [curl(url, version, token=t) for t in tokens]
        ask(None, PH, OTHER_PH)()
        tap.eq(dialled(rig, ask(PH, PH, None, None, OTHER_PH, PH)), 0,
               f"requests with a secret, another and none reuse a connection each ({version})")
    rig.policy(POLICY + "    # another generation\n")
    for host, version in (("api", "--http1.1"), ("h2", "--http2")):
        url = f"https://{host}.example.test/count"
        n = dialled(rig, lambda url=url, version=version: [curl(url, version, token=t) for t in (PH, None, PH, OTHER_PH, None)])
        tap.eq(n, 3, f"one secret, none, and another secret have three connections ({version})")


def main():
    api = ht.Origin(CA.cert("api", "api.example.test"),
                    {"/escaped": escaped, "/ws": fragments, "/masked": masked, "/deflate": deflate, "/who": who})
    node = ht.node_h2(CA.cert("h2", "h2.example.test"))
    vault = FakeVault({7: REAL.encode(), 9: OTHER.encode()})
    with Rig(POLICY, store=CA.pem, secrets=grants(f"api 7 {PH}{HOSTS}", f"other 9 {OTHER_PH}{HOSTS}"), vault=vault) as rig:
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        rig.dial["api.example.test"], rig.dial["h2.example.test"] = api.addr, node.addr
        websocket(rig)
        encoders(rig)
        connections(rig)
        pools(rig)
    node.close()
    tap.done()


main()
