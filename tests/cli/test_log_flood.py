# SPDX-License-Identifier: Apache-2.0
"""An adversary who knows the log's budget: it floods with repetitions, with new names, ports and paths, with denials, and then does
one thing that must not be hidden. The requests that the servers saw are compared with the log, both ways. Both engines.
"""

import json
import os
import re
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ENGINES, Tap, identities  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

TOKEN = "ghp_" + "Zq7" * 12
API, ZONE = "api.example.test", "zone.example.test"
# The budget of egress/account/ledger.h is 4000 new things at once and 100 a second. New things come until coffer-egress counts some that
# had to wait for it; a machine that is slower than the budget would never get there.
PIECE = 40
POSTS_MAX = 20000
ENOUGH = "/tmp/enough"

POLICY = f"""version: 1
egress:
  allow:
    - {{domain: {API}, port: [80, 443], http: [{{allow: "* /**"}}]}}
    - {{domain: "*.{ZONE}", port: [9000, 9001, 9002], depth: tunnel}}
"""

# Run inside. It prints what it was answered, by the name of each step.
INSIDE = r'''
import json, os, re, socket, ssl, struct
API, ZONE, PIECE, ENOUGH, POSTS_MAX = %r, %r, %d, %r, %d
DNS = re.search(r"nameserver (\S+)", open("/etc/resolv.conf").read()).group(1)
got = {}

class Web:
    def __init__(self, tls):
        s = socket.create_connection((API, 443 if tls else 80), 60)
        s.settimeout(60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s = ssl.create_default_context().wrap_socket(s, server_hostname=API) if tls else s
        self.f = self.s.makefile("rb")

    def answer(self):
        status, n = int(self.f.readline().split()[1]), 0
        while (line := self.f.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                n = int(line.split(b":")[1])
        self.f.read(n)
        return status

    def many(self, requests, extra=""):
        """In pieces, so that no buffer is full on both sides. The answers by status."""
        by = {}
        for i in range(0, len(requests), 40):
            part = requests[i:i + 40]
            self.s.sendall("".join(f"{q} HTTP/1.1\r\nHost: {API}\r\n{extra}Content-Length: 0\r\n\r\n" if q[0] == "P" else
                                   f"{q} HTTP/1.1\r\nHost: {API}\r\n{extra}\r\n" for q in part).encode())
            for q in part:
                status = self.answer()
                by[status] = by.get(status, 0) + 1
        return by

def lookup(names):
    """Each name once, many at a time; so many were answered with an address."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    good = 0
    for i in range(0, len(names), 100):
        part = names[i:i + 100]
        for n, name in enumerate(part):
            q = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
            s.sendto(struct.pack(">6H", n, 0x100, 1, 0, 0, 0) + q + b"\0\0\1\0\1", (DNS, 53))
        for _ in part:
            good += s.recv(2048)[7] != 0
    return good

def send(name, port, data):
    try:
        with socket.create_connection((name, port), 60) as s:
            s.settimeout(60)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            return s.recv(100).decode()
    except OSError as e:
        return str(e)

web = Web(False)
got["gets"] = web.many(["GET /noise/%%d" %% i for i in range(2500)])
got["delete"] = web.many(["DELETE /victim/one"])

token = f"Authorization: Bearer {os.environ['GITHUB_TOKEN']}\r\n"
tls = Web(True)
got["secret gets"] = tls.many(["GET /v1/noise"] * 4100, token)
got["secret delete"] = tls.many(["DELETE /v1/production"], token)

names = [f"n{i}.{ZONE}" for i in range(330)]
got["names"] = lookup(names)
for name in names[:60]:
    send(name, 9000, b"first")
for i in range(1700):
    send(names[i %% 20], 9000, b"x")
got["drop"] = send(f"drop.{ZONE}", 9000, b"the data")
got["port"] = send(names[0], 9001, b"another port")
got["no such"] = lookup(["bytes-of-a-secret.nx." + ZONE])

got["denied"] = lookup([f"d{i}.elsewhere.test" if i %% 2 else "often.elsewhere.test" for i in range(2600)])

posts = bad = 0
while not os.path.exists(ENOUGH) and posts < POSTS_MAX:
    bad += web.many(["POST /doc/%%d" %% i for i in range(posts, posts + PIECE)]).get(200) != PIECE
    posts += PIECE
got["posts"], got["refused"], got["enough"] = posts, bad, os.path.exists(ENOUGH)
got["last"] = web.many(["DELETE /victim/last", "HEAD /victim/head", "PATCH /victim/one", "ODD /victim/odd"])
got["late"] = send(f"late.{ZONE}", 9002, b"after the budget")
got["known"] = web.many(["GET /noise/again"])
print(json.dumps(got))
'''


