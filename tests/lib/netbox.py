# SPDX-License-Identifier: Apache-2.0
"""A sandbox with a network in tests: what it logs, its programs, and one that lasts."""

import json
import os

from coffertest import descendants


def log(c, *types, sandbox=None):
    args = ["--sandbox", sandbox] if sandbox else []
    lines = [json.loads(line) for line in c("audit", "--json", *args).out.splitlines()]
    return [e for e in lines if e["type"] in types]


def part(c, name):
    """The pid of one of this sandbox's programs, None when it is not there."""
    for pid, text in descendants(os.getpid()):
        if text.split(" ", 1)[1] == name[:15] and text[0] != "Z":
            return pid
    return None


class Sandbox:
    """One that lasts, with a policy file, and what can be asked of it."""

    def __init__(self, tap, c, net, *args):
        self.tap, self.c, self.who = tap, c, c.who
        r = c("run", "-d", "--name", "box", "-v", f"{net.ca}:/ca.pem", *args, "--", "sleep", "1000")
        self.id = r.out.strip()
        tap.eq(r.code, 0, f"{c.who}: the sandbox box starts in the background", r)

    def get(self, url):
        return self.c("exec", "box", "--", "curl", "-sS", "-m", "60", "--cacert", "/ca.pem", url)

    def reaches(self, url):
        return self.get(url).code == 0

    def address(self, name):
        return self.c("exec", "box", "--", "getent", "ahostsv4", name).out.split()[:1]

    def log(self, *types):
        return log(self.c, *types, sandbox=self.id)

    def close(self):
        r = self.c("stop", "--time", "1", "box")
        self.tap.eq(r.code, 0, f"{self.who}: coffer stop ends the sandbox box", r)
        self.c("rm", "box")
