/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, and the work for them: `coffer` is executed, its output is the answer. See webd.h for what holds. */
#include "base/fd.h"
#include "base/str.h"
#include "gateway/webd_int.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MAX 2048
#define EXIT_SAYS 3 /* of `coffer web-work`: code, message and hint are three lines on stderr */

static void refuse(struct webd *d, uint64_t id, unsigned status, const char *code, const char *message,
		   const char *hint)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_ERROR, .id = id, .status = status };

	snprintf(a.code, sizeof(a.code), "%s", code);
	snprintf(a.message, sizeof(a.message), "%.590s", message);
	snprintf(a.hint, sizeof(a.hint), "%.590s", hint ? hint : "");
	webd_say(d, &a, NULL, 0);
}

static void reply(struct webd *d, uint64_t id, int fd, unsigned flags)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_REPLY, .id = id, .flags = flags };

	webd_say(d, &a, &fd, fd >= 0 ? 1 : 0);
}

static int file_of(const struct buf *b)
{
	autoclose int fd = memfd_create("answer", MFD_CLOEXEC);

	if (fd < 0 || buf_error(b) || fd_write_all(fd, buf_cstr(b), b->len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* --- jobs ------------------------------------------------------------------------------------------------------------- */

static struct job *find_job(struct webd *d, uint64_t id)
{
	struct job *x = d->jobs;

	while (x && x->id != id)
		x = x->next;
	return x;
}

static void stop_feed(struct webd *d)
{
	if (d->feed > 0)
		kill(d->feed, SIGKILL);
	d->feed = 0;
}

static void free_job(struct webd *d, struct job *x)
{
	struct job **p = &d->jobs;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	d->n_jobs--;
	if (x->state == WEBP_ST_STREAM && --d->n_streams == 0)
		stop_feed(d);
	strv_release(&x->argv);
	fd_close(x->out);
	fd_close(x->err);
	free(x);
}

static struct job *add_job(struct webd *d, const struct webp_req *q, enum webp_state s)
{
	struct job *x = calloc(1, sizeof(*x)), **p = &d->jobs;

	if (!x)
		return NULL;
	*x = (struct job){ .id = q->id, .state = s, .op = q->op, .kind = q->cred, .out = -1, .err = -1 };
	memcpy(x->key, q->key, HASH_LEN);
	while (*p)
		p = &(*p)->next;
	*p = x;
	d->n_jobs++;
	return x;
}

/* In the child: the program, three descriptors, and of the environment what it needs to find the same state. */
_Noreturn static void become(const struct webd *d, const struct strv *argv, int out, int err)
{
	char state[4200], path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			  *envp[] = { state, path, NULL };
	int program = fcntl(d->w.coffer_fd, F_DUPFD_CLOEXEC, 16),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int o = fcntl(out, F_DUPFD_CLOEXEC, 16), e = fcntl(err, F_DUPFD_CLOEXEC, 16);
	sigset_t none;

	if (program < 0 || null < 0 || o < 0 || e < 0 || dup2(null, 0) < 0 || dup2(o, 1) < 0 ||
	    dup2(e, 2) < 0 ||
	    (size_t)snprintf(state, sizeof(state), "COFFER_STATE=%s", d->w.st->path) >= sizeof(state))
		_exit(125);
	syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	setsid();
	syscall(SYS_execveat, program, "", argv->v, envp, AT_EMPTY_PATH);
	_exit(125);
}

static pid_t spawn(const struct webd *d, const struct strv *argv, int out, int err)
{
	pid_t pid = fork();

	if (pid == 0)
		become(d, argv, out, err);
	return pid;
}

static int start_job(struct webd *d, struct job *x)
{
	x->out = memfd_create("answer", MFD_CLOEXEC);
	x->err = memfd_create("said", MFD_CLOEXEC);
	x->pid = x->out < 0 || x->err < 0 ? -1 : spawn(d, &x->argv, x->out, x->err);
	if (x->pid < 0) {
		x->pid = 0;
		return -EAGAIN;
	}
	d->n_running++;
	return 0;
}

static void start_more(struct webd *d)
{
	struct job *next;

	for (struct job *x = d->jobs; x && d->n_running < WEBD_WORKERS; x = next) {
		next = x->next;
		if (x->state != WEBP_ST_WORK || x->pid)
			continue;
		if (start_job(d, x) < 0) {
			refuse(d, x->id, 503, "unavailable", "no process can be started", NULL);
			free_job(d, x);
		}
	}
}

/* A command's output goes to coffer-web and nowhere else. */
static int start_exec(struct webd *d, struct job *x)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_OUT, .id = x->id };
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(err, O_CLOEXEC) < 0) {
		fd_close(out[0]);
		fd_close(out[1]);
		return -errno;
	}
	x->pid = spawn(d, &x->argv, out[1], err[1]);
	fd_close(out[1]);
	fd_close(err[1]);
	if (x->pid < 0) {
		x->pid = 0;
		fd_close(out[0]);
		fd_close(err[0]);
		return -EAGAIN;
	}
	(void)!fd_set_nonblock(out[0], true);
	(void)!fd_set_nonblock(err[0], true);
	webd_say(d, &a, (int[]){ out[0], err[0] }, 2);
	return 0;
}

