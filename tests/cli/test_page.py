#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: weight=2
# tests/run: timeout=1800
"""The page in a real browser: each view, live, by keyboard, at phone width, with hostile content, after coffer-web was killed.

With COFFER_SHOTS=DIR each view is also left there as a picture, at desktop and at phone width, to be looked at."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import replaylog  # noqa: E402
from browser import Browser  # noqa: E402
from coffertest import ROOT, Tap, coffer_as, free_port, identities, kill_own, remember  # noqa: E402
from nettest import Internet, wait_for, why_not  # noqa: E402

POLICY = """version: 1
egress:
  allow:
    - domain: api.github.test
      port: 443
      http:
        - allow: GET /**
        - ask: PUT /repos/*/*/pulls/*/merge
        - ask: POST /free/**
      graphql:
        - allow: query *
        - ask: mutation mergePullRequest
      git:
        - allow: push /o/r refs/heads/bot/*
tools:
  - deny: "rm_*"
  - ask: deploy
    when: {env: production}
  - allow: "*"
apply: ask
"""
SHA = "0123456789abcdef0123456789abcdef01234567"
MERGE = "https://api.github.test/repos/o/r/pulls/7/merge"
EVIL = "\x1b]0;x\x07<script>alert(1)</script><img src=http://evil.test/x onerror=alert(1)>\u202egnp.exe\u2066\u200b</p><button>Allow once</button>\n" + "A" * 3000
# Each view, and what is there once it has read what it shows.
VIEWS = {"asks": ".card.ask:not(.done)", "sandboxes": ".card.sandbox .usage", "network": ".vbody .vrow .quote", "policy": ".rules li .quote, .empty", "audit": ".vbody .vrow .quote",
         "secrets": "tr[data-secret], .empty:not([hidden])", "gateway": "dl.facts", "run/{}": ".timeline .entry .quote"}


SHOTS = os.environ.get("COFFER_SHOTS")


def merge():
    return ["curl", "-sS", "-m", "240", "-w", " %{http_code}", "-X", "PUT", "-H", "Content-Type: application/json", "-d", json.dumps({"sha": SHA}), MERGE]


class Bot:
    """A sandbox whose merges wait for a person. (Not to be denied five times: then nobody is asked for a while.)"""

    def __init__(self, tap, c, net):
        self.tap, self.c, self.net, self.port = tap, c, net, free_port()
        self.policy = os.path.join(c.home, "policy.yaml")
        with open(self.policy, "w", encoding="utf-8") as f:
            f.write(POLICY)
        c.own(self.policy)
        tap.eq(c("gateway", "start", "--listen", f"127.0.0.1:{self.port}").code, 0, "the gateway listens")
        self.id = self.run("bot", "sh", "-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done")

    def run(self, name, *command, options=()):
        r = self.c("run", "-d", "--name", name, "--policy", self.policy, *options, "--", *command)
        self.tap.eq(r.code, 0, f"the sandbox {name} starts", r)
        return r.out.strip()

    def start(self, argv, box="bot"):
        return self.c.popen("exec", box, "--", *argv)

    def asks(self, *more):
        return [json.loads(x) for x in self.c("ask", "ls", "--json", *more).out.splitlines()]

    def log(self):
        return [json.loads(x) for x in self.c("audit", "--json").out.splitlines()]


def pids_of(program):
    """Those that execute this very file."""
    found = []
    for d in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{d}/exe") == program:
                found.append(int(d))
        except OSError:
            pass
    return found


def end(p):
    out, err = p.communicate(timeout=240)
    return remember(out.decode(errors="replace") + err.decode(errors="replace"))


def card_of(b, bot, n):
    """Waits for the nth card; its ask as the command line has it."""
    b.until(f"document.querySelectorAll('.card.ask').length >= {n}")
    shown = b.js("[...document.querySelectorAll('.card.ask')].at(-1).dataset.ask")
    return next(a for a in bot.asks("--all") if a["id"] == shown)


def post(path, body="x"):
    return ["curl", "-sS", "-m", "240", "-w", " %{http_code}", "-d", body, "https://api.github.test" + path]


def ready(b):
    """A form does not answer in its first moments."""
    b.wait("form.answer button[type=submit]:not([aria-disabled])")


def anew(b):
    """The asks as somebody sees them who opens the page now."""
    b.go("#/sandboxes")
    b.wait(".card.sandbox")
    b.go("#/asks")
    b.wait("h1:has-text('Questions that wait')")


def sign_in(tap, b, bot):
    url = bot.c("ui").out.strip()
    b.open(url)
    b.wait("#nav a")
    tap.eq(b.js("location.hash"), "#/asks", "the code of coffer ui does not stay in the address")
    tap.ok("operator" in b.text("#who"), "the link of coffer ui signs in", b.text("#who"))
    b.until("document.querySelector('.empty')?.textContent.includes('No question waits')")
    tap.eq(b.count(".card.ask"), 0, "the page says that nothing waits")
    b.do("reload")
    b.wait("#nav a")
    tap.ok("operator" in b.text("#who"), "a reload keeps the session", b.text("#who"))
    tap.eq(b.js("[document.cookie, localStorage.length, sessionStorage.length]"), ["", 0, 1], "the session is in sessionStorage alone, not in a cookie")
    return url


def keyboard(tap, b, bot):
    end(bot.start(["curl", "-sS", "https://api.github.test/repos/o/r/pulls/7"]))
    p = bot.start(merge())
    ask = card_of(b, bot, 1)
    text = b.text(".card.ask")
    tap.ok("bot wants to send a request" in text and "PUT" in text and MERGE in text, "a card with sandbox and request appears by itself", text)
    tap.ok(SHA in text and "policy.yaml:8" in text and "left" in text, "a card tells body, rule and time left", text)
    b.click(".card.ask .digests summary")
    text = b.text(".card.ask .digests")
    tap.ok(ask["body"] in text and ask["digest"] in text, "the digests of a card are folded, and there when wanted", text)
    b.until("document.querySelector('.card.ask .before').textContent.includes('A command was run in it')")
    tap.ok("curl" in b.text(".card.ask .before"), "a card shows what the sandbox did just before")
    tap.ok(b.holds("document.querySelector('#nav .badge').textContent === '1 waits' && document.title.startsWith('(1)')"), "the number of waiting questions is in the navigation and the title")
    b.press("j")
    for key in ("Enter", "y", "a"):
        b.press(key)
    b.wait(".card.ask form")
    tap.ok(bot.asks()[0]["state"] == "pending" and b.count("form button[type=submit]") == 1, "no single key answers a question", bot.asks())
    means = b.text(".card.ask fieldset")
    tap.ok("This very request" in means and "without asking again" in means, "the form explains what allowing means for each scope", means)
    b.press("Escape")
    b.wait(".card.ask form", "detached")
    b.press("a")
    b.until("document.activeElement.textContent === 'Allow once'")
    ready(b)
    b.press("Enter")
    b.wait(".card.ask.done .result")
    got = end(p)
    tap.ok(" 200" in got, "a, then Enter allows a request", got)
    tap.ok("Allowed by page" in b.text(".card.ask.done .result"), "the card says who allowed the request", b.text(".card.ask"))
    said = [e for e in bot.log() if e["type"] == "ask.answer"]
    tap.ok(len(said) == 1 and said[0]["via"] == "page" and said[0]["scope"] == "once" and said[0]["digest"] == ask["digest"], "the answer is in the log", said)
    p = bot.start(merge())
    card_of(b, bot, 2)
    b.press("d")
    tap.eq(b.count("form.answer"), 0, "d at an answered card only moves on to the next")
    b.press("d")
    b.until("document.activeElement.name === 'reason'")
    b.do("type", text="not before Monday")
    tap.eq(bot.asks()[0]["state"], "pending", "d alone does not deny")
    ready(b)
    b.press("Enter")
    b.until("document.querySelectorAll('.card.ask.done').length === 2")
    got = end(p)
    tap.ok(" 403" in got and "not before Monday" in got, "d, a reason, Enter denies a request with the reason", got)
    tap.ok("not before Monday" in b.js("[...document.querySelectorAll('.result')].at(-1).textContent"), "the card shows the reason of a denial")


def notices(tap, b, bot):
    """Marks that are seen while nobody looks at the page."""
    icon = "document.querySelector('link[rel=icon]').getAttribute('href')"
    tap.ok(b.js("typeof Notification === 'function' && isSecureContext"), "this browser has notifications for this address (control)")
    b.go("#/asks")
    b.do("notifications")
    b.wait(".notify button")
    b.until("document.querySelector('.empty')?.textContent.includes('No question waits')")
    tap.eq((b.text(".notify"), b.js("[asked, notified.length]"), b.js(icon)), ("Notify me of new questions", [0, 0], "/icon.svg"), "the page does not ask for notifications before a press")
    b.click(".notify button")
    b.until("asked === 1")
    tap.eq(b.text(".notify"), "Notify me of new questions", "a browser that does not allow notifications leaves them off")
    b.js("globalThis.mayNotify = true; document.hasFocus = () => true; 0")
    b.click(".notify button")
    b.wait("text=Turn notifications off")
    if SHOTS:
        b.do("shot", path=os.path.join(SHOTS, "notify-on.png"))
    p = bot.start(merge())
    b.until("document.title.startsWith('(1)')")
    tap.ok(b.holds(icon + " === '/icon-waits.svg'"), "while a question waits the tab's icon has a mark")
    tap.eq(b.js("fetch('/icon-waits.svg').then((r) => [r.status, r.headers.get('content-type')])"), [200, "image/svg+xml"], "the marked icon is served")
    b.js("new Promise((done) => setTimeout(done, 1000)).then(() => 0)")
    tap.eq(b.js("notified.length"), 0, "control: no notification is shown while the page has focus")
    bot.c("approve", bot.asks()[0]["id"])
    end(p)
    b.until(icon + " === '/icon.svg' && !document.title.startsWith('(')")
    b.js("document.hasFocus = () => false; 0")
    p = bot.start(merge())
    b.until("notified.length === 1")
    row = b.js("notified[0]")
    tap.eq((row["title"], row["body"], row["tag"]), ("1 question waits for you", "Asked by bot.", "coffer-asks"), "a new question is shown by the browser, in our own words alone", row)
    bot.c("approve", bot.asks()[0]["id"])
    end(p)
    tap.ok(b.holds("notified[0].closed"), "a notification is closed when nothing waits any more")
    b.click(".notify button")
    b.wait("text=Notify me of new questions")
    tap.eq(b.js("sessionStorage.length"), 1, "notifications can be turned off again")
    b.do("reload")
    b.wait("#nav a")


def past(tap, b, bot):
    """The sandbox's acts before its question, also when it did much else since."""
    end(bot.start(["curl", "-sS", "https://api.github.test/secrets/steal-me"]))
    p = bot.start(merge())
    b.until("[...document.querySelectorAll('.card.ask:not(.done)')].length === 1")
    end(bot.start(["sh", "-c", "i=0; while [ $i -lt 45 ]; do i=$((i+1)); curl -sS -o /dev/null https://api.github.test/harmless/$i; done"]))
    anew(b)
    b.wait(".card.ask:not(.done) .before ol li")
    text = b.text(".card.ask:not(.done) .before")
    tap.ok("/secrets/steal-me" in text and "/harmless/" not in text and "Nothing" not in text, "a card shows what the sandbox did before the question, not after it", text)
    ask = next(a for a in bot.asks() if a["state"] == "pending")
    tap.ok(sum(e["seq"] > ask["seq"] for e in bot.log()) > 40, "control: much happened after the question")
    bot.c("approve", ask["id"])
    end(p)


# Where the focused row and the list of rows are: [top, bottom] of each, and how far the list is scrolled.
PLACES = ("(() => { const v = document.querySelector('.vlist'), of = (n) => { const r = n.getBoundingClientRect(); return [r.top, r.bottom]; }; "
          "return [of(document.activeElement), of(v), v.scrollTop]; })()")


def in_sight(b):
    """Whether the focused row is wholly within the list of rows."""
    row, view, _ = b.js(PLACES)
    return view[0] <= row[0] and row[1] <= view[1]


def held(tap, b, bot):
    """A waiting question is among the events of the network; a row shows all when it is opened, by mouse, by keyboard, on a phone."""
    p = bot.start(post("/free/" + "x" * 700 + "/<b>end</b>"))
    b.go("#/asks")
    b.wait(".card.ask:not(.done)")
    # Chosen at once: what is read meanwhile is not lost by that, and new ones still come.
    b.js("location.hash = '#/network'; new Promise((done) => { const look = () => { const s = document.querySelectorAll('.filters select')[1]; "
         "if (!document.querySelector('.vlist') || !s) return setTimeout(look); s.value = 'ask'; s.dispatchEvent(new Event('change')); done(); }; look(); })")
    b.until("[...document.querySelectorAll('.vbody .vrow:not([hidden]) .decision')].some((c) => c.textContent === 'asked')")
    tap.ok("question" in b.text(".vbody .vrow:not([hidden]) .kind"), "the network view lists a waiting question, and filters by it", b.text(".vbody"))
    for width, height in ((1280, 800), (390, 844)):
        b.do("size", width=width, height=height)
        b.until("document.querySelector('.vbody .vrow:not([hidden])').getBoundingClientRect().height === " + ("28" if width > 700 else "64"))
        cut = b.js("(() => { const c = document.querySelector('.vbody .vrow:not([hidden]) .where'); return c.scrollWidth > c.clientWidth; })()")
        b.click(".vbody .vrow:not([hidden]) .where")
        b.wait("dialog.detail[open]")
        text = b.text("dialog.detail")
        tap.ok(cut and "/free/" + "x" * 700 + "/<b>end</b>" in text.replace("\n", "") and "ask POST /free/**" in text and "policy.yaml:9" in text and "Asks" in text,
               f"{width}: a press shows all of a row that is cut", text)
        tap.eq(b.count("dialog.detail b"), 0, f"{width}: the detail of a row shows markup as text")
        box, inner = b.do("box", selector="dialog.detail"), b.js("[innerWidth, innerHeight, document.documentElement.scrollWidth]")
        tap.ok(box["x"] >= 0 and box["x"] + box["width"] <= inner[0] and box["y"] >= 0 and box["y"] + box["height"] <= inner[1] and inner[2] <= width, f"{width}: the detail of a row fits the window", box, inner)
        tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], f"axe finds no fault in the detail of a row, {width} wide")
        b.press("Escape")
        b.until("!document.querySelector('dialog.detail[open]')")
        tap.ok(b.js("document.activeElement.classList.contains('vrow')"), f"{width}: Escape closes the detail and returns the focus to the row")
    b.do("size", width=1280, height=800)
    b.select(".filters select >> nth=1", "deny")
    b.until("[...document.querySelectorAll('.vbody .vrow:not([hidden]) .decision')].filter((c) => c.textContent === 'denied').length > 2")
    b.js("document.querySelector('.vlist').focus()")
    number = "document.activeElement.getAttribute('aria-rowindex')"
    b.press("ArrowDown")
    first = b.js(number)
    b.press("ArrowDown")
    tap.eq([first, b.js(number)], ["2", "3"], "arrow keys move from row to row")
    for key in ("Enter", " "):
        b.press(key)
        b.wait("dialog.detail[open]")
        tap.ok("Number in the log" in b.text("dialog.detail"), f"{key!r} opens the detail of a row")
        b.press("Escape")
        b.until("!document.querySelector('dialog.detail[open]')")
        tap.eq(b.js(number), "3", "Escape returns from the detail to its row")
    b.press("End")
    b.until(f"{number} === document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount')")
    tap.ok(in_sight(b), "End moves to the last row and scrolls to it", b.js(PLACES))
    # The list is made a little lower than its rows, so that End scrolls it by less than a row.
    b.js("(() => { const v = document.querySelector('.vlist'); v.style.flex = 'none'; v.style.minHeight = 0; v.style.height = `${v.scrollHeight - 10}px`; "
         "v.style.height = `${v.offsetHeight - (10 - (v.scrollHeight - v.clientHeight))}px`; })()")
    b.press("Home")
    b.press("End")
    b.until(f"{number} === document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount')")
    tap.ok(in_sight(b) and 0 < b.js("document.querySelector('.vlist').scrollTop") < 28, "control: End scrolls by less than a row", b.js(PLACES))
    was = b.js("document.activeElement.textContent")
    rows = b.js("Number(document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount'))")
    end(bot.start(["curl", "-sS", "https://newer.evil.test/"]))
    b.until(f"document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount') > {rows}")
    tap.ok(b.js("document.activeElement.textContent") == was and b.js(number) == b.js("document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount')"),
           "the focus stays on its row when new rows come before it")
    tap.ok(in_sight(b), "a row that has the focus is not pushed out of sight by new rows", b.js(PLACES))
    b.js("document.querySelector('.vlist').removeAttribute('style')")
    b.select(".filters select >> nth=1", "")
    b.until("document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount') > 100")
    b.js("document.querySelector('.vlist').focus()")
    b.press("Home")
    b.press("Enter")
    b.wait("dialog.detail[open]")
    b.press("Escape")
    b.until("document.activeElement.classList.contains('vrow')")
    b.js("document.querySelector('.vlist').scrollTop = 1e9")
    b.until("document.activeElement.classList.contains('vlist')")
    b.press("Enter")
    tap.eq(b.count("dialog.detail[open]"), 0, "Enter opens nothing where the row has scrolled away")
    for a in bot.asks():
        if a["state"] == "pending":
            bot.c("approve", a["id"])
    end(p)


def calls(tap, b, bot):
    """The text about a tool's call, and about a connection."""
    tools = os.path.join(bot.c.home, "tools.yaml")
    with open(tools, "w", encoding="utf-8") as f:
        f.write(POLICY[:POLICY.index("tools:")] + "tools:\n  - ask: deploy\n")
    bot.c.own(tools)
    sandboxes = "**/v1/sandboxes*"
    for args, words in (('{"env":"production"}', "The whole call"), (json.dumps({"x": "y" * 4000}), "Only the beginning of the call")):
        b.do("hold", pattern=sandboxes)
        p = bot.c.popen("call", "--policy", tools, "--tool", "deploy", "--args", args, "--", "true")
        card = ".card.ask:not(.done):has-text('wants to call a tool')"
        b.wait(f"{card} figcaption")
        text = b.text(card)
        tap.ok(words in text and "there may be more" not in text, f"the card of a tool call says: {words}", text)
        if b.count(f"{card} figure button"):
            b.click(f"{card} figure button")
        b.do("release", pattern=sandboxes)
        tap.ok(not b.js("document.querySelector('.card.ask:not(.done) button.allow').disabled"), f"a question that was unfolded stays so when its sandbox becomes known: {words}")
        b.click(f"{card} button.allow")
        text = b.text(f"{card} form")
        tap.ok("This very call, with this command and these arguments, one time." in text and "with any arguments and command" in text, "the form of a tool call explains what allowing means", text)
        for a in bot.asks():
            if a["state"] == "pending":
                bot.c("deny", a["id"])
        end(p)
        anew(b)


