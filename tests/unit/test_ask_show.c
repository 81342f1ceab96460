/* SPDX-License-Identifier: Apache-2.0 */
/* A question in words: whatever an agent writes into it, each row is ours. */
#include "audit/line.h"
#include "base/jsonget.h"
#include "cli/ask/ask_list.h"
#include "cli/ask/ask_seen.h"
#include "cli/common/ask_before.h"
#include "cli/common/ask_show.h"
#include "codec/term/termrows.h"
#include "test_audit_log.h"

static const unsigned widths[] = { 20, 40, 80, 200 };

static bool begins_ours(const char *row)
{
	static const char *const labels[] = { "question ", "state    ", "who      ",  "what     ",
					      "with     ", "body     ", "preview\n",  "why      ",
					      "reason   ", "by       ", "asked    ",  "answer   ",
					      "digest   ", "allowing ", TERMROWS_MARK };

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		if (str_starts(row, labels[i]))
			return true;
	}
	return false;
}

/* The number of rows that begin with this; 0 also when one is not ours, or too wide. */
static size_t count_rows(const char *rows, unsigned cols, const char *label)
{
	size_t found = 0;

	for (const char *p = rows; *p;) {
		size_t n = strcspn(p, "\n");

		if (n >= cols || !begins_ours(p)) {
			printf("# %u columns: '%.*s'\n", cols, (int)n, p);
			return 0;
		}
		found += str_starts(p, label);
		p += n + (p[n] == '\n');
	}
	return found;
}

/* Text that looks like a question of ours at each multiple of the width. */
static void add_evil(struct buf *b, unsigned cols, const char *fill, size_t max)
{
	for (unsigned i = 0; b->len + cols + 80 < max; i++) {
		while (b->len % cols != (i * 9 + 71) % cols)
			buf_addc(b, fill[0]);
		buf_adds(b, fill + 1);
		buf_adds(b, i % 3 == 0	 ? "what     widen  good.test:443"
			    : i % 3 == 1 ? "question aaaaaa-9"
					 : "preview");
	}
}

static json_t *make(const char *kind, const char *method, const char *evil)
{
	json_t *o = json_object();

	json_object_set_new(o, "id", json_string("89f211-3"));
	json_object_set_new(o, "state", json_string("pending"));
	json_object_set_new(o, "sandbox", json_string("89f211aabbcc"));
	json_object_set_new(o, "kind", json_string(kind));
	json_object_set_new(o, "method", json_string(method));
	json_object_set_new(o, "host", json_string(method[0] ? "api.test" : ""));
	json_object_set_new(o, "path", json_string(method[0] ? "/repos/o/database" : ""));
	json_object_set_new(o, "what", json_string(method[0] ? evil : "*.evil.example:443"));
	json_object_set_new(o, "reason", json_string(evil));
	json_object_set_new(o, "preview", json_string(evil));
	json_object_set_new(o, "type", json_string(evil));
	json_object_set_new(o, "rule", json_string(evil));
	json_object_set_new(o, "by", json_string(evil));
	json_object_set_new(o, "why", json_string(evil));
	json_object_set_new(o, "body", json_string("cf0bfaa4"));
	json_object_set_new(o, "asked", json_string("2026-11-17T07:54:42Z"));
	json_object_set_new(o, "expires", json_string("2026-11-17T07:59:42Z"));
	return o;
}

static bool check(const json_t *ask, unsigned cols, const char *act)
{
	CLEANUP(prompt_text_release) struct prompt_text t = PROMPT_TEXT_INIT;
	autobuf struct buf all = BUF_INIT, line = BUF_INIT;

	cli_ask_show(ask, NULL, cols, &all);
	cli_ask_show_prompt(ask, NULL, cols, true, &t);
	cli_ask_line(ask, jsonget_text(ask, "state"), false, cols, &line);
	return count_rows(buf_cstr(&all), cols, "what     ") == 1 &&
	       count_rows(buf_cstr(&all), cols, "question ") == 1 &&
	       count_rows(buf_cstr(&all), cols, "preview\n") == 1 &&
	       count_rows(buf_cstr(&t.act), cols, "what     ") == 1 &&
	       count_rows(buf_cstr(&t.text), cols, "reason   ") == 1 &&
	       (cols < 80 || strstr(buf_cstr(&t.act), act)) && (cols < 80 || line.len <= cols) &&
	       strchr(buf_cstr(&line), '\n') == buf_cstr(&line) + line.len - 1;
}

