#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""coffer call: a fresh sandbox for one command, from the pool or made on the spot; what it sees, and what is left."""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import FULL, Coffer, Tap, identities, kill_own  # noqa: E402
import ocitest as oci  # noqa: E402


class AsRoot(Coffer):
    """Without subordinate ids the command's user on gvisor is root inside, and the caller outside."""

    def argv(self, *args):
        return super().argv(*(("call", "--user", "0", *args[1:]) if args[:1] == ("call",) else args))


def pool(c):
    """(ready, being made), or None when no cofferd runs."""
    out = c("pool").out
    if out.startswith("none"):
        return None
    words = out.split()
    return int(words[0]), int(words[2])


def wait_ready(c, n=1, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        p = pool(c)
        if p and p[0] >= n:
            return True
        time.sleep(0.05)
    return False


def wait_quiet(c, seconds=90):
    """Until no run is left: a launcher answers first and cleans up then."""
    end = time.monotonic() + seconds
    runs = os.path.join(c.state, "runs")
    while time.monotonic() < end:
        if not os.path.isdir(runs) or not os.listdir(runs):
            return True
        time.sleep(0.05)
    return False


def events(c, kind):
    return [json.loads(line) for line in c("audit", "--json", "--type", kind).out.splitlines()]


def what_it_sees(tap, c, who):
    c.write("given.txt", "given\n")
    c.write("other.txt", "other\n")
    c.write("d/deep/f", "deep\n")
    c.write("d/.env", "TOKEN=0123456789abcdef0123\n")
    c.write(".env", "TOKEN=0123456789abcdef0123\n")
    c.write(".aws/credentials", "key=AKIA0123456789\n")
    for link, to in (("out", "/etc/passwd"), ("notes.txt", ".env"), ("conf", ".aws"), ("linked", "given.txt")):
        os.symlink(to, os.path.join(c.work, link))
        c.own(os.path.join(c.work, link))
    for how in (["--cold"], []):
        if not how:
            tap.eq(c("call", "--", "echo", "first").out, "first\n", f"{who}: the first call makes its own sandbox")
            tap.ok(wait_ready(c), f"{who}: the warm pool has a sandbox ready after the first call")
        n = f"{who}: {'cold' if how else 'warm'}"
        r = c("call", *how, "--", "sh", "-c", "ls -A /workspace; echo $((6*7)); exit 3")
        tap.eq((r.out, r.code), ("42\n", 3), f"{n}: a call has an empty workspace, its output and its exit code", r)
        if not how:
            wait_ready(c)
        r = c("call", *how, "--read", "given.txt", "--read", "d", "--", "sh", "-c",
              "find . -type f | sort | tr '\\n' ' '; cat given.txt d/deep/f; echo new >>given.txt || rm -f given.txt; true")
        tap.eq(r.out, "./d/deep/f ./given.txt given\ndeep\n", f"{n}: a call sees the files of --read, without credentials", r)
        tap.eq(open(os.path.join(c.work, "given.txt"), encoding="utf-8").read(), "given\n",
               f"{n}: a call does not change the original of --read")
        r = c("call", *how, "--read", ".env", "--", "cat", ".env")
        tap.ok(r.code == 125 and "--show" in r.err, f"{n}: --read of credentials is refused without --show", r)
        r = c("call", *how, "--read", ".env", "--show", ".env", "--", "cat", ".env")
        tap.eq(r.out, "TOKEN=0123456789abcdef0123\n", f"{n}: --read of credentials works with --show", r)
        for link in ("notes.txt", "conf", "conf/credentials"):
            r = c("call", *how, "--read", link, "--", "sh", "-c", "cat notes.txt conf/*")
            tap.ok(r.code == 125 and "leads to .env" in r.err if link == "notes.txt" else "AKIA" not in r.out + r.err,
                   f"{n}: --read {link}, a link to credentials, needs --show", r)
        r = c("call", *how, "--read", "linked", "--", "cat", "linked")
        tap.eq(r.out, "given\n", f"{n}: --read follows a link to another file", r)
        for bad in ("out", "../work/given.txt", "/etc/passwd", "nothing"):
            r = c("call", *how, "--read", bad, "--", "cat", bad)
            tap.ok(r.code == 125 and not r.out, f"{n}: --read {bad} is refused", r)
        r = c("call", *how, "-e", "A=1", "-w", "/tmp", "--", "sh", "-c", "echo $A $PWD $B; cat",
              env={"B": "2"}, input="in\n")
        tap.eq(r.out, "1 /tmp\nin\n", f"{n}: -e, -w and stdin reach the command", r)
        r = c("call", *how, "--timeout", "1s", "--", "sleep", "60")
        tap.eq(r.code, 124, f"{n}: --timeout is the call's own and ends it with 124", r)
        r = c("call", *how, "--", "no-such-command")
        tap.eq(r.code, 127, f"{n}: a command that does not exist exits 127", r)
        report = os.path.join(c.work, "report.json")
        r = c("call", *how, "--report", report, "--", "sh", "-c", "echo x >f; exit 5")
        try:
            with open(report, encoding="utf-8") as f:
                rep = json.load(f)
        except (OSError, ValueError):
            rep = {}
        tap.eq((r.code, rep.get("exit"), rep.get("wiped_entries"), rep.get("engine")), (5, 5, 2, c.engine),
               f"{n}: the report has the exit code and the number of wiped entries", r)
        big = "x" * 1500000
        r = c("call", *how, "--", "sh", "-c", "cat | wc -c", input=big)
        tap.eq(r.out.strip(), str(len(big)), f"{n}: a call reads 1.5 MB of input", r)


def each_is_fresh(tap, c, who):
    wait_ready(c)
    seen = set()
    for i in range(4):
        wait_ready(c)
        r = c("call", "--", "sh", "-c", "cat /tmp/mark /workspace/mark 2>/dev/null; echo $$ >/tmp/mark; echo x >/workspace/mark;"
              "echo done")
        tap.eq(r.out, "done\n", f"{who}: call {i} finds nothing of the call before", r)
    ids = [e["sandbox"] for e in events(c, "run.start")]
    seen.update(ids)
    tap.eq(len(seen), len(ids), f"{who}: no sandbox was used twice")
    end = time.monotonic() + 90
    while c("ps", "-q").out and time.monotonic() < end:  # a call is over before its sandbox is taken apart
        time.sleep(0.05)
    tap.eq(sorted(ids), sorted(e["sandbox"] for e in events(c, "run.end")), f"{who}: each call has its end in the log")
    tap.eq(c("ps", "-q").out, "", f"{who}: ps does not list a sandbox that the warm pool holds")


def template(tap, c, who):
    """The meaning of an option is decided where and when it was typed, not where and when cofferd makes the sandbox."""
    c("pool", "stop")
    root = os.path.join(c.work, "srv")  # there is one in / too, where cofferd stands
    os.makedirs(os.path.join(root, "bin"))
    shutil.copy(oci.BUSYBOX, os.path.join(root, "bin/sh"))
    c.write("srv/which", "the right one\n")
    c.own(root)
    for how in ("cold", "warm"):
        r = c("call", "--root", "srv", "--user", "0", "--", "/bin/sh", "-c", "read x </which; echo $x")
        tap.eq(r.out, "the right one\n", f"{who}: --root with a relative path is the caller's directory, {how}", r)
        wait_ready(c)
    c("pool", "stop")
    archive = os.path.join(c.dir, "which.tar")
    for version in ("one", "two"):
        with open(archive, "wb") as f:
            f.write(oci.layer(*oci.base_entries(), oci.entry("which", version + "\n", mode=0o644)))
        os.chmod(archive, 0o644)
        c("image", "import", "--name", "which", archive)
        r = c("call", "--image", "which", "--", "/bin/sh", "-c", "read x </which; echo $x")
        tap.eq(r.out, version + "\n", f"{who}: --image takes the image that has the name now ({version})", r)
        wait_ready(c)
    os.unlink(archive)
    c("pool", "stop")
    wait_quiet(c)
    shutil.rmtree(root)
    c("image", "rm", "which")
    c("call", "--", "true")


def limits(tap, c, who):
    for how in ("cold", "warm"):
        r = c("call", "--disk", "20m", "--read", "given.txt", "--", "cat", "given.txt")
        tap.eq(r.out, "given\n", f"{who}: --read works with --disk, {how}", r)
        r = c("call", "--disk", "20m", "--", "echo", "x")
        tap.eq(r.out, "x\n", f"{who}: --disk works without --read, {how}", r)
        tap.ok(wait_ready(c), f"{who}: the warm pool has a sandbox with --disk ready")
    c("pool", "stop")
    wait_quiet(c)
    # Room for the one that there always is: what the caller says about it must reach cofferd.
    c("call", "--", "true", env={"COFFER_POOL_MEMORY": "1"})
    wait_ready(c)
    c("call", "--pids", "77", "--", "true")
    time.sleep(1)
    end = time.monotonic() + 90
    while (got := pool(c)) and (got[0] == 0 or got[1] > 0) and time.monotonic() < end:  # one is still being made
        time.sleep(0.1)
    tap.eq(got, (1, 0), f"{who}: COFFER_POOL_MEMORY is the budget of a cofferd that starts")
    c("pool", "stop")
    wait_quiet(c)
    c("call", "--", "true")


def workspace(tap, c, who):
    r = c("call", "-q", "--workspace", "--", "sh", "-c", "cat given.txt; echo more >>given.txt; cat .env")
    tap.eq(r.out, "given\n", f"{who}: --workspace shows the directory, credentials hidden", r)
    r = c("diff", "@last")
    tap.ok("M given.txt" in r.out, f"{who}: the writes of a call with --workspace are kept in a layer", r)
    tap.eq(c("discard", "@last").code, 0, f"{who}: discard removes the layer of a call with --workspace")


HOSTILE = r"""
echo made >made.txt; echo changed >given.txt; rm other.txt; mkdir -p new/deep; echo n >new/deep/f
rm -r d; mkdir d; echo only >d/only; rm -r swap; echo file >swap; rm turn; mkdir turn; echo t >turn/t
echo TOKEN=0123456789abcdef0123 >new/.env
ln -s /etc/shadow link; ln -s ../../../../etc new/up; ln -s given.txt alias; mkfifo new/pipe; chmod 711 made.txt
echo ready; exec sleep 1000
"""


def of_another(tap, c, who):
    """--from: the workspace of another sandbox as it is now, deletions and replaced directories too."""
    for path, text in (("d/gone", "gone\n"), ("keep/a/b", "kept\n"), ("swap/x", "x\n"), ("turn", "turn\n")):
        c.write(path, text)
    os.unlink(os.path.join(c.work, "report.json"))
    p = c.popen("run", "-q", "--name", "agent", "--", "sh", "-c", HOSTILE)
    tap.eq(p.stdout.readline(), b"ready\n", f"{who}: the sandbox for --from has changed its workspace")
    wait_ready(c)
    run_id = c("ps", "-q").out.split()[0]
    for alive in (True, False):
        for how in (["--cold"], []):
            n = f"{who}: --from {'one that runs' if alive else 'one that has ended'}, {'cold' if how else 'warm'}"
            if not how:
                wait_ready(c)
            r = c("call", *how, "--from", "agent", "--read", ".", "--", "sh", "-c",
                  "find . ! -name . | sort | tr '\\n' ' '; cat given.txt swap keep/a/b d/only")
            tap.eq(r.out, "./d ./d/only ./given.txt ./keep ./keep/a ./keep/a/b ./made.txt ./new ./new/deep "
                   "./new/deep/f ./swap ./turn ./turn/t changed\nfile\nkept\nonly\n",
                   f"{n}: --read . has the whole workspace as the sandbox sees it", r)
        r = c("call", "--cold", "--from", "agent", "--read", "made.txt", "--read", "new/deep", "--", "sh", "-c",
              "find . -type f | sort | tr '\\n' ' '")
        tap.eq(r.out, "./made.txt ./new/deep/f ", f"{n}: --read of some files has these files only", r)
        for bad in ("other.txt", "d/gone", "swap/x", "link", "alias", "new/up/passwd", "new/pipe", "new/.env", "turn/../../x"):
            r = c("call", "--cold", "--from", "agent", "--read", bad, "--", "cat", bad)
            tap.ok(r.code in (2, 125) and not r.out, f"{n}: --read {bad} is refused", r)
        if alive:
            c("stop", "agent")
            p.communicate()
    tap.eq(open(os.path.join(c.work, "given.txt"), encoding="utf-8").read(), "given\n",
           f"{who}: a call with --from does not change the original")
    r = c("call", "--from", "agent", "--", "ls", "-A")
    tap.eq((r.code, r.out), (0, ""), f"{who}: --from without --read shows an empty workspace", r)
    r = c("call", "--from", "nobody", "--", "true")
    tap.ok(r.code == 125 and "nobody" in r.err, f"{who}: --from a sandbox that does not exist is refused", r)
    r = c("call", "--from", "agent", "--workspace", "--read", "made.txt", "--", "true")
    tap.ok(r.code == 2 and "--read" in r.err, f"{who}: --workspace is refused with --read, also with --from", r)
    end = time.monotonic() + 90
    while time.monotonic() < end and len([e for e in events(c, "run.start") if e.get("from") == run_id]) < 7:
        time.sleep(0.1)
    tap.eq(len([e for e in events(c, "run.start") if e.get("from") == run_id]), 7,
           f"{who}: the log names the sandbox that each call with --from read")
    tap.eq(c("rm", "agent").code, 0, f"{who}: rm of the sandbox that calls read succeeds")


def signals(tap, c, who):
    wait_ready(c)
    for sig, want in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 128 + signal.SIGINT)):
        p = c.popen("call", "--", "sh", "-c", "echo up; exec sleep 300")
        p.stdout.readline()
        os.kill(p.pid, sig)
        try:
            code = p.wait(90)
        except subprocess.TimeoutExpired:
            p.kill()
            code = None
        p.communicate()
        tap.eq(code, want, f"{who}: {sig.name} reaches the command")
        wait_ready(c)
    p = c.popen("call", "--", "sh", "-c", "echo up; exec sleep 300")
    p.stdout.readline()
    p.kill()
    p.communicate()
    ok, end = False, time.monotonic() + 90
    while time.monotonic() < end:
        last = events(c, "run.end")[-1:]
        if last and last[0].get("cause") == "caller":
            ok = True
            break
        time.sleep(0.1)
    tap.ok(ok, f"{who}: a client that is killed takes its sandbox along", last)