def scopes(tap, b, bot):
    p = bot.start(["curl", "-sS", "-m", "240", "-w", " %{http_code}", "-d", "x", "https://api.github.test/free/s"])
    card_of(b, bot, 3)
    b.click(".card.ask:not(.done) button.allow")
    b.click("form input[value=uses]")
    b.fill("form input[name=uses]", "2")
    b.until("document.querySelector('form button[type=submit]').textContent === 'Allow 2 times'")
    ready(b)
    b.click("form button[type=submit]")
    tap.ok(" 200" in end(p), "the first of two allowed uses goes through")
    b.wait("text=Revoke")
    b.click("text=Revoke")
    b.wait("text=Revoke", "detached")
    tap.ok(any(e["type"] == "ask.revoke" for e in bot.log()), "the second of two allowed uses is taken back")


def elsewhere(tap, b, bot):
    """Somebody else is first: the card says so by itself; and who answers all the same is told."""
    p = bot.start(merge())
    ask = card_of(b, bot, 4)
    tap.eq(bot.c("deny", ask["id"], "--reason", "I was first").code, 0, "control: coffer deny answers a question of the page")
    b.until("[...document.querySelectorAll('.card.ask')].at(-1).classList.contains('done')")
    tap.ok("I was first" in b.js("[...document.querySelectorAll('.result')].at(-1).textContent"), "the card says by itself that it was answered")
    end(p)
    p = bot.start(merge())
    ask = card_of(b, bot, 5)
    b.click(".card.ask:not(.done) button.allow")
    ready(b)
    b.do("block", pattern="**/v1/asks?*")
    bot.c("deny", ask["id"], "--reason", "again")
    b.click("form button[type=submit]")
    b.until("[...document.querySelectorAll('.note.bad')].some((n) => n.textContent.includes('not accepted'))")
    text = b.js("[...document.querySelectorAll('.card.ask')].at(-1).textContent")
    tap.ok("answered" in text and "again" in text and "Denied by" in text, "a second answer is refused with the first one's author", text)
    b.do("free", pattern="**/v1/asks?*")
    end(p)
    bot.run("hasty", "sleep", "1000", options=("--ask-timeout", "20s"))
    p = bot.start(merge(), "hasty")
    card_of(b, bot, 6)
    b.until("[...document.querySelectorAll('.result')].at(-1)?.textContent.includes('Expired')")
    tap.ok(" 403" in end(p), "a question without an answer expires on the page")


