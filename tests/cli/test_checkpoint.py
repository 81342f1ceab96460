#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""checkpoint, rollback, fork and diff between checkpoints, over real sandboxes, as every identity."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, identities, slow_build  # noqa: E402
from ocitest import BUSYBOX  # noqa: E402
from treedump import differences, dump  # noqa: E402

tap = Tap()

# Everything a checkpoint must bring back.
FILL = r"""
set -e
echo more >> edit.txt
rm gone.txt
rm -r olddir && mkdir olddir && echo new > olddir/new
mkdir -p new/deep
echo content > new/deep/file
printf x > "$(printf 'new/line\nbreak')"
chmod 755 run.sh
ln -s edit.txt new/link
ln -s "$(printf '\377\001')" new/oddlink
ln new/deep/file new/hard
truncate -s 1G new/sparse
printf tail | dd of=new/sparse bs=1 seek=536870912 conv=notrunc 2>/dev/null
cp /bin/true new/suid && chmod 4755 new/suid
mkfifo -m 0600 new/pipe
mkdir -m 1777 new/sticky
echo secret > new/unreadable && chmod 0000 new/unreadable
mkdir new/closed && echo in > new/closed/in && chmod 0000 new/closed
: > new/empty
touch -d '2001-02-03 04:05:06.789' new/deep/file new/deep
python3 -c 'import os; os.setxattr("new/deep/file", "user.note", b"\0any\xff"); os.setxattr("new/deep", "user.dir", b"1")' || true
touch -h -d '2002-02-02 02:02:02' new/link
"""

SPOIL = r"""
chmod 0700 new/closed
rm -rf /workspace/* /workspace/.[a-z]*
mkdir new; echo other > new/deep; echo evil > edit.txt; ln -s /etc olddir; mkfifo run.sh
"""


def same(a, b, name, *detail):
    return tap.ok(a == b, name, *differences(a, b), *detail)


def prepare(c):
    c.write("edit.txt", "old\n")
    c.write("gone.txt", "x")
    c.write("run.sh", "#!/bin/sh\n")
    c.write("olddir/a", "a")
    c.write("keep.txt", "kept")


def start(c, name, *opts, command=("sleep", "1000")):
    r = c("run", "-d", "--name", name, *opts, "--", *command)
    tap.eq(r.code, 0, f"{c.who}: {name} starts", r)
    return r.out.strip()


def upper(c, run_id):
    return os.path.join(c.state, "runs", run_id, "upper")


def sh(c, name, script, timeout=60):
    return c("exec", name, "--", "sh", "-c", script, timeout=timeout)


def make(c, name, *opts):
    r = c("checkpoint", name, "--json", *opts, timeout=300)
    if not tap.eq(r.code, 0, f"{c.who}: a checkpoint of {name} {' '.join(opts)}", r):
        return {"checkpoint": "c0"}
    return json.loads(r.out)


def can_read_all():
    return os.getuid() == 0


def test_roundtrip(c):
    prepare(c)
    run = start(c, "w", "--home", "h")
    tap.eq(sh(c, "w", FILL + "\necho dot > $HOME/.rc").code, 0, f"{c.who}: files of every kind")
    time.sleep(0.05)
    first = make(c, "w", "--label", "all kinds")
    tap.ok(first.get("frozen"), f"{c.who}: it stood still", first)
    tap.eq(first.get("frozen_by"), "control group" if c.who == "root" else "signals", f"{c.who}: and how")
    before = dump(upper(c, run)) if can_read_all() else {}
    home = dump(os.path.join(c.state, "homes", "h")) if can_read_all() else {}
    again = make(c, "w")
    tap.eq(again.get("files_read", 99) <= 1, True, f"{c.who}: what has not changed is not read again", again)
    tap.eq(sh(c, "w", SPOIL + "\nrm $HOME/.rc; echo x > $HOME/other").code, 0, f"{c.who}: then all is gone")
    r = c("rollback", "w", "c1")
    tap.eq(r.code, 0, f"{c.who}: rollback", r)
    tap.like(r.err, "rolled back to c1 and restarted", f"{c.who}: it says so", r)
    same(before, dump(upper(c, run)) if can_read_all() else {}, f"{c.who}: the workspace's layer is what it was")
    same(home, dump(os.path.join(c.state, "homes", "h")) if can_read_all() else {}, f"{c.who}: and so is the home")
    r = sh(c, "w", "cat edit.txt new/hard $HOME/.rc; ls gone.txt olddir; cat keep.txt")
    tap.eq(r.out, "old\nmore\ncontent\ndot\nolddir:\nnew\nkept", f"{c.who}: seen from inside", r)
    tap.ok("gone.txt" in r.err, f"{c.who}: what was deleted is deleted", r)
    r = c("ps", "--json")
    tap.ok(f'"{run}"' in r.out and '"running"' in r.out, f"{c.who}: it runs under its own id", r)
    third = make(c, "w")
    tap.ok(third.get("files_read", 99) <= 2, f"{c.who}: what was restored is known", third)
    # The state that was given up is a checkpoint too.
    r = c("rollback", "w", "c3")
    tap.eq(r.code, 0, f"{c.who}: a rollback is undone", r)
    tap.eq(sh(c, "w", "cat edit.txt; test -L olddir && test -p run.sh && echo yes").out, "evil\nyes\n",
           f"{c.who}: and all is gone again")
    test_lists(c)
    test_diff(c)
    test_fork(c, before)
    for name in ("w", "v"):
        tap.eq(c("rm", "-f", name).code, 0, f"{c.who}: rm {name}")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [],
           f"{c.who}: with the sandboxes goes what their checkpoints kept")
    tap.eq(c("audit", "verify").code, 0, f"{c.who}: the log is whole")


