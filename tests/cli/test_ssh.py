# SPDX-License-Identifier: Apache-2.0
"""The ssh-agent of a sandbox with real OpenSSH: git clone and push to a granted host by a key that is in the vault alone, and
whatever a hostile program inside may try to sign with it. Every identity, both engines; each attempt has a positive control."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering, descendants, identities, kill_own  # noqa: E402
from memsearch import memory  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from sshrig import SSHD, World, events  # noqa: E402

# Each line of its output is "WORD: what came of it".
SCRIPT = r"""
cd /tmp && unset HOME; export HOME=/tmp
s() { ssh -o BatchMode=yes -o ConnectTimeout=60 "$@" 2>&1 | tr '\n' ' '; }
echo "sock: $SSH_AUTH_SOCK $(stat -c '%a %u' "$(dirname "$SSH_AUTH_SOCK")") $(id -u)"
echo "list: $(ssh-add -l | tr '\n' ' ')"
echo "login: $(s -T git@git.example.test 'echo hello $USER')"
git clone -q git@git.example.test:r.git 2>&1 | head -n 5
echo "clone: $(cat r/file)"
git -C r -c user.name=t -c user.email=t@t commit -q --allow-empty -m x
git -C r push -q origin HEAD:refs/heads/BRANCH 2>&1 | head -n 3
echo "push: $(git -C r ls-remote origin refs/heads/BRANCH | wc -l)"
echo "user: $(s -T other@git.example.test 'echo hello $USER')"
echo "evil: $(s -T -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/evil git@evil.example.test 'echo hello $USER')"
echo "forward: $(s -A -T git@git.example.test 'ssh-add -l; ssh-add -D')"
echo "signfile: $(ssh-add -L | head -n 1 > k.pub; echo x > x; ssh-keygen -Y sign -n git -f k.pub x 2>&1 | tr '\n' ' ')"
python3 attack.py 2>&1
echo "after: $(s -T git@git.example.test 'echo hello $USER')"
"""

ATTACK = r"""
import os, socket, struct, sys, time
PATH = os.environ["SSH_AUTH_SOCK"]

def s(b): return struct.pack(">I", len(b)) + b

def connect():
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(60)
    for i in range(3000):
        try:
            c.connect(PATH)
            return c
        except BlockingIOError:
            time.sleep(0.02)

def whole(c, n):
    out = b""
    while len(out) < n:
        more = c.recv(n - len(out))
        if not more:
            return None
        out += more
    return out

def ask(c, m):
    c.sendall(s(m))
    head = whole(c, 4)
    return head and whole(c, struct.unpack(">I", head)[0])

def keys(c):
    a = ask(c, b"\x0b")
    n, at, out = struct.unpack(">I", a[1:5])[0], 5, []
    for _ in range(2 * n):
        k = struct.unpack(">I", a[at:at + 4])[0]
        out.append(a[at + 4:at + 4 + k])
        at += 4 + k
    return out[::2]

def login(key, session=b"S" * 32, user=b"git", alg=b"ssh-ed25519", method=b"publickey"):
    return s(session) + b"\x32" + s(user) + s(b"ssh-connection") + s(method) + b"\x01" + s(alg) + s(key)

def sign(c, key, data, flags=0):
    return ask(c, b"\x0d" + s(key) + s(data) + struct.pack(">I", flags))

def bind(host, session, sig, forward=0):
    return b"\x1b" + s(b"session-bind@openssh.com") + s(host) + s(session) + s(sig) + bytes([forward])

c = connect()
key = [k for k in keys(c) if b"ed25519" in k[:20]][0]
print("keys:", len(keys(c)))
print("nobind:", sign(c, key, login(key)))
print("arbitrary:", sign(c, key, b"anything at all"))
print("sshsig:", sign(c, key, b"SSHSIG" + s(b"git") + s(b"") + s(b"sha512") + s(b"x" * 64)))
print("nokey:", sign(c, key[:-1] + b"x", login(key)))
host = b"".join(s(x) for x in (b"ssh-ed25519", bytes.fromhex(sys.argv[1] if len(sys.argv) > 1 else HOST)))
print("forged:", ask(c, bind(host, b"S" * 32, s(b"ssh-ed25519") + s(b"\0" * 64))))
print("forgedsign:", sign(c, key, login(key)))
print("spoilt:", len(keys(c)))
c = connect()
print("forwarded:", ask(c, bind(host, b"S" * 32, s(b"ssh-ed25519") + s(b"\0" * 64), 1)))
c = connect()
print("manage:", [ask(c, m) for m in (b"\x11" + s(b"ssh-ed25519") + s(b"k" * 32), b"\x12" + s(key), b"\x13", b"\x16" + s(b"x"), b"\x1a" + s(b"x"), b"\x01", b"\xff")])
c.sendall(struct.pack(">I", 1 << 20) + b"x" * 100)
print("oversized:", whole(c, 4))
c = connect()
c.sendall(struct.pack(">I", 0))
print("empty:", whole(c, 4))
c = connect()
c.sendall(b"\0\0\0\x05\x0b")
c.close()
many = []
try:
    for i in range(1000):
        m = socket.socket(socket.AF_UNIX)
        m.setblocking(False)
        many.append(m)
        m.connect(PATH)
