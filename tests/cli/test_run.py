#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer run: exit codes, environment, stdio, files, limits that are told apart, and wrong input."""

import json
import os
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities  # noqa: E402


def exits(tap, c):
    who = c.who
    tap.eq(c("run", "--", "true").code, 0, f"{who}: coffer run -- true exits with 0")
    tap.eq(c("run", "false").code, 1, f"{who}: coffer run false without -- exits with 1")
    tap.eq(c("run", "--", "sh", "-c", "exit 77").code, 77, f"{who}: coffer run exits with the command's status")
    tap.eq(c("run", "--", "sh", "-c", "kill -TERM $$").code, 143, f"{who}: coffer run exits with 128 plus the signal's number")
    r = c("run", "--", "no-such-command")
    tap.eq(r.code, 127, f"{who}: a command that is not found exits with 127", r)
    tap.like(r.err, r"no-such-command", f"{who}: a command that is not found is named")
    r = c("run", "no-such-command -la .")
    tap.ok(r.code == 127 and "coffer run -- no-such-command -la ." in r.err, f"{who}: the hint for a quoted command line has it without quotes", r)
    r = c("run", "no-such-command | wc -l")
    tap.ok(r.code == 127 and "coffer run -- sh -c" in r.err, f"{who}: the hint for a quoted line of a shell names sh -c", r)
    r = c("run", "--", "/etc/hosts")
    tap.eq(r.code, 126, f"{who}: a file that is not executable exits with 126", r)
    r = c("run", "-w", "/nowhere", "--", "true")
    tap.ok(r.code in (125, 126) and "/nowhere" in r.err, f"{who}: a missing working directory is named", r)


def stdio(tap, c):
    who = c.who
    r = c("run", "--", "cat", input="through the wall\n")
    tap.eq(r.out, "through the wall\n", f"{who}: stdin and stdout pass through", r)
    r = c("run", "--", "sh", "-c", "echo out; echo err >&2")
    tap.ok(r.out == "out\n" and "err\n" in r.err, f"{who}: stdout and stderr stay separate", r)
    big = "x" * 3000000
    r = c("run", "--", "cat", input=big)
    tap.eq(len(r.out), len(big), f"{who}: three million bytes pass in both directions")
    r = c("run", "--output-limit", "100k", "--", "sh", "-c", "yes | head -c 1000000; exit 3")
    tap.ok(len(r.out) <= 102400 and r.code == 3, f"{who}: --output-limit cuts the output", len(r.out), r.err)
    tap.like(r.err, r"output", f"{who}: --output-limit is reported")
    r = c("run", "--", "sh", "-c", "ls -l /proc/self/fd | wc -l; test -t 0 || echo none")
    tap.like(r.out, r"none", f"{who}: a command has no terminal when coffer has none")


def environment(tap, c):
    who = c.who
    r = c("run", "--", "env", env={"SECRET": "hunter2", "AWS_KEY": "x"})
    names = sorted(line.split("=", 1)[0] for line in r.out.splitlines())
    tap.ok(set(names) <= {"PATH", "HOME", "USER", "TERM", "LANG", "TZ", "PWD", "SHLVL", "_"},
           f"{who}: the environment has only a few variables", names)
    r = c("run", "-e", "A=1", "-e", "COPIED", "-e", "MISSING", "--", "sh", "-c", "echo $A-$COPIED-${MISSING-unset}",
          env={"COPIED": "yes"})
    tap.eq(r.out, "1-yes-unset\n", f"{who}: -e sets and copies", r)
    r = c("run", "-e", "PATH=/bin", "--", "sh", "-c", "echo $PATH")
    tap.eq(r.out, "/bin\n", f"{who}: -e replaces a default variable", r)
    r = c("run", "--", "id", "-u")
    tap.eq(r.out.strip(), "0" if who in ("root", "userns") else str(c.uid), f"{who}: the command runs as the caller's own uid", r)
    r = c("run", "--user", "0", "--", "id", "-u")
    tap.eq(r.out.strip(), "0", f"{who}: --user 0 is root inside", r)
    r = c("run", "--user", "1234:55", "--", "sh", "-c", "id -u; id -g; echo $HOME; touch ~/x /tmp/y && echo wrote")
    if who == "userns" and c.engine == "gvisor":  # runsc is root of the namespace, and there is only one id for both
        tap.ok(r.code == 125 and "subordinate" in r.err and "--user 0" in r.err,
               f"{who}: --user UID:GID without enough ids is refused", r)
    else:
        tap.eq(r.out, "1234\n55\n/home/agent\nwrote\n", f"{who}: --user UID:GID sets ids and a writable home", r)
    r = c("run", "--", "cat", "/proc/sys/kernel/hostname")
    tap.eq(r.out, "coffer\n", f"{who}: the sandbox has its own host name", r)


