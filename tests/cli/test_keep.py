#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeping house: prune, rm --all-ended, run --rm, wait, start, restart, inspect, stats, sizes; and looking at a state
directory that cannot be written."""

import json
import os
import pty
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities  # noqa: E402

tap = Tap()


def ids(c):
    return c("ps", "-aq").out.split()


def check_prune(c):
    c("run", "-q", "--", "sh", "-c", "head -c 3000000 /dev/zero > big")
    c("run", "-q", "-d", "--name", "done", "--", "sh", "-c", "echo > small")
    c("wait", "done")
    c("run", "-q", "-d", "--name", "web", "--", "sleep", "1000")
    runs = {r["command"].split("/dev/")[0][:9]: r for r in json.loads(c("ps", "-a", "--json").out)}
    big = next(r for r in runs.values() if "big" in r["command"])
    tap.ok(big.get("size", 0) >= 3000000 and big["size_is_part"] is False, f"{c.who}: ps -a --json has the size of the layers", big)
    tap.like(c("ps", "-a").out, r"2\.9 MiB", f"{c.who}: ps -a shows the size of the layers")
    tap.unlike(c("ps").out, "SIZE", f"{c.who}: ps alone does not look at files")
    r = c("prune", "-n")
    tap.ok(r.code == 0 and big["id"] in r.out and "done" in r.out and "web" not in r.out, f"{c.who}: prune -n shows what has ended", r)
    tap.eq(len(ids(c)), 3, f"{c.who}: prune -n removes nothing")
    r = c("prune")
    tap.ok(r.code == 125 and "--yes" in r.err and len(ids(c)) == 3, f"{c.who}: prune without a terminal and without --yes removes nothing", r)
    r = c("prune", "--yes", "--older", "1h")
    tap.ok(r.code == 0 and "nothing to remove" in r.err and len(ids(c)) == 3, f"{c.who}: prune --older leaves what ended just now", r)
    for answer, left in (("n\n", 3), ("y\n", 1)):
        r = at_terminal(c, ["prune"], answer)
        tap.ok("[y/N]" in r and "not applied are lost" in r, f"{c.who}: prune asks on a terminal", r)
        tap.eq(len(ids(c)), left, f"{c.who}: prune takes the answer {answer.strip()}", r)
    tap.eq(c("prune", "--yes").code, 0, f"{c.who}: prune with nothing to do is fine")
    tap.eq(c("exec", "web", "--", "true").code, 0, f"{c.who}: prune leaves a running sandbox")
    c("stop", "web", "-t", "0")
    c("run", "-q", "--", "sh", "-c", "echo > f")
    tap.eq((c("rm", "--all-ended").code, ids(c)), (0, []), f"{c.who}: rm --all-ended removes all that have ended, unasked")
    removed = [e for e in map(json.loads, c("audit", "--type", "run.rm", "--json").out.splitlines())]
    tap.eq(len(removed), 4, f"{c.who}: each removal is in the log")


def check_prune_late(c):
    """Between the list and the yes a sandbox runs once more: nobody has seen what it changed then."""
    c("run", "-q", "-d", "--name", "late", "--", "sh", "-c", "echo >> f")
    c("run", "-q", "-d", "--name", "idle", "--", "sh", "-c", "echo >> f")
    c("wait", "late", "idle")
    r = at_terminal(c, ["prune"], "y\n", lambda: (c("start", "late"), c("wait", "late")))
    left = [x["name"] for x in json.loads(c("ps", "-a", "--json").out)]
    tap.ok(left == ["late"] and "started again meanwhile" in r, f"{c.who}: prune leaves what was started after the list was shown", left, r)


def at_terminal(c, args, answer, before=None):
    master, slave = pty.openpty()
    p = c.popen(*args, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while True:
            data = os.read(master, 4096)
            text += data
            if text.rstrip().endswith(b"[y/N]"):
                if before:
                    before()
                os.write(master, answer.encode())
            if not data:
                break
    except OSError:  # EIO: its side is closed
        pass
    p.wait(timeout=90)
    os.close(master)
    return text.decode()


def check_kept_going(c):
    """prune leaves those that cofferd may start again."""
    c("run", "-q", "-d", "--name", "kept", "--restart", "on-failure:1", "--", "sh", "-c", "echo > f")
    c("wait", "kept")
    r = c("prune", "--yes")
    tap.ok("may be started again" in r.err and c("ps", "-aq").out, f"{c.who}: prune leaves a sandbox with a restart policy", r)
    c("stop", "kept")
    r = c("prune", "--yes")
    tap.eq(ids(c), [], f"{c.who}: prune removes a sandbox with a restart policy that was stopped", r)
    c("gateway", "stop")


def check_rm_option(c):
    r = c("run", "--rm", "--", "sh", "-c", "echo > made; exit 3")
    tap.ok(r.code == 3 and "removed with the sandbox" in r.err and "coffer diff" not in r.err,
           f"{c.who}: run --rm has the command's exit code and says that changes are removed", r)
    tap.eq(ids(c), [], f"{c.who}: run --rm leaves no run")
    tap.ok(not os.path.exists(os.path.join(c.work, "made")), f"{c.who}: run --rm leaves the original as it was")
    r = c("run", "--rm", "--", "no-such-command")
    tap.eq((r.code, ids(c)), (127, []), f"{c.who}: run --rm leaves no run of a command that does not exist", r)
    r = c("run", "--rm", "-d", "--", "true")
    tap.ok(r.code == 2 and "coffer prune" in r.err, f"{c.who}: run --rm is refused with -d", r)
    p = c.popen("run", "-q", "--rm", "--", "sh", "-c", "echo > made; echo up; exec sleep 1000")
    p.stdout.read(3)
    os.kill(p.pid, signal.SIGKILL)
    p.communicate(timeout=90)  # until the process that removes it has closed the pipe too
    tap.eq(ids(c), [], f"{c.who}: run --rm leaves no run when the launcher is killed")


def check_rm_fork(c):
    """--rm is about the run that was typed, not about those that are made of it."""
    p = c.popen("run", "-q", "--rm", "--name", "short", "--home", "h", "--", "sh", "-c", "echo > made; echo up; exec sleep 1000")
    p.stdout.read(3)
    c("checkpoint", "short")
    r = c("fork", "short", "--name", "copy")
    tap.eq(r.code, 0, f"{c.who}: a run with --rm can be forked", r)
    c("stop", "short", "copy", "-t", "0")
    p.communicate(timeout=90)
    c("wait", "copy")
    left = [x["name"] for x in json.loads(c("ps", "-a", "--json").out)]
    tap.eq(left, ["copy"], f"{c.who}: the fork of a run with --rm is kept at its end")


def check_again(c):
    """start, restart, wait, inspect, stats."""
    r = c("run", "-q", "-d", "--name", "web", "-p", "0:80", "--allow", "x.test", "--", "sh", "-c", "echo up >> n; exec sleep 1000")
    run_id = r.out.strip()
    c("exec", "web", "--", "sh", "-c", "until [ -s n ]; do :; done")
    got = json.loads(c("inspect", "web").out)
    tap.ok(len(got) == 1 and got[0]["id"] == run_id and got[0]["status"] == "running" and got[0]["start"]["allow"] == ["x.test"] and
           got[0]["start"]["limits"]["pids"]["value"] == 1024 and got[0]["ports"].endswith("->80") and
           "upper" in got[0]["layers"] and got[0]["end"] is None and got[0]["size"] >= 0, f"{c.who}: inspect has limits, policy, ports, layers", got)
    tap.eq(c("inspect", "nosuch").code, 125, f"{c.who}: inspect of a sandbox that does not exist is an error")
    stats = json.loads(c("stats", "web", "--json").out)
    tap.ok([s["id"] for s in stats] == [run_id] and "memory" in stats[0], f"{c.who}: stats --json has one named sandbox", stats)
    tap.like(c("stats", "--no-stream").out, rf"^ID +NAME.*\n{run_id} +web", f"{c.who}: stats lists all sandboxes")
    r = c("start", "web")
    tap.ok(r.code == 0 and "runs already" in r.err, f"{c.who}: start of a running sandbox says that it runs already", r)
    r = c("restart", "web", "-t", "0")
    tap.eq((r.code, r.out.strip()), (0, run_id), f"{c.who}: restart keeps the id", r)
    c("exec", "web", "--", "sh", "-c", "until [ $(wc -l < n) = 2 ]; do :; done")
    p = c.popen("wait", "web")
    tap.eq(c("stop", "web", "-t", "0").code, 0, f"{c.who}: stop of a restarted sandbox succeeds")
    out, _ = p.communicate(timeout=90)
    code = json.loads(c("ps", "-a", "--json").out)[0]["exit"]
    tap.eq((p.returncode, out.decode()), (code, f"{code}\n"), f"{c.who}: wait prints the exit code when the sandbox has ended")
    tap.ok(json.loads(c("inspect", "web").out)[0]["end"]["exit"] == code, f"{c.who}: inspect has the exit code of an ended sandbox")
    r = c("start", "web")
    tap.eq((r.code, r.out.strip()), (0, run_id), f"{c.who}: start of an ended sandbox keeps the id", r)
    r = c("exec", "web", "--", "sh", "-c", "until [ $(wc -l < n) = 3 ]; do :; done; wc -l < n")
    tap.eq(r.out.strip(), "3", f"{c.who}: a sandbox that was started again has its files", r)
    c("rm", "-f", "web")
    r = c("start", "web")
    tap.ok(r.code == 125 and "there is no run 'web'" in r.err, f"{c.who}: start of a removed sandbox is refused", r)
    r = c("run", "-q", "--", "sh", "-c", "exit 7")
    r = c("wait", "@last")
    tap.eq((r.code, r.out), (7, "7\n"), f"{c.who}: wait takes the exit code of a run that left nothing from the log", r)
    r = c("wait", "nosuch")
    tap.eq(r.code, 125, f"{c.who}: wait for a sandbox that does not exist is an error", r)


def check_words(c):
    """Messages about runs that left nothing, and about those that do not exist."""
    c("run", "-q", "--", "true")
    r = c("diff", "@last")
    tap.eq((r.code, r.out, r.err), (0, "", ""), f"{c.who}: diff of a run that changed nothing is empty", r)
    tap.eq(json.loads(c("diff", "--json", "@last").out)["changes"], [],
           f"{c.who}: diff --json of a run that changed nothing has an empty list")
    r = c("logs", "@last")
    tap.ok(r.code == 125 and "only a detached sandbox keeps what it prints" in r.err, f"{c.who}: logs of a foreground run says what would keep it", r)
    c("run", "-q", "--", "sh", "-c", "echo > f")
    r = c("exec", "nosuch", "--", "true")
    tap.like(r.err, r"there are: [0-9a-f]{12} \(sh -c echo > f\)", f"{c.who}: a run without a name is shown with its command", r)
    c("rm", "--all-ended")
    r = c("diff", "@last")
    tap.eq(r.code, 125, f"{c.who}: diff of a run that was removed with its changes is an error", r)
    env = c.write("vars.env", "A=1\n# no\nexport B='two words'\n")
    r = c("run", "-q", "--env-file", env, "-e", "A=2", "--", "sh", "-c", 'echo "$A $B"')
    tap.eq((r.out, r.err), ("2 two words\n", ""), f"{c.who}: --env-file sets variables, and a later -e wins", r)
    env = c.write("key.env", "GITHUB_TOKEN=ghp_0123\n")
    r = c("run", "-q", "--env-file", env, "--", "true")
    tap.ok(r.code == 0 and "coffer secret import" in r.err and "ghp_0123" not in r.err,
           f"{c.who}: a key in --env-file leads to coffer secret import", r)
    r = c("run", "-q", "--env-file", c.write("bad.env", "no equals\n"), "--", "true")
    tap.ok(r.code == 2 and "--env-file" in r.err, f"{c.who}: --env-file refuses a broken file", r)
    r = c("ps", env={"COFFER_STATE": "here"})
    tap.ok(r.code == 125 and "not an absolute path" in r.err and not os.path.exists(os.path.join(c.work, "here")),
           f"{c.who}: a relative COFFER_STATE is refused, and makes nothing", r)


def check_limits_said_once(c):
    """Default limits that cannot be kept are said once, not at each run."""
    first = c("run", "--", "true").err
    again = c("run", "--report", os.path.join(c.tmp, "r"), "--", "true").err
    with open(os.path.join(c.tmp, "r"), encoding="utf-8") as f:
        off = json.load(f).get("limits_off")
    os.unlink(os.path.join(c.tmp, "r"))
    if not off:
        tap.ok("not limited" not in first + again, f"{c.who}: a host that keeps all limits has no message about limits", first, again)
        return
    tap.ok(off not in again, f"{c.who}: a message about limits is not repeated, but is in the report", first, again)
    os.unlink(os.path.join(c.state, "limits-told"))
    tap.ok(off in c("run", "--", "true").err, f"{c.who}: positive control: the message about limits is repeated without its note", off)


LOOK = r"""
mkdir -p "$COFFER_STATE"; mount -t tmpfs -o size=24m,mode=700 none "$COFFER_STATE" || exit 9
C="$1"
$C run -q -- sh -c 'echo > f' || exit 8
first=$($C ps -aq)
# Read-only, because a sandbox with a layer is ended, and that is logged, as soon as the disk is nearly full.
$C run -q -d --name web -C .:ro -- sh -c 'echo out; exec sleep 1000' >/dev/null || exit 7
until [ "$($C logs web)" = out ]; do :; done
echo sk-0123456789abcdef | $C secret set kept - --key-file "$COFFER_STATE/key" 2>/dev/null || exit 11
$C token new --role observer --name eye >/dev/null 2>&1 || exit 12
$C gateway stop
if [ "$2" = full ]; then
	head -c 100000000 /dev/zero > "$COFFER_STATE/ballast" 2>/dev/null
	head -c 1 /dev/zero > "$COFFER_STATE/x" 2>/dev/null && exit 6
