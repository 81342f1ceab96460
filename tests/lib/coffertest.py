# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the command line.

    from coffertest import ENGINES, Tap, identities, coffer_as

    tap = Tap()
    for who in identities(tap, ENGINES):
        with coffer_as(who) as c:
            r = c("run", "--", "true")
            tap.eq(r.code, 0, f"{who}: true exits 0", r)
            c.check_clean(tap)
    tap.done()

`who` is "root", "user" or "userns", and shown with its engine where that is not ns.

Each Coffer has its own copy of the programs, its own state directory, home and TMPDIR below one temporary
directory, which goes when it ends.

Nothing that others do on the machine makes a check fail, and check_clean() finds what this test program left and nothing else:
- The test process is a subreaper: a process that a sandbox leaves behind becomes its child.
- As root it has a mount namespace of its own, in which all mounts are its own. Without root nobody can mount anything in it.
- As root it has a copy of /etc, so a useradd elsewhere does not take away a file that a test mounted over /etc/passwd.
- A control group is ours when a process below us is in it, or when our own log names the sandbox that the group is named after.
tests/cli/test_runner.py proves each of these, both ways.
"""

import collections
import contextlib
import ctypes
import functools
import glob
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
BUILD = os.path.abspath(os.environ.get("COFFER_BUILD", os.path.join(ROOT, "build")))
STARTERS = ("run", "exec", "shell", "cp", "call", "mcp", "rollback", "fork", "start", "restart")
TEST_UID = 20001  # an ordinary user who owns nothing on this machine and has no subordinate ids
SUB_IDS = (2000000, 65536)  # those that he is given in a mount namespace of our own where an engine wants them
ENGINES = tuple(os.environ.get("COFFER_ENGINES", "ns gvisor").split())  # one of them for trying something
VERDICTS = os.environ.get("COFFER_VERDICTS")  # a directory for what is known about runsc
FULL = os.environ.get("COFFER_FULL") == "1"  # make test-full: every story for every identity and engine
RUNSC = next((p for p in ("/usr/local/bin/runsc", "/usr/bin/runsc", "/usr/sbin/runsc") if os.path.exists(p)), None)
PR_SET_CHILD_SUBREAPER = 36

ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def private_mounts():
    """Gives the calling process a mount namespace whose changes nobody else sees, and that sees nobody else's."""
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec, ms_private = 0x20000, 16384, 1 << 18
    if libc.unshare(clone_newns) or libc.mount(None, b"/", None, ms_rec | ms_private, None):
        raise OSError(ctypes.get_errno(), "a private mount namespace")


def private_etc():
    """Gives it a copy of /etc as well. A mount over a file goes when anybody in any namespace replaces that file: useradd does so with
    /etc/passwd and a DHCP client with /etc/resolv.conf, over which tests mount their own."""
    libc = ctypes.CDLL(None, use_errno=True)
    ms_move, mnt_detach = 8192, 2
    place = os.fsencode(tempfile.mkdtemp(prefix="coffertest-etc-"))
    try:
        if libc.mount(b"none", place, b"tmpfs", 0, b"mode=0755"):
            raise OSError(ctypes.get_errno(), "a place for a copy of /etc")
        r = subprocess.run([b"cp", b"-a", b"/etc/.", place], stderr=subprocess.PIPE, check=False)
        if r.returncode or libc.mount(place, b"/etc", None, ms_move, None):
            libc.umount2(place, mnt_detach)
            raise OSError(ctypes.get_errno(), f"a copy of /etc: {r.stderr.decode(errors='replace')[-500:]}")
    finally:
        os.rmdir(place)


def is_whole_root():
    """Root of more than a user namespace with a few ids: that one cannot read all of /etc, nor mount over it for others."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        return os.getuid() == 0 and sum(int(line.split()[2]) for line in f) > 65535


if os.getuid() == 0:
    private_mounts()
if is_whole_root():
    private_etc()


def slow_build():
    """Sanitizer builds are several times slower; waits are scaled by this."""
    return float(os.environ.get("COFFER_SLOW", "1"))


@functools.lru_cache(None)
def sanitized():
    """Is the build a sanitizer's? Its programs have no seccomp list, for the sanitizer's runtime wants more calls than one allows."""
    with open(os.path.join(BUILD, "coffer"), "rb") as f:
        return b"__asan_init" in f.read()


def free_port():
    """A port of 127.0.0.1 that nobody has, and none of those that the kernel gives to connections: one may be gone by its use."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        low, high = map(int, f.read().split())
    ports = [p for p in range(10000, 65536) if not low <= p <= high] or range(10000, 65536)
    while True:
        port = secrets.choice(ports)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


