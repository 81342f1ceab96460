#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of coffer run: options, what is let through and what is not, reload, and parts that die."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, covering, descendants, identities, proc_stat  # noqa: E402
from netbox import Sandbox, log, part  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

GOOD, EVIL = "good.example.test", "evil.example.test"
OWN, OWN_ALIAS = "own.example.test", "own-alias.example.test"

# Each line of its output is "WORD: what came of it".
VISIT = r"""
curl_() { curl -sS -m 60 --cacert /ca.pem "$@" 2>&1 | tr '\n' ' '; }
echo "good: $(curl_ https://GOOD/hello)"
echo "evil: $(curl_ https://EVIL/)"
echo "port: $(curl_ http://GOOD/)"
echo "addr: $(curl_ http://ADDR/)"
echo "ca: ${SSL_CERT_FILE-none}"
"""


def file_of(c, name, text, mode=0o600):
    """A file outside the workspace that the identity owns."""
    path = os.path.join(c.home, name)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path + ".new", mode)
    c.own(path + ".new")
    os.replace(path + ".new", path)
    return path


def policy(*names, extra=""):
    rows = "".join(f"    - domain: {n}\n      port: 443\n{extra}" for n in names)
    return f"version: 1\negress:\n  allow:\n{rows}"


def visit(tap, c, net, good, evil):
    """One sandbox, and everything that it tries."""
    who, report = c.who, os.path.join(c.tmp, "report.json")
    asked, came = len(net.queries), len(evil.connections)
    script = VISIT.replace("GOOD", GOOD).replace("EVIL", EVIL).replace("ADDR", good.address)
    r = c("run", "--allow", GOOD, "--report", report, "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c", script)
    got = dict(re.findall(r"^(\w+): ?(.*)$", r.out, re.M))
    tap.eq(got.get("good"), "hello /hello ", f"{who}: an allowed host is reached", r)
    tap.like(got.get("evil", ""), "Could not resolve host", f"{who}: a name that no rule allows does not resolve", r)
    tap.like(got.get("port", ""), '"error":"denied".*no rule allows', f"{who}: another port of an allowed host is refused with the reason", r)
    tap.like(got.get("addr", ""), '"error":"denied"', f"{who}: an address without a name is refused", r)
    tap.eq(got.get("ca"), "none", f"{who}: no certificate authority is installed where nothing is inspected", r)
    names = [n for n, _ in net.queries[asked:]]
    tap.ok(GOOD in names and EVIL not in names, f"{who}: only allowed names are asked of the real resolver", names)
    tap.eq(len(evil.connections), came, f"{who}: the denied server got no connection")
    tap.like(r.err, rf"^coffer: denied  {EVIL}  .*\(coffer why\)$", f"{who}: a denied name is reported on the terminal", r)
    tap.like(r.err, rf"^coffer: denied  {GOOD}:80  .*\(coffer why\)$", f"{who}: a denied connection is reported on the terminal with its port", r)
    with open(report, encoding="utf-8") as f:
        o = json.load(f)
    os.unlink(report)
    n = o["network"]
    by_name = {x["name"]: x for x in n["names"]}
    tap.ok(o["net"] == "enforce" and re.match(r"^sha256:[0-9a-f]{64}$", o["policy_digest"]) and o["allow"] == [GOOD],
           f"{who}: the report has the mode and the policy", o)
    tap.ok(n["connections"] == 1 and n["denied"] >= 4 and n["up"] > 0 and n["down"] > 0 and n["garbled"] == 0 and
           by_name[GOOD]["connections"] == 1 and by_name[EVIL]["connections"] == 0, f"{who}: the report counts connections, denials and bytes", n)
    events = log(c, "net.open", "net.dns", "net.close", "net.dial", "run.start", "run.end")
    opens = [(e["name"], e["port"], e["decision"]) for e in events if e["type"] == "net.open" and "name" in e]
    tap.eq(opens, [(GOOD, 443, "allow"), (GOOD, 80, "deny")], f"{who}: the log has each connection with its decision", events)
    tap.ok(events[0]["type"] == "run.start" and events[-1]["type"] == "run.end" and events[0]["net"] == "enforce",
           f"{who}: network events are between run.start and run.end", events)


