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
    if not tap.eq(r.code, 0, f"{c.who}: checkpoint of {name} {' '.join(opts)} succeeds", r):
        return {"checkpoint": "c0"}
    return json.loads(r.out)


def can_read_all():
    return os.getuid() == 0


def test_roundtrip(c):
    prepare(c)
    run = start(c, "w", "--home", "h")
    tap.eq(sh(c, "w", FILL + "\necho dot > $HOME/.rc").code, 0, f"{c.who}: the sandbox makes files of every kind")
    time.sleep(0.05)
    first = make(c, "w", "--label", "all kinds")
    tap.ok(first.get("frozen"), f"{c.who}: the sandbox is frozen during a checkpoint", first)
    tap.eq(first.get("frozen_by"), "control group" if c.who == "root" else "signals",
           f"{c.who}: the checkpoint says how the sandbox was frozen")
    before = dump(upper(c, run)) if can_read_all() else {}
    home = dump(os.path.join(c.state, "homes", "h")) if can_read_all() else {}
    again = make(c, "w")
    tap.eq(again.get("files_read", 99) <= 1, True, f"{c.who}: a second checkpoint does not read unchanged files", again)
    tap.eq(sh(c, "w", SPOIL + "\nrm $HOME/.rc; echo x > $HOME/other").code, 0, f"{c.who}: the sandbox spoils all of its files")
    r = c("rollback", "w", "c1")
    tap.eq(r.code, 0, f"{c.who}: rollback succeeds", r)
    tap.like(r.err, "rolled back to c1 and restarted", f"{c.who}: rollback says that it restarted the sandbox", r)
    same(before, dump(upper(c, run)) if can_read_all() else {}, f"{c.who}: the workspace's layer is restored by rollback")
    same(home, dump(os.path.join(c.state, "homes", "h")) if can_read_all() else {}, f"{c.who}: the home is restored by rollback")
    r = sh(c, "w", "cat edit.txt new/hard $HOME/.rc; ls gone.txt olddir; cat keep.txt")
    tap.eq(r.out, "old\nmore\ncontent\ndot\nolddir:\nnew\nkept", f"{c.who}: the sandbox sees the restored files", r)
    tap.ok("gone.txt" in r.err, f"{c.who}: a file that was deleted in the checkpoint is deleted after rollback", r)
    r = c("ps", "--json")
    tap.ok(f'"{run}"' in r.out and '"running"' in r.out, f"{c.who}: the sandbox runs under its own id after rollback", r)
    third = make(c, "w")
    tap.ok(third.get("files_read", 99) <= 2, f"{c.who}: a checkpoint after rollback does not read the restored files again", third)
    # The state that was given up is a checkpoint too.
    r = c("rollback", "w", "c3")
    tap.eq(r.code, 0, f"{c.who}: rollback to the checkpoint of a rollback succeeds", r)
    tap.eq(sh(c, "w", "cat edit.txt; test -L olddir && test -p run.sh && echo yes").out, "evil\nyes\n",
           f"{c.who}: a rollback of the rollback restores the spoiled files")
    test_lists(c)
    test_diff(c)
    test_fork(c, before)
    for name in ("w", "v"):
        tap.eq(c("rm", "-f", name).code, 0, f"{c.who}: rm {name}")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [],
           f"{c.who}: rm of the sandboxes removes the objects of their checkpoints")
    tap.eq(c("audit", "verify").code, 0, f"{c.who}: the log is whole")


def test_lists(c):
    r = c("checkpoint", "ls", "w", "--json")
    l = json.loads(r.out)["checkpoints"] if r.code == 0 else []
    tap.eq([x["checkpoint"] for x in l], ["c1", "c2", "c3", "c4", "c5"], f"{c.who}: checkpoint ls lists all checkpoints", r)
    tap.eq([x["undo"] for x in l], [False, False, True, False, True], f"{c.who}: checkpoint ls marks the checkpoints that a rollback made")
    tap.eq(l[0]["label"] if l else "", "all kinds", f"{c.who}: checkpoint ls has the label")
    tap.eq(l[1]["new_bytes"] if l else 1, 0, f"{c.who}: the same content is stored once", r)
    r = c("checkpoint", "ls", "w")
    tap.like(r.out, r"c1 +.* ago +\d+ +[\d.]+ \w+ +[\d.]+ \w+ +yes +all kinds", f"{c.who}: checkpoint ls prints a table", r)


