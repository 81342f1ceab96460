#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""The HTTP API: every example of doc/openapi.yaml, roles, other sites, malformed requests, streams."""

import base64
import contextlib
import copy
import http.client
import json
import os
import re
import subprocess
import sys

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ROOT, Tap, coffer_as, identities, remember  # noqa: E402
import openapi  # noqa: E402
from nettest import Internet, why_not  # noqa: E402
from webtest import JSON, PATIENCE, connection, free_port, metric, raw, send, until  # noqa: E402

RANK = {"none": 0, "observer": 1, "approver": 2, "operator": 3}

with open(os.path.join(ROOT, "doc", "openapi.yaml"), encoding="utf-8") as f:
    API = yaml.safe_load(f)


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
    conn = connection(where)
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
    tap.ok(headers["Content-Type"].startswith(kind), f"{name}: the content type is {kind}", headers["Content-Type"])
    docs = [json.loads(line) for line in data.splitlines()] if kind == "application/x-ndjson" else \
        [json.loads(data)] if kind == "application/json" else []
    for doc in docs:
        why = holds(media["schema"], doc)
        tap.ok(why is None, f"{name}: {status} is as described", why, data[:400])


LAST = ("sandboxRemove",)
# Ids and codes that nobody has, and a sandbox that may ask nothing; test_asks and test_browser have what works.
FAILS_BY_EXAMPLE = {"ask", "askAnswer", "askRevoke", "sessionOpen", "askSubmit"}


def broken(change):
    doc = copy.deepcopy(API)
    change(doc)
    return openapi.faults(doc)


def test_document(tap):
    """The document is one, and has what the table has that requests are read by."""
    tap.eq(openapi.faults(API), [], "openapi.yaml is a document of OpenAPI 3.1")
    get = API["paths"]["/v1/sandboxes"]["get"]["operationId"]
    for name, change in (("an unknown member", lambda d: d["info"].update(nosuch=1)),
                         ("no answers", lambda d: d["paths"]["/v1/sandboxes"]["get"].pop("responses")),
                         ("an id twice", lambda d: d["paths"]["/v1/status"]["get"].update(operationId=get)),
                         ("a part of a path undeclared", lambda d: d["paths"]["/v1/sandboxes/{sandbox}"].pop("parameters")),
                         ("a reference to nothing", lambda d: d["components"]["schemas"].pop("ExecLine")),
                         ("a wrong example", lambda d: d["paths"]["/v1/asks"]["post"]["requestBody"]["content"]["application/json"].update(example=7))):
        tap.ok(broken(change), f"control: a document with {name} is invalid")
    with open(os.path.join(ROOT, "src", "web", "wire", "webroute.c"), encoding="utf-8") as f:
        table = set(re.findall(r'"(GET|POST|DELETE)",\s*"(/v1/[^"]*)"', f.read()))
    described = {(method, re.sub(r"\{[^}]*\}", "{}", path)) for path, method, _, _ in operations()}
    tap.eq(sorted(table), sorted(described), "openapi.yaml describes the operations of the route table, and no others")


def test_examples(tap, c, sock):
    c("run", "-d", "--name", "web", "--", "sleep", "600")
    todo = sorted(operations(), key=lambda o: (o[2]["operationId"] in LAST, o[2]["operationId"] == "sandboxStop"))
    for path, method, op, params in todo:
        name = op["operationId"]
        target, body = request_of(path, op, params, "web")
        if name == "events":
            got = read_events(sock, target, {"Last-Event-ID": "0"}, lambda g: len(g) >= 2)
            tap.ok(len(got) >= 2 and all(e["data"]["seq"] == e["id"] and e["data"]["type"] == e["event"] for e in got), "events: each has its number and type", got)
            continue
        answer = send(sock, method, target, body)
        if name not in FAILS_BY_EXAMPLE:
            tap.ok(200 <= answer[0] < 300, f"{name}: the example request succeeds", answer)
        if name == "exec":
            tap.ok(op["responses"]["200"]["content"]["application/x-ndjson"]["example"] in [json.loads(x) for x in answer[2].splitlines()],
                   "exec: the response contains the example of the document", answer)
        check_answer(tap, name, op, answer)