def inspected(tap, c, web):
    path = file_of(c, "http.yaml", policy(GOOD, extra="      http:\n        - allow: GET /**\n"))
    r = c("run", "--policy", path, "--", "sh", "-c",
          f"curl -sS -m 60 {web.url}a; curl -sS -m 60 -X POST {web.url}b; env -u CURL_CA_BUNDLE -u SSL_CERT_FILE "
          f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{web.url}c\").read())'")
    tap.ok("hello /a" in r.out and "hello /c" in r.out, f"{c.who}: clients trust the sandbox's certificate authority where TLS is inspected", r)
    tap.ok("hello /b" not in r.out and "does not list POST" in r.out, f"{c.who}: a method that is not listed is refused", r)
    tap.like(r.err, rf"^coffer: denied  POST {GOOD}/b  ", f"{c.who}: a refused method is reported on the terminal", r)
    r = c("run", "--policy", path, "-e", "SSL_CERT_FILE=/mine", "--", "sh", "-c",
          "echo $SSL_CERT_FILE; head -1 $NODE_EXTRA_CA_CERTS; touch /run/coffer/x && echo written")
    tap.ok(r.out.startswith("/mine\n-----BEGIN CERTIFICATE-----") and "written" not in r.out,
           f"{c.who}: -e overrides SSL_CERT_FILE, and commands cannot write /run/coffer", r)


def own_root(tap, c, web):
    """The same in a root file system of one's own, which has a bundle of its own."""
    root, path = os.path.join(c.home, "root"), os.path.join(c.home, "http.yaml")
    for d in ("", "usr", "etc", "etc/ssl", "etc/ssl/certs", "run", "tmp", "proc", "sys", "dev", "workspace", "root"):
        os.mkdir(os.path.join(root, d))
        c.own(os.path.join(root, d))
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
        c.own(os.path.join(root, name))
    bundle = os.path.join(root, "etc/ssl/certs/ca-certificates.crt")
    with open(bundle, "w", encoding="ascii") as f:
        f.write("# whom this root trusts")
    c.own(bundle)
    r = c("run", "--root", root, "-v", "/usr:/usr", "--i-know", "--ephemeral", "--policy", path, "--", "sh", "-c",
          f"env -i /usr/bin/curl -sS -m 60 {web.url}a; head -1 /etc/ssl/certs/ca-certificates.crt; grep -c BEGIN $SSL_CERT_FILE")
    tap.eq(r.out, "hello /a\n# whom this root trusts\n1\n", f"{c.who}: the certificate bundle of a --root trusts the sandbox's authority", r)
    with open(bundle, encoding="ascii") as f:
        tap.eq(f.read(), "# whom this root trusts", f"{c.who}: the bundle in the --root directory is unchanged")


def words(tap, c):
    who = c.who
    for args, wanted in ((("--net", "open"), "none, observe or enforce|none observe enforce|--net"),
                         (("--net", "none", "--allow", "a.test"), "--allow and --net none exclude each other"),
                         (("--net", "none", "--policy", "/etc/passwd"), "--policy and --net none exclude each other"),
                         (("--policy", "/no/such/file"), "/no/such/file"),
                         (("--net", "none", "--resolver", "9.9.9.9"), "--resolver and --net none exclude each other"),
                         (("--resolver", "dns.example.test"), "expected a resolver's address: 9.9.9.9"),
                         (("--resolver", "9.9.9.9:0"), "expected a resolver's address"),
                         (("--resolver", "224.0.0.251"), "multicast address"),
                         (("--allow", "*.com"), r"\*\.com"),
                         (("--allow", "a b"), "a b"),
                         (("--allow", "a.test:99999"), "99999"),
                         (("--allow", "@no-such"), "no-such")):
        r = c("run", *args, "--", "true")
        tap.ok(r.code in (2, 125) and re.search(wanted, r.err), f"{who}: {' '.join(args)} is refused with a reason", r)
    bad = file_of(c, "bad.yaml", "version: 1\negress:\n  alow:\n    - domain: a.test\n")
    r = c("run", "--policy", bad, "--", "true")
    tap.ok(r.code == 125 and "bad.yaml:3" in r.err and "allow" in r.err, f"{who}: a broken policy is refused with its line", r)
    r = c("run", "--", "sh", "-c", "cat /etc/resolv.conf")
    tap.eq(r.code, 0, f"{who}: coffer run without options starts with a network", r)
    starts = log(c, "run.start")
    tap.ok(starts[-1]["net"] == "enforce" and starts[-1]["policy_digest"], f"{who}: coffer run without options logs net enforce and a policy", starts[-1])
    r = c("run", "--net", "none", "--", "curl", "-sS", "-m", "60", "http://5.5.5.5/")
    tap.ok(r.code == 7 and log(c, "run.start")[-1]["net"] == "none", f"{who}: --net none has no route to an address", r)


