// SPDX-License-Identifier: Apache-2.0
// The network: charts, and each lookup, connection and request as it comes, newest first.

import { at, get } from "./api.js";
import { chart } from "./chart.js";
import { Detail } from "./detail.js";
import { bytes, clock, count, dated, h, plural, put, setText, soon } from "./dom.js";
import { name, plain, quote } from "./quote.js";
import { VirtualList } from "./vlist.js";

const FIRST = 1000; // soon to be seen;
const PAGE = 10000; // then many at once
const KEEP = 200000;
const SINCE = [["15m", "15 minutes"], ["1h", "hour"], ["24h", "day"], ["168h", "week"]];
const TYPES = { "net.dns": "lookup", "net.open": "connect", "net.close": "closed", "net.request": "request", "net.response": "response", "net.dial": "upstream", "net.refused": "denied",
	"net.alert": "alert", "ask.new": "question" };
const KINDS = { "net.dns": "a lookup of a name", "net.open": "a connection", "net.close": "the end of a connection", "net.request": "a request", "net.response": "the response to a request",
	"net.dial": "an upstream connection", "net.refused": "an attempt past the wall", "net.alert": "an alert", "ask.new": "a question that waits for a person" };
const DEPTHS = { tunnel: "passed on without inspection", peek: "only its beginning was inspected", inspect: "inspected, request by request" };
const WHOLE = 65536;
const COLUMNS = [
	{ name: "Time", class: "time" }, { name: "Sandbox", class: "box" }, { name: "Decision", class: "decision" }, { name: "Kind", class: "kind" },
	{ name: "Where", class: "where" }, { name: "Bytes", class: "size" }, { name: "Rule", class: "rule" },
];

export function charts(series) {
	return [
		chart({ title: "Decisions", series, format: count, keys: [{ key: "allow", name: "allowed", class: "c-allow" }, { key: "ask", name: "asked", class: "c-ask" }, { key: "deny", name: "denied", class: "c-deny" }] }),
		chart({ title: "Bytes", series, format: bytes, base: 2, keys: [{ key: "up", name: "out", class: "c-up" }, { key: "down", name: "in", class: "c-down" }] }),
	];
}

function decisionOf(row) {
	if (row.denied)
		return ["denied", "bad"];
	if (row.decision === "ask")
		return ["asked", "ask"];
	return row.decision ? ["allowed", "good"] : ["", "plain"];
}

/** Events that the log counted together, without their names. */
const isCount = (row) => row.host === "*";

function moreText(row) {
	const n = row.count ?? 1, [one, many] = { "net.dns": ["lookup", "lookups"], "net.open": ["connection", "connections"], "net.request": ["request", "requests"] }[row.type] ?? ["event", "events"];

	return `${count(n)} more ${row.denied ? "denied " : ""}${n === 1 ? one : many}, not listed one by one`;
}

/** A host as a URL has it. Null: no host, since a program may look up any characters. */
export function urlHost(host) {
	if (/^[0-9a-f.]*:[0-9a-f:.]*$/i.test(host))
		return `[${host}]`;
	return /^[a-z0-9_.-]+$/i.test(host) ? host : null;
}

export class EgressView {
	static title = "Network";

	constructor(app, sandbox) {
		this.app = app;
		this.rows = []; // all that were read, newest first
		this.next = undefined; // `before` of the older ones; null: there are none
		this.filter = { sandbox: sandbox ?? "", decision: "", host: "" };
		this.more = soon(() => this.readNew(), 250);
		this.charts = h("div", { class: "charts" });
		this.state = h("p", { class: "hint", role: "status" });
		this.vlist = new VirtualList({
			label: "Network events, newest first", columns: COLUMNS, fill: (row, cells, node) => this.fill(row, cells, node),
			heightOf: () => (matchMedia("(max-width: 700px)").matches ? 64 : 28), onEnd: () => this.readOlder(),
			onOpen: (row) => this.detail.show(`${(KINDS[row.type] ?? row.type).replace(/^./, (c) => c.toUpperCase())}`, this.facts(row)),
		});
		this.detail = new Detail(() => this.closed || this.vlist.focus());
		this.root = h("section", { class: "fill" }, h("h1", null, "Network"), this.controls(), this.charts, this.state, this.vlist.node, this.detail.node);
	}

