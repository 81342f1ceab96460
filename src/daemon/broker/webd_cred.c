/* SPDX-License-Identifier: Apache-2.0 */
/* Who is who: tokens, sessions and login codes, in memory as they are in gateway.db. */
#include "base/cleanup.h"
#include "base/str.h"
#include "daemon/broker/webd_int.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t now(void)
{
	return clock_nsec(CLOCK_REALTIME);
}

static bool is_over(const struct cred *c)
{
	return c->row.expires && c->row.expires <= now();
}

static int keep(void *ctx, const struct db_cred *row)
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

static void drop(struct webd *d, struct cred *c)
{
	struct cred **p = &d->creds;
	unsigned char hash[HASH_LEN];

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	d->n_creds--;
	if (hash_unhex(c->row.hash, HASH_LEN, hash) == 0)
		webd_end_streams_of(d, hash); /* W4 */
	free(c);
}

#define LOOK_AGAIN (600 * NSEC_PER_SEC) /* the clock may be set */

static void forget_old(struct webd *d);

static void on_expiry(struct timer *t)
{
	forget_old(t->ctx);
}

/* W4: by the time of day, which a timer does not go by. */
static void arm_expiry(struct webd *d)
{
	uint64_t wait = LOOK_AGAIN, real = now();

	loop_timer_off(d->w.loop, &d->expiry);
	if (!d->creds)
		return;
	for (const struct cred *c = d->creds; c; c = c->next) {
		uint64_t left = c->row.expires > real ? c->row.expires - real : 0;

		if (c->row.expires && left < wait)
			wait = left;
	}
	d->expiry = (struct timer){ .fn = on_expiry, .ctx = d };
	loop_timer(d->w.loop, &d->expiry, clock_nsec(CLOCK_MONOTONIC) + wait + NSEC_PER_SEC / 100);
}

static void forget_old(struct webd *d)
{
	for (struct cred *c = d->creds, *next; c; c = next) {
		next = c->next;
		if (!is_over(c))
			continue;
		(void)!db_cred_forget(d->db, c->row.hash, NULL);
		drop(d, c);
	}
	arm_expiry(d);
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
		r = db_cred_each(d->db, keep, d, e);
	if (r < 0)
		return r;
	d->has_creds = true;
	forget_old(d);
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

/* All are compared, each in constant time: how long it takes tells nothing of what is near. */
static struct cred *find(struct webd *d, const char *kind, const unsigned char key[HASH_LEN])
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
	return found && !is_over(found) ? found : NULL;
}

bool webd_who(struct webd *d, enum web_cred kind, const unsigned char key[HASH_LEN], struct who *ret)
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
	c = find(d, kinds[kind], key);
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
	forget_old(d);
	if (d->n_creds >= WEBD_CREDS)
		return err_set(e, -ENOSPC,
			       "there are %d tokens and sessions already; coffer token rm takes one away",
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
	if (r == 0 && keep(d, row) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r == 0)
		arm_expiry(d);
	return r;
}

static int make_session(struct webd *d, const struct cred *login, struct buf *ret_secret, struct err *e)
{
	struct db_cred row = login->row;
	unsigned char hash[HASH_LEN];
	int r = web_secret_new(WEB_SESSION_PREFIX, ret_secret, hash, e);

	if (r < 0)
		return r;
	hash_hex(hash, HASH_LEN, row.hash);
	snprintf(row.kind, sizeof(row.kind), "session");
	row.made = now();
	row.expires = row.made + WEBD_SESSION_FOR * NSEC_PER_SEC;
	return webd_add_cred(d, &row, e);
}

static struct cred *find_login(struct webd *d, const char *code)
{
	unsigned char hash[HASH_LEN];

	web_secret_hash(code, strlen(code), hash);
	return find(d, "login", hash);
}

int webd_login_who(struct webd *d, const char *code, struct who *ret, struct err *e)
{
	const struct cred *c = find_login(d, code);
	int role = c ? web_role_parse(c->row.role) : -EINVAL;

	if (!c)
		return err_set(e, -ENOENT, "this code is none, was used, or is over");
	if (role < 0)
		return err_set(e, -EINVAL, "this code has no role");
	*ret = (struct who){ (enum web_role)role, c->row.name, "session" };
	return 0;
}

int webd_login(struct webd *d, const char *code, struct buf *ret_secret, struct who *ret, struct err *e)
{
	struct cred *c, once;
	int r = webd_login_who(d, code, ret, e);

	if (r < 0)
		return r;
	c = find_login(d, code);
	once = *c;
	/* Once: gone before anything comes of it. */
	r = db_cred_forget(d->db, c->row.hash, e);
	if (r < 0)
		return r;
	drop(d, c);
	r = make_session(d, &once, ret_secret, e);
	ret->name = r == 0 ? d->creds->row.name : "";
	return r;
}

void webd_remove_hash(struct webd *d, const unsigned char hash[HASH_LEN])
{
	struct cred *c = find(d, "session", hash);

	if (!c)
		return;
	(void)!db_cred_forget(d->db, c->row.hash, NULL);
	drop(d, c);
}

/* An id is how a hash begins. */
static bool is_meant(const struct cred *c, const char *name)
{
	return str_eq(c->row.name, name) || (strlen(name) == 8 && strncmp(c->row.hash, name, 8) == 0);
}

int webd_has_cred(struct webd *d, const char *name, struct err *e)
{
	int r = webd_load_creds(d, e);

	if (r < 0)
		return r;
	for (const struct cred *c = d->creds; c; c = c->next) {
		if (is_meant(c, name))
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
		if (!is_meant(c, name))
			continue;
		r = db_cred_forget(d->db, c->row.hash, e);
		if (r == 0)
			drop(d, c);
		n++;
	}
	if (r == 0 && !n)
		return err_set(e, -ENOENT, "there is no token or session '%s'", name);
	return r;
}

static int add_cred_json(void *ctx, const struct db_cred *row)
{
	struct json *j = ctx;
	char text[CLOCK_TEXT_LEN], id[9];

	if ((row->expires && row->expires <= now()) || str_eq(row->kind, "login"))
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
		(void)!add_cred_json(j, &c->row);
	json_end_arr(j);
}

int webd_look_creds(const struct state *st, struct buf *ret, bool *ret_old, struct err *e)
{
	struct json j = JSON_INIT(ret);
	struct db *db = NULL;
	int r = db_open_read_only(&db, st, ret_old, e);

	json_obj(&j, NULL);
	json_arr(&j, "listen");
	json_end_arr(&j);
	json_arr(&j, "tokens");
	if (r == 0)
		r = db_cred_each(db, add_cred_json, &j, e);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(ret, '\n');
	db_close(db);
	/* Nobody has made one yet. */
	return r == -ENOENT ? 0 : r < 0 ? r : buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}
