// SPDX-License-Identifier: Apache-2.0
// Questions that wait, oldest first, each sandbox in its turn, so that a sandbox with many does not hide one with few. A card stays in its place
// after its answer, so that nothing moves under a finger. Below them are all grants in force, and the latest answers.

import { at, get, post } from "./api.js";
import { AskCard, hasMoved, outcome, urlOf } from "./askcard.js";
import { h, plural, put, soon, table, timeOf } from "./dom.js";
import { name, plain, quote } from "./quote.js";
import { kindName } from "./story.js";

const CARDS = 50;
const EACH = 10;
const DONE = 20;
const RECENT = 20;
const PAGE = 1000;

/** All of a state: `pending`, or `all`. */
async function* asksOf(state) {
	let page = { next: undefined };

	do {
		page = await get("/v1/asks", { state, limit: PAGE, after: page.next });
		yield* page.items;
	} while (page.next !== null);
}

/** The order of the cards: the first of each sandbox, then the second of each, and so on. */
function inTurn(asks) {
	const lists = new Map(), out = [];

	for (const a of asks)
		lists.set(a.sandbox, [...(lists.get(a.sandbox) ?? []), a]);
	for (let i = 0; i < EACH; i++) {
		for (const list of lists.values())
			out.push(...list.slice(i, i + 1));
	}
	return out.slice(0, CARDS);
}

export class AsksView {
	static title = "Asks";

	constructor(app) {
		this.app = app;
		this.cards = new Map();
		this.current = null;
		this.list = h("ol", { class: "cards" });
		this.empty = h("p", { class: "empty" }, "Reading…");
		this.more = h("p", { class: "hint" });
		this.inForce = h("div", { class: "in-force" });
		this.recent = h("div", { class: "recent" });
		this.keys = (ev) => this.onKey(ev);
		this.refresh = soon(() => this.read(), 100);
		this.refreshAnswered = soon(() => this.readAnswered(), 1000);
		this.root = h("section", null,
			h("h1", null, "Questions that wait for you"),
			h("p", { class: "hint keys" }, h("kbd", null, "j"), " ", h("kbd", null, "k"), " next, previous · ", h("kbd", null, "a"), " then ", h("kbd", null, "Enter"), " allow · ",
				h("kbd", null, "d"), " then ", h("kbd", null, "Enter"), " deny · ", h("kbd", null, "Esc"), " cancel"),
			app.notice.node,
			this.empty, this.list, this.more,
			h("h2", null, "In force now"), this.inForce,
			h("h2", null, "Answered recently"), this.recent);
	}

	open() {
		document.addEventListener("keydown", this.keys);
		this.ticker = setInterval(() => this.tick(), 1000);
		return Promise.all([this.read(), this.readAnswered()]);
	}

