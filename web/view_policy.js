// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach, and which rule would decide about a request.

import { at, get } from "./api.js";
import { h, put } from "./dom.js";
import { name, plain, quote } from "./quote.js";

const DEPTHS = { inspect: "its requests are looked at", peek: "only the name is looked at", tunnel: "nothing in it is looked at" };
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

export class PolicyView {
	static title = "Policy";

	constructor(app, sandbox) {
		this.app = app;
		this.id = sandbox ?? "";
		this.boxes = h("select", { onchange: (ev) => { location.hash = `#/policy/${ev.target.value}`; } });
		this.rules = h("div");
		this.verdict = h("div", { class: "verdict", role: "status" });
		this.url = h("input", { type: "text", name: "url", required: true, maxlength: 4000, inputmode: "url", spellcheck: "false", autocomplete: "off", placeholder: "https://api.example.com/path" });
		this.method = h("select", { name: "method" }, METHODS.map((m) => h("option", { value: m }, m)));
		this.root = h("section", null, h("h1", null, "Policy"),
			h("p", { class: "filters" }, h("label", null, "Sandbox ", this.boxes)),
			h("form", { class: "explain", onsubmit: (ev) => this.explain(ev) }, h("h2", null, "What would happen to a request?"),
				h("div", { class: "row" }, h("label", null, "Method ", this.method), h("label", { class: "wide" }, "Address ", this.url), h("button", { type: "submit" }, "Explain"))),
			this.verdict, h("h2", null, "Rules"), this.rules);
	}

	async open() {
		const known = [...this.app.sandboxes.values()];

		if (!this.id)
			this.id = (known.find((s) => s.status === "running") ?? known[0])?.id ?? "";
		put(this.boxes, ...known.map((s) => h("option", { value: s.id }, name(s.name ?? s.id))));
		this.boxes.value = this.id;
		if (!this.id) {
			put(this.rules, h("p", { class: "empty" }, "There is no sandbox yet. Each has its own policy: what it may reach."));
			return;
		}
		await this.read();
	}

	close() {
		this.closed = true;
	}

	events(list) {
		if (list.some((e) => (e.type === "policy.change" || e.type === "net.policy") && e.sandbox === this.id))
			this.read();
	}

	async read() {
		try {
			const p = await get(at("sandboxes", this.id, "/policy"));

			if (!this.closed)
				put(this.rules, ...this.show(p));
		} catch (e) {
			if (!this.closed)
				put(this.rules, h("p", { class: "empty" }, `Its policy cannot be shown: ${plain(e.message)}`));
		}
	}

	show(p) {
		const mode = { enforce: "Enforced: what no rule allows is refused.", observe: "Observed: everything passes, and is written down.", none: "It has no network." }[p.net] ?? `Mode ${p.net}.`;

		return [
			h("dl", { class: "facts" }, h("dt", null, "Mode"), h("dd", null, mode),
				p.file ? [h("dt", null, "File"), h("dd", null, quote(p.file, 300))] : "",
				p.allow.length ? [h("dt", null, "--allow"), h("dd", null, p.allow.map((a) => [quote(a, 200), " "]))] : "",
				p.digest ? [h("dt", null, "Digest"), h("dd", null, h("code", { class: "digest" }, name(p.digest)))] : ""),
			p.current ? h("p", { class: "note good" }, "What is shown is what is in force.") : h("p", { class: "note bad" }, "Not what is in force: ", quote(p.note ?? "", 300)),
			...p.layers.map((layer, i) => h("div", null, p.layers.length > 1 ? h("h3", null, `Layer ${i + 1} of ${p.layers.length}; each must allow`) : "",
				h("ol", { class: "rules" }, layer.map((r) => h("li", null, quote(r.rule, 300), DEPTHS[r.depth] ? h("span", { class: "hint" }, ` ${DEPTHS[r.depth]}`) : "",
					r.requests?.length ? h("ul", null, r.requests.slice(0, 500).map((q) => h("li", null, quote(q, 300)))) : ""))))),
			p.layers.every((l) => !l.length) ? h("p", { class: "empty" }, p.net === "none" ? "No rules: without a network there is nothing to allow." : "No rules: nothing is allowed.") : "",
		].filter(Boolean);
	}

	async explain(ev) {
		ev.preventDefault();
		if (!this.id)
			return;
		put(this.verdict, "Asking…");
		try {
			const v = await get(at("sandboxes", this.id, "/explain"), { url: this.url.value.trim(), method: this.method.value });
			const [word, tone] = { allow: ["Allowed", "good"], deny: ["Refused", "bad"], ask: ["A person is asked", "ask"] }[v.decision] ?? [v.decision, "plain"];

			put(this.verdict, h("p", { class: `note ${tone}` }, h("strong", null, `${word}. `), quote(v.why, 400)),
				v.needs_body ? h("p", { class: "hint" }, "The body of the request may decide, too.") : "",
				v.hint ? h("p", null, "What would change that: ", quote(v.hint, 400)) : "",
				v.current ? "" : h("p", { class: "hint" }, "By the file as it is now, which is not what is in force."));
		} catch (e) {
			put(this.verdict, h("p", { class: "note bad" }, `${plain(e.message)} ${plain(e.hint)}`));
		}
	}
}
