#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exchanges that do not end with one response, under `coffer run` and inspected: server-sent events, long polls, WebSockets, 100
Continue, and gRPC's streams with trailers. A server sends the next piece only once the client has told that it holds the one
before, so whoever keeps anything back fails."""

import os
import re
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from coffertest import ENGINES, Tap, identities, slow_build  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

API, GRPC = "api.example.test", "grpc.example.test"
POLICY = f"""version: 1
egress:
  allow:
    - domain: {API}
      port: 443
      http: [{{allow: "* /**"}}, {{allow: "WEBSOCKET /**"}}, {{deny: "* /secret/**"}}]
    - domain: {GRPC}
      port: 443
      http: [{{allow: "POST /pkg.Service/*"}}]
"""
PATIENCE = 60

# Runs inside. Each line of its output is "WORD: what came".
INSIDE = r"""
import json, os, socket, ssl, subprocess, sys
API, GRPC, BIG = sys.argv[1], sys.argv[2], "hello" * 200

def say(word, what):
    print(f"{word}: {what}", flush=True)

class Client:
    def __init__(self, host=API):
        self.s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443), 90), server_hostname=host)
        self.f = self.s.makefile("rb")
    def send(self, line, *fields, body=b""):
        self.s.sendall("\r\n".join([line + " HTTP/1.1", "Host: " + API, *fields, "", ""]).encode() + body)
        return self
    def head(self):
        lines = []
        while (line := self.f.readline().decode().strip()):
            lines.append(line)
        return lines
    def chunk(self):
        n = int(self.f.readline(), 16)
        data = self.f.read(n + 2)[:-2]
        return data.decode().strip()
    def body(self):
        head = self.head()
        n = [int(x.split(":")[1]) for x in head if x.lower().startswith("content-length:")]
        return head[0].split()[1] + " " + self.f.read(n[0] if n else 0).decode().strip()

def frame(data):
    n = len(data)
    head = bytes([0x81, 0x80 | n]) if n < 126 else bytes([0x81, 0xfe]) + n.to_bytes(2, "big")
    return head + b"abcd" + bytes(b ^ b"abcd"[i % 4] for i, b in enumerate(data))

def unframe(f):
    head = f.read(2)
    if len(head) < 2:
        return None
    n = head[1] & 0x7f
    n = int.from_bytes(f.read(2), "big") if n == 126 else n
    return f.read(n).decode()

# Events, by HTTP/1.1 and by HTTP/2 in front of the same server. Each is acknowledged on another connection.
c = Client().send("GET /events/1")
c.head()
for _ in range(3):
    got = c.chunk()
    Client().send("POST /ack/1", "Content-Length: 0").body()
    say("event1", got)
with subprocess.Popen(["curl", "-sSN", "--http2", f"https://{API}/events/2"], stdout=subprocess.PIPE, text=True) as p:
    for line in p.stdout:
        if line.startswith("data: "):
            Client().send("POST /ack/2", "Content-Length: 0").body()
            say("event2", line.strip())

# A long poll: answered once something else has happened.
c = Client().send("GET /poll")
Client().send("POST /happen", "Content-Length: 0").body()
say("poll", c.body())

# A WebSocket: frames both ways, one at a time; another path of the same kind is denied.
upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
c = Client().send("GET /ws", *upgrade)
say("upgrade", [x for x in c.head() if "101" in x or "accept" in x.lower()])
for text in ("one", BIG, "bye"):
    c.s.sendall(frame(text.encode()))
    say("frame", unframe(c.f) == text)
say("frame", unframe(c.f))
say("wsdenied", Client().send("GET /secret/ws", *upgrade).body()[:3])

# 100 Continue: the body is held back until the server wants it; and one that does not.
c = Client().send("POST /take", "Expect: 100-continue", "Content-Length: 5")
say("continue", c.head()[0])
c.s.sendall(b"bytes")
say("taken", c.body())
say("refused", Client().send("POST /no", "Expect: 100-continue", "Content-Length: 5").head()[0])
say("unasked", Client().send("POST /secret/x", "Expect: 100-continue", "Content-Length: 5").head()[0])

