#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer ps and coffer rm: what is listed, what is removed, what is refused."""

import json
import os
import pty
import re
import select
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering  # noqa: E402

tap = Tap()
HEAD_ALL = r"^ID +NAME +ENGINE +ROOT +STATUS +STARTED +RESTART +CHANGES +SIZE +COMMAND\n"
HEAD = r"^ID +NAME +ENGINE +ROOT +STATUS +STARTED +RESTART +CHANGES +COMMAND\n"
STATS = r"^ID +NAME +ENGINE +MEMORY +FROM +CPU +TIME +PIDS +UPTIME +COMMAND\n"


def check_empty(c):
    tap.like(c("ps").out, HEAD + "$", f"{c.who}: ps without sandboxes prints the heading")
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: ps -aq without sandboxes prints nothing")
    tap.eq(json.loads(c("ps", "-a", "--json").out), [], f"{c.who}: ps -a --json without sandboxes prints an empty array")
    r = c("run", "-q", "--", "true")
    tap.eq((r.code, c("ps", "-aq").out), (0, ""), f"{c.who}: a run that changed nothing is not listed", r)
    tap.eq(c("ps", "x").code, 2, f"{c.who}: ps refuses arguments")


def check_ended(c):
    r = c("run", "-q", "--", "sh", "-c", "echo hi > 'n\u009bame\u202e'; exit 3 # \x1b[31m\x07\u009b31m")
    tap.eq(r.code, 3, f"{c.who}: a run with a change exits with its status", r)
    runs = json.loads(c("ps", "-a", "--json").out)
    tap.ok(len(runs) == 1 and runs[0]["status"] == "ended" and runs[0]["exit"] == 3 and runs[0]["changes"] == 1 and
           runs[0]["workspace"] == c.work, f"{c.who}: ps -a --json lists an ended run with its exit status", runs)
    run_id = runs[0]["id"]
    text = c("ps", "-a")
    tap.like(text.out, HEAD_ALL + rf"{run_id} +- +{c.engine} +host +exited 3, \d+ s ago +\d+ s ago +- +1 +4.0 KiB +sh -c", f"{c.who}: ps -a lists an ended run", text)
    tap.unlike(text.out + c("ps", "-a", "--no-trunc").out, "\x1b|\x07", f"{c.who}: ps -a escapes control characters of a command")
    as_json = [c(*words).out for words in (("ps", "-a", "--json"), ("inspect", run_id), ("diff", "--json", run_id), ("audit", "--json"))]
    tap.eq([re.findall("[\x80-\x9f\u202e\u2028]", x) for x in as_json], [[]] * 4, f"{c.who}: JSON output has no character that a terminal obeys")
    tap.ok("\u009b31m" in runs[0]["command"] and "n\u009bame\u202e" in [x["path"] for x in json.loads(as_json[2])["changes"]],
           f"{c.who}: JSON output encodes control characters without loss", as_json)
    tap.eq(c("ps", "-q").out, "", f"{c.who}: ps -q does not list an ended run")
    tap.eq(c("ps", "-aq").out, run_id + "\n", f"{c.who}: ps -aq prints the id of an ended run")
    tap.eq(c("rm", run_id[:4]).code, 0, f"{c.who}: rm takes a short id")
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: rm removes a run from the list")
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{c.who}: rm removes the run's directory")
    events = [json.loads(l) for l in c("audit", "--json").out.splitlines()]
    tap.ok(any(e["type"] == "run.rm" and e["sandbox"] == run_id for e in events), f"{c.who}: the log has run.rm", events[-3:])


def check_alive(c):
    r = c("run", "-d", "--name", "web", "--", "sleep", "1000")
    run_id = r.out.strip()
    tap.ok(r.code == 0 and len(run_id) == 12, f"{c.who}: a sandbox starts in the background", r)
    text = c("ps")
    tap.like(text.out, HEAD + rf"{run_id} +web +{c.engine} +host +running \d+ s +\d+ s ago +- +- +sleep 1000\n$", f"{c.who}: ps lists a running sandbox", text)
    r = c("rm", "web")
    tap.ok(r.code == 125 and "still running" in r.err and "coffer stop" in r.err, f"{c.who}: rm refuses a running sandbox", r)
    tap.eq(c("ps", "-q").out, run_id + "\n", f"{c.who}: a sandbox still runs after rm was refused")
    r = c("rm", "-f", "web")
    tap.eq((r.code, r.err), (0, ""), f"{c.who}: rm -f removes a running sandbox", r)
    tap.eq(c("ps", "-aq").out, "", f"{c.who}: ps -aq does not list a removed sandbox")


