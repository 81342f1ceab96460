#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""diff, apply and discard over real runs, as every identity."""

import json
import os
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering  # noqa: E402

tap = Tap()

CHANGES = r"""
set -e
echo more >> edit.txt
rm gone.txt
mkdir -p new/deep
echo n > new/deep/file
printf 'x' > "$(printf 'new/line\nbreak')"
chmod 755 run.sh
rm -r olddir
ln -s edit.txt new/link
ln new/deep/file new/hard
truncate -s 1G new/sparse
echo evil > .envrc
mkdir -p .github/workflows .git/hooks
echo ci > .github/workflows/ci.yml
echo hook > .git/hooks/pre-commit
ln -s /etc/passwd new/outside
cp /bin/true new/suid
chmod u+s new/suid
mkfifo new/pipe
"""

PLAIN = {"edit.txt", "gone.txt", "new", "new/deep", "new/deep/file", "new/line\nbreak", "run.sh", "olddir", "olddir/a",
         "new/link", "new/hard", "new/sparse", ".github"}
TRIGGERS = {".envrc", ".github/workflows", ".github/workflows/ci.yml", ".git/hooks/pre-commit"}
SPECIALS = {"new/outside", "new/suid", "new/pipe"}


def specials(c):
    """gVisor keeps a named pipe in its own memory: there is none on the host, and so none to apply."""
    return SPECIALS - ({"new/pipe"} if c.engine == "gvisor" else set())


def prepare(c):
    c.write("edit.txt", "old\n")
    c.write("gone.txt", "x")
    c.write("run.sh", "#!/bin/sh\n")
    c.write("olddir/a", "a")
    c.write("keep.txt", "kept")
    c.write(".git/hooks/x.sample", "")
    time.sleep(0.05)


def read(c, name):
    with open(os.path.join(c.work, name), "rb") as f:
        return f.read()


def there(c, name):
    return os.path.lexists(os.path.join(c.work, name))


def changes(c, ref="@last"):
    r = c("diff", "--json", ref)
    return {x["path"]: x for x in json.loads(r.out)["changes"]} if r.code == 0 else {}


