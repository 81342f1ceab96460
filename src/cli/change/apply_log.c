/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of paths are written event by event: one is closed when it is full, and the next goes on with
 * the same list.
 */
#include "cli/change/apply_log.h"

#include "audit/line.h"
#include "base/json.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>

/* An event of this size is closed before the next name: one name more, whatever is in it, still fits into a line. */
#define EVENT_BYTES (400 << 10)
static_assert(EVENT_BYTES + 2 * 6 * WORKSPACE_PATH_MAX < LINE_MAX_LEN, "one more name fits");

struct writer {
	const struct apply_log *l;
	const char *type;
	struct buf b;
	struct json j;
	const char *key; /* of the list that is open; NULL: none */
	uint64_t part;
};

static void close_path_list(struct writer *w)
{
	if (w->key)
		json_end_arr(&w->j);
	w->key = NULL;
}

static int flush_event(struct writer *w, struct err *e)
{
	autobuf struct buf type = BUF_INIT;
	int r;

	close_path_list(w);
	buf_addf(&type, "%s%s", w->type, w->part ? ".more" : "");
	r = buf_error(&w->b) || buf_error(&type)
		    ? err_set(e, -ENOMEM, "out of memory")
		    : audit_append(w->l->audit, buf_cstr(&type), w->l->run->id, &w->b, e);
	buf_clear(&w->b);
	w->j = JSON_INIT(&w->b);
	json_u64(&w->j, "part", ++w->part + 1);
	return r;
}

static void open_path_list(struct writer *w, const char *key)
{
	if (w->key == key)
		return;
	close_path_list(w);
	json_arr(&w->j, key);
	w->key = key;
}

/* `bytes`: the name is not UTF-8, and is written byte by byte. */
static int add_path_name(struct writer *w, const char *key, const char *name, bool bytes, struct err *e)
{
	int r = w->b.len > EVENT_BYTES ? flush_event(w, e) : 0;

	open_path_list(w, key);
	if (bytes)
		json_bytes(&w->j, NULL, name, strlen(name));
	else
		json_str(&w->j, NULL, name);
	return r;
}

static int add_options(struct writer *w, const char *key, const struct strv *l, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r == 0; i++)
		r = add_path_name(w, key, l->v[i], false, e);
	close_path_list(w);
	return r;
}

typedef bool is_wanted(const struct change *c, bool going);

/* The names of those that are wanted; then, in a list of their own, those that are not UTF-8. */
static int add_names(struct writer *w, const char *key, const char *key_bytes, const struct changes *all,
		     const unsigned char *go, is_wanted *wanted, struct err *e)
{
	int r = 0;

	open_path_list(w, key);
	for (int bytes = 0; bytes < 2 && r == 0; bytes++) {
		for (size_t i = 0; i < all->n && r == 0; i++) {
			const struct change *c = &all->v[i];

			if (wanted(c, go && go[i]) && !json_is_utf8(c->path) == (bytes == 1))
				r = add_path_name(w, bytes ? key_bytes : key, c->path, bytes, e);
		}
	}
	close_path_list(w);
	return r;
}

static bool goes_by_hand(const struct change *c, bool going)
{
	return going && c->flags;
}

static bool goes_plainly(const struct change *c, bool going)
{
	return going && !c->flags;
}

static bool is_held(const struct change *c, bool going)
{
	(void)going;
	return c->flags & CHANGE_HELD;
}

static int log_plan(struct writer *w, const struct apply_plan *plan, struct err *e)
{
	const struct run_meta *m = &w->l->run->meta;
	const struct apply_opts *o = w->l->o;
	int r;

	json_str(&w->j, "workspace", m->workspace);
	if (m->over)
		json_str(&w->j, "into", m->over);
	json_u64(&w->j, "changes", plan->all->n);
	json_u64(&w->j, "going", plan->n_go);
	json_u64(&w->j, "refused", plan->refused->n);
	if (w->l->ask->wanted) {
		json_str(&w->j, "rule", w->l->ask->rule);
		json_str(&w->j, "ask", w->l->ask->id);
	}
	r = add_options(w, "only", &o->paths, e);
	if (r == 0)
		r = add_options(w, "allow", &o->allow_trigger, e);
	if (r == 0)
		r = add_options(w, "allow_special", &o->allow_special, e);
	if (r == 0)
		r = add_options(w, "force", &o->force, e);
	if (r == 0)
		r = add_names(w, "by_hand", "by_hand_bytes", plan->all, plan->go, goes_by_hand, e);
	if (r == 0)
		r = add_names(w, "paths", "paths_bytes", plan->all, plan->go, goes_plainly, e);
	return r < 0 ? r : flush_event(w, e);
}

int apply_log_plan(const struct apply_log *l, const struct apply_plan *plan, struct err *e)
{
	struct writer w = { .l = l, .type = "workspace.apply" };
	int r;

	w.j = JSON_INIT(&w.b);
	r = log_plan(&w, plan, e);
	buf_release(&w.b);
	return r;
}

int apply_log_result(const struct apply_log *l, const struct apply_result *res, struct err *e)
{
	struct writer w = { .l = l, .type = "workspace.applied" };
	int r = 0;

	w.j = JSON_INIT(&w.b);
	json_u64(&w.j, "applied", res->applied);
	json_u64(&w.j, "left", res->total - res->applied);
	/* Paths that the first event names and that could not be brought out after all. */
	if (res->refused.n)
		r = add_names(&w, "held", "held_bytes", &res->refused, NULL, is_held, e);
	if (r == 0)
		r = flush_event(&w, e);
	buf_release(&w.b);
	return r;
}
