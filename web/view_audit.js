// SPDX-License-Identifier: Apache-2.0
// The log, newest first, and whether its chain is whole.

import { get } from "./api.js";
import { clock, count, dated, h, plural, put, setText, soon, timeOf } from "./dom.js";
import { name, plain, quote } from "./quote.js";
import { tell } from "./story.js";
import { VirtualList } from "./vlist.js";

const PAGE = 1000;
const TYPES = [["", "all"], ["run", "runs"], ["exec", "commands"], ["ask", "questions"], ["net", "network"], ["policy", "policy"], ["secret", "secrets"], ["checkpoint", "checkpoints"],
	["api", "API and page"], ["gateway", "gateway"], ["audit", "the log itself"]];

export class AuditView {
	static title = "Audit";

	constructor(app) {
		this.app = app;
		this.rows = [];
		this.next = undefined;
		this.filter = { sandbox: "", type: "" };
		this.more = soon(() => this.readNew(), 250);
		this.result = h("p", { class: "note", role: "status" }, "Not verified since this page was opened.");
		this.button = h("button", { type: "button", onclick: () => this.verify() }, "Verify now");
		this.state = h("p", { class: "hint", role: "status" });
		this.boxes = h("select", { onchange: (ev) => this.change("sandbox", ev.target.value) });
		this.vlist = new VirtualList({
			label: "Events of the log, newest first", fill: (row, cells, node) => this.fill(row, cells, node), heightOf: () => (matchMedia("(max-width: 700px)").matches ? 64 : 28), onEnd: () => this.readOlder(),
			columns: [{ name: "No.", class: "seq" }, { name: "Time", class: "time" }, { name: "Type", class: "kind" }, { name: "Sandbox", class: "box" }, { name: "What happened", class: "told" }],
		});
		this.root = h("section", { class: "fill audit" }, h("h1", null, "Audit log"),
			h("div", { class: "verify" }, this.result, this.button),
			h("div", { class: "filters", role: "group", "aria-label": "Filters" }, h("label", null, "Sandbox ", this.boxes),
				h("label", null, "Type ", h("select", { onchange: (ev) => this.change("type", ev.target.value) }, TYPES.map(([v, t]) => h("option", { value: v }, t))))),
			this.state, this.vlist.node);
	}

	async open() {
		put(this.boxes, h("option", { value: "" }, "all"), ...this.app.boxOptions());
		this.verify();
		await this.readOlder();
	}

	close() {
		this.closed = true;
		this.vlist.close();
	}

	events(list) {
		if (list.length)
			this.more();
	}

	change(key, value) {
		this.filter[key] = value;
		this.rows = [];
		this.next = undefined;
		this.serial = (this.serial ?? 0) + 1;
		this.reading = false;
		this.vlist.node.scrollTop = 0;
		this.vlist.set([]);
		this.readOlder();
	}

	draw(added = 0) {
		this.vlist.set(this.rows, added);
		setText(this.state, this.rows.length ? `${this.next === null ? "All " : ""}${plural(this.rows.length, "event", "events")}${this.next === null ? "" : "; scroll for older ones"}.` : "No event matches.");
	}

	async readOlder() {
		const serial = this.serial;

		if (this.reading || this.next === null)
			return;
		this.reading = true;
		try {
			const page = await get("/v1/audit", { ...this.filter, limit: PAGE, before: this.next });

			if (this.closed || serial !== this.serial)
				return;
			this.rows = this.rows.concat(page.items);
			this.next = page.next;
			this.reading = false;
			this.draw();
		} catch (e) {
			if (!this.closed && serial === this.serial)
				setText(this.state, `The log cannot be read: ${plain(e.message)}`);
			setTimeout(() => { this.reading = false; }, 2000);
		}
	}

	async readNew() {
		const serial = this.serial;

		if (this.next === undefined || this.closed)
			return;
		if (this.catching) {
			this.again = true;
			return;
		}
		this.catching = true;
		try {
			const page = await get("/v1/audit", { ...this.filter, after: this.rows[0]?.seq ?? 0, limit: PAGE });

			if (serial === this.serial && page.items.length) {
				this.rows = page.items.reverse().concat(this.rows);
				this.draw(page.items.length);
			}
			this.again ||= page.next !== null;
		} catch {
			// the next event tries again
		}
		this.catching = false;
		if (this.again)
			this.more();
		this.again = false;
	}

	/** The gateway has a process of its own do it; the page only waits. */
	async verify() {
		this.button.disabled = true;
		setText(this.result, "Verifying…");
		this.result.className = "note";
		try {
			const v = await get("/v1/audit/verify");

			this.result.className = `note ${v.ok ? "good" : "bad"}`;
			if (v.ok)
				put(this.result, h("strong", null, "Whole. "), `${plural(v.events, "event", "events")}, number ${count(v.first)} to ${count(v.last)}, chained without a break; checked `, timeOf(Date.now()),
					". ", v.hash ? ["Head ", h("code", { class: "digest" }, name(v.hash))] : "", v.note ? [" ", quote(v.note, 300)] : "");
			else
				put(this.result, h("strong", null, "Broken. "), `${plural(v.breaks.length + (v.more ?? 0), "place", "places")} where the log differs from what was written: `,
					v.breaks.slice(0, 5).map((b) => [quote(b.text ?? JSON.stringify(b), 300), " "]), "A person or a disk error changed the log; coffer audit verify shows every place.");
		} catch (e) {
			this.result.className = "note bad";
			setText(this.result, `The log could not be verified: ${plain(e.message)}`);
		}
		this.button.disabled = false;
	}

	fill(row, cells, node) {
		const told = tell(row);

		node.classList.toggle("bad", told.tone === "bad");
		cells[0].textContent = count(row.seq);
		cells[1].textContent = clock(Date.parse(row.time));
		cells[1].title = dated(Date.parse(row.time));
		put(cells[2], name(row.type));
		put(cells[3], row.sandbox ? h("a", { href: `#/run/${encodeURIComponent(row.sandbox)}` }, name(this.app.nameOf(row.sandbox))) : "");
		put(cells[4], ...told.parts);
	}
}
