# SPDX-License-Identifier: Apache-2.0
"""A sandbox that stays, whose requests are `coffer exec`s and whose questions are looked at from outside: for tests of approvals."""

import json
import os
import re
import ssl

from coffertest import remember
from nettest import wait_for


def curl(*args):
    return ["curl", "-sS", "-m", "150", "-w", " %{http_code}", *args]


def end(p):
    out, err = p.communicate(timeout=240)
    return remember(out.decode(errors="replace") + err.decode(errors="replace"))


class Agent:
    def __init__(self, tap, c, policy, *more):
        self.tap, self.c, self.more = tap, c, more
        self.policy = os.path.join(c.home, "policy.yaml") if policy else None
        if policy:
            self.set_policy(policy)

    def set_policy(self, text):
        new = self.policy + ".new"
        with open(new, "w", encoding="utf-8") as f:
            f.write(text)
        self.c.own(new)
        os.rename(new, self.policy)

    def __enter__(self):
        policy = ("--policy", self.policy) if self.policy else ()
        r = self.c("run", "-d", "--engine", self.c.engine, *policy, *self.more, "--", "sleep", "3600")
        self.id = r.out.strip()
        self.tap.ok(r.code == 0 and self.id, f"{self.c.who}: the sandbox starts", r)
        return self

    def __exit__(self, *exc):
        self.c("stop", "-t", "1", self.id)

    def start(self, argv):
        return self.c.popen("exec", self.id, "--", *argv)

    def do(self, argv):
        return end(self.start(argv))

    def asks(self, *more):
        lines = [json.loads(x) for x in self.c("ask", "ls", "--json", *more).out.splitlines()]
        return [a for a in lines if a["sandbox"] == self.id]

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

    def logged(self, kind):
        return [e for e in self.log() if e["type"] == kind and e.get("sandbox") == self.id]


def preview(text):
    """Of what `coffer ask show` prints: what is shown of the body."""
    return (re.search(r"^preview.*?(?=^[a-z]|\Z)", text, re.S | re.M) or [""])[0]


def hangs_up(net, host):
    """A server that answers /stay, and hangs up on the rest. A list that grows: "METHOD PATH" and the Authorization header of each."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*net.cert(host))
    came = []

    def serve(conn, _server):
        with context.wrap_socket(conn, server_side=True) as tls:
            f = tls.makefile("rb")
            while (line := f.readline().decode().split()):
                key = ""
                while (field := f.readline().decode("latin-1").strip()):
                    key = field.split(": ", 1)[1] if field.lower().startswith("authorization: ") else key
                came.append(" ".join([*line[:2], key]).strip())
                if line[1] != "/stay":
                    return
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    net.tcp(host, 443, serve)
    return came
