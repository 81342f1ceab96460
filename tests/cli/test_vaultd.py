#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1800
"""One vault that cofferd keeps for all sandboxes: who gets a channel of it, what happens when it or cofferd dies, when it is
locked and unlocked, and when the vault's file is another one. A server that checks the credential says who has it."""

import base64
import contextlib
import fcntl
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, coffer_as, covering, descendants, identities, kill_own, proc_stat, slow_build  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
PASSPHRASE = "pass-" + base64.b32encode(os.urandom(12)).decode()[:16]
PATIENCE = 120
BEARER = '-H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1'
LOOP = f"""echo "$GITHUB_TOKEN"; while read x; do curl -sS -m 60 -w ' %{{http_code}}' {BEARER}/$x 2>&1 | tr '\\n' ' '; echo; done"""
BOT = f"""echo begun; while :; do curl -sS -m 60 {BEARER}/bot || :; sleep 0.2; done"""

tap = Tap()


def until(check, seconds=PATIENCE):
    return wait_for(check, seconds)


def status(c):
    r = c("gateway", "status", "--json")
    return json.loads(r.out) if r.code == 0 else {}


def vault(c):
    return status(c).get("vault", {})


def kept(c, name):
    return next((s for s in status(c).get("sandboxes", []) if s["name"] == name), {})


def events(c, *kinds):
    return [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e["type"] in kinds]


def is_gone(pid):
    st = proc_stat(pid)
    return not st or st[1] in "ZX"


def kill(pid, sig=signal.SIGKILL):
    kill_own(pid, sig)
    return until(lambda: is_gone(pid))


def vaults():
    return [pid for pid, text in descendants(os.getpid()) if text.endswith("coffer-vault") and not text.startswith("Z")]


def with_fd(c, text, *args, option="--passphrase-fd"):
    """coffer with a passphrase on a descriptor."""
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    p = c.popen(*args, option, str(read), pass_fds=(read,))
    os.close(read)
    out, err = p.communicate(timeout=300 * slow_build())
    return p.returncode, out.decode() + err.decode()


class Asker:
    """A sandbox that asks the server whenever it is told to."""

    def __init__(self, c, *args):
        self.p = c.popen("run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", *args, "--", "sh", "-c",
                         LOOP, stdin=subprocess.PIPE)
        self.placeholder = self.p.stdout.readline().decode().strip()
        self.n = 0

    def ask(self):
        self.n += 1
        self.p.stdin.write(f"a{self.n}\n".encode())
        self.p.stdin.flush()
        return self.p.stdout.readline().decode()

    def works(self):
        """Until it does; whatever comes before that must be a plain refusal."""
        odd = []

        def once():
            got = self.ask()
            if not got.startswith("welcome") and " 503" not in got:
                odd.append(got)
            return got.startswith("welcome")
        return until(once) and not odd, odd

    def own_vault(self):
        return any(t.endswith("coffer-vault") and t[0] != "Z" for _, t in descendants(self.p.pid))

    def end(self):
        self.p.stdin.close()
        out, err = self.p.stdout.read(), self.p.stderr.read()
        self.p.wait()
        return (out + err).decode()


