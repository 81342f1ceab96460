#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that last: run -d, exec, cp, logs, ps, stop, rm; and what came from inside shown harmlessly."""

import calendar
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, slow_build  # noqa: E402


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
    tap.ok("web" in r.out and sid in r.out, f"{who}: ps shows a detached sandbox", r)
    tap.ok(until(lambda: "started" in c("logs", "web").out), f"{who}: logs shows what a detached sandbox printed")
    r = c("run", "-d", "--name", "web", "--", "true")
    tap.ok(r.code == 125 and "web" in r.err, f"{who}: a name is taken only once", r)
    r = c("exec", "web", "--", "sh", "-c", "id -u; pwd; exit 9")
    tap.ok(r.code == 9 and "/workspace" in r.out, f"{who}: exec by name works and has the command's exit status", r)
    tap.eq(c("exec", sid[:4], "true").code, 0, f"{who}: exec by the beginning of the id works")
    tap.eq(c("exec", "@last", "true").code, 0, f"{who}: exec @last works")
    tap.eq(c("exec", "web", "no-such-thing").code, 127, f"{who}: exec of a command that does not exist exits 127")
    r = c("exec", "-i", "web", "cat", input="in and out")
    tap.eq(r.out, "in and out", f"{who}: exec -i passes stdin", r)
    r = c("exec", "-e", "A=5", "-w", "/tmp", "web", "sh", "-c", "echo $A $PWD $SECRET", env={"SECRET": "s"})
    tap.eq(r.out, "5 /tmp\n", f"{who}: exec takes -e and -w, and nothing of the caller's environment", r)
    tap.eq(c("exec", "nobody", "true").code, 125, f"{who}: exec in a sandbox that does not exist is an error")
    c("exec", "web", "sh", "-c", "sleep 200 & echo $! > /tmp/bg")
    r = c("exec", "web", "sh", "-c", "kill -0 $(cat /tmp/bg) && echo alive")
    tap.eq(r.out, "alive\n", f"{who}: a process that an exec left in the background lives on", r)
    results = []

    def one(i):
        results.append((i, c("exec", "web", "sh", "-c", f"echo {i}; sleep 0.05; exit {i}")))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bad = [r for i, r in results if r.code != i]
    tap.ok(len(results) == 20 and not bad, f"{who}: twenty execs at once have their exit codes", len(results), *bad)
    r = c("audit", "--sandbox", "web", "--json")
    types = [json.loads(line)["type"] for line in r.out.splitlines()]
    tap.ok("run.start" in types and types.count("exec.start") >= 25, f"{who}: each exec is in the log", types)


def detached_exec(tap, c):
    who = c.who
    before = time.monotonic()
    r = c("exec", "-d", "-e", "A=5", "-w", "/tmp", "web", "sh", "-c", "echo lost; sleep 1; pwd > /tmp/$A; exit 3")
    tap.ok((r.code, r.out, r.err) == (0, "", "") and time.monotonic() - before < 30 * slow_build(), f"{who}: exec -d returns at once and without a word", r)
    tap.ok(until(lambda: c("exec", "web", "cat", "/tmp/5").out == "/tmp\n"), f"{who}: a detached command goes on after its exec has left")
    tap.eq(c("exec", "-d", "web", "no-such-thing").code, 127, f"{who}: exec -d of a command that does not exist exits 127")
    r = c("exec", "-dit", "web", "sh", "-c", "tty > /tmp/tty; exec sleep 1000")
    tap.ok(r.code == 0 and until(lambda: c("exec", "web", "cat", "/tmp/tty").out.startswith("/dev/pts/")), f"{who}: exec -dt gives a terminal", r)

    def events(kind):
        log = [json.loads(line) for line in c("audit", "--sandbox", "web", "--json").out.splitlines()]
        mine = {e["exec"] for e in log if e["type"] == "exec.start" and e.get("detached")}
        return [e for e in log if e["type"] == kind and e["exec"] in mine]
    tap.eq(len(events("exec.start")), 3, f"{who}: each detached command is in the log")
    tap.ok(until(lambda: [e["exit"] for e in events("exec.end")] == [3, 127] or [e["exit"] for e in events("exec.end")] == [127, 3]),
           f"{who}: the log has how a detached command ended", events("exec.end"))
    tap.ok(not any("hung_up" in e for e in events("exec.end")), f"{who}: a detached command is not hung up on", events("exec.end"))
    tap.ok("lost" not in c("logs", "web").out, f"{who}: the output of a detached command is dropped")


