# SPDX-License-Identifier: Apache-2.0
"""Credentials that a server issues: a client inside logs in, calls an API, refreshes, and never has one of them. A real
OAuth-like server, over HTTP/1.1 and over HTTP/2, that checks what it is sent and echoes it; answers made to slip something
past the capture; a search of all that was inside; what comes to a new coffer-egress and a new coffer-vault."""

import base64
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from coffertest import Tap, covering, descendants  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

# Part of every credential that the server issues; what must be nowhere inside.
MARK = base64.b32encode(os.urandom(15)).decode()

SERVER = ht.NODE_H2_ONLY + r"""
const fs = require('fs'), zlib = require('zlib');
const [kind, cert, key, host, port, mark] = process.argv.slice(1);
const opts = { cert: fs.readFileSync(cert), key: fs.readFileSync(key) };
const access = new Set(), refresh = new Set();
let n = 0;
const jwt = () => [{ alg: 'none' }, { email: 'ann@example.test' }].map(x => Buffer.from(JSON.stringify(x)).toString('base64url'))
  .join('.') + '.' + ('sig' + mark + 'x'.repeat(40));
function make() {
  const at = 'at_' + mark + '_' + n, rt = 'rt_' + mark + '_' + n++;
  access.add(at); refresh.add(rt);
  return { access_token: at, refresh_token: rt, id_token: jwt(), token_type: 'Bearer', expires_in: 3600 };
}
function form(type, body) {
  return /json/.test(type || '') ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body));
}
function token(res, f) {
  let status = 200, head = { 'content-type': 'application/json' }, o, text;
  if (f.grant_type === 'refresh_token') {
    if (!refresh.delete(f.refresh_token)) { status = 400; o = { error: 'invalid_grant' }; }
    else o = Object.assign(make(), { echo: f.refresh_token });
  } else o = make();
  if (f.scope === 'noexpiry') delete o.expires_in;
  if (f.scope === 'short') o.expires_in = 2;
  if (f.scope === 'echo') { o.again = o.access_token; o.deep = { list: [{ b: Buffer.from(o.access_token).toString('base64') }] };
    head['x-token'] = o.access_token; head['etag'] = '"x"'; }
  if (f.scope === 'nested') o = { data: { list: [o] } };
  if (f.scope === 'list') o = [o];
  if (f.scope === 'number') o.access_token = 12345678;
  if (f.scope === 'object') o.access_token = { v: o.access_token };
  if (f.scope === 'null') o.refresh_token = null;
  if (f.scope === 'many') o.all = Array.from({ length: 20 }, () => make());
  text = JSON.stringify(o);
  if (f.scope === 'escaped') text = text.replace('"access_token"', '"\\u0061ccess\\u005ftoken"');
  if (f.scope === 'twice') text = text.replace('{', '{"access_token":"x","access_token":"at_' + mark + '_",');
  if (f.scope === 'huge') text = text.replace('3600', '1' + '0'.repeat(400));
  if (f.scope === 'deep') text = '{"a":'.repeat(60) + text + '}'.repeat(60);
  if (f.scope === 'html') text = '<p>' + o.access_token + '</p>';
  if (f.scope === 'tail') text += o.access_token;
  if (f.scope === 'long') text = JSON.stringify(Object.assign(o, { pad: 'x'.repeat(400000) }));
  if (f.scope === 'error') { status = 400; }
  if (f.scope === 'gzip') { head['content-encoding'] = 'gzip'; text = zlib.gzipSync(text); }
  if (f.scope === 'cut') { res.writeHead(200, { 'content-type': 'application/json' }); res.write(text.slice(0, 40));
    setTimeout(() => (res.stream || res.socket).destroy(), 50); return; }
  if (f.scope === 'hints') {
    if (res.stream) res.stream.additionalHeaders({ ':status': 103, 'x-token': o.access_token });
    else res.socket.write('HTTP/1.1 103 Early Hints\r\nX-Token: ' + o.access_token + '\r\n\r\n');
  }
  if (f.scope === 'empty') { res.writeHead(204); res.end(); return; }
  res.writeHead(status, head);
  if (f.scope !== 'split') { res.end(text); return; }
  let i = 0;
  const next = () => { if (i < text.length) { res.write(text.slice(i, i + 7)); i += 7; setTimeout(next, 1); } else res.end(); };
  next();
}
function serve(req, res) {
  let body = '';
  req.on('data', d => { body += d; });
  req.on('end', () => {
    const url = req.url.split('?')[0];
    if (url.startsWith('/oauth/')) { token(res, form(req.headers['content-type'], body)); return; }
    const got = (req.headers.authorization || '').replace(/^Bearer /, '');
    if (!access.has(got)) { res.writeHead(401); res.end('who are you?'); return; }
    res.writeHead(200, { 'x-echo': got });
    res.end('welcome ' + url + ' ' + got + ' ' + Buffer.from(got).toString('base64') + ' ' + Buffer.from(got).toString('hex'));
  });
}
(kind === 'h2' ? h2_only(opts, require('http2').createServer(serve)) : require('https').createServer(opts, serve)).listen(+port, host);
"""

