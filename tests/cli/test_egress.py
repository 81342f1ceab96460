#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network as a program inside can use it, tried from inside: names, first bytes, tunnels, ports, other protocols.

Each attempt of the list of what has gone wrong elsewhere has its number in brackets; each refusal stands beside something of
the same kind that is let through."""

import itertools
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from coffertest import ENGINES, TESTS, Tap, identities  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: good.example.test
      port: 443
    - domain: twin.example.test
      port: 443
    - domain: "*.wild.example.test"
      port: 443
    - domain: echo.example.test
      port: 443
    - domain: ssh.example.test
      port: 22
      depth: tunnel
    - domain: web.example.test
      port: 80
    - domain: lan.example.test
      port: 80
    - domain: rebind.example.test
      port: 80
    - address: 6.6.6.0/28
      port: 443
  deny:
    - domain: bad.wild.example.test
    - address: 6.6.6.7
      port: 443
"""

# Runs inside: one JSON object with what came of each attempt.
INSIDE = r"""
import json, socket, ssl, struct, sys, threading
sys.path.insert(0, "/t")
from netprobe import ask, client_hello, say
out = {}

def attempt(key, work, *args, **kw):
    try:
        out[key] = work(*args, **kw)
    except Exception as e:
        out[key] = "error: %s: %s" % (type(e).__name__, e)

def lookup(name):
    return ask(name)[1][0]

def tls(addr, name, path="/"):
    c = ssl.create_default_context(cafile="/t/ca.pem")
    with c.wrap_socket(socket.create_connection((addr, 443), 25), server_hostname=name) as s:
        s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path.encode(), name.encode()))
        got = b""
        while piece := s.recv(65536):
            got += piece
        return got.decode("latin-1")

def udp(addr, port):
    with socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(25)
        s.connect((addr, port))
        try:
            s.send(b"hello")
            answer = s.recv(100).decode()
        except OSError as e:
            answer = type(e).__name__
        # The kernel reports refused packets when there are some; with this many it does not wait for more.
        for _ in range(40):
            try:
                s.send(b"hello")
            except OSError:
                pass
        return answer

def tunnel():
    with socket.create_connection((lookup("ssh.example.test"), 22), 25) as s:
        got = s.recv(100)
        s.sendall(b"hi\n")
        s.shutdown(socket.SHUT_WR)
        while piece := s.recv(100):
            got += piece
        return got.decode()

def echo_hello(name, pad, step):
    # A server that sends a hello back shows that it arrived whole and unchanged.
    hello = client_hello(name, pad)
    with socket.create_connection((lookup("echo.example.test"), 443), 25) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(hello), step):
            s.sendall(hello[i:i + step])
        got = b""
        while len(got) < len(hello):
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
        return got == hello

def proxy_inside():
    # A CONNECT proxy of the sandbox's own; what it connects to is decided at the wall all the same.
    l = socket.create_server(("127.0.0.1", 0))
    def serve():
        for _ in range(2):
            c, _ = l.accept()
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(1000)
            host, port = head.split()[1].decode().rsplit(":", 1)
            try:
                u = socket.create_connection((host, int(port)), 25)
                u.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode())
                c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while piece := u.recv(65536):
                    c.sendall(piece)
            except OSError as e:
                c.sendall(b"HTTP/1.1 502 %s\r\n\r\n" % type(e).__name__.encode())
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    ask_ = lambda to: say("127.0.0.1", l.getsockname()[1], b"CONNECT " + to + b" HTTP/1.1\r\n\r\n")[0]
    return [ask_(b"web.example.test:80"), ask_(b"evil.example.test:80")]

good = lookup("good.example.test")
out["address"] = good
get = b"GET /x HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
attempt("tls", tls, good, "good.example.test")
attempt("upper", ask, "GOOD.Example.TEST.")
attempt("twin", lookup, "twin.example.test")
attempt("twin_tls", tls, lookup("twin.example.test"), "twin.example.test")
attempt("dns_tcp", ask, "good.example.test", tcp=True)
attempt("dns_other", ask, "good.example.test", server="8.8.8.8")
attempt("dns_other_tcp", ask, "good.example.test", server="1.1.1.1", tcp=True)
attempt("dns_v6", ask, "good.example.test", server="2001:4860:4860::8888")
for name, t in (("aaaa", 28), ("https", 65), ("svcb", 64), ("txt", 16)):
    attempt(name, ask, "good.example.test", t)
attempt("ptr", ask, ".".join(reversed(good.split("."))) + ".in-addr.arpa", 12)
for name in ("evil.example.test", "evilgood.example.test", "good.example.test.evil.org", "wild.example.test", "bad.wild.example.test",
             "c2VjcmV0.evil.example.test", "no.wild.example.test"):
    attempt("dns " + name, ask, name)
attempt("wild", ask, "a.b.wild.example.test")
attempt("dns_nul", ask, "go\0od.example.test")
attempt("dns_ctl", ask, "go\x01od.example.test")
attempt("dns_space", ask, "good.example.test\x20")
attempt("sni_other", say, good, 443, client_hello("twin.example.test"))
attempt("sni_none", say, good, 443, client_hello(None))
attempt("sni_nul", say, good, 443, client_hello("good.example.test\0.evil.test"))
attempt("literal", say, "5.5.5.5", 443, client_hello("good.example.test"))
attempt("literal_real", say, sys.argv[1], 443, client_hello("good.example.test"))
attempt("literal_v6", say, "2a05:5::5", 443, client_hello("good.example.test"))
attempt("granted", tls, "6.6.6.6", "6.6.6.6")
attempt("narrower", say, "6.6.6.7", 443, client_hello(None))
attempt("doh", say, "8.8.8.8", 443, client_hello("dns.google"))
attempt("dns dns.google", ask, "dns.google")
attempt("segments", echo_hello, "echo.example.test", 0, 1)
attempt("large", echo_hello, "echo.example.test", 9000, 700)
attempt("not_tls", say, good, 443, b"SSH-2.0-x\r\n")
for port in (22, 853, 8443, 1, 65535):
    attempt("port %d" % port, say, good, port, b"x")
attempt("port 80", say, good, 80, get % b"good.example.test")
attempt("tunnel", tunnel)
web = lookup("web.example.test")
attempt("web", say, web, 80, get % b"web.example.test")
attempt("host_other", say, web, 80, get % b"evil.example.test")
for host in (b"2130706433", b"0x7f.1", b"0177.0.0.1", b"user@127.0.0.1", b"web.example.test\0.evil.test", b"web.example.test\x01"):
    attempt("host " + ascii(host.decode()), say, web, 80, get % host)
attempt("smuggle", say, web, 80, b"POST / HTTP/1.1\r\nHost: web.example.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
post = b"POST / HTTP/1.1\r\nHost: web.example.test\r\n"
attempt("lengths", say, web, 80, post + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
attempt("bare_lf", say, web, 80, (get % b"web.example.test").replace(b"\r\n", b"\n"))
attempt("folded", say, web, 80, post + b"Content-Length: 1\r\nX: a\r\n b\r\n\r\nx")
attempt("absolute", say, web, 80, b"GET http://evil.example.test/ HTTP/1.1\r\nHost: web.example.test\r\n\r\n")
attempt("redirect", say, web, 80, get.replace(b"/x", b"/redirect") % b"web.example.test")
attempt("lan", ask, "lan.example.test")
rebind = [say(lookup("rebind.example.test"), 80, get % b"rebind.example.test")[0] for _ in range(4)]
out["rebind"] = [x.split("\r\n\r\n")[-1] for x in rebind]
for addr in ("169.254.169.254", "10.1.2.3", "192.168.1.1"):
    attempt("private " + addr, say, addr, 80, get % addr.encode())
for addr, port in (("8.8.8.8", 443), ("5.5.5.5", 123), ("2a05:5::5", 443)):
    attempt("udp %s %d" % (addr, port), udp, addr, port)
attempt("page", say, lookup("coffer.internal"), 80, get.replace(b"/x", b"/") % b"coffer.internal")
attempt("proxy", proxy_inside)
print(json.dumps(out))
"""

