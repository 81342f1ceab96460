/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and replaces credentials in JSON (capture.K1, K2) with an allocator for jansson that zeroes freed
 * memory (capture.K3). A response that can be read in two ways is refused.
 */
#include "egress/credential/capture.h"

#include "vault/common/grants.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* capture.K3: the length is stored before the memory that is handed out. */
#define LEAD 16

static void *wiping_malloc(size_t n)
{
	unsigned char *p = n <= SIZE_MAX - LEAD ? malloc(n + LEAD) : NULL;

	if (!p)
		return NULL;
	memcpy(p, &n, sizeof(n));
	return p + LEAD;
}

static void wiping_free(void *given)
{
	unsigned char *p = given;
	size_t n;

	if (!p)
		return;
	p -= LEAD;
	memcpy(&n, p, sizeof(n));
	explicit_bzero(p, n + LEAD);
	free(p);
}

void capture_begin(void)
{
	json_set_alloc_funcs(wiping_malloc, wiping_free);
}

void capture_release(struct capture *c)
{
	json_decref(c->root);
	*c = (struct capture){ 0 };
}

static int capture_fail(struct capture *c, const char *why)
{
	c->why = why;
	return -EBADMSG;
}

/* As a number, or as text, as some servers send it. A value that cannot be a time counts as none. */
static uint64_t response_expires_in(const json_t *object)
{
	const json_t *v = json_object_get(object, "expires_in");
	double n = json_is_string(v) ? strtod(json_string_value(v), NULL) : json_number_value(v);

	return n >= 1 && n <= (double)GRANT_LIFE_MAX ? (uint64_t)n : 0;
}

static int capture_add_hit(struct capture *c, json_t *object, const char *key, const json_t *value,
			   const struct issue_member *m)
{
	if (json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0))
		return 0;
	if (!json_is_string(value))
		return capture_fail(c, "it has a credential that is not text");
	if (c->n == CAPTURE_MAX)
		return capture_fail(c, "it has too many credentials");
	c->v[c->n++] = (struct capture_hit){
		.in = object,
		.key = key,
		.member = m->name,
		.value = { json_string_value(value), json_string_length(value) },
		.expires_in = m->how == ISSUE_REFRESH ? 0 : response_expires_in(object),
	};
	return 0;
}

/* Position of the walk: names of members from the top, to match dotted names. */
struct json_place {
	const struct json_place *up;
	const char *name; /* NULL: an element of a list */
};

/* Does the dotted name, up to `len`, end here and begin at the top? */
/* NOLINTNEXTLINE(misc-no-recursion): bounded by the dots of a name */
static bool is_dotted_path(const char *dotted, size_t len, const struct json_place *p)
{
	const char *dot = memrchr(dotted, '.', len);
	size_t at = dot ? (size_t)(dot - dotted) + 1 : 0;

	if (!p->name || strlen(p->name) != len - at || memcmp(p->name, dotted + at, len - at) != 0)
		return false;
	return dot ? p->up && p->up->up && is_dotted_path(dotted, at - 1, p->up) : !p->up || !p->up->up;
}

static const struct issue_member *credential_member_at(const struct issue *s, const struct json_place *p)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *name = s->v[i].name;

		if (strchr(name, '.') ? is_dotted_path(name, strlen(name), p) : strcmp(name, p->name) == 0)
			return &s->v[i];
	}
	return NULL;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by CAPTURE_DEPTH_MAX */
static int capture_walk(struct capture *c, const struct issue *s, json_t *v, const struct json_place *up,
			unsigned depth)
{
	struct json_place p = { .up = up };
	const struct issue_member *m;
	const char *key;
	json_t *value;
	size_t i;
	int r = 0;

	if (depth > CAPTURE_DEPTH_MAX)
		return capture_fail(c, "it is nested too deep");
	json_array_foreach(v, i, value)
	{
		r = r < 0 ? r : capture_walk(c, s, value, &p, depth + 1);
	}
	json_object_foreach(v, key, value)
	{
		p.name = key;
		m = credential_member_at(s, &p);
		if (r == 0)
			r = m ? capture_add_hit(c, v, key, value, m)
			      : capture_walk(c, s, value, &p, depth + 1);
	}
	return r;
}

int capture_read(struct capture *c, const struct issue *s, struct slice body)
{
	static const struct json_place top = { 0 };
	json_error_t je;

	*c = (struct capture){ 0 };
	if (body.len > CAPTURE_BODY_MAX)
		return capture_fail(c, "it is too long");
	c->root = json_loadb(body.p ? body.p : "", body.len, JSON_REJECT_DUPLICATES, &je);
	if (!c->root)
		return capture_fail(c, "it is not unambiguous JSON");
	if (!json_is_object((const json_t *)c->root))
		return capture_fail(c, "it is not a JSON object");
	return capture_walk(c, s, c->root, &top, 0);
}

int capture_put(struct capture *c, size_t i, struct slice placeholder)
{
	struct capture_hit *h = &c->v[i];
	json_t *v = json_stringn(placeholder.p, placeholder.len);

	h->value = SLICE_NONE;
	/* The key belongs to the object and stays valid when only the value is replaced. */
	return v && json_object_set_new(h->in, h->key, v) == 0 ? 0 : -ENOMEM;
}

static int append_json(const char *data, size_t len, void *to)
{
	buf_add(to, data, len);
	return 0;
}

int capture_write(const struct capture *c, struct buf *out)
{
	if (json_dump_callback(c->root, append_json, out, JSON_COMPACT | JSON_REAL_PRECISION(17)) < 0)
		return -ENOMEM;
	return buf_error(out);
}
