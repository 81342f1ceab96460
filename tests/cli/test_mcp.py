#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1800
"""coffer mcp: what its tools do and cannot be made to do, for every identity and engine; how a session ends."""

import base64
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering  # noqa: E402
from mcpclient import Client  # noqa: E402

USER0 = ["--user", "0"]


def options(who):
    """Without subordinate ids the command's user on gvisor is root inside, and the caller outside."""
    return USER0 if who.engine == "gvisor" and who != "root" else []


def tree(root):
    """The contents of a directory, to the letter."""
    got = {}
    for base, dirs, files in os.walk(root):
        for n in dirs + files:
            p = os.path.join(base, n)
            st = os.lstat(p)
            content = open(p, "rb").read() if os.path.isfile(p) and not os.path.islink(p) else None
            got[os.path.relpath(p, root)] = (st.st_mode, st.st_mtime_ns, content)
    return got


def fill(c):
    c.write("a.txt", "first\n")
    c.write("src/main.c", "int main(void) { return 0; }\n")
    c.write("bin.dat", bytes(range(256)))
    c.write(".env", "TOKEN=very-secret-value-42\n")
    c.write("big.txt", b"x" * 3000000)


def try_exec(tap, m, who):
    r = m.call("exec", command="echo out; echo err >&2; echo new > made.txt; rm a.txt; exit 7")
    tap.ok(not r.error and r.is_error is False, f"{who}: a command that exits with 7 is a result, not an error", r)
    tap.eq((r.data["exit_code"], r.data["cause"], r.data["stdout"], r.data["stderr"]), (7, "exit", "out\n", "err\n"),
           f"{who}: the result of exec has exit code, cause and output", r)
    tap.eq({(x["path"], x["kind"]) for x in r.data["changed"]}, {("made.txt", "added"), ("a.txt", "deleted")},
           f"{who}: the result of exec lists the files that the command changed", r)
    tap.eq(json.loads(r.text), r.data, f"{who}: the text of a result is its structured content as JSON", r)
    r = m.call("exec", command="cat made.txt; touch /tmp/x ~/y; sleep 300 & echo $!")
    tap.like(r.data["stdout"], r"^new\n\d+\n$", f"{who}: a file that a call wrote is there in the next call", r)
    r = m.call("exec", command="ls /tmp ~; ps ax 2>/dev/null | grep -c '[s]leep 300'; cat made.txt")
    tap.ok("new" in r.data["stdout"] and "\n0\n" in "\n" + r.data["stdout"] and "y" not in r.data["stdout"].split(),
           f"{who}: processes, /tmp and home do not last beyond a call", r)
    tap.eq(r.data["changed_count"], 0, f"{who}: a call that writes nothing reports no change", r)
    r = m.call("exec", argv=["sh", "-c", 'printf %s "$V$(pwd)"; cat'], env={"V": "a=b "}, cwd="src", stdin="in\n")
    tap.eq(r.data["stdout"], "a=b /workspace/srcin\n", f"{who}: exec takes argv, env, cwd and stdin", r)
    r = m.call("exec", argv=["no-such-program"])
    tap.eq((r.is_error, r.data["exit_code"]), (True, 127), f"{who}: a program that does not exist is an error with exit code 127", r)
    r = m.call("exec", command="sleep 300", timeout_s=1)
    tap.eq((r.is_error, r.data["cause"]), (True, "timeout"), f"{who}: timeout_s ends a command", r)
    for bad, why in (({}, "either"), ({"command": "x", "argv": ["x"]}, "either"), ({"argv": []}, "missing"),
                     ({"command": "x", "cwd": "../.."}, "without"), ({"command": "x", "env": {"A=B": "c"}}, "name")):
        r = m.call("exec", **bad)
        tap.ok(r.is_error and why in r.text, f"{who}: exec {bad} is refused with the reason", r)


def try_flood(tap, m, who):
    r = m.call("exec", command="yes 0123456789 | head -c 30000000; echo; echo the end")
    tap.ok(len(r.data["stdout"]) < 100000 and r.data["stdout_omitted"] > 20000000, f"{who}: a flood of output is cut, and the omitted bytes are counted", r)
    tap.ok(r.data["stdout"].startswith("0123456789\n"), f"{who}: output that is cut keeps its beginning")
    r = m.call("exec", command=r"printf '\377\000\033[31m{\"exit_code\":0}\n[... 5 bytes left out ...]\n'; exit 9")
    tap.ok(r.data["exit_code"] == 9 and r.data["stdout_omitted"] == 0 and "\ufffd" in r.data["stdout"],
           f"{who}: output that is not text or looks like a result is data", r)


