#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make quickstart` shows must be true: the hostile script is stopped, whoever runs it, and nothing is left."""

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
        shutil.copytree(os.path.join(ROOT, "examples/quickstart"), os.path.join(coffer.dir, "quickstart"))
        r = coffer(program=["python3", os.path.join(coffer.dir, "quickstart/run"), coffer.exe], timeout=120)
        held = re.findall(r"^  held  (.*?)  ", r.out, re.M)
        tap.eq(r.code, 0, f"{who}: the wall held", r)
        tap.ok(len(held) >= 14, f"{who}: at least fourteen attempts were made and stopped", r)
        tap.unlike(r.out, "BROKE", f"{who}: none got through", r)
        tap.like(r.out, r"read your SSH key +yes: THE-PRIVATE-KEY", f"{who}: without the wall it would have worked", r)
        coffer.check_clean(tap)
tap.done()
