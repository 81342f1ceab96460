# SPDX-License-Identifier: Apache-2.0
"""Requests that mean one thing to a rule and another to a server: what each looks like, beside one that is honest."""

import json
import os
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
import rawclient as raw  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import PATIENCE, Rig, wait_for  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="bypass-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")
API, GQL, OWN, GIT, LATE = (f"{x}.example.test" for x in ("api", "gql", "own", "git", "late"))

POLICY = f"""
version: 1
egress:
  allow:
    - domain: {API}
      port: [443, 80]
      http:
        - allow: ["* /**"]
        - deny: ["* /secret/**", "DELETE /**"]
    - domain: {GQL}
      port: 443
      graphql: [{{allow: query *}}]
    - domain: {OWN}
      port: 443
      http: [{{allow: "* /**"}}]
      credentials: only
    - domain: {GIT}
      port: 443
      http: [{{allow: "* /**"}}]
      git: [{{allow: fetch o/r}}, {{allow: push o/r refs/heads/bot/** create}}]
    - domain: {LATE}
      port: 443
      graphql: [{{allow: query *}}]
"""


def h1(rig, host, port=443):
    s = rig.connect(rig.lookup(host), port)
    s.settimeout(PATIENCE)
    return raw.H1(raw.tls(s, host, TRUST, "http/1.1") if port == 443 else s)


def h2(rig, host):
    s = rig.connect(rig.lookup(host), 443)
    s.settimeout(PATIENCE)
    return raw.H2(raw.tls(s, host, TRUST, "h2"), host)


def ask(rig, host, line, fields=(), body=b""):
    c = h1(rig, host)
    head = "".join(f"{k}: {v}\r\n" for k, v in fields)
    length = f"Content-Length: {len(body)}\r\n" if body or line.startswith("POST") else ""
    try:
        return c.ask(f"{line} HTTP/1.1\r\nHost: {host}\r\n{head}{length}\r\n".encode("latin-1") + body)[0]
    finally:
        c.close()


def methods(rig, api):
    """Which method is meant."""
    tap.eq(ask(rig, API, "POST /m?payment_method=card&x=_method", body=b"x"), 200, "a parameter that only resembles _method passes")
    for q in ("_method=DELETE", "%5Fmethod=DELETE", "_meth%6fd=DELETE", "a=1;_method=DELETE", ".method=DELETE", "+_method=DELETE",
              "_method[]=DELETE", "_HttpMethod=DELETE", "X-HTTP-Method-Override=DELETE"):
        tap.eq(ask(rig, API, f"POST /m?{q}", body=b"x"), 403, f"a method in the query is refused: {q}")
    for m in ("delete", "Delete", "dELETE"):
        tap.eq(ask(rig, API, f"{m} /m"), 400, f"{m}, which is DELETE to some servers, is refused")
    c = h2(rig, API)
    tap.eq((c.get("/m", method="delete"), c.get("/m", method="PUT")), (False, True),
           "a method in lower case is refused in HTTP/2, and PUT passes")
    c.close()
    names = ("X-HTTP-Method", "X-HTTP-Method-Override", "X_HTTP_Method_Override", "X-Original-Path", "X-Rewrite-Target", "X-Invoke-Path",
             "X-Forwarded", "X-Forwarded-Prefix", "X-Matched-Path", "Content_Type", "X-Envoy-Original-Method")
    tap.eq(ask(rig, API, "GET /over", [(n, "/secret/x") for n in names] + [("X-Fine", "1")]), 200,
           "a request with headers that override path or method passes")
    tap.eq({k.lower() for k, _ in api.last("/over").fields}, {"host", "x-fine"}, "headers that override path or method are removed")


def paths(rig, api):
    """Which path is meant, and which is the second."""
    for p in ("/secret/x", "/secret./x", "/SECRET%20/x", "/secret;a/x", "/secret%3Bx/x"):
        tap.eq(ask(rig, API, f"GET {p}"), 403, f"{p} is denied")
    tap.eq(ask(rig, API, "GET /%2573ecret/x"), 400, "a letter that is encoded twice is refused")
    tap.eq(ask(rig, API, "GET /100%25/.secret/x"), 200, "a path that only resembles a denied one passes")
    own = f"https://{API}"
    for what, method, field, value, want in (
            ("to an allowed path", "MOVE", "Destination", "/other/y", 200),
            ("as a URL of the same host", "COPY", "Destination", f"{own}/other/y", 200),
            ("to a denied path", "MOVE", "Destination", "/secret/y", 403),
            ("as a URL", "COPY", "Destination", f"{own}:443/Secret/y", 403),
            ("by dots", "MOVE", "Destination", "/a/../secret/y", 403),
            ("by an encoded letter", "MOVE", "Destination", "/%73ecret/y", 403),
            ("to another host", "MOVE", "Destination", f"https://{GQL}/other/y", 403),
            ("from an allowed path", "PUT", "x-amz-copy-source", "bucket/key", 200),
            ("from a denied path", "PUT", "X-Amz-Copy-Source", "secret/key", 403)):
        tap.eq(ask(rig, API, f"{method} /mine/x", [(field, value)]), want, f"{method} {what} is {want}")
    tap.eq(ask(rig, API, "MOVE /mine/x", [("Destination", "/other/y"), ("Destination", "/secret/y")]), 403,
           "MOVE with two destinations is refused")
    tap.ok(not [r for r in api.requests if any("secret" in v.lower() for _, v in r.fields)],
           "no request with a denied second path reached the server")