NO_TMP = r"""
mount --bind "$1" /mnt && mount -t tmpfs none /tmp && cd /mnt/work || exit 1
export HOME=/mnt/home XDG_CONFIG_HOME=/mnt/home/.config COFFER_STATE=/mnt/state TMPDIR=/mnt/tmp
/mnt/bin/coffer run -- sh -c 'echo inside > /tmp/f' && /mnt/bin/coffer doctor >/dev/null
ls -A /tmp; touch /tmp/control && ls -A /tmp
"""


def temporary(tap, c):
    """Where TMPDIR names another place, /tmp of the host gets nothing. In a mount namespace where /tmp is empty: nobody else's files count."""
    if c.who == "root" and c.engine == "ns":
        r = c(program=["unshare", "-m", "sh", "-c", NO_TMP, "sh", c.dir])
        tap.eq(r.out, "control\n", f"{c.who}: coffer run and coffer doctor leave nothing in /tmp", r)


def files(tap, c):
    who = c.who
    c.write("a.txt", "one\n")
    r = c("run", "--", "sh", "-c", "cat a.txt; echo two > a.txt; echo new > b; cat a.txt")
    tap.eq(r.out, "one\ntwo\n", f"{who}: the workspace can be read and written inside", r)
    tap.like(r.err, r"2 files changed", f"{who}: changed files are counted")
    with open(os.path.join(c.work, "a.txt"), encoding="utf-8") as f:
        tap.eq(f.read(), "one\n", f"{who}: the original file is unchanged")
    tap.ok(not os.path.exists(os.path.join(c.work, "b")), f"{who}: the original workspace gets no new file")
    tap.eq(c("discard", "@last").code, 0, f"{who}: discard @last succeeds")
    r = c("run", "-C", c.work + ":ro", "--", "sh", "-c", "echo x > /workspace/c")
    tap.ok(r.code != 0 and "ead-only" in r.err, f"{who}: -C DIR:ro is read-only", r)
    r = c("run", "-C", c.work + ":rw", "--", "sh", "-c", "echo x > /workspace/through")
    tap.ok(r.code == 0 and "WARNING" in r.err and os.path.exists(os.path.join(c.work, "through")),
           f"{who}: -C DIR:rw writes to the original, with a warning", r)
    os.unlink(os.path.join(c.work, "through"))
    r = c("run", "--ephemeral", "--", "sh", "-c", "ls -A /workspace; echo x > /workspace/y && echo wrote")
    tap.eq(r.out, "wrote\n", f"{who}: --ephemeral is empty and writable", r)
    r = c("audit", "--type", "run.end", "--json", "-n", "1")
    tap.like(r.out, r'"wiped":2,"wipe_verified":true', f"{who}: the wipe of an ephemeral workspace is in the log", r)
    r = c("run", "--", "sh", "-c", "mkdir d; touch d/f; chmod 000 d .")
    tap.ok(r.code == 0 and "2 files changed" in r.err, f"{who}: changes in a layer without permissions are counted", r)
    r = c("audit", "--type", "run.end", "--json", "-n", "1")
    tap.ok('"changes":2' in r.out, f"{who}: run.end has the changes of a layer without permissions", r)
    tap.eq(c("discard", "@last").code, 0, f"{who}: discard removes a layer without permissions")
    r = c("run", "--ephemeral", "--", "sh", "-c", "mkdir -p d/e; chmod 000 d .")
    tap.eq(r.code, 0, f"{who}: an ephemeral workspace without permissions is removed", r)
    d = os.path.join(c.dir, "data")
    os.mkdir(d)
    c.own(d)
    c.write(os.path.join(d, "f"), "shown\n")
    r = c("run", "-v", d + ":/data", "--", "sh", "-c", "cat /data/f; echo x > /data/g || echo refused")
    tap.eq(r.out, "shown\nrefused\n", f"{who}: -v is read-only by default", r)
    for dst in ("/run/x", "~/y", "/var/tmp/z", "/opt/q"):
        dst = dst.replace("~", "/root" if who in ("root", "userns") else "/home/agent")
        r = c("run", "-q", "-v", f"{d}/f:{dst}", "--", "cat", dst)
        tap.eq(r.out, "shown\n", f"{who}: -v shows a file at {dst}", r)
    place = os.path.join(c.work, "place")
    os.mkdir(place)
    c.own(place)
    for mode in ("", ":ro", ":rw"):
        r = c("run", "-C", c.work + mode, "-v", d + ":/workspace/place", "--", "cat", "place/f")
        tap.eq(r.out, "shown\n", f"{who}: -v works below a workspace {mode or 'with a layer'}", r)
    r = c("run", "-v", d + ":/workspace/nowhere", "--", "true")
    tap.ok(r.code == 125 and "/workspace/nowhere" in r.err and not os.path.exists(os.path.join(c.work, "nowhere")),
           f"{who}: -v at a missing place in the workspace is refused", r)
    r = c("run", "-v", d + "/f:/workspace/place", "--", "true")
    tap.ok(r.code == 125 and "/workspace/place" in r.err, f"{who}: -v of a file over a directory is refused", r)
    os.rmdir(place)
    r = c("run", "-v", d + ":/tmp/in/here:rw", "--", "sh", "-c", "echo x > /tmp/in/here/g && chmod 4755 /tmp/in/here/g")
    tap.ok(os.path.exists(os.path.join(d, "g")), f"{who}: -v with rw writes to the host", r)
    tap.ok(not os.stat(os.path.join(d, "g")).st_mode & stat.S_ISUID, f"{who}: -v with rw sets no setuid bit on the host", r)
    r = c("run", "--home", "h1", "--", "sh", "-c", "echo kept > ~/f")
    r = c("run", "--home", "h1", "--", "sh", "-c", "cat ~/f")
    tap.eq(r.out, "kept\n", f"{who}: a named home persists", r)
    r = c("run", "--", "sh", "-c", "ls -A ~")
    tap.eq(r.out, "", f"{who}: a home without a name is empty", r)


