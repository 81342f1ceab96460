#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""A sandbox for a browser that may go out through a pool of proxies only, under `coffer run`: through a CONNECT and a SOCKS5
proxy with credentials, at every depth; never past them, also when none is left. Servers see the proxies and nobody else.
The control is the same visit under a policy without a pool, which arrives from this host's own address."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering  # noqa: E402
from nettest import GW4, Internet, wait_for, why_not  # noqa: E402
from proxytest import ConnectProxy, SocksProxy  # noqa: E402

WWW, API, SSH = "www.example.test", "api.example.test", "ssh.example.test"
PASSWORDS = ("correct-horse", "battery-staple")
CHROMIUM = next((p for p in ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser")
                 if os.path.exists(p)), None)
RULES = f"""  allow:
    - {{domain: {WWW}, port: [80, 443]}}
    - {{domain: {API}, port: 443, http: [{{allow: "GET /**"}}], pool: first}}
    - {{domain: {SSH}, port: 22, depth: tunnel, pool: second}}
"""
DIRECT = "version: 1\negress:\n" + RULES.replace(", pool: first", "").replace(", pool: second", "")
# A line each; where TLS is inspected the sandbox brings the authority itself.
EVERYTHING = f"""
curl -sS -m 60 http://{WWW}/ 2>&1
curl -sS -m 60 --cacert /ca.pem https://{WWW}/ 2>&1
curl -sS -m 60 https://{API}/ 2>&1 | tr '\\n' ' '; echo
timeout 60 python3 -c "import socket
print(socket.create_connection(('{SSH}', 22), 60).recv(100).decode(), end='')" 2>&1 | tail -n 1
"""


def policy(c, proxies):
    """Every rule through a pool, and none without: one of both proxies, and one of each."""
    rows = ""
    for name, some in (("both", proxies), ("first", proxies[:1]), ("second", proxies[1:])):
        c.put(f"{name}.txt", "".join(f"{p.user}:{p.password}\n" for p in some), 0o600)
        urls = ", ".join(f'"{p.scheme}://{p.address}:{p.port}"' for p in some)
        rows += f"    {name}: {{urls: [{urls}], credentials_file: {name}.txt, rotate: connection}}\n"
    return c.put("pool.yaml", "version: 1\negress:\n  browser: true\n  require_pool: true\n  pool: both\n  proxies:\n" + rows +
               RULES)


class Visit:
    """One sandbox, and what servers saw of it."""

    def __init__(self, tap, c, net, servers, path):
        self.tap, self.c, self.net, self.servers = tap, c, net, servers
        r = c("run", "-d", "--name", "box", "--policy", path, "-v", f"{net.ca}:/ca.pem", "--", "sleep", "1000")
        tap.eq(r.code, 0, f"{c.who}: the sandbox box starts in the background", r)

    def everything(self):
        """Which visits arrived, and what was answered."""
        lines = self.c("exec", "box", "--", "sh", "-c", EVERYTHING).out.splitlines()
        return [x.startswith("you are ") for x in lines], lines

    def mark(self):
        self.seen = [len(s.connections) for s in self.servers]

    def peers(self):
        """The clients of any server since the mark."""
        return {p for s, n in zip(self.servers, self.seen) for p in s.connections[n:]}

    def end(self):
        r = self.c("stop", "--time", "1", "box")
        self.tap.eq(r.code, 0, f"{self.c.who}: coffer stop ends the sandbox box", r)
        self.c("rm", "box")


def control(tap, c, net, servers):
    """Without a pool the same visits come from here."""
    v = Visit(tap, c, net, servers, c.put("direct.yaml", DIRECT))
    v.mark()
    got, lines = v.everything()
    tap.eq((got, v.peers()), ([True] * 4, {GW4}), f"{c.who}: control: without proxies servers see this host", lines)
    v.end()


