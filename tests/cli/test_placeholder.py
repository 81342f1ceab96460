# SPDX-License-Identifier: Apache-2.0
"""Placeholders that programs save: with a named home a secret has the same one in every run, whatever becomes of the vault; of another home,
or of a run without one, it is refused with a reason. A real vault and a server that wants the key."""

import base64
import json
import os
import re
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ENGINES, Tap, identities  # noqa: E402
from nettest import Internet, why_not  # noqa: E402


def key():
    return "sk-proj-" + base64.b32encode(os.urandom(40)).decode()[:48]


KEYS = {key()}
# A program that logs in once: it saves what it finds in its variable, and sends what it has saved.
PROGRAM = """
test -e ~/auth || { printf %s "$OPENAI_API_KEY" > ~/auth; }
echo "env: $OPENAI_API_KEY"
echo "other: $OTHER"
echo "saved: $(cat ~/auth)"
echo "says: $(curl -sS -m 60 -H "Authorization: Bearer $(cat ~/auth)" https://api.test/v1 2>&1 | tr '\\n' ' ')"
"""


def server(q):
    got = q.headers.get("Authorization", "").removeprefix("Bearer ")
    SEEN.append(got)
    return (200, {}, "welcome\n") if got in KEYS else (401, {}, "who are you?\n")


SEEN = []


class Home:
    def __init__(self, tap, c):
        self.tap, self.c = tap, c

    def __call__(self, home, *args, secret="openai", program=PROGRAM):
        where = ["--home", home] if home else []
        given = ["--secret", secret] if secret else []
        r = self.c("run", "--engine", self.c.engine, *where, *given, "--allow", "api.test", *args, "--", "sh", "-c", program, timeout=200)
        for word in ("env", "other", "saved", "says"):
            setattr(r, word, (re.search(rf"^{word}: (.*)$", r.out, re.M) or [None, ""])[1])
        return r

    def ok(self, good, name, *detail):
        self.tap.ok(good, f"{self.c.who}: {name}", *detail)

    def set(self, name, value, *args):
        KEYS.add(value)
        r = self.c("secret", *(args or ("set",)), name, "-", *(() if args == ("rotate",) else ("--host", "api.test")), input=value)
        self.ok(r.code == 0, f"{name} is put into the vault ({' '.join(args) or 'set'})", r)


def stable(h):
    first = h("one")
    h.ok(first.says == "welcome " and first.env.startswith("sk-proj-") and len(first.env) == 56 and first.env not in KEYS,
         "a program works with the placeholder that it saved", first)
    again = h("one")
    h.ok(again.env == first.env and again.says == "welcome ", "a saved placeholder works in the next run with the same home", again)
    other = h("two")
    h.ok(other.env != first.env and other.says == "welcome ", "another home has another placeholder", other)
    h.set("other", key())
    both = h("one", "--secret", "other")
    h.ok(both.env == first.env and both.other and both.other != first.env, "another secret has another placeholder", both)
    h.ok(h("one", "--secret", "other").other == both.other, "the placeholder of a second secret stays the same")
    h.set("openai", key(), "rotate")
    r = h("one")
    h.ok(r.env == first.env and r.says == "welcome ", "a rotated secret keeps its placeholder, and the server gets the new value", r, SEEN[-1:])
    h.set("openai", "another-kind-of-key-" + "x" * 80, "rotate")
    r = h("one")
    h.ok(r.env == first.env and r.says == "welcome ", "a secret that is rotated to another length keeps its placeholder", r)
    h.ok(h.c("secret", "rm", "openai").code == 0, "coffer secret rm removes the secret")
    h.set("openai", key())
    r = h("one")
    h.ok(r.env == first.env and r.says == "welcome ", "a secret that is set again under its name has the same placeholder", r)
    h.ok(h.c("secret", "rekey", "--key-file", os.path.join(h.c.home, "another.key")).code == 0, "coffer secret rekey gives the vault another key")
    r = h("one")
    h.ok(r.env == first.env and r.says == "welcome ", "placeholders stay the same after a rekey", r)
    return first


