#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which runsc is run: the one that was named, when nobody else has a hand in it and it is what its digest says."""

import hashlib
import json
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

    is_run(runsc, "a runsc that --runsc names runs")
    is_run(runsc + pin, "a runsc with the named digest runs")
    is_refused(runsc + pin[:-4] + "0000", "its digest is", "a runsc with another digest is refused")
    os.chmod(runsc, 0o757)
    is_refused(runsc, "others may write to it", "a runsc that others may write to is refused")
    is_refused(runsc + pin, "others may write to it", "a runsc that others may write to is refused in spite of its digest")
    os.chmod(runsc, 0o755)
    if os.getuid() == 0:
        os.chown(runsc, 12345, 12345)
        is_refused(runsc + pin, "others may write to it", "a runsc of another user is refused")
        os.chown(runsc, 0, 0)
    os.chmod(os.path.dirname(runsc), 0o777)
    is_refused(runsc, "others may write to that directory", "a runsc in a directory that others may write to is refused")
    is_run(runsc + pin, "a runsc in a directory that others may write to runs with its digest")


def named(tap, c):
    """A named engine or runsc that cannot be had is an error, never a reason for the weaker wall."""
    real = shutil.which("runsc")
    with open(real, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    plain = c.write("plain/runsc", "x", 0o644)
    cases = (
        (f"{real}@sha256:{'0' * 64}", "its digest is", "has another digest"),
        (f"{real}@sha256:{digest[:-1]}", "64 hexadecimal", "has a digest that is too short"),
        (f"{real}@sha256:", "64 hexadecimal", "has an empty digest"),
        (f"{real}@sha512:{digest}", "cannot find", "has a digest of another kind"),
        (f"@sha256:{digest}", "absolute", "has a digest, but no path"),
        ("/no/such/runsc", "/no/such/runsc", "is not there"),
        (plain, "not an executable", "is not executable"),
        ("runsc", "absolute", "is a relative path"),
        ("", "empty", "is an empty string"),
    )
    for value, words, why in cases:
        for engine in (None, "auto"):
            env = {"COFFER_ENGINE": engine, "COFFER_RUNSC": value}
            r = c("run", "-q", "--ephemeral", "--", "echo", "ran", env=env)
            tap.ok(r.code == 125 and not r.out and words in r.err,
                   f"no sandbox starts when COFFER_RUNSC {why} (COFFER_ENGINE: {engine})", r)
        r = c("doctor", "--json", env={"COFFER_ENGINE": None, "COFFER_RUNSC": value})
        found = next(x for x in json.loads(r.out)["checks"] if x["id"] == "runsc")
        tap.ok(r.code == 1 and found["status"] == "fail", f"doctor fails when COFFER_RUNSC {why}", found)
    for value, code in (("", 2), (f"{real}@sha256:00", 2), ("/no/such/runsc", 125), (f"{real}@sha256:{'0' * 64}", 125)):
        r = c("run", "-q", "--ephemeral", "--runsc", value, "--", "echo", "ran", env={"COFFER_ENGINE": None})
        tap.ok(r.code == code and not r.out, f"no sandbox starts with --runsc '{value[:20]}'", r)
    for value in ("", "gVisor", "namespaces"):
        r = c("run", "-q", "--ephemeral", "--", "echo", "ran", env={"COFFER_ENGINE": value})
        tap.ok(r.code == 2 and not r.out and "COFFER_ENGINE" in r.err,
               f"no sandbox starts when COFFER_ENGINE is '{value}'", r)
    bad = {"COFFER_ENGINE": None, "COFFER_RUNSC": f"{real}@sha256:{'0' * 64}"}
    r = c("call", "-q", "--", "echo", "ran", env=bad)
    tap.ok(r.code == 125 and not r.out and "its digest is" in r.err, "no call runs on a runsc with another digest", r)
    r = c("run", "-q", "--ephemeral", "--engine", "ns", "--", "echo", "ran", env=bad)
    tap.eq(r.out, "ran\n", "engine ns that is named does not look at COFFER_RUNSC", r)
    r = c("run", "-q", "--ephemeral", "--user", "0", "--report", "r.json", "--", "echo", "ran",
          env={"COFFER_ENGINE": None, "COFFER_RUNSC": f"{real}@sha256:{digest}"})
    tap.ok(r.out == "ran\n" and report(c)["engine"] == "gvisor" and report(c)["runsc"]["pinned"],
           "a sandbox starts on the runsc that COFFER_RUNSC names by its digest", r)
    # gVisor cannot give this capability to a user: with nothing named the choice is ns.
    unnamed = ("run", "--ephemeral", "--user", "1000", "--cap", "net_bind_service", "--report", "r.json", "--", "echo", "ran")
    r = c(*unnamed, env={"COFFER_ENGINE": None})
    tap.ok(r.out == "ran\n" and "engine ns" in r.err, "ns may be chosen when nothing is named, with a message", r)
    r = c(unnamed[0], "-q", *unnamed[1:], env={"COFFER_ENGINE": None})
    tap.ok(r.out == "ran\n" and not r.err and report(c)["engine"] == "ns" and report(c)["engine_why"],
           "with -q the report has the reason for the engine", r, report(c))
    r = c(*unnamed, env={"COFFER_ENGINE": None, "COFFER_RUNSC": real})
    tap.ok(r.code == 125 and not r.out, "ns is not chosen when a runsc is named", r)


def again(tap, c):
    """One that ran on gVisor is not started again on less, although nobody named an engine."""
    r = c("run", "-d", "-q", "--name", "kept", "--cap", "chown", "--user", "0", "--", "sleep", "60", env={"COFFER_ENGINE": None})
    c("checkpoint", "kept")
    with open(os.path.join(c.state, "runs", r.out.strip(), "start"), "rb") as f:
        start = f.read()
    gone = start.replace(b"\0--user\0" b"0\0", b"\0--user\0" b"5\0")
    tap.ok(gone != start, "control: the record of the start has the user", start)
    with open(os.path.join(c.state, "runs", r.out.strip(), "start"), "wb") as f:
        f.write(gone)
    r = c("fork", "kept", "--name", "other", env={"COFFER_ENGINE": None})
    tap.ok(r.code == 125 and "root inside only" in r.err, "a fork does not fall back to ns", r)
    c("stop", "kept", "-t", "0")
    r = c("start", "kept", env={"COFFER_ENGINE": None})
    tap.ok(r.code == 125 and "root inside only" in r.err, "coffer start does not fall back to ns", r)
    c("rm", "-f", "kept")


def report(c):
    with open(os.path.join(c.work, "r.json"), encoding="utf-8") as f:
        return json.load(f)


def main():
    tap = Tap()
    if shutil.which("runsc"):
        with Coffer("root" if os.getuid() == 0 else "user", "ns") as c:
            check(tap, c)
            named(tap, c)
            again(tap, c)
    else:
        tap.skip("--runsc", "runsc is not installed")
    tap.done()


main()