UNRECOGNIZED, ACCESS_DENIED = "\x15\x03\x03\x00\x02\x02p", "\x15\x03\x03\x00\x02\x021"
NOERROR, FORMERR, NXDOMAIN = 0, 1, 3
RESET = ("ConnectionResetError", "BrokenPipeError", "ConnectionRefusedError")


def is_no_route(v):
    """gVisor's own network stack has no IPv6 at all."""
    return v.startswith("error: OSError") and ("No route to host" in v or "Network is unreachable" in v)


class Checks:
    def __init__(self, tap, who, got):
        self.tap, self.who, self.got = tap, who, got

    def eq(self, key, wanted, name):
        self.tap.eq(self.got.get(key), wanted, f"{self.who}: {name}")

    def ok(self, key, good, name):
        value = self.got.get(key)
        self.tap.ok(isinstance(value, (str, list)) and good(value), f"{self.who}: {name}", value)


def names(k):
    a = k.got["address"]
    k.ok("address", lambda v: v.startswith("11."), "an allowed name has a synthetic address")
    k.eq("upper", [NOERROR, [a]], "[7] upper case and a trailing dot are the same name")
    k.ok("twin", lambda v: v != a, "[21] two names on one real address have two of ours")
    k.eq("dns_tcp", [NOERROR, [a]], "[18] DNS over TCP gets our response")
    k.eq("dns_other", [NOERROR, [a]], "[18] a query to any other resolver gets our response")
    k.eq("dns_other_tcp", [NOERROR, [a]], "[18] a query over TCP to any other resolver gets our response")
    if not isinstance(k.got["dns_v6"], str):
        k.eq("dns_v6", [NOERROR, [a]], "[24] a DNS query over IPv6 gets our response")
    else:
        k.ok("dns_v6", is_no_route, "[24] IPv6 is refused")
    for key in ("aaaa", "https", "svcb", "txt"):
        k.eq(key, [NOERROR, []], f"no {key} record is given: [24] IPv4 only, no ECH")
    k.eq("ptr", [NOERROR, ["good.example.test"]], "the synthetic address resolves to its name")
    for name in ("evil.example.test", "evilgood.example.test", "good.example.test.evil.org"):
        k.eq(f"dns {name}", [NXDOMAIN, []], f"[10] {name} is denied")
    k.eq("dns wild.example.test", [NXDOMAIN, []], "[11] the apex under a wildcard is denied")
    k.eq("dns bad.wild.example.test", [NXDOMAIN, []], "[12] the narrower deny wins")
    k.eq("dns c2VjcmV0.evil.example.test", [NXDOMAIN, []], "[16] data in a denied name is denied")
    k.eq("dns no.wild.example.test", [NXDOMAIN, []], "an allowed name that does not exist is NXDOMAIN")
    k.ok("wild", lambda v: v[0] == NOERROR and v[1], "a name below the wildcard is allowed")
    k.ok("dns_nul", lambda v: v[0] == FORMERR, "[6] a NUL in a name is refused")
    for key in ("dns_ctl", "dns_space"):
        k.ok(key, lambda v: v[0] in (FORMERR, NXDOMAIN), "[6] a control byte or a space in a name is refused")
    k.eq("dns dns.google", [NXDOMAIN, []], "[18] a server for DNS over HTTPS is denied like any other name")
    k.eq("lan", [NXDOMAIN, []], "[15] a name of a private address is not resolved")


