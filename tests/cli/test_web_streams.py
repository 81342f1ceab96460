#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Events to a thousand clients, some of whom never read; pages of a long log; what ends in the midst of it and is started again."""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as, identities, kill_own, slow_build  # noqa: E402
from webtest import Crowd, Stream, child, connection, free_port, metric, raise_files, resident, send, until  # noqa: E402

CLIENTS, MUTE = 1000, 50
LONG = 20000  # events of a log that nobody wants to read as a whole


def write_events(c, n):
    """Events as of decided requests, into the log of this identity."""
    program = shutil.copy(os.path.join(BUILD, "bench", "audit_load"), c.bin)  # where this identity may read it
    r = c(program=[program, c.state, "1", str(n)], timeout=300)
    return r.code == 0


def last_seq(sock):
    return json.loads(send(sock, "GET", "/v1/audit?limit=1")[2])["items"][0]["seq"]


def event(c, name):
    c("token", "new", "--role", "observer", "--name", name)


def test_crowd(tap, c, sock, port, token, crowd):
    for i in range(CLIENTS):
        crowd.add(Stream(port, token, mute=i < MUTE))
    tap.ok(crowd.pump(lambda: all(s.status for s in crowd.streams)), "crowd: all streams are answered")
    tap.eq({s.status for s in crowd.streams}, {200}, "crowd: one credential may open a thousand streams")
    tap.eq(metric(sock, "coffer_api_streams"), CLIENTS, "crowd: the metrics count the streams")
    start = time.monotonic()
    event(c, "marker")
    mark = b'"name":"marker"'
    tap.ok(crowd.pump(lambda: all(mark in s.data for s in crowd.reading())), "crowd: an event reaches all readers")
    tap.note(f"one event to {CLIENTS} clients: {time.monotonic() - start:.3f} s with the command that caused it")
    tap.eq({s.data.count(mark) for s in crowd.reading()}, {1}, "crowd: an event reaches each reader once")


def test_flood(tap, c, sock, crowd, web):
    """More than fits between us and those who do not read."""
    first, whole = last_seq(sock), crowd.reading()[::50]
    for s in crowd.reading():
        s.forgets = s not in whole
    tap.ok(write_events(c, 3000), "flood: three thousand events are written")
    last = last_seq(sock)
    end = b"id: %d\n" % last
    tap.ok(crowd.pump(lambda: all(end in s.data for s in crowd.reading()), 120), "flood: the last event reaches all readers",
           sum(end in s.data for s in crowd.reading()))
    want = list(range(first + 1, last + 1))
    tap.ok(all(s.ids()[-len(want):] == want for s in whole), "flood: events arrive in order without a gap")
    limit = (48 << 10) * (16 if slow_build() > 1 else 1)  # KiB; a sanitizer's own beside it
    tap.ok(resident(web) < limit, "flood: coffer-web buffers nothing for clients that do not read", f"{resident(web)} KiB")
    gone = until(lambda: (metric(sock, "coffer_api_dropped_total") or 0) >= MUTE, 120)
    tap.ok(gone, "flood: clients that never read are disconnected", metric(sock, "coffer_api_dropped_total"))
    tap.eq(metric(sock, "coffer_api_streams"), CLIENTS - MUTE, "flood: clients that read stay connected")


