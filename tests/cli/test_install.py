#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install: what a distribution would package, and that it works from there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, ROOT, Tap, coffer_as  # noqa: E402

tap = Tap()
UNITS = ("cofferd.socket", "cofferd.service", "coffer-rotate.service", "coffer-rotate.timer")


def prefix():
    p = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], capture_output=True, text=True, check=True)
    return next(o["value"] for o in json.loads(p.stdout) if o["name"] == "prefix")


def check_files(dest, where):
    p = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", dest], capture_output=True,
                       text=True, check=False)
    tap.eq(p.returncode, 0, "meson install succeeds", p.stdout, p.stderr)
    wanted = {"bin/coffer": 0o755, "libexec/cofferdam/coffer-init": 0o755, "share/man/man1/coffer.1": 0o644,
              "share/man/man1/coffer-run.1": 0o644, "share/bash-completion/completions/coffer": 0o644,
              "share/zsh/site-functions/_coffer": 0o644, "share/fish/vendor_completions.d/coffer.fish": 0o644,
              "share/doc/cofferdam/LICENSE": 0o644, "libexec/cofferdam/cofferd": 0o755,
              "share/man/man1/coffer-gateway.1": 0o644, "share/man/man5/coffer-policy.5": 0o644}
    for whose in ("system", "user"):
        for unit in UNITS:
            wanted[f"lib/systemd/{whose}/{unit}"] = 0o644
    for name, mode in wanted.items():
        path = f"{dest}{where}/{name}"
        got = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else None
        tap.eq(got, mode, f"{name} is installed with its mode")
    extra = [f for f in os.listdir(f"{dest}{where}/bin") if f != "coffer"]
    tap.eq(extra, [], "no other program goes where people's commands are")
    setuid = subprocess.run(["find", dest, "-perm", "/6000"], capture_output=True, text=True, check=False).stdout
    tap.eq(setuid, "", "nothing is setuid")


def check_docs(dest, where):
    """The files that people are sent to exist: documents with their links, and every file that a message or a man page names."""
    docs = f"{where}/share/doc/cofferdam"
    for name in ("doc", "examples"):
        wanted = {f for f in os.listdir(os.path.join(ROOT, name)) if os.path.isfile(os.path.join(ROOT, name, f))}
        got = set(os.listdir(f"{dest}{docs}/{name}")) if os.path.isdir(f"{dest}{docs}/{name}") else set()
        tap.eq(wanted - got, set(), f"every file of {name}/ is installed")
    lost, links = [], 0
    for base, _, names in os.walk(dest + docs):
        for name in (n for n in names if n.endswith(".md")):
            with open(os.path.join(base, name), encoding="utf-8") as f:
                for to in re.findall(r"\]\(([^)#\s]+)", f.read()):
                    links += 1
                    if "://" not in to and not os.path.exists(os.path.join(base, to)):
                        lost.append(f"{name}: {to}")
    tap.eq((lost, links > 10), ([], True), "every link of an installed document leads to an installed file")
    with open(f"{dest}{where}/bin/coffer", "rb") as f:
        named = {m.decode() for m in re.findall(rb"[\w/.-]*\b(?:doc|examples)/[\w-]+\.(?:md|yaml)", f.read())}
    for section in ("man1", "man5"):
        for page in os.listdir(f"{dest}{where}/share/man/{section}"):
            with open(f"{dest}{where}/share/man/{section}/{page}", encoding="utf-8") as f:
                named |= set(re.findall(r"[\w/.-]*\b(?:doc|examples)/[\w-]+\.(?:md|yaml)", re.sub(r"\\f[BIRP]|\\&|\\(?=-)", "", f.read())))
    tap.eq(sorted(n for n in named if not os.path.exists(dest + n)), [], "every document that coffer or a man page names is where they say")
    tap.ok(len(named) >= 4, "coffer and its man pages name documents", named)


def check_units(dest, where):
    """systemd's own opinion of them, where there is one; the program that they name is the installed one."""
    with open(f"{dest}{where}/lib/systemd/system/cofferd.service", encoding="utf-8") as f:
        tap.ok(f"ExecStart={where}/bin/coffer gateway run\n" in f.read(), "the service names the installed program")
    if not shutil.which("systemd-analyze"):
        tap.skip("systemd reads the units", "systemd-analyze is not installed")
        return
    for whose in ("system", "user"):
        with tempfile.TemporaryDirectory(prefix="coffertest-") as d:
            units = []
            for unit in UNITS:
                with open(f"{dest}{where}/lib/systemd/{whose}/{unit}", encoding="utf-8") as f:
                    text = f.read().replace(f"{where}/bin/coffer", f"{BUILD}/coffer")
                units.append(os.path.join(d, unit))
                with open(units[-1], "w", encoding="utf-8") as f:
                    f.write(text)
            os.mkdir(os.path.join(d, "run"), 0o700)
            p = subprocess.run(["systemd-analyze", f"--{whose}", "verify", "--man=no", *units], capture_output=True, text=True,
                               env={**os.environ, "XDG_RUNTIME_DIR": os.path.join(d, "run")}, check=False)
            tap.eq((p.returncode, p.stderr), (0, ""), f"systemd reads the {whose}'s units without a complaint", p.stdout)


def check_works(dest, where):
    """Mounted at its place in a namespace of our own, coffer must find its helper program there."""
    if os.getuid() != 0:
        tap.skip("an installed coffer runs", "needs root to mount it at its place")
        return
    with coffer_as("root") as c:
        script = ('mkdir -p "$1" && mount --bind "$0$1" "$1" && "$1/bin/coffer" run -q -- echo installed')
        r = c(program=["unshare", "--mount", "sh", "-c", script, dest, where])
        tap.eq((r.code, r.out), (0, "installed\n"), "an installed coffer runs", r)
        c.check_clean(tap)


with tempfile.TemporaryDirectory(prefix="coffertest-") as directory:
    os.chmod(directory, 0o755)
    check_files(directory, prefix())
    check_docs(directory, prefix())
    check_units(directory, prefix())
    check_works(directory, prefix())
tap.done()
