/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option parser: walks over argv by a table of options, as opt.h describes. Errors suggest the nearest
 * option, or ours for an option of docker (habit.h). It never prints, and never accepts an abbreviated long
 * option.
 */
#include "cli/core/opt.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/core/habit.h"

#include <errno.h>

static const struct opt help_opt = { "help", 'h', NULL, "show this help", OPT_HELP };

static const struct opt *find_long_option(const struct optparse *p, const char *name, size_t len)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *known = p->table[i].name;

		if (known && strncmp(known, name, len) == 0 && known[len] == '\0')
			return &p->table[i];
	}
	return len == 4 && memcmp(name, "help", 4) == 0 ? &help_opt : NULL;
}

static const struct opt *find_short_option(const struct optparse *p, char c)
{
	for (size_t i = 0; i < p->n; i++) {
		if (c && p->table[i].short_name == c)
			return &p->table[i];
	}
	return c == 'h' ? &help_opt : NULL;
}

static int refuse_unknown_long(const struct optparse *p, const char *name, size_t len, struct err *e)
{
	const char *known[OPT_TABLE_MAX + 1];
	char word[64];
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < p->n && n < OPT_TABLE_MAX; i++) {
		if (p->table[i].name)
			known[n++] = p->table[i].name;
	}
	known[n++] = help_opt.name;
	snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word) - 1), name);
	err_set(e, -EINVAL, "%s has no option --%s", p->argv[0], word);
	if (habit_hint_option(p->argv[0], word, e))
		return -EINVAL;
	near = str_nearest(word, known, n);
	if (near)
		err_hint(e, -EINVAL, "--%s", near);
	return -EINVAL;
}

static int refuse_unknown_short(const struct optparse *p, char c, struct err *e)
{
	char other = (char)(c ^ 0x20); /* the other case of a letter */
	const struct opt *o = find_short_option(p, other);

	err_set(e, -EINVAL, "%s has no option -%c", p->argv[0], c);
	if (habit_hint_option(p->argv[0], (char[]){ c, '\0' }, e))
		return -EINVAL;
	if (o)
		err_hint(e, -EINVAL, "-%c (--%s)", other, o->name);
	return -EINVAL;
}

static int refuse_missing_value(const struct opt *o, const char *instead, struct err *e)
{
	if (instead)
		err_set(e, -EINVAL, "--%s needs a value, but %s follows", o->name, instead);
	else
		err_set(e, -EINVAL, "--%s needs a value", o->name);
	return err_hint(e, -EINVAL, "--%s %s: %s", o->name, o->arg, o->help);
}

/* An option takes one value, or the same value repeatedly, unless its row has `many`. Returns the option's
 * id. */
static int remember_option_value(struct optparse *p, const struct opt *o, const char *value, struct err *e)
{
	char first[64], second[64];
	const char **seen;

	if (!o->arg || o->many || o == &help_opt || o->id == OPT_NOTHING)
		return o->id;
	BUG_ON(p->n > OPT_TABLE_MAX);
	seen = &p->seen[o - p->table];
	if (*seen && !str_eq(*seen, value)) {
		err_set(e, -EINVAL, "--%s takes one value and is given two, '%s' and '%s'", o->name,
			str_safe(*seen, first, sizeof(first)), str_safe(value, second, sizeof(second)));
		return err_hint(e, -EINVAL, "leave one of them out");
	}
	*seen = value;
	return o->id;
}

/* The value is the next word of argv. A word that is "--", or a long option of this table, is no value: the
 * value was forgotten. */
static int take_option_value(struct optparse *p, const struct opt *o, const char **value, struct err *e)
{
	const char *next;

	if (p->index >= p->argc)
		return refuse_missing_value(o, NULL, e);
	next = p->argv[p->index];
	if (str_starts(next, "--") && (!next[2] || find_long_option(p, next + 2, strcspn(next + 2, "="))))
		return refuse_missing_value(o, next, e);
	p->index++;
	*value = next;
	return remember_option_value(p, o, next, e);
}