else
	mount --bind "$COFFER_STATE" "$COFFER_STATE" && mount -o remount,bind,ro "$COFFER_STATE" || exit 5
	touch "$COFFER_STATE/x" 2>/dev/null && exit 4
fi
before=$($C audit --json | wc -l)
for v in "ps" "ps -a" "ps -aq" "ps -a --json" "ps --stats" "stats --no-stream" "logs web" "inspect web" "diff $first" "audit" \
	"audit verify" "net log" "ask ls" "image ls" "checkpoint ls web" "secret ls" "secret ls --json" "token ls" "token ls --json"; do
	$C $v >/dev/null; echo "$v: $?"
done
$C secret ls | grep -c ^kept; $C token ls | grep -c 'observer  eye'
$C why >/dev/null 2>&1; echo "why: $?"
echo "logged $(( $($C audit --json | wc -l) - before ))"
$C doctor | grep -c 'fail  state directory'
if [ "$2" = full ]; then rm "$COFFER_STATE/ballast"; else mount -o remount,bind,rw "$COFFER_STATE"; fi
$C rm -f web; $C ps
"""


def check_looking(c):
    if c.who != "root":
        return
    for how in ("full", "read-only"):
        r = c(program=["unshare", "-m", "sh", "-c", LOOK, "sh", c.exe, how])
        lines = [l for l in r.out.splitlines() if ": " in l]
        tap.eq([l for l in lines if not l.endswith(": 0")], ["why: 1"],
               f"{c.who}: commands that only read work on a {how} state directory", r)
        tap.eq(len(lines), 20, f"{c.who}: all commands that only read were tried ({how})", r)
        tap.ok("logged 0" in r.out, f"{c.who}: commands that only read write nothing to the log ({how})", r)
        tap.eq(r.out.split().count("1"), 4, f"{c.who}: the secret and the token are listed, and doctor's row is there ({how})", r)
        tap.like(r.out, r"(?m)^1$", f"{c.who}: doctor says that nothing can run there ({how})", r)


TAKEN = r"""
ip link set lo up
python3 -c 'import os, socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8787)); s.listen(); print("up", flush=True); os.close(1); time.sleep(1000)' > "$2" &
until [ -s "$2" ]; do :; done
"$1" ui; echo "code $?"
"$1" gateway stop
kill %1
"""


def check_port_taken(c):
    """The page of a second user of this machine: the usual port has another's gateway."""
    if c.who != "root":
        return
    r = c(program=["unshare", "-n", "bash", "-c", TAKEN, "bash", c.exe, os.path.join(c.tmp, "up")])
    os.unlink(os.path.join(c.tmp, "up"))
    tap.ok("code 0" in r.out and "http://127.0.0.1:8788/#login=" in r.out and "port 8787 is taken" in r.err,
           f"{c.who}: ui takes the next free port and says which", r)


