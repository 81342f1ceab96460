#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The state of every earlier release opens (doc/adr/0034): what its own programs said of it, the present ones say too, and each thing in it
can be used. tests/fixtures/README.md says what is in it. With COFFER_FULL=1 a fixture is made of the programs under test and opened, too: so
its builder works when the next release needs it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, end, wait_for  # noqa: E402
from coffertest import BUILD, Tap, identities  # noqa: E402
from fixture import FIXTURES, PLACE, PRESENT, archive_of, can_place, place, releases, unpack  # noqa: E402
from mcpclient import Client, Reply  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

CRASHED = ("asker", "restarted")  # their end is written by whoever opens the state first


class Upgrade:
    """The state of one release, opened by one identity with the present programs."""

    def __init__(self, tap, c, revision, about):
        self.tap, self.c, self.about = tap, c, about
        self.who = f"{c.who} over {revision}"
        self.b = AskBox(tap, c)
        with open(os.path.join(c.state, "audit", "log.jsonl"), "rb") as f:
            self.old_log = f.read()

    def ok(self, good, name, *detail):
        return self.tap.ok(good, f"{self.who}: {name}", *detail)

    def eq(self, got, wanted, name, *detail):
        return self.tap.eq(got, wanted, f"{self.who}: {name}", *detail)

    def same(self, name, what, *argv):
        """The present programs print the very text that the release's own printed."""
        r = self.c(*argv)
        return self.ok(r.code == 0 and r.out.strip() == self.about["said"][name], f"{what} as by the earlier release", r,
                       f"before: {self.about['said'][name]}")

    def run(self, name):
        return os.path.join(self.c.state, "runs", os.readlink(os.path.join(self.c.state, "names", name)))


