#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer-netd, which reads the journals of a sandbox's network: what it holds, what its death costs, and what one that was taken over gains."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, covering, descendants, proc_stat, sanitized, slow_build  # noqa: E402
from netbox import Sandbox, log, part  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

GOOD = "good.example.test"
# What each owned coffer-netd does, and whether its guard has a reason to end it.
DEEDS = {"exit": True, "silent": False, "deaf": False, "garbage": True, "early": True, "beyond": True, "other": True, "counts": True,
         "lines": True, "fd": True, "forge": False}


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def descriptors(pid):
    """{number: (what it is, may it be written)}"""
    found = {}
    for n in os.listdir(f"/proc/{pid}/fd"):
        with open(f"/proc/{pid}/fdinfo/{n}", encoding="ascii") as f:
            flags = int(re.search(r"flags:\s+(\d+)", f.read()).group(1), 8)
        found[int(n)] = (os.readlink(f"/proc/{pid}/fd/{n}"), flags & 3 != 0)
    return found


def guard_pid():
    return next(p for p, _ in descendants(os.getpid()) if (proc_stat(p) or (0, 0, ""))[2] == "coffer-guard")


def opens(box):
    """The connections of a sandbox that its log has."""
    return [e for e in box.log("net.open") if e["decision"] == "allow"]


def confined(tap, c, net, good):
    """It is there when it is needed, and has nothing but what it reads."""
    who = c.who
    box = Sandbox(tap, c, net, "--allow", GOOD)
    tap.ok(part(c, "coffer-netd") is None, f"{who}: coffer-netd does not run before the first packet")
    tap.ok(box.reaches(good.url), f"{who}: control: an allowed host is reached")
    pid, egress = wait_for(lambda: part(c, "coffer-netd")), part(c, "coffer-egress")
    s = status(pid)
    tap.ok(s["NoNewPrivs"] == "1" and int(s["CapEff"], 16) == 0 and int(s["CapPrm"], 16) == 0,
           f"{who}: coffer-netd has no capability, and gains none", s)
    if sanitized():
        tap.skip(f"{who}: coffer-netd has a list of system calls", "no filter under sanitizers")
    else:
        tap.eq(s["Seccomp"], "2", f"{who}: coffer-netd has a list of system calls")
    if c.who == "root":
        tap.ok(s["Uid"].split()[0] not in ("0", status(egress)["Uid"].split()[0]),
               f"{who}: coffer-netd has an id that is neither root's nor that of coffer-egress", s["Uid"], status(egress)["Uid"])
    held = descriptors(pid)
    kinds = {n: ("null" if w == "/dev/null" else w.split(":")[0] if ":" in w else os.path.basename(w), rw) for n, (w, rw) in held.items()}
    tap.eq({n: k for n, k in kinds.items() if k[0] != "null"},
           {3: ("socket", True), 4: ("journal.egress", False), 5: ("journal.dial", False)},
           f"{who}: coffer-netd holds one socket and two journals that it can only read")
    tap.ok(wait_for(lambda: len(opens(box)) == 1), f"{who}: control: the connection is in the log", box.log("net.open"))
    box.close()


def deaths(tap, c, net, good):
    """Whatever dies, the network goes on and each connection is in the log once."""
    who, came = c.who, len(good.connections)
    box = Sandbox(tap, c, net, "--allow", GOOD)
    tap.ok(box.reaches(good.url) and wait_for(lambda: len(opens(box)) == 1), f"{who}: control: a connection is in the log")
    for n in (2, 3):
        pid, egress = part(c, "coffer-netd"), part(c, "coffer-egress")
        os.kill(pid, signal.SIGKILL)
        tap.ok(box.reaches(good.url), f"{who}: the network goes on while coffer-netd is down")
        tap.ok(wait_for(lambda p=pid: part(c, "coffer-netd") not in (None, p)), f"{who}: coffer-netd is started again after a kill")
        tap.eq(part(c, "coffer-egress"), egress, f"{who}: coffer-egress survives the death of coffer-netd")
        tap.ok(wait_for(lambda k=n: len(box.log("netd.up")) == k - 1) and len(box.log("netd.down")) == n - 1,
               f"{who}: the log has the death of coffer-netd and its return", box.log("netd.down", "netd.up"))
        tap.ok("signal 9" in box.log("netd.down")[-1]["why"], f"{who}: the log says how coffer-netd ended", box.log("netd.down")[-1])
        tap.ok(wait_for(lambda k=n: len(opens(box)) >= k), f"{who}: a connection from the time without coffer-netd is in the log")
    tap.eq((len(opens(box)), len(good.connections) - came), (3, 3), f"{who}: each connection is in the log once, whatever died")
    box.close()


