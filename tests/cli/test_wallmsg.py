#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer-egress with a wall elsewhere: connections and DNS queries come as messages of a forwarder.

What only messages have: streams that are pairs of UNIX sockets, a forwarder that breaks the form of its messages, sends too
much, reads nothing, or ends. Then everything that cli/egress_core has of the wall's own sockets, through messages."""

import os
import resource
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
import rawclient as raw  # noqa: E402
import test_egress_core as core  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import CTL_FAIL, CTL_OK, CTL_PING, PATIENCE, Rig, Server, client_hello, wait_for  # noqa: E402
from test_egress_core import ACCESS_DENIED, NOERROR, NXDOMAIN, UNRECOGNIZED, echoed, end_of, exchange  # noqa: E402
from wallrig import DATAGRAM_MAX, QUERY, REPLY, STREAM, ByHand, WallElsewhere, open_files, pack, pack_peer  # noqa: E402

WORDS = ["allow=example.test:443", "allow=tunnel.test:22,depth=tunnel", "allow=web.test:80", "allow=*.wild.test:443", "allow=5.5.5.5:443"]
INSIDE = ByHand.inside
ADDR = "5.5.5.5"


def by_hand(srv, **kw):
    rig = ByHand(WORDS, **kw)
    for name in ("example.test", "tunnel.test", "web.test", "5.5.5.5", "a.wild.test", "b.wild.test"):
        rig.dial[name] = srv.addr
    return rig


def take(c, n):
    """The next n bytes; fewer when the connection ends."""
    got = bytearray()
    while len(got) < n:
        piece = c.recv(min(n - len(got), 1 << 20))
        if not piece:
            break
        got += piece
    return bytes(got)


def unix_streams(tap, rig, srv):
    a, hello = rig.lookup("example.test"), client_hello("example.test")
    tap.ok(echoed(rig, a, 443, hello), "a UNIX stream reaches an allowed host")
    tap.ok(echoed(rig, ADDR, 443, client_hello(None)), "a UNIX stream reaches an allowed address")
    before, accepted = len(rig.fake.requests), srv.accepted
    tap.eq(exchange(rig, a, 443, client_hello("other.test")), (UNRECOGNIZED, "end"), "a UNIX stream with another name in the SNI gets an alert")
    tap.eq(exchange(rig, "1.2.3.4", 443, hello), (ACCESS_DENIED, "end"), "a UNIX stream to an address that no rule allows gets an alert")
    tap.eq(exchange(rig, "2001:db8::1", 443, hello), (ACCESS_DENIED, "end"), "a UNIX stream over IPv6 that no rule allows gets an alert")
    tap.eq(exchange(rig, "11.77.77.77", 443, hello), (ACCESS_DENIED, "end"), "a UNIX stream to a synthetic address without a name gets an alert")
    tap.eq(exchange(rig, a, 22, b"")[0], b"", "a UNIX stream to a port that no rule allows ends")
    got, _ = exchange(rig, "1.2.3.4", 80, b"GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n")
    tap.ok(got.startswith(b"HTTP/1.1 403 ") and b'"reason":' in got and b'"host":"1.2.3.4"' in got,
           "a UNIX stream with a request that is denied gets the reason", got)
    tap.eq((rig.fake.requests[before:], srv.accepted - accepted), ([], 0), "no UNIX stream that was refused was dialled")
    own = rig.lookup("coffer.internal")
    got = exchange(rig, own, 80, b"GET / HTTP/1.1\r\nHost: coffer.internal\r\n\r\n")[0]
    tap.ok(b"200 OK" in got and b"example.test:443" in got, "a UNIX stream reaches http://coffer.internal/", got)
    rig.events("open", decision="allow", name="example.test", port=443)
    rig.events("open", decision="deny", addr="1.2.3.4", port=443)
    rig.events("open", decision="deny", addr="2001:db8::1", port=443)


def bulk(tap, rig):
    big = os.urandom(1 << 20) * 8
    rig.dial["tunnel.test"] = Server().addr
    t = rig.lookup("tunnel.test")
    with rig.connect(t, 22) as c:
        sender = threading.Thread(target=lambda: (c.sendall(big), c.shutdown(socket.SHUT_WR)))
        sender.start()
        got, how = end_of(c)
        sender.join()
    tap.ok(got == big and how == "end", "8 MiB go up and come down again through a UNIX stream", len(got), how)
    up = rig.events("close", name="tunnel.test", up=len(big))[-1]
    tap.eq(up["down"], len(big), "bytes of a UNIX stream are counted both ways")


