/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: lists the questions of all sandboxes, answers and revokes them, and submits questions of API
 * clients. The ask server of each sandbox checks and logs every answer; this process is only its client.
 */
#include "approval/list/granted.h"
#include "approval/server/askback.h"
#include "approval/toolcall.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/api/web_work.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 20000
#define BEGIN_MS 3000

struct list {
	json_t **v;
	size_t n, room;
	const char *state; /* "all", "in_force", or the name of one state */
	bool newest;	   /* newest first */
};

/* "in_force": allowed, and can still be used. */
static bool is_wanted_state(const struct list *l, const char *state)
{
	if (str_eq(l->state, "in_force"))
		return str_eq(state, "granted") || str_eq(state, "parked");
	return str_eq(l->state, "all") || str_eq(l->state, state);
}

static void list_release(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		json_decref(l->v[i]);
	free(l->v);
}

static int keep_wanted_ask(void *ctx, json_t *ask)
{
	struct list *l = ctx;
	int r;

	if (!ask || !is_wanted_state(l, jsonget_text(ask, "state")))
		return 0;
	r = VEC_ROOM(l->v, l->n, l->room, LIST_MAX);
	if (r < 0)
		return r;
	l->v[l->n++] = json_incref(ask);
	return 0;
}

/* Orders by the time of asking, then by id. */
static int compare_asked(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int d = strcmp(jsonget_text(x, "asked"), jsonget_text(y, "asked"));

	return d ? d : strcmp(jsonget_text(x, "id"), jsonget_text(y, "id"));
}

/*
 * Collects the questions of one run. A run whose ask server cannot be reached has ended or is about to: its
 * questions are read from its file.
 */
static void gather_run_asks(struct web_args *a, const char *id, struct list *l)
{
	autoaskc struct askc c = ASKC_INIT;
	struct err e = ERR_INIT;
	bool alive = false;
	autoclose int fd = state_run_open(&a->st, id, &alive, &e);

	if (fd < 0)
		return;
	if (askc_open(&c, fd, &e) == 0)
		(void)!askc_list(&c, !str_eq(l->state, "pending"), keep_wanted_ask, l, &e);
	else if (str_eq(l->state, "all") || granted_exists(fd))
		(void)!askc_read_file(fd, id, keep_wanted_ask, l, &e);
}

static void add_ask_json(struct buf *out, json_t *ask)
{
	char *text = json_dumps(ask, JSON_COMPACT);

	buf_adds(out, text ? text : "{}");
	if (!text)
		out->error = -ENOMEM;
	free(text);
}

struct one {
	const char *id;
	json_t *ask;
};

static int take_ask_by_id(void *ctx, json_t *ask)
{
	struct one *o = ctx;

	if (ask && str_eq(jsonget_text(ask, "id"), o->id))
		o->ask = json_incref(ask);
	return o->ask != NULL;
}

/*
 * The index in the list after question `id`. A question that is no longer in the list, because it was
 * answered meanwhile, has its place by the time of asking; after an unknown one, the list starts from the
 * beginning.
 */
static size_t index_after(struct web_args *a, const struct list *l, const char *id)
{
	autoaskc struct askc c = ASKC_INIT;
	autoclose int fd = -1;
	struct one o = { .id = id };
	char run[RUN_ID_LEN + 1];
	struct err e = ERR_INIT;
	size_t i = 0;

	while (i < l->n && !str_eq(jsonget_text(l->v[i], "id"), id))
		i++;
	if (i < l->n)
		return i + 1;
	if (askc_resolve(&a->st, id, run, &fd, &e) < 0)
		return 0;
	if (askc_open(&c, fd, &e) == 0)
		(void)!askc_show(&c, id, &o.ask, &e);
	else
		(void)!askc_read_file(fd, run, take_ask_by_id, &o, &e);
	for (i = 0; o.ask && i < l->n; i++) {
		int d = compare_asked(&l->v[i], &o.ask);

		if (l->newest ? d < 0 : d > 0)
			break;
	}
	json_decref(o.ask);
	return i;
}