def test_diff(c):
    r = c("diff", "w", "c1", "c2")
    tap.eq((r.code, r.out), (0, ""), f"{c.who}: two equal checkpoints have no difference", r)
    r = c("diff", "w", "c1")
    tap.eq(r.code, 0, f"{c.who}: diff of a checkpoint against now succeeds", r)
    lines = set(r.out.splitlines())
    for want in ("M edit.txt", "D keep.txt", "D new/deep/file", "T new/deep (directory -> file)", "A ~/other", "D ~/.rc",
                 "T run.sh (file -> pipe)", "D olddir/new", "T olddir (directory -> symlink)"):
        tap.ok(want in lines or want.replace("T new/deep ", "T new/deep/ ") in lines or
               want.replace("T olddir ", "T olddir/ ") in lines, f"{c.who}: diff of a checkpoint against now has '{want}'", r.out)
    tap.ok(not any(x[2:].startswith("gone.txt") for x in lines), f"{c.who}: diff does not list a file that is deleted in both", r.out)
    r = c("diff", "w", "c3", "c1")
    tap.ok("A keep.txt" in r.out and "M edit.txt" in r.out,
           f"{c.who}: diff of two checkpoints shows the change from the first to the second", r)
    r = c("diff", "-p", "w", "c1", "c3", "edit.txt")
    tap.ok("-old" in r.out and "-more" in r.out and "+evil" in r.out, f"{c.who}: diff -p of two checkpoints shows lines", r)
    r = c("diff", "-p", "w", "c1", "edit.txt")
    tap.ok("-more" in r.out and "+evil" in r.out, f"{c.who}: diff -p of a checkpoint against now shows lines", r)
    r = c("diff", "w", "c99")
    tap.eq(r.code, 125, f"{c.who}: diff of a checkpoint that does not exist fails", r)


def test_fork(c, before):
    r = c("fork", "w", "c1", "--name", "v")
    tap.eq(r.code, 0, f"{c.who}: fork succeeds", r)
    run = r.out.strip()
    same(before, dump(upper(c, run)) if can_read_all() else {}, f"{c.who}: the fork's layer is the checkpoint's")
    tap.eq(sh(c, "v", "cat $HOME/.rc edit.txt; echo mine > only-here; hostname").out, "dot\nold\nmore\nv\n",
           f"{c.who}: the fork has its home, its files and its own name")
    tap.ok("only-here" not in sh(c, "w", "ls").out, f"{c.who}: the first sandbox does not see a file of its fork")
    r = c("rollback", "v")
    tap.eq(r.code, 0, f"{c.who}: rollback of the fork succeeds", r)
    tap.ok("only-here" not in sh(c, "v", "ls; hostname").out, f"{c.who}: rollback of the fork restores where it began")
    tap.eq(sh(c, "v", "hostname").out, "v\n", f"{c.who}: the fork has its own name after rollback")
    r = c("fork", "w", "c1", "--name", "v")
    tap.eq(r.code, 125, f"{c.who}: fork --name refuses a name that is taken", r)
    r = c("fork", "w", "c1", "--name", "u", "--home", "v")
    tap.eq(r.code, 125, f"{c.who}: fork --home refuses a home that is taken", r)
    tap.like(r.err, "there is a home called 'v'", f"{c.who}: fork --home names the home that is taken", r)


