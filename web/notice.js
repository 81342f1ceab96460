// SPDX-License-Identifier: Apache-2.0
// Signs for a person who looks at another page: a mark on the tab's icon, and a notification of the browser where the person turned
// that on here. A notification has only our own words and the sandbox's name: text of an agent would be shown outside of the page,
// where nothing distinguishes it from ours.

import { h, plural, put } from "./dom.js";
import { plain } from "./quote.js";

const KEY = "coffer-notify";
const PAUSE = 10000; // a flood of questions is one notification, again after this

export class Notice {
	/** namesOf(id): the sandbox's name for people. */
	constructor(namesOf) {
		this.namesOf = namesOf;
		this.fresh = new Set();
		this.last = -PAUSE;
		this.timer = 0;
		this.total = 0;
		this.node = h("p", { class: "hint notify" });
		this.draw();
	}

	/** "on", "off", or why it cannot be: "missing", "insecure", "denied". */
	state() {
		if (!globalThis.isSecureContext)
			return "insecure";
		if (!("Notification" in globalThis) || this.isMissing)
			return "missing";
		if (Notification.permission === "denied")
			return "denied";
		return Notification.permission === "granted" && sessionStorage.getItem(KEY) === "on" ? "on" : "off";
	}

	draw() {
		const state = this.state(), button = (text) => h("button", { type: "button", onclick: () => this.toggle() }, text);

		put(this.node, state === "off" ? button("Notify me of new questions")
			: state === "on" ? ["This browser notifies you of a new question while this tab is not in front. ", button("Turn notifications off")]
				: state === "denied" ? "The browser blocks notifications for this address: allow them in its settings for this site."
					: state === "insecure" ? "Notifications need an address that the browser trusts: 127.0.0.1 on this machine, or https."
						: "This browser cannot show notifications of web pages.");
	}

	/** Only a press asks the browser for permission. */
	async toggle() {
		if (this.state() === "on")
			sessionStorage.removeItem(KEY);
		else if (await Notification.requestPermission() === "granted")
			sessionStorage.setItem(KEY, "on");
		this.draw();
		this.node.querySelector("button")?.focus();
	}

	heard(events) {
		for (const e of events) {
			if (e.type === "ask.new" && e.sandbox)
				this.fresh.add(e.sandbox);
		}
	}

	/** So many wait now. */
	count(total) {
		this.total = total;
		document.querySelector("link[rel=icon]").href = total ? "/icon-waits.svg" : "/icon.svg";
		if (!total) {
			this.fresh.clear();
			this.shown?.close();
		} else if (this.fresh.size) {
			this.timer ||= setTimeout(() => this.show(), Math.max(0, this.last + PAUSE - performance.now()));
		}
	}

	isLookedAt() {
		return document.visibilityState === "visible" && document.hasFocus();
	}

	show() {
		const boxes = [...this.fresh];

		this.timer = 0;
		this.fresh.clear();
		if (!this.total || !boxes.length || this.state() !== "on" || this.isLookedAt())
			return;
		this.last = performance.now();
		try {
			this.shown = new Notification(`${plural(this.total, "question waits", "questions wait")} for you`, {
				body: `Asked by ${boxes.slice(0, 3).map((id) => plain(this.namesOf(id), 40)).join(", ")}${boxes.length > 3 ? " and others" : ""}.`, icon: "/icon-waits.svg", tag: "coffer-asks", renotify: true,
			});
			this.shown.addEventListener("click", () => {
				globalThis.focus();
				location.hash = "#/asks";
				this.shown.close();
			});
		} catch {
			// Browsers of phones want a worker for it, which this page has none of.
			this.isMissing = true;
			this.draw();
		}
	}
}
