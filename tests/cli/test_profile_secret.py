# SPDX-License-Identifier: Apache-2.0
"""Profiles that name secrets: with the key in the vault an agent gets a placeholder and its server the key; without it, what to do
is said. The agents here are shell scripts under the real ones' names, the servers check the credential."""

import base64
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import Tap, covering  # noqa: E402
from memsearch import has_any  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

KEY = "sk-ant-" + base64.b32encode(os.urandom(40)).decode()[:60]
OTHER = "sk-" + base64.b32encode(os.urandom(40)).decode()[:48]
CLEAR = "sk-ant-handed-in-" + base64.b32encode(os.urandom(20)).decode()[:24]

# The credential that each agent sends, and its destination: name -> (secret, variable, host, header).
AGENTS = {
    "claude": ("anthropic", "ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key"),
    "codex": ("openai", "OPENAI_API_KEY", "api.openai.com", "Authorization"),
    "gemini": ("gemini", "GEMINI_API_KEY", "generativelanguage.googleapis.com", "x-goog-api-key"),
}
SCRIPT = """#!/bin/sh
echo "env: $VARIABLE"
echo "also: $CODEX_API_KEY"
echo "says: $(curl -sS -m 60 -H "HEADER: PREFIX$VARIABLE" ${ANTHROPIC_BASE_URL:-https://HOST}/v1/x -w ' %{http_code}' 2>&1 | tr '\\n' ' ')"
"""
CLAW = """#!/bin/sh
echo "env: $OPENAI_API_KEY, $ANTHROPIC_API_KEY, $GEMINI_API_KEY"
echo "says: $(curl -sS -m 60 -H "Authorization: Bearer $OPENAI_API_KEY" https://api.openai.com/v1/x 2>&1)" \\
    "$(curl -sS -m 60 -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/v1/x 2>&1)"
"""


def server(q):
    """Wants one of the keys, in whatever header."""
    for name in ("x-api-key", "Authorization", "x-goog-api-key"):
        got = q.headers.get(name, "").removeprefix("Bearer ")
        if got in (KEY, OTHER, CLEAR):
            return 200, {}, f"welcome by {name}: {got}\n"
    return 401, {}, "who are you?\n"


class Bench:
    """One identity, with agents of its own in PATH."""

    def __init__(self, tap, c):
        self.tap, self.c, self.who = tap, c, c.who
        for name, (_, variable, host, header) in AGENTS.items():
            text = SCRIPT.replace("VARIABLE", variable).replace("HOST", host).replace("HEADER", header)
            c.put(os.path.join("agents", name, name),
                text.replace("PREFIX", "Bearer " if header == "Authorization" else ""), 0o755)
        c.put(os.path.join("agents", "openclaw", "openclaw"), CLAW, 0o755)

    def run(self, profile, *args, command=None, env=None):
        name = command or profile
        path = os.path.join(self.c.home, "agents", name) + ":" + self.c.env()["PATH"]
        r = self.c("run", "--engine", self.c.engine, "--profile", profile, "--checkpoint", "off", *args, "--", name,
                   env={"PATH": path, **(env or {})}, timeout=300)
        r.env = (re.search(r"^env: (.*)$", r.out, re.M) or [None, ""])[1]
        r.says = (re.search(r"^says: (.*)$", r.out, re.M) or [None, ""])[1]
        return r

    def plain(self):
        """For what is not looked into: whom to trust there."""
        return ["-v", f"{self.c.net.ca}:/mnt/ca.pem", "-e", "CURL_CA_BUNDLE=/mnt/ca.pem"]

    def ok(self, good, name, *detail):
        self.tap.ok(good, f"{self.who}: {name}", *detail)

    def set(self, name, value, *args):
        r = self.c("secret", "set", "--replace", name, "-", *args, input=value)
        self.tap.eq(r.code, 0, f"{self.who}: {name} is put into the vault", r)