def test_lists(c):
    r = c("checkpoint", "ls", "w", "--json")
    l = json.loads(r.out)["checkpoints"] if r.code == 0 else []
    tap.eq([x["checkpoint"] for x in l], ["c1", "c2", "c3", "c4", "c5"], f"{c.who}: the list", r)
    tap.eq([x["undo"] for x in l], [False, False, True, False, True], f"{c.who}: which ones rollbacks made")
    tap.eq(l[0]["label"] if l else "", "all kinds", f"{c.who}: the label")
    tap.eq(l[1]["new_bytes"] if l else 1, 0, f"{c.who}: the same content is kept once", r)
    r = c("checkpoint", "ls", "w")
    tap.like(r.out, r"c1 +.* ago +\d+ +[\d.]+ \w+ +[\d.]+ \w+ +yes +all kinds", f"{c.who}: as a table", r)


def test_diff(c):
    r = c("diff", "w", "c1", "c2")
    tap.eq((r.code, r.out), (0, ""), f"{c.who}: two equal checkpoints have no difference", r)
    r = c("diff", "w", "c1")
    tap.eq(r.code, 0, f"{c.who}: c1 against now", r)
    lines = set(r.out.splitlines())
    for want in ("M edit.txt", "D keep.txt", "D new/deep/file", "T new/deep (directory -> file)", "A ~/other", "D ~/.rc",
                 "T run.sh (file -> pipe)", "D olddir/new", "T olddir (directory -> symlink)"):
        tap.ok(want in lines or want.replace("T new/deep ", "T new/deep/ ") in lines or
               want.replace("T olddir ", "T olddir/ ") in lines, f"{c.who}: {want}", r.out)
    tap.ok(not any(x[2:].startswith("gone.txt") for x in lines), f"{c.who}: what is gone in both is not told", r.out)
    r = c("diff", "w", "c3", "c1")
    tap.ok("A keep.txt" in r.out and "M edit.txt" in r.out, f"{c.who}: the other way round", r)
    r = c("diff", "-p", "w", "c1", "c3", "edit.txt")
    tap.ok("-old" in r.out and "-more" in r.out and "+evil" in r.out, f"{c.who}: with its content", r)
    r = c("diff", "-p", "w", "c1", "edit.txt")
    tap.ok("-more" in r.out and "+evil" in r.out, f"{c.who}: also against now", r)
    r = c("diff", "w", "c99")
    tap.eq(r.code, 125, f"{c.who}: one that is not there", r)