def test_roles(tap, c, port):
    tokens = {r: c("token", "new", "--role", r, "--name", r).out.strip() for r in ("observer", "approver", "operator")}
    tap.ok(all(t.startswith("coffer_") for t in tokens.values()), "token new prints tokens", tokens)
    for path, method, op, params in operations():
        need = op["x-role"]
        target, body = request_of(path, op, params, "nosuch")
        if op["operationId"] in ("events", "sessionOpen"):
            continue
        for role, token in tokens.items():
            status, _, data = send(port, method, target, body, {"Authorization": f"Bearer {token}"})
            refused = status in (401, 403)
            tap.eq(refused, RANK[role] < RANK[need], f"{op['operationId']} as {role} is {'refused' if RANK[role] < RANK[need] else 'accepted'}", status, data[:200])
        if need != "none":
            tap.eq(send(port, method, target, body)[0], 401, f"{op['operationId']} without a token is refused")
            tap.eq(send(port, method, target, body, {"Authorization": "Bearer coffer_" + "x" * 43})[0], 401,
                   f"{op['operationId']} with a wrong token is refused")
    auth = {"Authorization": f"Bearer {tokens['observer']}"}
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 200, "control: a token is accepted")
    c("token", "rm", "observer")
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 401, "a removed token is refused")
    short = c("token", "new", "--role", "observer", "--name", "short", "--expires", "1s").out.strip()
    gone = until(lambda: send(port, "GET", "/v1/status", headers={"Authorization": f"Bearer {short}"})[0] == 401)
    tap.ok(gone, "an expired token is refused")
    stored = b""
    for name in ("gateway.db", "gateway.db-wal"):  # what was written last may be in the latter only
        if os.path.exists(os.path.join(c.state, name)):
            with open(os.path.join(c.state, name), "rb") as f:
                stored += f.read()
    tap.ok(b"approver" in stored and not any(t.encode() in stored for t in tokens.values()), "the database has no token")
    return tokens


def test_browser(tap, c, port):
    here = {"Host": f"127.0.0.1:{port}"}
    url = c("ui").out.strip()
    tap.ok(url.startswith(f"http://127.0.0.1:{port}/#login="), "coffer ui prints an address with a code", url)
    code = {"code": url.split("=")[1]}
    page = {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin", **here}
    tap.eq(send(port, "POST", "/v1/session", code, {**page, "Origin": "http://evil.test"})[0], 403, "a code from another site is refused")
    status, headers, data = send(port, "POST", "/v1/session", code, page)
    got = json.loads(data)
    schema = deref(API["paths"]["/v1/session"]["post"]["responses"]["200"])["content"]["application/json"]["schema"]
    tap.ok(status == 200 and holds(schema, got) is None, "the code of coffer ui opens a session", status, holds(schema, got))
    tap.ok("Set-Cookie" not in headers, "a session sets no cookie", headers.items())
    tap.eq(send(port, "POST", "/v1/session", code, page)[0], 401, "the code of coffer ui works once")
    auth = {"Authorization": f"Bearer {got['session']}"}
    tap.eq(json.loads(send(port, "GET", "/v1/status", headers=auth)[2])["you"]["via"], "session", "the token of a session is accepted")
    stop = ("POST", "/v1/sandboxes/nosuch/stop", {})
    tap.eq(send(port, *stop, {**auth, **page})[0], 404, "control: the page may change something")
    for name in ("coffer_session", "session"):
        tap.eq(send(port, "GET", "/v1/status", headers={**page, "Cookie": f"{name}={got['session']}"})[0], 401, "a session's token in a cookie is refused")
    for site in ("cross-site", "same-site", "", "same-origin, none"):
        tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Sec-Fetch-Site": site})[0], 403, f"a request with Sec-Fetch-Site '{site}' is refused")
    tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Sec-Fetch-Site": "none"})[0], 200, "control: a request with Sec-Fetch-Site none is accepted")
    tap.eq(send(port, "GET", "/", headers={"Sec-Fetch-Site": "cross-site"})[0], 200, "control: a link from another site may lead to the page")
    tap.eq(send(port, *stop, {**auth, **page, "Origin": f"http://localhost:{port}"})[0], 403, "a change from another origin is refused")
    tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Origin": "http://evil.test"})[0], 403, "a read from another origin is refused")
    for host in ("evil.test", f"evil.test:{port}", "127.0.0.1:1", "localhost"):
        tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Host": host})[0], 421, f"a request with Host {host} is refused")
    tap.eq(send(port, "GET", "/", headers={"Host": f"evil.test:{port}"})[0], 421, "the page is refused under a rebound name")
    tap.eq(send(port, "GET", "/v1/status", headers={**auth, "Host": f"localhost:{port}"})[0], 200, "control: Host localhost is accepted")
    status, headers, _ = send(port, "GET", "/")
    tap.ok(status == 200 and "default-src 'none'" in headers["Content-Security-Policy"], "the page has a strict Content-Security-Policy")
    tap.ok("require-trusted-types-for 'script'" in headers["Content-Security-Policy"] and "trusted-types 'none'" in headers["Content-Security-Policy"],
           "the page requires trusted types", headers["Content-Security-Policy"])
    test_files(tap, port)
    tap.eq(send(port, "DELETE", "/v1/session", None, {**auth, **page})[0], 204, "a session can be ended")
    tap.eq(send(port, "GET", "/v1/status", headers=auth)[0], 401, "an ended session is refused")


def test_proxy(tap, c, token):
    """Behind a proxy with TLS that has a name of the operator's."""
    port, auth = free_port(), {"Authorization": f"Bearer {token}"}
    tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}", "--host", "coffer.example.org").code, 0, "proxy: gateway start --host is accepted")
    for host, origin, want in (("coffer.example.org", "https://coffer.example.org", 200), ("coffer.example.org", "http://coffer.example.org", 200),
                               ("coffer.example.org:8443", "https://coffer.example.org:8443", 200), ("coffer.example.org", None, 200),
                               ("coffer.example.org", "https://coffer.example.org:8443", 403), ("coffer.example.org", "https://evil.test", 403),
                               ("evil.example.org", "https://evil.example.org", 421), (f"127.0.0.1:{port}", f"https://127.0.0.1:{port}", 403),
                               ("127.0.0.1", "http://127.0.0.1", 421)):
        headers = {**auth, "Host": host, **({"Origin": origin} if origin else {})}
        tap.eq(send(port, "GET", "/v1/status", headers=headers)[0], want, f"proxy: Host {host} with Origin {origin} gets {want}")
    log = [json.loads(x) for x in c("audit", "--json").out.splitlines() if '"api.listen"' in x]
    tap.eq(log[-1].get("hosts"), "coffer.example.org", "proxy: the name is in the log")


