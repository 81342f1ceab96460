#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer notify and coffer-courier: webhooks, Matrix, commands against real TLS servers that are good, wrong, slow, huge or rude."""
# tests/run: timeout=1200

import hashlib
import hmac
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from coffertest import Tap, covering, descendants, sanitized  # noqa: E402
from nettest import GW4, Internet, wait_for, why_not  # noqa: E402

KEY = "webhook-key-0123456789abcdef"
TOKEN = "syt_matrix_token_0123456789abcdef"
ROOM = "!room:example.test"
TITLE = "merge \x1b[31mpull\u202e request\r\n<b>7</b>"


def conf(c, *targets):
    path = os.path.join(c.home, "notify.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("version: 1\nnotify:\n" + "".join(f"- {json.dumps(t)}\n" for t in targets))
    c.own(path)
    return path


def key_file(c, text=KEY + "\n", mode=0o600, name="key"):
    path = os.path.join(c.home, name)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, mode)
    c.own(path)
    return path


def hook(c, url, **more):
    return {"webhook": {"url": url, "secret_file": key_file(c), **more}, "timeout": more.pop("timeout", "60s")}


def send(c, *targets, args=(), timeout=300):
    return c("notify", "test", "--config", conf(c, *targets), *args, timeout=timeout)


def signature_is_right(req, key=KEY, now=None):
    """As doc/notify.md says that a receiver does it."""
    parts = dict(p.split("=", 1) for p in req.headers["coffer-signature"].split(","))
    wanted = hmac.new(key.encode(), parts["t"].encode() + b"." + req.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(parts["v1"], wanted) and abs((now or time.time()) - int(parts["t"])) < 300


def good(tap, net, c, srv):
    who = c.who
    srv.requests.clear()
    r = send(c, hook(c, "https://hooks.example.test/in?x=y"), args=("--title", TITLE))
    tap.ok(r.code == 0 and "webhook-1: sent" in r.out, f"{who}: a webhook is sent", r)
    req = srv.requests[-1] if srv.requests else None
    if not req:
        tap.ok(False, f"{who}: the webhook's server gets a request", r)
        return
    body = json.loads(req.body)
    tap.ok(req.method == "POST" and req.path == "/in?x=y" and body["type"] == "test" and body["version"] == 1,
           f"{who}: the webhook's request is as documented", req, body)
    tap.ok(req.headers["coffer-event"] == body["id"] and len(body["id"]) == 24, f"{who}: the webhook's header has the event's id", dict(req.headers))
    tap.ok(signature_is_right(req), f"{who}: the signature is verified by another implementation", dict(req.headers))
    tap.ok(not signature_is_right(req, key="another"), f"{who}: control: the signature does not verify with another key")
    tap.ok(not signature_is_right(req, now=time.time() + 3600), f"{who}: a signature of an hour ago is refused")
    tap.ok(not any(x in body["title"] for x in "\x1b\u202e\r\n") and "pull" in body["title"], f"{who}: control characters are removed from a title",
           body)
    tap.ok(KEY not in req.body.decode() and KEY not in str(dict(req.headers)), f"{who}: the webhook's key is not sent")
    log = c("audit", "--json").out
    tap.ok('"notify.sent"' in log and KEY not in log, f"{who}: the log has the notification, without the key", log[-600:])
    tap.eq(couriers(os.getpid()), [], f"{who}: no courier is left")


def couriers(pid):
    """Those below a process."""
    return [x for x, name in descendants(pid) if name.endswith("coffer-courier")]


def refused(tap, net, c, srv):
    """Settings that must not work, beside good(), which shows that it can."""
    who = c.who
    for name, words in (("wrong.example.test", "certificate"), ("expired.example.test", "certificate"),
                        ("self.example.test", "certificate"), ("nosuch.example.test", "no such")):
        r = send(c, hook(c, f"https://{name}/"))
        tap.ok(r.code == 1 and "failed" in r.out and words in r.out, f"{who}: {name} is not trusted", r)
    before = len(srv.requests)
    r = send(c, hook(c, "https://moved.example.test/"), args=("--tries", "3"))
    tap.ok(r.code == 1 and "redirect" in r.out and "again" not in r.out, f"{who}: a redirect is not followed and not retried", r)
    tap.eq(len(srv.requests), before, f"{who}: the target of a redirect gets no request")
    r = send(c, hook(c, "https://private.example.test/"))
    tap.ok(r.code == 1 and "a private address" in r.out and "to:" in r.out, f"{who}: a private address is refused", r)
    before = len(net.private.requests)
    r = send(c, hook(c, "https://private.example.test/", to=net.private.address))
    tap.ok(r.code == 0 and len(net.private.requests) == before + 1, f"{who}: control: a private address that the file grants is reached", r)
    r = send(c, hook(c, "https://own.example.test/"))
    tap.ok(r.code == 1 and "this host itself" in r.out, f"{who}: the host's own address is refused", r)
    r = send(c, hook(c, "https://own-second.example.test/"))
    tap.ok(r.code == 1 and "this host itself" in r.out, f"{who}: the host's own secondary address is refused", r)
    r = send(c, hook(c, "https://127.0.0.1/"))
    tap.ok(r.code == 1 and "to:" in r.out, f"{who}: a loopback address is refused", r)
    # A CA of the target's own is the only one that counts.
    r = send(c, hook(c, "https://self.example.test/", ca=net.cert("self.example.test", self_signed=True)[0]))
    tap.eq(r.code, 0, f"{who}: a certificate that the file names as ca is trusted", r)
    r = send(c, hook(c, "https://hooks.example.test/", ca=net.cert("self.example.test", self_signed=True)[0]))
    tap.ok(r.code == 1 and "certificate" in r.out, f"{who}: with a ca of its own a target trusts no other", r)


def rude(tap, net, c):
    who = c.who
    for name, words in (("reset.example.test", "sends no response"), ("garbage.example.test", "cannot be read"),
                        ("hang.example.test", ""), ("mute.example.test", "")):
        target = hook(c, f"https://{name}/")
        target["timeout"] = "2s" if words == "" else "60s"
        r = send(c, target)
        tap.ok(r.code == 1 and "failed" in r.out and words in r.out, f"{who}: a failed delivery to {name} is reported", r)
    for name in ("huge.example.test", "slow.example.test"):
        target = hook(c, f"https://{name}/")
        target["timeout"] = "20s"
        r = send(c, target)
        tap.eq(r.code, 0, f"{who}: a delivery to {name} succeeds as soon as the status is received", r)
    r = send(c, hook(c, "https://forbidden.example.test/"), args=("--tries", "3"))
    tap.ok(r.code == 1 and "403: go \\x1b[31maway" in r.out and "again" not in r.out, f"{who}: a 403 is not retried, and its text is escaped",
           r)
    net.flaky.left = 2
    r = send(c, hook(c, "https://flaky.example.test/"), args=("--tries", "5"))
    ids = {json.loads(q.body)["id"] for q in net.flaky.requests[-3:]}
    tap.ok(r.code == 0 and r.out.count("tried again") == 2 and len(ids) == 1, f"{who}: a 500 is retried under the same id", r, ids)
    log = c("audit", "--json").out
    tap.ok(log.count('"notify.retry"') >= 2 and '"notify.failed"' in log, f"{who}: each retry is logged")


def matrix(tap, net, c, srv):
    who = c.who
    srv.requests.clear()
    target = {"name": "room", "matrix": {"homeserver": "https://matrix.example.test", "room": ROOM,
                                         "secret_file": key_file(c, TOKEN, name="token")}}
    net.flaky_matrix.left = 1
    r = send(c, target, args=("--tries", "4"))
    tap.ok(r.code == 0 and "room: sent" in r.out, f"{who}: a message is sent to a Matrix room", r)
    got = [q for q in srv.requests if q.method == "PUT"]
    tap.ok(len(got) == 2 and len({q.path for q in got}) == 1, f"{who}: a Matrix retry has the same transaction id", got)
    tap.ok(got and got[0].path.startswith("/_matrix/client/v3/rooms/%21room%3Aexample.test/send/m.room.message/"),
           f"{who}: a Matrix message goes to the client API", got)
    tap.ok(got and got[0].headers["Authorization"] == f"Bearer {TOKEN}" and json.loads(got[0].body)["msgtype"] == "m.text",
           f"{who}: a Matrix message has the token", got and dict(got[0].headers))


def vault(tap, net, c, srv):
    """A secret of the vault: only for the host that it is bound to."""
    who = c.who
    srv.requests.clear()
    r = c("secret", "set", "ops-hook", "-", "--host", "hooks.example.test", "--as", "header:coffer-signature", input=KEY)
    tap.eq(r.code, 0, f"{who}: coffer secret set stores the webhook's key", r)
    target = {"name": "ops", "webhook": {"url": "https://hooks.example.test/v", "secret": "ops-hook"}}
    r = send(c, target)
    tap.ok(r.code == 0 and srv.requests and signature_is_right(srv.requests[-1]), f"{who}: a webhook is signed with a key of the vault", r)
    target["webhook"]["url"] = "https://flaky.example.test/v"
    before = len(net.flaky.requests)
    r = send(c, target)
    tap.ok(r.code == 1 and len(net.flaky.requests) == before, f"{who}: a key is not used for a host that it is not bound to", r)
    target["webhook"]["secret"] = "free"
    target["webhook"]["url"] = "https://hooks.example.test/v"
    r = c("secret", "set", "free", "-", input=KEY)
    before = len(srv.requests)
    r = send(c, target, args=("--tries", "3"))
    tap.ok(r.code == 1 and "bound to no host" in r.out and "coffer secret bind free" in r.out and "again" not in r.out and
           len(srv.requests) == before, f"{who}: a key that is bound nowhere is not used, and the message says how to bind it", r)
    r = c("secret", "bind", "free", "--host", "hooks.example.test", "--as", "header:coffer-signature")
    r = send(c, target)
    tap.ok(r.code == 0 and len(srv.requests) == before + 1, f"{who}: control: a key is used after it was bound", r)
    target["webhook"]["url"] = "https://flaky.example.test/v"
    target["webhook"]["secret"] = "nosuch"
    r = send(c, target)
    tap.ok(r.code == 1 and "nosuch" in r.out, f"{who}: a key that is not in the vault is named", r)


def command(tap, c):
    who = c.who
    out = os.path.join(c.home, "told.json")
    r = send(c, {"name": "sh", "command": ["sh", "-c", f"cat > {out}; ls /proc/self/fd | wc -l >> {out}"]},
             args=("--title", "$(touch /tmp/never) `id`"))
    with open(out, encoding="utf-8") as f:
        told = f.read().splitlines()
    tap.ok(r.code == 0 and json.loads(told[0])["title"] == "$(touch /tmp/never) `id`", f"{who}: a command gets the notification on its input", r)
    tap.ok(int(told[1]) <= 5, f"{who}: a command gets no other descriptor", told)
    r = send(c, {"name": "bad", "command": ["false"]}, {"name": "none", "command": ["/nonexistent/x"]})
    tap.ok(r.code == 1 and "bad: failed: the command ended with 1" in r.out and "none: failed: there is no such program" in r.out,
           f"{who}: a command that fails is reported", r)


def killed(tap, net, c):
    """The courier ends without a word: a failure like any other; what it was is looked at while it waits."""
    who = c.who
    net.hanging.connections.clear()
    p = c.popen("notify", "test", "--config", conf(c, hook(c, "https://hang.example.test/")), "--tries", "1", text=True)
    found = []

    def courier():
        found[:] = couriers(p.pid)
        return found and net.hanging.connections

    tap.ok(wait_for(courier, 60), f"{who}: control: a courier is connected")
    pid = found[0]
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
    tap.ok((status["Seccomp"].strip() == "2" or sanitized()) and status["NoNewPrivs"].strip() == "1" and int(status["CapEff"], 16) == 0 and
           int(status["CapPrm"], 16) == 0, f"{who}: a courier has a seccomp filter and no capability", status)
    if who == "root":
        tap.ok("65532" in status["Uid"], f"{who}: a courier of root has a uid of its own", status["Uid"])
    with open(f"/proc/{pid}/environ", "rb") as f:
        tap.eq(f.read(), b"", f"{who}: a courier's environment is empty")
    kinds = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    tap.ok(not [k for k in kinds if k.startswith("/") and not k.startswith("/dev/null") and "ca.pem" not in k and "key" not in k
                and "memfd" not in k], f"{who}: a courier has no open file but those of its job", kinds)
    os.kill(pid, signal.SIGKILL)
    out, _ = p.communicate(timeout=300)
    tap.ok(p.returncode == 1 and "ended without a result" in out, f"{who}: a courier that is killed is reported as failed", out)


def bad_input(tap, c):
    def text(words, body, mode=0o644):
        path = os.path.join(c.home, "bad.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(body)
        os.chmod(path, mode)
        c.own(path)
        r = c("notify", "ls", "--config", path)
        tap.ok(r.code == 2 and words in r.err, f"notify ls refuses a file: {words}", r)

    head = "version: 1\nnotify:\n"
    text("bad.yaml:3:3", head + "- webhok: {}\n")
    text("webhook", head + "- webhok: {}\n")
    text("bad.yaml:3:13: unknown key 'urll'", head + "- webhook: {urll: x}\n")
    text("https://", head + "- webhook: {url: http://example.com/, secret: x}\n")
    text("user or a fragment", head + "- webhook: {url: https://a:b@example.com/, secret: x}\n")
    text("has no 'secret'", head + "- webhook: {url: https://example.com/}\n")
    text("either 'secret' or 'secret_file'", head + "- webhook: {url: https://example.com/, secret: a, secret_file: b}\n")
    text("has no 'room'", head + "- matrix: {homeserver: https://example.com, secret: x}\n")
    text("room's id", head + "- matrix: {homeserver: https://example.com, room: '#a:b', secret: x}\n")
    text("expected a list", head + "- command: rm -rf x\n")
    text("not several", head + "- {command: [a], webhook: {url: https://example.com/, secret: x}}\n")
    text("two targets", head + "- {name: a, command: [a]}\n- {name: a, command: [a]}\n")
    text("expected an address", head + "- webhook: {url: https://example.com/, secret: a, to: example.com}\n")
    text("version: 1", "notify: []\n")
    for link in ("javascript:alert(1)", "https://a@b.test/", "https://b.test/?x", "'https://b.test/ x'"):
        text("the URL of the page", f"version: 1\nui: {link}\nnotify: []\n")
    text("write to", head + "- command: [a]\n", 0o666)
    r = c("notify", "test", "--config", conf(c, hook(c, "https://hooks.example.test/")), "--to", "nobody")
    tap.ok(r.code == 125 and "nobody" in r.err, "notify test --to names a target that does not exist", r)
    r = c("notify", "test")
    tap.ok(r.code == 2 and "notify.yaml" in r.err, "notify test without a file names the file", r)
    target = hook(c, "https://hooks.example.test/")
    target["webhook"]["secret_file"] = key_file(c, mode=0o644, name="open-key")
    r = send(c, target)
    tap.ok(r.code == 1 and "others may read it" in r.out, "a key that others may read is not used", r)


def serve_tls(net, name, talk):
    """talk(tls connection) after a good handshake."""
    cert = net.cert(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*cert)

    def handler(conn, _server):
        with context.wrap_socket(conn, server_side=True) as tls:
            tls.recv(65536)
            talk(tls)
    return net.tcp(name, 443, handler)


def reset(tls):
    tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def huge(tls):
    tls.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(1000):
        tls.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def slow(tls):
    tls.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(60):
        tls.sendall(b"x")
        time.sleep(0.5)


class Flaky:
    """Answers 500 so many times."""

    def __init__(self):
        self.left = 0

    def __call__(self, _req):
        if self.left:
            self.left -= 1
            return 500, {}, "not now"
        return 200, {}, "{}"


def build(net):
    srv = net.https("hooks.example.test", lambda q: "{}")
    net.https("wrong.example.test", cert=net.cert("another.example.test"))
    net.https("expired.example.test", cert=net.cert("expired.example.test", expired=True))
    net.https("self.example.test", cert=net.cert("self.example.test", self_signed=True))
    net.https("moved.example.test", lambda q: (307, {"Location": "https://hooks.example.test/moved"}, ""))
    net.https("forbidden.example.test", lambda q: (403, {}, "go \x1b[31maway"))
    net.private = net.https("private.example.test", lambda q: "{}", address="10.20.30.40")
    net.dns["own.example.test"] = GW4
    net.gw.batch("addr add 44.0.0.1/24 dev gw0\naddr add 44.0.0.7/24 dev gw0")
    net.dns["own-second.example.test"] = "44.0.0.7"
    flaky, flaky_matrix = Flaky(), Flaky()
    net.flaky = net.https("flaky.example.test", flaky)
    net.flaky.__class__ = type("FlakyServer", (net.flaky.__class__,), {
        "left": property(lambda s: flaky.left, lambda s, v: setattr(flaky, "left", v))})
    net.flaky_matrix = flaky_matrix
    matrix_srv = net.https("matrix.example.test", flaky_matrix)
    serve_tls(net, "reset.example.test", reset)
    serve_tls(net, "garbage.example.test", lambda tls: tls.sendall(b"\0\1\2 what is HTTP?\r\n\r\n" * 10))
    serve_tls(net, "huge.example.test", huge)
    serve_tls(net, "slow.example.test", slow)
    stop = threading.Event()
    net.hanging = serve_tls(net, "hang.example.test", lambda tls: stop.wait(60))
    net.tcp("mute.example.test", 443, lambda conn, _s: stop.wait(60))
    return srv, matrix_srv, stop


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("notifications", reason)
        tap.done()
    with Internet() as net:
        srv, matrix_srv, stop = build(net)
        try:
            for who, whole in covering(tap, ("ns",), on_ns="user"):
                with net.coffer(who) as c:
                    good(tap, net, c, srv)
                    if whole:  # what a server answers is read by coffer-courier, which is the same for everybody
                        refused(tap, net, c, srv)
                        matrix(tap, net, c, matrix_srv)
                        vault(tap, net, c, srv)
                    command(tap, c)
                    if whole and who != "userns":
                        rude(tap, net, c)
                        killed(tap, net, c)
                    if who == "user":
                        bad_input(tap, c)
                    c.check_clean(tap)
        finally:
            stop.set()
    tap.done()


main()
