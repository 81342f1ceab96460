#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers that keep releases apart (doc/adr/0034): the format of the state, the schema of gateway.db, the protocol of a
running sandbox. A file of a newer release is refused with words and left as it is; one of an older release is brought
forward, whole or not at all."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import BUILD, Tap, coffer_as, identities, slow_build  # noqa: E402

# Every verb that opens the state, as far as it comes before it would ask for more.
VERBS = [("run", "--", "true"), ("run", "-d", "--", "true"), ("call", "--", "true"), ("mcp",), ("ps", "-a"), ("stats", "box"), ("inspect", "box"),
         ("logs", "box"), ("exec", "box", "--", "true"), ("cp", "box:/etc/hostname", "."), ("stop", "box"), ("start", "box"), ("wait", "box"),
         ("rm", "box"), ("prune", "--yes"), ("diff", "box"), ("apply", "-y", "box"), ("discard", "box"), ("checkpoint", "box"),
         ("checkpoint", "gc"), ("rollback", "box"), ("fork", "--name", "fork", "box"), ("ask", "ls"), ("ask", "new", "--sandbox", "box", "x?"), ("approve", "abcdef-1"),
         ("deny", "abcdef-1"), ("secret", "ls"), ("secret", "set", "x", "-"), ("audit",), ("audit", "verify"), ("image", "ls"), ("token", "ls"),
         ("gateway", "start"), ("gateway", "status"), ("gateway", "run"), ("pool", "show"), ("net", "log"), ("why", "box"), ("ui",)]
# The first schema of gateway.db as it was released.
SCHEMA_1 = """
CREATE TABLE sandbox (id TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 12), name TEXT NOT NULL, policy TEXT NOT NULL,
 state TEXT NOT NULL CHECK (state IN ('up', 'wait', 'starting', 'over')), tries INTEGER NOT NULL DEFAULT 0, restarts INTEGER NOT NULL DEFAULT 0,
 since INTEGER NOT NULL, next_at INTEGER NOT NULL DEFAULT 0, boot TEXT NOT NULL, exit_code INTEGER NOT NULL DEFAULT 0,
 cause TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '', start BLOB) STRICT;
CREATE TABLE history (seq INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
 at INTEGER NOT NULL, kind TEXT NOT NULL, exit_code INTEGER NOT NULL DEFAULT 0, cause TEXT, wait INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX history_of ON history (sandbox, seq);
INSERT INTO sandbox (id, name, policy, state, restarts, since, boot) VALUES ('0123456789ab', 'old', 'always', 'over', 7, 5, 'b');
PRAGMA user_version = 1;
"""


def tool(c, name):
    """A program of the tests, where the identity can reach it."""
    path = os.path.join(c.bin, name)
    if not os.path.exists(path):
        shutil.copy(os.path.join(BUILD, "tests", name), path)
    return path


def tree(top):
    """{path: a digest of what is there}"""
    got = {}
    for base, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(base, name)
            data = os.readlink(path).encode() if os.path.islink(path) else b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    data = f.read()
            st = os.lstat(path)
            got[os.path.relpath(path, top)] = (st.st_mode, st.st_mtime_ns, hashlib.sha256(data).hexdigest())
    return got


def mark(c, text=None):
    """Reads or writes the mark of the state's format."""
    path = os.path.join(c.state, "format")
    if text is None:
        with open(path, encoding="ascii") as f:
            return f.read()
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    c.own(path)
    return text


def newer_state(tap, c):
    who = c.who
    tap.eq(c("run", "--name", "box", "--", "sh", "-c", "echo x > x.txt").code, 0, f"{who}: control: a run with a change is kept")
    now = int(mark(c))
    mark(c, f"{now + 1}\n")
    before = tree(c.state)
    words = rf"written by a newer coffer \(format {now + 1}, this one knows {now}\)"
    for argv in VERBS:
        r = c(*argv, input="")
        said = " ".join((r.out + r.err).split())
        tap.ok(r.code not in (0, None) and re.search(words, said) and "install that version again" in said and "COFFER_STATE" in said,
               f"{who}: coffer {' '.join(argv)} refuses the state of a newer release, and says what to do", r)
    tap.eq(tree(c.state), before, f"{who}: a state of a newer release is left as it is")
    r = c("run", "--rm", "--", "true", env={"COFFER_STATE": c.state + "-other"})
    tap.eq(r.code, 0, f"{who}: another COFFER_STATE is used, as the message says", r)
    mark(c, "three\n")
    r = c("ps", "-a")
    tap.ok(r.code == 125 and "does not name the format" in r.err, f"{who}: a format mark that is not a number is refused", r)
    mark(c, f"{now}\n")
    r = c("diff", "box")
    tap.ok(r.code == 0 and "x.txt" in r.out, f"{who}: control: the state opens with its own mark", r)