def stats_of(c):
    return {s["name"]: s for s in json.loads(c("ps", "--stats", "--json").out)}


def look_again(c, good, wait=90.0):
    """Looks until something is true of all: a sandbox takes a while to do what it does, and a launcher may to answer."""
    end = time.monotonic() + wait
    while True:
        got = stats_of(c)
        known = all(s["memory"] is not None and s["cpu_us"] is not None for s in got.values())
        if (known and good(got)) or time.monotonic() > end:
            return got
        time.sleep(0.2)


def check_stats(c):
    """The usage of each sandbox, from a control group or from its processes."""
    tap.like(c("ps", "--stats").out, STATS + "$", f"{c.who}: ps --stats without sandboxes prints the heading")
    tap.eq(json.loads(c("ps", "--stats", "--json").out), [], f"{c.who}: ps --stats --json without sandboxes prints an empty array")
    c("run", "-d", "--name", "busy", "--", "sh", "-c", "while :; do :; done # \x1b[31m\x07")
    c("run", "-d", "--name", "big", "--", "python3", "-c",
      "import time, threading\nb = b'x' * (96 << 20)\n"
      "for i in range(5): threading.Thread(target=time.sleep, args=(1000,)).start()")
    c("run", "-d", "--name", "idle", "--", "sleep", "1000")
    # gVisor's memory is a file, of which its processes have only a part mapped; a control group counts all of it
    more = (20 if c.engine == "gvisor" and c.who != "root" else 90) << 20
    got = look_again(c, lambda s: (s["big"]["memory"] > s["idle"]["memory"] + more and s["big"]["pids"] >= 7 and
                                   s["idle"]["commands"] == 1 and s["idle"]["pids"] >= 2))
    tap.eq(sorted(got), ["big", "busy", "idle"], f"{c.who}: ps --stats lists each sandbox", got)
    tap.ok(all(s["engine"] == c.engine and s["memory_from"] in ("cgroup", "pss", "rss") for s in got.values()),
           f"{c.who}: ps --stats has the engine and the source of the memory", got)
    tap.ok(got["big"]["memory"] > got["idle"]["memory"] + more and got["idle"]["memory"] > 50 << 10, f"{c.who}: ps --stats tells a large sandbox's memory from an idle one's", got)
    if c.engine == "ns":
        tap.ok(got["idle"]["pids"] == 2 and got["big"]["pids"] >= 7, f"{c.who}: ps --stats counts processes and threads", got)
    else:
        tap.ok(got["idle"]["pids"] > 2, f"{c.who}: ps --stats counts the threads of gVisor", got)
    before = look_again(c, lambda s: True)["busy"]
    after = look_again(c, lambda s: s["busy"]["cpu_us"] >= before["cpu_us"] + 300000)["busy"]
    tap.ok(after["cpu_us"] >= before["cpu_us"] + 300000 and after["uptime_us"] > before["uptime_us"],
           f"{c.who}: CPU time and uptime grow in ps --stats", before, after)
    tap.ok(0 < after["cpu_permille"] < 1000 * os.cpu_count() + 100, f"{c.who}: ps --stats has the share of CPU", after)
    text = c("ps", "--stats")
    tap.like(text.out, STATS + r"(?s:.*)^[0-9a-f]{12} +busy +\w+ +[0-9.]+ \w+( / [0-9.]+ \w+)? +(cgroup|pss|rss) "
             r"+[0-9.]+% +[0-9.a-z ]+? +\d+( / \d+)? +[0-9.a-z ]+? +sh -c", f"{c.who}: ps --stats prints a table", text)
    tap.unlike(text.out, "\x1b|\x07", f"{c.who}: ps --stats escapes control characters of a command")
    check_live(c)
    check_stopped(c)
    tap.eq(c("rm", "-f", "busy", "big", "idle").code, 0, f"{c.who}: rm -f removes three sandboxes")


def short_stats(c):
    c("run", "-d", "--name", "idle", "--", "sleep", "1000")
    got = look_again(c, lambda s: s["idle"]["commands"] == 1)["idle"]
    tap.ok(got["engine"] == c.engine and got["memory_from"] in ("cgroup", "pss", "rss") and got["memory"] > 50 << 10 and got["pids"] >= 2,
           f"{c.who}: ps --stats knows the memory and the processes of a sandbox", got)
    tap.eq(c("rm", "-f", "idle").code, 0, f"{c.who}: a sandbox with stats is removed")