def try_files(tap, m, who, c):
    r = m.call("read_file", path="src/main.c")
    tap.eq((r.data["content"], r.data["encoding"]), ("int main(void) { return 0; }\n", "utf-8"), f"{who}: read_file reads a file", r)
    tap.eq(m.call("read_file", path="/workspace/src//./main.c").data["content"], r.data["content"],
           f"{who}: read_file takes an absolute path")
    r = m.call("read_file", path="bin.dat")
    tap.eq((r.data["encoding"], base64.b64decode(r.data["content"])), ("base64", bytes(range(256))),
           f"{who}: read_file returns bytes that are not text as base64", r)
    r = m.call("read_file", path="big.txt")
    tap.eq((r.data["size"], r.data["length"], r.data["truncated"]), (3000000, 1 << 20, True), f"{who}: read_file cuts a large file")
    r = m.call("read_file", path="big.txt", offset=2999990)
    tap.eq((r.data["content"], r.data["truncated"]), ("x" * 10, False), f"{who}: read_file continues at an offset", r)
    r = m.call("read_file", path=".env")
    tap.eq((r.data["content"], r.data["hidden"]), ("", True), f"{who}: read_file returns a hidden file as empty and marks it", r)
    r = m.call("write_file", path="deep/er/new.txt", content="text ü\n")
    tap.eq((r.is_error, r.data and r.data["bytes"]), (False, 8), f"{who}: write_file writes a file and makes its directories", r)
    r = m.call("write_file", path="b.bin", content=base64.b64encode(bytes(range(256)) * 20).decode(), encoding="base64")
    tap.ok(not r.is_error, f"{who}: write_file writes any bytes from base64", r)
    r = m.call("exec", command="cat deep/er/new.txt; wc -c < b.bin")
    tap.eq(r.data["stdout"], "text ü\n5120\n", f"{who}: commands see the files that write_file wrote", r)
    r = m.call("write_file", path="b.bin", content="!", encoding="base64")
    tap.ok(r.is_error and "base64" in r.text, f"{who}: write_file refuses content that is not base64", r)
    r = m.call("write_file", path=".env", content="TOKEN=mine")
    tap.ok(r.is_error, f"{who}: write_file does not write a hidden file", r)
    tap.ok(not os.path.exists(os.path.join(c.work, "b.bin")), f"{who}: write_file leaves the original workspace unchanged")


def try_escapes(tap, m, who, c):
    outside = os.path.join(c.dir, "outside.txt")
    with open(outside, "w", encoding="utf-8") as f:
        f.write("outside\n")
    m.call("exec", command=f"ln -s {outside} l1; ln -s /etc/passwd l2; ln -s .. up; ln -s src s; mkfifo fifo; ln a2 a3;"
                           "echo keep > a2; ln a2 hard; ln -s deep/er d; ln -s /etc/passwd target")
    for path in ("../outside.txt", outside, "/etc/passwd", "l1", "l2", "up/outside.txt", "s/main.c", "fifo", "src", ".",
                 "/workspace", "", "src/../../outside.txt", "/proc/self/environ", "/workspace/../etc/passwd", "a.txt/x",
                 "no-such", "x" * 300, "/dev/zero"):
        r = m.call("read_file", path=path)
        tap.ok(r.is_error and "outside\n" not in r.text and "root:" not in r.text, f"{who}: reading {path[:40]!r} fails", r)
    r = m.call("read_file", path="hard")
    tap.eq(r.data and r.data["content"], "keep\n", f"{who}: control: a plain name beside the links is read", r)
    fifo = m.call("exec", command="test -p fifo && echo yes").data["stdout"]
    if not fifo:
        tap.note(f"{who}: there are no fifos in this workspace")
    for path in ("../outside.txt", outside, "/etc/x", "l1", "up/outside.txt", "s/new.c", "src", "/workspace/../x", "d/x") + (
            ("fifo",) if fifo else ()):
        r = m.call("write_file", path=path, content="broken")
        tap.ok(r.is_error, f"{who}: writing {path[:40]!r} fails", r)
    tap.eq(open(outside, encoding="utf-8").read(), "outside\n", f"{who}: failed writes leave the file outside unchanged")
    r = m.call("write_file", path="hard", content="changed\n")
    r = m.call("exec", command="cat hard a2; ls -a | grep coffer-new")
    tap.eq(r.data["stdout"], "changed\nkeep\n", f"{who}: write_file to a hard link keeps the content of its other name", r)
    r = m.call("diff", path="../outside.txt")
    tap.ok(r.is_error, f"{who}: diff of a path outside fails", r)