def first_bytes(k):
    k.ok("tls", lambda v: v.endswith("good /"), "TLS to the allowed name passes")
    k.ok("twin_tls", lambda v: v.endswith("twin /"), "[21] TLS to another name on the same real address passes")
    k.eq("sni_other", [UNRECOGNIZED, "end"], "[1, 21] another allowed name in the SNI is refused with an alert")
    k.eq("sni_none", [ACCESS_DENIED, "end"], "[4] no SNI is refused")
    k.ok("sni_nul", lambda v: v[0] in (ACCESS_DENIED, UNRECOGNIZED), "[6] a NUL in the SNI is refused")
    k.eq("literal", [ACCESS_DENIED, "end"], "[4] an address literal is refused")
    k.eq("narrower", [ACCESS_DENIED, "end"], "[12] an address in a range that is granted, but denied by itself, is refused")
    k.eq("doh", [ACCESS_DENIED, "end"], "[18] DNS over HTTPS to a resolver by its address is refused")
    k.eq("literal_real", [ACCESS_DENIED, "end"], "[4] the real address of an allowed server is refused")
    k.ok("literal_v6", lambda v: v[0] == ACCESS_DENIED or v[1] in RESET + ("OSError",), "[24] an IPv6 address literal is refused")
    k.ok("granted", lambda v: v.endswith("granted /"), "[4] an address that the policy grants passes")
    k.tap.eq(k.got.get("segments"), True, f"{k.who}: [5] a ClientHello byte by byte is read whole")
    k.tap.eq(k.got.get("large"), True, f"{k.who}: [5] a ClientHello of 9 KiB is read whole")
    k.ok("not_tls", lambda v: v[1] in RESET, "a protocol that is neither TLS nor HTTP is refused")
    for port in (22, 853, 8443, 1, 65535):
        k.ok(f"port {port}", lambda v: v[0] == "" and v[1] in RESET, f"[25] port {port} is refused")
    k.ok("port 80", lambda v: v[0].startswith("HTTP/1.1 403 "), "[25] port 80 is refused with 403")
    k.eq("tunnel", "SSH-2.0-server\ngot hi\n", "a tunnel lets the server speak first, and half-closes")


