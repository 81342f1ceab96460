#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Engine gvisor: which runsc, one that does not work, the verdict that is kept, limits and what they are told as."""

import glob
import hashlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import RUNSC, Coffer, Tap, coffer_as, covering, fake_runsc, slow_build  # noqa: E402

tap = Tap()


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def refused(c, named, words, name, seconds=60, code=125):
    """Nothing is started, in good time, with one or two lines, and nothing is left."""
    r = c("run", "--runsc", named, "--", "true")
    lines = r.err.strip().splitlines()
    tap.ok(r.code == code and words in r.err and 1 <= len(lines) <= 2 and r.seconds < seconds * slow_build() and
           "\x1b" not in r.err, f"{c.who}: run --runsc refuses {name}", r)
    return r


def bad_runsc(c):
    refused(c, "/no/such/runsc", "/no/such/runsc", "a path that does not exist")
    refused(c, c.work, "", "a directory")
    refused(c, "/etc/passwd", "", "a file that is no program")
    refused(c, os.path.join(c.bin, "coffer-init"), "does not print a version of runsc", "another program")
    script = c.write(os.path.join(c.bin, "wrapper"), "#!/bin/sh\nexec runsc \"$@\"\n", 0o755)
    refused(c, f"{script}@sha256:{digest(script)}", "script", "a script around runsc")
    loose = c.write("loose/runsc", "x", 0o777)
    os.chmod(os.path.dirname(loose), 0o777)
    refused(c, loose, "may write", "a runsc that others may write to")
    for how, words, seconds in (("old", "20221102", 60), ("quits", "printed nothing", 60), ("chatty", "I will not", 60),
                                ("deaf", "does not respond", 60)):  # one that hangs: cli/hang
        path = fake_runsc(c, how)
        refused(c, path, words, f"a runsc of the kind {how}", seconds)
        if how == "deaf":
            refused(c, path, words, f"a runsc of the kind {how} the second time without waiting", 2)
        c.check_clean(tap)


def pins(c):
    path = fake_runsc(c, "quits")
    right = digest(path)
    refused(c, f"{path}@sha256:{right[:-1]}", "64 hexadecimal", "a digest that is too short", code=2)
    refused(c, f"{path}@sha256:{'g' * 64}", "64 hexadecimal", "a digest that is not hexadecimal", code=2)
    refused(c, f"{path}@sha256:{'0' * 64}", right, "the wrong digest and names the right one")
    refused(c, f"{path}@sha256:{right}", "printed nothing", "a runsc with the right digest that says nothing")
    refused(c, f"{path}@sha256:{'0' * 64}", right, "the wrong digest after the right one was tried")
    r = c("run", "--engine", "ns", "--runsc", path, "--", "true")
    tap.ok(r.code == 2 and "ns" in r.err, f"{c.who}: --runsc with --engine ns is refused", r)
    good = f"{RUNSC}@sha256:{digest(RUNSC)}"
    r = c("run", "--runsc", good, "--report", "r.json", "--", "dmesg")
    with open(os.path.join(c.work, "r.json"), encoding="utf-8") as f:
        report = json.load(f)
    tap.ok(r.code == 0 and "gVisor" in r.out and report["runsc"]["pinned"] and report["runsc"]["sha256"] in good,
           f"{c.who}: the real runsc runs with its digest", r)
    r = c("run", "--", "true", env={"COFFER_RUNSC": f"{RUNSC}@sha256:{'0' * 64}"})
    tap.ok(r.code == 125 and "digest" in r.err, f"{c.who}: COFFER_RUNSC with the wrong digest is refused", r)


def auto(c):
    r = c("run", "--", "uname", "-v", env={"COFFER_ENGINE": None})
    tap.ok(r.code == 0 and "2016" in r.out and "isolated by gVisor" in r.err, f"{c.who}: auto takes gvisor and says so", r)
    r = c("run", "--user", "1000", "--cap", "net_bind_service", "--", "true", env={"COFFER_ENGINE": None})
    tap.ok(r.code == 0 and "engine ns" in r.err and "--cap" in r.err,
           f"{c.who}: auto takes ns where gvisor has no --cap, and says why", r)
    r = c("audit", "--type", "run.start", "--json", "-n", "1")
    tap.ok('"engine":"ns"' in r.out and "engine_why" in r.out, f"{c.who}: the log has why auto took ns", r)


