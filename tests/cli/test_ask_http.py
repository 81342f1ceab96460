# SPDX-License-Identifier: Apache-2.0
"""Asked about over HTTP/2, by a real `git push`, for a websocket; what does more than can be shown; and each answer once."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from askagent import Agent, curl, end, hangs_up  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.ask.test
      http:
        - allow: GET /**
        - ask: POST /act/**
        - ask: PUT /repos/*/*/pulls/*/merge
        - ask: PUT /repositories/*/pulls/*/merge
      graphql:
        - allow: query *
        - ask: mutation *
    - domain: path.ask.test
      http:
        - allow: GET /**
        - ask: POST /**
        - ask: PUT /**
    - domain: git.ask.test
      git:
        - allow: fetch o/r
        - ask: push o/r refs/**
    - domain: ws.ask.test
      http:
        - ask: GET /ws
    - domain: close.ask.test
      http:
        - allow: GET /**
        - ask: DELETE /**
        - ask: POST /**
  ask:
    - domain: "*.later.test"
"""
API, GIT, WS, CLOSE, PATH = "api.ask.test", "git.ask.test", "ws.ask.test", "close.ask.test", "path.ask.test"
SHA = "0123456789abcdef0123456789abcdef01234567"
AS = ["-c", "user.name=t", "-c", "user.email=t@t"]


def post(path, body="x", *more):
    return curl("--http2", "-w", " %{http_code} v%{http_version}", "-d", body, *more, f"https://{API}{path}")


def arrived(net, path):
    return len([q for q in net.api.requests if q.path == path])


def http2(tap, c, a, net):
    p = a.start(post("/act/yes"))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["method"] == "POST" and q[0]["path"] == "/act/yes" and q[0]["preview"] == "x" and
           arrived(net, "/act/yes") == 0, f"{c.who}: HTTP/2: a request waits, and is not sent before the answer", q)
    tap.eq(c("approve", q[0]["id"]).code, 0, f"{c.who}: HTTP/2: approve succeeds")
    got = end(p)
    tap.ok("done" in got and " v2" in got and arrived(net, "/act/yes") == 1,
           f"{c.who}: HTTP/2: a request that was approved is sent once", got)
    p = a.start(post("/act/no"))
    q = a.pending()
    c("deny", q[0]["id"], "--reason", "no such thing")
    got = end(p)
    tap.ok("no such thing" in got and " v2" in got and '"error":"denied"' in got and arrived(net, "/act/no") == 0,
           f"{c.who}: HTTP/2: a request that was denied is not sent, and its client reads the reason", got)
    p = a.start(post("/act/gone"))
    q = a.pending()
    p.terminate()
    end(p)
    tap.ok(wait_for(lambda: [x["waiters"] for x in a.asks() if x["id"] == q[0]["id"]] == [0], 60),
           f"{c.who}: HTTP/2: a question whose client was killed has no waiters")
    c("approve", q[0]["id"])
    tap.ok([x["state"] for x in a.asks() if x["id"] == q[0]["id"]] == ["parked"] and arrived(net, "/act/gone") == 0,
           f"{c.who}: HTTP/2: an answer for a client that was killed is parked, and nothing is sent")
    tap.ok("done" in a.do(post("/act/gone")) and arrived(net, "/act/gone") == 1,
           f"{c.who}: HTTP/2: the identical request is sent by the parked answer")


def streams(tap, c, a, net):
    """Two streams of one connection wait at once, and are answered the other way round."""
    p = a.start(["nghttp", "-v", "--no-verify-peer", "-H:method: POST", f"https://{API}/act/one", f"https://{API}/act/two"])
    q = {x["path"]: x["id"] for x in a.pending(2)}
    tap.eq(sorted(q), ["/act/one", "/act/two"], f"{c.who}: nghttp: two streams of a connection wait")
    if len(q) == 2:
        c("approve", q["/act/two"])
        tap.ok(wait_for(lambda: arrived(net, "/act/two") == 1, 60) and arrived(net, "/act/one") == 0,
               f"{c.who}: nghttp: a stream that was approved is sent while another waits")
        c("deny", q["/act/one"])
    got = end(p)
    tap.ok(":status: 200" in got and ":status: 403" in got and arrived(net, "/act/one") == 0,
           f"{c.who}: nghttp: each of two streams gets its own answer", got[-600:])


