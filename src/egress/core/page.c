/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http://coffer.internal/: tells the sandbox what it may do, and takes requests for more. Plain HTTP, one
 * request per connection; the response has only the policy's own text: no path, secret or name of the host.
 *
 * GET /, GET /policy: the policy, pending asks, past answers
 * POST /v1/access: requests a rule (access_body.h); waits for the answer as long as its `wait` says
 * GET /v1/access, /v1/access/ID: the state of such requests
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "egress/core/access.h"
#include "egress/core/asking.h"
#include "egress/core/flow_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ASK_PATH "/v1/access"
#define ASK_URL "http://coffer.internal" ASK_PATH
#define ID_WITHIN 10 /* s */

static void page_add_text(const struct egress *eg, struct buf *out)
{
	if (!eg->policy) {
		buf_addf(out, "There is no policy in force, so everything is denied: %s\n", eg->why_none);
		return;
	}
	buf_addf(out,
		 "This sandbox may use the network as these rules say (%s); everything else is denied.\n\n",
		 policy_mode(eg->policy) == POLICY_OBSERVE
			 ? "observe: everything is recorded, only deny rules apply"
			 : "enforce");
	policy_describe(eg->policy, out);
	asking_describe_text(eg, out);
	buf_adds(
		out,
		"\nA person can allow more while you wait:\n"
		"  curl " ASK_URL
		" -d '{\"rule\":\"api.example.com\",\"reason\":\"why you need it\",\"wait\":120}'\n"
		"A rule is HOST, HOST:PORT or METHOD https://HOST/PATH, where * in a path stops at / and ** does not.\n"
		"GET " ASK_URL " shows the state of your requests.\n");
}

static void page_add_json(const struct egress *eg, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "sandbox", "coffer");
	json_str(&j, "mode",
		 !eg->policy				     ? "none"
		 : policy_mode(eg->policy) == POLICY_OBSERVE ? "observe"
							     : "enforce");
	json_u64(&j, "generation", eg->generation);
	if (eg->policy) {
		buf_adds(out, ",\"policy\":");
		policy_describe_json(eg->policy, false, out);
	} else {
		json_str(&j, "why", eg->why_none);
	}
	asking_describe(eg, &j);
	access_list(eg, &j, "asked");
	json_str(
		&j, "how_to_ask",
		"POST " ASK_URL
		" {\"rule\":\"HOST[:PORT] or METHOD https://HOST/PATH\",\"reason\":\"why\",\"wait\":120}: a person decides; "
		"GET it to see the state of your requests");
	json_end_obj(&j);
	buf_addc(out, '\n');
}

