// SPDX-License-Identifier: Apache-2.0
// One row in full, over the page. Escape, its button or a press beside it close it; the keyboard stays inside as long as it is open (that is
// the browser's part: a modal dialog).

import { h, newId, put } from "./dom.js";

export class Detail {
	/** onClose(): the dialog is closed, and the element under it may have the keyboard again. */
	constructor(onClose) {
		const id = newId("detail");

		this.title = h("h2", { id });
		this.facts = h("dl", { class: "facts" });
		this.node = h("dialog", { class: "detail", "aria-labelledby": id, onclick: (ev) => ev.target === this.node && this.node.close(), onclose: () => onClose() },
			h("div", { class: "in" }, h("header", null, this.title, h("button", { type: "button", onclick: () => this.node.close() }, "Close")),
				h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-labelledby": id }, this.facts)));
	}

	/** facts: [[name, value]] */
	show(title, facts) {
		put(this.title, title);
		put(this.facts, ...facts.map(([label, ...value]) => [h("dt", null, label), h("dd", null, value)]));
		if (!this.node.open)
			this.node.showModal();
	}

	close() {
		this.node.close();
		this.node.remove();
	}
}
