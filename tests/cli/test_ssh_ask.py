# SPDX-License-Identifier: Apache-2.0
"""A key that is bound with --ask signs when a person has said so, and only then: real ssh and git, every identity, both engines.
Each refusal has its control: the same login that is let through."""

import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ENGINES, Tap, descendants, identities, kill_own, proc_stat, remember  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from sshrig import SSHD, World, events  # noqa: E402

HELLO = "HOME=/tmp ssh -o BatchMode=yes -o ConnectTimeout=60 -T git@git.example.test 'echo hello' 2>&1 | tail -n 1"


def accepted(w):
    with open(w.git["log"], encoding="utf-8") as f:
        return f.read().count("Accepted publickey")


class Keyed:
    """A sandbox that stays and has the key; each login of its is a `coffer exec`."""

    def __init__(self, tap, c, *more):
        self.tap, self.c, self.more = tap, c, more

    def __enter__(self):
        r = self.c("run", "-d", "--engine", self.c.engine, "--allow", "git.example.test:22", "--secret", "deploy", *self.more,
                   "--", "sleep", "3600")
        self.id = r.out.strip()
        self.tap.ok(r.code == 0 and self.id, f"{self.c.who}: a sandbox with the key starts", r)
        return self

    def __exit__(self, *exc):
        self.c("stop", "-t", "1", self.id)

    def start(self, script=HELLO):
        return self.c.popen("exec", self.id, "--", "sh", "-c", script)

    def login(self):
        """One that is expected to need nobody."""
        return self.c("exec", self.id, "--", "sh", "-c", HELLO, timeout=300).out.strip()

    def pending(self, waiters=1):
        got = []

        def there():
            r = self.c("ask", "ls", "--json")
            got[:] = [a for a in (json.loads(x) for x in r.out.splitlines()) if a["state"] == "pending" and a["waiters"] >= waiters]
            return got
        wait_for(there, 120)
        return got[0] if got else {}

    def state(self, ident):
        r = self.c("ask", "show", "--json", ident)
        return json.loads(r.out)["state"] if r.code == 0 else None


def end(p):
    out, err = p.communicate(timeout=240)
    return remember((out + err).decode(errors="replace").strip())


def bind(tap, c, w):
    who = c.who
    args = ["--host", "git.example.test", "--user", "git", "--known-hosts", w.known]
    r = c("secret", "set", "deploy", "--file", w.path("ed25519"), *args, "--as", "ssh", "--ask")
    tap.eq(r.code, 0, f"{who}: a key is bound with --ask", r)
    tap.ok("as ssh:ask (user git)" in c("secret", "ls").out, f"{who}: secret ls shows a binding with --ask", c("secret", "ls"))
    c("secret", "set", "token", "-", input="a" * 40)
    r = c("secret", "bind", "token", "--host", "api.example.test", "--ask")
    tap.ok(r.code == 2 and "--as ssh" in r.err, f"{who}: --ask is refused for a secret that is not a key", r)
    r = c("secret", "set", "other", "--file", w.path("rsa"), "--as", "ssh", "--ask")
    tap.eq(r.code, 2, f"{who}: --ask without a host is refused", r)


def once(tap, c, w, s):
    who = c.who
    before = accepted(w)
    p = s.start()
    q = s.pending()
    tap.ok(q.get("kind") == "ssh" and q.get("host") == "git.example.test" and q.get("port") == 22 and
           q.get("what") == "log in as git with the key deploy" and "SHA256:" in q.get("preview", "") and "requires approval" in q.get("rule", ""),
           f"{who}: a login waits as a question with key, host and user", q)
    tap.ok(accepted(w) == before and not events(c, "secret.use"), f"{who}: nothing is signed while a login waits")
    r = c("ask", "show", q["id"])
    tap.ok("git.example.test:22  log in as git with the key deploy" in r.out and "one time" in r.out, f"{who}: ask show describes the login", r)
    r = c("approve", q["id"], "--digest", "0" * 64)
    tap.ok(r.code == 125 and s.state(q["id"]) == "pending", f"{who}: approve with another digest is refused", r)
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: coffer approve allows the login")
    got = end(p)
    tap.eq(got, "hello", f"{who}: an approved login succeeds")
    tap.eq(accepted(w), before + 1, f"{who}: an approved login is signed once")
    log = [e["type"] for e in events(c, "ask.new", "ask.answer", "ask.use", "secret.use")]
    tap.eq(log, ["ask.new", "ask.answer", "ask.use", "secret.use"], f"{who}: a login's events are logged in order")
    use = events(c, "secret.use")[-1]
    tap.ok(use.get("ask") == q["id"] and use.get("user") == "git" and use.get("secret") == "deploy", f"{who}: secret.use names the question that allowed it", use)
    p = s.start()
    q2 = s.pending()
    tap.ok(q2 and q2["id"] != q["id"], f"{who}: a second login asks again", q2)
    tap.eq(c("deny", q2["id"], "--reason", "not today").code, 0, f"{who}: coffer deny denies the second login")
    got = end(p)
    tap.ok("Permission denied" in got, f"{who}: a denied login is refused", got)
    no = [e for e in events(c, "secret.refused") if e.get("ask") == q2["id"]]
    tap.ok(len(no) == 1 and "not today" in no[0]["why"] and no[0]["secret"] == "deploy", f"{who}: a denied login is logged with its reason", no)
    tap.eq(accepted(w), before + 1, f"{who}: a denied login is not signed")


