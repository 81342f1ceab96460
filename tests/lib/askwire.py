# SPDX-License-Identifier: Apache-2.0
"""The socket of a run's questions (src/approval/wire/askproto.h), spoken by the test itself: no process for each answer."""

import json
import os
import socket
import struct
import threading

LIST, FOLLOW, SHOW, ANSWER = 1, 2, 3, 4
ASK, DONE, ERROR = 65, 66, 67
HEAD = struct.Struct("<IBBHI")


def pack(kind, body):
    data = json.dumps(body).encode()
    return HEAD.pack(len(data), kind, 0, 0, 0) + data


class Wire:
    """One connection to runs/ID/asks.sock."""

    def __init__(self, state, run):
        self.s = socket.socket(socket.AF_UNIX)
        # A path below a long temporary directory may be longer than an address.
        d = os.open(os.path.join(state, "runs", run), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.s.connect(f"/proc/self/fd/{d}/asks.sock")
        finally:
            os.close(d)
        self.f = self.s.makefile("rb")

    def send(self, kind, body):
        self.s.sendall(pack(kind, body))

    def read(self):
        """(type, object); None at the end."""
        head = self.f.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        n, kind = HEAD.unpack(head)[:2]
        return kind, json.loads(self.f.read(n))

    def request(self, kind, body):
        """The questions of the answer; RuntimeError with the server's words."""
        self.send(kind, body)
        got = []
        while (f := self.read()) is not None:
            if f[0] == ERROR:
                raise RuntimeError(f[1]["message"])
            if f[0] == DONE:
                return got
            got.append(f[1])
        raise RuntimeError("the server closed the connection")

    def list(self, everything=True):
        return self.request(LIST, {"all": everything})

    def answer(self, ask, allow, **more):
        body = {"id": ask["id"], "digest": ask["digest"], "allow": allow, "name": "tester", "via": "cli", **more}
        return self.request(ANSWER, {"scope": "once", **body} if allow else body)[0]

    def close(self):
        self.f.close()
        with_shutdown(self.s)


def with_shutdown(s):
    """Ends it also for a thread that reads from it."""
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    s.close()


class Approver(threading.Thread):
    """Follows the questions of one run, and answers each pending one once, as decide(ask) says: True, False, or None to leave it."""

    def __init__(self, state, run, decide):
        super().__init__(daemon=True)
        self.follow, self.wire, self.decide = Wire(state, run), Wire(state, run), decide
        self.answered, self.errors, self.seen = 0, [], set()
        self.start()

    def run(self):
        try:
            self.follow.send(FOLLOW, {"all": False})
            while (f := self.follow.read()) is not None:
                if f[0] == ASK and f[1]["state"] == "pending" and f[1]["id"] not in self.seen:
                    self.take(f[1])
        except (OSError, ValueError):
            pass

    def take(self, ask):
        allow = self.decide(ask)
        if allow is None:
            return
        self.seen.add(ask["id"])
        try:
            self.wire.answer(ask, allow)
            self.answered += 1
        except RuntimeError as e:
            self.errors.append(f"{ask['id']} {ask.get('path')}: {e}")

    def close(self):
        with_shutdown(self.follow.s)
        self.join()
        self.follow.f.close()
        self.wire.close()