def test_while_running(c):
    """Commands that run are told; a rollback takes no half of what they wrote."""
    run = start(c, "busy")
    make(c, "busy")
    p = c.popen("exec", "busy", "--", "sh", "-c", "echo began; while :; do echo x >> noise; sleep 0.01; done")
    p.stdout.readline()
    time.sleep(0.2)
    r = c("rollback", "busy")
    tap.eq(r.code, 0, f"{c.who}: rollback works while a command runs", r)
    try:
        _, err = p.communicate(timeout=90 * slow_build())
    except subprocess.TimeoutExpired:
        p.kill()
        err = b"(it did not end)"
    tap.ok(p.returncode == 137 and b"rolled back" in err,
           f"{c.who}: the client of a command that a rollback ended is told why", p.returncode, err)
    tap.eq(sh(c, "busy", "ls").out.count("noise"), 0, f"{c.who}: the files of a command that a rollback ended are gone")
    # Two files that are written one after the other, from many processes: never more than one step apart.
    c("exec", "busy", "--", "sh", "-c",
      "(i=0; while :; do i=$((i+1)); echo $i > .a; mv .a a; echo $i > .b; mv .b b; done) >/dev/null 2>&1 & "
      "(while :; do /bin/true; done) >/dev/null 2>&1 & while [ ! -e b ]; do sleep 0.05; done; sleep 0.2")
    steps = []
    for _ in range(4):
        m = make(c, "busy")
        tap.ok(m.get("frozen"), f"{c.who}: the sandbox is frozen although many processes come and go", m)
        r = c("rollback", "--no-start", "busy", m["checkpoint"])
        tap.eq(r.code, 0, f"{c.who}: rollback to {m['checkpoint']} succeeds", r)
        with open(os.path.join(upper(c, run), "a"), encoding="ascii") as a, \
                open(os.path.join(upper(c, run), "b"), encoding="ascii") as b:
            steps.append(int(a.read()) - int(b.read()))
        break
    tap.ok(all(s in (0, 1) for s in steps), f"{c.who}: a checkpoint has two files of one instant", steps)
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
        tap.ok(r.code == 0 or "faster than it can be read" in r.err,
               f"{c.who}: swaps {i}: a checkpoint succeeds or fails with a clear error", r)
        tap.ok(time.monotonic() - began < 90 * slow_build(), f"{c.who}: swaps {i}: a checkpoint ends in time", r)
    r = c("rollback", "swap")
    tap.eq(r.code, 0, f"{c.who}: rollback of a sandbox that swaps files succeeds", r)
    tap.eq(c("rm", "-f", "swap").code, 0, f"{c.who}: rm swap")


def test_each(c):
    start(c, "each", "--checkpoint", "each", "--keep", "3")
    for i in range(5):
        sh(c, "each", f"echo {i} > f")
    sh(c, "each", "cat f")
    r = c("checkpoint", "ls", "each", "--json")
    l = json.loads(r.out)["checkpoints"]
    tap.eq([x["checkpoint"] for x in l], ["c4", "c5", "c6"],
           f"{c.who}: --checkpoint each makes one for each command that changed something", r)
    tap.eq(l[-1]["label"], "sh -c echo 4 > f", f"{c.who}: --checkpoint each labels a checkpoint with its command")
    tap.eq(c("rollback", "each", "c5").code, 0, f"{c.who}: rollback by one command succeeds")
    tap.eq(sh(c, "each", "cat f").out, "3\n", f"{c.who}: rollback by one command restores the file")
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
            tap.eq(c("rollback", "agent", "c1").code, 0, f"{c.who}: rollback of a sandbox with a profile succeeds")
            tap.eq(sh(c, "agent", "ls; ls $HOME").out.count("too"), 0, f"{c.who}: rollback of a sandbox with a profile restores the home")
        tap.eq(c("rm", "-f", "agent").code, 0, f"{c.who}: rm agent")


