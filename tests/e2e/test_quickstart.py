#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claims of `make quickstart` must be true: the hostile script is stopped, whoever runs it, and nothing is left."""

import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ROOT, Tap, coffer_as, identities  # noqa: E402

tap = Tap()
for who in identities(tap):
    with coffer_as(who) as coffer:
        # The repository may be where only its owner can read it.
        for name in ("tools/quickstart", "examples/hostile-agent.sh"):
            os.makedirs(os.path.dirname(os.path.join(coffer.dir, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(coffer.dir, name))
        r = coffer(program=["python3", os.path.join(coffer.dir, "tools/quickstart"), coffer.bin], timeout=300)
        held = re.findall(r"^  held +", r.out, re.M)
        tap.eq(r.code, 0, f"{who}: the wall held", r)
        tap.ok(len(held) >= 30, f"{who}: at least thirty attempts were made and stopped", len(held), r)
        tap.unlike(r.out, "BROKEN", f"{who}: no attempt got through", r)
        tap.like(r.out, r"the home and the project, \d+ files +as they were", f"{who}: the home and the project are unchanged", r)
        tap.like(r.out, r"fork without end +(the limit of 64 tasks|the pids limit|time ran out) \(",  # on a busy machine time is over first
                 f"{who}: the row of the fork bomb says which limit it met", r)
        tap.unlike(r.out, "unknown filesystem type", f"{who}: no row shows the output of an attempt that was not made", r)
        tap.ok(max(map(len, r.out.splitlines())) <= 80, f"{who}: the output fits a terminal", r)
        coffer.check_clean(tap)
tap.done()