def conflicts(tap, c):
    """An option of the command line without effect is reported before the start."""
    who = c.who
    path = file_of(c, "strict.yaml", "mode: enforce\nresolvers: [9.9.9.9]\nallow: [a.test]\ndeny: [{domain: b.test}]\n")
    r = c("run", "--net", "observe", "--policy", path, "--allow", "a.test", "--allow", "b.test", "--allow", "c.test:80",
          "--resolver", "9.9.9.9", "--resolver", "8.8.8.8", "--", "true")
    said = [line for line in r.err.splitlines() if "so it stays denied" in line or "stricter wins" in line]
    tap.ok(r.code == 0 and len(said) == 4, f"{who}: each conflict of command line and policy file has a line", r)
    tap.like(r.err, r"^coffer: --net observe: .*strict\.yaml says 'mode: enforce'", f"{who}: the conflict of --net and the file's mode is reported", r)
    tap.like(r.err, r"^coffer: --resolver 8\.8\.8\.8: not used", f"{who}: a --resolver that the file does not name is reported", r)
    tap.like(r.err, r"^coffer: warning: --allow allows b\.test:443, but policy strict\.yaml does not.*strict\.yaml:4", f"{who}: an --allow that the file denies is reported with the rule's line", r)
    tap.like(r.err, r"^coffer: warning: --allow allows c\.test:80, but policy strict\.yaml does not, so it stays denied$", f"{who}: an --allow that no rule of the file allows is reported", r)
    r = c("run", "--policy", path, "--allow", "a.test", "--resolver", "9.9.9.9", "--", "true")
    tap.ok(r.code == 0 and "a.test" not in r.err and "9.9.9.9" not in r.err, f"{who}: options that agree with the file cause no message", r)
    start = log(c, "run.start")[-1]
    tap.eq(start.get("resolvers"), ["9.9.9.9"], f"{who}: run.start has the resolver", start)
    r = c("run", "--policy", path, "--resolver", "8.8.8.8", "--", "true")
    tap.ok(r.code == 125 and "no resolver is in both lists" in r.err, f"{who}: coffer run without a resolver that both allow is refused", r)


def resolver(tap, c, net, good, other):
    """Names are asked of the resolver that was named, and of no other."""
    system, its = len(net.queries) - len(other.requests), len(other.requests)
    r = c("run", "--allow", GOOD, "--resolver", f"{other.address}:{other.port}", "-v", f"{net.ca}:/ca.pem", "--", "curl",
          "-sS", "-m", "60", "--cacert", "/ca.pem", good.url)
    tap.eq(r.out, "hello /\n", f"{c.who}: a name is resolved with --resolver", r)
    tap.ok(len(other.requests) > its and len(net.queries) - len(other.requests) == system,
           f"{c.who}: only the resolver of --resolver is asked", (other.requests, net.queries))


def places(tap, c):
    """A policy that the sandbox could write is no policy."""
    who, good = c.who, policy(GOOD)
    inside = c.write("policy.yaml", good, 0o600)
    outside = file_of(c, "policy.yaml", good)
    shared = os.path.join(c.home, "shared")
    os.mkdir(shared)
    c.own(shared)
    os.rename(file_of(c, "p.yaml", good), os.path.join(shared, "p.yaml"))
    link = os.path.join(c.home, "link.yaml")
    os.symlink(inside, link)
    rw, turned = f"{c.work}:rw", os.path.join(c.work, "turned.yaml")
    os.symlink(outside, turned)
    owner = os.stat(c.home)
    for path in (link, turned):
        os.lchown(path, owner.st_uid, owner.st_gid)
    for args, name in ((("-C", rw, "--policy", inside), "in a writable workspace"),
                       (("-C", rw, "--policy", link), "by a link into it"),
                       (("-C", rw, "--policy", turned), "by a link in it that leads outside"),
                       (("--ephemeral", "-v", f"{shared}:/mnt:rw", "--policy", os.path.join(shared, "p.yaml")),
                        "in a directory that is bound writable")):
        r = c("run", *args, "--", "true")
        tap.ok(r.code == 125 and "may write" in r.err, f"{who}: a policy {name} is refused", r)
    for args, name in ((("-C", rw, "--policy", outside), "outside"),
                       (("-C", c.work, "--policy", inside), "in a workspace under a layer"),
                       (("--ephemeral", "-v", f"{shared}:/mnt:ro", "--policy", os.path.join(shared, "p.yaml")),
                        "in a directory that is only shown")):
        r = c("run", *args, "--", "true")
        tap.eq(r.code, 0, f"{who}: a policy {name} is accepted", r)
    state, kept = c.state + "-link", os.path.join(c.state, "homes", "h", "p.yaml")
    os.symlink(c.state, state)
    tap.eq(c("run", "--home", "h", "--net", "none", "--", "true", env={"COFFER_STATE": state}).code, 0, f"{who}: control: a named home is made")
    os.rename(file_of(c, "p.yaml", good), kept)
    r = c("run", "--home", "h", "--policy", kept, "--", "true", env={"COFFER_STATE": state})
    tap.ok(r.code == 125 and "may write" in r.err, f"{who}: a policy in the sandbox's home is refused, also through a link to the state", r)
    os.unlink(state)
    os.chmod(outside, 0o666)
    r = c("run", "--policy", outside, "--", "true")
    tap.ok(r.code == 125 and "policy.yaml" in r.err, f"{who}: a policy that everybody may write is refused", r)
    os.unlink(inside)
    os.unlink(turned)


