// SPDX-License-Identifier: Apache-2.0
// A real browser for tests/lib/browser.py: one JSON object a line on stdin, {"id", "op", …}, one answer a line on stdout,
// {"id", "ok"} or {"id", "error"}. Everything that the page asked for, complained about or opened is written down.
//
//   node driver.mjs NODE_MODULES CHROMIUM

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, program] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const axe = readFileSync(`${modules}/axe-core/axe.min.js`, "utf8");

const seen = { requests: [], console: [], errors: [], dialogs: 0, violations: [] };
const browser = await chromium.launch({
	executablePath: program, headless: true,
	args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
});
let context, page, held = gate();

function gate() {
	let release;

	return { promise: new Promise((done) => (release = done)), release };
}

// In the page before any of its scripts.
function watch() {
	globalThis.violations = [];
	document.addEventListener("securitypolicyviolation", (e) => globalThis.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
	globalThis.longest = 0;
	new PerformanceObserver((list) => {
		for (const e of list.getEntries())
			globalThis.longest = Math.max(globalThis.longest, e.duration);
	}).observe({ entryTypes: ["longtask"] });
}

const ops = {
	async open({ url, width = 1280, height = 800, scheme = "light", touch = false }) {
		await context?.close();
		context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, hasTouch: touch, isMobile: touch });
		context.setDefaultTimeout(120000);
		context.on("request", (r) => seen.requests.push(r.url()));
		page = await context.newPage();
		page.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
		page.on("pageerror", (e) => seen.errors.push(String(e.stack ?? e)));
		page.on("dialog", (d) => {
			seen.dialogs += 1;
			d.dismiss();
		});
		await page.addInitScript(watch);
		await page.goto(url);
	},
	/** Another view: once this is done, the one before it has gone. */
	go: ({ hash }) => page.evaluate((to) => new Promise((done) => {
		if (location.hash === to)
			done();
		addEventListener("hashchange", () => setTimeout(done), { once: true });
		location.hash = to;
	}), hash),
	/** Loads the page anew with a browser that shows no notifications but writes them down, and asks nobody: globalThis.mayNotify is the answer. */
	async notifications() {
		await page.addInitScript(() => {
			Object.assign(globalThis, { notified: [], asked: 0, mayNotify: false });
			globalThis.Notification = class extends EventTarget {
				static permission = "default";

				static async requestPermission() {
					globalThis.asked += 1;
					return (this.permission = globalThis.mayNotify ? "granted" : "default");
				}

				constructor(title, options) {
					super();
					this.row = { title, ...options, closed: false };
					globalThis.notified.push(this.row);
				}

				close() {
					this.row.closed = true;
				}
			};
		});
		await page.reload();
	},
	reload: () => page.reload(),
	size: ({ width, height }) => page.setViewportSize({ width, height }),
	scheme: ({ scheme }) => page.emulateMedia({ colorScheme: scheme }),
	wait: ({ selector, state = "visible", seconds = 120 }) => page.locator(selector).first().waitFor({ state, timeout: seconds * 1000 }),
	/** Asked from here again and again: the page's policy would not let it evaluate a text by itself. */
	async until({ js, seconds = 120 }) {
		for (const end = Date.now() + seconds * 1000; ;) {
			const got = await page.evaluate(js);

			if (got || Date.now() > end)
				return got || Promise.reject(new Error(`not within ${seconds} s; the page: ${(await page.locator("main").innerText()).slice(0, 1500)}`));
			await new Promise((done) => setTimeout(done, 100));
		}
	},
	click: ({ selector }) => page.locator(selector).first().click(),
	tap: ({ selector }) => page.locator(selector).first().tap(),
	fill: ({ selector, value }) => page.locator(selector).first().fill(value),
	select: ({ selector, value }) => page.locator(selector).first().selectOption(value),
	press: ({ key }) => page.keyboard.press(key),
	text: ({ selector }) => page.locator(selector).first().innerText(),
	texts: ({ selector }) => page.locator(selector).allInnerTexts(),
	count: ({ selector }) => page.locator(selector).count(),
	box: ({ selector }) => page.locator(selector).first().boundingBox(),
	type: ({ text }) => page.keyboard.type(text),
	/** The page cannot reach these until they are free again. */
	block: ({ pattern }) => page.route(pattern, (r) => r.abort()),
	free: ({ pattern }) => page.unroute(pattern),
	/** The page's requests for these wait for `release`, which returns when the page has taken the response to the first. */
	hold: ({ pattern }) => page.route(pattern, (r) => held.promise.then(() => r.continue())),
	async release({ pattern }) {
		const response = page.waitForResponse(pattern);

		held.release();
		await (await response).finished();
		await page.evaluate(() => new Promise((done) => setTimeout(done, 100)));
		await page.unroute(pattern);
		held = gate();
	},
	js: ({ js }) => page.evaluate(js),
	shot: ({ path, full = false }) => page.screenshot({ path, fullPage: full }).then(() => null),
	async axe() {
		const result = await page.evaluate(`${axe};0`).then(() => page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] })));

		return result.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`) }));
	},
	async seen() {
		return { ...seen, violations: await page.evaluate(() => globalThis.violations), longest: await page.evaluate(() => globalThis.longest) };
	},
};

for await (const line of createInterface({ input: process.stdin })) {
	const { id, op, ...args } = JSON.parse(line);

	try {
		process.stdout.write(`${JSON.stringify({ id, ok: (await ops[op](args)) ?? null })}\n`);
	} catch (e) {
		process.stdout.write(`${JSON.stringify({ id, error: String(e.message ?? e) })}\n`);
	}
}
await browser.close();
