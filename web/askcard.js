// SPDX-License-Identifier: Apache-2.0
// One question: its asker, the exact act, the rule, the meaning of an approval, the events before; and the answer, in two steps. An
// answer carries the digest of the card's contents: it does not count if the question has become another one. The card has everything
// that the digest covers; while a part of that is folded away, the question cannot be allowed.

import { at, get, post } from "./api.js";
import { bytes, count, h, newId, plural, put, setText, span, timeOf } from "./dom.js";
import { name, plain, quote, quoteBlock, typedOf } from "./quote.js";
import { inOrder } from "./story.js";

const TITLES = {
	connect: "wants to connect", request: "wants to send a request", graphql: "wants to run a GraphQL operation", git: "wants to use git",
	secret: "wants to use a secret", apply: "wants its changes applied", widen: "asks for more access", tool: "wants to call a tool",
	question: "asks a question", ssh: "wants to use an SSH key",
};
const SHOWN = new Set(["id", "sandbox", "number", "seq", "state", "kind", "host", "port", "tls", "method", "path", "what", "rule", "reason", "body", "body_len", "type",
	"preview", "preview_bytes", "by", "digest", "generation", "asked", "expires", "waiters", "times", "used", "uses", "answer", "why"]);
// The effect of each kind of approval, [once, more than once]: the act that the answer is bound to, and the acts that a grant covers
// (in the words of `coffer ask show`).
const MEANS = {
	connect: ["This connection", "Any connection to this host and port, with or without TLS like this one"],
	request: ["This very request, with its query, headers and body", "The same method, path and headers, with any query and body"],
	graphql: ["This very request, with this document and these variables", "The same operations to this address with the same headers, whatever their arguments"],
	git: ["This very request, with these commits", "The same action on the same refs of this repository, with any commits"],
	secret: ["This very request with the secret", "The secret with any request to this host and port"],
	apply: ["Exactly these changes", "Exactly these changes again, and no others"],
	tool: ["This very call, with this command and these arguments", "The same tool (and conditions of the rule) with any arguments and command"],
	question: ["This answer to the present asker", "The same question of the same asker"],
	ssh: ["This use of the key", "The same use of this key at this host and port"],
};
const SPANS = [[900, "15 minutes"], [3600, "1 hour"], [7200, "2 hours"], [28800, "8 hours"], [86400, "1 day"]];
const BEFORE = 5; // that are shown, of so many of the sandbox
const LOOKED = 200; // that are read, among so many of the log
const WITHIN = 100000;
const SETTLE = 400;
const UNREAD = 500;
const WHOLE = 16384;
const LONG = 600;

// The last time at which a card changed its height without a press: the button under a finger may have moved.
let moved = -Infinity;

export function hasMoved() {
	moved = performance.now();
}

export function urlOf(ask) {
	const standard = ask.tls ? 443 : 80, port = ask.port && !(ask.method && ask.port === standard) ? `:${ask.port}` : "";

	if (!ask.host)
		return "";
	return `${ask.method ? (ask.tls ? "https://" : "http://") : ""}${ask.host}${port}${ask.path ?? ""}`;
}

/** The outcome of a question, in words. */
export function outcome(ask) {
	const a = ask.answer, who = a ? [" by ", name(a.name || (a.uid === 0 ? "root" : `user ${a.uid}`))] : "", why = a?.reason ? [": ", quote(a.reason)] : "";

	switch (ask.state) {
	case "pending": return ["Waits for an answer"];
	case "parked": return ["Allowed once", who, "; the asker had given up, so the approval waits two minutes for the same request", why];
	case "granted": return ["Allowed", { sandbox: " as long as the sandbox lives", for: " for a time", uses: ` for ${ask.uses ?? "some"} uses`, always: " always" }[a?.scope] ?? "", who, `, used ${plural(ask.used ?? 0, "time", "times")} so far`, why];
	case "spent": return ["Allowed", who, " and used", why];
	case "denied": return [a ? "Denied" : "Denied without asking", who, why];
	case "expired": return ["Expired: nobody answered in time, so it was denied"];
	case "lapsed": return ["Allowed", who, "; the approval has ended", why];
	case "gone": return ["Closed without an answer: the sandbox ended, or its policy changed"];
	default: return [quote(ask.state, 40)];
	}
}

