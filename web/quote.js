// SPDX-License-Identifier: Apache-2.0
// Text from a sandbox, or from anybody else outside of this page, as a quotation that cannot be taken for our own words or controls.
// It has a box of its own look, a fixed width, and runs from left to right whatever its characters are. Characters that are invisible,
// or that move others, are written out. It is cut, and the text of "show all" is bounded too.

import { count, h, put } from "./dom.js";

const INLINE_MAX = 160;
const BLOCK_MAX = 800;
const ALL_MAX = 16384;

// Controls, formats (bidirectional ones among them), surrogates, private and unassigned characters, separators, all others that are
// not drawn, spaces other than the space, and more than three marks upon one letter.
const ODD = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]|(?<=\p{M}{3})\p{M}/gu;

// The end of a host name names its owner: a name that does not fit loses its beginning, and is left out where not even two labels fit.
function cutHost(host, room) {
	const fits = host.indexOf(".", Math.max(host.length - room, 0));
	const two = host.lastIndexOf(".", host.lastIndexOf(".") - 1);
	const end = host.slice(Math.max(Math.min(fits < 0 ? two : fits, two), -1) + 1);

	return end.length + 1 <= room ? `…${end}` : "";
}

// A text that may be a host. One look at each character: a sandbox chooses these texts and their length.
const WORD = /[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?/g;

function cut(text, max) {
	if (text.length <= max)
		return text;
	for (const m of text.matchAll(WORD)) {
		if (m.index >= max)
			break;
		if (m.index + m[0].length > max && m[0].includes("."))
			return text.slice(0, m.index) + cutHost(m[0], max - m.index);
	}
	const end = text.codePointAt(max - 1) > 0xffff ? max - 1 : max;
	return text.slice(0, end);
}

function written(character) {
	return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

function add(box, text, keepLines) {
	let at = 0;

	for (const m of text.matchAll(ODD)) {
		if (keepLines && (m[0] === "\n" || m[0] === "\t"))
			continue;
		box.append(text.slice(at, m.index), m[0] === "\n" ? h("span", { class: "odd", title: "a line break" }, "↵") : h("span", { class: "odd" }, written(m[0])));
		at = m.index + m[0].length;
	}
	box.append(text.slice(at));
}

function fill(box, text, max, keepLines) {
	put(box);
	add(box, cut(text, max), keepLines);
	if (text.length > max)
		box.append(h("span", { class: "cut" }, "…"));
}

/** The same without a box, for the gateway's own message of a failure, which may have a name in it. */
export function plain(value, max = 300) {
	const text = String(value ?? "");

	return cut(text, max).replace(ODD, written) + (text.length > max ? "…" : "");
}

/** For a cell or a sentence. */
export function quote(value, max = INLINE_MAX) {
	const box = h("bdi", { class: "quote", dir: "ltr" });

	fill(box, String(value ?? ""), max, false);
	return box;
}

/** A block of its own, with a line above it that names the author, and with "show all". */
export function quoteBlock(value, label, max = BLOCK_MAX) {
	const text = String(value ?? "");
	const box = h("bdi", { class: "quote block", dir: "ltr", tabindex: 0, role: "group", "aria-label": "quotation" });
	const parts = [h("figcaption", null, label), box];

	fill(box, text, max, true);
	if (text.length > max) {
		const all = Math.min(text.length, ALL_MAX);
		parts.push(h("button", {
			type: "button", class: "quiet", onclick: (ev) => {
				fill(box, text, ALL_MAX, true);
				ev.target.replaceWith(h("span", { class: "hint" },
					all < text.length ? `The first ${count(all)} of ${count(text.length)} characters.` : `All ${count(all)} characters.`));
			},
		}, all < text.length ? `Show ${count(all)} of ${count(text.length)} characters` : `Show all ${count(all)} characters`));
	}
	return h("figure", { class: "quotation" }, parts);
}

/** A command line as a shell would read it: words that need quotes have single ones. */
export function commandText(words) {
	const list = Array.isArray(words) ? words : [words];

	return list.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${String(w).replaceAll("'", "'\\''")}'`)).join(" ");
}

/** The command that a person typed to start a sandbox, as far as it is known: the path at which a program was found is left out. */
export function typedOf(sandbox) {
	const [first, ...rest] = String(sandbox?.typed ?? sandbox?.command ?? "").split(" ");

	return [first.split("/").at(-1), ...rest].join(" ");
}

/** A name of ours when it is made of plain letters, else a quotation. */
export function name(value) {
	const text = String(value ?? "");

	return /^[A-Za-z0-9][A-Za-z0-9_.@:/ -]{0,79}$/.test(text) ? text : quote(text, 80);
}
