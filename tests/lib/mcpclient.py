# SPDX-License-Identifier: Apache-2.0
"""A plain client of the Model Context Protocol over stdio, for tests of `coffer mcp`.

    with Client(coffer, "-C", coffer.work) as m:
        m.initialize()
        m.call("exec", command="ls").data["stdout"]
"""

import json
import queue
import subprocess
import threading

from coffertest import slow_build

PATIENCE = 120
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {}}


class Reply:
    """The answer to a call: `data` is what the tool returned, `text` what a model would read."""

    def __init__(self, message):
        self.message = message
        self.error = message.get("error")
        result = message.get("result") or {}
        self.is_error = result.get("isError")
        self.text = "".join(c.get("text", "") for c in result.get("content", []))
        self.data = result.get("structuredContent")

    def __str__(self):
        return json.dumps(self.message)[:2000]


class Client:
    def __init__(self, coffer, *args, **kw):
        self.p = coffer.popen("mcp", *args, stdin=subprocess.PIPE, **kw)
        self.lines = queue.Queue()
        self.early = {}
        self.notes = []
        self.n = 0
        self.stray = []
        self.err = b""
        self.threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_err)]
        for t in self.threads:
            t.start()

    def _read(self):
        for line in self.p.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _read_err(self):
        self.err = self.p.stderr.read()

    def raw(self, data):
        """Bytes as they are; whoever is gone by then does not mind."""
        try:
            self.p.stdin.write(data)
            self.p.stdin.flush()
        except BrokenPipeError:
            pass

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def next(self):
        """The next message, whatever it is; None at the end."""
        line = self.lines.get(timeout=PATIENCE * slow_build())
        if line is None:
            return None
        try:
            return json.loads(line)
        except ValueError:
            self.stray.append(line)
            raise

    def wait_for(self, wanted):
        """The answer to the request `wanted`; notifications on the way are kept in `notes`, others for later."""
        while wanted not in self.early:
            m = self.next()
            if m is None:
                raise EOFError(f"the server has ended; it said: {self.err!r}")
            if isinstance(m, dict) and "method" in m:
                self.notes.append(m)
            else:
                self.early[m.get("id") if isinstance(m, dict) else "batch"] = m
        return self.early.pop(wanted)

    def wait_note(self):
        """Until a notification has come."""
        while not self.notes:
            m = self.next()
            if "method" in m:
                self.notes.append(m)
            else:
                self.early[m.get("id")] = m
        return self.notes[-1]

    def begin(self, method, params=None):
        self.n += 1
        self.send({"jsonrpc": "2.0", "id": self.n, "method": method, **({} if params is None else {"params": params})})
        return self.n

    def ask(self, method, params=None):
        return self.wait_for(self.begin(method, params))

    def initialize(self, version="2025-06-18"):
        r = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                    "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return r["result"]

    def begin_call(self, tool, _meta=None, **arguments):
        return self.begin("tools/call", {"name": tool, "arguments": arguments, **({"_meta": _meta} if _meta else {})})

    def call(self, tool, _meta=None, **arguments):
        return Reply(self.wait_for(self.begin_call(tool, _meta, **arguments)))

    def cancel(self, request):
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})

    def end(self):
        """End of input; its exit code, and everything that it still says is taken."""
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass
        return self.wait()

    def wait(self):
        code = self.p.wait(timeout=PATIENCE * slow_build())
        for t in self.threads:
            t.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.p.poll() is None:
            self.p.kill()
        self.wait()