def log_times(tap, c):
    who = c.who
    c("run", "-d", "--name", "clock", "--", "sh", "-c", "echo one; sleep 3; printf tw; sleep 1; echo o; echo three >&2; sleep 1000")
    tap.ok(until(lambda: "three" in c("logs", "clock").out), f"{who}: a sandbox prints over some seconds")
    rows = [line.split(" ", 1) for line in c("logs", "-t", "clock").out.splitlines()]
    tap.eq([x for _, x in rows], ["one", "two", "three"], f"{who}: logs -t has each line once")
    when = [time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S") for t, _ in rows if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z", t)]
    gap = [calendar.timegm(b) - calendar.timegm(a) for a, b in zip(when, when[1:])]
    tap.ok(len(when) == 3 and gap[0] >= 2 and gap[1] >= 1, f"{who}: a line has the time when its first byte came", rows)
    tap.eq(c("logs", "--since", rows[1][0], "clock").out, "two\nthree\n", f"{who}: logs --since a time shows that line and later ones")
    tap.eq(c("logs", "--until", rows[1][0], "clock").out, "one\ntwo\n", f"{who}: logs --until a time shows that line and earlier ones")
    tap.eq(c("logs", "--until", rows[1][0], "-n", "1", "clock").out, "two\n", f"{who}: logs -n counts from the end of the part")
    tap.eq(c("logs", "--since", "1h", "clock").out, "one\ntwo\nthree\n", f"{who}: logs --since takes a duration")
    tap.eq(c("logs", "--since", "2035-01-01", "clock").out, "", f"{who}: logs --since a time in the future shows nothing")
    for args in (["--since", "soon"], ["--until", "1h", "-f"], ["--engine", "-t"]):
        tap.eq(c("logs", *args, "clock").code, 2, f"{who}: logs {' '.join(args)} exits 2")
    sid = c("ps", "-q", "--filter", "name=clock").out.strip()
    c("stop", "-t", "0", "clock")
    os.unlink(os.path.join(c.state, "runs", sid, "output.times"))
    r = c("logs", "-t", "--since", "1s", "clock")
    tap.ok(r.out == "- one\n- two\n- three\n" and "no times were kept" in r.err,
           f"{who}: logs says that an older log has no times, and shows it whole", r)
    c("rm", "clock")


def filters(tap, c):
    who = c.who
    web = c("ps", "-q", "--filter", "name=we").out.split()
    tap.eq(len(web), 1, f"{who}: ps --filter name= takes a part of the name")
    c("run", "-d", "--name", "over", "--", "sh", "-c", "exit 3")
    until(lambda: c("ps", "-q", "--filter", "name=over", "--filter", "status=exited").out)
    over = c("ps", "-q", "--filter", "status=exited", "--filter", "exited=3").out.split()
    tap.ok(len(over) == 1 and over != web, f"{who}: ps --filter for ended sandboxes needs no -a", over, web)
    tap.eq(c("ps", "-aq", "-f", "name=web", "-f", "name=over").out.split(), over + web,
           f"{who}: ps --filter takes values of one key as alternatives")
    tap.eq(c("ps", "-aq", "-f", "name=web", "-f", "status=exited").out, "", f"{who}: ps --filter needs all keys to match")
    net = json.loads(c("ps", "--json", "-f", "name=web").out)[0]["net"]
    tap.eq(c("ps", "-q", "-f", f"engine={who.engine}", "-f", f"id={web[0][:6]}", "-f", f"net={net}", "-f", "status=running").out.split(), web,
           f"{who}: ps --filter takes engine, id, net and status")
    tap.eq(c("ps", "-q", "-f", "engine=" + ("gvisor" if who.engine == "ns" else "ns")).out, "",
           f"{who}: ps --filter of another engine shows nothing")
    tap.eq([x["id"] for x in json.loads(c("ps", "--format", "json", "-f", "name=web").out)], web,
           f"{who}: ps --format json is the same as --json")
    tap.eq([x["id"] for x in json.loads(c("ps", "--stats", "--json", "-f", "name=web").out)], web, f"{who}: ps --stats takes a filter")
    for args in (["-f", "label=x"], ["-f", "name"], ["-f", "status=fine"], ["-f", "exited=x"], ["--format", "{{.ID}}"], ["--stats", "-f", "status=oom"]):
        r = c("ps", *args)
        tap.ok(r.code == 2 and "usage: coffer ps" in r.err, f"{who}: ps {' '.join(args)} exits 2", r)
    c("rm", "over")