def documents(rig, gql):
    """Which GraphQL document is meant."""
    q, bad = "{viewer{login}}", "mutation{merge(x:1){id}}"

    def post(body, *fields, path="/graphql"):
        body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        fields = fields or (("Content-Type", "application/json"),)
        return ask(rig, GQL, f"POST {path}", fields, body)

    js, form = ("Content-Type", "application/json"), (("Content-Type", "application/x-www-form-urlencoded"),)
    for what, body, fields in (
            ("a query", {"query": q, "variables": {"a": 1}, "operationName": None}, ()),
            ("a query with a charset", {"query": q}, (("Content-Type", 'application/json; charset="UTF-8"'),)),
            ("a query with the extensions of Apollo", {"query": q, "extensions": {"clientLibrary": {"name": "x"}}}, ()),
            ("a query with null extensions", {"query": q, "extensions": None}, ()),
            ("Content-Encoding: identity", {"query": q}, (js, ("Content-Encoding", "identity"))),
            ("a form", urllib.parse.urlencode({"query": q, "variables": "{}"}), form)):
        tap.eq(post(body, *fields), 200, f"graphql: {what} passes")
    for what, body, fields in (
            ("a mutation", {"query": bad}, ()),
            ("a key in capitals, as Go reads it", {"query": q, "Query": bad}, ()),
            ("operationname", {"query": "query a{x} query b{y}", "operationName": "a", "operationname": "b"}, ()),
            ("an id of a stored document", {"query": q, "id": "abc"}, ()),
            ("documentId", {"query": q, "documentId": "abc"}, ()),
            ("a digest of a stored document", {"query": q, "extensions": {"persistedQuery": {"version": 1, "sha256Hash": "0" * 64}}}, ()),
            ("a digest of a stored document beside another extension", {"query": q, "extensions": {"clientLibrary": {}, "persistedQuery": {}}}, ()),
            ("extensions as a text", {"query": q, "extensions": "{}"}, ()),
            ("an id in a form", urllib.parse.urlencode({"query": q, "id": "1"}), form),
            ("a charset that hides", {"query": q}, (("Content-Type", "application/json; charset=utf-7; x=utf-8"),)),
            ("a parameter", {"query": q}, (("Content-Type", "application/json; boundary=x"),)),
            ("a byte order mark", b"\xef\xbb\xbf" + json.dumps({"query": q}).encode(), ()),
            ("UTF-16", json.dumps({"query": q}).encode("utf-16"), ()),
            ("gzip", {"query": q}, (js, ("Content-Encoding", "gzip")))):
        tap.eq(post(body, *fields), 403, f"graphql: {what} is refused")
    for what, fields in (("Content-Types", (js, ("Content-Type", "multipart/form-data; boundary=x"))),
                         ("Content-Encodings", (js, ("Content-Encoding", "identity"), ("content-encoding", "gzip")))):
        tap.eq(post({"query": q}, *fields), 400, f"graphql: two {what} are refused")
    for p in ("/graphql?extensions=%7B%7D", "/graphql?id=1", "/graphql?Q%75ery=x", "/graphql?doc_id=1"):
        tap.eq(post({"query": q}, path=p), 403, f"graphql: {p} beside a body is refused")
    tap.eq(ask(rig, GQL, f"GET /graphql?query={urllib.parse.quote(q)}"), 200, "graphql: a query by GET passes")
    tap.eq(ask(rig, GQL, f"GET /graphql?query={urllib.parse.quote(q)}&extensions=%7B%7D"), 403,
           "graphql: a query by GET with extensions is refused")
    tap.eq(ask(rig, GQL, "GET /graphql", [("Upgrade", "websocket"), ("Connection", "Upgrade")]), 403, "graphql: a WebSocket is refused")
    c = h2(rig, GQL)
    body = json.dumps({"query": q}).encode()
    n = c.headers(c.block("/graphql", "POST", (("content-type", "application/json"), ("content-type", "text/plain"))), end=False)
    c.send(raw.frame(raw.DATA, raw.END_STREAM, n, body))
    tap.eq(c.status(n), False, "graphql: two Content-Types in HTTP/2 are refused")
    n = c.headers(c.block("/graphql", "POST", (("content-type", "application/json"),)), end=False)
    c.send(raw.frame(raw.DATA, raw.END_STREAM, n, body))
    tap.eq(c.status(n), True, "graphql: one Content-Type in HTTP/2 passes")
    c.close()
    got = [r for r in gql.requests if b"merge" in r.body or r.get("content-encoding") == "gzip"]
    tap.ok(not got, "graphql: no refused document reached the server")