def check_live(c):
    """On a terminal it draws until Ctrl-C, and puts the terminal back."""
    for how, sig in (("Ctrl-C", signal.SIGINT), ("SIGTERM", signal.SIGTERM)):
        master, slave = pty.openpty()
        p = c.popen("ps", "--stats", env={"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        drawn, end = b"", time.monotonic() + 90
        while drawn.count(b"\x1b[H") < 3 and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                drawn += os.read(master, 65536)
        os.kill(p.pid, sig)
        code = p.wait(timeout=90)
        while select.select([master], [], [], 0.2)[0]:
            try:
                drawn += os.read(master, 65536)
            except OSError:
                break
        os.close(master)
        text = drawn.decode(errors="replace")
        tap.ok(code == -sig and text.count("\x1b[H") >= 3 and "busy" in text, f"{c.who}: ps --stats redraws until {how}", code, text)
        tap.ok(text.startswith("\x1b[?25l\x1b[?7l") and text.endswith("\x1b[?7h\x1b[?25h"), f"{c.who}: ps --stats restores the terminal after {how}", repr(text))
        tap.eq(re.findall(r"\x1b\[31m|\x07", text), [], f"{c.who}: ps --stats on a terminal escapes control characters of a command")
    master, slave = pty.openpty()
    p = c.popen("ps", "--stats", "--no-stream", env={"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = os.read(master, 65536).decode(errors="replace")
    tap.ok(p.wait(timeout=90) == 0 and "\x1b" not in text and "ENGINE" in text, f"{c.who}: ps --stats --no-stream prints once", repr(text))
    os.close(master)


def check_terminal_gone(c):
    """The end of the terminal is no reason to report a sandbox that did not respond before."""
    master, slave = pty.openpty()
    p = c.popen("ps", "--stats", env={"TERM": "xterm"}, stdin=slave, stdout=slave)
    os.close(slave)
    drawn, end = b"", time.monotonic() + 90
    while not re.search(rb"idle +\w+ +- ", drawn) and time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            drawn += os.read(master, 65536)
    os.close(master)
    err = p.communicate(timeout=90)[1]
    tap.ok(p.returncode == 125 and not err, f"{c.who}: when the terminal is gone, ps --stats ends without an old error", p.returncode, err)


def check_stopped(c):
    """A launcher that does not answer holds up nobody."""
    with open(os.path.join(c.state, "runs", c("ps", "-q").out.split()[0], "meta.json"), encoding="utf-8") as f:
        launcher = json.load(f)["launcher"]
    os.kill(launcher, signal.SIGSTOP)
    try:
        end, got = time.monotonic() + 90, {}
        while not got or (got["big"]["memory"] is None and time.monotonic() < end):
            r = c("ps", "--stats", "--json")
            got = {s["name"]: s for s in json.loads(r.out)}
        tap.ok(r.seconds < 60 and got["idle"]["memory"] is None and got["big"]["memory"],
               f"{c.who}: ps --stats does not wait for a stopped launcher", r)
        tap.like(c("ps", "--stats").out, r"idle +\w+ +- +- +- +- +- +- ", f"{c.who}: ps --stats shows no values for a stopped launcher")
        check_terminal_gone(c)
    finally:
        os.kill(launcher, signal.SIGCONT)
    tap.ok(look_again(c, lambda s: s["idle"]["memory"])["idle"]["memory"], f"{c.who}: ps --stats shows values again when the launcher continues")


def check_refused(c):
    for args in (("--stats", "-a"), ("--stats", "-q"), ("--no-stream",)):
        tap.eq(c("ps", *args).code, 2, f"{c.who}: ps {' '.join(args)} is refused")
    r = c("rm")
    tap.ok(r.code == 2 and "usage: coffer rm" in r.err, f"{c.who}: rm without a name prints the usage", r)
    r = c("rm", "nosuch")
    tap.ok(r.code == 125 and "nosuch" in r.err, f"{c.who}: rm of an unknown sandbox is an error", r)
    tap.eq(c("rm", "-f", "nosuch").code, 0, f"{c.who}: rm -f of an unknown sandbox is not an error")
    for bad in ("../../etc", "", "a/b", "."):
        r = c("rm", bad)
        tap.ok(r.code in (2, 125) and os.path.isdir(c.state), f"{c.who}: rm refuses {bad!r}", r)


for who, whole in covering(tap):
    with coffer_as(who) as coffer:
        check_alive(coffer)
        if whole:
            check_empty(coffer)
            check_ended(coffer)
            check_stats(coffer)
            check_refused(coffer)
        else:
            short_stats(coffer)  # where the numbers come from depends on identity and engine; what is done with them does not
        coffer.check_clean(tap)
tap.done()
