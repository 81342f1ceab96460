/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two policies by giving both the same queries. For connections these are exhaustive: a
 * decision can only change at a host pattern or at a border of a port range that one of the two names. For requests one example
 * per entry is compared.
 */
#include "policy/explain.h"

#include "policy/policy_int.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PORTS 65536
#define FILL "any"

struct diff {
	const struct policy *p[2];
	struct buf *out;
	struct policy_diff *n;
	struct strv seen;  /* host patterns that were compared already */
	uint16_t *borders; /* room for every port */
	size_t n_borders;
	bool *is_border; /* by port: each is in `borders` once */
};

/* A name or address that represents a rule's pattern. */
static bool example_host(const struct policy_rule *r, struct host *ret)
{
	char name[HOST_MAX + 8];

	if (r->by_addr) {
		host_from_addr(&r->range.base, ret);
		return true;
	}
	if (r->host.kind == HOSTPAT_ANY)
		snprintf(name, sizeof(name), FILL ".example");
	else
		snprintf(name, sizeof(name), "%s%s", r->host.kind == HOSTPAT_BELOW ? FILL "." : "",
			 hostpat_base(&r->host));
	return host_canon(name, strlen(name), ret, NULL) == 0;
}

static int compare_ports(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static void add_border(struct diff *d, unsigned port)
{
	if (port < 1 || port >= PORTS || d->is_border[port])
		return;
	d->is_border[port] = true;
	d->borders[d->n_borders++] = (uint16_t)port;
}

/* Collects the borders of the port ranges of all rules of one layer that match the host. */
static void add_borders(struct diff *d, const struct layer *l, const struct host *h)
{
	struct policy_target t = { .name = h };
	struct walk w;

	walk_begin(&w, l, &t);
	while (walk_level(&w)) {
		for (size_t i = w.lo; i < w.hi; i++) {
			for (unsigned k = 0; k < w.set[i]->n_ports; k++) {
				add_border(d, w.set[i]->ports[k].lo);
				add_border(d, w.set[i]->ports[k].hi + 1u);
			}
		}
	}
}

/* Collects and sorts the borders of both policies. */
static void collect_borders(struct diff *d, const struct host *h)
{
	d->n_borders = 0;
	memset(d->is_border, 0, PORTS * sizeof(d->is_border[0]));
	add_border(d, 1);
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < d->p[k]->n_layers; i++)
			add_borders(d, &d->p[k]->layers[i], h);
	}
	qsort(d->borders, d->n_borders, sizeof(d->borders[0]), compare_ports);
}

static bool is_same_text(const char *a, const char *b)
{
	return !a == !b && (!a || str_eq(a, b));
}

bool policy_terms_eq(const struct policy_verdict *a, const struct policy_verdict *b)
{
	const struct policy_terms *x = &a->terms, *y = &b->terms;

	return a->depth == b->depth && x->has_pin == y->has_pin &&
	       (!x->has_pin || (addr_eq(&x->pin, &y->pin) && x->pin_port == y->pin_port)) &&
	       is_same_text(x->ca, y->ca) && is_same_text(x->proxy_set, y->proxy_set) &&
	       is_same_text(x->secret, y->secret) && is_same_text(x->capture, y->capture) &&
	       x->credentials_only == y->credentials_only && x->secret_ask == y->secret_ask &&
	       x->limits.bytes_up == y->limits.bytes_up && x->limits.bandwidth == y->limits.bandwidth &&
	       x->limits.connections == y->limits.connections &&
	       x->limits.requests_per_minute == y->limits.requests_per_minute;
}

/* '+', '-', '~', or 0 if nothing differs. */
static char change_sign(const struct policy_verdict *a, const struct policy_verdict *b)
{
	if (policy_allows(a) != policy_allows(b))
		return policy_allows(b) ? '+' : '-';
	return policy_allows(a) && !policy_terms_eq(a, b) ? '~' : 0;
}

