# SPDX-License-Identifier: Apache-2.0
"""Real sshd servers in the tests' own internet (nettest.py), with a git repository: for those who test keys that sign."""

import json
import os
import shutil
import subprocess

from nettest import wait_for

GIT_UID = 64321
SSHD = "/usr/sbin/sshd"


def keygen(path, kind, *more):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "x", "-f", path, *more], check=True)
    with open(path + ".pub", encoding="ascii") as f:
        return f.read().split()


def server(net, base, name, keys):
    """A real sshd in `inet`, with users of its own: a namespace hides the system's passwd and /run from it."""
    d = os.path.join(base, name)
    home = os.path.join(d, "home")
    os.makedirs(home, 0o755)
    host = {k: keygen(os.path.join(d, "host_" + k), k) for k in ("ed25519", "rsa")}
    address = net.dns[name] = net.address()

    def put(file, text):
        with open(os.path.join(d, file), "w", encoding="ascii") as f:
            f.write(text)
        return os.path.join(d, file)
    put("authorized_keys", "".join(" ".join(k) + "\n" for k in keys))
    passwd = put("passwd", "".join(f"{u}:x:{n}:{n}::{home}:/bin/sh\n" for u, n in
                                   (("root", 0), ("sshd", 64320), ("git", GIT_UID), ("other", GIT_UID + 1))))
    conf = put("conf", f"""ListenAddress {address}:22
HostKey {d}/host_ed25519
HostKey {d}/host_rsa
AuthorizedKeysFile {d}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
MaxStartups 100
MaxAuthTries 20
LogLevel VERBOSE
""")
    log = open(os.path.join(d, "log"), "w+", encoding="utf-8")
    p = net.popen_inet(["unshare", "-m", "--propagation", "private", "sh", "-c",
                        f"mount --bind {passwd} /etc/passwd && mount -t tmpfs tmpfs /run && mkdir /run/sshd && "
                        f"exec {SSHD} -D -e -f {conf}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def listens():
        with open(log.name, encoding="utf-8") as f:
            return "listening on" in f.read() or p.poll() is not None
    if not wait_for(listens) or p.poll() is not None:
        with open(log.name, encoding="utf-8") as f:
            raise RuntimeError("sshd: " + f.read())
    return {"dir": d, "home": home, "host": host, "log": log.name}


def repository(home):
    r = os.path.join(home, "r.git")
    work = os.path.join(home, "work")
    env = {"PATH": os.environ["PATH"], "HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
    for cmd in (["git", "init", "-q", "--bare", "-b", "main", r], ["git", "init", "-q", "-b", "main", work]):
        subprocess.run(cmd, check=True, env=env)
    with open(os.path.join(work, "file"), "w", encoding="ascii") as f:
        f.write("content\n")
    for cmd in (["add", "file"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"], ["push", "-q", r, "main"]):
        subprocess.run(["git", "-C", work, *cmd], check=True, env=env)
    shutil.rmtree(work)
    for top, dirs, files in os.walk(home):
        for n in [top] + [os.path.join(top, x) for x in dirs + files]:
            os.chown(n, GIT_UID, GIT_UID)


class World:
    def __init__(self, net, base):
        self.base = base
        self.keys = {k: keygen(os.path.join(base, "id_" + k), k, *more)
                     for k, more in (("ed25519", ()), ("ecdsa", ("-b", "256")), ("rsa", ("-b", "2048")))}
        keys = list(self.keys.values())
        self.git = server(net, base, "git.example.test", keys)
        self.evil = server(net, base, "evil.example.test", keys)
        repository(self.git["home"])
        self.known = os.path.join(base, "known_hosts")
        with open(self.known, "w", encoding="ascii") as f:
            f.write("# mine\n" + "".join(f"git.example.test {k[0]} {k[1]}\n" for k in self.git["host"].values()))
            f.write("*.example.test " + " ".join(self.evil["host"]["ed25519"][:2]) + "\n")
        self.hashed = os.path.join(base, "hashed")
        shutil.copy(self.known, self.hashed)
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", self.hashed], check=True, capture_output=True)
        for n in os.listdir(base):
            if os.path.isfile(os.path.join(base, n)):
                os.chmod(os.path.join(base, n), 0o644)

    def path(self, kind):
        return os.path.join(self.base, "id_" + kind)


def events(c, *types):
    return [e for e in (json.loads(x) for x in c("audit", "--json").out.splitlines()) if e["type"] in types]
