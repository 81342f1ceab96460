/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ps --filter: parses and checks KEY=VALUE terms, and matches runs against them. A term that can never
 * match is an error, so that a mistyped value is not taken for "no such sandbox".
 */
#include "cli/box/ps_filter.h"

#include "base/cleanup.h"
#include "cli/common/run_json.h"
#include "cli/core/opt.h"
#include "run/supervise/supervise.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEYS "name id status engine image exited profile net"
#define STATUSES "starting running exited broken"

enum key { KEY_NAME, KEY_ID, KEY_STATUS, KEY_ENGINE, KEY_IMAGE, KEY_EXITED, KEY_PROFILE, KEY_NET };

struct filter_term {
	enum key key;
	const char *value;
};

/* Docker's name for the key "image" is "ancestor". */
static int parse_filter_key(const char *text, size_t len, struct err *e)
{
	char key[32];

	snprintf(key, sizeof(key), "%.*s", (int)(len < sizeof(key) ? len : sizeof(key) - 1), text);
	if (str_eq(key, "ancestor"))
		return KEY_IMAGE;
	return opt_one_of("--filter", key, KEYS, e);
}

/* The value is a status, or a cause of a run's end. */
static int check_status_value(const char *value, struct err *e)
{
	autobuf struct buf all = BUF_INIT;

	buf_adds(&all, STATUSES);
	for (unsigned c = CAUSE_EXIT + 1; c < CAUSE_COUNT; c++)
		buf_addf(&all, " %s", run_cause_name((enum run_cause)c));
	if (buf_error(&all))
		return err_set(e, -ENOMEM, "out of memory");
	/* The names that --json uses. */
	if (str_eq(value, "ended") || str_eq(value, "broken off"))
		return 0;
	return opt_one_of("--filter status", value, buf_cstr(&all), e);
}

static struct filter_term split_filter_term(const char *text)
{
	const char *eq = strchr(text, '=');

	return (struct filter_term){ (enum key)parse_filter_key(text, (size_t)(eq - text), NULL), eq + 1 };
}

int cli_ps_filter_add(struct ps_filter *f, const char *text, struct err *e)
{
	const char *eq = strchr(text, '=');
	uint64_t code;
	int r;

	if (!eq || !eq[1]) {
		err_set(e, -EINVAL, "--filter takes KEY=VALUE, not '%.100s'", text);
		return err_hint(e, -EINVAL, "the keys are: " KEYS);
	}
	r = parse_filter_key(text, (size_t)(eq - text), e);
	if (r == KEY_STATUS)
		r = check_status_value(eq + 1, e);
	else if (r == KEY_EXITED && (str_to_u64(eq + 1, &code) < 0 || code > 255))
		r = err_set(e, -EINVAL, "--filter exited takes an exit code from 0 to 255, not '%.40s'",
			    eq + 1);
	if (r < 0)
		return r;
	return strv_add(&f->terms, text) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static bool matches_status(const char *value, const struct run_meta *m, bool alive)
{
	const char *status = cli_run_status(m, alive);

	if (str_eq(value, "exited") || str_eq(value, "ended"))
		return str_eq(status, "ended");
	if (str_eq(value, "broken off"))
		return str_eq(status, value);
	/* Broken off, or ended because the sandbox broke the protocol. */
	if (str_eq(value, "broken") && str_eq(status, "broken off"))
		return true;
	if (str_eq(status, "ended"))
		return m->cause && str_eq(m->cause, value);
	return str_eq(status, value);
}

static bool is_equal_text(const char *have, const char *value)
{
	return have && str_eq(have, value);
}

/* NAME matches any tag of that image. */
static bool matches_image(const char *have, const char *value)
{
	size_t n = strlen(value);

	return have &&
	       (str_eq(have, value) || (str_starts(have, value) && (have[n] == ':' || have[n] == '@')));
}

static bool matches_term(const struct filter_term *t, const struct run_meta *m, bool alive)
{
	uint64_t code = 0;

	switch (t->key) {
	case KEY_NAME:
		return m->name && strstr(m->name, t->value);
	case KEY_ID:
		return str_starts(m->id, t->value);
	case KEY_STATUS:
		return matches_status(t->value, m, alive);
	case KEY_ENGINE:
		return is_equal_text(m->engine, t->value);
	case KEY_IMAGE:
		return matches_image(m->image, t->value);
	case KEY_PROFILE:
		return is_equal_text(m->profile, t->value);
	case KEY_NET:
		return is_equal_text(m->net ? m->net : "none", t->value);
	default:
		return !alive && m->ended && str_to_u64(t->value, &code) == 0 &&
		       (uint64_t)m->exit_code == code;
	}
}

bool cli_ps_filter_fits(const struct ps_filter *f, const struct run_meta *m, bool alive)
{
	unsigned asked = 0, met = 0;

	for (size_t i = 0; i < f->terms.n; i++) {
		const struct filter_term t = split_filter_term(f->terms.v[i]);

		asked |= 1u << t.key;
		if (matches_term(&t, m, alive))
			met |= 1u << t.key;
	}
	return asked == met;
}

bool cli_ps_filter_wants_ended(const struct ps_filter *f)
{
	for (size_t i = 0; i < f->terms.n; i++) {
		const struct filter_term t = split_filter_term(f->terms.v[i]);

		if (t.key == KEY_EXITED ||
		    (t.key == KEY_STATUS && !str_eq(t.value, "running") && !str_eq(t.value, "starting")))
			return true;
	}
	return false;
}

void cli_ps_filter_release(struct ps_filter *f)
{
	strv_release(&f->terms);
}