def verdicts(c):
    """The verdict is a convenience: whatever happens to it, runsc is tried again or refused, never believed."""
    c("run", "--", "true")
    found = glob.glob(os.path.join(c.state, "runsc-*"))
    if not tap.ok(len(found) == 1, f"{c.who}: one verdict about runsc is kept", found):
        return
    path = found[0]
    with open(path, encoding="utf-8") as f:
        good = json.load(f)
    bad = {"nothing": b"", "half of it": json.dumps(good).encode()[:40], "no JSON": b"\xff\x00{[" * 100,
           "another kind": b"[1,2]", "too much": b" " * 100000,
           "one of another kernel that says no": json.dumps({**good, "of": "x", "works": False, "why": "BELIEVED"}).encode(),
           "an old no": json.dumps({**good, "works": False, "why": "BELIEVED", "when": 1}).encode()}
    for what, data in bad.items():
        with open(path, "wb") as f:
            f.write(data)
        r = c("run", "--", "true")
        with open(path, encoding="utf-8") as f:
            now = json.load(f)
        tap.ok(r.code == 0 and "BELIEVED" not in r.err and now["works"] is True and now["of"] == good["of"],
               f"{c.who}: a verdict about runsc that is {what} is made again", r)
    os.unlink(path)
    os.mkdir(path)
    tap.eq(c("run", "--", "true").code, 0, f"{c.who}: a run works where the verdict cannot be written")
    os.rmdir(path)
    os.mkfifo(path)
    tap.eq(c("run", "--", "true", timeout=90).code, 0, f"{c.who}: a run does not wait for a pipe in place of a verdict")
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    with open("/etc/passwd", "rb") as f:
        before = f.read()
    tap.eq(c("run", "--", "true").code, 0, f"{c.who}: a link in place of a verdict is not followed")
    with open("/etc/passwd", "rb") as f:
        tap.eq(f.read(), before, f"{c.who}: the file that a link in place of a verdict names is not written")