POLICY = """version: 1
egress:
  allow:
    - domain: auth.KIND.test
      port: 443
      http: [{allow: "POST /oauth/**"}]
      capture:
        endpoint: POST /oauth/token
        for: [api.KIND.test]
        name: login
    - {domain: api.KIND.test, port: 443}
    - {domain: other.KIND.test, port: 443, http: [{allow: "* /**"}]}
"""

# Inside: a client with curl. Every line that it prints is JSON: [word, whatever came].
CLIENT = r"""
import json, subprocess, sys
KIND, WAY = sys.argv[1:3]
def curl(url, *args, data=None, bearer=None):
    a = ["curl", "-sS", "-m", "90", WAY, "-w", "\n%{http_code}", "https://" + url, *args]
    for x in data or []:
        a += ["--data-urlencode", x]
    if bearer:
        a += ["-H", "Authorization: Bearer " + bearer]
    r = subprocess.run(a, capture_output=True, text=True)
    body, _, code = r.stdout.rpartition("\n")
    return int(code or 0), body, r.stderr
def say(*what):
    print(json.dumps(what), flush=True)
def token(scope="plain", **kw):
    data = kw.pop("data", ["grant_type=authorization_code", "code=abc"]) + ["scope=" + scope]
    return curl("auth.%s.test/oauth/token" % KIND, *kw.pop("args", []), data=data, **kw)
def api(bearer, path="/v1"):
    return curl("api.%s.test%s" % (KIND, path), bearer=bearer)
"""

LOGIN = CLIENT + r"""
code, body, err = token()
say("login", code, body, err)
t = json.loads(body)
say("api", *api(t["access_token"]))
say("id", *api(t["id_token"]))
say("refresh-as-bearer", *api(t["refresh_token"]))
say("elsewhere", *curl("other.%s.test/x" % KIND, bearer=t["access_token"]))
code, body, err = token(data=["grant_type=refresh_token", "refresh_token=" + t["refresh_token"]])
say("refresh", code, body, err)
u = json.loads(body)
say("api2", *api(u["access_token"]))
say("old", *token(data=["grant_type=refresh_token", "refresh_token=" + t["refresh_token"]]))
j = json.dumps({"grant_type": "refresh_token", "refresh_token": u["refresh_token"]})
say("json", *curl("auth.%s.test/oauth/token" % KIND, "-H", "Content-Type: application/json", "--data-binary", j))
for scope in ("echo", "nested", "null", "escaped", "split", "error", "noexpiry", "empty"):
    say(scope, *token(scope))
say("hints", *token("hints", args=["-i"]))
say("hinted", *curl("other.%s.test/oauth/hints" % KIND, "-i", data=["scope=hints"]))
say("format", *curl("auth.%s.test/oauth/token.json" % KIND, data=["grant_type=x", "code=abc"]))
for scope in ("list", "number", "object", "many", "twice", "huge", "deep", "html", "tail", "long", "gzip", "cut"):
    say(scope, *token(scope))
say("slash", *curl("auth.%s.test/oauth/token/" % KIND, data=["grant_type=x", "code=abc"]))
say("case", *curl("auth.%s.test/oauth/TOKEN" % KIND, data=["grant_type=x", "code=abc"]))
code, body, err = token("short")
s = json.loads(body)["access_token"]
import time
end = time.monotonic() + 60
while True:
    code = api(s)[0]
    if code == 401 or time.monotonic() > end:
        break
    time.sleep(0.5)
say("expired", code)
for i in range(12):
    code, body, err = token()
w = json.loads(body)
say("many-logins", code, api(w["access_token"])[0])
say("first", *api(u["access_token"]))
"""

