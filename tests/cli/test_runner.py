#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: alone
"""tests/run itself: a test program that lies, dies or hangs must not pass."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import TESTS, Tap  # noqa: E402

tap = Tap()


def run(script, ci=None, tmpfs=None):
    """Runs tests/run over one program, with a tmpfs of these options as its temporary directory; gives (exit code, last line, all output)."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as home, tempfile.TemporaryDirectory(prefix="coffertest-") as tmp:
        build = os.path.join(home, "build")  # of a user whose home, with mode 0700, nobody else can read
        os.chmod(tmp, 0o755)
        os.makedirs(os.path.join(build, "tests/unit"))
        path = os.path.join(build, "tests/unit/test_x")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        env = {k: v for k, v in os.environ.items() if k not in ("CI", "COFFER_SLOW")}
        env["TMPDIR"] = tmp
        if ci:
            env["CI"] = ci
        before = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o mode=1777,{tmpfs} none "$TMPDIR" && exec "$@"', "sh"] if tmpfs else []
        p = subprocess.run([*before, os.path.join(TESTS, "run"), "--build", build, "unit/x"], env=env, capture_output=True, text=True,
                           check=False)
        if os.listdir(tmp):
            raise RuntimeError(f"tests/run left something in its temporary directory: {os.listdir(tmp)}")
        return p.returncode, p.stdout.splitlines()[-1], p.stdout


def expect(script, code, last, name, ci=None, tmpfs=None):
    got = run(script, ci, tmpfs)
    tap.ok(got[0] == code and got[1] == last, name, *got)


expect("echo 'ok 1 - a'; echo 'ok 2 - b'; echo 1..2", 0, "2 passed, 0 failed, 0 skipped", "what passes, passes")
expect("echo 1..1; echo 'ok 1 - a'", 0, "1 passed, 0 failed, 0 skipped", "the plan may come first")
expect("echo 'ok 1 - a'; echo 'not ok 2 - b'; echo 1..2; exit 1", 1, "1 passed, 1 failed, 0 skipped", "a failed test")
expect("echo 'ok 1 - a'; echo 1..2", 1, "1 passed, 1 failed, 0 skipped", "a plan that does not fit")
expect("echo 'ok 1 - a'", 1, "1 passed, 1 failed, 0 skipped", "no plan")
expect("echo 'ok 1 - a'; echo 1..1; exit 3", 1, "1 passed, 1 failed, 0 skipped", "an exit code without a failure")
expect("echo 'not ok 1 - a'; echo 1..1", 1, "0 passed, 2 failed, 0 skipped", "a failure without an exit code")
expect("echo 'ok 1 - a'; echo 1..1; kill -SEGV $$", 1, "1 passed, 1 failed, 0 skipped", "a program that dies")
expect("echo 'ok 2 - a'; echo 1..1", 1, "1 passed, 1 failed, 0 skipped", "a wrong number")
expect("echo 'not ok 1 - a # TODO later'; echo 1..1; exit 1", 1, "0 passed, 1 failed, 0 skipped", "TODO excuses nothing")
expect("echo 'Bail out! no'; exit 1", 1, "0 passed, 3 failed, 0 skipped", "bailing out")
expect("# tests/run: timeout=1\necho 'ok 1 - a'; echo 1..1; sleep 60", 1, "1 passed, 1 failed, 0 skipped",
       "a program that hangs")
expect("exit 0", 1, "0 passed, 1 failed, 0 skipped", "a program that does nothing")
SKIP = "echo 'ok 1 - a # SKIP no such device'; echo 1..1"
expect(SKIP, 0, "0 passed, 0 failed, 1 skipped", "a skip is counted")
tap.like(run(SKIP)[2], r"SKIP unit/x: a: no such device", "and shown with its reason")
expect(SKIP, 1, "0 passed, 1 failed, 1 skipped", "and is an error in CI", ci="true")
tap.like(run("echo 'not ok 1 - the name'; echo '# the reason'; echo 1..1; exit 1")[2], "the reason",
         "a failure is shown in full")
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
tap.done()