def pushes(rig, git):
    """A push by any other name."""
    zero, one = "0" * 40, "1" * 40

    def push(path, ref, caps="", options=()):
        def pkt(x):
            return f"{len(x) + 4:04x}{x}"
        body = pkt(f"{zero} {one} {ref}\0{caps}") + "0000"
        if options:
            body += "".join(pkt(o) for o in options) + "0000"
        return ask(rig, GIT, f"POST {path}", [("Content-Type", "application/x-git-receive-pack-request")], body.encode())

    tap.eq(push("/o/r/git-receive-pack", "refs/heads/bot/x"), 200, "git: a push to an allowed branch passes")
    tap.eq(push("/o/r/git-receive-pack", "refs/heads/bot/x", "push-options", ["ci.skip"]), 200, "git: a push with a harmless option passes")
    tap.eq(push("/o/r/git-receive-pack", "refs/heads/bot/x", "push-options", ["merge_request.create"]), 403,
           "git: a push with an option that creates a merge request is refused")
    for p in ("/o/r/git-receive-pack", "/o/r/git-receive-pack/", "/o/r/git-receive-pack;x", "/o/r/git-receive-pack.", "/o/r/GIT-receive-pack",
              "/o/r.git/git-receive-pack", "/o/r/git%2Dreceive-pack", "/o/r/git-receive-pack%3B"):
        tap.eq(push(p, "refs/heads/main"), 403, f"git: a push to main as {p} is refused")
    tap.eq(ask(rig, GIT, "POST /o/r/issues", body=b"x"), 200, "git: a request that is no push is decided by http:")
    tap.ok(not [r for r in git.requests if b"main" in r.body or b"merge" in r.body], "git: no refused push reached the server")


def credentials(rig, own):
    tap.eq(ask(rig, OWN, "GET /a?page=2", [("X-Fine", "1")]), 200, "own credentials: a request without one passes")
    for k in ("Authorization", "X_Api_Key", "x-api_key", "X-Acme-Token", "X-Acme-Secret-Id", "X-Goog-Iam-Authorization-Token", "Cookie"):
        tap.eq(ask(rig, OWN, "GET /a", [(k, "v")]), 403, f"own credentials: a request with {k} is refused")
    for q in ("access_token=x", "access%5Ftoken=x", "a=1;api_key=x", "KEY=x", "X-Amz-Signature=1"):
        tap.eq(ask(rig, OWN, f"GET /a?{q}"), 403, f"own credentials: a request with ?{q} is refused")
    tap.eq(len(own.requests), 1, "own credentials: only the request without one reached the server")


