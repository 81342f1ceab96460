# SPDX-License-Identifier: Apache-2.0
"""Secrets under `coffer run`: a command that has only placeholders does real work with servers that check the credential,
and nowhere but in the vault is a byte of it. Every identity, both engines; what is not found has a positive control."""

import base64
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from coffertest import Tap, covering, descendants  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
PASSWORD = "pw-" + base64.b32encode(os.urandom(24)).decode()[:30]
CONTROL = "ctl_" + base64.b32encode(os.urandom(24)).decode()[:36]

# Destinations that are inspected; the lack of a rule with a secret is no reason against one of the command line.
OPEN = """version: 1
egress:
  allow:
    - {domain: api.example.test, port: 443}
    - {domain: git.example.test, port: 443}
    - {domain: other.example.test, port: 443, http: [{allow: "* /**"}]}
"""

POLICY = """version: 1
egress:
  allow:
    - {domain: api.example.test, port: 443, secret: {name: github, env: MY_TOKEN, as: bearer}}
    - {domain: other.example.test, port: 443, secret: nowhere}
"""

LOOSE = """version: 1
egress:
  allow:
    - {domain: other.example.test, port: 443, secret: loose}
"""

# Each line of its output is "WORD: what came of it".
SCRIPT = r"""
c() { curl -sS -m 60 "$@" 2>&1 | tr '\n' ' '; }
echo "env: $GITHUB_TOKEN"
echo "one: $(c --http1.1 -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1/one)"
echo "two: $(c --http2 -H "Authorization: token $GITHUB_TOKEN" https://api.example.test/v1/two -w '%{http_version}')"
echo "mirror: $(c -i -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1/mirror)"
echo "python: $(python3 -c "
import os, urllib.request
q = urllib.request.Request('https://api.example.test/v1/py', headers={'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']})
print(urllib.request.urlopen(q, timeout=60).read().decode().strip())" 2>&1 | tail -n 1)"
echo "path: $(c -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v2 -w '%{http_code}')"
echo "other: $(c -H "Authorization: Bearer $GITHUB_TOKEN" https://other.example.test/ -w '%{http_code}')"
echo "after: $(c https://other.example.test/ -w '%{http_code}')"
echo "fake: $(c -H "Authorization: Bearer ghp_000000000000000000000000000000000000" https://api.example.test/v1/f -w '%{http_code}')"
cd /tmp && export HOME=/tmp GIT_TERMINAL_PROMPT=0
git clone -q https://git.example.test/o/r 2>&1 | head -n 3
echo "clone: $(cat r/file)"
git -C r -c user.name=t -c user.email=t@t commit -q --allow-empty -m x
git -C r push -q origin HEAD:refs/heads/BRANCH 2>&1 | head -n 3
echo "push: $(git -C r ls-remote origin refs/heads/BRANCH | wc -l)"
echo "config: $(grep -ciE 'credential|password|helper' r/.git/config)"
echo "nohelp: $(GIT_CONFIG_COUNT=0 git -C r ls-remote origin 2>&1 | grep -ci 'could not read\|terminal prompts')"
touch /tmp/ready
"""


def api(q):
    """Wants the token; says it back in eleven encodings."""
    auth = q.headers.get("Authorization", "")
    if auth.split(" ", 1)[-1] != TOKEN:
        return 401, {}, "who are you?\n"
    if q.path != "/v1/mirror":
        return 200, {}, f"welcome {q.path}\n"
    raw = TOKEN.encode()
    parts = [TOKEN, json.dumps({"t": TOKEN}), urllib.parse.quote("/" + TOKEN, safe=""), raw.hex(), raw.hex().upper(), CONTROL,
             base64.b64encode(CONTROL.encode()).decode()]
    parts += [enc(b"." * i + raw + b"..").decode() for i in range(3) for enc in (base64.b64encode, base64.urlsafe_b64encode)]
    return 200, {"X-Token": TOKEN, "X-Control": CONTROL, "Location": "/?t=" + TOKEN}, "\n".join(parts)


