#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where people new to coffer stumble: each message names the thing, the reason and the next step, and the step works when it is typed."""

import json
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, free_port  # noqa: E402

tap = Tap()

# A wrong command line, and the step that its message must offer.
WRONG = [
    (["run", "--allow", "example.com/path", "--", "true"], "put paths under http: in a policy file\n  try: example.com\n"),
    (["run", "-t", "--", "true"], "try: leave -t out"),
    (["run", "--network", "host", "--", "true"], "--net observe"),
    (["run", "--net", "bridge", "--", "true"], "--allow HOST"),
    (["secret", "get", "x"], "a value is never shown"),
    (["secret", "list"], "try: coffer secret ls"),
    (["image", "load"], "try: coffer image import FILE"),
    (["policy", "check"], "policy check needs a file"),
    (["policy", "diff", "a.yaml"], "policy diff needs two files"),
    (["secret", "set"], "secret set needs a name: coffer secret set NAME"),
    (["secret", "get"], "secret has no action 'get'"),
    (["ui", "--port", "8080"], "try: coffer gateway start --listen ADDRESS:PORT"),
]

# Command lines that lack a word.
UNFINISHED = ["run", "apply", "diff", "exec", "stop", "logs", "rm", "cp", "approve", "deny", "checkpoint rm", "image", "secret", "secret set",
              "secret import", "secret forget", "secret bind x", "secret rotate", "token", "net", "notify", "replay"]


def check_wrong(c):
    for args, wanted in WRONG:
        r = c(*args, input=b"")
        tap.ok(r.code == 2 and wanted in r.err, f"'coffer {' '.join(args)}' offers a step that works", r)
    for args in UNFINISHED:
        r = c(*args.split(), input=b"")
        first = r.err.splitlines()[0] if r.err else "?"
        tap.ok(r.code == 2 and "?" not in first and ("needs" in first or "is named" in first), f"'coffer {args}' says what is missing", r)
    r = c("run", "--allow", "8.8.8.0/24", "--", "true")
    tap.eq(r.code, 0, "a range of addresses is still taken by --allow", r)


def check_nothing_changed(c):
    r = c("run", "-q", "--", "true")
    run_id = [e for e in log(c) if e["type"] == "run.end"][-1]["sandbox"]
    for verb in ("diff", "apply", "discard"):
        for ref in ("@last", run_id):
            r = c(verb, ref)
            tap.eq(r.code, 0, f"coffer {verb} of a run that changed nothing succeeds ({'@last' if ref == '@last' else 'by its id'})", r)
    tap.ok("nothing to apply" in c("apply", "@last").err, "coffer apply says that there is nothing to apply")
    for verb in ("apply", "discard"):
        r = c(verb, "nosuch")
        tap.eq(r.code, 125, f"coffer {verb} of a run that never was still fails", r)
    c("run", "-q", "--", "touch", "made")
    r = c("apply", "@last")
    tap.ok(r.code == 0 and os.path.exists(os.path.join(c.work, "made")), "coffer apply brings out a change that there is", r)
    r = c("apply", "@last")
    tap.eq(r.code, 125, "coffer apply of a run whose changes are out already fails", r)


def log(c):
    return [json.loads(x) for x in c("audit", "--json").out.splitlines()]


def check_failed_command(c):
    c.write("untrusted.py", "print(1)\n")
    r = c("run", "--ephemeral", "--", "python3", "untrusted.py")
    tap.ok(r.code and "workspace of --ephemeral is empty: untrusted.py" in r.err, "a file that --ephemeral does not show is explained", r)
    r = c("run", "--ephemeral", "--", "sh", "-c", "exit 3")
    tap.ok(r.code == 3 and "--ephemeral is empty" not in r.err, "a command that failed without naming a file gets no hint about --ephemeral", r)
    shown = os.path.join(c.home, "shown")
    os.mkdir(shown)
    c.own(shown)
    r = c("run", "-v", f"{shown}:/shown", "--", "touch", "/shown/x")
    tap.ok(r.code and ":rw" in r.err, "a write to what -v shows read-only is explained once it failed", r)
    r = c("run", "-v", f"{shown}:/shown:rw", "--", "touch", "/shown/x")
    tap.ok(r.code == 0 and os.path.exists(os.path.join(shown, "x")), "with :rw, as the hint says, the write works", r)
    r = c("run", "-v", f"{shown}:/shown", "--", "false")
    tap.ok(r.code == 1 and ":rw" not in r.err, "another failure with -v gets no hint about :rw", r)
    r = c("run", "python:3.12", "python3")
    tap.ok(r.code == 127 and "--image" in r.err, "an image typed as the command, as with docker, leads to --image", r)


def check_typed_twice(c):
    port = str(free_port())
    line = ["run", "-d", "--name", "web", "-p", f"{port}:8000", "--", "sleep", "60"]
    tap.eq(c(*line).code, 0, "a sandbox with a name and a port starts")
    r = c(*line)
    tap.ok(r.code == 125 and "there is a run called 'web' already" in r.err, "the same line typed twice says that the name is taken, not the port", r)
    r = c("run", "-d", "-p", f"{port}:8000", "--", "true")
    tap.ok(r.code == 125 and f"-p {int(port) + 1}:8000" in r.err, "a port that is taken leads to another one", r)
    r = c("audit", "--sandbox", "web")
    start = next(x for x in r.out.splitlines() if " run.start " in x)
    tap.ok("limits={…}" in start and len(start) < 1000, "a start in the log is a line that can be read", start)
    tap.ok("memory" in next(e for e in log(c) if e["type"] == "run.start" and e.get("name") == "web")["limits"], "coffer audit --json has the limits whole")
    r = c("stop", "nosuch", "web")
    tap.ok(r.code == 125 and "nosuch" in r.err and "sandbox web is stopped" in r.err, "stop of several sandboxes names each that it stopped", r)
    tap.eq(c("run", "-d", "--name", "other", "-p", f"{port}:8000", "--", "sleep", "60").code, 0, "another sandbox gets the port")
    r = c("start", "web")
    tap.ok(r.code == 125 and f"the sandbox that uses port {port}: coffer stop other" in r.err, "start with a port that is taken names the sandbox that has it", r)
    tap.eq(c("rm", "-f", "other").code, 0, "rm of the other sandbox succeeds")
    with socket.create_server(("127.0.0.1", int(port))):
        r = c("start", "web")
    tap.ok(r.code == 125 and f"stop the program that uses port {port}" in r.err and "try: another" not in r.err,
           "start with a port that another program has says to stop that program", r)
    tap.eq(c("rm", "-f", "web").code, 0, "rm of the sandbox with a port succeeds")


