// SPDX-License-Identifier: Apache-2.0
"use strict";

async function signIn() {
	const code = new URLSearchParams(location.hash.slice(1)).get("login");
	if (!code)
		return;
	history.replaceState(null, "", "/");
	await fetch("/v1/session", {
		method: "POST",
		headers: { "Content-Type": "application/json", "X-Coffer": "1" },
		body: JSON.stringify({ code }),
	});
}

async function show() {
	await signIn();
	const status = await fetch("/v1/status");
	if (!status.ok)
		return;
	const { you } = await status.json();
	document.getElementById("who").textContent = `${you.name}, ${you.role}`;
	const { items } = await (await fetch("/v1/sandboxes")).json();
	document.getElementById("sandboxes").replaceChildren(...items.map((s) => {
		const li = document.createElement("li");
		li.textContent = `${s.name ?? s.id}: ${s.status}`;
		return li;
	}));
}

show();
