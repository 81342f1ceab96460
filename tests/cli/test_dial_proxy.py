#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer-dial through pools of proxies: real ones (tinyproxy, microsocks), and bad ones of every kind. No fault of a
proxy has anything dialled directly and no name of a target is resolved here."""

import base64
import os
import shutil
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap  # noqa: E402
from dialtest import ONE_REQUEST, PINNED, UNRESOLVED, VIA_PROXY, Dial, settled  # noqa: E402
from nettest import GW4, Internet, wait_for, why_not  # noqa: E402

USER, PASSWORD = "ann", "correct-horse-battery"
NOBODY = "5.5.5.59"  # the resolver that must never be asked


def policy(*pools, rules=("allow *.example.test 80 pool=p",), tail=""):
    return "\n".join([*pools, *rules, f"resolver {NOBODY} 53", tail]) + "\n"


def start_real(net, port, argv):
    """A program in `inet` that resolves with our resolver; waits until it listens."""
    net.popen_inet(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                    'mount --bind "$0" /etc/resolv.conf || exit 125; exec "$@"', net.resolv, *argv])

    def is_up():
        with net.inet_socket() as s:
            return s.connect_ex(port) == 0
    return wait_for(is_up)


def tinyproxy(net, address, auth=True):
    conf = os.path.join(net.dir, f"tinyproxy-{address}.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"Port 8888\nListen {address}\nTimeout 30\nMaxClients 100\nLogLevel Critical\nUser nobody\n"
                f"Syslog Off\nConnectPort 80\nConnectPort 81\n" +
                (f"BasicAuth {USER} {PASSWORD}\n" if auth else ""))
    return start_real(net, (address, 8888), ["tinyproxy", "-d", "-c", conf])


def microsocks(net, address):
    return start_real(net, (address, 1080), ["microsocks", "-i", address, "-p", "1080", "-u", USER, "-P", PASSWORD])


def read_head(conn):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = conn.recv(4096)
        if not piece:
            return None
        head += piece
    return head


class Bad:
    """Proxies that misbehave, each at an address of its own; `seen` has what came."""

    def __init__(self, net, target):
        self.net, self.target, self.seen, self.at = net, target, {}, {}
        self.stop = threading.Event()

    def proxy(self, name, handler, port=3128):
        address = self.net.address()
        self.seen[name] = []

        def serve(conn, _server):
            handler(conn, self.seen[name])
        server = self.net.tcp(None, port, serve, address)
        self.at[name] = f"{address}:{port}"
        return server

    def http(self, name, reply, then=None):
        """Reads the request's head, sends reply."""
        def handler(conn, seen):
            seen.append(read_head(conn))
            for piece in [reply] if isinstance(reply, bytes) else reply:
                conn.sendall(piece)
            if then:
                then(conn)
        return self.proxy(name, handler)

    def wait(self, _conn):
        self.stop.wait(120)


def splice(a, b):
    def one(x, y):
        try:
            while data := x.recv(65536):
                y.sendall(data)
            y.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    t = threading.Thread(target=one, args=(a, b), daemon=True)
    t.start()
    one(b, a)
    t.join()


def good_handler(net, target, prefix=b"HTTP/1.1 200 ok\r\n\r\n"):
    """A CONNECT proxy that leads to one server whatever it is asked for."""
    def handler(conn, seen):
        head = read_head(conn)
        seen.append(head)
        if head:
            with net.inet_socket() as up:
                up.connect((target, 80))
                conn.sendall(prefix)
                splice(conn, up)
    return handler


def socks_bytewise(conn, seen):
    """A SOCKS5 server that sends every byte by itself, and its first words in the same piece as the end of its reply."""
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    f = conn.makefile("rb")

    def say(data):
        for b in data:
            conn.sendall(bytes([b]))
    f.read(1)
    f.read(f.read(1)[0])
    say(b"\5\0")
    kind = f.read(4)[3]
    name = f.read(f.read(1)[0]) if kind == 3 else f.read(4)
    f.read(2)
    seen.append(name)
    say(b"\5\0\0\1\1\2\3\4\0")
    conn.sendall(b"\x50hello from behind")


def ask_ok(tap, d, host, what):
    r = d.ask(host, 80)
    tap.ok(r.status == 0 and r.flags & VIA_PROXY and r.addr is None, f"{what}: a name is connected to through the proxy", r)
    if r.sock:
        tap.like(r.talk(b"GET / HTTP/1.0\r\n\r\n").decode(), "200 OK", f"{what}: bytes pass through the proxy")
    return r


