# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the HTTP API: requests over its two kinds of sockets, bytes as they are, and many streams at once."""

import contextlib
import http.client
import json
import os
import re
import resource
import selectors
import socket
import time

from coffertest import free_port, slow_build  # noqa: F401

PATIENCE = 120
JSON = {"Content-Type": "application/json"}


def until(check, seconds=PATIENCE):
    """The first result of check() that is true."""
    deadline = time.monotonic() + seconds * slow_build()
    while True:
        got = check()
        if got or time.monotonic() > deadline:
            return got
        time.sleep(0.05)


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("coffer", timeout=PATIENCE * slow_build())
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE * slow_build())
        self.sock.connect(self.path)


def connection(where):
    """To a path, or to a port of this machine."""
    return Unix(where) if isinstance(where, str) else http.client.HTTPConnection("127.0.0.1", where, timeout=PATIENCE * slow_build())


def send(where, method, path, body=None, headers=None):
    """One request on a connection of its own: status, headers, body."""
    conn = connection(where)
    try:
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        conn.request(method, path, data, {**(JSON if body is not None else {}), **(headers or {})})
        r = conn.getresponse()
        return r.status, r.headers, r.read()
    finally:
        conn.close()


def raw(port, data, wait=PATIENCE):
    """Bytes as they are; all that comes back until the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait * slow_build()) as s:
        with contextlib.suppress(OSError):
            s.sendall(data)
        got = b""
        with contextlib.suppress(OSError):
            while chunk := s.recv(65536):
                got += chunk
        return got


def raise_files(want):
    """As many descriptors as that, where the machine lets us; how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < want and os.getuid() == 0:
        hard = want
    soft = want if hard == resource.RLIM_INFINITY else min(want, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def metric(sock, name):
    """One number of /v1/metrics; None: there is none."""
    text = send(sock, "GET", "/v1/metrics")[2].decode()
    m = re.search(rf"^{re.escape(name)} ([0-9.]+)$", text, re.M)
    return float(m[1]) if m else None


def child(pid, name):
    """The process of that name below another; None when there is none."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            for p in f.read().split():
                with open(f"/proc/{p}/comm", encoding="ascii") as comm:
                    if comm.read().strip() == name:
                        return int(p)
    return None


def resident(pid):
    """KiB in memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"^VmRSS:\s+(\d+)", f.read(), re.M)[1])


class Stream:
    """One client of /v1/events: what came, and which events that is."""

    def __init__(self, port, token, after=None, query="", mute=False):
        self.sock = socket.socket()
        if mute:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.data, self.ended, self.mute, self.forgets = b"", False, mute, False
        last = f"Last-Event-ID: {after}\r\n" if after is not None else ""
        self.sock.send(f"GET /v1/events{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{last}\r\n".encode())

    def read(self):
        try:
            got = self.sock.recv(262144)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self.data += got
        if self.forgets:  # what a thousand clients are sent is more than one test should hold
            self.data = self.data[-4096:]
        self.ended = not got

    @property
    def status(self):
        return int(self.data[9:12]) if b"\r\n\r\n" in self.data else None

    def ids(self):
        return [int(x) for x in re.findall(rb"^id: (\d+)$", self.data, re.M)]

    def close(self):
        self.sock.close()


class Crowd:
    """Many streams in one process."""

    def __init__(self):
        self.streams, self.sel = [], selectors.EpollSelector()

    def add(self, stream):
        self.streams.append(stream)
        self.sel.register(stream.sock, selectors.EVENT_READ, stream)

    def pump(self, done, seconds=PATIENCE):
        """Reads until done(); True when that was before the time was over. Those who are mute read no more than their head."""
        deadline = time.monotonic() + seconds * slow_build()
        while not done():
            if time.monotonic() > deadline:
                return False
            for key, _ in self.sel.select(0.5):
                key.data.read()
                if key.data.ended or (key.data.mute and key.data.status):
                    self.sel.unregister(key.data.sock)
        return True

    def reading(self):
        return [s for s in self.streams if not s.mute]

    def close(self):
        self.sel.close()
        for s in self.streams:
            s.close()