def without(b):
    """No vault, then a vault that has something else."""
    for words in ("without a vault", "with a vault that does not have it"):
        r = b.run("claude")
        b.ok(r.code == 0 and r.env == "" and "coffer secret set anthropic" in r.err and "-e ANTHROPIC_API_KEY" in r.err,
             f"{words} the message names secret set and -e", r)
        b.ok("401" in r.says, f"{words} the agent has no key", r)
        b.set("unrelated", "a value that nobody asks for", "--host", "nowhere.example.test")
    r = b.run("openclaw")
    b.ok("coffer secret set openai, anthropic, gemini or openrouter" in r.err, "an agent with several secrets is told of all of them", r)
    r = b.run("claude", "-e", f"ANTHROPIC_API_KEY={CLEAR}")
    b.ok(r.env == CLEAR and "welcome by x-api-key" in r.says, "a key from -e NAME=VALUE works", r)
    b.ok("ANTHROPIC_API_KEY is handed in as it is" in r.err and "gets no key" not in r.err, "a key from -e NAME=VALUE is reported", r)
    r = b.run("claude", "-e", "ANTHROPIC_API_KEY", env={"ANTHROPIC_API_KEY": CLEAR})
    b.ok(r.env == CLEAR and "is handed in as it is" in r.err, "a key from -e NAME works and is reported", r)
    r = b.run("claude", "-e", "ANTHROPIC_API_KEY")
    b.ok(r.env == "" and "coffer secret set anthropic" in r.err, "-e of an unset variable passes no key", r)
    r = b.run("claude", "--net", "none")
    b.ok(r.code == 0 and "secret" not in r.err, "--net none prints nothing about keys", r)


def each_agent(b):
    for name, (secret, _, _, header) in AGENTS.items():
        b.set(secret, KEY)
        r = b.run(name)
        b.ok(f"welcome by {header}" in r.says, f"{name}: {name} works with a key of the vault that is bound nowhere", r)
        b.ok(len(r.env) == len(KEY) and r.env.startswith("sk-ant-") and r.env != KEY and r.env in r.says,
             f"{name}: {name} has a placeholder of the key's shape", r)
        also = re.search(r"^also: (.*)$", r.out, re.M)[1]
        b.ok(also == (r.env if name == "codex" else ""), f"{name}: {name} has the placeholder in each of its variables", r)
        b.ok(not has_any((r.out + r.err).encode(), KEY) and "secret" not in r.err, f"{name}: {name} sees no key, and no message about secrets is printed", r)
        start = [json.loads(x) for x in b.c("audit", "--json").out.splitlines() if '"run.start"' in x][-1]
        b.ok(start.get("secrets") == [secret], f"{name}: the log has the secret that {name} was given", start)
        # Where an agent's own key goes is no way for it to go elsewhere.
        if name == "claude":
            r = b.run(name, *b.plain(), "-e", "ANTHROPIC_BASE_URL=https://model.test", "--allow", "model.test")
            b.ok("401" in r.says and "welcome" not in r.says, "a server that the profile does not name does not get the key", r)
    b.set("openai", OTHER)
    r = b.run("openclaw", "--allow", "@openai", "--allow", "@anthropic")
    got = r.env.split(", ")
    b.ok("welcome by Authorization" in r.says and "welcome by x-api-key" in r.says, "openclaw: the keys in the vault work", r)
    b.ok(len(got) == 3 and got[0] and got[1] and not {KEY, OTHER} & set(got), "openclaw: each key in the vault has a placeholder", r)
    b.ok(got[2:] == [""], "openclaw: a secret whose server no rule allows has no placeholder", r)
    r = b.run("openclaw", "--allow", "@openai")
    b.ok("welcome by Authorization" in r.says and re.fullmatch(r"\S+, , ", r.env), "openclaw: --allow @openai chooses its key alone", r)
    r = b.run("openclaw", "--allow", "@openai", "--secret", "anthropic")
    b.ok(re.fullmatch(r"\S+, \S+, ", r.env), "openclaw: --secret adds another", r)
    r = b.run("openclaw")
    b.ok(r.env == ", , " and "no rule allows a server that takes one" in r.err and "add --allow api.openai.com" in r.err,
         "openclaw: without a server in the policy no key is given, with a message", r)
    r = b.run("openclaw", "--allow", "@openai", "--allow", "@anthropic", "-e", f"ANTHROPIC_API_KEY={CLEAR}")
    b.ok("welcome by Authorization" in r.says and CLEAR in r.env, "openclaw: a key from -e works beside keys of the vault", r)