def test_files(tap, port):
    """The page's files: all that one names is there; kept by a browser, and asked about each time."""
    todo, got = ["/"], {}
    while todo:
        path = todo.pop()
        status, headers, data = got[path] = send(port, "GET", path)
        text = data.decode() if status == 200 else ""
        named = re.findall(r'(?:src|href)="(/[^"]+)"', text) + re.findall(r'"(/[\w-]+\.svg)"', text) + ["/" + x for x in re.findall(r'from "\./([^"]+)"', text)]
        todo += [x for x in named if x not in got and x not in todo]
    tap.ok(len(got) > 10 and {s for s, _, _ in got.values()} == {200}, "each file that the page names is served", sorted(got))
    in_tree = {"/" + x for x in os.listdir(os.path.join(ROOT, "web"))} - {"/index.html", "/README.md"} | {"/"}
    tap.eq(set(got), in_tree, "each file in web/ is used")
    wanted = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", "": "text/html"}
    tap.ok(all(h["Content-Type"].startswith(wanted[os.path.splitext(p)[1]]) and h["X-Content-Type-Options"] == "nosniff" and "default-src 'none'" in
               h["Content-Security-Policy"] for p, (_, h, _) in got.items()), "each file of the page has its type and a policy")
    etag = got["/app.js"][1]["ETag"]
    status, headers, data = send(port, "GET", "/app.js", headers={"If-None-Match": etag})
    tap.eq((status, data, headers["ETag"], headers["Cache-Control"]), (304, b"", etag, "no-cache"), "a cached file gets a 304")
    tap.eq(send(port, "GET", "/app.js", headers={"If-None-Match": '"0"'})[0], 200, "an outdated cached file is sent again")
    tap.eq(send(port, "GET", "/v1/openapi.yaml")[1]["Cache-Control"], "no-cache", "openapi.yaml is revalidated by caches")
    tap.eq(send(port, "GET", "/v1/status")[1]["Cache-Control"], "no-store", "API responses are not cached")


