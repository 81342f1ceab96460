# SPDX-License-Identifier: Apache-2.0
"""A person's grant to a tool of `coffer mcp` for more than one call holds for the rest of the session and no longer, whoever dies when."""

import glob
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from askbox import AskBox, wait_for  # noqa: E402
from coffertest import Tap, coffer_as, covering, descendants, proc_stat  # noqa: E402
from mcpclient import Client, Reply  # noqa: E402

TOOLS = """version: 1
tools:
  - allow: read_file
  - ask: [exec, write_file]
"""
USES = 16  # of the calls that are killed


def write(m, name):
    return m.call("write_file", path=name, content="x\n")


def asks_again(b, m, tool="write_file", **args):
    """Does a call wait for a person? It is cancelled then."""
    n = m.begin_call(tool, **(args or {"path": "again", "content": "x"}))
    q = wait_for(lambda: n in m.early or [a for a in b.asks() if a["state"] == "pending"]
                 or (m.lines.qsize() and m.early.update({n: m.wait_for(n)})), 60)
    if n in m.early or not q:
        return False
    m.cancel(n)
    return wait_for(lambda: not [a for a in b.asks() if a["state"] == "pending"])


def approve(b, m, tool, *how, **args):
    """A call that a person allows so far; the question's id."""
    n = m.begin_call(tool, **args)
    q = b.pending()
    r = b.c("approve", q[0]["id"], *how)
    b.tap.eq(r.code, 0, f"{b.c.who}: coffer approve {' '.join(how)} allows {tool}", r)
    r = Reply(m.wait_for(n))
    b.tap.ok(not r.is_error, f"{b.c.who}: {tool} runs after its approval", r)
    return q[0]["id"]


def logged(b, kind, ask):
    return [e for e in b.log(kind) if e.get("ask") == ask]


def state_of(b, ask):
    return next((a["state"] for a in b.asks("--all") if a["id"] == ask), None)


def for_the_session(tap, b, m):
    c = b.c
    ask = approve(b, m, "write_file", "--sandbox", path="one", content="x\n")
    got = b.asks()
    tap.ok([(a["id"], a["state"]) for a in got] == [(ask, "granted")], f"{c.who}: coffer ask ls shows a grant between calls", got)
    tap.ok("granted" in c("ask", "show", ask).out, f"{c.who}: coffer ask show shows a grant between calls")
    r = write(m, "two")
    tap.ok(not r.is_error, f"{c.who}: a call that a grant covers asks nobody", r)
    tap.ok(not write(m, "three").is_error and len(logged(b, "ask.use", ask)) == 3, f"{c.who}: each use of a grant is in the log")
    calls = [e for e in b.log("tool.call") if e.get("ask") == ask]
    tap.ok(len(calls) == 3 and all(e["allowed"] for e in calls), f"{c.who}: the log of a call names the question that granted it", calls)
    tap.ok(asks_again(b, m, "exec", command="true"), f"{c.who}: a grant for one tool does not cover another")
    tap.ok(not write(m, "four").is_error and not logged(b, "ask.lapse", ask), f"{c.who}: a grant holds after another tool was asked about")
    # Taken back while nothing runs.
    r = c("deny", ask)
    tap.ok(r.code == 0 and len(logged(b, "ask.revoke", ask)) == 1, f"{c.who}: coffer deny takes back a grant between calls", r)
    tap.ok(not b.asks() and state_of(b, ask) == "lapsed", f"{c.who}: a grant that was taken back is listed as lapsed", b.asks("--all")[-2:])
    tap.ok(asks_again(b, m), f"{c.who}: the next call asks after its grant was taken back")
    r = c("deny", ask)
    tap.ok(r.code == 125 and len(logged(b, "ask.revoke", ask)) == 1, f"{c.who}: coffer deny refuses a grant that was already taken back", r)


def server_leaves(tap, b, m):
    """The server of the questions leaves just when they are listed: a grant stands all the same."""
    c = b.c
    ex = approve(b, m, "exec", "--sandbox", command="true")
    run = os.path.join(c.state, "runs", next(a["sandbox"] for a in b.asks() if a["id"] == ex), "asks.sock")
    wait_for(lambda: not os.path.exists(run))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(run)
        os.chmod(run, 0o777)
        s.listen(1)
        s.settimeout(60)

        def leave():
            s.accept()[0].close()
        t = threading.Thread(target=leave)
        t.start()
        listed = [a["id"] for a in b.asks()]
        t.join()
    os.unlink(run)
    tap.ok(ex in listed, f"{c.who}: coffer ask ls lists a grant when the ask server exits during the query", listed)
    tap.eq(c("deny", ex).code, 0, f"{c.who}: coffer deny takes back a grant after the ask server exited")


