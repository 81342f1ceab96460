#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A changed policy is compiled in a child of the guard behind a fence: what that child is, and that a policy which it cannot bring to an
end leaves the one in force, and the network, as they were."""

import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, covering, descendants, proc_stat, sanitized  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

GOOD, EVIL = "good.example.test", "evil.example.test"
NAME = "coffer-compile"
NAMES = 2_000_000  # of a blocklist: to compile it takes long enough to be found at it


def policy(*names, blocklist=None):
    rows = "".join(f"    - domain: {n}\n      port: 443\n" for n in names)
    return f"version: 1\negress:\n  allow:\n{rows}" + (f"  blocklists: [{{category: ads, file: {blocklist}}}]\n" if blocklist else "")


def fields(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except OSError:
        return {}


class Sandbox:
    """One that lasts, with the policy file `live.yaml`."""

    def __init__(self, tap, c, net):
        self.tap, self.c = tap, c
        self.path = os.path.join(c.home, "live.yaml")
        self.put("live.yaml", policy(GOOD))
        r = c("run", "-d", "--name", "box", "-v", f"{net.ca}:/ca.pem", "--policy", self.path, "--", "sleep", "1000")
        self.id = r.out.strip()
        tap.eq(r.code, 0, f"{c.who}: the sandbox box starts in the background", r)
        self.guard = wait_for(lambda: next((p for p, _ in descendants(os.getpid()) if (proc_stat(p) or (0, 0, ""))[2] == "coffer-guard"), None))

    def put(self, name, text):
        """Another file in the place of this one, whatever kind that is."""
        path = os.path.join(self.c.home, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path + ".new", 0o600)
        self.c.own(path + ".new")
        os.replace(path + ".new", path)

    def reaches(self, url):
        return self.c("exec", "box", "--", "curl", "-sS", "-m", "60", "--cacert", "/ca.pem", url).code == 0

    def log(self, kind):
        lines = [json.loads(line) for line in self.c("audit", "--json", "--sandbox", self.id).out.splitlines()]
        return [e for e in lines if e["type"] == kind]

    def compiler(self):
        """The pid of the child that compiles, while it does and is behind its fence."""
        try:
            with open(f"/proc/{self.guard}/task/{self.guard}/children", encoding="ascii") as f:
                kids = [int(p) for p in f.read().split()]
        except OSError:
            kids = [p for p, _ in descendants(self.guard)]
        for pid in kids:
            if (proc_stat(pid) or (0, "", ""))[2] == NAME and (sanitized() or fields(pid).get("Seccomp") == "2"):
                return pid
        return None

    def hold(self):
        """Waits for that child and stops it, as a file system that hangs does."""
        until, pid = time.monotonic() + 60, None
        while not pid and time.monotonic() < until:
            pid = self.compiler()
        if pid:
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: (proc_stat(pid) or (0, "", ""))[1] == "T", 10)
        return pid

    def close(self):
        r = self.c("stop", "--time", "1", "box")
        self.tap.eq(r.code, 0, f"{self.c.who}: coffer stop ends the sandbox box", r)
        self.c("rm", "box")


def good_again(tap, box, good, evil, after):
    """The positive control: a good change takes effect, twice, so that the first policy is in force again."""
    n = len(box.log("policy.change"))
    box.put("live.yaml", policy(GOOD, EVIL))
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == n + 1) and box.reaches(evil.url),
           f"{box.c.who}: control: a good change takes effect after {after}", box.log("policy.broken"))
    box.put("live.yaml", policy(GOOD))
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == n + 2) and not box.reaches(evil.url) and box.reaches(good.url),
           f"{box.c.who}: control: a change back takes effect after {after}", box.log("policy.broken"))


def broken(tap, box, good, evil, what, pattern, seconds=60):
    """The last change is reported as broken, and what was in force is."""
    n = len(box.seen)
    last = wait_for(lambda: (lambda x: x if len(x) > n else None)(box.log("policy.broken")), seconds)
    box.seen = last or box.seen
    tap.ok(last and re.search(pattern, last[-1]["error"]), f"{box.c.who}: {what} is logged as a broken policy", last)
    tap.ok(box.reaches(good.url) and not box.reaches(evil.url), f"{box.c.who}: the policy in force stays after {what}")


def bad_files(tap, box, good, evil):
    path = os.path.join(box.c.home, "live.yaml")
    bomb = "a: &a [x, x, x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghijk", "bcdefghijkl"))
    box.put("live.yaml", bomb)
    broken(tap, box, good, evil, "a file of aliases of aliases", r"live\.yaml:1")
    box.put("live.yaml", "[" * 100_000)
    broken(tap, box, good, evil, "a file of a hundred thousand brackets", r"live\.yaml")
    os.truncate(path, 1 << 40)
    broken(tap, box, good, evil, "a file of a terabyte", "is larger than")
    for name, there in (("live.yaml", "a policy that is a pipe"), ("ads.txt", "a blocklist that is a pipe")):
        pipe = os.path.join(box.c.home, name)
        os.mkfifo(pipe + ".new", 0o600)
        box.c.own(pipe + ".new")
        os.replace(pipe + ".new", pipe)
        if name == "ads.txt":
            box.put("live.yaml", policy(GOOD, EVIL, blocklist="ads.txt"))
        broken(tap, box, good, evil, there, f"{name} is not a regular file")
    box.put("live.yaml", policy(GOOD, EVIL, blocklist="/dev/zero"))
    broken(tap, box, good, evil, "a blocklist that never ends", "not a regular file")
    good_again(tap, box, good, evil, "files that are none")


def slow_policy(box):
    """A change that takes a while to compile."""
    with open("/dev/urandom", "rb") as f:
        mark = f.read(6).hex()
    box.put("slow.txt", "".join(f"n{i}.{mark}.example.test\n" for i in range(NAMES)))
    box.put("live.yaml", policy(GOOD, EVIL, blocklist="slow.txt"))


def held(tap, box, good, evil, whole):
    """The short form ends the child instead of waiting for its deadline."""
    who = box.c.who
    slow_policy(box)
    pid = box.hold()
    tap.ok(pid, f"{who}: a child of the guard compiles the policy")
    if not pid:
        return
    s = fields(pid)
    if sanitized():
        tap.skip(f"{who}: the child has a list of system calls", "no filter under sanitizers")
    else:
        tap.eq(s.get("Seccomp"), "2", f"{who}: the child that compiles has a list of system calls", s)
    caps = {int(s.get(k, "0"), 16) for k in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    dac_override = 1 << 1
    tap.eq((caps, s.get("NoNewPrivs")), ({0 if box.c.who == "user" else dac_override}, "1"),
           f"{who}: the child that compiles can at most read the files of others, and gains no capability", s)
    # Two are its memory files, and another may be the file that it reads.
    fds = {n: os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
    tap.ok(len(fds) <= 6 and not any(x.startswith(("socket", "anon_inode")) for x in fds.values()),
           f"{who}: the child that compiles has no descriptor of the guard", fds)
    tap.ok(box.reaches(good.url), f"{who}: the network goes on while a policy is compiled")
    if not whole:
        os.kill(pid, signal.SIGKILL)
        broken(tap, box, good, evil, "a policy whose compiling was killed", "killed by signal 9")
        good_again(tap, box, good, evil, "a kill")
        return
    broken(tap, box, good, evil, "a policy that takes longer than its deadline", "longer than 10 s")
    tap.ok(wait_for(lambda: not os.path.exists(f"/proc/{pid}")), f"{who}: the child that was late is ended")
    good_again(tap, box, good, evil, "a deadline")


def killed(tap, box, good, evil):
    slow_policy(box)
    pid = box.hold()
    tap.ok(pid, f"{box.c.who}: control: another child compiles the policy")
    if pid:
        os.kill(pid, signal.SIGKILL)
        broken(tap, box, good, evil, "a policy whose compiling was killed", "killed by signal 9")
    good_again(tap, box, good, evil, "a kill")


def superseded(tap, box, good, evil):
    """A newer change does not wait for an older one."""
    who = box.c.who
    n, bad = len(box.log("policy.change")), len(box.log("policy.broken"))
    slow_policy(box)
    pid = box.hold()
    box.put("live.yaml", policy(GOOD, EVIL))
    tap.ok(pid and wait_for(lambda: len(box.log("policy.change")) == n + 1) and box.reaches(evil.url),
           f"{who}: a newer change takes effect while an older one hangs", box.log("policy.change"))
    tap.ok(pid and wait_for(lambda: not os.path.exists(f"/proc/{pid}")), f"{who}: the compiling of the older change is ended")
    tap.eq(len(box.log("policy.broken")), bad, f"{who}: a change that was superseded is not reported as broken")
    box.put("live.yaml", policy(GOOD))
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == n + 2), f"{who}: a change back takes effect after a newer one")


def ended(tap, box):
    """A run that ends meanwhile leaves nothing of it: check_clean()."""
    slow_policy(box)
    pid = box.hold()
    box.close()
    # It may wait for this test, whose child it has become, to reap it.
    tap.ok(pid and wait_for(lambda: (proc_stat(pid) or (0, "Z", ""))[1] in "ZX"), f"{box.c.who}: the child that compiles ends with its run")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("a changed policy", reason)
        tap.done()
    with Internet() as net:
        good = net.https(GOOD, lambda q: "good\n")
        evil = net.https(EVIL, lambda q: "evil\n")
        # Whom the guard runs as makes a difference, where the command runs makes none.
        for who, whole in covering(tap, engines=("ns",)):
            with net.coffer(who) as c:
                box = Sandbox(tap, c, net)
                box.seen = []
                tap.ok(box.reaches(good.url) and not box.reaches(evil.url), f"{c.who}: control: the first policy is in force")
                held(tap, box, good, evil, whole)
                if whole:
                    bad_files(tap, box, good, evil)
                    killed(tap, box, good, evil)
                    superseded(tap, box, good, evil)
                ended(tap, box)
                c.check_clean(tap)
    tap.done()


main()