def test_fork(c, before):
    r = c("fork", "w", "c1", "--name", "v")
    tap.eq(r.code, 0, f"{c.who}: fork", r)
    run = r.out.strip()
    same(before, dump(upper(c, run)) if can_read_all() else {}, f"{c.who}: the fork has what the checkpoint has")
    tap.eq(sh(c, "v", "cat $HOME/.rc edit.txt; echo mine > only-here; hostname").out, "dot\nold\nmore\nv\n",
           f"{c.who}: with a home and a name of its own")
    tap.ok("only-here" not in sh(c, "w", "ls").out, f"{c.who}: and the first one sees nothing of it")
    r = c("rollback", "v")
    tap.eq(r.code, 0, f"{c.who}: the fork can be rolled back to where it began", r)
    tap.ok("only-here" not in sh(c, "v", "ls; hostname").out, f"{c.who}: and is there again")
    tap.eq(sh(c, "v", "hostname").out, "v\n", f"{c.who}: under its own name")
    r = c("fork", "w", "c1", "--name", "v")
    tap.eq(r.code, 125, f"{c.who}: a name that is taken", r)
    r = c("fork", "w", "c1", "--name", "u", "--home", "v")
    tap.eq(r.code, 125, f"{c.who}: a home that is taken", r)
    tap.like(r.err, "there is a home called 'v'", f"{c.who}: says so", r)


def test_while_running(c):
    """Commands that run are told; a rollback takes no half of what they wrote."""
    run = start(c, "busy")
    make(c, "busy")
    p = c.popen("exec", "busy", "--", "sh", "-c", "echo began; while :; do echo x >> noise; sleep 0.01; done")
    p.stdout.readline()
    time.sleep(0.2)
    r = c("rollback", "busy")
    tap.eq(r.code, 0, f"{c.who}: rollback while a command runs", r)
    try:
        _, err = p.communicate(timeout=90 * slow_build())
    except subprocess.TimeoutExpired:
        p.kill()
        err = b"(it did not end)"
    tap.ok(p.returncode == 137 and b"rolled back" in err, f"{c.who}: the command's client is told why", p.returncode, err)
    tap.eq(sh(c, "busy", "ls").out.count("noise"), 0, f"{c.who}: and what it wrote is gone")
    # Two files that are written one after the other, from many processes: never more than one step apart.
    c("exec", "busy", "--", "sh", "-c",
      "(i=0; while :; do i=$((i+1)); echo $i > .a; mv .a a; echo $i > .b; mv .b b; done) >/dev/null 2>&1 & "
      "(while :; do /bin/true; done) >/dev/null 2>&1 & while [ ! -e b ]; do sleep 0.05; done; sleep 0.2")
    steps = []
    for _ in range(4):
        m = make(c, "busy")
        tap.ok(m.get("frozen"), f"{c.who}: it stands still while many processes come and go", m)
        r = c("rollback", "--no-start", "busy", m["checkpoint"])
        tap.eq(r.code, 0, f"{c.who}: back to {m['checkpoint']}", r)
        with open(os.path.join(upper(c, run), "a"), encoding="ascii") as a, \
                open(os.path.join(upper(c, run), "b"), encoding="ascii") as b:
            steps.append(int(a.read()) - int(b.read()))
        break
    tap.ok(all(s in (0, 1) for s in steps), f"{c.who}: what was caught belongs together", steps)
    tap.eq(c("rm", "-f", "busy").code, 0, f"{c.who}: rm busy")


def test_swaps(c):
    """A sandbox that swaps files for pipes, directories for links, and moves them about while it is read."""
    start(c, "swap")
    sh(c, "swap", r"""
cat > /tmp/swap.py <<'X'
import os, time
n = 0
while True:
    n += 1
    for f in (lambda: (open("s", "w").write("x" * 5000)), lambda: (os.unlink("s"), os.mkfifo("s")), lambda: os.unlink("s"),
              lambda: (os.mkdir("d"), open("d/f", "w").write(str(n))), lambda: os.rename("d", "e"),
              lambda: os.symlink("/etc", "d"), lambda: os.unlink("d"),
              lambda: (os.unlink("e/f"), os.rmdir("e"))):
        try:
            f()
        except OSError:
            pass
X
for i in 1 2 3; do python3 /tmp/swap.py >/dev/null 2>&1 & done; sleep 0.2
""")
    for i in range(6):
        began = time.monotonic()
        r = c("checkpoint", "swap")
        tap.ok(r.code == 0 or "faster than it can be read" in r.err, f"{c.who}: swaps {i}: a checkpoint or a clear error", r)
        tap.ok(time.monotonic() - began < 90 * slow_build(), f"{c.who}: swaps {i}: in time", r)
    r = c("rollback", "swap")
    tap.eq(r.code, 0, f"{c.who}: and it can be gone back to", r)
    tap.eq(c("rm", "-f", "swap").code, 0, f"{c.who}: rm swap")