def test_bad(tap, port, token):
    auth = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    post = f"POST /v1/sandboxes/x/stop HTTP/1.1\r\n{auth}Content-Type: application/json\r\n"

    def status(text, more=b""):
        return raw(port, text.encode() + more)[9:12].decode()

    get = f"GET /v1/status HTTP/1.1\r\n{auth}"
    many = f"GET /nosuch HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n" * 300
    got = raw(port, (many + f"{get}Connection: close\r\n\r\n").encode())
    tap.ok(got.count(b"HTTP/1.1 404") == 300 and got.count(b"HTTP/1.1 200") == 1, "pipelined requests are answered in order",
           got.count(b"HTTP/1.1 "))
    tap.eq(status(f"{get}Connection: close\r\n\r\n"), "200", "control: a good request gets a 200")
    tap.eq(status(f"{post}Content-Length: 1073741824\r\n\r\n"), "413", "a body of 1 GiB is refused by its length")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    tap.eq(status(f"{post}Transfer-Encoding: chunked\r\n\r\n", chunk * 4), "413", "a chunked body of 256 KiB is refused")
    tap.eq(status(f"{get}X: {'a' * 70000}\r\n\r\n"), "431", "a head of 70 KB is refused")
    tap.eq(status(f"{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"), "400", "a request with length and chunks is refused")
    tap.eq(status(f"{post}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}"), "400", "a request with two lengths is refused")
    tap.ok(status(f"{post}Transfer-Encoding: gzip, chunked\r\n\r\n") in ("400", "501"), "another transfer coding is refused")
    tap.eq(status(f"GET /v1/status HTTP/1.1\n{auth}\n"), "400", "bare line feeds are refused")
    tap.eq(status(f"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n"), "400", "an absolute request target is refused")
    json_post = post + "Connection: close\r\n"
    for body, why in (('{"grace_s":1,"grace_s":2}', "a member twice"), ('{"nosuch":1}', "an unknown member"), ("[]", "no object"),
                      ('{"grace_s":-1}', "out of range"), ('{"grace_s":"1"}', "the wrong kind"), ("{", "no JSON")):
        tap.eq(status(f"{json_post}Content-Length: {len(body)}\r\n\r\n{body}"), "400", f"a body with {why} is refused")
    for target in ("/v1/audit?limit=0", "/v1/audit?limit=1&limit=2", "/v1/audit?nosuch=1", "/v1/audit?type=%zz"):
        tap.eq(status(f"GET {target} HTTP/1.1\r\n{auth}\r\n"), "400", f"{target} is refused")
    tap.eq(status(f"GET /v1/sandboxes/..%2f..%2fx HTTP/1.1\r\n{auth}\r\n"), "400", "a name with .. is refused")
    tap.eq(status(f"PUT /v1/status HTTP/1.1\r\n{auth}Connection: close\r\n\r\n"), "405", "an unknown method is refused")


def test_idempotency(tap, c, sock):
    c("run", "-d", "--name", "idem", "--", "sleep", "600")
    key = {"Idempotency-Key": "abcdefgh-1"}
    first = send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "one"}, key)
    again = send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "one"}, key)
    tap.eq((first[0], again[0]), (201, 201), "a repeated POST with its key gets the same status", first, again)
    tap.eq(again[2], first[2], "a repeated POST with its key gets the same body")
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/checkpoints", {"label": "two"}, key)[0], 422, "a key with another body is refused")
    made = json.loads(send(sock, "GET", "/v1/sandboxes/idem/checkpoints")[2])["checkpoints"]
    tap.eq(len(made), 1, "a repeated POST is done once")
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/rollback", {"checkpoint": "c1"})[0], 204, "rollback by the API succeeds")


def run_with(sock, command, **how):
    """A command over the API: its exit code and what it printed; or the status, and what was said."""
    status, _, data = send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": command, **how})
    if status != 200:
        return status, data
    lines = [json.loads(x) for x in data.splitlines()]
    return lines[-1]["exit_code"], b"".join(base64.b64decode(x["data"]) for x in lines if x["stream"] == "stdout")