function scopesOf(ask) {
	// A rule that is wished for has no single use.
	if (ask.kind === "widen") {
		return [
			{ scope: "for", label: "For a time", means: "The rule is in force for this time, for every request that it covers." },
			{ scope: "sandbox", label: "While this sandbox lives", act: "Allow while it lives", means: "The rule is in force until this sandbox ends, for every request that it covers." },
		];
	}
	const [once, same] = MEANS[ask.kind] ?? ["This", "The same"];

	return [
		{ scope: "once", label: "Once", act: "Allow once", means: `${once}, one time.` },
		{ scope: "uses", label: "A number of times", means: `${same}, this many times, without asking again.` },
		{ scope: "for", label: "For a time", means: `${same}, for this time, without asking again.` },
		{ scope: "sandbox", label: "While this sandbox lives", act: "Allow while it lives", means: `${same}, without asking again, until this sandbox ends.` },
	];
}

/** The share of the body that the preview covers. A preview is text: its length differs from the number of bytes that it shows. */
function previewLabel(ask) {
	const all = ask.body_len, held = ask.preview_bytes, from = ask.by ? "from its submitter" : "from the sandbox";

	if (!ask.body)
		return `Details, ${from}`;
	if (ask.kind === "apply")
		return "The changes that would be written";
	// Of a call the preview is its text, and where that is cut the length is more than any such text has (approval/toolcall.c).
	if (ask.kind === "tool" && !held)
		return new TextEncoder().encode(ask.preview).length >= all ? `The whole call, ${from}` : h("strong", { class: "part" }, `Only the beginning of the call, ${from}; the rest is not shown`);
	if (!Number.isFinite(held) || !Number.isFinite(all))
		return `The beginning of the data that it would send, ${from}; there may be more`;
	if (held >= all)
		return `All data that it would send (${plural(all, "byte", "bytes")}), ${from}`;
	return h("strong", { class: "part" }, `Only the first ${count(held)} of ${count(all)} bytes that it would send, ${from}; the rest is not shown`);
}

function field(label, ...value) {
	return [h("dt", null, label), h("dd", null, value)];
}

export class AskCard {
	/** with: {role, now(), sandboxOf(id), said(text)} */
	constructor(ask, withs) {
		this.ask = ask;
		this.with = withs;
		this.titleId = newId("ask");
		this.left = h("span", { class: "left" });
		this.body = h("div", { class: "facts", onclick: () => this.gate() });
		this.act = h("div", { class: "act" });
		this.note = h("p", { class: "note", role: "status" });
		this.counts = h("span");
		this.title = h("a", { href: `#/run/${ask.sandbox}` });
		this.command = field("Command");
		this.before = h("div", { class: "before" }, h("p", { class: "hint" }, "…"));
		this.node = h("article", { class: "card ask", tabindex: -1, "aria-labelledby": this.titleId, "data-ask": ask.id });
		this.draw();
		this.readBefore();
	}

	get waits() {
		return this.ask.state === "pending";
	}

	draw() {
		const ask = this.ask;

		put(this.body, h("dl", null, this.what(), this.why(), this.more()), this.digests(), ask.preview ? quoteBlock(ask.preview, previewLabel(ask)) : "");
		put(this.node,
			h("header", null,
				h("h2", { id: this.titleId }, this.title, " ", TITLES[ask.kind] ?? ["asks: ", quote(ask.kind, 40)]),
				this.left),
			ask.by ? h("p", { class: "note ask by" }, "submitted by ", name(ask.by?.name ?? ask.by), " over the API, not by the sandbox") : "",
			h("div", { class: "columns" },
				h("div", { class: "question" }, this.body, this.note, this.act),
				h("details", { class: "past", open: true }, h("summary", null, "What the sandbox did just before"), this.before)));
		if (this.waits)
			this.idle();
		else
			this.over();
		this.count();
		this.tick();
		this.tellSandbox();
	}