int web_work_asks(struct web_args *a, struct err *e)
{
	CLEANUP(list_release)
	struct list l = { .state = cli_web_arg(a, "state") ? cli_web_arg(a, "state") : "pending",
			  .newest = cli_web_arg(a, "order") && str_eq(cli_web_arg(a, "order"), "newest") };
	autostrv struct strv ids = STRV_INIT;
	const char *ref = cli_web_arg(a, "sandbox"), *after = cli_web_arg(a, "after");
	uint64_t limit = cli_web_arg_num(a, "limit", 100);
	char id[RUN_ID_LEN + 1];
	size_t i, first;
	int r = ref ? state_resolve(&a->st, ref, id, e) : state_run_list(&a->st, &ids, e);

	if (r == 0 && ref)
		r = strv_add(&ids, id);
	if (r < 0)
		return r;
	for (size_t k = 0; k < ids.n; k++)
		gather_run_asks(a, ids.v[k], &l);
	if (l.n)
		qsort(l.v, l.n, sizeof(json_t *), compare_asked);
	for (size_t k = 0; l.newest && k < l.n / 2; k++) {
		json_t *x = l.v[k];

		l.v[k] = l.v[l.n - 1 - k];
		l.v[l.n - 1 - k] = x;
	}
	i = after ? index_after(a, &l, after) : 0;
	buf_adds(&a->out, "{\"items\":[");
	for (first = i; i < l.n && i - first < limit; i++) {
		size_t before = a->out.len;

		if (i > first)
			buf_addc(&a->out, ',');
		add_ask_json(&a->out, l.v[i]);
		if (i > first && a->out.len > WEB_PAGE_BYTES - WEB_PAGE_REST) {
			a->out.len = before;
			break;
		}
	}
	buf_adds(&a->out, "],\"next\":");
	if (i < l.n && i > first)
		buf_addf(&a->out, "\"%s\"", jsonget_text(l.v[i - 1], "id"));
	else
		buf_adds(&a->out, "null");
	buf_addf(&a->out, ",\"total\":%zu}\n", l.n);
	return 0;
}

static int resolve_ask(struct web_args *a, struct askc *c, char run[RUN_ID_LEN + 1], int *ret_fd,
		       struct err *e)
{
	int r = askc_resolve(&a->st, cli_web_arg(a, "ask"), run, ret_fd, e);

	if (r < 0) {
		a->code = "not_found";
		return r;
	}
	return c ? askc_open(c, *ret_fd, e) : 0;
}

struct wanted {
	const char *id;
	json_t *found;
};

static int find_ask_by_id(void *ctx, json_t *ask)
{
	struct wanted *w = ctx;

	if (!ask || !str_eq(jsonget_text(ask, "id"), w->id))
		return 0;
	w->found = json_incref(ask);
	return 1;
}

static int print_ask(struct web_args *a, json_t *ask)
{
	add_ask_json(&a->out, ask);
	buf_addc(&a->out, '\n');
	json_decref(ask);
	return 0;
}

int web_work_ask(struct web_args *a, struct err *e)
{
	autoaskc struct askc c = ASKC_INIT;
	autoclose int fd = -1;
	struct wanted w = { .id = cli_web_arg(a, "ask") };
	struct err why = ERR_INIT;
	char run[RUN_ID_LEN + 1];
	int r = resolve_ask(a, NULL, run, &fd, e);

	if (r < 0)
		return r;
	if (askc_open(&c, fd, &why) == 0)
		r = askc_show(&c, w.id, &w.found, e);
	else
		r = askc_read_file(fd, run, find_ask_by_id, &w, e);
	if (r < 0 || !w.found) {
		a->code = "not_found";
		return r < 0 && *e->msg ? r : err_set(e, -ENOENT, "there is no question %s", w.id);
	}
	return print_ask(a, w.found);
}

static const char *api_code_of_answer(int r)
{
	switch (r) {
	case -ENOENT:
		return "not_found";
	case -ESTALE:
		return "stale";
	case -EALREADY:
		return "answered";
	case -ETIME:
		return "expired";
	case -ECANCELED:
	case -ECONNREFUSED:
		return "gone";
	case -EINVAL:
		return "bad_request";
	default:
		return "conflict";
	}
}

static void set_approver(const struct web_args *a, struct ask_who *w)
{
	snprintf(w->name, sizeof(w->name), "%.63s", cli_web_arg(a, "who"));
	snprintf(w->via, sizeof(w->via), "%.23s", cli_web_arg(a, "via"));
}