def parallel(tap, c, who, n):
    def one(i):
        return c("call", "--", "sh", "-c", f"echo {i}; cat /tmp/m 2>/dev/null; echo {i} >/tmp/m", timeout=300)
    with concurrent.futures.ThreadPoolExecutor(16) as ex:
        results = list(ex.map(one, range(n)))
    bad = [r for i, r in enumerate(results) if (r.out, r.code) != (f"{i}\n", 0)]
    tap.ok(not bad, f"{who}: {n} calls at once are each alone in a sandbox", bad[0] if bad else None)


def elsewhere(tap, c, who):
    """A container that shares the state directory but has another /usr: neither gets a sandbox with the other's."""
    if who != "root on ns":
        return
    c("pool", "stop")
    other = os.path.join(c.dir, "usr")
    os.mkdir(other)
    with open(os.path.join(other, "marker"), "w", encoding="ascii"):
        pass
    script = f"mount -t overlay -o lowerdir={other}:/usr overlay /usr && {c.exe} call -q -- ls /usr/marker"
    r = c(program=["unshare", "-m", "sh", "-c", script])
    tap.eq(r.out, "/usr/marker\n", f"{who}: (control) a call in a mount namespace with another /usr sees that /usr", r)
    tap.ok(wait_ahead(c), f"{who}: a cofferd with another /usr has a sandbox ready")
    time.sleep(0.5)
    r = c("call", "-q", "--", "ls", "/usr")
    tap.ok(r.code == 0 and "marker" not in r.out, f"{who}: a sandbox with another /usr is not given to a call outside", r)
    c("pool", "stop")
    wait_quiet(c)
    c("call", "--", "true")