def test_stdin(tap, c, sock):
    """The input of a command comes with the request: whole, whatever bytes it is, and then the end."""
    every = bytes(range(256)) * 180 + b"\0\r\n"
    text = "ÄΩ€😀\0\r\n" * 1500
    for name, how, want in (("bytes", {"stdin_base64": base64.b64encode(every).decode()}, every), ("a text", {"stdin": text}, text.encode()),
                            ("an empty text", {"stdin": ""}, b""), ("no bytes", {"stdin_base64": ""}, b""), ("one byte", {"stdin_base64": "AA=="}, b"\0"),
                            ("nothing", {}, b"")):
        code, got = run_with(sock, ["cat"], **how)
        tap.ok(code == 0 and got == want, f"stdin: the command reads {name}", code, len(got), got[:100])
    secret = "stdin-is-no-word-of-a-command-line"
    code, got = run_with(sock, ["sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline; env; readlink /proc/self/fd/0; sed s/^/read:/"], stdin=secret)
    tap.ok(code == 0 and got.count(secret.encode()) == 1 and b"read:" + secret.encode() in got, "stdin: input is in no argument, variable or name", got)
    p = connection(sock)
    p.request("POST", "/v1/sandboxes/idem/exec", json.dumps({"command": ["sh", "-c", "echo up; cat >/dev/null; sleep 30"], "stdin": secret}), JSON)
    p.getresponse().readline()
    lines = subprocess.run(["ps", "-eww", "-o", "args"], stdout=subprocess.PIPE, check=True).stdout
    tap.ok(b"exec -i" in lines and secret.encode() not in lines, "stdin: input is in no command line outside")
    p.close()
    big = "x" * 60000
    tap.eq(run_with(sock, ["true"], stdin=big), (0, b""), "stdin: a command may end before it reads")
    tap.eq(run_with(sock, ["sh", "-c", "exec <&-; sleep 0.5; echo done; exit 3"], stdin=big), (3, b"done\n"), "stdin: a command may close its input")
    tap.eq(run_with(sock, ["sh", "-c", "sleep 1; echo done"], stdin=big), (0, b"done\n"), "stdin: a command may never read")
    tap.eq(run_with(sock, ["head", "-c", "3"], stdin="abcdef"), (0, b"abc"), "stdin: a command may read a part")
    tap.eq(run_with(sock, ["sh", "-c", "sleep 0.5; wc -c"], stdin=big)[1].strip(), b"60000", "stdin: a command may read late")
    log = c("audit", "--json").out
    tap.ok(secret not in log, "stdin: input is not in the log")
    for name, how, want in (("more than a body has room for", {"stdin": "x" * 65536}, 413), ("more than that as base64", {"stdin_base64": "eHh4" * 16384}, 413),
                            ("both ways at once", {"stdin": "a", "stdin_base64": "YQ=="}, 400), ("no base64", {"stdin_base64": "a"}, 400),
                            ("base64 with a line", {"stdin_base64": "YQ==\n"}, 400), ("base64 for addresses", {"stdin_base64": "_-8="}, 400),
                            ("base64 without its end", {"stdin_base64": "YQ"}, 400), ("a number", {"stdin": 7}, 400), ("null", {"stdin_base64": None}, 400)):
        got = run_with(sock, ["cat"], **how)
        tap.eq(got[0], want, f"stdin: {name} is refused with {want}", got)