int web_work_answer(struct web_args *a, struct err *e)
{
	autoaskc struct askc c = ASKC_INIT;
	autoclose int fd = -1;
	struct ask_answer n = { .allow = str_eq(cli_web_arg(a, "decision"), "allow"),
				.seconds = cli_web_arg_num(a, "seconds", 0),
				.uses = cli_web_arg_num(a, "uses", 0) };
	const char *scope = cli_web_arg(a, "scope"), *reason = cli_web_arg(a, "reason");
	char run[RUN_ID_LEN + 1];
	json_t *ask = NULL;
	int s = scope ? ask_scope_parse(scope) : ASK_ONCE, r = resolve_ask(a, &c, run, &fd, e);

	if (r < 0) {
		a->code = a->code ? a->code : "gone";
		return r;
	}
	if (s < 0)
		return err_set(e, -EINVAL, "'%.32s' is not a scope", scope);
	n.scope = (enum ask_scope)s;
	if (!n.allow && scope) {
		a->code = "bad_request";
		return err_hint(
			e,
			err_set(e, -EINVAL, "a denial has no scope: it is an answer to this question alone"),
			"leave scope out; to deny it for good, use a rule in the policy");
	}
	if ((n.seconds != 0) != (n.allow && n.scope == ASK_FOR) ||
	    (n.uses != 0) != (n.allow && n.scope == ASK_USES)) {
		a->code = "bad_request";
		return err_set(
			e, -EINVAL,
			"seconds is only valid with allow and scope for, uses only with allow and scope uses");
	}
	snprintf(n.reason, sizeof(n.reason), "%s", reason ? reason : "");
	set_approver(a, &n.who);
	r = askc_answer(&c, cli_web_arg(a, "ask"), cli_web_arg(a, "digest"), &n, &ask, e);
	if (r < 0) {
		a->code = api_code_of_answer(r);
		return r;
	}
	return print_ask(a, ask);
}

int web_work_revoke(struct web_args *a, struct err *e)
{
	autoclose int fd = -1;
	struct ask_who who = { 0 };
	char run[RUN_ID_LEN + 1];
	json_t *ask = NULL;
	int r = resolve_ask(a, NULL, run, &fd, e);

	set_approver(a, &who);
	if (r == 0)
		r = askback_revoke(&a->st, fd, run, cli_web_arg(a, "ask"), &who, &ask, e);
	if (r < 0) {
		a->code = a->code ? a->code : api_code_of_answer(r);
		return r;
	}
	return print_ask(a, ask);
}

/* --- questions that API clients submit -------------------------------------------------------------- */

/* A tool call that a client is about to make: the policy's verdict, and the texts of the question. */
struct tool_ask {
	struct toolcall t;
	struct acts acts;
	struct tool_verdict v;
	struct toolcall_texts x;
};

#define TOOL_ASK_INIT ((struct tool_ask){ .t = TOOLCALL_INIT, .acts = ACTS_INIT })

static void tool_ask_release(struct tool_ask *k)
{
	toolcall_release(&k->t);
	acts_release(&k->acts);
	toolcall_texts_release(&k->x);
}

static int log_tool_decision(struct web_args *a, const struct tool_ask *k, bool allowed, const char *run,
			     struct err *e)
{
	CLEANUP(audit_freep) struct audit *audit = NULL;
	int r = audit_open(&audit, a->st.fd, e);

	return r < 0 ? r : toolcall_log(&k->t, &k->v, allowed, NULL, audit, run, e);
}

/*
 * Decides a tool call by the sandbox's policy. 1: the list of tools allows it, and nobody is asked. 0: a
 * person must be asked, because a rule says so or there is no list; *q is then the question that a real
 * call would put, except for `by`. A grant is therefore the client's and not the sandbox's (asks.h,
 * ask_question_subject()). -EPERM: denied, and logged.
 */
static int judge_tool_ask(struct web_args *a, struct tool_ask *k, int run_fd, const char *run,
			  struct ask_question *q, struct err *e)
{
	const struct toolcall_bound nothing = { 0 };
	const char *by = q->by, *reason = q->reason;
	autobuf struct buf why = BUF_INIT;
	int r = toolcall_parse(&k->t, q->what, q->preview_len ? q->preview : NULL, q->preview_len, e);

	k->t.by = by;
	if (r == 0)
		r = toolcall_read_acts(run_fd, run, &k->acts, e);
	if (r < 0)
		return r;
	acts_decide_tool(&k->acts, k->t.name, k->t.v, k->t.n, &k->v);
	if (k->v.action == POLICY_DENY) {
		(void)!log_tool_decision(a, k, false, run, NULL);
		tool_verdict_text(&k->v, k->t.name, &why);
		return err_set(e, -EPERM, "%s", buf_cstr(&why));
	}
	if (k->v.action == POLICY_ALLOW && k->v.has_opinion)
		return 1;
	r = toolcall_question(&k->t, &k->v, &nothing, &k->x, q, e);
	q->by = by;
	q->reason = reason;
	return r;
}

