# SPDX-License-Identifier: Apache-2.0
"""A real Chromium for tests of the page, driven by playwright-core (tests/web/driver.mjs).

    from browser import Browser

    with Browser(c) as b:                       # c: a coffertest.Coffer; the browser runs where, and as who, it does
        b.open(c("ui").out.strip(), width=390, height=844)
        b.click("text=Allow…")
        b.until("document.querySelectorAll('.done').length === 1")

What the browser could not do raises BrowserError. tools/deps test installs what is needed; without it this fails, aloud.
"""

import json
import os
import subprocess
import tempfile
import threading

from coffertest import ROOT, slow_build

MODULES = os.path.join(ROOT, "build-web", "node_modules")
CHROMIUM = next((p for p in ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/usr/bin/chromium")
                 if os.path.exists(p)), None)
PATIENCE = 180


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, c):
        if not CHROMIUM or not os.path.isdir(os.path.join(MODULES, "playwright-core")):
            raise BrowserError("chromium and the packages of tests/web are needed: tools/deps test")
        self.last = 0
        self.log = tempfile.TemporaryFile()
        self.process = c.popen(program=["node", os.path.join(ROOT, "tests", "web", "driver.mjs"), MODULES, CHROMIUM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=300 * slow_build())
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-2000:]

    def do(self, op, **args):
        self.last += 1
        self.process.stdin.write(json.dumps({"id": self.last, "op": op, **args}).encode() + b"\n")
        self.process.stdin.flush()
        # A browser that hangs is ended, and the line that is waited for becomes the end of the file.
        late = threading.Timer(PATIENCE * slow_build(), self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        if not line:
            raise BrowserError(f"{op} {args}: the browser is gone: {self.said()}")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{op} {args}: {answer['error']}")
        return answer["ok"]

    def open(self, url, **kw):
        return self.do("open", url=url, **kw)

    def go(self, to):
        return self.do("go", hash=to)

    def wait(self, selector, state="visible"):
        return self.do("wait", selector=selector, state=state)

    def until(self, js):
        """Waits until an expression is true."""
        return self.do("until", js=js)

    def holds(self, js):
        """Does an expression become true in good time?"""
        try:
            self.until(js)
            return True
        except BrowserError as e:
            print("\n".join(f"# {line}" for line in str(e).splitlines()), flush=True)
            return False

    def shows(self, selector):
        """Does something become visible in good time?"""
        try:
            self.wait(selector)
            return True
        except BrowserError as e:
            print("\n".join(f"# {line}" for line in str(e).splitlines()), flush=True)
            return False

    def click(self, selector):
        return self.do("click", selector=selector)

    def tap(self, selector):
        return self.do("tap", selector=selector)

    def fill(self, selector, value):
        return self.do("fill", selector=selector, value=value)

    def select(self, selector, value):
        return self.do("select", selector=selector, value=value)

    def press(self, key):
        return self.do("press", key=key)

    def text(self, selector):
        return self.do("text", selector=selector)

    def texts(self, selector):
        return self.do("texts", selector=selector)

    def count(self, selector):
        return self.do("count", selector=selector)

    def js(self, js):
        return self.do("js", js=js)
