// SPDX-License-Identifier: Apache-2.0
// An event of the log as a sentence for somebody who was not there. Our words are text, everything else is a quotation.

import { bytes, count, plural, span } from "./dom.js";
import { commandText, name, quote } from "./quote.js";

/** The time of an event. The network's events have a time of their own, and reach the log a little later; that time is believed
 * within ten minutes of the log's. */
export function timeOfEvent(ev) {
	const logged = Date.parse(ev.time), seen = typeof ev.t === "number" ? ev.t / 1e6 : logged;

	return seen <= logged && seen > logged - 600000 ? seen : logged;
}

/** The first line of a command; a script's others are told apart (see scriptOf). */
function command(words) {
	const lines = commandText(words).split("\n");

	return lines.length > 1 ? [quote(lines[0]), ` and ${plural(lines.length - 1, "more line", "more lines")}`] : quote(lines[0]);
}

/** The whole command of an event where it has several lines. */
function scriptOf(ev) {
	const text = ev.type === "run.start" || ev.type === "exec.start" ? commandText(ev.command) : "";

	return text.includes("\n") ? text : null;
}

const hostOf = (e) => e.name || e.host || e.addr || "?";
// Where the log had too much of a kind, the rest of it is one event for the name "*".
const lookedUp = (e) => (e.name === "*" ? "other names" : quote(hostOf(e)));
const whoOf = (e) => name(e.who || e.name || (e.uid === 0 ? "root" : e.uid !== undefined ? `user ${e.uid}` : "somebody"));
const viaOf = (e) => ({ cli: "at the command line", terminal: "at the terminal", api: "over the API", page: "on the page", session: "on the page", chat: "in a chat",
	socket: "at this machine", token: "with a token" }[e.via] ?? null);
const by = (e) => ["by ", whoOf(e), viaOf(e) ? `, ${viaOf(e)}` : ""];
const because = (text) => (text ? [": ", quote(text)] : []);
const times = (e) => (e.count > 1 ? `, ${count(e.count)} times` : "");
const url = (e) => quote(`${e.host ?? e.name ?? ""}${e.port && e.port !== 443 ? `:${e.port}` : ""}${e.path ?? ""}`);
const denied = (e) => e.decision === "deny";

const SCOPES = { once: "once", sandbox: "as long as this sandbox lives", for: "for a time", uses: "a number of times", always: "always" };
const KINDS = { connect: "a connection", request: "a request", graphql: "a GraphQL operation", git: "a use of git", secret: "a use of a secret", apply: "applying its changes",
	widen: "more access", tool: "a tool call", question: "a question", ssh: "a use of an SSH key" };
export const kindName = (kind) => KINDS[kind] ?? null;
const aim = (e) => [e.method ? [quote(e.method, 24), " "] : "", e.host ? url(e) : "", e.what ? [e.host ? " " : "", quote(e.what)] : ""];