def limits(c):
    def report(*args):
        r = c("run", "--report", "r.json", *args)
        with open(os.path.join(c.work, "r.json"), encoding="utf-8") as f:
            return r, json.load(f)
    r, o = report("--timeout", "1s", "--", "sleep", "30")
    tap.eq((r.code, o["cause"]), (124, "timeout"), f"{c.who}: a time limit ends a sandbox", r)
    r, o = report("--pids", "20", "--", "sh", "-c", "for i in $(seq 60); do sleep 60 & done; wait")
    tap.ok(o["cause"] == "pids" and "limit of 20" in r.err and o["limits"]["pids"]["how"] == "gvisor",
           f"{c.who}: processes are counted by gVisor, and the report says so", r)
    bomb = "import os,time\nfor i in range(1200):\n  if os.fork() == 0: time.sleep(300)\nprint('ALL')"
    r, o = report("--pids", "2", "--timeout", "120", "--", "unshare", "-Ur", "python3", "-c", bomb)
    tap.ok("ALL" not in r.out and o["cause"] in (("pids",) if c.who == "root" else ("pids", "broken")),
           f"{c.who}: a command that makes itself root cannot pass the outer limit", r, o["cause"])
    r, o = report("--nofile", "64", "--", "python3", "-c", "l = [open('/dev/null') for i in range(100)]")
    tap.ok(r.code == 1 and "Too many open files" in r.err, f"{c.who}: the limit of open files holds", r)
    r, o = report("--output-limit", "10k", "--", "sh", "-c", "yes | head -c 100000")
    tap.ok(o["output_cut"] and len(r.out) <= 10240, f"{c.who}: the limit of output holds", len(r.out), r.err)
    r, o = report("--disk", "8m", "--", "sh", "-c",
                  "i=0; while [ $i -lt 64 ]; do head -c 4000000 /dev/zero > f$i || exit 9; i=$((i+1)); sleep 0.05; done")
    tap.ok(r.code != 0 and (o["cause"] == "disk" or "No space" in r.err), f"{c.who}: the limit of the disk holds", r, o["cause"])
    c("discard", "@last")
    if c.who == "root":
        r, o = report("--memory", "128m", "--", "python3", "-c", "x = bytearray(400 << 20)")
        tap.ok(r.code == 137 and o["cause"] == "oom" and "memory" in r.err, f"{c.who}: the limit of memory holds", r, o["cause"])
        # whichever of runsc's processes the kernel takes, nothing waits for it
        r, o = report("--memory", "128m", "--", "sh", "-c", "python3 -c 'x = bytearray(400 << 20)'; sleep 120; echo on")
        tap.ok(o["cause"] == "oom" and r.seconds < 90 * slow_build() and "on" not in r.out,
               f"{c.who}: a sandbox ends when the first of its processes is killed for memory", r, o["cause"])
    if c.who == "user":
        r = c("run", "--cap", "net_admin", "--", "true")
        tap.ok(r.code == 125 and "--user 0" in r.err, f"{c.who}: --cap is refused for a command that is not root inside", r)
    r = c("run", "--user", "0", "--cap", "net_admin", "--", "grep", "CapEff", "/proc/self/status")
    tap.like(r.out, r"CapEff:\s*0+1000$", f"{c.who}: --cap gives the named capability and no other", r)
    r = c("run", "--nested", "--", "unshare", "-Urm", "id", "-u")
    tap.eq(r.out, "0\n", f"{c.who}: --nested allows a user namespace inside", r)


def one_id():
    """An ordinary user without subordinate ids: as root inside, or not at all."""
    with Coffer("user", engine="gvisor") as c:
        c.sub_ids = False
        r = c("run", "--", "true")
        tap.ok(r.code == 125 and "subordinate ids" in r.err and "--user 0" in r.err,
               "user without ids: the error names --user 0", r)
        c.write("f", "1")
        r = c("run", "--user", "0", "--", "sh", "-c", "id -u; dmesg | head -1; echo 2 > f; touch ~/x /tmp/y && echo wrote")
        tap.ok(r.code == 0 and r.out.startswith("0\n") and "gVisor" in r.out and "wrote" in r.out,
               "user without ids: --user 0 works", r)
        r = c("diff", "--json", "@last")
        tap.ok('"path":"f"' in r.out.replace(" ", ""), "user without ids: the changes of a run with --user 0 are in its diff", r)
        tap.eq(c("discard", "@last").code, 0, "user without ids: discard of a run with --user 0 succeeds")
        c.check_clean(tap)


def killed_early(c):
    """coffer killed while runsc is being tried or started: nothing of it is left."""
    for wait in (0.02, 0.05, 0.1, 0.2, 0.5):
        for args in (("--runsc", fake_runsc(c, "hang")), ()):
            for f in glob.glob(os.path.join(c.state, "runsc-*")):
                os.unlink(f)
            p = c.popen("run", *args, "--", "sleep", "30")
            time.sleep(wait * slow_build())
            p.kill()
            p.communicate()
    c.check_clean(tap)


def main():
    everybody = covering(tap, ["gvisor"])
    first = next((w for w, whole in everybody if whole), None)
    for who, whole in everybody:
        with coffer_as(who) as c:
            auto(c)
            limits(c)
            killed_early(c)
            if whole:  # which runsc is taken and what is remembered of it is decided before anything depends on who it is
                pins(c)
                verdicts(c)
            if who is first:
                bad_runsc(c)
            tap.eq(c("audit", "verify").code, 0, f"{who}: the log verifies")
            c.check_clean(tap)
    if any(w == "user" for w, _ in everybody) and os.getuid() == 0:
        one_id()
    tap.done()


main()
