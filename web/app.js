// SPDX-License-Identifier: Apache-2.0
// The page: signing in, the frame around the views, and which one is shown (the part of the address after #).

import { get, keepSession, post, remove, whenSignedOut } from "./api.js";
import { count, h, put, setText, soon, zone } from "./dom.js";
import { Feed } from "./feed.js";
import { Notice } from "./notice.js";
import { plain, typedOf } from "./quote.js";
import { AsksView } from "./view_asks.js";
import { AuditView } from "./view_audit.js";
import { EgressView } from "./view_egress.js";
import { GatewayView } from "./view_gateway.js";
import { PolicyView } from "./view_policy.js";
import { RunView } from "./view_run.js";
import { SandboxesView } from "./view_sandboxes.js";
import { SecretsView } from "./view_secrets.js";

const ROUTES = {
	asks: AsksView, sandboxes: SandboxesView, network: EgressView, policy: PolicyView, secrets: SecretsView, audit: AuditView, gateway: GatewayView, run: RunView,
};
const NAV = ["asks", "sandboxes", "network", "policy", "secrets", "audit", "gateway"];

class App {
	constructor() {
		this.sandboxes = new Map();
		this.skew = 0;
		this.main = document.getElementById("main");
		this.banner = document.getElementById("banner");
		this.live = document.getElementById("live");
		this.nav = document.getElementById("nav");
		this.who = document.getElementById("who");
		document.querySelector(".skip").addEventListener("click", (ev) => {
			ev.preventDefault();
			this.main.focus();
		});
		this.notice = new Notice((id) => this.nameOf(id));
		this.recount = soon(() => this.countAsks(), 150);
		this.reread = soon(() => this.readSandboxes(), 300);
	}

	/** The gateway's time, about. */
	now() {
		return Date.now() + this.skew;
	}

	nameOf(id) {
		return this.sandboxes.get(id)?.name ?? id;
	}

	/** Options of a list to choose from. One without a name is known by its command; an id alone says nothing to a person. */
	boxOptions() {
		return [...this.sandboxes.values()].map((s) => h("option", { value: s.id }, plain(s.name ?? `${typedOf(s)} (${s.id})`, 80)));
	}

	/** Said to a screen reader; shown too when it is a failure. */
	announce(text, isFailure = false) {
		this.live.textContent = text;
		if (isFailure)
			this.showBanner(text, "bad");
	}

	showBanner(text, tone = "") {
		this.banner.className = tone;
		this.banner.hidden = !text;
		setText(this.banner, text ?? "");
	}

	/* --- beginning ------------------------------------------------------------------------------------------------- */

	async start() {
		whenSignedOut(() => this.signedOut());
		try {
			await this.signIn();
			const before = Date.now(), status = await get("/v1/status");

			this.you = status.you;
			this.skew = Date.parse(status.started) + status.uptime_s * 1000 + 500 - (before + Date.now()) / 2;
			if (Math.abs(this.skew) < 1500)
				this.skew = 0;
			await this.begin();
		} catch (e) {
			if (e.status !== 401)
				this.cannot(e);
		}
	}

	/** The code that `coffer ui` printed becomes a session of this tab; the address is cleaned at once. */
	async signIn() {
		const code = new URLSearchParams(location.hash.slice(1)).get("login");

		if (!code)
			return;
		history.replaceState(null, "", "/#/asks");
		keepSession(null);
		this.isLink = true;
		keepSession((await post("/v1/session", { code })).session);
		this.isLink = false;
	}

	async begin() {
		const [last] = (await get("/v1/audit", { limit: 1 })).items;

		this.drawFrame();
		await Promise.all([this.readSandboxes(), this.countAsks()]);
		this.feed = new Feed((list) => this.events(list), (state) => this.connection(state));
		this.feed.start(last?.seq ?? 0);
		addEventListener("hashchange", () => this.route());
		this.route();
	}

