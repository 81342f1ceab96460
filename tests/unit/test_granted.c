/* SPDX-License-Identifier: Apache-2.0 */
/* The grants of a session: the list on a clock of its own, with processes that die wherever they can;
 * the file, damaged and forged; and real processes that serve a run one after the other. */
#include "approval/list/granted.h"
#include "approval/server/askback.h"
#include "approval/server/askhold.h"
#include "base/clock.h"
#include "statedir.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RUN "3f9a2c0011aa"
#define LONG_MS 60000

/* ---- The list. ---- */

static struct asks_now now;
static struct buf stored; /* what was written down last */
static unsigned n_uses;	  /* that are in the log */
static bool told_yes, told_no;
static int kept_fails, event_fails;

/* A process that dies: in its `die_in`th step, before (or after) the step has had its effect. From then on it
 * does and says nothing. */
static unsigned die_in;
static bool die_late, is_dead;

static bool step_is_last(void)
{
	return die_in && --die_in == 0;
}

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	bool last = step_is_last();

	(void)ctx;
	(void)ret_seq;
	(void)fields;
	if (is_dead || event_fails || (last && !die_late)) {
		is_dead = is_dead || last;
		return -EIO;
	}
	n_uses += str_eq(type, "ask.use");
	is_dead = last;
	return last ? -EIO : 0;
}

static struct asks *list;

static int on_kept(void *ctx, bool less, struct err *e)
{
	bool last = step_is_last();

	(void)ctx;
	(void)less;
	if (is_dead || kept_fails || (last && !die_late)) {
		is_dead = is_dead || last;
		return err_set(e, -EIO, "no room");
	}
	buf_clear(&stored);
	asks_kept_store(list, &stored);
	is_dead = last;
	return last ? err_set(e, -EIO, "dead") : 0;
}

static void on_tell(void *ctx, uint64_t w, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)w;
	(void)id;
	(void)why;
	told_yes = told_yes || (allow && !is_dead);
	told_no = told_no || (!allow && !is_dead);
}

static const struct asks_out out = { .event = on_event, .tell = on_tell, .kept = on_kept };

static struct ask_question tool(const char *what, const char *args)
{
	struct ask_question q = { .kind = ASK_TOOL,
				  .has_body = true,
				  .body_len = strlen(args),
				  .host = "",
				  .method = "",
				  .path = "",
				  .what = what,
				  .type = "a tool's call",
				  .rule = "ask: deploy",
				  .reason = "",
				  .preview = args,
				  .preview_len = strlen(args) };

	hash_sha256(args, strlen(args), q.body);
	return q;
}

/* The next who serves: as askserve does it. */
static bool serve_next(void)
{
	struct err e = ERR_INIT;

	asks_free(list);
	list = asks_new(RUN, 0, &out);
	is_dead = false;
	die_in = 0;
	if (asks_kept_load(list, now, buf_cstr(&stored), stored.len, &e) < 0)
		return false;
	asks_keep(list, 1u << ASK_TOOL);
	(void)asks_tick(list, now);
	return true;
}

static void start(void)
{
	buf_clear(&stored);
	n_uses = 0;
	kept_fails = event_fails = 0;
	now = (struct asks_now){ 1000 * NSEC_PER_SEC, 1700000000ULL * NSEC_PER_SEC };
	CHECK(serve_next());
}

/* Is a call allowed, without asking? A question that had to be asked waits no more. */
static bool passes(const char *what, const char *args)
{
	static uint64_t waiter;
	struct ask_question q = tool(what, args);

	told_yes = told_no = false;
	asks_put(list, now, &q, ++waiter, 0, NULL);
	if (told_yes)
		asks_taken(list, waiter);
	else if (!told_no)
		asks_drop(list, now, waiter);
	return told_yes;
}

static int allow(const char *what, const char *args, enum ask_scope scope, uint64_t n)
{
	const struct ask_answer a = {
		.allow = true, .scope = scope, .seconds = n, .uses = n, .who = { .uid = 7, .via = "cli" }
	};
	struct ask_question q = tool(what, args);
	unsigned char digest[HASH_LEN];
	char hex[HASH_HEX_LEN + 1], id[ASK_ID_MAX];
	struct err e = ERR_INIT;

	ask_question_digest(&q, digest);
	hash_hex(digest, HASH_LEN, hex);
	asks_put(list, now, &q, 99999999, 0, id);
	asks_drop(list, now, 99999999);
	return asks_answer(list, now, id, hex, &a, &e);
}

