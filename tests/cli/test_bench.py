#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every benchmark runs: with --quick each takes the way that it takes when it measures, and prints a number in each row. How large the
numbers are is nobody's business here."""

import contextlib
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from coffertest import BUILD, FULL, ROOT, RUNSC, Tap, descendants, sanitizer_env, slow_build  # noqa: E402
from nettest import wait_for, why_not  # noqa: E402

ABSENT = ("not installed", "not measured")
# Rows for which each prints a number, whatever is installed: all cells of these rows but the names.
ROWS = {
    "call": ["floor", "call-connected", "vfork+exec", "coffer call", "coffer call --cold", "ns"],
    "checkpoint": ["checkpoint of a live sandbox", "rollback, processes ended and started anew"],
    "compare": ["cold start, ms", "cold start with network, ms", "coffer exec, ms", "exec from a connected client, ms",
                "call from a connected client, ms", "coffer call, ms", "coffer call --cold, ms", "peeked connections a second (more is better)",
                "inspected GET, TLS on both sides, CPU µs", "request with a secret, CPU µs", "checkpoint, ms", "rollback, ms",
                "idle sandbox, PSS KiB"],
    "density": ["coffer", "root"],
    "egress": ["direct", "coffer"],
    "gateway": ["1", "8", "cofferd", "cofferd and the vault", "root"],
    "gvisor": ["runsc run", "coffer run, gvisor", "coffer exec", "git status, 2000 files", "plain runsc", "coffer, gvisor"],
    "inject": ["inspected, no secrets", "carries a secret"],
    "inspect": ["inspected, TLS on both sides", "inspected, in the clear"],
    "replay": ["audit verify, for comparison", "replay: 400 rules, all denied"],
    "run": ["floor", "coffer", "coffer-net", "coffer-exec", "exec-connected", "root", "the newest 100"],
    "steps": ["coffer", "coffer-init", "true"],
    "web": ["request sent to answer read, asked and allowed in between", "the newest 100", "without a client",
            "CPU of coffer-web for an event, ms"],
}
# bench/run starts three of the others: the quickest of them is enough here. bench/compare measures by their functions.
MORE = {"run": ["--only", "start,exec,memory,many,web"]}
if not FULL:
    MORE["compare"] = ["--only", "start,exec,checkpoint,memory"]
    ROWS["compare"] = ["cold start, ms", "coffer exec, ms", "exec from a connected client, ms", "checkpoint, ms", "rollback, ms",
                       "idle sandbox, PSS KiB"]


def rows(text):
    """The rows of all tables, each as its cells; heads are left out."""
    lines = text.splitlines()
    for before, line in zip(lines, lines[1:]):
        if line.startswith("|---"):
            yield None
        elif line.startswith("|") and before.startswith("|"):
            yield [c.strip() for c in line.strip().strip("|").split("|")]


def without_number(text):
    """Rows with neither a number nor a word for what is not there."""
    return [r for r in rows(text) if r and not any(re.search(r"\d", c) for c in r[1:]) and not any(c in ABSENT for c in r)]


def has_row(text, name):
    """Is there a row of this name, and does each such row have a number?"""
    got = [r for r in rows(text) if r and name in r[:3] and not any(c in ABSENT for c in r)]
    return bool(got) and all(any(re.search(r"\d", c) for c in r[r.index(name) + 1:]) for r in got)


def check_checks(tap):
    good = "| a | b |\n|---|---|\n| one | 1.5 |\n| two | not installed |\n"
    tap.ok(not without_number(good) and has_row(good, "one"), "a table whose rows have numbers is taken as that")
    tap.eq(without_number(good + "| three | |\n"), [["three", ""]], "a row without a number is found")
    tap.ok(not has_row(good, "two") and not has_row(good, "four") and not has_row("| a | b |\n|---|---|\n| one | – |\n", "one"),
           "a row that is not there, or has no number, is missed")


# Two processes at once, of which one has a shorter number.
STRACE = """98765 1.000000 execve("build/coffer", ["coffer"], 0x1 /* 2 vars */) = 0 <0.000100>
999   1.001000 execve("/usr/bin/true", ["true"], 0x1 /* 4 vars */ <unfinished ...>
98765 1.001100 close(3) = 0 <0.000010>
999   1.001300 <... execve resumed>) = 0 <0.000300>
999   1.002000 +++ exited with 0 +++
98765 1.003000 +++ killed by SIGKILL +++
"""


def check_strace(tap):
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    steps = runpy.run_path(os.path.join(ROOT, "bench", "steps"))
    tap.eq([(p.role, p.count) for p in steps["parse_strace"](STRACE)], [("coffer", 2), ("true", 1)],
           "bench/steps reads calls that strace prints in two parts, padded process numbers, and processes that were killed")


def reap(but):
    """Those that were left to us. runsc waits until what it has ended is gone, so they are not left until the end."""
    left = descendants(os.getpid())
    for pid, state in left:
        if state.startswith("Z") and pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return [x for x in left if not x[1].startswith("Z")]


def run(argv, tmp):
    """(exit code, stdout, stderr)"""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **sanitizer_env(), "TMPDIR": tmp})
        end = time.monotonic() + 300 * slow_build()
        while p.poll() is None and time.monotonic() < end:
            reap(p.pid)
            time.sleep(0.1)
        p.kill()
        p.wait()
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
        return p.returncode, *texts


def main():
    tap = Tap()
    check_checks(tap)
    check_strace(tap)
    scripts = sorted(e.name for e in os.scandir(os.path.join(ROOT, "bench")) if e.is_file() and os.access(e.path, os.X_OK))
    tap.eq(scripts, sorted(ROWS), "every script in bench/ is tried here")
    if why_not():
        tap.skip("bench/*", why_not())
        tap.done()
    for name in scripts:
        if name == "gvisor" and not RUNSC:
            tap.skip("bench/gvisor", "runsc is not installed: tools/deps runsc")
            continue
        with tempfile.TemporaryDirectory(prefix="coffertest-bench-") as tmp:
            os.chmod(tmp, 0o755)
            builds = [BUILD] * (2 if name == "compare" else 1)
            code, out, err = run([os.path.join(ROOT, "bench", name), *builds, "--quick", *MORE.get(name, [])], tmp)
            tap.eq(code, 0, f"bench/{name} --quick runs to its end", out[-1500:], err[-3000:])
            tap.eq(without_number(out), [], f"bench/{name} --quick: each row has a number, or says what is not there", out[-3000:])
            tap.eq([row for row in ROWS[name] if not has_row(out, row)], [],
                   f"bench/{name} --quick: each row that must be there is, with a number", out[-3000:])
            wait_for(lambda: not reap(0), 20)
            tap.eq((reap(0), os.listdir(tmp)), ([], []), f"bench/{name} --quick leaves no process and no file")
    tap.done()


if __name__ == "__main__":
    main()
