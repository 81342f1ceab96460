# SPDX-License-Identifier: Apache-2.0
"""Identities, worlds and sandboxes for the escape suite.

A world is a directory and a process (`probe world`) of one identity, with everything that a sandbox must not
reach. Each identity has two: "in", which is shown to sandboxes and must stay as it was, and "out", on which the
same probes run without a sandbox and must succeed. What really happened to a world is read here, outside, from its
files and its counters; a sandbox is never believed.
"""

import fcntl
import hashlib
import os
import pty
import re
import secrets
import select
import shutil
import socket
import stat
import struct
import subprocess
import termios
import time

from coffertest import give_sub_ids, sanitizer_env, slow_build, write_sub_ids

FS_IOC_GETFLAGS = 0x80086601
TIMEOUT = 150 * slow_build()  # seconds for all probes of one batch
LINE = re.compile(r"probe (\S+): (held|BROKEN|asks|n/a|ERROR|info) ?(.*)$")
PROLOGUE = b"PROLOGUE: printed before the sandbox began\n"
WS_FILES = ("write.txt", "truncate.txt", "unlink.txt", "chmod.txt", "rename.txt", "write-me-not.txt", "xattr.txt",
            "mmap.txt", "reopen.txt", "flags.txt")


class Identity:
    """The identity that runs coffer: the host's root, an ordinary user, or that user inside a user namespace of his own."""

    def __init__(self, name, uid, gid, in_userns=False, engine="ns"):
        self.name, self.uid, self.gid, self.in_userns, self.engine = name, uid, gid, in_userns, engine
        self.holder = None
        self.etc = None  # where the files are that give him subordinate ids, in a mount namespace of ours

    def label(self):
        return self.name if self.engine == "ns" else f"{self.name} {self.engine}"

    def become(self, sub_ids):
        if sub_ids:
            give_sub_ids(self.etc)
        os.setgroups([self.gid, 60003])
        os.setgid(self.gid)
        os.setuid(self.uid)

    def popen(self, argv, preexec_fn=None, **kw):
        if self.in_userns:
            if self.holder is None:
                argv = ["unshare", "-Ur", "--"] + argv
            else:
                argv = ["nsenter", "-t", str(self.holder), "-U", "--preserve-credentials", "--"] + argv

        sub_ids = self.etc and os.path.basename(argv[0]) == "coffer"

        def before_exec():
            if os.getuid() == 0:
                self.become(sub_ids)
            if preexec_fn:
                preexec_fn()
        return subprocess.Popen(argv, preexec_fn=before_exec, **kw)

    def own(self, path):
        if os.getuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


