#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=600
"""The HTTP API: every example of doc/openapi.yaml, roles, other sites, malformed requests, streams."""

import contextlib
import http.client
import json
import os
import socket
import sys
import time

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ROOT, Tap, coffer_as, identities, slow_build  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

PATIENCE = 60
RANK = {"none": 0, "observer": 1, "approver": 2, "operator": 3}
JSON = {"Content-Type": "application/json"}

with open(os.path.join(ROOT, "doc", "openapi.yaml"), encoding="utf-8") as f:
    API = yaml.safe_load(f)


def until(check, seconds=PATIENCE):
    deadline = time.monotonic() + seconds * slow_build()
    while True:
        got = check()
        if got or time.monotonic() > deadline:
            return got
        time.sleep(0.05)


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("coffer", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def send(where, method, path, body=None, headers=None):
    """One request on a connection of its own: status, headers, body."""
    conn = Unix(where) if isinstance(where, str) else http.client.HTTPConnection("127.0.0.1", where, timeout=PATIENCE)
    try:
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        conn.request(method, path, data, {**(JSON if body is not None else {}), **(headers or {})})
        r = conn.getresponse()
        return r.status, r.headers, r.read()
    finally:
        conn.close()


def raw(port, data, wait=PATIENCE):
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as s:
        with contextlib.suppress(OSError):
            s.sendall(data)
        got = b""
        with contextlib.suppress(OSError):
            while chunk := s.recv(65536):
                got += chunk
        return got


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def deref(node):
    while "$ref" in node:
        at = API
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        node = at
    return node


def holds(schema, value):
    try:
        jsonschema.Draft202012Validator({**schema, "components": API["components"]}).validate(value)
        return None
    except jsonschema.ValidationError as e:
        return f"{e.message} at {list(e.absolute_path)}"


def operations():
    for path, item in API["paths"].items():
        for method in ("get", "post", "delete"):
            if method in item:
                yield path, method.upper(), item[method], item.get("parameters", []) + item[method].get("parameters", [])


def request_of(path, op, params, ref):
    query = []
    for p in map(deref, params):
        value = ref if p["name"] == "sandbox" and p["in"] == "path" else p.get("example")
        if p["in"] == "path":
            path = path.replace("{%s}" % p["name"], str(value))
        elif p["in"] == "query" and value is not None:
            query.append(f"{p['name']}={str(value).lower() if isinstance(value, bool) else value}")
    body = op.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    return path + ("?" + "&".join(query) if query else ""), body


def read_events(where, path, headers, enough):
    """Server-sent events until `enough(list)` or the end."""
    conn = Unix(where) if isinstance(where, str) else http.client.HTTPConnection("127.0.0.1", where, timeout=PATIENCE)
    conn.request("GET", path, headers=headers)
    r = conn.getresponse()
    got, now = [], {}
    while not enough(got):
        line = r.readline().decode().rstrip("\n")
        if line.startswith("id: "):
            now["id"] = int(line[4:])
        elif line.startswith("event: "):
            now["event"] = line[7:]
        elif line.startswith("data: "):
            now["data"] = json.loads(line[6:])
            got.append(now)
            now = {}
        elif r.closed or (not line and r.fp is None):
            break
    conn.close()
    return got


def check_answer(tap, name, op, answer):
    status, headers, data = answer
    spec = op["responses"].get(str(status))
    if not spec:
        why = holds(deref(API["components"]["schemas"]["Error"]), json.loads(data))
        tap.ok(why is None, f"{name}: an error of {status} is as described", why, data[:300])
        return
    if status == 204:
        tap.eq(data, b"", f"{name}: 204 has no body")
        return
    (kind, media), = spec["content"].items()
    tap.ok(headers["Content-Type"].startswith(kind), f"{name}: {kind}", headers["Content-Type"])
    docs = [json.loads(line) for line in data.splitlines()] if kind == "application/x-ndjson" else \
        [json.loads(data)] if kind == "application/json" else []
    for doc in docs:
        why = holds(media["schema"], doc)
        tap.ok(why is None, f"{name}: {status} is as described", why, data[:400])


LAST = ("sandboxRemove",)
# Ids and codes that nobody has, and a sandbox that may ask nothing; test_asks and test_browser have what works.
FAILS_BY_EXAMPLE = {"ask", "askAnswer", "askRevoke", "sessionOpen", "askSubmit"}


def test_examples(tap, c, sock):
    c("run", "-d", "--name", "web", "--", "sleep", "600")
    todo = sorted(operations(), key=lambda o: (o[2]["operationId"] in LAST, o[2]["operationId"] == "sandboxStop"))
    for path, method, op, params in todo:
        name = op["operationId"]
        target, body = request_of(path, op, params, "web")
        if name == "events":
            got = read_events(sock, target, {"Last-Event-ID": "0"}, lambda g: len(g) >= 2)
            tap.ok(all(e["data"]["seq"] == e["id"] and e["data"]["type"] == e["event"] for e in got), "events: as described", got)
            continue
        answer = send(sock, method, target, body, {"X-Coffer": "1"})
        if name not in FAILS_BY_EXAMPLE:
            tap.ok(200 <= answer[0] < 300, f"{name}: its example works", answer)
        check_answer(tap, name, op, answer)


def test_roles(tap, c, port):
    tokens = {r: c("token", "new", "--role", r, "--name", r).out.strip() for r in ("observer", "approver", "operator")}
    tap.ok(all(t.startswith("coffer_") for t in tokens.values()), "tokens are shown", tokens)
    for path, method, op, params in operations():
        need = op["x-role"]
        target, body = request_of(path, op, params, "nosuch")
        if op["operationId"] in ("events", "sessionOpen"):
            continue
        for role, token in tokens.items():
            status, _, data = send(port, method, target, body, {"Authorization": f"Bearer {token}"})
            refused = status in (401, 403)
            tap.eq(refused, RANK[role] < RANK[need], f"{op['operationId']} as {role}", status, data[:200])
        if need != "none":
            tap.eq(send(port, method, target, body)[0], 401 if method == "GET" else 403, f"{op['operationId']} as nobody")
            tap.eq(send(port, method, target, body, {"Authorization": "Bearer coffer_" + "x" * 43})[0], 401,
                   f"{op['operationId']} with a wrong token")
    auth = {"Authorization": f"Bearer {tokens['observer']}"}
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 200, "a token works")
    c("token", "rm", "observer")
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 401, "removed, it does not")
    short = c("token", "new", "--role", "observer", "--name", "short", "--expires", "1s").out.strip()
    gone = until(lambda: send(port, "GET", "/v1/status", headers={"Authorization": f"Bearer {short}"})[0] == 401)
    tap.ok(gone, "one that has expired does not either")
    stored = b""
    for name in ("gateway.db", "gateway.db-wal"):  # what was written last may be in the latter only
        if os.path.exists(os.path.join(c.state, name)):
            with open(os.path.join(c.state, name), "rb") as f:
                stored += f.read()
    tap.ok(b"approver" in stored and not any(t.encode() in stored for t in tokens.values()), "no token is in the database")
    return tokens


