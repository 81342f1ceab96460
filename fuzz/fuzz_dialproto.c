/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-dial under an egress that was taken over: any messages in any order. The input is a row of steps: raw bytes as a
 * message, well-formed requests and cancels with few ids (so that they collide), faults, and taking the replies, which
 * must be well-formed, and exactly one for each request. Nothing is connected: no address is granted, there is no
 * resolver, and no tunnel gets its turn.
 */
#include "base/cleanup.h"
#include "dial/dial_int.h"
#include "policy/build.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDS 8

static struct dial d;
static int peer;
static unsigned open_ids[IDS];

static void must(int r)
{
	BUG_ON(r < 0);
}

static void add_rule(struct policy *p, const char *host, const char *proxy_set)
{
	struct policy_rule r = POLICY_RULE_INIT;

	r.action = POLICY_ALLOW;
	r.depth = POLICY_TUNNEL;
	must(hostpat_parse(host, strlen(host), &r.host, NULL));
	r.ports[0] = (struct policy_ports){ 1, 65535 };
	r.n_ports = 1;
	snprintf(r.proxy_set, sizeof(r.proxy_set), "%s", proxy_set);
	must(policy_add_rule(p, 0, &r, NULL));
}

static struct policy *make_policy(void)
{
	static struct policy_proxy proxies[2];
	struct policy_proxies set = { .name = "p", .proxies = proxies, .n_proxies = 2, .sticky_seconds = 60 };
	struct policy_layer_opts o = { 0 };
	struct policy *p = NULL;
	unsigned layer;

	for (size_t i = 0; i < 2; i++) {
		must(host_canon("127.0.0.1", 9, &proxies[i].host, NULL));
		proxies[i].port = (uint16_t)(i + 1);
	}
	must(policy_new(POLICY_ENFORCE, &p, NULL));
	must(policy_add_layer(p, &o, &layer, NULL));
	must(policy_add_proxies(p, &set, NULL));
	add_rule(p, "*.example.test", "");
	add_rule(p, "*.set.test", "p");
	must(policy_seal(p, NULL));
	return p;
}

static void set_up(void)
{
	const struct proxy_env env = { .loop = &d.loop };
	struct proxy_env with = env;
	int pair[2];

	must(sodium_init());
	must(dial_init(&d, NULL));
	journal_init(&d.journal, open("/dev/null", O_WRONLY | O_CLOEXEC));
	d.policy = make_policy();
	with.resolver = d.resolver;
	must(proxy_sets_new(&d.proxy_sets, &with, d.policy, "p\tx:y\n", 6, NULL, NULL));
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	must(dial_serve_open(&d, pair[0], NULL));
	peer = pair[1];
}

static void take_replies(void)
{
	union dial_msg m;
	char raw[1024];
	ssize_t n;

	dial_settle(&d);
	while ((n = recv(peer, raw, sizeof(raw), MSG_DONTWAIT)) > 0) {
		must(dialproto_parse_to_egress(raw, (size_t)n, &m));
		BUG_ON(m.rep.status == 0 &&
		       !(m.rep.flags & DIAL_UNRESOLVED)); /* there is nothing to connect to */
		if (m.rep.id < IDS)
			BUG_ON(open_ids[m.rep.id]-- == 0);
		dial_settle(&d);
	}
}

static void note_request(const void *raw, size_t len)
{
	union dial_msg m;

	if (dialproto_parse_to_dial(raw, len, &m) == 0 && m.type == DIAL_REQ && m.req.id < IDS)
		open_ids[m.req.id]++;
}

static int give(const void *raw, size_t len)
{
	bool is_known = false;
	union dial_msg m;
	int r;

	if (dialproto_parse_to_dial(raw, len, &m) == 0 && m.type == DIAL_REQ)
		is_known = dial_request_find(&d, m.req.id) != NULL;
	if (!is_known)
		note_request(raw, len);
	r = dial_take(&d, raw, len);
	BUG_ON(is_known && r == 0);
	return r;
}

static int give_request(uint8_t a, uint8_t b)
{
	static const char *const hosts[] = { "a.example.test", "b.set.test", "denied.test", "x.y.set.test" };
	struct dial_req q;
	struct host h;

	must(host_canon(hosts[b % 4], strlen(hosts[b % 4]), &h, NULL));
	dialproto_request(&q, a % IDS, &h, b & 16 ? 0 : 443, b & 8 ? DIAL_RESOLVE_ONLY : 0);
	if (b & 32)
		memcpy(q.proxy_set, b & 64 ? "p" : "q", 1);
	return give(&q, sizeof(q));
}

static int give_fault(uint8_t b)
{
	struct dial_fault f = { .type = DIAL_FAULT, .proxy_set = "p" };

	snprintf(f.proxy, sizeof(f.proxy), "127.0.0.1:%u", (unsigned)b % 3);
	return give(&f, sizeof(f));
}

static int step(const uint8_t **data, size_t *size)
{
	uint8_t op = (*data)[0], arg = (*data)[1];
	size_t len = 0;
	int r = 0;

	*data += 2;
	*size -= 2;
	if (op % 5 == 0) {
		len = (size_t)arg * 2 < *size ? (size_t)arg * 2 : *size;
		r = give(*data, len);
	} else if (op % 5 == 1) {
		r = give_request(op / 5, arg);
	} else if (op % 5 == 2) {
		r = give(&(struct dial_cancel){ .type = DIAL_CANCEL, .id = arg % IDS },
			 sizeof(struct dial_cancel));
	} else if (op % 5 == 3) {
		r = give_fault(arg);
	} else {
		take_replies();
	}
	*data += len;
	*size -= len;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_up;

	if (!is_up)
		set_up();
	is_up = true;
	while (size >= 2 && step(&data, &size) == 0)
		;
	/* Every open request is ended, and each gets its reply. */
	for (uint32_t id = 0; id < IDS; id++) {
		struct dial_request *r = dial_request_find(&d, id);

		if (r)
			dial_request_end(r, -ECANCELED, -1, NULL, NULL, "");
	}
	dial_request_drop_all(&d);
	take_replies();
	d.is_broken = d.is_gone = false;
	for (size_t i = 0; i < IDS; i++) {
		BUG_ON(open_ids[i] > 0);
		open_ids[i] = 0;
	}
	return 0;
}
