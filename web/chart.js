// SPDX-License-Identifier: Apache-2.0
// Bars over time, drawn as SVG, with the same numbers as a table for people who cannot see them.

import { clock, h, newId, svg } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 100;
const GAP = 1;

/** The next 1, 2 or 5 times a power of ten (of two for bytes), so that the scale reads well. */
function ceiling(max, base) {
	let step = 1;

	if (max <= 0)
		return 1;
	while (step * 10 < max && base === 10)
		step *= 10;
	while (step * 1024 < max && base === 2)
		step *= 1024;
	for (const f of base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]) {
		if (step * f >= max)
			return step * f;
	}
	return max;
}

function bars(items, keys, top, format) {
	const step = WIDTH / items.length, all = [];

	items.forEach((item, i) => {
		let y = HEIGHT;

		if (!keys.some((k) => item[k.key] > 0))
			return;
		const group = svg("g", null, svg("title", null, `${clock(Date.parse(item.time))}: ${keys.map((k) => `${k.name} ${format(item[k.key])}`).join(", ")}`));
		for (const k of keys) {
			const tall = item[k.key] > 0 ? Math.max(item[k.key] / top * HEIGHT, 1.5) : 0;

			y -= tall;
			if (tall)
				group.append(svg("rect", { class: k.class, x: (i * step).toFixed(2), y: y.toFixed(2), width: Math.max(step - GAP, 1).toFixed(2), height: tall.toFixed(2) }));
		}
		all.push(group);
	});
	return all;
}

function table(title, items, keys, format) {
	const filled = items.filter((item) => keys.some((k) => item[k.key] > 0));

	if (!filled.length)
		return null;
	return h("details", null, h("summary", null, "As a table"),
		h("table", { class: "plain" }, h("caption", { class: "hidden" }, title),
			h("thead", null, h("tr", null, h("th", { scope: "col" }, "From"), keys.map((k) => h("th", { scope: "col", class: "number" }, k.name)))),
			h("tbody", null, filled.map((item) => h("tr", null, h("th", { scope: "row" }, clock(Date.parse(item.time))),
				keys.map((k) => h("td", { class: "number" }, format(item[k.key]))))))));
}

/** series: of GET /v1/series. keys: [{key, name, class}], from the bottom up. */
export function chart({ title, series, keys, format, base = 10 }) {
	const items = series.items, id = newId("chart");
	const sums = keys.map((k) => items.reduce((n, item) => n + item[k.key], 0));
	const top = ceiling(Math.max(...items.map((item) => keys.reduce((n, k) => n + item[k.key], 0))), base);
	const words = keys.map((k, i) => `${k.name} ${format(sums[i])}`).join(", ");
	const drawing = svg("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-labelledby": id },
		svg("title", { id }, `${title} from ${clock(Date.parse(series.from))} to ${clock(Date.parse(series.to))}: ${words}`),
		svg("path", { class: "grid", d: `M0 0.5H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 0.5}H${WIDTH}` }),
		bars(items, keys, top, format));

	return h("figure", { class: "chart" },
		h("figcaption", null, h("strong", null, title), h("ul", { class: "legend" }, keys.map((k, i) => h("li", { class: k.class }, `${k.name} `, h("b", null, format(sums[i])))))),
		h("div", { class: "plot" }, h("div", { class: "scale", "aria-hidden": "true" }, h("span", null, format(top)), h("span", null, "0")), drawing),
		h("div", { class: "axis", "aria-hidden": "true" }, h("span", null, clock(Date.parse(series.from))), h("span", null, "now")),
		table(title, items, keys, format));
}

/** A few numbers as a line, for a cell. The words are beside it. */
export function spark(values, top) {
	const high = Math.max(top, ...values, 1e-9), step = 60 / Math.max(values.length - 1, 1);
	const points = values.map((v, i) => `${(i * step).toFixed(1)},${(18 - v / high * 16).toFixed(1)}`).join(" ");

	return svg("svg", { class: "spark", viewBox: "0 0 60 20", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("polyline", { points }));
}
