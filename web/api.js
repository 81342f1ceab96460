// SPDX-License-Identifier: Apache-2.0
// The API (doc/openapi.yaml) with the session's secret: kept for this tab and this very address, and sent to nobody else. A cookie would go to
// every port of the host.

const PATIENCE = 60000;

export class ApiError extends Error {
	constructor(status, error) {
		super(error?.message ?? "The gateway sent an invalid response.");
		this.status = status;
		this.code = error?.code ?? "failed";
		this.hint = error?.hint ?? null;
	}
}

const KEY = "coffer-session";

export function keepSession(secret) {
	if (secret)
		sessionStorage.setItem(KEY, secret);
	else
		sessionStorage.removeItem(KEY);
}

/** The header with the session's secret, by which the gateway knows the caller. */
export function credential() {
	const secret = sessionStorage.getItem(KEY);

	return secret ? { Authorization: `Bearer ${secret}` } : {};
}

let onSignedOut = () => {};
export function whenSignedOut(fn) {
	onSignedOut = fn;
}

export function url(path, query) {
	const q = new URLSearchParams();

	for (const [key, value] of Object.entries(query ?? {})) {
		if (value !== undefined && value !== null && value !== "")
			q.set(key, value);
	}
	return q.size ? `${path}?${q}` : path;
}

async function send(method, path, query, body, signal) {
	const headers = credential();

	if (body !== undefined)
		headers["Content-Type"] = "application/json";
	try {
		return await fetch(url(path, query), {
			method, headers, credentials: "omit", cache: "no-store",
			body: body === undefined ? undefined : JSON.stringify(body),
			signal: signal ? AbortSignal.any([signal, AbortSignal.timeout(PATIENCE)]) : AbortSignal.timeout(PATIENCE),
		});
	} catch (e) {
		if (signal?.aborted)
			throw e;
		throw new ApiError(0, { code: "unreachable", message: "The gateway cannot be reached.", hint: "It may be restarting; this page tries again." });
	}
}

async function request(method, path, { query, body, signal } = {}) {
	const r = await send(method, path, query, body, signal);
	let answer = null;

	if (r.status !== 204) {
		try {
			answer = await r.json();
		} catch {
			throw new ApiError(r.status, null);
		}
	}
	if (r.ok)
		return answer;
	if (r.status === 401)
		onSignedOut();
	throw new ApiError(r.status, answer?.error);
}

export const get = (path, query, signal) => request("GET", path, { query, signal });
export const post = (path, body) => request("POST", path, { body });
export const remove = (path, query) => request("DELETE", path, { query });

/** The path of something with a name in it. */
export function at(kind, id, rest = "") {
	return `/v1/${kind}/${encodeURIComponent(id)}${rest}`;
}