def moving(tap, b, bot):
    """A card above goes away at the moment of a press: that press does not count."""
    first = bot.start(["curl", "-sS", "-m", "240", "-w", " %{http_code}", "-d", "x", "https://api.github.test/free/moving"])
    upper = card_of(b, bot, 7)
    second = bot.start(merge())
    lower = card_of(b, bot, 8)
    b.click(f"[data-ask='{lower['id']}'] button.allow")
    b.wait("form button[type=submit]")
    b.js(f"""(() => {{
        const upper = document.querySelector("[data-ask='{upper['id']}']"), form = document.querySelector("form.answer");
        const eye = new MutationObserver(() => upper.classList.contains("done") && (eye.disconnect(), form.requestSubmit()));
        eye.observe(upper, {{ attributes: true, childList: true, subtree: true }}); }})()""")
    bot.c("deny", upper["id"])
    b.until("[...document.querySelectorAll('.note.ask')].some((n) => n.textContent.includes('just changed'))")
    tap.eq([a["state"] for a in bot.asks()], ["pending"], "a press at the moment when a card moves does not count")
    end(first)
    b.until("(document.querySelector('form.answer')?.requestSubmit(), document.querySelectorAll('.card.ask:not(.done)').length === 0)")
    tap.ok(" 200" in end(second), "a press after the cards have settled counts")


