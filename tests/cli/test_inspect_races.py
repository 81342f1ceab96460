# SPDX-License-Identifier: Apache-2.0
"""An inspecting coffer-egress when much comes at once: a policy that takes away many connections while their
server breaks off, more lines than the journal holds, a policy that changes between the first bytes of a connection.
It is stopped (SIGSTOP) to have things come in one round; what is then wrong shows best over a sanitizer build."""

import array
import os
import shutil
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
import rawclient as raw  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import CTL_CA, CTL_NEW_BUNDLE, CTL_OK, PATIENCE, Rig, Server, client_hello, wait_for  # noqa: E402

NAME = "api.example.test"
POLICY = """version: 1
egress:
  allow:
    - domain: NAME
      port: 443
      http: [{allow: "* /**"}]
"""


class Streams(threading.Thread):
    """An HTTP/2 server that answers each request with a head and leaves it open."""

    def __init__(self, cert):
        super().__init__(daemon=True)
        self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ctx.load_cert_chain(*cert)
        self.ctx.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addr, self.conns, self.open = self.listener.getsockname(), [], 0
        self.start()

    def run(self):
        while True:
            c, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            t = self.ctx.wrap_socket(c, server_side=True)
            self.conns.append(t)
            f = t.makefile("rb")
            f.read(24)
            t.sendall(raw.frame(raw.SETTINGS))
            while len(head := f.read(9)) == 9:
                f.read(int.from_bytes(head[:3], "big"))
                stream = int.from_bytes(head[5:], "big")
                if head[3] == raw.HEADERS:
                    t.sendall(raw.frame(raw.HEADERS, 4, stream, b"\x88"))
                    self.open += 1
                elif head[3] == raw.SETTINGS and not head[4] & 1:
                    t.sendall(raw.frame(raw.SETTINGS, 1))
        except (OSError, ValueError):
            pass

    def reset(self):
        while self.conns:
            reset(self.conns.pop())


def reset(s):
    """Also while a thread of ours reads from it."""
    with socket.socket(fileno=os.dup(s.fileno())) as copy:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        copy.shutdown(socket.SHUT_RD)
        os.close(s.detach())


def client(rig, trust):
    s = rig.connect(rig.lookup(NAME), 443)
    s.settimeout(PATIENCE)
    return raw.H2(raw.tls(s, NAME, trust, "h2"), NAME)


def trusted(rig, d):
    path = os.path.join(d, "inside.pem")
    with open(path, "w", encoding="ascii") as f:
        f.write(rig.ca)
    return path


def cut_off(tap, d, ca):
    """One connection's end breaks the next one, which is the next to be looked at."""
    srv = Streams(ca.cert("streams", NAME))
    for _ in range(3):
        with Rig(POLICY.replace("NAME", NAME), store=ca.pem) as rig:
            rig.dial[NAME] = srv.addr
            trust = trusted(rig, d)
            before = srv.open
            clients = [client(rig, trust) for _ in range(4)]
            tap.ok(all(c.get(f"/{i}") for i, c in enumerate(clients)), "clients share a server's connection")
            wait_for("their requests", lambda n=before: srv.open >= n + 4)
            none = egressrig.bundle(POLICY.replace("NAME", "other.example.test"), 2)
            os.kill(rig.pid, signal.SIGSTOP)
            rig.control.sendmsg([struct.pack("<II", CTL_NEW_BUNDLE, 2)],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [none]))])
            srv.reset()
            for c in clients[1:]:
                reset(c.s)
            os.kill(rig.pid, signal.SIGCONT)
            tap.eq(rig.read_control()[:2], (CTL_OK, 2), "a policy that cuts connections off while others break off is taken")
            os.close(none)
            wait_for("their ends", lambda: rig.stats()["connections"]["open"] == 0)
            tap.eq(rig.quit(), 0, "coffer-egress ends with 0 after connections were cut off")


def many_lines(tap, d, ca):
    """More in one round than the journal holds at once: each request has its line, or did not happen."""
    srv = ht.Origin(ca.cert("many", NAME))
    with Rig(POLICY.replace("NAME", NAME), store=ca.pem) as rig:
        rig.dial[NAME] = srv.addr
        trust = trusted(rig, d)
        clients = [client(rig, trust) for _ in range(8)]
        tap.ok(clients[0].get("/first"), "a first request is answered")
        os.kill(rig.pid, signal.SIGSTOP)
        for k, c in enumerate(clients):
            block = b""
            for i in range(95):
                stream, c.next = c.next, c.next + 2
                block += raw.frame(raw.HEADERS, 5, stream, c.block(f"/{k}-{i}-" + "a" * 900))
            c.send(block)
        os.kill(rig.pid, signal.SIGCONT)

        def decided():
            return sum(e["ev"] == "request" for e in rig.lines()) >= 8 * 95 + 1
        wait_for("all to be decided", decided)
        wait_for("those that are allowed to arrive", lambda: len({r.target for r in srv.requests}) >= len(allowed(rig)))
        unlogged = {r.target.split("-a")[0] for r in srv.requests} - allowed(rig)
        tap.eq(unlogged, set(), "no request of 760 at once arrives without its line in the journal")
        tap.ok(len(allowed(rig)) > 700, "more than 700 requests of 760 at once are allowed", len(allowed(rig)))
        tap.eq(rig.quit(), 0, "coffer-egress ends with 0 after 760 requests at once")


def allowed(rig):
    return {e["path"].split("-a")[0] for e in rig.lines() if e["ev"] == "request" and e["decision"] == "allow"}


def between(tap):
    """A policy that changes after a connection's first byte and before its last: what counts is the one in force then."""
    srv, hello = Server(), client_hello("example.test")
    with Rig(["allow=example.test:443"]) as rig:
        rig.dial["example.test"] = srv.addr
        with rig.connect(rig.lookup("example.test"), 443) as s:
            s.sendall(hello[:10])
            wait_for("the first piece", lambda: rig.stats()["connections"]["open"] >= 1)
            rig.ask(egressrig.CTL_PING)
            kind = rig.policy(["allow=example.test:443,http=GET /only"])[0]
            tap.eq(rig.read_control()[0] if kind == CTL_CA else kind, CTL_OK, "a policy that changes a rule from peek to inspect is taken")
            s.sendall(hello[10:])
            opened = rig.events("open", name="example.test")
            tap.eq([e["depth"] for e in opened], ["inspect"], "a connection that began under peek is inspected by the new policy", opened)
        rig.quit()
    evil = client_hello("evil.test")
    with Rig(["observe", "allow=other.test:443"]) as rig:
        rig.dial["example.test"] = srv.addr
        with rig.connect(rig.lookup("example.test"), 443) as s:
            s.sendall(evil[:10])
            wait_for("the first piece", lambda: rig.stats()["connections"]["open"] >= 1)
            rig.ask(egressrig.CTL_PING)
            tap.eq(rig.policy(["allow=example.test:443"])[0], CTL_OK, "a policy that changes from observe to enforce is taken")
            s.sendall(evil[10:])
            opened = rig.events("open", name="example.test")
            tap.eq([(e["decision"], e.get("seen")) for e in opened], [("deny", "evil.test")],
                   "a connection that began under observe is refused by the new policy for another name", opened)
        rig.quit()


def main():
    egressrig.enter()
    tap, d = Tap(), tempfile.mkdtemp(prefix="coffer-races-")
    try:
        os.chmod(d, 0o755)
        ca = ht.Authority(d)
        cut_off(tap, d, ca)
        many_lines(tap, d, ca)
        between(tap)
    finally:
        shutil.rmtree(d, ignore_errors=True)
    tap.done()


main()