def last_packet(tap, c):
    """A packet that is refused in the last moment of a run is in the log, although nothing was started to count it before."""
    r = c("run", "--allow", GOOD, "--", "bash", "-c", "echo x > /dev/udp/9.9.9.9/4444")
    seen = [e for e in log(c, "net.refused") if e.get("port") == 4444]
    tap.ok(seen and seen[0]["addr"] == "9.9.9.9" and seen[0]["proto"] == "udp", f"{c.who}: a run's last packet is in the log", r,
           seen)


def turn(link, to):
    """A link, as config management has it: a new one takes the place of the old."""
    owner = os.stat(os.path.dirname(link))
    os.symlink(to, link + ".new")
    os.lchown(link + ".new", owner.st_uid, owner.st_gid)
    os.rename(link + ".new", link)


def reload_paths(tap, c, net, evil):
    """The policy is given by a path that leads over links and directories, each of which is turned or replaced."""
    who = c.who
    top = os.path.join(c.home, "conf")
    for d in ("conf/r1/..v1", "conf/r1/..v2", "conf/r2/..v1", "conf.other/now/..v1"):
        os.makedirs(os.path.join(c.home, d))
    for d, names in (("conf/r1/..v1", (GOOD, EVIL)), ("conf/r1/..v2", (GOOD,)), ("conf/r2/..v1", (EVIL,)),
                     ("conf.other/now/..v1", ("other.example.test",))):
        with open(os.path.join(c.home, d, "policy.yaml"), "w", encoding="utf-8") as f:
            f.write(policy(*names) + "  blocklists: [{category: ads, file: ads.txt}]\n")
        with open(os.path.join(c.home, d, "ads.txt"), "w", encoding="utf-8") as f:
            f.write("ads.example.test\n")
    for d in ("conf/r1", "conf/r2", "conf.other/now"):
        os.symlink("..v1", os.path.join(c.home, d, "..data"))
        os.symlink("..data/policy.yaml", os.path.join(c.home, d, "policy.yaml"))
    os.symlink("r1", os.path.join(top, "now"))
    for d in ("conf", "conf.other"):
        subprocess.run(["chown", "-hR", f"--reference={c.home}", os.path.join(c.home, d)], check=True)
        subprocess.run(["chmod", "-R", "go-w", os.path.join(c.home, d)], check=True)
    box = Sandbox(tap, c, net, "--policy", os.path.join(top, "now", "policy.yaml"))
    tap.ok(box.reaches(evil.url), f"{who}: a policy at a path over three links is in force")
    turn(os.path.join(top, "r1", "..data"), "..v2")
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == 1) and not box.reaches(evil.url),
           f"{who}: turning a link in the path to a stricter policy reloads it", box.log("policy.change", "policy.broken"))
    turn(os.path.join(top, "now"), "r2")
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == 2) and box.reaches(evil.url),
           f"{who}: turning a link to a directory in the path reloads the policy", box.log("policy.change", "policy.broken"))
    os.rename(top, top + ".away")
    broken = wait_for(lambda: box.log("policy.broken"))
    tap.ok(broken and "No such file" in broken[0]["error"], f"{who}: a policy that is gone is logged as broken", broken)
    tap.ok(box.reaches(evil.url), f"{who}: the policy in force stays when its file is gone")
    os.rename(os.path.join(c.home, "conf.other"), top)
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == 3) and not box.reaches(evil.url),
           f"{who}: replacing a directory in the path reloads the policy", box.log("policy.change", "policy.broken"))
    blocked = os.path.join(top, "now", "..v1", "ads.txt")
    os.rename(blocked, blocked + ".1")
    os.symlink("ads.txt.1", blocked)
    c.own(blocked)
    with open(blocked + ".2", "w", encoding="utf-8") as f:
        f.write("more.example.test\n")
    c.own(blocked + ".2")
    turn(blocked, "ads.txt.2")
    tap.ok(wait_for(lambda: len(box.log("policy.change")) == 4), f"{who}: turning a link to a blocklist reloads the policy",
           box.log("policy.change", "policy.broken"))
    tap.eq(len(box.log("policy.broken")), 1, f"{who}: a broken policy is logged once")
    box.close()
    for d in (top, top + ".away"):
        shutil.rmtree(d)


