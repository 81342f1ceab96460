#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""coffer gateway and coffer run --restart: what is started again and what is not, and a cofferd that may go at any time."""

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, kill_own, slow_build  # noqa: E402

PATIENCE = 120


def until(check, seconds=PATIENCE):
    deadline = time.monotonic() + seconds * slow_build()
    while True:
        got = check()
        if got or time.monotonic() > deadline:
            return got
        time.sleep(0.05)


def status(c):
    r = c("gateway", "status", "--json")
    return json.loads(r.out) if r.code == 0 else {}


def kept(c, name):
    return next((s for s in status(c).get("sandboxes", []) if s["name"] == name), {})


def listed(c, name):
    return next((s for s in json.loads(c("ps", "-a", "--json").out) if s["name"] == name), {})


def events(c, kind):
    return [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == kind]


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def kill(pid, sig=signal.SIGKILL):
    kill_own(pid, sig)
    return until(lambda: is_gone(pid))


def lines(c, name):
    """How often the command of a sandbox has begun: it writes a line each time, to a file that lasts."""
    return len(c("logs", name).out.split())


def usage(tap, c):
    who = c.who
    for args, word in ((["--restart", "sometimes", "-d", "--name", "x"], "sometimes"), (["--restart", "always"], "-d"),
                       (["--restart", "always", "-d"], "--name"), (["--restart", "always:2", "-d", "--name", "x"], "on-failure")):
        r = c("run", *args, "--", "true")
        tap.ok(r.code == 2 and word in r.err, f"{who}: run {' '.join(args)} is refused", r)
    for args in ([], ["dance"], ["start", "stop"], ["start", "--json"]):
        tap.eq(c("gateway", *args).code, 2, f"{who}: gateway {' '.join(args)} is refused")
    for args in (["gateway", "start", "--listen", "1" * 72], ["gateway", "start", "--host", "a" * 256], ["ui", "--listen", "1" * 72]):
        r = c(*args)
        tap.ok(r.code == 2 and "too long" in r.err, f"{who}: {args[0]} refuses a {args[-2]} that it would have to cut", r)
    for args in (["rm", "phone", "laptop"], ["ls", "phone"]):
        r = c("token", *args)
        tap.ok(r.code == 2 and args[-1] in r.err, f"{who}: token {' '.join(args)} is refused", r)
    r = c("gateway", "status")
    tap.ok(r.code == 3 and "does not run" in r.out, f"{who}: gateway status without a cofferd says so and exits 3", r)
    tap.eq(c("gateway", "stop").code, 0, f"{who}: gateway stop without a cofferd is no error")
    tap.eq(c("gateway", "reload").code, 3, f"{who}: gateway reload without a cofferd exits 3")


def daemon(tap, c):
    who = c.who
    tap.eq(c("gateway", "start").code, 0, f"{who}: gateway start succeeds")
    first = status(c)
    tap.ok(first.get("stays") and first["pid"] > 1 and first["database"]["schema"] >= 2,
           f"{who}: a cofferd that gateway start started stays", first)
    r = c("gateway", "start")
    tap.ok(r.code == 0 and "already" in r.err and str(first["pid"]) in r.err,
           f"{who}: a second gateway start says that a cofferd runs already", r)
    r = c("gateway", "run")
    tap.ok(r.code == 1 and "already" in r.err, f"{who}: a second gateway run says that a cofferd runs already and ends", r)
    tap.eq(status(c)["pid"], first["pid"], f"{who}: the first cofferd runs after a second start")
    tap.eq(c("gateway", "reload").code, 0, f"{who}: gateway reload succeeds")
    r = c("gateway", "status")
    tap.ok(r.code == 0 and "pool:" in r.out and "vault:" in r.out, f"{who}: gateway status prints pool and vault", r)
    sock = os.path.join(c.state, "cofferd.sock")
    kill(first["pid"], signal.SIGTERM)
    tap.ok(until(lambda: not os.path.exists(sock)), f"{who}: cofferd removes its socket after SIGTERM")
    c("gateway", "start")
    second = status(c)
    tap.ok(second["database"]["starts"] == 2 and second["database"]["crashes"] == 0,
           f"{who}: an end of cofferd by SIGTERM is not counted as a crash", second)
    kill(second["pid"])
    tap.ok(os.path.exists(sock), f"{who}: (control) kill -9 leaves a socket behind")
    tap.eq(c("gateway", "status").code, 3, f"{who}: gateway status exits 3 where nobody listens at the socket")
    tap.eq(c("gateway", "start").code, 0, f"{who}: gateway start replaces a socket that a crash left")
    third = status(c)
    tap.ok(third["pid"] != second["pid"] and third["database"]["crashes"] == 1, f"{who}: gateway start counts the crash", third)
    tap.eq(c("gateway", "stop").code, 0, f"{who}: gateway stop succeeds")
    tap.ok(is_gone(third["pid"]) or until(lambda: is_gone(third["pid"])), f"{who}: cofferd has ended after gateway stop")
    with open(sock, "w", encoding="utf-8"):
        c.own(sock)
    r = c("gateway", "start")
    tap.ok(r.code == 125 and "in the way" in r.err and os.path.exists(sock),
           f"{who}: gateway start does not remove a file that is no socket", r)
    os.unlink(sock)