def test_streams(tap, c, sock, port, token):
    r = send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["sh", "-c", "echo out; echo err >&2; exit 7"]})
    lines = [json.loads(x) for x in r[2].splitlines()]
    tap.eq(lines[-1], {"stream": "end", "exit_code": 7}, "a command's exit code comes last", lines)
    tap.eq({x["stream"] for x in lines[:-1]}, {"stdout", "stderr"}, "exec streams stdout and stderr")
    conn, codes = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE), []
    for n in [7, 0, 3, 0] * 4:
        conn.request("POST", "/v1/sandboxes/idem/exec", json.dumps({"command": ["sh", "-c", f"exit {n}"]}),
                     {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        codes.append(json.loads(conn.getresponse().read().splitlines()[-1])["exit_code"])
    conn.close()
    tap.eq(codes, [7, 0, 3, 0] * 4, "commands on one connection get their own exit codes")
    key = {"Idempotency-Key": "abcdefgh-2"}
    tap.eq(send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["true"]}, key)[0], 200, "exec with a key runs")
    status, _, data = send(sock, "POST", "/v1/sandboxes/idem/exec", {"command": ["true"]}, key)
    tap.ok(status == 409 and json.loads(data)["error"]["message"] == "this command was run", "exec with a used key is refused", status, data)
    last = json.loads(send(sock, "GET", "/v1/audit?limit=1")[2])["items"][0]["seq"]
    got = read_events(port, "/v1/events", {"Last-Event-ID": str(last - 3), "Authorization": f"Bearer {token}"}, lambda g: len(g) >= 3)
    tap.eq([e["id"] for e in got], [last - 2, last - 1, last], "an event stream resumes after Last-Event-ID")
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    conn.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}"})
    r = conn.getresponse()
    c("token", "rm", "operator")
    with contextlib.suppress(http.client.IncompleteRead):
        r.read()
    tap.ok(r.isclosed(), "a stream ends when its token is removed")
    conn.close()
    page = json.loads(send(sock, "GET", "/v1/audit?limit=2&after=0")[2])
    rest = json.loads(send(sock, "GET", f"/v1/audit?limit=2&after={page['next']}")[2])
    tap.eq([e["seq"] for e in page["items"] + rest["items"]], [1, 2, 3, 4], "pages of the log are consecutive")


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
        self.tap.eq(len(items), 1, "asks: one question waits", items)
        return items[0]

    def answer(self, ask, role="approver", **kw):
        body = {"digest": ask["digest"], "decision": "allow", **kw}
        return self.send("askAnswer", "POST", f"/v1/asks/{ask['id']}/answer", body, role)


def ended(p):
    out, err = p.communicate(timeout=PATIENCE * 3)
    return remember(out.decode(errors="replace") + err.decode(errors="replace"))


def test_once(tap, a):
    """A merge that waits: seen, refused to who may only look, allowed by who may."""
    p = a.request()
    q = a.pending()
    status, listed = a.send("asks", "GET", "/v1/asks?sandbox=asker", role="observer")
    tap.ok(status == 200 and listed["items"] == [q] and listed["total"] == 1, "asks: an observer sees the question", listed)
    status, shown = a.send("ask", "GET", f"/v1/asks/{q['id']}", role="observer")
    tap.ok(status == 200 and shown["state"] == "pending" and shown["method"] == "PUT" and SHA in shown["preview"],
           "asks: an observer sees the question in full", shown)
    tap.eq(a.answer(q, "observer")[0], 403, "asks: an observer may not answer")
    status, got = a.answer(q, digest="0" * 64)
    tap.ok(status == 409 and got["error"]["code"] == "stale", "asks: an answer with another digest is refused", got)
    status, got = a.answer(q, seconds=5)
    tap.ok(status == 400, "asks: seconds without a scope are refused", got)
    tap.eq(len(a.net.origin.requests), 0, "asks: nothing is sent while the question waits")
    status, got = a.answer(q, reason="reviewed")
    tap.ok(status == 200 and got["answer"]["allow"] and got["answer"]["name"] == "approver" and got["answer"]["via"] == "api" and
           got["answer"]["reason"] == "reviewed", "asks: the answer names who allowed it", got)
    text = ended(p)
    tap.ok("merged 200" in text, "asks: an allowed request goes through", text)
    tap.eq(len(a.net.origin.requests), 1, "asks: an allowed request is sent once")
    status, got = a.answer(q)
    tap.ok(status == 409 and got["error"]["code"] == "answered", "asks: a second answer is refused", got)
    p = a.request()
    status, got = a.answer(a.pending(), decision="deny", reason="not today")
    text = ended(p)
    tap.ok(status == 200 and "403" in text and "not today" in text, "asks: a denied request tells the command the reason", text)
    tap.eq(len(a.net.origin.requests), 1, "asks: a denied request is not sent")


