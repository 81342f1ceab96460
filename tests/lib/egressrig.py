# SPDX-License-Identifier: Apache-2.0
"""The real coffer-egress behind a real wall, without a sandbox: for tests and benches of that program alone.

    egressrig.enter()                       # into a network namespace of our own (unshare, user and net)
    with Rig(["allow=example.test:443"]) as rig:
        rig.dial["example.test"] = ("127.0.0.1", port)      # what the stand-in for coffer-dial connects to
        addr = rig.lookup("example.test")
        ...
        rig.events("open", name="example.test")             # lines of the journal, waited for

The policy is written in the words of tests/lib/mkbundle.c. In the namespace every address is local and all TCP but that to
127.0.0.0/8 and OWN ends at coffer-egress, as in a sandbox; so a server of the test's own stands on 127.0.0.1.
"""

import array
import ctypes
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from coffertest import BUILD, sanitizer_env, slow_build
from netprobe import client_hello, parse, query  # noqa: F401

PATIENCE = 90 * slow_build()
OWN = "10.0.2.15"
CTL_NEW_BUNDLE, CTL_STATS, CTL_QUIT, CTL_PING, CTL_NEW_DIAL, CTL_NEW_VAULT = 1, 2, 3, 4, 5, 6
CTL_OK, CTL_ERROR, CTL_READY, CTL_CA, CTL_FAIL, CTL_FOLD = 101, 102, 103, 104, 105, 106
VAULT_RENDER, VAULT_RENDERED, VAULT_REFUSED = 1, 32, 33
REQ, REP, CANCEL, FAULT = 1, 2, 3, 4
RESOLVE_ONLY = 1
ENOENT, EACCES = 2, 13


def enter():
    """Runs this program again in a user and network namespace of its own, and builds the wall there."""
    if os.environ.get("EGRESSRIG") != "1":
        os.environ["EGRESSRIG"] = "1"
        os.execvp("unshare", ["unshare", "-Urn", sys.executable] + sys.argv)
    for cmd in ("ip link set lo up", f"ip addr add {OWN}/32 dev lo",
                f"ip route add local default dev lo table local src {OWN}",
                "ip -6 route add local default dev lo table local"):
        subprocess.run(cmd.split(), check=True)
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=f"""
        table inet rig {{
            chain pre {{
                type filter hook prerouting priority mangle;
                ip daddr {{ 127.0.0.0/8, {OWN} }} accept
                ip6 daddr ::1 accept
                tcp dport 53 accept
                meta l4proto tcp tproxy to :15001
            }}
        }}""")


def wait_for(what, condition):
    """The first true value of condition()."""
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.01)


def memfd(name, data=b"", seal=False):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if data:
        os.write(fd, data)
    if seal:
        import fcntl
        fcntl.fcntl(fd, 1033, 0xf)  # F_ADD_SEALS: all of them
    return fd


def bundle(words, gen=1, build=BUILD):
    """From the words of mkbundle.c, or from YAML when it is one text."""
    if isinstance(words, str):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(words)
            f.flush()
            r = subprocess.run([os.path.join(build, "tests/mkpolicy"), str(gen), f.name], stdout=subprocess.PIPE, check=True)
        return memfd("bundle", r.stdout, seal=True)
    r = subprocess.run([os.path.join(build, "tests/mkbundle"), f"gen={gen}"] + list(words), stdout=subprocess.PIPE, check=True)
    return memfd("bundle", r.stdout, seal=True)


def listener(family, port, transparent=False, backlog=4096):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if transparent:
        s.setsockopt(socket.SOL_IP, 19, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, 75, 1)
    s.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
    s.listen(backlog)
    return s


