#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A log that cannot be written: nothing runs, and no event tells of what did not happen."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Coffer, Tap, identities  # noqa: E402

# In a mount namespace of its own: a small tmpfs is the state directory. The start of a command with long arguments no
# longer fits then; its end, which is short, still does.
SCRIPT = """
mount -t tmpfs -o size=2m,mode=700,uid={uid} tmpfs {state} || exit 1
as() {{ setpriv --reuid {uid} --regid {uid} --clear-groups "$@"; }}
long=$(printf %01000d 0)
args="$long $long $long $long $long $long $long $long $long $long"
cd {work}
as {exe} {verb} -- echo one; echo code $?
[ "{kind}" = run ] || for i in $(seq 300); do case $(as {exe} pool) in [1-9]*) break;; esac; sleep 0.3; done
dd if=/dev/zero of={state}/fill bs=1k 2>/dev/null
as {exe} {verb} -- echo TWO $args 2>&1; echo code $?
rm {state}/fill
# Whose start could not be told clears up: were it killed in the middle of that, whoever does it then tells an end all the same.
begun() {{ for d in $(ls {state}/runs); do [ -e {state}/runs/$d/ahead ] || [ ! -e {state}/runs/$d ] || return 0; done; return 1; }}
settle() {{ for i in $(seq 300); do begun || break; sleep 0.3; done; }}
settle; [ "{kind}" = run ] || as {exe} pool stop
as {exe} {verb} -- echo three; echo code $?
settle; [ "{kind}" = run ] || as {exe} pool stop
for i in $(seq 300); do [ "$(ls {state}/runs)" ] || break; sleep 0.3; done
as {exe} audit verify; echo verified $?
as {exe} audit --json
"""


# A full disk, and the way out of it: what is removed is logged, from room that was kept for it, and then there is room again.
FULL = """
mount -t tmpfs -o size=4m,mode=700,uid={uid} tmpfs {state} || exit 1
as() {{ setpriv --reuid {uid} --regid {uid} --clear-groups "$@"; }}
cd {work}
as {exe} run -q --user 0 --name kept -- sh -c 'head -c 1000000 /dev/zero >made'; echo kept $?
# The last page of the log is made full to within some hundred bytes, so that not even a short event fits.
size() {{ stat -c %s {state}/audit/log.jsonl; }}
one() {{ as {exe} run -q --user 0 --ephemeral -- true "$1"; }}
one x; a=$(size); one x; b=$(size)
for i in $(seq 20); do
  one "$(printf "%0$(( (4000 - $(size) - (b - a) + 40960000) % 4096 + 1 ))d" 0)"
  left=$(( 4096 - $(size) % 4096 )); [ $left -ge 150 ] || break
done
echo left $left
as dd if=/dev/zero of={state}/fill bs=1k 2>/dev/null
as dd if=/dev/zero of={state}/more bs=1 count=5000 2>/dev/null
as {exe} run -q --user 0 --ephemeral -- echo STARTED; echo run $?
as dd if=/dev/zero of={state}/most bs=1 count=5000 2>/dev/null
as {exe} rm kept; echo rm $?
as {exe} run -q --user 0 --ephemeral -- echo again; echo after $?
as {exe} audit verify; echo verified $?
as {exe} audit --json
"""


def check_full(tap, c, who):
    script = FULL.format(uid=c.uid, state=c.tmp, work=c.work, exe=c.exe)
    out = subprocess.run(["unshare", "-m", "sh", "-c", script], env=c.env({"COFFER_STATE": c.tmp}), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False).stdout
    types = [json.loads(line)["type"] for line in out.splitlines() if line.startswith("{")]
    tap.ok("kept 0\n" in out and "run 125\n" in out and "\nSTARTED\n" not in out, f"{who} on {c.engine}: (control) on a full disk no command runs", out)
    tap.ok("rm 0\n" in out and "run.rm" in types, f"{who} on {c.engine}: on a full disk a sandbox can be removed, and that is logged", out)
    tap.ok("again\nafter 0\n" in out and "verified 0" in out, f"{who} on {c.engine}: commands run after a sandbox was removed from a full disk, and the log verifies", out)


def check(tap, c, who, verb):
    script = SCRIPT.format(uid=c.uid, state=c.tmp, work=c.work, exe=c.exe, verb=verb, kind=verb.split()[0])
    out = subprocess.run(["unshare", "-m", "sh", "-c", script], env=c.env({"COFFER_STATE": c.tmp}), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False).stdout
    n = f"{who} on {c.engine}, {verb}"
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    starts, ends = ([e["sandbox"] for e in events if e["type"] == kind] for kind in ("run.start", "run.end"))
    tap.ok("one\ncode 0\n" in out and "three\ncode 0\n" in out, f"{n}: (control) with room for the log commands run", out)
    tap.ok("code 125" in out and "TWO" not in out, f"{n}: without room for the log no command runs", out)
    tap.eq((len(starts), sorted(starts)), (2, sorted(ends)), f"{n}: the log has one run.end for each run.start", out)
    tap.ok("verified 0" in out, f"{n}: the log verifies", out)


def main():
    tap = Tap()
    if os.getuid() != 0:
        tap.skip("a log that cannot be written", "a full disk is made by root")
    for engine in ("ns", "gvisor") if shutil.which("runsc") else ("ns",):
        for who in identities(tap if engine == "ns" else None):
            if os.getuid() != 0 or who == "userns":
                continue
            with Coffer(who, engine) as c:
                check(tap, c, who, "run -q --user 0 --ephemeral")
                check(tap, c, who, "call -q --user 0")
            with Coffer(who, engine) as c:
                check_full(tap, c, who)
    tap.done()


main()