def test_story(c, who):
    prepare(c)
    r = c("run", "--", "sh", "-c", CHANGES)
    tap.eq(r.code, 0, f"{who}: a run that changes files exits with 0", r)
    tap.eq(read(c, "edit.txt"), b"old\n", f"{who}: the original file is unchanged")
    tap.ok(there(c, "gone.txt") and not there(c, "new"), f"{who}: the original workspace has no added or deleted file")

    found = changes(c)
    plain = {p for p, x in found.items() if not x["flags"]}
    tap.eq(plain, PLAIN, f"{who}: diff --json lists plain changes without flags")
    tap.ok(TRIGGERS <= {p for p, x in found.items() if "trigger" in x["flags"]}, f"{who}: diff --json flags files that the host may execute as triggers")
    tap.eq({p for p, x in found.items() if "special" in x["flags"]}, specials(c), f"{who}: diff --json flags special files")

    r = c("diff", "@last")
    tap.like(r.out, r"^M edit\.txt$", f"{who}: diff prints a line for each change", r)
    tap.like(r.out, r"^A new/line\\x0abreak$", f"{who}: diff prints a name with a newline in one line", r)
    tap.like(r.out, r"^m run\.sh \(0644 -> 0755\)$", f"{who}: diff prints changed modes", r)
    tap.like(r.out, r"automatically.*^A \.envrc: .*direnv", f"{who}: diff prints triggers separately with their reason", r)
    tap.like(r.out, r"^A new/suid: setuid", f"{who}: diff prints special files with their reason", r)
    r = c("diff", "-z", "@last")
    tap.ok("A\0new/line\nbreak\0" in r.out, f"{who}: diff -z prints names unescaped")
    r = c("diff", "--stat", "@last")
    tap.like(r.out, r"\d+ added, 1 modified, 3 deleted, 1 mode", f"{who}: diff --stat counts the changes", r)

    r = c("diff", "-p", "@last", "edit.txt", os.path.join(c.work, "new/deep"))
    tap.like(r.out, r"^M edit.txt\n@@ -1,1 \+1,2 @@\n old\n\+more$", f"{who}: diff -p prints changed lines", r)
    tap.ok("run.sh" not in r.out and "new/deep/file" in r.out, f"{who}: diff -p prints only the given paths", r)
    tap.eq(c("diff", "@last", "nothing/here").code, 125, f"{who}: diff of a path without changes is an error")

    r = c("apply", "@last", "--dry-run")
    tap.eq(r.code, 1, f"{who}: apply --dry-run exits with 1 when something would be left out", r)
    tap.ok(read(c, "edit.txt") == b"old\n" and not there(c, "new"), f"{who}: apply --dry-run changes nothing")

    r = c("apply", "@last", "nothing/here")
    tap.eq(r.code, 125, f"{who}: apply of a path without changes is an error", r)
    r = c("apply", "@last", "edit.txt")
    tap.ok(r.code == 0 and read(c, "edit.txt") == b"old\nmore\n" and not there(c, "new"), f"{who}: apply of one path writes only that path", r)
    r = c("apply", "@last", "--allow", ".")
    tap.eq(r.code, 2, f"{who}: apply --allow refuses '.'", r)

    r = c("apply", "@last")
    tap.eq(r.code, 1, f"{who}: apply leaves out triggers and special files, with exit 1", r)
    tap.like(r.err, r"not applied: A \.envrc.*\[--allow \.envrc\]", f"{who}: apply names the option for a trigger", r)
    tap.like(r.err, r"\[--allow-special new/suid\]", f"{who}: apply names the option for a special file", r)
    tap.ok(not there(c, ".envrc") and not there(c, "new/suid") and not there(c, "new/pipe"), f"{who}: apply does not write triggers and special files")
    tap.eq(read(c, "new/line\nbreak"), b"x", f"{who}: apply writes plain files")
    st = os.stat(os.path.join(c.work, "new/deep/file"))
    tap.ok(st.st_ino == os.stat(os.path.join(c.work, "new/hard")).st_ino, f"{who}: apply keeps hard links")
    tap.eq(st.st_uid, c.uid, f"{who}: applied files belong to the caller")
    st = os.stat(os.path.join(c.work, "new/sparse"))
    tap.ok(st.st_size == 1 << 30 and st.st_blocks < 2048, f"{who}: apply keeps holes of sparse files")
    tap.ok(not there(c, "gone.txt") and not there(c, "olddir"), f"{who}: apply deletes deleted files")

    r = c("apply", "@last", "--allow", ".git", "--allow", ".envrc", "--allow", ".github")
    tap.ok(r.code == 1 and there(c, ".envrc") and there(c, ".github/workflows/ci.yml"), f"{who}: apply --allow writes triggers", r)
    tap.ok(not there(c, ".git/hooks/pre-commit"), f"{who}: apply --allow .git does not write hooks")
    r = c("apply", "@last", "--allow", ".git/hooks/pre-commit",
          *(word for path in sorted(specials(c)) for word in ("--allow-special", path)))
    tap.eq(r.code, 0, f"{who}: apply with all options exits with 0", r)
    mode = os.lstat(os.path.join(c.work, "new/suid")).st_mode
    tap.ok(mode & stat.S_ISUID and there(c, ".git/hooks/pre-commit"), f"{who}: apply with all options writes hooks and setuid bits")
    tap.eq(c("ps", "-a", "-q").out, "", f"{who}: a run that is applied completely is removed")
    r = c("audit", "--json")
    types = [json.loads(line)["type"] for line in r.out.splitlines()]
    tap.ok(types.count("workspace.apply") == 4 and "workspace.wiped" in types, f"{who}: each apply is in the log", types)
    event = [json.loads(line) for line in r.out.splitlines() if '"workspace.apply"' in line][-1]
    tap.ok("new/suid" in event["by_hand"] and "new/suid" in event["allow_special"], f"{who}: the log has the paths of --allow-special",
           event)


def test_conflict(c, who):
    c.write("both.txt", "old")
    c.write("fine.txt", "old")
    time.sleep(0.05)
    r = c("run", "--", "sh", "-c", "echo inside > both.txt; echo inside > fine.txt")
    tap.eq(r.code, 0, f"{who}: control: a run changes two files", r)
    c.write("both.txt", "outside")
    r = c("apply", "@last")
    tap.ok(r.code == 1 and read(c, "both.txt") == b"outside" and read(c, "fine.txt") == b"inside\n",
           f"{who}: apply leaves out a file that changed on both sides", r)
    r = c("apply", "@last", "--force", "both.txt")
    tap.ok(r.code == 0 and read(c, "both.txt") == b"inside\n", f"{who}: apply --force writes a file that changed on both sides", r)


def test_discard(c, who):
    c.write("d.txt", "old")
    r = c("run", "--", "sh", "-c", "echo x > d.txt; mkdir -p a/b; chmod 000 a/b a")
    tap.eq(r.code, 0, f"{who}: control: a run changes files", r)
    r = c("discard", "@last")
    tap.ok(r.code == 0 and read(c, "d.txt") == b"old", f"{who}: discard succeeds and keeps the original", r)
    tap.eq(c("diff", "@last").code, 125, f"{who}: diff of a discarded run is an error")
    tap.eq(os.listdir(os.path.join(c.state, "runs")) if who != "userns" or os.getuid() == 0 else [], [],
           f"{who}: discard leaves no run directory")