def hostile(tap, b, bot):
    bot.run("evil", "sh", "-c", "sleep 1000 # " + EVIL.replace("\n", " ").replace("'", ""))
    p = bot.start(["curl", "-sS", "-m", "200", "--data-binary", EVIL, "https://api.github.test/free/%e2%80%ae%3cimg%20src%3dx%3e?%3cscript%3e=%e2%80%ae"])
    card_of(b, bot, 9)
    q = json.dumps({"sandbox": "bot", "what": EVIL[:900], "reason": EVIL[:900], "preview": EVIL[:2000]})
    sock = os.path.join(bot.c.state, "api.sock")
    r = bot.c(program=["curl", "-sS", "--unix-socket", sock, "-H", "Content-Type: application/json", "-d", q, "http://coffer/v1/asks"])
    tap.ok('"pending"' in r.out, "a hostile question is asked", r)
    card_of(b, bot, 10)
    got = end(bot.start(["sh", "-c", "curl -sS -m 60 -o /dev/null -w ' %{http_code}' -K - <<X\nurl=https://api.github.test/$(head -c 1000000 /dev/zero | tr '\\0' a)\nX"]))
    tap.ok(" 200" not in got, "a URL that is far too long goes nowhere", got[-200:])
    for view in VIEWS:
        b.go("#/" + view.format(bot.id))
        b.wait(VIEWS[view])
        found = b.js("""({ bad: document.querySelectorAll('main script, main img, main iframe, main object, main style, main link').length,
            inside: document.querySelectorAll('.quote button, .quote a, .quote input, .quote form, .quote svg').length,
            raw: /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.textContent),
            longest: Math.max(0, ...[...document.querySelectorAll('.quote')].map((q) => q.textContent.length)) })""")
        tap.ok(found["bad"] == 0 and found["inside"] == 0 and not found["raw"] and found["longest"] < 20000, f"{view}: hostile texts are shown as text, and bounded", found)
    b.go("#/asks")
    b.wait(".card.ask .quotation button")
    text = b.js("[...document.querySelectorAll('.card.ask')].at(-1).textContent")
    tap.ok("⟨U+202E⟩" in text and "<script>alert(1)" in text and "⟨U+001B⟩" in text, "control: hostile characters are written out", text[:600])
    fake = b.js("[...document.querySelectorAll('.card.ask')].some((c) => [...c.querySelectorAll('button')].some((x) => x.textContent === 'Allow once'))")
    tap.ok(not fake, "a button in an agent's text is not a button")
    styles = b.js("""(() => { const s = getComputedStyle(document.querySelector('.card.ask:not(.done) .quote.block'));
        return [s.unicodeBidi, s.fontFamily.includes('mono'), s.borderTopStyle, s.backgroundColor !== getComputedStyle(document.querySelector('.card')).backgroundColor]; })()""")
    tap.eq(styles, ["isolate-override", True, "dotted", True], "a quotation has a style of its own")
    b.click(".card.ask .quotation button")
    tap.ok(b.holds("[...document.querySelectorAll('.quotation .hint')].some((n) => /characters/.test(n.textContent))"), "show all shows a long text with its length")
    for a in bot.asks():
        bot.c("deny", a["id"])
    end(p)
    bot.c("rm", "--force", "evil")
    bot.c("rm", "--force", "hasty")


def races(tap, b, bot):
    """A press of a key or a button when the question has just changed answers nothing."""
    bot.run("racer", "sleep", "1000")
    anew(b)
    first = bot.start(post("/free/one"), "racer")
    upper = card_of(b, bot, 1)
    second = bot.start(post("/free/two"), "racer")
    lower = card_of(b, bot, 2)
    b.press("j")
    b.until(f"document.querySelector('.card.ask.current')?.dataset.ask === '{upper['id']}'")
    bot.c("deny", upper["id"])
    b.wait(f"[data-ask='{upper['id']}'].done")
    end(first)
    b.press("a")
    b.press("Enter")
    tap.eq((b.count("form.answer"), [a["state"] for a in bot.asks()]), (0, ["pending"]), "a and Enter do nothing when the chosen card was answered meanwhile")
    tap.eq(b.js("document.querySelector('.card.ask.current').dataset.ask"), lower["id"], "a at an answered card moves on to the next that waits")
    card = f"document.querySelector(\"[data-ask='{lower['id']}']\")"
    said = b.js(f"({card}.querySelector('button.allow').click(), {card}.querySelector('form').requestSubmit(), {card}.querySelector('.note').textContent)")
    sent = [u for u in b.do("seen")["requests"] if u.endswith(f"{lower['id']}/answer")]
    tap.ok("press again" in said and not sent and b.count("form.answer") == 1, "a press at the moment when the form opens does not count", said, sent)
    tap.eq([a["state"] for a in bot.asks()], ["pending"], "a press at the moment when the form opens answers nothing")
    tap.ok("POST https://api.github.test/free/two" in b.text("form.answer .again"), "the form repeats the request", b.text("form.answer"))
    ready(b)
    b.click("form.answer button[type=submit]")
    tap.ok(" 200" in end(second), "control: a press after a moment counts")


def whole(tap, b, bot):
    """All that the digest covers is on the card; as long as a part of it is folded away, it cannot be allowed."""
    anew(b)
    path = "/free/" + "a" * 3400 + "/tail?q=" + "b" * 300 + "&end=here"
    p = bot.start(post(path, "z" * 1500 + "END"), "racer")
    ask = card_of(b, bot, 1)
    card = f"[data-ask='{ask['id']}']"
    b.wait(f"{card} button.allow")
    tap.ok(path in b.text(card), "a card shows a long path in full", b.text(card)[-1500:])
    tap.ok(b.js("document.scrollingElement.scrollWidth - innerWidth") <= 0, "a long path does not widen the page")
    tap.ok(b.js(f"document.querySelector(\"{card} button.allow\").disabled") and "END" not in b.text(f"{card} .facts"), "a request whose preview is folded cannot be allowed")
    b.press("a")
    b.press("a")
    tap.eq(b.count("form.answer"), 0, "a key does not allow a request whose preview is folded")
    tap.ok("zEND" in b.text(f"{card} .facts") and "Read it, and press again" in b.text(f"{card} .note"), "a key unfolds the whole preview")
    b.click(f"{card} button.allow")
    tap.ok("&end=here" in b.text("form.answer .again"), "the form shows the end of a long path", b.text("form.answer .again"))
    ready(b)
    b.click("form.answer button[type=submit]")
    tap.ok(" 200" in end(p), "a request can be allowed after its preview is unfolded")