/* toolcall.T3: the decision is logged before the client learns of it. */
static int allow_tool_ask(struct web_args *a, const struct tool_ask *k, const char *run, struct err *e)
{
	struct json j = JSON_INIT(&a->out);
	autobuf struct buf rule = BUF_INIT;
	int r = log_tool_decision(a, k, true, run, e);

	if (r < 0)
		return r;
	tool_rule_text(k->v.rule, &rule);
	json_obj(&j, NULL);
	json_str(&j, "sandbox", run);
	json_str(&j, "state", "allowed");
	json_str(&j, "kind", ask_kind_name(ASK_TOOL));
	json_str(&j, "what", k->t.name);
	json_str(&j, "rule", buf_cstr(&rule));
	json_str(&j, "by", k->t.by);
	json_end_obj(&j);
	buf_addc(&a->out, '\n');
	return buf_error(&rule) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Retries for BEGIN_MS: the ask server of a sandbox that has just started is not listening yet. */
static int open_ask_server(struct askc *c, int run_fd, bool alive, struct err *e)
{
	int r = askc_open(c, run_fd, e);

	for (int ms = 0; alive && (r == -ENOENT || r == -ECONNREFUSED) && ms < BEGIN_MS; ms += 50) {
		poll(NULL, 0, 50);
		*e = ERR_INIT;
		r = askc_open(c, run_fd, e);
	}
	return r;
}

static int refuse_ended_sandbox(const char *run, int code, struct err *e)
{
	return err_set(e, code, "sandbox %s has ended and takes no questions", run);
}

struct same {
	const char *by;
	unsigned n;
};

static int count_asks_by(void *ctx, json_t *ask)
{
	struct same *s = ctx;

	s->n += ask && str_eq(jsonget_text(ask, "state"), "pending") &&
		str_eq(jsonget_text(ask, "by"), s->by);
	return 0;
}

/*
 * The ask server of each sandbox enforces that sandbox's quota (asks.A6). This one limits a client over all
 * sandboxes.
 */
static int check_client_quota(struct web_args *a, const char *by, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	struct same s = { .by = by };
	int r = state_run_list(&a->st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		autoaskc struct askc c = ASKC_INIT;
		struct err none = ERR_INIT;
		bool alive = false;
		autoclose int fd = state_run_open(&a->st, ids.v[i], &alive, &none);

		if (fd >= 0 && alive && askc_open(&c, fd, &none) == 0)
			(void)!askc_list(&c, false, count_asks_by, &s, &none);
	}
	if (r == 0 && s.n >= ASKS_BY_MAX)
		r = err_set(e, -EBUSY, "%d of your questions wait for an answer already", ASKS_BY_MAX);
	return r;
}

/* Submits the question to the sandbox's ask server. */
static int submit_ask(struct web_args *a, int run_fd, bool alive, const char *run,
		      const struct ask_question *q, struct err *e)
{
	autoaskc struct askc c = ASKC_INIT;
	json_t *ask = NULL;
	int r = open_ask_server(&c, run_fd, alive, e);

	if (r == -ENOENT || r == -ECONNREFUSED)
		return refuse_ended_sandbox(run, r, e);
	r = r < 0 ? r : check_client_quota(a, q->by, e);
	if (r == 0)
		r = askc_submit(&c, q, cli_web_arg_num(a, "seconds", 0), &ask, e);
	return r < 0 ? r : print_ask(a, ask);
}

int web_work_submit(struct web_args *a, struct err *e)
{
	CLEANUP(tool_ask_release) struct tool_ask k = TOOL_ASK_INIT;
	const char *kind = cli_web_arg(a, "kind"), *reason = cli_web_arg(a, "reason"),
		   *preview = cli_web_arg(a, "preview");
	char id[RUN_ID_LEN + 1], by[ASK_BY_MAX];
	struct ask_question q = { .kind = kind && str_eq(kind, "tool") ? ASK_TOOL : ASK_QUESTION,
				  .host = "",
				  .method = "",
				  .path = "",
				  .what = cli_web_arg(a, "what"),
				  .type = "",
				  .rule = "",
				  .reason = reason ? reason : "",
				  .by = by,
				  .preview = preview ? preview : "",
				  .preview_len = preview ? strlen(preview) : 0 };
	autoclose int fd = -1;
	bool alive = false;
	int r = state_resolve(&a->st, cli_web_arg(a, "sandbox"), id, e);

	if (r < 0)
		return r;
	snprintf(by, sizeof(by), "%.63s (%.23s)", cli_web_arg(a, "who"), cli_web_arg(a, "via"));
	fd = state_run_open(&a->st, id, &alive, e);
	r = fd < 0 ? fd : q.kind == ASK_TOOL ? judge_tool_ask(a, &k, fd, id, &q, e) : 0;
	if (r == 1)
		r = alive ? allow_tool_ask(a, &k, id, e) : refuse_ended_sandbox(id, -ESRCH, e);
	else if (r == 0)
		r = submit_ask(a, fd, alive, id, &q, e);
	if (r < 0)
		a->code = "conflict";
	return r;
}