def merges(tap, c, a, net):
    """By GraphQL: the commit has to be where the mutation takes it from."""
    def gql(query, variables):
        return post("/graphql", json.dumps({"query": query, "variables": variables}), "-H", "Content-Type: application/json")

    good = "mutation M($i: MergePullRequestInput!) { mergePullRequest(input: $i) { clientMutationId } }"
    p = a.start(gql(good, {"i": {"pullRequestId": "x", "expectedHeadOid": SHA}}))
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["what"] == "mutation mergePullRequest", f"{c.who}: a merge that names its commit is asked about", q)
    c("approve", q[0]["id"])
    tap.ok("done" in end(p), f"{c.who}: a merge by GraphQL that names its commit is sent once it is approved")
    for query, variables, name in (
            (good, {"i": {"pullRequestId": "x"}, "j": {"expectedHeadOid": SHA}}, "in a variable that is not used"),
            ("# expectedHeadOid: \"" + SHA + "\"\n" + good, {"i": {"pullRequestId": "x"}}, "in a comment"),
            ("mutation { a: mergePullRequest(input: {expectedHeadOid: \"" + SHA + "\"}) { x } b: mergePullRequest(input: {}) { x } }", {},
             "of one of two"),
            ("mutation { a: mergePullRequest(input: {expectedHeadOid: \"" + SHA + "\"}) { x } b: mergePullRequest(input: {expectedHeadOid: \"" +
             SHA + "\"}) { x } }", {}, "of two that would be shown as one")):
        got = a.do(gql(query, variables))
        tap.ok(" 403" in got and "expectedHeadOid" in got, f"{c.who}: a merge by GraphQL with the commit {name} is denied", got)
    tap.ok(" 403" in a.do(curl("-X", "PUT", "-d", "{}", f"https://{API}/repos/o/r/Pulls/7/merge/")),
           f"{c.who}: a look-alike of the REST merge without a commit is denied")
    got = a.do(curl("-X", "PUT", "-d", "{}", f"https://{API}/repos/o/r;x/pulls/7/merge"))
    tap.ok(" 403" in got and "sha" in got, f"{c.who}: a REST merge with a parameter in its path and without a commit is denied", got)
    p = a.start(gql("mutation { a: deleteRef(input: {id: 1}) { x } b: deleteRef(input: {id: 2}) { x } }", {}))
    q = a.pending()
    tap.ok(q[0]["what"].startswith("mutation deleteRef (2 times)"), f"{c.who}: a question says that a mutation is in a request twice", q)
    c("deny", q[0]["id"])
    end(p)
    got = a.do(curl("-X", "PUT", "-d", "{}", f"https://{API}/repositories/12/pulls/7/merge"))
    tap.ok(" 403" in got and "sha" in got, f"{c.who}: a REST merge by the repository's number without a commit is denied", got)


def merges_by_path(tap, c, a, net):
    """A rule that asks by method and path: the commit has to be named all the same, as each forge wants it."""
    def send(path, body, how="POST", kind="application/json"):
        return curl("-X", how, "-H", f"Content-Type: {kind}", "-d", body if isinstance(body, str) else json.dumps(body), f"https://{PATH}{path}")

    def gql(doc, **more):
        return {"query": doc, **more}

    def merge(given):
        return 'mutation { mergePullRequest(input: {pullRequestId: "PR_7"%s}) { clientMutationId } }' % given

    before = len(a.asks("--all"))
    bare, named, gitea = merge(""), merge(f', expectedHeadOid: "{SHA}"'), "/api/v1/repos/o/r/pulls/7/merge"
    no = [("/graphql", gql(bare), "expectedHeadOid"), ("/api/GraphQL/", gql(bare), "expectedHeadOid"), ("/elsewhere", gql(bare), "expectedHeadOid"),
          ("/graphql", gql(bare.replace("mergePullRequest", "enablePullRequestAutoMerge")), "expectedHeadOid"),
          ("/graphql", gql(bare.replace("mergePullRequest", "enqueuePullRequest")), "expectedHeadOid"),
          ("/graphql", gql('mutation { mergeBranch(input: {base: "main", head: "topic"}) { x } }'), "mergeBranch"),
          ("/graphql", [gql(named), gql(named)], "it is a batch"), ("/elsewhere", [gql(bare)], "it is a batch"),
          ("/graphql", {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "0" * 64}}}, "cannot be seen"),
          ("/graphql", {"id": "7"}, "cannot be seen"), ("/graphql", "mutation {", "cannot be seen"),
          ("/graphql", gql("mutation { mergePullRequest("), "cannot be seen"), ("/elsewhere", gql("mutation { mergePullRequest("), "cannot be seen"),
          ("/elsewhere", '{"query":%s,"query":"x"}' % json.dumps(bare), "cannot be seen"),
          ("/repos/o/r/merges", {"base": "main", "head": "topic"}, "head"),
          ("/api/v4/projects/1/merge_requests/7/merge", {"squash": True}, "sha"), (gitea, {"Do": "merge", "sha": SHA}, "head_commit_id")]
    for path, body, word in no:
        got = a.do(send(path, body))
        tap.ok(" 403" in got and word in got and "a person has to allow" in got,
               f"{c.who}: asked by path: {path} {str(body)[:40]} is denied and says {word}", got)
    tap.eq((len(a.asks("--all")), len(net.path.requests)), (before, 0),
           f"{c.who}: asked by path: a merge that names no commit asks nobody and is not sent")
    yes = [("/graphql", gql(named)), ("/elsewhere", gql(named)), ("/graphql", gql("mutation { addStar(input: {}) { x } }")),
           ("/search", gql("what merges {")), ("/repos/o/r/merges", {"base": "main", "head": SHA}), (gitea, {"Do": "merge", "head_commit_id": SHA})]
    for path, body in yes:
        p = a.start(send(path, body))
        q = a.pending()
        tap.ok([x["path"] for x in q] == [path], f"{c.who}: asked by path: {path} {str(body)[:40]} is asked about", q)
        c("approve", q[0]["id"], "--uses", "1")
        tap.ok("done" in end(p), f"{c.who}: asked by path: {path} {str(body)[:40]} is sent once it is approved")
    p = a.start(curl("-X", "PUT", f"https://{PATH}/api/v4/projects/g%2Fp/merge_requests/7/merge?sha={SHA}"))
    q = a.pending()
    tap.ok(len(q) == 1 and SHA in q[0]["path"], f"{c.who}: asked by path: a merge with the commit in the query is asked about", q)
    c("approve", q[0]["id"], "--uses", "1")
    tap.ok("done" in end(p), f"{c.who}: asked by path: a merge with the commit in the query is sent once it is approved")