static enum ask_state state_of(const char *id)
{
	const struct ask *a = asks_find(list, id);
	struct ask_view v = { .state = ASK_STATE_COUNT };

	if (a)
		ask_view(list, a, &v);
	return v.state;
}

static void pass_time(uint64_t s)
{
	now.mono += s * NSEC_PER_SEC;
	now.real += s * NSEC_PER_SEC;
}

static void test_scopes(void)
{
	struct ask_who who = { .via = "cli" };
	struct err e = ERR_INIT;

	start();
	CHECK(allow("deploy", "{}", ASK_SANDBOX, 0) == 0 && stored.len);
	asks_end(list, now);
	CHECK(state_of("1") == ASK_GRANTED); /* the sandbox of a call has ended, not the session */
	CHECK(serve_next() && passes("deploy", "{\"other\":1}") && !passes("deploy when env=x", "{}"));
	CHECK(serve_next() && passes("deploy", "{}"));
	CHECK(asks_revoke(list, now, "1", &who, &e) == 0 && !stored.len);
	CHECK(!passes("deploy", "{}") && serve_next() && !passes("deploy", "{}"));

	start();
	CHECK(allow("deploy", "{}", ASK_USES, 3) == 0);
	CHECK(passes("deploy", "{}") && serve_next() && passes("deploy", "{}") && serve_next());
	CHECK(passes("deploy", "{}") && !stored.len && !passes("deploy", "{}"));
	CHECK(serve_next() && !passes("deploy", "{}") && n_uses == 3);

	start();
	CHECK(allow("deploy", "{}", ASK_FOR, 60) == 0);
	pass_time(30);
	CHECK(serve_next() && passes("deploy", "{}"));
	pass_time(31);
	CHECK(!passes("deploy", "{}") && !stored.len);

	/* Over while nobody served. */
	start();
	CHECK(allow("deploy", "{}", ASK_FOR, 60) == 0);
	pass_time(61);
	CHECK(serve_next() && !stored.len && !passes("deploy", "{}"));

	/* Once is no grant; nor is anything of a list that keeps nothing. */
	start();
	CHECK(allow("deploy", "{}", ASK_ONCE, 0) == 0 && !stored.len && serve_next() &&
	      !passes("deploy", "{}"));
	asks_keep(list, 0);
	CHECK(allow("deploy", "{}", ASK_SANDBOX, 0) == 0 && !stored.len && passes("deploy", "{}"));
	CHECK(serve_next() && !passes("deploy", "{}"));
}

static void test_errors(void)
{
	struct ask_who who = { .via = "cli" };
	struct err e = ERR_INIT;

	start();
	kept_fails = 1;
	CHECK(allow("deploy", "{}", ASK_SANDBOX, 0) == -EIO && state_of("1") == ASK_LAPSED &&
	      !passes("deploy", "{}"));
	kept_fails = 0;
	start();
	CHECK(allow("deploy", "{}", ASK_USES, 2) == 0);
	kept_fails = 1;
	CHECK(!passes("deploy", "{}") && told_no && n_uses == 0);
	kept_fails = 0;
	event_fails = 1;
	CHECK(!passes("deploy", "{}") && told_no && n_uses == 0);
	event_fails = 0;
	CHECK(passes("deploy", "{}") && passes("deploy", "{}") && !passes("deploy", "{}") && n_uses == 2);
	/* A revoked grant is gone here, whatever the file says; the failed write is reported.
	 *  */
	start();
	CHECK(allow("deploy", "{}", ASK_SANDBOX, 0) == 0);
	kept_fails = 1;
	CHECK(asks_revoke(list, now, "1", &who, &e) == -EIO && !passes("deploy", "{}"));
	kept_fails = 0;
	start();
	CHECK(allow("deploy", "{}", ASK_SANDBOX, 0) == 0);
	asks_kept_end(list, now, "the session has ended");
	CHECK(state_of("1") == ASK_LAPSED && !stored.len && !passes("deploy", "{}"));
	asks_free(list);
	list = NULL;
}

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