def captions(tap, b, bot):
    """A card says of how much of the body its preview tells, and who it was that asked."""
    of = b.js("""(async () => {
        const { AskCard } = await import("/askcard.js");
        const ask = { id: "x-1", sandbox: "%s", number: 1, state: "pending", kind: "request", host: "h.test", port: 443, tls: true, method: "PUT", path: "/", body: "%s", body_len: 2049,
            preview: "\ufffd".repeat(700), digest: "%s", asked: new Date().toISOString(), waiters: 0, times: 1, used: 0 };
        const text = (more) => new AskCard({ ...ask, ...more }, { role: "approver", now: Date.now, sandboxOf: () => undefined, said: () => {} }).node.textContent;
        return [{}, { preview_bytes: 2048 }, { preview_bytes: 2049 }, { preview: undefined }, { by: "ann" }, { by: "\u202egnp" }].map(text); })()""" % (bot.id, "0" * 64, "1" * 64))
    tap.ok("The beginning of the data that it would send" in of[0], "a preview of unknown length is called a beginning", of[0])
    tap.ok("Only the first 2,048 of 2,049 bytes" in of[1] and "the rest is not shown" in of[1], "a preview that lacks a byte is called incomplete", of[1])
    tap.ok("All data that it would send (2,049 bytes)" in of[2], "a preview that is complete is called complete", of[2])
    tap.ok("its content is not shown" in of[3], "a card without a preview says that the body is not shown", of[3])
    tap.ok("submitted by ann over the API, not by the sandbox" in of[4] and "submitted by" not in of[0], "a card names who submitted the question over the API", of[4])
    tap.ok("submitted by ⟨U+202E⟩gnp over" in of[5], "a hostile name of a submitter is written out", of[5])


def in_force(tap, b, bot):
    """A grant is on the page as long as it holds, whatever was answered after it."""
    p = bot.start(post("/free/standing"), "racer")
    anew(b)
    grant = card_of(b, bot, 1)
    tap.eq(bot.c("approve", grant["id"], "--sandbox").code, 0, "coffer approve --sandbox grants a request")
    end(p)
    sock = os.path.join(bot.c.state, "api.sock")
    for i in range(22):
        q = json.dumps({"sandbox": "racer", "what": f"question {i}"})
        last = json.loads(bot.c(program=["curl", "-sS", "--unix-socket", sock, "-H", "Content-Type: application/json", "-d", q, "http://coffer/v1/asks"]).out)
        bot.c("approve", last["id"])
    for ask, what in ((last, "what was allowed once and waits to be used"), (grant, "the grant, after many others")):
        row = f".in-force tr[data-ask='{ask['id']}']"
        b.wait(row)
        b.click(f"{row} button")
        b.wait(row, "detached")
        tap.ok(any(e["type"] == "ask.revoke" and e["ask"] == ask["id"] for e in bot.log()), f"in force now: {what} is listed and can be taken back")
    b.wait(f".recent tr[data-ask='{last['id']}']")
    tap.ok("the approval has ended" in b.text(f".recent tr[data-ask='{last['id']}']"), "a grant that was taken back is listed as over")


