/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of whatever form, some with somebody else's token in their body (\x01 stands for it, \x02 for a placeholder, each by
 * itself between blanks): it is found wherever it stands, and whatever else is there.
 */
#include "egress/credential/foreign_cred.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PH "ghp_AAAAbbbbCCCCddddEEEEffff11112222"
#define OTHER "ghp_Zq7xW3eR5tY8uI2oP4aS6dF9gH1jK0lM"

static struct vault_grants grants;

static void set_up(void)
{
	struct vault_grant *g = grants_add(&grants);
	struct err e = ERR_INIT;

	if (!g || binding_parse_host("a.test", 6, 0, &g->bindings[0], &e) < 0 ||
	    binding_parse_as("path", 4, &g->bindings[0], &e) < 0)
		abort();
	g->handle = 1;
	g->n_bindings = 1;
	snprintf(g->name, sizeof(g->name), "s");
	memcpy(g->placeholder, PH, sizeof(PH));
	g->placeholder_len = sizeof(PH) - 1;
}

static struct slice line(const uint8_t **data, size_t *size)
{
	const uint8_t *nl = *size ? memchr(*data, '\n', *size) : NULL;
	struct slice s = { (const char *)*data, nl ? (size_t)(nl - *data) : *size };

	*data += s.len + (nl != NULL);
	*size -= s.len + (nl != NULL);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct foreign_cred t = { .ours = &grants, .host = "a.test", .port = 443 };
	struct slice target = line(&data, &size), type = line(&data, &size), name = line(&data, &size);
	struct http_req *q = calloc(1, sizeof(*q));
	autobuf struct buf body = BUF_INIT;
	struct err e = ERR_INIT;
	bool has_other = false;

	if (!grants.n)
		set_up();
	for (size_t i = 0; i < size; i++) {
		has_other |= data[i] == 1;
		if (data[i] == 1 || data[i] == 2)
			buf_adds(&body, data[i] == 1 ? " " OTHER " " : " " PH " ");
		else
			buf_addc(&body, (char)data[i]);
	}
	if (q && urlpath_canon(target.p, target.len, URLPATH_KEEP_SLASH, &q->target, &q->url, &e) == 0 &&
	    http_fields_add(&q->fields, slice_of("content-type"), type) == 0 &&
	    http_fields_add(&q->fields, slice_of("x"), name) == 0) {
		q->has_body = true;
		(void)foreign_cred_in_head(&t, q);
		if (!foreign_cred_in_body(&t, q, (struct slice){ body.data, body.len }) && has_other)
			abort();
		if (memchr(t.what, 0, sizeof(t.what)) == NULL)
			abort();
	}
	if (q) {
		buf_release(&q->target);
		http_fields_release(&q->fields);
	}
	free(q);
	return 0;
}