def hand_over_tcp(rig, addr, port, linger=0):
    """Our end of a TCP connection whose other end coffer-egress has; that end makes close() wait for `linger` seconds."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ours.connect(s.getsockname())
        theirs = s.accept()[0]
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", linger > 0, linger))
    ours.settimeout(PATIENCE)
    if rig is None:
        return ours, theirs
    with theirs:
        rig.give(theirs, addr, port)
    return ours, None


def no_call_waits(tap, rig):
    """The descriptors of a forwarder are blocking here (Python's default), and their peers read nothing."""
    big = os.urandom(1 << 20) * 8
    rig.dial["tunnel.test"] = Server(lambda c: (c.sendall(big), c.recv(1))).addr
    t = rig.lookup("tunnel.test")
    opened = rig.stats()["connections"]["open"]
    for name, connect in (("UNIX", rig.connect), ("TCP", lambda a, p: hand_over_tcp(rig, a, p)[0])):
        with connect(t, 22) as c:
            wait_for("the stream to be full", lambda n=opened: rig.stats()["bytes"]["down"] > 0 and rig.stats()["connections"]["open"] > n)
            for _ in range(5):
                tap.eq(rig.ask(CTL_PING)[0], CTL_OK, f"coffer-egress answers while a blocking {name} stream is full")
            got = take(c, len(big))
            tap.ok(got == big, f"a full {name} stream goes on when it is read", len(got))
        wait_for("its end", lambda n=opened: rig.stats()["connections"]["open"] == n)
    # close() of a socket that lingers, with unsent bytes, waits: first here, as a control.
    ours, theirs = hand_over_tcp(None, None, None, linger=2)
    with ours:
        theirs.setblocking(False)
        try:
            while True:
                theirs.send(big)
        except BlockingIOError:
            pass
        started = time.monotonic()
        theirs.close()
        tap.ok(time.monotonic() - started > 1, "control: close() waits for a socket that lingers")
    rig.dial["tunnel.test"] = Server(lambda c: c.sendall(bytes(100000))).addr
    ours, _ = hand_over_tcp(rig, t, 22, linger=600)
    with ours:
        ours.shutdown(socket.SHUT_WR)
        rig.events("close", name="tunnel.test", down=100000)
        tap.eq(rig.ask(CTL_PING)[0], CTL_OK, "the end of a stream that lingers does not stop coffer-egress")
        tap.eq(len(take(ours, 100000)), 100000, "a stream that lingers carries its last bytes")


def kept_copies(tap, rig):
    """A forwarder that keeps its copy of a stream: events on it are ignored after coffer-egress has ended the connection."""
    rig.dial["tunnel.test"] = Server(lambda c: c.sendall(b"bye")).addr
    t = rig.lookup("tunnel.test")
    opened = rig.stats()["connections"]["open"]
    kept = []
    for _ in range(20):
        ours, theirs = socket.socketpair()
        rig.give(theirs, t, 22)
        ours.settimeout(PATIENCE)
        ours.shutdown(socket.SHUT_WR)
        tap.eq(take(ours, 3), b"bye", "a stream whose copy is kept carries bytes")
        wait_for("its end", lambda n=opened: rig.stats()["connections"]["open"] == n)
        kept += [ours, theirs]
    for s in kept:
        s.close()
    before = rig.cpu()
    for _ in range(20):
        rig.ask(CTL_PING)
        time.sleep(0.01)
    tap.ok(rig.cpu() - before < 0.1, "copies that a forwarder kept do not keep coffer-egress busy", rig.cpu() - before)


def right_asker(tap, rig):
    askers = [((f"10.9.0.{i}", 1000 + i), (f"192.0.2.{i}", 53)) for i in range(1, 100)]
    askers += [((f"2001:db8::{i:x}", 2000 + i), (f"2001:db8:53::{i:x}", 53)) for i in range(1, 100)]
    names = {"example.test": NOERROR, "denied.test": NXDOMAIN, "a.wild.test": NOERROR, "missing.wild.test": NXDOMAIN, "b.wild.test": NOERROR}
    sent = {}
    for i, (sender, to) in enumerate(askers):
        name = list(names)[i % len(names)]
        sent[sender] = (to, name, i)
        rig.send(pack(QUERY, sender, to, egressrig.query(name, ident=i)))
    wrong = []
    for _ in askers:
        sender, to, (rcode, answers, msg) = rig.answer()
        where, name, ident = sent.pop(to)
        if (sender, rcode, len(answers), struct.unpack_from(">H", msg)[0]) != (where, names[name], int(rcode == NOERROR), ident):
            wrong.append((to, sender, rcode, answers))
    tap.eq((wrong, sent), ([], {}), "each of 198 queries gets its own answer, at the address that asked, from the address that was asked")


def dns_stream(tap, rig):
    msg = egressrig.query("example.test")
    for where in ("9.9.9.9", "127.0.0.53", "2001:db8::53"):
        with rig.connect(where, 53) as c:
            c.sendall((struct.pack(">H", len(msg)) + msg) * 3)
            f = c.makefile("rb")
            got = [egressrig.parse(f.read(struct.unpack(">H", f.read(2))[0]))[:2] for _ in range(3)]
        tap.eq(got, [(NOERROR, [rig.lookup("example.test")])] * 3, f"a stream to port 53 of {where} is answered as DNS")
    idle = [rig.connect("9.9.9.9", 53) for _ in range(300)]
    with rig.connect("9.9.9.9", 53) as c:
        c.sendall(struct.pack(">H", len(msg)) + msg)
        tap.ok(c.recv(100), "300 silent streams for DNS leave room for another")
    tap.ok(open_files(rig.pid) < 300, "silent streams for DNS are bounded", open_files(rig.pid))
    for c in idle:
        c.close()


def inspection(tap):
    policy = """version: 1
egress:
  allow:
    - domain: api.example.test
      port: 443
      http: [{allow: "GET /**"}]
"""
    with tempfile.TemporaryDirectory(prefix="wallmsg-") as d:
        ca = ht.Authority(d)
        srv = ht.Origin(ca.cert("api", "api.example.test"))
        for kind in (WallElsewhere, ByHand):
            with kind(policy, store=ca.pem) as rig:
                how = "a TCP" if kind is WallElsewhere else "a UNIX"
                rig.dial["api.example.test"] = srv.addr
                trust = os.path.join(d, "inside.pem")
                with open(trust, "w", encoding="ascii") as f:
                    f.write(rig.ca)
                ctx = ssl.create_default_context(cafile=trust)
                with ctx.wrap_socket(rig.connect(rig.lookup("api.example.test"), 443), server_hostname="api.example.test") as t:
                    f = t.makefile("rb")
                    for method, path, status, text in (("GET", "/yes", b"200", b'"target": "/yes"'), ("DELETE", "/no", b"403", b'"reason":')):
                        t.sendall(f"{method} {path} HTTP/1.1\r\nHost: api.example.test\r\n\r\n".encode())
                        head = b""
                        while not head.endswith(b"\r\n\r\n"):
                            head += f.readline() or b"\r\n\r\n"
                        n = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0)
                        body = f.read(n)
                        tap.ok(head.split(b" ")[1] == status and text in body, f"{how} stream is inspected: {method} {path} is {status.decode()}",
                               head, body)
                tap.ok(srv.last("/yes") and not srv.last("/no"), f"the request that is denied on {how} stream does not reach the server")
                tap.ok(rig.events("request", decision="deny", method="DELETE"), f"the journal has the denied request of {how} stream")
                srv.requests.clear()


