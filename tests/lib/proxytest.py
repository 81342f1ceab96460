# SPDX-License-Identifier: Apache-2.0
"""Upstream proxies for tests: CONNECT and SOCKS5 with a user and a password, in the namespace `inet` of a test internet. Each
goes out from its own address, so that a server sees who came; `asked` has what was asked for, `refused` how often the
credentials were wrong. kill() leaves nothing of it."""

import base64
import contextlib
import socket
import threading

from nettest import wait_for


class Proxy:
    def __init__(self, net, address, port, user, password):
        self.net, self.address, self.port, self.user, self.password = net, address, port, user, password
        self.asked, self.refused, self.open, self.lock = [], 0, set(), threading.Lock()
        self.server = net.tcp(None, port, self.serve, address)

    def serve(self, conn, _server):
        self.hold(conn)
        try:
            target = self.greet(conn)
        except (IndexError, ValueError):  # it left before it had said what it wants
            target = None
        if not target:
            return
        self.asked.append(target)
        with self.net.inet_socket() as up:
            self.hold(up)
            up.bind((self.address, 0))
            try:
                up.connect((self.net.dns.find(target[0], "A") if target[0] in self.net.dns else target[0], target[1]))
            except (OSError, TypeError):
                self.answer(conn, False)
                return
            self.answer(conn, True)
            splice(conn, up)

    def hold(self, sock):
        with self.lock:
            self.open.add(sock)

    def kill(self):
        """The listener and every connection through it."""
        self.server.close()
        with self.lock:
            for s in self.open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

        def is_gone():
            with self.net.inet_socket() as s:
                return s.connect_ex((self.address, self.port)) != 0
        return wait_for(is_gone)


class ConnectProxy(Proxy):
    scheme = "http"

    def greet(self, conn):
        f = conn.makefile("rb", buffering=0)
        lines = []
        while (line := f.readline().strip()):
            lines.append(line.decode("latin-1"))
        wanted = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if f"proxy-authorization: {wanted}".lower() not in (x.lower() for x in lines):
            self.refused += 1
            conn.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return None
        host, port = lines[0].split()[1].rsplit(":", 1)
        return host, int(port)

    @staticmethod
    def answer(conn, good):
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" if good else b"HTTP/1.1 502 Bad Gateway\r\n\r\n")


class SocksProxy(Proxy):
    scheme = "socks5"

    def greet(self, conn):
        f = conn.makefile("rb", buffering=0)
        f.read(1)
        if b"\x02" not in f.read(f.read(1)[0]):
            self.refused += 1
            conn.sendall(b"\5\xff")
            return None
        conn.sendall(b"\5\2")
        f.read(1)
        got = [f.read(f.read(1)[0]).decode() for _ in range(2)]
        if got != [self.user, self.password]:
            self.refused += 1
            conn.sendall(b"\1\1")
            return None
        conn.sendall(b"\1\0")
        kind = f.read(4)[3]
        host = f.read(f.read(1)[0]).decode() if kind == 3 else socket.inet_ntoa(f.read(4))
        return host, int.from_bytes(f.read(2), "big")

    @staticmethod
    def answer(conn, good):
        conn.sendall(b"\5%c\0\1\0\0\0\0\0\0" % (0 if good else 5))


def splice(a, b):
    """Bytes both ways until both have ended."""
    def one(x, y):
        with contextlib.suppress(OSError):
            while data := x.recv(65536):
                y.sendall(data)
        with contextlib.suppress(OSError):
            y.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=one, args=(a, b), daemon=True)
    t.start()
    one(b, a)
    t.join()
