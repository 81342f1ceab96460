// SPDX-License-Identifier: Apache-2.0
// Sandboxes, and the present usage of those that run.

import { at, get, post, remove } from "./api.js";
import { spark } from "./chart.js";
import { bytes, count, h, plural, put, setText, soon, span, table, timeOf } from "./dom.js";
import { name, plain, quote, typedOf } from "./quote.js";
import { gaveUp } from "./view_gateway.js";

const EVERY = 2000;
const FIRST = 500;
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
			h("p", null, quote(typedOf(s), 200)),
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
		this.status.className = `status ${running ? "good" : "plain"}`;
		setText(this.status, s.status);
		setText(this.since, running ? `· up ${span((u?.uptime_us ?? 0) / 1000)}` : "");
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
		put(this.acts, h("button", { type: "button", class: "deny", onclick: () => this.confirm(s) }, "Stop…"));
	}

	confirm(s) {
		const yes = h("button", { type: "button", class: "deny", onclick: () => this.stop(s) }, "Stop it now");

		put(this.acts, yes, h("button", { type: "button", onclick: () => this.drawActs(s) }, "Cancel"));
		yes.focus();
	}

	async stop(s) {
		put(this.acts, h("span", { class: "hint" }, "Stopping…"));
		try {
			await post(at("sandboxes", s.id, "/stop"), {});
		} catch (e) {
			this.view.app.announce(`Not stopped: ${plain(e.message)}`, true);
			this.drawActs(s);
		}
		this.view.read();
	}
}

/** Those that have ended, newest first: a line each, found by their name, command or id. */
class Ended {
	constructor(view) {
		this.view = view;
		this.items = [];
		this.search = h("input", { type: "search", class: "search", maxlength: 100, autocomplete: "off", spellcheck: "false", oninput: () => this.draw() });
		this.place = h("div");
		this.node = h("section", { class: "ended" }, h("h2", null, "Ended"), h("p", { class: "filters" }, h("label", null, "Name, command or id contains ", this.search)), this.place);
	}

	set(items, isCut) {
		this.items = items;
		this.isCut = isCut;
		this.draw();
	}

	draw() {
		const want = this.search.value.trim().toLowerCase(), app = this.view.app;
		const rows = this.items.filter((s) => !want || `${s.name ?? ""} ${s.command ?? ""} ${s.id}`.toLowerCase().includes(want));

		this.search.closest("p").hidden = !this.items.length;
		put(this.place, rows.length ? table("Ended sandboxes", ["Sandbox", "Command", "Result", "Changes", "Ended", ""], rows.map((s) => h("tr", { "data-sandbox": s.id },
			h("td", null, h("a", { href: `#/run/${s.id}` }, name(s.name ?? s.id))), h("td", null, quote(typedOf(s), 80)),
			h("td", { class: s.exit ? "part" : "" }, endOf(s)), h("td", { class: "number" }, s.changes === null ? "–" : count(s.changes)),
			h("td", null, s.ended ? timeOf(Date.parse(s.ended)) : "–"), h("td", null, app.you.role === "operator" ? this.remover(s) : "")))) :
			h("p", { class: "hint" }, this.items.length ? "No sandbox matches." : "No sandbox has ended."),
		this.isCut ? h("p", { class: "hint" }, "The newest 200 are shown; coffer ps -a has all.") : "");
	}

	/** Two presses, as everywhere. */
	remover(s) {
		const place = h("span");
		const ask = () => put(place, h("button", { type: "button", class: "deny", onclick: () => this.remove(s, place) }, "Remove it and its changes"), " ",
			h("button", { type: "button", onclick: () => put(place, first) }, "Cancel"));
		const first = h("button", { type: "button", class: "quiet", onclick: ask }, "Remove…");

		put(place, first);
		return place;
	}

	async remove(s, place) {
		put(place, h("span", { class: "hint" }, "Removing…"));
		try {
			await remove(at("sandboxes", s.id));
		} catch (e) {
			this.view.app.announce(`Not removed: ${plain(e.message)}`, true);
		}
		this.view.readEnded();
	}
}

function endOf(s) {
	if (s.status !== "ended")
		return s.status;
	return s.cause === "exit" || !s.cause ? `exit code ${s.exit}` : `${plain(s.cause, 40)}, exit code ${s.exit}`;
}

export class SandboxesView {
	static title = "Sandboxes";

	constructor(app) {
		this.app = app;
		this.rows = new Map();
		this.list = h("ul", { class: "cards grid" });
		this.empty = h("p", { class: "empty" }, "Reading…");
		this.failed = h("div");
		this.ended = new Ended(this);
		this.refresh = soon(() => this.read(), 200);
		this.refreshEnded = soon(() => this.readEnded(), 1000);
		this.root = h("section", null, h("h1", null, "Sandboxes"), this.failed, this.empty, this.list, this.ended.node);
	}

	/** A second reading soon: the CPU is a difference of two. */
	async open() {
		await Promise.all([this.read(), this.readEnded()]);
		this.loop(FIRST);
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
	}

	/** One reading after the other, not while nobody looks. */
	loop(wait) {
		this.timer = setTimeout(async () => {
			if (!document.hidden)
				await this.read();
			if (!this.closed)
				this.loop(EVERY);
		}, wait);
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type.startsWith("run.") || e.type.startsWith("ask.")))
			this.refresh();
		if (list.some((e) => e.type === "gap" || e.type.startsWith("run.")))
			this.refreshEnded();
	}

	async read() {
		try {
			const page = await get("/v1/sandboxes", { limit: 200 });

			if (!this.closed)
				this.show(page.items);
		} catch (e) {
			if (!this.closed && !this.rows.size)
				setText(this.empty, `The sandboxes cannot be read: ${plain(e.message)}`);
		}
	}

	/** Those that have ended, and of the kept ones those that are not started again: these need somebody. */
	async readEnded() {
		try {
			const [page, gateway] = await Promise.all([get("/v1/sandboxes", { all: true, limit: 200 }), get("/v1/gateway")]);

			if (this.closed)
				return;
			this.ended.set(page.items.filter((s) => s.status !== "running" && s.status !== "starting").sort((a, b) => (b.ended ?? "").localeCompare(a.ended ?? "")), page.next !== null);
			put(this.failed, gaveUp(gateway).map((s) => h("div", { class: "card attention", "data-sandbox": s.id }, h("h2", null, h("a", { href: `#/run/${s.id}` }, name(s.name ?? s.id)), " is down"),
				h("p", null, `It ended ${s.cause && s.cause !== "exit" ? `(${plain(s.cause, 40)}) ` : ""}with exit code ${s.exit ?? "?"} and is not started again`, s.why ? [": ", quote(s.why, 200), "."] : ".",
					` It was restarted ${plural(s.restarts ?? 0, "time", "times")}.`))));
		} catch {
			// told by the banner; the next event tries again
		}
	}

	show(items) {
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
		this.empty.hidden = items.length > 0;
		setText(this.empty, "No sandbox runs. To start one: coffer run -d -- COMMAND");
	}
}