# gRPC: a stream of messages both ways, each sent once the one before came back; then trailers.
say("grpc", subprocess.run(["node", "-e", '''
const s = require("http2").connect("https://" + process.argv[1]);
const st = s.request({ ":method": "POST", ":path": "/pkg.Service/Call", "content-type": "application/grpc", te: "trailers" });
const send = ["one", "two", "three"], got = [];
let next = 0;
s.on("error", e => { console.log("session", e.message); process.exit(1); });
st.on("error", e => { console.log("stream", e.message); process.exit(1); });
st.on("response", h => got.push(h[":status"]));
st.on("data", d => { got.push(d.toString()); next < send.length ? st.write(send[next++]) : st.end(); });
st.on("trailers", t => got.push("status " + t["grpc-status"], t["grpc-message"], "te " + t["x-te"]));
st.on("close", () => { console.log(got.join(",")); s.close(); });
st.write(send[next++]);
''', GRPC], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.strip().replace("\n", " "))
say("grpcdenied", subprocess.run(["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "-d", "x",
    f"https://{GRPC}/other.Service/Call"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout)

# A denial comes while the body is still on its way, and is read all the same.
for n in (300000, 3000000):
    got = subprocess.run(["curl", "-sS", "--http2", "-w", "%{http_code} %{http_version}", "--data-binary", "@-",
        f"https://{API}/secret/up"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=b"x" * n).stdout.decode()
    say("updenied", got[got.rindex("}") + 1:].split() if '"error":"denied"' in got else got)
"""


class Turns:
    """The condition that the server waits for: a count for each name."""

    def __init__(self):
        self.cond, self.counts = threading.Condition(), {}

    def happened(self, name):
        with self.cond:
            self.counts[name] = self.counts.get(name, 0) + 1
            self.cond.notify_all()

    def wait(self, name, count):
        """False when it did not come in time, which the client is told."""
        with self.cond:
            return self.cond.wait_for(lambda: self.counts.get(name, 0) >= count, PATIENCE * slow_build())


def handlers(turns):
    def events(c, r):
        name = r.target[-1]
        start = turns.counts.get(name, 0)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(3):
            in_time = i == 0 or turns.wait(name, start + i)
            text = f"data: {i if in_time else 'too late'}\n\n".encode()
            c.sendall(b"%x\r\n%s\r\n" % (len(text), text))
        c.sendall(b"0\r\n\r\n")

    def happen(name):
        def handler(c, _r):
            turns.happened(name)
            ht.reply(c, b"ok\n")
        return handler

    def poll(c, _r):
        ht.reply(c, b"it happened\n" if turns.wait("poll", 1) else b"nothing happened\n")

    def take(c, r):
        ht.reply(c, r.body)
    return {"/events/1": events, "/events/2": events, "/ack/1": happen("1"), "/ack/2": happen("2"), "/poll": poll,
            "/happen": happen("poll"), "/ws": ht.websocket, "/secret/ws": ht.websocket, "/take": take, "/no": ht.no_continue}


def streams(tap, c, turns, origin):
    who, path = c.who, os.path.join(c.home, "policy.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(POLICY)
    c.own(path)
    turns.counts.clear()
    before = len(origin.requests)
    r = c("run", "--policy", path, "--", "python3", "-c", INSIDE, API, GRPC, timeout=300)

    def lines(word, wanted, name):
        tap.eq(re.findall(rf"^{word}: (.*)$", r.out, re.M), wanted, f"{who}: {name}", r)

    for n, how in (("1", "HTTP/1.1"), ("2", "HTTP/2")):
        lines(f"event{n}", ["data: 0", "data: 1", "data: 2"], f"an event is there before the next is sent, {how}")
    lines("poll", ["200 it happened"], "a long poll is answered when something happens")
    lines("upgrade", ["['HTTP/1.1 101 Switching Protocols', 'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=']"],
          "a WebSocket is opened")
    lines("frame", ["True", "True", "True", "None"], "a WebSocket carries frames and ends with the server")
    lines("wsdenied", ["403"], "a WebSocket at a denied path is refused")
    lines("continue", ["HTTP/1.1 100 Continue"], "100 Continue comes before the body is sent")
    lines("taken", ["200 bytes"], "a body arrives after 100 Continue")
    lines("refused", ["HTTP/1.1 417 Expectation Failed"], "a server that refuses the body answers 417")
    lines("unasked", ["HTTP/1.1 403 Forbidden"], "a denied request gets no 100 Continue")
    lines("grpc", ["200,one,two,three,status 0,fine,te trailers"], "gRPC messages alternate in both directions, with trailers")
    lines("grpcdenied", ["403 2"], "a denied gRPC service gets a 403")
    lines("updenied", ["['403', '2']"] * 2, "a denied upload by HTTP/2 gets a 403")
    tap.ok(not [q for q in origin.requests[before:] if "secret" in q.target], f"{who}: no denied request reached the server")
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("streams under coffer run", reason)
        tap.done()
    turns, proc = Turns(), None
    with Internet() as net:
        net.dns[API], net.dns[GRPC] = net.address(), net.address()
        origin = ht.Origin(net.cert(API), handlers(turns), net.listen(net.dns[API], 443))
        try:
            proc = ht.node_h2(net.cert(GRPC), (net.dns[GRPC], 443), net.inet.do)
            for who in identities(tap, ENGINES):
                with net.coffer(who) as c:
                    streams(tap, c, turns, origin)
        finally:
            origin.s.close()
            if proc:
                proc.close()
    tap.done()


main()