except OSError as e:
    pass
print("many:", len(many) > 16)
for m in many:
    m.close()
n = 0
for i in range(300):
    c = connect()
    n += len(keys(c)) > 0
    c.close()
print("again:", n)
c = connect()
print("flood:", len({sign(c, key, login(key)) for i in range(200)}))
"""


def put_keys(tap, c, w):
    who = c.who
    args = ["--host", "git.example.test", "--as", "ssh", "--user", "git"]
    r = c("secret", "set", "deploy", "--file", w.path("ed25519"), *args)
    tap.ok(r.code != 0 and "--known-hosts" in r.err, f"{who}: a key without its host's key is refused", r)
    r = c("secret", "set", "deploy", "--file", w.path("ed25519"), *args, "--known-hosts", w.hashed)
    tap.ok(r.code == 0 and "may sign for git.example.test as ssh (user git)" in r.err, f"{who}: a key is put into the vault", r)
    for kind in ("rsa", "ecdsa"):
        r = c("secret", "set", kind, "--file", w.path(kind), *args, "--known-hosts", w.known)
        tap.eq(r.code, 0, f"{who}: a key of type {kind} is put into the vault", r)
    r = c("secret", "bind", "deploy", "--host", "git.example.test:2222", "--as", "ssh", "--known-host", "ssh-ed25519 AAAA")
    tap.ok(r.code == 2 and "is not a valid key of an SSH server" in r.err, f"{who}: a malformed host key is refused", r)
    r = c("secret", "bind", "deploy", "--host", "nowhere.example.test", "--as", "ssh", "--known-hosts", w.known)
    tap.ok(r.code == 2 and "has no key of nowhere" in r.err, f"{who}: a known_hosts file without the host's key is refused", r)
    locked = os.path.join(c.home, "locked")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret pass", "-f", locked], check=True)
    c.own(locked)
    r = c("secret", "set", "locked", "--file", locked, *args, "--known-hosts", w.known)
    tap.ok(r.code == 17 and "encrypted" in r.err and "ssh-keygen -p" in r.err, f"{who}: an encrypted key is refused with what to do", r)
    r = c("secret", "set", "public", "--file", w.path("ed25519") + ".pub", *args, "--known-hosts", w.known)
    tap.ok(r.code == 17 and "public key" in r.err, f"{who}: a public key is refused", r)
    r = c("secret", "ls")
    tap.ok("git.example.test as ssh (user git)" in r.out and "locked" not in r.out, f"{who}: secret ls shows the binding of a key", r)


def short(tap, c, w):
    """A login with a key of the vault. The agent's refusals and signatures are decided by coffer-vault, outside."""
    r = c("secret", "set", "deploy", "--file", w.path("ed25519"), "--host", "git.example.test", "--as", "ssh", "--user", "git", "--known-hosts",
          w.known)
    tap.ok(r.code == 0 and "line breaks" not in r.err, f"{c.who}: a key is put into the vault without a note about headers", r)
    r = c("run", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "deploy", "--", "sh", "-c",
          "stat -c '%a %u' \"$(dirname $SSH_AUTH_SOCK)\"; id -u; HOME=/tmp ssh -o BatchMode=yes -T git@git.example.test 'echo hello $USER'",
          timeout=400)
    tap.like(r.out, r"^700 (\d+)\n\1\nhello git\n$", f"{c.who}: ssh logs in through an agent of the command's own uid", r)
    c.check_clean(tap)


