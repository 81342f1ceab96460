/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret set, rotate, change, rm: a secret's value and dates, from creation to removal. The value goes
 * straight from its source into the vault (secret_value.c). Each change is logged before it is saved, and a
 * change that failed is reverted before the next one starts. No byte of the value may be here.
 */
#include "cli/secret/cmd_secret.h"

#include "base/clock.h"
#include "cli/core/say.h"

#include <errno.h>

static uint64_t now_in_seconds(void)
{
	return clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
}

static unsigned set_flags(const struct secret_args *a)
{
	return (a->weak ? VAULT_SET_WEAK : 0) | (a->replace ? VAULT_SET_REPLACE : 0);
}

static void say_secret_saved(const struct secret_args *a, const char *name)
{
	autostrv struct strv profiles = STRV_INIT;
	autobuf struct buf names = BUF_INIT;

	if (a->hosts.n) {
		say_note("%s is saved", name);
		return;
	}
	if (cli_secret_list_profiles(name, &profiles) < 0 || !profiles.n) {
		say_note("%s is saved; it can be sent nowhere until it is bound: coffer secret bind", name);
		return;
	}
	for (size_t i = 0; i < profiles.n; i++)
		buf_addf(&names, "%s%s", i == 0 ? "" : i + 1 == profiles.n ? " or " : ", ", profiles.v[i]);
	say_note("%s is saved; coffer run --profile %s uses it", name, buf_cstr(&names));
}

int cli_secret_set(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	const char *name = a->argv[0];
	int r = cli_secret_take_value(s, a, name, set_flags(a), NULL, e);

	if (r == 0)
		r = cli_secret_log(s, "secret.set", name, NULL, e);
	if (r == 0)
		r = cli_secret_bind_all(s, a, name, e);
	if (r == 0)
		r = cli_secret_save(s, e);
	if (r < 0)
		return r;
	if (a->replace)
		say_note("the previous bindings of '%s' were removed", name);
	say_secret_saved(a, name);
	return 0;
}

/* A new value keeps the dates that no option mentions. "never" is a mention: it clears the date. */
static int clear_dates(struct secret_session *s, const struct secret_args *a, const char *name, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_CHANGE };

	ask.num[0] = (a->expires_text && !a->expires ? VAULT_CHANGE_EXPIRES : 0) |
		     (a->every_text && !a->every ? VAULT_CHANGE_SCHEDULE : 0);
	ask.text[0] = slice_of(name);
	return ask.num[0] ? vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e) : 0;
}

static int rotate_value(struct secret_session *s, const struct secret_args *a, const struct secret_item *i,
			struct err *e)
{
	int r = cli_secret_take_value(s, a, i->name, VAULT_SET_ROTATE | set_flags(a), i->command, e);

	if (r == 0)
		r = clear_dates(s, a, i->name, e);
	if (r == 0)
		r = cli_secret_log(s, "secret.rotate", i->name, NULL, e);
	if (r == 0)
		r = cli_secret_save(s, e);
	if (r < 0)
		return r;
	say_note("%s has a new value", i->name);
	if (!a->expires_text && cli_secret_item_has_expired(i, now_in_seconds()))
		say_warn("%s is still marked as expired: set a new date with --expires", i->name);
	return 0;
}

static int rotate_and_log(struct secret_session *s, const struct secret_args *a, const struct secret_item *i,
			  struct err *e)
{
	int r = rotate_value(s, a, i, e);
	struct err also = ERR_INIT;

	if (r < 0 && cli_secret_log_failure(s, "secret.rotate.failed", i->name, e, &also) < 0)
		say_warn("%s", also.msg);
	return r;
}

static int rotate_all_due(struct secret_session *s, const struct secret_args *a, const struct secret_items *l,
			  struct err *e)
{
	struct secret_args plain = { .key = a->key };
	unsigned n = 0, failed = 0;
	int r = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct err why = ERR_INIT, stuck = ERR_INIT;

		if (!cli_secret_item_is_due(&l->v[i], now_in_seconds()))
			continue;
		n++;
		/* A failed rotation does not stop the others. */
		if (rotate_and_log(s, &plain, &l->v[i], &why) < 0) {
			say_warn("%s: %s", l->v[i].name, why.msg);
			failed++;
			/* Without memory the notification lacks this one; the log has it. */
			(void)!strv_addf(&s->failed, "%s: %s", l->v[i].name, why.msg);
			r = why.code;
			/*
			 * A partial change of this rotation must not be saved together with the next one's
			 * value.
			 */
			if (cli_secret_revert(s, &stuck) < 0)
				return err_set(e, stuck.code, "the rest was not tried: %s", stuck.msg);
		}
	}
	if (n == 0)
		say_note("nothing is due");
	/* Even if nothing was saved: cofferd must not wait for rotations that are done. */
	if (cli_secret_write_schedule(s, e) < 0)
		return e->code;
	return failed ? err_set(e, r, "%u of %u could not be rotated", failed, n) : 0;
}

int cli_secret_rotate(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(cli_secret_items_release) struct secret_items l = { 0 };
	int r = cli_secret_session_rotates(s, e);

	if (r == 0)
		r = cli_secret_items_get(s, &l, e);
	if (r < 0 || a->due)
		return r < 0 ? r : rotate_all_due(s, a, &l, e);
	for (size_t i = 0; i < l.n; i++) {
		if (str_eq(l.v[i].name, a->argv[0]))
			return rotate_and_log(s, a, &l.v[i], e);
	}
	s->proc.fault = VAULT_FAULT_NO_SUCH;
	return err_set(e, -ENOENT, "there is no secret '%s'", a->argv[0]);
}

int cli_secret_change(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_CHANGE, .num = { 0, a->expires, a->every } };
	int r;

	ask.num[0] =
		(a->expires_text ? VAULT_CHANGE_EXPIRES : 0) | (a->every_text ? VAULT_CHANGE_SCHEDULE : 0);
	ask.text[0] = slice_of(a->argv[0]);
	ask.text[1] = slice_of(a->command && a->every ? a->command : "");
	r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
	if (r == 0)
		r = cli_secret_log(s, "secret.change", a->argv[0], NULL, e);
	return r < 0 ? r : cli_secret_save(s, e);
}

int cli_secret_rm(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r = 0;

	for (int i = 0; i < a->argc && r == 0; i++) {
		struct vault_msg ask = { .type = VAULT_RM };

		ask.text[0] = slice_of(a->argv[i]);
		r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
		if (r == 0)
			r = cli_secret_log(s, "secret.rm", a->argv[i], NULL, e);
	}
	return r < 0 ? r : cli_secret_save(s, e);
}