class World:
    """A directory with files to attack and a process that counts."""

    def __init__(self, identity, path, probe):
        self.identity, self.path, self.secret = identity, path, "COFFER-SECRET-" + secrets.token_hex(12)
        self.planted = os.getuid() == 0
        self._make_files(probe)
        env = dict(os.environ, WORLD_SECRET=self.secret)
        self.proc = identity.popen([probe, "world", path, self.secret], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=env, cwd="/", text=True)
        if identity.in_userns and identity.holder is None:
            identity.holder = self.proc.pid
        self.params = {}
        for line in self.proc.stdout:
            if line == "ready\n":
                break
            key, _, value = line.rstrip("\n").partition("=")
            self.params[key] = value
        else:
            raise RuntimeError("the world did not begin")
        self.params.update(secret_file=self.at("host/secret.txt"), write_file=self.at("host/write.txt"),
                           host_dir=self.at("host"), home=self.at("home"), state=self.at("state"))
        if self.planted:
            self.params["planted"] = "1"
        self.baseline()

    def at(self, *parts):
        return os.path.join(self.path, *parts)

    def _write(self, name, text, mode=0o644):
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)

    def _make_files(self, probe):
        for d in ("host", "home", "ws/.git", "ws/sub/dir", "ws/sub2", "ro/sub", "rw", "nest/in", "state"):
            os.makedirs(self.at(d), exist_ok=True)
        os.chmod(self.at("state"), 0o700)
        secret = self.secret + "\n"
        for name in ("host/secret.txt", "home/.ssh/id_ed25519", "home/.bash_history", "home/.aws/credentials"):
            self._write(name, secret)
        for name in ("write.txt", "unlink-me", "hard.txt", "link-target.txt", "inherited.txt", "stdin.txt"):
            self._write("host/" + name, "as it was\n")
        for name in WS_FILES:
            self._write("ws/" + name, "as it was\n" * 500)
        for name in (".env", ".env.local", ".env.production", "sub/dir/.env", "sub2/.env"):
            self._write("ws/" + name, "API_TOKEN=" + secret)
        self._write("ws/.npmrc", "//registry.npmjs.org/:_authToken=" + secret)
        self._write("ws/server.pem", f"-----BEGIN PRIVATE KEY-----\n{secret}-----END PRIVATE KEY-----\n")
        self._write("ws/.git/config", f'[remote "origin"]\n\turl = https://user:{self.secret}@example.org/r.git\n')
        self._write("ro/file.txt", "as it was\n")
        os.symlink(self.at("host/secret.txt"), self.at("ws/link-abs"))
        os.symlink("../host/secret.txt", self.at("ws/link-rel"))
        os.symlink("../host/secret.txt", self.at("ro/link-rel"))
        os.symlink("../host/link-target.txt", self.at("ws/link-write"))
        os.link(self.at("host/hard.txt"), self.at("ws/hard.txt"))
        shutil.copy(probe, self.at("ws/probe"))
        for root, dirs, files in os.walk(self.path):
            for name in dirs + files:
                self.identity.own(os.path.join(root, name))
        self.identity.own(self.path)
        if self.planted:
            self._plant(probe)

    def _plant(self, probe):
        """Entries that only root can leave in a workspace: a device, a setuid program of somebody else, a file capability."""
        os.mknod(self.at("ws/device"), stat.S_IFCHR | 0o666, os.makedev(1, 8))
        os.chmod(self.at("ws/device"), 0o666)
        for name in ("suid", "fcap"):
            shutil.copy(probe, self.at("ws", name))
        os.chown(self.at("ws/suid"), 0 if self.identity.uid else 60001, 0 if self.identity.uid else 60001)
        os.chmod(self.at("ws/suid"), 0o6755)
        os.chmod(self.at("ws/fcap"), 0o755)
        cap = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
        try:
            os.setxattr(self.at("ws/fcap"), "security.capability", cap)
        except OSError:
            os.unlink(self.at("ws/fcap"))

    def write_params(self, inside):
        where = ({"ro": "/ro", "rw": "/rw", "nest": "/nest", "nest_in": "/nest-in"} if inside else
                 {"ro": self.at("ro"), "rw": self.at("rw"), "nest": self.at("nest"), "nest_in": self.at("nest/in")})
        with open(self.at("ws/params"), "w", encoding="utf-8") as f:
            for key, value in {**self.params, **where}.items():
                f.write(f"{key}={value}\n")

    def counters(self):
        self.proc.stdin.write("events\n")
        self.proc.stdin.flush()
        counts = {}
        for line in self.proc.stdout:
            if line == "end\n":
                return counts
            name, n = line.split()
            counts[name] = counts.get(name, 0) + int(n)
        raise RuntimeError("the world's process is gone")

    def _snap(self, path):
        try:
            st = os.lstat(path)
        except FileNotFoundError:
            return None
        what = [st.st_mode, st.st_uid, st.st_gid, st.st_nlink]
        if stat.S_ISLNK(st.st_mode):
            what.append(os.readlink(path))
        if stat.S_ISREG(st.st_mode):
            what += [st.st_size, st.st_mtime_ns, tuple(sorted(os.listxattr(path)))]
            with open(path, "rb") as f:
                what.append(hashlib.sha256(f.read()).hexdigest())
                try:
                    what.append(struct.unpack("i", fcntl.ioctl(f, FS_IOC_GETFLAGS, b"\0\0\0\0")[:4])[0])
                except OSError:
                    pass
        return tuple(what)

    def files(self):
        """Everything of the world but what a sandbox may write to: the read-write binds and coffer's state."""
        seen = {}
        for root, dirs, names in os.walk(self.path):
            if root == self.path:
                dirs[:] = [d for d in dirs if d not in ("state", "rw", "nest")]
            for name in dirs + names:
                path = os.path.join(root, name)
                seen[os.path.relpath(path, self.path)] = self._snap(path)
        seen.pop("ws/params", None)
        return seen

    def baseline(self):
        self.was_counted, self.was_files = self.counters(), self.files()

    def happened(self):
        """Events since the baseline, by name."""
        now, files = self.counters(), self.files()
        events = {k for k, n in now.items() if n != self.was_counted.get(k, 0)}
        for name in set(files) | set(self.was_files):
            if files.get(name) != self.was_files.get(name):
                events.add("file:" + name)
                events.add("flags:" + name)
        return events

    def setuid_left(self, capabilities):
        """Files in what was bound read-write that would give their next user more than he has."""
        bad = []
        for top in ("rw", "nest"):
            for root, dirs, names in os.walk(self.at(top)):
                for name in dirs + names:
                    path = os.path.join(root, name)
                    st = os.lstat(path)
                    special = stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode)
                    caps = capabilities and stat.S_ISREG(st.st_mode) and "security.capability" in os.listxattr(path)
                    if special or caps or st.st_mode & (stat.S_ISUID | stat.S_ISGID):
                        bad.append(f"{os.path.relpath(path, self.path)} {stat.filemode(st.st_mode)}")
        return bad

    def alive(self):
        return self.proc.poll() is None

    def close(self):
        try:
            self.proc.stdin.close()
            self.proc.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self.proc.kill()
            self.proc.wait()