WAIT = CLIENT + r"""
t = json.loads(token()[1])
say("ready", t["access_token"], t["refresh_token"])
while sys.stdin.readline():
    code, body, err = token(data=["grant_type=refresh_token", "refresh_token=" + t["refresh_token"]])
    say("api", api(t["access_token"])[0], code)
    if code == 200:
        t = json.loads(body)
"""


def said(text):
    got = {}
    for line in text.splitlines():
        if line.startswith("["):
            word, *rest = json.loads(line)
            got[word] = rest
    return got


def login(tap, c, kind, way):
    who = f"{c.who}, {kind} {way}"
    r = c("run", "--engine", c.engine, "--policy", c.put("policy.yaml", POLICY.replace("KIND", kind)), "--", "python3", "-c", LOGIN,
          kind, way, timeout=400)
    got = said(r.out)

    def code(word, wanted, name, also=None):
        v = got.get(word, [None, ""])
        tap.ok(v[0] == wanted and (not also or re.search(also, str(v[1]), re.S)), f"{who}: {name}", f"{word}: {v}", r.err[-800:])

    code("login", 200, "a client logs in", '"access_token"')
    t = json.loads(got["login"][1])
    tap.ok(len("at_" + MARK + "_0") <= len(t["access_token"]) <= len("at_" + MARK + "_000") and t["expires_in"] == 3600 and t["token_type"] == "Bearer",
           f"{who}: a login gives a placeholder of the token's length, and the rest of the response unchanged", t)
    claims = json.loads(base64.urlsafe_b64decode(t["id_token"].split(".")[1] + "=="))
    tap.eq(claims, {"email": "ann@example.test"}, f"{who}: the claims of a signed token can be read")
    code("api", 200, "the API accepts the placeholder, and its echoes are placeholders", re.escape(t["access_token"]))
    code("id", 401, "the signed token is sent to the API (which refuses it)")
    code("refresh-as-bearer", 403, "a refresh token is sent to the endpoint only")
    code("elsewhere", 403, "an access token is not sent to another host", "login.access_token")
    code("refresh", 200, "a refresh with rotation succeeds")
    u = json.loads(got["refresh"][1])
    tap.ok(u["refresh_token"] != t["refresh_token"] and u["echo"] == t["refresh_token"],
           f"{who}: a refresh gives new placeholders, and the echo of the old token is its placeholder", u)
    code("api2", 200, "the API accepts the placeholder of a refresh")
    code("old", 400, "the refresh token before the rotation is refused")
    code("json", 200, "a refresh in JSON succeeds")
    echo = json.loads(got["echo"][1])
    tap.ok(echo["again"] == echo["access_token"] and
           base64.b64decode(echo["deep"]["list"][0]["b"])[:24].decode() == echo["access_token"][:24],
           f"{who}: a token that is repeated in the response is a placeholder there too", echo)
    nested = json.loads(got["nested"][1])["data"]["list"][0]
    tap.ok(nested["access_token"], f"{who}: a token deep within the response is captured", nested)
    for scope in ("null", "escaped", "split", "noexpiry"):
        code(scope, 200, f"a response that is '{scope}' is captured", "access_token")
    code("error", 400, "a response with another status is captured", "access_token")
    code("hints", 200, "an interim response with a token is not passed on", "(?i)^(?!.*x-token).*access_token")
    tap.ok(" 103" in got["hinted"][1] and "x-token" in got["hinted"][1].lower(),
           f"{who}: (an interim response from another path is passed on)", got["hinted"])
    code("format", 200, "a path with a format is the same endpoint", "access_token")
    code("empty", 204, "a response without a body is passed on")
    for scope in ("list", "number", "object", "many", "twice", "huge", "deep", "html", "tail", "long", "gzip", "cut"):
        code(scope, 502, f"a response that is '{scope}' is not passed on")
    for scope in ("html", "long", "gzip"):
        tap.ok("credentials are issued here" in got[scope][1], f"{who}: the refusal of a response that is '{scope}' says why", got[scope])
    code("slash", 200, "a path with a slash at its end is the same endpoint", "access_token")
    code("case", 200, "a path in another case is the same endpoint", "access_token")
    code("expired", 401, "a token that has expired is still sent, and the server refuses it")
    tap.eq(got.get("many-logins"), [200, 200], f"{who}: many logins one after the other succeed")
    code("first", 401, "the oldest of many tokens is forgotten")
    # The response to "hinted" stands for a server's answer that nobody captures.
    everything = ("\n".join(x for x in r.out.splitlines() if not x.startswith('["hinted"')) + r.err).encode()
    tap.ok(not has_any(everything, MARK), f"{who}: the client has seen no issued token", everything[:2000])
    tap.ok(has_any(b"at_" + MARK.encode(), MARK), f"{who}: (the search for issued tokens finds one)")