def check_key(c):
    """A vault's key is made for a value that comes, and then it is said."""
    key = os.path.join(c.home, "key")
    r = c("secret", "set", "anthropic", "--key-file", key)
    tap.ok(r.code == 125 and "no terminal" in r.err and not os.path.exists(key), f"{c.who}: secret set without a value makes no key", r)
    r = c("secret", "set", "anthropic", "--file", "/no/such", "--key-file", key)
    tap.ok(r.code == 125 and not os.path.exists(key), f"{c.who}: secret set of a file that does not exist makes no key", r)
    r = c("secret", "set", "weak", "-", "--key-file", key, input="x")
    tap.ok(r.code == 17 and "keep a copy" in r.err, f"{c.who}: secret set says that it made a key, although the value is refused", r)
    r = c("secret", "set", "anthropic", "-", "--key-file", key, input="sk-ant-0123456789abcdef")
    tap.ok(r.code == 0 and "coffer run --profile claude or openclaw uses it" in r.err and "nowhere" not in r.err,
           f"{c.who}: a secret that a profile knows needs no binding", r)
    r = c("secret", "set", "openai", "-", "--key-file", key, input="sk-0123456789abcdef0123")
    tap.ok(r.code == 0 and "codex" in r.err and "openclaw" in r.err, f"{c.who}: secret set names every profile that uses the secret", r)
    r = c("secret", "set", "mine", "-", input="sk-ant-0123456789abcdef")
    tap.ok(r.code == 0 and "until it is bound" in r.err, f"{c.who}: a secret that no profile knows needs a binding", r)
    fifo = os.path.join(c.home, "fifo")
    script = 'mkfifo "$2" && { printf sk-ant-0123456789abcdef >"$2" & } && timeout 60 "$1" secret set piped --file "$2"'
    r = c(program=["sh", "-c", script, "sh", c.exe, fifo])
    tap.ok(r.code == 0 and "piped is saved" in r.err, f"{c.who}: secret set --file takes a value from a named pipe", r)
    os.unlink(fifo)


def main():
    for who in identities(tap, ENGINES):
        if (who, who.engine) not in (("root", "ns"), ("user", "gvisor")):
            continue
        with coffer_as(who) as c:
            for check in (check_prune, check_prune_late, check_kept_going, check_rm_option, check_rm_fork, check_again, check_words, check_limits_said_once,
                          check_looking, check_port_taken, check_key):
                check(c)
                c("rm", "--all-ended")
            c.check_clean(tap)


main()
tap.done()