def kept(h, first):
    path = os.path.join(h.c.state, "vault", "placeholders")
    st = os.stat(os.path.join(path, "one"))
    h.ok(stat.S_IMODE(st.st_mode) == 0o600 and stat.S_IMODE(os.stat(path).st_mode) == 0o700, "the file of placeholders is readable by its owner alone")
    with open(os.path.join(path, "one"), encoding="ascii") as f:
        text = f.read()
    h.ok(f"openai {first.env}\n" in text and not any(k in text for k in KEYS), "the file of placeholders has names and placeholders, and no value", text)
    with open(os.path.join(path, "two"), "w", encoding="ascii") as f:
        f.write("garbage\nopenai short\nopenai " + "x" * 40 + "\n\n")
    r = h("two")
    h.ok(r.code == 0 and r.env.startswith("sk-proj-") and "x" * 20 not in r.env, "a damaged line in the file of placeholders is ignored", r)


def stale(h, first):
    before = len(SEEN)
    r = h("two", program=PROGRAM.replace("~/auth", "/tmp/auth").replace("test -e /tmp/auth ||", f"printf %s {first.env} > /tmp/auth; test -e x &&"))
    h.ok("denied" in r.says and "another home" in r.says and "$OPENAI_API_KEY" in r.says, "a placeholder of another home is refused, with what to do", r)
    fresh, next_one = h(None), h(None)
    h.ok(fresh.says == next_one.says == "welcome " and fresh.env != next_one.env, "each run without a named home has a fresh placeholder", fresh, next_one)
    say = f'echo "says: $(curl -sS -m 60 -H "Authorization: Bearer {fresh.env}" https://api.test/v1 2>&1)"'
    r = h(None, program=say)
    h.ok("denied" in r.says and "earlier run" in r.says, "a placeholder of an earlier run is refused", r)
    policy = os.path.join(h.c.home, "look.yaml")
    with open(policy, "w", encoding="ascii") as f:
        f.write('version: 1\negress:\n  allow:\n    - {domain: api.test, port: 443, http: [{allow: "GET /**"}]}\n')
    h.c.own(policy)
    r = h.c("run", "--engine", h.c.engine, "--policy", policy, "--", "sh", "-c", say, timeout=200)
    h.ok("earlier run" in r.out and "--secret NAME" in r.out, "a placeholder of an earlier run is refused in a run without secrets", r)
    h.ok(not {first.env, fresh.env, next_one.env} & set(SEEN[before:]), "no refused placeholder has reached the server")
    events = [json.loads(x) for x in h.c("audit", "--json").out.splitlines()]
    alerts = [e for e in events if e["type"] == "net.alert" and "earlier run" in e.get("text", "")]
    h.ok(len(alerts) >= 3 and not any(first.env in json.dumps(e) or fresh.env in json.dumps(e) for e in alerts), "each refused placeholder is in the log as an alert", alerts[:1])


def forgotten(h, first):
    r = h.c("secret", "forget", "one")
    h.ok(r.code == 0, "coffer secret forget removes a home's placeholders", r)
    r = h("one")
    h.ok(r.env != first.env and "denied" in r.says, "a home has a fresh placeholder after secret forget, and the old one is refused", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("placeholders of homes", reason)
        tap.done()
    with Internet() as net:
        net.https("api.test", server)
        for who in identities(tap, ENGINES):
            # All of it is done outside of the sandbox.
            if (str(who), who.engine) not in (("root", "ns"), ("user", "gvisor")):
                continue
            with net.coffer(who) as c:
                h = Home(tap, c)
                h.set("openai", key())
                first = stable(h)
                kept(h, first)
                stale(h, first)
                forgotten(h, first)
                c.check_clean(tap)
    tap.done()


main()