def test_browser(tap, c, port):
    here = {"Host": f"127.0.0.1:{port}"}
    url = c("ui").out.strip()
    tap.ok(url.startswith(f"http://127.0.0.1:{port}/#login="), "coffer ui prints an address", url)
    code = {"code": url.split("=")[1]}
    page = {"Origin": f"http://127.0.0.1:{port}", "X-Coffer": "1", **here}
    tap.eq(send(port, "POST", "/v1/session", code, {**page, "Origin": "http://evil.test"})[0], 403, "not from another site")
    status, headers, data = send(port, "POST", "/v1/session", code, page)
    cookie = headers.get("Set-Cookie", "")
    tap.ok(status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie, "the code becomes a cookie", status, data)
    tap.eq(send(port, "POST", "/v1/session", code, page)[0], 401, "once")
    auth = {"Cookie": cookie.split(";")[0]}
    tap.eq(json.loads(send(port, "GET", "/v1/status", headers=auth)[2])["you"]["via"], "session", "the session works")
    stop = ("POST", "/v1/sandboxes/nosuch/stop", {})
    tap.eq(send(port, *stop, {**auth, **page})[0], 404, "control: the page may change something")
    tap.eq(send(port, *stop, {**auth, "Origin": page["Origin"]})[0], 403, "not without X-Coffer")
    tap.eq(send(port, *stop, {**auth, "X-Coffer": "1"})[0], 403, "not without Origin")
    tap.eq(send(port, *stop, {**auth, **page, "Origin": f"http://localhost:{port}"})[0], 403, "not from another origin")
    tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Origin": "http://evil.test"})[0], 403, "nor read from one")
    for host in ("evil.test", f"evil.test:{port}", "127.0.0.1:1", "localhost"):
        tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Host": host})[0], 421, f"Host {host} is not ours")
    tap.eq(send(port, "GET", "/", headers={"Host": f"evil.test:{port}"})[0], 421, "nor is the page given to a rebound name")
    tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Host": f"localhost:{port}"})[0], 200, "control: localhost is")
    status, headers, _ = send(port, "GET", "/")
    tap.ok(status == 200 and "default-src 'none'" in headers["Content-Security-Policy"], "the page has a strict policy")
    tap.eq(send(port, "DELETE", "/v1/session", None, {**auth, **page})[0], 204, "a session can be ended")
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 401, "and is over then")