SHORT = CLIENT + r"""
code, body, err = token()
say("login", code, body, err)
say("api", *api(json.loads(body)["access_token"]))
"""


def short(tap, c):
    """A login, and a request with what it gave. All other shapes of a response are read by coffer-egress, outside."""
    r = c("run", "--engine", c.engine, "--policy", c.put("policy.yaml", POLICY.replace("KIND", "h1")), "--", "python3", "-c", SHORT, "h1",
          "--http1.1", timeout=400)
    got = said(r.out)
    tap.eq([got.get(x, [None])[0] for x in ("login", "api")], [200, 200], f"{c.who}: a client logs in, and the API takes its placeholder", r)
    tap.ok(not has_any((r.out + r.err).encode(), MARK), f"{c.who}: the client has seen no credential that was issued", r)
    c.check_clean(tap)


def logged(tap, c):
    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    issued = [e for e in lines if e["type"] == "secret.issued"]
    uses = [e for e in lines if e["type"] == "secret.use"]
    tap.ok({"login.access_token", "login.refresh_token", "login.id_token"} <= {e["secret"] for e in issued} and
           all(e["path"].lower().startswith("/oauth/token") and re.fullmatch("[0-9a-f]{16}", e["digest"]) for e in issued),
           f"{c.who}: issued credentials are in the log", issued[:2])
    tap.ok({e["digest"] for e in uses} & {e["digest"] for e in issued},
           f"{c.who}: the use of an issued credential is in the log by the same digest", uses[:2])
    tap.ok(any(e["type"] == "net.alert" and "credentials are issued" in e.get("text", "") for e in lines),
           f"{c.who}: the alerts about issued credentials are in the log")
    tap.ok(not has_any(json.dumps(lines).encode(), MARK), f"{c.who}: the log has no value of an issued credential")


def proc_of(p, name):
    return [pid for pid, text in descendants(p.pid) if name in text and not text.startswith("Z")]


