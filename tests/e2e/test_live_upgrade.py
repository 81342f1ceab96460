#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=2400
"""Sandboxes that run on while another release is installed (doc/adr/0034): started by the programs of the release before, used by the present
ones. Builds that release from git, so it is part of make test-full only (COFFER_FULL=1). COFFER_OLD_BUILD names a build directory of it that is
there already; COFFER_OLD_CACHE the directory where one is made (default: below the home's cache)."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, end, wait_for  # noqa: E402
from coffertest import BUILD, ROOT, Tap, coffer_as, identities  # noqa: E402
from fixture import releases  # noqa: E402
from mcpclient import Client  # noqa: E402

PROGRAMS = ("coffer", "coffer-init", "coffer-unpack", "coffer-egress", "coffer-dial", "coffer-netd", "coffer-vault", "coffer-courier",
            "coffer-web", "cofferd")
SECRET = "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"
OLDER = "started by an older coffer: restart it"


def must_run(*argv, **kw):
    p = subprocess.run(argv, capture_output=True, text=True, check=False, **kw)
    if p.returncode:
        raise RuntimeError(f"{argv}: {p.stdout[-2000:]}{p.stderr[-2000:]}")
    return p.stdout


def old_build(revision):
    """The build directory of a release; it is built where it is not there yet."""
    named = os.environ.get("COFFER_OLD_BUILD")
    if named:
        return named
    cache = os.environ.get("COFFER_OLD_CACHE", os.path.join(os.path.expanduser("~"), ".cache", "cofferdam-tests"))
    top = os.path.join(cache, revision)
    build = os.path.join(top, "build")
    if not os.path.exists(os.path.join(build, "whole")):
        shutil.rmtree(top, ignore_errors=True)
        os.makedirs(top)
        source = subprocess.Popen(["git", "-C", ROOT, "archive", revision], stdout=subprocess.PIPE)
        must_run("tar", "-x", "-C", top, stdin=source.stdout)
        source.stdout.close()
        if source.wait():
            raise RuntimeError(f"git archive {revision}")
        must_run("meson", "setup", build, top)
        # A release has the programs of its time.
        must_run("ninja", "-C", build, *(p for p in PROGRAMS if os.path.exists(os.path.join(top, "src/bin", p + ".c"))))
        with open(os.path.join(build, "whole"), "w", encoding="ascii"):
            pass
    return build


def install(c, build):
    """As make install does: a new file takes the place of the old one, which runs on where it runs."""
    for name in PROGRAMS:
        to = os.path.join(c.bin, name)
        if not os.path.exists(os.path.join(build, name)):
            continue
        shutil.copy(os.path.join(build, name), to + ".new")
        os.replace(to + ".new", to)


class Live:
    def __init__(self, tap, c, revision):
        self.tap, self.c = tap, c
        self.b = AskBox(tap, c)
        self.who = f"{c.who} over {revision}"

    def ok(self, good, name, *detail):
        return self.tap.ok(good, f"{self.who}: {name}", *detail)

    def works(self, name, *argv, **kw):
        """For what is promised."""
        r = self.c(*argv, **kw)
        self.ok(r.code == 0, name, r)
        return r

    def served(self, name, *argv, **kw):
        """For a request whose meaning may have changed: served, or refused with the words."""
        r = self.c(*argv, **kw)
        self.ok(r.code == 0 or OLDER in r.err, f"{name}, or the message says to restart it", r)
        return r

    def meta(self, name):
        with open(os.path.join(self.c.state, "runs", os.readlink(os.path.join(self.c.state, "names", name)), "meta.json"), encoding="utf-8") as f:
            return json.load(f)


def start_old(u):
    c = u.c
    u.works("the release before starts a sandbox", "run", "-d", "--name", "plain", "--", "sh", "-c", "echo a line; echo x > made.txt; exec sleep 1000")
    u.works("an old sandbox with an unused network starts", "run", "-d", "--name", "netty", "--allow", "api.example.com", "--", "sleep", "1000")
    u.works("an old sandbox with a restart policy starts", "run", "-d", "--name", "again", "--restart", "always", "--", "sh", "-c",
            "echo up >> ups.txt; exec sleep 1000")
    u.works("a secret is set with the old release", "secret", "set", "github", "-", "--host", "api.example.com", "--as", "bearer", input=SECRET)
    u.works("an old sandbox with a secret starts", "run", "-d", "--name", "keyed", "--secret", "github", "--", "sleep", "1000")
    p = c.popen("ask", "new", "--sandbox", "plain", "Upgrade?")
    u.b.pending()
    m = Client(c, "-C", c.work, "--engine", "ns", "--name", "session")
    m.initialize()
    u.ok(not m.call("write_file", path="s.txt", content="one\n").is_error, "an old session of coffer mcp writes a file")
    return p, m


def use(u, p, m):
    c = u.c
    r = c("ps", "--json")
    names = {x["name"] for x in json.loads(r.out)}
    u.ok({"plain", "netty", "again", "keyed"} <= names, "ps lists the sandboxes that the release before started", r)
    u.ok(u.works("logs reads an old sandbox", "logs", "plain").out == "a line\n", "logs prints the output of an old sandbox")
    u.ok("made.txt" in u.works("diff reads an old sandbox", "diff", "plain").out, "diff lists the changes of an old sandbox")
    u.works("inspect reads an old sandbox", "inspect", "plain")
    u.ok(u.works("exec runs a command in an old sandbox", "exec", "plain", "--", "sh", "-c", "cat made.txt; echo y > second.txt").out == "x\n", "exec sees the layer of an old sandbox")
    u.served("cp copies out of an old sandbox", "cp", "plain:/workspace/made.txt", c.home)
    u.served("cp copies into an old sandbox", "cp", os.path.join(c.work, "edit.txt"), "plain:/workspace/copied.txt")
    u.served("a checkpoint of an old sandbox is made", "checkpoint", "--label", "live", "plain")
    u.served("stats reads an old sandbox", "stats", "--no-stream", "plain")
    u.served("a call works on the layer of an old sandbox", "call", "--engine", "ns", "--from", "plain", "--workspace", "--", "cat", "made.txt")
    q = u.b.asks()
    if u.ok(q and q[0]["what"] == "Upgrade?", "a waiting ask of an old sandbox is listed", q):
        r = u.served("an ask of an old sandbox is approved", "approve", q[0]["id"])
        if r.code:
            p.kill()
        u.ok(end(p)[0] == (0 if r.code == 0 else -9), "the asker of an old sandbox gets its answer")
    r = u.works("the network of an old sandbox starts with its first packet", "exec", "netty", "--", "curl", "-sS", "--max-time", "30", "http://coffer.internal/")
    u.ok('"waiting"' in r.out or '"policy"' in r.out or r.out.startswith("{"), "coffer-egress serves an old sandbox", r)
    r = u.works("exec works in an old sandbox with a secret", "exec", "keyed", "--", "env")
    u.ok("GITHUB" in r.out and SECRET not in r.out, "an old sandbox has its placeholder", r)
    got = m.call("read_file", path="s.txt")
    u.ok(not got.is_error and "one" in got.text, "an old session reads a file", got)
    got = m.call("exec", command="echo two > s.txt && cat s.txt")
    u.ok(not got.is_error and "two" in got.text, "an old session runs a command with the installed programs", got)


def take_over(u):
    """cofferd of the release before, then the present one."""
    c = u.c
    r = u.works("the old cofferd answers gateway status", "gateway", "status", "--json")
    u.ok(r.code == 0 and json.loads(r.out).get("replaced") is True, "the old cofferd reports that coffer was replaced", r)
    u.works("gateway reload hands over to the new cofferd", "gateway", "reload")
    u.ok(wait_for(lambda: json.loads(c("gateway", "status", "--json").out or "{}").get("replaced") is False), "the new cofferd answers gateway status")
    names = lambda: {x["name"]: x for x in json.loads(c("gateway", "status", "--json").out or "{}").get("sandboxes", [])}  # noqa: E731
    u.ok(wait_for(lambda: names().get("again", {}).get("watched")), "the new cofferd watches an old kept sandbox", names())
    old = u.meta("again").get("protocol", 1)
    # Its launcher is killed: the guard of the release before clears up, and the new cofferd starts it again.
    os.kill(u.meta("again")["launcher"], 9)
    u.ok(wait_for(lambda: c("exec", "again", "--", "cat", "ups.txt").out == "up\nup\n"), "the new cofferd restarts an old kept sandbox", names())
    now = u.meta("again").get("protocol", 1)
    u.ok(now > old, "a restarted old sandbox has the present protocol", old, now)


def finish(u, m):
    c = u.c
    m.p.stdin.close()
    u.ok(m.p.wait(60) == 0, "an old session exits with 0")
    for name in ("plain", "netty", "keyed", "again"):
        u.works(f"{name} is stopped", "stop", "-t", "1", name)
    r = u.works("apply writes the changes of an old sandbox", "apply", "-y", "plain")
    u.ok(os.path.exists(os.path.join(c.work, "made.txt")) and os.path.exists(os.path.join(c.work, "second.txt")), "apply writes the files of the old and the new release", r)
    u.ok("s.txt" in u.works("diff lists an old session", "diff", "session").out, "diff has the file of an old session")
    u.works("rm removes the other sandboxes", "rm", "netty", "keyed", "again", "session")
    u.works("the log of both releases verifies", "audit", "verify")
    c("gateway", "stop")
    c.check_clean(u.tap)


def main():
    tap = Tap()
    if os.environ.get("COFFER_FULL") != "1":
        tap.note("part of make test-full: it builds the release before")
        tap.done()
    revision = releases()[-1][0]
    if not os.environ.get("COFFER_OLD_BUILD") and subprocess.run(["git", "-C", ROOT, "cat-file", "-e", revision + "^{commit}"],
                                                                 capture_output=True, check=False).returncode:
        tap.skip("live sandboxes of the release before", f"this tree has no history with commit {revision}")
        tap.done()
    build = old_build(revision)
    for who in identities(tap):
        with coffer_as(who) as c:
            c.write("edit.txt", "as it was\n")
            install(c, build)
            u = Live(tap, c, revision)
            p, m = start_old(u)
            tap.ok("protocol" not in u.meta("plain"), f"{u.who}: control: the sandboxes are of the old release", u.meta("plain"))
            install(c, BUILD)
            use(u, p, m)
            take_over(u)
            finish(u, m)
    tap.done()


if __name__ == "__main__":
    main()