def test_ended(c):
    """Of a run that is over; and what goes with it."""
    c("run", "--name", "over", "--", "sh", "-c", "echo 1 > f; mkdir -m 0 shut")
    tap.eq(c("checkpoint", "over", "-l", "one").out, "c1\n", f"{c.who}: checkpoint of an ended run works")
    r = c("rollback", "over")
    tap.eq(r.code, 0, f"{c.who}: rollback of an ended run succeeds", r)
    tap.like(c("diff", "over").out, "A f\nA shut/", f"{c.who}: rollback of an ended run restores its files")
    tap.eq(c("fork", "over", "--name", "o2").code, 0, f"{c.who}: fork of an ended run succeeds")
    tap.eq(c("rm", "-f", "o2").code, 0, f"{c.who}: rm o2")
    for ref, why in (("nobody", "no run"), ("over c7", "no checkpoint c7"), ("over x7", "is not a valid checkpoint")):
        r = c("rollback", *ref.split())
        tap.ok(r.code == 125 and why in r.err, f"{c.who}: rollback {ref} is refused", r)
    r = c("checkpoint", "over", "-l", "x" * 300)
    tap.eq(r.code, 2, f"{c.who}: checkpoint refuses a label that is too long", r)
    tap.eq(c("checkpoint", "rm", "over", "c1").code, 0, f"{c.who}: checkpoint rm succeeds")
    tap.eq(c("apply", "over").code, 0, f"{c.who}: apply of a run with checkpoints succeeds")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [], f"{c.who}: apply removes the objects of the run's checkpoints")
    # An empty workspace is wiped at its end, and its checkpoints with it.
    start(c, "eph", "--ephemeral")
    sh(c, "eph", "echo secret > s")
    make(c, "eph")
    sh(c, "eph", "echo other > s")
    tap.eq(c("rollback", "eph").code, 0, f"{c.who}: rollback of an empty workspace succeeds")
    tap.eq(sh(c, "eph", "cat s").out, "secret\n", f"{c.who}: rollback of an empty workspace restores the file")
    tap.eq(c("stop", "-t", "0", "eph").code, 0, f"{c.who}: stop of a sandbox with an empty workspace succeeds")
    c("rm", "eph")
    tap.eq(glob.glob(os.path.join(c.state, "objects", "??", "*")), [], f"{c.who}: nothing of an empty workspace is kept after its end")


