/* SPDX-License-Identifier: Apache-2.0 */
/* coffer secret ls: names, bindings, dates and notes of all secrets, never a value. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/secret/cmd_secret.h"
#include "config/profile.h"

#include <errno.h>

static bool uses_secret(const struct profile *p, const char *name)
{
	for (size_t k = 0; k < p->n_secrets; k++) {
		if (str_eq(p->secrets[k].name, name) && p->secrets[k].host)
			return true;
	}
	return false;
}

int cli_secret_list_profiles(const char *name, struct strv *ret)
{
	autostrv struct strv names = STRV_INIT;
	struct err ignored = ERR_INIT;
	int r = profile_list(&names, &ignored);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		CLEANUP(profile_release) struct profile p = PROFILE_INIT;

		if (profile_load(&p, names.v[i], &ignored) == 0 && uses_secret(&p, name))
			r = strv_add(ret, names.v[i]);
	}
	return r;
}

bool cli_secret_find_profile(const char *name, char ret[64])
{
	autostrv struct strv all = STRV_INIT;

	if (cli_secret_list_profiles(name, &all) < 0 || !all.n)
		return false;
	snprintf(ret, 64, "%s", all.v[0]);
	return true;
}

static void format_day(uint64_t seconds, char out[CLOCK_TEXT_LEN])
{
	clock_format(seconds * NSEC_PER_SEC, out);
	out[10] = '\0';
}

void cli_secret_item_json(struct json *j, const struct secret_item *i, uint64_t now)
{
	char when[CLOCK_TEXT_LEN], profile[64];

	json_str(j, "name", i->name);
	json_str(j, "length", cli_secret_length_class(i->len));
	json_str(j, "created", clock_format(i->created * NSEC_PER_SEC, when));
	json_str(j, "changed", clock_format(i->changed * NSEC_PER_SEC, when));
	json_str(j, "expires", i->expires ? clock_format(i->expires * NSEC_PER_SEC, when) : NULL);
	json_bool(j, "expired", cli_secret_item_has_expired(i, now));
	json_bool(j, "weak", i->len < VAULT_STRONG_MIN);
	json_u64(j, "rotate_every", i->every);
	json_bool(j, "due", cli_secret_item_is_due(i, now));
	json_str(j, "profile", !i->n_bindings && cli_secret_find_profile(i->name, profile) ? profile : NULL);
	json_arr(j, "bindings");
	for (size_t k = 0; k < i->n_bindings; k++) {
		autobuf struct buf as = BUF_INIT;
		const struct binding *b = &i->bindings[k];

		binding_describe_as(b, &as);
		json_obj(j, NULL);
		json_str(j, "host", b->host);
		json_u64(j, "port", b->port);
		json_str(j, "path", b->path);
		json_str(j, "as", buf_cstr(&as));
		json_end_obj(j);
	}
	json_end_arr(j);
}

static void add_secret_note(struct buf *b, const char *text)
{
	buf_addf(b, "%s%s", b->len ? ", " : "", text);
}

static int add_secret_row(struct table *t, const struct secret_item *i, uint64_t now)
{
	autobuf struct buf bound = BUF_INIT, note = BUF_INIT;
	char age[CLOCK_TEXT_LEN], expires[CLOCK_TEXT_LEN] = "never", profile[64];
	uint64_t days = now > i->changed ? (now - i->changed) / 86400 : 0;

	for (size_t k = 0; k < i->n_bindings; k++) {
		buf_adds(&bound, k ? ", " : "");
		binding_describe(&i->bindings[k], &bound);
	}
	if (!i->n_bindings && cli_secret_find_profile(i->name, profile))
		buf_addf(&bound, "profile %s", profile);
	snprintf(age, sizeof(age), "%llu day%s", (unsigned long long)days, days == 1 ? "" : "s");
	if (i->expires)
		format_day(i->expires, expires);
	if (cli_secret_item_has_expired(i, now))
		add_secret_note(&note, "expired");
	if (cli_secret_item_expires_soon(i, now))
		add_secret_note(&note, "expires soon");
	if (cli_secret_item_is_due(i, now))
		add_secret_note(&note, "due for rotation");
	if (i->len < VAULT_STRONG_MIN)
		add_secret_note(&note, "weak");
	if (buf_error(&bound) || buf_error(&note) || table_add(t, i->name, 0) < 0 ||
	    table_add(t, bound.len ? buf_cstr(&bound) : "nothing", 0) < 0 || table_add(t, expires, 0) < 0 ||
	    table_add(t, age, 0) < 0 || table_add(t, cli_secret_length_class(i->len), 0) < 0 ||
	    table_add(t, note.len ? buf_cstr(&note) : "-", 0) < 0)
		return -ENOMEM;
	return 0;
}

static int add_secret_table(const struct secret_items *l, uint64_t now, struct buf *out)
{
	static const char *const heads[] = { "NAME", "BOUND TO", "EXPIRES", "AGE", "BYTES", "NOTE" };
	autotable struct table t = TABLE_INIT(6);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(heads) && r == 0; i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; i < l->n && r == 0; i++)
		r = add_secret_row(&t, &l->v[i], now);
	if (r == 0)
		table_format(&t, out);
	return r;
}

int cli_secret_ls(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(cli_secret_items_release) struct secret_items l = { 0 };
	uint64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	int r = s->proc.pid > 0 ? cli_secret_items_get(s, &l, e) : 0;

	if (r < 0)
		return r;
	if (a->json) {
		json_arr(&j, NULL);
		for (size_t i = 0; i < l.n; i++) {
			json_obj(&j, NULL);
			cli_secret_item_json(&j, &l.v[i], now);
			json_end_obj(&j);
		}
		json_end_arr(&j);
		buf_addc(&out, '\n');
	} else {
		r = add_secret_table(&l, now, &out);
	}
	if (r < 0 || buf_error(&out))
		return err_set(e, -ENOMEM, "out of memory");
	if (say_out(&out))
		return -EIO;
	if (!a->json)
		cli_secret_say_issued(&s->st);
	return 0;
}
