// SPDX-License-Identifier: Apache-2.0
// The secrets of the vault: where each may be sent, how old it is, and when it was used last. No value ever reaches this page.

import { get } from "./api.js";
import { h, plural, put, setText, soon, span, table, timeOf } from "./dom.js";
import { name, plain, quote } from "./quote.js";

const HEADS = ["Name", "Sent to", "Value set", "Expires", "Last used", "Note"];
const NONE = {
	none: "There is no vault yet. coffer secret set NAME stores the first secret in it.",
	locked: "The vault has a passphrase, so its secrets cannot be listed here: coffer secret ls asks for it in a terminal.",
	open: "The vault is empty. coffer secret set NAME stores a secret in it.",
};

function bindings(secret) {
	if (!secret.bindings.length && secret.profile)
		return h("span", { class: "hint" }, "to the host that the profile ", name(secret.profile), " names (coffer run --profile)");
	if (!secret.bindings.length)
		return h("span", { class: "hint" }, "nowhere until it is bound: coffer secret bind");
	return secret.bindings.map((b, i) => [i ? h("br") : "", quote(`${b.host}${b.port === 443 ? "" : `:${b.port}`}${b.path === "/" ? "" : b.path}`, 200), h("span", { class: "hint" }, ` as ${plain(b.as, 80)}`)]);
}

function notes(secret) {
	const list = [secret.expired ? "expired" : "", secret.due ? "due for rotation" : "", secret.weak ? "weak: it is short" : "", secret.rotate_every ? `rotated every ${span(secret.rotate_every * 1000)}` : ""];

	return list.filter(Boolean).join(", ");
}

export class SecretsView {
	static title = "Secrets";

	constructor(app) {
		this.app = app;
		this.state = h("p", { class: "empty", role: "status" }, "Reading…");
		this.place = h("div");
		this.more = soon(() => this.read(), 1000);
		this.root = h("section", null, h("h1", null, "Secrets"),
			h("p", { class: "hint" }, "A sandbox that uses a secret has only a placeholder. coffer replaces it by the value in requests to the hosts below, and never shows the value."), this.state, this.place);
	}

	open() {
		return this.read();
	}

	close() {
		this.closed = true;
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type.startsWith("secret.")))
			this.more();
	}

	async read() {
		try {
			const all = await get("/v1/secrets");

			if (!this.closed)
				this.show(all);
		} catch (e) {
			if (!this.closed)
				setText(this.state, `The secrets cannot be listed: ${plain(e.message)}`);
		}
	}

	show(all) {
		this.state.hidden = all.items.length > 0;
		setText(this.state, NONE[all.vault] ?? NONE.open);
		put(this.place, all.items.length ? table("Secrets", HEADS, all.items.map((s) => this.row(s, all.searched_all))) : "",
		all.items.length ? h("p", { class: "hint" }, plural(all.items.length, "secret", "secrets"), ". To change one: coffer secret set, rotate, bind, rm.") : "");
	}

	row(s, searchedAll) {
		const day = (text) => timeOf(Date.parse(text));

		return h("tr", { class: s.expired ? "bad" : "", "data-secret": s.name },
			h("td", null, name(s.name)), h("td", null, bindings(s)),
			h("td", null, day(s.changed), h("span", { class: "hint" }, ` ${span(this.app.now() - Date.parse(s.changed))} ago`)),
			h("td", null, s.expires ? day(s.expires) : "never"),
			h("td", null, s.used ? [day(s.used.time), " by ", h("a", { href: `#/run/${encodeURIComponent(s.used.sandbox)}` }, name(this.app.nameOf(s.used.sandbox))), s.used.host ? [" for ", quote(s.used.host, 80)] : ""]
				: searchedAll ? "never" : "not recently"),
			h("td", null, notes(s)));
	}
}
