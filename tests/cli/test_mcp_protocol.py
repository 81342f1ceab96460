#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""coffer mcp as a server: revisions of the protocol, errors of every kind, lines of every length, batches, floods."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Coffer, Tap  # noqa: E402
from mcpclient import MODERN, Client, Reply  # noqa: E402

LINE_MAX = 4 << 20


def code(message):
    return (message.get("error") or {}).get("code")


def try_versions(tap, c):
    for asked, got in (("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
                       ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("", "2025-11-25")):
        with Client(c) as m:
            r = m.initialize(asked)
            tap.eq(r["protocolVersion"], got, f"initialize with revision {asked!r} answers with {got}", r)
            tool = m.ask("tools/list")["result"]["tools"][0]
            tap.eq("outputSchema" in tool, got >= "2025-06-18", f"{got}: tools/list has output schemas from 2025-06-18 on", tool)
            tap.eq("annotations" in tool, got >= "2025-03-26", f"{got}: tools/list has annotations from 2025-03-26 on")
            r = m.call("exec", command="echo hi")
            tap.eq(r.data is not None, got >= "2025-06-18", f"{got}: results are structured from 2025-06-18 on", r)
            tap.eq(json.loads(r.text)["stdout"], "hi\n", f"{got}: the text of a result is JSON", r)
            r = m.call("exec", command=3)
            wrong = r.is_error is True if got >= "2025-11-25" else code(r.message) == -32602
            tap.ok(wrong, f"{got}: wrong arguments are refused as the revision says", r)
            m.send([{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"}, 5,
                    {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
                     "params": {"name": "exec", "arguments": {"command": "echo in a batch"}}},
                    {"jsonrpc": "2.0", "id": "c", "method": "initialize", "params": {"protocolVersion": got}}])
            if got < "2025-06-18":
                b = {x["id"]: x for x in m.wait_for("batch")}
                tap.eq((b["a"].get("result"), code(b[None]), code(b["c"])), ({}, -32600, -32600), f"{got}: a batch is answered item by item", b)
                tap.ok("in a batch" in Reply(b["b"]).text, f"{got}: a batch may contain a tool call", b)
                m.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
                m.send([])
                tap.eq(code(m.wait_for(None)), -32600, f"{got}: a batch of notifications gets no answer, an empty batch gets an error")
            else:
                tap.eq(code(m.wait_for(None)), -32600, f"{got}: a batch is refused")
            tap.eq(m.end(), 0, f"{got}: the session exits with 0")


def try_modern(tap, c):
    with Client(c) as m:
        r = m.ask("server/discover", {"_meta": MODERN})["result"]
        tap.ok(r["resultType"] == "complete" and r["supportedVersions"][0] == "2026-07-28" and "tools" in r["capabilities"]
               and "ttlMs" in r and r["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "coffer", "2026-07-28: server/discover lists versions and capabilities", r)
        r = m.ask("tools/list", {"_meta": MODERN})["result"]
        tap.ok(r["resultType"] == "complete" and len(r["tools"]) == 7 and r["cacheScope"] == "private", "2026-07-28: tools/list works without a handshake", r)
        r = m.ask("tools/call", {"_meta": MODERN, "name": "exec", "arguments": {"command": "echo hi"}})
        tap.ok(r["result"]["resultType"] == "complete" and Reply(r).data["stdout"] == "hi\n", "2026-07-28: tools/call works without a handshake", r)
        r = m.ask("tools/list", {"_meta": {**MODERN, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}})
        tap.ok(code(r) == -32022 and r["error"]["data"]["requested"] == "2031-01-01" and
               "2026-07-28" in r["error"]["data"]["supported"], "a future revision is refused with the supported ones", r)
        for meta in ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, {"io.modelcontextprotocol/protocolVersion": 7}):
            tap.eq(code(m.ask("tools/list", {"_meta": meta})), -32602, f"a request with only the metadata {list(meta.values())} is refused")
        tap.eq(code(m.ask("ping", {"_meta": MODERN})), -32601, "2026-07-28 has no ping")
        tap.eq(code(m.ask("server/discover")), -32602, "server/discover without a revision is refused")
        tap.eq(code(m.ask("tools/list")), -32600, "requests with a revision do not replace the handshake")
        tap.eq(m.initialize("2025-06-18")["protocolVersion"], "2025-06-18", "initialize works after requests with a revision")
        tap.eq(code(m.ask("server/discover")), -32601, "server/discover is unknown in revision 2025-06-18")


def try_early(tap, c):
    with Client(c) as m:
        tap.eq(m.ask("ping").get("result"), {}, "ping works before initialize")
        tap.eq(code(m.ask("tools/list")), -32600, "tools/list before initialize is refused")
        tap.eq(code(m.ask("initialize", {})), -32602, "initialize without a version is refused")
        tap.eq(code(m.ask("initialize")), -32602, "initialize without parameters is refused")
        m.initialize()
        tap.eq(code(m.ask("initialize", {"protocolVersion": "2025-06-18"})), -32600, "a second initialize is refused")


WRONG = (
    (b"{", None, -32700, "half an object"),
    (b"nonsense", None, -32700, "no JSON"),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', None, -32700, "a key twice"),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', None, -32700, "no UTF-8"),
    (b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000b"}', None, -32700, "a NUL in a text"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', None, -32700, "something after the object"),
    (b"[" * 100000, None, -32700, "a hundred thousand levels"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, None, -32700, "more than 64 levels"),
    (b"17", None, -32600, "a bare number"),
    (b'"text"', None, -32600, "a bare text"),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600, "another version of JSON-RPC"),
    (b'{"id":1,"method":"ping"}', 1, -32600, "no version of JSON-RPC"),
    (b'{"jsonrpc":"2.0","id":1}', 1, -32600, "no method"),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600, "a method that is a number"),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600, "an id that is null"),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600, "an id that is no whole number"),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None, -32600, "an id that is an object"),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 300 + b'","method":"ping"}', None, -32600, "an id that is too long"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', 1, -32602, "params that are an array"),
    (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 1, -32601, "a method that there is not"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 1, -32602, "no tool"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sudo"}}', 1, -32602, "an unknown tool"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":[]}}', 1, -32602, "no object"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"x"}}}', 1, -32602,
     "an unknown argument"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"timeout_s":-1}}}', 1, -32602,
     "a negative number"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}', 1, -32602, "a missing argument"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":"x"},'
     b'"_meta":{"progressToken":[]}}}', 1, -32602, "a malformed token"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}', 1, -32602, "an unknown cursor"),
)