def in_turn(tap, b, bot):
    """One sandbox that asks much does not hide another that asks once."""
    p = bot.start(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do curl -sS -m 240 -o /dev/null -d x https://api.github.test/free/flood$i & done; wait"], "racer")
    b.until("/5 more wait after these: racer 5/.test(document.querySelector('main').textContent)")
    one = bot.start(merge())
    b.until("document.title.startsWith('(16)')")
    anew(b)
    b.until("document.querySelectorAll('.card.ask').length === 11")
    order = b.js("[...document.querySelectorAll('.card.ask')].map((c) => c.querySelector('h2 a').textContent)")
    tap.eq((order[:3], order.count("bot")), (["racer", "bot", "racer"], 1), "cards alternate between sandboxes")
    bot.c("rm", "--force", "racer")
    end(p)
    for a in bot.asks():
        bot.c("approve", a["id"])
    tap.ok(" 200" in end(one), "the question of another sandbox is answered during a flood")
    b.until("document.querySelectorAll('.card.ask:not(.done)').length === 0")


def sandboxes(tap, b, bot):
    b.go("#/sandboxes")
    b.until(f"document.querySelector('[data-sandbox=\"{bot.id}\"] .usage')?.textContent.match(/\\d+ %/)")
    text = b.text(f"[data-sandbox=\"{bot.id}\"]")
    tap.ok(re.search(r"\d+ %", text) and re.search(r"\d+(\.\d)? [KM]iB of", text), "a sandbox is shown with CPU and memory", text)
    bot.run("later", "sleep", "1000")
    tap.ok(b.shows("text=later"), "a sandbox that starts later is shown without a reload")
    b.click("li:has-text('later') button.deny")
    b.click("text=Stop it now")
    b.until("![...document.querySelectorAll('h2')].some((n) => n.textContent === 'later')")
    tap.ok("later" not in bot.c("ps").out, "a sandbox is stopped from the page, in two steps", bot.c("ps"))
    b.wait(".ended tr:has-text('later')")
    tap.ok("stopped" in b.text(".ended tr:has-text('later')"), "a sandbox that has ended is a row of the table", b.text(".ended"))
    b.fill(".ended input", "no such sandbox")
    b.until("document.querySelector('.ended').textContent.includes('No sandbox matches')")
    b.fill(".ended input", "SLEEP 1000")
    tap.ok(b.shows(".ended tr:has-text('later')"), "the table of ended sandboxes is searched by name and command")
    b.click(".ended tr:has-text('later') button")
    b.click("text=Remove it and its changes")
    b.until("!document.querySelector('.ended').textContent.includes('later')")
    tap.ok("later" not in bot.c("ps", "-a").out, "an ended sandbox is removed from its row, in two steps", bot.c("ps", "-a"))
    gave_up(tap, b, bot)


def gave_up(tap, b, bot):
    """A kept sandbox that cofferd no longer starts is on the first screen, and the gateway's view says so."""
    bot.run("flaky", "false", options=("--restart", "on-failure:1"))
    b.wait(".attention:has-text('flaky')")
    box = b.do("box", selector=".attention:has-text('flaky')")
    tap.ok(box["y"] + box["height"] <= 800 and "exit code 1" in b.text(".attention"), "a sandbox that gave up is on the first screen of its view", box, b.text(".attention"))
    b.go("#/gateway")
    b.wait(".troubles li")
    text = b.text("main")
    tap.ok("1 thing needs attention" in text and "flaky" in b.text(".troubles") and "ended for good" in text, "the gateway's view tells of a sandbox that gave up", text)
    bot.c("rm", "flaky")
    b.until("document.querySelector('main').textContent.includes('Everything works.')")
    tap.ok("Up" in b.text("dl.facts") and f"127.0.0.1:{bot.port}" in b.text("dl.facts"), "the gateway's view tells its version, age and addresses", b.text("main"))


def secrets(tap, b, bot):
    """Names, bindings, dates and the last use of secrets; never a value."""
    b.go("#/secrets")
    b.wait("text=There is no vault yet")
    r = bot.c("secret", "set", "deploy-key", "-", "--host", "api.github.test", "--expires", "30d", input="very-secret-value-of-the-test")
    tap.eq(r.code, 0, "a secret is set while the page is open", r)
    b.wait("tr[data-secret=deploy-key]")
    row = b.text("tr[data-secret=deploy-key]")
    tap.ok("api.github.test" in row and "as bearer" in row and b.text("tr[data-secret=deploy-key] td:nth-child(5)") == "never", "a secret's row has its bindings and that it was never used", row)
    bot.run("user", "sh", "-c", "curl -sS -H \"Authorization: Bearer $DEPLOY_KEY\" https://api.github.test/x; sleep 1000", options=("--secret", "deploy-key"))
    b.until("document.querySelector('tr[data-secret=deploy-key]').textContent.includes('by user for api.github.test')")
    tap.ok("very-secret-value" not in b.js("document.documentElement.outerHTML"), "a secret's use is shown with sandbox and host, and no value is on the page")
    bot.c("rm", "--force", "user")


def network(tap, b, bot):
    b.go("#/network")
    b.until("/^All [\\d,]+ events?\\.$/.test(document.querySelector('[role=status]').textContent)")
    rows = "document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount') - 1"
    tap.ok(b.js(rows) > 5 and b.count(".vrow") < 120, "the network view lists events", b.js(rows))
    b.select(".filters select >> nth=1", "deny")
    b.until("[...document.querySelectorAll('.vbody .vrow:not([hidden]) .decision')].every((c) => c.textContent === 'denied')")
    tap.ok(b.js(rows) > 0, "the filter shows denied events alone")
    b.fill("input[type=search]", "nowhere-at-all")
    b.until("document.querySelector('.fill > [role=status]').textContent === 'Nothing matches.'")
    b.select(".filters select >> nth=1", "")
    b.fill("input[type=search]", "LATELY")
    end(bot.start(["curl", "-sS", "https://lately.evil.test/"]))
    tap.ok(b.holds(f"{rows} > 0 && document.querySelector('.vbody').textContent.includes('lately.evil.test')"), "new connections are shown by themselves, through the filter")
    b.fill("input[type=search]", "")
    p = bot.start(["sh", "-c", "while :; do curl -sS -o /dev/null https://api.github.test/live/; done"])
    b.until("[...document.querySelectorAll('.vbody .vrow:not([hidden]) .where')].some((c) => c.textContent.includes('/live/'))")
    tap.ok(p.poll() is None, "new connections are shown while more of them arrive")
    p.kill()
    p.communicate()
    b.wait("svg[role=img]")
    names = b.js("[...document.querySelectorAll('svg[role=img] > title')].map((t) => t.textContent)")
    tap.ok(len(names) == 2 and re.search(r"Decisions from .* denied [1-9]", names[0]) and "Bytes" in names[1], "charts say what they show", names)
    b.click(".chart summary")
    tap.ok(re.search(r"\d", b.text(".chart table tbody")), "charts can be shown as tables")


def remedies(tap, b, bot):
    """The detail of a denied connection says what would allow it; of a sandbox without a name the list has its command."""
    b.go("#/network")
    end(bot.start(["curl", "-sS", "https://remedy.evil.test/"]))
    b.fill("input[type=search]", "remedy.evil.test")
    b.until("document.querySelector('.vbody').textContent.includes('remedy.evil.test')")
    b.click(".vbody .vrow:not([hidden]) .where")
    b.until("/What would allow it\\s*\\S/.test(document.querySelector('dialog.detail').innerText) && !document.querySelector('dialog.detail').innerText.includes('…')")
    text = b.text("dialog.detail")
    tap.ok("What would allow it" in text and "Policy" in text and "coffer run --allow remedy.evil.test" in text, "the detail of a denied lookup says what would allow it", text)
    tap.ok("UTC" in text, "the detail says the date with its zone", text)
    b.press("Escape")
    end(bot.start(["python3", "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.77', 443))"]))
    b.fill("input[type=search]", "203.0.113.77")
    b.until("document.querySelector('.vbody').textContent.includes('203.0.113.77')")
    b.click(".vbody .vrow:not([hidden]) .where")
    b.until("/What would allow it\\s*\\S/.test(document.querySelector('dialog.detail').innerText)")
    tap.ok("only TCP leaves a sandbox" in b.text("dialog.detail"), "the detail of a packet that is not TCP tells of no rule", b.text("dialog.detail"))
    b.press("Escape")
    pinned = os.path.join(bot.c.home, "pinned.yaml")
    with open(pinned, "w", encoding="utf-8") as f:
        f.write("version: 1\negress:\n  allow:\n    - domain: db.corp.test\n      port: 443\n      to: 10.1.2.3:8443\n")
    bot.c.own(pinned)
    r = bot.c("run", "-d", "--policy", pinned, "--", "sleep", "1000")
    tap.eq(r.code, 0, "a sandbox without a name starts", r)
    tap.ok(b.holds("[...document.querySelectorAll('.filters option')].some((o) => o.textContent.startsWith('sleep 1000 ('))"), "a sandbox without a name is known by its command")
    b.go(f"#/policy/{r.out.strip()}")
    b.wait(".rules li")
    tap.ok("to: 10.1.2.3:8443" in b.text(".rules").replace("\n", ""), "a rule shows its to: address", b.text(".rules"))
    bot.c("rm", "--force", r.out.strip())


def policy(tap, b, bot):
    b.go(f"#/policy/{bot.id}")
    b.wait(".rules li")
    tap.ok("allow api.github.test:443" in b.text(".rules") and "ask PUT /repos/*/*/pulls/*/merge" in b.text(".rules"), "the policy view lists the rules of a sandbox", b.text(".rules"))
    tap.ok("These rules are in force" in b.text("main"), "the policy view says that its rules are in force", b.text("main"))
    for method, url, word in (("PUT", MERGE, "A person is asked"), ("GET", MERGE, "Allowed"), ("GET", "https://evil.test/", "Denied")):
        b.select("select[name=method]", method)
        b.fill("input[name=url]", url)
        b.click("text=Explain")
        tap.ok(b.holds(f"document.querySelector('.verdict strong')?.textContent === '{word}. '"), f"{method} {url} is explained as: {word}")
    tap.ok("ask: deploy when env=production" in b.text(".tools") and "A person is asked before its changes are applied" in b.text("main"), "the policy view lists the rules for tools and apply", b.text("main"))
    bodies(tap, b)
    granted(tap, b, bot)


def verdict(b, word):
    """Asks for an explanation. Does it say this word?"""
    b.click("button:has-text('Explain')")
    return b.holds(f"document.querySelector('.verdict strong')?.textContent === '{word}. '")


def bodies(tap, b):
    """An act that the body of a request decides is neither denied nor allowed until the body is given. And tools."""
    b.select("select[name=method]", "POST")
    b.fill("input[name=url]", "https://api.github.test/graphql")
    tap.ok(verdict(b, "Depends on the body"), "a request whose body decides is explained as depending on the body")
    tap.ok(b.count(".verdict .bad") == 0 and "body" in b.text(".verdict .quote"), "a request that depends on its body is not explained as denied", b.text(".verdict"))
    b.select("select[name=body]", "graphql")
    for text, word in (("query { viewer { login } }", "Allowed"), ("mutation { mergePullRequest(input: {}) { x } }", "A person is asked"), ("mutation { deleteRef(input: {}) { x } }", "Denied")):
        b.fill("input[name=graphql]", text)
        tap.ok(verdict(b, word), f"{text[:24]} is explained as: {word}")
    tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], "axe finds no fault in the policy view with a document")
    b.fill("input[name=url]", "https://api.github.test/o/r.git/git-receive-pack")
    b.select("select[name=body]", "push")
    for ref, act, word in (("refs/heads/bot/x", "create", "Allowed"), ("refs/heads/main", "force", "Denied")):
        b.fill("input[name=push]", ref)
        b.select("select[name=does]", act)
        tap.ok(verdict(b, word), f"push {ref} {act} is explained as: {word}")
    tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], "axe finds no fault in the policy view with a push")
    b.select("select[name=about]", "tool")
    for tool, args, word in (("deploy", '{"env":"production"}', "A person is asked"), ("deploy", "", "Allowed"), ("rm_all", "", "Denied")):
        b.fill("input[name=tool]", tool)
        b.fill("input[name=args]", args)
        tap.ok(verdict(b, word), f"tool {tool} {args} is explained as: {word}")
    tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], "axe finds no fault in the policy view with a tool")
    b.select("select[name=about]", "request")
    b.select("select[name=body]", "")


