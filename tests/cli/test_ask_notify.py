#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""People are told of what sandboxes ask, and of what is asked about them, whoever serves the question: a webhook, a Matrix room, a
command; servers that hang or refuse change nothing."""

import hashlib
import hmac
import json
import os
import signal
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from askbox import AskBox  # noqa: E402
from asktest import Asker, curl, end  # noqa: E402
from coffertest import ENGINES, Tap, descendants, identities, kill_own  # noqa: E402
from nettest import Internet, NetCoffer, wait_for, why_not  # noqa: E402

KEY = "webhook-key-0123456789abcdef"
TOKEN = "syt_matrix_token_0123456789abcdef"
ROOM = "!room:example.test"
POLICY = """version: 1
egress:
  allow:
    - domain: api.github.test
      port: 443
      http:
        - allow: GET /**
        - ask: POST /free/**
"""
TOOLS = "version: 1\negress: {allow: [example.com]}\ntools:\n  - ask: deploy\n"
SECRET = "s3cr3t-in-a-query-or-body"


class Told(NetCoffer):
    """Whose notify.yaml is where coffer looks for it: for root that is in /etc, where this one sees another directory."""

    def __init__(self, net, who):
        super().__init__(net, who)
        self.over = os.path.join(self.dir, "over")
        place = os.path.join(self.over if self.who == "root" else os.path.join(self.home, ".config"), "cofferdam")
        os.makedirs(place)
        for d in (os.path.dirname(place), place):
            self.own(d)
        self.notify_yaml = os.path.join(place, "notify.yaml")

    def prefix(self):
        chain = super().prefix()
        if self.who == "root":
            os.makedirs("/etc/cofferdam", exist_ok=True)  # of the copy of /etc that this process has
            chain.insert(chain.index("--"), f"{self.over}/cofferdam:/etc/cofferdam")
        return chain

    def tell(self, *targets, ui=None):
        with open(self.notify_yaml, "w", encoding="utf-8") as f:
            f.write("version: 1\n" + (f"ui: {ui}\n" if ui else "") + "notify:\n" + "".join(f"- {json.dumps(t)}\n" for t in targets))
        self.own(self.notify_yaml)

    def file(self, name, text, mode=0o600):
        path = os.path.join(self.home, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        self.own(path)
        return path


def hook(c, name, timeout="60s"):
    return {"name": name.split(".")[0], "webhook": {"url": f"https://{name}/in", "secret_file": c.file("key", KEY + "\n")},
            "timeout": timeout}


def told_by(c):
    """The notifications of the command, an event a line."""
    try:
        with open(os.path.join(c.home, "told"), encoding="utf-8") as f:
            return [json.loads(x) for x in f.read().split("\n")[:-1]]  # the last may still be written
    except OSError:
        return []


def events(server, sandbox, kind=None):
    found = [json.loads(q.body) for q in list(server.requests)]
    return [e for e in found if e.get("sandbox") == sandbox and (kind is None or e["type"] == kind)]


def post(n, tail=""):
    return curl("-H", "X-Note: " + SECRET, "-d", SECRET, f"https://api.github.test/free/{n}{tail}")


def all_ways(tap, net, c):
    who = c.who
    command = ["sh", "-c", f"cat >> {c.home}/told"]
    c.tell({"name": "sh", "command": command}, hook(c, "hooks.example.test"),
           {"name": "room", "matrix": {"homeserver": "https://matrix.example.test", "room": ROOM,
                                       "secret_file": c.file("token", TOKEN + "\n")}},
           hook(c, "hang.example.test"), hook(c, "moved.example.test"), hook(c, "broken.example.test"))
    with Asker(tap, c, POLICY, "--policy", os.path.join(c.home, "policy.yaml"), "--name", "box-" + c.engine) as a:
        a.began = time.monotonic()
        p = a.start(post("a", "?token=" + SECRET))
        q = a.pending()
        tap.eq(len(q), 1, f"{who}: a question waits")
        tap.ok(wait_for(lambda: events(net.hooks, a.id), 90), f"{who}: the webhook receives the question", net.hooks.requests)
        ev = (events(net.hooks, a.id) or [{}])[0]
        tap.ok(ev.get("type") == "ask.new" and ev.get("ask") == q[0]["id"] and ev.get("answer") == f"coffer approve {q[0]['id']}" and
               "POST https://api.github.test/free/a?..." in ev.get("title", "") and f"box-{c.engine} asks" in ev["title"],
               f"{who}: the webhook's event names the sandbox, the request and the command that answers", ev)
        tap.ok(any("policy.yaml:8" in x for x in ev["lines"]) and SECRET not in json.dumps(ev),
               f"{who}: the webhook's event names the rule, and nothing of query, header or body", ev)
        req = net.hooks.requests[-1]
        parts = dict(x.split("=", 1) for x in req.headers["coffer-signature"].split(","))
        tap.eq(parts["v1"], hmac.new(KEY.encode(), parts["t"].encode() + b"." + req.body, hashlib.sha256).hexdigest(),
               f"{who}: the webhook's event is signed with the key")
        tap.ok(wait_for(lambda: any(a.id in q.body.decode() for q in list(net.matrix.requests)), 90),
               f"{who}: the Matrix room receives the question")
        tap.ok(wait_for(lambda: [e for e in told_by(c) if e["sandbox"] == a.id], 90), f"{who}: the command receives the question")
        # One hangs, one redirects, one refuses: the answer counts all the same, at once.
        r = c("approve", q[0]["id"], "--reason", "fine")
        tap.ok(r.code == 0 and "free 200" in end(p), f"{who}: approve counts at once while a notified server hangs", r)
        tap.ok(wait_for(lambda: events(net.hooks, a.id, "ask.over"), 90), f"{who}: the webhook receives the end of the question")
        over = (events(net.hooks, a.id, "ask.over") or [{}])[0]
        tap.ok(over.get("ask") == q[0]["id"] and "allowed, once" in over.get("title", "") and "fine" in str(over.get("lines")),
               f"{who}: the event about the end names the question, the answer and its reason", over)
        tap.ok(wait_for(lambda: [e for e in a.log("notify.failed") if e["target"] == "moved" and "redirect" in e["why"]], 60) and
               not [x for x in net.hooks.requests if x.path == "/moved"], f"{who}: the redirect of a webhook is not followed")
        if c.engine == "ns":
            flood(tap, net, c, a)
            again(tap, net, c, a)
    tap.ok(wait_for(lambda: not helpers(c), 60), f"{who}: no notifier is left when the sandbox has ended", helpers(c))
    log = c("audit", "--json").out
    tap.ok(KEY not in log and TOKEN not in log, f"{who}: the log has no key of a notification")
    tap.ok(c("audit", "verify").code == 0, f"{who}: the log verifies")


def flood(tap, net, c, a):
    """Many at once: the first few one by one, hostile text harmless."""
    who, before = c.who, len(events(net.hooks, a.id, "ask.new"))
    evil = "https://api.github.test/free/%e2%80%ae%3cb%3e"
    ps = [a.start(curl("-d", str(n), evil + str(n))) for n in range(9)]
    q = a.pending(9)
    tap.eq(len(q), 9, f"{who}: nine questions wait")
    few = 5 - before
    tap.ok(wait_for(lambda: len(events(net.hooks, a.id, "ask.new")) >= before + few, 90),
           f"{who}: a few of nine questions are notified one by one")
    for x in q:
        c("approve", x["id"])
    for p in ps:
        end(p)
    tap.ok(wait_for(lambda: len(events(net.hooks, a.id, "ask.over")) >= before + few, 90),
           f"{who}: the end of each notified question is notified")
    # Five a minute; on a slow machine another minute has begun.
    new, limit = events(net.hooks, a.id, "ask.new"), before + few + 5 * int((time.monotonic() - a.began) / 60)
    tap.ok(before + few <= len(new) <= limit, f"{who}: no more than five questions a minute are notified", limit, *new)
    tap.ok("\u202e" not in json.dumps(new, ensure_ascii=False), f"{who}: a notification has no control characters of a request", new[-1])


def helpers(c):
    found = []
    for d in os.listdir("/proc"):
        try:
            with open(f"/proc/{d}/cmdline", "rb") as f:
                # Its attempts are copies of it; it alone has a session of its own.
                if b"notify-asks" in f.read() and os.readlink(f"/proc/{d}/exe").startswith(c.dir) and os.getsid(int(d)) == int(d):
                    found.append(int(d))
        except (OSError, ValueError):
            pass
    return found


def couriers(c):
    """Of this one's own, that have not ended."""
    found = []
    for pid, name in descendants(os.getpid()):
        try:
            if "courier" in name and os.readlink(f"/proc/{pid}/exe").startswith(c.dir):
                found.append(pid)
        except OSError:
            pass
    return found


def again(tap, net, c, a):
    """Its own process: confined as far as it can be, and killed it is missed by nobody."""
    who, pids = c.who, helpers(c)
    tap.eq(len(pids), 1, f"{who}: one process sends the notifications")
    with open(f"/proc/{pids[0]}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
    tap.ok(status["NoNewPrivs"].strip() == "1" and int(status["CapEff"], 16) & ~0xe0 == 0, f"{who}: the notifier has no privileges", status)
    kill_own(pids[0], signal.SIGKILL)
    tap.ok(wait_for(lambda: not helpers(c), 60), f"{who}: the notifier is killed")
    tap.ok(wait_for(lambda: not couriers(c), 60), f"{who}: the couriers of a notifier that was killed end with it", couriers(c))
    p = a.start(post("z"))
    q = a.pending()
    r = c("approve", q[0]["id"]) if q else None
    tap.ok(r and r.code == 0 and "200" in end(p), f"{who}: a question is asked and answered without a notifier", r, q)


def bad_file(tap, net, c):
    """A file that is wrong, or that others may write to: said in the log; asking goes on."""
    c.tell({"webhok": {}})
    with Asker(tap, c, POLICY, "--policy", os.path.join(c.home, "policy.yaml")) as a:
        p = a.start(post("b"))
        q = a.pending()
        tap.ok(wait_for(lambda: [e for e in a.log("notify.failed") if "notify.yaml:3" in e["why"]], 60),
               f"{c.who}: a broken notify.yaml is in the log", a.log("notify.failed"))
        tap.ok(c("approve", q[0]["id"]).code == 0 and "free 200" in end(p),
               f"{c.who}: a question is answered in spite of a broken notify.yaml")
    c.tell({"name": "sh", "command": ["sh", "-c", f"cat >> {c.home}/told"]}, ui="https://coffer.example.test")
    with Asker(tap, c, POLICY, "--policy", os.path.join(c.home, "policy.yaml"), "--ask-timeout", "3s") as a:
        end(a.start(post("c")))
        tap.ok(wait_for(lambda: [e for e in told_by(c) if e["sandbox"] == a.id and e["type"] == "ask.over"], 60),
               f"{c.who}: the expiry of a question is notified", told_by(c))
        mine = [e for e in told_by(c) if e["sandbox"] == a.id]
        tap.ok(mine[0]["answer"] == "https://coffer.example.test/#/asks" and "expired" in mine[1]["title"],
               f"{c.who}: a notification has the link to the page that the operator configured", mine)


def served_elsewhere(tap, net, c):
    """Questions that no guard of a network has: of coffer apply, of a tool's call, of a sandbox without a network."""
    who, b = c.who, AskBox(tap, c)
    c.tell({"name": "sh", "command": ["sh", "-c", f"cat >> {c.home}/told"]}, hook(c, "hooks.example.test"))
    tools = b.file("tools.yaml", TOOLS)
    r = c("run", "--engine", c.engine, "--net", "none", "--", "sh", "-c", "echo new > made")
    ended = r.err.split("coffer apply ")[1].split()[0] if r.code == 0 else ""
    live = c("run", "-d", "--engine", c.engine, "--net", "none", "--name", "quiet", "--", "sleep", "1000")
    tap.ok(ended and live.code == 0, f"{who}: a run that has ended and a sandbox without a network are there", r, live)
    for what, words, args in (
            ("coffer apply", "1 change", ["apply", ended, "--ask", "--yes"]),
            ("a tool's call", "deploy", ["call", "--engine", c.engine, "--policy", tools, "--tool", "deploy", "--args", json.dumps({"key": SECRET}),
                                         "--", "true"]),
            ("a sandbox without a network", "may it go on", ["ask", "new", "--sandbox", "quiet", "may it go on?"])):
        p = c.popen(*args)
        q = (b.pending() or [{"id": "none", "sandbox": "none"}])[0]
        tap.ok(wait_for(lambda: events(net.hooks, q["sandbox"], "ask.new"), 90), f"{who}: {what}: the webhook receives the question", q)
        mine = events(net.hooks, q["sandbox"], "ask.new")
        tap.ok(len(mine) == 1 and mine[0]["ask"] == q["id"] and words in mine[0]["title"] and SECRET not in json.dumps(mine),
               f"{who}: {what}: the webhook receives one event, without the arguments", mine)
        r = c("approve", q["id"])
        out, err = p.communicate(timeout=300)
        tap.ok(r.code == 0 and p.returncode == 0, f"{who}: {what}: an approved act goes on", r, out, err)
        tap.ok(wait_for(lambda: [e for e in told_by(c) if e["ask"] == q["id"] and e["type"] == "ask.over"], 90),
               f"{who}: {what}: the command receives the end of the question", told_by(c))
    c("rm", "-f", "quiet")
    tap.ok(wait_for(lambda: not helpers(c), 60), f"{who}: no notifier is left of questions without a guard", helpers(c))


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("notifications of questions", reason)
        tap.done()
    with Internet() as net:
        stop = threading.Event()
        net.https("api.github.test", lambda q: "free")
        net.hooks = net.https("hooks.example.test", lambda q: "{}")
        net.matrix = net.https("matrix.example.test", lambda q: "{}")
        net.https("moved.example.test", lambda q: (307, {"Location": "https://hooks.example.test/moved"}, ""))
        net.https("broken.example.test", lambda q: (500, {}, "no"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*net.cert("hang.example.test"))

        def hang(conn, _server):
            with context.wrap_socket(conn, server_side=True) as tls:
                tls.recv(65536)
                stop.wait(120)
        net.tcp("hang.example.test", 443, hang)
        try:
            for who in identities(tap, ENGINES):
                if who == "userns" or (who.engine == "gvisor" and who != "root"):
                    continue
                with Told(net, who) as c:
                    all_ways(tap, net, c)
                    served_elsewhere(tap, net, c)
                    if who == "user":
                        bad_file(tap, net, c)
                    c.check_clean(tap)
        finally:
            stop.set()
    tap.done()


main()