class Seen:
    """The requests that the servers saw."""

    def __init__(self):
        self.lock, self.requests, self.data, self.tokens = threading.Lock(), [], [], 0

    def web(self, context=None):
        def serve(conn, _server):
            if context:
                conn = context.wrap_socket(conn, server_side=True)
            f, port = conn.makefile("rb"), 443 if context else 80
            while line := f.readline():
                method, path, _ = line.decode().split(" ", 2)
                head = b""
                while (field := f.readline()) not in (b"\r\n", b""):
                    head += field
                with self.lock:
                    self.requests.append((method, port, path))
                    self.tokens += TOKEN.encode() in head
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return serve

    def sink(self, conn, server):
        data = b""
        while piece := conn.recv(65536):
            data += piece
        with self.lock:
            self.data.append((server.port, data))
        conn.sendall(b"took it")

    def keys(self):
        """By what egress/account/ledger.h tells requests apart; the rules have one port each."""
        return {(m, port, None if m in ("GET", "HEAD") else path) for m, port, path in self.requests}


def key_of(e):
    return (e["method"], e["port"], None if e["method"] in ("GET", "HEAD") else e["path"])


def waited(c, run):
    """How many new things had to wait, as coffer-egress reported it last."""
    try:
        with open(os.path.join(c.state, "runs", run, "net-egress.json"), encoding="utf-8") as f:
            return json.load(f)["log"]["waited"]
    except FileNotFoundError:
        return 0


def stop_when_waited(c, p, counts):
    """Ends the flood once new things had to wait."""
    while p.poll() is None:
        for run in c("ps", "-q", "-f", "name=flood").out.split():
            counts.append(waited(c, run))
            if counts[-1] and c("exec", "flood", "--", "touch", ENOUGH).code == 0:
                return
        time.sleep(0.5)


