/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of compiling a changed policy, to bytes and back (net_compiled.h). Pure: it must not open, read or write
 * a file. The bytes are hostile: each length is checked against its limit before it is added to another, and all
 * of them together must be exactly the whole.
 */
#include "netd/plan/net_compiled.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

void net_compiled_release(struct net_compiled *c)
{
	strv_release(&c->files);
	buf_release(&c->bytes);
	*c = NET_COMPILED_INIT;
}

const char *net_compiled_bundle(const struct net_compiled *c)
{
	return buf_cstr(&c->bytes) + c->bytes.len - c->bundle_len;
}

void net_compiled_begin(const struct net_compiled *c, struct buf *out)
{
	struct net_compiled_head h = { .outcome = c->outcome,
				       .n_files = (uint32_t)c->files.n,
				       .error_len = strlen(c->error),
				       .bundle_len = c->bundle_len };

	memcpy(h.magic, NET_COMPILED_MAGIC, sizeof(h.magic));
	for (size_t i = 0; i < c->files.n; i++)
		h.paths_len += strlen(c->files.v[i]) + 1;
	buf_add(out, &h, sizeof(h));
	for (size_t i = 0; i < c->files.n; i++)
		buf_add(out, c->files.v[i], strlen(c->files.v[i]) + 1);
	buf_adds(out, c->error);
}

static int refuse_compiled(struct err *e, const char *why)
{
	return err_set(e, -EBADMSG, "the process that compiles the policy gave no valid result: %s", why);
}

/* Each outcome has its own parts, and the parts are the whole. */
static int check_compiled_head(const struct net_compiled_head *h, size_t len, struct err *e)
{
	if (memcmp(h->magic, NET_COMPILED_MAGIC, sizeof(h->magic)) != 0)
		return refuse_compiled(e, "it does not begin as one");
	if (h->outcome >= NET_COMPILED_COUNT)
		return refuse_compiled(e, "its outcome is unknown");
	if (h->n_files > NET_COMPILED_FILES_MAX || h->paths_len > NET_COMPILED_PATHS_MAX ||
	    h->error_len > NET_COMPILED_ERROR_MAX || h->bundle_len > NET_COMPILED_BUNDLE_MAX)
		return refuse_compiled(e, "a part is too long");
	if (sizeof(*h) + h->paths_len + h->error_len + h->bundle_len != len)
		return refuse_compiled(e, "its length is wrong");
	if ((h->outcome == NET_COMPILED_BROKEN) != (h->error_len > 0) ||
	    (h->outcome == NET_COMPILED_NEW) != (h->bundle_len > 0) ||
	    (h->outcome == NET_COMPILED_BROKEN && h->paths_len > 0))
		return refuse_compiled(e, "its parts contradict its outcome");
	return 0;
}

static int take_paths(const char *p, size_t left, uint32_t n, struct strv *ret, struct err *e)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *end = memchr(p, '\0', left);
		size_t len = end ? (size_t)(end - p) : 0;

		if (!end || *p != '/' || len >= PATH_MAX)
			return refuse_compiled(e, "a path is invalid");
		if (strv_add(ret, p) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		p += len + 1;
		left -= len + 1;
	}
	return left ? refuse_compiled(e, "a path is missing") : 0;
}

/* Lines of an error stay lines; whatever else could steer a terminal is made visible. */
static int take_error(const char *p, size_t len, char ret[NET_COMPILED_ERROR_MAX + 1], struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	str_add_safe(&b, p, len, true);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	snprintf(ret, NET_COMPILED_ERROR_MAX + 1, "%s", buf_cstr(&b));
	return 0;
}

int net_compiled_parse(struct buf *bytes, struct net_compiled *ret, struct err *e)
{
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	struct net_compiled_head h;
	const char *p = buf_cstr(bytes);
	int r;

	if (bytes->len < sizeof(h))
		return refuse_compiled(e, "it is too short");
	memcpy(&h, p, sizeof(h));
	r = check_compiled_head(&h, bytes->len, e);
	if (r == 0)
		r = take_paths(p + sizeof(h), h.paths_len, h.n_files, &c.files, e);
	if (r == 0)
		r = take_error(p + sizeof(h) + h.paths_len, h.error_len, c.error, e);
	if (r < 0)
		return r;
	c.outcome = (enum net_compiled_outcome)h.outcome;
	c.bundle_len = h.bundle_len;
	c.bytes = *bytes;
	*bytes = BUF_INIT;
	*ret = c;
	c = NET_COMPILED_INIT;
	return 0;
}
