# SPDX-License-Identifier: Apache-2.0
"""Resource exhaustion: one sandbox per bomb. The host must stay responsive, the same user must have something
left, and the run must end for the right cause. And the patient attack on coffer-init's own program file."""

import errno
import json
import os
import subprocess
import time

from coffertest import control_groups, descendants, slow_build

# The host counts as responsive when a small program starts and ends within this, whatever a sandbox does.
RESPONSIVE = 15.0 * slow_build()


class Bomb:
    """A command to run, with its limits, and how it may end: causes of the report, exit codes (None: any). Outside,
    `stop` is how many it takes unhindered, more than a sandbox gives: its control."""

    def __init__(self, name, options, causes, codes=None, arg="", stop=0, spare=False, check=None):
        self.name, self.options, self.causes, self.codes = name, options.split(), causes, codes
        self.arg, self.stop, self.spare, self.check = arg, stop, spare, check

    def label(self):
        return f"{self.name}{' ' + self.arg if self.arg else ''} bomb"


def output_is_capped(_setup, result):
    size = len(result["stdout"])
    return size < 2 << 20, f"{size} bytes came out, of a limit of 1m and 64m printed"


def discard(setup, result):
    """The files that it left are removed, however deep."""
    run = result["report"].get("id", "-")
    code, out = setup.coffer_quietly("discard", run)
    left = os.path.exists(setup.inside.at("state/runs", run, "upper"))
    return code == 0 and not left, f"coffer discard exits {code} {out[-200:].strip()}"


# errno values that a bomb exits with when it was refused more
EPERM, EIO, EAGAIN, ENOMEM, EACCES, ENFILE, EMFILE, ENOSPC, ENOSYS, ETOOMANYREFS, EDQUOT = (
    1, 5, 11, 12, 13, 23, 24, 28, 38, 109, 122)

BOMBS = [
    Bomb("fork", "--pids 64 --timeout 1s", {"timeout", "pids"}),
    Bomb("fork-fail", "--pids 64 --timeout 20", {"pids"}, {EAGAIN}, stop=100),
    Bomb("threads", "--pids 64 --timeout 20", {"pids"}, {EAGAIN}, stop=100),
    Bomb("memory", "--memory 64m --timeout 20", {"oom"}, stop=100),
    Bomb("memory-tree", "--memory 64m --timeout 20", {"oom", "exit"}, {0}),
    Bomb("file", "--disk 32m --timeout 20", {"disk", "exit"}, {ENOSPC, EDQUOT}, arg="/workspace", stop=64),
    Bomb("files", "--disk 1g,500 --timeout 20", {"disk", "exit"}, {ENOSPC, EDQUOT}, arg="/workspace", stop=2000),
    Bomb("file", "--tmp-size 16m --timeout 20", {"exit"}, {ENOSPC}, arg="/tmp", stop=64),
    Bomb("file", "--tmp-size 16m --timeout 20", {"exit"}, {ENOSPC}, arg="/run", stop=64),
    Bomb("file", "--shm-size 16m --timeout 20", {"exit"}, {ENOSPC}, arg="/dev/shm", stop=64),
    # an inode costs about a kilobyte of the kernel's memory: a small /tmp must not take a million of them
    Bomb("files", "--tmp-size 4m --timeout 120 -e BOMB_STOP=100000", {"exit"}, {ENOSPC}, arg="/tmp", stop=20000),
    Bomb("deep", "--timeout 30", {"exit"}, {0}, arg="/workspace", check=discard),
    Bomb("fds", "--nofile 200:200 --timeout 20", {"exit"}, {EMFILE}, stop=300),
    Bomb("output", "--output-limit 1m --timeout 20", {"exit", "output"}, check=output_is_capped),
    Bomb("zombies", "--pids 256 --timeout 30", {"exit"}, {0}),
    Bomb("ptys", "--timeout 120 --nofile 20000:20000", {"exit"}, {ENOSPC, EMFILE, EIO}, stop=20, spare=True),
    Bomb("sysv", "--memory 64m --timeout 20", {"oom", "exit"}, {ENOMEM, ENOSPC, ENOSYS}, stop=8),
    Bomb("pipes", "--timeout 120 --nofile 4096:4096", {"exit"}, {ENOMEM, EMFILE, ENFILE}, stop=100, spare=True),
    Bomb("keys", "--timeout 20", {"exit"}, {EPERM, ENOSYS, EDQUOT}, stop=5, spare=True),
    Bomb("inotify", "--timeout 120 --nofile 20000:20000", {"exit"}, {EMFILE, ENOSYS}, stop=40, spare=True),
    Bomb("timers", "--timeout 20", {"exit"}, {EAGAIN, ENOSYS}, stop=2000, spare=True),
    Bomb("queues", "--timeout 120 --nofile 4096:4096", {"exit"}, {EMFILE, ENOSPC, ENOSYS, ENOMEM, EACCES}, stop=3,
         spare=True),
    Bomb("rights", "--timeout 120 --nofile 4096:4096", {"exit"}, {ETOOMANYREFS, EMFILE, ENFILE}, stop=100, spare=True),
    Bomb("spin", "--timeout 1s", {"timeout"}),
]


