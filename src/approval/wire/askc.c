/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a run's questions (askproto.h). */
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

/* Only who may read our state serves there; another one would be told what we answer. */
static int check_peer(int fd, struct err *e)
{
	struct ucred u;
	socklen_t len = sizeof(u);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) < 0)
		return err_sys(e, -errno, "cannot tell who serves the questions");
	if (u.uid != 0 && u.uid != geteuid())
		return err_set(e, -EPERM, "the questions are served by uid %u, which is somebody else",
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
			return err_sys(e, -errno, "nobody takes answers for this sandbox");
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

static int gone(struct err *e)
{
	return err_set(e, -EPIPE, "whoever served the questions is gone: the sandbox has ended");
}

static int wait_for(struct askc *c, short events, int timeout_ms, struct err *e)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : err_set(e, -ETIMEDOUT, "the sandbox's guard does not answer");
}

static int send_request(struct askc *c, enum askp_type type, const struct buf *body, struct err *e)
{
	int r;

	if (buf_error(body) || body->len > ASKP_MAX)
		return err_set(e, -E2BIG, "it is too long");
	frame_add(&c->conn.out, (uint8_t)type, 0, buf_cstr(body), (uint32_t)body->len);
	while ((r = conn_flush(&c->conn)) == 1) {
		r = wait_for(c, POLLOUT, ANSWER_MS, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? gone(e) : 0;
}

/* 1: a frame; 0: none is there yet. */
static int try_frame(struct askc *c, struct frame *f, struct err *e)
{
	int r = conn_next(&c->conn, f);

	if (r == 0) {
		int n = conn_fill(&c->conn);

		r = conn_next(&c->conn, f);
		if (r == 0 && n < 0)
			return gone(e);
	}
	return r < 0 ? err_set(e, -EPROTO, "the sandbox's guard does not speak as it should") : r;
}

static int next_frame(struct askc *c, int timeout_ms, struct frame *f, struct err *e)
{
	int r;

	while ((r = try_frame(c, f, e)) == 0) {
		r = wait_for(c, POLLIN, timeout_ms, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

static json_t *load(const struct frame *f)
{
	json_t *o = json_loadb((const char *)f->data, f->len, 0, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int bad(struct err *e)
{
	return err_set(e, -EPROTO, "the sandbox's guard does not speak as it should");
}

static int refused(const struct frame *f, struct err *e)
{
	json_t *o = load(f);
	const char *code = jsonget_text_or_null(o, "code"), *text = jsonget_text_or_null(o, "message");
	char shown[512];
	int r = askp_code_parse(code ? code : "");

	err_set(e, r, "%s", str_safe(text ? text : "it was refused", shown, sizeof(shown)));
	json_decref(o);
	return r;
}

/* Takes one frame: 0 go on, 1 that was the last, negative, or what fn returned in *ret_fn. */
static int take(const struct frame *f, askc_fn *fn, void *ctx, int *ret_fn, struct err *e)
{
	json_t *o;

	switch (f->type) {
	case ASKP_DONE:
		return 1;
	case ASKP_ERROR:
		return refused(f, e);
	case ASKP_ASK:
		o = load(f);
		if (!o)
			return bad(e);
		*ret_fn = fn(ctx, o);
		json_decref(o);
		return *ret_fn ? 1 : 0;
	default:
		return bad(e);
	}
}

static int read_all(struct askc *c, askc_fn *fn, void *ctx, struct err *e)
{
	int r = 0, said = 0;

	while (r == 0) {
		struct frame f;

		r = next_frame(c, ANSWER_MS, &f, e);
		if (r == 0)
			r = take(&f, fn, ctx, &said, e);
	}
	return r < 0 ? r : said;
}

static void add_all(struct buf *b, bool all)
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

	add_all(&b, all);
	r = send_request(c, ASKP_LIST, &b, e);
	return r < 0 ? r : read_all(c, fn, ctx, e);
}

int askc_follow_begin(struct askc *c, bool all, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	add_all(&b, all);
	return send_request(c, ASKP_FOLLOW, &b, e);
}

int askc_follow_read(struct askc *c, askc_fn *fn, void *ctx, struct err *e)
{
	struct frame f;
	int r, said;

	while ((r = try_frame(c, &f, e)) == 1) {
		said = 0;
		r = take(&f, fn, ctx, &said, e);
		if (r < 0 || said)
			return r < 0 ? r : said;
		/* The list was told. */
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
			r = wait_for(c, POLLIN, -1, e);
	}
	return r == -EPIPE ? 0 : r;
}

/* The one ask of an answer. */
static int keep(void *ctx, json_t *ask)
{
	json_t **to = ctx;

	json_decref(*to);
	*to = json_incref(ask);
	return 0;
}

static int call(struct askc *c, enum askp_type type, const struct buf *b, json_t **ret, struct err *e)
{
	json_t *ask = NULL;
	int r = send_request(c, type, b, e);

	if (r == 0)
		r = read_all(c, keep, &ask, e);
	if (r == 0 && !ask)
		r = bad(e);
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
	return call(c, ASKP_SHOW, &b, ret, e);
}

static void add_who(struct json *j, const struct ask_who *w)
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
	add_who(&j, &a->who);
	json_end_obj(&j);
	return call(c, ASKP_ANSWER, &b, ret, e);
}

int askc_revoke(struct askc *c, const char *id, const struct ask_who *who, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	add_who(&j, who);
	json_end_obj(&j);
	return call(c, ASKP_REVOKE, &b, ret, e);
}

static void add_text(struct json *j, const char *key, const char *s)
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
	add_text(&j, "reason", q->reason);
	add_text(&j, "host", q->host);
	add_text(&j, "rule", q->rule);
	add_text(&j, "by", q->by);
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
		return refused(&f, e);
	*ret = f.type == ASKP_ASK ? load(&f) : NULL;
	return *ret ? 0 : bad(e);
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
		return refused(&f, e);
	o = f.type == ASKP_VERDICT ? load(&f) : NULL;
	if (!o)
		return bad(e);
	why = jsonget_text_or_null(o, "why");
	if (why && ret_why)
		str_add_safe(ret_why, why, strlen(why), false);
	r = json_is_true(json_object_get(o, "allow"));
	json_decref(o);
	return r;
}

/* What was open when its guard was last heard of is over, for nobody serves it. */
static void close_state(json_t *o)
{
	const char *s = jsonget_text_or_null(o, "state");
	int was = ask_state_parse(s ? s : "");

	if (was == ASK_PENDING || was == ASK_PARKED || was == ASK_GRANTED) {
		(void)!json_object_set_new(
			o, "state", json_string(ask_state_name(was == ASK_PENDING ? ASK_GONE : ASK_LAPSED)));
		(void)!json_object_set_new(o, "why", json_string("the sandbox has ended"));
	}
}

static bool has_number(const struct asks *l, const json_t *o)
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

/* What a session was granted holds also while nobody serves. */
static int tell_kept(const struct asks *l, askc_fn *fn, void *ctx)
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

static int tell_text(const struct buf *b, const struct asks *kept, askc_fn *fn, void *ctx)
{
	const char *p = buf_cstr(b), *end = p + b->len;
	int r = 0;

	while (r == 0 && p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		json_t *o = json_loadb(p, n, 0, NULL);

		if (json_is_object(o) && !(kept && has_number(kept, o))) {
			close_state(o);
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
	struct asks *kept = granted_exists(run_fd) ? granted_look(run_fd, run, &ignored) : NULL;
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(run_fd, ASKS_FILE, FILE_MAX, &b);

	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read the run's questions");
	r = tell_text(&b, kept, fn, ctx);
	return r || !kept ? r : tell_kept(kept, fn, ctx);
}

struct find {
	uint64_t number;
	bool pending; /* only those */
	bool found;
};

static int find_number(void *ctx, json_t *ask)
{
	struct find *f = ctx;
	const char *state = jsonget_text_or_null(ask, "state");

	if ((uint64_t)json_integer_value(json_object_get(ask, "number")) == f->number &&
	    (!f->pending || (state && str_eq(state, "pending"))))
		f->found = true;
	return 0;
}

static bool run_has(int run_fd, const char *run, uint64_t number, bool pending)
{
	struct find f = { .number = number, .pending = pending };
	autoaskc struct askc c = ASKC_INIT;
	struct err e = ERR_INIT;

	if (askc_open(&c, run_fd, &e) == 0)
		(void)!askc_list(&c, true, find_number, &f, &e);
	else
		(void)!askc_read_file(run_fd, run, find_number, &f, &e);
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
		if (fd < 0 || !run_has(fd, runs.v[i], number, !dash))
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