def test_each(c):
    start(c, "each", "--checkpoint", "each", "--keep", "3")
    for i in range(5):
        sh(c, "each", f"echo {i} > f")
    sh(c, "each", "cat f")
    r = c("checkpoint", "ls", "each", "--json")
    l = json.loads(r.out)["checkpoints"]
    tap.eq([x["checkpoint"] for x in l], ["c4", "c5", "c6"], f"{c.who}: one for each command that changed something", r)
    tap.eq(l[-1]["label"], "sh -c echo 4 > f", f"{c.who}: with the command as its label")
    tap.eq(c("rollback", "each", "c5").code, 0, f"{c.who}: back by one")
    tap.eq(sh(c, "each", "cat f").out, "3\n", f"{c.who}: and it is so")
    tap.eq(c("rm", "-f", "each").code, 0, f"{c.who}: rm each")


def test_agent(c):
    """With a profile each command is a checkpoint, unless told otherwise; without one, none is."""
    path = os.path.join(c.home, "agent.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("version: 1\nabout: a test\ncommand: sleep\ninstall: it is there\nhome: agent\n")
    os.chmod(path, 0o600)
    c.own(path)
    for opts, wanted in ((("--profile", path), ["c1", "c2"]), (("--profile", path, "--checkpoint", "off"), []), ((), [])):
        start(c, "agent", *opts)
        sh(c, "agent", "echo 1 > made; echo 2 > $HOME/too")
        r = c("checkpoint", "ls", "agent", "--json")
        tap.eq([x["checkpoint"] for x in json.loads(r.out)["checkpoints"]], wanted,
               f"{c.who}: {' '.join(opts[2:] or opts[:1]) or 'a plain run'}: {len(wanted)} checkpoints after a command", r)
        if wanted:
            tap.eq(c("rollback", "agent", "c1").code, 0, f"{c.who}: it is taken back")
            tap.eq(sh(c, "agent", "ls; ls $HOME").out.count("too"), 0, f"{c.who}: in its home, too")
        tap.eq(c("rm", "-f", "agent").code, 0, f"{c.who}: rm agent")


def test_ended(c):
    """Of a run that is over; and what goes with it."""
    c("run", "--name", "over", "--", "sh", "-c", "echo 1 > f; mkdir -m 0 shut")
    tap.eq(c("checkpoint", "over", "-l", "one").out, "c1\n", f"{c.who}: a checkpoint of an ended run")
    r = c("rollback", "over")
    tap.eq(r.code, 0, f"{c.who}: rollback of an ended run", r)
    tap.like(c("diff", "over").out, "A f\nA shut/", f"{c.who}: it is as it was")
    tap.eq(c("fork", "over", "--name", "o2").code, 0, f"{c.who}: a fork of an ended run")
    tap.eq(c("rm", "-f", "o2").code, 0, f"{c.who}: rm o2")
    for ref, why in (("nobody", "no run"), ("over c7", "no checkpoint c7"), ("over x7", "is no checkpoint")):
        r = c("rollback", *ref.split())
        tap.ok(r.code == 125 and why in r.err, f"{c.who}: rollback {ref}", r)
    r = c("checkpoint", "over", "-l", "x" * 300)
    tap.eq(r.code, 2, f"{c.who}: a label that is too long", r)
    tap.eq(c("checkpoint", "rm", "over", "c1").code, 0, f"{c.who}: checkpoint rm")
    tap.eq(c("apply", "over").code, 0, f"{c.who}: apply forgets the rest")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [], f"{c.who}: nothing is kept")
    # An empty workspace is wiped at its end, and its checkpoints with it.
    start(c, "eph", "--ephemeral")
    sh(c, "eph", "echo secret > s")
    make(c, "eph")
    sh(c, "eph", "echo other > s")
    tap.eq(c("rollback", "eph").code, 0, f"{c.who}: an empty workspace is rolled back")
    tap.eq(sh(c, "eph", "cat s").out, "secret\n", f"{c.who}: and it is so")
    tap.eq(c("stop", "-t", "0", "eph").code, 0, f"{c.who}: it ends")
    c("rm", "eph")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [], f"{c.who}: nothing of it is kept")