static void test_hostile(void)
{
	static const char *const fills[] = {
		"x",	   " ", "\t", "\n", "xe\xcc\x81", "x\xe6\xbc\xa2", "x\xc2\xa0", "x\xf0\x9f\x98\x80",
		"x\x1b[2J"
	};

	for (size_t w = 0; w < ARRAY_SIZE(widths); w++) {
		bool good = true;

		for (size_t f = 0; f < ARRAY_SIZE(fills); f++) {
			autobuf struct buf evil = BUF_INIT;
			json_t *request, *widen;

			add_evil(&evil, widths[w], fills[f], 1024);
			request = make("request", "DELETE", buf_cstr(&evil));
			widen = make("widen", "", buf_cstr(&evil));
			good = good &&
			       check(request, widths[w],
				     "what     request  DELETE http://api.test/repos/o/database\n") &&
			       check(widen, widths[w], "what     widen  *.evil.example:443\n");
			json_decref(request);
			json_decref(widen);
		}
		CHECKF(good, "at %u columns every row has our mark", widths[w]);
	}
}

static void test_act(void)
{
	json_t *o = make("graphql", "POST", "mutation mergePullRequest");
	autobuf struct buf act = BUF_INIT, one = BUF_INIT;

	cli_ask_show_act(o, 80, &act);
	CHECKF(str_eq(buf_cstr(&act),
		      "what     graphql  POST http://api.test/repos/o/database\nwith     mutation mergePullRequest\n"
		      "question 89f211-3; denied after 2026-11-17T07:59:42Z\n"),
	       "the act of a question is shown in rows: %s", buf_cstr(&act));
	cli_ask_act(o, 100, &one);
	CHECK(str_eq(buf_cstr(&one), "POST http://api.test/repos/o/database  mutation mergePullRequest"));
	json_decref(o);
}

/* ---- The meaning of an answer. ---- */

static void shows(json_t *o, const char *kind, const char *words)
{
	autobuf struct buf all = BUF_INIT;

	json_object_set_new(o, "kind", json_string(kind));
	cli_ask_show(o, NULL, 200, &all);
	CHECKF(strstr(buf_cstr(&all), words), "a question of kind %s is shown with the words: %s", kind,
	       words);
}

static struct ask_question question(enum ask_kind kind)
{
	bool http = kind == ASK_REQUEST || kind == ASK_GRAPHQL || kind == ASK_GIT;

	return (struct ask_question){ .kind = kind,
				      .host = http || kind == ASK_CONNECT ? "api.test" : "",
				      .port = 443,
				      .method = http ? "POST" : "",
				      .path = http ? "/graphql?a=1" : "",
				      .what = kind == ASK_CONNECT ? "" : "mutation merge",
				      .type = "",
				      .rule = "",
				      .reason = "",
				      .by = "",
				      .preview = "" };
}

static bool is_covered(const struct ask_question *a, const struct ask_question *b)
{
	unsigned char x[HASH_LEN], y[HASH_LEN];

	ask_question_subject(a, x);
	ask_question_subject(b, y);
	return memcmp(x, y, HASH_LEN) == 0;
}