class Batch:
    """Probes run in one process tree with what a careless caller leaves open, and what came of each."""

    def __init__(self):
        self.verdicts, self.text, self.status = {}, "", None
        self.events = set()

    def parse(self, raw):
        self.text = raw
        for line in raw.splitlines():
            m = LINE.search(line.strip())  # a terminal echoes what was typed into it
            if m:
                self.verdicts[m.group(1)] = (m.group(2), m.group(3).strip("()") if m.group(2) == "held" else m.group(3))


def run_plain(world, argv, env, timeout):
    """stdin is a file opened for reading, stdout one that already holds text; many descriptors are left open."""
    batch = Batch()
    sock, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    far.setblocking(False)
    out_path = world.at("..", f"stdout-{secrets.token_hex(4)}")
    opened = [os.open(world.at("host"), os.O_RDONLY | os.O_DIRECTORY), os.open("/", os.O_PATH | os.O_DIRECTORY),
              os.open(world.at("host/inherited.txt"), os.O_WRONLY | os.O_APPEND), sock.fileno()]
    opened += [fcntl.fcntl(opened[i % 4], fcntl.F_DUPFD, 20 + i) for i in range(30)]
    with open(world.at("host/stdin.txt"), "rb") as stdin, open(out_path, "wb+") as stdout:
        world.identity.own(out_path)
        stdout.write(PROLOGUE)
        stdout.flush()
        p = world.identity.popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.STDOUT, pass_fds=opened, env=env,
                                 cwd=world.at("ws"))
        try:
            batch.status = p.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        stdout.seek(0)
        raw = stdout.read()
    os.unlink(out_path)
    for fd in opened[4:] + opened[:3]:
        os.close(fd)
    if not raw.startswith(PROLOGUE):
        batch.events.add("stdout")
    try:
        if far.recv(64):
            batch.events.add("inherited_socket")
    except BlockingIOError:
        pass
    sock.close()
    far.close()
    batch.parse(raw.decode("utf-8", "replace"))
    return batch


