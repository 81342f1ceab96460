/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http://coffer.internal/: what this sandbox may do, said to whoever is inside. Plain HTTP, one request for each
 * connection, nothing but the policy's own words in the answer: no path, secret or name of the host's.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "egress/asking.h"
#include "egress/flow_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void add_text(const struct egress *eg, struct buf *out)
{
	if (!eg->policy) {
		buf_addf(out, "There is no policy in force, so everything is denied: %s\n", eg->why_none);
		return;
	}
	buf_addf(out,
		 "This sandbox may use the network as these rules say (%s); everything else is denied.\n\n",
		 policy_mode(eg->policy) == POLICY_OBSERVE ? "observe: recorded, only deny rules hold"
							   : "enforce");
	policy_describe(eg->policy, out);
	if (asking_count(eg))
		buf_addf(out, "\n%u requests of this sandbox wait for a person's answer.\n",
			 asking_count(eg));
	buf_adds(out,
		 "\nWhat you need and do not find here: ask the person who runs this sandbox to allow it.\n");
}

static void add_json(const struct egress *eg, struct buf *out)
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
		policy_describe_json(eg->policy, out);
	} else {
		json_str(&j, "why", eg->why_none);
	}
	asking_describe(eg, &j);
	json_str(&j, "how_to_ask", "ask the person who runs this sandbox to allow it in its policy");
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static void answer(struct flow *f)
{
	const struct http1_head *h = f->http;
	bool text = http1_has_token(h, "Accept", "text/plain") || http1_has_token(h, "Accept", "text/html");
	bool is_head = slice_eq(h->method, "HEAD"),
	     known = slice_eq(h->path, "/") || slice_eq(h->path, "/policy");
	bool allowed = is_head || slice_eq(h->method, "GET");
	unsigned status = !allowed ? 405 : !known ? 404 : 200;
	autobuf struct buf body = BUF_INIT, out = BUF_INIT;

	if (status != 200)
		buf_addf(&body, "coffer: %s; GET / says what this sandbox may do\n", http1_reason(status));
	else if (text)
		add_text(f->eg, &body);
	else
		add_json(f->eg, &body);
	buf_addf(&out, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
		 http1_reason(status),
		 text || status != 200 ? "text/plain; charset=utf-8" : "application/json", body.len);
	buf_adds(&out, "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
	if (!is_head)
		buf_add(&out, body.data, body.len);
	if (buf_error(&out))
		flow_reset(f, "error: no memory");
	else
		flow_say(f, out.data, out.len);
}

static void read_head(struct flow *f);

static void on_event(struct watch *w, uint32_t events)
{
	(void)events;
	read_head(w->ctx);
}

static void read_head(struct flow *f)
{
	ssize_t n = recv(f->client.w.fd, f->eg->scratch, EGRESS_SCRATCH, MSG_DONTWAIT);
	long r = 0;

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		flow_end(f, "client");
		return;
	}
	if (n > 0) {
		buf_add(&f->first, f->eg->scratch, (size_t)n);
		r = buf_error(&f->first) ? -ENOMEM
					 : http1_parse_request(f->http, f->first.data, f->first.len);
	}
	if (r < 0)
		flow_reset(f, "error: not HTTP");
	else if (r > 0)
		answer(f);
	else if (loop_watch(&f->eg->loop, &f->client.w, EPOLLIN | EPOLLRDHUP) < 0)
		flow_reset(f, "error: it cannot be waited for");
}

void page_begin(struct flow *f)
{
	f->state = FLOW_FIRST;
	f->is_refused = true; /* nothing is dialled, and no line written: it never leaves */
	f->http = malloc(sizeof(*f->http));
	if (!f->http) {
		flow_reset(f, "error: no memory");
		return;
	}
	*f->http = HTTP1_HEAD_INIT;
	f->client.w.fn = on_event;
	flow_set_timeout(f, f->eg->times.first);
	flow_set_young(f, true);
	read_head(f);
}