def test_bad(tap, port, token):
    auth = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    post = f"POST /v1/sandboxes/x/stop HTTP/1.1\r\n{auth}Content-Type: application/json\r\n"

    def status(text, more=b""):
        return raw(port, text.encode() + more)[9:12].decode()

    get = f"GET /v1/status HTTP/1.1\r\n{auth}"
    many = f"GET /nosuch HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n" * 300
    got = raw(port, (many + f"{get}Connection: close\r\n\r\n").encode())
    tap.ok(got.count(b"HTTP/1.1 404") == 300 and got.count(b"HTTP/1.1 200") == 1, "requests that follow each other unasked are answered in turn",
           got.count(b"HTTP/1.1 "))
    tap.eq(status(f"{get}Connection: close\r\n\r\n"), "200", "control: a good one")
    tap.eq(status(f"{post}Content-Length: 1073741824\r\n\r\n"), "413", "a body of 1 GiB is refused by its length")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    tap.eq(status(f"{post}Transfer-Encoding: chunked\r\n\r\n", chunk * 4), "413", "and by its count")
    tap.eq(status(f"{get}X: {'a' * 70000}\r\n\r\n"), "431", "a head that is too long")
    tap.eq(status(f"{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"), "400", "two framings")
    tap.eq(status(f"{post}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}"), "400", "two lengths")
    tap.ok(status(f"{post}Transfer-Encoding: gzip, chunked\r\n\r\n") in ("400", "501"), "another coding")
    tap.eq(status(f"GET /v1/status HTTP/1.1\n{auth}\n"), "400", "bare line feeds")
    tap.eq(status(f"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n"), "400", "a proxy's form")
    json_post = post + "Connection: close\r\n"
    for body, why in (('{"grace_s":1,"grace_s":2}', "a member twice"), ('{"nosuch":1}', "an unknown member"), ("[]", "no object"),
                      ('{"grace_s":-1}', "out of range"), ('{"grace_s":"1"}', "the wrong kind"), ("{", "no JSON")):
        tap.eq(status(f"{json_post}Content-Length: {len(body)}\r\n\r\n{body}"), "400", f"a body with {why}")
    for target in ("/v1/audit?limit=0", "/v1/audit?limit=1&limit=2", "/v1/audit?nosuch=1", "/v1/audit?type=%zz"):
        tap.eq(status(f"GET {target} HTTP/1.1\r\n{auth}\r\n"), "400", f"{target} is refused")
    tap.eq(status(f"GET /v1/sandboxes/..%2f..%2fx HTTP/1.1\r\n{auth}\r\n"), "400", "a name that climbs")
    tap.eq(status(f"PUT /v1/status HTTP/1.1\r\n{auth}Connection: close\r\n\r\n"), "405", "a method that is not there")