def test_real(tap, net, web, never):
    for name, start, kind, address, port in (("tinyproxy", tinyproxy, "http", "5.5.5.60", 8888),
                                             ("microsocks", microsocks, "socks5", "5.5.5.61", 1080)):
        if not shutil.which(name):
            tap.skip(f"through {name}", f"{name} is not installed: tools/deps test")
            continue
        tap.ok(start(net, address), f"control: {name} listens")
        pool = f"pool p connection 0 0 - {kind}:{address}:{port}"
        with Dial(net, policy(pool), f"p\t{USER}:{PASSWORD}\n") as d:
            r = d.resolve("www.example.test", 80)
            tap.ok(r.status == 0 and r.flags & UNRESOLVED and r.addr is None,
                   f"{name}: a name behind a proxy resolves without a lookup", r)
            before = len(web.connections)
            r = ask_ok(tap, d, "www.example.test", name)
            tap.eq(r.proxy, f"{address}:{port}", f"{name}: the reply names the proxy")
            tap.ok(wait_for(lambda: len(web.connections) > before) and GW4 not in web.connections[before:],
                   f"{name}: the server does not see this host", web.connections[before:])
            r = d.ask("none.example.test", 80)
            tap.ok(r.status < 0 and not r.sock, f"{name}: a name that does not exist is an error", r)
            s = d.proxies("p")[f"{address}:{port}"]
            tap.ok(s["state"] == "closed" and s["faults"] == 0 and s["success"] == 1 and s["successes"] == 1,
                   f"{name}: a name that does not exist is no fault of the proxy", s)
        with Dial(net, policy(pool), f"p\t{USER}:wrong-{PASSWORD}\n") as d:
            r = d.ask("www.example.test", 80)
            tap.ok(r.name == "EREMOTEIO" and not r.sock, f"{name}: wrong credentials are EREMOTEIO", r)
            s = d.proxies("p")[f"{address}:{port}"]
            tap.ok(s["faults"] == 1 and s["success"] < 1, f"{name}: wrong credentials count as a fault of the proxy", s)
            text = str(settled(d, "dial")) + str(d.stats()) + repr(r)
            tap.ok(PASSWORD not in text and USER + ":" not in text,
                   f"{name}: credentials are in no journal, statistics or reason", text)
        with Dial(net, policy(pool), None) as d:
            r = d.ask("www.example.test", 80)
            tap.ok(r.name == "EREMOTEIO" and not r.sock, f"{name}: missing credentials are EREMOTEIO", r)
    tap.eq(never.requests, [], "no name was asked of our own resolver")


def test_bad(tap, net, web, bad, never):
    """Each alone in a pool: an error, and nothing else."""
    bad.http("says 407", b"HTTP/1.1 407 no\r\n\r\n")
    bad.http("says 403", b"HTTP/1.1 403 no\r\n\r\n")
    bad.http("says 502", b"HTTP/1.1 502 no\r\nContent-Length: 4\r\n\r\nsad\n")
    bad.http("says 501", b"HTTP/1.1 501 no\r\n\r\n")
    bad.http("says 100", b"HTTP/1.1 100 go on\r\n\r\nHTTP/1.1 200 ok\r\n\r\n")
    bad.http("speaks SSH", b"SSH-2.0-OpenSSH_9.2\r\n", bad.wait)
    bad.http("sends garbage", os.urandom(5000).replace(b"H", b"x"))
    bad.http("has a head without end", (b"HTTP/1.1 200 ok\r\n" if not i else b"X-%d: %s\r\n" % (i, b"y" * 60000)
                                      for i in range(200)))
    bad.http("closes", b"")
    bad.proxy("closes at once", lambda conn, seen: None)
    bad.http("is silent", b"", bad.wait)
    bad.http("is slow", (x for x in drip(bad, b"HTTP/1.1 200 ok\r\n" + b"X: y\r\n" * 2000)), None)
    bad.proxy("is no SOCKS", lambda conn, seen: conn.sendall(b"HTTP/1.1 400 no\r\n\r\n"), 1080)
    bad.proxy("wants another method", lambda conn, seen: (conn.recv(3), conn.sendall(b"\5\xff")), 1080)
    bad.proxy("greets never", lambda conn, seen: bad.wait(conn), 1080)
    bad.at["is not there"] = "5.5.5.58:3128"
    names = list(bad.at)
    rules = [f"allow t{i}.example.test 80 pool=p{i}" for i in range(len(names))]
    pools = [f"pool p{i} connection 0 0 - {'socks5' if bad.at[n].endswith(':1080') else 'http'}:{bad.at[n]}"
             for i, n in enumerate(names)]
    before = len(web.connections)
    with Dial(net, policy(*pools, rules=rules)) as d:
        asked = [d.send(f"t{i}.example.test", 80) for i in range(len(names))]
        faults = {}
        for i, n in enumerate(names):
            r = d.wait(asked[i])
            tap.ok(r.status < 0 and not r.sock and r.why, f"a proxy that {n} is an error", r)
            faults[n] = d.proxies(f"p{i}")[bad.at[n]]["faults"]
        mild = {"says 403", "says 502", "is silent", "is slow"}
        tap.eq({n for n in names if not faults[n]}, mild, "only the proxies' own faults count")
        r = d.ask("t0.example.test", 80, pool="other")
        tap.eq(r.proxy, bad.at[names[0]], "a proxy set that egress names does not replace the policy's", r)
    tap.eq(len(web.connections), before, "no bad proxy leads to a connection to the server")
    tap.eq(never.requests, [], "no bad proxy leads to a query of our own resolver")
    tap.ok(bad.seen["says 407"] and all(b"CONNECT t0.example.test:80 HTTP/1.1\r\n" in h for h in bad.seen["says 407"]), "the proxy receives the name unresolved",
           bad.seen["says 407"])
    tap.ok(all(b"roxy-" not in h and b"orwarded" not in h for h in bad.seen["says 407"] if h),
           "the proxy receives no header about this host")