static int start_feed(struct webd *d)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_FEED };
	autostrv struct strv argv = STRV_INIT;
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[2];

	if (d->feed > 0)
		return 0;
	if (null < 0 || strv_add(&argv, "coffer") < 0 || strv_add(&argv, "web-work") < 0 ||
	    strv_add(&argv, "feed") < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -EAGAIN;
	d->feed = spawn(d, &argv, fds[1], null);
	fd_close(fds[1]);
	if (d->feed < 0) {
		d->feed = 0;
		fd_close(fds[0]);
		return -EAGAIN;
	}
	(void)!fd_set_nonblock(fds[0], true);
	webd_say(d, &a, fds, 1);
	return 0;
}

static void kill_job(struct job *x)
{
	if (x->pid > 0)
		kill(x->pid, SIGKILL);
	x->is_gone = true;
}

void webd_cancel(struct webd *d, uint64_t id)
{
	struct job *x = find_job(d, id);

	if (!x)
		return;
	/* What changes something is not stopped half-way; a command is hung up on, and who reads is ended. */
	if (x->pid && (x->state == WEBP_ST_EXEC || !web_route(x->op)->changes))
		kill_job(x);
	x->is_gone = true;
	if (!x->pid)
		free_job(d, x);
}

void webd_end_jobs(struct webd *d)
{
	for (struct job *x = d->jobs, *next; x; x = next) {
		next = x->next;
		webd_cancel(d, x->id);
	}
	stop_feed(d);
}

void webd_end_streams_of(struct webd *d, const unsigned char hash[HASH_LEN])
{
	for (struct job *x = d->jobs, *next; x; x = next) {
		struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_END, .id = x->id };

		next = x->next;
		if (memcmp(x->key, hash, HASH_LEN) != 0 ||
		    (x->state != WEBP_ST_STREAM && x->state != WEBP_ST_EXEC))
			continue;
		webd_say(d, &a, NULL, 0);
		webd_cancel(d, x->id);
	}
}

/* --- how it ended ----------------------------------------------------------------------------------------------------- */

static unsigned status_of(const char *code)
{
	static const struct {
		const char *code;
		unsigned status;
	} known[] = { { "bad_request", 400 }, { "forbidden", 403 }, { "not_found", 404 },
		      { "conflict", 409 },    { "stale", 409 },	    { "answered", 409 },
		      { "expired", 410 },     { "gone", 410 },	    { "unavailable", 503 } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(known[i].code, code))
			return known[i].status;
	}
	return 500;
}