	who() {
		return name(this.with.sandboxOf(this.ask.sandbox)?.name ?? this.ask.sandbox);
	}

	/** Writes the sandbox's name and command, which may be known later than the question. All else stays as the reader left it. */
	tellSandbox() {
		const box = this.with.sandboxOf(this.ask.sandbox), [label, value] = this.command;

		put(this.title, this.who());
		label.hidden = value.hidden = !box?.command;
		put(value, box?.command ? h("span", { class: "aside clamp" }, quote(typedOf(box), 300)) : "");
	}

	/** Where it goes, whole; a long one in a box that scrolls. */
	target(to) {
		const method = this.ask.method ? [quote(this.ask.method, WHOLE), " "] : "";

		return to.length > LONG ? [method, quoteBlock(to, `All ${count(to.length)} characters; scroll to the end`, WHOLE)]
			: h("span", { class: "target" }, method, quote(to, WHOLE));
	}

	what() {
		const ask = this.ask, to = urlOf(ask);

		return [
			to ? field("What", this.target(to)) : "",
			ask.what ? field(to ? "In words" : "What", quote(ask.what, WHOLE)) : "",
			ask.reason ? field("Its reason", h("span", { class: "aside" }, quote(ask.reason, 1200)), h("span", { class: "hint" }, " in the asker's own words")) : "",
			this.command,
			ask.body ? field("Body", `${bytes(ask.body_len)}, `, ask.type ? quote(ask.type, WHOLE) : "no content type", ask.body_len && !ask.preview ? "; its content is not shown" : "") : "",
		];
	}

	why() {
		const ask = this.ask;

		return [
			ask.rule ? field("Asked by rule", quote(ask.rule, WHOLE)) : "",
			field("Asked", timeOf(Date.parse(ask.asked)), this.counts),
		];
	}

	/** The digests, for a comparison with the output of another program. They are folded: nobody reads 64 digits on a phone. */
	digests() {
		const ask = this.ask, line = (label, value) => field(label, h("code", { class: "digest" }, name(value)));

		return h("details", { class: "digests" }, h("summary", null, "Digests"), h("dl", null, line("Of the question", ask.digest), ask.body ? line("Of the body, SHA-256", ask.body) : ""));
	}

	count() {
		const ask = this.ask, waits = ask.waiters ? `; ${plural(ask.waiters, "request waits", "requests wait")} for it now`
			: ask.method || ask.kind === "connect" ? "; the asker has given up: an approval waits two minutes for the same request" : "";

		setText(this.counts, `${ask.times > 1 ? `, ${plural(ask.times, "time", "times")}` : ""}${this.waits ? waits : ""}`);
	}

	/** Members that this page does not know yet. */
	more() {
		return Object.entries(this.ask).filter(([k]) => !SHOWN.has(k))
			.map(([k, v]) => field(/^[a-z_]{1,24}$/.test(k) ? k : quote(k, 24), quote(typeof v === "string" ? v : JSON.stringify(v), WHOLE)));
	}

	/** Events before the question, by its place in the log: later events are left out, however many there are. */
	async readBefore() {
		const ask = this.ask, all = h("a", { href: `#/run/${ask.sandbox}` }, "its timeline");
		const say = (...words) => put(this.before, h("p", { class: "hint" }, words));

		if (!ask.seq) {
			say("The place of the question in the log is unknown: see ", all, ".");
			return;
		}
		try {
			const page = await get("/v1/audit", { sandbox: ask.sandbox, before: ask.seq, within: WITHIN, limit: LOOKED });
			const told = inOrder(page.items).filter((t) => !t.routine || t.type === "net.request"), last = told.slice(-BEFORE);
			const rest = told.length > BEFORE ? ["For earlier events see ", all, "."] : page.next !== null ? ["Earlier events were not searched: see ", all, "."] : "";

			if (!last.length && !rest)
				say("The log has no earlier events.");
			else
				put(this.before, rest ? h("p", { class: "hint" }, rest) : "", last.length ? h("ol", null, last.map((t) => h("li", { class: t.tone },
					timeOf(t.when), " ", h("span", null, t.parts, t.times > 1 ? ` (${count(t.times)} times)` : "")))) : "");
		} catch (e) {
			say(`The log cannot be read: ${plain(e.message)}`);
		}
	}

