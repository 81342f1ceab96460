#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer-egress alone, behind a wall in a namespace of our own: names, first bytes, tunnels, limits, bad input, restarts.
Numbers in brackets are those of the list of what has gone wrong elsewhere (doc/egress.md)."""

import os
import resource
import signal
import socket
import ssl
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import egressrig  # noqa: E402
from coffertest import Tap, slow_build  # noqa: E402
from egressrig import CTL_ERROR, CTL_OK, CTL_PING, PATIENCE, Rig, Server, client_hello, wait_for  # noqa: E402

A, PTR, TXT, AAAA, SVCB, HTTPS, ANY = 1, 12, 16, 28, 64, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = 0, 1, 2, 3, 4, 5


def end_of(sock):
    """How a connection ended: everything that came, and "end" or "reset"."""
    got = bytearray()
    try:
        while True:
            data = sock.recv(65536)
            if not data:
                return bytes(got), "end"
            got += data
    except (ConnectionResetError, BrokenPipeError):
        return bytes(got), "reset"


def exchange(rig, addr, port, data, shut=False):
    """The response. A refusal may come so soon that connect() already sees it."""
    try:
        with rig.connect(addr, port) as c:
            broken = False
            try:
                c.sendall(data)
                if shut:
                    c.shutdown(socket.SHUT_WR)
            except OSError:
                broken = True  # a reset is told once, to whoever asks first
            got, how = end_of(c)
            return got, "reset" if broken else how
    except ConnectionResetError:
        return b"", "reset"


def echoed(rig, addr, port, data):
    """True when all of it came back through the tunnel."""
    with rig.connect(addr, port) as c:
        c.sendall(data)
        got = b""
        while len(got) < len(data):
            piece = c.recv(65536)
            if not piece:
                return False
            got += piece
        return got == data


def alert(code):
    return b"\x15\x03\x03\x00\x02\x02" + bytes([code])


ACCESS_DENIED, DECODE_ERROR, UNRECOGNIZED = alert(49), alert(50), alert(112)


def names(tap, rig):
    q = rig.query
    tap.eq(q("example.test")[:2][0], NOERROR, "a name that is allowed has an address")
    a = rig.lookup("example.test")
    tap.ok(a.startswith("11."), "the address of an allowed name is from the synthetic range", a)
    tap.eq(rig.lookup("EXAMPLE.Test."), a, "[7] upper case and a trailing dot are the same name")
    tap.eq(rig.lookup("example.test"), a, "the address of a name stays")
    tap.ok(rig.lookup("tunnel.test") != a, "[21] another name has another address")
    tap.eq(q("example.test", tcp=True)[1], [a], "[18] a query over TCP has the same address")
    tap.eq(q("example.test", server="2001:db8::53")[1], [a], "[24] a query to an IPv6 resolver has the same address")
    tap.eq(q("example.test", server="192.0.2.99")[1], [a], "[18] a query to any resolver has the same address")
    tap.eq(q("example.test", edns=False)[1], [a], "a query without EDNS has the same address")
    for name, t in (("AAAA", AAAA), ("HTTPS", HTTPS), ("SVCB", SVCB), ("TXT", TXT), ("ANY", ANY)):
        rcode, answers, _ = q("example.test", t)
        tap.eq((rcode, answers), (NOERROR, []), f"{name} of an allowed name is an empty response")
    tap.eq(q(".".join(reversed(a.split("."))) + ".in-addr.arpa", PTR)[1], ["example.test"], "PTR of a synthetic address is its name")
    tap.eq(q("1.1.1.1.in-addr.arpa", PTR)[0], NXDOMAIN, "PTR of another address is NXDOMAIN")
    before = len(rig.fake.requests)
    for name in ("denied.test", "x.example.test", "evilexample.test", "example.test.evil.org", "wild.test"):
        tap.eq(q(name)[0], NXDOMAIN, f"[10, 11] {name} is denied")
    tap.eq(q("c2VjcmV0IGRhdGE.denied.test")[0], NXDOMAIN, "[16] data in the labels of a denied name is denied")
    tap.eq(rig.fake.requests[before:], [], "[16] no denied name was asked upstream")
    tap.eq(q("a.b.wild.test")[0], NOERROR, "a name below a wildcard is allowed")
    tap.eq(q("missing.wild.test")[0], NXDOMAIN, "an allowed name that does not exist is NXDOMAIN")
    tap.eq(q("broken.wild.test")[0], SERVFAIL, "an allowed name that cannot be resolved is SERVFAIL")
    tap.eq(q("coffer.internal")[1], ["11.0.0.1"], "coffer.internal has our address")
    tap.eq(q("coffer.internal", AAAA)[1], [], "coffer.internal has no IPv6 address")
    rig.events("dns", name="denied.test", decision="deny")
    rig.events("dns", name="example.test", qtype="A", decision="allow", first=1)
    rig.events("dns", name="example.test", qtype="AAAA", decision="allow", addr=a)


def bad_dns(tap, rig):
    good = egressrig.query("example.test")
    tap.eq(rig.query("", raw=good[:2] + struct.pack(">H", 0x2800) + good[4:])[0], NOTIMP, "an unknown opcode is NOTIMP")
    tap.eq(rig.query("ex\x00mple.test")[0], FORMERR, "[6] a NUL in a name is FORMERR")
    tap.eq(rig.query("ex\x07mple.test")[0], FORMERR, "[6] a control byte in a name is FORMERR")
    tap.ok(rig.query("*.wild.test")[0] in (NXDOMAIN, FORMERR), "a wildcard in a query is refused")
    tap.eq(rig.query("", raw=good[:5] + b"\2" + good[6:])[0], FORMERR, "two questions are FORMERR")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("9.9.9.9", 53))
        for i in range(len(good)):
            s.send(good[:i])
        s.send(b"\xff" * 600)
        s.send(b"\x12\x34\x80\0" + good[4:])
    with rig.connect("9.9.9.9", 53) as s:
        s.sendall(b"\0\0")
        tap.eq(end_of(s), (b"", "end"), "an empty message ends a TCP connection")
    with rig.connect("9.9.9.9", 53) as s:
        s.sendall(b"".join(struct.pack(">H", len(good)) + good for _ in range(200)))
        f = s.makefile("rb")
        got = [f.read(struct.unpack(">H", f.read(2))[0]) for _ in range(200)]
        tap.ok(all(egressrig.parse(m)[0] == NOERROR for m in got), "200 queries on one connection are all answered")
    idle = [rig.connect("9.9.9.9", 53) for _ in range(300)]
    tap.eq(rig.query("example.test", tcp=True)[0], NOERROR, "300 silent TCP connections leave room for another")
    for s in idle:
        s.close()
    tap.ok(rig.lookup("example.test"), "names are answered after bad queries")


def first_bytes(tap, rig, srv):
    a = rig.lookup("example.test")
    hello = client_hello("example.test")
    tap.ok(echoed(rig, a, 443, hello), "TLS with the name that was looked up passes, unchanged")
    before, accepted = len(rig.fake.requests), srv.accepted
    tap.eq(exchange(rig, a, 443, client_hello("other.test")), (UNRECOGNIZED, "end"), "[1] another name in the SNI gets an alert")
    rig.events("open", decision="deny", name="example.test", seen="other.test")
    tap.ok(rig.events("alert", kind="sni_mismatch", name="example.test"), "[1] both names of a mismatch are in the journal")
    tap.eq(exchange(rig, a, 443, client_hello("tunnel.test")), (UNRECOGNIZED, "end"),
           "[21] an allowed name in the SNI for another name's address gets an alert")
    tap.eq(exchange(rig, a, 443, client_hello(None)), (ACCESS_DENIED, "end"), "[4] no SNI is refused")
    tap.eq(exchange(rig, a, 443, client_hello("exam\0ple.test"))[0], ACCESS_DENIED, "[6] a NUL in the SNI is refused")
    tap.eq(exchange(rig, a, 443, client_hello("example.test\0"))[0], ACCESS_DENIED, "[6] a NUL at the end of the SNI is refused")
    tap.eq(exchange(rig, a, 443, client_hello("127.0.0.1"))[0], UNRECOGNIZED, "[14] an address in the SNI is refused")
    tap.ok(echoed(rig, a, 443, client_hello("EXAMPLE.test.")), "[7] upper case and a trailing dot are the same name")
    tap.eq(exchange(rig, "1.2.3.4", 443, hello), (ACCESS_DENIED, "end"), "[4] an address literal is refused")
    tap.eq(exchange(rig, "2001:db8::1", 443, hello), (ACCESS_DENIED, "end"), "[24] an IPv6 address literal is refused")
    tap.eq(exchange(rig, "11.77.77.77", 443, hello), (ACCESS_DENIED, "end"), "a synthetic address that was never given is refused")
    tap.ok(echoed(rig, "5.5.5.5", 443, client_hello(None)), "[4] an address that the policy grants passes without SNI")
    tap.eq(exchange(rig, "5.5.5.5", 443, client_hello("blocked.test"))[0], UNRECOGNIZED,
           "an address that the policy grants is refused with a denied name in the SNI")
    for port in (22, 80, 8443, 65535, 1):
        got, how = exchange(rig, a, port, b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n" if port == 80 else b"x")
        tap.ok(how == "reset" or b" 403 " in got, f"[25] port {port} is refused", (got, how))
        rig.events("open", decision="deny", name="example.test", port=port)
    tap.eq(exchange(rig, a, 443, b"SSH-2.0-x\r\n"), (b"", "reset"), "a protocol that is neither TLS nor HTTP is refused")
    tap.eq(exchange(rig, a, 443, b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff")[1], "end", "a hello without an end gets an alert")
    dialled = [r for r in rig.fake.requests[before:] if not r[2]]
    tap.eq(dialled, [("example.test", 443, 0), ("5.5.5.5", 443, 0)], "no connection that was refused was dialled")
    tap.eq(srv.accepted - accepted, 2, "no server saw a connection that was refused")


def segments(tap, rig):
    a = rig.lookup("example.test")
    for pad in (0, 3000, 20000):
        hello = client_hello("example.test", pad)
        with rig.connect(a, 443) as c:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            step = 1 if pad == 0 else 97
            for i in range(0, len(hello), step):
                c.send(hello[i:i + step])
            got = b""
            while len(got) < len(hello):
                got += c.recv(65536)
            tap.ok(got == hello, f"[5] a hello of {len(hello)} bytes in pieces of {step} is read whole")
    bad = client_hello("other.test", 3000)
    with rig.connect(a, 443) as c:
        for i in range(0, len(bad), 500):
            c.send(bad[i:i + 500])
        tap.eq(end_of(c), (UNRECOGNIZED, "end"), "[5] a hello with another name in pieces is refused")


def http(tap, rig):
    a = rig.lookup("web.test")
    get = b"GET /x HTTP/1.1\r\nHost: %s\r\n\r\n"
    got, how = exchange(rig, a, 80, get % b"other.test")
    tap.ok(got.startswith(b"HTTP/1.1 421 ") and how == "end", "[2] another Host gets 421", got)
    for key in (b'"error":"denied"', b'"host":"web.test"', b'"port":80', b'"method":"GET"', b'"path":"/x"', b'"rule":', b'"reason":',
                b'"how_to_ask":', b"Coffer-Denied: "):
        tap.ok(key in got, f"the refusal says {key.decode()}", got)
    tap.ok(exchange(rig, a, 80, b"GET http://other.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n")[0].startswith(b"HTTP/1.1 400 "),
           "[33] an absolute target that differs from Host gets 400")
    tap.ok(exchange(rig, a, 80, get % b"web.test:81")[0].startswith(b"HTTP/1.1 421 "), "another port in Host gets 421")
    tap.ok(exchange(rig, a, 80, b"GET / HTTP/1.0\r\n\r\n")[0].startswith(b"HTTP/1.1 421 "), "no Host gets 421")
    for name, head in (("[30] Content-Length with Transfer-Encoding", b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
                       ("[30] two Content-Lengths", b"Content-Length: 1\r\nContent-Length: 1\r\n"),
                       ("[32] a folded header", b"X: a\r\n b\r\n"), ("[32] a bare LF", b"X: a\n\r\n"), ("[6] a NUL", b"X: \0\r\n")):
        got = exchange(rig, a, 80, b"POST / HTTP/1.1\r\nHost: web.test\r\n" + head + b"\r\n")[0]
        tap.ok(got.startswith(b"HTTP/1.1 400 "), f"{name} gets 400", got)
    got, how = exchange(rig, a, 80, b"GET / HTTP/1.1\r\nHost: web.test\r\n" + b"X: y\r\n" * 20000)
    tap.ok(got.startswith(b"HTTP/1.1 431 ") or how == "reset", "a head without end is refused", got[:200], how)
    got = exchange(rig, "1.2.3.4", 80, get % b"1.2.3.4")[0]
    tap.ok(got.startswith(b"HTTP/1.1 403 ") and b'"host":"1.2.3.4"' in got, "[4] an address literal gets a readable 403", got)
    for host in (b"2130706433", b"0x7f.1", b"0177.0.0.1", b"user@127.0.0.1"):
        got = exchange(rig, a, 80, get % host)[0]
        tap.ok(got[9:12] in (b"400", b"421"), f"[14] Host {host.decode()} is refused", got)


def page(tap, rig):
    own = rig.lookup("coffer.internal")
    got = exchange(rig, own, 80, b"GET / HTTP/1.1\r\nHost: coffer.internal\r\n\r\n")[0]
    tap.ok(b"200 OK" in got and b'"rule":"allow example.test:443"' in got, "http://coffer.internal/ says what is allowed", got)
    got = exchange(rig, own, 80, b"GET / HTTP/1.1\r\nHost: coffer.internal\r\nAccept: text/plain\r\n\r\n")[0]
    tap.ok(b"text/plain" in got and b"allow example.test:443" in got, "http://coffer.internal/ is plain text when that is accepted", got)
    tap.ok(b" 404 " in exchange(rig, own, 80, b"GET /x HTTP/1.1\r\nHost: coffer.internal\r\n\r\n")[0],
           "another path of coffer.internal is 404")
    tap.ok(b" 405 " in exchange(rig, own, 80, b"POST / HTTP/1.1\r\nHost: coffer.internal\r\nContent-Length: 0\r\n\r\n")[0],
           "POST to coffer.internal is 405")
    tap.eq(exchange(rig, own, 22, b"x")[1], "reset", "another port of coffer.internal is reset")


def tunnels(tap, rig):
    big = os.urandom(1 << 20) * 24
    t = rig.lookup("tunnel.test")
    greet = Server(lambda c: (c.sendall(b"220 hello\r\n"), c.recv(1)))
    rig.dial["tunnel.test"] = greet.addr
    with rig.connect(t, 22) as c:
        tap.eq(c.recv(100), b"220 hello\r\n", "a tunnel lets the server speak first")

    def sink(c):
        n = 0
        while True:
            data = c.recv(1 << 20)
            if not data:
                break
            n += len(data)
        c.sendall(str(n).encode())
    rig.dial["tunnel.test"] = Server(sink).addr
    with rig.connect(t, 22) as c:
        c.sendall(big)
        c.shutdown(socket.SHUT_WR)
        tap.eq(end_of(c), (str(len(big)).encode(), "end"), "a half-closed tunnel carries the response after 24 MiB up")
    rig.dial["tunnel.test"] = Server(lambda c: c.sendall(big)).addr
    with rig.connect(t, 22) as c:
        got, how = end_of(c)
    ended = rig.events("close", name="tunnel.test", n=3)[-1]
    tap.ok(got == big and how == "end", "24 MiB down a tunnel arrive whole", len(got), how, ended)
    up = rig.events("close", name="tunnel.test", up=len(big))[0]
    tap.eq((up["port"], up["down"]), (22, len(str(len(big)))), "bytes of a tunnel are counted both ways")
    rig.events("close", name="tunnel.test", down=len(big))
    hold = threading.Event()
    rig.dial["tunnel.test"] = Server(lambda c: hold.wait(PATIENCE)).addr
    with rig.connect(t, 22) as c:
        c.setblocking(False)
        sent = 0
        try:
            while sent < 1 << 30:
                sent += c.send(big[:1 << 20])
        except BlockingIOError:
            pass
        tap.ok(sent < 256 << 20, "a server that reads nothing stops its client", sent)
        hold.set()

    def reset(c):
        c.recv(1)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    rig.dial["tunnel.test"] = Server(reset).addr
    tap.eq(exchange(rig, t, 22, b"x"), (b"", "reset"), "a server's reset reaches the client")
    there, go, gone = threading.Event(), threading.Event(), threading.Event()

    def break_off(c):
        c.recv(1)
        there.set()
        go.wait(PATIENCE)
        c.sendall(b"too much" * 1000)
        c.close()  # with something unread: a reset
        gone.set()
    rig.dial["tunnel.test"] = Server(break_off).addr
    with rig.connect(t, 22) as c:
        c.sendall(b"x" * 1000)
        there.wait(PATIENCE)
        os.kill(rig.pid, signal.SIGSTOP)  # so that the client's byte is the first that it hears of
        c.sendall(b"x")
        go.set()
        gone.wait(PATIENCE)
        os.kill(rig.pid, signal.SIGCONT)
        tap.eq(end_of(c)[0], b"too much" * 1000, "the last bytes of a server that breaks off arrive while its client still sends")
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    rig.dial["tunnel.test"] = closed.getsockname()
    tap.eq(exchange(rig, t, 22, b"x"), (b"", "reset"), "a connection to a server that is not there is reset")
    ev = rig.events("close", name="tunnel.test", how="error: Connection refused")
    tap.ok(ev, "the journal says why a server could not be reached")
    closed.close()


def real_tls(tap, rig):
    """A handshake of a real client and server through a peeked tunnel."""
    d = rig.dir.name
    os.system(f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {d}/k -out {d}/c -days 2 "
              f"-subj /CN=example.test -addext subjectAltName=DNS:example.test 2>/dev/null")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(f"{d}/c", f"{d}/k")

    def serve(c):
        with server.wrap_socket(c, server_side=True) as t:
            t.sendall(b"hello " + t.recv(100))
    saved = rig.dial["example.test"]
    rig.dial["example.test"] = Server(serve).addr
    client = ssl.create_default_context(cafile=f"{d}/c")
    with client.wrap_socket(rig.connect(rig.lookup("example.test"), 443), server_hostname="example.test") as t:
        t.sendall(b"world")
        tap.eq(t.recv(100), b"hello world", "a real TLS client and server speak through a peeked tunnel")
    rig.dial["example.test"] = saved


def policy_change(tap, rig, words):
    a, t = rig.lookup("example.test"), rig.lookup("tunnel.test")
    rig.dial["tunnel.test"] = rig.dial["example.test"]
    hello = client_hello("example.test")
    with rig.connect(a, 443) as keep, rig.connect(t, 22) as cut:
        keep.sendall(hello)
        cut.sendall(b"x")
        tap.eq((keep.recv(len(hello), socket.MSG_WAITALL), cut.recv(1)), (hello, b"x"), "two tunnels are open")
        kind, gen, text = rig.policy([w for w in words if "tunnel" not in w])
        tap.eq((kind, gen), (CTL_OK, 2), "a new policy is taken", text)
        tap.eq(end_of(cut)[1], "reset", "a tunnel that a new policy no longer allows is cut")
        keep.sendall(b"y")
        tap.eq(keep.recv(1), b"y", "a tunnel that a new policy still allows goes on")
        rig.events("close", name="tunnel.test", how="policy")
        tap.eq(rig.query("tunnel.test")[0], NXDOMAIN, "a name that a new policy no longer allows is denied")
        tap.eq(exchange(rig, t, 22, b"x"), (b"", "reset"), "the address of a name that a new policy no longer allows is refused")
        bad = egressrig.memfd("bad", b"no policy at all", seal=True)
        kind, _, text = rig.ask(egressrig.CTL_NEW_BUNDLE, bad, 3)
        os.close(bad)
        tap.ok(kind == CTL_ERROR and text, "a policy that cannot be read is reported", text)
        tap.eq(end_of(keep)[1], "reset", "a tunnel is cut when the new policy cannot be read")
        tap.eq(rig.query("example.test")[0], NXDOMAIN, "a name is denied when the new policy cannot be read")
        rig.gen = 3
    kind, _, text = rig.policy(words)
    tap.eq(kind, CTL_OK, "a valid policy is taken after one that could not be read", text)
    tap.eq(rig.lookup("example.test"), a, "a name keeps its address over a policy that could not be read")
    tap.ok(echoed(rig, a, 443, hello), "connections pass again after a policy that could not be read")
    unsealed = egressrig.memfd("unsealed", b"x")
    kind, _, text = rig.ask(egressrig.CTL_NEW_BUNDLE, unsealed, 9)
    tap.ok(kind == CTL_ERROR and "sealed" in text, "a policy that could still be changed is refused", text)
    os.close(unsealed)
    rig.policy(words)
    tap.eq(rig.ask(CTL_PING)[0], CTL_OK, "coffer-egress answers a ping")
    tap.eq(rig.ask(4711)[0], CTL_ERROR, "coffer-egress answers an unknown message with an error")


def limits(tap, kind):
    def sink(c):
        while c.recv(1 << 16):
            pass
    srv = Server(sink)
    with kind(["allow=up.test:22,depth=tunnel,up=100000", "allow=few.test:22,depth=tunnel,connections=2",
              "allow=slow.test:22,depth=tunnel,bandwidth=200000", "allow=often.test:22,depth=tunnel,requests=3",
              "limits:up=150000"]) as rig:
        for name in ("up.test", "few.test", "slow.test", "often.test"):
            rig.dial[name] = srv.addr
        up = rig.lookup("up.test")
        conns = [rig.connect(up, 22) for _ in range(20)]
        rig.events("open", n=20, name="up.test", decision="allow")
        for c in conns:
            c.setblocking(False)
        dead = set()
        while len(dead) < len(conns):
            for c in conns:
                try:
                    if c not in dead:
                        c.send(b"z" * 7000)
                except BlockingIOError:
                    pass
                except OSError:
                    dead.add(c)
        for c in conns:
            c.close()
        ups = rig.events("close", n=20, name="up.test")
        tap.eq(sum(e["up"] for e in ups), 100000, "20 clients at once send exactly what bytes_up allows")
        tap.ok(any(e["how"] == "limit" for e in ups), "the journal says that a limit ended the connections")
        tap.eq(exchange(rig, up, 22, b"x")[1], "reset", "nothing is sent once bytes_up is used up")
        few = rig.lookup("few.test")
        with rig.connect(few, 22) as c1, rig.connect(few, 22) as c2:
            rig.events("open", n=2, name="few.test", decision="allow")
            tap.eq(exchange(rig, few, 22, b"x")[1], "reset", "a third connection is refused where two are allowed")
            rig.events("open", name="few.test", decision="deny")
        rig.events("close", n=2, name="few.test")
        with rig.connect(few, 22) as c1:
            c1.send(b"x")
            tap.ok(rig.events("open", n=3, name="few.test", decision="allow"), "when connections are closed there is room for another")
        often = rig.lookup("often.test")
        for _ in range(8):
            exchange(rig, often, 22, b"", shut=True)
        rig.events("open", name="often.test", decision="deny")
        # A minute may have ended meanwhile.
        tap.ok(3 <= rig.count("open", name="often.test", decision="allow") <= 6, "three connections a minute are let through")
        slow = rig.lookup("slow.test")
        with rig.connect(slow, 22) as c:
            c.settimeout(PATIENCE)
            try:
                c.sendall(b"q" * 400000)
                c.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            end_of(c)
        ev = rig.events("close", name="slow.test")[0]
        tap.eq(ev["up"] + 100000 + 1, 150000, "the sandbox's limit holds over all rules together", ev, rig.events("close", name="few.test"))
        names_fd = os.dup(rig.names_fd)
        rig.kill()
        with_old = rig
        for s in with_old.sockets:
            s.close()
        with kind(rig.words, names_fd=names_fd) as again:
            again.dial["up.test"] = srv.addr
            tap.eq(again.lookup("up.test"), up, "after kill -9 a name has the address that it had")
            tap.eq(exchange(again, up, 22, b"x")[1], "reset", "after kill -9 a limit that was used up stays used up")


def crowd(tap, kind):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    srv = Server()
    with kind(["allow=example.test:443", "allow=tunnel.test:22,depth=tunnel"]) as rig:
        rig.dial["example.test"] = rig.dial["tunnel.test"] = srv.addr
        a, hello = rig.lookup("example.test"), client_hello("example.test")
        with rig.connect(rig.lookup("tunnel.test"), 22) as other:
            other.sendall(b"a")
            tap.eq(other.recv(1), b"a", "a tunnel is open before the crowd")
            crowd_ = []
            for _ in range(min(10000, hard - 3000)):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex((a, 443))
                crowd_.append(s)
            other.sendall(b"b")
            tap.eq(other.recv(1), b"b", f"{len(crowd_)} silent connections do not disturb a tunnel")
            tap.ok(echoed(rig, a, 443, hello), "a new connection passes beside the silent ones")
            wait_for("the crowd to be thinned", lambda: rig.stats()["connections"]["open"] <= 2100)
            tap.ok(rig.stats()["connections"]["shed"] > 0, "the oldest silent connections are shed")
            for s in crowd_:
                s.close()
            other.sendall(b"c")
            tap.eq(other.recv(1), b"c", "the tunnel is open after the silent connections are closed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    with kind(["allow=tunnel.test:22,depth=tunnel"]) as rig:
        rig.dial["tunnel.test"] = srv.addr
        t = rig.lookup("tunnel.test")
        conns, refused = [], 0
        for _ in range(200):
            c = socket.socket()
            c.settimeout(PATIENCE)
            try:
                c.connect((t, 22))
                c.sendall(b"k")
                if c.recv(1) == b"k":
                    conns.append(c)
                    continue
            except OSError:
                pass
            refused += 1
            c.close()
            if refused > 5:
                break
        tap.ok(conns and refused, f"with few descriptors {len(conns)} connections pass and the others are reset")
        conns.pop().close()
        rig.events("close", name="tunnel.test")
        tap.ok(echoed(rig, t, 22, b"more"), "a connection that closes makes room for another")
        for c in conns:
            c.close()


def port_zero(tap, kind):
    """A program can connect to port 0 of any address; coffer-dial would end over a request for it."""
    with kind(["observe"]) as rig:
        rig.dial["1.2.3.4"] = Server().addr
        tap.ok(echoed(rig, "1.2.3.4", 9, b"x"), "control: in observe mode any other port of an address is dialled")
        tap.eq(exchange(rig, "1.2.3.4", 0, b"x"), (b"", "reset"), "in observe mode port 0 is refused")
        tap.eq([r[1] for r in rig.fake.requests], [9], "port 0 is not dialled")
        tap.ok(rig.events("open", port=0, decision="deny"), "the journal has the refusal of port 0")


def few_names(tap, kind):
    """A connection in ordinary use is not taken for a tunnel."""
    with kind(["allow=*.wild.test:443", "allow=*.other.test:443"]) as rig:
        rig.fake.names = rig.dial = type("All", (dict,), {"get": lambda s, k, d=None: ("127.0.0.1", 9) if k != ("x", 0) else d})()
        for i in range(400):
            rig.query(f"h{i % 40}.{'wild' if i % 2 else 'other'}.test")
        tap.eq(rig.count("alert", kind="dns_tunnel_suspected"), 0, "few names of two domains, asked for again and again, are no tunnel")


def flood(tap, kind):
    """A name after the other, none of them asked for twice."""
    with kind(["allow=*.wild.test:443"]) as rig:
        rig.fake.names = rig.dial = type("All", (dict,), {"get": lambda s, k, d=None: ("127.0.0.1", 9) if k != ("x", 0) else d})()
        base = None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(PATIENCE)
            s.connect(("9.9.9.9", 53))

            def ask(i, zone):
                for j in range(64):
                    s.send(egressrig.query(f"{i * 64 + j:08x}.{zone}.test"))
                return [egressrig.parse(s.recv(2048))[0] for _ in range(64)]
            rcodes = set()
            for i in range(300):
                rcodes |= set(ask(i, "denied"))
                if i == 100:
                    base = rig.rss()
            tap.eq(rcodes, {NXDOMAIN}, "19 200 random names are all denied")
            tap.ok(rig.rss() - base < 1024 * (30 if slow_build() > 1 else 1),
                   "random names that are denied cost no memory", base, rig.rss())
            tap.ok(rig.count("dns", decision="deny") < 4000, "random names that are denied have no journal line each")
            tap.ok(rig.events("alert", kind="dns_tunnel_suspected") and rig.events("dns", name="*", decision="deny"),
                   "random names that are denied are counted, and an alert tells of them")
            rcodes = set()
            for i in range(60):
                rcodes |= set(ask(i, "wild"))
            tap.ok(rig.events("alert", kind="dns_tunnel_suspected",
                              text="300 different names below wild.test, which a rule allows, were looked up within a minute"),
                   "many names below an allowed wildcard are told of by an alert")
            tap.eq(rcodes, {NOERROR, SERVFAIL}, "only a part of the random names below an allowed wildcard is resolved")
            tap.ok(len(rig.fake.requests) < 3000,
                   "the resolver sees few of the random names below an allowed wildcard", len(rig.fake.requests))


def journal_full(tap, kind):
    """Where nothing can be written down, nothing is let through."""
    if not os.path.exists("/dev/full"):
        tap.skip("a full journal", "no /dev/full")
        return
    srv = Server()
    fd = os.open("/dev/full", os.O_WRONLY | os.O_APPEND)
    with kind(["allow=tunnel.test:22,depth=tunnel", "allow=5.5.5.5:22,depth=tunnel"], journal=fd) as rig:
        rig.dial["tunnel.test"] = rig.dial["5.5.5.5"] = srv.addr
        tap.eq(exchange(rig, "5.5.5.5", 22, b"x")[1], "reset", "no connection passes when the journal is full")
        tap.eq(rig.fake.requests, [], "no connection is dialled when the journal is full")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("9.9.9.9", 53))
            s.send(egressrig.query("tunnel.test"))
            tap.ok(wait_for("the answer to be dropped", lambda: rig.stats()["dns"]["dropped"] >= 1), "no name is answered when the journal is full")
    os.close(fd)


def impatient(tap, rig):
    """Clients that do things while the server is still being dialled."""
    a, hello = rig.lookup("example.test"), client_hello("example.test")
    saved = rig.dial["example.test"]
    more = os.urandom(200000)
    for name, cut, then, wanted in (("sends more", len(hello), more, hello + more), ("sends its hello in two pieces, and more", 50, more, hello + more),
                                    ("half-closes", 50, None, hello)):
        rig.dial["example.test"] = None
        with rig.connect(a, 443) as c:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c.sendall(hello[:cut])
            if hello[cut:]:
                wait_for("the first piece to be read", lambda: rig.stats()["connections"]["open"] >= 1)
                c.sendall(hello[cut:])
            wait_for("the request", lambda: rig.fake.held)
            if then:
                c.sendall(then)
            c.shutdown(socket.SHUT_WR)
            rig.ask(CTL_PING)
            rig.fake.connect(rig.fake.held.pop(), saved)
            tap.eq(end_of(c), (wanted, "end"), f"a client that {name} while its server is dialled loses nothing")
    opened = rig.count("open", name="example.test", decision="allow")
    c = rig.connect(a, 443)
    c.sendall(hello[:50])
    wait_for("the first piece to be read", lambda: rig.stats()["connections"]["open"] >= 1)
    c.sendall(hello[50:])
    wait_for("the request", lambda: rig.fake.held)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    wait_for("the request to be taken back", lambda: rig.fake.cancelled)
    wait_for("its end", lambda: rig.stats()["connections"]["open"] == 0)
    tap.eq(rig.count("open", name="example.test", decision="allow"), opened + 1,
           "a client that resets while its server is dialled is opened once and dropped")
    rig.dial["example.test"] = saved


def kept_copy(tap, rig):
    """The dialler may close its copy of a connection late, or never: later events on it are ignored here."""
    a, hello = rig.lookup("example.test"), client_hello("example.test")
    saved = rig.dial["example.test"]
    with socket.create_server(("127.0.0.1", 0)) as srv:
        for _ in range(20):
            rig.dial["example.test"] = None
            c = rig.connect(a, 443)
            c.sendall(hello)
            wait_for("the request", lambda: rig.fake.held)
            with socket.create_connection(srv.getsockname()) as copy, srv.accept()[0] as peer:
                rig.fake.reply(rig.fake.held.pop(), 0, copy.fileno())
                peer.settimeout(PATIENCE)
                peer.recv(len(hello), socket.MSG_WAITALL)
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                c.close()
                wait_for("its end", lambda: rig.stats()["connections"]["open"] == 0)
                peer.sendall(b"late")
                rig.ask(CTL_PING)
            rig.ask(CTL_PING)
    rig.dial["example.test"] = saved
    tap.ok(rig.lookup("example.test"), "coffer-egress works after connections ended of which the dialler kept a copy")


def slow_dial(tap, rig):
    rig.dial["hold.wild.test"] = None
    rig.fake.sock.settimeout(None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("9.9.9.9", 53))
        before = len(rig.fake.requests)
        for i in range(20):
            s.send(egressrig.query("hold.wild.test", A if i % 2 else AAAA, ident=i))
        wait_for("the request", lambda: rig.fake.held)
        tap.ok(rig.lookup("example.test"), "a name that hangs does not hold up the others")
        tap.eq(len(rig.fake.requests) - before, 1, "a name that hangs is asked for once, however many ask")
        rig.dial["hold.wild.test"] = ("127.0.0.1", 9)
        rig.fake.reply(rig.fake.held.pop(), 0)
        s.settimeout(PATIENCE)
        answers = [egressrig.parse(s.recv(2048)) for _ in range(20)]
        tap.eq(sorted(len(a[1]) for a in answers), [0] * 10 + [1] * 10, "every query that waits for a name is answered")
    rig.fake.sock.shutdown(socket.SHUT_RDWR)
    wait_for("the end of the dialler", lambda: not rig.stats()["dial"])
    tap.eq(rig.query("new.wild.test")[0], SERVFAIL, "without a dialler a new name is SERVFAIL")
    tap.ok(rig.lookup("example.test"), "without a dialler a known name is still answered")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    names_ = rig.fake.names
    rig.fake = egressrig.FakeDial(ours)
    rig.fake.names = rig.dial = names_
    rig.fake.start()
    tap.eq(rig.ask(egressrig.CTL_NEW_DIAL, theirs.fileno())[0], CTL_OK, "a new dialler is taken")
    theirs.close()
    rig.dial["new.wild.test"] = ("127.0.0.1", 9)
    tap.ok(rig.lookup("new.wild.test"), "a new dialler is asked for a name")


def last_words(tap, kind):
    """An event that is only being counted at the end is reported then."""
    with kind(["allow=example.test:443"]) as rig:
        for _ in range(5):
            rig.query("again.denied.test")
        tap.eq(rig.quit(), 0, "coffer-egress ends when told to, while it counts")
        told = [e for e in rig.lines() if e["ev"] == "dns" and e["decision"] == "deny"]
        n = sum((e["name"] != "*") + e.get("count", 0) for e in told)
        tap.eq(n, 5, "every query that was counted is in the journal at the end", told)
    with kind(["allow=*.wild.test:443"]) as rig:
        rig.dial["broken.wild.test"] = -121
        for _ in range(5):
            rig.query("missing.wild.test")
            rig.query("broken.wild.test")
        rig.query("no.denied.test")
        rig.query("no.denied.test")
        tap.eq(rig.quit(), 0, "coffer-egress ends when told to, while it counts failures")
        sums = {e["decision"]: e for e in rig.lines() if e["ev"] == "dns" and e["name"] == "*"}
        tap.ok(sums.get("error", {}).get("count", 0) >= 6 and "missing.wild.test" in sums["error"]["top"] and
               "broken.wild.test" in sums["error"]["top"], "repeated lookups that failed are counted as errors", sums)
        tap.ok(sums.get("deny", {}).get("count") == 1 and sums["deny"]["top"] == "1 no.denied.test",
               "a failed lookup is not counted among the denials", sums)


def scenarios(tap, kind):
    """kind: the Rig, whose wall is of one kind or the other."""
    srv = Server()
    words = ["allow=example.test:443", "allow=tunnel.test:22,depth=tunnel", "allow=*.wild.test:443", "allow=web.test:80",
             "allow=5.5.5.5:443", "deny=blocked.test:any"]
    with kind(words) as rig:
        for name in ("example.test", "tunnel.test", "web.test", "5.5.5.5", "a.b.wild.test"):
            rig.dial[name] = srv.addr
        rig.dial["broken.wild.test"] = -121
        names(tap, rig)
        bad_dns(tap, rig)
        first_bytes(tap, rig, srv)
        segments(tap, rig)
        http(tap, rig)
        page(tap, rig)
        tunnels(tap, rig)
        rig.dial["tunnel.test"] = srv.addr
        real_tls(tap, rig)
        impatient(tap, rig)
        kept_copy(tap, rig)
        policy_change(tap, rig, words)
        slow_dial(tap, rig)
        stats = rig.stats()
        tap.ok(stats["connections"]["allowed"] > 5 and stats["bytes"]["up"] > 24 << 20, "statistics count connections and bytes", stats)
        tap.eq(rig.quit(), 0, "coffer-egress ends when told to")
    last_words(tap, kind)
    limits(tap, kind)
    journal_full(tap, kind)
    port_zero(tap, kind)
    few_names(tap, kind)
    flood(tap, kind)
    crowd(tap, kind)


def main():
    egressrig.enter()
    tap = Tap()
    scenarios(tap, Rig)
    tap.done()


if __name__ == "__main__":
    main()