LAST = collections.deque(maxlen=3)  # what was run last, and how it ended: for the check that fails then


def remember(what):
    """Something that a check which fails after it should show."""
    LAST.append(what)
    return what


def _tell_last(kind, error, where):
    """A test that stumbles over what was not there tells what was run before."""
    sys.__excepthook__(kind, error, where)
    for what in LAST:
        print("\n".join(f"# {line}" for line in str(what).splitlines()), flush=True)


sys.excepthook = _tell_last


class Tap:
    """Prints TAP. Every check is a line, in one piece: a thread that fails says so on the same pipe. A failed one shows what it got, and
    what was run last."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        threading.excepthook = self.on_thread

    def on_thread(self, args):
        text = "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))
        self.say(*(f"# {line}" for line in [f"{args.thread.name if args.thread else 'a thread'} failed", *text.splitlines()]))

    @staticmethod
    def say(*lines):
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def ok(self, good, name, *detail):
        self.count += 1
        name = re.sub(r"[\n#]", " ", name)
        lines = [f"{'ok' if good else 'not ok'} {self.count} - {name}"]
        if not good:
            self.failed += 1
            last = [x for x in LAST if all(x is not d for d in detail)]
            for d in (*detail, *(["run last:"] if last else []), *last):
                lines += [f"# {line}" for line in str(d).splitlines() or [""]]
        self.say(*lines)
        return bool(good)

    def eq(self, got, wanted, name, *detail):
        return self.ok(got == wanted, name, f"got    {got!r}", f"wanted {wanted!r}", *detail)

    def like(self, text, pattern, name, *detail):
        return self.ok(re.search(pattern, text, re.S | re.M), name, f"no match for {pattern!r} in:", text, *detail)

    def unlike(self, text, pattern, name, *detail):
        return self.ok(not re.search(pattern, text, re.S | re.M), name, f"a match for {pattern!r} in:", text, *detail)

    def skip(self, name, reason):
        self.count += 1
        self.say(f"ok {self.count} - {name} # SKIP {reason}")

    def note(self, text):
        self.say(*(f"# {line}" for line in str(text).splitlines()))

    def done(self):
        self.say(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    def __str__(self):
        return (f"$ {' '.join(map(str, self.args))[:400]}\nexit {self.code} after {self.seconds:.2f}s\n"
                f"--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-4000:]}")


def can_userns():
    """Can an ordinary user make a user namespace here at all?"""
    return subprocess.run(["unshare", "--user", "--map-root-user", "true"], preexec_fn=drop_to_test_user,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def drop_to(uid, gid):
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def drop_to_test_user():
    drop_to(TEST_UID, TEST_UID)


def user_with_subuids():
    """(uid, gid) of an ordinary user who has a range of subordinate ids, this one if it is not root; or None."""
    names = set()
    for path in ("/etc/subuid", "/etc/subgid"):
        try:
            with open(path, encoding="utf-8") as f:
                these = {line.split(":")[0] for line in f}
        except OSError:
            return None
        names = names & these if names else these
    users = sorted(u.pw_uid for u in pwd.getpwall()
                   if u.pw_name in names and u.pw_uid >= 1000 and os.getuid() in (0, u.pw_uid))
    return (users[0], pwd.getpwuid(users[0]).pw_gid) if users else None


class Who(str):
    """An identity by its name, which is what it compares as, and the engine that it is tried with."""

    def __new__(cls, name, engine="ns"):
        self = super().__new__(cls, name)
        self.engine = engine
        return self

    def __format__(self, spec):
        return format(str(self) if self.engine == "ns" else f"{str(self)} {self.engine}", spec)


def identities(tap=None, engines=("ns",)):
    """Every identity with every engine; what this machine cannot do is a loud skip."""
    names = plain_identities(tap)
    got = []
    for engine in engines:
        if engine == "gvisor" and not RUNSC:
            if tap:
                tap.skip("engine gvisor", "runsc is not installed: tools/deps runsc")
            continue
        for name in names:
            if engine == "gvisor" and name == "user" and os.getuid() != 0 and not user_with_subuids():
                if tap:
                    tap.skip("engine gvisor as user", "this user has no subordinate ids")
                continue
            got.append(Who(name, engine))
    return got


def covering(tap, engines=ENGINES, on_ns="root"):
    """[(who, whole)]: every identity with every engine, and whether it tells the whole story. For a story that is told outside of the
    sandbox, whose steps are the same whoever runs it in whatever: whole for root on ns (or for `on_ns`) and for a user on gvisor (for the
    first that is there where one of them is not), and short for the others: what starts, one request or the like, and check_clean(). Whole for all
    with make test-full. What the short form leaves out is not planned, so it is no skip."""
    everybody = identities(tap, engines)
    whole = []
    for engine, name in (("ns", on_ns), ("gvisor", "user")):
        on_it = [w for w in everybody if w.engine == engine]
        whole += ([w for w in on_it if w == name] or on_it)[:1]
    return [(w, FULL or any(w is x for x in whole)) for w in everybody]  # `is`: root is equal to root on the other engine


def plain_identities(tap=None):
    """root, user, userns: those that this process can take. One that it cannot is a loud skip."""
    got = []
    if os.getuid() == 0:
        got.append("root")
    elif tap:
        tap.skip("identity root", "the tests do not run as root")
    if can_userns():
        got += ["user", "userns"]
    elif tap:
        tap.skip("identities user and userns", "an ordinary user may not make user namespaces here")
    return got


def sanitizer_env(leaks=False):
    """The options of a sanitizer build. The leak checker attaches to its own process, which a launcher that has confined
    itself does not let anybody do: it is for verbs that start nothing."""
    e = {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_"))}
    if "ASAN_OPTIONS" in e and not leaks:
        e["ASAN_OPTIONS"] += ":detect_leaks=0"
    return e


def write_sub_ids(path, uid, gid):
    """The files of /etc that name a user and his subordinate ids, for give_sub_ids()."""
    os.mkdir(path, 0o755)
    ids = f"tester:{SUB_IDS[0]}:{SUB_IDS[1]}\n"
    for name, text in (("passwd", f"root:x:0:0::/root:/bin/sh\ntester:x:{uid}:{gid}::/:/bin/sh\n"), ("subuid", ids),
                       ("subgid", ids)):
        with open(os.path.join(path, name), "w", encoding="utf-8") as f:
            f.write(text)


def give_sub_ids(path):
    """In a mount namespace of the calling process alone: an account and a range of ids for the test user."""
    libc = ctypes.CDLL(None, use_errno=True)
    ms_bind = 4096
    private_mounts()
    for name in ("passwd", "subuid", "subgid"):
        if libc.mount(os.fsencode(os.path.join(path, name)), f"/etc/{name}".encode(), None, ms_bind, None):
            raise OSError(ctypes.get_errno(), f"a bind mount over /etc/{name}")


FAKE_RUNSC = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *how = HOW;

	if (!strcmp(how, "deaf"))
		sleep(1000);
	while (!strcmp(how, "flood"))
		puts("y");
	if (!strcmp(how, "red"))
		return puts("runsc \033[31mred") < 0;
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return puts(!strcmp(how, "old") ? "runsc version release-20221102.1" : "runsc version release-20990101.0") < 0;
	if (!strcmp(how, "old"))
		return fputs("flag provided but not defined: -directfs\n", stderr) < 0 ? 1 : 128;
	if (!strcmp(how, "quits"))
		return 0;
	if (!strcmp(how, "chatty"))
		for (int i = 0; i < 100000; i++)
			fputs("\033[31mI will not\007\n", stderr);
	if (fork() == 0 && fork() == 0)
		sleep(1000);
	sleep(!strcmp(how, "hang") ? 1000 : 0);
	return 1;
}
"""


