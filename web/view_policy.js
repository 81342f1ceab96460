// SPDX-License-Identifier: Apache-2.0
// The destinations that a sandbox may reach, and the rule that would decide about a request or a call of a tool.

import { at, get } from "./api.js";
import { count, h, put, timeOf } from "./dom.js";
import { name, plain, quote } from "./quote.js";

const FOLD = 12;
const DEPTHS = { inspect: "its requests are inspected", peek: "only the name is inspected", tunnel: "not inspected" };
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const ABOUT = [["request", "a request"], ["tool", "a tool call"]];
const BODIES = [["", "is not known"], ["graphql", "is a GraphQL document"], ["push", "is a git push"]];
const ACTS = [["create", "makes it"], ["update", "moves it forward"], ["force", "overwrites it"], ["delete", "removes it"]];
const APPLY = { allow: "Its changes may be applied (coffer apply).", ask: "A person is asked before its changes are applied (coffer apply).", deny: "Its changes may not be applied (coffer apply)." };

function choice(name, list, onchange) {
	return h("select", { name, onchange }, list.map(([value, text]) => h("option", { value }, text)));
}

/** The terms of a rule: its destination, CA, proxy set and secret, and the depth of inspection. */
function terms(r) {
	const list = [
		r.to ? ["to: ", quote(r.to, 80)] : null, r.ca ? ["ca: only the CA that the rule names is trusted"] : null, r.pool ? ["through the proxies ", name(r.pool)] : null,
		r.secret ? ["with the secret ", name(r.secret)] : null, r.capture ? ["credentials that its servers issue are kept as ", name(r.capture)] : null, DEPTHS[r.depth] ? [DEPTHS[r.depth]] : null,
	].filter(Boolean);

	return list.length ? h("span", { class: "hint" }, list.map((t, i) => [i ? "; " : " ", t])) : "";
}

function line(name, max, more) {
	return h("input", { type: "text", name, maxlength: max, spellcheck: "false", autocomplete: "off", ...more });
}

/** The requests that a rule lists; a preset lists many, and these are folded. */
function requests(list) {
	const all = list.length ? h("ul", null, list.slice(0, 500).map((q) => h("li", null, quote(q, 300)))) : "";

	return list.length > FOLD ? h("details", null, h("summary", null, `${count(list.length)} lines for single requests`), all) : all;
}

export class PolicyView {
	static title = "Policy";

	constructor(app, sandbox) {
		this.app = app;
		this.id = sandbox ?? "";
		this.boxes = h("select", { onchange: (ev) => { location.hash = `#/policy/${ev.target.value}`; } });
		this.rules = h("div");
		this.verdict = h("div", { class: "verdict", role: "status" });
		this.root = h("section", null, h("h1", null, "Policy"),
			h("p", { class: "filters" }, h("label", null, "Sandbox ", this.boxes)),
			this.form(),
			this.verdict, h("h2", null, "Rules"), this.rules);
	}

	/** The form for the question: a request, with the act of its body where that matters, or a call of a tool. */
	form() {
		const redraw = () => this.choose();

		this.about = choice("about", ABOUT, redraw);
		this.method = choice("method", METHODS.map((m) => [m, m]));
		this.url = line("url", 4000, { inputmode: "url", placeholder: "https://api.example.com/path" });
		this.body = choice("body", BODIES, redraw);
		this.graphql = line("graphql", 4000, { placeholder: "mutation { mergePullRequest(input: {}) { x } }" });
		this.ref = line("push", 900, { placeholder: "refs/heads/main" });
		this.does = choice("does", ACTS);
		this.tool = line("tool", 128, { placeholder: "deploy" });
		this.args = line("args", 4000, { placeholder: '{"env":"production"}' });
		this.ofBody = {
			graphql: [h("label", { class: "wide" }, "Document ", this.graphql)],
			push: [h("label", { class: "wide" }, "Ref ", this.ref), h("label", null, "which it ", this.does)],
		};
		this.ofRequest = [
			h("div", { class: "row" }, h("label", null, "Method ", this.method), h("label", { class: "wide" }, "Address ", this.url)),
			h("div", { class: "row" }, h("label", null, "Its body ", this.body), Object.values(this.ofBody)),
		];
		this.ofTool = [h("div", { class: "row" }, h("label", { class: "wide" }, "Tool ", this.tool), h("label", { class: "wide" }, "Arguments ", this.args))];
		const form = h("form", { class: "explain", onsubmit: (ev) => this.explain(ev) }, h("h2", null, "What would happen?"),
			h("div", { class: "row" }, h("label", null, "To ", this.about)), this.ofRequest, this.ofTool, h("div", { class: "row" }, h("button", { type: "submit" }, "Explain")));

		this.choose();
		return form;
	}

