# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""A scripted agent that has only a placeholder does real work over HTTP/1.1 and HTTP/2 with a server that says the token back in five
encodings. Then the token is looked for: in the memory, command line and environment of every process, while a request with it lasts
and afterwards, and in every file. Only the vault has it, and the server; coffer-egress while the request lasts."""

import base64
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering, descendants  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

TOKEN = "ghp_" + base64.b32encode(os.urandom(24)).decode()[:36]
CONTROL = "ctl_" + base64.b32encode(os.urandom(24)).decode()[:36]
API, TWO = "api.example.test", "two.example.test"  # one server; a connection is used again only for its own name

# HTTP/1.1 and HTTP/2, as it comes. The request is printed, but never the token.
SERVER = r"""
const http2 = require('http2'), fs = require('fs');
const [cert, key, host, token, control, hold] = process.argv.slice(1);
const raw = Buffer.from(fs.readFileSync(token)), text = raw.toString(), mark = fs.readFileSync(control).toString();
const five = () => [text, Buffer.concat([Buffer.from('..'), raw]).toString('base64'), raw.toString('base64url'), raw.toString('hex'),
	encodeURIComponent('/' + text), JSON.stringify({ t: text }), mark].join('\n') + '\n';
const s = http2.createSecureServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true }, (q, a) => {
	console.log(JSON.stringify({ path: q.url, version: q.httpVersion }));
	if (q.headers.authorization !== 'Bearer ' + text) {
		a.writeHead(401);
		return a.end('who are you?\n');
	}
	a.writeHead(200, { 'content-type': 'text/plain', 'x-token': text, 'x-control': mark });
	if (q.url !== '/hold')
		return a.end(`welcome ${q.url} ${q.httpVersion}\n` + five());
	a.write(five());
	const t = setInterval(() => { if (!fs.existsSync(hold)) { clearInterval(t); a.end('held no more\n'); } }, 50);
});
s.listen(443, host, () => console.log('ready'));
"""

AGENT = r"""
import os, subprocess, sys, urllib.request
token = os.environ["GITHUB_TOKEN"]
bearer = "Authorization: Bearer " + token
out = open(os.path.expanduser("~/answers"), "w")

def say(what, text):
    print(what + ": " + " ".join(text.split()), flush=True)
    out.write(what + "\n" + text)
    out.flush()
    open("/workspace/" + what, "w").write(text)