def reload(tap, c, net, good, evil):
    who = c.who
    path = file_of(c, "live.yaml", policy(GOOD))
    box = Sandbox(tap, c, net, "--policy", path)
    tap.ok(box.reaches(good.url) and not box.reaches(evil.url), f"{who}: control: the first policy is in force")
    file_of(c, "live.yaml", policy(GOOD, EVIL))
    tap.ok(wait_for(lambda: box.reaches(evil.url)), f"{who}: a rule that was added counts without a restart")
    change = wait_for(lambda: box.log("policy.change"))
    tap.ok(change and change[0]["before"] != change[0]["digest"] and change[0]["generation"] == 2,
           f"{who}: the change is logged with both digests", change)
    file_of(c, "live.yaml", "allow: [")
    broken = wait_for(lambda: box.log("policy.broken"))
    tap.ok(broken and "live.yaml" in broken[0]["error"], f"{who}: a broken policy file is logged", broken)
    tap.ok(box.reaches(evil.url), f"{who}: the policy in force stays when its file is broken")
    hold = c.popen("exec", "-i", "box", "--", "openssl", "s_client", "-quiet", "-servername", EVIL, "-connect",
                   f"{EVIL}:443", stdin=subprocess.PIPE)
    opened = wait_for(lambda: [e for e in box.log("net.open") if e["name"] == EVIL and e["decision"] == "allow"])
    tap.ok(opened and hold.poll() is None, f"{who}: control: a connection to a host of the policy is open")
    file_of(c, "live.yaml", policy(GOOD))
    try:
        hold.wait(60)
    except subprocess.TimeoutExpired:
        pass
    tap.ok(hold.poll() is not None, f"{who}: removing a rule ends its open connection")
    hold.kill()
    hold.communicate()
    tap.ok(wait_for(lambda: not box.reaches(evil.url)) and box.reaches(good.url), f"{who}: hosts that stay in the policy are reached after a rule was removed")
    box.close()


