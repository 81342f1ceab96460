#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree itself: the order of the rooms, and what every file and room must have."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ROOT, Tap  # noqa: E402

CHECK = os.path.join(ROOT, "tools/check-rooms")
tap = Tap()


def rooms(files):
    """The verdict and output of check-rooms for a tree of {path: text}."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as src:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(src, path)), exist_ok=True)
            with open(os.path.join(src, path), "w", encoding="utf-8") as f:
                f.write(text)
        p = subprocess.run([CHECK, src], capture_output=True, text=True, check=False)
        return p.returncode, p.stdout


def check_rooms():
    p = subprocess.run([CHECK], cwd=ROOT, capture_output=True, text=True, check=False)
    tap.eq(p.returncode, 0, "tools/check-rooms accepts the source tree", p.stdout)
    cases = [
        ({"sys/a.c": '#include "base/b.h"\n#include <unistd.h>\n'}, 0, "downward"),
        ({"base/a.c": '#include "sys/b.h"\n'}, 1, "upward"),
        ({"base/a.c": '#include "a.h"\n'}, 1, "without a room"),
        ({"base/a.c": '#include "attic/a.h"\n'}, 1, "of no room"),
        ({"attic/a.c": ""}, 1, "in no room"),
        ({"codec/a.c": "#include <string.h>\n"}, 0, "pure"),
        ({"codec/a.c": "#include <sys/socket.h>\n"}, 1, "a pure room with sockets"),
        ({"codec/a.h": "#include <time.h>\n"}, 1, "a pure room with a clock"),
        ({"codec/a.c": '#include "base/fd.h"\n'}, 1, "a pure room with files"),
        ({}, 1, "nothing at all"),
        ({"sys/a/x.c": '#include "sys/b/y.h"\n', "sys/b/y.h": '#include "sys/c/z.h"\n', "sys/c/z.h": ""}, 0, "of sub-rooms in a line"),
        ({"sys/a/x.c": '#include "sys/b/y.h"\n', "sys/b/y.h": '#include "sys/c/z.h"\n', "sys/c/z.h": '#include "sys/a/x.h"\n',
          "sys/a/x.h": ""}, 1, "of sub-rooms in a circle"),
    ]
    for files, wanted, name in cases:
        code, text = rooms(files)
        tap.eq(code, wanted, f"check-rooms: an include {name}", text)
    static = "static int take(void)\n{\n\treturn 0;\n}\n"
    for files, wanted, name in [
            ({f"sys/a{i}.c": "" for i in range(30)}, 0, "30 sources in one directory are taken"),
            ({f"sys/a{i}.c": "" for i in range(31)}, 1, "31 sources in one directory are refused"),
            ({"sys/a.c": "", "sys/a.h": ""}, 0, "a source and its header share a stem"),
            ({"sys/a.c": "", "codec/a.c": ""}, 1, "a stem in two rooms is refused"),
            ({"sys/a.c": "", "sys/x/a.h": ""}, 1, "a stem in two sub-rooms is refused"),
            ({f"sys/a{i}.c": static for i in range(3)}, 0, "a static name in three files is taken"),
            ({f"sys/a{i}.c": static for i in range(4)}, 1, "a static name in four files is refused"),
            ({"run/a.h": "int policy_match(int a);\n"}, 1, "a public function with another room's name is refused"),
            ({"policy/a.h": "int policy_match(int a);\n"}, 0, "a public function with its own room's name is taken"),
            ({"cli/run/a.h": "int run_args_take(int a);\n"}, 1, "a public function of cli without cli_ is refused"),
            ({"cli/run/a.h": "int cli_run_args_take(int a);\n", "cli/core/b.h": "void say_note(void);\n"}, 0,
             "a public function of cli with cli_, and one of cli/core, are taken"),
            ({"sys/a/a.h": "int a_run(void);\n", "sys/b/a2.c": "int a_run(void)\n{\n}\n"}, 1,
             "a function that is declared in one directory and defined in another is refused"),
            ({"sys/a/a.h": "int a_run(void);\n", "sys/a/a2.c": "int a_run(void)\n{\n}\n"}, 0,
             "a function that is declared and defined in one directory is taken"),
            ({"sys/a.h": "int a_run(void);\n", "ipc/b.h": "int a_run(int n);\n"}, 1, "one public name in two headers is refused")]:
        code, text = rooms(files)
        tap.eq(code, wanted, f"check-rooms: {name}", text)


def sources(*tops):
    for top in tops:
        for base, dirs, files in os.walk(os.path.join(ROOT, top)):
            dirs[:] = [d for d in dirs if d not in ("corpus", "__pycache__")]
            for f in files:
                if f.endswith((".c", ".h", ".py")):
                    yield os.path.join(base, f)


# A word of a sentence that limits a file.
LIMIT = re.compile(r"\b(never|not|no|none|nobody|nothing|nowhere|neither|nor|only|must|pure|at most|without|unless|refused?|refuses|"
                   r"cannot|hostile|capped)\b", re.I)


def head_comment(text):
    """The comment after the line of the licence; "" where something else is there."""
    rest = text.split("\n", 1)[1]
    return rest[:rest.index("*/")] if rest.startswith("/*") else ""


def check_files():
    no_spdx, unfinished = [], []
    word = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|X{3}|HA" + r"CK)\b")
    for path in sources("src", "tests", "fuzz", "bench", "tools", "examples"):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.splitlines()[:2]):
            no_spdx.append(os.path.relpath(path, ROOT))
        if word.search(text) and not path.endswith("test_runner.py"):
            unfinished.append(os.path.relpath(path, ROOT))
    tap.eq(no_spdx, [], "every source names its licence in its first lines")
    tap.eq(unfinished, [], "no source has a mark of unfinished work")
    headless, limitless = [], []
    for path in sources("src"):
        if not path.endswith(".c"):
            continue
        with open(path, encoding="utf-8") as f:
            comment = head_comment(f.read())
        if not comment:
            headless.append(os.path.relpath(path, ROOT))
        elif not LIMIT.search(comment):
            limitless.append(os.path.relpath(path, ROOT))
    tap.eq(headless, [], "every source of src/ opens with a comment that says what it is for")
    tap.eq(limitless, [], "every such comment states a limit: what the file must not do, or the invariant that it keeps")
    spdx = "/* SPDX-License-Identifier: Apache-2.0 */\n"
    for text, wanted, name in [
            ("/* Formats a line. Pure. */\nint a; /* never */\n", True, "with a limit is taken"),
            ("/* Formats a line. */\nint a; /* must not */\n", False, "without one is refused, whatever later comments have"),
            ("/*\n * Reads a note, nothing\n * else.\n */\n", True, "of several lines with a limit is taken"),
            ("/* Notes on mayors and mustard. */\n", False, "with a limit only as part of another word is refused"),
            ("int a; /* Never. */\n", False, "after code is none")]:
        tap.eq(bool(LIMIT.search(head_comment(spdx + text))), wanted, f"a head comment {name}")


def check_readmes():
    for room in sorted(os.listdir(os.path.join(ROOT, "src"))):
        path = os.path.join(ROOT, "src", room, "README.md")
        if room == "bin" or not os.path.isdir(os.path.dirname(path)):
            continue
        if not os.path.exists(path):
            tap.ok(False, f"room {room} has a README.md")
            continue
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        tap.ok(0 < len(lines) <= 40, f"the README.md of room {room} has at most 40 lines", len(lines))


FAKES = {
    "dpkg-query": "echo installed",
    "apt-get": 'echo "apt-get $*" >> "$FAKE_LOG"',
    "apt-cache": 'echo "apt-cache $*" >> "$FAKE_LOG"',
    "runsc": "echo runsc version release-20250101.0",
    "sleep": 'echo "sleep $*" >> "$FAKE_LOG"',
    "npm": 'echo npm >> "$FAKE_LOG"; echo "npm error code $FAKE_CODE" >&2; exit ${FAKE_EXIT:-1}',
}


def run_deps(code, exit_code):
    """tools/deps where all packages are installed and npm ends like this: (exit code, output, what was called)."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as d:
        for path in ("tools/deps", "tests/web/package.json"):
            os.makedirs(os.path.dirname(os.path.join(d, path)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, path), os.path.join(d, path))
        os.mkdir(os.path.join(d, "bin"))
        for name, script in FAKES.items():
            with open(os.path.join(d, "bin", name), "w", encoding="ascii") as f:
                f.write("#!/bin/sh\n" + script + "\n")
            os.chmod(os.path.join(d, "bin", name), 0o755)
        log = os.path.join(d, "log")
        env = {"PATH": f"{d}/bin:/usr/bin:/bin", "HOME": d, "FAKE_LOG": log, "FAKE_CODE": code, "FAKE_EXIT": str(exit_code)}
        p = subprocess.run([os.path.join(d, "tools/deps"), "build", "test"], env=env, capture_output=True, text=True, check=False)
        called = ""
        if os.path.exists(log):
            with open(log, encoding="ascii") as f:
                called = f.read()
        return p.returncode, p.stdout + p.stderr, called.splitlines()