def test_alive(c, who):
    r = c("run", "-d", "--name", "busy", "--", "sh", "-c", "echo x > busy.txt; sleep 600")
    tap.eq(r.code, 0, f"{who}: a run starts in the background", r)
    deadline = time.monotonic() + 90
    while "busy.txt" not in c("diff", "busy").out and time.monotonic() < deadline:
        time.sleep(0.05)
    tap.like(c("diff", "busy").out, r"^A busy\.txt$", f"{who}: diff shows the changes of a running sandbox")
    for verb in ("apply", "discard"):
        r = c(verb, "busy")
        tap.ok(r.code == 125 and "is still running" in r.err, f"{who}: {verb} refuses a running sandbox", r)
    tap.ok(not there(c, "busy.txt"), f"{who}: the changes of a running sandbox are not written")
    c("stop", "-t", "0", "busy")
    r = c("rm", "-f", "busy")
    tap.eq(r.code, 0, f"{who}: rm -f removes a stopped sandbox", r)


# Takes away what covers .env and /workspace, as far as whoever holds the capability can; then moves what was below.
UNCOVER = r"""
import ctypes, os
libc = ctypes.CDLL(None)
print("unmounted", libc.umount2(b"/tmp", 2))
libc.umount2(b"/workspace/.env", 2)
os.makedirs("/run/ws")
libc.mount(b"/workspace", b"/run/ws", None, 4096, None)
for top in ("/workspace", "/run/ws"):
    for do in (lambda: os.rename(top + "/.env", top + "/seen"), lambda: os.unlink(top + "/.env")):
        try:
            do()
            print("moved")
        except OSError:
            pass
"""


def check_unmounted_masks(c, who):
    """In gVisor CAP_SYS_ADMIN unmounts what is mounted there; what hides a file must not be in its reach."""
    c.write("uncover.py", UNCOVER)
    for mode in (".", ".:rw"):
        r = c("run", "-C", mode, "--user", "0", "--cap", "sys_admin", "--", "python3", "uncover.py")
        if c.engine == "gvisor" and r.code == 125:
            tap.ok("cannot hide" in r.err, f"{who}: {mode}: a run that cannot hide files with one id is refused", r)
            continue
        tap.ok(r.code == 0 and "moved" not in r.out, f"{who}: {mode}: a hidden file cannot be moved by root with sys_admin", r)
        if c.engine == "gvisor":
            tap.ok("unmounted 0" in r.out, f"{who}: {mode}: control: other mounts can be removed", r)
        tap.eq(read(c, ".env"), b"TOKEN=1", f"{who}: {mode}: a hidden file is unchanged")
        c("discard", "@last")


# One process, for a thousand of them take their time in gVisor.
MOVE = r"""
import glob, os, shutil
places = [".", *glob.glob("many/*")]
for d in places:
    for act in (lambda: os.rename(d + "/.env", d + "/seen"), lambda: os.link(d + "/.env", d + "/seen"),
                lambda: shutil.copyfile(d + "/.env", d + "/copy"), lambda: os.unlink(d + "/.env")):
        try:
            act()
        except OSError:
            pass
for d in places:
    for name in ("seen", "copy"):
        try:
            with open(f"{d}/{name}") as f:
                print(f.read())
        except OSError:
            pass
print("tried", len(places))
"""


def check_moved_masks(c, who):
    """A hidden file must stay hidden under another name, in this run and the next; few of them, and too many to be
    mounts of gVisor's own."""
    for count in (0, 140):
        for i in range(count):
            c.write(f"many/{i}/.env", "TOKEN=1")
        if count and c.engine == "gvisor" and who == "userns":  # a gofer for all files wants a second id
            r = c("run", "--", "true")
            tap.ok(r.code == 125 and "cannot hide" in r.err and "--engine ns" in r.err,
                   f"{who}: a run with {count + 1} hidden files and one id is refused", r)
            return
        for mode in (".", ".:rw"):
            r = c("run", "-C", mode, "--", "python3", "-c", MOVE)
            tap.ok(f"tried {count + 1}" in r.out and "TOKEN=1" not in r.out, f"{who}: {mode}: {count + 1} hidden files cannot be moved into sight", r)
            r = c("run", "-C", mode, "--", "sh", "-c", "grep -r TOKEN=1 . && echo seen; true")
            tap.ok(r.code == 0 and "seen" not in r.out, f"{who}: {mode}: {count + 1} hidden files are not visible in the next run", r)
            c("discard", "@last")
        tap.eq(read(c, ".env"), b"TOKEN=1", f"{who}: {count + 1} hidden files stay at their place in the original")