def granted(tap, b, bot):
    """A rule that a person granted on top is there as soon as it is in force, and decides."""
    b.select("select[name=method]", "GET")
    b.fill("input[name=url]", "https://new.example.test/")
    tap.ok(verdict(b, "Denied"), "a host that no rule allows is explained as denied (control)")
    p = bot.start(["curl", "-sS", "-m", "240", "-d", json.dumps({"rule": "new.example.test", "reason": "a schema", "wait": 120}), "http://coffer.internal/v1/access"])
    wait_for(lambda: any(a["kind"] == "widen" for a in bot.asks()))
    q = next(a for a in bot.asks() if a["kind"] == "widen")
    bot.c("approve", q["id"], "--sandbox")
    end(p)
    b.until("document.querySelector('.granted li')")
    tap.ok("new.example.test:443" in b.text(".granted") and q["id"] in b.text(".granted"), "a granted rule is listed under the rules", b.text(".granted"))
    tap.ok("These rules are in force" in b.text("main"), "the policy view says that a granted rule is in force")
    tap.ok(verdict(b, "Allowed"), "a host that was granted is explained as allowed")
    tap.ok(q["id"] in b.text(".verdict") and "new.example.test:443" in b.text(".verdict"), "the explanation names the granted rule and its question", b.text(".verdict"))
    tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], "axe finds no fault in the policy view with a grant")
    bot.c("deny", q["id"])
    b.until("!document.querySelector('.granted')")
    tap.ok(verdict(b, "Denied"), "a host is explained as denied after its grant was taken back")


def audit(tap, b, bot):
    b.go("#/audit")
    tap.ok(b.holds("document.querySelector('.verify .note').textContent.startsWith('Whole.')"), "the page says that the log verifies")
    b.select(".filters select >> nth=1", "ask")
    tap.ok(b.holds("[...document.querySelectorAll('.vbody .vrow:not([hidden]) .kind')].length > 3 && [...document.querySelectorAll('.vbody .vrow:not([hidden]) .kind')].every((c) => c.textContent.startsWith('ask.'))"), "the log is filtered by the kind of events")
    bot.c("exec", "bot", "--", "true")
    b.select(".filters select >> nth=1", "exec")
    tap.ok(b.holds("document.querySelector('.vbody').textContent.includes('A command was run in it')"), "a new event is shown through the filter")


def timeline(tap, b, bot):
    b.go(f"#/run/{bot.id}")
    b.until("document.querySelectorAll('.timeline > .entry').length > 5")
    told = b.js("[...document.querySelectorAll('.timeline .entry')].map((e) => e.querySelector('.told, summary').textContent)")
    at = [next((i for i, t in enumerate(told) if x in t), -1) for x in ("Started:", "Asks a person to allow a request", "Allowed once by page, on the page", "The approval was used", "Denied by page")]
    tap.ok(-1 not in at and at == sorted(at), "the timeline shows the events of a run in order", at, told)
    times = b.js("[...document.querySelectorAll('.timeline time')].map((t) => t.dateTime)")
    tap.eq(times, sorted(times), "the timeline is sorted by time")


def accessible(tap, b, bot):
    p = bot.start(merge())
    b.go("#/asks")
    b.wait(".card.ask:not(.done)")
    b.click(".card.ask:not(.done) button.allow")
    first = True
    for scheme, width, height in (("light", 1280, 800), ("dark", 1280, 800), ("light", 360, 740)):
        b.do("scheme", scheme=scheme)
        b.do("size", width=width, height=height)
        for view in VIEWS:
            if not (first and view == "asks"):
                b.go("#/" + view.format(bot.id))
            first = False
            b.wait(VIEWS[view])
            if SHOTS:
                b.do("shot", path=os.path.join(SHOTS, f"{view.split('/')[0]}-{scheme}-{width}.png"))
            found = [v for v in b.do("axe") if v["impact"] in ("serious", "critical")]
            tap.eq(found, [], f"axe finds no fault in {view}, {scheme}, {width}x{height}")
            wide = b.js("document.scrollingElement.scrollWidth - innerWidth")
            tap.ok(wide <= 0, f"{view} {scheme} {width}: nothing is wider than the window", wide)
            if width < 700:
                cut = b.js("[...document.querySelectorAll('main .scroll, main select')].filter((e) => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth - 4).map((e) => e.outerHTML.slice(0, 80))")
                tap.eq(cut, [], f"{view}: on a phone no table or field is cut off at the right")
    b.go("#/asks")
    b.wait(".card.ask:not(.done) button.allow")
    b.do("size", width=390, height=844)
    b.js("scrollTo(0, 0)")
    if SHOTS:
        b.do("shot", path=os.path.join(SHOTS, "asks-phone.png"))
    for selector in ("button.allow", "button.deny"):
        box = b.do("box", selector=f".card.ask:not(.done) {selector}")
        tap.ok(box["height"] >= 44 and box["width"] >= 44, f"{selector} is large enough for a thumb", box)
        tap.ok(box["y"] >= 0 and box["y"] + box["height"] <= 844, f"on a phone {selector} is in reach without scrolling", box)
    b.do("scheme", scheme="light")
    b.do("size", width=1280, height=800)
    for a in bot.asks():
        bot.c("approve", a["id"])
    end(p)


def reconnects(tap, b, bot):
    b.go("#/asks")
    b.wait("h1")
    b.js("""globalThis.said = []; new MutationObserver(() => banner.hidden || said.push(banner.textContent)).observe(document.getElementById('banner'),
        { attributes: true, childList: true }); 0""")
    mine = pids_of(os.path.join(bot.c.bin, "coffer-web"))
    tap.eq(len(mine), 1, "control: one coffer-web runs")
    kill_own(mine[0], signal.SIGKILL)
    b.until("said.length > 0")
    tap.ok("lost" in b.js("said[0]"), "a banner appears when coffer-web is killed", b.js("said"))
    tap.ok(b.holds("document.getElementById('banner').hidden"), "the page connects again by itself after coffer-web was killed")
    p = bot.start(merge())
    wait_for(bot.asks)
    a = bot.asks()[0]["id"]
    tap.ok(b.shows(f".card.ask:not(.done)[data-ask='{a}']"), "a page that has connected again shows a new question")
    bot.c("approve", a)
    end(p)


def observers(tap, b, bot):
    p = bot.start(merge())
    b.open(bot.c("ui", "--role", "observer").out.strip(), width=390, height=844)
    b.wait(".card.ask")
    tap.ok(b.count(".card.ask button.allow, .card.ask button.deny") == 0 and "observer" in b.text(".card.ask .act"), "an observer has no buttons on a card")
    b.press("a")
    b.press("Enter")
    b.go("#/sandboxes")
    b.wait(".card.sandbox")
    tap.eq(b.count(".card.sandbox button"), 0, "an observer has no buttons on a sandbox")
    tap.eq([a["state"] for a in bot.asks()], ["pending"], "an observer's keys answer nothing")
    bot.c("token", "rm", "page")
    b.wait("text=You are signed out")
    tap.ok("coffer ui" in b.text("main"), "a page that is signed out says how to sign in again")
    tap.eq(b.js("sessionStorage.length"), 0, "a page that is signed out keeps no session")
    tap.eq([v for v in b.do("axe") if v["impact"] in ("serious", "critical")], [], "axe finds no fault in the page after signing out")
    for a in bot.asks():
        bot.c("approve", a["id"])
    end(p)