	/** The question as it is now, from the gateway. */
	update(ask) {
		const changed = ask.digest !== this.ask.digest;

		// A response that was read before the answer may arrive after it.
		if (!changed && !this.waits && ask.state === "pending")
			return;
		const drawn = changed || ask.state !== this.ask.state;
		this.ask = ask;
		if (drawn) {
			hasMoved();
			this.draw();
		} else {
			this.count();
		}
		if (changed)
			this.say("The question has changed. Read it again.", "bad");
	}

	tick() {
		const until = Date.parse(this.ask.expires), left = until - this.with.now();

		if (!this.waits || !Number.isFinite(until)) {
			setText(this.left, "");
			return;
		}
		setText(this.left, left > 0 ? `${span(left)} left` : "time is up");
		this.left.classList.toggle("late", left < 30000);
	}

	say(text, tone = "plain") {
		this.note.className = `note ${tone}`;
		put(this.note, text);
	}

	/* --- answering -------------------------------------------------------------------------------------------------- */

	idle() {
		this.act.classList.remove("open");
		if (this.with.role === "observer") {
			put(this.act, h("p", { class: "hint" }, "Your role is observer: you may read questions, but not answer them."));
			return;
		}
		this.allow = h("button", { type: "button", class: "allow", onclick: () => this.choose() }, "Allow…");
		this.first = h("p", { class: "hint first" }, "A part of the question is hidden: show all of it before you allow it.");
		put(this.act, this.allow, h("button", { type: "button", class: "deny", onclick: () => this.refuse() }, "Deny…"), this.first);
		this.gate();
	}

	/** Something that the digest covers is not on the card. */
	get isCut() {
		return [...this.body.querySelectorAll(".cut")].some((c) => !c.closest(".aside"));
	}

	gate() {
		if (!this.allow)
			return;
		this.allow.disabled = this.isCut;
		this.first.hidden = !this.isCut;
	}

	/** The answer's form. A press in its first moments is ignored: it was meant for the element that was here before. */
	offer(form) {
		const go = form.querySelector("button[type=submit]"), ask = this.ask, to = urlOf(ask) || ask.what || "";

		form.prepend(h("p", { class: "again" }, this.who(), ask.by ? [", submitted by ", name(ask.by?.name ?? ask.by)] : [" ", TITLES[ask.kind] ?? "asks"], to ? ": " : "", ask.method ? [quote(ask.method, 32), " "] : "",
			to.length > 240 ? [quote(to.slice(0, 160)), " … ", quote(to.slice(-80)), h("span", { class: "hint" }, " (complete above)")] : to ? quote(to, WHOLE) : ""));
		go.setAttribute("aria-disabled", "true");
		setTimeout(() => go.removeAttribute("aria-disabled"), UNREAD);
		this.act.classList.add("open");
		put(this.act, form);
	}

	over() {
		const holds = this.ask.state === "granted" || this.ask.state === "parked";

		this.node.classList.add("done");
		this.act.classList.remove("open");
		put(this.act, h("p", { class: `result ${this.ask.answer?.allow ? "good" : "bad"}` }, outcome(this.ask),
			this.ask.answer ? h("span", { class: "hint" }, holds ? " · in force, and in the log" : " · in the log") : ""));
	}

	reason() {
		return h("label", { class: "reason" }, "Note for the log, and for the asker ", h("input", { name: "reason", type: "text", maxlength: 200, autocomplete: "off" }));
	}

	cancel() {
		if (!this.waits || !this.act.querySelector("form"))
			return;
		this.idle();
		this.node.focus();
	}