/* "code\nmessage\nhint\n", of our own `coffer web-work`. */
static void refuse_as_said(struct webd *d, const struct job *x, char *text)
{
	char *save = NULL, *code = strtok_r(text, "\n", &save),
	     *message = code ? strtok_r(NULL, "\n", &save) : NULL;

	refuse(d, x->id, status_of(code ? code : ""), code && status_of(code) != 500 ? code : "failed",
	       message ? message : "it failed without a word", message ? strtok_r(NULL, "\n", &save) : NULL);
}

/* "coffer: message\n  try: hint\n", as for a person. */
static void refuse_as_told(struct webd *d, const struct job *x, char *text)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save),
	     *hint = line ? strtok_r(NULL, "\n", &save) : NULL;

	if (line && str_starts(line, "coffer: "))
		line += strlen("coffer: ");
	hint = hint && str_starts(hint, "  try: ") ? hint + strlen("  try: ") : NULL;
	refuse(d, x->id, 409, "conflict", line ? line : "it failed without a word", hint);
}

static void tell_end(struct webd *d, struct job *x, int status)
{
	autobuf struct buf said = BUF_INIT;
	char text[SAID_MAX];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	/* A broken log is an answer too. */
	bool good = code == 0 || (x->op == WEB_VERIFY && code == 1);

	if (x->state == WEBP_ST_EXEC) {
		struct webp_answer a = {
			.magic = WEBP_MAGIC, .type = WEBP_EXIT, .id = x->id, .status = (uint32_t)code
		};

		webd_say(d, &a, NULL, 0);
		return;
	}
	if (good && web_route(x->op)->status == 204) {
		reply(d, x->id, -1, 0);
		return;
	}
	if (good && lseek(x->out, 0, SEEK_SET) == 0) {
		reply(d, x->id, TAKE_FD(x->out), 0);
		return;
	}
	if (lseek(x->err, 0, SEEK_SET) == 0)
		(void)!fd_read_all(x->err, SAID_MAX - 1, &said);
	snprintf(text, sizeof(text), "%s", buf_cstr(&said));
	if (code == EXIT_SAYS)
		refuse_as_said(d, x, text);
	else
		refuse_as_told(d, x, text);
}

bool webd_job_reaped(struct webd *d, pid_t pid, int status)
{
	struct job *x = d->jobs;

	if (pid == d->feed) {
		d->feed = 0;
		if (d->n_streams)
			(void)!start_feed(d);
		return true;
	}
	while (x && x->pid != pid)
		x = x->next;
	if (!x)
		return false;
	if (!x->is_gone)
		tell_end(d, x, status);
	if (x->state == WEBP_ST_WORK)
		d->n_running--;
	free_job(d, x);
	start_more(d);
	return true;
}

/* --- requests --------------------------------------------------------------------------------------------------------- */

/* W2 */
static int write_down(struct webd *d, const struct webp_req *q, const struct who *who, const char *sandbox,
		      bool refused)
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
	return audit_append(d->w.audit, refused ? "api.refused" : "api.request", sandbox, &b, &e);
}

static int add_texts(struct strv *argv, const struct web_value *v, const char *option)
{
	int r = 0;

	for (size_t at = 0; r == 0 && v && at < v->len; at += strlen(v->s + at) + 1) {
		r = option ? strv_add(argv, option) : 0;
		r = r < 0 ? r : strv_add(argv, v->s + at);
	}
	return r;
}