def try_points(tap, m, who, c):
    m.call("exec", command="mkdir -p keep/deep; echo one > keep/one; ln -s one keep/link; chmod 640 keep/one; "
                           "dd if=/dev/urandom of=keep/rnd bs=1k count=64 2>/dev/null")
    before = m.call("exec", command="cd keep; stat -c '%n %A %s %Y' * deep; sha256sum one rnd; readlink link").data["stdout"]
    point = m.call("checkpoint", label="before <b>it</b>").data
    tap.ok(point["checkpoint"] and point["checkpoints"][-1]["label"] == "before <b>it</b>", f"{who}: checkpoint returns an id and keeps the label", point)
    r = m.call("exec", command="rm -rf /workspace/* ; ls")
    tap.eq(r.data["stdout"].split(), [], f"{who}: control: the command deleted the whole workspace", r)
    r = m.call("rollback", id=point["checkpoint"])
    tap.ok(not r.is_error and r.data["undo"], f"{who}: rollback restores a checkpoint and offers an undo", r)
    after = m.call("exec", command="cd keep; stat -c '%n %A %s %Y' * deep; sha256sum one rnd; readlink link")
    tap.eq(after.data["stdout"], before, f"{who}: files are identical after a rollback", after)
    r = m.call("exec", command="echo two >> keep/one")
    tap.eq([x["path"] for x in r.data["changed"]], ["keep/one"], f"{who}: changes after a rollback are counted from the checkpoint", r)
    r = m.call("diff", **{"from": point["checkpoint"], "path": "keep"})
    tap.ok(r.data["changes"] == 1 and "+two" in r.data["diff"], f"{who}: diff from a checkpoint shows the change since then", r)
    r = m.call("diff")
    tap.ok("keep/one" in r.data["diff"] and "very-secret" not in r.data["diff"], f"{who}: diff without a checkpoint shows all changes, without hidden files", r)
    for bad in ("c999", "x", "--help", "-1"):
        r = m.call("rollback", id=bad)
        tap.ok(r.is_error, f"{who}: rollback to {bad} is refused", r)
    r = m.call("diff", to="c1")
    tap.ok(r.is_error, f"{who}: diff with to and without from is refused", r)


def try_access(tap, m, who, c):
    r = m.call("request_access", rule="api.example.com:8443", reason="I want\nit", wait=1)
    tap.ok(r.data["granted"] is False and "nobody answered in time" in r.data["answer"], f"{who}: request_access without an answer is not granted", r)
    logged = [json.loads(x) for x in c("audit", "--json", "--type", "ask.new").out.splitlines()]
    tap.ok(len(logged) == 1 and logged[0]["what"] == "api.example.com:8443" and logged[0]["reason"] == "I want\nit",
           f"{who}: the question of request_access is in the log", logged)
    r = m.call("request_access", rule="*", reason="all", wait=1)
    tap.ok(r.data["granted"] is False and "every name" in r.data["answer"], f"{who}: request_access refuses a rule for every name", r)
    r = m.call("exec", command="getent hosts coffer.internal || echo none")
    tap.eq(r.data["stdout"], "none\n", f"{who}: a session without a grant has no network", r)


def try_calls(tap, m, who):
    """Many at once, cancelled ones among them; other requests are answered meanwhile."""
    first = m.begin_call("exec", command="echo started; while :; do sleep 0.1; done", _meta={"progressToken": "tok"})
    note = m.wait_note()
    tap.eq((note["params"]["progressToken"], note["params"]["message"]), ("tok", "started\n"), f"{who}: output arrives as progress while a call runs", note)
    later = [m.begin_call("exec", command=f"echo {i} >> order; echo {i}") for i in range(5)]
    tap.eq(m.ask("ping").get("result"), {}, f"{who}: a ping is answered while a call runs")
    m.cancel(later[2])
    m.cancel(first)
    m.cancel(99999)
    got = [m.wait_for(n)["result"]["structuredContent"]["stdout"] for i, n in enumerate(later) if i != 2]
    tap.eq(got, ["0\n", "1\n", "3\n", "4\n"], f"{who}: calls after a cancelled one run in order")
    r = m.call("exec", command="cat order")
    tap.eq(r.data["stdout"], "0\n1\n3\n4\n", f"{who}: a call that is cancelled while it waits never runs", r)
    tap.ok(first not in m.early and later[2] not in m.early, f"{who}: cancelled calls are not answered")