def test_resume(tap, port, token, last):
    """From wherever one was, together and alone; and from a number that there never was."""
    crowd = Crowd()
    places = [0, 1, 2, last // 2, last // 2, last // 2 + 1, last - 600, last - 1, last]
    for after in places:
        crowd.add(Stream(port, token, after))
    far = Stream(port, token, last + 10**12)
    only = Stream(port, token, 0, "?type=api.listen")
    crowd.add(far)
    crowd.add(only)
    end = b"id: %d\n" % last
    done = crowd.pump(lambda: all(end in s.data for s in crowd.streams[:len(places) - 1]) and b"event: api.listen" in only.data, 120)
    tap.ok(done, "resume: all streams reach the last event", [(a, len(s.ids())) for a, s in zip(places, crowd.streams)])
    tap.ok(all(s.ids() == list(range(a + 1, last + 1)) for a, s in zip(places, crowd.streams)), "resume: each stream continues after its Last-Event-ID",
           [(a, s.ids()[:3], s.ids()[-3:]) for a, s in zip(places, crowd.streams)])
    tap.ok(far.status == 200 and not far.ids(), "resume: a future Last-Event-ID gets new events only")
    tap.ok(set(only.data.count(b"event: " + t) for t in (b"net.request", b"api.token")) == {0}, "resume: a stream with a type gets only that type")
    return crowd, far


def test_restart(tap, c, sock, port, token, daemon):
    """coffer-web dies in mid stream: clients come back with the last that they saw."""
    crowd = Crowd()
    for _ in range(100):
        crowd.add(Stream(port, token))
    tap.ok(crowd.pump(lambda: all(s.status == 200 for s in crowd.streams)), "restart: control: a hundred streams are open")
    last = last_seq(sock)
    kill_own(child(daemon, "coffer-web"), signal.SIGKILL)
    tap.ok(crowd.pump(lambda: all(s.ended for s in crowd.streams)), "restart: streams end when coffer-web is killed")
    crowd.close()
    event(c, "meanwhile")
    again = Crowd()
    tap.ok(until(lambda: send(sock, "GET", "/v1/status")[0] == 200), "restart: coffer-web is restarted")
    for _ in range(100):
        again.add(Stream(port, token, last))
    event(c, "afterwards")
    tap.ok(again.pump(lambda: all(b'"afterwards"' in s.data for s in again.streams)), "restart: new streams get new events",
           {s.status for s in again.streams})
    tap.ok(all(s.ids()[:1] == [last + 1] and s.data.count(b'"name":"meanwhile"') == 1 and
               s.ids() == list(range(last + 1, last + 1 + len(s.ids()))) for s in again.streams), "restart: new streams continue after their Last-Event-ID",
           again.streams[0].ids())
    tap.eq(metric(sock, "coffer_web_restarts_total"), 1, "restart: the metrics count the restart")
    tap.ok((metric(sock, 'coffer_api_requests_total{status="200"}') or 0) > CLIENTS, "restart: the metrics keep their counts")
    again.close()


def feeds(daemon):
    found = []
    with contextlib.suppress(OSError):
        with open(f"/proc/{daemon}/task/{daemon}/children", encoding="ascii") as f:
            pids = f.read().split()
        for pid in pids:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found += [int(pid)] if b"feed" in f.read() else []
    return found


def test_feed(tap, c, sock, port, token, daemon):
    """The process that reads the log for the streams dies, and so does the next one that a stream has started meanwhile."""
    crowd = Crowd()
    for _ in range(3):
        crowd.add(Stream(port, token))
        first = until(lambda: feeds(daemon))
        kill_own(first[0], signal.SIGKILL)
        until(lambda f=first: f[0] not in feeds(daemon))
    crowd.add(Stream(port, token))
    event(c, "after-all")
    tap.ok(crowd.pump(lambda: all(b'"after-all"' in s.data for s in crowd.streams)), "feed: all streams continue after the log reader was killed", [s.status for s in crowd.streams])
    tap.eq(send(sock, "GET", "/v1/status")[0], 200, "feed: cofferd answers after the log reader was killed")
    crowd.close()


def test_daemon(tap, c, sock, port, token, daemon):
    """cofferd is killed: nothing of it is left behind, and the next one serves the same address and tokens."""
    one = Stream(port, token)
    crowd = Crowd()
    crowd.add(one)
    tap.ok(crowd.pump(lambda: one.status == 200), "daemon: control: a stream is open")
    web = child(daemon, "coffer-web")
    last = last_seq(sock)
    kill_own(daemon, signal.SIGKILL)
    tap.ok(crowd.pump(lambda: one.ended), "daemon: a stream ends when cofferd is killed")
    tap.ok(until(lambda: not os.path.exists(f"/proc/{web}/exe")), "daemon: coffer-web ends when cofferd is killed")
    crowd.close()
    tap.eq(c("gateway", "start").code, 0, "daemon: gateway start starts another cofferd")
    again = Stream(port, token, last - 1)
    crowd = Crowd()
    crowd.add(again)
    tap.ok(crowd.pump(lambda: again.ids() or again.ended), "daemon: the new cofferd serves the stream with the same token", again.data[:300])
    tap.eq(again.ids()[:1], [last], "daemon: the stream continues after its Last-Event-ID")
    crowd.close()


def test_pages(tap, sock, last):
    """The whole log page by page, both ways, without reading it all for each."""
    seen, before, n = [], None, 0
    start = time.monotonic()
    while n < 8:
        page = json.loads(send(sock, "GET", "/v1/audit?limit=1000" + (f"&before={before}" if before else ""))[2])
        seen += [e["seq"] for e in page["items"]]
        before, n = page["next"], n + 1
    tap.note(f"eight pages of a thousand: {time.monotonic() - start:.3f} s")
    tap.eq(seen, list(range(last, last - 8000, -1)), "pages: eight pages backwards are complete")
    page = json.loads(send(sock, "GET", f"/v1/audit?limit=5&after={last // 2}")[2])
    tap.eq([e["seq"] for e in page["items"]], list(range(last // 2 + 1, last // 2 + 6)), "pages: a page forwards from the middle is complete")
    page = json.loads(send(sock, "GET", "/v1/audit?limit=3&before=4")[2])
    tap.eq(([e["seq"] for e in page["items"]], page["next"]), ([3, 2, 1], None), "pages: the first page has no next cursor")
    page = json.loads(send(sock, "GET", f"/v1/egress?limit=2&before={last // 2}")[2])
    tap.ok(len(page["items"]) == 2 and page["items"][0]["host"] == "api.example.com" and page["next"], "pages: /v1/egress has pages", page)
    page = json.loads(send(sock, "GET", "/v1/egress?limit=2&host=API.Example&decision=deny")[2])
    tap.eq(page["items"], [], "pages: a filter without a match finds nothing")
    tap.eq(len(json.loads(send(sock, "GET", "/v1/egress?limit=2&host=API.Example")[2])["items"]), 2, "pages: control: a filter with a match finds events")
    page = json.loads(send(sock, "GET", "/v1/audit?limit=9&sandbox=0123456789ab&type=net.request")[2])
    tap.ok(len(page["items"]) == 9 and all(e["sandbox"] == "0123456789ab" for e in page["items"]), "pages: /v1/audit filters by sandbox and type")


def test_tail(tap, c, sock):
    """The end of the log on the command line, and what comes then."""
    def seqs(*args):
        return [json.loads(x)["seq"] for x in c("audit", "--json", *args).out.splitlines()]

    last = last_seq(sock)
    tap.eq(seqs("-n", "5"), list(range(last - 4, last + 1)), "tail: -n 5 prints the last five, oldest first")
    tap.eq(seqs("-n", "0"), [], "tail: -n 0 prints nothing")
    tap.eq(len(seqs("-n", "100000")), last, "tail: a large -n prints the whole log")
    tap.eq(seqs("-n", "1", "--type", "api.listen"), [x for x in seqs("--type", "api.listen")][-1:], "tail: -n 1 --type prints the last event of the type")
    p = c.popen("audit", "--json", "-f", "-n", "2")
    got = [json.loads(p.stdout.readline())["seq"] for _ in range(2)]
    event(c, "followed")
    got.append(json.loads(p.stdout.readline())["seq"])
    kill_own(p.pid, signal.SIGTERM)
    p.communicate()
    tap.eq(got, [last - 1, last, last + 1], "tail: -f -n 2 prints the last two and new events")


def test_lanes(tap, sock):
    """A client that has the whole log verified again and again holds up nobody else."""
    slow = [connection(sock) for _ in range(40)]
    for conn in slow:
        conn.request("GET", "/v1/audit/verify")
    quick = [send(sock, "GET", path)[0] for path in ("/v1/sandboxes", "/v1/asks", "/v1/audit?limit=10")]
    waiting = len(slow) - len(select.select([conn.sock for conn in slow], [], [], 0)[0])
    tap.eq(quick, [200, 200, 200], "lanes: quick requests are answered")
    tap.ok(waiting, "lanes: control: slow requests still wait", waiting)
    got = [conn.getresponse().status for conn in slow]
    tap.eq(set(got), {200}, "lanes: slow requests are answered in the end")
    for conn in slow:
        conn.close()


def main(tap, who):
    with coffer_as(who) as c:
        port, sock = free_port(), os.path.join(c.state, "api.sock")
        tap.eq(c("audit").code, 0, "control: the state directory is made")
        tap.ok(write_events(c, LONG), "control: a long log is written")
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{port}").code, 0, "the gateway starts")
        daemon = json.loads(c("gateway", "status", "--json").out)["pid"]
        token = c("token", "new", "--role", "observer", "--name", "crowd").out.strip()
        crowd = Crowd()
        test_crowd(tap, c, sock, port, token, crowd)
        test_flood(tap, c, sock, crowd, child(daemon, "coffer-web"))
        crowd.close()
        last = last_seq(sock)
        resumed, far = test_resume(tap, port, token, last)
        event(c, "for-the-last")
        tap.ok(resumed.pump(lambda: far.ids() == [last + 1]), "resume: a stream from the future gets the next event", far.ids())
        resumed.close()
        test_pages(tap, sock, last_seq(sock))
        test_tail(tap, c, sock)
        test_lanes(tap, sock)
        test_restart(tap, c, sock, port, token, daemon)
        test_feed(tap, c, sock, port, token, daemon)
        test_daemon(tap, c, sock, port, token, daemon)
        tap.eq(c("audit", "verify").code, 0, "the log verifies")
        c("gateway", "stop")
        c.check_clean(tap)


tap = Tap()
raise_files(4 * CLIENTS)
found = [i for i in identities(tap, ("ns",)) if not str(i).startswith("userns")]
main(tap, found[-1])
tap.done()
