#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=900
"""The effect of a secret's dates: cofferd has due ones rotated, and reports failures and expiries. A command that hangs: cli/hang."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, descendants, kill_own, slow_build  # noqa: E402

tap = Tap()
TOLD = "told"


def wait_for(what, patience=60.0):
    end = time.monotonic() + patience * slow_build()
    while True:
        got = what()
        if got or time.monotonic() > end:
            return got
        time.sleep(0.05)


def events(c, kind):
    return [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] == kind]


def status(c):
    return json.loads(c("gateway", "status", "--json").out or "{}")


def schedule(c):
    try:
        with open(os.path.join(c.state, "vault", "schedule"), encoding="ascii") as f:
            return f.read()
    except FileNotFoundError:
        return None


def lines(path):
    try:
        with open(path, encoding="ascii") as f:
            return len(f.readlines())
    except FileNotFoundError:
        return 0


def named(pid, name):
    return [p for p, text in descendants(pid) if text.endswith(name) and text[0] != "Z"]


def check_due(c, who):
    count = os.path.join(c.work, "count")
    command = f"echo x >> {count}; wc -l < {count} | xargs printf 'rotation number %020d'"
    c("secret", "set", "plain", "-", input="a value without any dates")
    tap.eq(schedule(c), None, f"{who}: a secret without dates makes no schedule")
    r = c("secret", "set", "often", "--command", command, "--every", "1s")
    tap.ok(r.code == 0 and lines(count) == 1, f"{who}: a secret is set from a command with --every 1s", r)
    text = schedule(c) or ""
    tap.like(text, r"\Aoften \d+ 0\n\Z", f"{who}: the schedule has name and date of a secret, and nothing else")
    tap.ok(text and os.stat(os.path.join(c.state, "vault", "schedule")).st_mode & 0o777 == 0o600, f"{who}: the schedule can be read by its owner alone")
    time.sleep(2)
    tap.eq(lines(count), 1, f"{who}: without cofferd no due secret is rotated")
    c("gateway", "start")
    tap.ok(wait_for(lambda: lines(count) >= 4), f"{who}: cofferd rotates a due secret again and again", status(c))
    tap.ok(wait_for(lambda: len(events(c, "secret.rotate")) >= 3), f"{who}: each rotation is in the log")
    tap.like(c("gateway", "status").out, r"rotation of secrets: (next on|under way, due since) \d{4}-", f"{who}: gateway status has the next rotation")
    c("secret", "change", "often", "--every", "never")
    tap.eq(schedule(c), None, f"{who}: a secret that is never due leaves no schedule")
    n = lines(count)
    time.sleep(3)
    tap.ok(lines(count) == n and not named(os.getpid(), "coffer-vault"), f"{who}: without a due secret cofferd starts no command and no vault", lines(count), n)


def check_failure(c, who):
    place = os.path.join(c.home, ".config", "cofferdam")
    os.makedirs(place, exist_ok=True)
    for d in (os.path.dirname(place), place):
        c.own(d)
    told = os.path.join(c.home, TOLD)
    if who == "user":
        c.write(os.path.join(place, "notify.yaml"),
                "version: 1\nnotify:\n- " + json.dumps({"command": ["sh", "-c", f"cat >> {told}"]}) + "\n", 0o600)
    flag = os.path.join(c.work, "flag")
    c("secret", "set", "breaks", "--every", "1s", "--command", f"test ! -e {flag} || exit 3; echo a value of the first time")
    c.write(flag)
    found = wait_for(lambda: events(c, "secret.rotate.failed"))
    tap.ok(found and found[0]["secret"] == "breaks" and "exit code 3" in found[0]["why"],
           f"{who}: a rotation that fails is in the log, by name and reason", found)
    tap.ok(wait_for(lambda: status(c).get("helpers")), f"{who}: gateway status --json has a failed rotation", status(c))
    tap.like(c("gateway", "status").out, "coffer secret rotate died 1 time:", f"{who}: gateway status reports a failed rotation")
    time.sleep(3)
    tap.eq(len(events(c, "secret.rotate.failed")), 1, f"{who}: a rotation that failed is not tried again at once")
    if who == "user":
        tap.ok(wait_for(lambda: lines(told)), f"{who}: people are told of a rotation that failed")
        with open(told, encoding="utf-8") as f:
            got = json.loads(f.readline())
        tap.ok(got["type"] == "secret.rotate.failed" and "breaks: the command failed" in got["lines"][0],
               f"{who}: people are told which rotation failed, and why", got)
    os.unlink(flag)
    c("gateway", "reload")
    tap.ok(wait_for(lambda: any(e["secret"] == "breaks" for e in events(c, "secret.rotate"))), f"{who}: a failed rotation is retried after gateway reload")
    c("secret", "rm", "breaks")


def check_expiring(c, who):
    c("secret", "set", "ends", "-", "--expires", "3d", input="a value that ends in three days")
    c("secret", "set", "lasts", "-", "--expires", "300d", input="a value that ends in a year or so")
    found = wait_for(lambda: events(c, "secret.expiring"))
    tap.ok(found and [e["secret"] for e in found] == ["ends"], f"{who}: a secret that expires soon is in the log", found)
    tap.like(c("gateway", "status").out, r"the secret 'ends' expires on \d{4}-\d\d-\d\d", f"{who}: a secret that expires soon is in the status")
    tap.unlike(c("gateway", "status").out, "lasts", f"{who}: a secret that expires in a year is not in the status")
    c("gateway", "stop")
    c("gateway", "start")
    wait_for(lambda: status(c).get("expiring"))
    time.sleep(1)
    tap.eq(len(events(c, "secret.expiring")), 1, f"{who}: a secret that expires soon is logged once a day, also by a new cofferd")
    c("secret", "rm", "ends", "lasts")


def check_passphrase(c, who):
    def typed(*args):
        read, write = os.pipe()
        os.write(write, b"a passphrase of some length")
        os.close(write)
        p = c.popen(*args, "--passphrase-fd", str(read), pass_fds=(read,))
        os.close(read)
        out, err = p.communicate(timeout=300 * slow_build())
        return p.returncode, (out + err).decode()
    c("secret", "set", "often", "--command", "echo a value for a vault with a passphrase", "--every", "1s", "--replace")
    c("gateway", "stop")
    tap.eq(typed("secret", "rekey")[0], 0, f"{who}: control: the vault gets a passphrase")
    time.sleep(1.5)
    c("gateway", "start")
    tap.ok(wait_for(lambda: status(c).get("rotation", {}).get("locked")), f"{who}: a locked vault is not rotated")
    tap.like(c("gateway", "status").out, "passphrase: coffer secret rotate --due", f"{who}: the status says that a vault with a passphrase is not rotated")
    time.sleep(2)
    found = [e for e in events(c, "secret.rotate.failed") if "passphrase" in e["why"]]
    tap.eq(len(found), 1, f"{who}: the log says once that a vault with a passphrase is not rotated", found)
    code, text = typed("secret", "rotate", "--due")
    tap.ok(code == 0 and "often has a new value" in text, f"{who}: secret rotate --due rotates a vault whose passphrase is given", text)


def check_waiting(c, who):
    """The holder of the vault is named; and nobody holds it for the time of a command."""
    said = os.path.join(c.tmp, "said")
    with open(os.path.join(c.state, "vault", "lock"), "rb") as f, open(said, "wb") as err:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = c.popen("secret", "set", "waits", "-", stdin=subprocess.PIPE, stderr=err)
        p.stdin.write(b"a value that has to wait")
        p.stdin.close()
        wait_for(lambda: lines(said), 10)
    with open(said, encoding="utf-8") as f:
        tap.like(f.read(), "waiting for another coffer secret", f"{who}: secret set says that it waits for another coffer secret")
    tap.eq(p.wait(timeout=60 * slow_build()), 0, f"{who}: secret set continues when the vault is free")
    flag = os.path.join(c.work, "flag")
    p = c.popen("secret", "set", "slow", "--command", f"while ! test -e {flag}; do sleep 0.1; done; echo the slow one is done now")
    tap.ok(wait_for(lambda: named(p.pid, "sleep")), f"{who}: control: the command of a secret runs")
    r = c("secret", "set", "quick", "-", input="a value that came between")
    tap.ok(r.code == 0 and r.seconds < 30 * slow_build() and "waiting" not in r.err, f"{who}: another secret is set while a command makes one", r)
    c.write(flag)
    err = p.communicate(timeout=120 * slow_build())[1].decode()
    got = {s["name"] for s in json.loads(c("secret", "ls", "--json").out)}
    tap.ok(p.returncode == 0 and {"slow", "quick"} <= got, f"{who}: the vault has both the slow and the quick secret", err, got)
    tap.unlike(c("secret", "ls").err, "older one", f"{who}: secret ls does not warn about an older vault file after both were set")
    os.unlink(flag)
    first = c.popen("secret", "rotate", "slow", "--command", f"while ! test -e {flag}; do sleep 0.1; done; echo what the first has made")
    wait_for(lambda: named(first.pid, "sleep"))
    with open(said, "wb") as err:
        second = c.popen("secret", "rotate", "slow", "--command", "echo what the second has made", stderr=err)
        wait_for(lambda: lines(said), 10)
    tap.ok(second.poll() is None and lines(said) == 1, f"{who}: a second rotation of a secret waits for the first, and says so")
    c.write(flag)
    codes = first.wait(60 * slow_build()), second.wait(60 * slow_build())
    first.communicate()
    c.write("made", "what the second has made\n")
    r = c("secret", "check", "made")
    tap.ok(codes == (0, 0) and ", 1 credential found" in r.err, f"{who}: the value of the later rotation is kept", codes, r)
    for path in (flag, said, os.path.join(c.work, "made")):
        os.unlink(path)


def check_loud(c, who):
    r = c("secret", "set", "loud", "--command", "yes", timeout=60)
    tap.ok(r.code not in (0, None) and "more than 64 KiB" in r.err, f"{who}: the command of a secret that prints without end is killed", r)
    r = c("secret", "set", "whole", "--command", "head -c 65536 /dev/zero | tr '\\0' x; echo", timeout=60)
    tap.eq(r.code, 0, f"{who}: the command of a secret may print 64 KiB", r)
    # It has the pipe of the value, and is in no group that could be killed.
    r = c("secret", "set", "left", "--command", "setsid sleep 1000 2>/dev/null & sleep 0.5; echo the value of who leaves something",
          timeout=60)
    tap.ok(r.code == 0 and r.seconds < 30 * slow_build() and named(os.getpid(), "sleep"),
           f"{who}: secret set does not wait for a process that its command leaves", r)
    for pid in named(os.getpid(), "sleep"):
        kill_own(pid, signal.SIGKILL)
    c("secret", "rm", "whole", "left")


def story(who, whole):
    """In short: due secrets are rotated. The rest is cofferd's own, and whole for a user, whose notify.yaml is in his home."""
    with coffer_as(who) as c:
        check_due(c, who)
        if whole:
            check_failure(c, who)
            check_expiring(c, who)
            c("gateway", "stop")
            check_loud(c, who)
            check_waiting(c, who)
            check_passphrase(c, who)
        c("gateway", "stop")
        c.check_clean(tap)


def main():
    for who, whole in covering(tap, ("ns",), on_ns="user"):
        story(who, whole)
    tap.done()


main()