def malformed():
    """(name, message, what makes its descriptors) of what ends a forwarder."""
    good, v6 = (ADDR, 443), ("2001:db8::1", 443)
    many = socket.socketpair

    def read_end_of_pipe():
        r, w = os.pipe()
        os.close(w)
        return (os.fdopen(r, "rb"),)

    def pair(family=socket.AF_UNIX, kind=socket.SOCK_STREAM):
        return many(family, kind)[:1]
    q = egressrig.query("example.test")
    return [
        ("an empty message with a descriptor", b"", pair),
        ("one byte", b"\1", pair),
        ("a head without its last byte", pack(STREAM, INSIDE, good)[:-1], pair),
        ("a stream with a byte after its head", pack(STREAM, INSIDE, good, b"x"), pair),
        ("a stream with a byte that its head does not tell of", pack(STREAM, INSIDE, good, b"x", length=0), pair),
        ("type 0", pack(0, INSIDE, good), pair),
        ("a reply, which only coffer-egress sends", pack(REPLY, INSIDE, (ADDR, 53), q), lambda: ()),
        ("type 4", pack(4, INSIDE, good), pair),
        ("a stream without a descriptor", pack(STREAM, INSIDE, good), lambda: ()),
        ("a stream with two descriptors", pack(STREAM, INSIDE, good), many),
        ("a stream with ten descriptors", pack(STREAM, INSIDE, good), lambda: sum((many() for _ in range(5)), ())),
        ("a stream that is a file", pack(STREAM, INSIDE, good), lambda: (os.fdopen(egressrig.memfd("file")),)),
        ("a stream that is a pipe", pack(STREAM, INSIDE, good), read_end_of_pipe),
        ("a stream that is a UDP socket", pack(STREAM, INSIDE, good), lambda: (socket.socket(socket.AF_INET, socket.SOCK_DGRAM),)),
        ("a stream that is a UNIX datagram socket", pack(STREAM, INSIDE, good), lambda: pair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        ("a stream that keeps message bounds", pack(STREAM, INSIDE, good), lambda: pair(socket.AF_UNIX, socket.SOCK_SEQPACKET)),
        ("a stream to loopback", pack(STREAM, INSIDE, ("127.0.0.1", 443)), pair),
        ("a stream to no address", pack(STREAM, INSIDE, ("0.0.0.0", 443)), pair),
        ("a stream to a group", pack(STREAM, INSIDE, ("224.0.0.1", 443)), pair),
        ("a stream to loopback over IPv6", pack(STREAM, ("::2", 1), ("::1", 443)), pair),
        ("addresses of two families", pack(STREAM, INSIDE, v6), pair),
        ("an IPv4 address that is said to be IPv6", pack(STREAM, INSIDE, good, family=6), pair),
        ("an unknown family", pack(STREAM, INSIDE, good, family=2), pair),
        ("an unused byte that is set", pack(STREAM, INSIDE, good, zero=1), pair),
        ("an unused byte of an address that is set", pack(STREAM, INSIDE, good)[:28] + pack_peer(*good, zero=256), pair),
        ("a query to another port", pack(QUERY, INSIDE, (ADDR, 54), q), lambda: ()),
        ("a query with a descriptor", pack(QUERY, INSIDE, (ADDR, 53), q), pair),
        ("a query that is shorter than its head says", pack(QUERY, INSIDE, (ADDR, 53), q, length=len(q) + 1), lambda: ()),
        ("a query that is longer than its head says", pack(QUERY, INSIDE, (ADDR, 53), q, length=len(q) - 1), lambda: ()),
        ("a query that is too long", pack(QUERY, INSIDE, (ADDR, 53), bytes(DATAGRAM_MAX + 1)), lambda: ()),
        ("a query of 20000 bytes", pack(QUERY, INSIDE, (ADDR, 53), bytes(20000)), lambda: ()),
    ]


def broken_form(tap, srv):
    hello = client_hello(None)
    for name, msg, make in malformed():
        with by_hand(srv) as rig:
            # Control: the same forwarder opens one before.
            with rig.connect(ADDR, 443) as c, rig.connect("9.9.9.9", 53) as dns:
                c.sendall(hello)
                control = take(c, len(hello)) == hello
                before, accepted, files = len(rig.fake.requests), srv.accepted, open_files(rig.pid)
                fds = make()
                # A good one right after it, in the same turn, is not taken.
                late, theirs = socket.socketpair()
                os.kill(rig.pid, signal.SIGSTOP)
                rig.send(msg, *fds)
                rig.send(pack(STREAM, INSIDE, (ADDR, 443)), theirs)
                late.sendall(hello)
                theirs.close()
                os.kill(rig.pid, signal.SIGCONT)
                late.settimeout(PATIENCE)
                ended = rig.is_ended()
                alive = rig.ask(CTL_PING)[0] == CTL_OK and rig.stats()["connections"]["open"] == 0
                left = open_files(rig.pid)
                alert = rig.events("alert", kind="wall")
                cut, dns_cut, late_cut = end_of(c), end_of(dns), end_of(late)
                rig.events("close", addr=ADDR, how="error: the wall's forwarder broke its protocol")
                opened = (len(rig.fake.requests) - before, srv.accepted - accepted)
                for f in fds:
                    f.close()
                late.close()
        # Of the descriptors, the forwarder's, those of two streams and a server's are gone.
        tap.ok(control and ended and alive and len(alert) == 1 and opened == (0, 0) and (cut[0], dns_cut[0], late_cut[0]) == (b"", b"", b"") and
               left == files - 4, f"{name} ends the forwarder with its connections, and opens nothing", control, ended, alive, alert, opened, cut,
               dns_cut, late_cut, files, left)


def unusable(tap, rig):
    """What a connection can become on its way is no breach."""
    hello = client_hello(None)
    before = len(rig.fake.requests)
    files = open_files(rig.pid)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as fresh, socket.socket(socket.AF_UNIX) as unconnected:
        for s in (listening, fresh, unconnected):
            rig.give(s, rig.lookup("tunnel.test"), 22)
        ours, theirs = hand_over_tcp(None, None, None)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ours.close()  # a reset
        with theirs:
            rig.give(theirs, rig.lookup("tunnel.test"), 22)
        ours, theirs = socket.socketpair()
        ours.close()
        with theirs:
            rig.give(theirs, ADDR, 443)
        rig.lookup("example.test")
        got = [r for r in rig.fake.requests[before:] if not r[2]]
        tap.eq(got, [], "a stream that is not connected opens nothing")
    tap.ok(echoed(rig, ADDR, 443, hello), "control: the forwarder goes on after streams that are not connected")
    wait_for("all to be closed", lambda: open_files(rig.pid) <= files)
    tap.eq(exchange(rig, ADDR, 0, b"x")[0], b"", "a stream to port 0 is refused")
    for length in (0, 1, 11, DATAGRAM_MAX):
        rig.send(pack(QUERY, INSIDE, ("9.9.9.9", 53), bytes(length)))
    rig.send(pack(QUERY, ("10.0.2.15", 0), ("9.9.9.9", 53), egressrig.query("example.test")))
    sender, to, _ = rig.answer()
    while to[1]:
        sender, to, _ = rig.answer()
    tap.eq((sender, to), (("9.9.9.9", 53), ("10.0.2.15", 0)), "bytes that are no query, and a query from port 0, are no breach")
    tap.ok(echoed(rig, ADDR, 443, hello), "control: the forwarder goes on after bytes that are no query")


def floods(tap, srv):
    with by_hand(srv) as rig:
        hello = client_hello(None)
        base = rig.rss()
        mine = [rig.connect(ADDR, 443) for _ in range(200)]  # so that sending and reading keep up
        conns = []
        for _ in range(6000):
            conns.append(rig.connect(ADDR, 443))
            if len(conns) > 2500:
                conns.pop(0).close()
        stats = rig.stats()["connections"]
        tap.ok(stats["open"] <= 2100 and stats["shed"] > 0, "6000 silent streams are bounded: the oldest are shed", stats)
        tap.ok(open_files(rig.pid) < 2400, "silent streams hold a bounded number of descriptors", open_files(rig.pid))
        tap.ok(echoed(rig, ADDR, 443, hello), "a stream passes beside the silent ones")
        for c in conns + mine:
            c.close()
    with by_hand(srv) as rig:
        rig.lookup("example.test")
        base = rig.rss()
        rig.end.setblocking(True)
        for i in range(20000):
            rig.send(pack(QUERY, INSIDE, ("9.9.9.9", 53), egressrig.query("example.test", ident=i & 0xffff)))
        tap.eq(rig.ask(CTL_PING)[0], CTL_OK, "coffer-egress does not wait for a forwarder that reads no reply")
        dns = rig.stats()["dns"]
        tap.ok(dns["dropped"] > 10000 and dns["queries"] >= 20001, "replies that the forwarder does not read are lost, and counted", dns)
        tap.ok(rig.rss() - base < 4096 * egressrig.slow_build(), "replies that nobody reads cost no memory", base, rig.rss())
        rig.end.settimeout(0.2)
        kept = 0
        try:
            while rig.answer():
                kept += 1
        except TimeoutError:
            pass
        rig.end.settimeout(PATIENCE)
        tap.ok(0 < kept < 10000, "replies that there was room for are kept", kept)
        tap.ok(rig.lookup("example.test"), "names are answered again when replies are read")


def few_descriptors(tap, srv):
    with by_hand(srv) as rig:
        limit = open_files(rig.pid) + 20
        resource.prlimit(rig.pid, resource.RLIMIT_NOFILE, (limit, limit))
        conns = [rig.connect(ADDR, 443) for _ in range(100)]
        tap.ok(rig.events("alert", kind="descriptors"), "an alert tells of streams that there was no descriptor for")
        wait_for("all to be counted", lambda: rig.stats()["connections"]["shed"] >= 80)
        stats = rig.stats()["connections"]
        tap.ok(0 < stats["open"] <= 20 and stats["open"] + stats["shed"] == 100, "streams that there is no descriptor for are counted", stats)
        with conns.pop() as c:
            tap.eq(end_of(c)[0], b"", "a stream that there is no descriptor for ends")
        tap.eq(rig.query("example.test")[0], NOERROR, "a query is answered when no descriptor is free")
        for c in conns:
            c.close()
        wait_for("free descriptors", lambda: open_files(rig.pid) < limit - 10)
        tap.ok(echoed(rig, ADDR, 443, client_hello(None)), "a stream passes when descriptors are free again")


def gone(tap, srv):
    hello = client_hello(None)
    for name, unread in (("ends", False), ("ends with replies unread", True)):
        with by_hand(srv) as rig:
            with rig.connect(ADDR, 443) as c:
                c.sendall(hello)
                tap.eq(take(c, len(hello)), hello, f"control: a forwarder that {name} has a connection")
                if unread:
                    rig.send(pack(QUERY, INSIDE, ("9.9.9.9", 53), egressrig.query("example.test")))
                    wait_for("the reply", lambda: rig.stats()["dns"]["queries"] == 1)
                rig.end.close()
                tap.ok(rig.events("alert", kind="wall"), f"an alert tells of a forwarder that {name}")
                c.sendall(b"more")
                tap.eq(take(c, 4), b"more", f"the connection of a forwarder that {name} goes on")
            before = rig.cpu()
            for _ in range(20):
                tap.eq(rig.ask(CTL_PING)[0], CTL_OK, f"coffer-egress answers after its forwarder {name}")
                time.sleep(0.01)
            tap.ok(rig.cpu() - before < 0.1, f"coffer-egress is idle after its forwarder {name}", rig.cpu() - before)
            tap.eq(rig.quit(), 0, f"coffer-egress ends when told to after its forwarder {name}")


class Wrong(ByHand):
    """Is not to start; `walls` are the descriptors 7 to 13 and 19."""

    def __init__(self, *walls):
        self.walls = walls
        super().__init__(WORDS)

    def wall(self):
        super().wall()
        return self.walls

    def read_control(self):
        got = super().read_control()
        if got[0] != CTL_FAIL:
            return got
        self.failed, self.code = got[2], os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        raise InterruptedError


def starts(tap):
    null = [None] * 7
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as seq, \
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        fd = seq.fileno()
        for name, sockets, messages, why in (
                ("both kinds of wall", [tcp.fileno()] + null[1:], fd, "two kinds of wall"),
                ("messages and one DNS socket", null[:2] + [udp.fileno()] + null[3:], fd, "two kinds of wall"),
                ("messages and nflog", null[:6] + [udp.fileno()], fd, "two kinds of wall"),
                ("no wall", null, None, "no wall"),
                ("nflog alone", null[:6] + [udp.fileno()], None, "no wall"),
                ("messages over a stream", null, stream.fileno(), "SOCK_SEQPACKET"),
                ("messages over UDP", null, udp.fileno(), "SOCK_SEQPACKET")):
            rig = Wrong.__new__(Wrong)
            try:
                rig.__init__(sockets, messages)
                tap.ok(False, f"coffer-egress does not start with {name}")
                rig.quit()
            except InterruptedError:
                tap.ok(rig.code == 1 and why in rig.failed, f"coffer-egress does not start with {name}, and says why", rig.code, rig.failed)
            rig.dir.cleanup()


def main():
    egressrig.enter()
    tap = Tap()
    srv = Server()
    with by_hand(srv) as rig:
        unix_streams(tap, rig, srv)
        right_asker(tap, rig)
        dns_stream(tap, rig)
        bulk(tap, rig)
        no_call_waits(tap, rig)
        kept_copies(tap, rig)
        rig.dial["tunnel.test"] = srv.addr
        unusable(tap, rig)
        tap.eq(rig.quit(), 0, "coffer-egress with a wall elsewhere ends when told to")
    inspection(tap)
    broken_form(tap, srv)
    floods(tap, srv)
    few_descriptors(tap, srv)
    gone(tap, srv)
    starts(tap)
    core.scenarios(tap, WallElsewhere)  # at last: it lowers the limit of descriptors
    tap.done()


main()