// [tone, parts, routine]: routine ones are folded together where many follow each other.
const SENTENCES = {
	"run.start": (e) => ["plain", ["Started: ", command(e.command), e.net === "enforce" ? ". Its network is limited by a policy." : e.net === "observe" ? ". Its network is watched, not limited." : ". It has no network."]],
	"run.end": (e) => [e.exit === 0 ? "good" : "plain", ["Ended (", name(e.cause), `), exit code ${e.exit}, after ${span((e.wall_us ?? 0) / 1000)}. `, plural(e.changes ?? 0, "file was", "files were"), " changed in its workspace."]],
	"run.restart": () => ["plain", ["Was started again."]],
	"run.rm": () => ["plain", ["Was removed."]],
	"exec.start": (e) => ["plain", ["A command was run in it: ", command(e.command)]],
	"exec.end": (e) => ["plain", [`That command ended with exit code ${e.exit}.`], true],
	"stop.request": () => ["plain", ["It was asked to stop."]],
	"checkpoint.create": (e) => ["good", ["Checkpoint ", name(e.checkpoint), " of its workspace was made", e.label ? [": ", quote(e.label)] : "."]],
	"checkpoint.skip": () => ["bad", ["No checkpoint of its workspace was made: too little space is left on the disk."]],
	"checkpoint.rollback": (e) => ["ask", ["Its workspace was rolled back to ", name(e.checkpoint), "."]],
	"net.up": () => ["plain", ["Its network is up."], true],
	"net.down": () => ["bad", ["Its network went down; nothing passes until it is back."]],
	"net.policy": () => ["plain", ["A policy is in force."], true],
	"policy.change": () => ["ask", ["Its policy has changed (the file, or a grant on top of it), and the new one is in force."]],
	"policy.broken": (e) => ["bad", ["The policy file cannot be used; the previous policy stays in force", because(e.why ?? e.error)]],
	"net.dns": (e) => [denied(e) ? "bad" : "plain", [denied(e) ? "Was denied the lookup of " : "Looked up ", lookedUp(e), times(e), denied(e) ? because(e.why) : ""], !denied(e)],
	"net.open": (e) => [denied(e) ? "bad" : "plain", [denied(e) ? "Was denied a connection to " : "Connected to ", quote(hostOf(e)), ` port ${e.port ?? "?"}${times(e)}`, denied(e) ? because(e.why) : ""], !denied(e) && e.depth === "inspect"],
	"net.close": (e) => ["plain", ["A connection to ", quote(hostOf(e)), ` closed: ${bytes(e.up ?? 0)} out, ${bytes(e.down ?? 0)} in.`], true],
	"net.request": (e) => [denied(e) ? "bad" : e.why ? "good" : "plain", [denied(e) ? "Was denied " : "Sent ", quote(e.method ?? "", 24), " ", url(e), times(e), because(e.why)], !denied(e) && !e.why],
	"net.response": (e) => ["plain", [`Got a response with status ${e.status ?? "?"}.`], true],
	"net.dial": (e) => [e.status < 0 ? "bad" : "plain", [e.status < 0 ? "Could not reach " : "Reached ", quote(hostOf(e)), ` port ${e.port ?? "?"}.`], !(e.status < 0)],
	"net.folded": (e) => [denied(e) ? "bad" : "ask", [plural(e.count ?? 0, "more event", "more events"), e.ev ? [" of type ", name(e.ev)] : "", e.name ? [" for ", quote(e.name)] : "", denied(e) ? ", denied" : "", ": too many to log one by one."]],
	"net.refused": (e) => ["bad", ["Tried to reach ", quote(e.addr ?? "?"), ` port ${e.port ?? "?"} past the wall, and was denied${times(e)}.`]],
	"net.alert": (e) => ["bad", ["Alert: ", quote(e.text ?? e.why ?? "")]],
	"secret.use": (e) => ["ask", ["The secret ", name(e.name ?? e.secret), " was used for ", quote(e.host ?? "?"), "; the sandbox did not see it."]],
	"secret.refused": (e) => ["bad", ["The secret ", name(e.name ?? e.secret), " was denied", because(e.why)]],
	"ask.new": (e) => ["ask", ["Asks a person to allow ", kindName(e.kind) ?? quote(e.kind), ": ", aim(e), e.reason ? ["; its reason: ", quote(e.reason)] : ""]],
	"ask.answer": (e) => (e.answer === "allow"
		? ["good", ["Allowed ", SCOPES[e.scope] ?? name(e.scope), " ", by(e), because(e.reason)]]
		: ["bad", ["Denied ", by(e), because(e.reason)]]),
	"ask.use": (e) => ["good", ["The approval was used: ", aim(e)]],
	"ask.unused": () => ["plain", ["The approval was not used: nothing had been sent."]],
	"ask.expire": () => ["bad", ["Nobody answered in time, so it was denied."]],
	"ask.gone": () => ["plain", ["The question was closed: the sandbox ended, or its policy changed."]],
	"ask.lapse": () => ["plain", ["The approval has expired."]],
	"ask.revoke": (e) => ["ask", ["The approval was revoked ", by(e), "."]],
	"tool.call": (e) => [e.allowed ? "plain" : "bad", [e.allowed ? "Called the tool " : "Was denied the tool ", quote(e.tool ?? "?"), e.by ? ["; its caller is ", name(e.by)] : "", "."]],
	"policy.edit": (e) => ["ask", ["A rule was written into the policy file ", by(e), ": ", quote(e.file ?? "?")]],
	"workspace.apply": () => ["plain", ["Its changes are about to be applied."]],
	"workspace.applied": () => ["good", ["Its changes were applied."]],
	"workspace.discard": () => ["plain", ["Its changes were thrown away."]],
	"workspace.wiped": () => ["plain", ["Its workspace was emptied."]],
	"api.request": (e) => ["plain", [whoOf(e), ` (${e.role ?? "?"}) sent a request to the gateway: `, name(e.act), "."], true],
	"api.refused": (e) => ["bad", [whoOf(e), ` (${e.role ?? "?"}) was denied `, name(e.act), "."]],
	"api.token": (e) => ["plain", ["A credential was made: ", name(e.name), ` (${e.role ?? "?"}).`]],
	"api.revoke": (e) => ["plain", ["The credential ", name(e.name), " was removed."]],
	"api.listen": (e) => ["plain", ["The gateway listens on ", name(e.listen), "."]],
	"audit.begin": () => ["plain", ["The log begins."]],
	"gateway.start": () => ["plain", ["The gateway started."]],
	"gateway.stop": () => ["plain", ["The gateway stopped."]],
	"gateway.helper": (e) => ["bad", ["A helper process of the gateway died and is started again: ", name(e.name ?? e.helper)]],
};

const ENVELOPE = new Set(["seq", "time", "boot", "boot_id", "type", "sandbox", "prev", "t"]);

/** An event without a sentence: its type and its members. */
function generic(ev) {
	const rest = Object.entries(ev).filter(([k]) => !ENVELOPE.has(k));

	return ["plain", [name(ev.type), rest.length ? " " : "", rest.length ? quote(JSON.stringify(Object.fromEntries(rest)), 200) : ""]];
}

export function tell(ev) {
	const known = Object.hasOwn(SENTENCES, ev.type) ? SENTENCES[ev.type] : generic;
	const [tone, parts, routine] = known(ev);

	return {
		tone, parts: parts.flat(Infinity), routine: routine === true, script: scriptOf(ev), when: timeOfEvent(ev), seq: ev.seq, type: ev.type, host: ev.name ?? ev.host ?? null,
		same: JSON.stringify([ev.type, ev.name, ev.host, ev.addr, ev.method, ev.path, ev.decision, ev.why, ev.text, ev.ask, ev.exec]),
	};
}

/** In the order in which it happened. The same denial again and again is told once, with how often. */
export function inOrder(events) {
	const told = [];

	for (const t of events.map(tell).sort((a, b) => a.when - b.when || a.seq - b.seq)) {
		const last = told.at(-1);

		if (last && t.tone === "bad" && t.same === last.same)
			last.times += 1;
		else
			told.push({ ...t, times: 1 });
	}
	return told;
}