def fake_runsc(c, how):
    """The path of a program that behaves like some runsc that does not work, in a directory that coffer trusts."""
    path = os.path.join(c.bin, "runsc-" + how)
    if not os.path.exists(path):
        subprocess.run(["cc", "-static", "-w", "-x", "c", f'-DHOW="{how}"', "-o", path, "-"], input=FAKE_RUNSC.encode(),
                       check=True)
    return path


class Coffer:
    """The coffer command as one identity, with everything it touches in one temporary directory."""

    def __init__(self, who=None, engine=None, user=(TEST_UID, TEST_UID), build=BUILD):
        self.who = who or ("root" if os.getuid() == 0 else "user")
        self.engine = engine or getattr(self.who, "engine", "ns")
        if self.who == "root" and os.getuid() != 0:
            raise RuntimeError("not root")
        self.dir = tempfile.mkdtemp(prefix="coffertest-")
        self.bin = os.path.join(self.dir, "bin")
        self.state = os.path.join(self.dir, "state")
        self.home = os.path.join(self.dir, "home")
        self.tmp = os.path.join(self.dir, "tmp")
        self.work = os.path.join(self.dir, "work")
        os.chmod(self.dir, 0o755)
        os.mkdir(self.bin, 0o755)
        for name in ("coffer", "coffer-init", "coffer-unpack", "coffer-egress", "coffer-dial", "coffer-netd",
                     "coffer-vault", "coffer-courier", "coffer-web", "cofferd"):
            if os.path.exists(os.path.join(build, name)):
                shutil.copy(os.path.join(build, name), os.path.join(self.bin, name))
        drops = self.who != "root" and os.getuid() == 0
        self.uid, self.gid = user if drops else (os.getuid(), os.getgid())
        for d in (self.home, self.tmp, self.work):
            os.mkdir(d, 0o755)
            self.own(d)
        # The state directory is made by coffer itself, 0700; its parent must let it.
        self.own(self.dir)
        self.exe = os.path.join(self.bin, "coffer")
        self.sub_ids = False
        if self.engine == "gvisor" and self.who == "user" and os.getuid() == 0 and self.uid == TEST_UID:
            self.have_sub_ids()
        self.before = snapshot()
        if self.engine == "gvisor" and VERDICTS:
            self.know_runsc()

    def know_runsc(self):
        """Gives the new state what was found out about runsc for this identity. coffer tries a runsc once for each state directory, which
        takes half a second; here are hundreds of them. The first of an identity finds out, in a state that is thrown away. A verdict names
        the file, the kernel, the user and the version that it is about, so coffer takes no wrong one. tests/run makes the directory."""
        if self.uid not in (0, TEST_UID):
            return
        kept = os.path.join(VERDICTS, f"{self.who}-{self.uid}")
        if not os.path.isdir(kept):
            state, mine, works = os.path.join(self.dir, "first-state"), tempfile.mkdtemp(dir=VERDICTS), False
            subprocess.run([*Coffer.prefix(self), self.exe, "run", "-q", "--ephemeral", "--", "true"], env=Coffer.env(self, {"COFFER_STATE": state}),
                           cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                           preexec_fn=self.become if self.who != "root" else None)
            for path in [os.path.join(state, "format"), *glob.glob(os.path.join(state, "runsc-*"))]:
                if os.path.exists(path):
                    shutil.copy(path, mine)
                    with open(path, encoding="utf-8") as f:
                        works = works or '"works":true' in f.read()
            shutil.rmtree(state, ignore_errors=True)
            if not works:  # a probe that took too long on a busy machine: the others try for themselves
                return
            with contextlib.suppress(OSError):  # another test was first
                os.rename(mine, kept)
        os.mkdir(self.state, 0o700)
        self.own(self.state)
        for name in os.listdir(kept):
            path = os.path.join(self.state, name)
            shutil.copy(os.path.join(kept, name), path)
            os.chmod(path, 0o600)
            self.own(path)

    def have_sub_ids(self):
        """Gives the identity, the test user, an account and subordinate ids, as files that only what it starts sees in /etc. For root."""
        write_sub_ids(os.path.join(self.dir, "etc"), self.uid, self.gid)
        self.sub_ids = True

    def become(self):
        """The steps of a new process to become the identity, between fork and exec."""
        if self.sub_ids:
            give_sub_ids(os.path.join(self.dir, "etc"))
        if self.who != "root":
            drop_to(self.uid, self.gid)

    def own(self, path):
        """Gives a file to the identity."""
        if os.getuid() == 0:
            os.lchown(path, self.uid, self.gid)

    def write(self, path, content="", mode=0o644):
        """Makes a file in the workspace, owned by the identity; returns its path."""
        path = os.path.join(self.work, path)
        made = os.path.dirname(path)
        todo = []
        while not os.path.isdir(made):
            todo.append(made)
            made = os.path.dirname(made)
        for d in reversed(todo):
            os.mkdir(d, 0o755)
            self.own(d)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, mode)
        self.own(path)
        return path

    def put(self, path, content="", mode=0o644):
        """The same in the home."""
        return self.write(os.path.join(self.home, path), content, mode)

    def env(self, extra=None, leaks=False):
        """Its environment."""
        e = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home, "COFFER_STATE": self.state,
             "XDG_CONFIG_HOME": os.path.join(self.home, ".config"), "COFFER_ENGINE": self.engine, "TMPDIR": self.tmp,
             "LANG": "C.UTF-8", "TERM": "dumb", "USER": "tester"}
        e.update(sanitizer_env(leaks))
        e.update(extra or {})
        return {k: v for k, v in e.items() if v is not None}

    def prefix(self):
        return ["unshare", "--user", "--map-root-user", "--"] if self.who == "userns" else []

    def argv(self, *args):
        return self.prefix() + [self.exe] + [os.fspath(a) for a in args]

    def popen(self, *args, env=None, cwd=None, program=None, **kw):
        """Starts coffer (or `program`, a list) as the identity, in a process group of its own."""
        argv = self.prefix() + program if program else self.argv(*args)
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        leaks = bool(args) and args[0] not in STARTERS
        return subprocess.Popen(argv, env=self.env(env, leaks), cwd=cwd or self.work, start_new_session=True,
                                preexec_fn=self.become if self.who != "root" else None, **kw)

    def __call__(self, *args, input=None, timeout=180, env=None, cwd=None, program=None):
        """Runs coffer to its end. Its whole process group is killed when it takes too long: exit None."""
        start = time.monotonic()
        p = self.popen(*args, env=env, cwd=cwd, program=program,
                       stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        data = input.encode() if isinstance(input, str) else input
        try:
            out, err = p.communicate(data, timeout=timeout * slow_build())
            code = p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            try:
                out, err = p.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                out, err = b"", b"(nothing: something still holds the pipes)"
            code = None
        return remember(Result(p.args, code, out.decode(errors="replace"), err.decode(errors="replace"),
                               time.monotonic() - start))

    def check_clean(self, tap, wait=90.0):
        """Nothing may be left: no process, no mount, no control group, no temporary file."""
        deadline = time.monotonic() + wait * slow_build()
        while True:
            left = leftovers(self.before, self.tmp, self.state)
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return tap.ok(not left, f"{self.who}: nothing is left behind", *left)

    def close(self):
        for pid, _ in descendants(os.getpid()):
            if pid not in self.before["pids"]:
                kill_quietly(pid)
        reap()
        subprocess.run(["rm", "-rf", "--one-file-system", self.dir], check=False)
        if os.path.exists(self.dir):  # layers may belong to ids that only a user namespace can remove
            subprocess.run(["chmod", "-R", "u+rwX", self.dir], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def coffer_as(who):
    return Coffer(who)


def kill_quietly(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kill_own(pid, sig=signal.SIGKILL):
    """Signals a process that descends from this one, and no other that has its number by now. False when it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if pid not in (p for p, _ in descendants(os.getpid())):
            return False
        signal.pidfd_send_signal(fd, sig)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def reap():
    """Collects children that were given to us when their own parent died."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def proc_stat(pid):
    """(parent, state, name) of a process, None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError:
        return None
    name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return int(rest[1]), rest[0], name


def descendants(pid):
    """[(pid, "state name")] of all processes below one."""
    kids = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            st = proc_stat(entry)
            if st:
                kids.setdefault(st[0], []).append((int(entry), f"{st[1]} {st[2]}"))
    found, todo = [], [pid]
    while todo:
        for kid in kids.get(todo.pop(), []):
            found.append(kid)
            todo.append(kid[0])
    return found


def control_groups():
    """All groups that look like ours, of every hierarchy."""
    found = set()
    for base, dirs, _ in os.walk("/sys/fs/cgroup"):
        for d in dirs:
            if d.startswith("coffer-"):
                found.add(os.path.join(base, d))
    return found


def mounts():
    """Those that can be our own: root has a namespace of its own, and who is not root cannot mount in the namespace that he is in."""
    if os.getuid() != 0:
        return set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return {line.split(" ", 1)[1] for line in f}


def snapshot():
    reap()
    return {"pids": {p for p, _ in descendants(os.getpid())}, "mounts": mounts(), "groups": control_groups()}


def is_known(group, state):
    """Does our log tell of the sandbox that a group is named after? Other tests' groups come and go while we look."""
    run = os.path.basename(group).removeprefix("coffer-").removesuffix("-net")
    for base, _, names in os.walk(os.path.join(state, "audit")):
        for name in names:
            if name.endswith(".jsonl"):
                with open(os.path.join(base, name), encoding="utf-8", errors="replace") as f:
                    if any(f'"sandbox":"{run}"' in line for line in f):
                        return True
    return False


def is_ours(group, state):
    """A group with processes that are not below us is another program's. An empty one is a leak of ours when our log knows it."""
    try:
        with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as f:
            inside = {int(p) for p in f.read().split()}
    except OSError:
        return False
    if not inside:
        return is_known(group, state)
    return bool(inside & {p for p, _ in descendants(os.getpid())})


def leftovers(before, tmp, state=None):
    """Leftovers that this test program made since `before`, as lines of text. Control groups only with `state`, whose log names
    our sandboxes."""
    reap()
    left = [f"process {p} ({what})" for p, what in descendants(os.getpid()) if p not in before["pids"]]
    left += [f"mount {m.strip()}" for m in mounts() - before["mounts"]]
    left += [f"control group {g}" for g in control_groups() - before["groups"] if is_ours(g, state)] if state else []
    left += [os.path.join(tmp, n) for n in os.listdir(tmp)]
    return left