def inspected_later(tap, c, net, good, first_packet):
    """A change of the policy that brings the first rule to look into TLS: what starts then trusts the authority."""
    who = f"{c.who}{', network in use' if first_packet else ''}"
    path = file_of(c, "later.yaml", policy(GOOD))
    box = Sandbox(tap, c, net, "--policy", path)

    def inside(script):
        return c("exec", "box", "--", "sh", "-c", script)
    r = inside("echo $SSL_CERT_FILE; wc -c <$NODE_EXTRA_CA_CERTS; grep -c BEGIN /run/coffer/ca-bundle.pem")
    where, size, store = r.out.split()
    tap.ok(where == "/run/coffer/ca-bundle.pem" and size == "0" and int(store) > 0,
           f"{who}: the authority's file is empty before a rule inspects TLS", r)
    if first_packet:
        tap.ok(box.reaches(good.url), f"{who}: control: the server is reached with its own certificate")
        r = inside(f"curl -sS -m 60 {good.url}")
        tap.ok(r.code != 0, f"{who}: control: the sandbox does not trust the server's own certificate", r)
    else:
        tap.ok(part(c, "coffer-egress") is None, f"{who}: control: coffer-egress does not run before the first packet")
    file_of(c, "later.yaml", policy(GOOD, extra="      http:\n        - allow: GET /**\n"))
    tap.ok(wait_for(lambda: "BEGIN" in inside("cat /run/coffer/ca.pem").out), f"{who}: the authority's certificate appears when a rule inspects TLS")
    r = wait_for(lambda: (lambda x: x if x.code == 0 else None)(inside(f"curl -sS -m 60 {good.url}")))
    tap.ok(r and r.out == "hello /\n", f"{who}: new programs trust the authority that was added", r or inside(f"curl -sS -m 60 {good.url}"))
    r = inside(f"curl -sS -m 60 -X POST {good.url}")
    tap.like(r.out, "does not list POST", f"{who}: TLS is inspected after the reload", r)
    r = inside("grep -c BEGIN $SSL_CERT_FILE; grep -c BEGIN $NODE_EXTRA_CA_CERTS")
    tap.eq(r.out.split(), [str(int(store) + 1), "1"], f"{who}: the added certificate follows the existing ones in the bundle", r)
    r = inside("for f in ca.pem ca-bundle.pem; do echo x >>/run/coffer/$f && echo written; rm /run/coffer/$f && echo gone; done;"
               " tail -n 1 /run/coffer/ca.pem")
    tap.eq(r.out, "-----END CERTIFICATE-----\n", f"{who}: commands cannot change the certificate files", r)
    part_pid = part(c, "coffer-egress")
    os.kill(part_pid, signal.SIGKILL)
    tap.ok(wait_for(lambda: part(c, "coffer-egress") not in (None, part_pid)), f"{who}: coffer-egress is restarted after a kill")
    r = wait_for(lambda: (lambda x: x if x.code == 0 else None)(inside(f"curl -sS -m 60 {good.url}")))
    tap.ok(r, f"{who}: the restarted coffer-egress uses the same authority", r)
    tap.eq(inside("grep -c BEGIN $NODE_EXTRA_CA_CERTS").out, "1\n", f"{who}: the authority is in the file once after a restart")
    box.close()


def deaths(tap, c, net, good, evil):
    who = c.who
    box = Sandbox(tap, c, net, "--allow", GOOD)
    tap.ok(part(c, "coffer-egress") is None, f"{who}: coffer-egress does not run before the first packet")
    tap.ok(box.reaches(good.url), f"{who}: an allowed host is reached")
    before = box.address(GOOD)
    for name in ("coffer-egress", "coffer-dial"):
        pid, downs, ups = part(c, name), len(box.log("net.down")), len(box.log("net.up"))
        os.kill(pid, signal.SIGKILL)
        tap.ok(wait_for(lambda d=downs: len(box.log("net.down")) > d), f"{who}: the death of {name} is logged")
        tap.ok(wait_for(lambda u=ups: len(box.log("net.up")) > u) and part(c, name) not in (None, pid),
               f"{who}: {name} is restarted after a kill")
        tap.ok(wait_for(lambda: box.reaches(good.url)) and not box.reaches(evil.url),
               f"{who}: only allowed hosts are reached after {name} was killed", box.get(good.url))
    tap.eq(box.address(GOOD), before, f"{who}: a name keeps its address after a restart")
    guard = next(p for p, _ in descendants(os.getpid()) if (proc_stat(p) or (0, 0, ""))[2] == "coffer-guard")
    os.kill(guard, signal.SIGKILL)
    tap.ok(wait_for(lambda: part(c, "coffer-egress") is None and part(c, "coffer-dial") is None),
           f"{who}: coffer-egress and coffer-dial end with the guard")
    tap.ok(wait_for(lambda: [e for e in box.log("net.down") if e.get("part") == "guard"]), f"{who}: the death of the guard is logged")
    tap.ok(not box.reaches(good.url), f"{who}: a sandbox without its guard has no network")
    r = c("exec", "box", "--", "echo", "alive")
    tap.eq(r.out, "alive\n", f"{who}: a sandbox without its guard still runs commands", r)
    box.close()


def missing(tap, c, net, good, name):
    """A helper that cannot be started ends the sandbox."""
    report = os.path.join(c.tmp, "report.json")
    os.rename(os.path.join(c.bin, name), os.path.join(c.bin, "away"))
    r = c("run", "--allow", GOOD, "--report", report, "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c",
          f"curl -sS -m 60 --cacert /ca.pem {good.url}; sleep 100")
    with open(report, encoding="utf-8") as f:
        o = json.load(f)
    tap.ok(r.code == 125 and o["cause"] == "network" and name in r.err,
           f"{c.who}: a missing {name} ends a sandbox that uses the network, and is named", r, o)
    tap.eq(log(c, "run.end")[-1]["cause"], "network", f"{c.who}: run.end has the cause network when {name} is missing")
    r = c("run", "--allow", GOOD, "--", "echo", "no network wanted")
    tap.eq((r.code, r.out), (0, "no network wanted\n"), f"{c.who}: a sandbox without network use runs without {name}", r)
    os.rename(os.path.join(c.bin, "away"), os.path.join(c.bin, name))
    os.unlink(report)


