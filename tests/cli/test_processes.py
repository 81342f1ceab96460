#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""coffer doctor --processes: the table of ARCHITECTURE.md against the processes of a machine on which everything runs, no process that
reads hostile bytes without a seccomp filter but those that are listed here, and what another user sees of them."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ROOT, TEST_UID, Tap, covering, descendants, drop_to, sanitized  # noqa: E402
from mcpclient import Client  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from webtest import connection  # noqa: E402

# Those that read hostile bytes without a filter. A kind that gets one loses its line here, and ARCHITECTURE.md changes with it.
UNFENCED = {
    "guard",
    "cofferd",
    "mcp",
    "web-work",
    "notifier",
    "client",
    "runsc",  # not ours: its own processes, which run the sandbox, have filters
}
HEADER = "| kind | identity | capabilities | seccomp | no_new_privs | Landlock | hostile bytes |"
NOBODY = range(65531, 65534)
BLOCK = 65536  # a run of host root has a block of so many ids
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SANDBOX = """(exec -a $'\\e[31mcoffer-guard' sleep 1000) &
test ! -e coffer-egress || ./coffer-egress 1000 &
curl -sS -m 60 -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1; echo; read x; kill %1 %2 2>/dev/null; true"""
KEYS = {"kind", "pid", "parent", "run", "inside", "known_by", "visible", "program", "installed", "name", "argument", "verb", "uid",
        "capabilities", "seccomp", "no_new_privs", "landlock", "dumpable", "namespaces", "descriptors", "sockets", "writable", "may_open",
        "reads", "reads_hostile"}


def claims():
    """The rows of ARCHITECTURE.md's table, and the processes that its first table names."""
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as f:
        text = f.read()
    rows = {}
    for line in text[text.index(HEADER):].split("\n")[2:]:
        if not line.startswith("| "):
            break
        cells = [x.strip() for x in line.strip("|").split("|")]
        rows[cells[0]] = dict(zip(("identity", "caps", "seccomp", "privs", "landlock", "hostile"), cells[1:]))
    first = text[text.index("| process | what it is |"):text.index(HEADER)]
    named = [re.sub(r"^coffer-guard$", "guard", re.sub(r"^coffer$", "launcher", n)) for n in re.findall(r"^\| `([\w-]+)`", first, re.M)]
    return rows, named


def uid_is_wrong(c, claim, row):
    if c.who != "root":  # the subordinate ids of a run over a range are its own too
        own = claim == "run" and row["uid"] > BLOCK
        return row["uid"] != c.uid and not own
    if claim == "run":
        return row["uid"] < BLOCK
    return row["uid"] not in (NOBODY if claim == "nobody" else [0])


def caps_are_wrong(c, claim, row):
    inside = claim.endswith(" inside")
    must, may = [set(x.split()) - {"none"} for x in re.match(r"([\w ]*)(?:\(([\w ]*)\))?$", claim.removesuffix(" inside")).groups("")]
    effective, permitted = (set(row["capabilities"][k]) for k in ("effective", "permitted"))
    if c.who == "user" and not inside:
        must, may = set(), set()
    # Root of a user namespace has what the caller's namespace grants: no more than host root, and maybe less.
    if c.who == "userns" and must != {"all"}:
        must, may = set(), must | may
    if inside and "user" not in row["namespaces"]:
        return True
    if must == {"all"}:
        return len(effective) < 30
    return effective != permitted or not must <= effective <= must | may


def mismatches(c, rows, table):
    """What the program found that the document does not say, as text."""
    bad = []
    for row in rows:
        claim = table.get(row["kind"])
        if not claim:
            continue
        wrong = {"identity": uid_is_wrong(c, claim["identity"], row),
                 "capabilities": caps_are_wrong(c, claim["caps"], row),
                 "seccomp": not sanitized() and row["seccomp"] != {"none": 0, "filter": 2}[claim["seccomp"]],
                 "no_new_privs": row["no_new_privs"] != {"yes": True, "no": False, "host root": c.who == "root"}[claim["privs"]],
                 "Landlock": row["landlock"]["declared"] != claim["landlock"],
                 "hostile": row["reads_hostile"] != (claim["hostile"] == "yes")}
        bad += [f"{row['kind']} {row['pid']}: {what}: the document says {claim}, the program {json.dumps(row)}"
                for what, is_wrong in wrong.items() if is_wrong]
    return bad


