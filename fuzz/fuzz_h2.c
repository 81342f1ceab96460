/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a client, over a socket pair, into the inspecting part as it stands: HTTP/1.1 or HTTP/2 by the first
 * byte, a policy with rules of every kind, and a server that answers what the rest of the input says. For any input,
 * nothing is held when the connection has ended.
 */
#include "base/clock.h"
#include "egress/core/flow_int.h"
#include "egress/exchange/inspect.h"
#include "policy/build.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct egress eg;
static struct inspect *in;
static int server = -1; /* our end of the connection to the server */

static void add_entry(struct policy_rule *r, enum policy_entry_kind kind, enum policy_action action,
		      const char *path, const char *name, unsigned acts)
{
	struct policy_entry en = {
		.kind = kind, .action = action, .path = (char *)path, .name = (char *)name, .acts = acts
	};
	struct err e = ERR_INIT;

	BUG_ON(kind == POLICY_HTTP && method_parse("*", 1, &en.methods, &e) < 0);
	BUG_ON(policy_rule_add_entry(r, &en, &e) < 0);
}

static struct policy *make_policy(void)
{
	struct policy_rule r = POLICY_RULE_INIT;
	struct policy *p = NULL;
	struct err e = ERR_INIT;
	unsigned layer;

	BUG_ON(policy_new(POLICY_ENFORCE, &p, &e) < 0);
	BUG_ON(policy_add_layer(p, &(struct policy_layer_opts){ 0 }, &layer, &e) < 0);
	r.action = POLICY_ALLOW;
	r.ports[r.n_ports++] = (struct policy_ports){ 80, 80 };
	BUG_ON(hostpat_parse("a.test", 6, &r.host, &e) < 0);
	add_entry(&r, POLICY_HTTP, POLICY_ALLOW, "/**", NULL, 0);
	add_entry(&r, POLICY_HTTP, POLICY_DENY, "/secret/**", NULL, 0);
	add_entry(&r, POLICY_GRAPHQL, POLICY_ALLOW, "/graphql", "x*", POLICY_GRAPHQL_ALL);
	add_entry(&r, POLICY_GIT, POLICY_ALLOW, "/o/r", "refs/heads/**", POLICY_GIT_PUSH_ALL);
	BUG_ON(policy_add_rule(p, layer, &r, &e) < 0 || policy_seal(p, &e) < 0);
	return p;
}

static void start(void)
{
	struct addr_range range = { .base = addr_from_v4(11u << 24), .bits = 104 };
	struct err e = ERR_INIT;
	int sv[2];

	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0);
	BUG_ON(egress_init(&eg, open("/dev/null", O_WRONLY | O_CLOEXEC), sv[0], &e) < 0);
	BUG_ON(egress_names_open(&eg.names, -1, &range, 1, &e) < 0 ||
	       limits_init(&eg.limits, &eg.names, &e) < 0);
	server = sv[1];
	eg.policy = make_policy();
	eg.generation = 1;
	BUG_ON(inspect_install_fds(&eg, -1, -1, &e) < 0);
	in = eg.inspector->ctx;
}

/* A requested connection gets one end of a socket pair, with the server's bytes already in the other. */
static void dial(const uint8_t *data, size_t size)
{
	union dial_msg m;

	while (recv(server, &m, sizeof(m), MSG_DONTWAIT) > 0) {
		struct dial_rep rep = { .type = DIAL_REP, .id = m.req.id };
		char ctl[CMSG_SPACE(sizeof(int))] = { 0 };
		struct iovec iov = { &rep, sizeof(rep) };
		struct msghdr h = {
			.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)
		};
		int sv[2];

		if (m.type != DIAL_REQ ||
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
			continue;
		(void)!send(sv[1], data, size, MSG_NOSIGNAL);
		CMSG_FIRSTHDR(&h)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&h)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&h)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &sv[0], sizeof(int));
		(void)!sendmsg(server, &h, 0);
		close(sv[0]);
		close(sv[1]);
	}
}

static void nothing(struct timer *t)
{
	(void)t;
}

/* A timer that is always due, so that no round waits for anything. */
static void rounds(int n, const uint8_t *data, size_t size)
{
	struct timer due = { .fn = nothing };
	struct err e = ERR_INIT;

	while (n--) {
		loop_timer(&eg.loop, &due, 1);
		egress_round(&eg, &e);
		dial(data, size);
	}
	loop_timer_off(&eg.loop, &due);
}

static struct flow *new_flow(int fd)
{
	const struct egress_name *name = NULL;
	struct addr addr;
	struct flow *f;
	struct host h;

	BUG_ON(host_canon("a.test", 6, &h, NULL) < 0 || egress_names_add(&eg.names, &h, &name) < 0);
	addr = addr_from_v4(name->addr);
	f = flow_new(&eg, fd, &addr, 80);
	BUG_ON(!f);
	f->state = FLOW_INSPECT;
	f->depth = POLICY_INSPECT;
	return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t mine;
	int sv[2];

	if (size < 3 || size > 32768)
		return 0;
	if (!in)
		start();
	mine = (size_t)data[1] | (size_t)data[2] << 8;
	if (mine > size - 3)
		mine = size - 3;
	in->clear_h2_front = data[0] & 1;
	in->clear_h2_back = data[0] & 2;
	BUG_ON(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0);
	(void)!send(sv[1], data + 3, mine, MSG_NOSIGNAL);
	eg.inspector->take(&eg, new_flow(sv[0]));
	rounds(5, data + 3 + mine, size - 3 - mine);
	close(sv[1]);
	rounds(2, NULL, 0);
	inspect_drop_all(in);
	rounds(1, NULL, 0);
	BUG_ON(in->n_conns || in->n_exchs || in->n_ups || in->held || in->waiting);
	return 0;
}
