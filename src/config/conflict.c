/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the command line with the policy files: finds resolvers and hosts that --resolver and --allow name
 * but the files do not grant.
 */
#include "config/conflict.h"

#include "base/cleanup.h"
#include "config/read.h"

#include <errno.h>
#include <string.h>

static int conflict_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

/* --- resolvers ------------------------------------------------------------------------------------------ */

/* A single host that can answer: not a group of hosts, nor an address that the kernel maps to this machine by
 * accident. */
static bool can_be_resolver(const struct addr *a)
{
	switch (addr_special(a)) {
	case ADDR_UNSPECIFIED:
	case ADDR_THIS_NETWORK:
	case ADDR_MULTICAST:
	case ADDR_BROADCAST:
		return false;
	default:
		return true;
	}
}

int read_resolver_text(const char *text, struct policy_resolver *ret, struct err *e)
{
	struct policy_resolver res = { .port = 53 };
	char shown[64];
	struct host h;

	if ((host_canon(text, strlen(text), &h, NULL) < 0 &&
	     host_port_parse(text, strlen(text), 53, &h, &res.port, NULL) < 0) ||
	    h.kind != HOST_ADDR)
		return err_set(
			e, -EINVAL,
			"'%s': expected a resolver's address: 9.9.9.9, 10.0.0.53:5353, [2620:fe::fe]:53",
			str_safe(text, shown, sizeof(shown)));
	if (!can_be_resolver(&h.addr))
		return err_set(e, -EINVAL, "'%s' is %s, which cannot be a resolver",
			       str_safe(text, shown, sizeof(shown)),
			       addr_special_name(addr_special(&h.addr)));
	res.addr = h.addr;
	*ret = res;
	return 0;
}

static bool has_resolver(const struct policy_resolver *r, const struct policy_resolver *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (addr_eq(&l[i].addr, &r->addr) && l[i].port == r->port)
			return true;
	}
	return false;
}

int conflict_resolvers(const struct config_policy_args *a, struct config_policy *out, struct err *e)
{
	struct policy_resolver of_files[POLICY_RESOLVERS_MAX];
	const struct policy_resolver *in, *now;
	size_t n = policy_resolvers(out->policy, &in);
	int r = 0;

	if (a->n_resolvers == 0)
		return 0;
	memcpy(of_files, in, n * sizeof(*in));
	policy_clear_resolvers(out->policy);
	for (size_t i = 0; r == 0 && i < a->n_resolvers; i++) {
		struct policy_resolver one = { .port = 0 };
		size_t n_now = policy_resolvers(out->policy, &now);

		r = read_resolver_text(a->resolvers[i], &one, e);
		if (r == 0 && n && !has_resolver(&one, of_files, n))
			r = strv_addf(
				    &out->conflicts,
				    "--resolver %s: not used, because the policy file names others; the stricter wins",
				    a->resolvers[i]) < 0
				    ? conflict_no_memory(e)
				    : 0;
		else if (r == 0 && !has_resolver(&one, now, n_now))
			r = policy_add_resolver(out->policy, &one, e);
		if (r < 0)
			return err_wrap(e, r, "--resolver");
	}
	if (policy_resolvers(out->policy, &now) > 0)
		return 0;
	err_set(e, -EINVAL,
		"--resolver and the policy file name different resolvers: no resolver is in both lists");
	return err_hint(e, -EINVAL, "omit --resolver, or name one that the file has");
}

/* --- allow ---------------------------------------------------------------------------------------------- */

/* An example of a name that the rule covers. */
static int sample_rule_host(const struct policy_rule *r, struct host *ret)
{
	autobuf struct buf name = BUF_INIT;

	if (r->by_addr) {
		host_from_addr(&r->range.base, ret);
		return 0;
	}
	buf_addf(&name, "%s%s", r->host.kind == HOSTPAT_BELOW ? "x." : "", hostpat_base(&r->host));
	return host_canon(buf_cstr(&name), name.len, ret, NULL);
}