def ended(c, *args):
    """A run's result and its report."""
    path = os.path.join(c.work, "report.json")
    r = c("run", "--report", path, *args)
    with open(path, encoding="utf-8") as f:
        o = json.load(f)
    os.unlink(path)
    return r, o


THREADS = """
import sys, threading, time
try:
    for _ in range(60):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError as e:
    print(e, file=sys.stderr, flush=True)
    time.sleep(0.5)  # one that is gone at once leaves nothing to be asked about
    sys.exit(1)
"""
JOBS = """
import subprocess, sys, time
jobs = []
try:
    for _ in range(60):
        jobs.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
except OSError as e:
    print(e, file=sys.stderr, flush=True)
    time.sleep(1)
    [j.communicate() for j in jobs]
    sys.exit(7)
"""


def pids_claim(tap, c):
    """Without a control group only the sandbox can say that the pids limit was reached; and it is not said for nothing."""
    who = c.who
    fork = "for i in $(seq 60); do sleep 60 & done; wait"
    for name, code, cmd in (("a shell's forks", 2, ["sh", "-c", fork]), ("threads", 1, ["python3", "-c", THREADS]),
                            ("jobs that are over by then", 7, ["python3", "-c", JOBS])):
        r, o = ended(c, "--pids", "20", "--", *cmd)
        tap.ok((r.code, o["exit"], o["cause"]) == (code, code, "pids") and "limit of 20 was reached" in r.err,
               f"{who}: the pids limit is reported: {name}", r, o["cause"])
        tap.ok(o["pids_limit_hit"] and o["pids_limit_claimed"], f"{who}: the pids limit is marked as the sandbox's claim: {name}", o)
    for name, code, cmd in (("by itself", 3, "exit 3"), ("while others run", 3, "sleep 3 & sleep 3 & exit 3"),
                            ("with such words", 3, "echo fork: Resource temporarily unavailable >&2; exit 3"),
                            ("by a signal", 143, "kill -TERM $$")):
        r, o = ended(c, "--pids", "20", "--", "sh", "-c", cmd)
        tap.ok(r.code == code and o["cause"] in ("exit", "signal") and "limit of 20" not in r.err
               and not o["pids_limit_hit"], f"{who}: a command that fails {name} is not reported as at the pids limit", r, o)
    r, o = ended(c, "--pids", "20", "--", "sh", "-c", "(for i in $(seq 60); do sleep 1 & done) ; exit 0")
    tap.ok(r.code == 0 and o["cause"] == "exit" and not o["pids_limit_hit"], f"{who}: a command that copes with the pids limit is not reported", r, o)