def visit(tap, c, w):
    who = c.who
    branch = re.sub(r"\W", "-", f"{who}")
    ws = os.path.join(c.dir, "ws")
    os.makedirs(ws, exist_ok=True)
    host = base64.b64decode(w.git["host"]["ed25519"][1])[19:].hex()
    script = f"cat > /tmp/attack.py <<'END'\n{ATTACK.replace('HOST)', repr(host) + ')')}\nEND\n" + SCRIPT.replace("BRANCH", branch)
    r = c("run", "--engine", c.engine, "--allow", "git.example.test:22", "--allow", "evil.example.test:22", "--secret", "deploy",
          "--", "sh", "-c", script, timeout=400)
    got = dict(re.findall(r"^(\w+): ?(.*?) ?$", r.out, re.M))

    def line(word, wanted, name):
        tap.ok(re.search(wanted, got.get(word, ""), re.S), f"{who}: {name}", f"{word}: {got.get(word)!r}", r)

    line("sock", r"^/\S+ 700 (\d+) \1$", "the agent's socket is in a directory of the command's own uid")
    line("list", r"^256 SHA256:\S+ deploy \(ED25519\)$", "ssh-add sees the one key")
    line("login", "^hello git$", "ssh -T logs in without a question")
    line("clone", "^content", "git clone git@host succeeds")
    line("push", "^1$", "git push succeeds")
    line("user", "Permission denied", "a login as another user is refused")
    line("evil", "Permission denied", "a login at another server that knows the key is refused")
    line("forward", "Could not open|agent refused|no identities|Error|error|refused|denied", "a forwarded agent signs and removes nothing")
    line("signfile", "refused|failed|denied|Couldn't|error", "a file is not signed")
    refused = r"b'\\x05'"
    line("keys", "^1$", "a raw client is told the public key")
    for word, what in (("nobind", "a login in a session that was not bound"), ("arbitrary", "arbitrary data"),
                       ("sshsig", "a signature for git"), ("nokey", "a key that is not in the vault"),
                       ("forged", "a session with a forged signature of the host"), ("forgedsign", "a login after a forged session"),
                       ("forwarded", "a session with the forwarding bit")):
        line(word, f"^{refused}$", f"{what} is refused")
    line("spoilt", "^0$", "a connection with a forged session lists no key any more")
    line("manage", rf"^\[({refused}, ){{6}}{refused}\]$", "adding, removing, locking and unknown messages fail")
    line("oversized", "^None$", "a message of 1 MiB ends its connection")
    line("empty", "^None$", "an empty message ends its connection")
    line("many", "^True$", "a thousand connections at once are accepted")
    line("again", "^300$", "later connections are answered after a thousand")
    line("flood", "^1$", "two hundred requests to sign are refused alike")
    line("after", "^hello git$", "the agent works after all attacks")
    uses = events(c, "secret.use")
    want = {"secret": "deploy", "host": "git.example.test", "port": 22, "user": "git", "as": "ssh"}
    tap.ok(uses and all(want.items() <= e.items() and e["key"].startswith("SHA256:") and re.fullmatch("[0-9a-f]{16}", e["session"])
                        for e in uses), f"{who}: each signature is in the log with key and session", uses[:2])
    with open(w.git["log"], encoding="utf-8") as f:
        accepted = f.read().count("Accepted publickey")
    tap.ok(accepted >= len(uses) >= 4, f"{who}: the log has no more signatures than the server accepted", accepted, len(uses))
    no = events(c, "secret.refused")
    why = " ".join(e["why"] for e in no)
    tap.ok(all(x in why for x in ("not a login", "did not say which server", "is not known", "signature over the session is wrong",
                                  "forwarded", "another user", "too many signatures")), f"{who}: the log has the reason of each refused signature", no)
    tap.ok(len(no) < 40 and any(e.get("count", 0) > 50 for e in no), f"{who}: repeated refusals are folded in the log", len(no), no)
    start = events(c, "run.start")[-1]
    tap.eq(start.get("secrets"), ["deploy"], f"{who}: run.start lists the key")
    with open(w.evil["log"], encoding="utf-8") as f:
        tap.ok("Accepted" not in f.read(), f"{who}: the other server accepted no login")
    c.check_clean(tap)


