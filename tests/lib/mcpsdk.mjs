// SPDX-License-Identifier: Apache-2.0
// The official TypeScript SDK's client against `coffer mcp`: node mcpsdk.mjs DIR COFFER ARG…
// DIR is where the SDK is installed. Prints one JSON object with what it got; any error of the SDK's ends it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [dir, command, ...args] = process.argv.slice(2);
const require = createRequire(`${dir}/package.json`);
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const client = new Client({ name: "coffer-test", version: "1" });
const errors = [];
client.onerror = (e) => errors.push(String(e));
const transport = new StdioClientTransport({ command, args, env: { ...process.env }, stderr: "inherit" });
await client.connect(transport);
const out = { server: client.getServerVersion(), instructions: client.getInstructions() };
const { tools } = await client.listTools();
out.tools = tools.map((t) => t.name);
await client.ping();

const progress = [];
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
out.exec = (await call("exec", { command: "echo one; sleep 0.3; echo two; echo x > made" }, { onprogress: (p) => progress.push(p) }))
	.structuredContent;
out.progress = progress;
out.written = (await call("write_file", { path: "dir/file.txt", content: "from the SDK\n" })).structuredContent;
out.read = (await call("read_file", { path: "dir/file.txt" })).structuredContent;
out.point = (await call("checkpoint", { label: "here" })).structuredContent;
await call("exec", { command: "rm -rf /workspace/*" });
out.back = (await call("rollback", { id: out.point.checkpoint })).structuredContent;
out.after = (await call("exec", { argv: ["ls", "dir", "made"] })).structuredContent;
out.diff = (await call("diff", {})).structuredContent;
out.wish = (await call("request_access", { rule: "example.com", reason: "a test", wait: 1 })).structuredContent;
out.wrong = await call("exec", { command: 5 });
out.unknown = await call("nothing", {}).catch((e) => ({ code: e.code }));
const stop = new AbortController();
const long = call("exec", { command: "echo up; sleep 1000" }, { signal: stop.signal, onprogress: () => stop.abort("enough") });
out.aborted = await long.then(() => false, () => true);
out.still = (await call("exec", { command: "echo still here" })).structuredContent.stdout;
out.many = (await Promise.all([1, 2, 3].map((i) => call("exec", { command: `echo ${i}` })))).map((r) => r.structuredContent.stdout);
const server = transport.pid;
await client.close();
out.errors = errors;
out.ended = false;
for (let i = 0; i < 1000 && !out.ended; i++) {
	try {
		process.kill(server, 0);
		await new Promise((done) => setTimeout(done, 10));
	} catch {
		out.ended = true;
	}
}
console.log(JSON.stringify(out));