def http(k):
    k.ok("web", lambda v: v[0].endswith("web /x"), "plain HTTP to the allowed name passes")
    k.ok("host_other", lambda v: v[0].startswith("HTTP/1.1 421 ") and "evil" not in v[0].split("\r\n\r\n")[0].replace("evil.example.test", ""),
         "[2] another Host gets 421")
    for host in ("2130706433", "0x7f.1", "0177.0.0.1", "user@127.0.0.1"):
        k.ok(f"host {host!a}", lambda v: v[0][9:12] in ("400", "421"), f"[14] {host} for a host is refused")
    for host in ("web.example.test\0.evil.test", "web.example.test\x01"):
        k.ok(f"host {host!a}", lambda v: v[0].startswith("HTTP/1.1 400 "), f"[6] {host!a} for a host is refused")
    k.ok("smuggle", lambda v: v[0].startswith("HTTP/1.1 400 "), "[30] Content-Length with Transfer-Encoding is refused")
    k.ok("lengths", lambda v: v[0].startswith("HTTP/1.1 400 "), "[30] two Content-Lengths are refused")
    k.ok("bare_lf", lambda v: v[0].startswith("HTTP/1.1 400 "), "[32] lines that end with LF alone are refused")
    k.ok("folded", lambda v: v[0].startswith("HTTP/1.1 400 "), "[32] a folded header is refused")
    k.ok("absolute", lambda v: v[0].startswith("HTTP/1.1 400 "), "[33] an absolute target that differs from Host is refused")
    k.ok("redirect", lambda v: "169.254.169.254" in v[0] and " 302 " in v[0], "[29] a server may redirect to the metadata address")
    for addr in ("169.254.169.254", "10.1.2.3", "192.168.1.1"):
        k.ok(f"private {addr}", lambda v: v[0].startswith("HTTP/1.1 403 ") and '"error":"denied"' in v[0], f"[29] {addr} is refused after a redirect")
    k.ok("rebind", lambda v: "rebound /x" in v and "private" not in v,
         "[15] a name that leads elsewhere the next time leads where it was checked, or nowhere")
    k.ok("page", lambda v: " 200 " in v[0] and "good.example.test" in v[0], "http://coffer.internal/ says what is allowed")
    k.ok("proxy", lambda v: "web /" in v[0], "[35] a proxy inside reaches what is allowed")
    k.ok("proxy", lambda v: " 502 " in v[1], "[35] a proxy inside does not reach a host that is denied")
    for key in ("udp 8.8.8.8 443", "udp 5.5.5.5 123", "udp 2a05:5::5 443"):
        k.ok(key, lambda v: v == "ConnectionRefusedError" or is_no_route(v), f"[26] {key} is refused at once")


def log_has(c, ev, **match):
    def find():
        lines = [json.loads(line) for line in c("audit", "--json").out.splitlines()]
        return [e for e in lines if e["type"] == f"net.{ev}" and all(e.get(k) == v for k, v in match.items())]
    return wait_for(find)