def test_foreground(c):
    """One in the foreground is ended, told why, and stays ended. One without a layer has nothing to hold."""
    p = c.popen("run", "--name", "fg", "--", "sh", "-c", "echo 1 > fg.txt; echo ready; exec sleep 100")
    p.stdout.readline()
    make(c, "fg")
    sh(c, "fg", "echo 2 > fg.txt")
    r = c("rollback", "fg")
    tap.ok(r.code == 0 and "to c1 and ended" in r.err, f"{c.who}: rollback of one in the foreground", r)
    _, err = p.communicate(timeout=90 * slow_build())
    tap.ok(p.returncode == 137 and b"rolled back" in err, f"{c.who}: which is told why", p.returncode, err)
    r = c("diff", "-p", "fg")
    tap.like(r.out, r"A fg.txt\n.*\+1", f"{c.who}: and it is as it was", r)
    tap.eq(c("rm", "fg").code, 0, f"{c.who}: rm fg")
    p = c.popen("run", "--name", "bare", "-C", c.work + ":ro", "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.1; done")
    p.stdout.readline()
    r = c("checkpoint", "bare")
    tap.ok(r.code == 125 and "nothing that a checkpoint could hold" in r.err, f"{c.who}: one without a layer", r)
    c.write("go")
    p.communicate(timeout=90 * slow_build())
    tap.ok("bare" not in c("ps", "-a").out, f"{c.who}: leaves nothing behind", c("ps", "-a"))


def test_launcher_dies(c):
    """While it stands still for a large checkpoint: all of it is gone afterwards, and the checkpoint is whole or not there."""
    run = start(c, "die")
    sh(c, "die", "head -c 60000000 /dev/urandom > big; for i in 1 2 3; do (while :; do echo x > n$i; done) & done >/dev/null 2>&1")
    with open(os.path.join(c.state, "runs", run, "meta.json"), encoding="utf-8") as f:
        launcher = json.load(f)["launcher"]
    p = c.popen("checkpoint", "die")
    time.sleep(0.1)
    os.kill(launcher, 9)
    _, err = p.communicate(timeout=90 * slow_build())
    tap.ok(p.returncode == 125 or b"frozen" in err or p.returncode == 0, f"{c.who}: the launcher dies meanwhile", err)
    end = time.monotonic() + 90 * slow_build()
    while time.monotonic() < end:
        if '"ended"' in c("ps", "-a", "--json").out:
            break
        time.sleep(0.1)
    tap.ok('"ended"' in c("ps", "-a", "--json").out, f"{c.who}: the sandbox has ended", c("ps", "-a"))
    r = c("checkpoint", "die")
    tap.eq(r.code, 0, f"{c.who}: and has checkpoints all the same", r)
    tap.eq(c("rm", "-f", "die").code, 0, f"{c.who}: rm die")


def test_damage(c):
    run = start(c, "dam")
    sh(c, "dam", "echo precious > f; echo other > g")
    make(c, "dam")
    for path in glob.glob(os.path.join(c.state, "objects", "??", "*")):
        with open(path, "rb") as f:
            if f.read() == b"precious\n":
                os.chmod(path, 0o600)
                with open(path, "wb") as w:
                    w.write(b"poisoned\n")
    sh(c, "dam", "echo now > f")
    make(c, "dam")
    r = c("rollback", "dam", "c1")
    tap.ok(r.code == 125 and "damaged" in r.err, f"{c.who}: content that is not what it was is refused", r)
    tap.ok(not os.path.exists(upper(c, run) + ".new"), f"{c.who}: nothing half-made is left")
    r = c("rollback", "dam", "c2")
    tap.eq(r.code, 0, f"{c.who}: another checkpoint is as good as before", r)
    m = glob.glob(os.path.join(c.state, "runs", run, "checkpoints", "1-*"))[0]
    with open(m, "r+b") as f:
        f.seek(-20, 2)
        f.write(b"\xff")
    r = c("rollback", "dam", "c1")
    tap.ok(r.code == 125 and "damaged" in r.err, f"{c.who}: a manifest that is not what it was is refused", r)
    r = c("checkpoint", "gc")
    tap.ok(r.code == 125 and "nothing was removed" in r.err, f"{c.who}: then nothing is thrown away", r)
    tap.eq(c("checkpoint", "rm", "dam", "c1").code, 0, f"{c.who}: it can be removed")
    tap.eq(c("checkpoint", "gc").code, 0, f"{c.who}: and then all is well")
    tap.eq(c("rm", "-f", "dam").code, 0, f"{c.who}: rm dam")


