/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: the secrets of the vault, everything about them except their values, and when each was used
 * last.
 *
 * The vault is opened read-only, as by `coffer secret ls`. A vault with a passphrase cannot be opened
 * without a person at a terminal; the response then says `locked`. The last use of a secret comes from the
 * audit log, which is searched from its end until each secret has a use, and through at most LOOK_BACK
 * events, so that a page that polls costs the host no more than that. `searched_all` tells that no older
 * use can have been missed.
 */
#include "audit/query.h"
#include "base/clock.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/api/web_work.h"
#include "cli/secret/cmd_secret.h"
#include "vault/client/client.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#define LOOK_BACK 20000

/* The newest use of each listed secret. */
struct last_use {
	char time[CLOCK_TEXT_LEN], sandbox[RUN_ID_LEN + 1], host[256];
};

/* Notes a use. Returns the number of listed secrets whose newest use it is. */
static size_t note_secret_use(const struct audit_record *rec, const struct secret_items *l,
			      struct last_use *uses)
{
	autobuf struct buf text = BUF_INIT;
	json_t *o;
	const char *name, *host;
	size_t n = 0;

	buf_addf(&text, "{%.*s}", (int)rec->line.fields_len, rec->line.fields);
	o = json_loadb(buf_cstr(&text), text.len, 0, NULL);
	name = jsonget_text_or_null(o, "secret");
	host = jsonget_text_or_null(o, "host");
	for (size_t i = 0; name && i < l->n; i++) {
		if (!str_eq(l->v[i].name, name) || uses[i].time[0])
			continue;
		snprintf(uses[i].time, sizeof(uses[i].time), "%.*s", LINE_TIME_LEN, rec->line.time);
		snprintf(uses[i].sandbox, sizeof(uses[i].sandbox), "%.*s", (int)rec->line.sandbox_len,
			 rec->line.sandbox);
		snprintf(uses[i].host, sizeof(uses[i].host), "%s", host ? host : "");
		n++;
	}
	json_decref(o);
	return n;
}

/* 1: the part of the log that was not searched could not add anything. */
static int find_last_uses(struct web_args *a, const struct secret_items *l, struct last_use *uses,
			  struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_filter f = { .type = "secret.use" };
	struct audit_record rec;
	size_t missing = l->n;
	uint64_t last;
	int r = audit_last_seq(a->st.fd, &last, e);

	if (r < 0)
		return r;
	f.from = last > LOOK_BACK ? last - LOOK_BACK : 0;
	r = audit_back_open(&b, a->st.fd, &f, UINT64_MAX, e);
	while (r >= 0 && missing && (r = audit_back_next(b, &rec, e)) > 0) {
		if (rec.is_event)
			missing -= note_secret_use(&rec, l, uses);
	}
	return r < 0 ? r : !missing || last <= LOOK_BACK;
}

static void add_use_json(struct json *j, const struct last_use *u)
{
	if (!u->time[0]) {
		json_none(j, "used");
		return;
	}
	json_obj(j, "used");
	json_str(j, "time", u->time);
	json_str(j, "sandbox", u->sandbox);
	json_str(j, "host", u->host);
	json_end_obj(j);
}

static int add_items_json(struct web_args *a, const struct secret_items *l, struct json *j, struct err *e)
{
	uint64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	autofree struct last_use *uses = calloc(l->n ? l->n : 1, sizeof(*uses));
	int r;

	if (!uses)
		return err_set(e, -ENOMEM, "out of memory");
	r = find_last_uses(a, l, uses, e);
	if (r < 0)
		return r;
	json_bool(j, "searched_all", r);
	json_arr(j, "items");
	for (size_t i = 0; i < l->n; i++) {
		json_obj(j, NULL);
		cli_secret_item_json(j, &l->v[i], now);
		add_use_json(j, &uses[i]);
		json_end_obj(j);
	}
	json_end_arr(j);
	return 0;
}

int web_work_secrets(struct web_args *a, struct err *e)
{
	const struct vault_key_want key = VAULT_KEY_WANT_INIT;
	CLEANUP(cli_secret_items_release) struct secret_items l = { 0 };
	CLEANUP(cli_secret_session_close) struct secret_session s = SECRET_SESSION_INIT;
	struct json j = JSON_INIT(&a->out);
	int r = cli_secret_session_open(&s, &key, 0, e);
	bool none = r == -ENOENT && s.files.dir < 0 && s.proc.pid < 0 && s.audit, locked = r == -VAULT_LOCKED;

	if (none || locked) {
		*e = ERR_INIT;
		r = 0;
	} else if (r == 0) {
		r = cli_secret_items_get(&s, &l, e);
	}
	json_obj(&j, NULL);
	json_str(&j, "vault", none ? "none" : locked ? "locked" : "open");
	r = r < 0 ? r : add_items_json(a, &l, &j, e);
	json_end_obj(&j);
	buf_addc(&a->out, '\n');
	return r;
}