def test_foreground(c):
    """One in the foreground is ended, told why, and stays ended. One without a layer has nothing to hold."""
    p = c.popen("run", "--name", "fg", "--", "sh", "-c", "echo 1 > fg.txt; echo ready; exec sleep 100")
    p.stdout.readline()
    make(c, "fg")
    sh(c, "fg", "echo 2 > fg.txt")
    r = c("rollback", "fg")
    tap.ok(r.code == 0 and "to c1 and ended" in r.err, f"{c.who}: rollback ends a sandbox in the foreground", r)
    _, err = p.communicate(timeout=90 * slow_build())
    tap.ok(p.returncode == 137 and b"rolled back" in err,
           f"{c.who}: the client of a sandbox in the foreground is told why it ended", p.returncode, err)
    r = c("diff", "-p", "fg")
    tap.like(r.out, r"A fg.txt\n.*\+1", f"{c.who}: rollback restores the files of a sandbox in the foreground", r)
    tap.eq(c("rm", "fg").code, 0, f"{c.who}: rm fg")
    p = c.popen("run", "--name", "bare", "-C", c.work + ":ro", "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.1; done")
    p.stdout.readline()
    r = c("checkpoint", "bare")
    tap.ok(r.code == 125 and "nothing that a checkpoint could hold" in r.err,
           f"{c.who}: checkpoint of a sandbox without a layer is refused", r)
    c.write("go")
    p.communicate(timeout=90 * slow_build())
    tap.ok("bare" not in c("ps", "-a").out, f"{c.who}: a sandbox without a layer leaves no run", c("ps", "-a"))


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
    tap.ok(p.returncode == 125 or b"frozen" in err or p.returncode == 0,
           f"{c.who}: checkpoint ends with an exit code when the launcher dies meanwhile", err)
    end = time.monotonic() + 90 * slow_build()
    while time.monotonic() < end:
        if '"ended"' in c("ps", "-a", "--json").out:
            break
        time.sleep(0.1)
    tap.ok('"ended"' in c("ps", "-a", "--json").out, f"{c.who}: the sandbox has ended after its launcher died", c("ps", "-a"))
    r = c("checkpoint", "die")
    tap.eq(r.code, 0, f"{c.who}: checkpoint works after the launcher died", r)
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
    tap.ok(r.code == 125 and "damaged" in r.err, f"{c.who}: rollback refuses content that was changed in the store", r)
    tap.ok(not os.path.exists(upper(c, run) + ".new"), f"{c.who}: rollback that was refused leaves nothing half-made")
    r = c("rollback", "dam", "c2")
    tap.eq(r.code, 0, f"{c.who}: rollback to an undamaged checkpoint succeeds", r)
    m = glob.glob(os.path.join(c.state, "runs", run, "checkpoints", "1-*"))[0]
    with open(m, "r+b") as f:
        f.seek(-20, 2)
        f.write(b"\xff")
    r = c("rollback", "dam", "c1")
    tap.ok(r.code == 125 and "damaged" in r.err, f"{c.who}: rollback refuses a manifest that was changed", r)
    r = c("checkpoint", "gc")
    tap.ok(r.code == 125 and "nothing was removed" in r.err, f"{c.who}: checkpoint gc removes nothing while a manifest is damaged", r)
    tap.eq(c("checkpoint", "rm", "dam", "c1").code, 0, f"{c.who}: checkpoint rm removes a damaged checkpoint")
    tap.eq(c("checkpoint", "gc").code, 0, f"{c.who}: checkpoint gc succeeds once the damaged checkpoint is removed")
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
    tap.eq(r.code, 0, f"{c.who}: the sandbox makes {n} files and a tree deeper than a path can be", r)
    time.sleep(0.1)
    first = make(c, "many")
    tap.ok(first.get("entries", 0) > n + 3000, f"{c.who}: a checkpoint has all of {n} files", first)
    second = make(c, "many")
    tap.note(f"{c.who}: {n} files: the second checkpoint stood still for {second.get('still_us', 0) / 1000:.1f} ms")
    tap.eq(second.get("files_read"), 0, f"{c.who}: a second checkpoint of {n} files reads none", second)
    sh(c, "many", "rm -rf d1 deep; echo x > d2/f3", timeout=300)
    r = c("rollback", "many", timeout=200)
    tap.eq(r.code, 0, f"{c.who}: rollback of {n} files succeeds", r)
    got = n
    if can_read_all():
        got = len(subprocess.run(["find", upper(c, run), "-type", "f", "-printf", "x"], capture_output=True,
                                 check=False).stdout)
    tap.ok(got >= n, f"{c.who}: rollback restores all of {n} files", got)
    r = sh(c, "many", """cat d2/f3; python3 - <<'X'
import os
os.chdir("deep")
for i in range(3000):
    os.chdir("abc")
print(open("bottom").read())
X""", timeout=300)
    tap.eq(r.out, "2 3bottom\n", f"{c.who}: rollback restores a deep tree to its bottom", r)
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
    tap.eq(r.code, 0, f"{c.who}: checkpoints on a small disk run to the end of the script", r)
    tap.like(r.out, r"c1\ncode 125\ncode 125\ncode 125\nunchanged\n",
             f"{c.who}: checkpoint, rollback and fork fail on a full disk, and nothing is lost", r)
    tap.like(r.err, "No space left", f"{c.who}: a full disk is named in the error", r)
    tap.like(r.out, r"1 checkpoint,.*\n[0-9a-f]{12}\ncode 0", f"{c.who}: a full disk leaves no half checkpoint and no half fork", r)
    tap.like(r.out, r"restored\nok", f"{c.who}: rollback works once the disk has room", r)


def object_bytes(c):
    return sum(os.stat(p).st_blocks * 512 for p in glob.glob(os.path.join(c.state, "objects", "??", "*")))


def test_budget(c):
    """Automatic checkpoints use at most four times the disk limit beside the newest; one made by a person stays."""
    start(c, "budget", "--checkpoint", "each", "--disk", "8m")
    most = 0
    for i in range(10):
        sh(c, "budget", "head -c 6000000 /dev/urandom > f")
        if i == 1:
            tap.eq(c("checkpoint", "budget", "-l", "mine").code, 0, f"{c.who}: a person makes a checkpoint")
        most = max(most, object_bytes(c))
    # Four times 8 MiB, the newest, and the one of the person.
    tap.ok(30e6 < most < 50e6, f"{c.who}: automatic checkpoints do not exceed their budget", most)
    r = c("checkpoint", "ls", "budget", "--json")
    l = [p["label"] for p in json.loads(r.out)["checkpoints"]]
    tap.ok("mine" in l and 3 <= len(l) <= 8, f"{c.who}: the oldest automatic checkpoints are dropped, a person's is kept", r)
    r = c("audit", "--json")
    tap.like(r.out, "more bytes than are kept", f"{c.who}: the log has why a checkpoint was dropped", r)
    tap.eq(c("rm", "-f", "budget").code, 0, f"{c.who}: rm budget")