/* The serving process dies at any step, and the next goes on: no more calls pass, and no more uses are logged,
 * than a person granted; none after its time, none once it was taken back. */
static bool one_round(uint64_t s)
{
	struct ask_who who = { .via = "cli" };
	uint64_t budget = 0, granted = 0, until = UINT64_MAX;
	struct err e = ERR_INIT;
	bool good;

	seed = s;
	buf_clear(&stored);
	n_uses = 0;
	kept_fails = event_fails = 0;
	now = (struct asks_now){ 1000 * NSEC_PER_SEC, 1700000000ULL * NSEC_PER_SEC };
	good = serve_next();
	for (unsigned k = 0; k < 200 && good; k++) {
		unsigned n = 1 + pick(4), act = pick(8);

		if (is_dead || pick(6) == 0)
			good = serve_next();
		die_in = pick(3) ? 0 : 1 + pick(5);
		die_late = pick(2);
		if (act == 0 && !stored.len) {
			bool timed = pick(2);

			until = timed ? now.mono + n * NSEC_PER_SEC : UINT64_MAX;
			budget = timed ? 1000 : n;
			granted += budget;
			(void)!allow("deploy", "{}", timed ? ASK_FOR : ASK_USES, n);
		} else if (act == 1 && asks_next(list, NULL)) {
			char id[ASK_ID_MAX];

			snprintf(id, sizeof(id), "%llu", (unsigned long long)asks_last_number(list));
			if (asks_revoke(list, now, id, &who, &e) == 0 && !is_dead)
				budget = 0;
		} else if (act == 2) {
			pass_time(pick(3));
		} else if (passes("deploy", "{}")) {
			good = budget > 0 && now.mono < until;
			budget -= budget > 0;
		}
		good = good && n_uses <= granted;
	}
	return good;
}

static void test_random(void)
{
	bool good = true;
	uint64_t s;

	for (s = 1; s <= 500 && good; s++)
		good = one_round(s * 7919);
	CHECKF(good, "no grant is used more often than it was given, after any crash (round %llu)",
	       (unsigned long long)s);
	asks_free(list);
	list = NULL;
	buf_release(&stored);
	die_in = 0;
	is_dead = false;
}

/* ---- The file. ---- */

static struct state st;
static int run_fd;

static int load(struct asks **ret)
{
	struct err e = ERR_INIT;
	int r;

	asks_free(*ret);
	*ret = asks_new(RUN, 0, &out);
	r = granted_load(run_fd, *ret, asks_clock(), &e);
	return r < 0 || !asks_next(*ret, NULL) ? r : 1;
}

static bool put_file(const char *text, size_t len)
{
	return fd_replace_file(run_fd, GRANTED_FILE, text, len, 0600) == 0;
}

/* With the digest that it should have. */
static bool forge(const char *run, const char *text)
{
	autobuf struct buf b = BUF_INIT, all = BUF_INIT;
	char hex[HASH_HEX_LEN + 1];

	buf_add(&b, run, strlen(run) + 1);
	buf_adds(&b, text);
	hash_sha256_hex(b.data, b.len, hex);
	buf_addf(&all, "%s\n%s", hex, text);
	return put_file(all.data, all.len);
}

static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *s = NULL;

	if (!at || asprintf(&s, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0)
		return NULL;
	return s;
}

static bool put_aside(const char *text, size_t len)
{
	return fd_replace_file(run_fd, "aside", text, len, 0600) == 0;
}

/* A disk that is full. */
static void can_write(bool yes)
{
	struct rlimit l;

	CHECK(getrlimit(RLIMIT_FSIZE, &l) == 0);
	l.rlim_cur = yes ? l.rlim_max : 0;
	signal(SIGXFSZ, yes ? SIG_DFL : SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &l) == 0);
}