/* Sends the response and ends the connection. */
static void page_send(struct flow *f, unsigned status, const char *type, const struct buf *body, bool is_head)
{
	autobuf struct buf out = BUF_INIT;

	buf_addf(&out, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
		 http1_reason(status), type, body->len);
	buf_adds(&out, "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
	if (!is_head)
		buf_add(&out, body->data, body->len);
	if (buf_error(&out) || buf_error(body))
		flow_reset(f, "error: no memory");
	else
		flow_say(f, out.data, out.len);
}

/* ---- Requests for more access. ---- */

static void page_refuse(struct flow *f, unsigned status, const char *why)
{
	autobuf struct buf body = BUF_INIT;
	struct json j = JSON_INIT(&body);

	json_obj(&j, NULL);
	json_str(&j, "error", why);
	json_str(&j, "how_to_ask", "POST " ASK_URL " {\"rule\":\"api.example.com\",\"reason\":\"why\"}");
	json_end_obj(&j);
	buf_addc(&body, '\n');
	page_send(f, status, "application/json", &body, false);
}

static void page_send_access(struct flow *f, const struct access *a)
{
	autobuf struct buf body = BUF_INIT;
	struct json j = JSON_INIT(&body);

	access_json(f->eg, a, &j, NULL);
	buf_addc(&body, '\n');
	page_send(f, access_status(a), "application/json", &body, false);
}

static void page_stop_waiting(struct flow *f)
{
	f->eg->n_polls -= f->access != NULL;
	f->access = NULL;
	loop_unwatch(&f->eg->loop, &f->client.w);
}

void page_timeout(struct flow *f)
{
	const struct access *a = f->access;

	page_stop_waiting(f);
	page_send_access(f, a);
}

/* Clients that do not wait for a person's answer wait only for the id. */
void page_access_changed(struct egress *eg, const struct access *a)
{
	struct flow *f, *next;

	for (f = TAILQ_FIRST(&eg->flows); f; f = next) {
		next = TAILQ_NEXT(f, in_all);
		if (f->access == a && (access_is_decided(a) || f->wants_id))
			page_timeout(f);
	}
}

/* Nothing is read while the flow waits; only the end of the client is noticed. */
static void on_poll_client_gone(struct watch *w, uint32_t events)
{
	(void)events;
	flow_end(w->ctx, "client");
}

static void page_wait_for_answer(struct flow *f, const struct access *a, unsigned seconds)
{
	bool brief = seconds == 0 || f->eg->n_polls >= ACCESS_POLLS_MAX / 2;

	if (access_is_decided(a) || (brief && access_is_known(a)) || f->eg->n_polls >= ACCESS_POLLS_MAX) {
		page_send_access(f, a);
		return;
	}
	flow_set_young(f, false);
	buf_release(&f->first);
	f->state = FLOW_PAGE;
	f->access = a;
	f->eg->n_polls++;
	f->wants_id = brief; /* it wants only the id */
	loop_unwatch(&f->eg->loop, &f->client.w);
	f->client.w.fn = on_poll_client_gone;
	flow_set_timeout(f, brief ? ID_WITHIN : seconds);
	if (loop_watch(&f->eg->loop, &f->client.w, EPOLLRDHUP) < 0)
		flow_reset(f, "error: the connection cannot be watched");
}

static void page_take_body(struct flow *f, const char *data, size_t len)
{
	struct err e = ERR_INIT;
	struct access_body b;
	const char *why = NULL;
	struct access *a;

	if (access_body_parse(data, len, &b, &e) < 0) {
		page_refuse(f, 400, e.msg);
		return;
	}
	a = access_ask(f->eg, &b, &why);
	if (a)
		page_wait_for_answer(f, a, b.wait);
	else
		page_refuse(f, 429, why);
}

static bool page_read_more(struct flow *f);

/* The head is complete; handles the body, or reads on. */
static void page_post(struct flow *f, size_t head_len)
{
	const struct http1_head *h = f->http;

	if (h->body != HTTP1_BODY_LENGTH)
		page_refuse(f, 411, "send a body with its Content-Length");
	else if (h->content_length > ACCESS_BODY_MAX)
		page_refuse(f, 413, "the body is longer than 8 KiB");
	else if (f->first.len - head_len >= h->content_length)
		page_take_body(f, f->first.data + head_len, (size_t)h->content_length);
	else if (!page_read_more(f))
		flow_reset(f, "error: the connection cannot be watched");
}

/* GET /v1/access and /v1/access/ID. False: another path. */
static bool page_get_access(struct flow *f, struct slice path)
{
	static const char root[] = ASK_PATH;
	const size_t n = sizeof(root) - 1;
	autobuf struct buf body = BUF_INIT;
	struct json j = JSON_INIT(&body);
	const struct access *a;

	if (path.len < n || memcmp(path.p, root, n) != 0 || (path.len > n && path.p[n] != '/'))
		return false;
	if (path.len > n + 1) {
		a = access_find(f->eg, path.p + n + 1, path.len - n - 1);
		if (a)
			page_send_access(f, a);
		else
			page_refuse(f, 404, "no such request is known here; GET / shows what is allowed");
		return true;
	}
	json_obj(&j, NULL);
	access_list(f->eg, &j, "asked");
	json_end_obj(&j);
	buf_addc(&body, '\n');
	page_send(f, 200, "application/json", &body, false);
	return true;
}

static void page_respond(struct flow *f, size_t head_len)
{
	const struct http1_head *h = f->http;
	bool text = http1_has_token(h, "Accept", "text/plain") || http1_has_token(h, "Accept", "text/html");
	bool is_head = slice_eq(h->method, "HEAD"),
	     known = slice_eq(h->path, "/") || slice_eq(h->path, "/policy");
	bool allowed = is_head || slice_eq(h->method, "GET");
	unsigned status = !allowed ? 405 : !known ? 404 : 200;
	autobuf struct buf body = BUF_INIT;

	if (slice_eq(h->method, "POST") && slice_eq(h->path, ASK_PATH)) {
		page_post(f, head_len);
		return;
	}
	if (slice_eq(h->method, "GET") && page_get_access(f, h->path))
		return;
	if (status != 200)
		buf_addf(&body, "coffer: %s; GET / shows what this sandbox may do\n", http1_reason(status));
	else if (text)
		page_add_text(f->eg, &body);
	else
		page_add_json(f->eg, &body);
	page_send(f, status, text || status != 200 ? "text/plain; charset=utf-8" : "application/json", &body,
		  is_head);
}

static void page_read_head(struct flow *f);

static void on_page_readable(struct watch *w, uint32_t events)
{
	(void)events;
	page_read_head(w->ctx);
}

static bool page_read_more(struct flow *f)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	/* Clients send their body after a while even without 100 Continue. */
	if (f->http->expect_continue && !f->goes_on)
		(void)!send(f->client.w.fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	f->goes_on = f->http->expect_continue;
	return loop_watch(&f->eg->loop, &f->client.w, EPOLLIN | EPOLLRDHUP) == 0;
}

static void page_read_head(struct flow *f)
{
	ssize_t n = recv(f->client.w.fd, f->eg->scratch, EGRESS_SCRATCH, MSG_DONTWAIT);
	long r = 0;

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		flow_end(f, "client");
		return;
	}
	if (n > 0) {
		buf_add(&f->first, f->eg->scratch, (size_t)n);
		/* From the beginning, since appending may have moved the buffer that the head points into. */
		if (f->http->method.len)
			http1_head_reset(f->http);
		r = buf_error(&f->first) ? -ENOMEM
					 : http1_parse_request(f->http, f->first.data, f->first.len);
	}
	if (r < 0)
		flow_reset(f, "error: not HTTP");
	else if (r > 0)
		page_respond(f, (size_t)r);
	else if (loop_watch(&f->eg->loop, &f->client.w, EPOLLIN | EPOLLRDHUP) < 0)
		flow_reset(f, "error: the connection cannot be watched");
}

void page_begin(struct flow *f)
{
	f->state = FLOW_FIRST;
	f->is_refused =
		true; /* nothing is dialled and no line written: the connection never leaves this process */
	f->http = malloc(sizeof(*f->http));
	if (!f->http) {
		flow_reset(f, "error: no memory");
		return;
	}
	*f->http = HTTP1_HEAD_INIT;
	f->client.w.fn = on_page_readable;
	flow_set_timeout(f, f->eg->times.first);
	flow_set_young(f, true);
	page_read_head(f);
}