def unfenced(rows, but):
    """The processes that read hostile bytes without a filter, except those of some kinds."""
    if sanitized():
        return []
    return [f"{r['kind']} {r['pid']}" for r in rows if r["reads_hostile"] and r["seccomp"] != 2 and r["kind"] not in but]


def doctor(c):
    """The rows of the processes below this test, as root sees them. For another identity the state directory stays out of it: it is not
    root's."""
    if c.who == "root":
        text = c("doctor", "--processes", "--json").out
    else:
        text = subprocess.run([c.exe, "doctor", "--processes", "--json"], env={**c.env(), "COFFER_STATE": os.path.join(c.dir, "none")},
                              stdout=subprocess.PIPE, check=True, timeout=180).stdout.decode()
    return own(json.loads(text))


def own(rows):
    below = {pid for pid, _ in descendants(os.getpid())}
    return [r for r in rows if r["pid"] in below]


def kinds(rows):
    return {r["kind"] for r in rows}


def archive(path):
    """A layer whose unpacking takes a while: many empty files."""
    with tarfile.open(path, "w") as t:
        for i in range(40000):
            info = tarfile.TarInfo(f"d{i % 100}/f{i}")
            t.addfile(info, io.BytesIO())


class Everything:
    """A run with network and a secret, a kept one, cofferd with a warm pool and the API, an MCP server, and a call of the gateway's own."""

    def __init__(self, c, stop):
        self.c, self.stop, self.parts = c, stop, contextlib.ExitStack()

    def start_run(self, tap):
        c = self.c
        r = c("secret", "set", "github", "-", "--host", "api.example.test/v1", "--as", "bearer", input=TOKEN)
        tap.eq(r.code, 0, f"{c.who}: a secret is put into the vault", r)
        with open(shutil.which("sleep"), "rb") as f:
            c.write("coffer-egress", f.read(), 0o755)
        tap.eq(c("gateway", "start").code, 0, f"{c.who}: cofferd starts")
        self.run = c.popen("run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "bash", "-c", SANDBOX,
                           stdin=subprocess.PIPE)
        self.parts.callback(self.end_run)
        tap.like(self.run.stdout.readline().decode(), "welcome", f"{c.who}: the request with a secret is answered")

    def end_run(self):
        self.run.stdin.close()
        self.run.stdout.read()
        self.run.wait()

    def start_more(self, tap):
        c = self.c
        r = c("run", "-d", "--engine", c.engine, "--restart", "always", "--name", "kept", "--", "sleep", "1000")
        tap.eq(r.code, 0, f"{c.who}: a kept sandbox starts", r)
        self.parts.callback(lambda: c("rm", "-f", "kept"))
        r = c("call", "--", "true")
        tap.eq(r.code, 0, f"{c.who}: a call begins the warm pool", r)
        self.parts.callback(lambda: c("pool", "stop"))
        self.mcp = self.parts.enter_context(contextlib.closing(Closing(Client(c, "-C", c.work))))
        self.mcp.client.initialize()
        if c.who != "userns":  # whose cofferd does not know this process: root outside is nobody there
            conn = connection(os.path.join(c.state, "api.sock"))
            self.parts.callback(conn.close)
            conn.request("GET", "/v1/events")
            tap.eq(conn.getresponse().status, 200, f"{c.who}: the API opens a stream of events")
        key = c.put("key", "a-key-of-some-length", 0o600)
        target = {"webhook": {"url": "https://mute.example.test/", "secret_file": key}, "timeout": "120s"}
        path = c.put("notify.yaml", f"version: 1\nnotify:\n- {json.dumps(target)}\n", 0o600)
        courier = c.popen("notify", "test", "--config", path, "--tries", "1")
        self.parts.callback(lambda: (self.stop.set(), courier.communicate()))

    def close(self):
        self.parts.close()
        self.c("gateway", "stop")