def check_deps():
    got = run_deps("none", 0)
    tap.eq((got[0], got[2]), (0, ["npm"]), "tools/deps asks apt for nothing where nothing is missing", *got)
    for code in ("SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "CERT_HAS_EXPIRED"):
        got = run_deps(code, 1)
        tap.ok(got[0] == 1 and got[2] == ["npm"] and code in got[1] and "NODE_EXTRA_CA_CERTS" in got[1],
               f"tools/deps gives up at once when npm fails with {code}, and names the way out", *got)
    got = run_deps("ECONNRESET", 1)
    tap.eq((got[0], got[2]), (1, ["npm", "sleep 5", "npm", "sleep 5", "npm"]), "tools/deps tries npm three times when the network fails", *got)


def check_citations():
    """ARCHITECTURE.md cites functions as `file.c:function`: each exists, in the one file of that name."""
    where = {}
    for path in sources("src"):
        where.setdefault(os.path.basename(path), path)
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as f:
        text = f.read()
    cited = sorted(set(re.findall(r"`([\w-]+\.[ch]):(\w+)`", text)))
    wrong = []
    for name, function in cited:
        if name not in where:
            wrong.append(f"{name}: no such file")
            continue
        with open(where[name], encoding="utf-8") as f:
            if not re.search(rf"^[a-zA-Z][^;\n]*\b{function}\(", f.read(), re.M):
                wrong.append(f"{name}:{function}")
    tap.ok(len(cited) > 50, "ARCHITECTURE.md cites functions", len(cited))
    tap.eq(wrong, [], "every function that ARCHITECTURE.md cites exists in that file")
    rooms_told = re.findall(r"^\| (\w+) \|", text[text.index("## Rooms"):text.index("## Walk 1")], re.M)[1:]
    there = {d for d in os.listdir(os.path.join(ROOT, "src")) if os.path.isdir(os.path.join(ROOT, "src", d))}
    tap.eq(set(rooms_told), there, "ARCHITECTURE.md's table of rooms has every directory of src/")


def trigger_rows():
    """The rows of src/workspace/tree/trigger_table.c, as doc/triggers.md has them."""
    with open(os.path.join(ROOT, "src/workspace/tree/trigger_table.c"), encoding="utf-8") as f:
        text = f.read()
    words = dict(re.findall(r'^#define (\w+) "(.*)"$', text, re.M))
    for name, below, why, reader in re.findall(r'^\t\{ "(.*?)", (NULL|".*?"), (\w+|".*?"), "(.*)" \},$', text, re.M):
        path = name if below == "NULL" else f"{name}/{below[1:-1]}"
        yield f"| `{path}` | {words.get(why, why[1:-1])} | {reader.replace('|', chr(92) + '|')} |"


def check_triggers():
    rows = list(trigger_rows())
    with open(os.path.join(ROOT, "src/workspace/tree/trigger_table.c"), encoding="utf-8") as f:
        tap.eq(len(rows), len(re.findall(r"^\t\{ ", f.read(), re.M)), "every row of the trigger table is read")
    with open(os.path.join(ROOT, "doc/triggers.md"), encoding="utf-8") as f:
        listed = [line for line in f.read().splitlines() if line.startswith("| `")]
    tap.eq(listed, rows, "doc/triggers.md lists the rows of the trigger table, in their order")
    tap.ok(len(set(rows)) == len(rows) > 300, "each row of the trigger table is unique")


# Calls that make a process or replace the program of one; the first group is spawn.h.
STARTS = re.compile(r"\b(?:(spawn_start|spawn_start_step|spawn_exec)|fork|vfork|_Fork|ns_fork|clone|clone3|exec[lv]p?e?|execvpe|execveat|"
                    r"fexecve|posix_spawnp?|system|popen)\s*\(|\b(?:syscall|CALL|raw)\(SYS_(?:clone3?|v?fork|execve(?:at)?)\b")


def start_sites(src):
    """(how, file, function) of each place in src that starts a process."""
    found = set()
    for path in sources(src):
        with open(path, encoding="utf-8") as f:
            code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|//[^\n]*', lambda m: re.sub(r"[^\n]", " ", m.group()), f.read(), flags=re.S)
        head = inside = None
        for line in code.split("\n"):
            name = re.search(r"(?!__attribute__)\b(\w+)\((?!\()", line)
            if line[:1] in ("{", "}"):
                inside = head if line[0] == "{" else None
            elif line[:1].strip() and name:
                head = name.group(1)
            elif inside:
                found |= {("spawn" if m.group(1) else "own", os.path.basename(path), inside) for m in STARTS.finditer(line)}
    return found


def start_rows(path):
    with open(path, encoding="utf-8") as f:
        return [line.split(None, 3) for line in f.read().splitlines() if line and not line.startswith("#")]


def check_starts():
    rows, sites = start_rows(os.path.join(ROOT, "src/sys/spawn_sites.txt")), start_sites("src")
    listed = {tuple(r[:3]) for r in rows}
    tap.ok(all(len(r) == 4 and r[0] in ("spawn", "own") for r in rows) and len(listed) == len(rows),
           "each row of spawn_sites.txt has four fields and is unique", rows)
    tap.eq(sorted(sites - listed), [], "every place that starts a process has its row in spawn_sites.txt")
    tap.eq(sorted(listed - sites), [], "every row of spawn_sites.txt has its place in the code")
    names = [os.path.basename(p) for p in sources("src")]
    twice = sorted({r[1] for r in rows if names.count(r[1]) != 1})
    tap.eq(twice, [], "each file name in spawn_sites.txt is that of one file")
    with tempfile.TemporaryDirectory(prefix="coffertest-") as src:
        with open(os.path.join(src, "a.c"), "w", encoding="utf-8") as f:
            f.write("/* fork() */\nstatic int one(int a,\n\t\t   int b)\n{\n\tsay(\"fork()\");\n}\nint two(void)\n{\n\tif (vfork() == 0)\n"
                    "\t\tsyscall(SYS_execveat, 3);\n\treturn spawn_start(&s);\n}\n")
        tap.eq(start_sites(src), {("own", "a.c", "two"), ("spawn", "a.c", "two")}, "a fork is found in code, not in comments or strings")


# The name of a check is what a failure prints: a sentence that makes sense alone, with a subject of its own.
NAMED = re.compile(r"\b(CHECKF|tap_ok|tap_skip)\(")
PLACE = {"CHECKF": 1, "tap_ok": 3, "tap_skip": 0}
TOKENS = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()\[\]{},]|[^"\'/()\[\]{},]+|/', re.S)
NO_SUBJECT = re.compile(r"(?:case [\d, ]+: |%s: )?(?:what|who|it|its|they|so|nor|and|not|one|another|both|the same|afterwards|unless|which|but|then)\b", re.I)


def call_arguments(code, at):
    """The texts of a call's arguments; `at` is behind its opening parenthesis."""
    args, depth = [""], 1
    while depth:
        token = TOKENS.match(code, at).group()
        at += len(token)
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if token == "," and depth == 1:
            args.append("")
        elif depth:
            args[-1] += token
    return [a.strip() for a in args]


def bad_names(code):
    """The names of checks that are no sentences. A name of conversions alone stands for a row of a table, which must be a
    plain expression: the text of an error is empty when the check passes, so that it counts for nothing."""
    bad = []
    for m in NAMED.finditer(code):
        args = call_arguments(code, m.end())
        first = PLACE[m.group(1)]
        if not args[first].startswith('"'):
            continue
        name = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', args[first]))
        words = name.split()
        empty = [a for a in args[first + 1:] if re.search(r"\b(?:msg|hint)$", a)]
        row = set(words) == {"%s"} and not empty and all(re.fullmatch(r"[\w.\[\]>-]+", a) for a in args[first + 1:])
        if NO_SUBJECT.match(name) or (len(words) - len(empty) < 4 and not row):
            bad.append(name)
    return bad


def check_names():
    bad, n = [], 0
    for path in sources("tests/unit"):
        with open(path, encoding="utf-8") as f:
            code = f.read()
        bad += [f"{os.path.basename(path)}: {name}" for name in bad_names(code)]
        n += len(NAMED.findall(code))
    tap.ok(n > 1500, "the names of the unit tests' checks are read", n)
    tap.eq(bad, [], "every name of a check in tests/unit is a sentence with a subject")
    for name in ('"not when cut"', '"it opens %s", e.msg', '"%s", e.msg', '"%s", buf_cstr(&b)', '"so does a descriptor"',
                 '"another user of the key is refused"', '"%s: what cannot be read is refused", t[i].what', '"the key " "opens"', '"the key opens %s", e.msg'):
        tap.eq(len(bad_names(f"CHECKF(f(a, ','), {name});")), 1, f"the name of a check is refused: {name}")
    for name in ('"sealed data does not open when it is cut"', '"the key " "opens the file"', '"%s", t[i].what', '"the path \'%s\' is refused", bad[i]'):
        tap.eq(bad_names(f"CHECKF(f(a, ','), {name});"), [], f"the name of a check is accepted: {name}")


def check_executables():
    for path in ("tools/deps", "tools/lint", "tools/check-rooms", "tools/gen-docs", "tools/fuzz", "tests/run", ".ci/run"):
        tap.ok(os.access(os.path.join(ROOT, path), os.X_OK), f"{path} is executable")


check_rooms()
check_files()
check_readmes()
check_executables()
check_citations()
check_triggers()
check_starts()
check_names()
check_deps()
tap.done()
