#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Upstream proxies whose credentials are in the vault: coffer-dial asks for one when it shakes hands, and has none otherwise.
tinyproxy with Basic and microsocks with user and password; rotated, unbound and removed while a sandbox runs; refused where
the vault does not have it for that proxy."""

import base64
import json
import os
import re
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import httptest as ht  # noqa: E402
from coffertest import Tap, covering, descendants  # noqa: E402
from memsearch import has_any, search  # noqa: E402
from nettest import GW4, Internet, wait_for, why_not  # noqa: E402
from proxytest import ConnectProxy, SocksProxy  # noqa: E402

WWW, API = "www.example.test", "api.example.test"
PASSWORDS = ["pw" + base64.b32encode(os.urandom(15)).decode() for _ in range(2)]
LOOP = f"""
while read x; do
  a=$(curl -sS -m 60 http://{WWW}/ 2>&1 | tr '\\n' ' ')
  b=$(curl -sS -m 60 http://{API}/ 2>&1 | tr '\\n' ' ')
  echo "$a; $b"
done
"""


def policy(c, proxies, more=""):
    rows = "".join(f"    {name}: {{urls: [\"{p.scheme}://{p.address}:{p.port}\"], secret: {name}{more}}}\n"
                   for name, p in zip(("one", "two"), proxies))
    return c.put("pool.yaml", "version: 1\negress:\n  require_pool: true\n  proxies:\n" + rows +
               f"  allow:\n    - {{domain: {WWW}, port: 80, pool: one}}\n    - {{domain: {API}, port: 80, pool: two}}\n")


def refused(tap, c, proxies):
    who, path = c.who, policy(c, proxies)
    run = ["run", "--engine", c.engine, "--policy", path, "--", "true"]
    r = c(*run)
    tap.ok(r.code == 125 and "coffer secret set one" in r.err, f"{who}: coffer run without a vault is refused, with what to do", r)
    r = c("secret", "set", "one", "-", "--host", f"{proxies[0].address}:3128", "--as", "proxy", input="ann:" + PASSWORDS[0])
    tap.ok(r.code != 0 and "--address" in r.err, f"{who}: binding a proxy's address without --address is refused", r)
    r = c("secret", "set", "one", "-", "--host", f"{proxies[0].address}:3128", "--as", "proxy", "--address",
          input="ann:" + PASSWORDS[0])
    tap.eq(r.code, 0, f"{who}: a credential for a proxy is put into the vault", r)
    r = c(*run)
    tap.ok(r.code == 125 and "no secret 'two'" in r.err, f"{who}: coffer run names a proxy's secret that is not in the vault", r)
    r = c("secret", "set", "two", "-", "--host", f"{proxies[1].address}:1081", "--as", "proxy", "--address", input=PASSWORDS[1])
    r = c(*run)
    tap.ok(r.code == 125 and "two" in r.err and "bound" in r.err, f"{who}: a proxy's secret that is bound to another port is refused", r)
    c("secret", "unbind", "two")
    r = c("secret", "bind", "two", "--host", f"{proxies[1].address}:1080", "--as", "proxy", "--user", "bob", "--address")
    tap.eq(r.code, 0, f"{who}: a proxy's password can be bound with its user", r)
    r = c("run", "--engine", c.engine, "--allow", WWW, "--secret", "one", "--", "true")
    tap.ok(r.code == 125 and "for proxies" in r.err, f"{who}: a proxy's secret cannot be used for requests", r)
    both = c.put("both.yaml", "version: 1\negress:\n  proxies:\n    p: {urls: [\"http://192.0.2.1:3128\"], secret: one, "
               "credentials_file: x.txt}\n")
    r = c("policy", "check", both)
    tap.ok(r.code != 0 and re.search(r"both\.yaml:4:8: .*not both", r.out + r.err), f"{who}: a proxy with both a secret and a file is refused", r)
    c.put("x.txt", "a:b\n")
    both = c.put("file.yaml", "version: 1\negress:\n  pool: p\n  proxies:\n    p: {urls: [\"http://192.0.2.1:3128\"], "
               "credentials_file: x.txt}\n  allow: [a.example.test]\n")
    r = c("policy", "check", both)
    tap.ok(r.code == 0 and "better kept in the vault" in r.out + r.err, f"{who}: policy check accepts a credentials file and recommends the vault", r)


def used(tap, c, proxies):
    who = c.who
    p = c.popen("run", "--engine", c.engine, "--policy", policy(c, proxies), "--", "sh", "-c", LOOP, stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return [x.startswith("you are ") for x in p.stdout.readline().decode().split("; ")]

    def ups():
        return c("audit", "--json").out.count('"vault.up"')

    def change(what, *args, **kw):
        before = ups()
        r = c("secret", *args, **kw)
        tap.ok(r.code == 0 and wait_for(lambda: ups() > before), f"{who}: {what}, and the vault is reloaded", r)

    tap.eq(ask(), [True, True], f"{who}: requests pass both proxies with credentials of the vault")
    tap.eq([x.refused for x in proxies], [0, 0], f"{who}: the proxies refused no credential")
    found = {f"{pid} {text}": search(pid, *PASSWORDS) for pid, text in descendants(p.pid) + [(p.pid, "S coffer")]}
    vaults = [t for t, v in found.items() if "coffer-vault" in t and all(x in v for x in PASSWORDS)]
    others = [t for t, v in found.items() if "coffer-vault" not in t and any(x in v for x in PASSWORDS)]
    tap.ok(vaults and any("coffer-dial" in t for t in found), f"{who}: control: a memory search finds both passwords in coffer-vault", found)
    tap.eq(others, [], f"{who}: no other process has a password in memory, coffer-dial included")
    old = [pid for pid, text in descendants(p.pid) if "coffer-dial" in text]
    os.kill(old[0], signal.SIGKILL)
    got = []
    tap.ok(wait_for(lambda: got.append(ask()) or got[-1] == [True, True]), f"{who}: a killed coffer-dial gets the credentials again", got)
    change("the first credential is removed", "rm", "one")
    tap.ok(wait_for(lambda: ask() == [False, True]), f"{who}: only the proxy with a credential is used after the other's was removed")
    change("the first credential is set again", "set", "one", "-", "--host", f"{proxies[0].address}:3128", "--as", "proxy", "--address",
           input="ann:wrong-password-of-some-length")
    tap.ok(wait_for(lambda: ask() == [False, True]) and proxies[0].refused > 0, f"{who}: a proxy refuses a wrong password",
           proxies[0].refused)
    change("the first credential is rotated", "rotate", "one", "-", input="ann:" + PASSWORDS[0])
    tap.ok(wait_for(lambda: ask() == [True, True], 90), f"{who}: both proxies are used after the password was corrected")
    change("the second credential is unbound", "unbind", "two")
    tap.ok(wait_for(lambda: ask() == [True, False]), f"{who}: a proxy whose secret was unbound is not used")
    p.stdin.close()
    out, err = p.stdout.read(), p.stderr.read()
    p.wait()
    lines = c("audit", "--json").out
    tap.ok(not has_any((lines.encode() + out + err), *PASSWORDS), f"{who}: no log and no output has a password")
    left = []
    for top, _, files in os.walk(c.dir):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if has_any(f.read(), *PASSWORDS):
                        left.append(path)
    tap.eq(left, [], f"{who}: no file has a password")
    dials = [e for e in map(json.loads, lines.splitlines()) if e["type"] in ("net.dial", "net.proxy")]
    tap.ok(any("vault" in e.get("why", "") for e in dials), f"{who}: the log says why a proxy was not used", dials[-3:])
    c.check_clean(tap)


def short(tap, c, proxies):
    """Through both proxies, once. The act of coffer-dial when a credential changes is the same for everybody."""
    for name, value, p in zip(("one", "two"), ("ann:" + PASSWORDS[0], "bob:" + PASSWORDS[1]), proxies):
        r = c("secret", "set", name, "-", "--host", f"{p.address}:{p.port}", "--as", "proxy", "--address", input=value)
        tap.eq(r.code, 0, f"{c.who}: a credential for proxy {name} is put into the vault", r)
    r = c("run", "--engine", c.engine, "--policy", policy(c, proxies), "--", "sh", "-c", LOOP, input="x\n")
    tap.eq(r.out.count("you are "), 2, f"{c.who}: requests go through both proxies with what is in the vault", r)
    c.check_clean(tap)


def shared(tap, c, proxies):
    """The vault that cofferd keeps has a channel for coffer-dial too."""
    who = f"{c.who}, cofferd"
    tap.eq(c("gateway", "start").code, 0, f"{who}: gateway start succeeds")
    r = c("secret", "bind", "two", "--host", f"{proxies[1].address}:1080", "--as", "proxy", "--user", "bob", "--address")
    tap.eq(r.code, 0, f"{who}: coffer secret bind binds a proxy's password again", r)
    p = c.popen("run", "--engine", c.engine, "--policy", policy(c, proxies), "--", "sh", "-c", LOOP, stdin=-1)

    def ask():
        p.stdin.write(b"x\n")
        p.stdin.flush()
        return [x.startswith("you are ") for x in p.stdout.readline().decode().split("; ")]

    def is_there(name):
        return [pid for pid, text in descendants(p.pid) if name in text and text[0] != "Z"]

    tap.eq(ask(), [True, True], f"{who}: requests pass both proxies with credentials of the vault")
    kept = json.loads(c("gateway", "status", "--json").out)["vault"]
    tap.ok(kept["running"] and kept["sandboxes"] == 1 and not is_there("coffer-vault"), f"{who}: the run uses the vault of cofferd and starts none", kept)
    os.kill(is_there("coffer-dial")[0], signal.SIGKILL)
    tap.ok(wait_for(lambda: ask() == [True, True]), f"{who}: a killed coffer-dial gets the credentials again")
    tap.eq(c("secret", "rm", "one").code, 0, f"{who}: coffer secret rm removes one credential")
    tap.ok(wait_for(lambda: ask() == [False, True]), f"{who}: only the proxy with a credential is used after the other's was removed")
    p.stdin.close()
    p.stdout.read()
    p.wait()
    tap.eq(c("gateway", "stop").code, 0, f"{who}: gateway stop succeeds")
    c.check_clean(tap)


def real(tap, c, net):
    """tinyproxy and microsocks themselves."""
    if not shutil.which("tinyproxy") or not shutil.which("microsocks"):
        tap.skip("real proxies", "tinyproxy or microsocks is not installed")
        return
    a, b = net.address(), net.address()
    conf = c.put("tinyproxy.conf", f"Port 3128\nListen {a}\nTimeout 60\nBasicAuth ann {PASSWORDS[0]}\nConnectPort 80\n")
    procs = [ht.Process(["tinyproxy", "-d", "-c", conf], (a, 3128), net.inet.do),
             ht.Process(["microsocks", "-i", b, "-p", "1080", "-u", "bob", "-P", PASSWORDS[1]], (b, 1080), net.inet.do)]
    try:
        for name, value, host in (("three", "ann:" + PASSWORDS[0], f"{a}:3128"), ("four", "bob:" + PASSWORDS[1], f"{b}:1080")):
            r = c("secret", "set", name, "-", "--host", host, "--as", "proxy", "--address", input=value)
            tap.eq(r.code, 0, f"{c.who}: a credential for proxy {name} is put into the vault", r)
        path = c.put("real.yaml", "version: 1\negress:\n  require_pool: true\n  proxies:\n"
                   f"    three: {{urls: [\"http://{a}:3128\"], secret: three}}\n    four: {{urls: [\"socks5://{b}:1080\"], secret: four}}\n"
                   f"  allow:\n    - {{address: {net.dns[WWW]}, port: 80, pool: three}}\n"
                   f"    - {{address: {net.dns[API]}, port: 80, pool: four}}\n")
        r = c("run", "--engine", c.engine, "--policy", path, "--", "sh", "-c",
              f"curl -sS -m 60 http://{net.dns[WWW]}/; curl -sS -m 60 http://{net.dns[API]}/", timeout=300)
        tap.eq(len(re.findall("you are ", r.out)), 2, f"{c.who}: requests pass tinyproxy and microsocks", r)
        tap.eq(set(re.findall(r"you are (\S+)", r.out)) & {GW4}, set(), f"{c.who}: no request came from this host")
    finally:
        for x in procs:
            x.close()


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("proxies' credentials in the vault", reason)
        tap.done()
    with Internet() as net:
        def tell(q):
            return 200, {"Content-Type": "text/plain", "Connection": "close"}, f"you are {q.peer}\n"
        net.http(WWW, tell)
        net.http(API, tell)
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                proxies = [ConnectProxy(net, net.address(), 3128, "ann", PASSWORDS[0]),
                           SocksProxy(net, net.address(), 1080, "bob", PASSWORDS[1])]
                if whole:
                    refused(tap, c, proxies)
                    used(tap, c, proxies)
                    shared(tap, c, proxies)
                else:
                    short(tap, c, proxies)
                if who == "root" and who.engine == "ns":
                    real(tap, c, net)
                for x in proxies:
                    x.kill()
    tap.done()


main()
