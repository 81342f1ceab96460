/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a notification, the request that carries it, and the judgement of its result. Pure. */
#include "notify/notify.h"

#include "base/clock.h"
#include "base/json.h"
#include "codec/net/host.h"
#include "policy/shorten.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST NSEC_PER_SEC
#define PAUSE_MAX (300 * NSEC_PER_SEC)

void notify_made_release(struct notify_made *m)
{
	free(m->type);
	free(m->sandbox);
	buf_release(&m->json);
	buf_release(&m->plain);
}

/* notify.N3: makes text harmless, on one line, shortened between characters. */
static char *clean_text(const char *s, size_t max)
{
	autobuf struct buf b = BUF_INIT;
	autobuf struct buf cut = BUF_INIT;

	/* A host name may begin before the limit and end after it. */
	str_add_safe(&b, s ? s : "", s ? strnlen(s, max + HOST_MAX + 1) : 0, false);
	shorten_text(buf_cstr(&b), max, "...", &cut);
	return buf_error(&b) || buf_error(&cut) ? NULL : cut.len ? buf_take(&cut) : strdup("");
}

static void add_event_line(struct json *j, struct buf *plain, const char *text)
{
	json_str(j, NULL, text);
	if (*text)
		buf_addf(plain, "\n%s", text);
}

static int add_event_lines(struct json *j, struct buf *plain, const struct notify_event *ev)
{
	size_t n = ev->n_lines < NOTIFY_LINES_MAX ? ev->n_lines : NOTIFY_LINES_MAX;

	json_arr(j, "lines");
	for (size_t i = 0; i < n; i++) {
		autofree char *line = clean_text(ev->lines[i], NOTIFY_LINE_MAX);

		if (!line)
			return -ENOMEM;
		add_event_line(j, plain, line);
	}
	if (n < ev->n_lines)
		add_event_line(j, plain, "...");
	json_end_arr(j);
	return 0;
}

int notify_make(struct notify_made *ret, const struct notify_event *ev, const char *id, uint64_t now)
{
	CLEANUP(notify_made_release)
	struct notify_made m = { .type = clean_text(ev->type, 64), .sandbox = clean_text(ev->sandbox, 64) };
	autofree char *title = clean_text(ev->title, NOTIFY_TITLE_MAX),
		      *answer = clean_text(ev->answer, NOTIFY_ANSWER_MAX), *ask = clean_text(ev->ask, 64);
	struct json j = JSON_INIT(&m.json);
	char time[CLOCK_TEXT_LEN];

	if (!m.type || !m.sandbox || !title || !answer || !ask)
		return -ENOMEM;
	snprintf(m.id, sizeof(m.id), "%s", id);
	clock_format(ev->time ? ev->time : now, time);
	json_obj(&j, NULL);
	json_u64(&j, "version", 1);
	json_str(&j, "id", m.id);
	json_str(&j, "type", m.type);
	json_str(&j, "time", time);
	json_str(&j, "sandbox", *m.sandbox ? m.sandbox : NULL);
	json_str(&j, "ask", *ask ? ask : NULL);
	json_str(&j, "title", title);
	buf_adds(&m.plain, title);
	if (*m.sandbox)
		buf_addf(&m.plain, "\nsandbox %s", m.sandbox);
	if (add_event_lines(&j, &m.plain, ev) < 0)
		return -ENOMEM;
	json_str(&j, "answer", *answer ? answer : NULL);
	json_end_obj(&j);
	buf_addc(&m.json, '\n');
	if (*answer)
		buf_addf(&m.plain, "\n%s", answer);
	if (buf_error(&m.json) || buf_error(&m.plain))
		return -ENOMEM;
	*ret = m;
	m = (struct notify_made){ 0 };
	return 0;
}

static void add_url_encoded(struct buf *b, const char *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

	for (; *s; s++) {
		if (strchr(plain, *s))
			buf_addc(b, *s);
		else
			buf_addf(b, "%%%02X", (unsigned)(unsigned char)*s);
	}
}

/* The transaction id is the event's id: a homeserver that has seen it ignores the duplicate. */
static void make_matrix_request(const struct notify_target *t, const struct notify_made *m,
				struct buf *target, struct buf *body)
{
	struct json j = JSON_INIT(body);

	buf_addf(target, "%s/_matrix/client/v3/rooms/", t->path);
	add_url_encoded(target, t->room);
	buf_addf(target, "/send/m.room.message/%s", m->id);
	json_obj(&j, NULL);
	json_str(&j, "msgtype", "m.text");
	json_strn(&j, "body", buf_cstr(&m->plain), m->plain.len);
	json_end_obj(&j);
}

int notify_job(const struct notify_target *t, const struct notify_made *m, struct courier_job *ret,
	       struct buf *mem)
{
	static const char hook[] = "content-type: application/json\ncoffer-event: ";
	autobuf struct buf target = BUF_INIT, body = BUF_INIT, fields = BUF_INIT;
	bool matrix = t->kind == NOTIFY_MATRIX;

	*ret = (struct courier_job){ .host = t->host, .port = t->port, .timeout_ms = t->timeout * 1000 };
	snprintf(ret->method, sizeof(ret->method), "%s", matrix ? "PUT" : "POST");
	ret->auth = matrix ? COURIER_BEARER : COURIER_SIGN;
	if (t->has_pin) {
		ret->flags = COURIER_HAS_PIN;
		ret->pin = t->pin;
		ret->pin_port = t->pin_port;
	}
	if (matrix) {
		make_matrix_request(t, m, &target, &body);
		buf_adds(&fields, "content-type: application/json\n");
	} else {
		buf_adds(&target, t->path);
		buf_add(&body, m->json.data, m->json.len);
		buf_addf(&fields, "%s%s\n", hook, m->id);
	}
	buf_clear(mem);
	buf_add(mem, target.data, target.len);
	buf_add(mem, fields.data, fields.len);
	buf_add(mem, body.data, body.len);
	if (buf_error(&target) || buf_error(&fields) || buf_error(&body) || buf_error(mem))
		return -ENOMEM;
	ret->target = (struct slice){ mem->data, target.len };
	ret->fields = (struct slice){ mem->data + target.len, fields.len };
	ret->body = (struct slice){ mem->data + target.len + fields.len, body.len };
	return 0;
}

enum notify_outcome notify_judge(const struct courier_result *r)
{
	if (r->error)
		return r->error == -EPERM || r->error == -EACCES || r->error == -EINVAL ? NOTIFY_GIVEN_UP
											: NOTIFY_AGAIN;
	if (r->status / 100 == 2)
		return NOTIFY_DONE;
	return r->status >= 500 || r->status == 408 || r->status == 425 || r->status == 429 ? NOTIFY_AGAIN
											    : NOTIFY_GIVEN_UP;
}

uint64_t notify_pause(unsigned tries, uint64_t first, uint32_t retry_after)
{
	uint64_t pause = first ? first : PAUSE_FIRST;
	uint64_t asked = retry_after * NSEC_PER_SEC;

	for (unsigned i = 1; i < tries && pause < PAUSE_MAX; i++)
		pause *= 2;
	pause = pause < PAUSE_MAX ? pause : PAUSE_MAX;
	asked = asked < PAUSE_MAX ? asked : PAUSE_MAX;
	return pause > asked ? pause : asked;
}