static bool rule_has_port(const struct policy_rule *r, uint16_t port)
{
	for (unsigned i = 0; i < r->n_ports; i++) {
		if (port >= r->ports[i].lo && port <= r->ports[i].hi)
			return true;
	}
	return false;
}

/* Is there anything in this rule of a file that the rule of the command line would let through? */
static bool rules_overlap(const struct policy_rule *file, const struct policy_rule *line)
{
	bool host = file->by_addr != line->by_addr ? false
		    : file->by_addr		   ? addr_range_covers(&line->range, &file->range) ||
					      addr_range_covers(&file->range, &line->range)
				    : hostpat_covers(&line->host, &file->host) ||
					      hostpat_covers(&file->host, &line->host);

	for (unsigned i = 0; host && i < file->n_ports; i++) {
		if (rule_has_port(line, file->ports[i].lo) || rule_has_port(line, file->ports[i].hi))
			return true;
	}
	for (unsigned i = 0; host && i < line->n_ports; i++) {
		if (rule_has_port(file, line->ports[i].lo))
			return true;
	}
	return false;
}

/*
 * Compares one rule of the command line with the files alone. A pattern or port range of which a file allows
 * a part is no conflict: it has an effect.
 */
static int add_conflict(const struct policy *files, const char *file, const struct policy_rule *r,
			struct strv *ret)
{
	struct policy_verdict v;
	struct host h = { 0 };
	struct policy_target t = { .name = &h, .port = r->n_ports ? r->ports[0].lo : 443 };
	bool one = !r->by_addr && r->host.kind == HOSTPAT_EXACT && r->n_ports == 1 &&
		   r->ports[0].lo == r->ports[0].hi;
	char text[POLICY_RULE_TEXT_MAX];
	const char *source = r->source;
	size_t from, what;

	if (sample_rule_host(r, &h) < 0)
		return 0;
	policy_connect(files, &t, &v);
	if (policy_allows(&v))
		return 0;
	for (size_t i = 0; !one && i < policy_rule_count(files); i++) {
		const struct policy_rule *f = policy_rule_at(files, i);

		if (f->action != POLICY_DENY && rules_overlap(f, r))
			return 0;
	}
	/* "allow HOST:PORT (WHERE…)" */
	policy_rule_text(r, text);
	what = strcspn(text, " ") + 1;
	from = strcspn(r->source, ",");
	if (!str_starts(r->source, "profile ")) {
		source = "--allow";
		from = strlen(source);
	}
	return strv_addf(ret, "warning: %.*s allows %.*s, but policy %s does not, so it stays denied%s%s",
			 (int)from, source, (int)strcspn(text + what, " "), text + what, file,
			 v.is_default ? "" : ": ", v.is_default ? "" : v.why);
}

int config_policy_conflicts(const struct config_policy_args *a, struct strv *ret, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy files = { 0 }, allow = { 0 };
	struct config_policy_args only_files = *a, only_allow = *a;
	const char *slash = a->n_files ? strrchr(a->files[0], '/') : NULL, *file;
	int r;

	if (a->n_files == 0 || a->n_allow == 0)
		return 0;
	file = slash ? slash + 1 : a->files[0];
	only_files.n_allow = only_files.n_resolvers = 0;
	only_allow.n_files = only_allow.n_resolvers = 0;
	r = config_policy_load(&only_files, &files, e);
	r = r < 0 ? r : config_policy_load(&only_allow, &allow, e);
	for (size_t i = 0; r == 0 && i < policy_rule_count(allow.policy); i++) {
		if (policy_rule_at(allow.policy, i)->action == POLICY_ALLOW &&
		    add_conflict(files.policy, file, policy_rule_at(allow.policy, i), ret) < 0)
			r = conflict_no_memory(e);
	}
	return r;
}