def test_many(c, n):
    # A hundred thousand files are made and removed: in memory where that can be.
    old = c.state
    c.state = fast_state(c) or old
    try:
        many(c, n)
    finally:
        if c.state != old:
            subprocess.run(["rm", "-rf", c.state], check=False)
        c.state = old


def fast_state(c):
    """A state directory on a tmpfs that can hold an overlay's layers, or None."""
    try:
        d = tempfile.mkdtemp(prefix="coffertest-", dir="/dev/shm")
        os.setxattr(d, "user.test", b"1")
        os.removexattr(d, "user.test")
        v = os.statvfs(d)
        if v.f_bavail * v.f_frsize < 3 << 30 or v.f_favail < 500000:
            raise OSError("too small")
    except OSError:
        return None
    os.chmod(d, 0o700)
    c.own(d)
    return d


def many(c, n):
    run = start(c, "many")
    r = sh(c, "many", f"""python3 - <<'X'
import os
for d in range({n} // 500):
    os.mkdir(f"d{{d}}")
    for f in range(500):
        with open(f"d{{d}}/f{{f}}", "w") as o:
            o.write(f"{{d}} {{f % 50}}")
d = 0
os.mkdir("deep"); os.chdir("deep")
for i in range(3000):
    os.mkdir("abc"); os.chdir("abc")
open("bottom", "w").write("bottom")
X""", timeout=300)
    tap.eq(r.code, 0, f"{c.who}: {n} files, and a tree that is deeper than a path is long", r)
    time.sleep(0.1)
    first = make(c, "many")
    tap.ok(first.get("entries", 0) > n + 3000, f"{c.who}: a checkpoint of them", first)
    second = make(c, "many")
    tap.note(f"{c.who}: {n} files: the second checkpoint stood still for {second.get('still_us', 0) / 1000:.1f} ms")
    tap.eq(second.get("files_read"), 0, f"{c.who}: the next one reads none", second)
    sh(c, "many", "rm -rf d1 deep; echo x > d2/f3", timeout=300)
    r = c("rollback", "many", timeout=200)
    tap.eq(r.code, 0, f"{c.who}: and back", r)
    got = n
    if can_read_all():
        got = len(subprocess.run(["find", upper(c, run), "-type", "f", "-printf", "x"], capture_output=True,
                                 check=False).stdout)
    tap.ok(got >= n, f"{c.who}: all are there", got)
    r = sh(c, "many", """cat d2/f3; python3 - <<'X'
import os
os.chdir("deep")
for i in range(3000):
    os.chdir("abc")
print(open("bottom").read())
X""", timeout=300)
    tap.eq(r.out, "2 3bottom\n", f"{c.who}: to the bottom", r)
    tap.eq(c("rm", "-f", "many", timeout=200).code, 0, f"{c.who}: rm many")


def test_full(c):
    """A disk that is full in the middle: a clear error, and all as before."""
    if c.who != "root":
        return
    script = r"""
mount -t tmpfs -o size=48m none "$COFFER_STATE" || exit 9
chmod 700 "$COFFER_STATE"
C="$1"
$C run --name f -- sh -c 'head -c 4000000 /dev/urandom > a; head -c 9000000 /dev/urandom > b' || exit 8
$C checkpoint f || exit 7
first=$(cat "$COFFER_STATE"/runs/*/upper/[ab] | sha256sum)
b=$(echo "$COFFER_STATE"/runs/*/upper/b)
head -c 9500000 /dev/urandom > "$b" || exit 6
head -c 18000000 /dev/zero > "$COFFER_STATE/ballast"
before=$(cat "$COFFER_STATE"/runs/*/upper/[ab] | sha256sum)
$C checkpoint f; echo "code $?"
$C rollback f; echo "code $?"
$C fork f --name g; echo "code $?"
[ "$before" = "$(cat "$COFFER_STATE"/runs/*/upper/[ab] | sha256sum)" ] && echo unchanged
$C checkpoint ls f
ls "$COFFER_STATE"/runs
rm "$COFFER_STATE/ballast"
$C rollback f; echo "code $?"
[ "$first" = "$(cat "$COFFER_STATE"/runs/*/upper/[ab] | sha256sum)" ] && echo restored
$C audit verify
$C rm -f f
"""
    os.makedirs(c.state, 0o700, exist_ok=True)
    r = c(program=["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", c.exe], timeout=300)
    tap.eq(r.code, 0, f"{c.who}: on a small disk", r)
    tap.like(r.out, r"c1\ncode 125\ncode 125\ncode 125\nunchanged\n", f"{c.who}: a full disk is an error, and nothing is lost", r)
    tap.like(r.err, "No space left", f"{c.who}: which says what is wrong", r)
    tap.like(r.out, r"1 checkpoint,.*\n[0-9a-f]{12}\ncode 0", f"{c.who}: no half checkpoint and no half fork is left", r)
    tap.like(r.out, r"restored\nok", f"{c.who}: with room again it goes back", r)