class Closing:
    def __init__(self, client):
        self.client = client

    def close(self):
        self.client.end()


def unpacking(c, found):
    """Adds the rows of coffer-unpack, which are there while it works."""
    path = os.path.join(c.dir, "many.tar")
    archive(path)
    c.own(path)
    p = c.popen("image", "import", "--name", "many", path)
    got = []

    def look():
        # Before its fence it reads nothing. The sanitizers' build has no filter.
        got[:] = [r for r in doctor(c) if r["kind"] == "coffer-unpack" and r["no_new_privs"] and (r["seccomp"] or sanitized())]
        return got or p.poll() is not None
    wait_for(look)
    p.communicate()
    found += got
    c("image", "rm", "many")


def check_shape(tap, c, rows):
    tap.eq([r for r in rows if set(r) != KEYS], [], f"{c.who}: every process has every key, and no other")
    tap.eq([r for r in rows if not r["visible"] or r["installed"] is not True and r["kind"] not in ("command", "runsc", "gvisor")], [],
           f"{c.who}: root sees the program of every process, which is of this installation")
    tap.eq([r for r in rows if r["landlock"]["visible"]], [], f"{c.who}: Landlock is never said to be visible")
    by = {r["kind"]: r for r in rows}
    egress, dial, daemon = by["coffer-egress"], by["coffer-dial"], by["cofferd"]
    # No process is in the network namespace of gVisor's wall, so no table has those sockets.
    tap.ok(egress["sockets"]["kinds"].get("tcp listening" if c.engine == "ns" else "other", 0) >= 2,
           f"{c.who}: the wall's sockets are found in coffer-egress", egress)
    tap.ok("tcp listening" not in dial["sockets"]["kinds"] and dial["sockets"]["count"] >= 1, f"{c.who}: coffer-dial listens nowhere", dial)
    tap.ok(any(p.endswith("gateway.db") for p in daemon["writable"]["paths"]), f"{c.who}: cofferd has its database open for writing", daemon)
    tap.ok(not any(p.startswith(c.state) and "journal" not in p for p in egress["writable"]["paths"]),
           f"{c.who}: coffer-egress has no file of the state open for writing but its journal", egress)
    tap.ok(all("pid" in r["namespaces"] and "mnt" in r["namespaces"] and "user" in r["namespaces"] for r in rows
               if r["kind"] in ("coffer-init", "command")), f"{c.who}: what is inside has namespaces of its own")
    if c.who == "user":
        tap.eq([r["kind"] for r in rows if r["dumpable"] and r["kind"] in ("launcher", "guard", "coffer-egress", "coffer-vault", "coffer-web")], [],
               f"{c.who}: no confined process is dumpable")
    if c.who == "root":
        run = {r["run"] for r in rows if r["kind"] == "coffer-egress"}
        tap.ok(None not in run and run <= {r["run"] for r in rows if r["kind"] == "guard"} and
               run <= {r["run"] for r in rows if r["kind"] == "launcher"}, f"{c.who}: launcher, guard and coffer-egress belong to one run", run)


def check_pretenders(tap, c, rows):
    """Names that the command of the sandbox chose."""
    inside = [r for r in rows if r["inside"]]
    red = [r for r in inside if r["argument"] == "\x1b[31mcoffer-guard"]
    tap.ok(red and red[0]["kind"] == "command" and red[0]["known_by"] == "namespaces", f"{c.who}: a command that calls itself coffer-guard is a command",
           inside)
    fake = [r for r in inside if r["name"] == "coffer-egress"]
    tap.ok(fake and fake[0]["kind"] == "command", f"{c.who}: a command that executes a file coffer-egress is a command", inside)
    tap.eq(c("doctor", "--processes", "-v").code, 2, f"{c.who}: doctor refuses --verbose with --processes")
    r = c("doctor", "--processes")
    tap.ok(r.code == 0 and "\x1b" not in r.out, f"{c.who}: the text of doctor has no character of a command that steers a terminal", r)