def run_tty(world, argv, env, timeout):
    """A terminal as stdin, stdout and stderr, and as the controlling terminal."""
    batch = Batch()
    master, slave = pty.openpty()
    if os.getuid() == 0:
        os.fchown(slave, world.identity.uid, world.identity.gid)
    before = termios.tcgetattr(slave)

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    p = world.identity.popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=world.at("ws"),
                             preexec_fn=take_terminal)
    raw, end = b"", time.monotonic() + timeout
    while time.monotonic() < end:
        ready = select.select([master], [], [], 0.05)[0]
        if ready:
            raw += os.read(master, 65536)
        elif p.poll() is not None:
            break
    if p.poll() is None:
        p.kill()
    batch.status = p.wait()
    if termios.tcgetattr(slave) != before:
        batch.events.add("tty_settings")
    os.set_blocking(slave, False)
    mode = termios.tcgetattr(slave)
    mode[3] &= ~termios.ICANON
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    try:
        if os.read(slave, 4096):
            batch.events.add("tty_input")
    except BlockingIOError:
        pass
    os.close(master)
    os.close(slave)
    batch.parse(raw.decode("utf-8", "replace"))
    return batch


class Setup:
    """One identity's programs and worlds."""

    def __init__(self, identity, base, build):
        self.identity, self.dir = identity, os.path.join(base, f"{identity.name}-{identity.engine}")
        os.makedirs(os.path.join(self.dir, "bin"))
        if identity.engine == "gvisor" and identity.name == "user" and os.getuid() == 0:
            identity.etc = os.path.join(self.dir, "etc")
            write_sub_ids(identity.etc, identity.uid, identity.gid)
        # In a user namespace root's own files are nobody's: runsc is trusted there only if coffer comes from the same hand.
        installed = identity.engine == "gvisor" and identity.in_userns
        for name in ("coffer", "coffer-init", "coffer-egress", "coffer-dial", "coffer-netd", "tests/escape/probe"):
            path = os.path.join(self.dir, "bin", os.path.basename(name))
            shutil.copy(os.path.join(build, name), path)
            if not installed or name.endswith("probe"):
                identity.own(path)
        if not installed:
            identity.own(os.path.join(self.dir, "bin"))
        identity.own(self.dir)
        self.coffer, self.probe = self.bin("coffer"), self.bin("probe")
        self.inside = World(identity, os.path.join(self.dir, "in"), self.probe)
        self.outside = World(identity, os.path.join(self.dir, "out"), self.probe)
        self.programs = self.digest()

    def bin(self, name):
        return os.path.join(self.dir, "bin", name)

    @staticmethod
    def listing(root):
        """Every entry below a directory with what would tell that it was touched."""
        return {(base, n, s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns, s.st_nlink) for base, dirs, files in os.walk(root)
                for n in dirs + files for s in [os.lstat(os.path.join(base, n))]}

    def root_dir(self):
        """A root file system for --root: a shell, a setuid copy of the probe, links that lead to the host."""
        root = os.path.join(self.dir, "root")
        for d in ("bin", "usr/bin", "etc", "root", "tmp", "var/tmp", "home"):
            os.makedirs(os.path.join(root, d))
        busybox = next((p for p in ("/bin/busybox", "/usr/bin/busybox", "/sbin/busybox") if os.path.exists(p)), None)
        for src, dst in ((busybox, "bin/sh"), (busybox, "bin/true"), (busybox, "bin/sleep"), (self.probe, "bin/probe")):
            if src:
                shutil.copy(src, os.path.join(root, dst))
        with open(os.path.join(root, "etc/passwd"), "w", encoding="ascii") as f:
            f.write("root:x:0:0::/root:/bin/sh\n")
        os.symlink(self.inside.at("host"), os.path.join(root, "etc/resolv.conf"))
        os.symlink("/proc/1/root" + self.inside.at("host"), os.path.join(root, "srv"))
        for base, dirs, files in os.walk(root):
            for n in dirs + files:
                self.identity.own(os.path.join(base, n))
        self.identity.own(root)
        os.chmod(os.path.join(root, "bin/probe"), 0o6755)
        return root

    def digest(self):
        d = {}
        for name in os.listdir(os.path.join(self.dir, "bin")):
            with open(self.bin(name), "rb") as f:
                d[name] = hashlib.sha256(f.read()).hexdigest()
        return d

    def env(self, world):
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": world.at("home"), "USER": "tester",
                "TERM": "xterm", "LANG": "C.UTF-8", "COFFER_STATE": world.at("state"),
                "COFFER_ENGINE": self.identity.engine,
                "COFFER_ESCAPE_TOKEN": world.secret, "SSH_AUTH_SOCK": world.at("host/daemon.sock"),
                "AWS_SECRET_ACCESS_KEY": world.secret, **sanitizer_env()}

    def sandbox_argv(self, *options):
        w = self.inside
        return [self.coffer, "run", "-C", w.at("ws"), "-v", w.at("ro") + ":/ro:ro", "-v", w.at("rw") + ":/rw:rw",
                "-v", w.at("nest") + ":/nest:rw", "-v", w.at("nest/in") + ":/nest-in:rw", *options, "--"]

    def run_inside(self, names, options=(), tty=False):
        w = self.inside
        w.write_params(inside=True)
        w.baseline()
        run = run_tty if tty else run_plain
        batch = run(w, self.sandbox_argv(*options) + ["./probe", "run", "params", *names], self.env(w), TIMEOUT)
        batch.events |= w.happened()
        return batch

    def coffer_quietly(self, *args):
        w = self.inside
        p = self.identity.popen([self.coffer, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env=self.env(w), cwd=w.at("ws"), text=True, errors="replace")
        out = p.communicate(timeout=TIMEOUT)[0]
        return p.returncode, out

    def run_exec(self, names):
        """The same by `coffer exec` in a sandbox that runs already."""
        w, name = self.inside, f"escape-{self.identity.name}"
        w.write_params(inside=True)
        w.baseline()
        argv = self.sandbox_argv("-d", "--name", name)
        code, out = self.coffer_quietly(*argv[1:], "/bin/sleep", "600")
        batch = Batch()
        if code == 0:
            batch = run_plain(w, [self.coffer, "exec", name, "--", "./probe", "run", "params", *names], self.env(w),
                              TIMEOUT)
        else:
            batch.text = out
        self.coffer_quietly("stop", name)
        self.coffer_quietly("rm", name)
        batch.events |= w.happened()
        return batch

    def run_outside(self, names, tty=False):
        w = self.outside
        w.write_params(inside=False)
        w.baseline()
        run = run_tty if tty else run_plain
        batch = run(w, [self.probe, "control", "params", *names], self.env(w), TIMEOUT)
        batch.events |= w.happened()
        return batch

    def close(self):
        self.outside.close()
        self.inside.close()


# Not part of the wall, and said so in SECURITY.md: whoever binds a directory gives the sockets below it along.
GIVEN_ALONG = {"ro_socket": "a socket deep in a directory that was bound can be reached"}


def settle(batch, name):
    """The verdict on one probe, with what it asked the world answered by the world."""
    kind, text = batch.verdicts.get(name, ("ERROR", "the probe did not run"))
    if kind == "asks" and text in GIVEN_ALONG and text in batch.events:
        return "info", GIVEN_ALONG[text]
    if kind == "asks":
        return ("BROKEN", f"{text} happened outside") if text in batch.events else ("held", f"no {text} outside")
    return kind, text
