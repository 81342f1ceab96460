/* SPDX-License-Identifier: Apache-2.0 */
#include "notify/notify.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "tap.h"

#include <errno.h>
#include <jansson.h>

#define ID "0123456789abcdef01234567"

static const char conf_text[] =
	"version: 1\nui: https://c.example.org:8443/x/\nnotify:\n"
	"- webhook: {url: 'https://h.example.com:8443/in?a=b', secret: k, to: 10.1.2.3}\n"
	"- matrix: {homeserver: 'https://m.example.org/', room: '!r:e.org', secret: t}\n"
	"- command: [x, y]\n  timeout: 3s\n";

static void test_conf(struct notify_conf *c)
{
	struct err e = ERR_INIT;

	CHECK(config_notify_parse(c, "n.yaml", "/", conf_text, sizeof(conf_text) - 1, &e) == 0);
	CHECK(c->n == 3 && c->targets[0].pin_port == 8443 && c->targets[2].timeout == 3);
	CHECK_STR(c->targets[0].path, "/in?a=b");
	CHECK_STR(c->targets[1].path, "");
	CHECK_STR(c->targets[1].name, "matrix-2");
	CHECK_STR(c->ui, "https://c.example.org:8443/x/");
}

static void test_hostile_text(const struct notify_conf *c)
{
	CLEANUP(notify_made_release) struct notify_made m = { 0 };
	autobuf struct buf mem = BUF_INIT, packed = BUF_INIT;
	char big[5000];
	const char *lines[40];
	struct notify_event ev = { .type = "ask.new",
				   .title = "a\x1b]0;x\x07\r\nb\xff\xe2\x80\xae",
				   .lines = lines };
	struct courier_job j;
	json_t *o;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		lines[i] = big;
	ev.n_lines = ARRAY_SIZE(lines);
	ev.answer = big;
	CHECK(notify_make(&m, &ev, ID, 1700000000 * NSEC_PER_SEC) == 0);
	o = json_loadb(m.json.data, m.json.len, JSON_REJECT_DUPLICATES, NULL);
	CHECK(o && strlen(json_string_value(json_object_get(o, "title"))) <= NOTIFY_TITLE_MAX);
	CHECK(!strpbrk(json_string_value(json_object_get(o, "title")), "\x1b\x07\r\n"));
	CHECK(json_array_size(json_object_get(o, "lines")) == NOTIFY_LINES_MAX + 1);
	CHECK(strlen(json_string_value(json_array_get(json_object_get(o, "lines"), 0))) == NOTIFY_LINE_MAX);
	json_decref(o);
	CHECK(m.json.len < COURIER_BODY_MAX && m.plain.len < COURIER_BODY_MAX);
	for (size_t i = 0; i < 2; i++) {
		CHECK(notify_job(&c->targets[i], &m, &j, &mem) == 0);
		j.flags |= COURIER_HAS_STORE | COURIER_HAS_KEY;
		buf_clear(&packed);
		CHECK(courier_job_pack(&j, &packed) == 0);
	}
	CHECK(slice_eq(j.target, "/_matrix/client/v3/rooms/%21r%3Ae.org/send/m.room.message/" ID));
	CHECK_STR(j.method, "PUT");
}

static enum notify_outcome status(unsigned n)
{
	return notify_judge(&(struct courier_result){ .status = n });
}

static void test_judge(void)
{
	CHECK(status(200) == NOTIFY_DONE && status(204) == NOTIFY_DONE);
	CHECK(status(301) == NOTIFY_GIVEN_UP && status(403) == NOTIFY_GIVEN_UP);
	CHECK(status(429) == NOTIFY_AGAIN && status(500) == NOTIFY_AGAIN && status(408) == NOTIFY_AGAIN);
	CHECK(notify_judge(&(struct courier_result){ .error = -ETIMEDOUT }) == NOTIFY_AGAIN);
	CHECK(notify_judge(&(struct courier_result){ .error = -EPERM }) == NOTIFY_GIVEN_UP);
	CHECK(notify_pause(1, 0, 0) == NSEC_PER_SEC && notify_pause(4, 0, 0) == 8 * NSEC_PER_SEC);
	CHECK(notify_pause(60, 0, 0) == 300 * NSEC_PER_SEC);
	CHECK(notify_pause(1, 0, 20) == 20 * NSEC_PER_SEC && notify_pause(1, 0, 3600) == 300 * NSEC_PER_SEC);
}

struct counts {
	size_t done, again, given_up;
};

static void told(void *ctx, const struct notify_target *t, enum notify_outcome o, unsigned st,
		 const char *why)
{
	struct counts *n = ctx;

	(void)t, (void)st, (void)why;
	n->done += o == NOTIFY_DONE;
	n->again += o == NOTIFY_AGAIN;
	n->given_up += o == NOTIFY_GIVEN_UP;
}

/* A queue that nobody empties: bounded, in order, given up in the end. */
static void test_queue(const char *command, size_t posts, struct counts want)
{
	CLEANUP(config_notify_release) struct notify_conf c = NOTIFY_CONF_INIT;
	CLEANUP(notify_freep) struct notify *n = NULL;
	struct loop loop = LOOP_INIT;
	struct counts got = { 0 };
	struct notify_opts o = { .tries = 2, .first_pause = NSEC_PER_MSEC, .told = told, .ctx = &got };
	char text[128];
	struct err e = ERR_INIT;

	snprintf(text, sizeof(text), "version: 1\nnotify: [{command: [%s]}]\n", command);
	BUG_ON(config_notify_parse(&c, "n", "/", text, strlen(text), &e) < 0 || loop_open(&loop, &e) < 0);
	BUG_ON(notify_new(&n, &loop, &c, -1, NULL, &o, &e) < 0);
	for (size_t i = 0; i < posts; i++)
		BUG_ON(notify_post(n, &(struct notify_event){ .type = "t", .title = "x" }) < 0);
	CHECKF(notify_waiting(n) == (posts < NOTIFY_QUEUE_MAX ? posts : NOTIFY_QUEUE_MAX),
	       "%zu notifications wait in the queue", posts);
	while (notify_waiting(n))
		BUG_ON(loop_round(&loop, &e) < 0);
	CHECKF(got.done == want.done && got.again == want.again && got.given_up == want.given_up,
	       "%s ends with %zu sent, %zu again, %zu given up", command, got.done, got.again, got.given_up);
	notify_free(TAKE_PTR(n));
	loop_close(&loop);
}

int main(void)
{
	CLEANUP(config_notify_release) struct notify_conf c = NOTIFY_CONF_INIT;

	test_conf(&c);
	test_hostile_text(&c);
	test_judge();
	test_queue("\"true\"", 3, (struct counts){ 3, 0, 0 });
	test_queue("\"false\"", 2, (struct counts){ 0, 2, 2 });
	test_queue("\"true\"", 200, (struct counts){ NOTIFY_QUEUE_MAX, 0, 0 });
	return tap_done();
}