	choose() {
		if (!this.waits || this.with.role === "observer")
			return;
		if (this.isCut) {
			this.body.querySelector(".quotation > button")?.click();
			this.say(this.isCut ? "The question is too long to be shown completely, so it cannot be allowed here." : "All of it is shown now. Read it, and press again.", "ask");
			return;
		}
		this.say("");
		const list = scopesOf(this.ask), group = newId("scope");
		const uses = h("input", { type: "number", name: "uses", min: 1, max: 1000, value: "3", "aria-label": "how many times" });
		const time = h("select", { name: "seconds", "aria-label": "how long" }, SPANS.map(([s, text]) => h("option", { value: s, selected: s === 3600 }, text)));
		const go = h("button", { type: "submit", class: "allow" });
		const form = h("form", { class: "answer", onsubmit: (ev) => this.submit(ev, "allow") },
			h("fieldset", null, h("legend", null, "What do you allow?"),
				list.map((s, i) => h("div", { class: "scope" },
					h("label", null, h("input", { type: "radio", name: group, value: s.scope, checked: i === 0 }), " ", h("b", null, s.label)),
					s.scope === "uses" ? uses : s.scope === "for" ? time : "", h("p", { class: "hint" }, s.means)))),
			this.reason(),
			h("div", { class: "row" }, go, h("button", { type: "button", onclick: () => this.cancel() }, "Cancel")));
		const label = () => {
			const s = list.find((x) => x.scope === form.querySelector("input[type=radio]:checked").value);

			setText(go, s.act ?? (s.scope === "for" ? `Allow for ${time.selectedOptions[0].textContent}` : `Allow ${plural(Number(uses.value) || 0, "time", "times")}`));
			this.scope = s.scope;
		};

		form.addEventListener("input", label);
		label();
		this.offer(form);
		go.focus();
	}

	refuse() {
		if (!this.waits || this.with.role === "observer")
			return;
		const reason = this.reason();

		this.scope = null;
		this.offer(h("form", { class: "answer", onsubmit: (ev) => this.submit(ev, "deny") }, reason,
			h("div", { class: "row" }, h("button", { type: "submit", class: "deny" }, "Deny"), h("button", { type: "button", onclick: () => this.cancel() }, "Cancel"))));
		reason.querySelector("input").focus();
	}

	async submit(ev, decision) {
		const form = ev.target, digest = this.ask.digest, reason = form.elements.reason.value.trim();
		const body = { digest, decision };

		ev.preventDefault();
		if (this.busy)
			return;
		if (performance.now() - moved < SETTLE) {
			this.say("The page has just changed. Check the question, and press again.", "ask");
			return;
		}
		if (form.querySelector("button[type=submit][aria-disabled]")) {
			this.say("Read the question first, then press again.", "ask");
			return;
		}
		if (reason)
			body.reason = reason;
		if (decision === "allow") {
			body.scope = this.scope;
			if (this.scope === "for")
				body.seconds = Number(form.elements.seconds.value);
			if (this.scope === "uses")
				body.uses = Math.trunc(Number(form.elements.uses.value));
		}
		this.busy = true;
		for (const e of form.elements)
			e.disabled = true;
		this.say("Sending the answer…");
		try {
			this.ask = await post(at("asks", this.ask.id, "/answer"), body);
			this.say("");
			this.with.said(decision === "allow" ? "Allowed." : "Denied.");
			this.over();
			this.count();
			this.node.focus();
		} catch (e) {
			await this.failed(e);
		} finally {
			this.busy = false;
		}
		this.tick();
	}

	/** Somebody was first, it is too late, it has changed; or the gateway is away, and then it can be tried again. */
	async failed(e) {
		if ([404, 409, 410].includes(e.status)) {
			try {
				this.ask = await get(at("asks", this.ask.id));
				this.draw();
			} catch {
				put(this.act);
			}
		} else {
			this.idle();
		}
		this.say(["Your answer was not accepted: ", quote(e.message, 400), e.hint ? [" ", quote(e.hint, 300)] : ""], "bad");
		this.with.said("The answer was not accepted.");
		this.node.focus();
	}
}

