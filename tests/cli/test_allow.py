#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`coffer run --allow NAME:443 -- curl …` works, and everything else is refused.

Each act is first done outside, as the same identity and by the same command, where it succeeds; then in a sandbox that may
reach one name and one port. The servers are asked too whether requests arrived."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ENGINES, Tap, identities  # noqa: E402
from nettest import GW4, RESOLVER, Internet, why_not  # noqa: E402

GOOD, OTHER, SUB = "example.test", "other.test", "sub.example.test"
V6 = "2a05:5::80"
LAN, METADATA = "10.1.2.3", "169.254.169.254"


def acts(good, udp, host):
    """name -> a command that prints "reached" where it is let through. `curl -f`: a 403 is no success."""
    curl = "curl -fsS -m 60 --cacert /tmp/ca.pem"

    def send(port, address, data="b'hello'"):
        return (f"python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); "
                f"s.connect(('{address}', {port})); s.send({data}); print('reached' if s.recv(500) else '')\"")
    ask = rb"\x12\x34\1\0\0\1\0\0\0\0\0\0\5other\4test\0\0\1\0\1"
    asked = "'reached' if int.from_bytes(s.recv(500)[6:8], 'big') else 'no'"
    return {
        "the name and the port": f"{curl} https://{GOOD}/",
        "its other port": f"{curl} http://{GOOD}/",
        "a port of it that speaks TLS": f"{curl} https://{GOOD}:8443/",
        "another name": f"{curl} https://{OTHER}/",
        "a name below it": f"{curl} https://{SUB}/",
        "its address": f"{curl} --resolve {GOOD}:443:{good.address} https://{GOOD}/",
        "another name on its address": f"{curl} --connect-to {OTHER}:443:{GOOD}:443 https://{OTHER}/",
        "another Host inside": f"{curl} -H 'Host: {OTHER}' http://{GOOD}/",
        "an address by number": f"{curl} http://{good.address}/",
        "IPv6": f"{curl} 'http://[{V6}]/'",
        "the local network": f"{curl} http://{LAN}/",
        "the metadata address": f"{curl} http://{METADATA}/",
        "the host's own address": f"{curl} http://{GW4}:{host.port}/",
        "the host's loopback": f"{curl} http://127.0.0.1:{host.port}/",
        "UDP": send(udp.port, udp.address),
        "QUIC's port": send(443, udp.address),
        "another name by a resolver of one's choice":
            send(53, RESOLVER, f"bytes.fromhex('{ask.decode('unicode_escape').encode('latin-1').hex()}')")
            .replace("'reached' if s.recv(500) else ''", asked),
    }


def run_all(what):
    return "\n".join(f'echo "{i}: $({command} 2>&1 | tail -n 1)"' for i, command in enumerate(what.values()))


def outcome(text, what):
    got = dict(re.findall(r"^(\d+): ?(.*)$", text, re.M))
    return {name: got.get(str(i), "nothing") for i, name in enumerate(what)}


def control(tap, c, net, what):
    r = c(program=["sh", "-c", run_all(what).replace("/tmp/ca.pem", net.ca)])
    for name, got in outcome(r.out, what).items():
        tap.eq(got, "reached", f"{c.who}: control: outside, {name} is reached", r)


def calls(tap, net, c):
    """One tool call has no network, unless it is granted one."""
    with open(net.ca, encoding="utf-8") as f:
        c.write("ca.crt", f.read())
    curl = ("curl", "-sS", "-m", "60", "--cacert", "ca.crt")
    give = ("call", "--read", "ca.crt")
    r = c(*give, "--allow", f"{GOOD}:443", "--", *curl, f"https://{GOOD}/")
    tap.eq((r.code, r.out), (0, "reached\n"), f"{c.who}: coffer call --allow reaches the server that it names", r)
    r = c(*give, "--allow", f"{GOOD}:443", "--", *curl, f"https://{OTHER}/")
    tap.ok(r.code == 6 and not r.out, f"{c.who}: coffer call --allow reaches no other server", r)
    r = c(*give, "--", *curl, f"https://{GOOD}/")
    tap.ok(r.code != 0 and not r.out, f"{c.who}: coffer call without --allow has no network", r)
    c("pool", "stop")


def visit(tap, net, who, what, servers):
    with net.coffer(who) as c:
        if who.engine == ENGINES[0]:  # outside there is no engine
            control(tap, c, net, what)
        came = [len(s.connections) + len(s.requests) for s in servers]
        asked = len(net.queries)
        r = c("run", "--allow", f"{GOOD}:443", "-v", f"{net.ca}:/tmp/ca.pem", "--", "sh", "-c", run_all(what))
        got = outcome(r.out, what)
        tap.eq(got.pop("the name and the port"), "reached", f"{who}: --allow {GOOD}:443 lets curl reach that name and port", r)
        for name, text in got.items():
            tap.ok(text != "reached", f"{who}: --allow of one name and port refuses {name}", text, r)
        tap.eq([len(s.connections) + len(s.requests) for s in servers], came, f"{who}: no connection that --allow refuses reaches a server")
        tap.eq({n for n, _ in net.queries[asked:]} - {GOOD}, set(), f"{who}: no name that --allow refuses is asked for at a resolver")
        lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
        allowed = {(e.get("name"), e.get("port")) for e in lines if e["type"] == "net.open" and e["decision"] == "allow"}
        denied = {(e.get("name"), e.get("port")) for e in lines if e["type"] == "net.open" and e["decision"] == "deny"}
        tap.eq(allowed, {(GOOD, 443)}, f"{who}: the log has the allowed connection and no other")
        tap.ok({(GOOD, 80), (GOOD, 8443)} <= denied, f"{who}: the log has the connections that were refused", denied)
        calls(tap, net, c)
        c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("one name and one port", reason)
        tap.done()
    with Internet() as net:
        def yes(_q):
            return "reached\n"
        good = net.https(GOOD, yes, cert=net.cert(GOOD, SUB, OTHER))
        net.dns[SUB], net.dns[OTHER] = good.address, net.address()
        udp = net.udp(None, 9999, net.dns[OTHER])
        host = net.tcp(None, 0, lambda conn, _s: conn.sendall(b"HTTP/1.0 200 OK\r\n\r\nreached\n") if conn.recv(4096) else None,
                       "0.0.0.0", where=net.gw)
        others = [net.http(GOOD, yes), net.https(GOOD, yes, port=8443), net.https(OTHER, yes), udp, host,
                  net.udp(None, 443, net.dns[OTHER]), net.http(None, yes, address=LAN), net.http(None, yes, address=METADATA),
                  net.http(None, yes, address=V6)]
        what = acts(good, udp, host)
        for who in identities(tap, ENGINES):
            visit(tap, net, who, what, others)
    tap.done()


main()