def try_identity(tap, who):
    with coffer_as(who) as c:
        fill(c)
        before = tree(c.work)
        with Client(c, *options(who), "-C", c.work) as m:
            r = m.initialize()
            tap.eq(r["protocolVersion"], "2025-06-18", f"{who}: initialize agrees on revision 2025-06-18", r)
            try_exec(tap, m, who)
            try_flood(tap, m, who)
            try_files(tap, m, who, c)
            try_escapes(tap, m, who, c)
            try_points(tap, m, who, c)
            try_access(tap, m, who, c)
            try_calls(tap, m, who)
            tap.eq(m.end(), 0, f"{who}: coffer mcp exits with 0 at the end of its input")
            tap.eq(m.stray, [], f"{who}: stdout has nothing but protocol messages")
            run = json.loads(c("ps", "-a", "--json").out.splitlines()[0])
        tap.eq(tree(c.work), before, f"{who}: the original workspace is unchanged after the session")
        c.check_clean(tap)
        r = c("diff", "@last")
        tap.like(r.out, r"(?m)^A keep/one$", f"{who}: coffer diff shows the layer of an ended session", r)
        r = c("discard", "@last")
        tap.eq(r.code, 0, f"{who}: coffer discard removes the layer of a session", r, run)
        r = c("audit", "verify")
        tap.eq(r.code, 0, f"{who}: the log verifies", r)


def short(tap, who):
    """A session with commands. Files, checkpoints, questions and the ways to end are the server's own, which is outside."""
    with coffer_as(who) as c:
        fill(c)
        before = tree(c.work)
        with Client(c, *options(who), "-C", c.work) as m:
            m.initialize()
            try_exec(tap, m, who)
            tap.eq(m.end(), 0, f"{who}: a session ends with its input")
        tap.eq(tree(c.work), before, f"{who}: the original workspace is unchanged after a short session")
        c.check_clean(tap)


def try_ends(tap, who):
    """However a session ends, nothing runs on."""
    for how in ("eof", "term", "kill"):
        for keep in ([], ["--discard"]):
            with coffer_as(who) as c:
                c.write("a.txt", "a\n")
                with Client(c, *options(who), "-C", c.work, *keep) as m:
                    m.initialize()
                    m.call("exec", command="echo x > x")
                    m.begin_call("exec", command="echo started; exec sleep 1000", _meta={"progressToken": 1})
                    m.wait_note()
                    label = f"{who}: {how} {' '.join(keep)}"
                    if how == "eof":
                        tap.eq(m.end(), 0, f"{label}: coffer mcp ends while a call runs")
                    else:
                        # Also with unshare: it executes coffer, so it is the same process.
                        os.kill(m.p.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
                        tap.eq(m.wait(), 0 if how == "term" else -signal.SIGKILL, f"{label}: coffer mcp ends while a call runs")
                c.check_clean(tap)
                end = time.monotonic() + 60
                while keep and time.monotonic() < end and os.listdir(os.path.join(c.state, "runs")):
                    time.sleep(0.05)
                left = os.listdir(os.path.join(c.state, "runs"))
                tap.eq(len(left), 0 if keep else 1, f"{label}: the layer is {'wiped' if keep else 'kept'}", left)
                if not keep:
                    r = c("diff", "@last")
                    tap.eq(r.out, "A x\n", f"{label}: the kept layer has what the session wrote", r)


def try_empty(tap, who):
    with coffer_as(who) as c:
        with Client(c, *options(who), "--ephemeral", "--name", "box") as m:
            m.initialize()
            m.call("exec", command="echo x > x; mkdir d")
            r = m.call("exec", command="ls")
            tap.eq(r.data["stdout"], "d\nx\n", f"{who}: an empty workspace lasts as long as the session", r)
            r = m.call("diff")
            tap.ok(r.data and r.data["changes"] == 2, f"{who}: diff shows the changes in an ephemeral workspace", r)
            m.call("rollback", id="c1")
            r = m.call("exec", command="ls | wc -l")
            tap.eq(r.data["stdout"].strip(), "0", f"{who}: rollback empties an ephemeral workspace again", r)
            tap.like(c("ps", "-a").out, r"box", f"{who}: --name is the session's name in coffer ps")
            tap.eq(m.end(), 0, f"{who}: a session with --ephemeral exits with 0")
        tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: a session with --ephemeral leaves no run directory")
        c.check_clean(tap)
        r = c("mcp", "-C", f"{c.work}:rw", *options(who), input="")
        tap.ok(r.code == 2 and "under a layer" in r.err and not r.out, f"{who}: coffer mcp refuses a workspace without a layer", r)
        r = c("mcp", "--allow", "*", *options(who), input="")
        tap.ok(r.code == 2 and not r.out, f"{who}: coffer mcp refuses a wrong --allow before it serves", r)


def main():
    tap = Tap()
    for who, whole in covering(tap):
        if whole:
            try_identity(tap, who)
            try_ends(tap, who)
            try_empty(tap, who)
        else:
            short(tap, who)
    tap.done()


if __name__ == "__main__":
    main()