def disk_limit_without_layer(tap, c):
    report = os.path.join(c.tmp, "report.json")

    def of(mode, *options):
        r = c("run", "--report", report, "-C", c.work + mode, *options, "--", "true")
        with open(report, encoding="utf-8") as f:
            text = f.read()
        os.unlink(report)
        l = json.loads(text)["limits"] if r.code == 0 else {}
        return r, [(l.get(k, {}).get("enforced"), l.get(k, {}).get("how")) for k in ("disk", "inodes")]

    for value in ("100m", "100m,1000", "none,1000"):
        r, _ = of(":rw", "--disk", value)
        tap.ok(r.code == 125 and "--disk cannot be enforced" in r.err and "coffer apply" in r.err and "best-effort" in r.err,
               f"{c.who}: --disk {value} with -C DIR:rw is refused with alternatives", r)
    r, got = of(":rw", "--disk", "100m,1000", "--limits", "best-effort")
    tap.ok(got == [(False, None)] * 2 and "--disk does not limit it" in r.err,
           f"{c.who}: --limits best-effort accepts --disk with -C DIR:rw, and reports that it is not enforced", r, got)
    r, got = of(":rw")
    tap.ok(got == [(False, None)] * 2 and "--disk does not limit it" in r.err,
           f"{c.who}: the default disk limit is reported as not enforced with -C DIR:rw", r, got)
    r, got = of(":ro", "--disk", "100m,1000")
    tap.eq(got, [(True, "read-only")] * 2, f"{c.who}: --disk holds for a workspace that is read-only", r)


