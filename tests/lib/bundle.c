/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy bundle out of a few lines, for tests that start coffer-egress or coffer-dial by hand: lines on standard input,
 * the bundle on standard output.
 *
 *	mode observe|enforce		generation N		require POOL
 *	allow HOST PORT [to=ADDR:PORT] [pool=NAME]	deny HOST	range ADDR/LEN PORT
 *	resolver ADDR PORT
 *	pool NAME ROTATE STICKY_SECONDS CHECK_SECONDS CHECK|- TYPE:HOST:PORT…
 */
#include "base/fd.h"
#include "base/str.h"
#include "policy/build.h"

#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX 64

static _Noreturn void die(const char *line, const struct err *e)
{
	fprintf(stderr, "bundle: %s: %s\n", line, e->msg);
	exit(1);
}

static uint16_t port_of(const char *s)
{
	return (uint16_t)strtoul(s, NULL, 10);
}

static int add_rule(struct policy *p, char **w, size_t n, struct err *e)
{
	struct policy_rule r = POLICY_RULE_INIT;
	struct host to;
	int ret = 0;

	r.action = str_eq(w[0], "deny") ? POLICY_DENY : POLICY_ALLOW;
	r.depth = r.action == POLICY_ALLOW ? POLICY_TUNNEL : -1;
	r.by_addr = str_eq(w[0], "range");
	if (r.by_addr)
		ret = addr_range_parse(w[1], strlen(w[1]), &r.range, e);
	else
		ret = hostpat_parse(w[1], strlen(w[1]), &r.host, e);
	r.ports[0] = (struct policy_ports){ 1, 65535 };
	r.n_ports = 1;
	if (n > 2 && ret == 0) {
		r.ports[0] = (struct policy_ports){ port_of(w[2]), port_of(w[2]) };
		r.port_given = true;
	}
	for (size_t i = 3; i < n && ret == 0; i++) {
		if (str_starts(w[i], "pool=")) {
			snprintf(r.proxy_set, sizeof(r.proxy_set), "%s", w[i] + 5);
		} else if (str_starts(w[i], "to=")) {
			ret = host_port_parse(w[i] + 3, strlen(w[i] + 3), 0, &to, &r.pin_port, e);
			r.has_pin = true;
			r.pin = to.addr;
		}
	}
	return ret < 0 ? ret : policy_add_rule(p, 0, &r, e);
}

static int add_resolver(struct policy *p, char **w, struct err *e)
{
	struct policy_resolver r = { .port = port_of(w[2]) };
	int ret = addr_parse(w[1], strlen(w[1]), &r.addr, e);

	return ret < 0 ? ret : policy_add_resolver(p, &r, e);
}

static int add_proxy_set(struct policy *p, char **w, size_t n, struct err *e)
{
	static struct policy_proxy proxies[WORDS_MAX];
	struct policy_proxies set = { .proxies = proxies, .n_proxies = n - 6 };
	int ret = 0;

	snprintf(set.name, sizeof(set.name), "%s", w[1]);
	set.rotate = str_eq(w[2], "sticky")	  ? POLICY_ROTATE_STICKY
		     : str_eq(w[2], "connection") ? POLICY_ROTATE_CONNECTION
						  : POLICY_ROTATE_REQUEST;
	set.sticky_seconds = (uint32_t)strtoul(w[3], NULL, 10);
	set.check_seconds = (uint32_t)strtoul(w[4], NULL, 10);
	if (!str_eq(w[5], "-"))
		snprintf(set.check, sizeof(set.check), "%s", w[5]);
	for (size_t i = 6; i < n && ret == 0; i++) {
		const char *colon = strchr(w[i], ':');
		struct policy_proxy *x = &proxies[i - 6];

		x->type = str_starts(w[i], "socks5:") ? POLICY_PROXY_SOCKS5 : POLICY_PROXY_CONNECT;
		ret = host_port_parse(colon + 1, strlen(colon + 1), 0, &x->host, &x->port, e);
	}
	return ret < 0 ? ret : policy_add_proxies(p, &set, e);
}

static int add_line(struct policy *p, char **w, size_t n, struct err *e)
{
	if (str_eq(w[0], "generation"))
		policy_set_generation(p, (uint32_t)strtoul(w[1], NULL, 10));
	else if (str_eq(w[0], "allow") || str_eq(w[0], "deny") || str_eq(w[0], "range"))
		return add_rule(p, w, n, e);
	else if (str_eq(w[0], "resolver"))
		return add_resolver(p, w, e);
	else if (str_eq(w[0], "pool"))
		return add_proxy_set(p, w, n, e);
	else if (!str_eq(w[0], "mode") && !str_eq(w[0], "require"))
		return err_set(e, -EINVAL, "not a line of ours");
	return 0;
}

int main(void)
{
	static char lines[256][1024];
	struct policy_layer_opts o = { 0 };
	enum policy_mode mode = POLICY_ENFORCE;
	CLEANUP(policy_freep) struct policy *p = NULL;
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	unsigned layer;
	size_t n = 0;

	while (n < ARRAY_SIZE(lines) && fgets(lines[n], sizeof(lines[n]), stdin)) {
		if (str_starts(lines[n], "mode observe"))
			mode = POLICY_OBSERVE;
		if (sscanf(lines[n], "require %31s", o.proxy_set) == 1)
			o.require_proxy_set = true;
		n++;
	}
	if (policy_new(mode, &p, &e) < 0 || policy_add_layer(p, &o, &layer, &e) < 0)
		die("policy", &e);
	for (size_t i = 0; i < n; i++) {
		char line[sizeof(lines[i])], *w[WORDS_MAX], *save = NULL;
		size_t k = 0;

		memcpy(line, lines[i], sizeof(line));
		for (char *s = strtok_r(lines[i], " \n", &save); s && k < WORDS_MAX;
		     s = strtok_r(NULL, " \n", &save))
			w[k++] = s;
		if (k && add_line(p, w, k, &e) < 0)
			die(line, &e);
	}
	if (policy_seal(p, &e) < 0 || policy_pack(p, &out, &e) < 0)
		die("policy", &e);
	return fd_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}