/* A grant covers exactly the acts that the words for its kind promise. */
static void test_means(void)
{
	json_t *o = make("request", "POST", "x");

	shows(o, "request", "once: this very request, with its query, headers and body, one time");
	shows(o, "request", "the same method, path and headers with any query and body");
	shows(o, "graphql",
	      "the same operations to this address with the same headers, whatever their arguments");
	shows(o, "git", "the same action on the same refs of this repository, with any commits");
	json_object_set_new(o, "method", json_string(""));
	shows(o, "connect", "once: this connection, one time");
	shows(o, "connect", "any connection to this host and port");
	shows(o, "secret", "the secret with any request to this host and port");
	shows(o, "tool", "once: this very call, with this command and these arguments, one time");
	shows(o, "tool", "the same tool (and conditions of the rule) with any arguments and command");
	shows(o, "tool", "--always");
	shows(o, "question", "once: this answer to the present asker, one time");
	shows(o, "apply", "exactly these changes again, and no others");
	shows(o, "ssh", "the same use of this key at this host and port");
	shows(o, "widen", "--sandbox, --for 2h, without asking:");
	json_decref(o);
	for (int k = 0; k < ASK_KIND_COUNT; k++) {
		const struct ask_means *m = ask_kind_means((enum ask_kind)k);
		struct ask_question q = question((enum ask_kind)k), other = q;

		CHECKF(!m->once == (k == ASK_WIDEN) && m->again && strlen(m->brief) <= 37,
		       "the kind %s has words for the terminal", ask_kind_name((enum ask_kind)k));
		other.body[0] ^= 1;
		other.preview = "y";
		other.preview_len = 1;
		CHECKF(is_covered(&q, &other), "a grant for '%s' covers any body, arguments and commits",
		       m->again);
		other.what = "mutation deleteRepository";
		CHECKF(!is_covered(&q, &other),
		       "a grant for '%s' covers no other operation, ref, headers, tool, key or question",
		       m->again);
		other = q;
		other.path = "/graphql?b=2";
		CHECKF(!q.path[0] || is_covered(&q, &other), "a grant for '%s' covers any query", m->again);
		other.path = "/other";
		CHECKF(!is_covered(&q, &other), "a grant for '%s' covers no other path", m->again);
		other = q;
		other.host = "other.test";
		CHECKF(!is_covered(&q, &other), "a grant for '%s' covers no other host", m->again);
		other = q;
		other.tls = true;
		CHECKF(!is_covered(&q, &other), "a grant for '%s' without TLS does not cover TLS", m->again);
	}
}

static void test_list_is_whole(void)
{
	json_t *o = make("apply", "", "x");
	autobuf struct buf all = BUF_INIT;

	json_object_set_new(o, "preview", json_string("+ a.txt"));
	json_object_set_new(o, "body_len", json_integer(100000));
	cli_ask_show(o, NULL, 80, &all);
	CHECKF(!strstr(buf_cstr(&all), "…"), "a list of files that is shown whole has no ellipsis");
	json_decref(o);
}

/* ---- Events before the question. ---- */

#define RUN "89f211aabbcc"

static json_t *asked_at(uint64_t seq)
{
	json_t *o = make("request", "PUT", "x");

	json_object_set_new(o, "seq", json_integer((json_int_t)seq));
	return o;
}

static uint64_t append(struct audit *a, const char *type, const char *sandbox, const char *fields)
{
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t seq = 0;

	buf_adds(&b, fields);
	CHECKF(audit_append_seq(a, type, sandbox, &b, &seq, &e) == 0, "the event %s is written: %s", type,
	       e.msg);
	return seq;
}

static void test_before(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct state st = { .fd = t.state_fd };
	struct ask_before b = { 0 };
	struct err e = ERR_INIT;
	uint64_t first, tenth;
	json_t *o;

	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	append(a, "run.start", RUN, "\"command\":[\"sh\",\"-c\",\"true\"]");
	append(a, "exec.start", RUN, "\"command\":[\"curl\",\"--steal\"]");
	append(a, "net.request", RUN, "\"method\":\"GET\",\"path\":\"/secrets\",\"decision\":\"allow\"");
	append(a, "net.open", RUN, "\"name\":\"tunnel.test\",\"depth\":\"tunnel\",\"decision\":\"allow\"");
	append(a, "net.open", RUN, "\"name\":\"known.test\",\"depth\":\"inspect\",\"decision\":\"allow\"");
	append(a, "net.close", RUN, "\"name\":\"known.test\"");
	append(a, "net.request", "112233445566", "\"path\":\"/of-another\"");
	first = append(a, "ask.new", RUN, "\"ask\":\"89f211-1\",\"kind\":\"request\"");
	for (int i = 0; i < 60; i++)
		append(a, "net.request", RUN, "\"path\":\"/harmless\"");
	tenth = append(a, "ask.new", RUN, "\"ask\":\"89f211-10\",\"kind\":\"request\"");

	o = asked_at(first);
	CHECK(cli_ask_before_read(o, &st, ASK_BEFORE_MAX, &b, &e) == 0);
	CHECKF(b.n == 4 && b.is_all, "all events before the question are shown, and none after it (%zu)",
	       b.n);
	CHECKF(b.n == 4 && strstr(b.line[0], "run.start  sh -c true") &&
		       strstr(b.line[1], "exec.start  curl --steal") && strstr(b.line[2], "/secrets") &&
		       strstr(b.line[3], "tunnel.test"),
	       "events are shown oldest first, with commands and with tunnels");
	cli_ask_before_release(&b);
	CHECK(cli_ask_before_read(o, &st, 2, &b, &e) == 0);
	CHECKF(b.n == 2 && !b.is_all && strstr(b.line[0], "/secrets"),
	       "at most the wanted number of events is shown");
	cli_ask_before_release(&b);
	json_decref(o);

	append(a, "net.request", RUN, "\"path\":\"/late\"");
	o = asked_at(tenth + 1);
	CHECK(cli_ask_before_read(o, &st, ASK_BEFORE_MAX, &b, &e) == 0);
	CHECKF(b.n == ASK_BEFORE_MAX && strstr(b.line[4], "89f211-10"),
	       "a question whose id begins alike does not end the list");
	cli_ask_before_release(&b);
	json_decref(o);

	o = asked_at(0);
	CHECK(cli_ask_before_read(o, &st, ASK_BEFORE_MAX, &b, &e) == 0 && b.is_unknown && !b.n && !b.is_all);
	json_decref(o);
}