def differs(old, new, skip=()):
    """Members that the old one has and the new one has not; more members are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [f"{k}: {d}" for k, v in old.items() if k not in skip for d in (differs(v, new[k], skip) if k in new else ["missing"])]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for a, b in zip(old, new) for d in differs(a, b, skip)]
    return [] if old == new else [f"{old!r} became {new!r}"]


def lists_runs(u):
    r = u.c("ps", "-a", "--json")
    new = {x["name"]: x for x in json.loads(r.out or "[]")}
    old = {x["name"]: x for x in json.loads(u.about["said"]["ps"])}
    u.eq(sorted(new), sorted(old), "ps -a lists every run", r)
    for name, x in old.items():
        # How much of the disk a run takes depends on the file system.
        got = differs(x, new.get(name, {}), ("size",) + (("ended",) if name in CRASHED else ()))
        u.eq(got, [], f"ps -a prints of {name} what the earlier release printed")
    r = u.c("inspect", "kept")
    u.eq(differs(json.loads(u.about["said"]["inspect"]), json.loads(r.out), ("size",)), [], "inspect prints what the earlier release printed", r)
    u.eq(len(json.loads(u.c("inspect", "kept", "points", "session", "imaged", "asker").out)), 5, "inspect opens each kind of run")


def reads(u):
    u.same("logs", "the output of a detached run is printed", "logs", "logged")
    u.same("diff", "the changes of a kept run are listed", "diff", "kept")
    u.same("diff_session", "the changes of a session are listed", "diff", "session")
    u.same("patch", "a patch is printed", "diff", "--patch", "applied")
    for name, argv in (("checkpoints", ("checkpoint", "ls", "points", "--json")),
                       ("session_checkpoints", ("checkpoint", "ls", "session", "--json")),
                       ("images", ("image", "ls", "--json")), ("tokens", ("token", "ls", "--json"))):
        r = u.c(*argv)
        u.ok(r.code == 0 and not differs(json.loads(u.about["said"][name]), json.loads(r.out)), f"{' '.join(argv[:2])} prints what the earlier release printed",
             r, u.about["said"][name])


def lists_asks(u):
    old = [json.loads(x) for x in u.about["said"]["asks"].splitlines()]
    new = {x["id"]: x for x in u.b.asks("--all")}
    u.ok(len(old) >= 4, "the fixture has asks (control)", old)
    for x in old:
        u.eq(differs(x, new.get(x["id"], {})), [], f"ask ls --all prints of the ask {x['what']} what the earlier release printed")
        u.ok(x["what"] in u.c("ask", "show", x["id"]).out, f"ask show shows the ask {x['what']}")
    u.eq(u.b.asks(), [], "no ask waits and no grant is in force for ended sandboxes")
    granted = [x for x in old if x["state"] == "lapsed"]
    u.eq(sorted(x["what"] for x in granted), ["Granted?", "write_file"], "the fixture has grants (control)")
    for x in granted:
        u.ok(u.c("deny", x["id"]).code == 125, f"the ended grant of {x['what']} cannot be taken back")
    # A new ask of the same sandbox: a number is not used twice.
    p = u.c.popen("ask", "new", "--sandbox", "asker", "After?")
    q = u.b.pending()
    u.ok(q and q[0]["number"] > 4, "a new ask of an old run has an unused number", q)
    u.eq(u.c("approve", q[0]["id"]).code if q else None, 0, "a new ask of an old run can be approved")
    u.eq(end(p)[0], 0, "the asker of a new ask gets the answer")


def uses_secrets(u, web):
    r = u.c("secret", "ls", "--json")
    u.ok(r.code == 0 and not differs(json.loads(u.about["said"]["secrets"]), json.loads(r.out)), "secret ls prints what the earlier release printed", r)
    path = u.c.put("looked-at/file.txt", f"token = {u.about['secret']}\n")
    r = u.c("secret", "check", path)
    u.ok(r.code == 1 and "github" in r.out + r.err, "an old vault opens with its key", r)
    u.c.put("looked-at/file.txt", "token = " + u.about["secret"][:-1] + "x\n")
    r = u.c("secret", "check", path)
    u.ok(r.code == 0 or "github" not in r.out + r.err, "control: secret check does not find another value", r)
    r = u.c("run", "--rm", "--secret", "github", "--", "env")
    placeholder = [x.split("=", 1)[1] for x in r.out.splitlines() if x.startswith("GITHUB")]
    u.ok(r.code == 0 and placeholder and u.about["secret"] not in r.out, "a sandbox is given a placeholder of the secret", r)
    n = len(web.requests)
    r = u.c("run", "--rm", "--secret", "github", "--allow", "api.example.com", "--", "sh", "-c",
            'curl -sS --max-time 60 -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.com/used')
    got = [x.headers.get("Authorization") for x in web.requests[n:]]
    u.ok(r.code == 0 and got == [f"Bearer {u.about['secret']}"], "the server that the secret is bound to gets the value itself", r, got)
    r = u.c("secret", "set", "added", "-", input="another-value-of-32-bytes-or-more")
    u.ok(r.code == 0 and len(json.loads(u.c("secret", "ls", "--json").out)) == 3, "a secret can be added to an old vault", r)


def settles_changes(u):
    c = u.c
    r = c("apply", "-y", "--force", "edit.txt", "--force", "gone-applied.txt", "applied")
    with open(os.path.join(c.work, "edit.txt"), encoding="utf-8") as f:
        text = f.read()
    u.ok(r.code == 0 and text == "as it was\napplied\n" and os.path.exists(os.path.join(c.work, "dir/applied.txt")) and
         not os.path.exists(os.path.join(c.work, "gone-applied.txt")), "apply writes the changes of an old run", r, text)
    r = c("discard", "discarded")
    u.ok(r.code == 0 and not os.path.exists(os.path.join(c.work, "dir/discarded.txt")) and
         os.path.exists(os.path.join(c.work, "gone-discarded.txt")) and c("diff", "discarded").code != 0, "discard removes the changes of an old run", r)


def rolls_back(u):
    c = u.c
    point = os.path.join(u.run("points"), "upper", "point.txt")
    with open(point, encoding="utf-8") as f:
        u.eq(f.read(), "three\n", "control: the run's file is newer than its checkpoints")
    r = c("rollback", "points", "c1")
    with open(os.path.join(u.run("points"), "upper", "point.txt"), encoding="utf-8") as f:
        text = f.read()
    u.ok(r.code == 0 and text == "one\n" and not os.path.exists(os.path.join(u.run("points"), "upper", "only-two.txt")),
         "rollback restores a checkpoint of an old run", r, text)
    r = c("start", "points")
    u.ok(r.code == 0 and c("exec", "points", "--", "cat", "point.txt").out == "one\n", "an old run can be started", r)
    r = c("checkpoint", "--label", "new", "points")
    u.ok(r.code == 0 and len(json.loads(c("checkpoint", "ls", "points", "--json").out)["checkpoints"]) >= 3, "an old run gets another checkpoint", r)
    u.eq(c("stop", "-t", "0", "points").code, 0, "an old run can be stopped")


def uses_images_and_homes(u):
    r = u.c("run", "--rm", "--image", "tiny:1", "--", "/bin/hello")
    u.ok(r.code == 0 and r.out == "from the image\n", "an old image can be run", r)
    r = u.c("run", "--rm", "--home", "agent", "--", "sh", "-c", "cat $HOME/kept.txt")
    u.ok(r.code == 0 and r.out == "kept\n", "an old home is mounted", r)


def keeps_going(u):
    """cofferd finds in gateway.db what it has to start again; the one that kept it was killed together with the sandbox."""
    c = u.c
    r = c("gateway", "start")
    u.eq(r.code, 0, "cofferd starts over the old database", r)
    kept = {}

    def is_up():
        kept.update({x["name"]: x for x in json.loads(c("gateway", "status", "--json").out).get("sandboxes", [])})
        return kept.get("restarted", {}).get("state") == "up" and "up\nup\n" in c("exec", "restarted", "--", "cat", "ups.txt").out

    u.ok(wait_for(is_up), "an old sandbox with a restart policy is restarted over its layer", kept)
    status = json.loads(c("gateway", "status", "--json").out)
    u.ok(status["database"]["starts"] >= 2 and status["database"]["crashes"] >= 1, "the old database counts starts and crashes of cofferd",
         status["database"])
    u.eq(c("stop", "-t", "0", "restarted").code, 0, "a restarted old sandbox can be stopped")
    time.sleep(0.5)
    u.ok("restarted" not in c("ps", "-q", "--no-trunc").out, "a stopped old sandbox is not restarted")


def session_goes_on(u):
    """The server of a session is gone with its machine; its layer, checkpoints and policy are not."""
    c = u.c
    r = c("call", "--engine", "ns", "--from", "session", "--workspace", "--", "cat", "from-session.txt")
    u.ok(r.code == 0 and r.out == "second\n", "a call works on the layer of an old session", r)
    r = c("rollback", "session", "c2")
    with open(os.path.join(u.run("session"), "upper", "from-session.txt"), encoding="utf-8") as f:
        u.eq((r.code, f.read()), (0, "first\n"), "an old session is rolled back to one of its calls", r)
    r = c("apply", "-y", "session")
    u.ok(r.code == 0 and os.path.exists(os.path.join(c.work, "from-session.txt")), "apply writes the changes of an old session", r)
    with Client(c, "-C", c.work, "--engine", "ns", "--policy", os.path.join(c.home, "tools.yaml")) as m:
        m.initialize()
        got = m.call("read_file", path="from-session.txt")
        u.ok(not got.is_error and "first" in got.text, "a new session reads the files of the old one", got)
        n = m.begin_call("write_file", path="from-session.txt", content="third\n")
        q = u.b.pending()
        u.ok(q and q[0]["what"] == "write_file", "a grant of the old session does not hold in the new one", q)
        u.eq(c("approve", q[0]["id"]).code, 0, "a call of the new session is approved")
        u.ok(not Reply(m.wait_for(n)).is_error, "an approved call of the new session runs")


def log_goes_on(u):
    """Last: everything before has appended to it."""
    c, path = u.c, os.path.join(u.c.state, "audit", "log.jsonl")
    r = c("audit", "verify", "--json")
    was, now = json.loads(u.about["said"]["verify"]), json.loads(r.out)
    u.ok(r.code == 0 and now["ok"] and now["first"] == 1 and now["log"] == was["log"] and now["key"] == was["key"], "the audit log verifies", r, was)
    with open(path, "rb") as f:
        text = f.read()
    lines = u.old_log.count(b"\n")
    u.ok(text.startswith(u.old_log) and now["events"] > lines, "new events are appended to the unchanged old log", now)
    run = os.path.basename(u.run("kept"))
    events = [json.loads(x)["type"] for x in c("audit", "--json", "--sandbox", run).out.splitlines()]
    u.ok(events[:1] == ["run.start"] and "run.end" in events, "the events of an old run are found", events)
    u.ok(len(c("audit", "--type", "ask").out.splitlines()) >= 8, "the events of a type are found in an old log")
    shutil.copy2(path, path + ".whole")
    with open(path, "r+b") as f:
        f.seek(len(u.old_log) // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(b"y" if byte == b"x" else b"x")
    r = c("audit", "verify")
    u.ok(r.code != 0, "control: the log does not verify with one old byte changed", r)
    os.replace(path + ".whole", path)
    u.c.own(path)
    u.eq(c("audit", "verify").code, 0, "the log verifies with the byte restored")


def removes(u):
    c = u.c
    gone = u.run("kept")
    r = c("rm", "kept")
    u.ok(r.code == 0 and not os.path.exists(gone), "rm removes an old run", r)
    r = c("image", "rm", "-f", "tiny:1")
    u.ok(r.code == 0 and json.loads(c("image", "ls", "--json").out) == [], "image rm removes an old image", r)
    r = c("rm", "-f", "restarted")
    u.eq(r.code, 0, "rm -f removes an old sandbox with a restart policy", r)
    u.eq(c("gateway", "stop").code, 0, "gateway stop stops cofferd")
    r = c("prune", "--yes")
    left = os.listdir(os.path.join(c.state, "runs"))
    u.ok(r.code == 0 and not left and json.loads(c("ps", "-a", "--json").out) == [], "prune removes all other old runs", r, left)
    r = c("checkpoint", "gc")
    objects = [f for base, _, files in os.walk(os.path.join(c.state, "objects")) for f in files if f != "lock"]
    u.ok(r.code == 0 and not objects, "checkpoint gc removes the content of old checkpoints", r, objects)
    u.ok(os.path.exists(os.path.join(c.state, "homes/agent/kept.txt")), "an old home stays after prune")


def opens(tap, who, revision, about, net, web, where=FIXTURES):
    with place(who, net.coffer) as c:
        unpack(archive_of(revision, who, where), c)
        u = Upgrade(tap, c, revision, about["root" if who == "root" else "user"])
        if revision == "9c25cbe":
            tap.ok(not os.path.exists(os.path.join(c.state, "format")), f"{u.who}: control: the fixture has no mark of its format")
        lists_runs(u)
        with open(os.path.join(c.state, "format"), encoding="ascii") as f:
            u.ok(f.read().strip().isdigit(), "the state has a mark of its format")
        reads(u)
        lists_asks(u)
        uses_secrets(u, web)
        settles_changes(u)
        rolls_back(u)
        uses_images_and_homes(u)
        keeps_going(u)
        session_goes_on(u)
        log_goes_on(u)
        removes(u)
        c.check_clean(tap)


def make_present(tap, to):
    """The fixture of the programs under test."""
    builder = os.path.join(FIXTURES, "build")
    p = subprocess.run([builder, "--build", BUILD, "--revision", PRESENT, "--to", to], capture_output=True, text=True, check=False)
    got = releases(to)
    tap.ok(p.returncode == 0 and [r for r, _ in got] == [PRESENT], "tests/fixtures/build makes a fixture of the programs under test", p.stdout, p.stderr)
    return got


def main():
    tap = Tap()
    found = releases()
    tap.ok(found and found[0][0] == "9c25cbe", "control: fixtures of earlier releases exist", found)
    missing = why_not() or (None if can_place() else f"a fixture is opened at one path, and only root can mount it on {PLACE}")
    if missing:
        tap.skip("state of earlier releases", missing)
        tap.done()
    with Internet() as net:
        web = net.https("api.example.com")
        for revision, about in found:
            # A user namespace has other ids than those that a state of the user's tells of: nobody upgrades into one.
            for who in [x for x in identities(tap) if x != "userns"]:
                opens(tap, who, revision, about, net, web)
        if os.environ.get("COFFER_FULL") == "1":
            with tempfile.TemporaryDirectory(prefix="coffertest-") as made:
                for revision, about in make_present(tap, made):
                    for who in ("root", "user"):
                        opens(tap, who, revision, about, net, web, made)
    tap.done()


if __name__ == "__main__":
    main()