def check_controls(tap, c, table):
    """Programs of our names that are not confined: outside they make both checks fail, and a name alone is nothing."""
    place = os.path.join(c.dir, "other")
    os.mkdir(place, 0o755)
    made = {}
    for name in ("coffer-egress", "sleep"):
        made[name] = os.path.join(place, name)
        shutil.copy(shutil.which("sleep"), made[name])
    uid = c.uid

    def become():
        drop_to(uid, uid)
    fake = subprocess.Popen([made["coffer-egress"], "1000"], preexec_fn=become)
    liar = subprocess.Popen(["coffer-egress", "1000"], executable=made["sleep"], preexec_fn=become)
    try:
        wait_for(lambda: os.readlink(f"/proc/{fake.pid}/exe") == made["coffer-egress"] and
                 os.readlink(f"/proc/{liar.pid}/exe") == made["sleep"])
        rows = doctor(c)
        it = [r for r in rows if r["pid"] == fake.pid]
        tap.ok(it and it[0]["kind"] == "coffer-egress" and it[0]["installed"] is False,
               f"{c.who}: a program of that name is listed as one of another installation", it)
        tap.ok(any("seccomp" in x and str(fake.pid) in x for x in mismatches(c, it, table)) or sanitized(),
               f"{c.who}: (control) a coffer-egress without a filter does not match the document", it)
        tap.ok(unfenced(it, UNFENCED) or sanitized(), f"{c.who}: (control) a coffer-egress without a filter is found", it)
        tap.eq([r for r in rows if r["pid"] == liar.pid], [], f"{c.who}: a program that only calls itself coffer-egress is not listed")
    finally:
        for p in (fake, liar):
            p.kill()
            p.wait()


def check_hurry(tap, c):
    """Processes that begin and end while they are read are left out."""
    runs = [c.popen("run", "--engine", c.engine, "--ephemeral", "--", "true") for _ in range(8)]
    results = []
    while any(p.poll() is None for p in runs):
        results.append(c("doctor", "--processes", "--json"))
    for p in runs:
        p.communicate()
    tap.eq([p.returncode for p in runs], [0] * len(runs), f"{c.who}: runs that are looked at end as usual")
    bad = [r for r in results if r.code != 0 or r.err or not isinstance(json.loads(r.out), list)]
    tap.ok(results and not bad, f"{c.who}: doctor reads processes that begin and end meanwhile", len(results), *bad[:1])


def check_user(tap, c):
    """What the user of the sandbox sees without root: nobody may look into a confined process."""
    r = c("doctor", "--processes", "--json")
    rows = own(json.loads(r.out))
    by = {r["kind"]: r for r in rows}
    wanted = {"launcher", "guard", "coffer-egress", "coffer-dial", "coffer-netd", "cofferd", "coffer-web"}
    tap.eq(wanted - set(by), set(), f"{c.who}: an ordinary user's processes are recognised without looking into them", rows)
    tap.eq(by.get("unknown"), None, f"{c.who}: no process of the user is unknown to the user")
    hidden = [by[k] for k in sorted(wanted & set(by))]
    tap.eq([r["kind"] for r in hidden if r["visible"] or r["program"] or r["sockets"] or r["writable"] or r["namespaces"]], [],
           f"{c.who}: what may not be read is marked as not visible", hidden)
    tap.ok(by["launcher"]["known_by"] == "state directory" and by["coffer-egress"]["known_by"] == "parent",
           f"{c.who}: the state directory and the parent tell what they are", by)
    if not sanitized():
        tap.eq(by["coffer-egress"]["seccomp"], 2, f"{c.who}: the seccomp mode is visible to an ordinary user")
    tap.like(c("doctor", "--processes").out, "not visible to this user", f"{c.who}: the text marks what is not visible")
    stranger = subprocess.run([c.exe, "doctor", "--processes", "--json"], preexec_fn=lambda: drop_to(TEST_UID + 1, TEST_UID + 1),
                              env={**c.env(), "COFFER_STATE": "/nonexistent/state"}, stdout=subprocess.PIPE, check=True, timeout=180)
    got = {r["pid"]: r for r in json.loads(stranger.stdout) if r["pid"] == by["coffer-egress"]["pid"]}
    tap.ok(got and all(r["kind"] == "unknown" and r["known_by"] == "name only" and r["reads_hostile"] is None for r in got.values()),
           f"{c.who}: to another user the same process is unknown", got)