class FakeDial(threading.Thread):
    """Stands in for coffer-dial: names to addresses, errno numbers, or None (it never answers)."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock, self.names, self.requests, self.held, self.cancelled = sock, {}, [], [], []
        self.resolved = None  # what DIAL_RESOLVE_ONLY says of names that are not in the table; None: ENOENT

    def reply(self, ident, status, fd=None, why=""):
        msg = struct.pack("<IIiII16s64s160s", REP, ident, status, 60, 0, b"", b"", why.encode())
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        try:
            self.sock.sendmsg([msg], anc)
        except OSError:
            pass

    def connect(self, ident, target):
        s = socket.socket()
        try:
            s.connect(target)
            s.setblocking(False)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.reply(ident, 0, s.fileno())
        except OSError as e:
            self.reply(ident, -e.errno, why=e.strerror)
        finally:
            s.close()

    def handle(self, msg):
        kind, ident = struct.unpack_from("<II", msg)
        if kind == CANCEL:
            self.cancelled.append(ident)
            if ident in self.held:
                self.held.remove(ident)
                self.reply(ident, -125)
            return
        if kind != REQ:
            return
        _, _, gen, port, hkind, flags = struct.unpack_from("<IIIHBB", msg)
        host = msg[16:16 + 256].split(b"\0")[0].decode() or socket.inet_ntop(socket.AF_INET6, msg[272:288])
        host = host.replace("::ffff:", "")
        self.requests.append((host, port, flags))
        target = self.names.get((host, port), self.names.get(host, -ENOENT))
        if target is None:
            self.held.append(ident)
        elif isinstance(target, int):
            self.reply(ident, target, why="it is said so")
        elif flags & RESOLVE_ONLY:
            self.reply(ident, 0)
        else:
            self.connect(ident, target)

    def run(self):
        while True:
            try:
                msg = self.sock.recv(4096)
            except OSError:
                return
            if not msg:
                return
            self.handle(msg)


class FakeVault(threading.Thread):
    """Stands in for coffer-vault on a client's channel: handles to bytes; `refuse` says why it does not; `held` keeps answers."""

    def __init__(self, values):
        super().__init__(daemon=True)
        self.end, self.sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.values, self.requests, self.refuse, self.hold, self.held = values, [], None, False, []
        self.start()

    @staticmethod
    def pack(kind, ident, status, text):
        return struct.pack("<IIiI", kind, ident, status, 0) + struct.pack("<I", len(text)) + text

    def handle(self, msg):
        kind, ident, _, _, handle, port = struct.unpack_from("<IIiIQQ", msg)
        n = struct.unpack_from("<I", msg, 32)[0]
        host, rest = msg[36:36 + n].decode(), msg[36 + n:]
        path = rest[4:].decode()
        assert kind == VAULT_RENDER, kind
        self.requests.append((handle, host, port, path))
        answer = self.pack(VAULT_REFUSED, ident, -EACCES, self.refuse.encode()) if self.refuse else \
            self.pack(VAULT_RENDERED, ident, 0, self.values[handle])
        if self.hold:
            self.held.append(answer)
        else:
            self.sock.send(answer)

    def run(self):
        while True:
            try:
                msg = self.sock.recv(70000)
            except OSError:
                return
            if not msg:
                return
            self.handle(msg)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def grants(*rows, by_line=0xffffffff, build=BUILD):
    """The list that coffer-egress is handed, in the words of mkgrants.c."""
    r = subprocess.run([os.path.join(build, "tests/mkgrants"), hex(by_line), *rows], stdout=subprocess.PIPE, check=True)
    return memfd("grants", r.stdout, seal=True)


def marked(seed, text):
    """A placeholder with the mark of a state directory that has this seed (64 digits of hex)."""
    r = subprocess.run([os.path.join(BUILD, "tests/mkgrants"), f"mark={seed}", text], stdout=subprocess.PIPE, check=True)
    return r.stdout.decode().strip()


