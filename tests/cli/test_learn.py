#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Observe, learn, enforce: a real git clone and npm install is watched, what was seen becomes a policy, and that policy lets
the same run through and nothing more. Then coffer net log, drift, metrics and coffer why over what was logged."""
# tests/run: timeout=1200

import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tarfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

GIT, NPM, EVIL = "git.example-forge.com", "registry.npmjs.org", "drop.evil-example.net"
JOB = f"""set -e
export GIT_TERMINAL_PROMPT=0 npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
rm -rf /tmp/job; mkdir /tmp/job; cd /tmp/job
git clone -q https://{GIT}/project.git
cat project/README
cd project
npm install --no-progress --cache /tmp/job/cache --registry https://{NPM}/ >/tmp/job/npm.log 2>&1 || {{ cat /tmp/job/npm.log; exit 1; }}
node -e 'console.log(require("left-foot"))'
"""


def make_repository(where):
    """A bare repository that git http-backend can serve, with a package.json that wants one package."""
    work = os.path.join(where, "work")
    env = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@example.com", "HOME": where, "GIT_CONFIG_NOSYSTEM": "1"}
    os.mkdir(work)
    with open(os.path.join(work, "README"), "w", encoding="ascii") as f:
        f.write("cloned-through-the-wall\n")
    with open(os.path.join(work, "package.json"), "w", encoding="ascii") as f:
        json.dump({"name": "project", "version": "1.0.0", "dependencies": {"left-foot": "1.0.0"}}, f)
    for args in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *args], cwd=work, env=env, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", work, os.path.join(where, "project.git")], env=env, check=True)
    return where


def git_handler(root):
    def handle(req):
        path, _, query = req.path.partition("?")
        env = {"GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": req.method, "CONTENT_TYPE": req.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": req.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": req.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(req.body)),
               "PATH": os.environ["PATH"], "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run(["git", "http-backend"], input=req.body, env=env, capture_output=True, check=False).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, body
    return handle


def npm_handler():
    """A registry with one package."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in (("package/package.json", json.dumps({"name": "left-foot", "version": "1.0.0",
                                                                "main": "index.js"})),
                           ("package/index.js", "module.exports = 'installed-through-the-wall';\n")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = data.getvalue()
    meta = {"name": "left-foot", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "left-foot", "version": "1.0.0", "dist": {
            "tarball": f"https://{NPM}/left-foot/-/left-foot-1.0.0.tgz",
            "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}}}}

    def handle(req):
        if req.path.endswith(".tgz"):
            return 200, {"Content-Type": "application/octet-stream"}, data
        if req.path.split("?")[0] == "/left-foot":
            return 200, {"Content-Type": "application/json"}, json.dumps(meta)
        return 404, {}, "{}"
    return handle


def ca_args(net):
    """At depth peek TLS ends at the server, so its CA has to be known inside."""
    return ["-v", f"{net.ca}:/mnt/test-ca.pem", "-e", "GIT_SSL_CAINFO=/mnt/test-ca.pem", "-e",
            "NODE_EXTRA_CA_CERTS=/mnt/test-ca.pem", "-e", "npm_config_cafile=/mnt/test-ca.pem", "-e",
            "CURL_CA_BUNDLE=/mnt/test-ca.pem"]


def events(c, ref, *more):
    r = c("net", "log", "--json", ref, *more)
    return [json.loads(line) for line in r.out.splitlines()]


def learn_and_enforce(tap, net, who, c):
    base = ["run", "--engine", who.engine, "--ephemeral", *ca_args(net)]
    r = c(*base, "--net", "observe", "--", "sh", "-c", JOB)
    tap.eq(r.code, 0, f"{who}: the job runs under observe", r)
    tap.ok("cloned-through-the-wall" in r.out and "installed-through-the-wall" in r.out,
           f"{who}: the job clones and installs under observe", r)
    seen = {e.get("name") for e in events(c, "@last") if e["type"] == "net.open"}
    tap.ok({GIT, NPM} <= seen, f"{who}: the log has the names of both servers", seen)
    policy = os.path.join(c.dir, "learned.yaml")
    r = c("net", "learn", "@last", "-o", policy)
    tap.eq(r.code, 0, f"{who}: net learn writes a policy", r)
    with open(policy, encoding="utf-8") as f:
        text = f.read()
    tap.eq(sorted(line.split('"')[1] for line in text.splitlines() if "- domain:" in line), sorted([GIT, NPM]),
           f"{who}: the learned policy allows the two used hosts alone", text)
    r = c("policy", "check", policy)
    tap.eq(r.code, 0, f"{who}: policy check accepts the learned policy", r)
    r = c(*base, "--policy", policy, "--", "sh", "-c", JOB)
    tap.ok(r.code == 0 and "installed-through-the-wall" in r.out, f"{who}: the job works under the learned policy", r)
    r = c("net", "drift", "@last", "--baseline", policy)
    tap.eq(r.code, 0, f"{who}: net drift finds no drift under the learned policy", r)
    r = c("net", "learn", "@last", "-o", policy)
    tap.ok(r.code != 0 and "is there already" in r.err, f"{who}: net learn does not replace a file", r)
    return policy, base


def short(tap, net, who, c):
    """One request is learned. The source of a policy is the log, which is written outside."""
    r = c("run", "--engine", who.engine, "--ephemeral", *ca_args(net), "--net", "observe", "--", "curl", "-sS", "-m", "60", "-o", "/dev/null",
          f"https://{NPM}/")
    tap.eq(r.code, 0, f"{who}: a request under observe is answered", r)
    r = c("net", "learn", "@last")
    tap.eq(re.findall(r'- domain: "(.*)"', r.out), [NPM], f"{who}: the policy that is learned allows the host of that request alone", r)


def on_terminal(c, width, *args):
    """The lines that coffer shows on a terminal so wide."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    p = c.popen(*args, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    with contextlib.suppress(OSError):  # its end, once nobody has it open
        while piece := os.read(master, 65536):
            out += piece
    p.wait()
    os.close(master)
    return out.decode().replace("\r", "").splitlines()


def nothing_more(tap, net, who, c, policy, base, evil):
    before, asked = len(evil.connections), net.queries.count((EVIL, "A"))
    probe = f"curl -sSf -m 60 https://{EVIL}/ ; echo $?; curl -sSf -m 60 http://{GIT}/ ; echo $?"
    r = c(*base, "--policy", policy, "--", "sh", "-c", probe)
    # 6: there is no such host; 22: an HTTP error, which is our 403
    tap.eq(r.out.split(), ["6", "22"], f"{who}: another name and another port are refused under the learned policy", r)
    tap.eq(len(evil.connections), before, f"{who}: a refused request does not reach its server")
    tap.eq(net.queries.count((EVIL, "A")), asked, f"{who}: a refused name is not asked for at a resolver")
    r = c("net", "drift", "@last", "--baseline", policy)
    tap.ok(r.code == 1 and EVIL in r.out, f"{who}: net drift shows the refused name", r)
    r = c("why", "@last")
    tap.ok(r.code == 0 and "denied:" in r.out and ("--allow" in r.out or "rule:" in r.out), f"{who}: coffer why explains the refusal", r)
    r = c("net", "log", "--denied", "@last")
    tap.ok(EVIL in r.out and " denied " in r.out, f"{who}: net log --denied has the refused name", r)
    lines = on_terminal(c, 80, "net", "log", "@last")
    tap.ok(lines and max(map(len, lines)) <= 80 and any(re.search(rf"{EVIL[:12]}.* denied .*no rule", x) for x in lines),
           f"{who}: net log fits a terminal of 80 columns", lines)
    # The control: allowed, the very same command gets there.
    r = c(*base, "--allow", EVIL, "--", "sh", "-c", f"curl -sS -m 60 https://{EVIL}/")
    tap.ok(r.code == 0 and len(evil.connections) > before, f"{who}: (control) the refused server is reached with --allow", r)
    wait_for(lambda: any(e["type"] == "net.close" and e.get("name") == EVIL for e in events(c, "@last")))
    r = c("net", "log", "@last")
    tap.like(r.out, rf"{EVIL}\s+443\s+peek\s+allow", f"{who}: net log has the allowed connection", r)
    r = c("net", "metrics")
    tap.like(r.out, r'coffer_net_connections_total\{decision="allow"\} [1-9]', f"{who}: net metrics counts the allowed connection", r)


def bad_input(tap, c):
    for args, code, words in ((("net",), 2, "needs one of these words"), (("net", "lern"), 2, "learn"), (("net", "log", "--http"), 2, "belong"),
                              (("net", "drift"), 125, "--baseline"), (("net", "log", "--since", "nonsense"), 2, "time"),
                              (("net", "learn", "no-such"), 125, "no-such"), (("why", "a", "b"), 2, "one sandbox"),
                              (("profile", "show"), 2, "name"), (("profile", "show", "clade"), 125, "claude"),
                              (("run", "--profile", "clade", "--", "true"), 2, "claude")):
        r = c(*args)
        tap.ok(r.code == code and words in r.err, f"coffer {' '.join(args)} exits {code} with {words!r}", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("learning", reason)
        tap.done()
    with Internet() as net:
        net.https(GIT, git_handler(make_repository(net.dir)))
        net.https(NPM, npm_handler())
        evil = net.https(EVIL)
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                if not whole:
                    short(tap, net, who, c)
                    c.check_clean(tap)
                    continue
                policy, base = learn_and_enforce(tap, net, who, c)
                nothing_more(tap, net, who, c, policy, base, evil)
                if who.engine == "gvisor":
                    bad_input(tap, c)
                c.check_clean(tap)
    tap.done()


main()
