# SPDX-License-Identifier: Apache-2.0
"""Placeholders that are not this sandbox's: of an earlier run, another home, a secret that it was not given. The real coffer-egress tells
them by the state directory's mark wherever it reads requests; what is no placeholder of ours goes on as it is."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import egressrig  # noqa: E402
import httptest as ht  # noqa: E402
from coffertest import Tap  # noqa: E402
from egressrig import PATIENCE, FakeVault, Rig, grants, marked  # noqa: E402

egressrig.enter()
tap = Tap()
TMP = tempfile.TemporaryDirectory(prefix="stale-")
D = TMP.name
CA = ht.Authority(D)
TRUST = os.path.join(D, "inside.pem")
SEED, OTHER_SEED = "5a" * 32, "a5" * 32
PH = marked(SEED, "sk-proj-" + "Ab1Cd2Ef3Gh4" * 4)
STALE = marked(SEED, "sk-proj-" + "Zy9Xw8Vu7Ts6" * 4)
HEX = marked(SEED, "0123456789abcdef" * 3)
FOREIGN = marked(OTHER_SEED, "sk-proj-" + "Qp5Rn4Mk3Jh2" * 4)  # of another state directory: any other word
REAL = "sk-proj-" + "Real0Key1" * 5
POLICY = """
version: 1
egress:
  allow:
    - {domain: api.example.test, port: [443, 80], http: [{allow: "* /**"}]}
    - {domain: free.example.test, port: 443, http: [{allow: "* /**"}]}
    - {domain: only.example.test, port: 443, http: [{allow: "* /**"}], credentials: only}
