/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a run's ask server (askproto.h): requests over the socket, and the history of runs without a
 * server. Blocks, with a timeout for each response.
 */
#include "approval/wire/askproto.h"

#include "approval/list/granted.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "sandbox/state/compat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MS 30000
#define FILE_MAX (32u << 20)

/* The server must be the owner of the state directory or root: another user's process could read the answers
 * sent to it. */
static int check_peer(int fd, struct err *e)
{
	struct ucred u;
	socklen_t len = sizeof(u);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) < 0)
		return err_sys(e, -errno, "cannot determine which user serves the questions");
	if (u.uid != 0 && u.uid != geteuid())
		return err_set(e, -EPERM, "the questions are served by uid %u, which is another user",
			       (unsigned)u.uid);
	return 0;
}

/* A run that has no meta.json yet is only being made, and nobody but its maker asks in its name. */
static int check_protocol(int run_fd, struct err *e)
{
	int protocol = compat_read(run_fd);

	return protocol == -ENOENT ? 0 : compat_check(protocol, RUN_ASKS, e);
}

int askc_open(struct askc *c, int run_fd, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int tries = 0, r;

	*c = ASKC_INIT;
	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", run_fd, ASKP_SOCK);
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if ((errno != EAGAIN && errno != EINTR) || ++tries > 500)
			return err_sys(e, -errno, "no process takes answers for this sandbox");
		poll(NULL, 0, 10);
	}
	r = check_peer(fd, e);
	if (r == 0)
		r = check_protocol(run_fd, e);
	if (r < 0)
		return r;
	conn_init(&c->conn, fd);
	c->fd = TAKE_FD(fd);
	return 0;
}

void askc_close(struct askc *c)
{
	if (c->fd >= 0)
		conn_release(&c->conn);
	fd_close(c->fd);
	*c = ASKC_INIT;
}

static int set_server_gone(struct err *e)
{
	return err_set(e, -EPIPE, "the connection was closed: the sandbox has ended");
}

static int wait_for_socket(struct askc *c, short events, int timeout_ms, struct err *e)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : err_set(e, -ETIMEDOUT, "the sandbox's guard did not respond in time");
}