def put_secrets(tap, c):
    r = c("secret", "set", "github", "-", "--host", "api.example.test/v1", "--as", "bearer", input=TOKEN)
    tap.ok(r.code == 0, f"{c.who}: a token is put into the vault", r)
    r = c("secret", "set", "forge", "-", "--host", "git.example.test", "--as", "basic", "--user", "robot", input=PASSWORD)
    tap.ok(r.code == 0, f"{c.who}: a password is put into the vault", r)


def short(tap, c):
    """One request with a placeholder, and one to another host. The rest is done by coffer-egress and coffer-vault, outside."""
    put_secrets(tap, c)
    r = c("run", "--engine", c.engine, "--policy", c.put("open.yaml", OPEN), "--secret", "github", "--", "sh", "-c",
          'for h in api other; do curl -sS -m 60 -H "Authorization: Bearer $GITHUB_TOKEN" https://$h.example.test/v1/one; done', timeout=240)
    tap.ok("welcome /v1/one" in r.out and "denied" in r.out, f"{c.who}: a placeholder is taken where its secret is bound and nowhere else", r)
    tap.ok(not has_any((r.out + r.err).encode(), TOKEN), f"{c.who}: the command has not seen the token", r)
    c.check_clean(tap)


def visit(tap, c):
    who = c.who
    put_secrets(tap, c)
    branch = re.sub(r"\W", "-", f"{who}")
    r = c("run", "--engine", c.engine, "--policy", c.put("open.yaml", OPEN), "--secret", "github", "--secret", "forge@git.example.test",
          "--", "sh", "-c", SCRIPT.replace("BRANCH", branch), timeout=240)
    got = dict(re.findall(r"^(\w+): ?(.*?) ?$", r.out, re.M))

    def line(word, wanted, name):
        tap.ok(re.search(wanted, got.get(word, ""), re.S), f"{who}: {name}", f"{word}: {got.get(word)!r}", r)

    line("env", f"^ghp_(?!{TOKEN[4:]})[A-Za-z0-9]{{36}}$", "inside is a placeholder of the same shape")
    line("one", "^welcome /v1/one", "curl with HTTP/1.1 is authenticated")
    line("two", "^welcome /v1/two +2$", "curl with HTTP/2 is authenticated")
    line("python", "^welcome /v1/py", "python is authenticated")
    line("mirror", CONTROL, "control: a response with the token in eleven encodings arrives")
    tap.ok(got.get("env") and got["mirror"].count(got["env"]) >= 3, f"{who}: a response has the placeholder instead of the token", got.get("mirror"))
    line("path", "denied.*'github'.*403$", "a placeholder at another path gets a 403 with the reason")
    line("other", "denied.*'github'.*api.example.test.*403$", "a placeholder at another host gets a 403 with the reason")
    line("after", "^other ?200$", "a request after a refused placeholder succeeds")
    line("fake", "401$", "control: the server refuses a wrong token")
    line("clone", "^content", "git clone of a private repository succeeds")
    line("push", "^1$", "git push succeeds")
    line("config", "^0$", ".git/config has no credential")
    line("nohelp", "^[1-9]", "control: git push without the credential helper fails")
    everything = (r.out + r.err).encode()
    tap.ok(not has_any(everything, TOKEN, PASSWORD), f"{who}: the command sees neither token nor password", r)
    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    uses = [e for e in lines if e["type"] == "secret.use"]
    tap.ok({"github", "forge"} == {e["secret"] for e in uses} and any(e["path"] == "/v1/one" for e in uses),
           f"{who}: each use of a secret is in the log", uses[:3])
    tap.ok(any(e["type"] == "net.alert" and "github" in e.get("text", "") for e in lines), f"{who}: a placeholder at another host is logged as an alert")
    start = [e for e in lines if e["type"] == "run.start"][-1]
    tap.eq(start.get("secrets"), ["github", "forge"], f"{who}: run.start lists the secrets of the run")
    c.check_clean(tap)


