# SPDX-License-Identifier: Apache-2.0
"""`coffer mcp` driven by the official TypeScript SDK's client: for the suite, and for tests/agents/mcp."""

import json
import os

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mcpsdk.mjs")
TOOLS = ["exec", "read_file", "write_file", "checkpoint", "rollback", "diff", "request_access"]


def has_sdk(path):
    return os.path.exists(os.path.join(path, "node_modules", "@modelcontextprotocol", "sdk", "package.json"))


def visit(tap, c, who, path, options, env=None):
    """A whole session. path: where the SDK is installed."""
    r = c(program=["node", SCRIPT, path, c.exe, "mcp", "-q", *options, "-C", c.work], env=env, timeout=300)
    tap.eq(r.code, 0, f"{who}: the SDK's client gets through", r)
    got = json.loads(r.out) if r.code == 0 else {}
    if not got:
        return
    tap.eq((got["server"]["name"], got["tools"]), ("coffer", TOOLS), f"{who}: SDK: initialize, and the tools")
    tap.eq((got["exec"]["stdout"], got["exec"]["changed"]), ("one\ntwo\n", [{"path": "made", "kind": "added"}]), f"{who}: SDK: exec")
    tap.ok(got["progress"], f"{who}: SDK: progress", got["progress"])
    tap.eq(got["read"]["content"], "from the SDK\n", f"{who}: SDK: files")
    tap.ok(got["after"]["exit_code"] == 0 and "file.txt" in got["after"]["stdout"], f"{who}: SDK: rollback", got["after"])
    tap.ok(got["diff"]["changes"] >= 3 and got["wish"]["granted"] is False, f"{who}: SDK: diff and request_access", got["diff"], got["wish"])
    tap.eq((got["wrong"]["isError"], got["unknown"]["code"]), (True, -32602), f"{who}: SDK: wrong calls")
    tap.eq((got["aborted"], got["still"], got["many"]), (True, "still here\n", ["1\n", "2\n", "3\n"]),
           f"{who}: SDK: cancelling, and many at once")
    tap.eq((got["errors"], got["ended"]), ([], True), f"{who}: SDK: it found nothing wrong, and the server has ended")