def test_idempotency(tap, c, sock):
    c("run", "-d", "--name", "idem", "--", "sleep", "600")
    key = {"Idempotency-Key": "abcdefgh-1"}
    first = send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "one"}, key)
    again = send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "one"}, key)
    tap.eq((first[0], again[0]), (201, 201), "a repeated POST is answered", first, again)
    tap.eq(again[2], first[2], "with the same words")
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "two"}, key)[0], 422, "another body is another request")
    made = json.loads(send(sock, "GET", "/v1/sandboxes/idem/checkpoints")[2])["checkpoints"]
    tap.eq(len(made), 1, "and it was done once")
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/rollback", {"checkpoint": "c1"})[0], 204, "rolled back")


def test_streams(tap, c, sock, port, token):
    r = send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["sh", "-c", "echo out; echo err >&2; exit 7"]})
    lines = [json.loads(x) for x in r[2].splitlines()]
    tap.eq(lines[-1], {"stream": "end", "exit_code": 7}, "a command's exit code comes last", lines)
    tap.eq({x["stream"] for x in lines[:-1]}, {"stdout", "stderr"}, "and both of its outputs before")
    key = {"Idempotency-Key": "abcdefgh-2"}
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["true"]}, key)[0], 200, "a command with a key runs")
    status, _, data = send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["true"]}, key)
    tap.ok(status == 409 and json.loads(data)["error"]["message"] == "this command was run", "and no second time", status, data)
    last = json.loads(send(sock, "GET", "/v1/audit?limit=1")[2])["items"][0]["seq"]
    got = read_events(port, "/v1/events", {"Last-Event-ID": str(last - 3), "Authorization": f"Bearer {token}"}, lambda g: len(g) >= 3)
    tap.eq([e["id"] for e in got], [last - 2, last - 1, last], "a stream goes on where it was")
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    conn.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}"})
    r = conn.getresponse()
    c("token", "rm", "operator")
    with contextlib.suppress(http.client.IncompleteRead):
        r.read()
    tap.ok(True, "a stream ends when its token is removed")
    conn.close()
    page = json.loads(send(sock, "GET", "/v1/audit?limit=2&after=0")[2])
    rest = json.loads(send(sock, "GET", f"/v1/audit?limit=2&after={page['next']}")[2])
    tap.eq([e["seq"] for e in page["items"] + rest["items"]], [1, 2, 3, 4], "pages follow each other")


ASKING = """version: 1
egress:
  allow:
    - domain: api.github.test
      port: 443
      http:
        - ask: PUT /repos/*/*/pulls/*/merge
        - ask: POST /free/**
"""
SHA = "0123456789abcdef0123456789abcdef01234567"
SPEC = {op["operationId"]: op for _, _, op, _ in operations()}


