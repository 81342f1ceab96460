/* SPDX-License-Identifier: Apache-2.0 */
/* Asking about a run that nobody serves, that somebody serves, and that changes hands meanwhile. Each asker is a process of its
 * own; the test answers over the socket as a person's coffer does. */
#include "approval/server/askhold.h"
#include "statedir.h"

#include <string.h>
#include <unistd.h>

#define RUN "3f9a2c0011aa"
#define OTHER "aa00000000bb" /* of which nothing is asked */
#define LONG_MS 60000

enum { ALLOWED = 40, DENIED, WITHDRAWN, FAILED };

static struct state st;
static int run_fd;

static struct ask_question question(const char *what)
{
	struct ask_question q = {
		.kind = ASK_QUESTION,
		.has_body = true,
		.body_len = 5,
		.host = "",
		.method = "",
		.path = "",
		.what = what,
		.type = "",
		/* A rule with many denials asks no more: each question has its own but those of test_tired(). */
		.rule = strstr(what, "again") ? "same" : what,
		.reason = "because",
		.preview = "hello",
		.preview_len = 5
	};

	hash_sha256("hello", 5, q.body);
	return q;
}

/* The answer that it got goes into the file "why-PID". */
static int ask(const char *what, uint64_t timeout_s)
{
	struct ask_question q = question(what);
	CLEANUP(audit_freep) struct audit *audit = NULL;
	autobuf struct buf why = BUF_INIT;
	struct err e = ERR_INIT;
	struct askhold h = { .st = &st, .run_fd = run_fd, .run = RUN, .timeout_s = timeout_s };
	char name[32];
	int r = audit_open(&audit, st.fd, &e);

	h.audit = audit;
	r = r < 0 ? r : askhold(&h, &q, &why, &e);
	if (r < 0)
		buf_adds(&why, e.msg);
	snprintf(name, sizeof(name), "why-%d", (int)getpid());
	if (fd_replace_file(st.fd, name, buf_cstr(&why), why.len, 0600) < 0)
		return 1;
	return r == 1 ? ALLOWED : r == 0 ? DENIED : r == -EINTR ? WITHDRAWN : FAILED;
}

static pid_t asker(const char *what, uint64_t timeout_s)
{
	pid_t pid = fork_child();

	if (pid == 0)
		_exit(ask(what, timeout_s));
	return pid;
}

static bool told(pid_t pid, const char *words)
{
	autobuf struct buf b = BUF_INIT;
	char name[32];

	snprintf(name, sizeof(name), "why-%d", (int)pid);
	if (fd_read_file(st.fd, name, 4096, &b) < 0)
		return false;
	if (strstr(buf_cstr(&b), words))
		return true;
	printf("# it was told '%s'\n", buf_cstr(&b));
	return false;
}

struct wanted {
	const char *what;
	char id[ASK_ID_MAX], digest[HASH_HEX_LEN + 1];
	bool found;
};

static int match(void *ctx, json_t *ask)
{
	struct wanted *w = ctx;

	if (strcmp(json_string_value(json_object_get(ask, "what")), w->what) != 0 ||
	    strcmp(json_string_value(json_object_get(ask, "state")), "pending") != 0)
		return 0;
	w->found = true;
	snprintf(w->id, sizeof(w->id), "%s", json_string_value(json_object_get(ask, "id")));
	snprintf(w->digest, sizeof(w->digest), "%s", json_string_value(json_object_get(ask, "digest")));
	return 0;
}

/* Waits until a question waits. */
static bool waits(struct wanted *w, const char *what)
{
	struct err e = ERR_INIT;

	*w = (struct wanted){ .what = what };
	for (int ms = 0; ms < LONG_MS; ms += 10) {
		autoaskc struct askc c = ASKC_INIT;

		if (askc_open(&c, run_fd, &e) == 0 && askc_list(&c, false, match, w, &e) == 0 && w->found)
			return true;
		pause_ms(10);
	}
	return false;
}

static int answer(const struct wanted *w, bool allow, const char *digest, struct err *e)
{
	struct ask_answer a = { .allow = allow,
				.who = { .name = "Ada", .via = "cli" },
				.reason = "so be it" };
	autoaskc struct askc c = ASKC_INIT;
	int r = askc_open(&c, run_fd, e);

	return r < 0 ? r : askc_answer(&c, w->id, digest ? digest : w->digest, &a, NULL, e);
}

