/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of the API: tokens, sessions and login codes, in memory as in gateway.db. Only hashes are kept.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "daemon/broker/webd_int.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t real_now(void)
{
	return clock_nsec(CLOCK_REALTIME);
}

static bool cred_has_expired(const struct cred *c)
{
	return c->row.expires && c->row.expires <= real_now();
}

static int keep_cred(void *ctx, const struct db_cred *row)
{
	struct webd *d = ctx;
	struct cred *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->row = *row;
	c->next = d->creds;
	d->creds = c;
	d->n_creds++;
	return 0;
}

static void drop_cred(struct webd *d, struct cred *c)
{
	struct cred **p = &d->creds;
	unsigned char hash[HASH_LEN];

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	d->n_creds--;
	if (hash_unhex(c->row.hash, HASH_LEN, hash) == 0)
		webd_end_streams_of(d, hash); /* webd.W4: at once */
	free(c);
}

#define LOOK_AGAIN (600 * NSEC_PER_SEC) /* the clock may be changed */

static void forget_expired(struct webd *d);

static void on_cred_expiry(struct timer *t)
{
	forget_expired(t->ctx);
}

/* webd.W4: expiry is by wall-clock time, which timers do not follow, so it is checked at intervals. */
static void arm_expiry_timer(struct webd *d)
{
	uint64_t wait = LOOK_AGAIN, real = real_now();

	loop_timer_off(d->w.loop, &d->expiry);
	if (!d->creds)
		return;
	for (const struct cred *c = d->creds; c; c = c->next) {
		uint64_t left = c->row.expires > real ? c->row.expires - real : 0;

		if (c->row.expires && left < wait)
			wait = left;
	}
	d->expiry = (struct timer){ .fn = on_cred_expiry, .ctx = d };
	loop_timer(d->w.loop, &d->expiry, clock_nsec(CLOCK_MONOTONIC) + wait + NSEC_PER_SEC / 100);
}

static void forget_expired(struct webd *d)
{
	for (struct cred *c = d->creds, *next; c; c = next) {
		next = c->next;
		if (!cred_has_expired(c))
			continue;
		(void)!db_cred_forget(d->db, c->row.hash, NULL);
		drop_cred(d, c);
	}
	arm_expiry_timer(d);
}

int webd_load_creds(struct webd *d, struct err *e)
{
	struct db_opened how;
	int r = 0;

	if (d->has_creds)
		return 0;
	if (!d->db)
		r = db_open(&d->db, d->w.st, &how, e);
	if (r == 0)
		r = db_cred_each(d->db, keep_cred, d, e);
	if (r < 0)
		return r;
	d->has_creds = true;
	forget_expired(d);
	return 0;
}

void webd_release_creds(struct webd *d)
{
	loop_timer_off(d->w.loop, &d->expiry);
	while (d->creds) {
		struct cred *c = d->creds;

		d->creds = c->next;
		sodium_memzero(c, sizeof(*c));
		free(c);
	}
	db_close(d->db);
	d->db = NULL;
	d->has_creds = false;
}

/* All are compared, each in constant time: the duration does not tell whether a guess was close. */
static struct cred *find_cred(struct webd *d, const char *kind, const unsigned char key[HASH_LEN])
{
	char hex[HASH_HEX_LEN + 1];
	struct cred *found = NULL;

	if (webd_load_creds(d, &(struct err){ 0 }) < 0)
		return NULL;
	hash_hex(key, HASH_LEN, hex);
	for (struct cred *c = d->creds; c; c = c->next) {
		if (sodium_memcmp(c->row.hash, hex, HASH_HEX_LEN) == 0 && str_eq(c->row.kind, kind))
			found = c;
	}
	return found && !cred_has_expired(found) ? found : NULL;
}

bool webd_find_caller(struct webd *d, enum web_cred kind, const unsigned char key[HASH_LEN], struct who *ret)
{
	static const char *const kinds[] = { [WEB_CRED_TOKEN] = "token", [WEB_CRED_SESSION] = "session" };
	struct cred *c;
	int role;

	if (kind == WEB_CRED_OWNER) {
		*ret = (struct who){ WEB_OPERATOR, "owner", "socket" };
		return sodium_memcmp(d->owner, key, HASH_LEN) == 0;
	}
	if (kind == WEB_CRED_NONE)
		return false;
	c = find_cred(d, kinds[kind], key);
	role = c ? web_role_parse(c->row.role) : -EINVAL;
	if (role < 0)
		return false;
	*ret = (struct who){ (enum web_role)role, c->row.name, c->row.kind };
	return true;
}

int webd_check_cred(struct webd *d, const struct db_cred *row, struct err *e)
{
	int r = webd_load_creds(d, e);

	if (r < 0)
		return r;
	forget_expired(d);
	if (d->n_creds >= WEBD_CREDS)
		return err_set(e, -ENOSPC,
			       "there are %d tokens and sessions already; coffer token rm removes one",
			       WEBD_CREDS);
	for (const struct cred *c = d->creds; c; c = c->next) {
		if (str_eq(row->kind, "token") && str_eq(c->row.kind, "token") &&
		    str_eq(c->row.name, row->name))
			return err_set(e, -EEXIST, "there is a token '%s' already", row->name);
	}
	return 0;
}