def limits(tap, c):
    who = c.who
    r = c("run", "--timeout", "1s", "--", "sleep", "120")
    tap.ok(r.code == 124 and r.seconds < 90 and "time" in r.err, f"{who}: the time limit is reported", r)
    if who == "root":
        r = c("run", "--memory", "64m", "--", "python3", "-c", "x = bytearray(300 << 20)")
        tap.ok(r.code == 137 and "memory" in r.err, f"{who}: the memory limit is reported", r)
        r = c("run", "--pids", "32", "--", "sh", "-c", "for i in $(seq 60); do sleep 60 & done; wait")
        tap.ok(r.code != 0 and "process" in r.err, f"{who}: the pids limit is reported", r)
        r = c("run", "--disk", "16m", "--", "sh", "-c", "dd if=/dev/zero of=big bs=1M count=64; stat -c %s big")
        tap.ok("o space" in r.err and int(r.out) < 16 << 20, f"{who}: the disk limit is exact", r)
        tap.like(r.err, r"its disk is full: the limit of [^ ]* ?[A-Za-z]* was reached \(--disk raises it\)", f"{who}: the disk limit is reported", r)
        c("discard", "@last")
        tap.ok("only watched" not in r.err, f"{who}: a disk limit that is enforced by an image prints no warning", r)
        # no file as large as the image may be made: it is watched then, and that is said
        # (not on gvisor, whose memory is a file too)
        r = None if c.engine == "gvisor" else \
            c(program=["sh", "-c", "trap '' XFSZ; ulimit -f 4000; exec \"$0\" run --report /dev/stdout --disk 16m -- true",
                       c.exe])
        if r:
            tap.ok(r.code == 0 and json.loads(r.out)["limits"]["disk"]["how"] == "watched",
                   f"{who}: the disk limit is watched without a disk image", r)
            tap.like(r.err, r"--disk is only watched.*disk image", f"{who}: a disk limit that is only watched is reported with the reason")
    else:
        r = c("run", "--memory", "64m", "--", "true")
        tap.ok(r.code == 125 and "--memory cannot be enforced" in r.err and "best-effort" in r.err,
               f"{who}: a limit that cannot be enforced is refused with alternatives", r)
        r = c("run", "--memory", "64m", "--limits", "best-effort", "--", "true")
        tap.eq(r.code, 0, f"{who}: --limits best-effort accepts a limit that cannot be enforced", r)
        r = c("run", "--pids", "20", "--", "sh", "-c", "for i in $(seq 60); do sleep 60 & done 2>&1; wait")
        tap.ok(r.code != 0, f"{who}: the pids limit holds without a control group", r)
        pids_claim(tap, c)
    disk_limit_without_layer(tap, c)
    r = c("run", "--disk", "8m", "--", "sh", "-c",
          "i=0; while [ $i -lt 64 ]; do head -c 4000000 /dev/zero > f$i || exit 9; i=$((i+1)); sleep 0.05; done")
    tap.ok(r.code != 0, f"{who}: the disk limit holds over many files", r)
    c("discard", "@last")
    r = c("run", "--nofile", "64", "--", "sh", "-c", "ulimit -n")
    tap.eq(r.out, "64\n", f"{who}: --nofile sets the limit of descriptors", r)
    r = c("run", "--tmp-size", "1m", "--", "sh", "-c", "head -c 4000000 /dev/zero > /tmp/x; stat -c %s /tmp/x")
    tap.ok(r.out.strip().isdigit() and int(r.out) <= (1 << 20) + (128 << 10), f"{who}: --tmp-size limits /tmp", r)


def report(tap, c):
    who = c.who
    path = os.path.join(c.work, "report.json")
    c.write("r1", "1")
    r = c("run", "--report", path, "--", "sh", "-c", "echo hi; echo 2 > r1; exit 5")
    with open(path, encoding="utf-8") as f:
        o = json.load(f)
    tap.eq((o["exit"], o["cause"], o["changed_files"], o["engine"]), (5, "exit", 1, c.engine), f"{who}: the report has exit status, cause, changes and engine", r)
    tap.ok({"user", "pid", "mount", "net", "ipc", "uts"} <= set(o["layers"]["namespaces"]),
           f"{who}: the report lists the namespaces", o["layers"])
    tap.ok(o["layers"]["seccomp"] and o["layers"]["no_new_privs"] and not o["layers"]["capabilities"],
           f"{who}: the report has seccomp, no_new_privs and no capabilities", o["layers"])
    tap.ok(o["wall_us"] > 0 and o["limits"]["pids"]["enforced"], f"{who}: the report has the limits and the wall time", o)
    if who != "userns":  # there the caller is called 0 itself
        tap.ok(o["layers"]["outside_uid"] != 0, f"{who}: the command's uid outside is not root", o["layers"])
    c("discard", "@last")
    os.unlink(path)


