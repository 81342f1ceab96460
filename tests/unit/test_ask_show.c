/* SPDX-License-Identifier: Apache-2.0 */
/* A question in words: whatever an agent writes into it, each row is ours. */
#include "cli/ask_list.h"
#include "cli/ask_show.h"
#include "codec/termrows.h"
#include "tap.h"

#include "base/str.h"

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

/* What looks like a question of ours at each multiple of the width. */
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

	ask_show(ask, NULL, cols, &all);
	ask_show_prompt(ask, NULL, cols, true, &t);
	ask_line(ask, false, cols, &line);
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
		CHECKF(good, "%u columns: every row is ours", widths[w]);
	}
}

static void test_act(void)
{
	json_t *o = make("graphql", "POST", "mutation mergePullRequest");
	autobuf struct buf act = BUF_INIT, one = BUF_INIT;

	ask_show_act(o, 80, &act);
	CHECKF(str_eq(buf_cstr(&act),
		      "what     graphql  POST http://api.test/repos/o/database\nwith     mutation mergePullRequest\n"
		      "question 89f211-3; denied after 2026-11-17T07:59:42Z\n"),
	       "%s", buf_cstr(&act));
	ask_act(o, 100, &one);
	CHECK(str_eq(buf_cstr(&one), "POST http://api.test/repos/o/database  mutation mergePullRequest"));
	json_decref(o);
}

int main(void)
{
	test_hostile();
	test_act();
	return tap_done();
}