def wait_ahead(c):
    runs = os.path.join(c.state, "runs")
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if [d for d in os.listdir(runs) if os.path.exists(os.path.join(runs, d, "ahead"))]:
            return True
        time.sleep(0.1)
    return False


def daemon(tap, c, who):
    tap.ok(wait_ready(c), f"{who}: cofferd keeps a sandbox ready")
    tap.eq(oct(os.stat(c.state).st_mode & 0o777), oct(0o700), f"{who}: cofferd's socket is in a directory with mode 0700")
    # Another build of coffer is not served by an old cofferd.
    exe = c.exe
    shutil.copy(exe, exe + ".new")
    os.rename(exe + ".new", exe)
    r = c("call", "--", "echo", "still")
    tap.eq(r.out, "still\n", f"{who}: a call after coffer was replaced makes its own sandbox", r)
    end = time.monotonic() + 90
    while time.monotonic() < end and pool(c) is not None:
        time.sleep(0.1)
    tap.eq(pool(c), None, f"{who}: the old cofferd ends after coffer was replaced")
    r = c("call", "--", "echo", "anew")
    tap.eq(r.out, "anew\n", f"{who}: a call works without a cofferd", r)
    tap.ok(wait_ready(c), f"{who}: a new cofferd keeps a sandbox ready")
    tap.eq(c("pool", "stop").code, 0, f"{who}: pool stop succeeds")
    tap.ok(wait_quiet(c), f"{who}: pool stop leaves none of the sandboxes that were ready")


