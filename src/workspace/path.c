/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/path.h"

#include "base/cleanup.h"

#include <errno.h>

/* Where the workspace is inside: people copy paths from there. */
#define INSIDE "/workspace"

static bool is_dots(const char *s, size_t len, size_t dots)
{
	return len == dots && memcmp(s, "..", dots) == 0;
}

int path_normalise(const char *typed, char **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *p = typed;
	char shown[256];

	if (str_starts(p, INSIDE) && (p[sizeof(INSIDE) - 1] == '/' || !p[sizeof(INSIDE) - 1]))
		p += sizeof(INSIDE) - 1;
	else if (*p == '/')
		return err_set(e, -EINVAL, "%s is not a path below the workspace",
			       str_safe(typed, shown, sizeof(shown)));
	while (*p) {
		size_t len = strcspn(p, "/");

		if (is_dots(p, len, 2))
			return err_set(e, -EINVAL, "%s is not a path below the workspace: it has '..' in it",
				       str_safe(typed, shown, sizeof(shown)));
		if (len && !is_dots(p, len, 1)) {
			if (b.len)
				buf_addc(&b, '/');
			buf_add(&b, p, len);
		}
		p += len + (p[len] == '/');
	}
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int path_normalise_all(const struct strv *typed, struct strv *ret, struct err *e)
{
	autostrv struct strv l = STRV_INIT;

	for (size_t i = 0; i < typed->n; i++) {
		char *one = NULL;
		int r = path_normalise(typed->v[i], &one, e);

		if (r < 0)
			return r;
		if (strv_take(&l, one) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	*ret = l;
	l = STRV_INIT;
	return 0;
}

bool path_covers(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]));
}

const char *path_covered(const struct strv *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (path_covers(l->v[i], path))
			return l->v[i];
	}
	return NULL;
}

int path_cmp(const char *a, const char *b)
{
	int x, y;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	/* The end comes before a slash, a slash before any other byte. */
	x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
	y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
	return x - y;
}

bool path_link_leaves(const char *link, const char *target)
{
	bool named = false;
	size_t depth = 0;

	if (*target == '/')
		return true;
	for (const char *p = link; *p; p++)
		depth += *p == '/';
	for (const char *p = target; *p;) {
		size_t len = strcspn(p, "/");

		if (is_dots(p, len, 2)) {
			if (named || depth == 0)
				return true;
			depth--;
		} else if (len && !is_dots(p, len, 1)) {
			named = true;
		}
		p += len + (p[len] == '/');
	}
	return false;
}
