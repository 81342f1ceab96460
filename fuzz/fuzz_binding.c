/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two bindings as typed, "HOST[:PORT][/path] AS", and a path of a request. A binding that parses is good and reads back
 * the same; what both allow is never more than either (B4); a path is covered only below the prefix.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/http/urlpath.h"
#include "vault/common/binding.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool parse(const char *text, size_t len, unsigned flags, struct binding *b)
{
	const char *space = memchr(text, ' ', len);
	size_t host = space ? (size_t)(space - text) : len;
	struct err e = ERR_INIT;

	*b = (struct binding){ 0 };
	if (binding_parse_host(text, host, flags, b, &e) < 0) {
		BUG_ON(!e.msg[0]);
		return false;
	}
	if (space ? binding_parse_as(space + 1, len - host - 1, b, &e) < 0 : !(flags & BINDING_ASKED))
		return false;
	BUG_ON(!binding_is_good(b, flags));
	return true;
}

static void read_back(const struct binding *b)
{
	autobuf struct buf host = BUF_INIT, as = BUF_INIT;
	struct binding again = { 0 };

	buf_addf(&host, strchr(b->host, ':') ? "[%s]:%u%s" : "%s:%u%s", b->host, b->port, b->path);
	binding_describe_as(b, &as);
	BUG_ON(binding_parse_host(host.data, host.len, BINDING_ADDRESS, &again, NULL) < 0);
	BUG_ON(binding_parse_as(as.data, as.len, &again, NULL) < 0);
	BUG_ON(!binding_eq(b, &again));
}

static void covered(const struct binding *own, struct slice path)
{
	size_t n = strlen(own->path);

	BUG_ON(!str_eq(own->path, "/") && (path.len < n || memcmp(path.p, own->path, n) != 0));
	BUG_ON(binding_covers(own, "other.example.com", own->port, path) &&
	       !str_eq(own->host, "other.example.com"));
	BUG_ON(binding_covers(own, own->host, (uint16_t)(own->port + 1), path));
}

static void request(const struct binding *own, const struct binding *ask, const char *target, size_t len)
{
	autobuf struct buf out = BUF_INIT;
	struct binding both;
	struct urlpath p;
	struct slice path;
	bool met = binding_meet(own, ask, &both);

	BUG_ON(met && !binding_is_good(&both, 0));
	if (urlpath_canon(target, len, URLPATH_KEEP_SLASH, &out, &p, NULL) < 0)
		return;
	path = urlpath_path(&out, &p);
	if (binding_covers(own, own->host, own->port, path))
		covered(own, path);
	if (!met || !binding_covers(&both, both.host, both.port, path))
		return;
	BUG_ON(!binding_covers(own, both.host, both.port, path));
	both = *ask;
	both.port = ask->port ? ask->port : own->port;
	BUG_ON(!binding_covers(&both, own->host, own->port, path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = text + size;
	const char *nl = memchr(text, '\n', size),
		   *nl2 = nl ? memchr(nl + 1, '\n', (size_t)(end - nl - 1)) : NULL;
	struct binding own, ask;

	if (!parse(text, nl ? (size_t)(nl - text) : size, BINDING_ADDRESS, &own))
		return 0;
	read_back(&own);
	if (!nl || !nl2 || !parse(nl + 1, (size_t)(nl2 - nl - 1), BINDING_ADDRESS | BINDING_ASKED, &ask))
		return 0;
	request(&own, &ask, nl2 + 1, (size_t)(end - nl2 - 1));
	return 0;
}
