/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a run as a list, and their number. The walk itself is in change.c. The size of the list is
 * capped (WORKSPACE_LIST_MAX).
 */
#include "workspace/change/change.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *change_kind_name(enum change_kind k)
{
	static const char *const names[] = {
		[CHANGE_ADDED] = "added", [CHANGE_MODIFIED] = "modified", [CHANGE_DELETED] = "deleted",
		[CHANGE_MODE] = "mode",	  [CHANGE_TYPE] = "type",
	};

	static_assert(ARRAY_SIZE(names) == CHANGE_KIND_COUNT, "a name for each kind");
	return names[k];
}

void changes_release(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	free(c->v);
	*c = (struct changes){ 0 };
}

int changes_add(struct changes *l, const struct change *c)
{
	char *path = strdup(c->path);

	if (!path)
		return -ENOMEM;
	if (VEC_DOUBLE(l->v, l->n, VEC_NO_MAX) < 0) {
		free(path);
		return -ENOMEM;
	}
	l->v[l->n] = *c;
	l->v[l->n++].path = path;
	return 0;
}

struct list {
	struct changes *all;
	uint64_t bytes;
};

static int add_change_to_list(void *arg, const struct change *c)
{
	struct list *l = arg;

	l->bytes += sizeof(*c) + strlen(c->path) + 1;
	return l->bytes > WORKSPACE_LIST_MAX ? -E2BIG : changes_add(l->all, c);
}

int workspace_changes(int upper_fd, struct base base, uint64_t since, struct changes *ret, struct err *e)
{
	struct change_walk_opts o = { .since = since, .flags = true };
	struct changes all = { 0 };
	struct list l = { .all = &all };
	int r = change_walk(upper_fd, base, &o, add_change_to_list, &l, e);

	if (r < 0) {
		changes_release(&all);
		if (r == -E2BIG)
			return err_set(e, r, "the run left more changes than can be listed");
		return r == -ENOMEM ? err_set(e, r, "out of memory while listing changes") : r;
	}
	*ret = all;
	return 0;
}

struct counter {
	uint64_t n, cap;
};

static int count_one_change(void *arg, const struct change *c)
{
	struct counter *n = arg;

	(void)c;
	return ++n->n >= n->cap;
}

int workspace_count_changes(int upper_fd, struct base base, uint64_t cap, uint64_t *ret, struct err *e)
{
	struct change_walk_opts o = { 0 };
	struct counter n = { .cap = cap };
	int r = change_walk(upper_fd, base, &o, count_one_change, &n, e);

	if (r == 0)
		*ret = n.n;
	return r;
}