# Objects that gVisor keeps otherwise. Its kernel's own objects are memory of a process in the sandbox's control group: there is no
# number of them, and none of the host's.
GVISOR = {
    "files /tmp": Bomb("files", "--tmp-size 4m --timeout 120 -e BOMB_STOP=100000", {"exit"}, {0}, arg="/tmp"),
    "zombies": Bomb("zombies", "--pids 256 --timeout 90", {"exit"}, {0}),  # a fork takes some milliseconds
    "keys": Bomb("keys", "--timeout 20", {"exit"}, {EACCES, EPERM, ENOSYS, EDQUOT}, spare=True),
    "timers": Bomb("timers", "--timeout 2 --memory 256m", {"timeout", "oom"}),
    "rights": Bomb("rights", "--timeout 2 --memory 256m --nofile 4096:4096", {"timeout", "oom"}),
}


def bombs_for(engine):
    if engine == "ns":
        return BOMBS
    return [GVISOR.get(f"{b.name} {b.arg}".strip(), b) if "4m" in b.options or not b.arg else b for b in BOMBS]


def controls(tap, setup):
    """Outside, each bomb takes what it wants: more than any limit that a sandbox is given below."""
    d = setup.outside.at("rw")
    for bomb in BOMBS:
        if not bomb.stop:
            continue
        p = setup.identity.popen([setup.probe, "bomb", bomb.name, d], stdout=subprocess.PIPE, text=True, cwd=d,
                                 env=dict(setup.env(setup.outside), BOMB_STOP=str(bomb.stop)))
        text = p.communicate(timeout=180)[0]
        tap.ok(p.returncode == 0 and "stopped by itself" in text, f"control: {bomb.label()}: {text.strip()}", text)


def explode(setup, bomb, tag):
    """Runs one bomb; what came of it, and how the host felt meanwhile."""
    w = setup.inside
    report = w.at("state", f"report-{tag}.json")
    hold = ["-e", "BOMB_HOLD=1"] if bomb.spare else []
    argv = [setup.coffer, "run", "-C", w.at("ws"), "--report", report, *bomb.options, *hold, "--", "./probe", "bomb",
            bomb.name, *([bomb.arg] if bomb.arg else [])]
    begin = time.monotonic()
    p = setup.identity.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=setup.env(w), cwd=w.at("ws"))
    os.set_blocking(p.stdout.fileno(), False)
    out, slowest, spare = b"", 0.0, None
    while p.poll() is None and time.monotonic() - begin < 240 * slow_build():
        t = time.monotonic()
        subprocess.run(["true"], check=True)
        slowest = max(slowest, time.monotonic() - t)
        out += p.stdout.read() or b""
        if bomb.spare and spare is None and b"took " in out:
            s = setup.identity.popen([setup.probe, "spare"], stdout=subprocess.PIPE, text=True, cwd="/")
            text = s.communicate()[0]
            spare = (s.returncode, text)
        time.sleep(0.03)
    if p.poll() is None:
        p.kill()
    os.set_blocking(p.stdout.fileno(), True)
    rest, err = p.communicate()
    try:
        with open(report, encoding="utf-8") as f:
            said = json.load(f)
    except (OSError, ValueError) as e:
        said = {"error": str(e)}
    return {"stdout": out + rest, "stderr": err.decode("utf-8", "replace"), "report": said, "slowest": slowest,
            "spare": spare, "code": p.returncode, "seconds": time.monotonic() - begin}


def refused(result):
    """A limit that was named and cannot be kept here: then coffer does not start anything, and says which."""
    return result["code"] == 125 and "error" in result["report"] and "--memory" in result["stderr"]


def causes(bomb, report):
    """A refusal by an rlimit is seen only inside, and not when it is all over by then, as with threads; what a control
    group refuses is counted outside."""
    how = str(report.get("limits", {}).get("pids", {}).get("how"))
    unseen = {"threads"} if how == "rlimit" else {"threads", "fork-fail"} if how == "gvisor" else set()
    return bomb.causes | ({"exit"} if bomb.name in unseen else set())