	/** Shows only the fields that belong to the choice, and requires them. */
	choose() {
		const tool = this.about.value === "tool", body = tool ? "" : this.body.value;

		for (const e of this.ofRequest)
			e.hidden = tool;
		for (const e of this.ofTool)
			e.hidden = !tool;
		for (const [kind, list] of Object.entries(this.ofBody)) {
			for (const e of list)
				e.hidden = kind !== body;
		}
		this.url.required = !tool;
		this.tool.required = tool;
		this.graphql.required = body === "graphql";
		this.ref.required = body === "push";
	}

	question() {
		if (this.about.value === "tool")
			return { tool: this.tool.value.trim(), args: this.args.value.trim() };
		const body = this.body.value;

		return {
			url: this.url.value.trim(), method: this.method.value, graphql: body === "graphql" ? this.graphql.value : "",
			push: body === "push" ? `${this.ref.value.trim()}=${this.does.value}` : "",
		};
	}

	async open() {
		const known = [...this.app.sandboxes.values()];

		if (!this.id)
			this.id = (known.find((s) => s.status === "running" && s.net !== "none") ?? known.find((s) => s.net !== "none") ?? known[0])?.id ?? "";
		put(this.boxes, ...this.app.boxOptions());
		this.boxes.value = this.id;
		if (!this.id) {
			put(this.rules, h("p", { class: "empty" }, "There is no sandbox yet. Each sandbox has its own policy, which defines what it may reach."));
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
		const mode = { enforce: "Enforced: what no rule allows is denied.", observe: "Observed: what no rule denies is allowed, and logged.", none: "It has no network." }[p.net] ?? `Mode ${p.net}.`;

		return [
			h("dl", { class: "facts" }, h("dt", null, "Mode"), h("dd", null, mode),
				p.file ? [h("dt", null, "File"), h("dd", null, quote(p.file, 300))] : "",
				p.allow.length ? [h("dt", null, "--allow"), h("dd", null, p.allow.map((a) => [quote(a, 200), " "]))] : "",
				p.apply ? [h("dt", null, "Changes"), h("dd", null, APPLY[p.apply] ?? quote(p.apply, 40))] : "",
				p.digest ? [h("dt", null, "Digest"), h("dd", null, h("code", { class: "digest" }, name(p.digest)))] : ""),
			p.current ? h("p", { class: "note good" }, "These rules are in force.") : h("p", { class: "note bad" }, "These rules are not in force: ", quote(p.note ?? "", 300)),
			...p.layers.map((layer, i) => h("div", null, p.layers.length > 1 ? h("h3", null, `Layer ${i + 1} of ${p.layers.length}; all layers must allow`) : "",
				h("ol", { class: "rules" }, layer.map((r) => h("li", null, quote(r.rule, 300), terms(r),
					requests(r.requests ?? [])))))),
			p.layers.every((l) => !l.length) ? h("p", { class: "empty" }, p.net === "none" ? "No rules: without a network there is nothing to allow." : p.granted.length ? "No rules: only what a person granted is allowed." : "No rules: nothing is allowed.") : "",
			p.granted.length ? h("div", null, h("h3", null, "Granted by a person, where no rule applies"), h("ul", { class: "rules granted" }, p.granted.map((g) => h("li", null,
				quote(g.rule, 600), h("span", { class: "hint" }, " question ", name(g.question), g.until ? [", until ", timeOf(Date.parse(g.until))] : ", until the sandbox ends or the grant is revoked"))))) : "",
			p.tools ? h("div", null, h("h3", null, "Tool calls"), h("p", { class: "hint" }, "The most specific rule decides; a call that no rule covers is denied."),
				h("ul", { class: "rules tools" }, p.tools.map((t) => h("li", null, quote(t, 600))))) : "",
		].filter(Boolean);
	}

	async explain(ev) {
		ev.preventDefault();
		if (!this.id)
			return;
		put(this.verdict, "Checking…");
		try {
			const v = await get(at("sandboxes", this.id, "/explain"), this.question());
			const [word, tone] = v.needs_body ? ["Depends on the body", "plain"]
				: { allow: ["Allowed", "good"], deny: ["Denied", "bad"], ask: ["A person is asked", "ask"] }[v.decision] ?? [v.decision, "plain"];

			put(this.verdict, h("p", { class: `note ${tone}` }, h("strong", null, `${word}. `), quote(v.why, 400)),
				v.needs_body ? h("p", { class: "hint" }, "Choose above what its body is, a GraphQL document or a git push, to get a decision.") : "",
				v.question ? h("p", { class: "hint" }, "That rule is not in the file: a person granted it (question ", name(v.question), ").") : "",
				v.hint && !v.needs_body ? h("p", null, "What would change that: ", quote(v.hint, 400)) : "",
				v.current ? "" : h("p", { class: "hint" }, "This is the decision of the file as it is now, which is not in force."));
		} catch (e) {
			put(this.verdict, h("p", { class: "note bad" }, `${plain(e.message)} ${plain(e.hint)}`));
		}
	}
}