def test_grant(tap, a):
    """Allowed for as long as the sandbox lives, until it is taken back."""
    p = a.request("POST", "/free/x")
    q = a.pending()
    status, got = a.answer(q, scope="sandbox")
    tap.ok(status == 200 and "200" in ended(p), "asks: scope sandbox grants the request", got)
    text = ended(a.request("POST", "/free/x"))
    tap.ok("free 200" in text, "asks: a granted request is not asked about", text)
    tap.eq(a.send("askRevoke", "POST", f"/v1/asks/{q['id']}/revoke", role="observer")[0], 403, "asks: an observer may not revoke")
    status, got = a.send("askRevoke", "POST", f"/v1/asks/{q['id']}/revoke")
    tap.ok(status == 200 and got["state"] not in ("granted", "pending"), "asks: an approver may revoke a grant", got)
    p = a.request("POST", "/free/x")
    again = a.pending()
    tap.ok(again["id"] != q["id"] or again["state"] == "pending", "asks: a request asks again after a revoke", again)
    a.answer(again, decision="deny")
    tap.ok("403" in ended(p), "asks: a request may be denied after a revoke")
    labels = f'sandbox="{a.id}",name="asker"'
    sock = os.path.join(a.c.state, "api.sock")
    counted = until(lambda: metric(sock, f'coffer_asks_answered_total{{{labels},verdict="deny"}}') == 2)
    tap.ok(counted and metric(sock, f'coffer_asks_answered_total{{{labels},verdict="allow"}}') == 2 and
           metric(sock, f"coffer_asks_total{{{labels}}}") == 4 and metric(sock, f"coffer_asks_pending{{{labels}}}") == 0,
           "asks: the metrics count questions and answers", [x for x in send(sock, "GET", "/v1/metrics")[2].decode().splitlines() if x.startswith("coffer_asks")])


def test_question(tap, a):
    status, q = a.send("askSubmit", "POST", "/v1/asks", {"sandbox": "asker", "what": "Deploy?", "reason": "all tests pass"}, "observer")
    tap.ok(status == 201 and q["state"] == "pending" and q["kind"] == "question" and q["what"] == "Deploy?", "asks: an observer may submit a question", q)
    status, got = a.answer(q, decision="deny", reason="no")
    tap.ok(status == 200 and got["state"] == "denied", "asks: a submitted question is denied", got)
    status, got = a.send("ask", "GET", f"/v1/asks/{q['id']}", role="observer")
    tap.ok(status == 200 and got["answer"]["reason"] == "no", "asks: the asker reads the answer", got)
    status, page = a.send("asks", "GET", "/v1/asks?state=all&limit=2")
    tap.ok(status == 200 and len(page["items"]) == 2 and page["next"] == page["items"][1]["id"], "asks: a page of two has a next cursor", page)
    status, rest = a.send("asks", "GET", f"/v1/asks?state=all&after={page['next']}")
    tap.eq(len(rest["items"]) + 2, rest["total"], "asks: the next page has the other questions")
    a.c("stop", "-t", "1", "asker")
    status, got = a.send("askSubmit", "POST", "/v1/asks", {"sandbox": "asker", "what": "Deploy?"})
    tap.eq(status, 409, "asks: a question for an ended sandbox is refused", got)
    status, got = a.send("ask", "GET", f"/v1/asks/{q['id']}")
    tap.ok(status == 200 and got["state"] == "denied", "asks: the answer is still there after the sandbox ended", got)


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
        test_held(tap, a)
        test_series(tap, a)
        c("gateway", "stop")
        c.check_clean(tap)


EGRESS = ("connect", "request", "graphql", "git")  # kinds of questions that are about the network


def test_held(tap, a):
    """A request that is held for a person is among the events of the network. And the log before it, no further back than is wanted."""
    log = [json.loads(x) for x in a.c("audit", "--json").out.splitlines()]
    asked = [e for e in log if e["type"] == "ask.new"]
    own = [e for e in asked if e["kind"] in EGRESS]
    status, got = a.send("egress", "GET", f"/v1/egress?decision=ask&sandbox={a.id}", role="observer")
    tap.eq([x["seq"] for x in got["items"]], [e["seq"] for e in reversed(own)], "asks: /v1/egress?decision=ask lists questions about the network", got)
    tap.ok(own and len(own) < len(asked) and all(x["type"] == "ask.new" and x["decision"] == "ask" and x["denied"] is False and x["ask"] and x["method"] and x["rule"] for x in got["items"]),
           "asks: /v1/egress lists no other questions", got)
    both = {x["seq"] for x in a.send("egress", "GET", f"/v1/egress?limit=1000&sandbox={a.id}")[1]["items"]}
    tap.ok({e["seq"] for e in own} < both, "asks: /v1/egress without a filter contains the questions")
    tap.eq(a.send("egress", "GET", f"/v1/egress?decision=ask&host=nowhere.test&sandbox={a.id}")[1]["items"], [], "asks: /v1/egress combines filters")
    seq = own[-1]["seq"]
    status, got = a.send("audit", "GET", f"/v1/audit?sandbox={a.id}&before={seq}&within=3")
    tap.ok(status == 200 and [e["seq"] for e in got["items"]] == [e["seq"] for e in reversed(log) if seq - 3 <= e["seq"] < seq and e.get("sandbox") == a.id] and got["next"] == seq - 3,
           "asks: /v1/audit?within=3 searches three events, with a next cursor", got)
    status, got = a.send("audit", "GET", f"/v1/audit?sandbox={a.id}&before={seq}&within=1000000&limit=1000")
    tap.ok(got["next"] is None and len(got["items"]) == sum(e["seq"] < seq and e.get("sandbox") == a.id for e in log), "asks: /v1/audit with a large within searches the whole log", got["next"])
    tap.eq(a.send("audit", "GET", "/v1/audit?after=1&within=5")[0], 400, "asks: /v1/audit refuses within with after")