def stopped(tap, c, net, good, kill_guard):
    """One that hangs holds nobody up, and costs no line: whoever ends the run has its journals read."""
    who = f"{c.who}, {'guard killed too' if kill_guard else 'guard alive'}"
    box = Sandbox(tap, c, net, "--allow", GOOD)
    tap.ok(box.reaches(good.url) and wait_for(lambda: len(opens(box)) == 1), f"{who}: control: a connection is in the log")
    pid = part(c, "coffer-netd")
    os.kill(pid, signal.SIGSTOP)
    tap.ok(box.reaches(good.url), f"{who}: the network goes on while coffer-netd hangs")
    time.sleep(1)
    tap.eq(len(opens(box)), 1, f"{who}: control: a coffer-netd that hangs logs nothing")
    if kill_guard:
        os.kill(guard_pid(), signal.SIGKILL)
    begun = time.monotonic()
    box.close()
    took = time.monotonic() - begun
    tap.ok(took < 40 * slow_build(), f"{who}: a run ends in bounded time although its coffer-netd hangs: {took:.1f} s")
    ends = log(c, "run.end", sandbox=box.id)
    tap.ok(len(opens(box)) == 2 and ends and opens(box)[-1]["seq"] < ends[-1]["seq"],
           f"{who}: the line that coffer-netd never read is in the log once, before run.end", opens(box), ends)
    tap.ok(wait_for(lambda: part(c, "coffer-netd") is None), f"{who}: the coffer-netd that hung is gone")


def pending(tap, c, net, good):
    """The guard dies while repetitions are still to be counted: what is in the log does not come into it again."""
    who = c.who
    box = Sandbox(tap, c, net, "--allow", GOOD)
    c("exec", "box", "--", "bash", "-c", f"for i in $(seq 900); do exec 3<>/dev/tcp/n$i.evil.test/81; done 2>/dev/null; exit 0", timeout=120 * slow_build())
    tap.ok(box.reaches(good.url) and wait_for(lambda: len(opens(box)) == 1), f"{who}: control: a connection after many denials is in the log")
    tap.eq(box.log("net.folded"), [], f"{who}: control: the repetitions are not in the log yet")
    os.kill(guard_pid(), signal.SIGKILL)
    box.close()
    tap.eq(len(opens(box)), 1, f"{who}: a connection that was in the log when the guard died is there once")
    folded = box.log("net.folded")
    tap.ok(folded, f"{who}: repetitions that were not counted when the guard died are counted", folded)


