#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coffer policy: check, explain, diff, presets, show; what it prints and how it exits."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
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


def check_check(design, bare):
    r = coffer("policy", "check", design)
    tap.ok(r.code == 0 and "4 rules, enforce" in r.out, "the design's own example is a policy", r)
    tap.ok("does not cover github.com itself" in r.err, "and what is odd is said", r)
    r = coffer("policy", "check", bare)
    tap.ok(r.code == 0 and r.err == "" and "0 warnings" in r.out, "so is the well-known form, without a word", r)
    r = coffer("policy", "check", "--json", design)
    j = json.loads(r.out)
    tap.ok(j["rules"] == 4 and j["mode"] == "enforce" and len(j["digest"]) == 64 and len(j["warnings"]) == 1,
           "check --json", r)
    for text, why in (("alow: []\n", ":1:1: 'alow' is no key"), ("allow: [{domain: \"*.com\"}]\n", "public suffix"),
                      ("allow: [\n", "not YAML")):
        r = coffer("policy", "check", put("wrong.yaml", text))
        tap.ok(r.code == 1 and why in r.err and r.out == "", f"refused with exit 1: {why}", r)
    r = coffer("policy", "check", put("wrong.yaml", "alow: []\n"))
    tap.ok("try: allow:" in r.err, "with the nearest word", r)
    r = coffer("policy", "check", put("open.yaml", BARE, 0o666))
    tap.ok(r.code == 0 and "others may write to" in r.err, "a file that others may write to is warned about", r)
    for args, why in (([], "say what to do"), (["chekc", design], "check"), (["check"], "check FILE"),
                      (["check", design, bare], "check FILE"), (["check", "/nonexistent"], "")):
        r = coffer("policy", *args)
        tap.eq(r.code, 1 if why == "" else 2, f"exit status of policy {' '.join(args[:1])}: {why}", r)
        tap.ok(why in r.err, "which says why", r)


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
            (["GET", "github.com:443"], 2, ["with a method comes a URL"]),
            (["GET", "https://api.github.com//x"], 2, ["no such request"]),
            (["GET", "https://u@api.github.com/x"], 2, ["always refused"]),
            (["2130706433:80"], 2, [])):
        r = coffer("policy", "explain", design, *args)
        text = r.out + r.err
        tap.ok(r.code == code and all(w in text for w in words), f"explain {' '.join(args)}", r)
    bot = os.path.join(ROOT, "examples", "policy-bot.yaml")
    for opts, code in ((["--push", "refs/heads/bot/x=create"], 0), (["--push", "refs/heads/main"], 1)):
        r = coffer("policy", "explain", bot, "POST", "https://github.com/octo/app.git/git-receive-pack", *opts)
        tap.eq(r.code, code, f"explain {' '.join(opts)}", r)
    r = coffer("policy", "explain", "--graphql", "mutation { mergePullRequest(input: {}) { x } }", bot, "POST",
               "https://api.github.com/graphql")
    tap.ok(r.code == 1 and "mutation mergePullRequest" in r.out, "explain --graphql", r)
    r = coffer("policy", "explain", bot, "POST", "https://api.github.com/graphql")
    tap.ok(r.code == 1 and "depends on the body" in r.out, "explain says when only the body can tell", r)
    r = coffer("policy", "explain", "--json", design, "DELETE", "https://api.github.com/x")
    j = json.loads(r.out)
    tap.ok(r.code == 1 and j["decision"] == "deny" and "DELETE /**" in j["rule"], "explain --json", r)
    r = coffer("policy", "explain", "--allow", "a.github.com", design, "api.github.com:443")
    tap.ok(r.code == 1 and "policy 2 of 2" in r.out, "what --allow does not name is denied beside a file", r)
    r = coffer("policy", "explain", "--allow", "x.example.test", put("one.yaml", "allow: [a.example.test]\n"),
               "x.example.test:443")
    tap.ok(r.code == 1 and "allow x.example.test:443 (--allow) alone is not enough" in r.out and "other ports" not in r.out,
           "and so is what only --allow names, with that reason", r)


def check_diff(design, bare):
    r = coffer("policy", "diff", design, design)
    tap.ok(r.code == 0 and "both decide the same" in r.out, "diff of a file with itself", r)
    r = coffer("policy", "diff", bare, design)
    tap.ok(r.code == 1 and "\n- github.com:443" in "\n" + r.out, "diff says what is no longer allowed", r)
    tap.ok("- api.github.com:443 DELETE /**" in r.out, "by request too", r)
    r = coffer("policy", "diff", design, bare)
    tap.ok(r.code == 1 and "\n+ github.com:443" in "\n" + r.out and "+ api.github.com:443 DELETE /**" in r.out,
           "and the other way round", r)
    a, b = put("a.yaml", "allow: [{domain: x.com, port: 1-100}]\n"), put("b.yaml", "allow: [{domain: x.com, port: 50-200}]\n")
    r = coffer("policy", "diff", a, b)
    tap.ok("- x.com:1-49" in r.out and "+ x.com:101-200" in r.out, "ports are compared exactly", r)
    r = coffer("policy", "diff", a, "/nonexistent")
    tap.eq(r.code, 2, "a file that is not there is not a difference", r)


def check_presets():
    r = coffer("policy", "presets")
    names = {line.split()[0] for line in r.out.splitlines()[1:]}
    wanted = set("pypi npm debian go crates github-read github-triage openai anthropic openrouter gemini ollama slack "
                 "telegram matrix".split())
    tap.ok(r.code == 0 and wanted <= names, "all presets are listed", wanted - names)
    tap.eq({p["name"] for p in json.loads(coffer("policy", "presets", "--json").out)}, names, "presets --json")
    for name in sorted(names):
        with open(os.path.join(ROOT, "src", "config", "presets", name + ".yaml"), encoding="utf-8") as f:
            tap.eq(coffer("policy", "show", "--preset", name).out, f.read(), f"show --preset {name} is the file")
        arg = f"@{name}" + ("(repos=o/r)" if name == "github-triage" else "")
        r = coffer("policy", "show", "--allow", arg)
        tap.ok(r.code == 0 and "\nallow " in r.out, f"--allow {arg}", r)
    r = coffer("policy", "show", "--preset", "nmp")
    tap.ok(r.code == 1 and "--preset npm" in r.err, "a slip in a preset's name", r)


def check_examples():
    for name in ("policy-team.yaml", "policy-bot.yaml"):
        with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as f:
            path = put(name, f.read())
        r = coffer("policy", "check", path)
        tap.eq(r.code, 0, f"examples/{name} is a policy", r)
        tap.eq(coffer("policy", "show", path).code, 0, "and can be shown")
        tap.ok(json.loads(coffer("policy", "show", "--json", path).out)["layers"], "as JSON too")


def main():
    design, bare = put("design.yaml", DESIGN), put("bare.yaml", BARE)
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
