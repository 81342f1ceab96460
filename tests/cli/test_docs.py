#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and doc/*.md tell people to type: every command line of the README is run as an ordinary user in a small project, or is
listed below with the reason why not; every YAML block of doc/ is a complete file that coffer accepts; every link leads to a file."""

import ctypes
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import ocitest  # noqa: E402
from coffertest import ROOT, Tap, coffer_as, slow_build  # noqa: E402
from terminal import Terminal  # noqa: E402

tap = Tap()

# Lines that are not run as they stand. Those of coffer run are still tried with `true` in place of the command.
NOT_RUN = {
    "make quickstart": "e2e/quickstart runs it",
    "make test": "this is a part of it",
    "coffer run --allow api.github.com --allow @npm -- npm ci": "it needs the registry of npm",
    """coffer run --allow api.github.com --secret github -- sh -c 'curl -sH "Authorization: Bearer $GITHUB_TOKEN" https://api.github.com/user'""": "it needs GitHub",
    "claude mcp add coffer -- coffer mcp": "it needs Claude Code; tests/agents has it",
}
# Input that is typed at the prompt of a line. A program in place of Claude Code stands for it.
TYPED = {
    "coffer secret set anthropic; coffer run --profile claude -- claude": "sk-ant-0123456789abcdefghijklmnopqrstuvwxyz",
    "coffer secret set github --host api.github.com": "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
}
ALSO_RIGHT = {"coffer why": 1}  # nothing was denied

MAKEFILE = """test:
\techo passed >result.txt
deps:
\t@echo "all there"
"""


def own_network():
    """No other program has the ports that the README names, and nothing outside can be reached."""
    if os.getuid() != 0:
        return
    clone_newnet = 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(clone_newnet):
        raise OSError(ctypes.get_errno(), "a network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def command_lines(text):
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            line = re.sub(r"\s+# .*", "", line).strip()
            if line:
                yield line


def type_at_prompt(c, line, text):
    """Runs a line on a terminal and types what it asks for; its exit code and what was shown."""
    t = Terminal(c, program=["sh", "-c", f"PATH={c.bin}:$PATH; {line}"])
    try:
        asked = t.read(": ")
        t.type(text + "\n")
        t.read("(nothing: until it ends)")
        return (t.wait() if asked else None), t.text
    finally:
        t.close()


def run_line(c, line):
    if line in TYPED:
        code, shown = type_at_prompt(c, line, TYPED[line])
        tap.ok(code == 0 and TYPED[line] not in shown, f"README: {line}", code, shown)
        return
    r = c(program=["sh", "-c", line], env={"PATH": f"{c.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    tap.ok(r.code in (0, ALSO_RIGHT.get(line, 0)), f"README: {line}", r)


def try_options(c, line):
    for part in line.split(";"):
        options = re.fullmatch(r"\s*coffer (run .*) -- .*", part)
        if options:
            r = c(*options.group(1).split(), "--", "true")
            tap.ok(r.code != 2 and "try:" not in r.err, f"README: the options of '{part.strip()}' are right", r)


def check_readme():
    lines = list(command_lines(read("README.md")))
    unknown = [line for line in NOT_RUN.keys() | TYPED.keys() if line not in lines]
    tap.eq(unknown, [], "each line that this test treats differently is in the README")
    tap.ok(len(lines) > 15, "the README has command lines", lines)
    with coffer_as("user") as c:
        c.write("Makefile", MAKEFILE)
        c.write("README.md", "A project.\n")
        with open(os.path.join(c.bin, "claude"), "w", encoding="ascii") as f:
            f.write('#!/bin/sh\necho "$ANTHROPIC_API_KEY"\n')
        os.chmod(f.name, 0o755)
        ocitest.docker_archive(os.path.join(c.work, "myapp.tar.gz"), [ocitest.base_layer()], tags=("myapp:latest",))
        c.own(os.path.join(c.work, "myapp.tar.gz"))
        for line in lines:
            if line in NOT_RUN:
                tap.note(f"not run: {line}: {NOT_RUN[line]}")
                try_options(c, line)
            else:
                run_line(c, line)
        with open(os.path.join(c.work, "result.txt"), encoding="ascii") as f:
            tap.eq(f.read(), "passed\n", "README: the changes of the first lines were brought out")
        for verb in (("stop", "web"), ("gateway", "stop")):
            c(*verb)


def check_yaml():
    seen = 0
    with coffer_as(None) as c:
        for name in sorted(os.listdir(os.path.join(ROOT, "doc"))):
            if not name.endswith(".md"):
                continue
            for i, block in enumerate(blocks(read(f"doc/{name}"), "yaml"), 1):
                seen += 1
                path = c.write(f"{name}-{i}.yaml", block)
                kind = ("notify", "ls", "--config", path) if re.search(r"^notify:", block, re.M) else ("policy", "check", path)
                r = c(*kind)
                tap.ok(r.code == 0 and not r.err, f"YAML block {i} of doc/{name} is a complete file without a warning", r)
    tap.ok(seen >= 5, "doc/ has YAML blocks", seen)


def check_links():
    names = [n for n in os.listdir(ROOT) if n.endswith(".md")] + [f"doc/{n}" for n in os.listdir(os.path.join(ROOT, "doc")) if n.endswith(".md")]
    lost, n = [], 0
    for name in sorted(names):
        for to in re.findall(r"\]\(([^)#\s]+)", read(name)):
            n += 1
            if "://" not in to and not os.path.exists(os.path.join(ROOT, os.path.dirname(name), to)):
                lost.append(f"{name}: {to}")
    tap.eq((lost, n > 10), ([], True), "every link of the README and of doc/ leads to a file")


own_network()
check_yaml()
check_links()
check_readme()
tap.done()