def test_masks(c, who):
    c.write(".env", "TOKEN=1")
    c.write(".env.example", "TOKEN=")
    c.write("sub/.ssh/id_rsa", "key")
    c.write(".git/config", "[remote \"o\"]\n\turl = https://u:tok@h/r\n")
    path = c.write("keyfile.pem", "-----BEGIN PRIVATE KEY-----\n")
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.join(c.work, "d.sock"))
    s.listen(1)
    os.chmod(os.path.join(c.work, "d.sock"), 0o777)
    probe = ("cat .env keyfile.pem; cat sub/.ssh/id_rsa 2>&1; cat .git/config .env.example; "
             "test -S d.sock && echo socket; true")
    for mode in (".", ".:ro", ".:rw"):
        r = c("run", "-C", mode, "--", "sh", "-c", probe)
        tap.ok(r.code == 0 and "TOKEN=1" not in r.out and "PRIVATE" not in r.out and "tok@" not in r.out
               and "socket" not in r.out, f"{who}: {mode}: credentials and sockets are hidden", r)
        tap.ok("REDACTED@h/r" in r.out and "TOKEN=" in r.out, f"{who}: {mode}: other content is not hidden", r)
    r = c("run", "--show", ".env", "--", "cat", ".env")
    tap.eq(r.out, "TOKEN=1", f"{who}: --show shows a hidden file", r)
    r = c("run", "--", "sh", "-c", "rm -f .env || mv .env x || echo y > .env; rm -rf sub")
    tap.ok(os.path.exists(path) and read(c, ".env") == b"TOKEN=1", f"{who}: a hidden file cannot be removed")
    tap.ok(".env" not in changes(c) and "sub/.ssh/id_rsa" not in changes(c), f"{who}: a hidden file is not changed in the layer",
           changes(c).keys())
    c("discard", "@last")
    check_unmounted_masks(c, who)
    check_moved_masks(c, who)
    s.close()


def test_refused_dirs(c, who):
    for path, why in ((c.home, "home directory"), (c.dir, "below it"), ("/", "root"), ("/etc", "configuration"),
                      (c.state, "log")):
        r = c("run", "-C", path, "--", "true")
        tap.ok(r.code == 125 and why in r.err, f"{who}: {os.path.basename(path) or '/'} is refused as a workspace", r)
    link = os.path.join(c.work, "link")
    os.symlink(c.home, link)
    r = c("run", "-C", link, "--", "true")
    tap.ok(r.code == 125 and "home directory" in r.err, f"{who}: a link to the home is refused as a workspace", r)
    os.unlink(link)


def test_modes(c, who):
    c.write("m.txt", "old")
    r = c("run", "-d", "--name", "rw", "-C", ".:rw", "--", "sh", "-c", "echo new > m.txt")
    deadline = time.monotonic() + 90
    while read(c, "m.txt") != b"new\n" and time.monotonic() < deadline:
        time.sleep(0.05)
    r = c("diff", "rw")
    tap.ok(r.code == 125 and ":rw" in r.err, f"{who}: a run with a writable workspace has no diff", r)
    r = c("discard", "rw")
    tap.ok(r.code == 125 and read(c, "m.txt") == b"new\n", f"{who}: a run with a writable workspace has nothing to discard", r)
    c("rm", "-f", "rw")


def test_terminal(c, who):
    """On a terminal apply asks; a no is a no."""
    c.write("t.txt", "old")
    time.sleep(0.05)
    c("run", "--", "sh", "-c", "echo new > t.txt")
    for ahead, answer, wanted in (("", "n\n", b"old"), ("y\n", "n\n", b"old"), ("", "y\n", b"new\n")):
        master, slave = os.openpty()
        os.write(master, ahead.encode())  # before there is a question
        p = c.popen("apply", "@last", stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        text = b""
        while b"[y/N]" not in text:
            chunk = os.read(master, 1000)
            text += chunk
            if not chunk:
                break
        os.write(master, answer.encode())
        try:
            while os.read(master, 1000):
                pass
        except OSError:
            pass
        os.close(master)
        p.wait(timeout=300)
        tap.eq(read(c, "t.txt"), wanted, f"{who}: the answer {answer.strip()} is taken, and not what was typed before the question: {ahead!r}")


def main():
    # The short form leaves out what coffer decides from names, times and answers alone, whoever wrote the layer.
    short = (test_story, test_alive, test_masks, test_modes)
    for who, whole in covering(tap):
        for test in (*short, test_conflict, test_discard, test_refused_dirs, test_terminal) if whole else short:
            with coffer_as(who) as c:
                test(c, who)
                c.check_clean(tap)
    tap.done()


main()