	controls() {
		this.boxes = h("select", { onchange: (ev) => this.change("sandbox", ev.target.value) });
		this.span = h("select", { onchange: () => this.readCharts() }, SINCE.map(([v, t]) => h("option", { value: v, selected: v === "1h" }, `last ${t}`)));
		return h("div", { class: "filters", role: "group", "aria-label": "Filters" },
			h("label", null, "Sandbox ", this.boxes),
			h("label", null, "Decision ", h("select", { onchange: (ev) => this.change("decision", ev.target.value) },
				[["", "all"], ["allow", "allowed"], ["ask", "asked"], ["deny", "denied"]].map(([v, t]) => h("option", { value: v }, t)))),
			h("label", null, "Host contains ", h("input", { type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", oninput: (ev) => this.change("host", ev.target.value.trim()) })),
			h("label", null, "Charts ", this.span));
	}

	async open() {
		this.fillBoxes();
		this.timer = setInterval(() => document.hidden || this.readCharts(), 15000);
		await Promise.all([this.readOlder(), this.readCharts()]);
	}

	close() {
		this.closed = true;
		this.detail.close();
		this.vlist.close();
		clearInterval(this.timer);
	}

	fillBoxes() {
		put(this.boxes, h("option", { value: "" }, "all"), ...this.app.boxOptions());
		if (this.filter.sandbox && !this.app.sandboxes.has(this.filter.sandbox))
			this.boxes.append(h("option", { value: this.filter.sandbox }, this.filter.sandbox));
		this.boxes.value = this.filter.sandbox;
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type === "ask.new" || e.type.startsWith("net.")))
			this.more();
		if (list.some((e) => e.type.startsWith("run.")))
			setTimeout(() => this.closed || this.fillBoxes(), 1000);
	}

	/* --- the rows --------------------------------------------------------------------------------------------------- */

	matches(row) {
		const f = this.filter;

		return (!f.sandbox || row.sandbox === f.sandbox) && (!f.host || row.host.toLowerCase().includes(f.host.toLowerCase())) &&
			(!f.decision || (f.decision === "deny" ? row.denied : row.decision === f.decision));
	}

	get isFiltered() {
		return Boolean(this.filter.sandbox || this.filter.decision || this.filter.host);
	}

	/** Applies the filter at once to the rows that were read; older ones that match are read from the gateway as one scrolls. */
	change(key, value) {
		this.filter[key] = value;
		this.shown = this.isFiltered ? this.rows.filter((r) => this.matches(r)) : this.rows;
		this.older = this.isFiltered ? this.next : undefined;
		this.serial = (this.serial ?? 0) + 1;
		this.reading = false;
		this.vlist.node.scrollTop = 0;
		this.draw();
		if (key === "sandbox")
			this.readCharts();
	}

	draw(added = 0) {
		const rows = this.isFiltered ? this.shown : this.rows, left = this.isFiltered ? this.older : this.next;

		this.vlist.set(rows, added);
		setText(this.state, rows.length || left !== null
			? `${this.isFiltered ? plural(rows.length, "event matches", "events match") : `${left === null ? "All " : ""}${plural(rows.length, "event", "events")}`}${left === null ? "" : "; scroll for older ones"}.`
			: this.isFiltered ? "Nothing matches." : "No sandbox has used the network yet.");
	}

	async readOlder() {
		const filtered = this.isFiltered, serial = this.serial;
		const before = filtered ? this.older : this.next;

		if (this.reading || before === null || this.rows.length >= KEEP)
			return;
		this.reading = true;
		try {
			const page = await get("/v1/egress", { limit: this.rows.length ? PAGE : FIRST, before, ...(filtered ? this.filter : {}) });

			// All rows are good under any filter; two that read the same of them leave it once.
			if (!this.closed && !filtered && before === this.next) {
				this.rows = this.rows.concat(page.items);
				this.next = page.next;
			}
			if (this.closed || serial !== this.serial)
				return;
			if (filtered) {
				this.shown = this.shown.concat(page.items);
				this.older = page.next;
			}
			this.failed = false;
			this.reading = false;
			this.draw();
		} catch (e) {
			if (!this.closed && serial === this.serial)
				setText(this.state, `The network events cannot be read: ${plain(e.message)}`);
			setTimeout(() => { this.reading = false; }, 2000);
		}
	}

	/** Those that came since. A filter has only to look at these. */
	async readNew() {
		if (this.next === undefined || this.closed)
			return;
		if (this.catching) {
			this.again = true;
			return;
		}
		this.catching = true;
		try {
			const page = await get("/v1/egress", { after: this.rows[0]?.seq ?? 0, limit: PAGE });
			const fresh = page.items.reverse();

			this.rows = fresh.concat(this.rows).slice(0, KEEP);
			if (this.isFiltered) {
				const some = fresh.filter((r) => this.matches(r));

				this.shown = some.concat(this.shown);
				this.draw(some.length);
			} else {
				this.draw(fresh.length);
			}
			this.again ||= page.next !== null;
		} catch {
			// the banner says that the gateway is away; the next event tries again
		}
		this.catching = false;
		if (this.again)
			this.more();
		this.again = false;
	}

	async readCharts() {
		try {
			const series = await get("/v1/series", { since: this.span.value, buckets: 60, sandbox: this.filter.sandbox });

			if (!this.closed) {
				const open = [...this.charts.querySelectorAll("details")].map((d) => d.open);

				put(this.charts, ...charts(series));
				this.charts.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
			}
		} catch (e) {
			if (!this.closed)
				put(this.charts, h("p", { class: "hint" }, `The charts cannot be drawn: ${plain(e.message)}`));
		}
	}

	/** The policy as it is now is asked about the same connection or request. */
	remedy(row) {
		const place = h("span", null, "…"), port = row.port && row.port !== 443 ? `:${row.port}` : "", host = urlHost(row.host ?? "");

		if (row.type === "net.refused")
			return "Nothing: only TCP leaves a sandbox, and coffer itself answers DNS.";
		if (!host)
			return "Nothing: no rule can name this host.";
		get(at("sandboxes", row.sandbox, "/explain"), { url: `https://${host}${port}${row.path ?? "/"}`, method: row.method ?? "GET" }).then((v) => {
			put(place, v.decision === "allow" ? "Nothing more: its policy allows it now."
				: [v.hint ? quote(v.hint.replace("allow it: --allow HOST[:PORT]", () => `coffer run --allow ${row.host}${port}`), 400) : "A rule of its policy denies it: change that rule.", " ", h("a", { href: `#/policy/${row.sandbox}` }, "Policy")]);
		}, (e) => put(place, `Its policy cannot be read: ${plain(e.message)}`));
		return place;
	}

	/** All that is known of one, and nothing cut. */
	facts(row) {
		const [word, tone] = decisionOf(row), text = (v) => quote(v, WHOLE), has = (v) => v !== null && v !== undefined && v !== "";
		const list = [
			["When", dated(Date.parse(row.time)), " ", h("span", { class: "hint" }, row.time)],
			["Sandbox", h("a", { href: `#/run/${row.sandbox}` }, name(this.app.nameOf(row.sandbox))), " ", h("span", { class: "hint" }, name(row.sandbox))],
			["Decision", word ? h("span", { class: `status ${tone}` }, word) : ""],
			["Host", isCount(row) ? moreText(row) : row.host && row.host !== "-" ? text(row.host) : ""],
			["Port", row.port],
			["Method", has(row.method) ? text(row.method) : ""],
			["Path", has(row.path) ? text(row.path) : ""],
			["What", has(row.what) ? text(row.what) : ""],
			["Why", has(row.why) ? text(row.why) : ""],
			["Rule", has(row.rule) ? text(row.rule) : ""],
			["Inspection", DEPTHS[row.depth] ?? (has(row.depth) ? text(row.depth) : "")],
			["Status", row.status],
			["Bytes", row.up !== null || row.down !== null ? `${count(row.up ?? 0)} out, ${count(row.down ?? 0)} in` : ""],
			["Duration", has(row.ms) ? `${count(row.ms)} ms` : ""],
			["Times", row.count > 1 ? `${count(row.count)}, logged as one event` : ""],
			["Connection", row.conn],
			["What would allow it", row.denied && !isCount(row) && row.type !== "net.alert" ? this.remedy(row) : ""],
			["Question", has(row.ask) ? [name(row.ask), " ", h("a", { href: "#/asks" }, "Asks")] : ""],
			["Number in the log", row.seq],
		];

		return list.filter(([, ...v]) => v.some(has)).map(([label, ...v]) => [label, ...v.map((x) => (typeof x === "number" ? String(x) : x))]);
	}

	fill(row, cells, node) {
		const [word, tone] = decisionOf(row);
		const where = row.method ? `${row.host}${row.path ?? ""}` : `${row.host}${row.port ? `:${row.port}` : ""}`;

		node.classList.toggle("bad", row.denied);
		cells[0].textContent = clock(Date.parse(row.time));
		cells[0].title = dated(Date.parse(row.time));
		put(cells[1], name(this.app.nameOf(row.sandbox)));
		put(cells[2], h("span", { class: `status ${tone}` }, word));
		cells[3].textContent = `${TYPES[row.type] ?? row.type}${row.count > 1 && !isCount(row) ? ` ×${count(row.count)}` : ""}`;
		if (isCount(row))
			put(cells[4], moreText(row));
		else
			put(cells[4], row.method ? quote(row.method, 12) : "", row.method ? " " : "", row.type === "net.response" && row.status ? `status ${row.status}` : quote(where, 200));
		cells[5].textContent = row.up !== null || row.down !== null ? `${bytes(row.up ?? 0)} out, ${bytes(row.down ?? 0)} in` : "";
		put(cells[6], row.why || row.rule ? quote(row.why || row.rule, 160) : "");
	}
}