	close() {
		document.removeEventListener("keydown", this.keys);
		clearInterval(this.ticker);
		this.closed = true;
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type.startsWith("ask.") || e.type === "run.end" || e.type === "policy.change"))
			this.changed();
	}

	changed() {
		this.refresh();
		this.refreshAnswered();
	}

	tick() {
		for (const c of this.cards.values())
			c.tick();
	}

	async read() {
		try {
			const all = [];

			for await (const a of asksOf("pending"))
				all.push(a);
			if (!this.closed)
				await this.show(all);
		} catch (e) {
			if (!this.closed && !this.cards.size)
				this.empty.textContent = `The questions cannot be read: ${plain(e.message)}`;
		}
	}

	/** Every one that is in force, however old; of the others the newest, which come last. */
	async readAnswered() {
		const held = [];
		let over = [];

		try {
			for await (const a of asksOf("all")) {
				if (this.closed)
					return;
				if (a.state === "granted" || a.state === "parked")
					held.push(a);
				else if (a.state !== "pending")
					over = [...over, a].slice(-RECENT);
			}
			this.showRows(this.inForce, held.reverse(), "No approval is in force.");
			this.showRows(this.recent, over.reverse(), "No question has been answered yet.");
		} catch {
			// told by the banner; the next event tries again
		}
	}

	async show(all) {
		const waiting = new Set(all.map((a) => a.id));

		for (const ask of all)
			this.cards.get(ask.id)?.update(ask);
		for (const ask of inTurn(all)) {
			if (!this.cards.has(ask.id))
				this.add(ask);
		}
		for (const [id, card] of this.cards) {
			if (!waiting.has(id) && card.waits)
				await this.settle(card);
		}
		this.forget();
		this.empty.hidden = this.cards.size > 0;
		this.empty.textContent = "No question waits. A question appears here when a sandbox does something for which a rule requires an approval.";
		this.tellMore(all.filter((a) => !this.cards.has(a.id)));
	}

	tellMore(hidden) {
		const boxes = new Map();

		for (const a of hidden)
			boxes.set(a.sandbox, (boxes.get(a.sandbox) ?? 0) + 1);
		const most = [...boxes].sort((a, b) => b[1] - a[1]).slice(0, 5);
		put(this.more, hidden.length ? [`${plural(hidden.length, "more waits", "more wait")} after these: `,
			most.map(([id, n], i) => [i ? ", " : "", name(this.app.nameOf(id)), ` ${n}`]), boxes.size > most.length ? ", and others." : "."] : "");
	}

	/** Those that were answered go in the end, the oldest first: else a flood of them would push others out of sight. */
	forget() {
		const done = [...this.cards].filter(([id, c]) => !c.waits && id !== this.current);

		for (const [id, card] of done.slice(0, Math.max(0, done.length - DONE))) {
			card.node.parentElement.remove();
			this.cards.delete(id);
			hasMoved();
		}
	}

	add(ask) {
		const card = new AskCard(ask, {
			role: this.app.you.role, now: () => this.app.now(), sandboxOf: (id) => this.app.sandboxes.get(id), said: (t) => this.app.announce(t),
		});

		this.cards.set(ask.id, card);
		this.list.append(h("li", null, card.node));
		this.app.announce("A question waits for an answer.");
		if (!this.app.sandboxes.has(ask.sandbox))
			this.app.readSandboxes().then(() => card.tellSandbox());
	}

	/** It no longer waits: answered elsewhere, or over. */
	async settle(card) {
		try {
			card.update(await get(at("asks", card.ask.id)));
		} catch {
			card.update({ ...card.ask, state: "gone" });
		}
	}

	/** A table, or a sentence where it would have no rows. */
	showRows(place, items, none) {
		const may = this.app.you.role !== "observer", isHeld = place === this.inForce;

		if (!items.length) {
			put(place, h("p", { class: "hint" }, none));
			return;
		}
		const rows = items.map((a) => h("tr", { "data-ask": a.id },
			isHeld ? h("td", null, may ? h("button", { type: "button", onclick: (ev) => this.revoke(ev.target, a) }, "Revoke") : "") : "",
			h("td", null, timeOf(Date.parse(a.asked))),
			h("td", null, h("a", { href: `#/run/${a.sandbox}` }, name(this.app.nameOf(a.sandbox)))),
			h("td", null, a.method ? [quote(a.method, 16), " "] : kindName(a.kind) ? `${kindName(a.kind)} ` : "", quote(urlOf(a) || a.what || a.kind, isHeld ? 300 : 120)),
			h("td", null, outcome(a), isHeld && a.expires ? ["; until ", timeOf(Date.parse(a.expires))] : "")));

		put(place, isHeld ? table("In force now", ["", "Asked", "Sandbox", "What", "Approval"], rows) : table("Answered recently", ["Asked", "Sandbox", "What", "Outcome"], rows));
	}

	async revoke(button, ask) {
		button.disabled = true;
		try {
			await post(at("asks", ask.id, "/revoke"), undefined);
		} catch (e) {
			this.app.announce(`Not revoked: ${plain(e.message)}`, true);
		}
		this.changed();
	}

	/* --- keys: never one alone ------------------------------------------------------------------------------------- */

	select(index) {
		const all = [...this.cards];

		if (!all.length)
			return;
		const [id, card] = all[Math.min(Math.max(index, 0), all.length - 1)];
		this.current = id;
		for (const [other, c] of all)
			c.node.classList.toggle("current", other === id);
		card.node.focus();
		card.node.scrollIntoView({ block: "nearest" });
	}

	/** The chosen question, while it waits. Otherwise only chooses the first that waits: the person who pressed has not read it. */
	aim() {
		const card = this.cards.get(this.current), next = [...this.cards.values()].findIndex((c) => c.waits);

		if (card?.waits)
			return card;
		if (next >= 0)
			this.select(next);
		return null;
	}

	onKey(ev) {
		if (ev.key === "Escape") {
			for (const c of this.cards.values())
				c.cancel();
			return;
		}
		if (ev.ctrlKey || ev.metaKey || ev.altKey || ev.repeat || ev.target.closest?.("input, select, textarea, form"))
			return;
		if (ev.key === "j" || ev.key === "k")
			this.select([...this.cards.keys()].indexOf(this.current) + (ev.key === "j" ? 1 : -1));
		else if (ev.key === "a")
			this.aim()?.choose();
		else if (ev.key === "d")
			this.aim()?.refuse();
		else
			return;
		ev.preventDefault();
	}
}
