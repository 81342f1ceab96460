#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/run itself and coffertest.check_clean(): a test program that lies, dies or hangs must not pass, nor one that leaves something
behind; and what others do on the machine makes none fail."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import TESTS, Tap, covering  # noqa: E402
from nettest import wait_for  # noqa: E402

tap = Tap()


def run_many(scripts, *args, ci=None, tmpfs=None):
    """Runs tests/run over programs {name: script}, with a tmpfs of these options as its temporary directory; gives (exit code, last line,
    all output)."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as home, tempfile.TemporaryDirectory(prefix="coffertest-") as tmp:
        build = os.path.join(home, "build")  # of a user whose home, with mode 0700, nobody else can read
        os.chmod(tmp, 0o755)
        os.makedirs(os.path.join(build, "tests/unit"))
        for name, script in scripts.items():
            path = os.path.join(build, "tests/unit/test_" + name)
            with open(path, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\n" + script)
            os.chmod(path, 0o755)
        env = {k: v for k, v in os.environ.items() if k not in ("CI", "COFFER_SLOW")}
        env["TMPDIR"] = tmp
        if ci:
            env["CI"] = ci
        before = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o mode=1777,{tmpfs} none "$TMPDIR" && exec "$@"', "sh"] if tmpfs else []
        p = subprocess.run([*before, os.path.join(TESTS, "run"), "--build", build, *args, "unit/"], env=env, capture_output=True, text=True,
                           check=False)
        if os.listdir(tmp):
            raise RuntimeError(f"tests/run left something in its temporary directory: {os.listdir(tmp)}")
        return p.returncode, p.stdout.splitlines()[-1], p.stdout


def run(script, ci=None, tmpfs=None):
    return run_many({"x": script}, ci=ci, tmpfs=tmpfs)


def expect(script, code, last, name, ci=None, tmpfs=None):
    got = run(script, ci, tmpfs)
    tap.ok(got[0] == code and got[1] == last, name, *got)


expect("echo 'ok 1 - a'; echo 'ok 2 - b'; echo 1..2", 0, "2 passed, 0 failed, 0 skipped", "a program whose tests pass, passes")
expect("echo 1..1; echo 'ok 1 - a'", 0, "1 passed, 0 failed, 0 skipped", "a plan may come before the tests")
expect("echo 'ok 1 - a'; echo 'not ok 2 - b'; echo 1..2; exit 1", 1, "1 passed, 1 failed, 0 skipped", "a failed test is a failure")
expect("echo 'ok 1 - a'; echo 1..2", 1, "1 passed, 1 failed, 0 skipped", "a plan of more tests than were run is a failure")
expect("echo 'ok 1 - a'", 1, "1 passed, 1 failed, 0 skipped", "a program without a plan is a failure")
expect("echo 'ok 1 - a'; echo 1..1; exit 3", 1, "1 passed, 1 failed, 0 skipped", "an exit code without a failed test is a failure")
expect("echo 'not ok 1 - a'; echo 1..1", 1, "0 passed, 2 failed, 0 skipped", "a failed test without an exit code is two failures")
expect("echo 'ok 1 - a'; echo 1..1; kill -SEGV $$", 1, "1 passed, 1 failed, 0 skipped", "a program that dies of a signal is a failure")
expect("echo 'ok 2 - a'; echo 1..1", 1, "1 passed, 1 failed, 0 skipped", "a test with a wrong number is a failure")
expect("echo 'not ok 1 - a # TODO later'; echo 1..1; exit 1", 1, "0 passed, 1 failed, 0 skipped", "TODO does not excuse a failed test")
expect("echo 'Bail out! no'; exit 1", 1, "0 passed, 3 failed, 0 skipped", "a program that bails out is a failure")
expect("# tests/run: timeout=1\necho 'ok 1 - a'; echo 1..1; sleep 60", 1, "1 passed, 1 failed, 0 skipped",
       "a program that outlives its time limit is a failure")
expect("exit 0", 1, "0 passed, 1 failed, 0 skipped", "a program that does nothing is a failure")
SKIP = "echo 'ok 1 - a # SKIP no such device'; echo 1..1"
expect(SKIP, 0, "0 passed, 0 failed, 1 skipped", "a skip is counted")
tap.like(run(SKIP)[2], r"SKIP unit/x: a: no such device", "a skip is shown with its reason")
expect(SKIP, 1, "0 passed, 1 failed, 1 skipped", "a skip is an error in CI", ci="true")
tap.like(run("echo 'not ok 1 - the name'; echo '# the reason'; echo 1..1; exit 1")[2], "the reason",
         "a failure is shown with what its program printed")

if os.getuid() == 0:
    AS_USER = "setpriv --reuid 20001 --regid 20001 --clear-groups "
    expect(f"{AS_USER} test -r $COFFER_BUILD/tests/unit/test_x && {AS_USER} test -r $PWD/tests/run && echo 'ok 1 - a'; echo 1..1", 0,
           "1 passed, 0 failed, 0 skipped", "a test that runs as an ordinary user can read a tree that only root can")
    expect(f"mkdir $COFFER_BUILD/closed; chmod 700 $COFFER_BUILD/closed; {AS_USER} test -r $COFFER_BUILD/closed/. || echo 'ok 1 - a'; "
           "echo 1..1", 0, "1 passed, 0 failed, 0 skipped", "the ordinary user of that test cannot read what is closed inside the tree")
    SUID = "cp /bin/true $TMPDIR/x && chmod 4755 $TMPDIR/x && $TMPDIR/x && ! grep -E \" $TMPDIR [^-]*(nosuid|nodev|noexec)\" " \
           "/proc/self/mountinfo && echo 'ok 1 - a'; echo 1..1"
    expect(SUID, 0, "1 passed, 0 failed, 0 skipped", "a temporary directory with nosuid, nodev and noexec is an ordinary one for tests",
           tmpfs="nosuid,nodev,noexec")


PASS = "echo 'ok 1 - a'; echo 1..1"


def check_interrupted():
    """Ctrl-C of the runner: what it started ends too, and may clean up before."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as home:
        build, tmp = os.path.join(home, "build"), os.path.join(home, "tmp")
        os.makedirs(os.path.join(build, "tests/unit"))
        os.mkdir(tmp)
        path, began, ended = (os.path.join(*x) for x in ((build, "tests/unit/test_x"), (home, "began"), (home, "ended")))
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\ntrap 'echo $$ >{ended}; exit 1' INT\necho $$ >{began}\nwhile :; do sleep 0.1; done\n")
        os.chmod(path, 0o755)
        for sig in (signal.SIGINT, signal.SIGTERM):
            p = subprocess.Popen([os.path.join(TESTS, "run"), "--build", build, "unit/x"], env={**os.environ, "TMPDIR": tmp}, stdout=subprocess.PIPE,
                                 text=True)
            there = wait_for(lambda: os.path.exists(began) and os.path.getsize(began))
            p.send_signal(sig)
            out = p.communicate(timeout=120)[0]
            tap.ok(there and p.returncode == 128 + sig and "ended early: unit/x" in out,
                   f"{sig.name} ends the runner, which names what it ended", p.returncode, out)
            tap.ok(os.path.exists(ended), f"{sig.name} to the runner lets its programs clean up")
            tap.eq(os.listdir(tmp), [], f"{sig.name} to the runner leaves nothing in its temporary directory")
            os.unlink(began)
            os.unlink(ended)
    r = subprocess.run([os.path.join(TESTS, "run"), "unit/opt", "cli/no-such-program"], capture_output=True, text=True, check=False)
    tap.ok(r.returncode == 1 and "cli/no-such-program" in r.stderr and " ok " not in r.stdout, "a pattern that no program matches is an error", r)