class OnTerminal:
    """coffer with a terminal of its own to type on."""

    def __init__(self, c, *args):
        self.master, self.slave = pty.openpty()
        self.seen = b""
        os.chown(os.ttyname(self.slave), c.uid, c.gid)
        name = os.ttyname(self.slave)
        # A session of its own, whose first terminal this is.
        self.p = subprocess.Popen(c.prefix() + ["setsid", "sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', name, c.exe, *args],
                                  env=c.env(), cwd=c.work)
        os.set_blocking(self.master, False)

    def read(self):
        with contextlib.suppress(OSError):
            while got := os.read(self.master, 65536):
                self.seen += got
        return self.seen

    def shows(self, text):
        return until(lambda: text in self.read())

    def echoes(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def end(self):
        code = self.p.wait(timeout=180 * slow_build())
        self.read()
        return code

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        os.close(self.master)
        os.close(self.slave)


def working(asker, name):
    good, odd = asker.works()
    return tap.ok(good, name, odd)


def shared(c):
    """Two sandboxes, one vault; it dies, cofferd dies, and the placeholders stay."""
    who = c.who
    r = c("gateway", "status")
    tap.eq(r.code, 3, f"{who}: control: cofferd does not run yet", r)
    tap.eq(c("gateway", "start").code, 0, f"{who}: gateway start starts cofferd")
    tap.eq(vault(c).get("state"), "absent", f"{who}: the status says that there is no vault", status(c))
    r = c("secret", "unlock")
    tap.ok(r.code != 0 and "no vault" in r.err, f"{who}: secret unlock without a vault is refused", r)
    r = c("secret", "set", "github", "-", "--host", "api.example.test/v1", "--as", "bearer", input=TOKEN)
    tap.eq(r.code, 0, f"{who}: a token is put into the vault", r)
    got = vault(c)
    tap.ok(got.get("state") == "unlocked" and not got["running"], f"{who}: a vault with a key file is unlocked and not running", got)
    one, two = Asker(c), Asker(c)
    tap.ok(one.ask().startswith("welcome") and two.ask().startswith("welcome"), f"{who}: two sandboxes use the vault")
    got = vault(c)
    tap.ok(got.get("running") and got.get("sandboxes") == 2, f"{who}: the status counts the sandboxes of the vault", got)
    tap.eq(vaults(), [got.get("pid")], f"{who}: the vault of cofferd is the only one")
    found = {f"{pid} {t.split(' ', 1)[1]}": search(pid, TOKEN) for pid, t in descendants(os.getpid())
             if "coffer" in t and t[0] != "Z"}
    tap.eq([t for t, v in found.items() if TOKEN in v], [f"{got['pid']} coffer-vault"],
           f"{who}: only coffer-vault has the token in memory", found)
    tap.ok(one.placeholder != two.placeholder, f"{who}: each sandbox has its own placeholder")

    kill(got["pid"])
    working(one, f"{who}: a killed vault is restarted for the same placeholder, with 503 until then")
    working(two, f"{who}: a killed vault is restarted for the other sandbox")
    got = vault(c)
    tap.ok(got.get("deaths") == 1 and got["running"] and not one.own_vault(), f"{who}: cofferd restarts its vault, and the run opens none", got)
    tap.eq([e["event"] for e in events(c, "gateway.helper") if e["name"] == "coffer-vault"], ["died", "up"],
           f"{who}: the log has the vault's death and return")

    old = status(c)["pid"]
    kill(old)
    tap.ok(until(lambda: is_gone(got["pid"])), f"{who}: the vault ends with a cofferd that was killed")
    working(one, f"{who}: a run without cofferd opens the vault with its key, for the same placeholder")
    tap.ok(one.own_vault(), f"{who}: the run has a vault of its own after cofferd was killed")
    tap.eq(c("gateway", "start").code, 0, f"{who}: the next cofferd starts over a stale socket")
    three = Asker(c)
    tap.ok(three.ask().startswith("welcome") and not three.own_vault(), f"{who}: the vault of the next cofferd serves a new sandbox", status(c))
    outs = [x.end() for x in (one, two, three)]
    tap.ok("coffer-vault has ended" in outs[0] and not has_any("".join(outs).encode(), TOKEN), f"{who}: the death of the vault is reported on the terminal",
           outs[0])
    tap.ok(until(lambda: vault(c).get("sandboxes") == 0), f"{who}: the status counts no sandbox after all have ended", vault(c))
    tap.ok({"vault.down", "vault.up"} <= {e["type"] for e in events(c, "vault.down", "vault.up")}, f"{who}: the log has vault.down and vault.up")


def changed(c):
    """A removal, an unbinding or a rotation counts at once."""
    who = c.who
    a = Asker(c)
    tap.ok(a.ask().startswith("welcome"), f"{who}: control: a sandbox uses the vault of cofferd")
    pid = vault(c).get("pid")
    tap.eq(c("secret", "unbind", "github").code, 0, f"{who}: secret unbind unbinds the secret")
    # The control comes first: it must have been seen before its absence says anything.
    tap.ok(until(lambda: not a.ask().startswith("welcome")), f"{who}: an unbound secret is refused")
    tap.eq(c("secret", "bind", "github", "--host", "api.example.test/v1", "--as", "bearer").code, 0, f"{who}: secret bind binds the secret again")
    tap.ok(until(lambda: a.ask().startswith("welcome")), f"{who}: a secret that is bound again works with the same placeholder")
    tap.eq(vault(c).get("pid"), pid, f"{who}: the vault reloads its file without a restart")
    a.end()


def locked(c):
    """A passphrase, asked for once."""
    who = c.who
    a = Asker(c)
    tap.ok(a.ask().startswith("welcome"), f"{who}: control: a sandbox uses the vault")
    code, text = with_fd(c, PASSPHRASE + "\n", "secret", "rekey")
    tap.eq(code, 0, f"{who}: secret rekey sets a passphrase", text)
    tap.ok(until(lambda: vault(c).get("state") == "locked"), f"{who}: a vault that gets a passphrase is locked", vault(c))
    tap.ok(until(lambda: " 503" in a.ask()), f"{who}: a request with a secret of a locked vault gets a 503")
    r = c("gateway", "status")
    tap.ok("vault: locked" in r.out and "coffer secret unlock" in r.out, f"{who}: the status says how to unlock the vault", r)
    r = c("run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "true")
    tap.ok(r.code == 125 and "locked" in r.err and "coffer secret unlock" in r.err, f"{who}: a new run with a locked vault is refused with the reason", r)
    code, text = with_fd(c, "wrong horse battery\n", "secret", "unlock")
    tap.ok(code == 11 and "wrong passphrase" in text, f"{who}: secret unlock refuses a wrong passphrase", text)
    tap.eq(vault(c).get("state"), "locked", f"{who}: the vault stays locked after a wrong passphrase")
    t = OnTerminal(c, "secret", "unlock")
    ready = t.shows(b"not shown") and until(lambda: not t.echoes())
    tap.ok(ready, f"{who}: secret unlock asks on the terminal, without echo", t.seen)
    # Somebody kills coffer while it waits.
    kids = [pid for pid, text in descendants(t.p.pid) if text.endswith(" coffer")] or [t.p.pid]
    kill_own(kids[-1])
    tap.ok(until(t.echoes), f"{who}: the echo is on again after coffer was killed at the prompt")
    t.close()
    tap.ok(until(lambda: vaults() == []), f"{who}: no coffer-vault is left after coffer was killed at the prompt", vaults())
    first, t = OnTerminal(c, "secret", "unlock"), None
    first.shows(b"not shown")
    t = OnTerminal(c, "secret", "unlock")
    ready = t.shows(b"not shown")
    code = first.end()
    tap.ok(ready and code == 125 and first.echoes(), f"{who}: a second secret unlock ends the first", code, first.seen)
    first.close()
    os.write(t.master, b"no such passphrase\r")
    # Input that is typed before the second prompt is thrown away.
    again = until(lambda: t.read().count(b"not shown") == 2 and not t.echoes())
    tap.ok(again and b"wrong passphrase" in t.seen, f"{who}: secret unlock asks again after a wrong passphrase", t.seen)
    os.write(t.master, PASSPHRASE.encode() + b"\r")
    code = t.end()
    tap.ok(code == 0 and PASSPHRASE.encode() not in t.seen, f"{who}: secret unlock accepts the right passphrase after a wrong one", code, t.seen)
    t.close()
    got = vault(c)
    tap.ok(got.get("state") == "unlocked" and got["running"], f"{who}: the vault is unlocked and running", got)
    working(a, f"{who}: a running sandbox uses the unlocked vault with the same placeholder")
    b = Asker(c)
    tap.ok(b.ask().startswith("welcome") and not b.own_vault(), f"{who}: a new sandbox uses the unlocked vault without a terminal")
    found = {f"{pid} {text}": search(pid, PASSPHRASE) for pid, text in descendants(os.getpid())
             if "coffer" in text and text[0] != "Z"}
    tap.eq([x for x, v in found.items() if v], [], f"{who}: no process has the passphrase in memory")
    r = c("secret", "unlock")
    tap.ok(r.code == 0 and "already" in r.err, f"{who}: secret unlock of an unlocked vault succeeds", r)
    # Its file changes: the key that is there opens the next one too.
    code, text = with_fd(c, PASSPHRASE, "secret", "change", "github", "--expires", "90d")
    tap.eq(code, 0, f"{who}: secret change changes the unlocked vault", text)
    working(b, f"{who}: a changed vault is reloaded without the passphrase")
    tap.eq(vault(c).get("state"), "unlocked", f"{who}: the vault is still unlocked after a change")
    tap.eq(c("secret", "lock").code, 0, f"{who}: secret lock locks the vault")
    tap.ok(" 503" in a.ask() or until(lambda: " 503" in a.ask()), f"{who}: requests get a 503 after secret lock")
    tap.ok(vault(c).get("state") == "locked" and not vaults(), f"{who}: no coffer-vault runs after secret lock", vault(c), vaults())
    kinds = [e["type"] for e in events(c, "vault.lock", "vault.unlock")]
    tap.ok(kinds[-2:] == ["vault.unlock", "vault.lock"], f"{who}: the log has vault.unlock and vault.lock", kinds)
    n = len(events(c, "vault.down"))
    # Guards ask again and again; only the first refusal is news.
    time.sleep(2)
    tap.ok(len(events(c, "vault.down")) <= n + 2, f"{who}: a waiting sandbox does not fill the log", n, events(c, "vault.down"))
    a.end()
    b.end()


def launcher(c, name):
    run = kept(c, name)["id"]
    with open(os.path.join(c.state, "runs", run, "meta.json"), encoding="utf-8") as f:
        meta = json.load(f)
    return meta["launcher"], meta["guard"]


def reboot(c, *names):
    """All that a reboot leaves: no process, runs that never ended, a database from another boot."""
    pids = [launcher(c, n) for n in names]
    kill(status(c)["pid"])
    for first, guard in pids:
        kill_own(first, signal.SIGSTOP)  # so that neither can tell the end
        kill(guard)
        kill(first)
    path = os.path.join(c.state, "gateway.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE sandbox SET boot = 'another', state = 'up'")
        db.commit()
    for n in os.listdir(c.state):
        if n.startswith("gateway.db"):
            c.own(os.path.join(c.state, n))


def booted(c, api):
    """Locked at boot: who needs a secret waits, others do not."""
    who = c.who
    code, text = with_fd(c, PASSPHRASE, "secret", "unlock")
    tap.eq(code, 0, f"{who}: secret unlock takes a passphrase from a descriptor", text)
    r = c("run", "-d", "--engine", c.engine, "--name", "bot", "--restart", "always", "--allow", "api.example.test", "--secret",
          "github", "--", "sh", "-c", BOT)
    tap.eq(r.code, 0, f"{who}: a kept sandbox with a secret starts", r)
    r = c("run", "-d", "--engine", c.engine, "--net", "none", "--name", "plain", "--restart", "always", "--", "sh", "-c",
          "echo begun; sleep 1000")
    tap.eq(r.code, 0, f"{who}: a kept sandbox without a secret starts", r)
    tap.ok(until(lambda: kept(c, "bot").get("watched") and kept(c, "plain").get("watched")), f"{who}: cofferd watches both sandboxes", status(c))
    tap.ok(until(lambda: any(q.path == "/v1/bot" for q in api.requests)), f"{who}: requests of the kept sandbox arrive")
    reboot(c, "bot", "plain")
    api.requests.clear()
    c("gateway", "start")
    tap.ok(until(lambda: kept(c, "plain").get("watched")), f"{who}: a sandbox without a secret is restarted after a reboot", status(c))
    tap.ok(until(lambda: "locked" in kept(c, "bot").get("why", "")), f"{who}: a sandbox with a secret waits for the vault, and the status says so", kept(c, "bot"))
    got = kept(c, "bot")
    tap.ok(got["tries"] == 0 and "coffer secret unlock" in got["why"], f"{who}: waiting for a locked vault is not counted as a failed start", got)
    tap.eq([q.path for q in api.requests], [], f"{who}: a waiting sandbox sends nothing")
    code, text = with_fd(c, PASSPHRASE, "secret", "unlock")
    tap.eq(code, 0, f"{who}: secret unlock unlocks the vault after a reboot", text)
    tap.ok(until(lambda: kept(c, "bot").get("watched")), f"{who}: a waiting sandbox is started after secret unlock", kept(c, "bot"))
    tap.ok(until(lambda: any(q.path == "/v1/bot" for q in api.requests)), f"{who}: requests arrive after secret unlock")
    tap.eq(kept(c, "bot").get("restarts"), 1, f"{who}: a waiting sandbox is started once", kept(c, "bot"))
    # A bot that dies while the vault is unlocked is simply started again.
    kill(launcher(c, "bot")[0])
    tap.ok(until(lambda: kept(c, "bot").get("restarts") == 2 and kept(c, "bot").get("watched")), f"{who}: a crashed sandbox is restarted while the vault is unlocked", kept(c, "bot"))
    c("rm", "-f", "bot", "plain")


def damaged(c):
    who = c.who
    path = os.path.join(c.state, "vault", "secrets")
    with open(path, "rb") as f:
        good = f.read()

    def put(data):
        with open(path + ".x", "wb") as f:
            f.write(data)
        os.chmod(path + ".x", 0o600)
        c.own(path + ".x")
        os.rename(path + ".x", path)

    c("secret", "lock")
    for what, data, code, words in (("a changed byte", good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], 12, "changed"),
                                    ("its end cut off", good[:len(good) // 2], 13, "cut off"),
                                    ("other content", b"no vault at all, but long enough to be one" * 20, None, "")):
        put(data)
        got, text = with_fd(c, PASSPHRASE, "secret", "unlock")
        tap.ok(got != 0 and (code is None or got == code) and words in text, f"{who}: a vault file with {what} is not unlocked: {got}", text)
    put(good)
    code, text = with_fd(c, PASSPHRASE, "secret", "unlock")
    tap.ok(code == 0, f"{who}: a restored vault file is unlocked", text)
    put(good[:len(good) // 2])
    tap.ok(until(lambda: not vault(c).get("running")), f"{who}: the vault stops when its file is damaged", vault(c))
    put(good)
    r = c("gateway", "status")
    tap.ok("vault: locked" in r.out, f"{who}: the vault is locked when its file is restored", r)
    r = c("gateway", "run", timeout=90)
    tap.ok(r.code != 0 and "already" in r.err, f"{who}: a second cofferd reports that one runs", r)
    c("gateway", "stop")
    tap.ok(until(lambda: not vaults()), f"{who}: no coffer-vault is left after gateway stop")
    r = c("secret", "lock")
    tap.eq(r.code, 0, f"{who}: secret lock without cofferd succeeds", r)
    code, text = with_fd(c, PASSPHRASE, "secret", "unlock")
    tap.ok(code == 0 and vault(c).get("state") == "unlocked", f"{who}: secret unlock starts cofferd", text)
    tap.ok(status(c).get("stays") is False, f"{who}: a cofferd that secret unlock started does not stay", status(c))
    c("secret", "lock")
    code, text = with_fd(c, PASSPHRASE, "secret", "rekey", "--key-file", os.path.join(c.home, "k"), option="--old-passphrase-fd")
    tap.eq(code, 0, f"{who}: secret rekey --key-file replaces the passphrase", text)
    r = c("secret", "unlock")
    tap.ok(r.code == 0 and "by itself" in r.err, f"{who}: a vault with a key file needs no unlocking", r)
    r = c("secret", "lock")
    tap.ok(r.code == 125 and "no passphrase" in r.err, f"{who}: a vault with a key file cannot be locked", r)
    c("gateway", "stop")


def credential(c):
    """A key that only the service has, as systemd gives it."""
    who = c.who
    directory = os.path.join(c.dir, "credentials")
    os.mkdir(directory, 0o700)
    with open(os.path.join(directory, "coffer-vault-key"), "wb") as f:
        f.write(os.urandom(32))
    os.chmod(f.name, 0o400)
    c.own(directory)
    c.own(f.name)
    env = {"CREDENTIALS_DIRECTORY": directory}
    r = c("secret", "rekey", "--key-credential", "coffer-vault-key", env=env)
    tap.eq(r.code, 0, f"{who}: secret rekey --key-credential sets a credential as the key", r)
    r = c("run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "true")
    tap.ok(r.code == 125 and "credential" in r.err, f"{who}: a run without the credential is refused", r)
    tap.eq(c("gateway", "start", env=env).code, 0, f"{who}: gateway start with the credential succeeds")
    a = Asker(c)
    tap.ok(a.ask().startswith("welcome"), f"{who}: cofferd opens the vault with its credential for a run without it", vault(c))
    kill(vault(c)["pid"])
    working(a, f"{who}: cofferd opens a killed vault again with its credential")
    a.end()
    c("gateway", "stop")


def just_begun(c):
    """coffer pool stop while a cofferd is on its way: the test holds what that waits for."""
    who = c.who
    tap.ok("none" in c("pool").out, f"{who}: control: cofferd does not run")
    path = os.path.join(c.state, "cofferd.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    c.own(path)
    fcntl.flock(fd, fcntl.LOCK_EX)
    r = c("call", "--engine", "ns", "--", "echo", "made")
    tap.eq(r.out, "made\n", f"{who}: coffer call starts cofferd and does not wait for it", r)
    daemon = until(lambda: [pid for pid, text in descendants(os.getpid()) if text.endswith(" cofferd") and text[0] != "Z"])
    tap.ok(daemon and not os.path.exists(os.path.join(c.state, "cofferd.sock")), f"{who}: control: the new cofferd does not listen yet", daemon)
    p = c.popen("pool", "stop")
    os.close(fd)
    out, err = p.communicate(timeout=300 * slow_build())
    tap.ok(p.returncode == 0 and b"none" not in out, f"{who}: coffer pool stop waits for a starting cofferd", out, err)
    tap.ok(until(lambda: all(map(is_gone, daemon))), f"{who}: coffer pool stop ends a starting cofferd", daemon)
    r = c("pool")
    tap.ok("none" in r.out, f"{who}: the warm pool is empty after coffer pool stop", r)
    c.check_clean(tap)


def in_files(c):
    """Nothing of it on the disk, in any form."""
    left = []
    for top, _, files in os.walk(c.dir):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if has_any(f.read(), TOKEN, PASSPHRASE):
                        left.append(path)
    tap.eq(left, [], f"{c.who}: no file of state, home, log or workspace has token or passphrase")


def welcome(q):
    auth = q.headers.get("Authorization", "")
    return f"welcome {q.path}" if auth == "Bearer " + TOKEN else (401, {}, "who are you?")


def main():
    for who in identities(tap):
        with coffer_as(who) as c:
            just_begun(c)
    reason = why_not()
    if reason:
        tap.skip("the vault that cofferd keeps", reason)
        tap.done()
    with Internet() as net:
        api = net.https("api.example.test", welcome)
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                shared(c)
                if whole:  # in short: one vault serves sandboxes; what happens to it is between cofferd and coffer-vault
                    changed(c)
                    locked(c)
                    booted(c, api)
                    damaged(c)
                    credential(c)
                    in_files(c)
                else:
                    c("gateway", "stop")
                c.check_clean(tap)
                r = c("audit", "verify")
                tap.eq(r.code, 0, f"{c.who}: the log verifies", r)
    tap.done()


main()