def drip(bad, data):
    for b in data:
        if bad.stop.wait(0.05):
            return
        yield bytes([b])


def test_bytes(tap, net, web, bad):
    bad.http("eager", b"HTTP/1.1 200 ok\r\nX: y\r\n\r\nhello at once", bad.wait)
    bad.http("bytewise", [bytes([b]) for b in b"HTTP/1.0 200 ok\r\nVia: 1.0 x\r\n\r\nhello"], bad.wait)
    bad.proxy("socks", socks_bytewise, 1080)
    with Dial(net, policy(f"pool a connection 0 0 - http:{bad.at['eager']}", f"pool b connection 0 0 - http:{bad.at['bytewise']}",
                          f"pool c request 0 0 - socks5:{bad.at['socks']}",
                          rules=["allow a.example.test 80 pool=a", "allow b.example.test 80 pool=b",
                                 "allow c.example.test 80 pool=c", "allow pin.example.test 80 to=10.9.9.9:8080 pool=a",
                                 "range 6.6.6.0/24 80"], tail="require a")) as d:
        r = d.ask("a.example.test", 80)
        tap.ok(r.status == 0 and not r.flags & ONE_REQUEST, "a server behind a proxy that speaks first is connected to", r)
        tap.eq(r.talk(), b"hello at once", "the first bytes of a server that speaks first arrive")
        r = d.ask("b.example.test", 80)
        tap.eq(read_exactly(r.sock, 5), b"hello", "the first bytes after a proxy's head that came byte by byte arrive")
        r = d.ask("c.example.test", 80)
        tap.ok(r.status == 0 and r.flags & ONE_REQUEST, "a SOCKS proxy that sends byte by byte is connected to, once for each request", r)
        tap.eq(r.talk(), b"hello from behind", "the first bytes of a SOCKS tunnel arrive")
        tap.eq(bad.seen["socks"], [b"c.example.test"], "a SOCKS proxy receives the name unresolved")
        r = d.ask("pin.example.test", 80)
        tap.ok(r.status == 0 and r.flags & PINNED and r.addr == "10.9.9.9" and r.flags & VIA_PROXY,
               "`to:` is connected to through a proxy set", r)
        tap.ok(b"CONNECT 10.9.9.9:8080 " in bad.seen["eager"][-1], "`to:` asks the proxy for its address", bad.seen["eager"][-1])
        r = d.ask(addr="6.6.6.66", port=80)
        tap.ok(r.status == 0 and r.flags & VIA_PROXY, "an address that is granted goes through the sandbox's proxy set", r)
        r = d.ask(addr="10.1.2.3", port=80)
        tap.eq(r.name, "EPERM", "a private address does not go through the sandbox's proxy set", r)
        r = d.ask("nowhere.example.test", 80)
        tap.eq(r.name, "EACCES", "the policy decides before any proxy is asked", r)


def read_exactly(sock, n):
    sock.setblocking(True)
    sock.settimeout(90)
    got = b""
    while len(got) < n and (piece := sock.recv(n - len(got))):
        got += piece
    return got


