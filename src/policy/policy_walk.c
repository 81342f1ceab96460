/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rules that match a target, most specific first. By name: the name itself, "*." and each parent,
 * then "*". Pure: no I/O, no clock. Its work must stay within policy.P6.
 */
#include "policy/policy_int.h"

#include "base/str.h"

#include <string.h>

enum { STAGE_EXACT, STAGE_BELOW, STAGE_ADDR, STAGE_END };

const struct host *target_name(const struct policy_target *t)
{
	return t->name && t->name->kind == HOST_NAME ? t->name : NULL;
}

struct addr target_addr(const struct policy_target *t)
{
	return t->name ? t->name->addr : t->addr;
}

char *target_text(const struct policy_target *t, char out[TARGET_TEXT_MAX])
{
	const struct host *name = target_name(t);
	struct addr a = target_addr(t);
	char text[ADDR_TEXT_LEN];

	if (name)
		snprintf(out, TARGET_TEXT_MAX, "%s:%u", name->text, t->port);
	else
		snprintf(out, TARGET_TEXT_MAX, addr_is_v4(&a) ? "%s:%u" : "[%s]:%u", addr_format(&a, text),
			 t->port);
	return out;
}

void walk_begin(struct walk *w, const struct layer *l, const struct policy_target *t)
{
	*w = (struct walk){ .l = l, .name = target_name(t), .port = t->port };
	w->stage = w->name ? STAGE_EXACT : STAGE_ADDR;
	if (w->name)
		w->next = w->name->text;
	else
		w->addr = target_addr(t);
}

/* Finds the rules whose pattern is `text`: w->lo to w->hi. */
static bool walk_find_host(struct walk *w, const char *text)
{
	size_t lo = 0, hi = w->l->n_by_host;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(w->l->by_host[mid]->host.text, text) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	w->set = w->l->by_host;
	w->lo = w->hi = lo;
	while (w->hi < w->l->n_by_host && str_eq(w->l->by_host[w->hi]->host.text, text))
		w->hi++;
	return w->hi > w->lo;
}

/* To the next "*.parent" pattern that has rules. */
static bool walk_next_parent(struct walk *w)
{
	char pattern[HOST_MAX + 3];

	while ((w->next = strchr(w->next, '.'))) {
		snprintf(pattern, sizeof(pattern), "*.%s", ++w->next);
		if (walk_find_host(w, pattern))
			return true;
	}
	return false;
}

/* The next range that contains the address, longest prefix first. */
static bool walk_next_range(struct walk *w)
{
	struct policy_rule *const *v = w->l->by_addr;
	size_t i = w->hi;

	while (i < w->l->n_by_addr && !addr_range_contains(&v[i]->range, &w->addr))
		i++;
	w->set = v;
	w->lo = w->hi = i;
	while (w->hi < w->l->n_by_addr && v[w->hi]->range.bits == v[i]->range.bits &&
	       addr_eq(&v[w->hi]->range.base, &v[i]->range.base))
		w->hi++;
	return w->hi > w->lo;
}

bool walk_level(struct walk *w)
{
	w->spec = 0;
	switch (w->stage) {
	case STAGE_EXACT:
		w->stage = STAGE_BELOW;
		if (walk_find_host(w, w->name->text))
			return true;
		__attribute__((fallthrough));
	case STAGE_BELOW:
		if (walk_next_parent(w))
			return true;
		w->stage = STAGE_END;
		return walk_find_host(w, "*");
	case STAGE_ADDR:
		if (walk_next_range(w))
			return true;
		w->stage = STAGE_END;
		return walk_find_host(w, "*");
	default:
		return false;
	}
}

bool walk_is_any(const struct walk *w)
{
	return w->lo < w->hi && !w->set[w->lo]->by_addr && w->set[w->lo]->host.kind == HOSTPAT_ANY;
}

/* The next larger port specificity among the rules of this host. */
static bool walk_next_port_spec(struct walk *w)
{
	unsigned best = 0;

	for (size_t i = w->lo; i < w->hi; i++) {
		unsigned s = rule_port_spec(w->set[i], w->port);

		if (s > w->spec && (best == 0 || s < best))
			best = s;
	}
	if (best)
		w->spec = best;
	return best != 0;
}

bool walk_step(struct walk *w)
{
	while (!walk_next_port_spec(w)) {
		if (!walk_level(w))
			return false;
	}
	return true;
}

const struct policy_rule *walk_rule(const struct walk *w, size_t *at)
{
	while (w->lo + *at < w->hi) {
		const struct policy_rule *r = w->set[w->lo + (*at)++];

		if (rule_port_spec(r, w->port) == w->spec)
			return r;
	}
	return NULL;
}

bool policy_rule_is_alone(const struct policy *p, const struct policy_rule *r, const struct policy_target *t)
{
	const struct policy_rule *first;
	struct walk w;
	size_t at = 0;

	walk_begin(&w, &p->layers[r->layer], t);
	if (r->action != POLICY_ALLOW || !r->n_entries || !walk_step(&w))
		return false;
	first = walk_rule(&w, &at);
	return first == r && !walk_rule(&w, &at);
}
