// SPDX-License-Identifier: Apache-2.0
// Sandboxes, and what those that run use just now.

import { at, get, post, remove } from "./api.js";
import { spark } from "./chart.js";
import { bytes, clock, h, plural, put, setText, soon, span } from "./dom.js";
import { name, plain, quote } from "./quote.js";

const EVERY = 2000;
const POINTS = 30;

/** Share of one processor between two readings. */
function load(before, now) {
	if (!before || !now || before.cpu_us === null || now.cpu_us === null)
		return null;
	const wall = now.uptime_us - before.uptime_us;

	return wall > 0 ? Math.max(0, (now.cpu_us - before.cpu_us) / wall) : null;
}

class Row {
	constructor(view, s) {
		this.view = view;
		this.loads = [];
		this.cpu = h("span", { class: "value" }, "–");
		this.line = h("span", { class: "sparkbox" });
		this.memory = h("span", { class: "value" }, "–");
		this.meter = h("meter", { min: 0, max: 1, value: 0, "aria-label": "memory, share of its limit" });
		this.pids = h("span");
		this.status = h("span", { class: "status" });
		this.since = h("span", { class: "hint" });
		this.waits = h("a", { class: "waits", href: "#/asks", hidden: true });
		this.acts = h("div", { class: "row" });
		this.node = h("li", { class: "card sandbox", "data-sandbox": s.id },
			h("header", null, h("h2", null, h("a", { href: `#/run/${s.id}` }, name(s.name ?? s.id))), this.status, this.waits),
			h("p", null, quote(s.command ?? "", 200)),
			h("dl", { class: "usage" },
				h("div", null, h("dt", null, "CPU"), h("dd", null, this.cpu, this.line)),
				h("div", null, h("dt", null, "Memory"), h("dd", null, this.memory, this.meter)),
				h("div", null, h("dt", null, "Processes"), h("dd", null, this.pids))),
			h("p", { class: "hint" }, h("code", null, s.id), ` · ${s.engine ?? "?"} · network ${s.net}`, s.workspace ? [" · ", quote(s.workspace, 100)] : "", " ", this.since),
			h("div", { class: "row links" }, h("a", { href: `#/run/${s.id}` }, "Timeline"), h("a", { href: `#/network/${s.id}` }, "Network"), h("a", { href: `#/policy/${s.id}` }, "Policy"), this.acts));
		this.update(s);
	}

	update(s) {
		const u = s.usage, running = s.status === "running";

		if (this.last !== s.status && this.view.app.you.role === "operator")
			this.drawActs(s);
		this.last = s.status;
		this.status.className = `status ${running ? "good" : s.status === "ended" && s.exit !== 0 ? "bad" : "plain"}`;
		setText(this.status, s.status === "ended" ? `ended (${s.cause ?? "?"}), exit code ${s.exit}` : s.status);
		setText(this.since, running ? `· up ${span((u?.uptime_us ?? 0) / 1000)}` : s.ended ? `· ended ${clock(Date.parse(s.ended))}` : "");
		this.waits.hidden = !(s.pending > 0);
		setText(this.waits, plural(s.pending ?? 0, "question waits", "questions wait"));
		this.measure(u);
	}

	measure(u) {
		const now = u ? load(this.usage, u) : null;

		this.usage = u;
		if (now !== null) {
			this.loads = [...this.loads, now].slice(-POINTS);
			put(this.line, spark(this.loads, 1));
		}
		setText(this.cpu, now === null ? "–" : `${Math.round(now * 100)} %`);
		setText(this.memory, u?.memory === undefined || u?.memory === null ? "–" : `${bytes(u.memory)}${u.memory_limit ? ` of ${bytes(u.memory_limit)}` : ""}`);
		this.meter.hidden = !(u?.memory && u?.memory_limit);
		if (!this.meter.hidden)
			this.meter.value = Math.min(1, u.memory / u.memory_limit);
		setText(this.pids, u?.pids === undefined || u?.pids === null ? "–" : String(u.pids));
	}

	drawActs(s) {
		const running = s.status === "running" || s.status === "starting";

		put(this.acts, h("button", { type: "button", class: "deny", onclick: () => this.confirm(s, running) }, running ? "Stop…" : "Remove…"));
	}

	confirm(s, running) {
		const yes = h("button", { type: "button", class: "deny", onclick: () => this.act(s, running) }, running ? "Stop it now" : "Remove it and what it left");

		put(this.acts, yes, h("button", { type: "button", onclick: () => this.drawActs(s) }, "Cancel"));
		yes.focus();
	}

	async act(s, running) {
		put(this.acts, h("span", { class: "hint" }, running ? "Stopping…" : "Removing…"));
		try {
			await (running ? post(at("sandboxes", s.id, "/stop"), {}) : remove(at("sandboxes", s.id)));
		} catch (e) {
			this.view.app.announce(`Not done: ${plain(e.message)}`, true);
			this.drawActs(s);
		}
		this.view.read();
	}
}

export class SandboxesView {
	static title = "Sandboxes";

	constructor(app) {
		this.app = app;
		this.rows = new Map();
		this.list = h("ul", { class: "cards grid" });
		this.empty = h("p", { class: "empty" }, "Reading…");
		this.all = h("input", { type: "checkbox", onchange: () => this.read() });
		this.cut = h("p", { class: "hint", hidden: true }, "The newest 200 are shown; coffer ps has all.");
		this.refresh = soon(() => this.read(), 200);
		this.root = h("section", null, h("h1", null, "Sandboxes"), h("p", { class: "filters" }, h("label", null, this.all, " also those that have ended")), this.empty, this.list, this.cut);
	}

	async open() {
		await this.read();
		this.loop();
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
	}

	/** One reading after the other, not while nobody looks. */
	loop() {
		this.timer = setTimeout(async () => {
			if (!document.hidden)
				await this.read();
			if (!this.closed)
				this.loop();
		}, EVERY);
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type.startsWith("run.") || e.type.startsWith("ask.")))
			this.refresh();
	}

	async read() {
		try {
			const page = await get("/v1/sandboxes", { all: this.all.checked, limit: 200 });

			if (!this.closed)
				this.show(page.items, page.next !== null);
		} catch (e) {
			if (!this.closed && !this.rows.size)
				setText(this.empty, `The sandboxes cannot be read: ${plain(e.message)}`);
		}
	}

	show(items, isCut) {
		const seen = new Set();

		for (const s of items) {
			seen.add(s.id);
			if (this.rows.has(s.id))
				this.rows.get(s.id).update(s);
			else
				this.rows.set(s.id, new Row(this, s));
		}
		for (const id of [...this.rows.keys()]) {
			if (!seen.has(id)) {
				this.rows.get(id).node.remove();
				this.rows.delete(id);
			}
		}
		items.forEach((s, i) => {
			const node = this.rows.get(s.id).node;

			if (this.list.children[i] !== node)
				this.list.insertBefore(node, this.list.children[i] ?? null);
		});
		this.cut.hidden = !isCut;
		this.empty.hidden = items.length > 0;
		setText(this.empty, this.all.checked ? "There are none." : "None runs. coffer run -d -- COMMAND starts one.");
	}
}