def order(out):
    """The names of programs in the order in which they finished."""
    return re.findall(r"^(?:ok|FAIL) +unit/(\S+)", out, re.M)


def check_scheduler():
    # Each waits for the other, so they pass only when they run at the same time.
    meet = "touch $TMPDIR/%s; i=0; until [ -e $TMPDIR/%s ]; do sleep 0.05; i=$((i+1)); [ $i -lt 400 ] || exit 1; done; " + PASS
    pair = {"a": meet % ("a", "b"), "b": meet % ("b", "a"), "c": "sleep 3; rm -f $TMPDIR/a $TMPDIR/b; " + PASS}
    got = run_many(pair, "-j", "3")
    tap.eq(got[:2], (0, "3 passed, 0 failed, 0 skipped"), "three programs run at the same time in three slots", *got)
    # Each fails when it finds another one; the directory is made by one of them only.
    single = "mkdir $TMPDIR/one || exit 1; sleep 0.3; rmdir $TMPDIR/one; " + PASS
    got = run_many({"a": "# tests/run: alone\n" + single, "b": "# tests/run: alone\n" + single, "c": single}, "-j", "3")
    tap.eq(got[:2], (0, "3 passed, 0 failed, 0 skipped"), "nothing runs beside a program that wants to be alone", *got)
    got = run_many({n: "# tests/run: weight=2\n" + single for n in "abc"}, "-j", "3")
    tap.eq(got[:2], (0, "3 passed, 0 failed, 0 skipped"), "two programs of weight 2 do not fit into three slots", *got)
    got = run_many({n: "# tests/run: weight=9\n" + single for n in "ab"}, "-j", "3")
    tap.eq(got[:2], (0, "2 passed, 0 failed, 0 skipped"), "a program that is heavier than all slots runs nevertheless", *got)
    slow = "i=0; until [ -e $TMPDIR/quick ]; do sleep 0.05; i=$((i+1)); [ $i -lt 400 ] || exit 1; done; sleep 1; rm $TMPDIR/quick; " + PASS
    got = run_many({"a_slow": slow, "b_quick": "touch $TMPDIR/quick; " + PASS}, "-j", "2")
    tap.eq(order(got[2]), ["b_quick", "a_slow"], "a result is shown as soon as its program has finished", got[2])
    got = run_many({"idle": "sleep 1; " + PASS, "busy": "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; " + PASS}, "-j", "1")
    cpu = {name: float(seconds) for name, seconds in re.findall(r"^ +unit/(\S+) +\S+ s +(\S+) s CPU$", got[2], re.M)}
    tap.ok(set(cpu) == {"idle", "busy"} and cpu["busy"] > cpu["idle"], "the summary has the CPU seconds of each slow program", got[2])