/* A change of the secret that is sent, or of the CA that is trusted. */
static void report_credentials(struct diff *d, const struct policy_terms *a, const struct policy_terms *b)
{
	if (!is_same_text(a->secret, b->secret)) {
		buf_addf(d->out, "  %s%s", b->secret ? "secret " : "no secret", b->secret ? b->secret : "");
		if (a->secret)
			buf_addf(d->out, ", was %s", a->secret);
	}
	if (!is_same_text(a->ca, b->ca))
		buf_adds(d->out, !a->ca	  ? "  a ca of its own"
				 : !b->ca ? "  no ca of its own any more"
					  : "  another ca");
}

/* Writes one line of the diff. */
static void report_change(struct diff *d, char c, const char *what, const struct policy_verdict *a,
			  const struct policy_verdict *b)
{
	const char *where = strrchr(b->rule_text, '(');

	d->n->allowed += c == '+';
	d->n->denied += c == '-';
	d->n->changed += c == '~';
	buf_addf(d->out, "%c %s", c, what);
	if (c == '~' && a->depth != b->depth)
		buf_addf(d->out, "  %s, was %s", policy_depth_name(b->depth), policy_depth_name(a->depth));
	if (c == '~')
		report_credentials(d, &a->terms, &b->terms);
	/* For an allowance the line already names the target; for a denial the rule is the reason. */
	buf_addf(d->out, "  %s\n", c == '-' || !where ? b->rule_text : where);
}

static void add_rule_host(const struct policy_rule *r, struct buf *b)
{
	char text[ADDR_RANGE_TEXT_LEN];

	if (r->by_addr && !addr_is_v4(&r->range.base))
		buf_addf(b, "[%s]", addr_range_format(&r->range, text));
	else
		buf_adds(b, r->by_addr ? addr_range_format(&r->range, text) : r->host.text);
}

/* Ports from border i up to the next, joined with the following ones that differ in the same way. */
static void diff_ports(struct diff *d, const struct policy_rule *r, const struct host *h)
{
	struct policy_target t = { .name = h };
	struct policy_verdict a = { 0 }, b = { 0 }, from_a = { 0 }, from_b = { 0 };
	char now = 0;
	unsigned from = 0;

	for (size_t i = 0; i <= d->n_borders; i++) {
		char c = 0;

		if (i < d->n_borders) {
			t.port = d->borders[i];
			policy_connect(d->p[0], &t, &a);
			policy_connect(d->p[1], &t, &b);
			c = change_sign(&a, &b);
			if (c && c == now && str_eq(b.rule_text, from_b.rule_text))
				continue;
		}
		if (now) {
			autobuf struct buf what = BUF_INIT;
			unsigned to = i < d->n_borders ? d->borders[i] - 1u : 65535;

			add_rule_host(r, &what);
			if (from == to)
				buf_addf(&what, ":%u", from);
			else if (from == 1 && to == 65535)
				buf_adds(&what, ":*");
			else
				buf_addf(&what, ":%u-%u", from, to);
			report_change(d, now, buf_cstr(&what), &from_a, &from_b);
		}
		now = c;
		from = t.port;
		from_a = a;
		from_b = b;
	}
}

/* An entry as an example request for both policies. */
struct example {
	struct policy_request r;
	struct buf path, name, method;
	struct graphql_doc gql;
	const struct graphql_doc *docs[1];
	struct policy_push push;
};

static void example_release(struct example *x)
{
	buf_release(&x->path);
	buf_release(&x->name);
	buf_release(&x->method);
}

static unsigned lowest_bit(unsigned bits)
{
	return bits & (~bits + 1);
}

static void example_graphql(struct example *x, const struct policy_entry *en)
{
	x->gql.n_ops = 1;
	x->gql.ops[0].n_fields = 1;
	while (!(en->acts & 1u << x->gql.ops[0].type))
		x->gql.ops[0].type++;
	x->gql.fields[0] = (struct slice){ x->name.data, x->name.len };
	x->docs[0] = &x->gql;
	x->r.gql = x->docs;
	x->r.n_gql = 1;
}

static void example_git(struct example *x, const struct policy_entry *en)
{
	bool fetch = en->acts & POLICY_GIT_FETCH;

	buf_adds(&x->path, fetch ? "/git-upload-pack" : "/git-receive-pack");
	x->push = (struct policy_push){ { x->name.data, x->name.len }, lowest_bit(en->acts) };
	x->r.push = fetch ? NULL : &x->push;
	x->r.n_push = fetch ? 0 : 1;
}