def test_pool(tap, net, web, bad):
    one, two = (bad.proxy(n, good_handler(net, web.address)) for n in ("one", "two"))
    a, b, dead = bad.at["one"], bad.at["two"], "5.5.5.57:3128"
    creds = f"p\t{USER}:{PASSWORD}\nq\tx:y\n"
    pool = f"pool p connection 600 0 - http:{dead} http:{a} http:{b}"
    with Dial(net, policy(pool), creds) as d:
        got = [d.ask("www.example.test", 80) for _ in range(40)]
        tap.ok(all(r.status == 0 for r in got), "all requests succeed while one of three proxies is dead", [r for r in got if r.status])
        tap.eq({r.proxy for r in got}, {a, b}, "requests use all proxies that work")
        s = d.proxies("p")
        tap.ok(1 <= s[dead]["faults"] == s[dead]["used"] <= 5 and s[dead]["score"] < 0.8,
               "a dead proxy is used a few times at most", s[dead])
        tap.ok(s[a]["score"] > 0.5 and s[a]["used"] + s[b]["used"] == 40, "uses of proxies are counted", s)
        auth = base64.b64encode(f"{USER}:{PASSWORD}".encode())
        tap.ok(bad.seen["one"] and all(auth in h for h in bad.seen["one"]), "credentials are sent to the proxy")
        for x in (a, b):
            for _ in range(3):
                d.fault("p", x)
        tap.ok(wait_for(lambda: d.proxies("p")[b]["faults"] == 3), "a broken tunnel that egress reports counts as a fault")
        s = d.proxies("p")
        tap.ok(s[a]["state"] == "open" and s[a]["back_in_s"] <= 10, "three faults in a row eject a proxy", s[a])
        tap.eq(s[b]["state"], "closed", "no more than half of a proxy set is ejected")
        tap.ok(any(x["proxy"] == a and x["state"] == "open" for x in settled(d, "proxy")), "the ejection of a proxy is in the journal",
               d.journal("proxy"))
        d.fault("p", "nobody:1")
        d.fault("nope", a)
        d.policy(policy(pool, tail="generation 2"))
        s = d.proxies("p")
        tap.ok(s[a]["state"] == "open" and s[a]["faults"] == s[b]["faults"] == 3, "a new policy keeps the states of proxies", s)
        r = d.ask("www.example.test", 80)
        tap.ok(r.proxy in (a, b) and auth in bad.seen["one" if r.proxy == a else "two"][-1],
               "a new policy keeps the credentials of proxies", r)
        r = d.ask("www.example.test", 80, pool="other")
        tap.eq(r.name, "ok", "the policy's proxy set is used whatever egress names", r)
    with Dial(net, policy(f"pool p sticky 600 0 - http:{a} http:{b}")) as d:
        for domain in ("one.example.test", "two.example.test"):
            got = {d.ask(f"h{i}.{domain}", 80).proxy for i in range(12)}
            tap.eq(len(got), 1, f"sticky: all hosts below example.test keep one proxy ({domain})")
        d.fault("p", next(iter(got)))
    with Dial(net, policy(f"pool p connection 0 1 check.example.test:80 http:{dead} http:{a}")) as d:
        tap.eq(d.ask("www.example.test", 80).name, "ok", "control: a proxy set with active checks connects")
        tap.ok(wait_for(lambda: d.proxies("p")[dead]["state"] == "open"), "active checks find a dead proxy")
        tap.ok(wait_for(lambda: d.proxies("p")[a]["successes"] >= 3), "active checks find a proxy that works")
        tap.ok(any(b"CONNECT check.example.test:80" in h for h in bad.seen["one"] if h), "active checks connect to their own target")
        tap.ok(d.proxies("p")[a]["used"] == 1, "active checks do not count as uses")
    for s in (one, two):
        s.close()
    # A server of its own: what was asked of the proxies before may still be on its way to the other.
    fresh = net.http("fresh.example.test")
    with Dial(net, policy(f"pool p connection 0 0 - http:{a} http:{b} http:{dead}")) as d:
        got = [d.ask("fresh.example.test", 80) for _ in range(8)]
        tap.ok(all(r.status < 0 and not r.sock and r.why for r in got), "requests fail when all proxies are dead", got)
        r = d.ask("fresh.example.test", 80, pool="")
        tap.ok(r.status < 0, "a request without a proxy set fails when all proxies are dead", r)
    with Dial(net, policy(rules=["allow *.example.test 80"])) as d:
        r = d.ask("fresh.example.test", 80, pool="ghost")
        tap.ok(r.name == "ENOTCONN" and not r.sock, "a proxy set that egress names and the policy does not have is ENOTCONN", r)
    tap.eq(fresh.connections, [], "the server sees no connection when all proxies are dead")
    with Dial(net, policy(f"pool p connection 0 0 - http:{a}"), "p no tab here\n") as d:
        tap.ok(d.said and "line 1" in d.said[0][2], "credentials that cannot be read are reported", d.said)
        tap.eq(d.ask("www.example.test", 80).name, "EACCES", "every request is denied when credentials cannot be read")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("coffer-dial through proxies", reason)
        tap.done()
    with Internet() as net:
        web = net.http("www.example.test")
        never = net.udp(None, 53, NOBODY)
        alone = net.http("alone.example.test")
        bad = Bad(net, alone.address)
        net.dns["dead.example.test"] = "5.5.5.57"
        try:
            test_real(tap, net, web, never)
            test_bytes(tap, net, web, Bad(net, web.address))
            test_pool(tap, net, web, Bad(net, web.address))
            test_bad(tap, net, alone, bad, never)
        finally:
            bad.stop.set()
    tap.done()


main()
