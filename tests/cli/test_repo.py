#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree itself: the order of the rooms, and what every file and room must have."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ROOT, Tap  # noqa: E402

CHECK = os.path.join(ROOT, "tools/check-rooms")
tap = Tap()


def rooms(files):
    """What check-rooms says about a tree of {path: text}."""
    with tempfile.TemporaryDirectory(prefix="coffertest-") as src:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(src, path)), exist_ok=True)
            with open(os.path.join(src, path), "w", encoding="utf-8") as f:
                f.write(text)
        p = subprocess.run([CHECK, src], capture_output=True, text=True, check=False)
        return p.returncode, p.stdout


def check_rooms():
    p = subprocess.run([CHECK], cwd=ROOT, capture_output=True, text=True, check=False)
    tap.eq(p.returncode, 0, "rooms are in order", p.stdout)
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
            ({f"sys/a{i}.c": static for i in range(4)}, 1, "a static name in four files is refused")]:
        code, text = rooms(files)
        tap.eq(code, wanted, f"check-rooms: {name}", text)


def sources(*tops):
    for top in tops:
        for base, dirs, files in os.walk(os.path.join(ROOT, top)):
            dirs[:] = [d for d in dirs if d not in ("corpus", "__pycache__")]
            for f in files:
                if f.endswith((".c", ".h", ".py")):
                    yield os.path.join(base, f)


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
    tap.eq(unfinished, [], "nothing is marked as unfinished")


def check_readmes():
    for room in sorted(os.listdir(os.path.join(ROOT, "src"))):
        path = os.path.join(ROOT, "src", room, "README.md")
        if room == "bin" or not os.path.isdir(os.path.dirname(path)):
            continue
        if not os.path.exists(path):
            has = [f for f in os.listdir(os.path.dirname(path)) if f.endswith((".c", ".h"))]
            tap.ok(not has, f"room {room} has a README.md")
            continue
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        tap.ok(0 < len(lines) <= 40, f"room {room} explains itself in at most 40 lines", len(lines))


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
    tap.ok(len(set(rows)) == len(rows) > 300, "each row stands once")


def check_executables():
    for path in ("tools/deps", "tools/lint", "tools/check-rooms", "tools/gen-docs", "tools/fuzz", "tests/run", ".ci/run"):
        tap.ok(os.access(os.path.join(ROOT, path), os.X_OK), f"{path} is executable")


check_rooms()
check_files()
check_readmes()
check_executables()
check_triggers()
tap.done()