static int parse_long_option(struct optparse *p, const char *word, const char **value, struct err *e)
{
	size_t len = strcspn(word, "=");
	const struct opt *o = find_long_option(p, word, len);
	const struct habit *h = o ? NULL : habit_option(p->argv[0], word, len);

	if (h)
		o = h->means ? find_long_option(p, h->means, strlen(h->means)) : &h->nothing;
	if (!o)
		return refuse_unknown_long(p, word, len, e);
	if (word[len] == '=') {
		if (!o->arg)
			return err_set(e, -EINVAL, "--%s takes no value", o->name);
		*value = word + len + 1;
		return remember_option_value(p, o, *value, e);
	}
	return o->arg ? take_option_value(p, o, value, e) : o->id;
}

static int parse_short_option(struct optparse *p, const char *word, const char **value, struct err *e)
{
	const struct opt *o = find_short_option(p, word[0]);
	const struct habit *h = o ? NULL : habit_option(p->argv[0], word, 1);

	if (h)
		o = h->means ? find_long_option(p, h->means, strlen(h->means)) : &h->nothing;
	if (!o)
		return refuse_unknown_short(p, word[0], e);
	if (!o->arg) {
		p->cluster = word[1] ? word + 1 : NULL;
		return o->id;
	}
	if (!word[1])
		return take_option_value(p, o, value, e);
	*value = word[1] == '=' ? word + 2 : word + 1;
	return remember_option_value(p, o, *value, e);
}

/* Moves positionals before the next option to the front of argv. After the last option, argv has the
 * positionals alone. */
static void move_positionals_forward(struct optparse *p)
{
	while (p->index < p->argc && (p->ended || p->argv[p->index][0] != '-' || !p->argv[p->index][1]))
		p->argv[++p->n_words] = p->argv[p->index++];
	if (p->index < p->argc)
		return;
	p->mixed = false;
	p->ended = true;
	p->index = 1;
	p->argc = p->n_words + 1;
}

static int parse_next_option(struct optparse *p, const char **value, struct err *e)
{
	const char *word = p->cluster;

	*value = NULL;
	p->cluster = NULL;
	if (word)
		return parse_short_option(p, word, value, e);
	if (p->mixed)
		move_positionals_forward(p);
	if (p->ended || p->index >= p->argc)
		return 0;
	word = p->argv[p->index];
	if (word[0] != '-' || !word[1])
		return 0;
	p->index++;
	if (word[1] != '-')
		return parse_short_option(p, word + 1, value, e);
	if (word[2])
		return parse_long_option(p, word + 2, value, e);
	p->ended = true;
	if (p->mixed)
		move_positionals_forward(p);
	return 0;
}

int opt_next(struct optparse *p, const char **value, struct err *e)
{
	int id;

	/* An option of another program that asks for what every sandbox has anyway is ignored. */
	do
		id = parse_next_option(p, value, e);
	while (id == OPT_NOTHING);
	return id;
}

const char *opt_take(struct optparse *p)
{
	return p->index < p->argc ? p->argv[p->index++] : NULL;
}

static int find_word(const char *option, const char *text, const char *values, bool is_action, struct err *e)
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
	err_set(e, -EINVAL, is_action ? "%s has no action '%s'" : "%s cannot be '%s'", option, text);
	if (habit_hint_option(option, text, e))
		return -EINVAL;
	near = str_nearest(text, known, n);
	return near ? err_hint(e, -EINVAL, "%s (one of: %s)", near, values)
		    : err_hint(e, -EINVAL, "one of: %s", values);
}

int opt_one_of(const char *option, const char *text, const char *values, struct err *e)
{
	return find_word(option, text, values, false, e);
}

int opt_action(const char *verb, const char *text, const char *values, struct err *e)
{
	return find_word(verb, text, values, true, e);
}

int opt_time(const char *option, const char *text, uint64_t *ret, struct err *e)
{
	if (clock_parse(text, clock_nsec(CLOCK_REALTIME), ret) == 0)
		return 0;
	err_set(e, -EINVAL, "%s cannot read the time '%.64s'", option, text);
	return err_hint(e, -EINVAL, "2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 90s, 2h, 3d");
}