def looked_for(tap, c):
    """While the sandbox is there and idle: memory of each process, files, state; the vault has it, and nobody else."""
    who = c.who
    p = c.popen("run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "sh", "-c",
                "for i in 1 2 3; do curl -sS -m 60 -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.example.test/v1/mirror "
                "> /tmp/answer.$i; done; echo $GITHUB_TOKEN; read x; curl -sS -m 60 -H \"Authorization: Bearer $GITHUB_TOKEN\" "
                "https://api.example.test/v1/again; read x", stdin=-1)
    placeholder = p.stdout.readline().decode().strip()
    tap.ok(placeholder.startswith("ghp_") and placeholder != TOKEN, f"{who}: control: a sandbox has used its placeholder and waits", placeholder)
    found = {}
    for kid, text in descendants(p.pid) + [(p.pid, "S coffer")]:
        found[f"{kid} {text}"] = search(kid, TOKEN, placeholder)
    vaults = [t for t, v in found.items() if "coffer-vault" in t and TOKEN in v]
    others = [t for t, v in found.items() if "coffer-vault" not in t and TOKEN in v]
    inside = [t for t, v in found.items() if "coffer" not in t and placeholder in v]
    tap.ok(vaults and inside, f"{who}: control: the search finds the token in the vault, and the placeholder inside", found)
    tap.ok(not others and len(found) > 5, f"{who}: no other process has the token, egress and the sandbox included", others, found)
    kill_vault(tap, c, p)
    p.stdin.write(b"x\nx\n")
    p.stdin.close()
    out = p.stdout.read()
    err = p.stderr.read()
    p.wait()
    tap.ok(b"welcome /v1/again" in out, f"{who}: the placeholder works after the vault was killed", out, err)
    tap.ok(b"coffer-vault has ended" in err, f"{who}: the death of the vault is reported on the terminal", err)
    left = []
    for top, _, files in os.walk(c.dir):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    data = f.read()
                if has_any(data, TOKEN, PASSWORD):
                    left.append(path)
    tap.eq(left, [], f"{who}: no file of state, home, log or workspace has token or password")
    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    tap.ok({"vault.down", "vault.up"} <= {e["type"] for e in lines}, f"{who}: the vault's death and return are in the log")
    c.check_clean(tap)


def kill_vault(tap, c, p):
    """kill -9; what needs it is denied until it is there again."""
    old = [pid for pid, text in descendants(p.pid) if "coffer-vault" in text]
    tap.eq(len(old), 1, f"{c.who}: control: the run has one coffer-vault")
    os.kill(old[0], signal.SIGKILL)

    def again():
        # The first was the launcher's child, this one is the guard's.
        new = [pid for pid, text in descendants(p.pid) if "coffer-vault" in text and not text.startswith("Z")]
        lines = c("audit", "--json").out
        return bool(new and new != old and '"vault.up"' in lines)

    tap.ok(wait_for(again), f"{c.who}: a killed coffer-vault is restarted")


def by_policy(tap, c):
    who = c.who
    r = c("run", "--engine", c.engine, "--policy", c.put("policy.yaml", POLICY), "--", "sh", "-c",
          "curl -sS -m 60 -H \"Authorization: Bearer $MY_TOKEN\" https://api.example.test/v1/policy; "
          "curl -sS -m 60 https://other.example.test/; echo \"t=$GITHUB_TOKEN$NOWHERE\"", timeout=300)
    tap.ok("welcome /v1/policy" in r.out, f"{who}: a rule of the policy gives the secret in its variable", r)
    tap.ok("requires the secret 'nowhere'" in r.out, f"{who}: a rule whose secret is not in the vault denies", r)
    tap.ok("t=\n" in r.out and not has_any((r.out + r.err).encode(), TOKEN), f"{who}: a secret that no rule names is not in the environment", r)


LOOP = r"""
while read x; do
  a=$(curl -sS -m 60 -H "Authorization: Bearer $GITHUB_TOKEN" https://api.example.test/v1/l 2>&1 | tr '\n' ' ')
  b=$(curl -sS -m 60 -H "Authorization: Bearer $EXTRA" https://other.example.test/ -w ' %{http_code}' 2>&1 | tr '\n' ' ')
  echo "$a; $b"
done
"""


