/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled policy from a few words, for tests and benches of the programs that read one, without YAML in between:
 *
 *	mkbundle [observe] [gen=N] [range=CIDR] [limits:KEY=N,…] [allow|deny]=HOST[:PORT][,KEY=VALUE]… > bundle
 *
 * HOST may be an address or a range; KEY is depth, to, up, bandwidth, requests, connections, http (an allowed "GET /path").
 */
#include "base/fd.h"
#include "base/str.h"
#include "policy/build.h"

#include <errno.h>
#include <stdio.h>

static struct err e;

static int die(const char *what)
{
	fprintf(stderr, "mkbundle: %s: %s\n", what, e.msg);
	return 1;
}

static int set_limit(struct policy_limits *l, const char *key, const char *value)
{
	uint64_t v = 0;

	if (str_to_u64(value, &v) < 0)
		return -EINVAL;
	if (str_eq(key, "up"))
		l->bytes_up = v;
	else if (str_eq(key, "bandwidth"))
		l->bandwidth = v;
	else if (str_eq(key, "requests"))
		l->requests_per_minute = (uint32_t)v;
	else if (str_eq(key, "connections"))
		l->connections = (uint32_t)v;
	else
		return -EINVAL;
	return 0;
}

static int set_depth(struct policy_rule *r, const char *value)
{
	for (int d = POLICY_TUNNEL; d <= POLICY_INSPECT; d++) {
		if (str_eq(value, policy_depth_name((enum policy_depth)d))) {
			r->depth = d;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_pin(struct policy_rule *r, const char *value)
{
	struct host h;
	int n = host_port_parse(value, strlen(value), 0, &h, &r->pin_port, &e);

	r->has_pin = true;
	r->pin = h.addr;
	return n < 0 || h.kind != HOST_ADDR ? -EINVAL : 0;
}

static int set_http(struct policy_rule *r, char *value)
{
	struct policy_entry en = { .kind = POLICY_HTTP, .action = POLICY_ALLOW };
	char *path = strchr(value, ' ');

	if (!path)
		return -EINVAL;
	*path++ = '\0';
	en.path = path;
	if (method_parse(value, strlen(value), &en.methods, &e) < 0)
		return -EINVAL;
	return policy_rule_add_entry(r, &en, &e);
}

static int set_key(struct policy_rule *r, const char *key, char *value)
{
	if (str_eq(key, "depth"))
		return set_depth(r, value);
	if (str_eq(key, "to"))
		return set_pin(r, value);
	if (str_eq(key, "http"))
		return set_http(r, value);
	return set_limit(&r->limits, key, value);
}

static int set_host(struct policy_rule *r, char *spec)
{
	char *port = strrchr(spec, ':');
	uint64_t n = 443;

	if (port) {
		*port++ = '\0';
		if (!str_eq(port, "any") && str_to_u64(port, &n) < 0)
			return -EINVAL;
	}
	r->port_given = port != NULL && !str_eq(port, "any");
	r->ports[r->n_ports++] = port && str_eq(port, "any")
					 ? (struct policy_ports){ 1, 65535 }
					 : (struct policy_ports){ (uint16_t)n, (uint16_t)n };
	if (addr_range_parse(spec, strlen(spec), &r->range, NULL) == 0) {
		r->by_addr = true;
		return 0;
	}
	return hostpat_parse(spec, strlen(spec), &r->host, &e);
}

static int add_rule(struct policy *p, unsigned layer, enum policy_action action, char *spec)
{
	struct policy_rule r = POLICY_RULE_INIT;
	char *save = NULL, *word = strtok_r(spec, ",", &save);
	int n = word ? set_host(&r, word) : -EINVAL;

	r.action = action;
	snprintf(r.source, sizeof(r.source), "test");
	while (n == 0 && (word = strtok_r(NULL, ",", &save)) != NULL) {
		char *value = strchr(word, '=');

		if (!value)
			return err_set(&e, -EINVAL, "'%s' has no value", word);
		*value++ = '\0';
		n = set_key(&r, word, value);
	}
	return n < 0 ? n : policy_add_rule(p, layer, &r, &e);
}

static int take_limits(struct policy_limits *l, char *spec)
{
	char *save = NULL;

	for (char *word = strtok_r(spec, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *value = strchr(word, '=');

		if (!value)
			return -EINVAL;
		*value++ = '\0';
		if (set_limit(l, word, value) < 0)
			return -EINVAL;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct policy_layer_opts opts = { 0 };
	struct policy *p = NULL;
	autobuf struct buf out = BUF_INIT;
	enum policy_mode mode = POLICY_ENFORCE;
	uint64_t gen = 1;
	unsigned layer = 0;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "observe"))
			mode = POLICY_OBSERVE;
		else if ((str_starts(argv[i], "gen=") && str_to_u64(argv[i] + 4, &gen) < 0) ||
			 (str_starts(argv[i], "limits:") && take_limits(&opts.limits, argv[i] + 7) < 0))
			return die(argv[i]);
	}
	if (policy_new(mode, &p, &e) < 0 || policy_add_layer(p, &opts, &layer, &e) < 0)
		return die("policy");
	for (int i = 1; i < argc; i++) {
		struct addr_range range;

		if (str_starts(argv[i], "allow=") && add_rule(p, layer, POLICY_ALLOW, argv[i] + 6) < 0)
			return die(argv[i]);
		if (str_starts(argv[i], "deny=") && add_rule(p, layer, POLICY_DENY, argv[i] + 5) < 0)
			return die(argv[i]);
		if (str_starts(argv[i], "range=") &&
		    (addr_range_parse(argv[i] + 6, strlen(argv[i] + 6), &range, &e) < 0 ||
		     policy_set_synthetic(p, &range, &e) < 0))
			return die(argv[i]);
	}
	policy_set_generation(p, (uint32_t)gen);
	if (policy_seal(p, &e) < 0 || policy_pack(p, &out, &e) < 0)
		return die("policy");
	policy_free(p);
	return fd_write_all(1, out.data, out.len) < 0;
}
