# SPDX-License-Identifier: Apache-2.0
"""A real coffer-dial in the namespace `gw` of a test internet, and a client that speaks its protocol.

    with Internet() as net, Dial(net, "allow *.example.test 80\nresolver 5.5.5.53 53\n") as dial:
        rep = dial.ask("www.example.test", 80)      # a Rep: status, ttl, flags, addr, proxy, why, sock
        dial.control(CTL_STATS)                     # (type, generation, text)
        dial.journal()                              # the lines written so far, as dicts

The policy is in the words of tests/lib/bundle.c. Structs as in src/egress/wire/dialproto.h and fds.h.
"""

import array
import contextlib
import errno
import fcntl
import ipaddress
import json
import os
import select
import socket
import struct
import subprocess
import tempfile
import time

import coffertest
from coffertest import BUILD
from nettest import wait_for

REQ, REP, CANCEL, FAULT = 1, 2, 3, 4
RESOLVE_ONLY = 1
VIA_PROXY, ONE_REQUEST, UNRESOLVED, PINNED = 1, 2, 4, 8
CTL_NEW_BUNDLE, CTL_STATS, CTL_QUIT, CTL_PING, CTL_OK, CTL_ERROR, CTL_READY, CTL_FAIL = 1, 2, 3, 4, 101, 102, 103, 105
REQ_FORM, REP_FORM = "=IIIHBB256s16s32s64s", "=IIiII16s64s160s"
F_ADD_SEALS, ALL_SEALS = 1033, 0xF
PATIENCE = 90