def kinds(tap, c, w):
    """RSA and ECDSA, by a policy's rule; a session that another key is bound for."""
    who = c.who
    policy = os.path.join(c.home, "ssh.yaml")
    with open(policy, "w", encoding="ascii") as f:
        f.write("version: 1\negress:\n  allow:\n    - {domain: git.example.test, secret: {name: rsa, as: ssh}}\n"
                "    - {domain: git.example.test, port: 22, secret: {name: ecdsa, as: ssh}}\n")
    c.own(policy)
    r = c("run", "--engine", c.engine, "--policy", policy, "--", "sh", "-c",
          "cd /tmp; export HOME=/tmp; ssh-add -L > all; for k in rsa ecdsa; do grep $k all > $k.pub; ssh -o BatchMode=yes "
          "-o IdentitiesOnly=yes -i $k.pub -T git@git.example.test echo hello $k; done", timeout=300)
    tap.eq(r.out, "hello rsa\nhello ecdsa\n", f"{who}: RSA and ECDSA sign, granted by rules alone", r)
    r = c("run", "--engine", c.engine, "--allow", "git.example.test:22", "--", "sh", "-c",
          "echo \"${SSH_AUTH_SOCK-none}\"; ssh -o BatchMode=yes -T git@git.example.test true", timeout=300)
    tap.ok(r.out == "none\n" and r.code != 0, f"{who}: without --secret there is no agent", r)
    r = c("run", "--engine", c.engine, "--allow", "evil.example.test:22", "--secret", "deploy@evil.example.test", "--", "true")
    tap.ok(r.code == 125 and "not bound to evil.example.test" in r.err, f"{who}: --secret with a host that is not bound is refused", r)


def held(pid, needles):
    """Which of these bytes a process has; none where it has just ended."""
    try:
        return [n for n in needles if any(n in m for m in memory(pid))]
    except (ProcessLookupError, FileNotFoundError):
        return []


