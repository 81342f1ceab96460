# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Images from and to registries that want a password, with skopeo in a sandbox whose auth.json has only a placeholder: Basic on
every request, and the flow in which Basic buys a token."""

import base64
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import ocitest as oci  # noqa: E402
from coffertest import Tap, covering  # noqa: E402
from memsearch import has_any  # noqa: E402
from nettest import Internet, why_not  # noqa: E402
from registrytest import Registry  # noqa: E402

PASSWORD = "dckr_pat_" + base64.b32encode(os.urandom(20)).decode()[:27]
BASIC, TOKENS, AUTH = "basic.registry.test", "tokens.registry.test", "auth.registry.test"
POLICY = f"""version: 1
egress:
  allow:
    - {{domain: {BASIC}, port: 443, http: [{{allow: "* /v2/**"}}]}}
    - {{domain: {TOKENS}, port: 443, http: [{{allow: "* /v2/**"}}]}}
    - {{domain: {AUTH}, port: 443, http: [{{allow: "GET /token"}}]}}
"""
PULL = r"""
export HOME=/tmp
s() { skopeo --insecure-policy --tmpdir /tmp "$@" 2>&1 | tail -n 1; }
auth() { # FILE HOST PASSWORD
	printf '{"auths":{"%s":{"auth":"%s"}}}' $2 "$(printf 'robot:%s' "$3" | base64 -w 0)" >$1
}
auth /tmp/auth.json HOST "$REGISTRY"
s copy --authfile /tmp/auth.json docker://HOST/team/app:1 oci:/tmp/app:1 >/tmp/pull.log
echo "pull: $(cat /tmp/app/index.json /tmp/pull.log 2>/dev/null | tr '\n' ' ')"
"""
SCRIPT = PULL + r"""
auth /tmp/none.json HOST "not the placeholder at all"
echo "env: $REGISTRY"
echo "wrong: $(s copy --authfile /tmp/none.json docker://HOST/team/app:1 oci:/tmp/wrong:1)"
s copy --authfile /tmp/auth.json oci:/tmp/app:1 docker://HOST/team/BRANCH:2 >/tmp/push.log
echo "push: $(cat /tmp/push.log)"
echo "inspect: $(s inspect --authfile /tmp/auth.json --format '{{.Digest}}' docker://HOST/team/BRANCH:2)"
echo "login: $(printf %s "$REGISTRY" | s login --authfile /tmp/login.json -u robot --password-stdin HOST)"
"""


def visit(tap, c, name, host, reg, digest):
    who, refused = f"{c.who}: {name}", reg.refused
    branch = re.sub(r"\W", "-", f"{c.who:}-{c.engine}".lower())
    policy = os.path.join(c.home, "policy.yaml")
    with open(policy, "w", encoding="ascii") as f:
        f.write(POLICY)
    c.own(policy)
    r = c("run", "--engine", c.engine, "--ephemeral", "--policy", policy, "--secret", f"registry@{BASIC if host == BASIC else AUTH}",
          "--", "sh", "-c", SCRIPT.replace("HOST", host).replace("BRANCH", branch), timeout=240)
    got = dict(re.findall(r"^(\w+): ?(.*?) ?$", r.out, re.M))

    def line(word, wanted, text):
        tap.ok(re.search(wanted, got.get(word, ""), re.S), f"{who}: {text}", f"{word}: {got.get(word)!r}", r)
    line("env", r"^dckr_pat_\w{27}$", "the sandbox has a placeholder")
    line("wrong", "unauthorized|authentication|401|who are you|unable to retrieve auth token", "another password is refused")
    line("pull", digest, "an image is pulled")
    line("push", "Writing manifest|Storing signatures", "an image is pushed")
    line("inspect", digest, "a pushed image can be inspected")
    line("login", "Login Succeeded", "skopeo login succeeds")
    tap.ok(("team/" + branch, "2") in reg.manifests and reg.refused > refused, f"{who}: the registry has the pushed image and asked for passwords")
    tap.ok(not has_any((r.out + r.err).encode(), PASSWORD) and got.get("env") != PASSWORD, f"{who}: the sandbox sees no password", r)


def short(tap, c, digest):
    """A pull with a placeholder. The value in its place, and the header, are coffer-egress's, outside."""
    r = c("run", "--engine", c.engine, "--ephemeral", "--policy", c.put("policy.yaml", POLICY), "--secret", f"registry@{BASIC}", "--", "sh", "-c",
          PULL.replace("HOST", BASIC), timeout=240)
    tap.ok(re.search(f"^pull: .*{digest}", r.out, re.M) and not has_any((r.out + r.err).encode(), PASSWORD),
           f"{c.who}: an image is pulled with a placeholder for its password", r)


def main():
    tap = Tap()
    reason = why_not() or (None if shutil.which("skopeo") else "skopeo is not installed: tools/deps test")
    if reason:
        tap.skip("registries with passwords", reason)
        tap.done()
    with Internet() as net, tempfile.TemporaryDirectory(prefix="registry-") as base:
        image = oci.Layout([oci.layer(oci.directory("./"), oci.entry("data", os.urandom(300000), mode=0o644))], ref="app:1")
        image.write(os.path.join(base, "app"))
        basic, tokens = Registry("robot", PASSWORD), Registry("robot", PASSWORD, f"https://{AUTH}/token")
        for host, reg in ((BASIC, basic), (TOKENS, tokens)):
            reg.load("team/app", "1", os.path.join(base, "app"))
            net.https(host, reg.handle)
        net.https(AUTH, tokens.give_token)
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                r = c("secret", "set", "registry", "-", "--host", BASIC, "--host", AUTH, "--as", "basic", input=PASSWORD)
                tap.eq(r.code, 0, f"{who}: a password is put into the vault, for Basic", r)
                if whole:
                    visit(tap, c, "Basic", BASIC, basic, image.digest)
                    visit(tap, c, "tokens", TOKENS, tokens, image.digest)
                else:
                    short(tap, c, image.digest)
                c.check_clean(tap)
    tap.done()


main()