def bad_input(tap, c):
    who = c.who
    cases = [
        ([], 2, "command"),
        (["--"], 2, "command"),
        (["--memroy", "1g", "true"], 2, "--memory"),
        (["--memory", "0", "true"], 2, "memory"),
        (["--memory", "-5", "true"], 2, "memory"),
        (["--memory", "1e30", "true"], 2, "memory"),
        (["--cpus", "0", "true"], 2, "cpus"),
        (["--pids", "zero", "true"], 2, "pids"),
        (["--timeout", "0", "true"], 2, "timeout"),
        (["--name", "a/b", "true"], 2, "name"),
        (["--name", "..", "true"], 2, "name"),
        (["--home", "../x", "true"], 2, "name"),
        (["--engine", "nss", "true"], 2, "ns"),
        (["--net", "host", "true"], 2, "--allow HOST"),
        (["--cap", "sys_admn", "true"], 2, "sys_admin"),
        (["-C", "/no/such/dir", "true"], 125, "/no/such/dir"),
        (["-C", "/", "true"], 125, "/"),
        (["-C", c.home, "true"], 125, "home"),
        (["-C", os.path.dirname(c.home), "true"], 125, ""),
        (["-C", c.state, "true"], 125, ""),
        (["-v", "nonsense", "true"], 2, "SRC:DST"),
        (["-v", "/usr/share:/proc/x", "true"], 2, "/proc"),
        (["-v", "/usr/share:/x:rx", "true"], 2, "rx"),
        (["-v", "/:/host", "true"], 125, ""),
        (["-v", "/no/such:/x", "true"], 125, "/no/such"),
        (["--user", "bob", "true"], 2, "bob"),
        (["-w", "../..", "true"], 2, ".."),
        (["--ephemeral", "-C", c.work, "true"], 2, "ephemeral"),
        (["--report", "/no/such/dir/r", "true"], 125, "/no/such/dir/r"),
        (["-t", "-d", "true"], 2, "-t"),
    ]
    c("run", "--", "true")
    for args, code, word in cases:
        r = c("run", *args)
        lines = r.err.strip().splitlines()
        tap.ok(r.code == code and word in r.err and 1 <= len(lines) <= 4,
               f"{who}: run {' '.join(args)[:60]} is refused with {code}", r)
    secret = os.path.join(c.dir, "keys")
    os.mkdir(secret)
    c.own(secret)
    sock = os.path.join(c.dir, "docker.sock")
    r = c(program=["python3", "-c", f"import socket; s=socket.socket(1); s.bind({sock!r})"])
    r = c("run", "-v", sock + ":/docker.sock", "true")
    tap.ok(r.code == 125 and "--i-know" in r.err, f"{who}: -v of a socket is refused with --i-know as the way out", r)
    if who != "root":
        closed = os.path.join(c.work, "closed")
        os.mkdir(closed)
        c.own(closed)
        os.chmod(closed, 0)
        r = c("run", "-C", closed, "true")
        tap.ok(r.code == 125 and "ermission" in r.err, f"{who}: an unreadable workspace is an error", r)
        os.rmdir(closed)
    if who == "root":
        r = c("run", "--cap", "setfcap", "-C", c.work + ":rw", "--", "true")
        tap.ok(r.code == 125 and "setfcap" in r.err, f"{who}: --cap setfcap with a writable workspace is refused", r)
    r = c("run", "--", "true", *["x" * 100000] * 19)
    tap.eq(r.code, 0, f"{who}: two million bytes of arguments work", r.err[-300:])


def main():
    tap = Tap()
    only = set(sys.argv[1:])
    for who in identities(tap, ENGINES):
        if only and who not in only:
            continue
        with coffer_as(who) as c:
            for part in (exits, stdio, environment, temporary, files, limits, report, bad_input):
                part(tap, c)
            r = c("audit", "verify")
            tap.eq(r.code, 0, f"{who}: the log of all runs verifies", r)
            c.check_clean(tap)
            tap.eq([n for n in os.listdir(os.path.join(c.state, "runs"))], [], f"{who}: no run directory is left")
    tap.done()


main()