def looked_for(tap, c, w):
    """While the sandbox is there: no process but the vault has the key; a vault that is killed comes back; exec has the agent."""
    who = c.who
    with open(w.path("ed25519"), encoding="ascii") as f:
        text = f.read()
    raw = base64.b64decode("".join(text.splitlines()[1:-1]))
    at = raw.rindex(b"ssh-ed25519") + 11 + 4 + 32 + 4
    needles = [raw[at:at + 32], text.splitlines()[3].encode()]
    p = c.popen("run", "--name", "keyed", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "deploy", "--", "sh", "-c",
                "export HOME=/tmp; while read x; do ssh -o BatchMode=yes -T git@git.example.test echo hello 2>&1 | tail -n 1; done",
                stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return p.stdout.readline().decode()
    got = ask()
    tap.eq(got, "hello\n", f"{who}: control: a sandbox has used the key and waits")
    found = {f"{kid} {t}": held(kid, needles) for kid, t in descendants(p.pid) + [(p.pid, "S coffer")]}
    tap.ok(any(v for t, v in found.items() if "coffer-vault" in t), f"{who}: control: coffer-vault has the key in memory", found)
    tap.ok(not any(v for t, v in found.items() if "coffer-vault" not in t) and len(found) > 5, f"{who}: no other process has the key in memory", found)
    left = [os.path.join(top, n) for top, _, files in os.walk(c.dir) for n in files
            if os.path.isfile(os.path.join(top, n)) and not os.path.islink(os.path.join(top, n))
            and any(x in open(os.path.join(top, n), "rb").read() for x in needles)]
    tap.eq(left, [], f"{who}: no file of state, home or workspace has the key")
    r = c("exec", "keyed", "--", "sh", "-c", "HOME=/tmp ssh -o BatchMode=yes -T git@git.example.test echo by exec", timeout=300)
    tap.ok("by exec" in r.out, f"{who}: coffer exec has the agent", r)
    old = [pid for pid, t in descendants(p.pid) if "coffer-vault" in t]
    os.kill(old[0], signal.SIGKILL)
    tap.ok(wait_for(lambda: events(c, "vault.up")), f"{who}: a killed coffer-vault is restarted")
    got = []
    tap.ok(wait_for(lambda: got.append(ask()) or got[-1] == "hello\n"), f"{who}: the agent works after coffer-vault was killed", got)
    n = len(events(c, "vault.up"))
    r = c("secret", "unbind", "deploy", "--host", "git.example.test")
    tap.ok(r.code == 0 and wait_for(lambda: len(events(c, "vault.up")) > n), f"{who}: secret unbind reloads the vault", r)
    got = []
    tap.ok(wait_for(lambda: got.append(ask()) or "Permission denied" in got[-1]), f"{who}: an unbound key signs no more", got)
    p.stdin.close()
    err = p.stderr.read()
    p.stdout.close()
    p.wait()
    tap.ok(b"coffer-vault has ended" in err, f"{who}: the death of the vault is reported on the terminal", err)
    c("secret", "bind", "deploy", "--host", "git.example.test", "--as", "ssh", "--user", "git", "--known-hosts", w.known)
    c.check_clean(tap)


def kept(tap, c, w):
    """The vault that cofferd keeps: it dies, its file changes, cofferd dies."""
    who = c.who

    def vault():
        r = c("gateway", "status", "--json")
        return json.loads(r.out).get("vault", {}) if r.code == 0 else {}
    tap.eq(c("gateway", "start").code, 0, f"{who}: coffer gateway start starts cofferd")
    p = c.popen("run", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "deploy", "--", "sh", "-c",
                "export HOME=/tmp; while read x; do ssh -o BatchMode=yes -T git@git.example.test echo hello 2>&1 | tail -n 1; done",
                stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return p.stdout.readline().decode()

    def own():
        return [pid for pid, t in descendants(p.pid) if t.endswith("coffer-vault") and t[0] != "Z"]
    got = ask()
    tap.eq(got, "hello\n", f"{who}: the vault of cofferd signs")
    v = vault()
    tap.ok(v.get("running") and v.get("sandboxes") == 1 and not own(), f"{who}: the vault of cofferd is the only one", v, own())
    kill_own(v["pid"])
    tap.ok(wait_for(lambda: ask() == "hello\n"), f"{who}: the agent works after cofferd's vault was killed")
    tap.ok(vault().get("deaths") == 1 and not own(), f"{who}: cofferd restarts its vault, and the run opens none", vault(), own())
    tap.eq(c("secret", "unbind", "deploy", "--host", "git.example.test").code, 0, f"{who}: secret unbind unbinds a key of cofferd's vault")
    tap.ok(wait_for(lambda: "Permission denied" in ask()), f"{who}: an unbound key of cofferd's vault signs no more")
    r = c("secret", "bind", "deploy", "--host", "git.example.test", "--as", "ssh", "--user", "git", "--known-hosts", w.known)
    tap.ok(r.code == 0 and wait_for(lambda: ask() == "hello\n"), f"{who}: a key that is bound again signs", r)
    tap.ok(not own(), f"{who}: the run opens no vault while cofferd's serves", own())
    kill_own(json.loads(c("gateway", "status", "--json").out)["pid"])
    tap.ok(wait_for(lambda: own() and ask() == "hello\n"), f"{who}: the run opens a vault of its own after cofferd was killed", own())
    p.stdin.close()
    p.stdout.read()
    p.stderr.read()
    p.wait()
    c("gateway", "stop")
    c.check_clean(tap)


SIGNED = r"""cd /tmp && export HOME=/tmp && ssh-add -L > k.pub && git init -q s && cd s && git config user.name t && git config user.email t@t &&
git config gpg.format ssh && git config user.signingkey /tmp/k.pub && git commit -q -S --allow-empty -m x && git cat-file -p HEAD | grep -c 'SSH SIGNATURE'
"""


def allowed(tap, c, w):
    """Signatures that a binding allows beyond logins, and only then."""
    who = c.who
    args = ["run", "--engine", c.engine, "--allow", "git.example.test:22", "--secret", "extra", "--"]
    c("secret", "set", "extra", "--file", w.path("ecdsa"), "--host", "git.example.test", "--as", "ssh", "--known-hosts", w.known)
    r = c(*args, "sh", "-c", SIGNED, timeout=300)
    tap.ok(r.code != 0, f"{who}: git commit -S is refused without ssh:sshsig", r)
    r = c("secret", "bind", "extra", "--host", "git.example.test", "--as", "ssh:sshsig", "--known-hosts", w.known)
    tap.eq(r.code, 0, f"{who}: secret bind --as ssh:sshsig is accepted", r)
    r = c(*args, "sh", "-c", SIGNED, timeout=300)
    tap.ok(r.code == 0 and r.out == "2\n", f"{who}: git commit -S works with ssh:sshsig", r)
    c("secret", "rm", "extra")


def main():
    tap = Tap()
    reason = why_not() or (None if os.path.exists(SSHD) else "openssh-server is not installed")
    if reason:
        tap.skip("ssh under coffer run", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="ssh-")
    os.chmod(base, 0o755)
    try:
        with Internet() as net:
            w = World(net, base)
            for who, whole in covering(tap):
                with net.coffer(who) as c:
                    if not whole:
                        short(tap, c, w)
                        continue
                    put_keys(tap, c, w)
                    visit(tap, c, w)
                    kinds(tap, c, w)
                    allowed(tap, c, w)
                    looked_for(tap, c, w)
                    kept(tap, c, w)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