class Asker:
    """A sandbox whose requests wait for answers that come over the API."""

    def __init__(self, tap, c, net):
        self.tap, self.c, self.net, self.port = tap, c, net, free_port()
        policy = os.path.join(c.home, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as f:
            f.write(ASKING)
        c.own(policy)
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{self.port}").code, 0, "asks: the gateway listens")
        self.id = c("run", "-d", "--policy", policy, "--name", "asker", "--", "sleep", "3600").out.strip()
        tap.ok(self.id, "asks: the sandbox starts")
        self.tokens = {r: c("token", "new", "--role", r, "--name", r).out.strip() for r in ("observer", "approver")}

    def send(self, name, method, path, body=None, role="approver"):
        """As described, or it is no answer; the status, and what was said."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        answer = self.net.gw.do(lambda: send(self.port, method, path, body, headers))
        check_answer(self.tap, f"asks: {name}", SPEC[name], answer)
        return answer[0], json.loads(answer[2])

    def request(self, method="PUT", path="/repos/o/r/pulls/7/merge"):
        return self.c.popen("exec", self.id, "--", "curl", "-sS", "-m", "120", "-w", " %{http_code}", "-X", method, "-H",
                            "Content-Type: application/json", "-d", json.dumps({"sha": SHA}), f"https://api.github.test{path}")

    def pending(self):
        """The one that waits; waits for it."""
        sock = os.path.join(self.c.state, "api.sock")
        items = until(lambda: json.loads(send(sock, "GET", "/v1/asks")[2])["items"])
        self.tap.eq(len(items), 1, "asks: one waits", items)
        return items[0]

    def answer(self, ask, role="approver", **kw):
        body = {"digest": ask["digest"], "decision": "allow", **kw}
        return self.send("askAnswer", "POST", f"/v1/asks/{ask['id']}/answer", body, role)


def ended(p):
    out, err = p.communicate(timeout=PATIENCE * 3)
    return out.decode(errors="replace") + err.decode(errors="replace")


def test_once(tap, a):
    """A merge that waits: seen, refused to who may only look, allowed by who may."""
    p = a.request()
    q = a.pending()
    status, listed = a.send("asks", "GET", "/v1/asks?sandbox=asker", role="observer")
    tap.ok(status == 200 and listed["items"] == [q] and listed["total"] == 1, "asks: who may look sees it", listed)
    status, shown = a.send("ask", "GET", f"/v1/asks/{q['id']}", role="observer")
    tap.ok(status == 200 and shown["state"] == "pending" and shown["method"] == "PUT" and SHA in shown["preview"],
           "asks: in full", shown)
    tap.eq(a.answer(q, "observer")[0], 403, "asks: who may only look does not answer")
    status, got = a.answer(q, digest="0" * 64)
    tap.ok(status == 409 and got["error"]["code"] == "stale", "asks: an answer to something else is none", got)
    status, got = a.answer(q, seconds=5)
    tap.ok(status == 400, "asks: seconds without their scope", got)
    tap.eq(len(a.net.origin.requests), 0, "asks: nothing was sent until then")
    status, got = a.answer(q, reason="reviewed")
    tap.ok(status == 200 and got["answer"]["allow"] and got["answer"]["name"] == "approver" and got["answer"]["via"] == "api" and
           got["answer"]["reason"] == "reviewed", "asks: allowed, and by whom", got)
    text = ended(p)
    tap.ok("merged 200" in text, "asks: and it goes through", text)
    tap.eq(len(a.net.origin.requests), 1, "asks: once")
    status, got = a.answer(q)
    tap.ok(status == 409 and got["error"]["code"] == "answered", "asks: who comes second is told", got)
    p = a.request()
    status, got = a.answer(a.pending(), decision="deny", reason="not today")
    text = ended(p)
    tap.ok(status == 200 and "403" in text and "not today" in text, "asks: denied, and the command is told why", text)
    tap.eq(len(a.net.origin.requests), 1, "asks: and nothing was sent")


def test_grant(tap, a):
    """Allowed for as long as the sandbox lives, until it is taken back."""
    p = a.request("POST", "/free/x")
    q = a.pending()
    status, got = a.answer(q, scope="sandbox")
    tap.ok(status == 200 and "200" in ended(p), "asks: a grant", got)
    text = ended(a.request("POST", "/free/x"))
    tap.ok("free 200" in text, "asks: the next one is not asked about", text)
    tap.eq(a.send("askRevoke", "POST", f"/v1/asks/{q['id']}/revoke", role="observer")[0], 403, "asks: who may only look does not revoke")
    status, got = a.send("askRevoke", "POST", f"/v1/asks/{q['id']}/revoke")
    tap.ok(status == 200 and got["state"] not in ("granted", "pending"), "asks: taken back", got)
    p = a.request("POST", "/free/x")
    again = a.pending()
    tap.ok(again["id"] != q["id"] or again["state"] == "pending", "asks: then it is asked again", again)
    a.answer(again, decision="deny")
    tap.ok("403" in ended(p), "asks: and may be denied")


def test_question(tap, a):
    status, q = a.send("askSubmit", "POST", "/v1/asks", {"sandbox": "asker", "what": "Deploy?", "reason": "all tests pass"}, "observer")
    tap.ok(status == 201 and q["state"] == "pending" and q["kind"] == "question" and q["what"] == "Deploy?", "asks: a question", q)
    status, got = a.answer(q, decision="deny", reason="no")
    tap.ok(status == 200 and got["state"] == "denied", "asks: is answered", got)
    status, got = a.send("ask", "GET", f"/v1/asks/{q['id']}", role="observer")
    tap.ok(status == 200 and got["answer"]["reason"] == "no", "asks: and the asker reads it", got)
    status, page = a.send("asks", "GET", "/v1/asks?state=all&limit=2")
    tap.ok(status == 200 and len(page["items"]) == 2 and page["next"] == page["items"][1]["id"], "asks: a page", page)
    status, rest = a.send("asks", "GET", f"/v1/asks?state=all&after={page['next']}")
    tap.eq(len(rest["items"]) + 2, rest["total"], "asks: and the others")
    a.c("stop", "-t", "1", "asker")
    status, got = a.send("askSubmit", "POST", "/v1/asks", {"sandbox": "asker", "what": "Deploy?"})
    tap.eq(status, 409, "asks: a sandbox that has ended asks nothing", got)
    status, got = a.send("ask", "GET", f"/v1/asks/{q['id']}")
    tap.ok(status == 200 and got["state"] == "denied", "asks: what was said is still told", got)


def test_asks(tap, net, who):
    del net.origin.requests[:]
    with net.coffer(who) as c:
        a = Asker(tap, c, net)
        test_once(tap, a)
        test_grant(tap, a)
        test_question(tap, a)
        log = [json.loads(x) for x in c("audit", "--json").out.splitlines()]
        said = [e for e in log if e["type"] == "ask.answer"]
        tap.ok(len(said) >= 5 and all(e["who"] == "approver" and e["via"] == "api" for e in said), "asks: each answer is in the log, with who gave it", said)
        c("rm", "--force", "asker")
        c("gateway", "stop")
        c.check_clean(tap)


def test_all_asks(tap, found):
    reason = why_not()
    if reason:
        tap.skip("asks", reason)
        return
    with Internet() as net:
        net.origin = net.https("api.github.test", lambda q: "merged" if q.path.endswith("/merge") else "free")
        for who in found:
            test_asks(tap, net, who)


def open_stream(port, token):
    """A connection with its head read: a stream, or what was said instead of one."""
    s = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got and (more := s.recv(4096)):
        got += more
    return s, got


def test_crowd(tap, c, port):
    """Each of many streams has each event. Fewer than one credential may open at once."""
    token = c("token", "new", "--role", "observer", "--name", "crowd").out.strip()
    streams = [open_stream(port, token) for _ in range(300)]
    tap.eq({head[9:12] for _, head in streams}, {b"200"}, "crowd: three hundred streams are open")
    seqs = []
    c("token", "new", "--role", "observer", "--name", "crowd-event")
    for s, head in streams:
        got = head.split(b"\r\n\r\n", 1)[1]
        while b"crowd-event" not in got and (more := s.recv(4096)):
            got += more
        seqs.append(got.count(b'"name":"crowd-event"'))
    tap.eq(set(seqs), {1}, "crowd: each has the event, once")
    for s, _ in streams:
        s.close()
    c("token", "rm", "crowd")


def test_api(tap, who):
    with coffer_as(who) as c:
        port = free_port()
        sock = os.path.join(c.state, "api.sock")
        r = c("gateway", "start", "--listen", f"0.0.0.0:{port}")
        tap.ok(r.code == 125 and "whole network" in r.err, "a public address is refused, and why", r)
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}").code, 0, "one of this machine is not")
        tap.eq(os.stat(sock).st_mode & 0o777, 0o600, "the socket is its owner's")
        test_examples(tap, c, sock)
        tokens = test_roles(tap, c, port)
        test_browser(tap, c, port)
        test_bad(tap, port, tokens["operator"])
        test_idempotency(tap, c, sock)
        test_streams(tap, c, sock, port, tokens["operator"])
        test_crowd(tap, c, port)
        c("rm", "--force", "idem")
        tap.ok(not [h for h in json.loads(c("gateway", "status", "--json").out)["helpers"] if h["name"] == "coffer-web"],
               "coffer-web never died")
        tap.eq(c("audit", "verify").code, 0, "the log is whole")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
# In a user namespace we, outside, are nobody to it; that its socket refuses us is what root and user show by working.
served = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
for identity in served:
    test_api(tap, identity)
test_all_asks(tap, served)
tap.done()