def test_floor(c):
    """Automatic checkpoints leave free space on the state's file system, half of it where that is small."""
    if c.who != "root":
        return
    script = r"""
mount -t tmpfs -o size=200m none "$COFFER_STATE" || exit 9
chmod 700 "$COFFER_STATE"
C="$1"
left() { echo "left $(df -Pm "$COFFER_STATE" | awk 'END { print $4 }')"; }
head -c 120000000 /dev/zero > "$COFFER_STATE/ballast"
$C run -d --name f --checkpoint each -- sleep 1000 > /dev/null || exit 8
for i in 1 2 3; do $C exec f -- sh -c 'head -c 5000000 /dev/urandom > a; echo written'; done
echo "code $?"
$C checkpoint f
$C audit --json | grep -c checkpoint.skip
rm "$COFFER_STATE/ballast"
for i in 1 2 3 4 5 6 7 8; do $C exec f -- sh -c 'head -c 20000000 /dev/urandom > a' || exit 7; left; done
$C checkpoint ls f
$C rm -f f
"""
    os.makedirs(c.state, 0o700, exist_ok=True)
    r = c(program=["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", c.exe], timeout=300)
    tap.eq(r.code, 0, "root: a sandbox with automatic checkpoints runs on while little space is left", r)
    tap.like(r.out, r"written\nwritten\nwritten\ncode 0\nc2\n1\n", "root: no automatic checkpoint is made below the floor, with one event", r)
    tap.eq(r.err.count("no checkpoint was made: too little space"), 1, "root: the lack of space is reported once", r)
    tap.like(r.err, "little space is left on the file system", "root: a person's checkpoint is made, with a warning", r)
    free = [int(l.split()[1]) for l in r.out.splitlines() if l.startswith("left ")]
    tap.ok(len(free) == 8 and min(free) >= 75, "root: automatic checkpoints leave free space", r)
    tap.like(r.out, r"\n[3-5] checkpoints,", "root: the oldest automatic checkpoints are dropped for space", r)


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
    tap.like(r.out, r"D w\n.*A /bin/echo\n.*D /etc/conf\n", f"{c.who}: diff lists changes of a root of the sandbox's own", r)
    tap.eq(c("rollback", "rooted").code, 0, f"{c.who}: rollback of a sandbox with its own root succeeds")
    want = "1\nw\n/bin/busybox /bin/cat /bin/rm /bin/sh /bin/sleep\n"
    script = "cat /etc/conf /workspace/w; busybox echo /bin/*"
    r = inside("rooted", script)
    tap.eq(r.out, want, f"{c.who}: rollback restores the root and the workspace", r)
    tap.eq(c("fork", "rooted", "--name", "rooted2").code, 0, f"{c.who}: fork of a sandbox with its own root succeeds")
    r = inside("rooted2", script)
    tap.eq(r.out, want, f"{c.who}: a fork has the root and the workspace", r)
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
    tap.like(r.out, r"A edit.txt\nM f\n", "diff works for a disk image that is in use", r)
    r = c("rollback", "img")
    tap.eq(r.code, 0, "rollback works in a disk image", r)
    r = sh(c, "img", "cat f; ls edit.txt")
    tap.eq(r.out, "one\n", "rollback restores the files in a disk image", r)
    tap.eq(c("stop", "-t", "0", "img").code, 0, "stop of a sandbox with a disk image succeeds")
    r = c("rollback", "img", "c2")
    tap.eq(r.code, 0, "rollback of an ended sandbox with a disk image succeeds", r)
    tap.eq(c("rm", "-f", "img").code, 0, "root: rm img")


only = os.environ.get("CHECKPOINT_TESTS", "").split()
for who in identities(tap):
    with coffer_as(who) as c:
        for name in ("roundtrip", "while_running", "swaps", "each", "agent", "ended", "foreground", "launcher_dies", "damage",
                     "full", "budget", "floor", "root", "image"):
            if not only or name in only:
                globals()[f"test_{name}"](c)
        if not only or "many" in only:
            test_many(c, 100000 if who == "root" else 10000)
        c.check_clean(tap)
tap.done()