def short(b):
    """One agent with its key in the vault. Which secret a profile takes, and for which host, is decided outside."""
    b.set("anthropic", KEY)
    r = b.run("claude")
    b.ok("welcome by x-api-key" in r.says and r.env != KEY and not has_any((r.out + r.err).encode(), KEY),
         "an agent reaches its server with a placeholder", r)


def elsewhere(b):
    """A binding of one's own counts, and the profile's host does not."""
    b.set("anthropic", KEY, "--host", "model.test", "--as", "header:x-api-key")
    args = ["-e", "ANTHROPIC_BASE_URL=https://model.test", "--allow", "model.test"]
    r = b.run("claude", *args)
    b.ok("welcome by x-api-key" in r.says and r.env != KEY, "a key works at the server that the vault binds it to", r)
    r = b.run("claude")
    b.ok(r.env == "" and "401" in r.says, "a key that is bound elsewhere is not given for the profile's server", r)
    r = b.run("claude", *args, "--secret", "anthropic@model.test")
    b.ok("welcome" in r.says, "a bound key works when --secret names it", r)
    r = b.run("claude", *args, "--secret", "anthropic", "-e", f"ANTHROPIC_API_KEY={CLEAR}")
    b.ok(r.code == 125 and "ANTHROPIC_API_KEY" in r.err, "one variable for both a key and its placeholder is refused", r)


def own_profiles(b):
    c = b.c
    text = c("profile", "show", "claude").out
    b.ok("secrets:" in text and "as: [header:x-api-key, bearer]" in text, "coffer profile show prints the secrets of a profile", text)
    b.set("anthropic", KEY)
    path = c.put(os.path.join(c.home, "mine.yaml"), text)
    r = b.run(path, command="claude")
    b.ok(r.env == "" and "bound nowhere" in r.err and "coffer secret bind anthropic --host api.anthropic.com --as header:x-api-key"
         in r.err, "a profile given by path does not bind an unbound secret", r)
    r = c("secret", "bind", "anthropic", "--host", "api.anthropic.com")
    r = b.run(path, command="claude")
    b.ok("welcome by x-api-key" in r.says, "a profile given by path uses a bound secret", r)
    if b.who == "user":  # root's own directory is the machine's
        b.set("mine", OTHER)
        c.put(os.path.join(c.home, ".config", "cofferdam", "profiles", "own.yaml"),
            text.replace("name: anthropic", "name: mine"))
        r = b.run("own", command="claude")
        b.ok("welcome by x-api-key" in r.says and r.env != OTHER, "a profile of the user's own directory binds its secret", r)
    for what, old, new, words in (
            ("an unknown key", "    as: ", "    how: ", "'how'"), ("a wildcard", "host: api.anthropic.com", "host: '*.anthropic.com'", "has a '*'"),
            ("a public suffix", "host: api.anthropic.com", "host: co.uk", "public suffix"),
            ("a way that there is not", "header:x-api-key", "headr", "not a way to send"),
            ("a second way that there is not", ", bearer", ", beerer", "not a way to send"),
            ("a header of framing", "header:x-api-key", "header:content-length", "a secret cannot be sent in it"),
            ("a key that signs", "header:x-api-key", "ssh", "signs"), ("no name", "- name: anthropic\n    env", "- env", "has a name"),
            ("a name that is none", "name: anthropic", "name: 'a b'", "name must be"),
            ("a variable that is none", "env: ANTHROPIC_API_KEY", "env: 'A=B'", "name of a variable")):
        c.put(path, text.replace(old, new))
        shown, r = c("profile", "show", path), b.run(path, command="claude")
        b.ok(shown.code == 125 and words in shown.err and r.code in (2, 125) and words in r.err, f"{what} in a profile is refused", shown, r)
    c.put(path, text.replace("secrets:\n", "secrets:\n" + "".join(f"  - n{i}\n" for i in range(16))))
    r = c("profile", "show", path)
    b.ok(r.code == 125 and "at most 16" in r.err, "too many secrets in a profile are refused", r)