def older_state(tap, c):
    """Killed at each step, the mark is there or not, never in part."""
    who, path = c.who, os.path.join(c.state, "format")
    now, steps = mark(c), 0
    for n in range(1, 40):
        os.unlink(path)
        r = c(program=[tool(c, "killat"), str(n), c.exe, "ps", "-a"])
        steps = n
        left = mark(c) if os.path.exists(path) else None
        if left not in (None, now) or r.code not in (0, 137) or c("ps", "-a").code != 0 or mark(c) != now:
            tap.ok(False, f"{who}: after a kill at step {n} the mark is the old one or the new one", left, r)
        if r.code == 0:
            break
    tap.ok(2 < steps < 40, f"{who}: each of {steps - 1} kills during the marking of an older state leaves a state that opens")
    tap.ok([x for x in os.listdir(c.state) if x.startswith(".format")] != [] or steps < 4, f"{who}: control: some kills left a temporary mark",
           os.listdir(c.state))


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchone()[0]


def schema(path):
    return query(path, "PRAGMA user_version")


def new_database(c, path):
    for suffix in ("", "-wal", "-shm", ".copy", ".v1"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA_1)
    os.chmod(path, 0o600)
    c.own(path)


def migration_killed(tap, c):
    who, path = c.who, os.path.join(c.state, "gateway.db")
    found, bad, steps, copies = set(), [], 0, 0
    for n in range(1, 400):
        new_database(c, path)
        r = c(program=[tool(c, "killat"), str(n), tool(c, "dbopen")])
        steps = n
        # Looked at in a copy, so that the next program finds what the killed one left.
        copy = os.path.join(c.dir, "looked-at")
        os.mkdir(copy)
        for name in os.listdir(c.state):
            if name.startswith("gateway.db") and not name.endswith("-shm"):
                shutil.copy(os.path.join(c.state, name), copy)
        looked = os.path.join(copy, "gateway.db")
        with contextlib.closing(sqlite3.connect(looked)) as db:
            version, rows = db.execute("PRAGMA user_version").fetchone()[0], db.execute("SELECT restarts FROM sandbox").fetchall()
            tables = {x[0] for x in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if rows != [(7,)] or ({"gateway", "credential"} & tables) != (set() if version == 1 else {"gateway", "credential"}):
            bad.append((n, version, rows, sorted(tables)))
        found.add(version)
        if os.path.exists(looked + ".v1"):
            copies += 1
            if schema(looked + ".v1") != 1 or query(looked + ".v1", "SELECT restarts FROM sandbox") != 7:
                bad.append((n, "the copy"))
        elif version != 1:
            bad.append((n, "no copy"))
        shutil.rmtree(copy)
        again = c(program=[tool(c, "dbopen")])
        if again.code != 0 or schema(path) != 3:
            bad.append((n, again))
        if r.code == 0:
            break
    tap.eq(bad, [], f"{who}: each of {steps - 1} kills during a migration leaves a whole database of the old or new schema")
    tap.ok(found == {1, 3} and 10 < steps < 400 and 0 < copies < steps, f"{who}: control: kills hit before and after the migration", found, steps, copies)


def database(tap, c):
    who, path = c.who, os.path.join(c.state, "gateway.db")
    new_database(c, path)
    tap.eq(c("gateway", "start").code, 0, f"{who}: cofferd starts over an older database")
    r = c("gateway", "status")
    tap.ok("brought forward from schema 1" in r.out and "gateway.db.v1" in r.out, f"{who}: gateway status reports the migration and the place of the old database", r)
    log = [json.loads(x) for x in c("audit", "--json", "--type", "gateway.database").out.splitlines()]
    tap.ok(any("gateway.db.v1" in e.get("why", "") for e in log), f"{who}: the log has the migration and the place of the old database", log)
    tap.eq(c("gateway", "stop").code, 0, f"{who}: gateway stop stops cofferd")
    tap.ok(schema(path) == 3 and schema(path + ".v1") == 1 and os.stat(path + ".v1").st_mode & 0o777 == 0o600, f"{who}: the migrated database and its old copy exist")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA journal_mode = DELETE; PRAGMA user_version = 4;")
    before = tree(c.state)["gateway.db"]
    c.own(path)
    r = c("gateway", "start")
    said = r.err + c("gateway", "status").out
    tap.ok("schema 4" in said and "newer" in said, f"{who}: cofferd reports a database of a newer release", r, said)
    c("gateway", "stop")
    tap.eq(tree(c.state)["gateway.db"], before, f"{who}: a database of a newer release is left as it is")
    tap.eq(c("ps", "-a").code, 0, f"{who}: coffer ps works with a database of a newer release")


def protocol(tap, c):
    """A running sandbox of another release, as its meta.json tells."""
    who = c.who
    run = c("run", "-d", "--name", "live", "--", "sh", "-c", "echo out; echo y > y.txt; exec sleep 1000").out.strip()
    path = os.path.join(c.state, "runs", run, "meta.json")
    with open(path, encoding="utf-8") as f:
        m = json.load(f)
    now = m["protocol"]

    def set_protocol(n):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({k: v for k, v in {**m, "protocol": n}.items() if v is not None or k != "protocol"}, f)
        c.own(path)

    tap.eq(c("checkpoint", "live").code, 0, f"{who}: control: the sandbox gets a checkpoint")
    set_protocol(None)
    r = c("exec", "live", "--", "echo", "hello")
    tap.ok(r.code == 0 and r.out == "hello\n", f"{who}: exec works in a sandbox without a protocol number", r)
    set_protocol(now + 1)
    for argv in (("exec", "live", "--", "true"), ("cp", "live:/etc/hostname", c.tmp), ("checkpoint", "live"), ("rollback", "live", "c1"),
                 ("ask", "new", "--sandbox", "live", "--ask-timeout", "1s", "x?")):
        r = c(*argv)
        tap.ok(r.code != 0 and f"started by a newer coffer (protocol {now + 1}, this one knows {now})" in r.err and "coffer stop" in r.err,
               f"{who}: coffer {argv[0]} is refused for a sandbox of a newer release, and says what to do", r)
    r = c("ps", "--json")
    tap.ok([x["name"] for x in json.loads(r.out)] == ["live"], f"{who}: a sandbox of a newer release is listed", r)
    tap.ok(c("logs", "live").out == "out\n" and "y.txt" in c("diff", "live").out and json.loads(c("inspect", "live").out), f"{who}: logs, diff and inspect read a sandbox of a newer release")
    r = c("stop", "-t", "0", "live")
    tap.ok(r.code == 0 and json.loads(c("ps", "--json").out) == [], f"{who}: coffer stop stops a sandbox of a newer release", r)
    r = c("start", "live")
    with open(path, encoding="utf-8") as f:
        tap.ok(r.code == 0 and json.load(f)["protocol"] == now and c("exec", "live", "--", "true").code == 0,
               f"{who}: coffer start makes it a sandbox of this release", r)
    tap.eq(c("rm", "-f", "live").code, 0, f"{who}: rm -f removes the sandbox")


def helpers(tap, c):
    """The programs of a sandbox's network are those that were installed when it began, also when its first packet comes later."""
    who, egress = c.who, os.path.join(c.bin, "coffer-egress")
    ask = ("curl", "-sS", "--max-time", "20", "http://coffer.internal/")
    c("run", "-d", "--name", "before", "--allow", "api.example.com", "--", "sleep", "1000")
    time.sleep(2 * slow_build())
    os.rename(egress, egress + ".old")
    shutil.copy("/bin/false", egress)
    c("run", "-d", "--name", "after", "--allow", "api.example.com", "--", "sleep", "1000")
    r = c("exec", "before", "--", *ask)
    tap.ok(r.code == 0 and r.out.startswith("{"), f"{who}: a running sandbox starts the coffer-egress that was installed at its start", r)
    r = c("exec", "after", "--", *ask)
    tap.ok(r.code != 0, f"{who}: control: a later sandbox starts the replaced coffer-egress", r)
    os.rename(egress + ".old", egress)
    tap.eq(c("rm", "-f", "before", "after").code, 0, f"{who}: rm -f removes both sandboxes")


def main():
    tap = Tap()
    for who in identities(tap):
        with coffer_as(who) as c:
            newer_state(tap, c)
            older_state(tap, c)
            protocol(tap, c)
            helpers(tap, c)
            database(tap, c)
            if who != "userns":
                migration_killed(tap, c)
            c.check_clean(tap)
    tap.done()


if __name__ == "__main__":
    main()