def frames(rig, api):
    """HTTP/2 that becomes HTTP/1.1."""
    c = h2(rig, API)
    tap.eq(c.get("/frames", more=(("x-fine", "a b"),)), True, "HTTP/2: a well-formed request passes")
    tap.eq(api.last("/frames").get("x-fine"), "a b", "HTTP/2: a header reaches a server that speaks HTTP/1.1")
    c.close()
    n = len(api.requests)
    for what, more in (
            ("CR LF in a value", (("x-a", "b\r\nX-B: c"),)),
            ("LF in a value", (("x-a", "b\nx"),)),
            ("NUL in a value", (("x-a", "b\0c"),)),
            ("CR LF in a name", (("x-a\r\nx-b", "c"),)),
            ("a colon in a name", (("x-a:b", "c"),)),
            ("a space in a name", (("x a", "c"),)),
            ("a capital in a name", (("X-A", "c"),)),
            ("connection", (("connection", "x-a"),)),
            ("keep-alive", (("keep-alive", "5"),)),
            ("transfer-encoding", (("transfer-encoding", "chunked"),)),
            ("upgrade", (("upgrade", "websocket"),)),
            ("te", (("te", "gzip"),)),
            ("a second :path", ((":path", "/secret/x"),)),
            ("a second :method", ((":method", "DELETE"),)),
            ("a second :authority", ((":authority", GQL),)),
            ("another host", (("host", GQL),)),
            (":protocol", ((":protocol", "websocket"),)),
            ("two lengths", (("content-length", "0"), ("content-length", "0"))),
            ("a length without a body", (("content-length", "4"),)),
            ("a length that is none", (("content-length", "+0"),)),
            ("a pseudo-header behind", (("x-a", "b"), (":scheme", "https")))):
        c = h2(rig, API)
        tap.ok(c.get("/frames/bad", more=more) is not True, f"HTTP/2: {what} is refused")
        c.close()
    for what, path in (("CR LF in the path", "/frames/bad HTTP/1.1\r\nX: y"), ("a space", "/frames/bad x"), ("no slash", "frames/bad"),
                       ("a URL", f"https://{GQL}/"), ("nothing", ""), ("a star", "*"), ("a fragment", "/frames/bad#x")):
        c = h2(rig, API)
        tap.ok(c.get(path) is not True, f"HTTP/2: {what} as a path is refused")
        c.close()
    for what, length, body in (("longer than it says", "4", b"abcdGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"),
                               ("shorter than it says", "400", b"abcd")):
        c = h2(rig, API)
        s = c.headers(c.block("/frames/body", "POST", (("content-length", length),)), end=False)
        c.send(raw.frame(raw.DATA, raw.END_STREAM, s, body))
        tap.ok(c.status(s) is not True, f"HTTP/2: a body that is {what} is refused")
        c.close()
    c = h2(rig, API)
    s = c.headers(c.block("/frames/trailers", "POST"), end=False)
    c.send(raw.frame(raw.DATA, 0, s, b"GET /smuggled HTTP/1.1\r\n\r\n"))
    c.send(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, s, raw.literal("x-http-method-override", "DELETE")))
    tap.eq(c.status(s), True, "HTTP/2: a body with trailers passes")
    got = api.last("/frames/trailers")
    tap.ok(got.body == b"GET /smuggled HTTP/1.1\r\n\r\n" and not got.trailers and not got.get("x-http-method-override"),
           "HTTP/2: a body reaches the server without its trailers")
    c.close()
    seen = [r.target for r in api.requests[n:]]
    tap.ok(set(seen) <= {"/frames/body", "/frames/trailers"}, "HTTP/2: no refused request reached the server", seen)


def counts(rig):
    """The last line of a connection in the clear."""
    text = f"GET /plain HTTP/1.1\r\nHost: {API}\r\nConnection: close\r\n\r\n".encode()
    before = rig.count("close", name=API, port=80)
    c = h1(rig, API, 80)
    tap.eq(c.ask(text)[0], 200, "plain HTTP passes")
    c.close()
    line = rig.events("close", before + 1, name=API, port=80)[-1]
    tap.ok(line["up"] == len(text) and line["down"] > 50, "the journal's last line of a plain connection counts its bytes", line)


def reload(rig, late):
    """A new policy, while a request that was judged by its body waits for its server."""
    c = h1(rig, LATE)
    body = b'{"query":"{viewer{login}}"}'
    text = f"POST /graphql HTTP/1.1\r\nHost: {LATE}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    rig.dial[LATE] = None
    before = len(rig.fake.held)
    c.send(text)
    wait_for("the dialling", lambda: len(rig.fake.held) > before)
    rig.dial[LATE] = late.addr
    rig.policy(POLICY.replace("graphql: [{allow: query *}]", "graphql: [{allow: query other}]"))
    tap.eq(c.answer()[0], 403, "a new policy: a waiting request that the new policy denies is not sent")
    c.close()
    c = h1(rig, API)
    rig.dial[API] = None
    before = len(rig.fake.held)
    c.send(f"GET /again HTTP/1.1\r\nHost: {API}\r\n\r\n".encode())
    wait_for("the dialling", lambda: len(rig.fake.held) > before)
    rig.dial[API] = late.addr
    rig.policy(POLICY)
    tap.eq(c.answer()[0], 200, "a new policy: a waiting request that is still allowed is sent")
    c.close()
    tap.eq([r.target for r in late.requests], ["/again"], "a new policy: only the request that is still allowed was sent")
    tap.eq(ask(rig, LATE, "POST /graphql", [("Content-Type", "application/json")], body), 200,
           "a new policy: the next request is judged by it")


def main():
    cert = CA.cert("server", API, GQL, OWN, GIT, LATE)
    api, gql, own, git, late = (ht.Origin(cert) for _ in range(5))
    plain = ht.Origin(None)
    with Rig(POLICY, store=CA.pem) as rig:
        rig.dial.update({API: api.addr, (API, 80): plain.addr, GQL: gql.addr, OWN: own.addr, GIT: git.addr, LATE: late.addr})
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        methods(rig, api)
        paths(rig, api)
        documents(rig, gql)
        pushes(rig, git)
        credentials(rig, own)
        frames(rig, api)
        counts(rig)
        reload(rig, late)
        tap.eq(rig.quit(), 0, "the egress ends with 0")


main()
tap.done()
