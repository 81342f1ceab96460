// SPDX-License-Identifier: Apache-2.0
// One run from its start to its end, in the order in which it happened, for somebody who was not there.

import { at, get } from "./api.js";
import { count, dated, h, plural, put, setText, soon, timeOf } from "./dom.js";
import { name, plain, quote, quoteBlock, typedOf } from "./quote.js";
import { inOrder } from "./story.js";
import { charts } from "./view_egress.js";

const PAGE = 1000;
const MOST = 5000;
const WORDS = { "net.dns": "lookups", "net.open": "connections", "net.close": "ends of connections", "net.request": "requests", "net.response": "responses", "net.dial": "upstream connections",
	"net.up": "network up", "net.policy": "policy in force", "exec.end": "ends of commands", "api.request": "requests to the gateway" };

export class RunView {
	static title = "Timeline";

	constructor(app, id) {
		this.app = app;
		this.id = id ?? "";
		this.log = [];
		this.after = 0;
		this.whole = true;
		this.more = soon(() => this.read(), 500);
		this.heading = h("h1", null, "Timeline of ", name(app.nameOf(this.id)));
		this.summary = h("p");
		this.charts = h("div", { class: "charts" });
		this.routine = h("input", { type: "checkbox", onchange: () => this.draw() });
		this.state = h("p", { class: "hint", role: "status" }, "Reading…");
		this.list = h("ol", { class: "timeline" });
		this.root = h("section", null, this.heading, this.summary,
			h("p", { class: "row links" }, h("a", { href: `#/network/${encodeURIComponent(this.id)}` }, "Network"), h("a", { href: `#/policy/${encodeURIComponent(this.id)}` }, "Policy")),
			this.charts, h("p", { class: "filters" }, h("label", null, this.routine, " Show routine events individually")), this.state, this.list);
	}

	async open() {
		await Promise.all([this.readSummary(), this.read()]);
		await this.readCharts();
	}

	close() {
		this.closed = true;
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.sandbox === this.id))
			this.more();
		if (list.some((e) => e.sandbox === this.id && e.type.startsWith("run.")))
			this.readSummary();
	}

	async readSummary() {
		try {
			const s = await get(at("sandboxes", this.id));

			put(this.summary, quote(typedOf(s), 300), ` · ${s.status}${s.exit === null ? "" : `, exit code ${s.exit}`} · started ${dated(Date.parse(s.started))}`,
				s.ended ? ` · ended ${dated(Date.parse(s.ended))}` : "", s.changes === null ? "" : ` · ${plural(s.changes, "file", "files")} changed`, " · ", h("code", null, s.id));
		} catch {
			put(this.summary, "The sandbox has been removed; its events are still in the log.");
		}
	}

	async read() {
		if (this.closed)
			return;
		if (this.reading) {
			this.again = true;
			return;
		}
		this.reading = true;
		try {
			let page = { next: this.after };

			while (page.next !== null && this.log.length < MOST && !this.closed) {
				page = await get("/v1/audit", { sandbox: this.id, after: this.after, limit: PAGE });
				this.log = this.log.concat(page.items);
				this.after = page.items.at(-1)?.seq ?? this.after;
			}
			this.whole = page.next === null;
			this.draw();
		} catch (e) {
			setText(this.state, `The log cannot be read: ${plain(e.message)}`);
		}
		this.reading = false;
		if (this.again)
			this.more();
		this.again = false;
	}

	async readCharts() {
		const first = this.log[0]?.time;

		if (!first || !this.log.some((e) => e.type.startsWith("net.")))
			return;
		try {
			put(this.charts, ...charts(await get("/v1/series", { since: first, buckets: 60, sandbox: this.id })));
		} catch {
			put(this.charts);
		}
	}

	entry(t) {
		return h("li", { class: `entry ${t.tone}`, "data-type": t.type }, timeOf(t.when), h("span", { class: "told" }, t.parts, t.times > 1 ? ` (${count(t.times)} times)` : ""),
			t.script ? quoteBlock(t.script, "The whole command") : "");
	}

	folded(run, open) {
		const seq = String(run[0].seq), hosts = [...new Set(run.map((t) => t.host).filter((x) => x && x !== "*"))];
		const kinds = [...new Set(run.map((t) => WORDS[t.type] ?? "others"))].join(", ");

		// The entries of a fold are made when it is opened: there may be thousands.
		const fill = (ev) => ev.target.open && !ev.target.querySelector("ol") && ev.target.append(h("ol", null, run.map((t) => this.entry(t))));

		return h("li", { class: "entry folded" }, timeOf(run[0].when), h("details", { "data-seq": seq, open: open.has(seq), ontoggle: fill },
			h("summary", null, plural(run.length, "routine event", "routine events"), hosts.length ? [" with ", quote(hosts[0], 80), hosts.length > 1 ? ` and ${count(hosts.length - 1)} more` : ""] : "", `: ${kinds}`)));
	}

	/** Routine events that follow each other are one line that opens. */
	draw() {
		const told = inOrder(this.log), nodes = [];
		const open = new Set([...this.list.querySelectorAll("details[open]")].map((d) => d.dataset.seq));

		for (let i = 0; i < told.length; i++) {
			let end = i;

			while (!this.routine.checked && end < told.length && told[end].routine)
				end += 1;
			if (end - i >= 2) {
				nodes.push(this.folded(told.slice(i, end), open));
				i = end - 1;
				continue;
			}
			nodes.push(this.entry(told[i]));
		}
		put(this.list, ...nodes);
		setText(this.state, !told.length ? "The log has no events of this sandbox." : this.whole ? `${plural(this.log.length, "event", "events")}, oldest first.`
			: `The first ${plural(this.log.length, "event", "events")}; coffer audit --sandbox ${this.id} has all.`);
	}
}