static int send_request(struct askc *c, enum askp_type type, const struct buf *body, struct err *e)
{
	int r;

	if (buf_error(body) || body->len > ASKP_MAX)
		return err_set(e, -E2BIG, "it is too long");
	frame_add(&c->conn.out, (uint8_t)type, 0, buf_cstr(body), (uint32_t)body->len);
	while ((r = conn_flush(&c->conn)) == 1) {
		r = wait_for_socket(c, POLLOUT, ANSWER_MS, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? set_server_gone(e) : 0;
}

/* 1: a frame; 0: no complete frame yet. */
static int try_frame(struct askc *c, struct frame *f, struct err *e)
{
	int r = conn_next(&c->conn, f);

	if (r == 0) {
		int n = conn_fill(&c->conn);

		r = conn_next(&c->conn, f);
		if (r == 0 && n < 0)
			return set_server_gone(e);
	}
	return r < 0 ? err_set(e, -EPROTO, "the sandbox's guard sent a malformed response") : r;
}

static int next_frame(struct askc *c, int timeout_ms, struct frame *f, struct err *e)
{
	int r;

	while ((r = try_frame(c, f, e)) == 0) {
		r = wait_for_socket(c, POLLIN, timeout_ms, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

static json_t *load_frame_json(const struct frame *f)
{
	json_t *o = json_loadb((const char *)f->data, f->len, 0, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int set_malformed(struct err *e)
{
	return err_set(e, -EPROTO, "the sandbox's guard sent a malformed response");
}

static int take_error_frame(const struct frame *f, struct err *e)
{
	json_t *o = load_frame_json(f);
	const char *code = jsonget_text_or_null(o, "code"), *text = jsonget_text_or_null(o, "message");
	char shown[512];
	int r = askp_code_parse(code ? code : "");

	err_set(e, r, "%s", str_safe(text ? text : "it was refused", shown, sizeof(shown)));
	json_decref(o);
	return r;
}

/* Handles one response frame. 0: more follow; 1: that was the last, or fn wants to stop (*ret_fn is its
 * result). */
static int take_response_frame(const struct frame *f, askc_fn *fn, void *ctx, int *ret_fn, struct err *e)
{
	json_t *o;

	switch (f->type) {
	case ASKP_DONE:
		return 1;
	case ASKP_ERROR:
		return take_error_frame(f, e);
	case ASKP_ASK:
		o = load_frame_json(f);
		if (!o)
			return set_malformed(e);
		*ret_fn = fn(ctx, o);
		json_decref(o);
		return *ret_fn ? 1 : 0;
	default:
		return set_malformed(e);
	}
}

static int read_responses(struct askc *c, askc_fn *fn, void *ctx, struct err *e)
{
	int r = 0, said = 0;

	while (r == 0) {
		struct frame f;

		r = next_frame(c, ANSWER_MS, &f, e);
		if (r == 0)
			r = take_response_frame(&f, fn, ctx, &said, e);
	}
	return r < 0 ? r : said;
}

static void add_all_flag(struct buf *b, bool all)
{
	struct json j = JSON_INIT(b);

	json_obj(&j, NULL);
	json_bool(&j, "all", all);
	json_end_obj(&j);
}

int askc_list(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	add_all_flag(&b, all);
	r = send_request(c, ASKP_LIST, &b, e);
	return r < 0 ? r : read_responses(c, fn, ctx, e);
}

int askc_follow_begin(struct askc *c, bool all, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	add_all_flag(&b, all);
	return send_request(c, ASKP_FOLLOW, &b, e);
}

int askc_follow_read(struct askc *c, askc_fn *fn, void *ctx, struct err *e)
{
	struct frame f;
	int r, said;

	while ((r = try_frame(c, &f, e)) == 1) {
		said = 0;
		r = take_response_frame(&f, fn, ctx, &said, e);
		if (r < 0 || said)
			return r < 0 ? r : said;
		/* ASKP_DONE: the initial list is complete. */
		if (r == 1 && (said = fn(ctx, NULL)) != 0)
			return said;
	}
	return r;
}

int askc_follow(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e)
{
	int r = askc_follow_begin(c, all, e);

	while (r == 0) {
		r = askc_follow_read(c, fn, ctx, e);
		if (r == 0)
			r = wait_for_socket(c, POLLIN, -1, e);
	}
	return r == -EPIPE ? 0 : r;
}

/* askc_fn: keeps the single ask of a response. */
static int keep_last_ask(void *ctx, json_t *ask)
{
	json_t **to = ctx;

	json_decref(*to);
	*to = json_incref(ask);
	return 0;
}

static int call_for_ask(struct askc *c, enum askp_type type, const struct buf *b, json_t **ret, struct err *e)
{
	json_t *ask = NULL;
	int r = send_request(c, type, b, e);

	if (r == 0)
		r = read_responses(c, keep_last_ask, &ask, e);
	if (r == 0 && !ask)
		r = set_malformed(e);
	if (r == 0 && ret)
		*ret = json_incref(ask);
	json_decref(ask);
	return r;
}

int askc_show(struct askc *c, const char *id, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	json_end_obj(&j);
	return call_for_ask(c, ASKP_SHOW, &b, ret, e);
}

static void add_approver(struct json *j, const struct ask_who *w)
{
	if (w->name[0])
		json_str(j, "name", w->name);
	json_str(j, "via", w->via);
}

int askc_answer(struct askc *c, const char *id, const char *digest, const struct ask_answer *a, json_t **ret,
		struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	json_str(&j, "digest", digest);
	json_bool(&j, "allow", a->allow);
	if (a->allow)
		json_str(&j, "scope", ask_scope_name(a->scope));
	if (a->allow && a->scope == ASK_FOR)
		json_u64(&j, "seconds", a->seconds);
	if (a->allow && a->scope == ASK_USES)
		json_u64(&j, "uses", a->uses);
	if (a->reason[0])
		json_str(&j, "reason", a->reason);
	add_approver(&j, &a->who);
	json_end_obj(&j);
	return call_for_ask(c, ASKP_ANSWER, &b, ret, e);
}

int askc_revoke(struct askc *c, const char *id, const struct ask_who *who, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	add_approver(&j, who);
	json_end_obj(&j);
	return call_for_ask(c, ASKP_REVOKE, &b, ret, e);
}

static void add_nonempty_text(struct json *j, const char *key, const char *s)
{
	if (s && s[0])
		json_str(j, key, s);
}

int askc_submit(struct askc *c, const struct ask_question *q, uint64_t seconds, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char hex[HASH_HEX_LEN + 1];
	struct frame f;
	int r;

	json_obj(&j, NULL);
	json_str(&j, "kind", ask_kind_name(q->kind));
	json_str(&j, "what", q->what);
	add_nonempty_text(&j, "reason", q->reason);
	add_nonempty_text(&j, "host", q->host);
	add_nonempty_text(&j, "rule", q->rule);
	add_nonempty_text(&j, "by", q->by);
	if (q->preview_len)
		json_strn(&j, "preview", q->preview, q->preview_len);
	if (q->port)
		json_u64(&j, "port", q->port);
	if (q->has_body) {
		hash_hex(q->body, HASH_LEN, hex);
		json_str(&j, "body", hex);
		json_u64(&j, "body_len", q->body_len);
	}
	if (seconds)
		json_u64(&j, "seconds", seconds);
	json_end_obj(&j);
	r = send_request(c, ASKP_SUBMIT, &b, e);
	r = r < 0 ? r : next_frame(c, ANSWER_MS, &f, e);
	if (r < 0)
		return r;
	if (f.type == ASKP_ERROR)
		return take_error_frame(&f, e);
	*ret = f.type == ASKP_ASK ? load_frame_json(&f) : NULL;
	return *ret ? 0 : set_malformed(e);
}

int askc_wait(struct askc *c, struct buf *ret_why, struct err *e)
{
	const char *why;
	struct frame f;
	json_t *o;
	int r = next_frame(c, -1, &f, e);

	if (r < 0)
		return r;
	if (f.type == ASKP_ERROR)
		return take_error_frame(&f, e);
	o = f.type == ASKP_VERDICT ? load_frame_json(&f) : NULL;
	if (!o)
		return set_malformed(e);
	why = jsonget_text_or_null(o, "why");
	if (why && ret_why)
		str_add_safe(ret_why, why, strlen(why), false);
	r = json_is_true(json_object_get(o, "allow"));
	json_decref(o);
	return r;
}

/* No ask server is left, so asks that were open in the file have ended. */
static void mark_as_ended(json_t *o)
{
	const char *s = jsonget_text_or_null(o, "state");
	int was = ask_state_parse(s ? s : "");

	if (was == ASK_PENDING || was == ASK_PARKED || was == ASK_GRANTED) {
		(void)!json_object_set_new(
			o, "state", json_string(ask_state_name(was == ASK_PENDING ? ASK_GONE : ASK_LAPSED)));
		(void)!json_object_set_new(o, "why", json_string("the sandbox has ended"));
	}
}

static bool list_has_number(const struct asks *l, const json_t *o)
{
	const struct ask *a = NULL;
	struct ask_view v;

	while ((a = asks_next(l, a)) != NULL) {
		ask_view(l, a, &v);
		if (v.number == (uint64_t)json_integer_value(json_object_get(o, "number")))
			return true;
	}
	return false;
}

/* Grants of a live session hold also between its ask servers. */
static int report_session_grants(const struct asks *l, askc_fn *fn, void *ctx)
{
	const struct ask *a = NULL;
	int r = 0;

	while (r == 0 && (a = asks_next(l, a)) != NULL) {
		autobuf struct buf b = BUF_INIT;
		struct json j = JSON_INIT(&b);
		struct ask_view v;
		json_t *o;

		ask_view(l, a, &v);
		ask_json(&v, &j, NULL);
		o = buf_error(&b) ? NULL : json_loadb(buf_cstr(&b), b.len, 0, NULL);
		r = o ? fn(ctx, o) : 0;
		json_decref(o);
	}
	return r;
}

static int report_file_asks(const struct buf *b, const struct asks *kept, askc_fn *fn, void *ctx)
{
	const char *p = buf_cstr(b), *end = p + b->len;
	int r = 0;

	while (r == 0 && p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		json_t *o = json_loadb(p, n, 0, NULL);

		if (json_is_object(o) && !(kept && list_has_number(kept, o))) {
			mark_as_ended(o);
			r = fn(ctx, o);
		}
		json_decref(o);
		p += n + 1;
	}
	return r;
}

int askc_read_file(int run_fd, const char *run, askc_fn *fn, void *ctx, struct err *e)
{
	struct err ignored = ERR_INIT;
	CLEANUP(asks_freep)
	struct asks *kept = granted_exists(run_fd) ? granted_open_list(run_fd, run, &ignored) : NULL;
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(run_fd, ASKS_FILE, FILE_MAX, &b);

	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read the run's questions");
	r = report_file_asks(&b, kept, fn, ctx);
	return r || !kept ? r : report_session_grants(kept, fn, ctx);
}

struct find {
	uint64_t number;
	bool pending; /* match pending asks only */
	bool found;
};

static int match_number(void *ctx, json_t *ask)
{
	struct find *f = ctx;
	const char *state = jsonget_text_or_null(ask, "state");

	if ((uint64_t)json_integer_value(json_object_get(ask, "number")) == f->number &&
	    (!f->pending || (state && str_eq(state, "pending"))))
		f->found = true;
	return 0;
}

static bool run_has_ask(int run_fd, const char *run, uint64_t number, bool pending)
{
	struct find f = { .number = number, .pending = pending };
	autoaskc struct askc c = ASKC_INIT;
	struct err e = ERR_INIT;

	if (askc_open(&c, run_fd, &e) == 0)
		(void)!askc_list(&c, true, match_number, &f, &e);
	else
		(void)!askc_read_file(run_fd, run, match_number, &f, &e);
	return f.found;
}

int askc_resolve(struct state *st, const char *id, char ret_run[RUN_ID_LEN + 1], int *ret_fd, struct err *e)
{
	const char *dash = strchr(id, '-');
	size_t n = dash ? (size_t)(dash - id) : 0;
	autostrv struct strv runs = STRV_INIT;
	autoclose int found = -1;
	char shown[64];
	uint64_t number;
	int r;

	str_safe(id, shown, sizeof(shown));
	if (str_to_u64(dash ? dash + 1 : id, &number) < 0 || (dash && n == 0))
		return err_hint(e, err_set(e, -EINVAL, "%s is not the id of a question", shown),
				"`coffer ask ls` shows them");
	r = state_run_list(st, &runs, e);
	for (size_t i = 0; r == 0 && i < runs.n; i++) {
		autoclose int fd = -1;

		if (n && strncmp(runs.v[i], id, n) != 0)
			continue;
		fd = openat(st->runs_fd, runs.v[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || !run_has_ask(fd, runs.v[i], number, !dash))
			continue;
		if (found >= 0)
			return err_hint(
				e, err_set(e, -ENOTUNIQ, "%s can be a question of several sandboxes", shown),
				"name it as `coffer ask ls` shows it");
		found = TAKE_FD(fd);
		memcpy(ret_run, runs.v[i], RUN_ID_LEN + 1);
	}
	if (r < 0)
		return r;
	if (found < 0)
		return err_hint(e, err_set(e, -ENOENT, "there is no question %s", shown),
				"`coffer ask ls` shows those that wait, `coffer ask ls --all` all");
	*ret_fd = TAKE_FD(found);
	return 0;
}