def while_a_call_runs(tap, b, m):
    c = b.c
    ex = approve(b, m, "exec", "--sandbox", command="true")
    for pause in (0, 1.5):
        ask = approve(b, m, "write_file", "--sandbox", path="five", content="x")
        n = m.begin_call("exec", command="echo on > running; sleep 4")
        tap.ok(wait_for(lambda: len([e for e in b.log("tool.call") if e.get("ask") == ex]) >= (3 if pause else 2)), f"{c.who}: control: a call runs under its grant")
        time.sleep(pause)
        r = c("deny", ask)
        tap.ok(r.code == 0 and len(logged(b, "ask.revoke", ask)) == 1, f"{c.who}: coffer deny takes back a grant while a call runs ({pause} s)", r)
        r = Reply(m.wait_for(n))
        tap.ok(not r.is_error and r.data["exit_code"] == 0, f"{c.who}: a running call continues when another grant is taken back", r)
        tap.ok(asks_again(b, m), f"{c.who}: the next call asks after its grant was taken back during a call")
        # The question of that call is withdrawn a moment after it.
        tap.ok(wait_for(lambda: [a["id"] for a in b.asks()] == [ex]), f"{c.who}: other grants stay when one is taken back during a call", b.asks())
    tap.eq(c("deny", ex).code, 0, f"{c.who}: coffer deny takes back the last grant")


def counted(tap, b, m):
    c = b.c
    ask = approve(b, m, "write_file", "--uses", "3", path="one", content="x")
    tap.ok(not write(m, "two").is_error, f"{c.who}: the second of three granted uses runs without a question")
    got = b.asks()
    tap.ok(len(got) == 1 and (got[0]["used"], got[0]["uses"]) == (2, 3), f"{c.who}: a grant of three uses shows two as used", got)
    tap.ok(not write(m, "three").is_error and not b.asks(), f"{c.who}: the third of three granted uses runs, and the grant is gone", b.asks())
    tap.ok(asks_again(b, m) and len(logged(b, "ask.use", ask)) == 3 and state_of(b, ask) == "spent", f"{c.who}: a call after the last granted use asks")


def timed(tap, b, m):
    c = b.c
    ask = approve(b, m, "write_file", "--for", "8s", path="one", content="x")
    end = time.monotonic() + 9
    tap.ok(not write(m, "two").is_error, f"{c.who}: a call within a grant's time runs without a question")
    time.sleep(max(0, end - time.monotonic()))
    tap.ok(not b.asks() and state_of(b, ask) == "lapsed", f"{c.who}: a grant lapses at its time while no server runs", b.asks())
    tap.ok(c("deny", ask).code == 125, f"{c.who}: coffer deny refuses a grant whose time is over")
    tap.ok(asks_again(b, m) and len(logged(b, "ask.lapse", ask)) == 1, f"{c.who}: the next call asks after a grant's time, and the log has the lapse")


def kids(m):
    """Quickly, where the kernel tells: a call is over in a few milliseconds."""
    try:
        with open(f"/proc/{m.p.pid}/task/{m.p.pid}/children", encoding="ascii") as f:
            return {int(p) for p in f.read().split()}
    except FileNotFoundError:
        return {p for p, _ in descendants(m.p.pid) if (proc_stat(p) or (0,))[0] == m.p.pid}


def kill_next(m, had, pause):
    """The next call's process, so long after it was seen; False where it was over before."""
    until, new = time.monotonic() + 5, set()
    while not new and not m.lines.qsize() and time.monotonic() < until:
        new = kids(m) - had
    try:
        fds = [os.pidfd_open(p) for p in new if p in kids(m)]
    except ProcessLookupError:
        return False
    time.sleep(pause)
    for fd in fds:
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except ProcessLookupError:
            fds = []
        os.close(fd)
    return bool(fds)


def calls_die(tap, b, m):
    """A call that is killed at any moment gives nobody a use more."""
    c = b.c
    ask = approve(b, m, "write_file", "--uses", str(USES), path="one", content="x")
    killed = 0
    for i in range(4 * USES):
        had = kids(m)
        n = m.begin_call("write_file", path=f"k{i}", content="x")
        killed += kill_next(m, had, 0.002 * (i % 8))
        if wait_for(lambda: [a for a in b.asks() if a["state"] == "pending"] or m.lines.qsize()) and not m.lines.qsize():
            m.cancel(n)
            break
        m.wait_for(n)
        if state_of(b, ask) != "granted":
            break
    used, ran = len(logged(b, "ask.use", ask)), len([e for e in b.log("tool.call") if e.get("ask") == ask and e["allowed"]])
    tap.ok(killed > 0 and 1 <= ran <= used <= USES, f"{c.who}: calls that are killed never get more uses than were granted", killed, ran, used)
    if state_of(b, ask) == "granted":
        c("deny", ask)
    wait_for(lambda: not b.asks())
    tap.ok(asks_again(b, m), f"{c.who}: a call asks again after the grant was spent by killed calls")


def granted_file(b):
    """The newest session's."""
    return os.path.join(max(glob.glob(os.path.join(b.c.state, "runs", "*", "session")), key=os.path.getmtime)[:-len("session")], "granted")


