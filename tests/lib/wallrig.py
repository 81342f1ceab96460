# SPDX-License-Identifier: Apache-2.0
"""A wall that stands elsewhere, for tests: coffer-egress gets its connections and DNS queries as messages (src/egress/wire/wallmsg.h).

    egressrig.enter()
    with WallElsewhere([...]) as rig:     # as egressrig.Rig; a Forwarder passes on what the wall's sockets take in
    with ByHand([...]) as rig:            # no wall at all: the test writes each message
        rig.connect(addr, port)           # one end of a pair of UNIX sockets; the other goes to coffer-egress
"""

import array
import os
import select
import socket
import struct
import threading

from egressrig import PATIENCE, Rig, parse, query

STREAM, QUERY, REPLY = 1, 2, 3
HEAD, DATAGRAM_MAX = 48, 4096
IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_FREEBIND = 8, 49, 50, 78


def pack_peer(addr, port, zero=0):
    raw = socket.inet_pton(socket.AF_INET6, addr) if ":" in addr else b"\0" * 10 + b"\xff\xff" + socket.inet_aton(addr)
    return raw + struct.pack("=HH", port, zero)


def unpack_peer(raw):
    v4 = raw[:12] == b"\0" * 10 + b"\xff\xff"
    addr = socket.inet_ntoa(raw[12:16]) if v4 else socket.inet_ntop(socket.AF_INET6, raw[:16])
    return addr, struct.unpack_from("=H", raw, 16)[0]


def pack(kind, sender, to, data=b"", length=None, family=None, zero=0):
    """A message; everything can be set wrong."""
    family = (6 if ":" in to[0] else 4) if family is None else family
    return struct.pack("=IHBB", kind, len(data) if length is None else length, family, zero) + pack_peer(*sender) + pack_peer(*to) + data


def unpack(msg):
    """(kind, sender, to, data)"""
    kind, length, family, zero = struct.unpack_from("=IHBB", msg)
    assert length == len(msg) - HEAD and family in (4, 6) and zero == 0, msg[:8]
    return kind, unpack_peer(msg[8:28]), unpack_peer(msg[28:48]), msg[HEAD:]


def send(end, msg, fds=()):
    fds = [f if isinstance(f, int) else f.fileno() for f in fds]
    end.sendmsg([msg], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


class Forwarder(threading.Thread):
    """Speaks for a wall: each connection that it accepts, and each datagram, becomes a message, and each reply a datagram."""

    def __init__(self, sockets):
        super().__init__(daemon=True)
        self.end, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.tcp = [s for s in sockets if s.type == socket.SOCK_STREAM]
        self.udp = {s.family: s for s in sockets if s.type == socket.SOCK_DGRAM}
        self.udp[socket.AF_INET].setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.udp[socket.AF_INET6].setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
        self.udp[socket.AF_INET6].setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        for s in sockets:
            s.setblocking(False)

    def accept(self, s):
        while True:
            c, sender = s.accept()
            with c:
                send(self.end, pack(STREAM, sender[:2], c.getsockname()[:2]), [c])

    def take_datagrams(self, s):
        while True:
            data, anc, _, sender = s.recvmsg(65536, 128)
            if s.family == socket.AF_INET:
                to = next(socket.inet_ntoa(d[8:12]) for level, kind, d in anc if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO))
            else:
                to = next(socket.inet_ntop(socket.AF_INET6, d[:16]) for level, kind, d in anc
                          if (level, kind) == (socket.IPPROTO_IPV6, IPV6_PKTINFO))
            if len(data) <= DATAGRAM_MAX:
                send(self.end, pack(QUERY, sender[:2], (to, 53), data))

    def reply(self, msg):
        kind, sender, to, data = unpack(msg)
        assert kind == REPLY, kind
        if ":" in to[0]:
            anc = (socket.IPPROTO_IPV6, IPV6_PKTINFO, socket.inet_pton(socket.AF_INET6, sender[0]) + bytes(4))
        else:
            anc = (socket.IPPROTO_IP, IP_PKTINFO, bytes(4) + socket.inet_aton(sender[0]) + bytes(4))
        try:
            self.udp[socket.AF_INET6 if ":" in to[0] else socket.AF_INET].sendmsg([data], [anc], 0, to)
        except OSError:
            pass  # the program is gone

    def run(self):
        poll = select.poll()
        for s in self.tcp + list(self.udp.values()) + [self.end]:
            poll.register(s, select.POLLIN)
        by_fd = {s.fileno(): s for s in self.tcp + list(self.udp.values())}
        while True:
            for fd, _ in poll.poll():
                try:
                    if fd == self.end.fileno():
                        msg = self.end.recv(8192)
                        if not msg:
                            return
                        self.reply(msg)
                    elif by_fd[fd].type == socket.SOCK_STREAM:
                        self.accept(by_fd[fd])
                    else:
                        self.take_datagrams(by_fd[fd])
                except (BlockingIOError, ConnectionAbortedError):
                    pass
                except OSError:
                    return  # coffer-egress has ended


class WallElsewhere(Rig):
    def wall(self):
        self.forwarder = Forwarder(self.sockets)
        return [None] * 7, self.forwarder.theirs.fileno()

    def start(self):
        super().start()
        self.forwarder.theirs.close()
        self.forwarder.start()

    def wait(self):
        code = super().wait()
        self.forwarder.join(PATIENCE)
        self.forwarder.end.close()
        return code


class ByHand(Rig):
    """`end` is the forwarder's; the program inside has the address `inside`."""

    inside = ("10.0.2.15", 40000)

    def open_sockets(self):
        return []

    def wall(self):
        self.end, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(PATIENCE)
        return [None] * 7, self.theirs.fileno()

    def start(self):
        super().start()
        self.theirs.close()

    def wait(self):
        code = super().wait()
        self.end.close()
        return code

    def send(self, msg, *fds):
        send(self.end, msg, fds)

    def give(self, fd, addr, port):
        """A connection to addr:port of which coffer-egress gets this end."""
        inside = ("2001:db8::15", 40000) if ":" in addr else self.inside
        self.send(pack(STREAM, inside, (addr, port)), fd)

    def connect(self, addr, port, timeout=PATIENCE):
        ours, theirs = socket.socketpair()
        with theirs:
            self.give(theirs, addr, port)
        ours.settimeout(timeout)
        return ours

    def query(self, name, qtype=1, server="9.9.9.9", edns=True, raw=None, **kw):
        self.send(pack(QUERY, ("2001:db8::15", 5353) if ":" in server else self.inside, (server, 53), raw or query(name, qtype, edns)))
        return self.answer()[2]

    def answer(self):
        """The next reply: (from, to, parsed)."""
        kind, sender, to, data = unpack(self.end.recv(8192))
        assert kind == REPLY, kind
        return sender, to, parse(data)

    def is_ended(self):
        """Has coffer-egress closed its end? Replies that are still unread come first."""
        try:
            while self.end.recv(8192):
                pass
        except ConnectionResetError:
            pass
        return True


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))
