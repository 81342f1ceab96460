/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of a YAML tree by type, with messages that have file, line and column (read.h). Decides
 * nothing.
 */

#include "config/read.h"

#include "base/fd.h"
#include "config/config_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

int read_wrap(struct source *s, const struct ynode *at, int r)
{
	if (r < 0 && at)
		return err_wrap(s->e, r, "%s:%u:%u", s->name, at->line, at->column);
	return r < 0 ? err_wrap(s->e, r, "%s", s->name) : r;
}

int read_fail(struct source *s, const struct ynode *at, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(s->e, -EINVAL, "%s", text);
	return read_wrap(s, at, -EINVAL);
}

int read_warn(struct source *s, const struct ynode *at, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (strv_addf(&s->out->warnings, "%s:%u:%u: %s", s->name, at->line, at->column, text) < 0)
		return err_set(s->e, -ENOMEM, "out of memory");
	return 0;
}

/* An error that lists the valid keys, with the nearest one as the hint. */
static int refuse_unknown_key(struct source *s, const struct ynode *key, const char *what,
			      const struct key *keys, size_t n_keys)
{
	autobuf struct buf all = BUF_INIT;
	const char *names[40], *near;
	char shown[64];

	for (size_t i = 0; i < n_keys && i < ARRAY_SIZE(names); i++) {
		names[i] = keys[i].name;
		buf_addf(&all, "%s%s", i ? ", " : "", keys[i].name);
	}
	near = str_nearest(key->text, names, n_keys < ARRAY_SIZE(names) ? n_keys : ARRAY_SIZE(names));
	read_fail(s, key, "unknown key '%s' of %s; valid keys: %s", str_safe(key->text, shown, sizeof(shown)),
		  what, buf_cstr(&all));
	return near ? err_hint(s->e, -EINVAL, "%s:", near) : -EINVAL;
}

int read_map(struct source *s, const struct ynode *n, const char *what, const struct key *keys, size_t n_keys,
	     void *to)
{
	int r = 0;

	if (n->kind != YNODE_MAP)
		return read_fail(s, n, "%s is a mapping (key: value), but here is %s", what,
				 ynode_kind_name(n));
	for (size_t i = 0; r == 0 && i < n->n; i++) {
		size_t k = 0;

		while (k < n_keys && !str_eq(keys[k].name, n->keys[i]->text))
			k++;
		r = k < n_keys ? keys[k].read(s, n->items[i], to)
			       : refuse_unknown_key(s, n->keys[i], what, keys, n_keys);
	}
	return r;
}

int read_each(struct source *s, const struct ynode *n,
	      int (*read)(struct source *, const struct ynode *, void *), void *to)
{
	int r = 0;

	if (n->kind != YNODE_SEQ)
		return ynode_is_null(n) ? 0 : read(s, n, to);
	for (size_t i = 0; r == 0 && i < n->n; i++)
		r = read(s, n->items[i], to);
	return r;
}

int read_text(struct source *s, const struct ynode *n, const char *expected, const char **ret)
{
	if (n->kind != YNODE_TEXT || ynode_is_null(n))
		return read_fail(s, n, "expected %s, but here is %s", expected, ynode_kind_name(n));
	*ret = n->text;
	return 0;
}

int read_bool(struct source *s, const struct ynode *n, bool *ret)
{
	bool yes = n->kind == YNODE_TEXT && str_eq(n->text, "true");

	if (!yes && (n->kind != YNODE_TEXT || !str_eq(n->text, "false")))
		return read_fail(s, n, "expected true or false");
	*ret = yes;
	return 0;
}

int read_u32(struct source *s, const struct ynode *n, uint32_t min, uint32_t max, uint32_t *ret)
{
	uint64_t v = 0;

	if (n->kind != YNODE_TEXT || str_to_u64(n->text, &v) < 0 || v < min || v > max)
		return read_fail(s, n, "expected a number from %u to %u", min, max);
	*ret = (uint32_t)v;
	return 0;
}

int read_size(struct source *s, const struct ynode *n, uint64_t *ret)
{
	autofree char *text = NULL;
	uint64_t v = 0;
	int r = -EINVAL;

	if (n->kind == YNODE_TEXT)
		text = strdup(n->text);
	if (text && str_ends(text, "/s"))
		text[strlen(text) - 2] = '\0';
	if (text)
		r = str_to_size(text, &v);
	if (r < 0 || v == 0)
		return read_fail(s, n, "expected a number of bytes such as 500k, 20M or 1GiB");
	*ret = v;
	return 0;
}