def uses(tap, c, w, s):
    """clone and push by two uses; then it is asked again. And as long as the sandbox lives."""
    who = c.who
    branch = "ask-" + re.sub(r"\W", "-", f"{who} {c.engine}")
    p = s.start("export HOME=/tmp; cd /tmp; rm -rf r; git clone -q git@git.example.test:r.git && git -C r -c user.name=t -c user.email=t@t "
                f"commit -q --allow-empty -m x && git -C r push -q origin HEAD:refs/heads/{branch} && cat r/file")
    q = s.pending()
    tap.eq(c("approve", q["id"], "--uses", "2").code, 0, f"{who}: coffer approve --uses 2 allows two logins")
    got = end(p)
    tap.eq(got, "content", f"{who}: git clone and push succeed with two uses")
    p = s.start()
    q2 = s.pending()
    tap.ok(q2 and q2["id"] != q["id"] and s.state(q["id"]) == "spent", f"{who}: a third login asks again", q2)
    tap.eq(c("approve", q2["id"], "--sandbox").code, 0, f"{who}: coffer approve --sandbox allows the key")
    got = [end(p), s.login(), s.login()]
    tap.eq(got, ["hello"] * 3, f"{who}: logins after approve --sandbox ask nobody")
    tap.eq(c("deny", q2["id"]).code, 0, f"{who}: coffer deny takes back the grant of a key")
    p = s.start()
    q3 = s.pending()
    tap.ok(q3 and q3["id"] != q2["id"], f"{who}: a login asks again after its grant was taken back", q3)
    tap.eq(c("approve", q3["id"], "--for", "1h").code, 0, f"{who}: coffer approve --for 1h allows the key")
    got = [end(p), s.login()]
    tap.eq(got, ["hello"] * 2, f"{who}: logins within a grant's time ask nobody")
    tap.eq(c("deny", q3["id"]).code, 0, f"{who}: coffer deny takes back a grant for a time")


def gone(tap, c, w, s):
    """The program goes away while it waits: nothing is signed, and the answer waits for the next login."""
    who = c.who
    before = accepted(w)
    signed = len(events(c, "secret.use"))
    p = s.start("HOME=/tmp timeout 3600 ssh -o BatchMode=yes -T git@git.example.test true & echo $!; wait")
    pid = p.stdout.readline().decode().strip()
    q = s.pending()
    c("exec", s.id, "--", "kill", pid)
    end(p)
    tap.ok(wait_for(lambda: json.loads(c("ask", "show", "--json", q["id"]).out)["waiters"] == 0, 60), f"{who}: control: the process that asked is gone")
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: a question whose process is gone can be approved")
    tap.ok(s.state(q["id"]) == "parked" and len(events(c, "secret.use")) == signed and accepted(w) == before,
           f"{who}: an answer without its process signs nothing", s.state(q["id"]))
    tap.eq(s.login(), "hello", f"{who}: a parked answer is used by the same login")
    tap.eq(s.state(q["id"]), "spent", f"{who}: a parked answer is spent after one login")


def others(tap, c, w, s):
    """While one waits others go on: the keys can be listed, and another question is another entry. A flood is refused."""
    who = c.who
    p = s.start()
    q = s.pending()
    r = c("exec", s.id, "--", "ssh-add", "-l", timeout=300)
    tap.ok("deploy" in r.out, f"{who}: the agent lists keys while a login waits", r)
    many = s.start("export HOME=/tmp; for i in $(seq 40); do ssh -o BatchMode=yes -T git@git.example.test true >/dev/null 2>&1 & done; wait")
    tap.ok(wait_for(lambda: json.loads(c("ask", "show", "--json", q["id"]).out)["times"] >= 5, 120), f"{who}: control: many logins wait at once")
    rows = [json.loads(x) for x in c("ask", "ls", "--json").out.splitlines()]
    tap.eq(len([a for a in rows if a["state"] == "pending"]), 1, f"{who}: equal logins are one question")
    tap.eq(c("deny", q["id"]).code, 0, f"{who}: coffer deny denies all waiting logins")
    wait_for(lambda: not _deny_all(c), 120)
    p.kill()
    end(p)
    many.kill()
    end(many)