	drawFrame() {
		put(this.who, h("span", null, `${this.you.name}, ${this.you.role}`), " ", h("button", { type: "button", class: "quiet", onclick: () => this.leave() }, "Sign out"));
		this.links = new Map(NAV.map((key) => [key, h("a", { href: `#/${key}` }, ROUTES[key].title)]));
		this.badge = h("span", { class: "badge", hidden: true });
		this.links.get("asks").append(" ", this.badge);
		put(this.nav, h("ul", null, [...this.links.values()].map((a) => h("li", null, a))));
		this.nav.hidden = false;
		setText(document.getElementById("foot"), `Times are in the time zone of this browser, ${zone()}.`);
	}

	async leave() {
		try {
			await remove("/v1/session");
		} finally {
			this.signedOut();
		}
	}

	signedOut() {
		if (this.isOut)
			return;
		this.isOut = true;
		keepSession(null);
		this.feed?.stop();
		this.view?.close();
		this.nav.hidden = true;
		put(this.who);
		this.showBanner("");
		document.title = "Cofferdam";
		this.notice.count(0);
		put(this.main, h("section", { class: "out" }, h("h1", null, "You are signed out"),
			h("p", null, this.isLink ? "This link was used already or is older than two minutes." : "A session lasts twelve hours."),
			h("p", null, "To sign in again, run this command on the machine and open the address that it prints, which works once, within two minutes:"),
			h("pre", null, "coffer ui"),
			h("p", { class: "hint" }, "On a phone: give the gateway an address that the phone can reach, over a tunnel or in a private network (coffer gateway start --listen).")));
	}

	cannot(e) {
		put(this.main, h("section", { class: "out" }, h("h1", null, "The gateway does not respond"), h("p", null, plain(e.message)), e.hint ? h("p", { class: "hint" }, plain(e.hint)) : "",
			h("button", { type: "button", onclick: () => location.reload() }, "Try again")));
	}

	/* --- going on -------------------------------------------------------------------------------------------------- */

	route() {
		const [key, arg] = location.hash.replace(/^#\//, "").split("/");
		const View = Object.hasOwn(ROUTES, key) ? ROUTES[key] : AsksView;

		if (this.isOut)
			return;
		this.view?.close();
		this.view = new View(this, /^[\w.-]{1,64}$/.test(arg ?? "") ? arg : undefined);
		for (const [k, a] of this.links) {
			if (ROUTES[k] === View)
				a.setAttribute("aria-current", "page");
			else
				a.removeAttribute("aria-current");
		}
		put(this.main, this.view.root);
		this.title();
		this.view.open();
		scrollTo(0, 0);
		this.main.focus({ preventScroll: true });
	}

	title() {
		document.title = `${this.pending ? `(${this.pending}) ` : ""}${this.view?.constructor.title ?? ""} – Cofferdam`;
	}

	events(list) {
		this.notice.heard(list);
		if (list.some((e) => e.type === "gap" || e.type.startsWith("run.")))
			this.reread();
		if (list.some((e) => e.type === "gap" || e.type.startsWith("ask.") || e.type === "run.end"))
			this.recount();
		this.view?.events?.(list);
	}

	connection(state) {
		if (state === "signed out") {
			this.signedOut();
			return;
		}
		if (state === "live") {
			if (this.wasLost) {
				this.announce("Connected again.");
				this.events([{ type: "gap" }]);
			}
			this.showBanner("");
		} else {
			this.showBanner("The connection to the gateway is lost. The page tries again; until then its content may be out of date.", "bad");
		}
		this.wasLost = state !== "live";
	}

	async countAsks() {
		try {
			const page = await get("/v1/asks", { limit: 1 });

			this.pending = page.total;
			this.badge.hidden = !page.total;
			put(this.badge, count(page.total), h("span", { class: "hidden" }, page.total === 1 ? " waits" : " wait"));
			this.title();
			this.notice.count(page.total);
		} catch {
			// told by the banner
		}
	}

	async readSandboxes() {
		try {
			const page = await get("/v1/sandboxes", { all: true, limit: 1000 });

			this.sandboxes = new Map(page.items.map((s) => [s.id, s]));
		} catch {
			// names stay ids
		}
	}
}

new App().start();