/* Each value as "name=value"; the reader takes them by name. */
static int add_values(struct strv *argv, const struct webp_req *q, const struct who *who)
{
	const struct web_route *route = web_route(q->op);
	int r = strv_addf(argv, "who=%s", who->name);

	r = r < 0 ? r : strv_addf(argv, "via=%s", str_eq(who->via, "session") ? "page" : "api");
	for (unsigned i = 0; r == 0 && i < web_route_fields(route); i++) {
		const struct web_field *f = &route->fields[i];
		const struct web_value *v = &q->v[i];

		if (!v->has)
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

static int add_words(struct strv *argv, const char *const *words)
{
	int r = 0;

	for (; r == 0 && *words; words++)
		r = strv_add(argv, *words);
	return r;
}

#define ADD_ALL(argv, ...) add_words(argv, (const char *const[]){ __VA_ARGS__, NULL })

static int plan_exec(struct strv *argv, const struct webp_req *q, const char *id)
{
	const struct web_value *workdir = webp_get(q, "workdir");
	int r = strv_add(argv, "exec");

	r = r < 0 ? r : add_texts(argv, webp_get(q, "env"), "-e");
	if (r == 0 && workdir)
		r = ADD_ALL(argv, "-w", workdir->s);
	r = r < 0 ? r : ADD_ALL(argv, id, "--");
	return r < 0 ? r : add_texts(argv, webp_get(q, "command"), NULL);
}

static int plan_checkpoint(struct strv *argv, const struct webp_req *q, const char *id)
{
	int r = ADD_ALL(argv, "checkpoint", "--json");

	if (r == 0 && webp_str(q, "label"))
		r = strv_addf(argv, "--label=%s", webp_str(q, "label"));
	return r < 0 ? r : strv_add(argv, id);
}

static int plan_rollback(struct strv *argv, const struct webp_req *q, const char *id)
{
	int r = strv_add(argv, "rollback");

	if (r == 0 && !webp_num(q, "start", 1))
		r = strv_add(argv, "--no-start");
	return r < 0 ? r : ADD_ALL(argv, id, webp_str(q, "checkpoint"));
}

/* What to execute. `id` is the sandbox that is meant, whole. */
static int plan(struct strv *argv, const struct webp_req *q, const struct who *who, const char *id)
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
		return plan_exec(argv, q, id);
	case WEB_CHECKPOINTS:
		return ADD_ALL(argv, "checkpoint", "ls", id, "--json");
	case WEB_CHECKPOINT:
		return plan_checkpoint(argv, q, id);
	case WEB_ROLLBACK:
		return plan_rollback(argv, q, id);
	case WEB_VERIFY:
		return ADD_ALL(argv, "audit", "verify", "--json");
	default:
		r = ADD_ALL(argv, "web-work", web_route(q->op)->name);
		return r < 0 ? r : add_values(argv, q, who);
	}
}

static void add_who(struct json *j, const char *key, const struct who *who)
{
	json_obj(j, key);
	json_str(j, "name", who->name);
	json_str(j, "role", web_role_name(who->role));
	json_str(j, "via", who->via);
	json_end_obj(j);
}

static void tell_status(struct webd *d, const struct webp_req *q, const struct who *who)
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
	add_who(&j, "you", who);
	json_arr(&j, "listen");
	for (size_t i = 0; i < d->n_listeners; i++)
		json_str(&j, NULL, d->listeners[i].text);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	reply(d, q->id, file_of(&b), 0);
}

static void log_in(struct webd *d, const struct webp_req *q)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_SESSION, .id = q->id };
	autobuf struct buf b = BUF_INIT, cookie = { .wipe = true };
	struct json j = JSON_INIT(&b);
	struct who who = { 0 };
	struct err e = ERR_INIT;
	int fd;

	if (webd_login(d, webp_str(q, "code"), &cookie, &who, &e) < 0) {
		refuse(d, q->id, 401, "unauthorized", e.msg, "coffer ui makes a new one");
		return;
	}
	if (write_down(d, q, &who, NULL, false) < 0) {
		refuse(d, q->id, 503, "unavailable", "this cannot be written to the audit log", NULL);
		return;
	}
	add_who(&j, NULL, &who);
	buf_addc(&b, '\n');
	snprintf(a.cookie, sizeof(a.cookie), "%s", buf_cstr(&cookie));
	fd = file_of(&b);
	webd_say(d, &a, &fd, fd >= 0 ? 1 : 0);
}

static void tell_metrics(struct webd *d, const struct webp_req *q)
{
	autobuf struct buf b = BUF_INIT;

	if (!d->w.metrics || d->w.metrics(d->w.metrics_ctx, &b) < 0)
		refuse(d, q->id, 500, "failed", "the counters cannot be read", NULL);
	else
		reply(d, q->id, file_of(&b), WEBP_F_TEXT);
}

