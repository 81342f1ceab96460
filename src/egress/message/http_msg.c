/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage of header fields and of a body in transit. Interprets nothing: codec/http1 and nghttp2 have checked
 * names and values (http_msg.M2).
 */
#include "egress/message/http_msg.h"

/* The memory of a large message is not kept for a following small one. */
#define KEEP_MAX (16u << 10)

int http_fields_add(struct http_fields *f, struct slice name, struct slice value)
{
	struct http_field *h;

	if (f->n >= HTTP_FIELDS_MAX || name.len + value.len > HTTP_FIELDS_BYTES ||
	    f->text.len + name.len + value.len > HTTP_FIELDS_BYTES)
		return -E2BIG;
	h = &f->v[f->n];
	h->name = (uint32_t)f->text.len;
	h->name_len = (uint32_t)name.len;
	buf_add(&f->text, name.p, name.len);
	h->value = (uint32_t)f->text.len;
	h->value_len = (uint32_t)value.len;
	buf_add(&f->text, value.p, value.len);
	if (buf_error(&f->text))
		return -ENOMEM;
	f->n++;
	return 0;
}

void http_fields_clear(struct http_fields *f)
{
	if (f->text.cap > KEEP_MAX)
		buf_release(&f->text);
	buf_clear(&f->text);
	f->n = 0;
}

void http_fields_release(struct http_fields *f)
{
	buf_release(&f->text);
	f->n = 0;
}

struct slice http_fields_name(const struct http_fields *f, unsigned i)
{
	return (struct slice){ f->text.data + f->v[i].name, f->v[i].name_len };
}

struct slice http_fields_value(const struct http_fields *f, unsigned i)
{
	return (struct slice){ f->text.data + f->v[i].value, f->v[i].value_len };
}

struct slice http_fields_get(const struct http_fields *f, const char *name)
{
	for (unsigned i = 0; i < f->n; i++) {
		if (slice_eq_nocase(http_fields_name(f, i), name))
			return http_fields_value(f, i);
	}
	return SLICE_NONE;
}

bool http_fields_has(const struct http_fields *f, const char *name)
{
	for (unsigned i = 0; i < f->n; i++) {
		if (slice_eq_nocase(http_fields_name(f, i), name))
			return true;
	}
	return false;
}

void http_pipe_compact(struct http_pipe *p)
{
	if (p->at && p->at == p->b.len) {
		p->b.len = p->at = 0;
	} else if (p->at > HTTP_PIPE_CAP) {
		buf_consume(&p->b, p->at);
		p->at = 0;
	}
}

int http_pipe_put(struct http_pipe *p, const void *data, size_t len)
{
	http_pipe_compact(p);
	buf_add(&p->b, data, len);
	p->total += len;
	return buf_error(&p->b);
}

struct slice http_pipe_peek(const struct http_pipe *p)
{
	return (struct slice){ p->b.data ? p->b.data + p->at : NULL, http_pipe_len(p) };
}

void http_pipe_take(struct http_pipe *p, size_t len)
{
	if (p->b.wipe && len)
		explicit_bzero(p->b.data + p->at, len);
	p->at += len;
	if (p->at == p->b.len)
		p->b.len = p->at = 0;
}

void http_pipe_clear(struct http_pipe *p)
{
	if (p->b.cap > KEEP_MAX)
		buf_release(&p->b);
	buf_clear(&p->b);
	p->at = 0;
	p->eof = false;
	p->total = 0;
}

void http_pipe_release(struct http_pipe *p)
{
	buf_release(&p->b);
	p->at = 0;
}