def cut(tap, c, a, net):
    before = len(a.asks("--all"))
    many = "mutation { " + " ".join(f"mutationNumber{i}ThatHasALongName" for i in range(60)) + " }"
    got = a.do(post("/graphql", json.dumps({"query": many}), "-H", "Content-Type: application/json"))
    tap.ok(" 403" in got and "its description is too long for a question" in got,
           f"{c.who}: a request with more mutations than can be shown is denied", got)
    got = a.do(["sh", "-c", "cd /tmp/r && for i in $(seq 1 60); do git branch -f a-branch-with-a-long-name-$i; done; "
                "git push -q origin --all 2>&1; echo end"])
    tap.ok("403" in got and len(a.asks("--all")) == before, f"{c.who}: a git push of more refs than can be shown is denied", got)


def git(tap, c, a, net):
    got = a.do(["sh", "-c", f"cd /tmp && git clone -q https://{GIT}/o/r && cat r/README"])
    tap.ok("hello" in got, f"{c.who}: git clones without asking", got)
    a.do(["git", "-C", "/tmp/r", *AS, "commit", "-q", "--allow-empty", "-m", "x"])
    branch = f"b-{c.who}".replace(" ", "-")
    p = a.start(["git", "-C", "/tmp/r", "push", "-q", "origin", f"HEAD:refs/heads/{branch}"])
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["kind"] == "git" and q[0]["what"].startswith(f"create refs/heads/{branch}"),
           f"{c.who}: git push waits, and its question names the ref", q)
    tap.ok(branch not in net.refs(), f"{c.who}: git push pushes nothing before the answer")
    c("approve", q[0]["id"])
    got = end(p)
    tap.ok(p.returncode == 0 and branch in net.refs(), f"{c.who}: git push succeeds once it is approved", got)
    p = a.start(["git", "-C", "/tmp/r", "push", "-q", "origin", f":refs/heads/{branch}"])
    q = a.pending()
    tap.ok(len(q) == 1 and q[0]["what"].startswith(f"delete refs/heads/{branch}"),
           f"{c.who}: the deletion of a branch that was pushed is asked about", q)
    c("deny", q[0]["id"])
    got = end(p)
    tap.ok(p.returncode != 0 and branch in net.refs(), f"{c.who}: git push deletes nothing when it is denied", got)


def probe(tap, c, a, net):
    """An empty list of refs is git's own probe, and asks nobody; with more behind it, it is none."""
    url, as_git = f"https://{GIT}/o/r/git-receive-pack", ["-H", "Content-Type: application/x-git-receive-pack-request"]
    got = a.do(curl("--data-binary", "0000", *as_git, url))
    tap.ok(" 200" in got, f"{c.who}: git's empty push, its own probe, asks nobody", got)
    for body in ("0000PACK", "00000000", "0000" + "0" * 5000):
        got = a.do(curl("--data-binary", body, *as_git, url))
        tap.ok(" 403" in got and "names no refs" in got, f"{c.who}: an empty push with more bytes after it is denied", got)