class Rig:
    def __init__(self, words, names_fd=None, program=None, journal=None, store=None,
                 secrets=None, vault=None, build=BUILD):
        self.words, self.gen, self.build = words, 1, build
        self.secrets, self.vault = secrets, vault  # grants(), FakeVault
        self.store = store  # a PEM file: what servers are verified against
        self.ca_fd, self.ca = memfd("ca"), None  # what it inspects with, once it said so
        self.dir = tempfile.TemporaryDirectory(prefix="egressrig-")
        self.journal_path = os.path.join(self.dir.name, "journal")
        self.program = program or os.path.join(build, "coffer-egress")
        self.names_fd = names_fd if names_fd is not None else memfd("names")
        self.journal_fd = journal
        self.seen = []
        self.sockets = self.open_sockets()
        self.start()

    def open_sockets(self):
        return [listener(socket.AF_INET, 15001, True), listener(socket.AF_INET6, 15001, True),
                self.udp(socket.AF_INET), self.udp(socket.AF_INET6), listener(socket.AF_INET, 53), listener(socket.AF_INET6, 53)]

    def wall(self):
        """The wall as coffer-egress gets it: its sockets and nflog (7 to 13), and the messages of a forwarder (19)."""
        return [s.fileno() for s in self.sockets] + [None], None

    def udp(self, family):
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 53))
        return s

    def start(self):
        dial_end, dial = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control_end, self.control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        b = bundle(self.words, self.gen, self.build)
        j = self.journal_fd if self.journal_fd is not None else os.open(
            self.journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        sockets, messages = self.wall()
        store = os.open(self.store, os.O_RDONLY | os.O_CLOEXEC) if self.store else None
        fds = [b, j, dial_end.fileno(), control_end.fileno()] + sockets
        fds += [self.names_fd, self.ca_fd, store, self.secrets, self.vault.end.fileno() if self.vault else None, messages]
        mask = sum(1 << (3 + i) for i, fd in enumerate(fds) if fd is not None)
        pid = os.fork()
        if pid == 0:
            self.exec(fds, mask)
        self.pid = pid
        for fd in [b] + [j] * (self.journal_fd is None) + [store] * (store is not None):
            os.close(fd)
        control_end.close()
        dial_end.close()
        self.fake = FakeDial(dial)
        self.dial = self.fake.names
        self.fake.start()
        self.control.settimeout(PATIENCE)
        kind, _, text = self.read_control()
        if kind == CTL_CA:
            self.ca = text
            kind, _, text = self.read_control()
        assert kind == CTL_READY, (kind, text)

    def exec(self, fds, mask):
        try:
            null = os.open("/dev/null", os.O_RDWR)
            high = [fd if fd is not None else null for fd in fds]
            import fcntl
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in high]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
            os.closerange(3 + len(high), 4096)
            os.execve(self.program, ["coffer-egress", f"{mask:x}"], sanitizer_env())
        except BaseException as e:  # pylint: disable=broad-except
            print(f"# {e}", file=sys.stderr, flush=True)
        finally:
            os._exit(127)

    def read_control(self):
        kind = CTL_FOLD
        while kind == CTL_FOLD:
            msg = self.control.recv(70000)
            if not msg:
                return None, None, ""
            kind, gen = struct.unpack_from("<II", msg)
        return kind, gen, msg[8:].decode(errors="replace")

    def ask(self, kind, fd=None, gen=0):
        fds = [] if fd is None else fd if isinstance(fd, list) else [fd]
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([struct.pack("<II", kind, gen)], anc)
        return self.read_control()

    def stats(self):
        kind, _, text = self.ask(CTL_STATS)
        assert kind == CTL_STATS, (kind, text)
        return json.loads(text)

    def policy(self, words):
        self.words, self.gen = words, self.gen + 1
        b = bundle(words, self.gen, self.build)
        r = self.ask(CTL_NEW_BUNDLE, b, self.gen)
        os.close(b)
        return r

    def lines(self):
        with open(self.journal_path, encoding="utf-8") as f:
            text = f.read()
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def events(self, ev, n=1, **match):
        """At least n lines of this event with these members; waits for them."""
        def find():
            got = [e for e in self.lines() if e["ev"] == ev and all(e.get(k) == v for k, v in match.items())]
            return got if len(got) >= n else None
        try:
            return wait_for(f"{n} x {ev} {match}", find)
        except AssertionError as e:
            raise AssertionError(f"{e}; the journal has {self.lines()[-20:]}") from None

    def count(self, ev, **match):
        return len([e for e in self.lines() if e["ev"] == ev and all(e.get(k) == v for k, v in match.items())])

    def query(self, name, qtype=1, server="9.9.9.9", tcp=False, edns=True, raw=None):
        """A whole answer: (rcode, [addresses or names], message)."""
        msg = raw if raw is not None else query(name, qtype, edns)
        if tcp:
            with socket.create_connection((server, 53), PATIENCE) as s:
                s.sendall(struct.pack(">H", len(msg)) + msg)
                f = s.makefile("rb")
                n = struct.unpack(">H", f.read(2))[0]
                return parse(f.read(n))
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(PATIENCE)
            s.connect((server, 53))
            s.send(msg)
            return parse(s.recv(4096))

    def lookup(self, name):
        rcode, answers, _ = self.query(name)
        assert rcode == 0 and len(answers) == 1, (name, rcode, answers)
        return answers[0]

    def connect(self, addr, port, timeout=PATIENCE):
        return socket.create_connection((addr, port), timeout)

    def quit(self):
        try:
            self.control.send(struct.pack("<II", CTL_QUIT, 0))
        except OSError:
            pass
        return self.wait()

    def kill(self):
        os.kill(self.pid, 9)
        return self.wait()

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        self.control.close()
        return os.waitstatus_to_exitcode(status)

    def rss(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def cpu(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.pid:
            self.quit()
        for s in self.sockets:
            s.close()
        os.close(self.names_fd)
        os.close(self.ca_fd)
        self.fake.sock.close()
        self.dir.cleanup()


class Server(threading.Thread):
    """Listens on 127.0.0.1 and gives each connection to handler(sock) in a thread of its own; echoes by default."""

    def __init__(self, handler=None):
        super().__init__(daemon=True)
        self.s = socket.socket()
        self.s.bind(("127.0.0.1", 0))
        self.s.listen(512)
        self.addr = self.s.getsockname()
        self.handler = handler or self.echo
        self.accepted = 0
        self.start()

    @staticmethod
    def echo(c):
        while True:
            data = c.recv(65536)
            if not data:
                return
            c.sendall(data)

    def serve(self, c):
        try:
            self.handler(c)
        except OSError:
            pass
        finally:
            c.close()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()