def copies(tap, c):
    who = c.who
    c.write("up/a", "A" * 100000)
    c.write("up/deep/b", "B")
    os.symlink("/etc/passwd", os.path.join(c.work, "up", "link"))
    tap.eq(c("cp", os.path.join(c.work, "up"), "web:/tmp/got").code, 0, f"{who}: cp of a directory into a sandbox succeeds")
    r = c("exec", "web", "sh", "-c", "cat /tmp/got/deep/b; wc -c < /tmp/got/a; readlink /tmp/got/link")
    tap.eq(r.out, "B100000\n/etc/passwd\n", f"{who}: cp into a sandbox copies a tree, links as links", r)
    c("exec", "web", "sh", "-c", "mkdir -p /tmp/out/s; echo x > /tmp/out/s/f; chmod 4755 /tmp/out/s/f; "
      "ln -s ../../../../etc /tmp/out/esc; mkfifo /tmp/out/pipe")
    dst = os.path.join(c.work, "down")
    r = c("cp", "web:/tmp/out", dst)
    tap.ok(os.path.exists(os.path.join(dst, "s", "f")), f"{who}: cp out of a sandbox copies a file", r)
    if os.path.exists(os.path.join(dst, "s", "f")):
        tap.eq(os.stat(os.path.join(dst, "s", "f")).st_mode & 0o6000, 0, f"{who}: cp out of a sandbox drops the setuid bit")
    tap.ok(not os.path.exists(os.path.join(dst, "pipe")), f"{who}: cp out of a sandbox copies no fifo")
    subprocess.run(["rm", "-rf", dst], check=False)
    links_out(tap, c)
    copies_holes(tap, c)


def links_out(tap, c):
    """A link that an earlier copy brought out would lead a later copy to the same place."""
    who = c.who
    for d in ("victim", "cpo"):
        os.mkdir(os.path.join(c.work, d))
        c.own(os.path.join(c.work, d))
    victim, dst = os.path.join(c.work, "victim"), os.path.join(c.work, "cpo", "report")
    c("exec", "web", "ln", "-s", victim, "/tmp/report")
    first = c("cp", "web:/tmp/report", dst)
    tap.ok(first.code == 1 and not os.path.lexists(dst) and "not copied: report: symlink that leads outside [--allow-special report]" in first.err,
           f"{who}: cp leaves out a symlink that SRC names", first)
    c("exec", "web", "sh", "-c", "rm /tmp/report; mkdir /tmp/report; echo EVIL > /tmp/report/x")
    second = [c("cp", f"web:/tmp/report{end}", dst) for end in ("", "/.")]
    tap.ok(os.listdir(victim) == [] and not os.path.islink(dst), f"{who}: the same copy again writes to DST, not to where the sandbox chose",
           os.listdir(victim), *second)
    c("exec", "web", "sh", "-c", "mkdir -p /tmp/links/d; cd /tmp/links; ln -s /etc/shadow abs; ln -s ../x up; ln -s ../../x d/far; "
      "ln -s plain in; ln -s ../plain d/back; echo p > plain")
    names = ("links/abs", "links/up", "links/d/far", "links/in", "links/d/back", "links/plain")
    out = os.path.join(c.work, "cpo")
    r = c("cp", "web:/tmp/links", out)
    tap.ok(r.code == 1 and [os.path.lexists(os.path.join(out, n)) for n in names] == [False] * 3 + [True] * 3 and
           all(f"not copied: {n}: symlink that leads outside [--allow-special {n}]" in r.err for n in names[:3]),
           f"{who}: cp of a directory leaves out the symlinks that lead out of it", r)
    r = c("cp", "--allow", "links/up", "web:/tmp/links", out)
    tap.ok(r.code == 1 and not os.path.lexists(os.path.join(out, "links/up")), f"{who}: --allow is no approval of such a symlink", r)
    r = c("cp", "--allow-special", "links/d", "--allow-special", "links/up", "web:/tmp/links", out)
    tap.ok(r.code == 1 and [os.path.lexists(os.path.join(out, n)) for n in names] == [False] + [True] * 5,
           f"{who}: --allow-special copies those that it names", r)
    r = c("cp", "--allow-special", "abs", "web:/tmp/links/abs", out)
    tap.ok(r.code == 0 and os.path.islink(os.path.join(out, "abs")), f"{who}: --allow-special copies a symlink that SRC names", r)
    os.symlink(victim, os.path.join(c.work, "mine"))
    r = c("cp", "web:/tmp/links/plain", os.path.join(c.work, "mine"))
    tap.ok(r.code == 0 and os.listdir(victim) == ["plain"], f"{who}: cp follows the user's own symlink as DST", r)
    subprocess.run(["rm", "-rf", victim, out, os.path.join(c.work, "mine")], check=False)