def try_errors(tap, c):
    with Client(c) as m:
        m.initialize()
        for line, wanted, number, what in WRONG:
            m.raw(line + b"\n")
            r = m.wait_for(wanted)
            tap.eq(code(r), number, f"{what}: error {number}", line[:100], r)
        for line in (b"", b"\r", b'{"jsonrpc":"2.0","method":"notifications/nobody"}', b'{"jsonrpc":"2.0","id":7,"result":{}}',
                     b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"exec","arguments":{"command":"echo x > never"}}}',
                     b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
                     b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'):
            m.raw(line + b"\n")
        tap.eq(m.ask("ping").get("result"), {}, "notifications and malformed notifications get no answer")
        m.raw(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
        tap.eq(m.wait_for("crlf").get("result"), {}, "a line that ends in CR LF is read")
        tap.eq(m.call("exec", command="ls").data["stdout"].count("never"), 0, "a tool call without an id is not made")
        tap.eq(m.early, {}, "no message is answered twice")


def try_lengths(tap, c):
    with Client(c) as m:
        m.initialize()
        m.raw(b'{"jsonrpc":"2.0","id":"x","method":"' + b"y" * (LINE_MAX + 5) + b'"}\n')
        tap.eq(code(m.wait_for(None)), -32700, "a line of more than 4 MiB is refused")
        for _ in range(20):
            m.raw(b"z" * (1 << 20))
        m.raw(b"\n")
        tap.eq(code(m.wait_for(None)), -32700, "a line of 20 MiB is refused once")
        tap.eq(m.ask("ping").get("result"), {}, "the line after a line of 20 MiB is read")
        content = "c" * (LINE_MAX - 1000)
        r = m.call("write_file", path="large.txt", content=content)
        tap.eq(r.data and r.data["bytes"], len(content), "a line of almost 4 MiB is read", r)
        line = json.dumps({"jsonrpc": "2.0", "id": "split", "method": "ping"}).encode() + b"\n"
        for i in range(len(line)):
            m.raw(line[i:i + 1])
        tap.eq(m.wait_for("split").get("result"), {}, "a line that arrives byte by byte is read")
        m.raw(b"".join(json.dumps({"jsonrpc": "2.0", "id": f"p{i}", "method": "ping"}).encode() + b"\n" for i in range(20000)))
        tap.ok(all(m.wait_for(f"p{i}").get("result") == {} for i in range(20000)), "twenty thousand lines in one write are answered")
        first = m.begin_call("exec", command="echo started; sleep 1000", _meta={"progressToken": 5})
        m.wait_note()
        many = [m.begin_call("exec", command="true") for _ in range(80)]
        refused = [n for n in many[63:] if code(m.wait_for(n)) == -32000]
        tap.eq(refused, many[63:], "at most 63 calls wait, and later ones are refused")
        m.send({"jsonrpc": "2.0", "id": first, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "x"}}})
        tap.eq(code(m.wait_for(first)), -32600, "an id that is in use is refused")
        for n in many[:63]:
            m.cancel(n)
        m.cancel(first)
        tap.eq(m.call("exec", command="echo on").data["stdout"], "on\n", "calls run again after the waiting ones are cancelled")


def try_usage(tap, c):
    for args in (["x"], ["--no-such"], ["--timeout", "soon"], ["--image", "a", "--root", "/"]):
        r = c("mcp", *args, input="")
        tap.ok(r.code == 2 and not r.out, f"{args}: coffer mcp {args} is refused with exit 2", r)
    r = c("mcp", "-C", "/no/such", input="")
    tap.ok(r.code == 125 and "/no/such" in r.err and not r.out, "coffer mcp names a workspace that does not exist", r)


def main():
    tap = Tap()
    with Coffer(engine="ns") as c:
        for part in (try_versions, try_modern, try_early, try_errors, try_lengths, try_usage):
            part(tap, c)
        c.check_clean(tap)
    tap.done()


if __name__ == "__main__":
    main()