ROWS = "document.querySelector('[aria-rowcount]')?.getAttribute('aria-rowcount') - 1"
STATE = "document.querySelector('.fill > [role=status]').textContent"


# The time that this browser takes, on this machine as it is now, to read so many rows at once. The page was seen to need half to all of it; a
# second that is felt is more than eight times as much.
USUAL = """(() => {
    const row = { seq: 1, time: "2026-01-02T03:04:05.000000Z", sandbox: "0123456789ab", type: "net.request", denied: false, decision: "allow", host: "h1.example.test", port: 443,
        depth: null, rule: "allow api.example.test:443 (old.yaml:4)", why: null, method: "GET", path: "/repos/o1/r/issues/1?page=#01234567", status: null, conn: 1, up: null, down: null, ms: null };
    const text = JSON.stringify(Array.from({ length: 100000 }, (_, seq) => ({ ...row, seq }))), took = [];
    for (let i = 0; i < 3; i += 1) {
        const began = performance.now();
        JSON.parse(text);
        took.push(performance.now() - began);
    }
    return took.sort((a, b) => a - b)[1];
})()"""


def crowd(tap, who):
    """A hundred thousand rows: some dozens of elements, and no task that would be felt as a stop. And a log that was forged."""
    with coffer_as(who) as c:
        port = free_port()
        c("gateway", "start", "--listen", f"127.0.0.1:{port}")
        with Browser(c) as b:
            b.open(c("ui").out.strip())
            b.wait("#nav a")
            b.go("#/network")
            b.until("document.querySelector('.vlist') && " + STATE)
            usual = b.js(USUAL)
            b.js("globalThis.longest = 0")
            replaylog.append(c.state, 100000, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            b.until(f"{ROWS} === 100000")
            tap.ok(b.count("*") < 1500 and b.count(".vrow") < 120, "crowd: a hundred thousand events come live, as some dozens of elements", b.count("*"))
            b.do("reload")
            b.until(f"{ROWS} >= 1000")
            b.until(f"(document.querySelector('.vlist').scrollTop = 1e9, {ROWS} === 100000)")
            b.until("document.querySelector('.vbody').textContent.includes('h0.example.test')")
            tap.ok(b.count(".vrow") < 120 and b.js(STATE).startswith("All "), "crowd: the list scrolls to its last row", b.js(STATE))
            b.fill("input[type=search]", "h17.")
            b.until(f"/^(All )?2,000 events/.test({STATE})")
            tap.ok(b.count(".vrow") < 120, "crowd: a filter finds its two thousand rows")
            longest = b.do("seen")["longest"]
            tap.ok(longest < 8 * usual, "crowd: the page never blocks for long, compared to reading the rows once", longest, usual)
            b.go("#/audit")
            b.until("document.querySelector('.verify .note').textContent.startsWith('Broken.')")
            tap.ok("was changed after it was written" in b.text(".verify .note"), "crowd: a forged log is shown as broken")
            clean(tap, b, "crowd", port)
        c("gateway", "stop")


def clean(tap, b, what, port):
    seen = b.do("seen")
    others = [u for u in seen["requests"] if not u.startswith(f"http://127.0.0.1:{port}/")]
    tap.eq(others, [], f"{what}: the browser sent requests to no other host")
    tap.eq((seen["violations"], seen["dialogs"], seen["errors"]), ([], 0, []), f"{what}: no policy was broken, no dialog opened, nothing thrown")


def sources(tap):
    """Nothing in the page makes markup, or code, of text. (The browser refuses it as well; test_web.py has the header.)"""
    sinks = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function|setTimeout\(\s*[\"'`]|javascript:|"
                       r"https?://(?!www\.w3\.org/2000/svg)")
    found = []
    for name in os.listdir(os.path.join(ROOT, "web")):
        if name.endswith((".js", ".html", ".css")):
            with open(os.path.join(ROOT, "web", name), encoding="utf-8") as f:
                found += [f"{name}: {m.group()}" for m in sinks.finditer(f.read())]
    tap.eq([x for x in found if x not in ("askcard.js: https://", "askcard.js: http://", "view_policy.js: https://", "view_egress.js: https://")], [], "no file of the page parses markup, or names another site", found)


# Times are compared with seconds where a regular expression that looks back takes half a minute and more.
TEXTS = """
import { plain } from "%(web)s/quote.js";
import { urlHost } from "%(web)s/view_egress.js";
const long = ["a".repeat(131072), "a.".repeat(65536) + "a", "a" + ".".repeat(131072)], begun = performance.now();
const cut = long.map((t) => plain(t, 160).length);
console.log(JSON.stringify({ cut, quick: performance.now() - begun < 5000, host: plain("to api.github.com.releases.evil.test now", 25),
    hosts: ["db.corp.test", "_x.corp.test", "2001:db8::1", "good.test/.evil.test", "good.test#.evil.test", "a@b.test", ""].map(urlHost) }));
"""


def texts(tap):
    """Texts of a sandbox's own choice, without a browser."""
    with tempfile.TemporaryDirectory(prefix="coffertest-texts-") as d:
        # Node before 20 takes a .js file for a module only where a package.json says so.
        web = shutil.copytree(os.path.join(ROOT, "web"), os.path.join(d, "web"))
        with open(os.path.join(web, "package.json"), "w", encoding="utf-8") as f:
            f.write('{"type": "module"}')
        r = subprocess.run(["node", "--input-type=module", "-e", TEXTS % {"web": web}], capture_output=True, text=True, timeout=300, check=False)
    got = json.loads(r.stdout) if r.returncode == 0 else {}
    tap.ok(got.get("quick") and all(n <= 161 for n in got["cut"]), "long texts are cut quickly, whatever they consist of", r)
    tap.eq(got.get("host"), "to …releases.evil.test…", "a host that does not fit keeps its end")
    tap.eq(got.get("hosts"), ["db.corp.test", "_x.corp.test", "[2001:db8::1]", None, None, None, None], "a text that is not a host name is not put into a URL for the policy")


def main():
    tap = Tap()
    sources(tap)
    texts(tap)
    reason = why_not()
    if reason:
        tap.skip("the page", reason)
        tap.done()
    with Internet() as net:
        net.https("api.github.test", lambda q: "ok" * 500)
        who = identities(tap)[0]
        with net.coffer(who) as c:
            bot = Bot(tap, c, net)
            with Browser(c) as b:
                url = sign_in(tap, b, bot)
                for part in (keyboard, scopes, elsewhere, moving, hostile, races, whole, captions, in_force, in_turn, past, calls, sandboxes, secrets, network, remedies, held, policy, audit, timeline, accessible, reconnects, notices):
                    part(tap, b, bot)
                clean(tap, b, "operator", bot.port)
                b.open(url)
                tap.ok(b.shows("text=This link was used already or is older than two minutes."), "the link of coffer ui works once")
                observers(tap, b, bot)
                clean(tap, b, "observer", bot.port)
            tap.eq(c("audit", "verify").code, 0, "the log verifies")
            c("rm", "--force", "bot")
            c("gateway", "stop")
            c.check_clean(tap)
    crowd(tap, who)
    tap.done()


main()
