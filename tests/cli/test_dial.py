#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer-dial by itself, against real sockets in namespaces of the test's own: what it connects to and what it refuses,
with a server behind every refused address that shows it could have been reached; resolvers that hang, lie and babble;
and an egress that breaks the protocol."""

import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, plain_identities, sanitized  # noqa: E402
from dialtest import (CANCEL, CTL_ERROR, CTL_OK, CTL_PING, PINNED, REQ, REQ_FORM, RESOLVE_ONLY, Dial, bundle,  # noqa: E402
                      settled)
from nettest import GW4, GW6, Internet, wait_for, why_not  # noqa: E402

POLICY = """allow *.example.test 80
allow *.example.test 81
deny tracker.example.net
allow pinned.example.net 80 to=10.9.9.9:8080
allow ownpin.example.net 80 to=127.0.0.1:8081
range 6.6.6.0/24 80
range 44.0.0.0/24 80
range 46.0.1.0/24 80
range 2a05:44::/32 80
range 2a05:46::/32 80
resolver 5.5.5.53 53
"""
MEAN = "5.5.5.54"

# Addresses that a name may resolve to and that must never be dialled. Each but those of this host has a server.
SPECIAL = {
    "private10": "10.1.2.3", "private172": "172.16.5.5", "private192": "192.168.1.1", "cgnat": "100.64.1.1",
    "metadata": "169.254.169.254", "loopback": "127.0.0.1", "zero": "0.0.0.0", "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255", "loopback6": "::1", "mapped": "::ffff:10.1.2.3", "mapped-lo": "::ffff:127.0.0.1",
    "nat64": "64:ff9b::a01:203", "sixtofour": "2002:a01:203::1", "teredo": "2001:0:a01:203::1", "ula": "fd00::7",
    "linklocal6": "fe80::1", "compat": "::10.1.2.3", "own4": GW4, "own6": GW6,
}


def test_connects(tap, net, web):
    with Dial(net, POLICY) as d:
        r = d.resolve("www.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address and 0 < r.ttl <= 60 and not r.sock, "a name is resolved", r)
        r = d.ask("www.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address and r.sock, "a name that is allowed is connected to", r)
        tap.ok(r.sock and not os.get_blocking(r.sock.fileno()), "the descriptor does not block")
        tap.like(r.talk(b"GET / HTTP/1.0\r\n\r\n").decode(), "200 OK", "bytes pass over the connection")
        r = d.ask("v6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == "2a05:5::80", "a name with an IPv6 address is connected to", r)
        r = d.ask(addr="6.6.6.66", port=80)
        tap.ok(r.status == 0 and r.addr == "6.6.6.66", "an address that the policy grants is connected to", r)
        r = d.ask(addr="6.6.7.1", port=80)
        tap.eq(r.name, "EACCES", "an address beside the granted range is refused", r)
        r = d.ask("www.example.test", 443)
        tap.eq(r.name, "EACCES", "another port is refused", r)
        r = d.resolve("www.example.test")
        tap.eq(r.name, "ok", "a name without a port is resolved where some port is granted", r)
        before = len(net.queries)
        r = d.ask("secretdata.evil.test", 80)
        tap.ok(r.name == "EACCES" and len(net.queries) == before, "a denied name is not looked up", r, net.queries[before:])
        r = d.ask("none.example.test", 80)
        tap.eq(r.name, "ENOENT", "a name that does not exist is ENOENT", r)
        r = d.ask("closed.example.test", 81)
        tap.eq(r.name, "ECONNREFUSED", "a port where nobody listens is ECONNREFUSED", r)
        r = d.ask("empty.example.test", 80)
        tap.ok(r.name == "ENOENT" and "no address" in r.why, "a name without an address is ENOENT", r)
        lines = settled(d, "dial", 8)
        ok = [x for x in lines if x["name"] == "www.example.test" and x["status"] == 0]
        tap.ok(ok and ok[0]["addr"] == web.address and ok[0]["port"] == 80, "a connection has its line in the journal", lines)
        tap.ok(any(x["status"] == -13 and "why" in x for x in lines), "a refusal has its line in the journal, with its reason", lines)
        s = d.stats()
        tap.ok(s["connected"] == 3 and s["in_flight"] == 0 and s["refused"] >= 3, "connections and refusals are counted", s)


def test_special(tap, net):
    """Every special address as an answer, and as a literal."""
    for where in ("10.1.2.3", "172.16.5.5", "192.168.1.1", "100.64.1.1", "169.254.169.254", "fd00::7"):
        r = net.run_as("root", ["python3", "-c", f"import socket; socket.create_connection(({where!r}, 80), 20)"])
        tap.eq(r.returncode, 0, f"control: {where} can be reached from the host", r.stderr)
    with Dial(net, POLICY) as d:
        asked = {n: d.send(n + ".example.test", 80) for n in SPECIAL}
        for n, ident in asked.items():
            r = d.wait(ident)
            tap.ok(r.name == "EPERM" and not r.sock, f"a name that is {SPECIAL[n]} ({n}) is refused", r)
        for n, a in SPECIAL.items():
            if not n.startswith("own"):
                r = d.ask(addr=a, port=80)
                tap.ok(r.name == "EPERM" and not r.sock, f"{a} itself ({n}) is refused", r)
        r = d.resolve("private10.example.test", 80)
        tap.eq(r.name, "EPERM", "a name with a private address is not resolved", r)
        tap.like(r.why, r"^10\.\S+ is a private address; only a rule with 'to:' in a policy file leads there$",
                 "the reason says how a policy leads to a private address", r)
        tap.unlike(d.ask(addr="10.1.2.3", port=80).why, "to:", "the reason for a private address without a name does not mention 'to:'", r)
        alerts = settled(d, "alert", len(SPECIAL))
        tap.ok({x["name"] for x in alerts} >= {n + ".example.test" for n in SPECIAL}, "each special address raises an alert", alerts)


def test_own(tap, net):
    """An address of this host is asked anew each time: no answer sticks, to an address or to the one asked next."""
    with Dial(net, POLICY) as d:
        for n in range(2):
            for own in ("own4", "own6"):
                r = d.ask(own + ".example.test", 80)
                tap.ok(r.name == "EPERM" and "this host itself" in r.why, f"this host's {own} is refused, time {n}", r)
            r = d.ask(addr="6.6.6.66", port=80)
            tap.eq(r.status, 0, f"another address is dialled after a refusal of the host's own, time {n}", r)
            r = d.ask("v6.example.test", 80)
            tap.eq(r.status, 0, f"an IPv6 address is dialled after a refusal of the host's own, time {n}", r)
        net.gw.batch("addr add 6.6.6.66/32 dev lo\naddr add 2a05:5::80/128 dev lo nodad")
        r = d.ask(addr="6.6.6.66", port=80)
        tap.ok(r.name == "EPERM" and "this host itself" in r.why, "an address that has become this host's own is refused", r)
        r = d.ask("v6.example.test", 80)
        tap.ok(r.name == "EPERM" and "this host itself" in r.why, "an IPv6 address that has become this host's own is refused", r)
        net.gw.batch("addr del 6.6.6.66/32 dev lo\naddr del 2a05:5::80/128 dev lo")
        r = d.ask(addr="6.6.6.66", port=80)
        tap.eq(r.status, 0, "an address that is no longer this host's own is dialled", r)


def test_own_routes(tap, net):
    """A secondary address and a local route with `src` have another address as their source."""
    net.gw.batch("addr add 44.0.0.1/24 dev gw0\naddr add 44.0.0.7/24 dev gw0\n"
                 "addr add 2a05:44::1/64 dev gw0 nodad\naddr add 2a05:44::7/64 dev gw0 nodad\n"
                 f"route add local 46.0.1.0/24 dev lo src {GW4}\nroute add local 2a05:46::/64 dev lo src {GW6}\n")
    net.inet.batch("route add local 44.0.0.9/32 dev lo\nroute add 44.0.0.0/24 dev inet0")
    net.http(None, address="44.0.0.9")
    own = {a: net.tcp(None, 80, address=a, where=net.gw) for a in
           ("44.0.0.1", "44.0.0.7", "46.0.1.5", "2a05:44::1", "2a05:44::7", "2a05:46::5")}
    net.dns.update({f"own-{i}.example.test": a for i, a in enumerate(own)})
    net.dns.update({f"own-alias-{i}.example.test": f"CNAME own-{i}.example.test" for i in range(len(own))})
    with Dial(net, POLICY) as d:
        for i, (a, server) in enumerate(own.items()):
            r = net.run_as("root", ["python3", "-c", f"import socket; socket.create_connection(({a!r}, 80), 20)"])
            tap.ok(r.returncode == 0 and wait_for(lambda s=server: s.connections), f"control: {a} can be reached from the host", r.stderr)
            for what, r in (("by address", d.ask(addr=a, port=80)), ("by name", d.ask(f"own-{i}.example.test", 80)),
                            ("by alias", d.ask(f"own-alias-{i}.example.test", 80))):
                tap.ok(r.name == "EPERM" and "this host itself" in r.why, f"{a}, which is this host's own, is refused {what}", r)
            tap.eq(len(server.connections), 1, f"{a} was reached by the control alone", server.connections)
        tap.eq(d.ask(addr="44.0.0.9", port=80).name, "ok", "control: another host in the network of a secondary address is dialled")
        tap.eq(d.ask("v6.example.test", 80).name, "ok", "control: another IPv6 host is dialled")
        r = d.ask(addr="44.0.0.255", port=80)
        tap.ok(r.status < 0 and not r.sock, "the broadcast address of a network of this host is refused", r)
        net.gw.batch("route add unreachable 44.0.0.9/32")
        tap.eq(d.ask(addr="44.0.0.9", port=80).name, "EHOSTUNREACH", "an address without a route is refused with its reason")
        net.gw.batch("route del unreachable 44.0.0.9/32")
    net.gw.batch("addr del 44.0.0.7/24 dev gw0\naddr del 44.0.0.1/24 dev gw0\n"
                 "addr del 2a05:44::7/64 dev gw0\naddr del 2a05:44::1/64 dev gw0\n"
                 "route del local 46.0.1.0/24 dev lo\nroute del local 2a05:46::/64 dev lo\n")


def test_mixed(tap, net, web, private):
    with Dial(net, POLICY) as d:
        before = len(private.connections)
        for _ in range(4):
            r = d.ask("mixed.example.test", 80)
            tap.ok(r.status == 0 and r.addr == web.address, "of a private and a public address the public one is dialled", r)
        alerts = settled(d, "alert")
        tap.ok(len(alerts) == 1 and "10.1.2.3" in alerts[0]["text"], "the private address of a name raises one alert", alerts)
        tap.eq(len(private.connections), before, "the private address of a name with a public one sees no connection")
        r = d.ask("alias.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "control: an alias of a name that no rule names is dialled", r)
        r = d.ask("alias-private.example.test", 80)
        tap.eq(r.name, "EPERM", "an alias of a private address is refused", r)
        r = d.ask("alias-denied.example.test", 80)
        tap.ok(r.name == "EACCES" and "tracker.example.net" in r.why, "an alias of a denied name is refused", r)
        r = d.ask("pinned.example.net", 80)
        tap.ok(r.status == 0 and r.addr == "10.9.9.9" and r.flags & PINNED, "`to:` reaches a private address", r)
        before = len(net.queries)
        r = d.ask("pinned.example.net", 80)
        tap.ok(r.status == 0 and len(net.queries) == before, "`to:` does not look up the name", r)
        r = d.ask("ownpin.example.net", 80)
        tap.ok(r.status == 0 and r.addr == "127.0.0.1", "`to:` reaches this host where the policy names its address", r)


def test_rebinding(tap, net, web, private):
    """A server that answers well when it is asked and badly when it matters."""
    turn = {"n": 0}

    def rebind(_name, qtype):
        turn["n"] += qtype == "A"
        return web.address if turn["n"] % 2 else "10.1.2.3"
    net.dns["rebind.example.test"] = rebind
    net.dns["*.rebind.example.test"] = rebind
    before = len(private.connections)
    with Dial(net, POLICY) as d:
        tap.eq(d.resolve("rebind.example.test", 80).addr, web.address, "the first resolution of a rebinding name has a public address")
        got = [d.ask("rebind.example.test", 80) for _ in range(10)]
        tap.ok(all(r.status == 0 and r.addr == web.address for r in got),
               "a rebinding name is dialled at the address that was checked", got)
        tap.ok(all(r.sock.getpeername()[0] == web.address for r in got),
               "the sockets of a rebinding name lead to the address that was checked")
        got = [d.ask(f"a{i}.rebind.example.test", 80) for i in range(20)]
        tap.ok(all(r.name == ("ok" if r.addr else "EPERM") for r in got), "a rebinding name is dialled at public addresses only", got)
        tap.ok({r.name for r in got} == {"ok", "EPERM"}, "control: the rebinding resolver gave public and private addresses", got)
    tap.eq(len(private.connections), before, "the private address of a rebinding name sees no connection")


def chain(head, question, n, web):
    """An alias of an alias of …, and at its end an address."""
    names = [question[:-4]] + [f"\5c{i:04}".encode() + b"\7example\4test\0" for i in range(n)]
    records = [a + struct.pack(">HHIH", 5, 1, 60, len(b)) + b for a, b in zip(names, names[1:])]
    records.append(names[-1] + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(web.address))
    return head + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0) + question + b"".join(records)


def mean_resolver(net, web):
    """Answers by name: with garbage, with wrong ids, never …"""
    s = net.listen(MEAN, 53, socket.SOCK_DGRAM)

    def answer(q, name, qtype):
        head, question = q[:2], q[12:q.index(b"\0", 12) + 5]
        a = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(web.address)
        good = struct.pack(">HHHHH", 0x8180, 1, 1 if qtype == 1 else 0, 0, 0) + question + (a if qtype == 1 else b"")
        if name == b"garbage":
            return [os.urandom(200)]
        if name == b"wrongid":
            return [bytes([head[0] ^ 0x55, head[1]]) + good]
        if name == b"wrongname":
            return [head + good.replace(b"\x09wrongname", b"\x09rightname")]
        if name == b"short":
            return [head, b"", head + good[:14]]
        if name == b"broken":
            return [head + struct.pack(">HHHHH", 0x8180, 1, 9, 0, 0) + question + b"\xc0\xff" * 20]
        if name == b"loop":
            return [head + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + question + b"\xc0" + bytes([12 + len(question)])]
        if name in (b"truncated", b"huge"):
            return [head + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + question]
        if name == b"chain":
            return [chain(head, question, 20, web)]
        if name == b"silent":
            return []
        if name == b"late":
            return [os.urandom(40), b"", bytes([head[0] ^ 1, head[1]]) + good, head + good]
        return [head + good]

    def loop():
        while True:
            q, peer = s.recvfrom(4096)
            if not peer:
                return
            n = q[12]
            end = q.index(b"\0", 12)
            for a in answer(q, q[13:13 + n].lower(), struct.unpack(">H", q[end + 1:end + 3])[0]):
                s.sendto(a, peer)

    def run():
        try:
            loop()
        except (OSError, ValueError):
            pass
    threading.Thread(target=run, daemon=True).start()

    def stream(conn, _server):
        """huge: nearly all that a message holds; truncated: closes."""
        f = conn.makefile("rb")
        while size := f.read(2):
            q = f.read(struct.unpack(">H", size)[0])
            end = q.index(b"\0", 12) + 5
            if b"truncated" in q[:end]:
                return
            n = 4000 if q[end - 3] == 1 else 0
            a = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(web.address) for _ in range(n))
            reply = q[:2] + struct.pack(">HHHHH", 0x8180, 1, n, 0, 0) + q[12:end] + a
            conn.sendall(struct.pack(">H", len(reply)) + reply)
    net.tcp(None, 53, stream, MEAN)
    return s


def test_resolvers(tap, net, web):
    mean = mean_resolver(net, web)
    with Dial(net, POLICY) as d, Dial(net, POLICY.replace("5.5.5.53", MEAN)) as m, \
            Dial(net, POLICY.replace("5.5.5.53", MEAN)) as alone:
        # These wait for the end of somebody's patience: all at once.
        slow = {n: m.send(n + ".example.test", 80)
                for n in ("garbage", "wrongid", "wrongname", "short", "silent", "broken", "loop")}
        # Where a connection breaks c-ares asks again whatever was open there: the others shall not wait for that.
        truncated = alone.send("truncated.example.test", 80)
        hang = d.send("hang.example.test", 80)
        cancel = d.send("hang2.example.test", 80)
        d.cancel(cancel)
        tap.eq(d.wait(cancel).name, "ECANCELED", "a request is cancelled while the resolver hangs")
        d.cancel(cancel)
        d.cancel(4711)
        tap.eq(d.control(CTL_PING)[0], CTL_OK, "cancelling a request that is over is no error")
        r = m.ask("good.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "control: the mean resolver can answer", r)
        r = m.ask("late.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "a good response after bad ones is used", r)
        r = d.ask("servfail.example.test", 80)
        tap.ok(r.name == "EREMOTEIO" and "resolver" in r.why, "SERVFAIL of a resolver is EREMOTEIO with a reason", r)
        r = d.ask("refused.example.test", 80)
        tap.eq(r.name, "EREMOTEIO", "REFUSED of a resolver is EREMOTEIO", r)
        r = m.ask("huge.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "a huge response over TCP is cut and used", r)
        r = d.ask("half.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv4 is used where the query for IPv6 gets no response", r)
        r = m.ask("chain.example.test", 80)
        tap.ok(r.status < 0 and "alias" in r.why, "an endless chain of aliases is not followed", r)
        r = d.ask("www.example.test", 80)
        tap.eq(r.status, 0, "other names are resolved while a resolver hangs", r)
        r = d.wait(hang)
        tap.eq(r.name, "ETIMEDOUT", "a resolver that hangs is ETIMEDOUT", r)
        for n, ident in slow.items():
            r = m.wait(ident)
            tap.ok(r.name in ("ETIMEDOUT", "EREMOTEIO") and not r.sock and r.why, f"a resolver's response that is {n} is an error", r)
        r = alone.wait(truncated)
        tap.ok(r.name in ("ETIMEDOUT", "EREMOTEIO") and not r.sock and r.why, "a resolver's response that is truncated is an error", r)
        tap.eq(alone.ask("good.example.test", 80).name, "ok", "a resolver is asked again after a truncated response")
        r = m.ask("good2.example.test", 80)
        tap.eq(r.status, 0, "a resolver is asked again after hostile responses", r)
    mean.close()
    with Dial(net, POLICY.replace("resolver 5.5.5.53 53\n", "")) as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", "resolvers come from resolv.conf where the policy names none")
    with Dial(net, POLICY.replace("resolver 5.5.5.53 53\n", ""), resolv=b"# nothing\n") as d:
        r = d.ask("www.example.test", 80)
        tap.ok(r.status < 0 and not r.sock, "a name without any resolver is an error", r)


def test_eyeballs(tap, net, web):
    with Dial(net, POLICY) as d:
        r = d.ask("half-dead6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv4 is used where IPv6 leads nowhere", r)
        r = d.ask("refusing6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv4 is used where IPv6 refuses", r)
        hole = d.send("hole.example.test", 80)
        gone = d.send("hole.example.test", 80)
        d.cancel(gone)
        tap.eq(d.wait(gone).name, "ECANCELED", "a connection that is being made can be cancelled")
        tap.eq(d.wait(hole).name, "ETIMEDOUT", "a connection that nobody accepts is ETIMEDOUT")


def test_policy(tap, net):
    with Dial(net, POLICY + "generation 1\n") as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", "control: the first policy allows it")
        tap.eq(d.policy("allow other.example.net 80\ngeneration 2\n")[:2], (CTL_OK, 2), "a new policy is taken")
        tap.eq(d.ask("www.example.test", 80).name, "EACCES", "a new policy holds at once")
        held = d.send("other.example.net", 80)
        kind, generation, said = d.policy(b"not a policy at all")
        tap.ok(kind == CTL_ERROR and generation == 0 and said, "a policy that does not load is reported", said)
        r = d.ask("www.example.test", 80)
        tap.ok(r.name == "EACCES" and "no policy" in r.why, "every request is denied while no policy is loaded", r)
        tap.ok(d.wait(held).status < 0, "a request that had begun is denied when the next policy does not load")
        tap.eq(d.policy(POLICY + "generation 3\n")[:2], (CTL_OK, 3), "a valid policy is taken after one that did not load")
        tap.eq(d.ask("www.example.test", 80).name, "ok", "a valid policy allows again after one that did not load")
        net.dns["slow.example.test"] = None
        waits = d.send("slow.example.test", 80)
        tap.ok(wait_for(lambda: ("slow.example.test", "A") in net.queries), "control: a name is being looked up")
        d.policy("deny slow.example.test\nresolver 5.5.5.53 53\ngeneration 4\n")
        net.dns["slow.example.test"] = "5.5.5.11"
        r = d.wait(waits)
        tap.ok(r.name in ("EACCES", "ETIMEDOUT") and not r.sock,
               "a name that a new policy denies is not connected to by a lookup under the old one", r)
    with Dial(net, b"\0" * 100) as d:
        tap.ok(d.said and d.said[0][0] == CTL_ERROR, "a bad policy at the start is reported", d.said)
        tap.eq(d.ask("www.example.test", 80).name, "EACCES", "every request is denied after a bad policy at the start")


def req(ident=9, port=80, kind=0, flags=0, host=b"www.example.test", addr=b"", pool=b"", sticky=b""):
    return struct.pack(REQ_FORM, REQ, ident, 1, port, kind, flags, host, addr, pool, sticky)


def test_protocol(tap, net):
    """An egress that was taken over gets nothing but its own end."""
    bad = {
        "an unknown type": struct.pack("=II", 99, 1), "a reply": struct.pack("=I", 2) + b"\0" * 256,
        "a short message": b"\1", "a request cut": req()[:-1], "a request with more behind it": req() + b"\0",
        "upper case": req(host=b"WWW.example.test"), "an address as a name": req(host=b"10.0.0.1"),
        "a trailing dot": req(host=b"www.example.test."), "bytes behind the NUL": req(host=b"www.example.test\0x"),
        "no NUL": req(host=b"a" * 256), "no name": req(host=b""), "a control byte": req(host=b"www\nexample.test"),
        "an unknown flag": req(flags=2), "an unknown kind": req(kind=2), "port 0": req(port=0),
        "a name and an address": req(addr=b"\1"), "a bad pool": req(pool=b"../x"), "a cancel cut": struct.pack("=I", CANCEL),
        "the same id twice": [req(host=b"hang.example.test"), req()],
    }
    for what, messages in bad.items():
        with Dial(net, POLICY) as d:
            for m in messages if isinstance(messages, list) else [messages]:
                d.sock.send(m)
            try:
                got = d.wait(9)
            except (EOFError, ConnectionError):
                got = None
            tap.ok(got is None and d.proc.wait(90) == 125, f"{what} ends the link", got)


def test_limits(tap, net):
    with Dial(net, POLICY) as d:
        d.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        many = [d.send(f"n{i}.hang3.example.test", 80) for i in range(4200)]
        got = [d.wait(i) for i in many[4096:]]
        # On a machine so slow that the first ones have timed out by now, some of the last ones got their place.
        tap.ok(all(r.name in ("EBUSY", "ETIMEDOUT") and r.why for r in got),
               "requests beyond 4096 at once are refused with a reason", got[0])
        tap.ok(got[0].name == "EBUSY" or d.stats()["failed"] > 104, "requests beyond 4096 at once are EBUSY", got[0])
        tap.ok(d.stats()["in_flight"] <= 4096, "no more than 4096 requests are in flight")
        for i in many[:4096]:
            d.cancel(i)
        tap.ok(all(d.wait(i).name in ("ECANCELED", "ETIMEDOUT") for i in many[:4096]), "4096 requests can be cancelled")
        tap.eq(d.ask(addr="6.6.6.66", port=80).name, "ok", "a new request works after 4096 were cancelled")
    with Dial(net, POLICY, journal="/dev/full") as d:
        r = d.ask("www.example.test", 80)
        tap.ok(r.name == "EIO" and not r.sock, "a connection is EIO when the journal is full", r)


def test_confined(tap, net, who):
    with Dial(net, POLICY, who=who) as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", f"{who}: coffer-dial connects")
        with open(f"/proc/{d.proc.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        tap.ok(status["Seccomp"] == "2" or sanitized(), f"{who}: coffer-dial runs under a seccomp filter", status["Seccomp"])
        tap.ok(status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0, f"{who}: coffer-dial has no privileges", status["CapEff"])
        tap.eq(int(status["CapPrm"], 16), 0, f"{who}: coffer-dial has no permitted capabilities")
        r = d.ask("private10.example.test", 80)
        tap.eq(r.name, "EPERM", f"{who}: coffer-dial refuses a private address")
        d.sock.close()
        tap.eq(d.proc.wait(90), 0, f"{who}: coffer-dial ends with its egress")
        d.sock = socket.socket()


def make_zone(net, web):
    net.dns.update({n + ".example.test": a for n, a in SPECIAL.items()})
    net.dns.update({
        "v6.example.test": "2a05:5::80", "closed.example.test": web.address, "empty.example.test": [],
        "mixed.example.test": ["10.1.2.3", web.address], "alias.example.test": "CNAME cdn.example.net",
        "cdn.example.net": web.address, "alias-private.example.test": "CNAME inner.example.net",
        "inner.example.net": "10.1.2.3", "alias-denied.example.test": "CNAME tracker.example.net",
        "tracker.example.net": web.address, "hang.example.test": None, "hang2.example.test": None,
        "*.hang3.example.test": None, "servfail.example.test": 2, "refused.example.test": 5,
        "half.example.test": lambda _, t: web.address if t == "A" else None,
        "half-dead6.example.test": ["2a05:9::1", web.address], "refusing6.example.test": ["2a05:5::81", web.address],
        "hole.example.test": "7.7.7.7",
    })


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("coffer-dial", reason)
        tap.done()
    with Internet() as net:
        web = net.http("www.example.test")
        net.http(None, address="2a05:5::80")
        net.http(None, address="6.6.6.66")
        net.tcp(None, 8080, address="10.9.9.9")
        own = net.gw.do(socket.socket)
        own.bind(("127.0.0.1", 8081))
        own.listen()
        servers = {a: net.tcp(None, 80, address=a) for a in
                   ("10.1.2.3", "172.16.5.5", "192.168.1.1", "100.64.1.1", "169.254.169.254", "fd00::7")}
        make_zone(net, web)
        test_connects(tap, net, web)
        test_special(tap, net)
        test_own(tap, net)
        test_own_routes(tap, net)
        test_mixed(tap, net, web, servers["10.1.2.3"])
        test_rebinding(tap, net, web, servers["10.1.2.3"])
        test_resolvers(tap, net, web)
        test_eyeballs(tap, net, web)
        test_policy(tap, net)
        test_protocol(tap, net)
        test_limits(tap, net)
        for who in plain_identities(tap):
            test_confined(tap, net, who)
        for a, s in servers.items():
            tap.ok(len(s.connections) == 1, f"{a} was reached by the control alone", s.connections)
    tap.done()


main()
