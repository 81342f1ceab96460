#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that last: run -d, exec, cp, logs, ps, stop, rm; and what came from inside shown harmlessly."""

import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities, slow_build  # noqa: E402


def until(check, seconds=90):
    deadline = time.monotonic() + seconds * slow_build()
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.05)
    return False


def life(tap, c):
    who = c.who
    r = c("run", "-d", "--name", "web", "--", "sh", "-c", "echo started; sleep 300")
    sid = r.out.strip()
    tap.ok(r.code == 0 and len(sid) == 12, f"{who}: run -d prints the id", r)
    r = c("ps")
    tap.ok("web" in r.out and sid in r.out, f"{who}: ps shows it", r)
    tap.ok(until(lambda: "started" in c("logs", "web").out), f"{who}: logs show what it printed")
    r = c("run", "-d", "--name", "web", "--", "true")
    tap.ok(r.code == 125 and "web" in r.err, f"{who}: a name is taken only once", r)
    r = c("exec", "web", "--", "sh", "-c", "id -u; pwd; exit 9")
    tap.ok(r.code == 9 and "/workspace" in r.out, f"{who}: exec by name, with its exit status", r)
    tap.eq(c("exec", sid[:4], "true").code, 0, f"{who}: by the beginning of its id")
    tap.eq(c("exec", "@last", "true").code, 0, f"{who}: and as @last")
    tap.eq(c("exec", "web", "no-such-thing").code, 127, f"{who}: exec of what is not there is 127")
    r = c("exec", "-i", "web", "cat", input="in and out")
    tap.eq(r.out, "in and out", f"{who}: exec -i passes stdin", r)
    r = c("exec", "-e", "A=5", "-w", "/tmp", "web", "sh", "-c", "echo $A $PWD $SECRET", env={"SECRET": "s"})
    tap.eq(r.out, "5 /tmp\n", f"{who}: exec -e and -w, and nothing of the caller's environment", r)
    tap.eq(c("exec", "nobody", "true").code, 125, f"{who}: exec in nothing is an error")
    c("exec", "web", "sh", "-c", "sleep 200 & echo $! > /tmp/bg")
    r = c("exec", "web", "sh", "-c", "kill -0 $(cat /tmp/bg) && echo alive")
    tap.eq(r.out, "alive\n", f"{who}: what an exec left in the background lives on", r)
    results = []

    def one(i):
        results.append((i, c("exec", "web", "sh", "-c", f"echo {i}; sleep 0.05; exit {i}")))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bad = [r for i, r in results if r.code != i]
    tap.ok(len(results) == 20 and not bad, f"{who}: twenty execs at once", len(results), *bad)
    r = c("audit", "--sandbox", "web", "--json")
    types = [json.loads(line)["type"] for line in r.out.splitlines()]
    tap.ok("run.start" in types and types.count("exec.start") >= 25, f"{who}: each exec is in the log", types)


def copies(tap, c):
    who = c.who
    c.write("up/a", "A" * 100000)
    c.write("up/deep/b", "B")
    os.symlink("/etc/passwd", os.path.join(c.work, "up", "link"))
    tap.eq(c("cp", os.path.join(c.work, "up"), "web:/tmp/got").code, 0, f"{who}: cp in")
    r = c("exec", "web", "sh", "-c", "cat /tmp/got/deep/b; wc -c < /tmp/got/a; readlink /tmp/got/link")
    tap.eq(r.out, "B100000\n/etc/passwd\n", f"{who}: a tree arrives, links as links", r)
    c("exec", "web", "sh", "-c", "mkdir -p /tmp/out/s; echo x > /tmp/out/s/f; chmod 4755 /tmp/out/s/f; "
      "ln -s ../../../../etc /tmp/out/esc; mkfifo /tmp/out/pipe")
    dst = os.path.join(c.work, "down")
    r = c("cp", "web:/tmp/out", dst)
    tap.ok(os.path.exists(os.path.join(dst, "s", "f")), f"{who}: cp out", r)
    if os.path.exists(os.path.join(dst, "s", "f")):
        tap.eq(os.stat(os.path.join(dst, "s", "f")).st_mode & 0o6000, 0, f"{who}: without its setuid bit")
    tap.ok(not os.path.exists(os.path.join(dst, "pipe")), f"{who}: and no fifo")
    subprocess.run(["rm", "-rf", dst], check=False)


def hostile_output(tap, c):
    who = c.who
    c("run", "-d", "--name", "evil", "--", "sh", "-c", r"printf '\033]0;owned\007\033[2Jplain\n'; sleep 100")
    until(lambda: "plain" in c("logs", "evil").out)
    r = c(program=["script", "-qec", f"{c.exe} logs evil", "/dev/null"])
    tap.ok("plain" in r.out and "\033]0;" not in r.out and "\033[2J" not in r.out,
           f"{who}: on a terminal logs are shown without their escape sequences", repr(r.out), r.err)
    r = c("logs", "evil")
    tap.ok("\033[2J" in r.out, f"{who}: into a pipe they are as they were (control)", repr(r.out))
    tap.eq(c("rm", "-f", "evil").code, 0, f"{who}: rm -f ends and removes")
    c("run", "-d", "--name", "n2", "--", "sh", "-c", "sleep 100", "\033[31mred")
    r = c("ps", "--no-trunc")
    tap.ok("\033[31mred" not in r.out, f"{who}: ps shows no escape sequence of a command", repr(r.out))
    c("rm", "-f", "n2")


def fork_bomb(tap, c):
    who = c.who
    c("run", "-d", "--name", "bomb", "--pids", "64", "--", "sh", "-c", ": ; f() { f | f & }; f; sleep 100")
    time.sleep(0.5)
    start = time.monotonic()
    r = c("stop", "-t", "1", "bomb")
    tap.ok(r.code == 0 and time.monotonic() - start < 60 * slow_build(), f"{who}: a fork bomb is stopped", r)
    c("rm", "-f", "bomb")


def ending(tap, c):
    who = c.who
    start = time.monotonic()
    r = c("stop", "web")
    tap.ok(r.code == 0 and time.monotonic() - start < 60 * slow_build(), f"{who}: stop", r)
    r = c("ps", "-a")
    tap.ok("web" in r.out and "stopped" in r.out, f"{who}: ps -a shows how it ended", r)
    tap.ok("started" in c("logs", "web").out, f"{who}: its log is still there")
    tap.eq(c("exec", "web", "true").code, 125, f"{who}: but nothing can be started in it")
    tap.eq(c("rm", "web").code, 0, f"{who}: rm")
    tap.eq(c("ps", "-aq").out, "", f"{who}: nothing is listed any more")


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        with coffer_as(who) as c:
            for part in (life, copies, hostile_output, fork_bomb, ending):
                part(tap, c)
            tap.eq(c("audit", "verify").code, 0, f"{who}: the log verifies")
            c.check_clean(tap)
    tap.done()


main()
