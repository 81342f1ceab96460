// SPDX-License-Identifier: Apache-2.0
// Events of the log as they come (GET /v1/events). Not EventSource: that cannot tell why it ended, cannot receive types that were
// not named to it before, and cannot send a credential. After each end of the connection it continues from Last-Event-ID.

import { credential } from "./api.js";

const SILENCE = 45000; // three of the server's heartbeats
const WAITS = [250, 500, 1000, 2000, 4000];
const BATCH = 200;

/** Takes text in pieces; calls fn with {id, event, data} for each whole event. */
export class EventParser {
	constructor(fn) {
		this.fn = fn;
		this.rest = "";
		this.now = {};
	}

	take(text) {
		const lines = (this.rest + text).split("\n");

		this.rest = lines.pop();
		for (const line of lines)
			this.line(line);
	}

	line(line) {
		if (line === "") {
			if (this.now.data !== undefined)
				this.fn(this.now);
			this.now = {};
			return;
		}
		const colon = line.indexOf(":");
		if (colon > 0)
			this.now[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
	}
}

export class Feed {
	/** onEvents(list) some times a second, onState("live" | "lost" | "signed out"). */
	constructor(onEvents, onState) {
		this.onEvents = onEvents;
		this.onState = onState;
		this.last = 0;
		this.tries = 0;
		this.batch = [];
		this.timer = 0;
		this.stopped = false;
		addEventListener("online", () => this.hurry());
		document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
	}

	start(after) {
		this.last = after;
		this.run();
	}

	stop() {
		this.stopped = true;
		this.abort?.abort();
	}

	hurry() {
		this.wake?.();
	}

	async run() {
		while (!this.stopped) {
			const state = await this.once();

			if (this.stopped)
				return;
			this.onState(state);
			if (state === "signed out")
				return;
			await new Promise((done) => {
				this.wake = done;
				setTimeout(done, WAITS[Math.min(this.tries, WAITS.length - 1)]);
			});
			this.tries += 1;
		}
	}

	/** One connection, until it ends. One that lived is not held against the next. */
	async once() {
		let quiet = 0;
		const listen = () => {
			clearTimeout(quiet);
			quiet = setTimeout(() => this.abort.abort(), SILENCE);
		};

		this.abort = new AbortController();
		listen();
		try {
			const r = await fetch("/v1/events", {
				headers: { ...credential(), "Last-Event-ID": String(this.last) }, credentials: "omit", cache: "no-store", signal: this.abort.signal,
			});

			if (r.status === 401)
				return "signed out";
			if (!r.ok)
				return "lost";
			await this.read(r, listen).finally(() => {
				if (performance.now() - this.began > 5000)
					this.tries = 0;
			});
		} catch {
			// told by the state
		} finally {
			clearTimeout(quiet);
		}
		return "lost";
	}

	async read(response, listen) {
		const reader = response.body.getReader(), utf8 = new TextDecoder();
		const parser = new EventParser((e) => this.take(e));

		this.began = performance.now();
		this.onState("live");
		for (;;) {
			const { done, value } = await reader.read();

			if (done)
				return;
			listen();
			parser.take(utf8.decode(value, { stream: true }));
		}
	}

	take(e) {
		try {
			const ev = JSON.parse(e.data);

			if (e.id !== undefined)
				this.last = Number(e.id);
			this.batch.push(e.event === "gap" ? { type: "gap" } : ev);
		} catch {
			return;
		}
		if (!this.timer)
			this.timer = setTimeout(() => this.flush(), BATCH);
	}

	flush() {
		const events = this.batch;

		this.timer = 0;
		this.batch = [];
		this.onEvents(events);
	}
}
