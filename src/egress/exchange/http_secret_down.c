/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response to a request that carried a secret, without the secret (http_secret.S4): its fields, its body
 * piece by piece, its trailers, and the payload of websocket frames from the server (scrub_ws.h).
 */
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret_int.h"
#include "vault/common/forms.h"

/* Adds a form in every notation in which it may occur. */
static int add_scrub_form(struct scrub_set *set, const struct form *f, const char *put)
{
	struct slice find = { (const char *)f->bytes, f->len };

	if (f->kind == FORM_RAW)
		return scrub_set_add_loose(set, find, put, SCRUB_ESCAPED);
	if (f->kind >= FORM_BASE64_0 && f->kind <= FORM_BASE64URL_2)
		return scrub_set_add_loose(set, find, put, SCRUB_LINES);
	return scrub_set_add(set, find, put);
}

int secret_add_forms(struct scrub_set *set, struct slice value, struct slice placeholder)
{
	size_t size = forms_size(value.len), put_size = forms_size(placeholder.len);
	CLEANUP(buf_release) struct buf mem = { .wipe = true };
	autobuf struct buf put = BUF_INIT;
	struct forms f = { 0 };
	int r;

	if (!buf_reserve(&mem, size) || !buf_reserve(&put, put_size))
		return -ENOMEM;
	mem.len = size;
	r = forms_make(&f, value.p, value.len, mem.data, size);
	for (size_t i = 0; i < f.n && r == 0; i++) {
		long n = forms_render(f.v[i].kind, placeholder.p, placeholder.len, put.data, put_size);

		r = add_scrub_form(set, &f.v[i], n >= 0 && (size_t)n == f.v[i].len ? put.data : NULL);
	}
	return r;
}

bool secret_scrubs(const struct exch *e)
{
	return e->secret && e->secret->scrubs;
}

int secret_scrub_fields(const struct scrub_set *set, struct http_fields *f)
{
	long r = 0;

	for (unsigned i = 0; i < f->n && r >= 0; i++) {
		r = scrub_whole(set, f->text.data + f->v[i].value, f->v[i].value_len);
		if (r >= 0 && f->v[i].name_len >= set->min)
			r = scrub_whole(set, f->text.data + f->v[i].name, f->v[i].name_len);
	}
	return r < 0 ? (int)r : 0;
}

bool secret_is_encoded(const struct http_fields *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		if (slice_eq_nocase(http_fields_name(f, i), "content-encoding") &&
		    http_fields_value(f, i).len && !slice_eq_nocase(http_fields_value(f, i), "identity"))
			return true;
	}
	return false;
}

/* From now on the server sends frames. NULL, or why they cannot be passed on. */
static const char *begin_websocket(struct exch *e)
{
	struct exch_secret *x = e->secret;

	/* None was offered, so it may be one that this process cannot read. */
	if (http_fields_has(&e->resp.fields, "sec-websocket-extensions"))
		return "the websocket's server chose an extension although none was offered, so its frames could "
		       "not be searched for the secret";
	scrub_ws_free(x->ws);
	x->ws = scrub_ws_new(&x->set);
	return x->ws ? NULL : "out of memory";
}

bool secret_head(struct exch *e)
{
	if (!secret_scrubs(e))
		return true;
	e->over_why = NULL;
	if (secret_scrub_fields(&e->secret->set, &e->resp.fields) < 0)
		e->over_why = "out of memory";
	else if (e->resp.status >= 200 && !e->resp.no_body && secret_is_encoded(&e->resp.fields))
		e->over_why =
			"the server encoded its response to a request with a secret although it was told not to, so it "
			"could not be searched for the secret";
	else if (e->resp.tunnel)
		e->over_why = begin_websocket(e);
	if (e->over_why)
		e->over = true;
	return !e->over_why;
}

int secret_put_down(struct exch *e, const void *data, size_t len)
{
	struct http_pipe *p = &e->down;
	const char *why = NULL;
	size_t before;
	int r;

	http_pipe_compact(p);
	before = p->b.len;
	if (e->secret->ws)
		r = scrub_ws_feed(e->secret->ws, data, len, &p->b, &why);
	else
		r = scrub_feed(&e->secret->down, data, len, false, &p->b);
	if (r < 0 && why) {
		e->over = true;
		e->over_why = why;
	}
	if (r == 0)
		p->total += p->b.len - before;
	return r;
}

void secret_forget_forms(struct exch_secret *x)
{
	scrub_release(&x->down);
	scrub_ws_free(x->ws);
	x->ws = NULL;
	if (x->set.text.data)
		scrub_set_release(&x->set);
	x->scrubs = false;
}

int secret_end_down(struct exch *e)
{
	struct exch_secret *x = e->secret;
	struct http_pipe *p = &e->down;
	size_t before;
	int r;

	if (!secret_scrubs(e))
		return 0;
	http_pipe_compact(p);
	before = p->b.len;
	r = x->ws ? scrub_ws_end(x->ws, &p->b) : scrub_feed(&x->down, NULL, 0, true, &p->b);
	if (r == 0)
		p->total += p->b.len - before;
	if (r == 0 && e->trailers)
		r = secret_scrub_fields(&x->set, e->trailers);
	if (r < 0 && e->trailers)
		http_fields_clear(e->trailers);
	secret_forget_forms(x);
	return r;
}

size_t secret_held(const struct exch *e)
{
	if (!secret_scrubs(e))
		return 0;
	return e->secret->ws ? scrub_ws_held(e->secret->ws) : scrub_held(&e->secret->down);
}