def memfd(data, seal=True):
    fd = os.memfd_create("dialtest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    if seal:
        fcntl.fcntl(fd, F_ADD_SEALS, ALL_SEALS)
    return fd


def bundle(text):
    """The bytes of a policy."""
    r = subprocess.run([os.path.join(BUILD, "tests/bundle")], input=text.encode(), capture_output=True, check=False)
    if r.returncode:
        raise RuntimeError(r.stderr.decode())
    return r.stdout


def packed(address):
    ip = ipaddress.ip_address(address)
    return b"\0" * 10 + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed


def text(raw):
    return raw.split(b"\0")[0].decode()


class Rep:
    def __init__(self, data, fds):
        (_, self.id, self.status, self.ttl, self.flags, addr, proxy, why) = struct.unpack(REP_FORM, data)
        ip = ipaddress.IPv6Address(addr)
        self.addr = None if not int(ip) else str(ip.ipv4_mapped or ip)
        self.proxy, self.why = text(proxy), text(why)
        self.sock = socket.socket(fileno=fds[0]) if fds else None
        self.name = errno.errorcode.get(-self.status, str(self.status)) if self.status else "ok"
        if len(fds) > 1:
            raise RuntimeError("more than one descriptor")

    def __repr__(self):
        return f"<{self.name} addr={self.addr} proxy={self.proxy!r} flags={self.flags} ttl={self.ttl} why={self.why!r}>"

    def talk(self, data=b"", size=100):
        """Sends, and gives back what comes."""
        self.sock.setblocking(True)
        self.sock.settimeout(PATIENCE * coffertest.slow_build())
        if data:
            self.sock.sendall(data)
        got = self.sock.recv(size)
        self.sock.close()
        return got


class Dial:
    def __init__(self, net, policy, credentials=None, resolv=b"nameserver 5.5.5.53\n", who="root", start=True,
                 journal=None):
        self.net, self.got, self.next_id, self.said = net, {}, 1, []
        self.file = tempfile.NamedTemporaryFile(prefix="coffertest-dial-")
        os.chmod(self.file.name, 0o666)
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl, ctl_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl.settimeout(PATIENCE * coffertest.slow_build())
        journal = os.open(journal or self.file.name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        data = bundle(policy) if isinstance(policy, str) else policy
        fds = {3: memfd(data), 4: journal, 5: theirs.detach(), 6: ctl_theirs.detach(),
               7: memfd(credentials.encode()) if credentials is not None else None, 8: memfd(resolv)}
        mask = sum(1 << n for n, fd in fds.items() if fd is not None)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        places = {n: null if fd is None else fd for n, fd in fds.items()}
        self.proc = self._spawn(places, mask, who)
        for fd in {*places.values(), null}:
            os.close(fd)
        if start:
            self.ready()

    def _spawn(self, places, mask, who):
        """Descriptors go through at high numbers; a shell at the end of the chain puts them where they belong."""
        high = {n: fcntl.fcntl(fd, fcntl.F_DUPFD, 40 + n) for n, fd in places.items()}
        moves = " ".join(f"{n}<&{fd} {fd}<&-" for n, fd in high.items())
        script = f'exec {moves}; exec env -i "$0" {mask:x}'
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **coffertest.sanitizer_env()}
        if len(env) > 1:
            script = script.replace("env -i", "")
        p = subprocess.Popen(self.net.prefix(who) + ["bash", "-c", script, os.path.join(BUILD, "coffer-dial")],
                             pass_fds=list(high.values()), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for fd in high.values():
            os.close(fd)
        return p

    def ready(self):
        while (m := self.hear())[0] != CTL_READY:
            self.said.append(m)
        return self

    # The guard's side

    def hear(self):
        data = self.ctl.recv(70000)
        if not data:
            raise RuntimeError(f"coffer-dial ended: {self.proc.wait()}")
        kind, generation = struct.unpack("=II", data[:8])
        if kind == CTL_FAIL:
            raise RuntimeError(data[8:].decode())
        return kind, generation, data[8:].decode()

    def control(self, kind, generation=0, fds=()):
        self.ctl.sendmsg([struct.pack("=II", kind, generation)],
                         [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        return self.hear()

    def policy(self, policy, credentials=None):
        """A new policy; what dial said to it."""
        fds = [memfd(bundle(policy) if isinstance(policy, str) else policy)]
        if credentials is not None:
            fds.append(memfd(credentials.encode()))
        said = self.control(CTL_NEW_BUNDLE, 0, fds)
        for fd in fds:
            os.close(fd)
        return said

    def stats(self):
        return json.loads(self.control(CTL_STATS)[2])

    def proxies(self, pool):
        return {p["proxy"]: p for p in self.stats()["proxies"] if p["pool"] == pool}

    def journal(self, ev=None):
        with open(self.file.name, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f.read().splitlines(True) if line.endswith("\n")]
        return [x for x in lines if ev in (None, x["ev"])]

    # egress's side

    def send(self, host=None, port=0, addr=None, flags=0, pool="", sticky="", ident=None):
        ident = ident or self.next_id
        self.next_id = max(self.next_id, ident) + 1
        self.sock.send(struct.pack(REQ_FORM, REQ, ident, 1, port, 1 if addr else 0, flags, (host or "").encode(),
                                   packed(addr) if addr else b"", pool.encode(), sticky.encode()))
        return ident

    def cancel(self, ident):
        self.sock.send(struct.pack("=II", CANCEL, ident))

    def fault(self, pool, proxy):
        self.sock.send(struct.pack("=II32s64s", FAULT, 0, pool.encode(), proxy.encode()))

    def wait(self, ident, seconds=PATIENCE + 15):
        """The reply to a request."""
        end = time.monotonic() + seconds * coffertest.slow_build()
        while ident not in self.got:
            if not select.select([self.sock], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"no reply to {ident}")
            data, fds, _, _ = socket.recv_fds(self.sock, 4096, 8)
            if not data:
                raise EOFError("coffer-dial ended the link")
            rep = Rep(data, fds)
            if rep.id in self.got:
                raise RuntimeError(f"two replies to {rep.id}")
            self.got[rep.id] = rep
        return self.got.pop(ident)

    def ask(self, *args, **kw):
        return self.wait(self.send(*args, **kw))

    def resolve(self, host, port=0):
        return self.ask(host, port, flags=RESOLVE_ONLY)

    def close(self):
        with contextlib.suppress(OSError):
            self.ctl.close()
        self.sock.close()
        try:
            self.proc.wait(PATIENCE * coffertest.slow_build())
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def settled(dial, ev, count=1):
    """The lines of one event once there are so many."""
    return wait_for(lambda: (x if len(x := dial.journal(ev)) >= count else None)) or dial.journal(ev)