"""
SECRET = f"openai 7 {PH}|api.example.test bearer|api.example.test basic|only.example.test bearer"
REMEDY = "earlier run"


def curl(url, *args, version="--http1.1"):
    env = {"PATH": os.environ["PATH"], "HOME": D}
    r = subprocess.run(["curl", "-sS", version, "--cacert", TRUST, "--max-time", str(int(PATIENCE)), "-w", "\n%{http_code}", *args, url],
                       env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    body, _, code = r.stdout.decode("latin-1").rpartition("\n")
    return int(code or 0), body


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def half(text):
    """Percent-encoded in part."""
    return "".join(f"%{ord(c):02x}" if i % 2 else c for i, c in enumerate(text))


def heads(token):
    """Everywhere in a head, as it is and encoded."""
    yield "as a bearer", ["-H", f"Authorization: Bearer {token}"], "/v1"
    yield "in a header of its own", ["-H", f"X-Api-Key: {token}"], "/v1"
    for user in ("u", "us", "use"):
        yield f"in a Basic credential ({user})", ["-H", basic(user, token)], "/v1"
    yield "in the query", [], f"/v1?key={token}"
    yield "percent-encoded in the query", [], f"/v1?key={half(token)}"
    yield "in the path", [], f"/bot{token}/send"
    yield "in a cookie", ["-b", f"sid={token}"], "/v1"
    yield "in base64url in the query", [], "/v1?k=" + base64.urlsafe_b64encode(b"." + token.encode()).decode().rstrip("=")


def refused(what, got, server, before, word=REMEDY):
    code, body = got
    tap.ok(code == 403 and word in body, f"a stale placeholder {what} is refused, with the reason", code, body[:300])
    tap.eq(len(server.requests), before, f"a stale placeholder {what} does not reach the server")


def in_heads(rig, host, server):
    for version in ("--http1.1", "--http2"):
        for what, args, path in heads(STALE):
            before = len(server.requests)
            refused(f"{what} to {host} ({version})", curl(f"https://{host}.example.test{path}", *args, version=version), server, before)
    refused(f"of hex digits to {host}", curl(f"https://{host}.example.test/v1", "-H", f"X-Key: {HEX}"), server, len(server.requests))
    bad = [what for what, args, path in heads(FOREIGN) if curl(f"https://{host}.example.test{path}", *args)[0] != 200]
    tap.eq(bad, [], f"foreign tokens that resemble a placeholder reach {host} unchanged")


def own(rig, api):
    code, body = curl("https://api.example.test/v1", "-H", f"Authorization: Bearer {PH}")
    tap.ok(code == 200 and api.last("/v1").get("authorization") == f"Bearer {REAL}", "this sandbox's own placeholder is replaced by the value", code, body)
    code, body = curl("https://api.example.test/v2", "-H", basic("user", PH))
    tap.eq(code, 200, "this sandbox's own placeholder is replaced in a Basic credential")
    code, body = curl("https://api.example.test/v1", "-H", f"Authorization: Bearer {STALE}")
    tap.ok("'openai'" in body and "log in again" in body, "the refusal names the secret of the host and what to do", body)
    code, body = curl("https://api.example.test/v1", "-H", f"Authorization: Bearer {PH}", "-H", f"X-Old: {STALE}")
    tap.ok(code == 403 and REMEDY in body, "a stale placeholder beside a valid one is refused", body)
    code, body = curl("http://api.example.test/v1", "-H", f"Authorization: Bearer {STALE}")
    tap.ok(code == 403 and REMEDY in body, "a stale placeholder without TLS is refused", body)
    alerts = rig.events("alert", kind="secret", name="api.example.test")
    tap.ok(any(REMEDY in a["text"] for a in alerts) and not any(STALE in json.dumps(a) for a in alerts),
           "a stale placeholder is logged without its text", alerts[:2])


def in_bodies(rig, api, free):
    for what, data in (("as it is", STALE), ("in JSON", json.dumps({"messages": ["my key is " + STALE]})),
                       ("in base64", base64.b64encode(b"xy" + STALE.encode()).decode()), ("percent-encoded", half(STALE)),
                       ("escaped", "".join(f"\\u{ord(c):04x}" for c in STALE))):
        before = len(free.requests)
        refused(f"{what} in a body", curl("https://free.example.test/up", "-H", "Content-Type: text/plain", "--data-raw", data), free, before)
    code, _ = curl("https://free.example.test/up", "--data-raw", "my key is " + FOREIGN)
    tap.eq(code, 200, "a body with a foreign token that resembles a placeholder is sent")
    with open(os.path.join(D, "long"), "w", encoding="ascii") as f:
        f.write("x" * 100000 + STALE + "y" * 100000)
    got = curl("https://free.example.test/long", "--data-binary", "@" + os.path.join(D, "long"))
    tap.ok(got[0] == 403 and STALE.encode() not in b"".join(r.body for r in free.requests), "a long body with a stale placeholder is cut off before the placeholder",
           got[0])
    before = len([x for x in rig.lines() if x.get("ev") == "alert"])
    for _ in range(2):
        code, _ = curl("https://api.example.test/chat", "-H", f"Authorization: Bearer {PH}", "--data-raw", "my key was " + STALE)
        tap.eq(code, 200, "a body with a stale placeholder is sent to a host with a bound secret")
    alerts = [x for x in rig.lines() if x.get("ev") == "alert"][before:]
    tap.eq(len([a for a in alerts if "given once" in a["text"]]), 1, "a stale placeholder in a sent body causes one alert")
    code, _ = curl("https://api.example.test/chat", "-H", f"Authorization: Bearer {PH}", "--data-raw", "mine is " + PH)
    tap.ok(code == 200 and len([x for x in rig.lines() if x.get("ev") == "alert"]) == before + len(alerts),
           "this sandbox's own placeholder in a body causes no alert")


def only(rig, server):
    before = len(server.requests)
    refused("where only credentials that coffer inserts may go", curl("https://only.example.test/x", "-H", f"Authorization: Bearer {STALE}"), server,
            before)
    refused("in a body there", curl("https://only.example.test/x", "-H", "Content-Type: application/json", "--data-raw",
                                    json.dumps({"api_key": STALE})), server, before)
    code, body = curl("https://only.example.test/x", "-H", f"Authorization: Bearer {FOREIGN}")
    tap.ok(code == 403 and REMEDY not in body and "credentials of its own" in body, "control: a foreign credential is refused with another reason", body)
    code, _ = curl("https://only.example.test/x", "-H", f"Authorization: Bearer {PH}")
    tap.eq(code, 200, "control: the credential that coffer inserts is accepted")


def serve(rig, **servers):
    for name, server in servers.items():
        rig.dial[f"{name}.example.test"] = server.addr


def main():
    api, free, sole = (ht.Origin(CA.cert(x, f"{x}.example.test")) for x in ("api", "free", "only"))
    clear = ht.Origin(None, {})
    vault = FakeVault({7: REAL.encode()})
    with Rig(POLICY, store=CA.pem, secrets=grants(f"mark={SEED}", SECRET), vault=vault) as rig:
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        serve(rig, api=api, free=free, only=sole)
        rig.dial[("api.example.test", 80)] = clear.addr
        own(rig, api)
        in_heads(rig, "api", api)
        in_heads(rig, "free", free)
        in_bodies(rig, api, free)
        only(rig, sole)
    # A sandbox that was given no secret at all.
    with Rig(POLICY, store=CA.pem, secrets=grants(f"mark={SEED}")) as rig:
        with open(TRUST, "w", encoding="ascii") as f:
            f.write(rig.ca)
        serve(rig, api=api)
        for what, args, path in heads(STALE):
            refused(f"{what}, in a sandbox without secrets", curl(f"https://api.example.test{path}", *args), api, len(api.requests),
                    "--secret NAME")
        refused("in a body, in a sandbox without secrets", curl("https://api.example.test/up", "--data-raw", STALE), api, len(api.requests))
        code, _ = curl("https://api.example.test/v1?" + urllib.parse.urlencode({"k": FOREIGN}), "--data-raw", FOREIGN)
        tap.eq(code, 200, "control: a foreign token passes in a sandbox without secrets")
    tap.done()


main()
