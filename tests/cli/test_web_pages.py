#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of the API's lists: each has a bound in bytes, and all of them together have everything once."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as, identities  # noqa: E402
from webtest import PATIENCE, send, until  # noqa: E402

MOST = 1 << 20  # bytes of a page, unless it is one item


def tool(c, *path):
    return shutil.copy(os.path.join(BUILD, *path), c.bin)  # where this identity may read it


def write_events(c, n, size=0):
    r = c(program=[tool(c, "bench", "audit_load"), c.state, "1", str(n), str(size)], timeout=120)
    return r.code == 0


def pages(tap, name, sock, path, cursor, key):
    """All pages: the items' keys, and how many pages there were. Each is looked at."""
    seen, sizes, at = [], [], ""
    while at is not None and len(sizes) < 200:
        status, _, data = send(sock, "GET", path + at)
        if status != 200:
            tap.ok(False, f"{name}: a page gets a 200", status, data[:300])
            break
        page = json.loads(data)
        seen += [item[key] for item in page["items"]]
        sizes.append((len(data), len(page["items"])))
        at = None if page["next"] is None else f"&{cursor}={page['next']}"
    tap.ok(all(size <= MOST or n == 1 for size, n in sizes), f"{name}: a page has at most 1 MiB, or one item", sizes)
    tap.ok(all(n for _, n in sizes), f"{name}: no page is empty", sizes)
    return seen, len(sizes)


def test_log(tap, c, sock):
    """Small ones, large ones, and some that are almost a page of their own, in turns."""
    made = [write_events(c, n, size) for n, size in ((300, 0), (30, 100000), (3, 1040000), (200, 5000), (1, 1040000), (300, 0), (2, 520000), (20, 0))]
    tap.ok(all(made), "log: control: large events are written")
    last = json.loads(send(sock, "GET", "/v1/audit?limit=1")[2])["items"][0]["seq"]
    every = list(range(1, last + 1))
    for path, want in (("/v1/audit", every), ("/v1/egress", [json.loads(x)["seq"] for x in c("audit", "--json").out.splitlines() if '"net.request"' in x])):
        for limit in (1000, 7, 90):
            seen, n = pages(tap, f"log: {path} from the end", sock, f"{path}?limit={limit}", "before", "seq")
            tap.eq(seen, want[::-1], f"log: {path} lists each event once backwards, {limit} at a time")
            tap.ok(n > 8, f"log: {path} is split into pages", n)
        page, seen = {"next": 0}, []
        while page["next"] is not None:
            page = json.loads(send(sock, "GET", f"{path}?limit=1000&after={page['next']}")[2])
            seen += [e["seq"] for e in page["items"]]
        tap.eq(seen, want, f"log: {path} lists each event once forwards")
    story = json.loads(send(sock, "GET", "/v1/sandboxes/0123456789ab/timeline?limit=1000")[2])
    tap.ok(len(story["items"]) > 800 and story["next"] is None, "log: control: the short timeline is one page", len(story["items"]))


def test_asks(tap, c, sock):
    """Questions that are much larger as JSON than they were."""
    p = c.popen(program=[tool(c, "tests", "mkasks"), c.state, "5", "2048"], stdin=subprocess.PIPE)
    tap.eq(p.stdout.readline(), b"ready\n", "asks: control: the questions wait")
    try:
        for order in ("oldest", "newest"):
            seen, n = pages(tap, f"asks: {order}", sock, f"/v1/asks?limit=1000&order={order}", "after", "id")
            total = json.loads(send(sock, "GET", "/v1/asks?limit=1")[2])["total"]
            tap.ok(len(seen) == len(set(seen)) == total == 5 * 64, f"asks: {order} first lists each question once", len(seen), total)
            tap.ok(n > 2, f"asks: {order} first is split into pages", n)
    finally:
        p.stdin.close()
        p.wait(timeout=PATIENCE)


def test_sandboxes(tap, c, sock):
    """Many that have ended, whose command was long."""
    first = c("run", "-d", "--", "true", "\x01" * 4000).out.strip()
    tap.ok(until(lambda: "ended" in c("ps", "-a", "--json").out), "sandboxes: control: a sandbox has ended")
    ids = [f"{i:04x}{first[4:]}" for i in range(1, 121)]
    copy = "first=$1; shift; for id; do cp -a $first $id && sed -i s/$first/$id/g $id/meta.json || exit 1; done"
    tap.eq(c(program=["sh", "-c", f"cd {c.state}/runs && {copy}", "-", first, *ids]).code, 0, "sandboxes: control: its directory is copied 120 times")
    seen, n = pages(tap, "sandboxes", sock, "/v1/sandboxes?all=true&limit=1000", "offset", "id")
    tap.eq(sorted(seen), sorted([first, *ids]), "sandboxes: each sandbox is listed once")
    tap.ok(n > 2, "sandboxes: the list is split into pages", n)
    tap.eq(c("rm", first, *ids).code, 0, "sandboxes: rm removes all of them")


def main(tap, who):
    with coffer_as(who) as c:
        sock = os.path.join(c.state, "api.sock")
        tap.eq(c("gateway", "start").code, 0, "the gateway starts")
        test_asks(tap, c, sock)
        test_log(tap, c, sock)
        test_sandboxes(tap, c, sock)
        tap.eq(c("audit", "verify").code, 0, "the log verifies")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
found = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
main(tap, found[-1])
tap.done()
