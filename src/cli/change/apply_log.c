/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the events of coffer apply to the audit log. A list of paths may be longer than a line of the log:
 * an event is closed when it is full, and the next one continues the same list. No path is ever left out or
 * shortened.
 */
#include "cli/change/apply_log.h"

#include "audit/line.h"
#include "base/json.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>

/* An event that is longer than this is closed before the next name is added. One more name, even with every
 * byte escaped, still fits into a line. */
#define EVENT_BYTES (400 << 10)
static_assert(EVENT_BYTES + 2 * 6 * WORKSPACE_PATH_MAX < LINE_MAX_LEN, "one more name fits");

struct apply_writer {
	const struct apply_log *l;
	const char *type;
	struct buf b;
	struct json j;
	const char *key; /* the list that is open; NULL: none */
	uint64_t part;
};

static void close_path_list(struct apply_writer *w)
{
	if (w->key)
		json_end_arr(&w->j);
	w->key = NULL;
}

static int write_event(struct apply_writer *w, struct err *e)
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

static void open_path_list(struct apply_writer *w, const char *key)
{
	if (w->key == key)
		return;
	close_path_list(w);
	json_arr(&w->j, key);
	w->key = key;
}

/* With `bytes` the name is not UTF-8 and is written as its bytes. */
static int add_path_name(struct apply_writer *w, const char *key, const char *name, bool bytes, struct err *e)
{
	int r = w->b.len > EVENT_BYTES ? write_event(w, e) : 0;

	open_path_list(w, key);
	if (bytes)
		json_bytes(&w->j, NULL, name, strlen(name));
	else
		json_str(&w->j, NULL, name);
	return r;
}

static int add_option_paths(struct apply_writer *w, const char *key, const struct strv *l, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r == 0; i++)
		r = add_path_name(w, key, l->v[i], false, e);
	close_path_list(w);
	return r;
}

typedef bool change_filter(const struct change *c, bool going);

/* Adds the names of the wanted changes: first those in UTF-8 as `key`, then the others as `key_bytes`. */
static int add_change_names(struct apply_writer *w, const char *key, const char *key_bytes,
			    const struct changes *all, const unsigned char *go, change_filter *wanted,
			    struct err *e)
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

static bool is_going_by_permission(const struct change *c, bool going)
{
	return going && c->flags;
}

static bool is_going_plainly(const struct change *c, bool going)
{
	return going && !c->flags;
}

static bool is_held_back(const struct change *c, bool going)
{
	(void)going;
	return c->flags & CHANGE_HELD;
}

static int write_plan_events(struct apply_writer *w, const struct apply_plan *plan, struct err *e)
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
	r = add_option_paths(w, "only", &o->paths, e);
	if (r == 0)
		r = add_option_paths(w, "allow", &o->allow_trigger, e);
	if (r == 0)
		r = add_option_paths(w, "allow_special", &o->allow_special, e);
	if (r == 0)
		r = add_option_paths(w, "force", &o->force, e);
	if (r == 0)
		r = add_change_names(w, "by_hand", "by_hand_bytes", plan->all, plan->go,
				     is_going_by_permission, e);
	if (r == 0)
		r = add_change_names(w, "paths", "paths_bytes", plan->all, plan->go, is_going_plainly, e);
	return r < 0 ? r : write_event(w, e);
}

int cli_apply_log_plan(const struct apply_log *l, const struct apply_plan *plan, struct err *e)
{
	struct apply_writer w = { .l = l, .type = "workspace.apply" };
	int r;

	w.j = JSON_INIT(&w.b);
	r = write_plan_events(&w, plan, e);
	buf_release(&w.b);
	return r;
}

int cli_apply_log_result(const struct apply_log *l, const struct apply_result *res, struct err *e)
{
	struct apply_writer w = { .l = l, .type = "workspace.applied" };
	int r = 0;

	w.j = JSON_INIT(&w.b);
	json_u64(&w.j, "applied", res->applied);
	json_u64(&w.j, "left", res->total - res->applied);
	/* Paths that the first event announced and that could not be written after all. */
	if (res->refused.n)
		r = add_change_names(&w, "held", "held_bytes", &res->refused, NULL, is_held_back, e);
	if (r == 0)
		r = write_event(&w, e);
	buf_release(&w.b);
	return r;
}