def through(tap, c, net, servers, proxies):
    v = Visit(tap, c, net, servers, policy(c, proxies))
    own, questions = {p.address for p in proxies}, len(net.queries)
    v.mark()
    got, lines = v.everything()
    tap.eq(got, [True] * 4, f"{c.who}: all connections succeed through the proxies, at every depth", lines)
    told = {x.split()[2] for x in lines if x.startswith("you are ")}
    tap.ok(told and told <= own, f"{c.who}: servers report only proxies as their client", told)
    tap.ok(v.peers() and v.peers() <= own, f"{c.who}: servers see only proxies as peers", v.peers())
    one, two = (set(p.asked) for p in proxies)
    tap.ok((API, 443) in one and (SSH, 22) in two and one | two == {(WWW, 80), (WWW, 443), (API, 443), (SSH, 22)},
           f"{c.who}: the CONNECT and SOCKS5 proxies were asked by name", one, two)
    tap.eq([p.refused for p in proxies], [0, 0], f"{c.who}: the proxies refused no credential")
    tap.eq([q for q in net.queries[questions:] if q[0].endswith("example.test")], [], f"{c.who}: no name was looked up on this host")
    table = wait_for(lambda: (t := c("net", "proxies").out) and all(p.address in t for p in proxies) and t)
    tap.ok(table and re.search(r"^SANDBOX +PROXY SET +PROXY .*^\S+ +both .*closed", table, re.M | re.S), f"{c.who}: coffer net proxies shows both proxies", table)
    text = c("audit", "--json").out + (table or "") + c("logs", "box").out
    tap.ok(not [p for p in PASSWORDS if p in text], f"{c.who}: proxy passwords are in no log")
    return v


def dead(tap, c, v, proxies):
    """One is left, then none."""
    tap.ok(proxies[0].kill(), f"{c.who}: control: the first proxy is killed")
    v.mark()
    tap.ok(wait_for(lambda: v.everything()[0] == [True, True, False, True], 60),
           f"{c.who}: with one proxy left only the connections that may use it succeed")
    tap.eq(v.peers(), {proxies[1].address}, f"{c.who}: servers see only the proxy that is left")
    tap.ok(proxies[1].kill(), f"{c.who}: control: the second proxy is killed")
    v.mark()
    got, lines = v.everything()
    tap.eq(got, [False] * 4, f"{c.who}: no connection succeeds without a proxy", lines)
    tap.eq(v.peers(), set(), f"{c.who}: no server gets a connection without a proxy")
    tap.like("\n".join(lines), r'"error":"upstream".*proxy', f"{c.who}: the HTTP error says that the proxy failed", lines)


def browser(tap, c, servers, proxies):
    if not CHROMIUM:
        tap.skip("a browser through a pool", "chromium is not installed")
        return
    seen = len(servers[0].connections)
    r = c("run", "--policy", policy(c, proxies), "--", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
          "--disable-dev-shm-usage", "--no-first-run", "--dump-dom", f"http://{WWW}/", timeout=300)
    tap.ok(re.search(r"you are (\S+)", r.out) and r.out.split("you are ")[1].split()[0] in {p.address for p in proxies},
           f"{c.who}: Chromium shows a page that came through the proxies", r)
    peers = {*servers[0].connections[seen:]}
    tap.ok(peers and peers <= {p.address for p in proxies}, f"{c.who}: Chromium's server sees a proxy as its peer", peers)


def refused(tap, c):
    """TLS to the proxy itself: said when the policy is loaded, with the place and a way out."""
    path = c.put("tls.yaml", "version: 1\negress:\n  pool: p\n  proxies:\n    p: {urls: [\"https://proxy.example.test:443\"]}\n"
               + RULES)
    for args in (("policy", "check", path), ("run", "--policy", path, "--", "true")):
        r = c(*args)
        tap.ok(r.code != 0 and re.search(r"tls\.yaml:5:16: TLS to the proxy itself .*http://HOST:PORT", r.err + r.out, re.S),
               f"{c.who}: coffer {args[0]}: an https:// proxy is refused with its place and a way out", r)
    path = c.put("alone.yaml", DIRECT.replace("egress:\n", "egress:\n  browser: true\n"))
    r = c("policy", "check", path)
    tap.ok(r.code == 0 and "alone.yaml:3:12: every site" in r.out + r.err, f"{c.who}: policy check warns about a browser without proxies", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("proxies under coffer run", reason)
        tap.done()
    with Internet() as net:
        def tell(q):
            return 200, {"Content-Type": "text/plain", "Connection": "close"}, f"you are {q.peer}\n"

        def banner(conn, _server):
            conn.sendall(f"you are {conn.getpeername()[0]}\n".encode())
        servers = [net.http(WWW, tell), net.https(WWW, tell), net.https(API, tell), net.tcp(SSH, 22, banner)]
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                proxies = [ConnectProxy(net, net.address(), 3128, "ann", PASSWORDS[0]),
                           SocksProxy(net, net.address(), 1080, "bob", PASSWORDS[1])]
                if whole:
                    control(tap, c, net, servers)
                # The short form ends here: what happens when proxies die is coffer-dial's, which is the same for everybody.
                v = through(tap, c, net, servers, proxies)
                if who == "user" and who.engine == "ns":
                    refused(tap, c)
                    browser(tap, c, servers, proxies)
                if whole:
                    dead(tap, c, v, proxies)
                v.end()
                c.check_clean(tap)
    tap.done()


main()
