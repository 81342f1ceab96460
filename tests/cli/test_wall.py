#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""The wall from inside, over both engines and every identity: what it leads to, and that a refusal is an error at once.

Every act is tried outside first, where it succeeds. Inside, the sandbox observes (the least that a policy can be), so that
only the wall and the gateway stand before it; a public address is reached, by the same acts. What arrived is asked of the
servers, not of the sandbox.
"""

import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, identities  # noqa: E402
from nettest import GW4, Internet, wait_for, why_not  # noqa: E402

tap = Tap()
BANNER = "a server of the test"
LAN = ("10.1.2.3", "172.16.9.9", "192.168.1.1", "100.64.0.9", "169.254.169.254", "fd00::9")

# Runs inside and outside: a line of JSON with what came of each act. An act that waits for 25 seconds was not refused.
ACTS = r'''
import errno, json, socket, struct, sys
targets, tricks = json.loads(sys.argv[1]), sys.argv[2] == "all"

def attempt(act, *args):
    try:
        got = act(*args)
        return "reached" if b"a server of the test" in got else "answered " + repr(got[:60])
    except (TimeoutError, BlockingIOError):
        return "TIMEOUT"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))

def new(address, kind, protocol=0):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind, protocol)
    s.settimeout(25)
    return s

def tcp(address, port, prepare=None, fast=False):
    with new(address, socket.SOCK_STREAM) as s:
        if prepare:
            prepare(s)
        host = f"[{address}]" if ":" in address else address
        hello = f"GET / HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode()
        if fast:
            s.settimeout(None)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 25, 0))
            try:
                s.sendto(hello, socket.MSG_FASTOPEN, (address, port))
            except BlockingIOError as e:  # gVisor: it is on its way
                if e.errno != errno.EINPROGRESS:
                    raise
        else:
            s.connect((address, port))
            s.sendall(hello)
        got = b""
        while True:
            piece = s.recv(4096)
            if not piece:
                return got
            got += piece

def udp(address, port, size=24, prepare=None):
    with new(address, socket.SOCK_DGRAM) as s:
        if prepare:
            prepare(s)
        s.connect((address, port))
        s.send(b"a server of the test sent back".ljust(size))
        return s.recv(65536)

def unreliable(address):
    with new(address, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if ":" in address else socket.IPPROTO_ICMP) as s:
        s.settimeout(3)  # gVisor is silent here
        s.connect((address, 0))
        s.send(b"\x08\0\0\0\0\0\0\0a server of the test")
        return s.recv(4096)

def bind_to(address):
    return lambda s: (s.setsockopt(socket.SOL_IP, 15, 1), s.bind((address, 0)))

def source_route(via):
    return lambda s: s.setsockopt(socket.SOL_IP, socket.IP_OPTIONS, b"\x83\x07\x04" + socket.inet_aton(via) + b"\0")

def urgent(address, port):
    with new(address, socket.SOCK_STREAM) as s:
        s.connect((address, port))
        s.send(b"GET / HTTP/1.0\r\n", socket.MSG_OOB)
        s.sendall(b"Host: x\r\n\r\n")
        return s.recv(4096)

out = {}
for name, (kind, address, port) in targets.items():
    out[name] = attempt(tcp if kind == "tcp" else udp, address, port)
public, lan = targets["public"][1], targets["lan 10.1.2.3"][1]
out["fragments"] = attempt(udp, public, 9, 9000)
if not tricks:
    print(json.dumps(out))
    sys.exit()
out["mapped"] = attempt(tcp, "::ffff:" + lan, 80)
out["fast open"] = attempt(tcp, lan, 80, None, True)
out["spoofed"] = attempt(tcp, lan, 80, bind_to("127.0.0.1"))
out["source route"] = attempt(tcp, lan, 80, source_route(public))
out["ping"] = attempt(unreliable, public)
out["urgent"] = attempt(urgent, lan, 80)
for name, address in (("multicast", "224.0.0.251"), ("broadcast", "255.255.255.255"), ("multicast6", "ff02::fb")):
    out[name] = attempt(tcp, address, 80)
for name, kind, protocol in (("sctp", socket.SOCK_STREAM, 132), ("udplite", socket.SOCK_DGRAM, 136), ("dccp", 6, 33),
                             ("gre", socket.SOCK_RAW, 47), ("mptcp", socket.SOCK_STREAM, 262)):
    try:
        socket.socket(socket.AF_INET, kind, protocol).close()
        out[name] = "reached"
    except OSError as e:
        out[name] = errno.errorcode[e.errno]
try:
    out["name"] = socket.gethostbyname("www.example.test")
except OSError as e:
    out["name"] = str(e)
print(json.dumps(out))
'''

TALK = r'''
import socket, sys
s = socket.create_connection((sys.argv[1], 8080), 25)
s.settimeout(25)
s.sendall(b"GET / HTTP/1.0\r\n\r\n")
print(s.recv(99))
'''
LISTEN = r'''
import socket
s = socket.create_server(("", 8080))
print("listening", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"the other sandbox")
    c.close()
'''


def banner(conn, _server):
    conn.recv(4096)
    conn.sendall(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n" + BANNER.encode())


class World:
    """The servers that can be reached: those of the internet, of the LAN, of the host."""

    def __init__(self, net):
        self.net = net
        self.public = net.tcp(None, 80, banner, address="5.5.5.9")
        net.dns["www.example.test"] = "5.5.5.9"
        self.datagrams = net.udp(None, 9, address="5.5.5.9")
        self.forbidden = {f"lan {a}": net.tcp(None, 80, banner, address=a) for a in LAN}
        self.forbidden["the host's address"] = net.tcp(None, 0, banner, address=GW4, where=net.gw)
        self.forbidden["the host's loopback"] = net.tcp(None, 0, banner, address="127.0.0.1", where=net.gw)
        self.lan_datagrams = net.udp(None, 9, address="10.1.2.3")
        self.targets = {n: ("tcp", s.address, s.port) for n, s in self.forbidden.items()}
        self.targets.update({"public": ("tcp", "5.5.5.9", 80), "udp": ("udp", "5.5.5.9", 9), "lan udp": ("udp", "10.1.2.3", 9)})

    def arrived(self):
        """The forbidden servers that were reached so far, by name."""
        got = {n: len(s.connections) for n, s in self.forbidden.items()}
        got.update({"udp": len(self.datagrams.requests), "lan udp": len(self.lan_datagrams.requests)})
        return got

    def argv(self, acts="all"):
        return ["python3", "-c", ACTS, json.dumps(self.targets), acts]


def control(world):
    """Outside everything that has a server is reached, by the same acts. Those without a server would wait for one here."""
    r = world.net.run_as("root", world.argv("served"), env={"PATH": "/usr/bin:/bin"}, timeout=300)
    got = json.loads(r.stdout or "{}")
    for name in [*world.targets, "fragments"]:
        tap.eq(got.get(name), "reached", f"control: outside {name} is reached", r.stderr)
    tap.ok(all(world.arrived().values()), "control: the servers saw the connections from outside", world.arrived())


def refused(who, got, name):
    """An error, or an answer of somebody else's (the gateway says why); never silence."""
    silent = got == "TIMEOUT" and not may_be_silent(who, name)
    return tap.ok(got and got != "reached" and not silent, f"{who}: {name} is refused: {got}")