static bool is_served(void)
{
	return faccessat(run_fd, ASKP_SOCK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned n_logged(const char *type)
{
	autobuf struct buf b = BUF_INIT;
	char want[64];
	unsigned n = 0;

	snprintf(want, sizeof(want), "\"type\":\"%s\"", type);
	if (fd_read_file(st.fd, "audit/log.jsonl", 16u << 20, &b) < 0)
		return 0;
	for (const char *p = buf_cstr(&b); (p = strstr(p, want)) != NULL; p++)
		n++;
	return n;
}

static bool set_meta(const char *net, uint64_t ended)
{
	struct run_meta m = { .id = RUN,
			      .engine = (char *)"ns",
			      .command = (char *)"true",
			      .started = 1,
			      .ended = ended,
			      .cause = (char *)(ended ? "exit" : NULL),
			      .net = (char *)net };
	struct err e = ERR_INIT;

	return state_meta_write(run_fd, &m, &e) == 0;
}

static void test_ended(void)
{
	struct err e = ERR_INIT;
	struct wanted w;
	pid_t pid = asker("first", 0);

	CHECK(waits(&w, "first"));
	CHECK_STR(w.id, "3f9a2c-1");
	CHECK(answer(&w, true, "00", &e) == -ESTALE);
	CHECKF(answer(&w, true, NULL, &e) == 0, "the question is answered %s", e.msg);
	CHECK(reap(pid) == ALLOWED);
	CHECK(!is_served());
	CHECK(n_logged("ask.new") == 1 && n_logged("ask.answer") == 1 && n_logged("ask.use") == 1);

	pid = asker("first", 0);
	CHECK(waits(&w, "first"));
	CHECK_STR(w.id, "3f9a2c-2");
	CHECK(answer(&w, false, NULL, &e) == 0);
	CHECK(reap(pid) == DENIED);
	CHECK(told(pid, "so be it"));
	CHECK(n_logged("ask.use") == 1);

	pid = asker("nobody is there", 1);
	CHECK(reap(pid) == DENIED);
	CHECK(told(pid, "in time"));
	CHECK(n_logged("ask.expire") == 1);
}

/* Two people, one question: the socket stays because another one waits there too. */
static void test_two(void)
{
	struct err e = ERR_INIT;
	struct wanted a, b, again;
	pid_t one = asker("one", 0), two;

	CHECK(waits(&a, "one"));
	two = asker("two", 0);
	CHECK(waits(&b, "two"));
	CHECK(answer(&b, false, NULL, &e) == 0);
	CHECK(reap(two) == DENIED);
	CHECK(answer(&b, true, NULL, &e) == -EALREADY);
	CHECKF(strstr(e.msg, "Ada") && strstr(e.msg, "deny"),
	       "a second answer names the approver of the first: %s", e.msg);
	two = asker("two", 0);
	CHECK(waits(&b, "two"));
	/* The serving asker has its answer and leaves; the other asks on. */
	CHECK(answer(&a, true, NULL, &e) == 0);
	CHECK(reap(one) == ALLOWED);
	CHECK(waits(&again, "two"));
	CHECKF(strcmp(again.id, b.id) != 0, "a question that moved has another number: %s", again.id);
	CHECK(answer(&b, true, NULL, &e) < 0);
	CHECK(answer(&again, true, NULL, &e) == 0);
	CHECK(reap(two) == ALLOWED);
	CHECK(!is_served());
}

/* Many begin at the same moment: one serves, and each gets the answer to its own. */
static void test_storm(void)
{
	pid_t pid[8];
	char what[8][8];
	int right = 0;

	for (int i = 0; i < 8; i++) {
		snprintf(what[i], sizeof(what[i]), "s%d", i);
		pid[i] = asker(what[i], 0);
	}
	for (int i = 0; i < 8; i++) {
		struct err e = ERR_INIT;
		struct wanted w;
		int r = -EAGAIN;

		/* It may move to another server between looking and answering. */
		for (int k = 0; k < 200 && r < 0 && waits(&w, what[i]); k++)
			r = answer(&w, i % 2 == 0, NULL, &e);
		right += reap(pid[i]) == (i % 2 == 0 ? ALLOWED : DENIED);
	}
	CHECKF(right == 8, "each of 8 that begin at once gets its own answer: %d", right);
	CHECK(!is_served());
}

static void test_withdrawn(void)
{
	struct err e = ERR_INIT;
	unsigned used = n_logged("ask.use"), gone = n_logged("ask.gone");
	struct wanted w;
	pid_t pid = asker("stopped", 0);

	CHECK(waits(&w, "stopped"));
	CHECK(kill(pid, SIGINT) == 0);
	CHECK(reap(pid) == WITHDRAWN);
	CHECK(told(pid, "withdrawn"));
	CHECK(!is_served());
	CHECK(n_logged("ask.gone") == gone + 1 && n_logged("ask.use") == used);
	CHECK(answer(&w, true, NULL, &e) < 0);

	/* An asker that is killed leaves its socket; the next one takes its place, and not its number. */
	pid = asker("killed", 0);
	CHECK(waits(&w, "killed"));
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(reap(pid) == -1);
	CHECK(is_served());
	pid = asker("killed", 0);
	{
		struct wanted next;

		CHECK(waits(&next, "killed"));
		CHECKF(strcmp(next.id, w.id) != 0,
		       "a question has a new number after its asker was killed: %s, then %s", w.id, next.id);
		CHECK(answer(&next, true, NULL, &e) == 0);
	}
	CHECK(reap(pid) == ALLOWED);
}

/* ---- The guard. ---- */

static int log_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	(void)type;
	(void)fields;
	return 0;
}

static void on_end(struct watch *w, uint32_t events)
{
	(void)events;
	loop_stop(w->ctx);
}

/* Holds the run, and serves its questions until `end` is closed: as a life of the sandbox does. */
static int be_guard(int ready, int end)
{
	const struct askserve_owner o = { .event = log_event };
	struct askserve s = ASKSERVE_INIT;
	struct loop l = LOOP_INIT;
	struct watch w = { .fd = end, .fn = on_end, .ctx = &l };
	struct err e = ERR_INIT;
	int fd = state_run_claim(&st, RUN, &e);

	if (fd < 0 || loop_open(&l, &e) < 0 || loop_watch(&l, &w, EPOLLIN) < 0)
		return 1;
	if (!set_meta("enforce", 0) || askserve_open(&s, &l, fd, RUN, 0, &o, &e) < 0 ||
	    write(ready, "x", 1) != 1)
		return 2;
	askserve_listen_soon(&s);
	if (loop_run(&l, &e) < 0)
		return 3;
	askserve_close(&s);
	return set_meta("enforce", 9) ? 0 : 4;
}

static void test_guard(void)
{
	struct err e = ERR_INIT;
	struct wanted w = { 0 }, there = { 0 };
	int ready[2] = { -1, -1 }, end_[2] = { -1, -1 };
	char c;
	pid_t pid = asker("moves", 0), g, second;

	CHECK(waits(&w, "moves"));
	CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(end_, O_CLOEXEC) == 0);
	g = fork_child();
	if (g == 0)
		_exit(be_guard(ready[1], end_[0]));
	CHECK(read(ready[0], &c, 1) == 1);
	/* It is asked again where it belongs. */
	for (int i = 0; i < LONG_MS / 10 && waits(&there, "moves") && strcmp(there.id, w.id) == 0; i++)
		pause_ms(10);
	CHECKF(strcmp(there.id, w.id) != 0, "a question moves to the guard and is %s there", there.id);
	CHECK(answer(&there, true, NULL, &e) == 0);
	CHECK(reap(pid) == ALLOWED);
	CHECK(is_served());

	/* A sandbox that ends takes the question with it: it is not asked again of nobody. */
	second = asker("dies", 0);
	CHECK(waits(&w, "dies"));
	CHECK(write(end_[1], "x", 1) == 1);
	CHECK(reap(g) == 0);
	CHECK(reap(second) == DENIED);
	CHECK(told(second, "the sandbox has ended"));
	CHECK(!is_served());
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(end_[i]);
	}
}

