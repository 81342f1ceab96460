#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer policy: check, explain, diff, presets, show; what it prints and how it exits."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import replaylog  # noqa: E402
from coffertest import Coffer, Tap  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DESIGN = """version: 1
egress:
  mode: enforce
  allow:
    - domain: "*.github.com"
      port: 443
    - domain: api.openai.com
      port: 443
      secret: openai
    - domain: api.github.com
      port: 443
      http:
        - allow: GET /**
        - ask:   PUT /repos/*/*/pulls/*/merge
        - deny:  DELETE /**
  deny:
    - domain: "*"
"""
BARE = """allow:
  - domain: github.com
    port: 443
  - domain: "*.github.com"
    port: 443
deny:
  - domain: "*"
"""
MERGE = "https://api.github.com/repos/o/r/pulls/7/merge"

tap = Tap()
coffer = Coffer()


def put(name, text, mode=0o644):
    path = os.path.join(coffer.dir, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def check_twice(design, bare):
    """An option that takes one value never has the last one win in silence."""
    for option, one, two in (("--policy", design, bare), ("--net", "none", "observe"), ("--limits", "strict", "default"),
                             ("--engine", "gvisor", "ns"), ("--user", "1000", "0"), ("--profile", "claude", "codex"),
                             ("--memory", "64m", "1g"), ("-C", coffer.dir, "/")):
        r = coffer("run", option, one, option, two, "--", "true")
        tap.ok(r.code == 2 and "takes one value and is given two" in r.err and one in r.err and two in r.err,
               f"a second, other {option} is an error that names both", r)
    r = coffer("mcp", "--policy", design, "--policy", bare)
    tap.ok(r.code == 2 and "takes one value" in r.err, "coffer mcp refuses a second --policy", r)
    r = coffer("replay", "--policy", design, "--policy", bare)
    tap.ok("takes one value" not in r.err, "coffer replay takes several policies", r)


def check_unseen():
    path = put("nel.yaml", "version: 1\negress: # harmless\u0085  allow: [evil.example.com]\n")
    r = coffer("policy", "check", path)
    tap.ok(r.code != 0 and "nel.yaml:2:19: U+0085" in r.err, "a line break that only YAML sees is refused with its place", r)
    r = coffer("run", "--policy", path, "--", "true")
    tap.ok(r.code != 0 and "U+0085" in r.err, "coffer run refuses a line break that only YAML sees", r)
    path = put("bom.yaml", "\ufeffversion: 1\negress:\n  allow: [a.example.com]\n")
    r = coffer("policy", "check", path)
    tap.ok(r.code == 0 and "1 rule" in r.out, "a byte order mark at the beginning of a policy is accepted", r)
    path = put("nel-profile.yaml", "version: 1\n# harmless\u2028allow: [evil.example.com]\n")
    r = coffer("profile", "show", path)
    tap.ok(r.code != 0 and "U+2028" in r.err, "coffer profile refuses a line break that only YAML sees", r)
    path = put("nel-notify.yaml", "version: 1\n# \u202eharmless\n", 0o600)
    r = coffer("notify", "ls", "--config", path)
    tap.ok(r.code != 0 and "U+202E" in r.err, "coffer notify refuses a character that turns the direction of text", r)


def check_learned():
    """A policy that is learned from a log can be loaded, leads where the rules in force led, and decides the log as it was decided."""
    pem = put("ca.pem", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
    odd = put("odd\n  deny: [x].pem", "-----BEGIN CERTIFICATE-----\nMAB=\n-----END CERTIFICATE-----\n")
    used = put("used.yaml", f"""egress:
  allow:
    - {{domain: models.corp.test, to: "10.1.2.3:8443", ca: {pem}, http: [{{allow: "*,WEBSOCKET /**"}}]}}
    - {{domain: plain.example.com, depth: inspect, ca: {json.dumps(odd)}}}
""")
    log = [("run.start", {"net": "enforce", "policy": used})]
    for host in ("models.corp.test", "plain.example.com"):
        log.append(("net.open", {"c": 1, "name": host, "port": 443, "depth": "inspect", "decision": "allow", "rule": "x"}))
        for method, target in (("GET", "/v1/models?page=#01234567"), ("WEBSOCKET", "/v1/live"), ("POST", "/v1/x")):
            log.append(("net.request", {"c": 1, "r": 1, "method": method, "path": target, "host": host, "port": 443,
                                        "decision": "allow", "rule": "x"}))
    path = write_log(*log)
    learned = os.path.join(coffer.dir, "learned.yaml")
    r = coffer("net", "learn", "--http", "-o", learned)
    with open(learned, encoding="utf-8") as f:
        text = f.read()
    tap.ok(r.code == 0 and 'to: "10.1.2.3:8443"' in text and f'ca: "{pem}"' in text, "to: and ca: of the rules in force are learned", r, text)
    tap.ok(text.count('"WEBSOCKET /v1/live"') == 2 and '"GET /v1/models"' in text, "requests are learned by method and path", text)
    changed = "# LOOK: the following is from a policy that has changed since the run"
    tap.ok(text.count(changed) == 2, "learned values of a policy that has changed since the run are marked", text)
    tap.ok("2 to look at (LOOK)" in r.err, "net learn counts the marks of a policy that has changed", r)
    log[0] = ("run.start", {"net": "enforce", "policy": used, "policy_digest": "sha256:" + json.loads(coffer("policy", "check", "--json", used).out)["digest"]})
    write_log(*log)
    again = coffer("net", "learn", "--http")
    tap.ok('to: "10.1.2.3:8443"' in again.out and "has changed" not in again.out, "learned values of an unchanged policy are not marked", again)
    with open(used, encoding="utf-8") as f:
        whole = f.read()
    put("used.yaml", whole + "  mode: observe\n")
    digest = json.loads(coffer("policy", "check", "--json", used).out)["digest"]
    put("used.yaml", whole)
    write_log(("run.start", {"net": "observe", "policy": used, "policy_digest": "sha256:" + digest}), *log[1:])
    again = coffer("net", "learn", "--http")
    tap.ok('to: "10.1.2.3:8443"' in again.out and "has changed" not in again.out, "learned values of an unchanged policy under --net observe are not marked", again)
    write_log(*log)
    r = coffer("policy", "check", learned)
    tap.ok(r.code == 0 and "\n  deny:" not in text, "a learned policy passes policy check, whatever a file is called", r)
    r = coffer("replay", "--json", "--policy", learned, "--since", "2026-01-01")
    total = json.loads(r.out.splitlines()[-1])
    tap.ok(total["type"] == "sum" and total["decisions"] == 8 and total["same"] == 8, "a learned policy decides every event of the log as it was decided", r)
    os.unlink(learned)
    os.chmod(used, 0o666)
    r = coffer("net", "learn", "-o", learned)
    with open(learned, encoding="utf-8") as f:
        text = f.read()
    tap.ok(r.code == 0 and "to:" not in text and "used.yaml" in r.err, "a policy that others can write to is not learned from, and is named", r, text)
    os.unlink(path)
    os.unlink(learned)


def write_log(*events):
    """A log of these alone; each (type, members)."""
    audit = os.path.join(coffer.state, "audit")
    os.makedirs(audit, 0o700, exist_ok=True)
    path = os.path.join(audit, "log.jsonl")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(replaylog.line(i, kind, fields) for i, (kind, fields) in enumerate(events, 1))
    os.chmod(path, 0o600)
    return path


def flow_of(text):
    """The rule in braces that a hint tells to write."""
    return text[text.index("- {"):text.index("}") + 1]


def check_hints():
    """Text that a message proposes is accepted when it is written."""
    r = coffer("run", "--allow", "http://example.com/x", "--", "true")
    tap.ok(r.code != 0 and "is a URL" in r.err and "try: example.com:80" in r.err, "a URL in --allow is refused with the host to type", r)
    r = coffer("run", "--allow", "https://example.com:8443/", "--", "true")
    tap.ok("try: example.com:8443" in r.err, "a URL in --allow is refused with its port", r)
    r = coffer("policy", "show", "--allow", "example.com:8443")
    tap.ok(r.code == 0, "the host and port that the message suggests are accepted", r)
    for what, port in (("localhost:8765", "8765"), ("10.0.0.1", "5432"), ("10.0.0.1:6379", "6379"), ("[fd00::1]:6379", "6379")):
        r = coffer("run", "--allow", what, "--", "true")
        tap.ok(r.code != 0 and "policy file" in r.err and port in r.err, f"--allow {what} is refused and points to a policy file", r)
        path = put("typed.yaml", "allow:\n  " + flow_of(r.err) + "\n")
        r = coffer("policy", "check", path)
        tap.ok(r.code == 0, f"the rule that the message suggests for {what} passes policy check", r)


def check_why():
    denied = ("net.dns", {"name": "models.corp.example.com", "qtype": "A", "decision": "deny", "rule": "allow models.corp.example.com:443 (p.yaml:3)",
                          "why": "10.1.2.3 is a private address, where only a rule with 'to:' leads"})
    sums = (("net.dns", {"name": "*", "qtype": "A", "decision": "deny", "count": 1200}),
            ("net.folded", {"ev": "dns", "name": "*", "decision": "deny", "count": 34}))
    path = write_log(denied, *sums)
    r = coffer("why")
    tap.ok(r.code == 0 and "looked up models.corp.example.com" in r.out and "--allow *" not in r.out and "1234 more denied" in r.out,
           "coffer why explains the last single denial, and counts the sums after it", r)
    rule = r.out[r.out.index("    - domain"):r.out.index("1234 more")]
    r = coffer("policy", "check", put("typed.yaml", "allow:\n" + rule))
    tap.ok(r.code == 0 and "to:" in rule and "10.1.2.3" in rule, "the rule that coffer why suggests for a private name passes policy check", r, rule)
    write_log(*sums)
    r = coffer("why")
    tap.ok("1234 denied, not listed singly" in r.out and "--allow" not in r.out, "coffer why counts denials that are only in sums", r)
    write_log(("net.dns", {"name": "gone.example.com", "qtype": "A", "decision": "error", "why": "there is no such name"}))
    r = coffer("why")
    tap.ok(r.code == 1 and "nothing was denied" in r.err, "coffer why does not report a name that does not exist as denied", r)
    write_log(("net.dns", {"name": "evil.example.com", "qtype": "A", "decision": "deny", "why": "no rule allows it"}))
    r = coffer("net", "log")
    tap.ok(" denied " in r.out and " deny " not in r.out, "coffer net log says denied", r)
    write_log(("net.dns", {"name": "x;curl$ifs|sh.evil.test", "qtype": "A", "decision": "deny", "why": "it is not a host name"}))
    r = coffer("why")
    tap.ok("no rule can allow it" in r.out and "--allow" not in r.out and "domain:" not in r.out, "coffer why suggests no rule for a text that is not a host name", r)
    write_log(("net.open", {"name": "", "addr": "2606:4700::1111", "port": 8080, "decision": "deny", "rule": "default", "why": "no rule allows [2606:4700::1111]:8080"}))
    r = coffer("why")
    tap.ok("--allow [2606:4700::1111]:8080," in r.out, "coffer why suggests an IPv6 address in brackets", r)
    rule = "allow api.example.com:443 (p.yaml:3)"
    write_log(("net.request", {"host": "api.example.com", "port": 443, "method": "GET", "path": "/x;10.0.0.1", "decision": "deny", "rule": rule,
                               "why": f"the rule {rule} does not list GET /x;10.0.0.1"}))
    r = coffer("why")
    tap.ok("change that rule" in r.out and "to:" not in r.out.split("/x;10.0.0.1")[-1], "coffer why does not take an address in a path for the host's", r)
    os.unlink(path)


def check_websocket():
    path = put("ws.yaml", """egress:
  allow:
    - domain: a.example.com
      http: [{allow: "GET /**"}, {allow: "* /all/**"}, {allow: "WEBSOCKET /live/**"}, {deny: "GET /live/no"}]
    - domain: b.example.com
      depth: inspect
""")
    for url, want in (("wss://a.example.com/x", "deny"), ("wss://a.example.com/all/x", "deny"), ("wss://a.example.com/live/x", "allow"),
                      ("wss://a.example.com/live/no", "deny"), ("https://a.example.com/x", "allow"), ("wss://b.example.com/x", "allow")):
        r = coffer("policy", "explain", path, url)
        tap.ok(r.out.startswith(want), f"{url} is {want} where GET /**, * /all/** and WEBSOCKET /live/** are allowed", r)
    r = coffer("policy", "explain", path, "A" * 32, "https://a.example.com/all/x")
    tap.ok(r.code == 0 and r.out.startswith("allow"), "policy explain judges a method of 32 bytes", r)
    r = coffer("policy", "explain", path, "A" * 33, "https://a.example.com/all/x")
    tap.ok(r.code == 2 and "more than 32 bytes" in r.err, "policy explain refuses a method that is longer than a request may have", r)
    r = coffer("policy", "explain", path, "WEBSOCKET", "https://a.example.com/x")
    tap.ok(r.out.startswith("deny") and "WEBSOCKET and the path" in r.out, "a denied WebSocket names the method that is missing", r)


def check_check(design, bare):
    r = coffer("policy", "check", design)
    tap.ok(r.code == 0 and "4 rules, enforce" in r.out, "the example of the design passes policy check", r)
    tap.ok("does not cover github.com itself" in r.err, "policy check warns about a wildcard that does not cover its domain", r)
    r = coffer("policy", "check", bare)
    tap.ok(r.code == 0 and r.err == "" and "0 warnings" in r.out, "the short form passes policy check without a warning", r)
    r = coffer("policy", "check", "--json", design)
    j = json.loads(r.out)
    tap.ok(j["rules"] == 4 and j["mode"] == "enforce" and len(j["digest"]) == 64 and len(j["warnings"]) == 1,
           "policy check --json has rules, mode, digest and warnings", r)
    for text, why in (("alow: []\n", ":1:1: unknown key 'alow'"), ("allow: [{domain: \"*.com\"}]\n", "public suffix"),
                      ("allow: [\n", "not YAML")):
        r = coffer("policy", "check", put("wrong.yaml", text))
        tap.ok(r.code == 1 and why in r.err and r.out == "", f"policy check refuses with exit 1: {why}", r)
    r = coffer("policy", "check", put("wrong.yaml", "alow: []\n"))
    tap.ok("try: allow:" in r.err, "policy check suggests the nearest key", r)
    r = coffer("policy", "check", put("open.yaml", BARE, 0o666))
    tap.ok(r.code == 1 and "others may write to" in r.err and "chmod go-w" in r.err, "check refuses a file that others may write to, as coffer run does", r)
    for args, why in (([], "one of these words"), (["chekc", design], "check"), (["check"], "check FILE"),
                      (["check", design, bare], "check FILE"), (["check", "/nonexistent"], "")):
        r = coffer("policy", *args)
        tap.eq(r.code, 1 if why == "" else 2, f"exit status of coffer policy {' '.join(args[:1])}: {why}", r)
        tap.ok(why in r.err, f"coffer policy {' '.join(args[:1])} names the fault: {why}", r)


def check_explain(design):
    for args, code, words in (
            (["api.github.com:443"], 0, ["allow  api.github.com:443", "depth  inspect", "(" + design + ":10)"]),
            (["x.github.com"], 0, ["depth  peek"]),
            (["GET", "https://api.github.com/repos/o/r"], 0, ["allow GET /**", ":13)"]),
            (["https://api.github.com/repos/o/r"], 0, ["allow GET /**"]),
            (["PUT", MERGE], 1, ["ask  PUT", "a person has to allow it"]),
            (["DELETE", "https://api.github.com/repos/o/r"], 1, ["deny DELETE /**"]),
            (["POST", "https://api.github.com/x"], 1, ["does not list POST /x"]),
            (["api.openai.com:443"], 0, ["depth  inspect", "secret openai"]),
            (["github.com:443"], 1, ["deny *:*"]),
            (["10.0.0.1:443"], 1, ["a private address"]),
            (["GET", "github.com:443"], 2, ["a method needs a URL"]),
            (["GET", "https://api.github.com//x"], 2, ["refused before any rule"]),
            (["GET", "https://u@api.github.com/x"], 2, ["always refused"]),
            (["2130706433:80"], 2, [])):
        r = coffer("policy", "explain", design, *args)
        text = r.out + r.err
        tap.ok(r.code == code and all(w in text for w in words), f"explain {' '.join(args)} exits with {code} and gives the rule", r)
    bot = os.path.join(ROOT, "examples", "policy-bot.yaml")
    for opts, code in ((["--push", "refs/heads/bot/x=create"], 0), (["--push", "refs/heads/main"], 1)):
        r = coffer("policy", "explain", bot, "POST", "https://github.com/octo/app.git/git-receive-pack", *opts)
        tap.eq(r.code, code, f"explain {' '.join(opts)} exits with {code}", r)
    r = coffer("policy", "explain", "--graphql", "mutation { mergePullRequest(input: {}) { x } }", bot, "POST",
               "https://api.github.com/graphql")
    tap.ok(r.code == 1 and "mutation mergePullRequest" in r.out, "explain --graphql names the mutation that decides", r)
    r = coffer("policy", "explain", bot, "POST", "https://api.github.com/graphql")
    tap.ok(r.code == 1 and "depends on the body" in r.out, "explain says when only the body can tell", r)
    r = coffer("policy", "explain", "--json", design, "DELETE", "https://api.github.com/x")
    j = json.loads(r.out)
    tap.ok(r.code == 1 and j["decision"] == "deny" and "DELETE /**" in j["rule"], "explain --json has decision and rule", r)
    r = coffer("policy", "explain", "--allow", "a.github.com", design, "api.github.com:443")
    tap.ok(r.code == 1 and "policy 2 of 2" in r.out, "a host that --allow does not name is denied beside a file", r)
    r = coffer("policy", "explain", "--allow", "x.example.test", put("one.yaml", "allow: [a.example.test]\n"),
               "x.example.test:443")
    tap.ok(r.code == 1 and "the command line allows x.example.test:443, but one.yaml does not. Both must allow it" in r.out and
           "other ports" not in r.out, "a host that only --allow names is denied beside a file, with the reason", r)
    r = coffer("policy", "explain", "--allow", "x.example.test", put("one.yaml", "allow: [a.example.test]\n"), "a.example.test:443")
    tap.ok(r.code == 1 and "one.yaml allows a.example.test:443, but the command line does not. Both must allow it: add --allow a.example.test"
           in r.out, "a host that only the file allows is denied beside --allow, and the reason names the option", r)
    wild = put("wild.yaml", "allow: ['*.example.test']\n")
    for host in ("api.github.com." + "a" * 60 + ".example.test", "paste." + "a" * 50 + ".evil.com.b" + ".b" * 40 + ".example.test"):
        r = coffer("policy", "explain", "--allow", "x.example.test", wild, host + ":443")
        tap.ok(r.code == 1 and "example.test:443, but the command line does not" in r.out and r.out.split("Both must allow it: add ")[1].startswith("it by --allow\n"),
               "a long host keeps its end in a denial, and no part of the host is suggested as an option", r)
    r = coffer("policy", "explain", wild, "api.github.com." + "a." * 110 + "evil.test:443")
    tap.ok(r.code == 1 and "a.evil.test:443\n" in r.out.split("no rule allows ")[1], "a long host keeps its end in a denial without a rule", r)
    look = put("look.yaml", "allow:\n  - domain: a.example.test\n    http: [{allow: 'GET /**'}, {deny: '* /admin/**'}, {ask: 'GET /ask/**'}]\n")
    for path in ("admin%CD%BEx/y", "admin%EF%B9%94x/y", "admin%C2%A0/y", "admin%E2%80%8B/y", "admin%E3%80%82/y", "ask%CD%BEx/y"):
        r = coffer("policy", "explain", look, f"https://a.example.test/{path}")
        tap.eq(r.code, 1, f"characters that some servers take for the end of a name do not bypass a rule: {path}", r)
    r = coffer("policy", "explain", look, "https://a.example.test/b%C3%BCcher%C2%A0neu%E2%80%A6/x")
    tap.eq(r.code, 0, "unusual characters are allowed in paths without a rule", r)
    r = coffer("policy", "explain", "--allow", "x.example.test", "--allow", "@policy", put("one.yaml", "allow: [a.example.test]\n"), "a.example.test:443")
    tap.ok(r.code == 0, "--allow @policy opens what the file allows", r)
    r = coffer("policy", "explain", "--allow", "@policy", put("one.yaml", "allow: [a.example.test]\ndeny: [b.example.test]\n"), "b.example.test:443")
    tap.ok(r.code == 1, "--allow @policy opens nothing that the file denies", r)


def check_diff(design, bare):
    r = coffer("policy", "diff", design, design)
    tap.ok(r.code == 0 and "both decide the same" in r.out, "diff of a file with itself finds no difference", r)
    r = coffer("policy", "diff", bare, design)
    tap.ok(r.code == 1 and "\n- github.com:443" in "\n" + r.out, "diff lists hosts that are no longer allowed", r)
    tap.ok("- api.github.com:443 DELETE /**" in r.out, "diff lists requests that are no longer allowed", r)
    r = coffer("policy", "diff", design, bare)
    tap.ok(r.code == 1 and "\n+ github.com:443" in "\n" + r.out and "+ api.github.com:443 DELETE /**" in r.out,
           "diff lists hosts and requests that are newly allowed", r)
    a, b = put("a.yaml", "allow: [{domain: x.com, port: 1-100}]\n"), put("b.yaml", "allow: [{domain: x.com, port: 50-200}]\n")
    r = coffer("policy", "diff", a, b)
    tap.ok("- x.com:1-49" in r.out and "+ x.com:101-200" in r.out, "diff compares ports exactly", r)
    many = "".join(f"- {{domain: x.com, ports: [{', '.join(str(32 * i + 2 * k + 2) for k in range(16))}]}}\n" for i in range(300))
    a, b = put("a.yaml", "allow:\n" + many), put("b.yaml", "allow:\n" + many + "- {domain: x.com, port: 60000}\n")
    r = coffer("policy", "diff", a, b)
    tap.ok(r.code == 1 and "+ x.com:60000" in r.out, "diff compares a port after thousands of other ranges", r)
    for n in ("one", "two"):
        put(f"{n}.pem", f"-----BEGIN CERTIFICATE-----\n{n.upper()}A=\n-----END CERTIFICATE-----\n")
    for key, one, two, says in (("secret", "red", "blue", "secret blue, was red"), ("secret", "red", None, "no secret, was red"),
                                ("ca", "one.pem", "two.pem", "another ca")):
        a, b = (put(f"{n}.yaml", "allow: [{domain: x.com" + (f", {key}: {v}" if v else "") + ", http: [{allow: \"GET /**\"}]}]\n")
                for n, v in (("a", one), ("b", two)))
        r = coffer("policy", "diff", a, b)
        tap.ok(r.code == 1 and f"~ x.com:443  {says}" in r.out, f"diff shows a changed {key}: {says}", r)
    r = coffer("policy", "diff", a, "/nonexistent")
    tap.eq(r.code, 2, "diff with a missing file exits with 2", r)


def check_presets():
    r = coffer("policy", "presets")
    names = {line.split()[0] for line in r.out.splitlines()[1:]}
    wanted = set("pypi npm debian go crates github-read github-triage openai anthropic openrouter gemini ollama slack "
                 "telegram matrix".split())
    tap.ok(r.code == 0 and wanted <= names, "all presets are listed", wanted - names)
    tap.eq({p["name"] for p in json.loads(coffer("policy", "presets", "--json").out)}, names, "presets --json lists the same presets")
    for name in sorted(names):
        copied = put(f"copied-{name}.yaml", coffer("policy", "show", "--preset", name).out)
        r = coffer("policy", "check", copied)
        # A preset whose rule leads to this host is warned of, as the same rule in any other file.
        tap.ok(r.code == 0 and ("0 warnings" in r.out or "this grants 127.0.0.1" in r.err), f"a copy of the preset {name} passes check", r)
        used = "{github-triage: {repos: [owner/name]}}" if name == "github-triage" else name
        r = coffer("policy", "diff", copied, put("used.yaml", f"version: 1\negress:\n  presets: [{used}]\n"))
        tap.eq((r.code, r.out), (0, "both decide the same\n"), f"a copy of the preset {name} decides what the preset decides", r)
        arg = f"@{name}" + ("(repos=o/r)" if name == "github-triage" else "")
        r = coffer("policy", "show", "--allow", arg)
        tap.ok(r.code == 0 and "\nallow " in r.out, f"--allow {arg} allows something", r)
    r = coffer("policy", "show", "--preset", "nmp")
    tap.ok(r.code == 1 and "--preset npm" in r.err, "a misspelled preset is refused with the right name", r)


def check_examples():
    r = coffer("policy", "show", "--preset", "github-triage")
    tap.like(r.out, r"^# repos: 'owner/name' below is an example", "a copy says which values are examples", r)
    for name in sorted(n for n in os.listdir(os.path.join(ROOT, "examples")) if n.endswith(".yaml")):
        with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as f:
            path = put(name, f.read())
        r = coffer("policy", "check", path)
        tap.ok(r.code == 0 and ", 0 warnings" in r.out, f"examples/{name} is a policy, and nothing in it is warned of", r)
        tap.eq(coffer("policy", "show", path).code, 0, f"examples/{name} can be shown")
        tap.ok(json.loads(coffer("policy", "show", "--json", path).out)["layers"], f"examples/{name} can be shown as JSON")


def main():
    design, bare = put("design.yaml", DESIGN), put("bare.yaml", BARE)
    check_twice(design, bare)
    check_unseen()
    check_learned()
    check_websocket()
    check_hints()
    check_why()
    check_check(design, bare)
    check_explain(design)
    check_diff(design, bare)
    check_presets()
    check_examples()


try:
    main()
finally:
    coffer.close()
tap.done()
