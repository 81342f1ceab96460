/* SPDX-License-Identifier: Apache-2.0 */
/* Formats rules and their entries as people write and read them. Pure: no I/O, no clock. */
#include "policy/policy_int.h"

#include "base/str.h"

#include <string.h>

/* The names of the set bits, or "*" for all of them. */
static void add_bit_names(struct buf *out, unsigned bits, const char *const *names, unsigned n, unsigned all)
{
	bool first = true;

	if (bits == all) {
		buf_addc(out, '*');
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (!(bits & 1u << i))
			continue;
		buf_addf(out, "%s%s", first ? "" : ",", names[i]);
		first = false;
	}
}

void policy_entry_text(const struct policy_entry *en, struct buf *out)
{
	static const char *const acts[] = { "create", "update", "delete", "force" };
	static const char *const types[] = { "query", "mutation", "subscription" };

	switch (en->kind) {
	case POLICY_GRAPHQL:
		add_bit_names(out, en->acts, types, 3, POLICY_GRAPHQL_ALL);
		buf_addf(out, " %s", en->name);
		if (!str_eq(en->path, "/graphql"))
			buf_addf(out, " at %s", en->path);
		break;
	case POLICY_GIT:
		if (en->acts & POLICY_GIT_FETCH) {
			buf_addf(out, "fetch %s", en->path + 1);
			break;
		}
		buf_addf(out, "push %s %s ", en->path + 1, en->name);
		add_bit_names(out, en->acts, acts, 4, POLICY_GIT_PUSH_ALL);
		break;
	default:
		method_format(en->methods, out);
		buf_addf(out, " %s", en->path);
	}
}

/* ":443", ":80,8000-8100", ":*" for all ports. */
static void add_rule_ports(const struct policy_rule *r, struct buf *out)
{
	buf_addc(out, ':');
	for (unsigned i = 0; i < r->n_ports; i++) {
		const struct policy_ports *p = &r->ports[i];

		if (i)
			buf_addc(out, ',');
		if (p->lo == 1 && p->hi == 65535)
			buf_addc(out, '*');
		else if (p->lo == p->hi)
			buf_addu(out, p->lo);
		else
			buf_addf(out, "%u-%u", p->lo, p->hi);
	}
}

/* "allow *.github.com:443" */
void rule_add_head(const struct policy_rule *r, struct buf *out)
{
	char range[ADDR_RANGE_TEXT_LEN];

	buf_adds(out, policy_action_name(r->action));
	buf_addc(out, ' ');
	if (!r->by_addr)
		buf_adds(out, r->host.text);
	else if (addr_is_v4(&r->range.base))
		buf_adds(out, addr_range_format(&r->range, range));
	else
		buf_addf(out, "[%s]", addr_range_format(&r->range, range));
	add_rule_ports(r, out);
}

void rule_add_source(const struct policy_rule *r, uint32_t line, struct buf *out)
{
	if (!r->source[0])
		return;
	buf_adds(out, " (");
	buf_adds(out, r->source);
	if (line) {
		buf_addc(out, ':');
		buf_addu(out, line);
	}
	buf_addc(out, ')');
}

/* The end of a place: a parenthesis that is not followed by more of a name. A place that was cut has none. */
static const char *place_end(const char *s)
{
	const char *end = s;

	while (*end && !(*end == ')' && (!end[1] || strchr(" :,;.]", end[1]))))
		end++;
	return end;
}

void policy_text_inside(const char *text, struct buf *out)
{
	while (*text) {
		const char *end = text[0] == '(' && text[1] == '/' ? place_end(text) : NULL;

		buf_addc(out, *text++);
		for (const char *p = text; end && p < end; p++) {
			if (*p == '/')
				text = p + 1;
		}
	}
}

char *policy_rule_text(const struct policy_rule *r, char out[POLICY_RULE_TEXT_MAX])
{
	autobuf struct buf b = BUF_INIT;

	rule_add_head(r, &b);
	rule_add_source(r, r->line, &b);
	return str_safe(buf_cstr(&b), out, POLICY_RULE_TEXT_MAX);
}
