# SPDX-License-Identifier: Apache-2.0
"""The object of a request stands in the log also when its path, its query or its second path is made very long: servers that drop
";parameters" read /v1;x=aaaa…/production as /v1/production. The real coffer-egress with a stand-in for its vault."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import PATIENCE, FakeVault, Rig, grants  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="long-path-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")
PH, REAL = "sk-proj-" + "Ab1Cd2Ef3Gh4" * 4, "sk-proj-" + "Real0Key1" * 5
POLICY = """
version: 1
egress:
  allow:
    - {domain: api.example.test, port: 443, http: [{allow: "* /**"}]}
"""
PAD = "a" * 900


def act(method, path, *args):
    r = subprocess.run(["curl", "-sS", "--http1.1", "--cacert", TRUST, "--max-time", str(int(PATIENCE)), "-o", "/dev/null", "-w", "%{http_code}",
                        "-X", method, "-H", f"Authorization: Bearer {PH}", *args, f"https://api.example.test{path}"],
                       env={"PATH": os.environ["PATH"], "HOME": D}, stdout=subprocess.PIPE, check=False)
    return r.stdout.decode()


def last(rig, ev):
    return rig.events(ev)[-1]


def paths(rig, server):
    for path, start, end in ((f"/v1;x={PAD}/production", "/v1;x=aaa", "/production"), (f"/v1%3Bx={PAD}/production", "/v1%3Bx=a", "/production"),
                             (f"/v1/{PAD}/one", "/v1/aaa", "/one"),
                             (f"/v1/{PAD}/two", "/v1/aaa", "/two")):
        tap.eq(act("DELETE", path), "200", f"a DELETE of {start}…{end} is allowed")
        tap.eq(server.requests[-1].target, path, f"(the path {start}…{end} reaches the server whole)")
        for ev in ("request", "secret"):
            logged = last(rig, ev)["path"]
            tap.ok(logged.startswith(start) and logged.endswith(end) and "...#" in logged and len(logged) <= 700,
                   f"the line of {ev} has beginning and end of the path {start}…{end}, and marks the middle as left out", logged)
    act("DELETE", f"/v1;x={PAD}/production;y={PAD}/now;z={PAD}")
    for ev in ("request", "secret"):
        tap.like(last(rig, ev)["path"], r"^/v1;x=aaaaa\.\.\.#\w{8}/production;y=\S*/now;z=aaaaa\.\.\.#\w{8}$",
                 f"the text between long parameters is in the line of {ev}")
    act("DELETE", f"/v1/{PAD}y{PAD}/two")
    act("DELETE", f"/v1/{PAD}x{PAD}/two")
    one, two = (e["path"] for e in rig.events("request")[-2:])
    tap.ok(one != two and one.endswith("/two") and two.endswith("/two"), "two paths that differ in the middle alone have different lines", one, two)
    for n in (1, 699, 700):
        path = "/v1/".ljust(n, "b") if n > 4 else "/"
        act("DELETE", path)
        tap.eq(last(rig, "request")["path"], path, f"(a path of {n} bytes is whole in the log)")


def queries(rig):
    many = "&".join(f"name{i}=v" for i in range(200))
    act("DELETE", f"/v1/q?{many}&id=1")
    act("DELETE", f"/v1/q?{many}&id=2")
    one, two = (e["path"] for e in rig.events("request")[-2:])
    tap.ok(one != two and one.startswith("/v1/q?name0=#"), "two queries that differ in the last of many parameters have different lines", one, two)
    act("DELETE", f"/v1;x={PAD}/q?{many}&id=3")
    logged = last(rig, "request")["path"]
    tap.ok("/q?name0=#" in logged and len(logged) < 1024, "a long path and a long query fit into one line", logged)


def second(rig):
    code = act("MOVE", "/v1/from", "-H", f"Destination: https://api.example.test/v1/{PAD}/production")
    logged = last(rig, "request").get("act", "")
    tap.ok(code == "200" and logged.startswith("also:MOVE:/v1/aaa") and logged.endswith("/production"),
           "a long second path has its beginning and its end in the log", code, logged)
    before = len([e for e in rig.events("request") if e.get("first")])
    act("MOVE", "/v1/from", "-H", f"Destination: https://api.example.test/v1/{PAD}/production")
    tap.eq(len([e for e in rig.events("request") if e.get("first")]), before + 1,
           "a long second path is new each time, because the log has only a digest of it")
    act("MOVE", "/v1/from", "-H", "Destination: https://api.example.test/v1/to")
    tap.eq(last(rig, "request").get("act"), "also:MOVE:/v1/to", "(a short second path is whole in the log)")


def main():
    server = ht.Origin(CA.cert("api", "api.example.test"))
    with Rig(POLICY, store=CA.pem, secrets=grants(f"openai 7 {PH}|api.example.test bearer"), vault=FakeVault({7: REAL.encode()})) as rig:
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        rig.dial["api.example.test"] = server.addr
        paths(rig, server)
        queries(rig)
        second(rig)
    tap.done()


main()
