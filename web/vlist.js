// SPDX-License-Identifier: Apache-2.0
// A table of any length of which only the visible part exists: some dozens of rows, moved and filled as it scrolls.

import { h } from "./dom.js";

const OVERSCAN = 8;

export class VirtualList {
	/**
	 * columns: [{name, class}]; fill(row, cells): puts a row's contents into its cells.
	 * heightOf(): of a row, in pixels, as the style sheet has it now. onEnd(): the end is near. onOpen(row), where there is more to see of one: it
	 * was pressed, or Enter or Space upon it. Then rows can be walked by arrows, and one of them is on the way of Tab.
	 */
	constructor({ label, columns, fill, heightOf, onEnd, onOpen }) {
		this.columns = columns;
		this.fill = fill;
		this.heightOf = heightOf;
		this.onEnd = onEnd;
		this.onOpen = onOpen;
		this.current = null; // the row that arrows go from
		this.rows = [];
		this.pool = [];
		this.pending = false;
		this.body = h("div", { class: "vbody", role: "rowgroup", onclick: onOpen && ((ev) => this.press(ev)) });
		this.head = h("div", { class: "vrow vhead", role: "row", "aria-rowindex": 1 },
			columns.map((c) => h("div", { role: "columnheader", class: c.class }, c.name)));
		this.table = h("div", { role: onOpen ? "grid" : "table", "aria-label": label, "aria-rowcount": 1 },
			h("div", { role: "rowgroup", class: "vheads" }, this.head), this.body);
		this.node = h("div", { class: "vlist", tabindex: 0, role: "region", "aria-label": `${label}, scrolls`, onscroll: () => this.redraw(),
			onkeydown: onOpen && ((ev) => this.key(ev)) }, this.table);
		this.sizes = new ResizeObserver(() => this.redraw());
		this.sizes.observe(this.node);
	}

	close() {
		this.sizes.disconnect();
	}

	/**
	 * `added`: the number of rows that were put before the first. The visible rows stay where they are, unless the list is at its top; a row that
	 * has the focus is not pushed out of sight there either.
	 */
	set(rows, added = 0) {
		const height = this.heightOf(), hold = this.hasFocus() && this.isSeen(this.rows.indexOf(this.current)), at = rows.indexOf(this.current);

		this.rows = rows;
		this.body.style.height = `${rows.length * height}px`;
		this.table.setAttribute("aria-rowcount", String(rows.length + 1));
		if (added && this.node.scrollTop > height)
			this.node.scrollTop += added * height;
		if (hold && at >= 0)
			this.reveal(at);
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
		const cells = this.columns.map((c) => h("div", { role: this.onOpen ? "gridcell" : "cell", class: c.class }));
		const node = h("div", { class: "vrow", role: "row", tabindex: this.onOpen ? -1 : null }, cells);

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
		const n = this.pool.length, used = new Set(), hadFocus = this.hasFocus();
		for (let i = first; i < last; i++) {
			used.add(i % n);
			this.place(this.pool[i % n], i, height);
		}
		for (let k = 0; k < n; k++) {
			if (!used.has(k))
				this.pool[k].node.hidden = true;
		}
		this.stale = false;
		// The focus moves with its row, and no other row has it when that one has scrolled away.
		if (hadFocus)
			this.upon();
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
		if (this.onOpen)
			slot.node.tabIndex = row === this.current ? 0 : -1;
	}

	/* --- one of them ------------------------------------------------------------------------------------------------ */

	press(ev) {
		const slot = this.pool.find((s) => s.node === ev.target.closest(".vrow"));

		// A press that marks text, to copy it, does not open the row.
		if (!slot || !getSelection().isCollapsed)
			return;
		this.current = slot.row;
		this.redraw();
		this.onOpen(slot.row);
	}

	/** Whether the keyboard is upon a row, not upon the list as a whole. */
	hasFocus() {
		return this.onOpen && this.pool.some((s) => s.node === document.activeElement);
	}

	/** Whether any part of a row is in sight. */
	isSeen(index) {
		const top = this.node.scrollTop;

		return index >= 0 && (index + 1) * this.height > top && index * this.height < top + this.node.clientHeight;
	}

	/** Scrolls as little as it takes to have a row in sight. The head, with its border, stays above the rows and takes its part of the visible height. */
	reveal(index) {
		const head = this.body.getBoundingClientRect().top - this.node.getBoundingClientRect().top - this.node.clientTop + this.node.scrollTop;
		const top = index * this.height, bottom = top + this.height + head;

		if (top < this.node.scrollTop)
			this.node.scrollTop = top;
		else if (bottom > this.node.scrollTop + this.node.clientHeight)
			this.node.scrollTop = bottom - this.node.clientHeight;
	}

	/** The keyboard is upon the current row, or, where that cannot be seen, upon the list. */
	upon() {
		const node = this.pool.find((s) => !s.node.hidden && s.row === this.current)?.node ?? this.node;

		if (node !== document.activeElement)
			node.focus({ preventScroll: true });
	}

	focus() {
		this.draw();
		this.upon();
	}

	key(ev) {
		const onRow = ev.target !== this.node, page = Math.max(1, Math.floor(this.node.clientHeight / this.height) - 2);
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[ev.key];

		if (ev.altKey || ev.ctrlKey || ev.metaKey || !this.rows.length)
			return;
		if (onRow && (ev.key === "Enter" || ev.key === " ")) {
			ev.preventDefault();
			this.onOpen(this.current);
		} else if (step !== undefined) {
			ev.preventDefault();
			this.walk(step);
		}
	}

	/** From the current row where that can be seen, else from the first that can. */
	walk(step) {
		const at = this.rows.indexOf(this.current);
		const from = this.isSeen(at) ? at + step : Number.isFinite(step) ? Math.ceil(this.node.scrollTop / this.height) : step;
		const to = Math.min(this.rows.length - 1, Math.max(0, from));

		this.current = this.rows[to];
		this.reveal(to);
		this.focus();
	}
}
