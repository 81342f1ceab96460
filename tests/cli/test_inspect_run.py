# SPDX-License-Identifier: Apache-2.0
"""Inspection as a command in a sandbox meets it: real clients under `coffer run`, every identity, both engines."""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.example.test
      port: [443, 80]
      http:
        - allow: "* /**"
        - deny: "* /secret/**"
    - domain: web.example.test
      port: 443
      http: [{allow: "GET /**"}]
    - domain: own.example.test
      port: 443
      credentials: only
      http: [{allow: "* /**"}]
    - domain: git.example.test
      port: 443
      git:
        - allow: fetch o/r
        - allow: push o/r refs/heads/bot/** create,update,force
"""

# Each line of its output is "WORD: what came of it". Nothing here is told which authority to trust.
SCRIPT = r"""
c() { curl -sS -m 60 "$@" 2>&1 | tr '\n' ' '; }
echo "one: $(c --http1.1 https://api.example.test/a -w '%{http_version}')"
echo "two: $(c --http2 https://web.example.test/small -w '%{http_version}')"
echo "big: $(c --http2 https://web.example.test/big | sha256sum)"
echo "plain: $(c http://api.example.test/p)"
echo "up: $(head -c 300000 /dev/zero | c -T - https://api.example.test/up)"
echo "denied: $(c https://api.example.test/a/../secret/x --path-as-is -w '%{http_code}')"
echo "method: $(c -X POST https://web.example.test/small -o /dev/null -w '%{http_code}')"
echo "other: $(c -H 'Host: web.example.test' https://api.example.test/ -o /dev/null -w '%{http_code}')"
echo "bare: $(c https://own.example.test/up -d data)"
echo "token: $(c https://own.example.test/up -d data -H 'Authorization: Bearer theirs' -w '%{http_code}')"
echo "python: $(python3 -c "
import urllib.request
print(urllib.request.urlopen('https://api.example.test/py', timeout=60).read().decode().strip())" 2>&1 | tail -n 1)"
echo "node: $(node -e "fetch('https://api.example.test/n').then(r => r.text()).then(console.log, console.log)" 2>&1 | head -n 1)"
cd /tmp && export HOME=/tmp GIT_TERMINAL_PROMPT=0
git clone -q https://git.example.test/o/r 2>&1 | head -n 3
echo "clone: $(cat r/file)"
git -C r push -q origin HEAD:refs/heads/bot/BRANCH >/dev/null 2>&1
echo "push: $?"
echo "main: $(git -C r push -q origin HEAD:refs/heads/other 2>&1 | grep -o 403)"
"""


def visit(tap, c, big):
    who = c.who
    path = os.path.join(c.home, "policy.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(POLICY)
    c.own(path)
    branch = re.sub(r"\W", "-", f"{who}")
    r = c("run", "--engine", c.engine, "--policy", path, "--", "sh", "-c", SCRIPT.replace("BRANCH", branch))
    got = dict(re.findall(r"^(\w+): ?(.*?) ?$", r.out, re.M))

    def line(word, wanted, name):
        tap.ok(re.search(wanted, got.get(word, ""), re.S), f"{who}: {name}", f"{word}: {got.get(word)!r}", r)

    line("one", r"^hello /a +1\.1", "curl with HTTP/1.1 gets its response")
    line("two", "^small 2", "curl with HTTP/2 gets its response")
    line("big", f"^{big}", "a large response arrives whole")
    line("plain", "^plain /p", "plain HTTP passes")
    line("up", "^hello /up 300000", "an upload of unknown length arrives whole")
    line("denied", '"error":"denied".*"path":"/secret/x".*403$', "a denied path in another spelling is 403 with the reason")
    line("method", "^403", "a denied method is 403")
    line("other", "^421", "another Host is 421")
    line("bare", "^own /up", "40: an upload without a credential passes under credentials: only")
    line("token", '"error":"denied".*403$', "40: an upload with a token of the sandbox's own is denied")
    line("python", "^hello /py", "python urllib trusts the sandbox's authority")
    line("node", "^hello /n", "node fetch trusts the sandbox's authority")
    line("clone", "^content", "git clone succeeds")
    line("push", "^0", "git push to an allowed branch succeeds")
    line("main", "^403", "git push to another branch is 403")
    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    seen = {(e.get("method"), e.get("path"), e.get("decision")) for e in lines if e["type"] == "net.request"}
    tap.ok({("GET", "/a", "allow"), ("GET", "/secret/x", "deny")} <= seen, f"{who}: each request is in the log", seen)
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("inspection under coffer run", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="inspectrun-")
    os.chmod(base, 0o755)
    www, git = os.path.join(base, "www"), os.path.join(base, "git")
    os.mkdir(www)
    with open(os.path.join(www, "small"), "w", encoding="ascii") as f:
        f.write("small\n")
    data = "x" * 72 + "\n"
    with open(os.path.join(www, "big"), "w", encoding="ascii") as f:
        f.write(data * 30000)
    # As the shell's `c` prints it: newlines as spaces.
    big = hashlib.sha256((data.replace("\n", " ") * 30000).encode()).hexdigest()
    ht.git_repo(git, "r", "other")
    procs = []
    try:
        with Internet() as net:
            net.https("api.example.test", lambda q: f"hello {q.path} {len(q.body) or ''}\n")
            own = net.https("own.example.test", lambda q: f"own {q.path}\n")
            net.http("api.example.test", lambda q: f"plain {q.path}\n")
            for name in ("web", "git"):
                net.dns[f"{name}.example.test"] = net.address()
            do = net.inet.do
            web = (net.dns["web.example.test"], 443)
            procs.append(ht.nginx(base, net.cert("web.example.test"), www, web, do))
            procs.append(ht.git_server(git, net.cert("git.example.test"), (net.dns["git.example.test"], 443), do))
            for who, whole in covering(tap):
                # The inspection runs outside; cli/net has an inspected request of each identity on each engine.
                if not whole and who.engine == "gvisor":
                    continue
                with net.coffer(who) as c:
                    visit(tap, c, big)
            tap.eq([q for q in own.requests if q.headers.get("Authorization")], [], "40: no token of a sandbox's own reached the server")
    finally:
        for p in procs:
            p.close()
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