def copy_of_tests(to):
    """A tree with tests/run alone, which may write tests/times."""
    os.mkdir(os.path.join(to, "tests"))
    with open(os.path.join(TESTS, "run"), "rb") as f, open(os.path.join(to, "tests/run"), "wb") as g:
        g.write(f.read())
    os.chmod(os.path.join(to, "tests/run"), 0o755)
    units = os.path.join(to, "build/tests/unit")
    os.makedirs(units)
    for name, script in (("a_short", PASS), ("b_long", "sleep 1; " + PASS), ("c_fails", "exit 1")):
        path = os.path.join(units, "test_" + name)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)


def check_times():
    """tests/times is written by --record, and the longest program starts first then."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as d:
        os.chmod(d, 0o755)
        copy_of_tests(d)
        times = os.path.join(d, "tests/times")
        with open(times, "w", encoding="ascii") as f:
            f.write("unit/gone 5.0 5.0\nunit/c_fails 7.0 6.0\n")

        def go(*args):
            return subprocess.run([os.path.join(d, "tests/run"), "--build", os.path.join(d, "build"), "-j", "1", *args], capture_output=True,
                                  text=True, check=False).stdout
        go("--record")
        with open(times, encoding="ascii") as f:
            got = {line.split()[0]: line.split()[1:] for line in f if not line.startswith("#")}
        tap.eq(sorted(got), ["unit/a_short", "unit/b_long", "unit/c_fails"], "--record writes the programs that are there and no others")
        tap.eq(got.get("unit/c_fails"), ["7.0", "6.0"], "--record keeps what it knew of a program that failed")
        tap.ok(float(got["unit/b_long"][0]) >= 1.0 > float(got["unit/a_short"][0]), "--record writes the wall seconds of a program", got)
        out = go("_short", "_long")
        tap.eq(order(out), ["b_long", "a_short"], "the longest program starts first", out)
        with open(times, "a", encoding="ascii") as f:
            f.write("unit/a_short 9.0 0.0\n")
        out = go("_short", "_long")
        tap.eq(order(out), ["a_short", "b_long"], "the order is that of tests/times", out)
        out = go("unit/a_short", "--list")
        tap.eq(out, "unit/a_short\n", "a program's whole name selects that program alone", out)


def check_covering():
    got = [(str(w), w.engine, whole) for w, whole in covering(None, ("ns", "gvisor"))]
    some = {(n, e) for n, e, whole in got if whole}
    everybody = {(n, e) for n, e, _ in got}
    if os.environ.get("COFFER_FULL") == "1":
        tap.eq(some, everybody, "with COFFER_FULL=1 every identity on every engine runs in full")
    else:
        tap.ok({("root", "ns"), ("user", "gvisor")} & everybody <= some and len({e for _, e in some}) == len(some),
               "in the covering set one identity of each engine runs in full", got)


# A test program while others do things: it says "ready", waits for a line, and looks for leftovers.
LOOKER = r"""
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import coffertest
from coffertest import Coffer, Tap
tap = Tap()
with Coffer("root", "ns") as c:
    r = c("run", "--", "true")
    run = next(e["sandbox"] for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == "run.start")
    own = os.path.join(c.dir, "passwd")
    with open(own, "w") as f:
        f.write("root:x:0:0::/root:/bin/sh\nmine:x:4711:4711::/:/bin/sh\n")
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount --bind {own} /etc/passwd && echo up && read x && getent passwd mine"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "up\n"
    c.before = coffertest.snapshot()
    exec(sys.argv[2])
    print("ready", run, r.code, flush=True)
    sys.stdin.readline()
    c.check_clean(tap, wait=float(sys.argv[3]))
    print("mine" if "4711" in holder.communicate("x\n")[0] else "lost", flush=True)
    exec(sys.argv[4])