static void open_stream(struct webd *d, const struct webp_req *q)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_OPEN, .id = q->id };
	struct job *x = add_job(d, q, WEBP_ST_STREAM);

	if (x)
		d->n_streams++;
	if (!x || start_feed(d) < 0) {
		refuse(d, q->id, 503, "unavailable", "the log cannot be followed now", NULL);
		if (x)
			free_job(d, x);
		return;
	}
	webd_say(d, &a, NULL, 0);
}

/* The sandbox that is meant. The log and the questions also know those that are gone; they resolve for themselves. */
static int resolve(struct webd *d, const struct webp_req *q, char id[RUN_ID_LEN + 1], struct err *e)
{
	bool by_path = web_route(q->op)->fields[0].kind == WEB_REF &&
		       web_route(q->op)->fields[0].from == WEB_IN_PATH;

	id[0] = '\0';
	if (!by_path || q->op == WEB_TIMELINE)
		return 0;
	return state_resolve(d->w.st, webp_str(q, "sandbox"), id, e);
}

static void begin_work(struct webd *d, const struct webp_req *q, const struct who *who, const char *id)
{
	struct job *x = add_job(d, q, q->op == WEB_EXEC ? WEBP_ST_EXEC : WEBP_ST_WORK);

	if (!x) {
		refuse(d, q->id, 503, "unavailable", "out of memory", NULL);
		return;
	}
	if (plan(&x->argv, q, who, id) < 0 || (q->op == WEB_EXEC && start_exec(d, x) < 0)) {
		refuse(d, q->id, 503, "unavailable", "no process can be started", NULL);
		free_job(d, x);
		return;
	}
	start_more(d);
}

static void serve(struct webd *d, const struct webp_req *q, const struct who *who)
{
	char id[RUN_ID_LEN + 1];
	struct err e = ERR_INIT;

	if (resolve(d, q, id, &e) < 0) {
		refuse(d, q->id, 404, "not_found", e.msg, "GET /v1/sandboxes lists them");
		return;
	}
	if (web_route(q->op)->changes && write_down(d, q, who, *id ? id : NULL, false) < 0) {
		refuse(d, q->id, 503, "unavailable",
		       "this cannot be written to the audit log, so it is not done",
		       "coffer audit verify says what is wrong with it");
		return;
	}
	switch (q->op) {
	case WEB_STATUS:
		tell_status(d, q, who);
		return;
	case WEB_SESSION_CLOSE:
		webd_remove_hash(d, q->key);
		reply(d, q->id, -1, 0);
		return;
	case WEB_METRICS:
		tell_metrics(d, q);
		return;
	case WEB_EVENTS:
		open_stream(d, q);
		return;
	default:
		begin_work(d, q, who, id);
	}
}

void webd_request(struct webd *d, const struct webp_req *q)
{
	const struct web_route *route = web_route(q->op);
	struct who who = { 0 };

	if (d->n_jobs >= WEBD_WAITING + WEBP_OPEN_MAX ||
	    (d->n_jobs - d->n_streams >= WEBD_WAITING && q->op != WEB_EVENTS)) {
		refuse(d, q->id, 503, "unavailable", "the gateway has too much to do",
		       "try again in a moment");
	} else if (q->op == WEB_SESSION_OPEN) {
		log_in(d, q);
	} else if (!webd_who(d, q->cred, q->key, &who)) {
		refuse(d, q->id, 401, "unauthorized",
		       "this token or session is none, was revoked, or has expired",
		       "coffer token new makes a token, coffer ui opens the page");
	} else if (who.role < route->role) {
		char text[160];

		(void)!write_down(d, q, &who, NULL, true);
		snprintf(text, sizeof(text), "this needs the role %s; yours is %s",
			 web_role_name(route->role), web_role_name(who.role));
		refuse(d, q->id, 403, "forbidden", text, NULL);
	} else {
		serve(d, q, &who);
	}
}