def kept(tap, c, kind):
    """A search of memory; a coffer-egress or coffer-vault that is killed finds them again."""
    who = c.who
    p = c.popen("run", "--engine", c.engine, "--policy", c.put("policy.yaml", POLICY.replace("KIND", kind)), "--", "python3", "-c",
                WAIT, kind, "--http1.1", stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return json.loads(p.stdout.readline())

    first = p.stdout.readline()
    tap.ok(first.startswith(b'["ready"'), f"{who}: a sandbox with issued credentials is ready", first)
    placeholder = json.loads(first)[1]
    tap.eq(ask(), ["api", 200, 200], f"{who}: a sandbox uses its issued credentials")
    found = {f"{pid} {text}": search(pid, MARK, placeholder) for pid, text in descendants(p.pid) + [(p.pid, "S coffer")]}
    vaults = [t for t, v in found.items() if "coffer-vault" in t and MARK in v]
    others = [t for t, v in found.items() if "coffer-vault" not in t and MARK in v]
    inside = [t for t, v in found.items() if "coffer" not in t and placeholder in v]
    tap.ok(vaults and inside, f"{who}: the search finds issued credentials in the vault, and the placeholder inside", found)
    tap.eq(others, [], f"{who}: issued credentials are in the memory of no process but the vault")
    old = proc_of(p, "coffer-egress")
    os.kill(old[0], signal.SIGKILL)
    tap.ok(wait_for(lambda: proc_of(p, "coffer-egress") not in ([], old)), f"{who}: coffer-egress is started again after it was killed")
    got = []
    tap.ok(wait_for(lambda: got.append(ask()) or got[-1] == ["api", 200, 200]),
           f"{who}: issued credentials work with a new coffer-egress", got)
    old, ups = proc_of(p, "coffer-vault"), c("audit", "--json").out.count('"vault.up"')
    os.kill(old[0], signal.SIGKILL)
    tap.ok(wait_for(lambda: proc_of(p, "coffer-vault") not in ([], old) and c("audit", "--json").out.count('"vault.up"') > ups),
           f"{who}: coffer-vault is started again after it was killed")
    got = []
    wait_for(lambda: got.append(ask()) or 503 not in got[-1])  # it is written down before it counts
    tap.eq(got[-1], ["api", 200, 200], f"{who}: issued credentials work with a new coffer-vault", got)
    p.stdin.close()
    out, err = p.stdout.read(), p.stderr.read()
    p.wait()
    tap.ok(not has_any(out + err, MARK), f"{who}: issued credentials are not in the output of the run")
    left = []
    for top, _, files in os.walk(c.dir):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if has_any(f.read(), MARK):
                        left.append(path)
    tap.eq(left, [], f"{who}: no file of state, home or log has an issued credential")
    c.check_clean(tap)


def shared(tap, c, kind):
    """The vault that cofferd keeps: the same, for the life of the sandbox. Without a file there it has none, and the run its own."""
    who = f"{c.who}, cofferd"
    run = ["run", "--engine", c.engine, "--policy", c.put("policy.yaml", POLICY.replace("KIND", kind)), "--", "python3", "-c", WAIT,
           kind, "--http1.1"]
    tap.eq(c("gateway", "start").code, 0, f"{who}: gateway start succeeds")
    alone = c.popen(*run, stdin=-1)
    tap.ok(alone.stdout.readline().startswith(b'["ready"') and proc_of(alone, "coffer-vault"),
           f"{who}: without a vault file a run has a vault of its own")
    alone.stdin.close()
    alone.stdout.read()
    alone.wait()
    r = c("secret", "set", "some", "-", "--host", "api.example.test", input="some-value-that-nobody-asks-for")
    tap.eq(r.code, 0, f"{who}: a secret is saved, and with it the vault file", r)
    p = c.popen(*run, stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return json.loads(p.stdout.readline())

    def pid():
        return json.loads(c("gateway", "status", "--json").out)["vault"].get("pid")

    tap.ok(p.stdout.readline().startswith(b'["ready"') and not proc_of(p, "coffer-vault"), f"{who}: a run uses cofferd's vault")
    tap.eq(ask(), ["api", 200, 200], f"{who}: issued credentials work with cofferd's vault")
    was = pid()
    tap.ok(was and MARK in search(was, MARK), f"{who}: issued credentials are in the memory of cofferd's vault", was)
    old = proc_of(p, "coffer-egress")
    os.kill(old[0], signal.SIGKILL)
    got = []
    tap.ok(wait_for(lambda: proc_of(p, "coffer-egress") not in ([], old)) and
           wait_for(lambda: got.append(ask()) or got[-1] == ["api", 200, 200]),
           f"{who}: issued credentials in cofferd's vault work with a new coffer-egress", got)
    ups = c("audit", "--json").out.count('"vault.up"')
    tap.eq(c("secret", "rm", "some").code, 0, f"{who}: secret rm succeeds")
    tap.ok(wait_for(lambda: c("audit", "--json").out.count('"vault.up"') > ups), f"{who}: the run opens the vault again after secret rm")
    got = []
    wait_for(lambda: got.append(ask()) or 503 not in got[-1])
    tap.ok(got[-1][1:] == [200, 200] and pid() == was, f"{who}: issued credentials work in the same vault after secret rm", got)
    was_killed = pid()
    os.kill(was_killed, signal.SIGKILL)
    tap.ok(wait_for(lambda: pid() not in (None, was_killed)), f"{who}: cofferd starts its vault again after it was killed")
    got = []
    tap.ok(wait_for(lambda: got.append(ask()) or got[-1] == ["api", 200, 200]),
           f"{who}: issued credentials work with a new vault of cofferd", got)
    was = pid()
    p.stdin.close()
    out, err = p.stdout.read(), p.stderr.read()
    p.wait()
    tap.ok(not has_any(out + err, MARK), f"{who}: issued credentials in cofferd's vault are not in the output of the run")
    tap.ok(MARK not in search(was, MARK), f"{who}: issued credentials are not in the vault's memory after the run's end")
    tap.eq(c("gateway", "stop").code, 0, f"{who}: gateway stop succeeds")
    c.check_clean(tap)


HOME = CLIENT + r"""
import os
path = os.path.expanduser("~/credentials.json")
if not os.path.exists(path) or "login" in sys.argv[3:]:
    with open(path, "w") as f:
        f.write(token()[1])
t = json.load(open(path))
code, body, err = token(data=["grant_type=refresh_token", "refresh_token=" + t["refresh_token"]]) if "refresh" in sys.argv[3:] else (0, "", "")
say("api", api(t["access_token"])[0], code)
if code == 200:
    with open(path, "w") as f:
        f.write(body)
if "wait" in sys.argv[3:]:
    sys.stdin.readline()
"""


def at_home(tap, c, kind):
    """A named home has what programs saved there; what that stands for is kept with it, sealed, and for nobody else."""
    who, plain = f"{c.who}, a home", POLICY.replace("KIND", kind)

    def args(home, *words, policy=plain):
        return ["run", "--engine", c.engine, "--home", home, "--policy", c.put("home.yaml", policy), "--", "python3", "-c", HOME, kind,
                "--http1.1", *words]

    def run(home, *words, **kw):
        r = c(*args(home, *words, **kw), timeout=200)
        return said(r.out).get("api"), r

    tap.eq(c("secret", "set", "some", "-", "--host", "api.example.test", input="some-value-that-nobody-asks-for").code, 0,
           f"{who}: a secret is saved, and with it the vault file")
    tap.eq(run("one")[0], [200, 0], f"{who}: a login in a named home succeeds")
    tap.eq(run("one", "refresh")[0], [200, 200], f"{who}: the next run in the home is logged in, and refreshes")
    tap.eq(run("one")[0], [200, 0], f"{who}: a run after a refresh in the home is logged in")
    kept = os.path.join(c.state, "vault", "issued", "one")
    with open(kept, "rb") as f:
        tap.ok(not has_any(f.read(), MARK) and os.stat(kept).st_mode & 0o777 == 0o600,
               f"{who}: the file of a home's issued credentials is sealed, with mode 0600")
    one, two = (os.path.join(c.state, "homes", x) for x in ("one", "two"))
    tap.eq(run("two")[0], [200, 0], f"{who}: another home has its own login")
    with open(os.path.join(one, "credentials.json"), "rb") as f, open(os.path.join(two, "credentials.json"), "wb") as to:
        to.write(f.read())
    tap.eq(run("two")[0], [401, 0], f"{who}: placeholders of a home do not work in another home")
    other = plain.replace(f"for: [api.{kind}.test]", f"for: [other.{kind}.test]")
    got = run("one", policy=other)
    tap.ok(got[0] and got[0][0] != 200, f"{who}: placeholders of a home do not work under a policy that binds them elsewhere", got)
    tap.eq(run("one")[0], [200, 0], f"{who}: a run under another policy does not remove the home's login")
    p = c.popen(*args("one", "wait"), stdin=-1)
    tap.ok(p.stdout.readline().startswith(b'["api", 200'), f"{who}: a sandbox in the home is logged in and waits")
    tap.eq(run("one")[0], [200, 0], f"{who}: a second sandbox in the same home is logged in")
    tap.eq(run("one", "login")[0], [200, 0], f"{who}: a second sandbox in the same home can log in anew")
    lines = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
    tap.ok(any(e["type"] == "net.alert" and "same home" in e.get("text", "") for e in lines),
           f"{who}: the log has an alert that a login in a shared home is not kept")
    r = c("secret", "ls")
    tap.ok(r.code == 0 and "one, two" in r.err.replace("two, one", "one, two"),
           f"{who}: secret ls names the homes with issued credentials", r)
    r = c("secret", "forget", "one")
    tap.ok(r.code == 0 and "until it ends" in r.err and not os.path.exists(kept), f"{who}: secret forget removes the home's file", r)
    p.stdin.close()
    p.stdout.read()
    p.wait()
    tap.eq(run("one")[0], [401, 0], f"{who}: a home is not logged in after secret forget")
    r = c("secret", "forget", "nobody")
    tap.ok(r.code == 15 and "nobody" in r.err, f"{who}: secret forget of a home without issued credentials fails", r)
    tap.eq(c("secret", "forget", "../secrets").code, 2, f"{who}: secret forget refuses a path as a name")
    tap.ok('"secret.forget"' in c("audit", "--json").out, f"{who}: secret forget is in the log")
    c.check_clean(tap)


def reloaded(tap, c, kind):
    """A rule that captures, and a sandbox that was started without: denied, not handed on."""
    plain = POLICY.replace("KIND", kind)
    without = re.sub(r"      capture:\n(        .*\n)+", "", plain)
    path = c.put("reload.yaml", without)
    p = c.popen("run", "--engine", c.engine, "--policy", path, "--", "python3", "-c", CLIENT + r"""
say("before", *token("plain"))
sys.stdin.readline()
end = 2000
while end and "captures credentials" not in (b := token("plain"))[1]:
    end -= 1
say("after", *b)
""", kind, "--http1.1", stdin=-1)
    before = json.loads(p.stdout.readline())
    tap.ok(before[1] == 200 and MARK in before[2], f"{c.who}: (control) a response without a capture is passed on unchanged", before)
    c.put("reload.yaml", plain)
    p.stdin.write(b"x\n")
    p.stdin.close()
    out, err = p.stdout.read(), p.stderr.read()
    p.wait()
    after = said(out.decode()).get("after", [None])
    tap.ok(after[0] == 403 and MARK not in after[1], f"{c.who}: a capture that comes by a new policy denies the response", after, err)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("credentials that servers issue", reason)
        tap.done()
    procs = []
    try:
        with Internet() as net:
            for kind in ("h1", "h2"):
                a = net.address()
                names = [f"{x}.{kind}.test" for x in ("auth", "api", "other")]
                for name in names:
                    net.dns[name] = a
                cert = net.cert(*names)
                procs.append(ht.Process(["node", "-e", SERVER, kind, *cert, a, "443", MARK], (a, 443), net.inet.do))
            for who, whole in covering(tap):
                with net.coffer(who) as c:
                    if not whole:
                        short(tap, c)
                        continue
                    login(tap, c, "h1", "--http1.1")
                    login(tap, c, "h2", "--http2")
                    logged(tap, c)
                    kept(tap, c, "h1")
                    shared(tap, c, "h1")
                    at_home(tap, c, "h1")
                    reloaded(tap, c, "h2")
                    c.check_clean(tap)
    finally:
        for p in procs:
            p.close()
    tap.done()


main()
