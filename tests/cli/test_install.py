#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install: what a distribution would package, and that it works from there."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as  # noqa: E402

tap = Tap()


def prefix():
    p = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], capture_output=True, text=True, check=True)
    return next(o["value"] for o in json.loads(p.stdout) if o["name"] == "prefix")


def check_files(dest, where):
    p = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", dest], capture_output=True,
                       text=True, check=False)
    tap.eq(p.returncode, 0, "installs", p.stdout, p.stderr)
    wanted = {"bin/coffer": 0o755, "libexec/cofferdam/coffer-init": 0o755, "share/man/man1/coffer.1": 0o644,
              "share/man/man1/coffer-run.1": 0o644, "share/bash-completion/completions/coffer": 0o644,
              "share/zsh/site-functions/_coffer": 0o644, "share/fish/vendor_completions.d/coffer.fish": 0o644,
              "share/doc/cofferdam/LICENSE": 0o644}
    for name, mode in wanted.items():
        path = f"{dest}{where}/{name}"
        got = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else None
        tap.eq(got, mode, f"{name} is there")
    extra = [f for f in os.listdir(f"{dest}{where}/bin") if f != "coffer"]
    tap.eq(extra, [], "no other program goes where people's commands are")
    setuid = subprocess.run(["find", dest, "-perm", "/6000"], capture_output=True, text=True, check=False).stdout
    tap.eq(setuid, "", "nothing is setuid")


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
    check_works(directory, prefix())
tap.done()