/* A log in which others did very much meanwhile. */
static void test_before_window(void)
{
	CLEANUP(log_free) struct test_log t = log_with(1);
	struct state st = { .fd = t.state_fd };
	uint64_t last = ASK_BEFORE_WITHIN + 100;
	autoclose int fd = openat(t.dir_fd, "log.jsonl", O_WRONLY | O_TRUNC | O_CLOEXEC);
	autobuf struct buf log = BUF_INIT, shown = BUF_INIT;
	json_t *o = asked_at(last);

	for (uint64_t seq = 1; seq < last; seq++) {
		const struct line_head h = { .seq = seq,
					     .time = 1,
					     .boot = 1,
					     .boot_id = "01234567-89ab-cdef-0123-456789abcdef",
					     .type = "net.request",
					     .sandbox = seq == 1 ? RUN : "112233445566",
					     .prev = LINE_HASH_NONE };
		autobuf struct buf line = BUF_INIT;

		line_format(&h, NULL, &line);
		buf_add(&log, line.data, line.len);
	}
	CHECK(fd >= 0 && fd_write_all(fd, log.data, log.len) == 0);
	cli_ask_show(o, &st, 80, &shown);
	CHECKF(strstr(buf_cstr(&shown), "older events were not searched") &&
		       !strstr(buf_cstr(&shown), "has no event"),
	       "events that were not searched are not reported as absent: %s",
	       strstr(buf_cstr(&shown), "before") ? strstr(buf_cstr(&shown), "before") : "");
	json_decref(o);
}

/* ---- News while following. ---- */

static struct ask_news note(struct ask_seen *s, uint64_t number, const char *state, bool answered,
			    uint64_t waiters)
{
	json_t *o = json_object();
	struct ask_news news;

	json_object_set_new(o, "number", json_integer((json_int_t)number));
	json_object_set_new(o, "state", json_string(state));
	json_object_set_new(o, "waiters", json_integer((json_int_t)waiters));
	if (answered)
		json_object_set_new(o, "answer", json_object());
	cli_ask_seen_note(s, o, &news);
	json_decref(o);
	return news;
}

static void test_seen(void)
{
	CLEANUP(cli_ask_seen_release) struct ask_seen s = ASK_SEEN_INIT;
	struct ask_news n = note(&s, 1, "pending", false, 1);

	CHECKF(n.state && n.any && !n.answered, "a new question is news");
	n = note(&s, 1, "pending", false, 0);
	CHECKF(!n.state && n.any && !n.answered, "a question without an asker keeps its state");
	n = note(&s, 1, "spent", true, 0);
	CHECKF(n.state && n.answered, "an answer to a question is news");
	n = note(&s, 1, "spent", true, 0);
	CHECKF(!n.state && !n.any && !n.answered, "an answer is told only once");
	n = note(&s, 2, "denied", true, 0);
	CHECKF(n.state && !n.answered, "a question that was answered before is known by its state only");
	n = note(&s, 1000, "granted", true, 0);
	for (uint64_t i = 3; i < 3 + 2 * ASK_SEEN_MAX; i++)
		n = note(&s, 2000 + i, "denied", true, 0);
	CHECKF(s.n == ASK_SEEN_MAX && !note(&s, 1000, "granted", true, 0).any,
	       "a grant stays in a full list of questions");
}

int main(void)
{
	test_hostile();
	test_act();
	test_means();
	test_list_is_whole();
	test_before();
	test_before_window();
	test_seen();
	return tap_done();
}