TWO = r"""
import socket, ssl, sys
s = ssl.create_default_context().wrap_socket(socket.create_connection((sys.argv[1], 443), 150), server_hostname=sys.argv[1])
f = s.makefile("rb")
for text in sys.argv[2:]:
    s.sendall((text + " HTTP/1.1\r\nHost: " + sys.argv[1] + "\r\nContent-Length: 0\r\n\r\n").encode())
    print(f.readline().decode().strip())
    n = 0
    while (line := f.readline().strip()):
        n = int(line.split(b":")[1]) if line.lower().startswith(b"content-length:") else n
    f.read(n)
"""


def sent_once(tap, c, a, net):
    """A server that takes a request and hangs up: what a person allowed once is not sent again."""
    for method in ("DELETE", "POST"):
        net.closed.clear()
        p = a.start(["python3", "-c", TWO, CLOSE, "GET /stay", f"{method} /go"])
        q = a.pending()
        c("approve", q[0]["id"])
        got = end(p)
        tap.ok("200" in got and " 502" in got and net.closed.count(f"{method} /go") == 1, f"{c.who}: a {method} that was approved is sent once", got,
               net.closed)
    net.closed.clear()
    a.do(["python3", "-c", TWO, CLOSE, "GET /stay", "GET /go"])
    tap.eq(net.closed.count("GET /go"), 2, f"{c.who}: (a GET that needs no approval is sent again after the server hung up)")


def spellings(tap, c, a, net):
    """Headers as HTTP/1.1 spells them: no credential is shown or logged, and what is not shown is little."""
    token, long = "own-token-of-the-agent", "L" * 3000
    p = a.start(curl("--http1.1", "-d", "x", "-H", f"Authorization: Bearer {token}", "-H", f"X-Api-Key: {token}", "-H", f"Cookie: a={token}",
                     "-H", "X-Target: Describe", "-H", f"User-Agent: {long}", "-H", "X-Request-Id: 1", f"https://{API}/act/head"))
    q = a.pending()
    what = q[0]["what"]
    tap.ok("x-target: Describe" in what and "authorization" in what and "x-api-key" in what and "cookie" in what and token not in json.dumps(q),
           f"{c.who}: HTTP/1.1: credentials are named and not shown", q)
    tap.ok("user-agent" in what and "x-request-id" not in what,
           f"{c.who}: HTTP/1.1: a long User-Agent is named in the question, and X-Request-Id is not", what)
    c("deny", q[0]["id"])
    end(p)
    log = [x for x in c("audit", "--json").out.splitlines() if '"type":"exec.' not in x]  # which has the command line
    tap.ok(not [x for x in log if token in x],
           f"{c.who}: HTTP/1.1: credentials of a request are not in the log", [x for x in log if token in x])


def names(tap, c, a, net):
    """Nothing of a name leaves before a person was asked about it."""
    before = len(net.queries)
    got = a.do(["sh", "-c", "getent hosts data-on-its-way-out.later.test; echo end"])
    asked = [n for n, _ in net.queries[before:] if n.endswith("later.test")]
    tap.ok("data-on-its-way-out" in got and not asked, f"{c.who}: a name that is asked about has an address, and no resolver sees it", got, asked)
    p = a.start(curl("https://there.later.test/"))
    q = a.pending()
    asked = [n for n, _ in net.queries[before:] if n.endswith("later.test")]
    tap.ok(len(q) == 1 and q[0]["kind"] == "connect" and q[0]["host"] == "there.later.test" and not asked,
           f"{c.who}: a connection that waits for an answer asks no resolver for its name", q, asked)
    c("approve", q[0]["id"])
    end(p)
    tap.ok("there.later.test" in [n for n, _ in net.queries[before:]],
           f"{c.who}: a connection that was approved asks the resolver for its name")


SOCKET = r"""
import socket, ssl, sys
s = ssl.create_default_context().wrap_socket(socket.create_connection((sys.argv[1], 443), 150), server_hostname=sys.argv[1])
s.sendall(("GET /ws HTTP/1.1\r\nHost: " + sys.argv[1] + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
f = s.makefile("rb")
status = f.readline().decode().strip()
while f.readline().strip():
    pass
if " 101 " in status:
    s.sendall(bytes([0x81, 0x83]) + b"abcd" + bytes(x ^ y for x, y in zip(b"bye", b"abc")))
    n = f.read(2)[1]
    status += " echo " + f.read(n).decode()
print(status)
"""