def kill_daemon(tap, c, who):
    c("call", "--", "true")
    wait_ready(c)
    pid = None
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/environ", "rb") as f:
                if f"COFFER_STATE={c.state}".encode() in f.read() and \
                        open(f"/proc/{p}/comm", encoding="utf-8").read() == "cofferd\n":
                    pid = int(p)
        except OSError:
            pass
    tap.ok(pid is not None, f"{who}: cofferd runs")
    if pid:
        os.kill(pid, signal.SIGKILL)
    tap.ok(wait_quiet(c), f"{who}: the sandboxes of the warm pool end when cofferd is killed")
    r = c("call", "--", "echo", "cold")
    tap.eq(r.out, "cold\n", f"{who}: a call works after cofferd was killed", r)
    wait_ready(c)  # one that is only beginning cannot be told to stop
    c("pool", "stop")


def standby_processes(c):
    """The launchers of this state's warm sandboxes and their guards, which are forks of them, each with its parent."""
    parents = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as cmdline, open(f"/proc/{p}/environ", "rb") as environ, \
                    open(f"/proc/{p}/stat", encoding="ascii", errors="replace") as stat:
                if b"\0--standby=" in cmdline.read() and f"COFFER_STATE={c.state}".encode() in environ.read():
                    parents[int(p)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    return parents


def waits_for_lock(pid):
    with open("/proc/locks", encoding="ascii") as f:
        return any(" -> " in line and f" {pid} " in line for line in f)


def tool_of_dead_sandbox(tap, c, who):
    """A warm sandbox that dies after it was assigned and before it has its command: the call becomes another run."""
    if who != "root on ns":
        return
    c("call", "--", "true")
    tap.ok(wait_ready(c), f"{who}: a warm sandbox waits for a tool call")
    with open(os.path.join(c.state, "audit", "lock"), "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # the call stops where it is logged
        p = c.popen("call", "-q", "--tool", "look", "--", "echo", "ran")
        end = time.monotonic() + 90
        while not waits_for_lock(p.pid) and p.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        warm = standby_processes(c)
        for pid in (x for x, parent in warm.items() if parent not in warm):
            os.kill(pid, signal.SIGKILL)
        while warm.keys() & standby_processes(c).keys() and time.monotonic() < end:  # the guards clean up
            time.sleep(0.02)
        fcntl.lockf(lock, fcntl.LOCK_UN)
    out = p.communicate(timeout=90)
    calls, starts = events(c, "tool.call"), events(c, "run.start")
    tap.ok(p.returncode == 0 and "ran" in str(out[0]), f"{who}: a call whose warm sandbox died runs in another one", out)
    tap.eq(len(calls), 2, f"{who}: (the warm sandbox died after the call was logged)", calls)
    tap.eq(calls[-1]["sandbox"] if calls else None, starts[-1]["sandbox"], f"{who}: the log names the tool call with the run that it became", calls)
    wait_ready(c)
    c("pool", "stop")


def waits_for_end(pid):
    """The client has sent its command, and waits for the end of it or for a signal."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            sleeps = stat.read().rpartition(")")[2].split()[0] == "S"
        return sleeps and any("signalfd" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def launcher_dies_alone(tap, c, who):
    """The guard of a warm sandbox holds the socket open after the launcher's death, so the command can still be sent; nobody reads it."""
    if who != "root on ns":
        return
    c("call", "--", "true")
    tap.ok(wait_ready(c), f"{who}: a warm sandbox waits for a call")
    starts = len(events(c, "run.start"))
    with open(os.path.join(c.state, "audit", "lock"), "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # the call stops where it is logged
        p = c.popen("call", "-q", "--tool", "look", "--read", "given.txt", "--", "sh", "-c", "echo ran; cat given.txt")
        end = time.monotonic() + 90
        while not waits_for_lock(p.pid) and p.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        warm = standby_processes(c)
        guards = [x for x, parent in warm.items() if parent in warm]
        # A launcher that is just being made has short-lived children, which may be gone by now.
        for pid in sorted(warm, key=lambda x: x not in guards):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if pid in guards else signal.SIGKILL)
        fcntl.lockf(lock, fcntl.LOCK_UN)
    while not waits_for_end(p.pid) and p.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    tap.ok(guards and p.poll() is None, f"{who}: (the command was sent to a warm sandbox whose guard alone is left)", warm)
    for pid in guards:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    out = p.communicate(timeout=90)
    tap.eq((p.returncode, out[0]), (0, b"ran\ngiven\n"), f"{who}: a call whose command no launcher has read runs in another sandbox", out)
    tap.eq(len(events(c, "run.start")), starts + 1, f"{who}: a call whose command no launcher has read runs once")
    wait_ready(c)
    c("pool", "stop")


def warm_directory_is_gone(tap, c, who):
    if who != "root on ns":
        return
    away = os.path.join(c.dir, "away")
    for what in ("its directory", "its workspace"):
        c("pool", "stop")
        wait_quiet(c)
        c("call", "--", "true")
        tap.ok(wait_ready(c), f"{who}: a warm sandbox is ready before {what} is removed")
        end = time.monotonic() + 90
        while pool(c)[1] and time.monotonic() < end:
            time.sleep(0.05)
        runs = os.path.join(c.state, "runs")
        stopped = standby_processes(c)  # so that none of them cleans up while its directory is away
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        moved = [os.path.join(runs, x, *(["upper"] if what == "its workspace" else [])) for x in os.listdir(runs)
                 if os.path.exists(os.path.join(runs, x, "ahead"))]
        os.mkdir(away)
        for i, path in enumerate(moved):
            os.rename(path, os.path.join(away, str(i)))
        r = c("call", "--read", "given.txt", "--", "cat", "given.txt")
        tap.eq((r.code, r.out, len(moved) > 0), (0, "given\n", True), f"{who}: a call whose warm sandbox has lost {what} makes its own", r)
        for i, path in enumerate(moved):
            os.rename(os.path.join(away, str(i)), path)
        os.rmdir(away)
        for pid in stopped:
            kill_own(pid, signal.SIGCONT)  # one may have been ended meanwhile
    c("pool", "stop")
    wait_quiet(c)
    c("call", "--", "true")


def chosen_engine(tap):
    """Where no engine is named, a call falls back to ns as a run does, with the reason."""
    for who in identities(None):
        if who == "userns":
            continue
        with Coffer(who, "ns") as c:
            auto = ["env", "-u", "COFFER_ENGINE", c.exe, "call", "--cold"]
            r = c(program=[*auto, "--", "echo", "called"])
            tap.eq((r.code, r.out), (0, "called\n"), f"{who}: a call without a named engine runs", r)
            if who == "root":
                tap.ok("isolated by" not in r.err, "root: a call on gvisor prints no line about its engine", r)
                continue
            tap.like(r.err, r"isolated by namespaces \(engine ns\): no subordinate ids for this user in /etc/subuid and /etc/subgid\n",
                     f"{who}: a call without subordinate ids says why it is on engine ns", r)
            r = c(program=[*auto, "--engine", "gvisor", "--", "true"])
            tap.eq(r.code, 125, f"{who}: a call never replaces an engine that was named", r)
            tap.like(r.err, r"no subordinate ids for this user in /etc/subuid and /etc/subgid\n(.*\n)*.*--engine ns", f"{who}: the hint of that error names engine ns", r)
            tap.ok("No such file" not in r.err, f"{who}: that error has no errno text", r)


def main():
    tap = Tap()
    if shutil.which("runsc"):
        chosen_engine(tap)
    for engine in ("ns", "gvisor") if shutil.which("runsc") else ("ns",):
        for who in identities(tap if engine == "ns" else None):
            with (AsRoot if engine == "gvisor" and who == "user" else Coffer)(who, engine) as c:
                name = f"{who} on {engine}"
                what_it_sees(tap, c, name)
                each_is_fresh(tap, c, name)
                workspace(tap, c, name)
                of_another(tap, c, name)
                # The rest is cofferd's and its pool's, which are the same for a user.
                if who == "root" or (FULL and engine == "ns"):
                    template(tap, c, name)
                    limits(tap, c, name)
                    signals(tap, c, name)
                    parallel(tap, c, name, 64 if who == "root" else 16)
                    elsewhere(tap, c, name)
                    daemon(tap, c, name)
                    kill_daemon(tap, c, name)
                    tool_of_dead_sandbox(tap, c, name)
                    launcher_dies_alone(tap, c, name)
                    warm_directory_is_gone(tap, c, name)
                c("pool", "stop")
                tap.ok(wait_quiet(c), f"{name}: no run is left after all calls", os.listdir(os.path.join(c.state, "runs")))
                tap.eq(c("audit", "verify").code, 0, f"{name}: the log verifies")
                c.check_clean(tap)
    if not shutil.which("runsc"):
        tap.skip("calls on engine gvisor", "runsc is not installed")
    tap.done()


main()
