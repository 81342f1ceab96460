# SPDX-License-Identifier: Apache-2.0
"""Clients that say exactly what they are told, to the byte: HTTP/1.1, and frames of HTTP/2."""

import socket
import ssl
import struct

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
CALM = 11  # ENHANCE_YOUR_CALM


def tls(s, host, ca, alpn):
    ctx = ssl.create_default_context(cafile=ca)
    ctx.set_alpn_protocols([alpn])
    return ctx.wrap_socket(s, server_hostname=host)


class H1:
    def __init__(self, s):
        self.s, self.f = s, s.makefile("rb")

    def send(self, data):
        self.s.sendall(data)
        return self

    def answer(self):
        """(status, body) of an answer with a length; (0, b"") when there is none."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.f.readline()
            if not line:
                return 0, b""
            head += line
        n = next((int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
        return int(head.split(b" ")[1]), self.f.read(n)

    def ask(self, text):
        try:
            return self.send(text).answer()
        except OSError:
            return 0, b""

    def is_ended(self):
        """Reads to the end, which comes."""
        try:
            while self.s.recv(65536):
                pass
        except socket.timeout:
            return False
        except OSError:
            pass
        return True

    def close(self):
        self.f.close()
        self.s.close()


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(n, bits, first):
    """An integer of HPACK."""
    top = (1 << bits) - 1
    if n < top:
        return bytes([first | n])
    out, n = bytes([first | top]), n - top
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def literal(name, value, first=0):
    """A field, not indexed unless `first` is 0x40."""
    name, value = (x if isinstance(x, bytes) else x.encode("latin-1") for x in (name, value))
    return bytes([first]) + number(len(name), 7, 0) + name + number(len(value), 7, 0) + value


def path_of(n):
    """A :path of "/" and n times "a" as it goes over the wire in Huffman's code, which has an "a" in five bits."""
    bits = "011000" + "00011" * n
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big")
    return bytes([0x04]) + number(len(data), 7, 0x80) + data  # its name is number 4 of the static table


class H2(H1):
    def __init__(self, s, host, settings=b""):
        super().__init__(s)
        self.host, self.next, self.seen = host, 1, []
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, payload=settings))

    def block(self, path="/", method="GET", more=()):
        fields = [(":method", method), (":scheme", "https"), (":authority", self.host), (":path", path), *more]
        return b"".join(literal(*f) for f in fields)

    def headers(self, block, end=True):
        """Begins a stream; its number. A block that is too long for one frame goes on in others."""
        stream, self.next = self.next, self.next + 2
        parts = [block[i:i + 16384] for i in range(0, len(block), 16384)]
        for i, part in enumerate(parts):
            flags = (END_HEADERS if i == len(parts) - 1 else 0) | (END_STREAM if end and i == 0 else 0)
            self.send(frame(CONTINUATION if i else HEADERS, flags, stream, part))
        return stream

    def read(self):
        """The next frame: (type, flags, stream, payload), or None at the end."""
        try:
            head = self.f.read(9)
            if len(head) < 9:
                return None
            n = int.from_bytes(head[:3], "big")
            got = head[3], head[4], int.from_bytes(head[5:], "big"), self.f.read(n)
        except socket.timeout:
            raise
        except OSError:
            return None
        self.seen.append(got)
        if got[0] == SETTINGS and not got[1] & 1:
            try:
                self.send(frame(SETTINGS, 1))
            except OSError:
                pass
        return got

    def status(self, stream):
        """Of that stream's answer: True for 200, False for any other or a reset, None when the connection ended first."""
        while True:
            f = self.read()
            if f is None or f[0] == GOAWAY:
                return None
            if f[2] == stream and f[0] == RST:
                return False
            if f[2] == stream and f[0] == HEADERS:
                block = f[3]
                while block and block[0] & 0xe0 == 0x20:  # a table's new size
                    block = block[1:]
                return block[:1] == b"\x88"

    def is_reset(self, stream):
        """Reads until that stream is reset, or all of it has ended."""
        while (f := self.read()) is not None and not (f[2] == stream and f[0] == RST) and f[0] != GOAWAY:
            pass
        return True

    def get(self, path="/", **kw):
        return self.status(self.headers(self.block(path, **kw)))

    def why_gone(self):
        """The error of the GOAWAY that ends it; None when there was none, -1 when it did not end."""
        code = None
        try:
            while (f := self.read()) is not None:
                if f[0] == GOAWAY:
                    code = int.from_bytes(f[3][4:8], "big")
        except socket.timeout:
            return -1
        return code