def story(tap, c, net, whole):
    table, named = claims()
    stop = threading.Event()
    net.waits = stop
    world = Everything(c, stop)
    found = []
    wanted = {"launcher", "guard", "coffer-egress", "coffer-dial", "coffer-netd", "coffer-vault", "cofferd",
              *(("runsc", "gvisor") if c.engine == "gvisor" else ("coffer-init", "command"))}
    try:
        world.start_run(tap)
        if whole:
            world.start_more(tap)
            wanted |= {"mcp", "coffer-courier", "standby"} | (set() if c.who == "userns" else {"coffer-web", "web-work"})
        rows = []

        def settled():
            rows[:] = doctor(c)
            if "standby" in wanted - kinds(rows):
                c("call", "--", "true")  # on a slow machine the warm pool may have cooled down
            # One that begins is not confined yet, and has not read anything.
            return wanted <= kinds(rows) and not kinds(rows) & {"builder", "unknown"} and not mismatches(c, rows, table)
        wait_for(settled)
        tap.eq(wanted - kinds(rows), set(), f"{c.who}: every kind of process is found", kinds(rows))
        tap.eq(mismatches(c, rows, table), [], f"{c.who}: ARCHITECTURE.md says what confines each process")
        tap.eq(unfenced(rows, UNFENCED), [], f"{c.who}: every process that reads hostile bytes has a seccomp filter, but for the listed kinds")
        found += rows
        if c.engine == "ns":
            check_pretenders(tap, c, rows)
        if whole:
            check_shape(tap, c, rows)
            check_controls(tap, c, table)
            check_hurry(tap, c)
        if c.who == "user" and whole:
            check_user(tap, c)
    finally:
        stop.set()
        world.close()
    if whole:
        unpacking(c, found)
        tap.eq(mismatches(c, found, table), [], f"{c.who}: ARCHITECTURE.md says what confines coffer-unpack")
    c.check_clean(tap)
    return found


def check_document(tap, found, engines):
    table, named = claims()
    tried = set(table) - (set() if "gvisor" in engines else {"runsc", "gvisor"}) - (set() if "ns" in engines else {"coffer-init", "command"})
    tap.eq(set(named) - set(table), set(), "ARCHITECTURE.md says what confines each process that it describes")
    tap.eq(tried - kinds(found), set(), "each row of ARCHITECTURE.md's table was compared with a process")
    tap.eq({k for k, v in table.items() if v["seccomp"] == "none" and v["hostile"] == "yes"} - UNFENCED, set(),
           "ARCHITECTURE.md names no kind without a filter that this test does not list")
    fenced = {k for k in UNFENCED & kinds(found) if all(r["seccomp"] == 2 for r in found if r["kind"] == k)}
    tap.eq(fenced, set(), "each kind that is listed as unfenced is: remove the lines of those that have a filter now")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("the processes that run", reason)
        tap.done()
    found = []
    with Internet() as net:
        net.waits = threading.Event()
        net.https("api.example.test", lambda q: "welcome")
        net.tcp("mute.example.test", 443, lambda conn, _s: net.waits.wait(120))
        everybody = covering(tap)
        for who, whole in everybody:
            with net.coffer(who) as c:
                found += story(tap, c, net, whole)
    check_document(tap, found, {who.engine for who, _ in everybody})
    tap.done()


main()