def observe(tap, c, net, evil):
    r = c("run", "--net", "observe", "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c",
          f"curl -sS -m 60 --cacert /ca.pem {evil.url}o; curl -sS -m 60 http://10.1.2.3/; curl -sS -m 60 http://169.254.169.254/")
    tap.ok(r.out.startswith("evil /o"), f"{c.who}: --net observe allows hosts that no rule names", r)
    tap.ok("lan" not in r.out and "denied" in r.out, f"{c.who}: --net observe denies the local network", r)


def own_addresses(tap, c, net, own, evil):
    """No address of the host is dialled, a secondary one neither, whatever leads to it."""
    came = len(own.connections) + 1
    r = net.run_as("root", ["python3", "-c", f"import socket; socket.create_connection(({own.address!r}, 80), 20)"])
    # The kernel completes the connection; the server accepts it in its own time.
    tap.ok(r.returncode == 0 and wait_for(lambda: len(own.connections) == came),
           f"{c.who}: control: the host's secondary address can be reached from the host", r.stderr)
    r = c("run", "--net", "observe", "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c",
          f"for h in {own.address} {OWN} {OWN_ALIAS}; do curl -sS -m 60 http://$h/; done; curl -sS -m 60 --cacert /ca.pem {evil.url}o")
    tap.ok("evil /o" in r.out, f"{c.who}: control: another host is dialled", r)
    tap.ok(len(own.connections) == came and "44.0.0.7 is this host itself" in r.out + r.err,
           f"{c.who}: the host's secondary address is not dialled, by address, name or alias", r, own.connections)


def failed_lookups(tap, c):
    """Repeated lookups of an allowed name that does not exist are failures, also where they are only counted."""
    r = c("run", "--allow", "*.absent.test", "--", "sh", "-c",
          "for i in 1 2 3 4 5 6; do getent ahosts a.absent.test; done; exit 0")
    sums = [e for e in map(json.loads, c("net", "log", "--json", "@last").out.splitlines()) if e.get("name") == "*"]
    tap.ok(r.code == 0 and sums and all("a.absent.test" in e["top"] and e["decision"] == "error" for e in sums),
           f"{c.who}: coffer net log counts repeated lookups that failed as errors", r, sums)
    tap.unlike(c("net", "log", "@last").out, "denied", f"{c.who}: coffer net log shows no failed lookup as denied")
    r = c("why", "@last")
    tap.ok("nothing was denied" in r.out + r.err, f"{c.who}: coffer why counts no failed lookup as a denial", r)


def killed_launcher(tap, c, net, good):
    """The end of a launcher that was killed: the guard folds, ends both, and writes the end."""
    p = c.popen("run", "--allow", GOOD, "-v", f"{net.ca}:/ca.pem", "--", "sh", "-c",
                f"curl -sS -m 60 --cacert /ca.pem {good.url}; sleep 1000")
    up = wait_for(lambda: part(c, "coffer-egress"))
    line = p.stdout.readline()
    kids = [p.pid] + [pid for pid, _ in descendants(p.pid)]
    launcher = next(pid for pid in kids if (proc_stat(pid) or (0, 0, ""))[2] == "coffer")
    os.kill(launcher, signal.SIGKILL)
    tap.ok(up and line == b"hello /\n" and wait_for(lambda: part(c, "coffer-egress") is None), f"{c.who}: coffer-egress ends after the launcher was killed")
    p.communicate()
    end = wait_for(lambda: [e for e in log(c, "run.end") if e["cause"] == "caller"])
    opens = [e for e in log(c, "net.open") if end and e["sandbox"] == end[-1]["sandbox"]]
    tap.ok(end and len(opens) == 1 and opens[0]["seq"] < end[-1]["seq"], f"{c.who}: connections of a killed launcher are logged before run.end", end, opens)