int read_seconds(struct source *s, const struct ynode *n, uint32_t max, uint32_t *ret)
{
	uint64_t ns = 0;

	if (n->kind != YNODE_TEXT || str_to_nsec(n->text, &ns) < 0 || ns < 1000000000u ||
	    ns / 1000000000u > max)
		return read_fail(s, n, "expected a time such as 30s, 10m or 2h (1 s to %u s)", max);
	*ret = (uint32_t)(ns / 1000000000u);
	return 0;
}

int read_word(struct source *s, const struct ynode *n, const char *const *words, size_t n_words,
	      unsigned *ret)
{
	autobuf struct buf all = BUF_INIT;
	const char *near;

	for (size_t i = 0; i < n_words; i++) {
		if (n->kind == YNODE_TEXT && str_eq(n->text, words[i])) {
			*ret = (unsigned)i;
			return 0;
		}
		buf_addf(&all, "%s%s", i == 0 ? "" : i + 1 < n_words ? ", " : " or ", words[i]);
	}
	near = n->kind == YNODE_TEXT ? str_nearest(n->text, words, n_words) : NULL;
	read_fail(s, n, "expected %s", buf_cstr(&all));
	return near ? err_hint(s->e, -EINVAL, "%s", near) : -EINVAL;
}

int read_name(struct source *s, const struct ynode *n, char *ret, size_t size)
{
	if (n->kind != YNODE_TEXT || !str_is_name(n->text) || strlen(n->text) >= size)
		return read_fail(
			s, n, "expected a name of at most %zu letters, digits, dots, dashes and underscores",
			size - 1);
	memcpy(ret, n->text, strlen(n->text) + 1);
	return 0;
}

static int limit_key_bytes_up(struct source *s, const struct ynode *n, void *to)
{
	return read_size(s, n, &((struct policy_limits *)to)->bytes_up);
}

static int limit_key_bandwidth(struct source *s, const struct ynode *n, void *to)
{
	return read_size(s, n, &((struct policy_limits *)to)->bandwidth);
}

static int limit_key_requests(struct source *s, const struct ynode *n, void *to)
{
	return read_u32(s, n, 1, 1000000, &((struct policy_limits *)to)->requests_per_minute);
}

static int limit_key_connections(struct source *s, const struct ynode *n, void *to)
{
	return read_u32(s, n, 1, 65536, &((struct policy_limits *)to)->connections);
}

int read_limits(struct source *s, const struct ynode *n, struct policy_limits *ret)
{
	static const struct key keys[] = {
		{ "bytes_up", limit_key_bytes_up },
		{ "bandwidth", limit_key_bandwidth },
		{ "requests_per_minute", limit_key_requests },
		{ "connections", limit_key_connections },
	};

	return read_map(s, n, "limits", keys, ARRAY_SIZE(keys), ret);
}

int read_path(struct source *s, const struct ynode *n, char **ret)
{
	const char *text = "";
	int r = read_text(s, n, "the name of a file", &text);

	if (r < 0)
		return r;
	if (!s->dir)
		return read_fail(s, n, "a file cannot be named here");
	if (asprintf(ret, "%s%s%s", text[0] == '/' ? "" : s->dir, text[0] == '/' ? "" : "/", text) < 0) {
		*ret = NULL;
		return err_set(s->e, -ENOMEM, "out of memory");
	}
	return 0;
}

int read_named_file(struct source *s, const struct ynode *n, size_t max, struct buf *ret)
{
	autofree char *path = NULL;
	autofree char *warning = NULL;
	int r = read_path(s, n, &path);

	if (r < 0)
		return r;
	r = owner_read(path, max, s->check_owner, ret, &warning, s->e);
	if (r < 0)
		return read_wrap(s, n, r);
	if (warning && read_warn(s, n, "%s", warning) < 0)
		return -ENOMEM;
	r = read_wrap(s, n, owner_links(path, s->check_owner, &s->out->files, s->e));
	if (r < 0)
		return r;
	return strv_add(&s->out->files, path) < 0 ? err_set(s->e, -ENOMEM, "out of memory") : 0;
}
