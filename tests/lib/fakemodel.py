# SPDX-License-Identifier: Apache-2.0
"""A small scripted model server, for real agents to talk to.

    python3 fakemodel.py [ADDRESS:]PORT [CERT KEY [CREDENTIAL [HOLD]]]
                                                       serves until it is ended; TLS with a certificate; prints "ready PORT"

It speaks just enough of four APIs for one loop: the first turn asks for a tool that runs a shell command, and once the
result of that tool is in the conversation, the answer ends with what the tool had printed.

    Anthropic   POST /v1/messages                      (Claude Code)
    OpenAI      POST /v1/responses                     (Codex, OpenClaw)
    OpenAI      POST /v1/chat/completions              (OpenClaw with a provider of its own)
    Gemini      POST /v1beta/models/M:streamGenerateContent, :generateContent   (Gemini CLI)

The command is taken from the first prompt: what stands between "RUN<" and ">RUN". With OpenAI's APIs it is the last prompt that
counts, because OpenClaw continues a session at its next start. Every request is printed as a line of JSON:
{"method", "path", "tool_result"}.

OpenClaw's "code mode" (on by default for the models that it prefers) offers no shell tool. Its tool `exec` takes a JavaScript program,
which finds the shell tool in a catalog; `wait` continues a program that took too long.

CREDENTIAL is a file with the key that is wanted of every POST (x-api-key, x-goog-api-key or a bearer's); anything else gets a 401,
and a line with "refused". While the file HOLD is there, what comes after the tool's result waits.
"""

import http.server
import itertools
import json
import os
import re
import socketserver
import ssl
import sys
import threading
import time

COMMAND = re.compile(r"RUN<(.*?)>RUN", re.S)
lock = threading.Lock()
numbers = itertools.count(1)
credential, hold = None, None


def texts(value):
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from texts(v)
    elif isinstance(value, list):
        for v in value:
            yield from texts(v)


def find_command(body):
    for t in texts(body):
        m = COMMAND.search(t)
        if m:
            return m.group(1)
    return None


def find_result(body, is_result):
    """The tool's output, when the conversation has it: the last object that is_result() takes."""
    found = None
    stack = [body]
    while stack:
        v = stack.pop()
        if isinstance(v, dict):
            if is_result(v):
                found = "\n".join(texts({k: x for k, x in v.items() if k not in ("type", "id", "call_id", "name", "role",
                                                                              "tool_use_id", "tool_call_id")}))
                break
            stack.extend(v.values())
        elif isinstance(v, list):
            stack.extend(v)
    return found


def since_prompt(items):
    """The items of a conversation from the last prompt with a command on: an earlier turn's result is none of this one's."""
    items = items if isinstance(items, list) else []
    starts = [n for n, v in enumerate(items) if isinstance(v, dict) and v.get("role") == "user" and find_command(v)]
    return items[starts[-1]:] if starts else items


CODE = """const tools = await catalog.search("run a shell command");
const shell = tools.find(t => t.name === "exec");
return await shell({ command: %s });"""


