/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>

#define OPT_KNOWN_MAX 96 /* options of one verb that a slip is compared with */

static const struct opt help_opt = { "help", 'h', NULL, "show this help", OPT_HELP };

static const struct opt *find_long(const struct optparse *p, const char *name, size_t len)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *known = p->table[i].name;

		if (known && strncmp(known, name, len) == 0 && known[len] == '\0')
			return &p->table[i];
	}
	return len == 4 && memcmp(name, "help", 4) == 0 ? &help_opt : NULL;
}

static const struct opt *find_short(const struct optparse *p, char c)
{
	for (size_t i = 0; i < p->n; i++) {
		if (c && p->table[i].short_name == c)
			return &p->table[i];
	}
	return c == 'h' ? &help_opt : NULL;
}

static int unknown_long(const struct optparse *p, const char *name, size_t len, struct err *e)
{
	const char *known[OPT_KNOWN_MAX];
	char word[64];
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < p->n && n < OPT_KNOWN_MAX - 1; i++) {
		if (p->table[i].name)
			known[n++] = p->table[i].name;
	}
	known[n++] = help_opt.name;
	snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word) - 1), name);
	err_set(e, -EINVAL, "%s has no option --%s", p->argv[0], word);
	near = str_nearest(word, known, n);
	if (near)
		err_hint(e, -EINVAL, "--%s", near);
	return -EINVAL;
}

static int unknown_short(const struct optparse *p, char c, struct err *e)
{
	char other = (char)(c ^ 0x20); /* the other case of a letter */
	const struct opt *o = find_short(p, other);

	err_set(e, -EINVAL, "%s has no option -%c", p->argv[0], c);
	if (o)
		err_hint(e, -EINVAL, "-%c (--%s)", other, o->name);
	return -EINVAL;
}

static int missing_value(const struct opt *o, const char *instead, struct err *e)
{
	if (instead)
		err_set(e, -EINVAL, "--%s needs a value, but %s follows", o->name, instead);
	else
		err_set(e, -EINVAL, "--%s needs a value", o->name);
	return err_hint(e, -EINVAL, "--%s %s: %s", o->name, o->arg, o->help);
}

/* The value is the next word, unless that is clearly meant as something else. */
static int take_value(struct optparse *p, const struct opt *o, const char **value, struct err *e)
{
	const char *next;

	if (p->index >= p->argc)
		return missing_value(o, NULL, e);
	next = p->argv[p->index];
	if (str_starts(next, "--") && (!next[2] || find_long(p, next + 2, strcspn(next + 2, "="))))
		return missing_value(o, next, e);
	p->index++;
	*value = next;
	return o->id;
}

static int parse_long(struct optparse *p, const char *word, const char **value, struct err *e)
{
	size_t len = strcspn(word, "=");
	const struct opt *o = find_long(p, word, len);

	if (!o)
		return unknown_long(p, word, len, e);
	if (word[len] == '=') {
		if (!o->arg)
			return err_set(e, -EINVAL, "--%s takes no value", o->name);
		*value = word + len + 1;
		return o->id;
	}
	return o->arg ? take_value(p, o, value, e) : o->id;
}

static int parse_short(struct optparse *p, const char *word, const char **value, struct err *e)
{
	const struct opt *o = find_short(p, word[0]);

	if (!o)
		return unknown_short(p, word[0], e);
	if (!o->arg) {
		p->cluster = word[1] ? word + 1 : NULL;
		return o->id;
	}
	if (!word[1])
		return take_value(p, o, value, e);
	*value = word[1] == '=' ? word + 2 : word + 1;
	return o->id;
}

int opt_next(struct optparse *p, const char **value, struct err *e)
{
	const char *word = p->cluster;

	*value = NULL;
	p->cluster = NULL;
	if (word)
		return parse_short(p, word, value, e);
	if (p->ended || p->index >= p->argc)
		return 0;
	word = p->argv[p->index];
	if (word[0] != '-' || !word[1])
		return 0;
	p->index++;
	if (word[1] != '-')
		return parse_short(p, word + 1, value, e);
	if (word[2])
		return parse_long(p, word + 2, value, e);
	p->ended = true;
	return 0;
}

const char *opt_take(struct optparse *p)
{
	return p->index < p->argc ? p->argv[p->index++] : NULL;
}

int opt_one_of(const char *option, const char *text, const char *values, struct err *e)
{
	autofree char *copy = strdup(values);
	const char *known[32];
	const char *near;
	char *rest = NULL;
	size_t n = 0;

	if (!copy)
		return err_sys(e, -ENOMEM, "cannot read %s", option);
	for (char *w = strtok_r(copy, " ", &rest); w && n < ARRAY_SIZE(known);
	     w = strtok_r(NULL, " ", &rest)) {
		if (str_eq(w, text))
			return (int)n;
		known[n++] = w;
	}
	err_set(e, -EINVAL, "%s cannot be '%s'", option, text);
	near = str_nearest(text, known, n);
	return near ? err_hint(e, -EINVAL, "%s (one of: %s)", near, values)
		    : err_hint(e, -EINVAL, "one of: %s", values);
}