def activated(tap, c):
    """As a service manager does it: a socket is handed over, and somebody wants to hear when it is ready."""
    who = c.who
    path, notify = os.path.join(c.state, "cofferd.sock"), os.path.join(c.dir, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as n:
        s.bind(path)
        c.own(path)
        s.listen(16)
        n.bind(notify)
        os.chmod(notify, 0o777)
        n.settimeout(PATIENCE * slow_build())
        fd = s.fileno()
        script = f"exec 9<&{fd}; exec 3<&9 9<&-; LISTEN_PID=$$ LISTEN_FDS=1 exec {c.exe} gateway run"
        p = c.popen(program=["sh", "-c", script], env={"NOTIFY_SOCKET": notify}, pass_fds=(fd,))
        said = n.recv(4096).decode()
        tap.ok("READY=1" in said, f"{who}: a cofferd with an inherited socket notifies that it is ready", said)
        got = status(c)
        tap.ok(got.get("activated") and got["pid"] == p.pid, f"{who}: a cofferd with an inherited socket serves on it", got)
        p.send_signal(signal.SIGTERM)
        said = n.recv(4096).decode()
        out = p.communicate(timeout=PATIENCE * slow_build())
        tap.ok("STOPPING=1" in said and p.returncode == 0,
               f"{who}: a cofferd with an inherited socket notifies that it stops", said, p.returncode, out)
        tap.ok(os.path.exists(path), f"{who}: a cofferd with an inherited socket does not remove it")
        r = c("gateway", "run")
        tap.ok(r.code == 1 and "somebody listens" in r.err, f"{who}: a cofferd without the inherited socket does not replace it", r)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.bind(f"\0coffertest-{os.getpid()}-{c.who}")
        s.listen(1)
        script = f"exec 9<&{s.fileno()}; exec 3<&9 9<&-; LISTEN_PID=$$ LISTEN_FDS=1 exec {c.exe} gateway run"
        p = c.popen(program=["sh", "-c", script], pass_fds=(s.fileno(),))
        err = p.communicate(timeout=PATIENCE * slow_build())[1].decode()
        tap.ok(p.returncode == 1 and "ListenSequentialPacket" in err, f"{who}: an inherited socket of another kind is refused", err)
    os.unlink(path)
    os.unlink(notify)


def policies(tap, c):
    who = c.who
    r = c("run", "-d", "--name", "fails", "--restart", "on-failure:2", "--", "sh", "-c", "echo go; exit 3")
    tap.eq(r.code, 0, f"{who}: a sandbox with a restart policy starts", r)
    tap.ok(until(lambda: kept(c, "fails").get("state") == "over"), f"{who}: on-failure:2 gives up after failures", kept(c, "fails"))
    got = kept(c, "fails")
    tap.ok("too often" in got["why"] and got["restarts"] == 2 and got["exit"] == 3,
           f"{who}: gateway status says why a sandbox was given up", got)
    tap.eq(lines(c, "fails"), 3, f"{who}: on-failure:2 starts a sandbox three times in all")
    got = listed(c, "fails")
    tap.ok(got["restart"] == "on-failure:2" and got["restarts"] == 2,
           f"{who}: ps --json has the restart policy and the number of restarts", got)
    tap.like(c("ps", "-a").out, r"on-failure:2 \(2\)", f"{who}: ps -a shows the restart policy and the number of restarts")
    tap.eq(len(events(c, "run.restart")), 2, f"{who}: each restart of a sandbox is in the log")
    tap.ok(any("too often" in e["why"] for e in events(c, "run.restart.over")), f"{who}: the log says that a sandbox was given up")

    c("run", "-d", "--name", "done", "--restart", "on-failure", "--", "sh", "-c", "echo go")
    tap.ok(until(lambda: "done" in kept(c, "done").get("why", "")),
           f"{who}: on-failure does not restart a sandbox that succeeded", kept(c, "done"))
    tap.eq(lines(c, "done"), 1, f"{who}: on-failure starts a sandbox that succeeds once")

    c("run", "-d", "--name", "forever", "--restart", "always", "--", "sh", "-c",
      "echo x >> /workspace/count; wc -l < /workspace/count")
    tap.ok(until(lambda: lines(c, "forever") >= 3), f"{who}: always restarts a sandbox that succeeded")
    r = c("stop", "forever")
    tap.ok(r.code == 0, f"{who}: stop of a kept sandbox succeeds, running or waiting", r)
    tap.ok(until(lambda: "stopped" in kept(c, "forever").get("why", "")),
           f"{who}: stop of a kept sandbox ends it for good", kept(c, "forever"))
    n = lines(c, "forever")
    r = c("logs", "forever")
    tap.eq(r.out.split(), [str(i + 1) for i in range(n)], f"{who}: the files of a kept sandbox are there after each restart", r)
    # The pause would be over by now many times.
    c("run", "-d", "--name", "clock", "--restart", "on-failure:4", "--", "sh", "-c", "exit 1")
    until(lambda: kept(c, "clock").get("state") == "over")
    tap.eq(lines(c, "forever"), n, f"{who}: a kept sandbox that was stopped is not restarted")
    for name in ("fails", "done", "forever", "clock"):
        tap.eq(c("rm", name).code, 0, f"{who}: rm {name}")
    c("gateway", "reload")
    tap.eq(status(c)["sandboxes"], [], f"{who}: cofferd forgets sandboxes that were removed")
    r = c("run", "-d", "--name", "plain", "--", "sleep", "300")
    tap.ok(r.code == 0 and not kept(c, "plain"), f"{who}: (control) cofferd does not keep a sandbox without a restart policy", r)
    c("rm", "-f", "plain")


def launcher(c, name):
    with open(os.path.join(c.state, "runs", listed(c, name)["id"], "meta.json"), encoding="utf-8") as f:
        meta = json.load(f)
    return meta["launcher"], meta["guard"]


def found_again(tap, c):
    who = c.who
    begun = time.monotonic()
    r = c("run", "-d", "--name", "web", "--restart", "always", "--", "sh", "-c", "echo go; sleep 1000")
    sid = r.out.strip()
    tap.ok(until(lambda: kept(c, "web").get("watched")), f"{who}: run --restart starts a cofferd that watches the sandbox", kept(c, "web"))
    pid = status(c)["pid"]
    before = launcher(c, "web")
    kill(pid)
    tap.eq(c("exec", "web", "echo", "alive").out, "alive\n", f"{who}: kill -9 of cofferd does not touch the sandbox")
    c("gateway", "start")
    got = until(lambda: kept(c, "web").get("watched") and kept(c, "web"))
    tap.ok(got and got["id"] == sid and got["restarts"] == 0 and status(c)["pid"] != pid,
           f"{who}: a new cofferd finds the kept sandbox", got)
    tap.eq(launcher(c, "web"), before, f"{who}: a new cofferd finds the kept sandbox with its launcher and guard")
    time.sleep(5)
    first = time.monotonic() - begun
    kill(before[0])
    tap.ok(until(lambda: lines(c, "web") == 2), f"{who}: a kept sandbox whose launcher was killed is restarted", kept(c, "web"))
    tap.ok(until(lambda: kept(c, "web").get("state") == "up" and listed(c, "web").get("status") == "running"),
           f"{who}: a restarted sandbox runs and is kept", kept(c, "web"))
    tap.eq(listed(c, "web")["id"], sid, f"{who}: a restarted sandbox has its id and name")
    shown = re.search(r"running (\d+) s +(\d+) s ago", c("ps").out)
    tap.ok(shown and int(shown[1]) <= time.monotonic() - begun - first + 1 < int(shown[2]),
           f"{who}: ps shows the time since the restart and since the first start", c("ps"))

    # It ends while nobody watches.
    kill(status(c)["pid"])
    kill(launcher(c, "web")[0])
    until(lambda: listed(c, "web").get("status") != "running")
    tap.ok(listed(c, "web")["status"] != "running", f"{who}: (control) a kept sandbox stays ended without a cofferd")
    c("gateway", "start")
    tap.ok(until(lambda: lines(c, "web") == 3), f"{who}: a sandbox that ended without a cofferd is restarted by the next one")
    until(lambda: kept(c, "web").get("watched"))


def rebooted(tap, c):
    """All that a reboot leaves: no process, a run that never ended, and a database from another boot."""
    who = c.who
    tries = kept(c, "web")["tries"]
    n = lines(c, "web")
    kill(status(c)["pid"])
    pids = launcher(c, "web")
    kill_own(pids[0], signal.SIGSTOP)  # so that neither can tell the end
    kill(pids[1])
    kill(pids[0])
    with contextlib.closing(sqlite3.connect(os.path.join(c.state, "gateway.db"))) as db:
        db.execute("UPDATE sandbox SET boot = 'another', state = 'up'")
        db.commit()
    own_database(c)
    c("gateway", "start")
    tap.ok(until(lambda: lines(c, "web") == n + 1), f"{who}: a kept sandbox is restarted after a reboot", kept(c, "web"))
    got = until(lambda: kept(c, "web").get("watched") and kept(c, "web"))
    tap.ok(got and got["tries"] == 0, f"{who}: a restart after a reboot does not count as a try", tries, got)
    c("stop", "web")
    until(lambda: kept(c, "web").get("state") == "over")
    c("gateway", "stop")
    with contextlib.closing(sqlite3.connect(os.path.join(c.state, "gateway.db"))) as db:
        db.execute("UPDATE sandbox SET boot = 'another'")
        db.commit()
    own_database(c)
    c("gateway", "start")
    tap.eq(kept(c, "web").get("state"), "over", f"{who}: a sandbox that was stopped is not restarted after a reboot")


def all_rebooted(tap, c):
    """More than are started at a time."""
    names = [f"many{i}" for i in range(5)]
    for name in names:
        c("run", "-d", "--net", "none", "--name", name, "--restart", "on-failure:1", "--", "sh", "-c", "echo go; sleep 1000")
    tap.ok(until(lambda: all(kept(c, n).get("watched") for n in names)), f"{c.who}: {len(names)} kept sandboxes run", status(c))
    kill(status(c)["pid"])
    for name in names:
        pids = launcher(c, name)
        kill_own(pids[0], signal.SIGSTOP)
        kill(pids[1])
        kill(pids[0])
    with contextlib.closing(sqlite3.connect(os.path.join(c.state, "gateway.db"))) as db:
        db.execute("UPDATE sandbox SET boot = 'another' WHERE name LIKE 'many%'")
        db.commit()
    own_database(c)
    c("gateway", "start")
    tap.ok(until(lambda: all(kept(c, n).get("watched") for n in names)),
           f"{c.who}: all {len(names)} kept sandboxes come back after a reboot", status(c))
    tap.eq([lines(c, n) for n in names], [2] * len(names), f"{c.who}: each kept sandbox is started once after a reboot")
    c("rm", "-f", *names)


def no_process(tap, c):
    """A failure of cofferd's own is no try of the sandbox's."""
    who = c.who
    c("run", "-d", "--net", "none", "--name", "poor", "--restart", "on-failure:1", "--", "sh", "-c", "echo go; sleep 1000")
    tap.ok(until(lambda: kept(c, "poor").get("watched")), f"{who}: a kept sandbox that may fail once runs", kept(c, "poor"))
    pid = status(c)["pid"]

    def limit(*args):
        return c.popen(program=["prlimit", "--pid", str(pid), *args]).communicate()[0].decode().strip()

    soft = limit("--nproc", "--noheadings", "--raw", "-o", "SOFT")
    limit("--nproc=0:")
    tap.eq(limit("--nproc", "--noheadings", "--raw", "-o", "SOFT"), "0", f"{who}: cofferd's limit of processes is 0 instead of {soft}")
    kill(launcher(c, "poor")[0])
    got = until(lambda: "no process" in kept(c, "poor").get("why", "") and kept(c, "poor"))
    tap.ok(got and got["state"] != "over" and got["restarts"] == 0,
           f"{who}: a kept sandbox waits while cofferd can make no process", kept(c, "poor"))
    limit(f"--nproc={soft}:")
    tap.ok(until(lambda: kept(c, "poor").get("watched")),
           f"{who}: a kept sandbox is restarted once cofferd can make processes", kept(c, "poor"))
    got = kept(c, "poor")
    tap.ok(got["tries"] == 1 and got["restarts"] == 1 and lines(c, "poor") == 2,
           f"{who}: a restart that waited for processes counts one try", got)
    tap.ok(any("no process" in e["why"] for e in events(c, "run.restart.failed")),
           f"{who}: the log says that a restart waited for processes")
    c("rm", "-f", "poor")


def own_database(c):
    for name in os.listdir(c.state):
        if name.startswith("gateway.db"):
            c.own(os.path.join(c.state, name))


def rolled_back(tap, c):
    who = c.who
    c("run", "-d", "--name", "roll", "--restart", "always", "--", "sh", "-c", "echo go; sleep 1000")
    until(lambda: kept(c, "roll").get("watched"))
    tap.eq(c("checkpoint", "roll").code, 0, f"{who}: checkpoint of a kept sandbox succeeds")
    r = c("rollback", "roll")
    tap.eq(r.code, 0, f"{who}: rollback of a kept sandbox succeeds", r)
    tap.ok(until(lambda: kept(c, "roll").get("watched") and lines(c, "roll") == 2),
           f"{who}: rollback starts a kept sandbox once", kept(c, "roll"))
    tap.eq(listed(c, "roll")["restarts"], 0, f"{who}: rollback of a kept sandbox does not count as a restart")
    r = c("rollback", "--no-start", "roll")
    time.sleep(4)
    tap.ok(r.code == 0 and listed(c, "roll")["restarts"] == 0 and lines(c, "roll") == 2,
           f"{who}: cofferd does not restart a sandbox that rollback --no-start ended", r, kept(c, "roll"))
    c("rm", "-f", "roll")


def database(tap, c):
    who = c.who
    path = os.path.join(c.state, "gateway.db")
    c("run", "-d", "--name", "data", "--restart", "always", "--", "sleep", "1000")
    until(lambda: kept(c, "data").get("watched"))
    c("gateway", "stop")
    with open(path, "r+b") as f:
        f.write(b"not a database at all" * 100)
    tap.eq(c("gateway", "start").code, 0, f"{who}: cofferd starts with a damaged database")
    got = status(c)
    aside = got["database"].get("moved_aside", "")
    tap.ok(aside and os.path.exists(os.path.join(c.state, aside)), f"{who}: a damaged database is moved aside", got)
    tap.ok(until(lambda: kept(c, "data").get("watched")), f"{who}: a kept sandbox is found without its database", got)
    tap.ok(any("are lost" in e.get("why", "") for e in events(c, "gateway.database")),
           f"{who}: the log says what was lost with the damaged database")
    tap.ok("damaged" in c("gateway", "status").out, f"{who}: gateway status says that the database was damaged")
    c("gateway", "stop")
    with contextlib.closing(sqlite3.connect(path)) as db:
        schema = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("PRAGMA user_version = 99")
        db.commit()
    own_database(c)
    r = c("gateway", "start")
    tap.ok(r.code == 125 and "schema 99" in r.err and "newer" in r.err, f"{who}: cofferd refuses a database with a newer schema", r)
    r = c("run", "-d", "--name", "nope", "--restart", "always", "--", "sleep", "1000")
    tap.ok(r.code == 125 and "schema 99" in r.err, f"{who}: run --restart is refused while cofferd refuses the database", r)
    tap.ok(until(lambda: listed(c, "nope").get("status") != "running"), f"{who}: a sandbox whose run --restart was refused does not run")
    tap.eq(c("call", "--", "echo", "pool").out, "pool\n", f"{who}: a call works while cofferd refuses the database")
    c("gateway", "stop")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {schema}")
        db.commit()
    own_database(c)
    tap.eq(c("gateway", "start").code, 0, f"{who}: (control) cofferd starts with a known schema")
    tap.ok(until(lambda: kept(c, "data").get("watched")), f"{who}: cofferd keeps its sandboxes after a schema that it refused")
    c("rm", "-f", "nope")
    c("rm", "-f", "data")


def not_startable(tap, c):
    """A sandbox whose needs are gone is tried again, the reason is told, and it runs once that is back."""
    who = c.who
    place = os.path.join(c.dir, "place")
    os.mkdir(place)
    c.own(place)
    c("run", "-d", "--name", "needs", "--restart", "always", "-C", place, "--", "sh", "-c", "echo go; sleep 1000")
    until(lambda: kept(c, "needs").get("watched") and lines(c, "needs") == 1)
    os.rename(place, place + ".away")
    kill(launcher(c, "needs")[0])
    tap.ok(until(lambda: kept(c, "needs").get("cause") == "not started"),
           f"{who}: a kept sandbox without its workspace directory cannot be restarted", kept(c, "needs"))
    got = events(c, "run.restart.failed")
    tap.ok(got and "place" in got[-1]["why"], f"{who}: the log says why a kept sandbox cannot be restarted", got[-1:])
    os.rename(place + ".away", place)
    tap.ok(until(lambda: kept(c, "needs").get("watched")),
           f"{who}: a kept sandbox is restarted once its directory is back", kept(c, "needs"))
    tap.ok(until(lambda: lines(c, "needs") == 2), f"{who}: a restarted sandbox has its earlier output in its log", lines(c, "needs"))
    c("rm", "-f", "needs")


def standbys(tap, c):
    """A failed start of cofferd's own programs: told, with growing pauses."""
    who = c.who
    tap.eq(c("call", "--", "true").code, 0, f"{who}: a call succeeds")
    until(lambda: status(c).get("pool", {}).get("ready", 0) > 0)
    init = os.path.join(c.bin, "coffer-init")
    os.rename(init, init + ".away")
    c("call", "--", "true")  # takes the one that is ready; the next cannot be made
    got = until(lambda: next((h for h in status(c).get("helpers", []) if h["deaths"] > 1), None))
    tap.ok(got and got["name"] == "standby" and "coffer-init" in got["why"],
           f"{who}: gateway status names a helper that cannot be started", got)
    tap.ok(len(events(c, "gateway.helper")) > 1, f"{who}: the log has the failures of a helper")
    os.rename(init + ".away", init)
    tap.ok(until(lambda: c("call", "--", "true").code == 0 and status(c)["pool"]["ready"] > 0),
           f"{who}: the warm pool fills again once its helper can be started", status(c))
    tap.ok(until(lambda: any(e["event"] == "up" for e in events(c, "gateway.helper"))), f"{who}: the log says that a helper runs again")


FULL = """
mount -t tmpfs -o size=4m,mode=700,uid={uid} tmpfs {state} || exit 1
as() {{ setpriv --reuid {uid} --regid {uid} --clear-groups "$@"; }}
wait_for() {{ for i in $(seq 600); do as {exe} gateway status --json | grep -q "$1" && return; sleep 0.1; done; echo "no $1"; }}
cd {work}
as {exe} run -d --name web --restart always --net none -C {work}:ro -- sleep 1000
wait_for '"watched":true'
dd if=/dev/zero of={state}/fill bs=1k 2>/dev/null
as {exe} run -d --name two --restart always --net none -- sleep 1000; echo code $?
as {exe} gateway status --json; as {exe} ps --json | grep -q running && echo still
rm {state}/fill
as {exe} gateway stop; as {exe} gateway start; echo started $?
wait_for '"watched":true'
as {exe} gateway status --json
as {exe} rm -f web two; as {exe} gateway stop
as {exe} audit verify; echo verified $?
"""


def full_disk(tap, c):
    who = c.who
    script = FULL.format(uid=c.uid, state=c.tmp, work=c.work, exe=c.exe)
    out = subprocess.run(["unshare", "-m", "sh", "-c", script], env=c.env({"COFFER_STATE": c.tmp}), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False).stdout
    tap.ok("code 125" in out, f"{who}: run --restart is refused on a full disk", out)
    tap.ok("still\n" in out, f"{who}: a kept sandbox goes on while the disk is full", out)
    tap.ok("started 0" in out and '"watched":true' in out.split("started 0")[-1] and "no \"" not in out,
           f"{who}: a sandbox is kept once the disk has room", out)
    tap.ok("verified 0" in out, f"{who}: the log verifies", out)


def main():
    tap = Tap()
    for who, whole in covering(tap, ("ns",)):
        with coffer_as(who) as c:
            # In short: cofferd starts and ends, and starts sandboxes again. The sandboxes that it finds after a crash are in its database, for everybody.
            for part in (usage, daemon, activated, policies) + ((found_again, rebooted, all_rebooted, rolled_back, database, not_startable,
                                                                 standbys) if whole else ()):
                part(tap, c)
            if c.uid != 0 and who != "userns":
                no_process(tap, c)
            if os.getuid() == 0 and who != "userns":
                full_disk(tap, c)
            c("rm", "-f", "web")
            c("gateway", "stop")
            tap.eq(c("audit", "verify").code, 0, f"{who}: the log verifies")
            c.check_clean(tap)
    tap.done()


main()