def curl(*args):
    p = subprocess.run(["curl", "-sS", "-i", "-m", "120", "-H", bearer, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return p.stdout.decode()

say("env", token)
q = urllib.request.Request("https://API/python", headers={"Authorization": "Bearer " + token})
with urllib.request.urlopen(q, timeout=300) as a:
    say("python", str(a.headers) + a.read().decode())
say("one", curl("--http1.1", "https://API/one"))
say("two", curl("--http2", "https://TWO/two"))
say("many", curl("--http2", *["https://TWO/many"] * 5))
say("wrong", subprocess.run(["curl", "-sS", "-m", "120", "-H", "Authorization: Bearer " + token[::-1], "https://API/wrong"],
                            stdout=subprocess.PIPE).stdout.decode())
say("waits", "for the server")
say("hold", curl("--http2", "--no-buffer", "https://TWO/hold"))
say("idle", "now")
sys.stdin.readline()
"""


class Server:
    def __init__(self, net):
        address = net.address()
        net.dns[API] = net.dns[TWO] = address
        cert, key = net.cert(API, TWO)
        self.log, self.hold, token, control = (os.path.join(net.dir, x) for x in ("server.log", "hold", "token", "control"))
        for path, text in ((token, TOKEN), (control, CONTROL)):
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(path, 0o600)
        with open(self.log, "wb") as f:
            self.p = net.popen_inet(["node", "-e", SERVER, cert, key, address, token, control, self.hold], stdout=f)
        wait_for(lambda: "ready" in self.text(), 60)

    def text(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()

    def versions(self):
        return {json.loads(x)["version"] for x in self.text().splitlines() if x.startswith("{")}


def everybody(pid):
    return [(pid, "coffer")] + [(p, t) for p, t in descendants(pid) if not t.startswith("Z")]


def look(tap, c, server, pid, placeholder, when, may):
    """Memory, and what /proc shows of how a process was started."""
    found, shown = {}, []
    for kid, text in everybody(pid):
        try:
            found[f"{kid} {text}"] = search(kid, TOKEN, placeholder)
            for part in ("cmdline", "environ"):
                with open(f"/proc/{kid}/{part}", "rb") as f:
                    if has_any(f.read(), TOKEN):
                        shown.append(f"{part} of {kid} {text}")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    has = [t for t, v in found.items() if TOKEN in v]
    tap.ok(any("coffer-vault" in t for t in has) and search(server.p.pid, TOKEN),
           f"{c.who}: {when}: control: the search finds the token in the vault and in the server", found)
    inside = [t for t, v in found.items() if "coffer" not in t and placeholder in v]
    tap.ok(inside, f"{c.who}: {when}: control: the search finds the placeholder inside", found)
    others = [t for t in has if not any(m in t for m in may)]
    tap.ok(not others and len(found) > 6, f"{c.who}: {when}: no other of {len(found)} processes has the token", others, found)
    tap.eq(shown, [], f"{c.who}: {when}: no command line or environment has the token")
    tap.note(f"{c.who}: {when}: egress {'has' if any('coffer-egress' in t for t in has) else 'does not have'} it")


def files_with(path, text=TOKEN):
    got, n = [], 0
    for top, _, names in os.walk(path):
        for full in (os.path.join(top, name) for name in names):
            if os.path.isfile(full) and not os.path.islink(full):
                n += 1
                with open(full, "rb") as f:
                    if has_any(f.read(), text):
                        got.append(full)
    return got, n


def look_in_files(tap, c, when):
    control = os.path.join(c.state, "control")
    with open(control, "w", encoding="ascii") as f:
        f.write(base64.b64encode(b"x" + TOKEN.encode()).decode())
    tap.eq(files_with(c.dir)[0], [control], f"{c.who}: {when}: control: a search of the files finds the token where it was put")
    os.unlink(control)
    tap.ok(len(files_with(c.dir, CONTROL)[0]) > 4, f"{c.who}: {when}: control: the search finds what the agent has written")
    got, n = files_with(c.dir)
    tap.ok(not got and n > 10, f"{c.who}: {when}: none of {n} files of state, log, home and workspace has the token", got)


def short(tap, c, server):
    """One request, and then nothing of state, log, home and workspace has the token. Memory is searched by visit(): the same processes
    hold it whoever runs them."""
    c("secret", "set", "github", "-", "--host", API, "--as", "bearer", input=TOKEN)
    r = c("run", "--engine", c.engine, "--home", "agent", "--allow", API, "--secret", "github", "--", "sh", "-c",
          f'curl -sS -m 120 -H "Authorization: Bearer $GITHUB_TOKEN" https://{API}/short | tee ~/answer /workspace/answer', timeout=300)
    tap.ok("welcome /short" in r.out and CONTROL in r.out and '"/short"' in server.text(), f"{c.who}: the server takes the request", r)
    got, n = files_with(c.dir)
    tap.ok(not got and n > 10 and files_with(c.dir, CONTROL)[0] and not has_any((r.out + r.err).encode(), TOKEN),
           f"{c.who}: the token is in none of {n} files and was not printed", got, r)
    c("discard", "@last")
    c.check_clean(tap)


def visit(tap, c, server):
    who = c.who
    r = c("secret", "set", "github", "-", "--host", API, "--host", TWO, "--as", "bearer", input=TOKEN)
    tap.eq(r.code, 0, f"{who}: a token is put into the vault", r)
    c.write("agent.py", AGENT.replace("API/", API + "/").replace("TWO/", TWO + "/"))
    with open(server.hold, "wb"):
        pass
    p = c.popen("run", "--engine", c.engine, "--name", "agent", "--home", "agent", "--allow", API, "--allow", TWO, "--secret", "github", "--", "python3",
                "/workspace/agent.py", stdin=-1)
    got = {}

    def read_until(word):
        for line in iter(p.stdout.readline, b""):
            name, _, text = line.decode().partition(": ")
            got[name] = text
            if name == word:
                return True
        return False
    tap.ok(read_until("waits"), f"{who}: the agent finishes its requests", got, None if "waits" in got else p.stderr.read())
    placeholder = got.get("env", "").strip()
    tap.ok(re.fullmatch(r"ghp_[A-Za-z0-9]{36}", placeholder) and placeholder != TOKEN, f"{who}: the agent has a placeholder of the token's shape", got)
    for word, version in (("python", "1.1"), ("one", "1.1"), ("two", "2.0"), ("many", "2.0")):
        text = got.get(word, "")
        tap.ok(f"welcome /{word} {version}" in text and CONTROL in text and placeholder in text,
               f"{who}: {word}: the response has the placeholder instead of the token", text)
    tap.ok("who are you" in got.get("wrong", ""), f"{who}: control: the server refuses a wrong token", got.get("wrong"))
    tap.ok(wait_for(lambda: '"/hold"' in server.text(), 60), f"{who}: control: a request is in progress")
    look(tap, c, server, p.pid, placeholder, "while a request lasts", ("coffer-vault", "coffer-egress"))
    os.unlink(server.hold)
    tap.ok(read_until("idle") and "held no more" in got.get("hold", ""), f"{who}: the request in progress ends", got)
    look(tap, c, server, p.pid, placeholder, "afterwards", ("coffer-vault",))
    look_in_files(tap, c, "while it runs")
    p.stdin.close()
    err = p.stderr.read().decode()
    tap.eq(p.wait(), 0, f"{who}: the agent exits with 0", err)
    seen = (" ".join(got.values()) + err).encode()
    tap.ok(not has_any(seen, TOKEN) and CONTROL.encode() in seen, f"{who}: the agent has never seen the token", seen)
    look_in_files(tap, c, "at the end")
    r = c("logs", "agent")
    log = c("audit", "--json").out + r.out + r.err + c("net", "log", "--json", "agent").out
    tap.ok('"secret.use"' in log and not has_any(log.encode(), TOKEN), f"{who}: the log has the uses of the token, and not the token")
    c.check_clean(tap)


def main():
    tap = Tap()
    reason = why_not() or (None if shutil.which("node") else "node is not installed: tools/deps test")
    if reason:
        tap.skip("a token that nobody sees", reason)
        tap.done()
    with Internet() as net:
        server = Server(net)
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                (visit if whole else short)(tap, c, server)
        tap.ok({"1.1", "2.0"} <= server.versions(), "control: the server has spoken HTTP/1.1 and HTTP/2", server.versions())
    tap.done()


main()