def openai_call(tools, command, result):
    """(tool, arguments) for the next call of a model that has these tools ({name: JSON schema}), or None when it is time to answer."""
    is_code = "code" in (tools.get("exec") or {}).get("properties", {})
    if is_code and result and re.search(r'"status": ?"waiting"', result):
        return "wait", {"runId": re.search(r'"runId": ?"([^"]+)"', result).group(1)}
    if result is not None or not command:
        return None
    if is_code:
        return "exec", {"code": CODE % json.dumps(command)}
    if not tools:
        return None
    for name in ("shell_command", "exec", "bash"):
        if "exec_command" not in tools and "command" in (tools.get(name) or {}).get("properties", {}):
            return name, {"command": command}
    if "exec_command" not in tools and "shell" in tools:
        return "shell", {"command": ["sh", "-c", command]}
    # Codex takes this one also when its list has nothing but its own code mode.
    return "exec_command", {"cmd": command}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send_json(self, obj, code=200):
        data = json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_events(self, events):
        """Server-sent events; each (name or None, object or text), a chunk each, so that streaming is really used."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, obj in events:
            text = (f"event: {name}\n" if name else "") + "data: " + (obj if isinstance(obj, str) else json.dumps(obj)) + "\n\n"
            data = text.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                data += self.rfile.read(n)
                self.rfile.readline()
                if n == 0:
                    break
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "zstd" or self.headers.get("Content-Encoding") == "gzip":
            raise ValueError("compressed request")
        return json.loads(data) if data else {}

    def note(self, result, **more):
        with lock:
            print(json.dumps({"method": self.command, "path": self.path.split("?")[0], "tool_result": result, **more}), flush=True)
        while result is not None and hold and os.path.exists(hold):
            time.sleep(0.05)

    def is_known(self):
        given = [self.headers.get("x-api-key"), self.headers.get("x-goog-api-key"),
                 self.headers.get("Authorization", "").removeprefix("Bearer ")]
        return credential is None or credential in given

    def do_HEAD(self):
        self.note(None)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.note(None)
        if self.path.startswith("/v1/models"):
            self.send_json({"object": "list", "data": [{"id": "fake-model", "object": "model"}], "models": []})
        elif self.path.startswith("/v1/responses"):
            # A websocket, which this server has not: "426" makes Codex speak HTTP at once.
            self.send_json({"error": "no websocket here"}, 426)
        else:
            self.send_json({"error": "not found"}, 404)

    def do_POST(self):
        path = self.path.split("?")[0]
        body = self.body()
        if not self.is_known():
            self.note(None, refused=True)
            self.send_json({"error": {"type": "authentication_error", "message": "who are you?"}}, 401)
        elif path == "/v1/messages":
            self.anthropic(body)
        elif path == "/v1/responses":
            self.openai(body)
        elif path == "/v1/chat/completions":
            self.chat(body)
        elif "GenerateContent" in path or path.endswith(":generateContent"):
            self.gemini(body, "stream" in path)
        elif path.endswith("count_tokens") or path.endswith(":countTokens"):
            self.note(None)
            self.send_json({"input_tokens": 1, "totalTokens": 1})
        else:
            self.note(None)
            self.send_json({}, 404)

    # --- Anthropic
    def anthropic(self, body):
        result = find_result(body.get("messages"), lambda v: v.get("type") == "tool_result")
        command = find_command(body.get("messages"))
        # Its own tool, or the one of `coffer mcp` where that is all it has.
        tool = next((n for n in (t.get("name", "") for t in body.get("tools", [])) if n == "Bash" or n.endswith("__exec")), None)
        self.note(result)
        if result is None and command and tool:
            block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
            arguments = {"command": command, **({"description": "run it"} if tool == "Bash" else {})}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]
            stop = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": "the tool said: " + (result or "nothing")}]
            stop = "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not body.get("stream"):
            if block["type"] == "text":
                block["text"] = deltas[0]["text"]
            else:
                block["input"] = json.loads(deltas[0]["partial_json"])
            self.send_json({**message, "content": [block], "stop_reason": stop})
            return
        events = [("message_start", {"type": "message_start", "message": message}),
                  ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block})]
        events += [("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": d}) for d in deltas]
        events += [("content_block_stop", {"type": "content_block_stop", "index": 0}),
                   ("message_delta", {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                                      "usage": {"output_tokens": 2}}),
                   ("message_stop", {"type": "message_stop"})]
        self.send_events(events)

    # --- OpenAI's responses
    def openai(self, body):
        turn = since_prompt(body.get("input"))
        result = find_result(turn, lambda v: str(v.get("type", "")).endswith("_call_output"))
        # Codex lists its tools in the conversation.
        lists = [body, *(v for v in body.get("input", []) if isinstance(v, dict) and v.get("type") == "additional_tools")]
        tools = {t.get("name"): t.get("parameters") for v in lists for t in v.get("tools") or []}
        call = openai_call(tools, find_command(turn), result)
        self.note(None if call else result)
        n = next(numbers)
        if call:
            item = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": call[0], "arguments": json.dumps(call[1]),
                    "status": "completed"}
        else:
            item = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "the tool said: " + (result or "nothing"),
                                 "annotations": []}]}
        response = {"id": f"resp_{n}", "object": "response", "status": "completed", "model": body.get("model", "m"),
                    "output": [item], "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
                                                "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0},
                                                "total_tokens": 2}}
        self.send_events([
            ("response.created", {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}),
            ("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": response})])

    # --- OpenAI's chat completions
    def chat(self, body):
        turn = since_prompt(body.get("messages"))
        result = find_result(turn, lambda v: v.get("role") == "tool")
        functions = [t.get("function", {}) for t in body.get("tools", [])]
        call = openai_call({f.get("name"): f.get("parameters") for f in functions}, find_command(turn), result)
        self.note(None if call else result)
        base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model", "m")}
        if call:
            delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{next(numbers)}", "type": "function", "function": {
                "name": call[0], "arguments": json.dumps(call[1])}}]}
            stop = "tool_calls"
        else:
            delta = {"role": "assistant", "content": "the tool said: " + (result or "nothing")}
            stop = "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            self.send_json({**base, "object": "chat.completion", "usage": usage,
                            "choices": [{"index": 0, "message": delta, "finish_reason": stop}]})
            return
        self.send_events([(None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
                          (None, {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}),
                          (None, "[DONE]")])

    # --- Gemini
    def gemini(self, body, stream):
        result = find_result(body.get("contents"), lambda v: "functionResponse" in v)
        command = find_command(body.get("contents"))
        self.note(result)
        has_shell = "run_shell_command" in json.dumps(body.get("tools", []))
        if result is None and command and has_shell:
            part = {"functionCall": {"name": "run_shell_command", "args": {"command": command, "description": "run it"}}}
        else:
            part = {"text": "the tool said: " + (result or "nothing")}
        if "responseJsonSchema" in json.dumps(body.get("generationConfig", {})) or \
                "responseSchema" in json.dumps(body.get("generationConfig", {})):
            part = {"text": json.dumps({"reasoning": "none", "model_choice": "flash", "next_speaker": "user",
                                        "complexity_score": 1, "complexity_reasoning": "small"})}
        obj = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
               "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
               "modelVersion": "fake"}
        if stream:
            self.send_events([(None, obj)])
        else:
            self.send_json(obj)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    global credential, hold
    address, _, port = sys.argv[1].rpartition(":")
    server = Server((address, int(port)), Handler)
    if len(sys.argv) > 3:
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(sys.argv[2], sys.argv[3])
        ctx.set_alpn_protocols(["http/1.1"])
        server.socket = ctx.wrap_socket(server.socket, server_side=True)
    if len(sys.argv) > 4:
        with open(sys.argv[4], encoding="ascii") as f:
            credential = f.read()
    hold = sys.argv[5] if len(sys.argv) > 5 else None
    print(f"ready {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