def copies_holes(tap, c):
    """The copy of a file with holes has the same bytes and needs no more of the disk."""
    src, back = os.path.join(c.work, "sparse"), os.path.join(c.work, "back")
    c.write("sparse", "begin")
    with open(src, "r+b") as f:
        f.seek(5 << 20)
        f.write(b"middle")
        f.truncate(40 << 20)
    tap.eq(c("cp", src, "web:/tmp/sparse").code, 0, f"{c.who}: cp of a file with holes into a sandbox succeeds")
    r = c("exec", "web", "stat", "-c", "%s %b", "/tmp/sparse")
    # gVisor counts a hole in its /tmp as blocks.
    size, blocks = map(int, r.out.split())
    tap.ok(size == 40 << 20 and (c.who.engine == "gvisor" or blocks * 512 < 1 << 20), f"{c.who}: cp into a sandbox keeps holes", r)
    r = c("cp", "web:/tmp/sparse", back)
    same = subprocess.run(["cmp", src, back], check=False).returncode == 0
    tap.ok(same and os.stat(back).st_blocks * 512 < 1 << 20, f"{c.who}: cp out of a sandbox keeps holes", r, same)
    os.unlink(src)
    os.unlink(back)


def hostile_output(tap, c):
    who = c.who
    c("run", "-d", "--name", "evil", "--", "sh", "-c", r"printf '\033]0;owned\007\033[2Jplain\n'; sleep 100")
    until(lambda: "plain" in c("logs", "evil").out)
    r = c(program=["script", "-qec", f"{c.exe} logs evil", "/dev/null"])
    tap.ok("plain" in r.out and "\033]0;" not in r.out and "\033[2J" not in r.out,
           f"{who}: logs on a terminal shows no escape sequences", repr(r.out), r.err)
    r = c("logs", "evil")
    tap.ok("\033[2J" in r.out, f"{who}: (control) logs into a pipe has the escape sequences", repr(r.out))
    tap.eq(c("rm", "-f", "evil").code, 0, f"{who}: rm -f ends and removes a running sandbox")
    c("run", "-d", "--name", "n2", "--", "sh", "-c", "sleep 100", "\033[31mred")
    r = c("ps", "--no-trunc")
    tap.ok("n2" in r.out and "\033[31mred" not in r.out, f"{who}: ps shows no escape sequence of a command", repr(r.out))
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
    tap.ok(r.code == 0 and time.monotonic() - start < 60 * slow_build(), f"{who}: stop ends a sandbox in time", r)
    r = c("ps", "-a")
    tap.ok("web" in r.out and "stopped" in r.out, f"{who}: ps -a shows a sandbox that was stopped", r)
    tap.ok("started" in c("logs", "web").out, f"{who}: logs works after the sandbox was stopped")
    tap.eq(c("exec", "web", "true").code, 125, f"{who}: exec in a sandbox that was stopped is refused")
    tap.eq(c("rm", "web").code, 0, f"{who}: rm of a stopped sandbox succeeds")
    tap.eq(c("ps", "-aq").out, "", f"{who}: ps -a lists nothing after rm")


def not_started(tap, c):
    """run -d answers once the command runs: one that cannot be started fails as in the foreground."""
    who = c.who
    for what, command, code, said in (("does not exist", "no-such-thing", 127, "no-such-thing: command not found in the sandbox"),
                                      ("is a directory", "/etc", 126, "/etc")):
        r = c("run", "-d", "--name", "absent", "--", command)
        tap.ok(r.code == code and not r.out and said in r.err, f"{who}: run -d of a command that {what} exits {code}, with the reason", r)
        tap.ok("absent" not in c("ps", "-a").out, f"{who}: run -d of a command that {what} leaves no run")
    r = c("run", "-d", "--name", "absent", "--restart", "always", "--", "no-such-thing")
    tap.ok(r.code == 127 and "command not found in the sandbox" in r.err and "removed" not in r.err, f"{who}: run -d --restart of a command that does not exist exits 127", r)
    r = c("run", "-d", "--name", "absent", "--", "true")
    tap.ok(r.code == 0 and len(r.out.strip()) == 12, f"{who}: the name of a run -d that was not started is free again, and a command that ends at once has an id", r)
    tap.eq(c("wait", "absent").code, 0, f"{who}: a run -d that ended at once can be waited for")
    c("rm", "absent")


def main():
    tap = Tap()
    # The short form leaves out what is done outside with the output and the list of runs.
    short = (life, not_started, hostile_output, fork_bomb, ending)
    for who, whole in covering(tap):
        with coffer_as(who) as c:
            for part in (life, not_started, detached_exec, log_times, filters, copies, hostile_output, fork_bomb, ending) if whole else short:
                part(tap, c)
            tap.eq(c("audit", "verify").code, 0, f"{who}: the log verifies")
            c.check_clean(tap)
    tap.done()


main()