def visit(tap, net, c, seen):
    who = c.who
    path = os.path.join(c.home, "policy.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(POLICY)
    c.own(path)
    r = c("secret", "set", "github", "-", "--host", f"{API}/v1", "--as", "bearer", input=TOKEN)
    tap.ok(r.code == 0, f"{who}: a secret is in the vault", r)
    del net.queries[:]
    p = c.popen("run", "--name", "flood", "--engine", c.engine, "--policy", path, "--secret", "github", "--", "python3", "-c",
                INSIDE % (API, ZONE, PIECE, ENOUGH, POSTS_MAX), text=True)
    counts = []
    watcher = threading.Thread(target=stop_when_waited, args=(c, p, counts))
    watcher.start()
    try:
        r = p.communicate(timeout=300)
    finally:
        p.kill()
        watcher.join()
    got = json.loads(r[0].strip().splitlines()[-1]) if p.returncode == 0 and r[0].strip() else {}
    tap.note(f"{who}: {got}")
    wanted = {"gets": {"200": 2500}, "delete": {"200": 1}, "secret gets": {"200": 4100}, "secret delete": {"200": 1}, "names": 330,
              "drop": "took it", "port": "took it", "no such": 0, "denied": 0, "refused": 0, "last": {"200": 4}, "late": "took it",
              "known": {"200": 1}}
    tap.ok(got.get("enough") and counts[-1] and 0 in counts and got.get("posts", 0) >= 3000,
           f"{who}: new requests wait once the log's budget is used up, at the pace of the budget", got, counts)
    tap.eq({k: v for k, v in got.items() if k not in ("posts", "enough")}, wanted,
           f"{who}: every act of the flood and after it was let through", r)

    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    log = [e for e in lines if e["type"] == "net.request" and e["decision"] == "allow"]
    told = {key_of(e) for e in log}

    def has(name, **members):
        found = [e for e in lines if all(e.get(k) == v for k, v in members.items())]
        tap.ok(found, f"{who}: {name}", members, len(lines))

    tap.eq(sorted(seen.keys() - told, key=str)[:9], [], f"{who}: every kind of request that the server saw has its own line in the log")
    tap.eq(sorted(told - seen.keys(), key=str)[:9], [], f"{who}: no line in the log is of a request that the server did not see")
    has("a DELETE after 2500 GETs has its line", type="net.request", method="DELETE", path="/victim/one")
    has("a DELETE with a secret after 4100 GETs with it has its line", type="net.request", method="DELETE", path="/v1/production", secret="github")
    has("the use of a secret in a DELETE after 4100 GETs has its line", type="secret.use", secret="github", method="DELETE", path="/v1/production")
    has("a DELETE after the budget was used up has its line", type="net.request", method="DELETE", path="/victim/last")
    tap.eq(seen.tokens, 4101, f"{who}: (the server received the secret each time)")

    asked = {n for n, _ in net.queries if n.endswith(ZONE)}
    dns = {e["name"] for e in lines if e["type"] == "net.dns"}
    tap.eq(sorted(asked - dns)[:9], [], f"{who}: every name that a server was asked for has a line, also one that does not exist")
    tap.ok(f"bytes-of-a-secret.nx.{ZONE}" in asked, f"{who}: (a resolver was asked for the name that does not exist)")
    opened = {(e["name"], e["port"]) for e in lines if e["type"] == "net.open" and e["decision"] == "allow"}
    want = {(f"drop.{ZONE}", 9000), (f"n0.{ZONE}", 9001), (f"late.{ZONE}", 9002)} | {(f"n{i}.{ZONE}", 9000) for i in range(60)}
    tap.eq(sorted(want - opened), [], f"{who}: every name and port that was connected to has a line")
    closed = {(e["name"], e["up"]) for e in lines if e["type"] == "net.close"}
    tap.ok((f"drop.{ZONE}", 8) in closed, f"{who}: the line of a connection has the bytes that were sent")
    tap.eq([d for d in ((9000, b"the data"), (9001, b"another port"), (9002, b"after the budget")) if d not in seen.data], [],
           f"{who}: (the servers received the bytes of each connection)")

    tops = [e["top"] for e in lines if e.get("top")]
    tap.ok(any(re.search(r"^\d+ often\.elsewhere\.test", t) for t in tops), f"{who}: the number of denials names the most frequent one", tops)
    folded = sum(e["count"] for e in lines if e["type"] == "net.folded" and e.get("ev") == "request")
    allowed = [e for e in lines if e["type"] == "net.request" and e["decision"] == "allow"]
    tap.eq(folded + len(allowed), len(seen.requests), f"{who}: lines and counts together are all requests that the server saw")
    tap.ok(len(lines) < 40000 and folded > 1000, f"{who}: (repetitions were counted, not written: {len(lines)} lines)")

    out = c("net", "log", "@last").out
    tap.ok("DELETE api.example.test/victim/one" in out and f"drop.{ZONE}" in out,
           f"{who}: coffer net log shows the acts of the flood", out[-2000:])
    out = c("net", "learn", "@last").out
    tap.ok(f"drop.{ZONE}" in out and f"late.{ZONE}" in out, f"{who}: coffer net learn has the names of the flood", out[-2000:])
    r = c("why", "@last")
    tap.like(r.out, r"looked up \w+\.elsewhere\.test", f"{who}: coffer why names a denial that happened", r)
    with open(path, "w", encoding="ascii") as f:
        f.write(POLICY.replace('{allow: "* /**"}', '{allow: "GET /**"}'))
    r = c("replay", "@last", "--policy", path)
    tap.ok("DELETE" in r.out and "/victim/one" in r.out, f"{who}: coffer replay decides the acts of the flood again", r)
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("the log under a flood", reason)
        tap.done()
    with Internet() as net:
        address = net.address()
        net.dns[API] = net.dns[f"*.{ZONE}"] = address
        net.dns[f"*.nx.{ZONE}"] = 3
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*net.cert(API))
        seen = None

        def handler(how):
            return lambda conn, server: how(seen)(conn, server)
        net.tcp(None, 80, handler(lambda s: s.web()), address)
        net.tcp(None, 443, handler(lambda s: s.web(context)), address)
        for port in (9000, 9001, 9002):
            net.tcp(None, port, handler(lambda s: s.sink), address)
        for who in identities(tap, ENGINES):
            # The logic is outside of the sandbox.
            if (str(who), who.engine) not in (("root", "ns"), ("user", "gvisor")):
                continue
            seen = Seen()
            with net.coffer(who) as c:
                visit(tap, net, c, seen)
    tap.done()


main()