def damaged(tap, b, m):
    c = b.c
    approve(b, m, "write_file", "--sandbox", path="one", content="x")
    path = granted_file(b)
    with open(path, "rb") as f:
        whole = f.read()
    tap.eq(os.stat(path).st_mode & 0o777, 0o600, f"{c.who}: the file of grants has mode 0600")
    for what, text in (("damaged", whole.replace(b'"write_file"', b'"write_filf"', 1)), ("cut", whole[:-2]), ("empty", b""),
                       ("without its digest", whole[65:])):
        with open(path, "wb") as f:
            f.write(text)
        tap.ok(not b.asks() and asks_again(b, m), f"{c.who}: a grants file that is {what} grants nothing", b.asks())
    with open(path, "wb") as f:
        f.write(whole)
    tap.ok(not write(m, "two").is_error, f"{c.who}: a restored grants file grants again")
    return whole


def server_dies(tap, b, policy, whole):
    c = b.c
    with Client(c, "--policy", policy) as m:
        m.initialize()
        tap.ok(not b.asks() and asks_again(b, m), f"{c.who}: a grant does not hold in another session", b.asks())
        ask = approve(b, m, "write_file", "--sandbox", path="one", content="x")
        path = granted_file(b)
        with open(path, "wb") as f:
            f.write(whole)
        tap.ok(not b.asks() and asks_again(b, m), f"{c.who}: the grants file of another session grants nothing", b.asks())
        os.unlink(path)
        tap.ok(asks_again(b, m), f"{c.who}: a session without its grants file has no grants")
        ask = approve(b, m, "write_file", "--sandbox", path="one", content="x")
        with open(path, "rb") as f:
            mine = f.read()
        m.p.kill()
        tap.ok(wait_for(lambda: logged(b, "ask.lapse", ask)), f"{c.who}: a grant lapses when its server is killed")
        tap.ok(not b.asks() and c("deny", ask).code == 125, f"{c.who}: a lapsed grant is not listed and cannot be taken back", b.asks())
    with open(path, "wb") as f:
        f.write(mine)
    c.own(path)
    run = os.path.basename(os.path.dirname(path))
    tap.ok(not b.asks(), f"{c.who}: a grants file that is restored after the server's death grants nothing", b.asks())
    p = c.popen("call", "--from", run, "--policy", policy, "--tool", "write_file", "--args", "{}", "--", "true")
    q = b.pending()
    tap.ok(len(q) == 1 and not os.path.exists(path), f"{c.who}: a call --from an ended session has no grant", q)
    c("deny", q[0]["id"])
    tap.eq(p.wait(60), 125, f"{c.who}: coffer call --from an ended session is denied by a person")
    p.communicate()


def served_by_another(tap, b, policy):
    """A grant ends with the session, also while somebody else serves its questions."""
    c = b.c
    with Client(c, "--policy", policy) as m:
        m.initialize()
        ask = approve(b, m, "write_file", "--sandbox", path="one", content="x")
        run = os.path.basename(os.path.dirname(granted_file(b)))
        p = c.popen("ask", "new", "--sandbox", run, "are you there?")
        q = b.pending()
        tap.ok(len(q) == 1 and state_of(b, ask) == "granted", f"{c.who}: control: a grant is listed while another process serves the questions", b.asks("--all"))
        m.p.kill()
        tap.ok(wait_for(lambda: state_of(b, ask) == "lapsed") and logged(b, "ask.lapse", ask), f"{c.who}: a grant lapses with its server although another process serves the questions",
               b.asks("--all"))
        c("deny", q[0]["id"])
        p.communicate()


def session_ends(tap, b, policy):
    c = b.c
    with Client(c, "--policy", policy) as m:
        m.initialize()
        ask = approve(b, m, "write_file", "--sandbox", path="one", content="x")
        tap.eq(m.end(), 0, f"{c.who}: the session exits with 0")
    got = logged(b, "ask.lapse", ask)
    tap.ok(len(got) == 1 and "session has ended" in got[0]["why"] and not b.asks(), f"{c.who}: a grant lapses when its session ends", got)
    tap.eq(c("deny", ask).code, 125, f"{c.who}: coffer deny refuses a grant of an ended session")


def grants(tap, b, policy, every):
    """In short: a grant for a session. How grants are counted, timed and kept is the server's own, which is outside."""
    whole = b""
    for part in (for_the_session, server_leaves, while_a_call_runs, counted, timed, calls_die, damaged) if every else (for_the_session,):
        # One each: what is denied or cancelled often is not asked about any more.
        with Client(b.c, "--policy", policy) as m:
            m.initialize()
            whole = part(tap, b, m)
            tap.eq(m.end(), 0, f"{b.c.who}: the session ends")
    if every:
        server_dies(tap, b, policy, whole)
        served_by_another(tap, b, policy)
        session_ends(tap, b, policy)


def main():
    tap = Tap()
    for who, whole in covering(tap, ("ns",)):
        with coffer_as(who) as c:
            b = AskBox(tap, c)
            grants(tap, b, b.file("tools.yaml", TOOLS), whole)
            tap.eq(c("audit", "verify").code, 0, f"{c.who}: the log verifies")
            c("gateway", "stop")
            c.check_clean(tap)
    tap.done()


main()