def check_late_answer(c):
    c.write("tools.yaml", "version: 1\ntools:\n  - ask: deploy\n")
    r = c("call", "--policy", "tools.yaml", "--tool", "deploy", "--ask-timeout", "1s", "--", "true")
    ids = [e["ask"] for e in log(c) if e["type"].startswith("ask.") and "ask" in e]
    tap.ok(r.code == 125 and ids, "a question about a tool lapses", r, log(c)[-3:])
    r = c("approve", ids[0] if ids else "?")
    tap.ok(r.code == 125 and re.search(r"question \S+ is over \(\w+\)", r.err), "approve of a question that is over says so", r)


def check_gateway(c):
    port = free_port()
    tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}").code, 0, "the gateway listens")
    r = c("gateway", "status")
    tap.ok(f"page and API: 127.0.0.1:{port} " in r.out, "coffer gateway status says where the page is", r)
    other = f"127.0.0.1:{free_port()}"
    r = c("ui", "--listen", other)
    tap.ok(r.code == 125 and f"the gateway listens on 127.0.0.1:{port} already" in r.err and f"coffer gateway start --listen {other}" in r.err and not r.out,
           "ui --listen with another address than the gateway's is refused", r)
    r = c("ui", "--listen", f"127.0.0.1:{port}")
    tap.ok(r.code == 0 and f"http://127.0.0.1:{port}/" in r.out, "ui --listen with the gateway's address prints the link", r)
    c("gateway", "start", "--listen", other)
    r = c("ui", "--listen", other)
    tap.ok(r.code == 0 and f"http://{other}/" in r.out, "ui --listen accepts the second address of the gateway", r)
    c("gateway", "stop")


def check_secret(c):
    r = c("secret", "set", "anthropic", "-", input=b"sk-ant-0123456789abcdefghijklmnopqrstuvwxyz")
    tap.eq(r.code, 0, "a secret of a profile is set", r)
    c("secret", "set", "other", "-", input=b"0123456789abcdefghijklmnopqrstuvwxyz")
    rows = {x.split()[0]: x for x in c("secret", "ls").out.splitlines()}
    tap.ok("profile claude" in rows["anthropic"], "coffer secret ls names the profile that sends a secret without a binding", rows)
    tap.ok(" nothing " in rows["other"], "a secret that no profile knows is bound to nothing", rows)
    items = {x["name"]: x["profile"] for x in json.loads(c("secret", "ls", "--json").out)}
    tap.eq(items, {"anthropic": "claude", "other": None}, "coffer secret ls --json has the profile")
    r = c("secret", "check")
    tap.ok("other: is bound to no host" in r.out and "anthropic" not in r.out, "secret check advises a binding only if no profile sends the secret", r)
    c.write("empty.env", "# nothing\n")
    c.write("short.env", "A=1\n")
    r = c("secret", "import", "empty.env")
    tap.ok(r.code == 1 and "it has no line NAME=VALUE" in r.err, "secret import of a file without variables fails with the reason", r)
    r = c("secret", "import", "short.env")
    tap.ok(r.code == 1 and "every variable was left out" in r.err, "secret import that takes nothing fails with the reason", r)


def check_ceiling(c):
    c.write("agent.yaml", 'version: 1\nabout: an agent\nallow: ["api.anthropic.com"]\nsecrets:\n  - {name: anthropic, env: KEY, host: api.anthropic.com, as: bearer}\n')
    c.write("ceiling.yaml", "version: 1\negress:\n  allow: [wiki.corp.example]\n")
    r = c("secret", "bind", "anthropic", "--host", "api.anthropic.com", "--as", "bearer")
    tap.eq(r.code, 0, "the secret is bound", r)
    r = c("run", "--profile", os.path.join(c.work, "agent.yaml"), "--policy", "ceiling.yaml", "--", "true")
    tap.ok("the agent gets no key" in r.err and "the policy file must allow api.anthropic.com" in r.err, "an agent without a key is told that the policy file must allow its server", r)
    c.write("ceiling.yaml", "version: 1\negress:\n  allow: [api.anthropic.com]\n")
    r = c("run", "--profile", os.path.join(c.work, "agent.yaml"), "--policy", "ceiling.yaml", "--", "sh", "-c", "echo ${KEY:+has a key}")
    tap.ok("has a key" in r.out and "gets no key" not in r.err, "an agent has its key once the policy file allows its server", r)


def main():
    with coffer_as("user") as c:
        check_wrong(c)
        check_nothing_changed(c)
        check_failed_command(c)
        check_typed_twice(c)
        check_late_answer(c)
        check_gateway(c)
        check_secret(c)
        check_ceiling(c)
        c.check_clean(tap)
    tap.done()


main()
