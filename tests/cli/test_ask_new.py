# SPDX-License-Identifier: Apache-2.0
"""Questions that nobody's request waits for: by `coffer ask new`, and by the API, of both kinds; two answers at once."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, end, wait_for  # noqa: E402
from coffertest import Tap, coffer_as, identities  # noqa: E402


class Unix(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path):
        super().__init__("coffer", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def send(c, method, path, body=None):
    conn = Unix(os.path.join(c.state, "api.sock"))
    try:
        conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        r = conn.getresponse()
        return r.status, json.loads(r.read())
    finally:
        conn.close()


def by_hand(tap, b, box, who):
    c = b.c
    p = c.popen("ask", "new", "--sandbox", box, "--reason", "all \033[2Jtests pass", "--detail", "-", "Deploy\u202e?",
                stdin=subprocess.PIPE)
    p.stdin.write(b"rev 7\n\033[31mred")
    p.stdin.close()
    p.stdin = None
    q = b.pending()
    q = q[0] if q else {}
    tap.ok(q.get("kind") == "question" and q.get("preview", "").startswith("rev 7"), f"{who}: ask new asks a question with its details", q)
    show = c("ask", "show", q["id"])
    tap.ok("\033" not in show.out and "\u202e" not in show.out and "Deploy" in show.out,
           f"{who}: ask show prints no control characters of ask new", show)
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: approve of ask new succeeds")
    code, _, err = end(p)
    tap.ok(code == 0 and "allowed" in err, f"{who}: ask new exits 0 when it is allowed", code, err)
    p = c.popen("ask", "new", "--sandbox", box, "Deploy?")
    q = b.pending()
    # Two at once: one counts, the other is told whose did.
    both = [c.popen("deny", q[0]["id"], "--reason", "one"), c.popen("approve", q[0]["id"])]
    got = [end(x) for x in both]
    code, _, err = end(p)
    tap.eq(sorted(x[0] for x in got), [0, 125], f"{who}: one of two answers at the same time counts", got)
    denied = got[0][0] == 0
    second = got[1 if denied else 0][2]
    tap.ok((code == 1 and "one" in err) if denied else code == 0, f"{who}: ask new reports the answer that counted", code, err, got)
    tap.ok("answered already" in second or "ended" in second or "gone" in second or "no question" in second,
           f"{who}: the answer that came second is told that it does not count", second)
    code, _, err = end(c.popen("ask", "new", "--sandbox", box, "--ask-timeout", "1s", "Nobody?"))
    tap.ok(code == 1 and "in time" in err, f"{who}: ask new without an answer exits 1", code, err)
    p = c.popen("ask", "new", "--sandbox", box, "Gone?")
    b.pending()
    os.kill(p.pid, signal.SIGINT)
    code, _, err = end(p)
    tap.ok(code == 130 and "withdrawn" in err, f"{who}: SIGINT withdraws the question of ask new", code, err)
    for word, args in (("too long", ("x" * 2000,)), ("no question", ()), ("none", ("--reason", "x", "a", "b"))):
        r = c("ask", "new", "--sandbox", box, *args)
        tap.ok(r.code in (1, 2) and len(r.err) < 1500, f"{who}: ask new refuses arguments: {word}", r)
    for a in b.asks():  # not denied: five of them are enough for ten minutes
        c("approve", a["id"])


def by_api(tap, b, box):
    c = b.c
    tap.eq(c("gateway", "start").code, 0, "api: the gateway starts")
    tap.ok(wait_for(lambda: os.path.exists(os.path.join(c.state, "api.sock"))), "api: the gateway makes its socket")
    for kind, what, preview in (("question", "Go?", "as it is"), ("tool", "deploy", '{"env":"x"}')):
        body = {"sandbox": box, "kind": kind, "what": what, "preview": preview}
        status, q = send(c, "POST", "/v1/asks", body)
        tap.ok(status == 201 and q["state"] == "pending" and q["kind"] == kind and q["preview"] == preview,
               f"api: POST /v1/asks makes a {kind}", q)
        status, again = send(c, "POST", "/v1/asks", body)
        tap.ok(again.get("id") == q["id"] and again["times"] == 2, f"api: an identical POST /v1/asks is the same {kind}", again)
        answer = {"digest": q["digest"], "decision": "allow"}
        status, got = send(c, "POST", f"/v1/asks/{q['id']}/answer", answer)
        tap.ok(status == 200 and got["state"] == "parked", f"api: a {kind} is allowed once", got)
        status, got = send(c, "POST", f"/v1/asks/{q['id']}/answer", {**answer, "decision": "deny"})
        tap.ok(status == 409 and got["error"]["code"] == "answered" and "allow" in got["error"]["message"],
               f"api: the second answer to a {kind} is refused and told the first", got)
        status, got = send(c, "GET", f"/v1/asks/{q['id']}")
        tap.ok(got["answer"]["allow"] is True, f"api: GET /v1/asks/ID of a {kind} has the answer", got)
        status, got = send(c, "POST", "/v1/asks", {**body, "preview": '{"env":"other"}'})
        tap.ok(status == 201 and got["state"] == "pending" and got["id"] != q["id"],
               f"api: a {kind} with another preview does not take the answer", got)
        send(c, "POST", f"/v1/asks/{got['id']}/answer", {"digest": got["digest"], "decision": "allow"})
        status, got = send(c, "POST", "/v1/asks", body)
        tap.ok(status == 201 and got["id"] == q["id"] and got["state"] == "spent", f"api: the identical {kind} takes the answer", got)
        status, got = send(c, "POST", "/v1/asks", {**body, "seconds": 1})
        tap.ok(got["state"] == "pending" and got["id"] != q["id"], f"api: the answer to a {kind} is taken once", got)
        late = got
        tap.ok(wait_for(lambda: send(c, "GET", f"/v1/asks/{late['id']}")[1]["state"] == "expired"),
               f"api: a {kind} expires after its seconds")
        status, got = send(c, "POST", f"/v1/asks/{late['id']}/answer", {"digest": late["digest"], "decision": "allow"})
        tap.ok(status in (409, 410) and got["error"]["code"] == "expired", f"api: a {kind} that expired cannot be answered", got)
    for bad in ("a b", "\033x", "*"):
        status, got = send(c, "POST", "/v1/asks", {"sandbox": box, "kind": "tool", "what": bad})
        tap.ok(status in (400, 409), f"api: a tool named {bad!r} is refused", got)
    status, got = send(c, "POST", "/v1/asks", {"sandbox": box, "kind": "tool", "what": "x", "preview": '{"a":1,"a":2}'})
    tap.eq(status, 409, "api: a tool's arguments with a key twice are refused", got)


def main():
    tap = Tap()
    for who in identities(tap):
        with coffer_as(who) as c:
            b = AskBox(tap, c)
            box = c("run", "-d", "--net", "none", "--", "sleep", "3600").out.strip()
            by_hand(tap, b, box, f"{c.who}, running")
            if c.who == "root":
                by_api(tap, b, box)
            c("stop", "-t", "1", box)
            by_hand(tap, b, box, f"{c.who}, ended")
            r = c("ask", "new", "--sandbox", "nobody", "x")
            tap.ok(r.code == 125 and "nobody" in r.err, f"{c.who}: ask new refuses a sandbox that does not exist", r)
            c("rm", box)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
