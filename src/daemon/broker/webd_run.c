/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API requests: finds the caller, checks the role (webd.W1), logs changes (webd.W2) and plans the command
 * line that webd_jobs.c executes. No work may begin before that.
 */
#include "base/fd.h"
#include "base/str.h"
#include "daemon/broker/webd_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int make_memory_file(const struct buf *b)
{
	autoclose int fd = memfd_create("answer", MFD_CLOEXEC);

	if (fd < 0 || buf_error(b) || fd_write_all(fd, buf_cstr(b), b->len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* webd.W2: on record before it is begun. */
static int log_api_request(struct webd *d, const struct webp_req *q, const struct who *who,
			   const char *sandbox)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	struct err e = ERR_INIT;

	json_str(&j, "act", web_route(q->op)->name);
	json_str(&j, "who", who->name);
	json_str(&j, "role", web_role_name(who->role));
	json_str(&j, "via", who->via);
	if (webp_str(q, "ask"))
		json_str(&j, "ask", webp_str(q, "ask"));
	if (webp_str(q, "checkpoint"))
		json_str(&j, "checkpoint", webp_str(q, "checkpoint"));
	if (buf_error(&b))
		return -ENOMEM;
	return audit_append(d->w.audit, "api.request", sandbox, &b, &e);
}

static int add_arguments(struct strv *argv, const struct web_value *v, const char *option)
{
	int r = 0;

	for (size_t at = 0; r == 0 && v && at < v->len; at += strlen(v->s + at) + 1) {
		r = option ? strv_add(argv, option) : 0;
		r = r < 0 ? r : strv_add(argv, v->s + at);
	}
	return r;
}

/* Adds each value as "name=value", by which the reader finds it. */
static int add_web_work_values(struct strv *argv, const struct webp_req *q, const struct who *who)
{
	const struct web_route *route = web_route(q->op);
	/* Changes record their caller. Reads do not name one, so that identical reads are identical work
	 * (webd_share.c). */
	int r = route->changes ? strv_addf(argv, "who=%s", who->name) : 0;

	if (r == 0 && route->changes)
		r = strv_addf(argv, "via=%s", str_eq(who->via, "session") ? "page" : "api");
	for (unsigned i = 0; r == 0 && i < web_route_fields(route); i++) {
		const struct web_field *f = &route->fields[i];
		const struct web_value *v = &q->v[i];

		/* Bytes are passed by descriptor: a command line is visible in the process list. */
		if (!v->has || f->kind == WEB_BYTES || f->kind == WEB_BASE64)
			continue;
		if (f->kind == WEB_FLAG || f->kind == WEB_NUM)
			r = strv_addf(argv, "%s=%llu", f->name, (unsigned long long)v->n);
		else if (f->kind == WEB_WORD)
			r = strv_addf(argv, "%s=%s", f->name, f->words[v->n]);
		else
			r = strv_addf(argv, "%s=%s", f->name, v->s);
	}
	return r;
}

static int add_argument_words(struct strv *argv, const char *const *words)
{
	int r = 0;

	for (; r == 0 && *words; words++)
		r = strv_add(argv, *words);
	return r;
}

#define ADD_ALL(argv, ...) add_argument_words(argv, (const char *const[]){ __VA_ARGS__, NULL })

static const struct web_value *stdin_value(const struct webp_req *q)
{
	const struct web_value *text = webp_get(q, "stdin");

	return text ? text : webp_get(q, "stdin_base64");
}

static int plan_exec_argv(struct strv *argv, const struct webp_req *q, const char *id)
{
	const struct web_value *workdir = webp_get(q, "workdir");
	int r = strv_add(argv, "exec");

	if (r == 0 && stdin_value(q))
		r = strv_add(argv, "-i");
	r = r < 0 ? r : add_arguments(argv, webp_get(q, "env"), "-e");
	if (r == 0 && workdir)
		r = ADD_ALL(argv, "-w", workdir->s);
	r = r < 0 ? r : ADD_ALL(argv, id, "--");
	return r < 0 ? r : add_arguments(argv, webp_get(q, "command"), NULL);
}

static int plan_checkpoint_argv(struct strv *argv, const struct webp_req *q, const char *id)
{
	int r = ADD_ALL(argv, "checkpoint", "--json");

	if (r == 0 && webp_str(q, "label"))
		r = strv_addf(argv, "--label=%s", webp_str(q, "label"));
	return r < 0 ? r : strv_add(argv, id);
}

static int plan_rollback_argv(struct strv *argv, const struct webp_req *q, const char *id)
{
	int r = strv_add(argv, "rollback");

	if (r == 0 && !webp_num(q, "start", 1))
		r = strv_add(argv, "--no-start");
	return r < 0 ? r : ADD_ALL(argv, "--", id, webp_str(q, "checkpoint"));
}

/* Plans the command line. `id` is the full id of the sandbox. */
static int plan_argv(struct strv *argv, const struct webp_req *q, const struct who *who, const char *id)
{
	int r = strv_add(argv, "coffer");

	if (r < 0)
		return r;
	switch (q->op) {
	case WEB_STOP:
		r = ADD_ALL(argv, "stop", "-t");
		r = r < 0 ? r : strv_addf(argv, "%llu", (unsigned long long)webp_num(q, "grace_s", 10));
		return r < 0 ? r : strv_add(argv, id);
	case WEB_REMOVE:
		return ADD_ALL(argv, "rm", webp_num(q, "force", 0) ? "--force" : "--", id);
	case WEB_EXEC:
		return plan_exec_argv(argv, q, id);
	case WEB_CHECKPOINTS:
		return ADD_ALL(argv, "checkpoint", "ls", id, "--json");
	case WEB_CHECKPOINT:
		return plan_checkpoint_argv(argv, q, id);
	case WEB_ROLLBACK:
		return plan_rollback_argv(argv, q, id);
	case WEB_VERIFY:
		return ADD_ALL(argv, "audit", "verify", "--json");
	case WEB_GATEWAY:
		return ADD_ALL(argv, "gateway", "status", "--json");
	default:
		r = ADD_ALL(argv, "web-work", web_route(q->op)->name);
		return r < 0 ? r : add_web_work_values(argv, q, who);
	}
}

static void add_caller(struct json *j, const char *key, const struct who *who)
{
	json_obj(j, key);
	json_str(j, "name", who->name);
	json_str(j, "role", web_role_name(who->role));
	json_str(j, "via", who->via);
	json_end_obj(j);
}

static void answer_status(struct webd *d, const struct webp_req *q, const struct who *who)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char text[CLOCK_TEXT_LEN];
	uint64_t now = clock_nsec(CLOCK_REALTIME);

	json_obj(&j, NULL);
	json_str(&j, "version", COFFER_VERSION);
	json_u64(&j, "pid", (uint64_t)getpid());
	json_str(&j, "started", clock_format(d->w.started, text));
	json_u64(&j, "uptime_s", now > d->w.started ? (now - d->w.started) / NSEC_PER_SEC : 0);
	add_caller(&j, "you", who);
	json_arr(&j, "listen");
	for (size_t i = 0; i < d->n_listeners; i++)
		json_str(&j, NULL, d->listeners[i].text);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	webd_reply(d, q->id, make_memory_file(&b), 0);
}

static void answer_login(struct webd *d, const struct webp_req *q)
{
	autobuf struct buf b = { .wipe = true }, secret = { .wipe = true };
	struct json j = JSON_INIT(&b);
	struct who who = { 0 };
	struct err e = ERR_INIT;
	int r = webd_find_login(d, webp_str(q, "code"), &who, &e);

	if (r == 0 && log_api_request(d, q, &who, NULL) < 0) {
		webd_refuse(d, q->id, 503, "unavailable",
			    "this cannot be written to the audit log, so it is not done",
			    "coffer audit verify shows what is wrong with it");
		return;
	}
	r = r < 0 ? r : webd_login(d, webp_str(q, "code"), &secret, &who, &e);
	if (r < 0) {
		webd_refuse(d, q->id, 401, "unauthorized", e.msg, "coffer ui makes a new one");
		return;
	}
	json_obj(&j, NULL);
	add_caller(&j, "you", &who);
	json_str(&j, "session", buf_cstr(&secret));
	json_end_obj(&j);
	buf_addc(&b, '\n');
	webd_reply(d, q->id, make_memory_file(&b), 0);
}

static void answer_metrics(struct webd *d, const struct webp_req *q)
{
	autobuf struct buf b = BUF_INIT;

	if (!d->w.metrics || d->w.metrics(d->w.metrics_ctx, &b) < 0)
		webd_refuse(d, q->id, 500, "failed", "the counters cannot be read", NULL);
	else
		webd_reply(d, q->id, make_memory_file(&b), WEBP_F_TEXT);
}

/* Finds the full id of the sandbox. The log and the asks also know removed sandboxes and resolve names
 * themselves. */
static int resolve_sandbox(struct webd *d, const struct webp_req *q, char id[RUN_ID_LEN + 1], struct err *e)
{
	bool by_path = web_route(q->op)->fields[0].kind == WEB_REF &&
		       web_route(q->op)->fields[0].from == WEB_IN_PATH;

	id[0] = '\0';
	if (!by_path || q->op == WEB_TIMELINE)
		return 0;
	return state_resolve(d->w.st, webp_str(q, "sandbox"), id, e);
}

/* All of stdin is in a file before the command starts, so a command that does not read blocks nobody. */
static int begin_exec_job(struct webd *d, struct job *x, const struct webp_req *q)
{
	const struct web_value *v = stdin_value(q);

	if (v) {
		x->in = memfd_create("stdin", MFD_CLOEXEC);
		if (x->in < 0 || fd_write_all(x->in, v->s, v->len) < 0 || lseek(x->in, 0, SEEK_SET) < 0)
			return -EIO;
	}
	return webd_start_exec(d, x);
}

static void begin_job(struct webd *d, const struct webp_req *q, const struct who *who, const char *id)
{
	struct job *x = webd_add_job(d, q, q->op == WEB_EXEC ? WEBP_ST_EXEC : WEBP_ST_WORK);

	if (!x) {
		webd_refuse(d, q->id, 503, "unavailable", "out of memory", NULL);
		return;
	}
	x->role = who->role;
	if (plan_argv(&x->argv, q, who, id) < 0 || (q->op == WEB_EXEC && begin_exec_job(d, x, q) < 0)) {
		webd_refuse(d, q->id, 503, "unavailable", "no process can be started", NULL);
		webd_free_job(d, x);
		return;
	}
	webd_start_more(d);
}

static void serve_request(struct webd *d, const struct webp_req *q, const struct who *who)
{
	char id[RUN_ID_LEN + 1];
	struct err e = ERR_INIT;

	if (resolve_sandbox(d, q, id, &e) < 0) {
		webd_refuse(d, q->id, 404, "not_found", e.msg, "GET /v1/sandboxes lists them");
		return;
	}
	if (web_route(q->op)->changes && log_api_request(d, q, who, *id ? id : NULL) < 0) {
		webd_refuse(d, q->id, 503, "unavailable",
			    "this cannot be written to the audit log, so it is not done",
			    "coffer audit verify shows what is wrong with it");
		return;
	}
	switch (q->op) {
	case WEB_STATUS:
		answer_status(d, q, who);
		return;
	case WEB_SESSION_CLOSE:
		webd_remove_session(d, q->key);
		webd_reply(d, q->id, -1, 0);
		return;
	case WEB_METRICS:
		answer_metrics(d, q);
		return;
	case WEB_EVENTS:
		webd_open_stream(d, q);
		return;
	default:
		begin_job(d, q, who, id);
	}
}

void webd_request(struct webd *d, const struct webp_req *q)
{
	const struct web_route *route = web_route(q->op);
	struct who who = { 0 };

	if (d->n_jobs >= WEBD_WAITING + WEBP_OPEN_MAX || (!webd_has_room(d, q->op) && q->op != WEB_EVENTS)) {
		webd_refuse(d, q->id, 503, "unavailable", "the gateway is overloaded",
			    "try again in a moment");
	} else if (q->op == WEB_SESSION_OPEN) {
		answer_login(d, q);
	} else if (!webd_find_caller(d, q->cred, q->key, &who)) {
		webd_refuse(d, q->id, 401, "unauthorized",
			    "this token or session is unknown, was revoked, or has expired",
			    "coffer token new makes a token, coffer ui opens the page");
	} else if (who.role < route->role) {
		char text[160];

		webd_note_refusal(d, q, &who);
		snprintf(text, sizeof(text), "this needs the role %s; yours is %s",
			 web_role_name(route->role), web_role_name(who.role));
		webd_refuse(d, q->id, 403, "forbidden", text, NULL);
	} else if (!webd_has_share(d, q)) {
		webd_refuse(d, q->id, 429, "too_many_requests", "too many of your requests wait already",
			    "wait for some of them");
	} else {
		serve_request(d, q, &who);
	}
}