def may_be_silent(who, name):
    """gVisor has sockets for echo requests, and does not tell them that they were refused."""
    return who.engine == "gvisor" and name == "ping"


def from_inside(world, who, c, options):
    before = world.arrived()
    r = c("run", *options, "--net", "observe", "--", *world.argv(), timeout=240)
    got = json.loads(r.out.strip().splitlines()[-1]) if r.out.strip() else {}
    if not tap.eq(got.get("public"), "reached", f"{who}: a public address is reached", r):
        return
    tap.like(got["name"], r"^11\.", f"{who}: a name resolves to an address of the sandbox's own")
    for name in got:
        if name not in ("public", "name"):
            refused(who, got[name], name)
    tap.eq(world.arrived(), before, f"{who}: no refused connection arrived at a server")


def two_sandboxes(who, c, options):
    name = f"other-{who.engine}"
    r = c("run", "-d", "--name", name, *options, "--net", "enforce", "--", "python3", "-c", LISTEN)
    tap.eq(r.code, 0, f"{who}: a second sandbox starts", r)
    there = wait_for(lambda: "listening" in c("logs", name).out)
    tap.ok(there, f"{who}: the second sandbox listens", c("logs", name))
    for address in ("10.0.2.15", "127.0.0.1"):
        r = c("exec", name, "--", "python3", "-c", TALK, address)
        tap.like(r.out, "the other sandbox", f"{who}: control: the server is reached inside its own sandbox at {address}", r)
        r = c("run", *options, "--net", "observe", "--", "python3", "-c", TALK, address)
        tap.ok(r.code == 1 and "ConnectionRefused" in r.err and "sandbox" not in r.out,
               f"{who}: the server of another sandbox is not reached at {address}", r)
    c("stop", name)
    c("rm", "-f", name)


def kernel_stack(world, who, c, options):
    """Where gVisor's own network stack does not work, it takes the kernel's: the same wall, and it is said."""
    for path in glob.glob(os.path.join(c.state, "runsc-*")):
        with open(path, encoding="utf-8") as f:
            verdict = json.load(f)
        verdict["hostnet"] = "made up by the test"
        with open(path, "w", encoding="utf-8") as f:
            json.dump(verdict, f)
        c.own(path)
    before = world.arrived()
    r = c("run", *options, "--net", "observe", "--", *world.argv(), timeout=240)
    got = json.loads(r.out.strip().splitlines()[-1]) if r.out.strip() else {}
    tap.ok(got.get("public") == "reached" and "made up by the test" in r.err, f"{who}: a run with the kernel's network stack reaches the public address and reports the stack", r)
    bad = {n: v for n, v in got.items() if n not in ("public", "name") and
           (v == "reached" or (v == "TIMEOUT" and not may_be_silent(who, n)))}
    tap.ok(got and not bad and world.arrived() == before, f"{who}: the kernel's network stack is behind the same wall", bad, world.arrived(), before)


def main():
    reason = why_not()
    if reason:
        tap.skip("the wall", reason)
        tap.done()
    with Internet() as net:
        world = World(net)
        control(world)
        for who in identities(tap, ENGINES):
            options = ["--user", "0"] if who.engine == "gvisor" else []
            with net.coffer(who) as c:
                from_inside(world, who, c, options)
                two_sandboxes(who, c, options)
                if who.engine == "gvisor":
                    kernel_stack(world, who, c, options)
                c.check_clean(tap)
    tap.done()


main()