"""


def look(leave="", undo="", others=None, wait=1):
    """Runs LOOKER, which does `leave` before and `undo` after its check; others(run) happens meanwhile, outside of it. Returns its output."""
    p = subprocess.Popen([sys.executable, "-c", LOOKER, os.path.join(TESTS, "lib"), leave, str(wait), undo], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first = p.stdout.readline()
    if not first.startswith("ready "):
        return first + p.communicate()[0]
    with contextlib.ExitStack() as undo_later:
        if others:
            others(first.split()[1], undo_later)
        return p.communicate("\n")[0]


def group_root():
    """A directory of the control groups in which root can make one, or None."""
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"):
        path = os.path.join(base, "coffer-probe-of-tests")
        with contextlib.suppress(OSError):
            os.mkdir(path)
            is_group = os.path.exists(os.path.join(path, "cgroup.procs"))
            os.rmdir(path)
            if is_group:
                return base
    return None


def check_own():
    """Positive controls: what a test program of ours leaves is found."""
    mount = "place = os.path.join(c.work, 'm'); os.mkdir(place); subprocess.run(['mount', '-t', 'tmpfs', 'none', place], check=True)"
    tap.like(look(mount, "subprocess.run(['umount', place])"), r"not ok .*nothing is left.*\n# mount .*/work/m ",
             "check_clean reports a mount that the test left")
    process = "subprocess.run(['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 &'])"
    tap.like(look(process), r"not ok .*nothing is left.*\n# process \d+ \(S sleep\)", "check_clean reports a daemon that the test left")
    tap.like(look("open(os.path.join(c.tmp, 'f'), 'w').close()"), r"not ok .*nothing is left.*\n# \S+/tmp/f\n",
             "check_clean reports a temporary file that the test left")
    base = group_root()
    if not base:
        tap.skip("check_clean reports a control group that the test left", "root may not make control groups here")
        return
    group = f"group = '{base}/coffer-' + run; os.mkdir(group)"
    tap.like(look(group, "os.rmdir(group)"), r"not ok .*nothing is left.*\n# control group .*/coffer-",
             "check_clean reports a control group of the test's own sandbox")


def check_others():
    """Acts of others while a test program looks: none of them is its own."""
    def mount(_run, later):
        place = later.enter_context(tempfile.TemporaryDirectory(prefix="coffertest-"))
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        later.callback(subprocess.run, ["umount", place], check=True)

    def process(_run, later):
        p = subprocess.Popen(["coffer-egress", "1000"], executable="/bin/sleep")
        later.callback(p.wait)
        later.callback(p.kill)

    def group(_run, later):
        for name in ("coffer-00000000000000ab", "coffer-00000000000000cd"):
            path = os.path.join(group_root(), name)
            os.mkdir(path)
            later.callback(os.rmdir, path)
        p = subprocess.Popen(["sleep", "1000"])
        later.callback(p.wait)
        later.callback(p.kill)
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as f:
            f.write(str(p.pid))

    def temporary(_run, later):
        path = "/tmp/of-another-coffer"
        with open(path, "w", encoding="ascii"):
            later.callback(os.unlink, path)

    def user(_run, later):
        # In the copy of /etc that this program has: it is outside of the one that looks.
        subprocess.run(["useradd", "--no-create-home", "someoneelse"], check=True)
        later.callback(subprocess.run, ["userdel", "someoneelse"], check=True)
    for name, others in (("mount", mount), ("process", process), ("control group", group), ("file in /tmp", temporary), ("new user", user)):
        if others is group and not group_root():
            tap.skip("another program's control group is not reported", "root may not make control groups here")
            continue
        got = look(others=others)
        tap.ok(re.search(r"^ok .*nothing is left", got, re.M) and "mine" in got.splitlines(),
               f"another program's {name} is not reported, and a mount over /etc/passwd stays", got)


def check_lost_mount():
    """The control of the last one: where /etc is shared, a useradd takes away what is mounted over /etc/passwd."""
    script = ("echo mine:x:4711:4711::/:/bin/sh > $1/passwd && unshare -m sh -c 'mount --bind $1/passwd /etc/passwd && echo up > $1/up && "
              "until [ -e $1/go ]; do sleep 0.05; done; getent passwd mine || echo lost' sh $1 & "
              "until [ -e $1/up ]; do sleep 0.05; done; useradd --no-create-home someoneelse; touch $1/go; wait; userdel someoneelse")
    with tempfile.TemporaryDirectory(prefix="coffertest-") as d:
        r = subprocess.run(["sh", "-c", script, "sh", d], capture_output=True, text=True, check=False)
    tap.eq(r.stdout, "lost\n", "(control) in an /etc that is shared, useradd takes away a mount over /etc/passwd", r.stderr)


check_interrupted()
check_scheduler()
check_times()
check_covering()
if os.getuid() == 0:
    check_own()
    check_others()
    check_lost_mount()
else:
    tap.skip("leftovers of this and of other programs", "mounts and users are made by root")
tap.done()
