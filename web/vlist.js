// SPDX-License-Identifier: Apache-2.0
// A table of any length of which only what can be seen is there: some dozens of rows, moved and filled as it scrolls.

import { h } from "./dom.js";

const OVERSCAN = 8;

export class VirtualList {
	/**
	 * columns: [{name, class}]; fill(row, cells): puts a row's contents into its cells.
	 * heightOf(): of a row, in pixels, as the style sheet has it now. onEnd(): the end is near.
	 */
	constructor({ label, columns, fill, heightOf, onEnd }) {
		this.columns = columns;
		this.fill = fill;
		this.heightOf = heightOf;
		this.onEnd = onEnd;
		this.rows = [];
		this.pool = [];
		this.pending = false;
		this.body = h("div", { class: "vbody", role: "rowgroup" });
		this.head = h("div", { class: "vrow vhead", role: "row", "aria-rowindex": 1 },
			columns.map((c) => h("div", { role: "columnheader", class: c.class }, c.name)));
		this.table = h("div", { role: "table", "aria-label": label, "aria-rowcount": 1 },
			h("div", { role: "rowgroup", class: "vheads" }, this.head), this.body);
		this.node = h("div", { class: "vlist", tabindex: 0, role: "region", "aria-label": `${label}, scrolls`, onscroll: () => this.redraw() }, this.table);
		this.sizes = new ResizeObserver(() => this.redraw());
		this.sizes.observe(this.node);
	}

	close() {
		this.sizes.disconnect();
	}

	/** `added`: so many were put before the first; what is looked at stays where it is, unless that is the top. */
	set(rows, added = 0) {
		const height = this.heightOf();

		this.rows = rows;
		this.body.style.height = `${rows.length * height}px`;
		this.table.setAttribute("aria-rowcount", String(rows.length + 1));
		if (added && this.node.scrollTop > height)
			this.node.scrollTop += added * height;
		this.stale = true;
		this.redraw();
	}

	redraw() {
		if (this.pending)
			return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			this.draw();
		});
	}

	makeRow() {
		const cells = this.columns.map((c) => h("div", { role: "cell", class: c.class }));
		const node = h("div", { class: "vrow", role: "row" }, cells);

		this.body.append(node);
		return { node, cells, row: null, index: -1 };
	}

	draw() {
		const height = this.heightOf(), top = this.node.scrollTop, view = this.node.clientHeight;
		const first = Math.max(0, Math.floor(top / height) - OVERSCAN);
		const last = Math.min(this.rows.length, Math.ceil((top + view) / height) + OVERSCAN);

		if (this.height !== height) {
			this.height = height;
			this.body.style.height = `${this.rows.length * height}px`;
			this.stale = true;
		}
		while (this.pool.length < last - first)
			this.pool.push(this.makeRow());
		// A row keeps its element while it is to be seen: index modulo the pool.
		const n = this.pool.length, used = new Set();
		for (let i = first; i < last; i++) {
			used.add(i % n);
			this.place(this.pool[i % n], i, height);
		}
		for (let k = 0; k < n; k++) {
			if (!used.has(k))
				this.pool[k].node.hidden = true;
		}
		this.stale = false;
		if (last >= this.rows.length - 50)
			this.onEnd?.();
	}

	place(slot, index, height) {
		const row = this.rows[index];

		slot.node.hidden = false;
		if (slot.index !== index || this.stale) {
			slot.index = index;
			slot.node.style.transform = `translateY(${index * height}px)`;
			slot.node.setAttribute("aria-rowindex", String(index + 2));
		}
		if (slot.row !== row) {
			slot.row = row;
			this.fill(row, slot.cells, slot.node);
		}
	}
}
