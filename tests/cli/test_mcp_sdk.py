#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`coffer mcp` with the client of the official TypeScript SDK: initialize, every tool, errors, progress, cancelling, the end. As every
identity; `make e2e` does the same on every engine, with the Inspector and Claude Code besides."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import mcpsdk  # noqa: E402
from coffertest import ROOT, Tap, coffer_as, identities  # noqa: E402

MODULES = os.path.join(ROOT, "build-web")


def main():
    tap = Tap()
    if not tap.ok(mcpsdk.has_sdk(MODULES), "the SDK is installed (tools/deps test)", f"{MODULES} has no @modelcontextprotocol/sdk"):
        tap.done()
    for who in identities(tap, ("ns",)):
        with coffer_as(who) as c:
            mcpsdk.visit(tap, c, who, MODULES, [])
            c.check_clean(tap)
    tap.done()


main()