def test_root(c):
    """A root file system of the sandbox's own: its layer is in every checkpoint."""
    if not BUSYBOX:
        tap.skip(f"{c.who}: a root of its own", "busybox is not installed")
        return
    root = os.path.join(c.dir, "root")
    for d in ("", "bin", "etc"):
        os.mkdir(os.path.join(root, d), 0o755)
        c.own(os.path.join(root, d))
    shutil.copy(BUSYBOX, os.path.join(root, "bin", "busybox"))
    for a in ("sh", "cat", "rm", "sleep", "echo"):
        os.symlink("busybox", os.path.join(root, "bin", a))
        c.own(os.path.join(root, "bin", a))
    with open(os.path.join(root, "etc", "conf"), "w", encoding="ascii") as f:
        f.write("original\n")
    c.own(os.path.join(root, "etc", "conf"))
    start(c, "rooted", "--root", root, command=("/bin/sleep", "1000"))

    def inside(name, script):
        return c("exec", name, "--", "/bin/sh", "-c", script)

    inside("rooted", "echo 1 > /etc/conf; echo w > /workspace/w; rm /bin/echo")
    make(c, "rooted")
    inside("rooted", "rm -rf /etc/conf /workspace/w /bin/cat; echo evil > /bin/echo")
    r = c("diff", "rooted", "c1")
    tap.like(r.out, r"D w\n.*A /bin/echo\n.*D /etc/conf\n", f"{c.who}: what became of the root is told", r)
    tap.eq(c("rollback", "rooted").code, 0, f"{c.who}: and it is rolled back")
    want = "1\nw\n/bin/busybox /bin/cat /bin/rm /bin/sh /bin/sleep\n"
    script = "cat /etc/conf /workspace/w; busybox echo /bin/*"
    r = inside("rooted", script)
    tap.eq(r.out, want, f"{c.who}: with the workspace", r)
    tap.eq(c("fork", "rooted", "--name", "rooted2").code, 0, f"{c.who}: a fork of it")
    r = inside("rooted2", script)
    tap.eq(r.out, want, f"{c.who}: has the same", r)
    for name in ("rooted", "rooted2"):
        tap.eq(c("rm", "-f", name).code, 0, f"{c.who}: rm {name}")


def test_image(c):
    """Layers in a disk image of their own (--disk as root)."""
    if c.who != "root":
        return
    run = start(c, "img", "--disk", "64m")
    if not os.path.exists(os.path.join(c.state, "runs", run, "disk.img")):
        tap.skip("root: layers in a disk image", "no loop devices here")
        c("rm", "-f", "img")
        return
    sh(c, "img", "echo one > f; rm -f edit.txt")
    make(c, "img")
    sh(c, "img", "echo two > f; echo x > edit.txt")
    r = c("diff", "img", "c1")
    tap.like(r.out, r"A edit.txt\nM f\n", "root: a difference in a disk image that is in use", r)
    r = c("rollback", "img")
    tap.eq(r.code, 0, "root: rollback in a disk image", r)
    r = sh(c, "img", "cat f; ls edit.txt")
    tap.eq(r.out, "one\n", "root: it is as it was", r)
    tap.eq(c("stop", "-t", "0", "img").code, 0, "root: stop")
    r = c("rollback", "img", "c2")
    tap.eq(r.code, 0, "root: and back while it does not run", r)
    tap.eq(c("rm", "-f", "img").code, 0, "root: rm img")


only = os.environ.get("CHECKPOINT_TESTS", "").split()
for who in identities(tap):
    with coffer_as(who) as c:
        for name in ("roundtrip", "while_running", "swaps", "each", "agent", "ended", "foreground", "launcher_dies", "damage",
                     "full", "root", "image"):
            if not only or name in only:
                globals()[f"test_{name}"](c)
        if not only or "many" in only:
            test_many(c, 100000 if who == "root" else 10000)
        c.check_clean(tap)
tap.done()