def expired(b):
    c = b.c
    b.set("anthropic", KEY, "--expires", "2s")
    import time
    while c("run", "--engine", "ns", "--net", "enforce", "--allow", "model.test", "--secret", "anthropic@model.test", "--",
            "true").code == 0:
        time.sleep(0.2)
    r = b.run("claude")
    b.ok(r.env == "" and "has expired" in r.err and "coffer secret rotate anthropic" in r.err, "an expired secret is not given, and is reported", r)


RULES = """version: 1
egress:
  allow:
    - {domain: model.test, port: 443, secret: {name: two, as: AS}}
    - {domain: other.test, port: 443}
"""
TWO = r"""
for h in model.test other.test; do
	echo "$h bearer: $(curl -sS -m 60 -H "Authorization: Bearer $TWO" https://$h/v1/x 2>&1 -w ' %{http_code}' | tr '\n' ' ')"
	echo "$h key: $(curl -sS -m 60 -H "x-api-key: $TWO" https://$h/v1/x 2>&1 -w ' %{http_code}' | tr '\n' ' ')"
done
"""


def rules(b):
    """A rule's `as` holds too when the secret is named on the command line."""
    c = b.c
    b.set("two", KEY)
    for host in ("model.test", "other.test"):
        for how in ("bearer", "header:x-api-key"):
            c("secret", "bind", "two", "--host", host, "--as", how)
    for how, good, bad in (("bearer", "bearer", "key"), ("header:x-api-key", "key", "bearer")):
        policy = c.put(os.path.join(c.home, "rules.yaml"), RULES.replace("AS", how))
        for named in (["--secret", "two"], ["--secret", "two@model.test,other.test"]):
            r = c("run", "--engine", c.engine, "--policy", policy, *named, "--", "sh", "-c", TWO, timeout=300)
            got = dict(re.findall(r"^(\S+ \w+): (.*)$", r.out, re.M))
            b.ok("welcome" in got.get(f"model.test {good}", "") and "403" in got.get(f"model.test {bad}", ""),
                 f"{named[1]}: a rule with as {how} allows only that form", r)
            b.ok("welcome" in got.get("other.test bearer", "") and "welcome" in got.get("other.test key", ""),
                 f"{named[1]}: a rule without as allows every form of the binding", r)
    policy = c.put(os.path.join(c.home, "rules.yaml"), RULES.replace("AS", "query:k"))
    r = c("run", "--engine", c.engine, "--policy", policy, "--secret", "two@model.test", "--", "true")
    b.ok(r.code == 125 and "another form" in r.err, "a rule that leaves no form of a secret is refused", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("profiles with secrets", reason)
        tap.done()
    with Internet() as net:
        for host in [a[2] for a in AGENTS.values()] + ["model.test", "other.test"]:
            net.https(host, server)
        for who, whole in covering(tap):
            with net.coffer(who) as c:
                b = Bench(tap, c)
                if not whole:
                    short(b)
                    c.check_clean(tap)
                    continue
                without(b)
                each_agent(b)
                elsewhere(b)
                if who.engine == "ns":
                    own_profiles(b)
                    expired(b)
                    rules(b)
                c.check_clean(tap)
    tap.done()


main()
