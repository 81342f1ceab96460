#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that hang: coffer waits for each of them as long as it says, and no longer. All of them hang at the same time.

No test may shorten these times: a limit that the environment can change is one that an agent's settings file can change. So this is the
one program that waits for them to pass."""

import contextlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import RUNSC, Coffer, Tap, Who, coffer_as, descendants, fake_runsc, plain_identities, remember, slow_build  # noqa: E402


class Waiting:
    """Something that was started and hangs."""

    def __init__(self, c, *args, env=None):
        self.c, self.start = c, time.monotonic()
        self.p = c.popen(*args, env=env)

    def end(self):
        """(exit code, stdout, stderr, seconds)"""
        out, err = (b.decode(errors="replace") for b in self.p.communicate(timeout=240 * slow_build()))
        return remember((self.p.returncode, out, err, time.monotonic() - self.start))


def named(name):
    return [p for p, text in descendants(os.getpid()) if text.endswith(" " + name) and text[0] != "Z"]


def doctor_of(c):
    return Waiting(c, "doctor", "--json", env={"COFFER_ENGINE": "ns", "COFFER_RUNSC": fake_runsc(c, "hang")})


def run_of(c):
    return Waiting(c, "run", "--runsc", fake_runsc(c, "hang"), "--", "true")


def secret_of(c):
    return Waiting(c, "secret", "set", "hangs", "--command", "sleep 1000 & sleep 1000")


def check_doctor(tap, w):
    code, out, _, took = w.end()
    got = next(x for x in json.loads(out)["checks"] if x["id"] == "runsc")
    tap.ok(code == 0 and got["status"] == "warn" and "within 30 seconds" in got["detail"] and 29 <= took < 75 * slow_build(),
           f"{w.c.who}: doctor gives a runsc that hangs 30 seconds, and warns of it", f"{took:.1f} s", got)


def check_run(tap, w):
    code, _, err, took = w.end()
    tap.ok(code == 125 and "within 30 seconds" in err and 29 <= took < 75 * slow_build(),
           f"{w.c.who}: run gives a runsc that hangs 30 seconds, and starts nothing", code, err, f"{took:.1f} s")
    code, _, err, took = run_of(w.c).end()
    tap.ok(code == 125 and "within 30 seconds" in err and took < 2 * slow_build(),
           f"{w.c.who}: the next run does not wait again for a runsc that hung", code, err, f"{took:.1f} s")


def check_secret(tap, w):
    code, _, err, took = w.end()
    tap.ok(code == 125 and "within 60 seconds" in err and took >= 59,
           f"{w.c.who}: the command of a secret that hangs is killed after a minute", code, err, f"{took:.1f} s")
    end = time.monotonic() + 60 * slow_build()
    while named("sleep") and time.monotonic() < end:
        time.sleep(0.05)
    tap.eq(named("sleep"), [], f"{w.c.who}: the command of a secret that hung is killed with what it has started")
    tap.ok("hangs" not in w.c("secret", "ls").out, f"{w.c.who}: the command of a secret that hung has saved nothing")


def main():
    tap = Tap()
    able = plain_identities(tap)
    with contextlib.ExitStack() as stack:
        doctor, run, secret = (stack.enter_context(c) for c in (Coffer(able[0]), coffer_as(Who(able[0], "gvisor")), Coffer(able[-1])))
        waiting = [(check_doctor, doctor_of(doctor)), (check_secret, secret_of(secret))]
        if RUNSC:
            waiting.insert(1, (check_run, run_of(run)))
        else:
            tap.skip("engine gvisor", "runsc is not installed: tools/deps runsc")
        for check, w in waiting:
            check(tap, w)
        for c in (doctor, run, secret):
            c.check_clean(tap)
    tap.done()


main()