/* Serving askers come and go; a denial stays in force. */
static void test_tired(void)
{
	struct err e = ERR_INIT;
	struct wanted w;
	pid_t pid;

	CHECK(unlinkat(run_fd, ASKS_FILE, 0) == 0);
	for (int i = 0; i < ASKS_TIRED_AFTER; i++) {
		char what[16];

		snprintf(what, sizeof(what), "again %d", i);
		pid = asker(what, 0);
		CHECK(waits(&w, what) && answer(&w, false, NULL, &e) == 0 && reap(pid) == DENIED);
	}
	pid = asker("again, once more", 0);
	CHECK(reap(pid) == DENIED);
	CHECK(told(pid, "without asking"));
}

static void test_too_long(void)
{
	static char big[ASK_WHAT_MAX + 2];
	pid_t pid;

	memset(big, 'x', sizeof(big) - 1);
	pid = asker(big, 0);
	CHECK(reap(pid) == DENIED);
	CHECK(told(pid, "nobody could be shown all of it"));
}

int main(int argc, char **argv)
{
	/* Executed as what tells people, where this machine has a notify.yaml (asknotify.c). */
	(void)argv;
	if (argc > 1)
		return 0;
	begin(&st);
	make_run(&st, RUN);
	make_run(&st, OTHER);
	run_fd = openat(st.runs_fd, RUN, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(set_meta("none", 9));
	test_ended();
	test_two();
	test_storm();
	test_withdrawn();
	test_guard();
	test_too_long();
	test_tired();
	close(run_fd);
	end(&st);
	return tap_done();
}