static void test_damage(void)
{
	struct asks *l = NULL;
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	unsigned held = 0;

	CHECK(load(&l) == 0); /* none: nothing */
	now = asks_clock();
	list = asks_new(RUN, 0, &out);
	asks_keep(list, 1u << ASK_TOOL);
	CHECK(allow("deploy", "{\"a\":\"\xc3\xa4\"}", ASK_USES, 3) == 0 &&
	      allow("x", "{}", ASK_FOR, 3600) == 0);
	CHECK(granted_write(run_fd, list, false, &e) == 0 && load(&l) == 1);
	CHECK(fd_read_file(run_fd, GRANTED_FILE, 1u << 20, &b) == 0);
	for (size_t i = 0; i < b.len; i++) {
		b.data[i] ^= 1;
		held += !put_file(b.data, b.len) || load(&l) != -EBADMSG;
		b.data[i] ^= 1;
		held += !put_file(b.data, i) || load(&l) != -EBADMSG;
	}
	CHECKF(held == 0, "a file with one bit changed, or cut, grants nothing: %u do", held);
	CHECK(put_file(b.data, b.len) && load(&l) == 1);
	/* Files that are not ours. */
	CHECK(unlinkat(run_fd, GRANTED_FILE, 0) == 0 && symlinkat("aside", run_fd, GRANTED_FILE) == 0 &&
	      put_aside(b.data, b.len) && load(&l) < 0);
	/* A use that cannot be written does not count, and a grant that is over goes with all others. */
	CHECK(granted_write(run_fd, list, false, &e) == 0 && load(&l) == 1);
	can_write(false);
	CHECK(granted_write(run_fd, list, false, &e) < 0 && load(&l) == 1);
	CHECK(granted_write(run_fd, list, true, &e) == 0 && !granted_exists(run_fd));
	can_write(true);
	CHECK(granted_write(run_fd, list, false, &e) == 0 && load(&l) == 1);
	asks_kept_end(list, now, "over");
	CHECK(granted_write(run_fd, list, true, &e) == 0 && !granted_exists(run_fd));
	CHECK(unlinkat(run_fd, "aside", 0) == 0);
	asks_free(l);
	asks_free(list);
	list = NULL;
}

static void test_forged(void)
{
	static const struct {
		const char *from, *to;
	} v[] = {
		{ "\"uses\":3", "\"uses\":9" }, /* more than the answer says */
		{ "\"used\":0", "\"used\":3" },
		{ "\"until\":0", "\"until\":5" },
		{ "\"until\":0", "\"until\":-1" },
		{ "\"until\":0", "\"until\":\"0\"" },
		{ "\"until\":0,", "" },
		{ "\"state\":\"granted\"", "\"state\":\"lapsed\"" },
		{ "\"what\":\"deploy\"", "\"what\":\"other\"" }, /* another question than was answered */
		{ "\"kind\":\"tool\"", "\"kind\":\"request\"" },
		{ "\"allow\":true", "\"allow\":false" },
		{ "\"scope\":\"uses\"", "\"scope\":\"sandbox\"" },
		{ "\"scope\":\"uses\"", "\"scope\":\"x\"" },
		{ "\"scope\":\"uses\"", "\"scope\":\"once\"" },
		{ "\"sandbox\":\"" RUN "\"", "\"sandbox\":\"aa00000000bb\"" },
		{ "\"number\":1", "\"number\":0" },
		{ "\"answer\":{", "\"answes\":{" },
		{ "\n", "" },
		{ "\n", "\n\n" },
		{ "\n", "\nrubbish\n" },
	};
	struct asks *l = NULL;
	autobuf struct buf b = BUF_INIT, twice = BUF_INIT;

	now = asks_clock();
	list = asks_new(RUN, 0, &out);
	asks_keep(list, 1u << ASK_TOOL);
	CHECK(allow("deploy", "{}", ASK_USES, 3) == 0);
	asks_kept_store(list, &b);
	CHECK(forge(RUN, buf_cstr(&b)) && load(&l) == 1);
	CHECK(forge("aa00000000bb", buf_cstr(&b)) && load(&l) == -EBADMSG); /* of another run */
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		autofree char *s = replaced(buf_cstr(&b), v[i].from, v[i].to);

		CHECKF(s && forge(RUN, s) && load(&l) == -EBADMSG, "a forged file is refused: %s for %s",
		       v[i].to, v[i].from);
	}
	buf_addf(&twice, "%s%s", buf_cstr(&b), buf_cstr(&b));
	CHECK(forge(RUN, buf_cstr(&twice)) && load(&l) == -EBADMSG);
	CHECK(unlinkat(run_fd, GRANTED_FILE, 0) == 0);
	asks_free(l);
	asks_free(list);
	list = NULL;
	buf_release(&stored);
}