def websocket(tap, c, a, net):
    p = a.start(["python3", "-c", SOCKET, WS])
    q = a.pending()
    tap.ok(len(q) == 1 and "opens a websocket" in q[0]["what"] and not net.ws.requests,
           f"{c.who}: a websocket waits, and its question says that it is one", q)
    c("approve", q[0]["id"])
    got = end(p)
    tap.ok("101 Switching Protocols echo bye" in got, f"{c.who}: a websocket opens once it is approved", got)
    n = len(net.ws.requests)
    p = a.start(["python3", "-c", SOCKET, WS])
    q = a.pending()
    c("deny", q[0]["id"])
    got = end(p)
    tap.ok(" 403 " in got and len(net.ws.requests) == n, f"{c.who}: a websocket that was denied does not open", got)


def late(tap, c, net):
    with Agent(tap, c, POLICY, "--ask-timeout", "3s") as a:
        got = a.do(post("/act/late"))
        tap.ok("nobody answered in time" in got and " v2" in got and arrived(net, "/act/late") == 0,
               f"{c.who}: HTTP/2: a request that nobody answers in time is denied", got)


def visit(tap, c, net):
    net.api.requests.clear()
    net.path.requests.clear()
    net.ws.requests.clear()
    with Agent(tap, c, POLICY) as a:
        http2(tap, c, a, net)
        streams(tap, c, a, net)
        merges(tap, c, a, net)
        merges_by_path(tap, c, a, net)
        git(tap, c, a, net)
        cut(tap, c, a, net)
        websocket(tap, c, a, net)
        probe(tap, c, a, net)
        sent_once(tap, c, a, net)
        spellings(tap, c, a, net)
        names(tap, c, a, net)
        used = [e["ask"] for e in a.logged("ask.use")]
        tap.eq((len(used), len(set(used))), (16, 16), f"{c.who}: each of the sixteen answers was used once")
        tap.ok(c("audit", "verify").code == 0, f"{c.who}: the log verifies")
    late(tap, c, net)
    c.check_clean(tap)


def short(tap, c, net):
    """Requests by HTTP/2 wait for an answer. The rest is about protocols, which coffer-egress speaks alike for everybody."""
    net.api.requests.clear()
    with Agent(tap, c, POLICY) as a:
        http2(tap, c, a, net)
    c.check_clean(tap)


def make_repository(root):
    work = os.path.join(root, "work")
    env = {**os.environ, "HOME": root, "GIT_CONFIG_NOSYSTEM": "1"}
    os.makedirs(os.path.join(root, "o"))
    os.mkdir(work)
    with open(os.path.join(work, "README"), "w", encoding="ascii") as f:
        f.write("hello\n")
    for args in (["init", "-q", "-b", "main"], ["add", "-A"], [*AS, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *args], cwd=work, env=env, check=True)
    bare = os.path.join(root, "o", "r")
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], env=env, check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], env=env, check=True)
    subprocess.run(["git", "-C", bare, "config", "receive.denyDeleteCurrent", "ignore"], env=env, check=True)
    return bare


def git_handler(root):
    def handle(req):
        path, _, query = req.path.partition("?")
        env = {"GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": req.method, "CONTENT_TYPE": req.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": req.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": req.headers.get("Git-Protocol", ""),
               "CONTENT_LENGTH": str(len(req.body)), "PATH": os.environ["PATH"], "GIT_CONFIG_COUNT": "1",
               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run(["git", "http-backend"], input=req.body, env=env, capture_output=True, check=False).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, body
    return handle


def main():
    import tempfile
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("asking about requests", reason)
        tap.done()
    with Internet() as net, tempfile.TemporaryDirectory() as root:
        bare = make_repository(root)
        net.refs = lambda: subprocess.run(["git", "-c", "safe.directory=*", "-C", bare, "for-each-ref", "--format=%(refname:short)"],
                                          capture_output=True, check=False).stdout.decode().split()
        net.api = net.https(API, lambda q: "done")
        net.path = net.https(PATH, lambda q: "done")
        net.https(GIT, git_handler(root))
        net.https("there.later.test", lambda q: "there")
        net.closed = hangs_up(net, CLOSE)
        net.dns[WS] = net.address()
        net.ws = ht.Origin(net.cert(WS), {"/ws": ht.websocket}, net.listen(net.dns[WS], 443))
        for who, whole in covering(tap, ("ns",)):
            with net.coffer(who) as c:
                (visit if whole else short)(tap, c, net)
    tap.done()


main()