def run_all(tap, setup):
    who = setup.identity.label()
    for i, bomb in enumerate(bombs_for(setup.identity.engine)):
        label = f"{who}: {bomb.label()}"
        r = explode(setup, bomb, i)
        if refused(r):
            tap.ok("--limits best-effort" in r["stderr"], f"{label}: a bomb whose limit cannot be enforced is not started",
                   r["stderr"])
            continue
        cause, code = r["report"].get("cause"), r["code"]
        good = cause in causes(bomb, r["report"]) and (bomb.codes is None or cause != "exit" or code in bomb.codes)
        tap.ok(good, f"{label} ends by {cause}, exit {code}", f"wanted {bomb.causes} {bomb.codes}",
               f"after {r['seconds']:.1f} s, report {json.dumps(r['report'])}", r["stderr"][-800:], r["stdout"][-200:])
        tap.ok(r["slowest"] < RESPONSIVE, f"{label}: the host stays responsive ({r['slowest'] * 1000:.0f} ms at worst)")
        groups = [g for g in control_groups() if r["report"].get("id", "-") in g]
        tap.ok(not groups, f"{label}: no control group is left", *groups)
        if bomb.check:
            ok, text = bomb.check(setup, r)
            tap.ok(ok, f"{label}: {text}")
        if bomb.spare and r["spare"]:
            tap.ok(r["spare"][0] == 0, f"{label}: the user has resources left", r["spare"][1], r["stdout"][-200:])
            if r["spare"][0] == 0:
                tap.note(r["spare"][1])


def outside_ids(program, marker):
    """[(uid, whether our root is mapped into its namespace)] of our processes with that command line, seen from here."""
    found = []
    for pid, _ in descendants(os.getpid()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                argv = f.read().split(b"\0")
            if os.path.basename(argv[0]).decode() != program or marker.encode() not in argv:
                continue
            with open(f"/proc/{pid}/uid_map", encoding="utf-8") as f:
                ranges = [[int(n) for n in line.split()] for line in f]
            found.append((os.stat(f"/proc/{pid}").st_uid, any(outside == 0 for _, outside, _ in ranges)))
        except (OSError, ValueError, UnicodeDecodeError):
            pass
    return found


def exe_watch_control(tap, setup):
    """Outside, the watch gets hold of a program of the same user as soon as that has ended."""
    w = setup.outside
    p = setup.identity.popen([setup.probe, "bomb", "exe-watch", "6"], stdout=subprocess.PIPE, text=True, cwd=w.at("ws"))
    while p.poll() is None:
        # takes ten descriptors, and a second of time
        try:
            setup.identity.popen([w.at("ws/probe"), "bomb", "fds"], stdout=subprocess.DEVNULL, cwd=w.at("ws"),
                                 env={"BOMB_STOP": "10", "BOMB_HOLD": "1"}).wait()
        except OSError as e:
            if e.errno != errno.ETXTBSY:  # the watch has it open for writing at this moment: what it is after
                raise
            time.sleep(0.05)
    said = p.communicate()[0]
    tap.ok("BROKEN" in said, f"control: {setup.identity.name}: exe-watch opens a program once it has ended", said)


def exe_watch(tap, setup):
    """Commands that are /proc/self/exe make coffer-init's program run as a process of the sandbox's own, whose file
    another process there keeps and tries to open for writing when it is no longer busy."""
    who, w = setup.identity.name, setup.inside
    name = f"watch-{who}"
    script = w.at("ws/reexec")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/proc/self/exe\n")
    os.chmod(script, 0o755)
    setup.identity.own(script)

    said = setup.coffer_quietly("run", "-d", "--name", name, "-C", w.at("ws"), "--", "./probe", "bomb", "exe-watch",
                                "5")[1]
    end = time.monotonic() + 60
    while time.monotonic() < end and not outside_ids(os.path.basename(setup.inside.at("ws/probe")), "exe-watch"):
        time.sleep(0.02)
    ids = outside_ids(os.path.basename(setup.inside.at("ws/probe")), "exe-watch")
    tap.ok(ids and all(uid != 0 and not maps_root for uid, maps_root in ids),
           f"{who}: no process inside is the host's root ({sorted({uid for uid, _ in ids})})", str(ids))
    for argv in (["/proc/self/exe"], ["./reexec"], ["/proc/1/exe"]) * 8:
        said += setup.coffer_quietly("exec", name, "--", *argv)[1]
    end, logs = time.monotonic() + 90, ""
    while "exe-watch: ended" not in logs and "BROKEN" not in logs and time.monotonic() < end:
        time.sleep(0.2)
        logs = setup.coffer_quietly("logs", name)[1]
    setup.coffer_quietly("stop", name)
    setup.coffer_quietly("rm", name)
    os.unlink(script)
    exe_watch_control(tap, setup)
    tap.ok("exe-watch: ended" in logs and "BROKEN" not in logs,
           f"{who}: no command opens coffer-init's program for writing", said, logs)
    tap.ok(setup.digest() == setup.programs, f"{who}: coffer's own programs are unchanged")