def owned(tap, c, net, good, deed):
    """One that was taken over, from its first moment on."""
    who, ends = f"{c.who}, {deed}", DEEDS[deed]
    with open(os.path.join(c.bin, "owned"), "w", encoding="ascii") as f:
        f.write(deed)
    os.chmod(os.path.join(c.bin, "owned"), 0o644)
    report, downs = os.path.join(c.tmp, "report.json"), len(log(c, "netd.down"))
    begun = time.monotonic()
    p = c.popen("run", "-i", "--allow", GOOD, "--report", report, "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c",
                f"curl -sS -m 60 --cacert /ca.pem {good.url}; curl -sS -m 20 http://{GOOD}:81/; read x", stdin=subprocess.PIPE)
    hello = p.stdout.readline()
    if ends:
        wait_for(lambda: len(log(c, "netd.down")) > downs)
    wait_for(lambda: p.poll() is not None or deed != "exit", 20)
    out, err = (x.decode(errors="replace") for x in p.communicate(timeout=120 * slow_build()))
    took = time.monotonic() - begun
    r = (p.returncode, hello, out, err)
    with open(report, encoding="utf-8") as f:
        o = json.load(f)
    os.unlink(report)
    sid = o["id"]
    events = [json.loads(line) for line in c("audit", "--json").out.splitlines()]
    mine = [e for e in events if e.get("sandbox") == sid]
    tap.ok(took < 60 * slow_build() and mine[-1]["type"] == "run.end", f"{who}: the run ends in bounded time: {took:.1f} s", r, mine[-1:])
    downs = [e for e in mine if e["type"] == "netd.down"]
    tap.ok(bool(downs) == ends, f"{who}: the guard ends a coffer-netd that {'breaks' if ends else 'keeps'} the protocol"
           if ends else f"{who}: the guard has no reason to end it", downs, r)
    found = [e for e in mine if e["type"] == "net.open" and e.get("name") == GOOD]
    tap.ok(p.returncode == 125 and o["cause"] == "network" or hello == b"hello /\n",
           f"{who}: the sandbox has its network, or is ended with the reason", r, o["cause"])
    if o["cause"] != "network":
        tap.eq([(e["port"], e["decision"]) for e in found], [(443, "allow"), (81, "deny")],
               f"{who}: every connection is in the log all the same, once")
    foreign = [e for e in mine if e["type"].split(".")[0] not in ("run", "net", "netd", "secret", "policy", "config", "stop")]
    tap.eq(foreign, [], f"{who}: no event of another kind is in the log of the run")
    forged = [e for e in events if e.get("name") == "owned-forged.test"]
    tap.eq({e["sandbox"] for e in forged}, {sid} if deed == "forge" else set(), f"{who}: it can lie about its own run alone")
    others = [e for e in mine if str(e.get("name", "")).startswith("owned-") and e["type"] != "net.folded" and e not in forged]
    tap.eq(others, [], f"{who}: no event is in the log that breaks the table")
    folded = [e for e in events if e.get("name") == "owned-count.test"]
    tap.ok(len(folded) < 60000 and len({e["sandbox"] for e in folded}) <= 1 and (deed != "counts" or len(folded) > 1000),
           f"{who}: its counts have a budget: {len(folded)}")
    tap.ok(err.count("owned.test") < 400, f"{who}: its lines for the terminal have a budget: {err.count('owned.test')}")


def take_over(tap, c, net, good):
    """The double in its place; another sandbox before it, whose events must stay what they are."""
    r = c("run", "--allow", GOOD, "-v", f"{net.ca}:/ca.pem", "--", "curl", "-sS", "-m", "60", "--cacert", "/ca.pem", good.url)
    tap.eq(r.out, "hello /\n", f"{c.who}: control: the sandbox with the honest coffer-netd has its network", r)
    before = c("audit", "--json", "--sandbox", "@last").out
    first = json.loads(before.splitlines()[0])["sandbox"]
    os.rename(os.path.join(c.bin, "coffer-netd"), os.path.join(c.bin, "away"))
    shutil.copy(os.path.join(BUILD, "tests", "owned_netd"), os.path.join(c.bin, "coffer-netd"))
    os.chmod(os.path.join(c.bin, "coffer-netd"), 0o755)
    for deed in DEEDS:
        owned(tap, c, net, good, deed)
    os.rename(os.path.join(c.bin, "away"), os.path.join(c.bin, "coffer-netd"))
    os.unlink(os.path.join(c.bin, "owned"))
    tap.eq(c("audit", "--json", "--sandbox", first).out, before, f"{c.who}: the events of another sandbox are what they were")
    r = c("audit", "verify")
    tap.eq(r.code, 0, f"{c.who}: the log verifies after every owned coffer-netd", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("coffer-netd", reason)
        tap.done()
    with Internet() as net:
        good = net.https(GOOD, lambda q: f"hello {q.path}\n")
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                confined(tap, c, net, good)
                if whole and c.engine == "ns":
                    deaths(tap, c, net, good)
                    stopped(tap, c, net, good, False)
                    stopped(tap, c, net, good, True)
                    pending(tap, c, net, good)
                    take_over(tap, c, net, good)
                c.check_clean(tap)
    tap.done()


main()