/* Fills in an example request for an entry; false: out of memory. */
static bool example_request(struct example *x, const struct policy_entry *en)
{
	pathpat_sample(en->path, FILL, &x->path);
	if (en->name)
		pathpat_sample(en->name, FILL, &x->name);
	if (en->kind == POLICY_HTTP && en->methods != METHOD_ALL)
		method_format(en->methods, &x->method);
	else
		buf_adds(&x->method, "POST");
	if (buf_error(&x->path) || buf_error(&x->name) || buf_error(&x->method))
		return false;
	if (en->kind == POLICY_GRAPHQL)
		example_graphql(x, en);
	else if (en->kind == POLICY_GIT)
		example_git(x, en);
	x->r.is_body_known = true;
	x->r.method = (struct slice){ x->method.data, strcspn(x->method.data, ",") };
	x->r.path = (struct slice){ x->path.data, x->path.len };
	return !buf_error(&x->path);
}

/* Gives both policies an example request of the entry, and reports a difference once. */
static int diff_entry(struct diff *d, const struct policy_rule *r, const struct host *h,
		      const struct policy_entry *en)
{
	CLEANUP(example_release) struct example x = { 0 };
	autobuf struct buf what = BUF_INIT;
	struct policy_target t = { .name = h, .port = r->ports[0].lo };
	struct policy_verdict a, b;
	char c;

	if (!example_request(&x, en))
		return -ENOMEM;
	policy_request(d->p[0], &t, &x.r, &a);
	policy_request(d->p[1], &t, &x.r, &b);
	c = change_sign(&a, &b);
	if (c != '+' && c != '-')
		return 0;
	add_rule_host(r, &what);
	buf_addf(&what, ":%u ", t.port);
	policy_entry_text(en, &what);
	for (size_t i = 0; i < d->seen.n; i++) {
		if (str_eq(d->seen.v[i], buf_cstr(&what)))
			return 0;
	}
	report_change(d, c, buf_cstr(&what), &a, &b);
	return strv_add(&d->seen, buf_cstr(&what));
}

/* Compares both policies for the host and for each entry of one rule. */
static int diff_rule(struct diff *d, const struct policy_rule *r)
{
	autobuf struct buf pattern = BUF_INIT;
	struct host h;
	bool seen = false;
	int ret = 0;

	add_rule_host(r, &pattern);
	for (size_t i = 0; i < d->seen.n; i++)
		seen = seen || str_eq(d->seen.v[i], buf_cstr(&pattern));
	if (!example_host(r, &h))
		return 0;
	if (!seen) {
		collect_borders(d, &h);
		diff_ports(d, r, &h);
		ret = strv_add(&d->seen, buf_cstr(&pattern));
	}
	for (size_t i = 0; ret == 0 && i < r->n_entries; i++)
		ret = diff_entry(d, r, &h, &r->entries[i]);
	return ret;
}

int policy_diff(const struct policy *a, const struct policy *b, struct buf *out, struct policy_diff *ret,
		struct err *e)
{
	struct diff d = { .p = { a, b }, .out = out, .n = ret };
	int r = 0;

	*ret = (struct policy_diff){ 0 };
	d.borders = calloc(PORTS, sizeof(d.borders[0]));
	d.is_border = calloc(PORTS, sizeof(d.is_border[0]));
	if (!d.borders || !d.is_border) {
		free(d.borders);
		free(d.is_border);
		return err_set(e, -ENOMEM, "out of memory");
	}
	if (a->mode != b->mode) {
		buf_addf(out, "~ mode %s, was %s\n", b->mode == POLICY_OBSERVE ? "observe" : "enforce",
			 a->mode == POLICY_OBSERVE ? "observe" : "enforce");
		ret->changed++;
	}
	for (unsigned k = 0; k < 2; k++) {
		for (size_t i = 0; r == 0 && i < policy_rule_count(d.p[k]); i++)
			r = diff_rule(&d, policy_rule_at(d.p[k], i));
	}
	free(d.borders);
	free(d.is_border);
	strv_release(&d.seen);
	return r < 0 || buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : 0;
}
