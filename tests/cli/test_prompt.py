# SPDX-License-Identifier: Apache-2.0
"""The question on the terminal of `coffer run`: who is asked there, what the command can do about it (nothing), and that the
terminal, what was printed and what was typed are as they should be afterwards. With a terminal of the command's own and without."""

import json
import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from coffertest import ENGINES, Tap, descendants, identities, kill_own, proc_stat  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402
from terminal import Terminal  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.github.test
      port: 443
      http:
        - allow: GET /**
        - ask: PUT /repos/*/*/pulls/*/merge
        - ask: POST /free/**
"""
SHA = "0123456789abcdef0123456789abcdef01234567"
MERGE = ("curl -sS -m 200 -w ' %{http_code}\\n' -X PUT -H 'Content-Type: application/json' -d '{\"sha\":\"" + SHA + "\"}' "
         "https://api.github.test/repos/o/r/pulls/7/merge")
HEAD = "this sandbox waits for your answer"
RESET = b"\x18\x1b\\"


class Asked(Terminal):
    """`coffer run` on a terminal, with a policy that asks."""

    def __init__(self, c, script, *more, **kw):
        self.c = c
        policy = os.path.join(c.home, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as f:
            f.write(POLICY)
        c.own(policy)
        super().__init__(c, "run", "--engine", c.engine, "--policy", policy, *more, "--", "sh", "-c", script, become=False, **kw)

    def prompt(self, after=0):
        """Waits for a question behind that many bytes, and turns its pages; the code on the last one."""
        for _ in range(60):
            if not self.read(HEAD, 90, after) or not self.read("\r\n> ", 30, self.data.find(HEAD.encode(), after)):
                return None
            at = self.data.find(HEAD.encode(), after)
            after = self.data.find(b"\r\n> ", at) + 4
            m = re.search(rb"\x1b\[1m([a-z]{4})(?: sandbox)?\x1b\[0m  ", self.data[at:after])
            if m:
                return m.group(1).decode()
            self.type("\r")
        return None

    def asks(self):
        """Of sandboxes that are there."""
        got = [json.loads(x) for x in self.c("ask", "ls", "--all", "--json").out.splitlines()]
        return [a for a in got if os.path.exists(os.path.join(self.c.state, "runs", a["sandbox"]))]

    def state(self):
        """Of this run's last question."""
        a = self.asks()
        return a[-1]["state"] if a else None

    def given_back(self, tty):
        """The command has the terminal again: without one of its own that is when line editing is on."""
        return tty != "-T" or wait_for(self.same_as_before, 30)

    def end(self, seconds=60):
        self.read("\0never\0", seconds)  # to the end of the command
        return self.wait(seconds)


class Trigger:
    """A file that appears in the sandbox at /trigger/go, without coffer having to do anything."""

    def __init__(self, c):
        self.dir = tempfile.mkdtemp(dir=c.home)
        os.chmod(self.dir, 0o755)
        self.args = ["-v", self.dir + ":/trigger"]

    def pull(self):
        with open(os.path.join(self.dir, "go"), "w", encoding="ascii"):
            pass


def merges(net):
    return len([q for q in net.origin.requests if q.path.endswith("/merge")])


def events(c, kind):
    return [e for e in (json.loads(x) for x in c("audit", "--json").out.splitlines()) if e["type"] == kind]


def allow(tap, c, net, tty):
    who = f"{c.who} {tty}"
    before = merges(net)
    t = Asked(c, f"echo BEFORE; {MERGE}; {MERGE}; echo AFTER", tty)
    code = t.prompt()
    tap.ok(code, f"{who}: a question is asked on the terminal", t.text)
    at, head = t.data.find(RESET), t.data.find(HEAD.encode())
    tap.ok(0 <= t.data.find(b"BEFORE") < at < t.data.find(b"\x1b[?1049l") < head and b"\x1b[!p" in t.data[at:head] and
           b"\x1b[2J" in t.data[at:head], f"{who}: a question resets and clears the terminal first", t.data)
    for what in ("PUT https://api.github.test/repos/o/r/pulls/7/merge", SHA, "policy.yaml:8", "what this sandbox did", "sandbox ", "sh -c echo BEFORE", "sha256", "exactly this"):
        tap.ok(what in t.text[head:].replace("\r\n         | ", ""), f"{who}: the question contains {what}", t.text)
    tap.ok(merges(net) == before and t.state() == "pending", f"{who}: no request is sent while the question waits")
    for wrong in ("y", "yes", "", "bcdfg", code[:3], code + "x", code + " forever", "allow", "ok " + code):
        n = len(t.data)
        t.type(wrong + "\r")
        tap.ok(t.read("\r\n> ", 30, n), f"{who}: '{wrong[:2]}…' does not answer the question", t.text[-300:])
    n = len(t.data)
    t.type("\x1b[A" + code + "\r")
    tap.ok(t.read("was ignored", 30, n), f"{who}: a line with an escape sequence does not answer the question", t.text[-300:])
    tap.ok(merges(net) == before and t.state() == "pending", f"{who}: no request is sent after wrong answers")
    n = len(t.data)
    t.type(code + "\r")
    second = t.prompt(n)
    tap.ok("allowed, once" in t.text and merges(net) == before + 1, f"{who}: the code allows the request once", t.text[-600:])
    tap.ok(second and second != code, f"{who}: the second request asks again, with another code", second)
    n = len(t.data)
    t.type("deny not on a Monday\r")
    code = t.end()
    tail = t.text[n:]
    tap.ok("merged 200" in t.text and "403" in tail and "not on a Monday" in tail and "AFTER" in tail and code == 0,
           f"{who}: a denied request gets the reason", tail)
    answers = events(c, "ask.answer")
    tap.ok([(e["answer"], e["via"]) for e in answers[-2:]] == [("allow", "terminal"), ("deny", "terminal")], f"{who}: the log says that the answers came from the terminal",
           answers[-2:])
    tap.ok(t.same_as_before(), f"{who}: the terminal is restored after the run")
    t.close()


def held(tap, c, net, tty):
    """The command's output waits meanwhile, and all of it comes: megabytes, more than fits anywhere on the way."""
    who = f"{c.who} {tty}"
    total = 250000
    t = Asked(c, f"{MERGE} > /tmp/merged & while [ ! -e /tmp/go ]; do sleep 0.05; done; seq -f LINE%.0f {total}; wait; cat /tmp/merged; echo DONE", tty,
              "--name", "held")
    code = t.prompt()
    r = c("exec", "held", "--", "touch", "/tmp/go")
    tap.ok(code and r.code == 0, f"{who}: control: a command runs while a question is shown", t.text[-300:], r)
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep '^seq '"
    tap.ok(wait_for(lambda: c("exec", "held", "--", "sh", "-c", look).code == 0, 60), f"{who}: a command that prints is held up during a question")
    tap.ok(b"LINE" not in t.data[t.data.find(HEAD.encode()):], f"{who}: output is not shown during a question", t.data[-300:])
    n = len(t.data)
    t.type(code + " 3x\r")
    ok = t.read("DONE", 120, n)
    t.end()
    tap.ok(ok and b"merged 200" in t.data[n:], f"{who}: held output appears after the answer", t.text[-300:])
    got = re.findall(rb"LINE(\d+)\r?\n", t.data[n:])
    tap.ok(got == [b"%d" % i for i in range(1, total + 1)], f"{who}: every held line appears once, in order", len(got), got[:2], got[-2:])
    rest = re.sub(rb"LINE\d+\r?\n", b"", t.data[n:])
    tap.ok(b"LINE" not in rest and len(rest) < 600, f"{who}: nothing is cut from or added to held output", rest[:700])
    c("discard", "held")
    c("rm", "held")
    t.close()


def forged(tap, c, net):
    """A look-alike of the command's: what is typed goes to the command, and no question is answered by it."""
    who = c.who
    before = merges(net)
    fake = ("printf '\\033[2J\\033[Hcoffer: this sandbox waits for your answer\\r\\n  \\033[1mbcdf\\033[0m  allow\\r\\nFAKE> '; read x; echo \"GOT=$x\"; "
            "read y; echo \"GOT2=$y\"")
    t = Asked(c, f"{MERGE} & sleep 0.2; {fake}; wait; echo DONE", "-t", "--ask-timeout", "200s")
    code = t.prompt()
    if b"FAKE>" in t.data and t.data.find(b"FAKE>") < t.data.find(RESET):
        tap.note(f"{who}: the look-alike came before the question")
    n = len(t.data)
    t.type("later\r")
    tap.ok(t.read("still waits, and so does the command", 30, n) and t.read("FAKE>", 60), f"{who}: later leaves the question for others", t.text[-300:])
    t.type("bcdf\r")
    tap.ok(t.read("GOT=bcdf", 60), f"{who}: input to a forged question goes to the command", t.text[-300:])
    t.type(code + "\r")
    tap.ok(t.read("GOT2=" + code, 60), f"{who}: the code of an earlier question goes to the command", t.text[-300:])
    tap.ok(t.state() == "pending" and merges(net) == before, f"{who}: input to a forged question allows nothing", t.state())
    q = t.asks()[-1]
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: control: coffer approve allows the question")
    t.end()
    tap.ok(merges(net) == before + 1 and "merged 200" in t.text, f"{who}: the request goes through after coffer approve", t.text[-300:])
    t.close()


def screen(tap, c, net):
    """The alternate screen, an unfinished sequence, hidden cursor and mouse; all that comes back. A resize meanwhile."""
    who = c.who
    t = Asked(c, "trap 'echo SIZE=$(stty size)=' WINCH; printf '\\033[?1049h\\033[?25l\\033[?1000;1006h\\033[?2004h\\033]0;unfinished'; "
              f"{MERGE}; echo; n=0; while [ $n -lt 100 ] && ! read -t 1 x; do n=$((n+1)); done; echo DONE", "-t")
    code = t.prompt()
    at = t.data.find(RESET)
    tap.ok(code and t.data.find(b"unfinished") < at, f"{who}: a question is shown over a full-screen program", t.text)
    head = t.data.find(HEAD.encode())
    tap.ok(all(x in t.data[at:head] for x in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b]111\x1b\\")),
           f"{who}: the program's terminal modes are off before the question", t.data[at:head])
    n = len(t.data)
    t.resize(33, 99)
    again = t.prompt(n)
    tap.ok(again and again != code, f"{who}: a resize draws the question anew, with another code", again, t.text[n:])
    t.type(code + "\r")
    tap.ok(t.read("Not understood", 30, n) and t.state() == "pending", f"{who}: the code from before a resize is refused", t.text[n:])
    t.type(again + "\r")
    ok = t.read("SIZE=33 99=", 60, n)
    tap.ok(ok, f"{who}: the command gets the new size after the question", t.text[n:])
    back = t.data[n:]
    tap.ok(b"\x1b[?1049h" in back and b"\x1b[?25l" in back and b"\x1b[?1000h\x1b[?1006h\x1b[?2004h" in back,
           f"{who}: the program's terminal modes are restored after the question", back)
    t.type("x\r")
    tap.ok(t.read("DONE", 60, n) and t.end() == 0, f"{who}: the command continues after the question", t.text[n:])
    tap.ok(t.same_as_before(), f"{who}: the terminal is restored after the run")
    t.close()


def ahead(tap, c, net, tty):
    """Earlier typed input is thrown away. The launcher stands still meanwhile, so that it is there when the question is."""
    who = f"{c.who} {tty}"
    trigger = Trigger(c)
    t = Asked(c, f"{MERGE} & while [ ! -e /trigger/go ]; do sleep 0.05; done; {MERGE.replace('pulls/7', 'pulls/8')}; wait; echo DONE", tty,
              *trigger.args)
    code = t.prompt()
    n = len(t.data)
    os.kill(t.p.pid, signal.SIGSTOP)
    t.type("later\r")  # answers the first one
    os.kill(t.p.pid, signal.SIGCONT)
    tap.ok(t.read("still waits, and so does the command", 60, n), f"{who}: control: later is accepted while a question is shown", t.text[-200:])
    q = t.asks()[-1]
    tap.eq(q["state"], "pending", f"{who}: a question that was left stays pending")
    os.kill(t.p.pid, signal.SIGSTOP)
    n = len(t.data)
    trigger.pull()
    t.type("deny\rdeny\r" + code + "\r")
    two = wait_for(lambda: len([a for a in t.asks() if a["state"] == "pending"]) == 2, 60)
    os.kill(t.p.pid, signal.SIGCONT)
    second = t.prompt(n)
    states = [a["state"] for a in t.asks()][-2:]
    tap.ok(two and second and states == ["pending", "pending"], f"{who}: input typed before a question appears answers nothing", states, t.text[n:])
    n = len(t.data)
    t.type("deny\r")
    tap.ok(t.read("403", 60, n), f"{who}: control: deny typed at the question denies", t.text[n:])
    tap.eq(c("deny", q["id"]).code, 0, f"{who}: coffer deny answers the other question")
    t.end()
    t.close()


def elsewhere(tap, c, net, tty):
    who = f"{c.who} {tty}"
    before = merges(net)
    t = Asked(c, f"{MERGE}; echo DONE", tty)
    t.prompt()
    q = t.asks()[-1]
    tap.eq(c("approve", q["id"]).code, 0, f"{who}: coffer approve answers a question on the screen")
    t.end()
    tap.ok("was answered elsewhere: allowed" in t.text and "merged 200" in t.text and merges(net) == before + 1,
           f"{who}: a question that was answered elsewhere disappears with a message", t.text[-300:])
    t.close()
    if tty == "-T":
        return
    t = Asked(c, f"{MERGE}; echo DONE", tty, "--ask-timeout", "15s")
    code = t.prompt()
    t.read("has expired", 60)
    t.type((code or "") + "\r")
    t.end()
    tap.ok("has expired" in t.text and "403" in t.text and "DONE" in t.text and merges(net) == before + 1,
           f"{who}: an expired question disappears with a message", t.text[-300:])
    tap.ok(t.same_as_before(), f"{who}: the terminal is restored after an expired question")
    t.close()


def keys(tap, c, net, tty):
    """Ctrl-C gives the terminal back and leaves all as it is; Ctrl-Z stops coffer, and the question is there again afterwards."""
    who = f"{c.who} {tty}"
    t = Asked(c, f"trap 'echo INTERRUPTED' INT; {MERGE} & echo READY; read x; echo GOT=$x; wait; echo DONE", tty)
    code = t.prompt()
    n = len(t.data)
    t.type("\x1a")
    stopped = wait_for(lambda: (proc_stat(t.p.pid) or "??")[1] == "T", 30)
    tap.ok(stopped, f"{who}: Ctrl-Z stops coffer", proc_stat(t.p.pid))
    if tty == "-T":
        tap.ok(t.same_as_before(), f"{who}: the terminal is restored while coffer is stopped")
    os.kill(t.p.pid, signal.SIGCONT)
    again = t.prompt(n)
    tap.ok(again and again != code, f"{who}: the question is shown again after Ctrl-Z, with another code", again)
    n = len(t.data)
    t.type("\x03")
    tap.ok(t.read("still waits, and so does the command", 30, n) and t.given_back(tty), f"{who}: Ctrl-C leaves the question and returns the terminal", t.text[n:])
    tap.eq(t.state(), "pending", f"{who}: the question stays pending after Ctrl-C")
    t.type("words\r")
    tap.ok(t.read("GOT=words", 60, n) and "INTERRUPTED" not in t.text[n:], f"{who}: the command reads the terminal again after Ctrl-C", t.text[n:])
    tap.eq(c("deny", t.asks()[-1]["id"]).code, 0, f"{who}: coffer deny answers a question that Ctrl-C left")
    t.end()
    tap.ok("403" in t.text and "DONE" in t.text, f"{who}: a denial after Ctrl-C reaches the request", t.text[n:])
    t.close()


def flood(tap, c, net):
    """Many questions at once, with what a terminal would act on in them: one after the other, `never` ends it."""
    who = c.who
    post = "curl -sS -m 200 -o /dev/null -X POST -d \"$(printf '\\033]0;x\\007\\342\\200\\256evil%s\\n%.0s' $(seq 300))\" \"https://api.github.test/free/$i?q=%1b%5b2J\" &"
    t = Asked(c, f"for i in $(seq 12); do {post} done; echo READY; read x; echo GOT=$x; kill $(jobs -p); echo DONE", "-T")
    seen = set()
    n = 0
    offered = []
    for i in range(4):
        code = t.prompt(n)
        if not code:
            break
        part = t.data[t.data.find(HEAD.encode(), n):]
        seen.add(code)
        offered.append(b"  never  " in part)
        tap.ok(b"\x1b]0;" not in part and "\u202e".encode() not in part and part.count(b"\n") < (400 if i == 1 else 60) and (i == 1 or b"more rows" in part),
               f"{who}: question {i + 1} has no control sequence and a limited length", part)
        n = len(t.data)
        t.type("more\r" if i == 0 else "later\r")
    tap.ok(len(seen) == 4, f"{who}: questions appear one after the other, each with its own code", seen)
    tap.ok(not offered[0] and offered[-1], f"{who}: never is offered after some questions", offered)
    wait_for(lambda: len([a for a in t.asks() if a["state"] == "pending"]) >= 12, 60)
    t.prompt(n)
    n = len(t.data)
    t.type("never\r")
    tap.ok(t.read("still waits, and so does the command", 60, n) and t.given_back("-T"), f"{who}: never returns the terminal to the command", t.text[n:])
    t.type("words\r")
    tap.ok(t.read("GOT=words", 60, n) and t.read("DONE", 60, n), f"{who}: the command reads the terminal after never", t.text[n:])
    tap.ok(HEAD not in t.text[n:].replace("\r", ""), f"{who}: no question is shown after never", t.text[n:])
    t.end()
    t.close()


def past(tap, c, tty):
    """The sandbox's acts before its question are on the terminal, also when that is drawn anew after many others."""
    who = f"{c.who} {tty}"
    trigger = Trigger(c)
    t = Asked(c, f"curl -sS -o /dev/null https://api.github.test/secrets/steal-me; {MERGE} & sleep 2; while [ ! -e /trigger/go ]; do sleep 0.05; done; "
              "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -sS -o /dev/null https://api.github.test/harmless/$i; done; touch /trigger/done; wait", tty, *trigger.args)
    t.prompt()
    tap.ok("/secrets/steal-me" in t.text, f"{who}: a question shows what the sandbox did before", t.text)
    trigger.pull()
    wait_for(lambda: any("/harmless/12" in e.get("path", "") for e in events(c, "net.request")), 60)
    n = len(t.data)
    t.resize(40, 100)
    t.prompt(n)
    tap.ok("/secrets/steal-me" in t.text[n:] and "/harmless/" not in t.text[n:], f"{who}: a redrawn question does not show what the sandbox did after it", t.text[n:])
    t.type("deny\r")
    t.end()
    t.close()


def ends(tap, c, net, tty):
    """The command ends, is killed or loses its guard, or coffer is, while a question is shown."""
    who = f"{c.who} {tty}"
    trigger = Trigger(c)
    t = Asked(c, f"{MERGE} & while [ ! -e /trigger/go ]; do sleep 0.05; done; echo LAST; exit 7", tty, *trigger.args)
    t.prompt()
    trigger.pull()
    tap.ok(t.end() == 7 and "the command has ended" in t.text and "LAST" in t.text, f"{who}: a question disappears when its command ends", t.text[-300:])
    tap.ok(t.same_as_before(), f"{who}: the terminal is restored when the command ends during a question")
    t.close()
    t = Asked(c, MERGE, tty)
    t.prompt()
    guard = [p for p, _ in descendants(t.p.pid) if (proc_stat(p) or (0, 0, ""))[2] == "coffer-guard"]
    for p in guard:
        kill_own(p)
    tap.ok(t.read("guard is gone", 60), f"{who}: a question disappears when the guard is killed", t.text[-300:])
    t.p.send_signal(signal.SIGTERM)
    t.end()
    tap.ok(t.same_as_before(), f"{who}: the terminal is restored after the guard was killed")
    t.close()
    for sig in (signal.SIGTERM, signal.SIGKILL):
        t = Asked(c, MERGE, tty)
        code = t.prompt()
        tap.ok(code and not t.same_as_before(), f"{who}: control: the terminal is raw during a question")
        t.p.send_signal(sig)
        t.end()
        tap.ok(wait_for(t.same_as_before, 30), f"{who}: the terminal is restored after {sig.name} to coffer")
        t.close()
        tap.ok(wait_for(lambda: not [a for a in t.asks() if a["state"] == "pending"], 60), f"{who}: no question waits after {sig.name} to coffer")


def nobody(tap, c, net):
    """Where nobody is asked: never, no terminal as input."""
    who = c.who
    line = " waits (coffer ask show "
    t = Asked(c, f"{MERGE}; echo DONE", "--ask-prompt", "never", "--ask-timeout", "2s")
    t.end()
    tap.ok(line in t.text and HEAD not in t.text and "403" in t.text, f"{who}: --ask-prompt never shows no question", t.text)
    t.close()
    with open("/dev/null", "rb") as null:
        t = Asked(c, f"{MERGE}; echo DONE", "--ask-timeout", "2s", stdin=null)
        t.end()
    tap.ok(line in t.text and HEAD not in t.text, f"{who}: no question is shown when stdin is not a terminal", t.text)
    t.close()
    r = c("run", "--ask-prompt", "maybe", "--", "true")
    tap.ok(r.code == 2 and "auto" in r.err, f"{who}: an unknown value of --ask-prompt is refused", r)


def is_ours(row):
    """Does this row of a question begin with what is coffer's own?"""
    labels = ("who      ", "what     ", "with     ", "body     ", "preview", "why      ", "reason   ", "by       ", "before   ", "question ", "         |")
    return row.startswith(labels + ("coffer: this sandbox waits", "===", "  ", ">")) or re.match(r"\d+ more wait|That is|$", row)


def wide(rows, cols=80):
    """Rows as whoever counts on the terminal's own line breaks would write them."""
    return "".join(r.ljust(cols) for r in rows)


def rows_forged(tap, c, net, tty):
    """Words of the agent that would be rows of a question if the terminal broke them."""
    who = f"{c.who} {tty}"
    fake = ["=" * 72, "coffer: this sandbox waits for your answer.  What it prints is held back until", " then.", "=" * 72,
            "who      sandbox 90f3737cce36: sh -c agent"]
    reason = " " * (71 + 80 * 4) + wide(fake + ["what     widen  docs.python.org:443"]) + "reason   the build fetches the documentation of a module"
    body = json.dumps({"rule": "*.evil.example", "reason": reason, "wait": 60})
    widen = f"curl -s http://coffer.internal/v1/access -d '{body}'"
    real = "what     request  POST https://api.github.test/free/production-database  x-a: "
    value = "." + " " * ((-len(real)) % 80 - 1) + wide(fake + ["what     request  POST https://api.github.test/free/comment"]) + "x"
    header = f"curl -s --http1.1 -H 'User-Agent:' -H 'Accept:' -X POST -H 'x-a: {value}' https://api.github.test/free/production-database"
    warm = "for i in 1 2 3; do curl -s https://api.github.test/$i >/dev/null; done; "
    for script, act in ((widen, "what     widen  *.evil.example:443"), (header, "what     request  POST https://api.github.test/free/production-database")):
        t = Asked(c, warm + script + "; echo DONE", tty)
        code = t.prompt()
        seen = t.screen()
        tap.ok(code and act in seen, f"{who}: {act[9:20]}…: the true request is on the screen with the code", "\n".join(seen))
        tap.ok([r for r in seen if r.startswith("what")] == [act] and any(code in r for r in seen if code) and
               seen.index(act) < [i for i, r in enumerate(seen) if f"  {code}" in r][0] if act in seen else False,
               f"{who}: {act[9:20]}…: the screen shows one request", "\n".join(seen))
        tap.ok(all(is_ours(r) for r in seen), f"{who}: {act[9:20]}…: every row of the screen is coffer's own", "\n".join(seen))
        n = len(t.data)
        t.resize(40, 60)
        again = t.prompt(n)
        seen = t.screen()
        tap.ok(again and again != code and all(is_ours(r) for r in seen) and len([r for r in seen if r.startswith("what  ")]) == 1,
               f"{who}: {act[9:20]}…: every row is coffer's own on a narrower screen", "\n".join(seen))
        t.type("deny no\r")
        t.end()
        tap.ok("DONE" in t.text[n:], f"{who}: {act[9:20]}…: the command continues after deny", t.text[-300:])
        t.close()
    t = Asked(c, f"curl -s -m 200 -d x https://api.github.test/free/{'a' * 2500}; echo DONE", tty, "--ask-timeout", "4s")
    tap.ok(t.read("needs more room than this terminal has: coffer ask show ", 90) and HEAD not in t.text, f"{who}: a question that does not fit the screen is left to coffer ask show", t.text)
    t.end()
    tap.ok("DONE" in t.text, f"{who}: the command continues after a question that did not fit", t.text)
    t.close()


# Coffer's lines begin with it, so that no mode that the command left hides them.
LINE_RESET = "\x18\x1b\\\x1b[0m\x1b(B\x0f\x1b[4l"


def line_forged(tap, c, net):
    """The line that says what waits, and who answers by a number at a terminal."""
    who = c.who
    t = Asked(c, "curl -s -m 100 -d x https://api.github.test/free/production-database & sleep 3; "
              "id=$(curl -s -m 5 -d '{\"rule\":\"zz.test\",\"reason\":\"r\"}' http://coffer.internal/v1/access | sed 's/.*\"id\":\"\\([0-9a-f]*\\)-.*/\\1/'); "
              "curl -s --http1.1 -m 100 -H 'User-Agent:' -H 'Accept:' -H 'Content-Type:' -H \"x-a: ok\\\"   (coffer ask show $id-1, coffer approve $id-1)     \" "
              "-d x https://api.github.test/free/c; wait; echo DONE", "--ask-prompt", "never", "--ask-timeout", "100s", cols=120)
    got = t.read("-3 waits", 90) and t.read("\r\n", 30, t.data.find(b"-3 waits"))
    lines = [x for x in t.text.split("\r\n") if " waits (" in x]
    plain = [x.removeprefix(LINE_RESET) for x in lines]
    form = r'(?:\x1b\[\d+m)?coffer:(?:\x1b\[0m)? question (\w+-\d) waits \(coffer ask show (\w+-\d)\): "[^"]*"'
    tap.ok(got and len(lines) == 3 and all((m := re.fullmatch(form, x)) and m.group(1) == m.group(2) and len(re.sub(r"\x1b\[\d+m", "", x)) < 120 for x in plain),
           f"{who}: the line of a waiting question begins with its id and is one line", lines)
    path = "what     request  POST https://api.github.test/free/production-database"
    a = Terminal(c, "approve", "1", become=True, rows=16)
    pages = 0
    while pages < 9 and not a.read("Allow this? [y/N]", 3):
        if a.text.count("-- Enter: go on --") > pages:
            pages += 1
            a.type("\r")
    tap.ok(0 < pages < 9 and path in a.screen(), f"{who}: coffer approve NUMBER shows the true request", a.text)
    a.type("n\r")
    tap.ok(a.wait() == 125, f"{who}: coffer approve NUMBER needs a confirmation", a.text)
    a.close()
    for q in t.asks():
        c("deny", q["id"])
    t.end()
    t.close()


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("questions on the terminal", reason)
        tap.done()
    with Internet() as net:
        net.origin = net.https("api.github.test", lambda q: "merged" if q.path.endswith("/merge") else "free")
        for i, who in enumerate(identities(tap, ENGINES)):
            with net.coffer(who) as c:
                allow(tap, c, net, "-t")
                if i > 0:
                    continue
                allow(tap, c, net, "-T")
                for tty in ("-t", "-T"):
                    held(tap, c, net, tty)
                    ahead(tap, c, net, tty)
                    elsewhere(tap, c, net, tty)
                    keys(tap, c, net, tty)
                    past(tap, c, tty)
                    ends(tap, c, net, tty)
                forged(tap, c, net)
                rows_forged(tap, c, net, "-t")
                rows_forged(tap, c, net, "-T")
                line_forged(tap, c, net)
                screen(tap, c, net)
                flood(tap, c, net)
                nobody(tap, c, net)
                c.check_clean(tap)
    tap.done()


main()