/* ---- Processes. ---- */

enum { ALLOWED = 40, DENIED, FAILED };

static pid_t asker(const char *what, const char *args)
{
	pid_t pid = fork_child();
	struct ask_question q = tool(what, args);
	struct askhold h = { .st = &st, .run_fd = run_fd, .run = RUN, .timeout_s = 60 };
	autobuf struct buf why = BUF_INIT;
	struct err e = ERR_INIT;
	int r;

	if (pid)
		return pid;
	r = audit_open(&h.audit, st.fd, &e);
	r = r < 0 ? r : askhold(&h, &q, &why, &e);
	_exit(r == 1 ? ALLOWED : r == 0 ? DENIED : FAILED);
}

/* A session's server, until it is killed. */
static pid_t session(void)
{
	int p[2] = { -1, -1 };
	struct err e = ERR_INIT;
	char c;
	pid_t pid;

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	pid = fork_child();
	if (pid == 0) {
		if (granted_session_begin(run_fd, &e) < 0 || write(p[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK(read(p[0], &c, 1) == 1);
	close(p[0]);
	close(p[1]);
	return pid;
}

struct wanted {
	const char *state;
	char id[ASK_ID_MAX], digest[HASH_HEX_LEN + 1];
	bool found;
};

static int match(void *ctx, json_t *ask)
{
	struct wanted *w = ctx;

	if (strcmp(json_string_value(json_object_get(ask, "state")), w->state) != 0)
		return 0;
	w->found = true;
	snprintf(w->id, sizeof(w->id), "%s", json_string_value(json_object_get(ask, "id")));
	snprintf(w->digest, sizeof(w->digest), "%s", json_string_value(json_object_get(ask, "digest")));
	return 0;
}

static bool answer_next(enum ask_scope scope, uint64_t n, char id[ASK_ID_MAX])
{
	const struct ask_answer a = {
		.allow = scope != ASK_SCOPE_COUNT, .scope = scope, .uses = n, .who = { .via = "cli" }
	};
	struct wanted w = { .state = "pending" };
	struct err e = ERR_INIT;

	for (int ms = 0; ms < LONG_MS; ms += 10) {
		autoaskc struct askc c = ASKC_INIT;

		if (askc_open(&c, run_fd, &e) == 0 && askc_list(&c, false, match, &w, &e) == 0 && w.found) {
			memcpy(id, w.id, ASK_ID_MAX);
			return askc_answer(&c, w.id, w.digest, &a, NULL, &e) == 0;
		}
		pause_ms(10);
	}
	return false;
}

static bool is_granted(void)
{
	struct wanted w = { .state = "granted" };
	struct err e = ERR_INIT;

	return askc_read_file(run_fd, RUN, match, &w, &e) == 0 && w.found;
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

static void test_session(void)
{
	struct ask_who who = { .name = "Ada", .via = "cli" };
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];
	pid_t s = session(), pid = asker("deploy", "{}");

	CHECK(granted_session_is_alive(run_fd));
	CHECK(answer_next(ASK_SANDBOX, 0, id) && reap(pid) == ALLOWED);
	CHECK(is_granted() && n_logged("ask.lapse") == 0);
	CHECK(reap(asker("deploy", "{\"other\":1}")) == ALLOWED);
	CHECK(n_logged("ask.new") == 1 && n_logged("ask.use") == 2);
	/* Nobody serves: it is taken back all the same, and once. */
	CHECKF(askback_revoke(&st, run_fd, RUN, id, &who, NULL, &e) == 0,
	       "a grant is revoked while nobody serves %s", e.msg);
	CHECK(n_logged("ask.revoke") == 1 && !is_granted() && !granted_exists(run_fd));
	CHECK(askback_revoke(&st, run_fd, RUN, id, &who, NULL, &e) < 0);
	pid = asker("deploy", "{}");
	CHECK(answer_next(ASK_USES, 3, id) && reap(pid) == ALLOWED);
	CHECK(reap(asker("deploy", "{}")) == ALLOWED && is_granted());

	/* The server dies: nothing of it holds, for nobody, and the log says so. */
	CHECK(kill(s, SIGKILL) == 0 && reap(s) == -1);
	granted_session_wait(run_fd);
	CHECK(!granted_session_is_alive(run_fd) && granted_exists(run_fd) && !is_granted());
	pid = asker("deploy", "{}");
	CHECK(answer_next(ASK_SCOPE_COUNT, 0, id) && reap(pid) == DENIED);
	CHECK(n_logged("ask.lapse") == 1 && !granted_exists(run_fd));
	/* Without a session a grant is over with who asked. */
	pid = asker("deploy", "{}");
	CHECK(answer_next(ASK_SANDBOX, 0, id) && reap(pid) == ALLOWED);
	CHECK(n_logged("ask.lapse") == 2 && !granted_exists(run_fd) && !is_granted());
}

/* Somebody serves, and is the one who takes it back. */
static void test_served(void)
{
	struct ask_who who = { .via = "cli" };
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX], other[ASK_ID_MAX];
	pid_t s = session(), pid = asker("deploy", "{}"), waits;
	unsigned lapsed;

	CHECK(answer_next(ASK_SANDBOX, 0, id) && reap(pid) == ALLOWED);
	waits = asker("other", "{}");
	for (int ms = 0; ms < LONG_MS && faccessat(run_fd, ASKP_SOCK, F_OK, 0) < 0; ms += 10)
		pause_ms(10);
	CHECK(reap(asker("deploy", "{}")) == ALLOWED);
	CHECKF(askback_revoke(&st, run_fd, RUN, id, &who, NULL, &e) == 0,
	       "a grant is revoked while another process serves %s", e.msg);
	CHECK(!granted_exists(run_fd));
	CHECK(answer_next(ASK_SANDBOX, 0, other) && reap(waits) == ALLOWED);
	CHECK(strcmp(id, other) != 0 && is_granted());

	/* The end as the session itself sees to it. */
	lapsed = n_logged("ask.lapse");
	CHECK(kill(s, SIGKILL) == 0 && reap(s) == -1);
	CHECKF(askback_end_session(&st, run_fd, RUN, &e) == 0, "the session is ended %s", e.msg);
	CHECK(n_logged("ask.lapse") == lapsed + 1 && !granted_exists(run_fd));
	CHECK(askback_end_session(&st, run_fd, RUN, &e) == 0 && n_logged("ask.lapse") == lapsed + 1);
}

/* `coffer ask new` waits for a person and serves meanwhile; the end of the session must not wait for it. */
static void test_end_while_served(void)
{
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX], other[ASK_ID_MAX];
	pid_t s = session(), pid = asker("deploy", "{}"), waits;
	unsigned lapsed = n_logged("ask.lapse");
	uint64_t began;

	CHECK(answer_next(ASK_SANDBOX, 0, id) && reap(pid) == ALLOWED);
	waits = asker("other", "{}");
	for (int ms = 0; ms < LONG_MS && faccessat(run_fd, ASKP_SOCK, F_OK, 0) < 0; ms += 10)
		pause_ms(10);
	CHECK(kill(s, SIGKILL) == 0 && reap(s) == -1);
	began = clock_nsec(CLOCK_MONOTONIC);
	CHECKF(askback_end_session(&st, run_fd, RUN, &e) == 0,
	       "the session ends while another process serves: %s", e.msg);
	CHECKF(clock_nsec(CLOCK_MONOTONIC) - began < 10 * NSEC_PER_SEC,
	       "the end of a session does not wait for the serving process");
	CHECKF(!granted_exists(run_fd) && n_logged("ask.lapse") == lapsed + 1,
	       "the grant has lapsed in the log");
	CHECK(answer_next(ASK_SCOPE_COUNT, 0, other) && reap(waits) == DENIED);
}

int main(int argc, char **argv)
{
	/* Executed as what tells people, where this machine has a notify.yaml (asknotify.c). */
	(void)argv;
	if (argc > 1)
		return 0;
	test_scopes();
	test_errors();
	test_random();
	begin(&st);
	make_run(&st, RUN);
	run_fd = openat(st.runs_fd, RUN, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_damage();
	test_forged();
	test_session();
	test_served();
	test_end_while_served();
	close(run_fd);
	end(&st);
	return tap_done();
}