int webd_add_cred(struct webd *d, const struct db_cred *row, struct err *e)
{
	int r = webd_check_cred(d, row, e);

	r = r < 0 ? r : db_cred_put(d->db, row, e);
	if (r == 0 && keep_cred(d, row) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r == 0)
		arm_expiry_timer(d);
	return r;
}

static int make_session_cred(struct webd *d, const struct cred *login, struct buf *ret_secret, struct err *e)
{
	struct db_cred row = login->row;
	unsigned char hash[HASH_LEN];
	int r = web_secret_new(WEB_SESSION_PREFIX, ret_secret, hash, e);

	if (r < 0)
		return r;
	hash_hex(hash, HASH_LEN, row.hash);
	snprintf(row.kind, sizeof(row.kind), "session");
	row.made = real_now();
	row.expires = row.made + WEBD_SESSION_FOR * NSEC_PER_SEC;
	return webd_add_cred(d, &row, e);
}

static struct cred *find_login_code(struct webd *d, const char *code)
{
	unsigned char hash[HASH_LEN];

	web_secret_hash(code, strlen(code), hash);
	return find_cred(d, "login", hash);
}

int webd_find_login(struct webd *d, const char *code, struct who *ret, struct err *e)
{
	const struct cred *c = find_login_code(d, code);
	int role = c ? web_role_parse(c->row.role) : -EINVAL;

	if (!c)
		return err_set(e, -ENOENT, "this code is unknown, was used already, or has expired");
	if (role < 0)
		return err_set(e, -EINVAL, "this code has no role");
	*ret = (struct who){ (enum web_role)role, c->row.name, "session" };
	return 0;
}

int webd_login(struct webd *d, const char *code, struct buf *ret_secret, struct who *ret, struct err *e)
{
	struct cred *c, once;
	int r = webd_find_login(d, code, ret, e);

	if (r < 0)
		return r;
	c = find_login_code(d, code);
	once = *c;
	/* Single use: it is gone before the session is made. */
	r = db_cred_forget(d->db, c->row.hash, e);
	if (r < 0)
		return r;
	drop_cred(d, c);
	r = make_session_cred(d, &once, ret_secret, e);
	ret->name = r == 0 ? d->creds->row.name : "";
	return r;
}

void webd_remove_session(struct webd *d, const unsigned char hash[HASH_LEN])
{
	struct cred *c = find_cred(d, "session", hash);

	if (!c)
		return;
	(void)!db_cred_forget(d->db, c->row.hash, NULL);
	drop_cred(d, c);
}

/* An id is the beginning of the hash. */
static bool cred_matches(const struct cred *c, const char *name)
{
	return str_eq(c->row.name, name) || (strlen(name) == 8 && strncmp(c->row.hash, name, 8) == 0);
}

int webd_has_cred(struct webd *d, const char *name, struct err *e)
{
	int r = webd_load_creds(d, e);

	if (r < 0)
		return r;
	for (const struct cred *c = d->creds; c; c = c->next) {
		if (cred_matches(c, name))
			return 0;
	}
	return err_set(e, -ENOENT, "there is no token or session '%s'", name);
}

int webd_remove_cred(struct webd *d, const char *name, struct err *e)
{
	unsigned n = 0;
	int r = webd_load_creds(d, e);

	for (struct cred *c = d->creds, *next; r == 0 && c; c = next) {
		next = c->next;
		if (!cred_matches(c, name))
			continue;
		r = db_cred_forget(d->db, c->row.hash, e);
		if (r == 0)
			drop_cred(d, c);
		n++;
	}
	if (r == 0 && !n)
		return err_set(e, -ENOENT, "there is no token or session '%s'", name);
	return r;
}

static int add_cred_object(void *ctx, const struct db_cred *row)
{
	struct json *j = ctx;
	char text[CLOCK_TEXT_LEN], id[9];

	if ((row->expires && row->expires <= real_now()) || str_eq(row->kind, "login"))
		return 0;
	snprintf(id, sizeof(id), "%.8s", row->hash);
	json_obj(j, NULL);
	json_str(j, "id", id);
	json_str(j, "kind", row->kind);
	json_str(j, "role", row->role);
	json_str(j, "name", row->name);
	json_str(j, "made", clock_format(row->made, text));
	json_str(j, "expires", row->expires ? clock_format(row->expires, text) : NULL);
	json_end_obj(j);
	return 0;
}

void webd_creds_json(struct webd *d, struct json *j, const char *key)
{
	json_arr(j, key);
	for (const struct cred *c = d->creds; c; c = c->next)
		(void)!add_cred_object(j, &c->row);
	json_end_arr(j);
}

int webd_read_creds(const struct state *st, struct buf *ret, bool *ret_old, struct err *e)
{
	struct json j = JSON_INIT(ret);
	struct db *db = NULL;
	int r = db_open_read_only(&db, st, ret_old, e);

	json_obj(&j, NULL);
	json_arr(&j, "listen");
	json_end_arr(&j);
	json_arr(&j, "tokens");
	if (r == 0)
		r = db_cred_each(db, add_cred_object, &j, e);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(ret, '\n');
	db_close(db);
	/* There is no database: nobody has made a token yet. */
	return r == -ENOENT ? 0 : r < 0 ? r : buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}