def test_series(tap, a):
    """A chart shows the numbers of the log."""
    log = [json.loads(x) for x in a.c("audit", "--json").out.splitlines()]
    decided = [e for e in log if e["type"] in ("net.dns", "net.open", "net.request") and "decision" in e]
    closed = [e for e in log if e["type"] == "net.close"]
    wanted = {"allow": sum(e.get("count", 1) for e in decided if e["decision"] != "deny"), "ask": sum(e["type"] == "ask.new" and e["kind"] in EGRESS for e in log),
              "deny": sum(e.get("count", 1) for e in decided if e["decision"] == "deny") + sum(e.get("count", 1) for e in log if e["type"] == "net.refused"),
              "up": sum(e["up"] for e in closed), "down": sum(e["down"] for e in closed)}
    status, got = a.send("series", "GET", f"/v1/series?since=2h&buckets=7&sandbox={a.id}", role="observer")
    sums = {k: sum(x[k] for x in got["items"]) for k in wanted} if status == 200 else got
    tap.ok(sums == wanted and wanted["allow"] and wanted["ask"] and wanted["down"], "asks: /v1/series has the decisions and bytes of the log", sums, wanted)
    tap.eq(len(got["items"]), 7, "asks: /v1/series has as many buckets as requested")
    status, got = a.send("series", "GET", "/v1/series?since=1ms&buckets=1")
    tap.ok(status == 200 and not any(got["items"][0][k] for k in wanted), "asks: /v1/series covers only the requested time", got)
    tap.eq(a.send("series", "GET", "/v1/series?since=2999-01-01")[0], 400, "asks: /v1/series refuses a future time")


def test_all_asks(tap, found):
    reason = why_not()
    if reason:
        tap.skip("asks", reason)
        return
    with Internet() as net:
        net.origin = net.https("api.github.test", lambda q: "merged" if q.path.endswith("/merge") else "free")
        for who in found:
            test_asks(tap, net, who)


def test_api(tap, who):
    with coffer_as(who) as c:
        port = free_port()
        sock = os.path.join(c.state, "api.sock")
        r = c("gateway", "start", "--listen", f"0.0.0.0:{port}")
        tap.ok(r.code == 125 and "whole network" in r.err, "a public address is refused with the reason", r)
        for public in ((), ("--public",)):
            r = c("gateway", "start", "--listen", f"[fe80::1]:{port}", *public)
            tap.ok(r.code == 125 and "link-local address" in r.err and "cannot be named" in r.err, "a link-local address is refused, with the reason", r)
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}").code, 0, "a loopback address is accepted")
        tap.eq(os.stat(sock).st_mode & 0o777, 0o600, "api.sock has mode 0600")
        test_examples(tap, c, sock)
        tokens = test_roles(tap, c, port)
        test_browser(tap, c, port)
        test_proxy(tap, c, tokens["operator"])
        test_bad(tap, port, tokens["operator"])
        test_idempotency(tap, c, sock)
        test_stdin(tap, c, sock)
        test_streams(tap, c, sock, port, tokens["operator"])
        c("rm", "--force", "idem")
        tap.ok(not [h for h in json.loads(c("gateway", "status", "--json").out)["helpers"] if h["name"] == "coffer-web"],
               "coffer-web never died")
        tap.eq(c("audit", "verify").code, 0, "the log verifies")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
test_document(tap)
# In a user namespace we, outside, are nobody to it; that its socket refuses us is what root and user show by working.
served = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
for identity in served:
    test_api(tap, identity)
test_all_asks(tap, served)
tap.done()
