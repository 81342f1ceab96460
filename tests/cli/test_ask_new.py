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
    tap.ok(q.get("kind") == "question" and q.get("preview", "").startswith("rev 7"), f"{who}: a question waits", q)
    show = c("ask", "show", q["id"])
    tap.ok("\033" not in show.out and "\u202e" not in show.out and "Deploy" in show.out, f"{who}: and is shown harmless", show)
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: allowed")
    code, _, err = end(p)
    tap.ok(code == 0 and "allowed" in err, f"{who}: exit code 0", code, err)
    p = c.popen("ask", "new", "--sandbox", box, "Deploy?")
    q = b.pending()
    # Two at once: one counts, the other is told whose did.
    both = [c.popen("deny", q[0]["id"], "--reason", "one"), c.popen("approve", q[0]["id"])]
    got = [end(x) for x in both]
    code, _, err = end(p)
    tap.eq(sorted(x[0] for x in got), [0, 125], f"{who}: of two answers one counts", got)
    denied = got[0][0] == 0
    second = got[1 if denied else 0][2]
    tap.ok((code == 1 and "one" in err) if denied else code == 0, f"{who}: and is the one that is told", code, err, got)
    tap.ok("answered already" in second or "ended" in second or "gone" in second or "no question" in second,
           f"{who}: the other is told so", second)
    code, _, err = end(c.popen("ask", "new", "--sandbox", box, "--ask-timeout", "1s", "Nobody?"))
    tap.ok(code == 1 and "in time" in err, f"{who}: no answer is a no", code, err)
    p = c.popen("ask", "new", "--sandbox", box, "Gone?")
    b.pending()
    os.kill(p.pid, signal.SIGINT)
    code, _, err = end(p)
    tap.ok(code == 130 and "withdrawn" in err, f"{who}: ^C withdraws it", code, err)
    for word, args in (("too long", ("x" * 2000,)), ("no question", ()), ("none", ("--reason", "x", "a", "b"))):
        r = c("ask", "new", "--sandbox", box, *args)
        tap.ok(r.code in (1, 2) and len(r.err) < 1500, f"{who}: {word} is refused", r)
    for a in b.asks():  # not denied: five of them are enough for ten minutes
        c("approve", a["id"])


def by_api(tap, b, box):
    c = b.c
    tap.eq(c("gateway", "start").code, 0, "api: the gateway")
    tap.ok(wait_for(lambda: os.path.exists(os.path.join(c.state, "api.sock"))), "api: its socket")
    for kind, what, preview in (("question", "Go?", "as it is"), ("tool", "deploy", '{"env":"x"}')):
        body = {"sandbox": box, "kind": kind, "what": what, "preview": preview}
        status, q = send(c, "POST", "/v1/asks", body)
        tap.ok(status == 201 and q["state"] == "pending" and q["kind"] == kind and q["preview"] == preview, f"api: a {kind}", q)
        status, again = send(c, "POST", "/v1/asks", body)
        tap.ok(again.get("id") == q["id"] and again["times"] == 2, "api: the same again is the same entry", again)
        answer = {"digest": q["digest"], "decision": "allow"}
        status, got = send(c, "POST", f"/v1/asks/{q['id']}/answer", answer)
        tap.ok(status == 200 and got["state"] == "parked", "api: allowed once", got)
        status, got = send(c, "POST", f"/v1/asks/{q['id']}/answer", {**answer, "decision": "deny"})
        tap.ok(status == 409 and got["error"]["code"] == "answered" and "allow" in got["error"]["message"],
               "api: who comes second is told what was first", got)
        status, got = send(c, "GET", f"/v1/asks/{q['id']}")
        tap.ok(got["answer"]["allow"] is True, "api: the asker reads it", got)
        status, got = send(c, "POST", "/v1/asks", {**body, "preview": '{"env":"other"}'})
        tap.ok(status == 201 and got["state"] == "pending" and got["id"] != q["id"], "api: another one does not take it", got)
        send(c, "POST", f"/v1/asks/{got['id']}/answer", {"digest": got["digest"], "decision": "allow"})
        status, got = send(c, "POST", "/v1/asks", body)
        tap.ok(status == 201 and got["id"] == q["id"] and got["state"] == "spent", "api: the identical one takes it", got)
        status, got = send(c, "POST", "/v1/asks", {**body, "seconds": 1})
        tap.ok(got["state"] == "pending" and got["id"] != q["id"], "api: once", got)
        late = got
        tap.ok(wait_for(lambda: send(c, "GET", f"/v1/asks/{late['id']}")[1]["state"] == "expired"), "api: which may expire")
        status, got = send(c, "POST", f"/v1/asks/{late['id']}/answer", {"digest": late["digest"], "decision": "allow"})
        tap.ok(status in (409, 410) and got["error"]["code"] == "expired", "api: and is not approved any more", got)
    for bad in ("a b", "\033x", "*"):
        status, got = send(c, "POST", "/v1/asks", {"sandbox": box, "kind": "tool", "what": bad})
        tap.ok(status in (400, 409), f"api: {bad!r} is no tool", got)
    status, got = send(c, "POST", "/v1/asks", {"sandbox": box, "kind": "tool", "what": "x", "preview": '{"a":1,"a":2}'})
    tap.eq(status, 409, "api: nor are these arguments", got)


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
            tap.ok(r.code == 125 and "nobody" in r.err, f"{c.who}: of a sandbox that is not there", r)
            c("rm", box)
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