def swept(tap, c, net, good):
    """Launcher and guard killed at once: whoever comes next folds what was not."""
    r = c("run", "-d", "--allow", GOOD, "-v", f"{net.ca}:/ca.pem", "--", "sleep", "1000")
    sid = r.out.strip()
    c("exec", sid, "--", "true")
    meta = json.loads(open(os.path.join(c.state, "runs", sid, "meta.json"), encoding="utf-8").read())
    guard = next(p for p, _ in descendants(os.getpid()) if (proc_stat(p) or (0, 0, ""))[2] == "coffer-guard")
    os.kill(guard, signal.SIGSTOP)
    p = c.popen("exec", sid, "--", "curl", "-sS", "-m", "60", "--cacert", "/ca.pem", good.url)
    os.kill(guard, signal.SIGCONT)
    tap.ok(p.communicate()[0].startswith(b"hello"), f"{c.who}: a request succeeds after its guard was stopped for a moment")
    os.kill(guard, signal.SIGSTOP)
    box = [pid for pid, _ in descendants(os.getpid()) if (proc_stat(pid) or (0, 0, ""))[2] == "coffer"]
    c("exec", sid, "--", "curl", "-sS", "-m", "60", "--cacert", "/ca.pem", f"http://{GOOD}/")
    for pid in [guard] + box:
        os.kill(pid, signal.SIGKILL)
    tap.ok(meta["net"] == "enforce" and wait_for(lambda: part(c, "coffer-egress") is None), f"{c.who}: coffer-egress ends when guard and launcher are killed", meta)
    wait_for(lambda: c("run", "--net", "none", "--", "true").code == 0 and log(c, "run.end", sandbox=sid))
    events = log(c, "net.open", "run.end", sandbox=sid)
    denied = [e for e in events if e["type"] == "net.open" and e["port"] == 80]
    tap.ok(denied and events[-1]["type"] == "run.end", f"{c.who}: the next coffer logs the journal of a killed sandbox before run.end", events)
    c("rm", sid)


def started_again(tap, c, net, good, evil):
    """A sandbox that is rolled back comes with the network that it had."""
    box = Sandbox(tap, c, net, "--allow", GOOD)
    c("checkpoint", "box")
    r = c("rollback", "box")
    tap.eq(r.code, 0, f"{c.who}: coffer rollback succeeds", r)
    tap.ok(wait_for(lambda: box.reaches(good.url)) and not box.reaches(evil.url), f"{c.who}: a sandbox has the same network after a rollback",
           box.get(good.url))
    box.close()


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("the network of coffer run", reason)
        tap.done()
    for who in identities(tap):
        with coffer_as(who) as c:
            words(tap, c)
            conflicts(tap, c)
            places(tap, c)
            c.check_clean(tap)
    with Internet() as net:
        good = net.https(GOOD, lambda q: f"hello {q.path}\n")
        net.http(GOOD, lambda q: "plain\n")
        evil = net.https(EVIL, lambda q: f"evil {q.path}\n")
        net.http(None, lambda q: "lan\n", address="10.1.2.3")
        net.http(None, lambda q: "lan\n", address="169.254.169.254")
        other = net.resolver("6.6.6.53", 5353)
        net.gw.batch("addr add 44.0.0.1/24 dev gw0\naddr add 44.0.0.7/24 dev gw0")
        own = net.tcp(OWN, 80, address="44.0.0.7", where=net.gw)
        net.dns[OWN_ALIAS] = f"CNAME {OWN}"
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                last_packet(tap, c)
                visit(tap, c, net, good, evil)
                if whole or c.engine == "ns":  # the resolver is asked outside
                    resolver(tap, c, net, good, other)
                inspected(tap, c, good)
                own_root(tap, c, good)
                observe(tap, c, net, evil)
                own_addresses(tap, c, net, own, evil)
                failed_lookups(tap, c)
                if c.engine == "ns" or who == "user":
                    deaths(tap, c, net, good, evil)
                if c.engine == "ns" or who == "user":
                    inspected_later(tap, c, net, good, True)
                if c.engine == "ns":
                    inspected_later(tap, c, net, good, False)
                    reload(tap, c, net, good, evil)
                    if who == "root":
                        reload_paths(tap, c, net, evil)
                    for name in ("coffer-dial", "coffer-netd"):
                        missing(tap, c, net, good, name)
                    killed_launcher(tap, c, net, good)
                    swept(tap, c, net, good)
                    started_again(tap, c, net, good, evil)
                c.check_clean(tap)
    tap.done()


main()
