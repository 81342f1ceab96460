// SPDX-License-Identifier: Apache-2.0
// The gateway's health: its parts, their faults, and the remedies.

import { get } from "./api.js";
import { bytes, count, dated, h, plural, put, setText, soon, span, table } from "./dom.js";
import { name, plain, quote } from "./quote.js";

const EVERY = 10000;
const STATES = { up: "running", wait: "waits before its next start", starting: "starting", over: "ended for good" };

/** Sandboxes that cofferd was to keep going, and that it does not start again. */
export function gaveUp(gateway) {
	return (gateway?.sandboxes ?? []).filter((s) => s.state === "over" && (s.why || (s.exit ?? 0) !== 0));
}

function vaultText(v) {
	const state = { absent: "There is no vault.", locked: "Locked: coffer secret unlock asks for its passphrase.", unlocked: v.running ? `Open, used by ${plural(v.sandboxes ?? 0, "sandbox", "sandboxes")}.` : "Closed; its key is available." }[v.state];

	return [state ?? quote(v.state, 40), v.why ? [" It does not run: ", quote(v.why, 200)] : ""];
}

/** The faults that need a person: [fault, remedy]. */
function troubles(g) {
	return [
		g.replaced ? ["coffer was replaced since cofferd was started.", "coffer gateway reload"] : null,
		g.trouble ? [["Sandboxes with a restart policy are not restarted: ", quote(g.trouble, 300)], "coffer gateway status"] : null,
		g.database?.trouble ? [["The state of the gateway cannot be saved: ", quote(g.database.trouble, 300)], "df -h"] : null,
		g.database?.moved_aside ? [["A damaged database was moved to ", quote(g.database.moved_aside, 300), "; its history is lost."], null] : null,
		g.rotation?.locked ? ["A secret is due for rotation, but the vault needs its passphrase.", "coffer secret rotate --due"] : null,
		...(g.expiring ?? []).map((x) => [[`The secret `, name(x.secret), x.expired ? " has expired." : ` expires on ${plain(x.expires.slice(0, 10))}.`], `coffer secret rotate ${x.secret}`]),
		...g.helpers.map((x) => [[name(x.name), ` died ${plural(x.deaths, "time", "times")}: `, quote(x.why ?? "", 200)], null]),
		...gaveUp(g).map((s) => [[h("a", { href: `#/run/${s.id}` }, name(s.name ?? s.id)), " has ended and is not started again: ", quote(s.why ?? `${s.cause ?? "?"}, exit code ${s.exit}`, 200)], `coffer start ${s.name ?? s.id}`]),
	].filter(Boolean);
}

export class GatewayView {
	static title = "Gateway";

	constructor(app) {
		this.app = app;
		this.state = h("p", { class: "empty", role: "status" }, "Reading…");
		this.place = h("div");
		this.more = soon(() => this.read(), 1000);
		this.root = h("section", null, h("h1", null, "Gateway"), this.state, this.place);
	}

	open() {
		this.timer = setInterval(() => document.hidden || this.read(), EVERY);
		return this.read();
	}

	close() {
		this.closed = true;
		clearInterval(this.timer);
	}

	events(list) {
		if (list.some((e) => e.type === "gap" || e.type.startsWith("gateway.") || e.type.startsWith("run.") || e.type.startsWith("secret.")))
			this.more();
	}

	async read() {
		try {
			const [g, status] = await Promise.all([get("/v1/gateway"), get("/v1/status")]);

			if (!this.closed)
				this.show(g, status);
		} catch (e) {
			if (!this.closed)
				setText(this.state, `The gateway's health cannot be read: ${plain(e.message)}`);
		}
	}

	show(g, status) {
		const list = troubles(g), fact = (label, ...value) => [h("dt", null, label), h("dd", null, value)];

		this.state.className = `note ${list.length ? "bad" : "good"}`;
		setText(this.state, list.length ? `${plural(list.length, "thing needs", "things need")} attention.` : "Everything works.");
		put(this.place, list.length ? h("ul", { class: "rules troubles" }, list.map(([what, remedy]) => h("li", null, what, remedy ? [" ", h("code", null, plain(remedy, 120))] : ""))) : "",
			h("dl", { class: "facts" },
				fact("Version", `${plain(g.version, 40)}, process ${g.pid}`),
				fact("Up", `${span(g.uptime_s * 1000)}, since ${dated(Date.parse(g.started))}`, g.stays ? "" : "; it exits when it is idle"),
				fact("Addresses", status.listen.length ? status.listen.map((x, i) => [i ? ", " : "", quote(x, 80)]) : "only its own socket"),
				fact("Vault", vaultText(g.vault)),
				fact("Rotation", g.rotation?.next ? `next on ${dated(Date.parse(g.rotation.next))}` : "no secret is rotated by a command"),
				fact("Warm pool", `${plural(g.pool.ready, "sandbox", "sandboxes")} ready, ${count(g.pool.starting)} being made, ${bytes(g.pool.bytes)}`),
				g.database ? fact("Starts", `${plural(g.database.starts ?? 0, "start", "starts")}, ${count(g.database.crashes ?? 0)} after a crash`) : ""),
			h("h2", null, "Sandboxes with a restart policy"), this.kept(g));
	}

	kept(g) {
		if (!g.sandboxes.length)
			return h("p", { class: "hint" }, "None. coffer run -d --name NAME --restart on-failure -- COMMAND starts one.");
		return table("Sandboxes with a restart policy", ["Sandbox", "Policy", "State", "Restarts", "Last end"], g.sandboxes.map((s) => h("tr", null,
			h("td", null, h("a", { href: `#/run/${s.id}` }, name(s.name ?? s.id))), h("td", null, name(s.restart)),
			h("td", null, STATES[s.state] ?? name(s.state), s.why ? [": ", quote(s.why, 200)] : ""), h("td", { class: "number" }, count(s.restarts)),
			h("td", null, s.cause ? [name(s.cause), `, exit code ${s.exit}`] : "–"))));
	}
}