def changed(tap, c):
    """A removal or an unbinding counts for a sandbox that runs, and only that."""
    who = c.who
    r = c("secret", "set", "extra", "-", "--host", "other.example.test", input="another value, long enough")
    tap.eq(r.code, 0, f"{who}: control: a second secret is put into the vault", r)
    p = c.popen("run", "--engine", c.engine, "--allow", "api.example.test", "--allow", "other.example.test", "--secret", "github",
                "--secret", "extra", "--", "sh", "-c", LOOP, stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return p.stdout.readline().decode()

    def ups():
        return c("audit", "--json").out.count('"vault.up"')

    got = ask()
    tap.ok("welcome /v1/l" in got and "other 200" in got, f"{who}: a sandbox uses both secrets", got)
    before = ups()
    r = c("secret", "rm", "extra")
    tap.ok(r.code == 0 and wait_for(lambda: ups() > before), f"{who}: secret rm of one secret reloads the vault", r)
    got = ask()
    tap.ok("welcome /v1/l" in got and "403" in got, f"{who}: a removed secret is refused, and the other is not", got)
    before = ups()
    r = c("secret", "unbind", "github")
    tap.ok(r.code == 0 and wait_for(lambda: ups() > before), f"{who}: secret unbind of the other secret reloads the vault", r)
    got = ask()
    tap.ok("welcome" not in got and "; " in got, f"{who}: an unbound secret is refused", got)
    before = ups()
    r = c("secret", "bind", "github", "--host", "api.example.test/v1", "--as", "bearer")
    tap.ok(r.code == 0 and wait_for(lambda: ups() > before), f"{who}: secret bind reloads the vault", r)
    got = ask()
    tap.ok("welcome /v1/l" in got, f"{who}: a secret that is bound again works with the same placeholder", got)
    p.stdin.close()
    err = p.stderr.read()
    p.stdout.close()
    p.wait()
    tap.ok(b"the vault was changed" in err, f"{who}: the change of the vault is reported on the terminal", err)


def rolled_back(tap, c):
    """An older vault file is used, for it may be a backup, but not in silence."""
    who = c.who
    path = os.path.join(c.state, "vault", "secrets")
    with open(path, "rb") as f:
        old = f.read()
    args = ["run", "--engine", c.engine, "--allow", "api.example.test", "--secret", "github", "--", "sh", "-c",
            "curl -sS -m 60 -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.example.test/v1/r"]
    c("secret", "rotate", "forge", "-", input=PASSWORD)
    r = c(*args, timeout=300)
    tap.ok("welcome /v1/r" in r.out and "older" not in r.err, f"{who}: control: the latest vault file causes no message", r)
    with open(path, "wb") as f:
        f.write(old)
    r = c(*args, timeout=300)
    tap.ok("welcome /v1/r" in r.out and "the vault file is an older one" in r.err, f"{who}: an older vault file is reported", r)
    tap.ok('"secret.rollback"' in c("audit", "--json").out, f"{who}: an older vault file is logged")
    c("secret", "rotate", "forge", "-", input=PASSWORD)


def unbound(tap, c):
    """Only the command line sends what is bound nowhere."""
    who = c.who
    c("secret", "set", "loose", "-", input="a value that is bound nowhere")
    curl = 'curl -sS -m 60 -H "Authorization: Bearer $LOOSE" https://other.example.test/'
    r = c("run", "--engine", c.engine, "--policy", c.put("loose.yaml", LOOSE), "--", "sh", "-c",
          "curl -sS -m 60 https://other.example.test/; echo \" t=$LOOSE\"", timeout=300)
    tap.ok("requires the secret 'loose'" in r.out and r.out.endswith("t=\n"), f"{who}: a policy alone does not bind a secret", r)
    r = c("run", "--engine", c.engine, "--allow", "other.example.test", "--secret", "loose@other.example.test", "--", "sh", "-c", curl,
          timeout=300)
    tap.ok(r.out == "other", f"{who}: --secret NAME@HOST binds a secret for the run", r)
    c("secret", "rm", "loose")


def refused(tap, c):
    who = c.who
    for what, args, words in (
            ("a secret that is not in the vault", ["--secret", "missing", "--allow", "api.example.test"], "no secret 'missing'"),
            ("a host that the secret is not bound to", ["--secret", "github@evil.example.test", "--allow", "evil.example.test"],
             "evil.example.test"),
            ("an unbound host beside a bound one", ["--secret", "github@api.example.test,evil.example.test", "--allow",
                                                                   "api.example.test"], "is not bound to evil.example.test"),
            ("a secret with a wildcard", ["--secret", "github@*.example.test", "--allow", "*.example.test"], "--secret github@"),
            ("a secret without a host", ["--secret", "github@", "--allow", "api.example.test"], "NAME@HOST"),
            ("a secret with --net none", ["--secret", "github", "--net", "none"], "--net none"),
            ("a variable that has a value", ["--secret", "github", "-e", "GITHUB_TOKEN=x", "--allow", "api.example.test"],
             "GITHUB_TOKEN")):
        r = c("run", "--engine", c.engine, *args, "--", "true")
        wrong = what in ("a secret with a wildcard", "a secret without a host", "a secret with --net none")
        tap.ok(r.code == (2 if wrong else 125) and words in r.err and not has_any(r.err.encode(), TOKEN), f"{who}: {what} is refused before the command runs", r)
    c.check_clean(tap)


def told(tap, c):
    """Messages about secrets before the run begins."""
    who = c.who

    def run(*args):
        return c("run", "--engine", c.engine, *args, "--", "true", timeout=300)
    r = run("--allow", "other.example.test", "--secret", "github")
    tap.ok(r.code == 0 and "no rule allows api.example.test. Add --allow api.example.test" in r.err,
           f"{who}: a secret whose host no rule allows is reported with the option", r)
    r = run("--allow", "api.example.test", "--secret", "github")
    tap.ok(r.code == 0 and "no rule" not in r.err and "expires" not in r.err, f"{who}: a secret whose host is allowed causes no message", r)
    c("secret", "change", "github", "--expires", "3d")
    for args in (["--allow", "api.example.test", "--secret", "github"], ["--policy", os.path.join(c.home, "policy.yaml")]):
        r = run(*args)
        tap.ok(r.code == 0 and len(re.findall(r"the secret 'github' expires in [23] days", r.err)) == 1,
               f"{who}: a secret that expires soon is reported with {args[0]}", r)
    tap.unlike(run("--allow", "other.example.test").err, "expires", f"{who}: a run without the secret is not told of its expiry")
    if c.engine != "ns":
        c("secret", "change", "github", "--expires", "never")
        return
    r = c("doctor")
    tap.like(r.out, r"warn +dates of secrets +'github' expires on \d{4}-", f"{who}: coffer doctor reports a secret that expires soon", r)
    c("secret", "change", "github", "--expires", "never")
    tap.like(c("doctor").out, "ok +dates of secrets", f"{who}: coffer doctor does not report a secret without a date")


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("secrets under coffer run", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="secretuse-")
    os.chmod(base, 0o755)
    git = os.path.join(base, "git")
    ht.git_repo(git, "r")
    procs = []
    try:
        with Internet() as net:
            net.https("api.example.test", api)
            net.https("other.example.test", lambda q: "other")
            net.dns["git.example.test"] = net.address()
            procs.append(ht.git_server(git, net.cert("git.example.test"), (net.dns["git.example.test"], 443), net.inet.do,
                                       f"robot:{PASSWORD}"))
            for who, whole in covering(tap):
                with net.coffer(who) as c:
                    if not whole:
                        short(tap, c)
                        continue
                    visit(tap, c)
                    by_policy(tap, c)
                    looked_for(tap, c)
                    changed(tap, c)
                    rolled_back(tap, c)
                    unbound(tap, c)
                    refused(tap, c)
                    told(tap, c)
                    c.check_clean(tap)
    finally:
        for p in procs:
            p.close()
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
