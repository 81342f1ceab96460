// SPDX-License-Identifier: Apache-2.0
// Elements, made one by one. There is no other way to make any in this page: no markup is ever parsed (the policy that
// coffer-web sends along forbids it to the browser, too). Strings given to h() are this page's own words; text
// from a sandbox is put in by quote().

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected"]);

function apply(e, props) {
	for (const [key, value] of Object.entries(props ?? {})) {
		if (value === undefined || value === null || (value === false && !PROPERTIES.has(key)))
			continue;
		if (key.startsWith("on"))
			e.addEventListener(key.slice(2), value);
		else if (PROPERTIES.has(key))
			e[key] = value;
		else
			e.setAttribute(key, value === true ? "" : String(value));
	}
}

export function h(tag, props, ...kids) {
	const e = document.createElement(tag);
	apply(e, props);
	e.append(...kids.flat(Infinity).filter((k) => k !== null && k !== undefined && k !== false));
	return e;
}

export function svg(tag, props, ...kids) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
	apply(e, props);
	e.append(...kids.flat(Infinity).filter((k) => k !== null && k !== undefined));
	return e;
}

/** Replaces the contents of an element: by nodes, our own words, lists of them, or nothing. */
export function put(e, ...kids) {
	e.replaceChildren(...kids.flat(Infinity).filter((k) => k !== null && k !== undefined && k !== false && k !== ""));
}

/** A table that scrolls by itself where the page is narrower. A head of "" is a column without one. */
export function table(label, heads, rows) {
	for (const row of rows)
		[...row.cells].forEach((cell, i) => (cell.dataset.label = heads[i] ?? ""));
	return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${label}, scrolls` },
		h("table", { class: "plain" }, h("thead", null, h("tr", null, heads.map((t) => (t ? h("th", { scope: "col" }, t) : h("td"))))), h("tbody", null, rows)));
}

let lastId = 0;
export function newId(stem) {
	lastId += 1;
	return `${stem}-${lastId}`;
}

/** Replaces the text of an element, unless it is the same already: a screen reader would repeat it. */
export function setText(e, text) {
	if (e.textContent !== text)
		e.textContent = text;
}

/** Calls fn once, a moment after the first of many calls: also when they never cease. */
export function soon(fn, ms) {
	let timer = 0;

	return () => {
		timer ||= setTimeout(() => {
			timer = 0;
			fn();
		}, ms);
	};
}

/* --- numbers and times ------------------------------------------------------------------------------------------------ */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n) {
	let unit = 0;

	if (!Number.isFinite(n))
		return "–";
	while (n >= 1024 && unit < UNITS.length - 1) {
		n /= 1024;
		unit += 1;
	}
	return `${unit && n < 10 ? n.toFixed(1) : Math.round(n)} ${UNITS[unit]}`;
}

const GROUPED = new Intl.NumberFormat("en");
export function count(n) {
	return Number.isFinite(n) ? GROUPED.format(n) : "–";
}

export function plural(n, one, many) {
	return `${count(n)} ${n === 1 ? one : many}`;
}

const two = (n) => String(n).padStart(2, "0");

const day = (t) => `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
const timeText = (t) => `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;

/** 12:34:56, local time; with the date when it is another day. The foot of the page says which zone that is. */
export function clock(ms) {
	const t = new Date(ms);

	if (!Number.isFinite(t.getTime()))
		return "–";
	return t.toDateString() === new Date().toDateString() ? timeText(t) : `${day(t)} ${timeText(t)}`;
}

/** UTC+02:00: the difference between clock() and UTC at that moment. */
export function zone(ms = Date.now()) {
	const minutes = -new Date(ms).getTimezoneOffset(), sign = minutes < 0 ? "-" : "+", m = Math.abs(minutes);

	return minutes ? `UTC${sign}${two(Math.floor(m / 60))}:${two(m % 60)}` : "UTC";
}

/** 2026-01-31 12:34:56 UTC+02:00. */
export function dated(ms) {
	const t = new Date(ms);

	if (!Number.isFinite(t.getTime()))
		return "–";
	return `${day(t)} ${timeText(t)} ${zone(ms)}`;
}

export function timeOf(ms) {
	const t = new Date(ms);

	return h("time", { datetime: Number.isFinite(t.getTime()) ? t.toISOString() : null, title: dated(ms) }, clock(ms));
}

/** 3 s, 4 min 5 s, 2 h 3 min. */
export function span(ms) {
	const s = Math.max(0, Math.round(ms / 1000));

	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 172800)
		return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
	return `${Math.floor(s / 86400)} days`;
}