def _deny_all(c):
    rows = [json.loads(x) for x in c("ask", "ls", "--json").out.splitlines()]
    left = [a["id"] for a in rows if a["state"] == "pending"]
    for i in left:
        c("deny", i)
    return left


def late(tap, c, w):
    """Nobody answers in time; then the guard is killed while one waits."""
    who = c.who
    before = accepted(w)
    with Keyed(tap, c, "--ask-timeout", "3s") as s:
        p = s.start()
        got = end(p)
        tap.ok("Permission denied" in got, f"{who}: a login without an answer in time is refused", got)
        no = events(c, "secret.refused")
        tap.ok(no and "nobody answered in time" in no[-1]["why"], f"{who}: the log says that nobody answered in time", no[-1:])
    p = c.popen("run", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "deploy", "--", "sh", "-c", HELLO)
    q = Keyed(tap, c).pending()
    guard = [pid for pid, _ in descendants(p.pid) if (proc_stat(pid) or (0, 0, ""))[2] == "coffer-guard"]
    tap.ok(q and len(guard) == 1, f"{who}: control: a login waits, and the run has a guard", q, guard)
    for pid in guard:
        kill_own(pid)
    got = end(p)
    tap.ok("hello" not in got, f"{who}: a waiting login is refused when the guard is killed", got)
    no = events(c, "secret.refused")
    tap.ok(no and "guard is gone" in no[-1]["why"], f"{who}: the log says that the guard is gone", no[-1:])
    tap.eq(accepted(w), before, f"{who}: no login succeeded without an answer")
    c.check_clean(tap)


def by_policy(tap, c, w):
    """A rule's own word, also where the command line gives the key."""
    who = c.who
    c("secret", "set", "plain", "--file", w.path("rsa"), "--host", "git.example.test", "--as", "ssh", "--known-hosts", w.known)
    policy = os.path.join(c.home, "ask.yaml")
    with open(policy, "w", encoding="ascii") as f:
        f.write("version: 1\negress:\n  allow:\n    - {domain: git.example.test, secret: {name: plain, as: ssh, ask: true}}\n")
    c.own(policy)
    vague = os.path.join(c.home, "vague.yaml")
    with open(policy, encoding="ascii") as f, open(vague, "w", encoding="ascii") as g:
        g.write(f.read().replace("as: ssh, ", "").replace("example.test,", "example.test, port: 22,"))
    c.own(vague)
    r = c("run", "--engine", c.engine, "--policy", vague, "--", "true")
    tap.ok(r.code == 125 and "as: ssh" in r.err, f"{who}: a rule with ask and without as: ssh is refused", r)
    for more in ([], ["--secret", "plain"], ["--secret", "plain@git.example.test"]):
        p = c.popen("run", "--engine", c.engine, "--policy", policy, *more, "--", "sh", "-c", HELLO)
        s = Keyed(tap, c)
        q = s.pending()
        tap.ok("key plain" in q.get("what", ""), f"{who}: a rule with ask makes a login wait {more}", q)
        tap.eq(c("approve", q.get("id", "1")).code, 0, f"{who}: coffer approve allows the login of a rule {more}")
        got = end(p)
        tap.ok(got.startswith("hello"), f"{who}: the approved login of a rule succeeds {more}", got)
    r = c("run", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "plain", "--", "sh", "-c", HELLO, timeout=300)
    tap.eq(r.out, "hello\n", f"{who}: a login without the rule asks nobody", r)
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not() or (None if os.path.exists(SSHD) else "openssh-server is not installed")
    if reason:
        tap.skip("ssh with a person asked", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="ssh-")
    os.chmod(base, 0o755)
    try:
        with Internet() as net:
            w = World(net, base)
            seen = set()  # the first has all of it, the first of an engine more than the others
            for who in identities(tap, ENGINES):
                with net.coffer(who) as c:
                    bind(tap, c, w)
                    with Keyed(tap, c) as s:
                        once(tap, c, w, s)
                        if who.engine not in seen:
                            gone(tap, c, w, s)
                            uses(tap, c, w, s)
                        if not seen:
                            others(tap, c, w, s)
                    if not seen:
                        late(tap, c, w)
                        by_policy(tap, c, w)
                    seen.add(who.engine)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
