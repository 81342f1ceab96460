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
from coffertest import Tap, plain_identities  # noqa: E402
from dialtest import (CANCEL, CTL_ERROR, CTL_OK, CTL_PING, PINNED, REQ, REQ_FORM, RESOLVE_ONLY, Dial, bundle,  # noqa: E402
                      settled)
from nettest import GW4, GW6, Internet, wait_for, why_not  # noqa: E402

POLICY = """allow *.example.test 80
allow *.example.test 81
deny tracker.example.net
allow pinned.example.net 80 to=10.9.9.9:8080
allow ownpin.example.net 80 to=127.0.0.1:8081
range 6.6.6.0/24 80
resolver 5.5.5.53 53
"""
MEAN = "5.5.5.54"

# What a name may come out as, and must never be dialled. Each but those of this host has a server.
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
        tap.ok(r.status == 0 and r.addr == web.address and r.sock, "and connected to", r)
        tap.ok(r.sock and not os.get_blocking(r.sock.fileno()), "the descriptor does not block")
        tap.like(r.talk(b"GET / HTTP/1.0\r\n\r\n").decode(), "200 OK", "bytes pass")
        r = d.ask("v6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == "2a05:5::80", "over IPv6 too", r)
        r = d.ask(addr="6.6.6.66", port=80)
        tap.ok(r.status == 0 and r.addr == "6.6.6.66", "an address that the policy grants", r)
        r = d.ask(addr="6.6.7.1", port=80)
        tap.eq(r.name, "EACCES", "and one beside it is refused", r)
        r = d.ask("www.example.test", 443)
        tap.eq(r.name, "EACCES", "another port is refused", r)
        r = d.resolve("www.example.test")
        tap.eq(r.name, "ok", "a name without a port is resolved where some port is granted", r)
        before = len(net.queries)
        r = d.ask("secretdata.evil.test", 80)
        tap.ok(r.name == "EACCES" and len(net.queries) == before, "a denied name is not looked up", r, net.queries[before:])
        r = d.ask("none.example.test", 80)
        tap.eq(r.name, "ENOENT", "a name that is not there", r)
        r = d.ask("closed.example.test", 81)
        tap.eq(r.name, "ECONNREFUSED", "a port where nobody listens", r)
        r = d.ask("empty.example.test", 80)
        tap.ok(r.name == "ENOENT" and "no address" in r.why, "a name without an address", r)
        lines = settled(d, "dial", 8)
        ok = [x for x in lines if x["name"] == "www.example.test" and x["status"] == 0]
        tap.ok(ok and ok[0]["addr"] == web.address and ok[0]["port"] == 80, "a connection has its line", lines)
        tap.ok(any(x["status"] == -13 and "why" in x for x in lines), "and so has a refusal, with its reason", lines)
        s = d.stats()
        tap.ok(s["connected"] == 3 and s["in_flight"] == 0 and s["refused"] >= 3, "counted", s)


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
        tap.eq(r.name, "EPERM", "nor is such a name resolved", r)
        tap.like(r.why, r"^10\.\S+ is a private address; only a rule with 'to:' in a policy file leads there$",
                 "the reason says how a policy leads to a private address", r)
        tap.unlike(d.ask(addr="10.1.2.3", port=80).why, "to:", "of an address that was asked for itself the reason names no 'to:', which needs a name", r)
        alerts = settled(d, "alert", len(SPECIAL))
        tap.ok({x["name"] for x in alerts} >= {n + ".example.test" for n in SPECIAL}, "each raises an alert", alerts)


def test_own(tap, net):
    """What is this host's own is asked anew each time: no answer sticks, to an address or to the one asked next."""
    with Dial(net, POLICY) as d:
        for n in range(2):
            for own in ("own4", "own6"):
                r = d.ask(own + ".example.test", 80)
                tap.ok(r.name == "EPERM" and "this host itself" in r.why, f"this host's {own} is refused, time {n}", r)
            r = d.ask(addr="6.6.6.66", port=80)
            tap.eq(r.status, 0, f"another address is dialled behind it, time {n}", r)
            r = d.ask("v6.example.test", 80)
            tap.eq(r.status, 0, f"one of IPv6 too, time {n}", r)
        net.gw.batch("addr add 6.6.6.66/32 dev lo\naddr add 2a05:5::80/128 dev lo nodad")
        r = d.ask(addr="6.6.6.66", port=80)
        tap.ok(r.name == "EPERM" and "this host itself" in r.why, "an address that has become this host's own is refused", r)
        r = d.ask("v6.example.test", 80)
        tap.ok(r.name == "EPERM" and "this host itself" in r.why, "one of IPv6 too", r)
        net.gw.batch("addr del 6.6.6.66/32 dev lo\naddr del 2a05:5::80/128 dev lo")
        r = d.ask(addr="6.6.6.66", port=80)
        tap.eq(r.status, 0, "and dialled once it is not any more", r)


def test_mixed(tap, net, web, private):
    with Dial(net, POLICY) as d:
        before = len(private.connections)
        for _ in range(4):
            r = d.ask("mixed.example.test", 80)
            tap.ok(r.status == 0 and r.addr == web.address, "of a private and a public address the public one is dialled", r)
        alerts = settled(d, "alert")
        tap.ok(len(alerts) == 1 and "10.1.2.3" in alerts[0]["text"], "and it is written down, once", alerts)
        tap.eq(len(private.connections), before, "the private one saw nobody")
        r = d.ask("alias.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "control: an alias of a name that no rule names", r)
        r = d.ask("alias-private.example.test", 80)
        tap.eq(r.name, "EPERM", "an alias of a private address", r)
        r = d.ask("alias-denied.example.test", 80)
        tap.ok(r.name == "EACCES" and "tracker.example.net" in r.why, "an alias of a denied name", r)
        r = d.ask("pinned.example.net", 80)
        tap.ok(r.status == 0 and r.addr == "10.9.9.9" and r.flags & PINNED, "`to:` reaches a private address", r)
        before = len(net.queries)
        r = d.ask("pinned.example.net", 80)
        tap.ok(r.status == 0 and len(net.queries) == before, "without looking up the name", r)
        r = d.ask("ownpin.example.net", 80)
        tap.ok(r.status == 0 and r.addr == "127.0.0.1", "and this host where the policy names it", r)


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
        tap.eq(d.resolve("rebind.example.test", 80).addr, web.address, "checked: a good address")
        got = [d.ask("rebind.example.test", 80) for _ in range(10)]
        tap.ok(all(r.status == 0 and r.addr == web.address for r in got), "dialled: the one that was checked", got)
        tap.ok(all(r.sock.getpeername()[0] == web.address for r in got), "and that is where the sockets lead")
        got = [d.ask(f"a{i}.rebind.example.test", 80) for i in range(20)]
        tap.ok(all(r.name == ("ok" if r.addr else "EPERM") for r in got), "whatever it answers, only good ones are dialled", got)
        tap.ok({r.name for r in got} == {"ok", "EPERM"}, "control: it answered both ways", got)
    tap.eq(len(private.connections), before, "the private one saw nobody")


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
        tap.eq(d.control(CTL_PING)[0], CTL_OK, "cancelling what is over is no error")
        r = m.ask("good.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "control: the mean resolver can answer", r)
        r = m.ask("late.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "a good answer behind bad ones is found", r)
        r = d.ask("servfail.example.test", 80)
        tap.ok(r.name == "EREMOTEIO" and "resolver" in r.why, "SERVFAIL", r)
        r = d.ask("refused.example.test", 80)
        tap.eq(r.name, "EREMOTEIO", "REFUSED", r)
        r = m.ask("huge.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "a huge answer (over TCP) is cut and used", r)
        r = d.ask("half.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv4 alone where the question for IPv6 is never answered", r)
        r = m.ask("chain.example.test", 80)
        tap.ok(r.status < 0 and "alias" in r.why, "an endless chain of aliases is not followed", r)
        r = d.ask("www.example.test", 80)
        tap.eq(r.status, 0, "all the while others are answered", r)
        r = d.wait(hang)
        tap.eq(r.name, "ETIMEDOUT", "a resolver that hangs", r)
        for n, ident in slow.items():
            r = m.wait(ident)
            tap.ok(r.name in ("ETIMEDOUT", "EREMOTEIO") and not r.sock and r.why, f"a resolver's answer that is {n}", r)
        r = alone.wait(truncated)
        tap.ok(r.name in ("ETIMEDOUT", "EREMOTEIO") and not r.sock and r.why, "a resolver's answer that is truncated", r)
        tap.eq(alone.ask("good.example.test", 80).name, "ok", "and then it is asked again")
        r = m.ask("good2.example.test", 80)
        tap.eq(r.status, 0, "and it still serves", r)
    mean.close()
    with Dial(net, POLICY.replace("resolver 5.5.5.53 53\n", "")) as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", "resolvers come from resolv.conf where the policy names none")
    with Dial(net, POLICY.replace("resolver 5.5.5.53 53\n", ""), resolv=b"# nothing\n") as d:
        r = d.ask("www.example.test", 80)
        tap.ok(r.status < 0 and not r.sock, "no resolver at all", r)


def test_eyeballs(tap, net, web):
    with Dial(net, POLICY) as d:
        r = d.ask("half-dead6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv6 that leads nowhere: IPv4 is taken", r)
        r = d.ask("refusing6.example.test", 80)
        tap.ok(r.status == 0 and r.addr == web.address, "IPv6 that refuses: IPv4 is taken", r)
        hole = d.send("hole.example.test", 80)
        gone = d.send("hole.example.test", 80)
        d.cancel(gone)
        tap.eq(d.wait(gone).name, "ECANCELED", "a connection on its way is cancelled")
        tap.eq(d.wait(hole).name, "ETIMEDOUT", "one that nobody answers ends in time")


def test_policy(tap, net):
    with Dial(net, POLICY + "generation 1\n") as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", "control: the first policy allows it")
        tap.eq(d.policy("allow other.example.net 80\ngeneration 2\n")[:2], (CTL_OK, 2), "a new policy is taken")
        tap.eq(d.ask("www.example.test", 80).name, "EACCES", "and holds at once")
        held = d.send("other.example.net", 80)
        kind, generation, said = d.policy(b"not a policy at all")
        tap.ok(kind == CTL_ERROR and generation == 0 and said, "one that does not load is said", said)
        r = d.ask("www.example.test", 80)
        tap.ok(r.name == "EACCES" and "no policy" in r.why, "and denies everything", r)
        tap.ok(d.wait(held).status < 0, "also what had begun")
        tap.eq(d.policy(POLICY + "generation 3\n")[:2], (CTL_OK, 3), "a good one puts it right")
        tap.eq(d.ask("www.example.test", 80).name, "ok", "again")
        net.dns["slow.example.test"] = None
        waits = d.send("slow.example.test", 80)
        tap.ok(wait_for(lambda: ("slow.example.test", "A") in net.queries), "control: a name is being looked up")
        d.policy("deny slow.example.test\nresolver 5.5.5.53 53\ngeneration 4\n")
        net.dns["slow.example.test"] = "5.5.5.11"
        r = d.wait(waits)
        tap.ok(r.name in ("EACCES", "ETIMEDOUT") and not r.sock, "what a new policy denies does not come out of an old one", r)
    with Dial(net, b"\0" * 100) as d:
        tap.ok(d.said and d.said[0][0] == CTL_ERROR, "a bad policy at the start is said", d.said)
        tap.eq(d.ask("www.example.test", 80).name, "EACCES", "and denies everything")


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
        tap.ok(all(r.name in ("EBUSY", "ETIMEDOUT") and r.why for r in got), "the 4097th at once is turned away with a word", got[0])
        tap.ok(got[0].name == "EBUSY" or d.stats()["failed"] > 104, "by name", got[0])
        tap.ok(d.stats()["in_flight"] <= 4096, "and no more are under way")
        for i in many[:4096]:
            d.cancel(i)
        tap.ok(all(d.wait(i).name in ("ECANCELED", "ETIMEDOUT") for i in many[:4096]), "all of them can be cancelled")
        tap.eq(d.ask(addr="6.6.6.66", port=80).name, "ok", "and then there is room again")
    with Dial(net, POLICY, journal="/dev/full") as d:
        r = d.ask("www.example.test", 80)
        tap.ok(r.name == "EIO" and not r.sock, "no journal, no connection", r)


def test_confined(tap, net, who):
    with Dial(net, POLICY, who=who) as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", f"{who}: it connects")
        with open(f"/proc/{d.proc.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        if "ASAN_OPTIONS" not in os.environ:
            tap.eq(status["Seccomp"], "2", f"{who}: under a filter")
        tap.ok(status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) in
               (0, int(status["CapBnd"], 16)), f"{who}: without privileges", status["CapEff"])
        tap.eq(int(status["CapPrm"], 16), 0, f"{who}: and without a way to them")
        r = d.ask("private10.example.test", 80)
        tap.eq(r.name, "EPERM", f"{who}: and refuses")
        d.sock.close()
        tap.eq(d.proc.wait(90), 0, f"{who}: it ends with its egress")
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
            tap.ok(len(s.connections) == 1, f"in all this {a} was reached by the control alone", s.connections)
    tap.done()


main()
