#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which runsc is run: the one that was named, when nobody else has a hand in it and it is what its digest says."""

import hashlib
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Coffer, Tap  # noqa: E402


def check(tap, c):
    runsc = os.path.join(c.dir, "rs", "runsc")
    os.mkdir(os.path.dirname(runsc))
    shutil.copy(shutil.which("runsc"), runsc)
    with open(runsc, "rb") as f:
        pin = "@sha256:" + hashlib.sha256(f.read()).hexdigest()

    def run(named):
        return c("run", "-q", "--engine", "gvisor", "--user", "0", "--ephemeral", "--runsc", named, "--", "echo", "ran")

    def is_run(named, why):
        r = run(named)
        tap.eq(r.out, "ran\n", why, r)

    def is_refused(named, words, why):
        r = run(named)
        tap.ok(r.code == 125 and words in r.err and not r.out, why, r)

    is_run(runsc, "one that is named")
    is_run(runsc + pin, "and has the digest that was named")
    is_refused(runsc + pin[:-4] + "0000", "its digest is", "another digest")
    os.chmod(runsc, 0o757)
    is_refused(runsc, "others may write to it", "one that others may write to")
    is_refused(runsc + pin, "others may write to it", "even with its digest: they would write once it was checked")
    os.chmod(runsc, 0o755)
    if os.getuid() == 0:
        os.chown(runsc, 12345, 12345)
        is_refused(runsc + pin, "others may write to it", "one of another user's")
        os.chown(runsc, 0, 0)
    os.chmod(os.path.dirname(runsc), 0o777)
    is_refused(runsc, "others may write to that directory", "one that others may put another in the place of")
    is_run(runsc + pin, "which its digest would tell")


def main():
    tap = Tap()
    if shutil.which("runsc"):
        with Coffer("root" if os.getuid() == 0 else "user", "ns") as c:
            check(tap, c)
    else:
        tap.skip("--runsc", "runsc is not installed")
    tap.done()


main()