def logged(tap, c):
    for name, ev, match in (("[1] both names", "open", {"name": "good.example.test", "seen": "twin.example.test", "decision": "deny"}),
                            ("[16] denied names", "dns", {"name": "evil.example.test", "decision": "deny"}),
                            ("[25] refused ports", "open", {"name": "good.example.test", "port": 8443, "decision": "deny"}),
                            ("[26] refused UDP", "refused", {"proto": "udp", "port": 443, "addr": "8.8.8.8"}),
                            ("bytes of a tunnel", "close", {"name": "ssh.example.test", "up": 3})):
        tap.ok(log_has(c, ev, **match), f"{c.who}: the log has {name}", c("audit", "--json").out[-3000:])


def serve_ssh(conn, _server):
    conn.sendall(b"SSH-2.0-server\n")
    data = b""
    while piece := conn.recv(100):
        data += piece
    conn.sendall(b"got " + data)


def web_page(q):
    return (302, {"Location": "http://169.254.169.254/"}, "") if q.path == "/redirect" else f"web {q.path}"


def sandbox(tap, net, who, real, silent):
    with net.coffer(who) as c:
        path = os.path.join(c.home, "policy.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(POLICY)
        os.chmod(path, 0o600)
        c.own(path)
        net.turns = itertools.count()  # only the first answer is a good one
        asked, came = len(net.queries), [len(s.connections) for s in silent]
        r = c("run", "--policy", path, "-v", f"{net.ca}:/t/ca.pem:ro", "-v", f"{TESTS}/lib/netprobe.py:/t/netprobe.py:ro", "--",
              "python3", "-c", INSIDE, real)
        if not tap.ok(r.code == 0 and r.out.startswith("{"), f"{c.who}: the probes ran", r):
            return
        tap.like(r.err, r"denied  lan\.example\.test  .*10\.1\.2\.3 is a private address; only a rule with 'to:' in a policy file leads there",
                 f"{c.who}: the line about a name of a private address says that a policy can name it with 'to:'")
        tap.like(r.err, r"alert  lan\.example\.test  10\.1\.2\.3 is a private address", f"{c.who}: the alert about it has a line of its own")
        k = Checks(tap, c.who, json.loads(r.out))
        names(k)
        first_bytes(k)
        http(k)
        tap.eq([n for n, _ in net.queries[asked:] if "evil" in n or "c2Vj" in n or n.startswith("bad.")], [],
               f"{c.who}: [16] nothing of a denied name reached a real resolver")
        tap.eq([len(s.connections) for s in silent], came, f"{c.who}: no server saw a request that was refused")
        logged(tap, c)
        c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("the network from inside", reason)
        tap.done()
    with Internet() as net:
        good = net.https("good.example.test", lambda q: f"good {q.path}")
        twin = net.cert("twin.example.test", "good.example.test")
        net.https("twin.example.test", lambda q: f"twin {q.path}", address="5.5.5.200", cert=twin)
        net.https(None, lambda q: f"granted {q.path}", address="6.6.6.6", cert=net.cert("6.6.6.6"))
        net.dns["a.b.wild.example.test"] = good.address
        net.dns["bad.wild.example.test"] = good.address
        net.tcp("echo.example.test", 443)
        net.tcp("ssh.example.test", 22, serve_ssh)
        net.http("web.example.test", web_page)
        net.dns["lan.example.test"] = "10.1.2.3"
        net.https(None, lambda q: f"denied {q.path}", address="6.6.6.7", cert=net.cert("6.6.6.7"))
        rebound = net.http(None, lambda q: f"rebound {q.path}")
        net.dns["rebind.example.test"] = lambda _n, t: [] if t != "A" else rebound.address if next(net.turns) == 0 else "10.1.2.3"
        silent = [net.http(None, lambda q: "private", address=a) for a in ("169.254.169.254", "10.1.2.3", "192.168.1.1")]
        silent += [net.https("evil.example.test"), net.tcp("good.example.test", 8443, address=good.address)]
        for who in identities(tap, ENGINES):
            sandbox(tap, net, who, good.address, silent)
    tap.done()


main()
