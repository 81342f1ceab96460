# SPDX-License-Identifier: Apache-2.0
"""Bytes of DNS and TLS by hand, and what comes back: for tests, and to be mounted into a sandbox that a test looks out of.
Needs nothing but Python's own library."""

import socket
import struct


def query(name, qtype=1, edns=True, ident=0x1234, klass=1):
    labels = b"".join(bytes([len(x)]) + x for x in name.encode("latin-1").split(b".") if x) + b"\0"
    opt = b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0) if edns else b""
    return struct.pack(">HHHHHH", ident, 0x0100, 1, 0, 0, 1 if edns else 0) + labels + struct.pack(">HH", qtype, klass) + opt


def read_name(msg, at):
    out = []
    while msg[at]:
        if msg[at] >= 0xc0:
            rest, _ = read_name(msg, struct.unpack_from(">H", msg, at)[0] & 0x3fff)
            return ".".join(out + [rest]), at + 2
        out.append(msg[at + 1:at + 1 + msg[at]].decode("latin-1"))
        at += 1 + msg[at]
    return ".".join(out), at + 1


def parse(msg):
    _, flags, qd, an, _, _ = struct.unpack_from(">HHHHHH", msg)
    at, answers = 12, []
    for _ in range(qd):
        _, at = read_name(msg, at)
        at += 4
    for _ in range(an):
        _, at = read_name(msg, at)
        kind, _, _, n = struct.unpack_from(">HHIH", msg, at)
        at += 10
        answers.append(socket.inet_ntoa(msg[at:at + 4]) if kind == 1 else read_name(msg, at)[0])
        at += n
    return flags & 15, answers, msg


def client_hello(name, pad=0):
    """A ClientHello with this name in it (None: no SNI) and `pad` bytes of padding."""
    exts = b""
    if name is not None:
        host = name.encode("latin-1")
        exts += struct.pack(">HHHBH", 0, len(host) + 5, len(host) + 3, 0, len(host)) + host
    exts += struct.pack(">HHB", 43, 3, 2) + b"\x03\x04"
    if pad:
        exts += struct.pack(">HH", 21, pad) + b"\0" * pad
    body = b"\x03\x03" + b"R" * 32 + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + struct.pack(">H", len(exts)) + exts
    msg = b"\x01" + struct.pack(">I", len(body))[1:] + body
    out = b""
    while msg:
        piece, msg = msg[:16384], msg[16384:]
        out += b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece
    return out


def ask(name, qtype=1, server="10.0.2.3", tcp=False, patience=25):
    """(rcode, answers) of one query."""
    msg = query(name, qtype)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(patience)
        s.connect((server, 53))
        s.sendall((struct.pack(">H", len(msg)) if tcp else b"") + msg)
        got = s.recv(4096)
        while tcp and (len(got) < 2 or len(got) < 2 + struct.unpack(">H", got[:2])[0]):
            got += s.recv(4096)
    return list(parse(got[2:] if tcp else got)[:2])


def say(addr, port, data, patience=25, step=0):
    """Everything that is answered to these bytes, and how it ended: [text, "end" or an error's name]."""
    got = bytearray()
    with socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET) as s:
        s.settimeout(patience)
        try:
            s.connect((addr, port))
            for i in range(0, len(data), step or len(data) or 1):
                s.sendall(data[i:i + (step or len(data))])
            while piece := s.recv(65536):
                got += piece
            how = "end"
        except OSError as e:
            how = type(e).__name__
    return [bytes(got).decode("latin-1"), how]
