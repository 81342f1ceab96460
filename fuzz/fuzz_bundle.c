/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle as bytes: the head is made right, so that what is behind the digest is read. */
#include "policy/bundle.h"

#include "base/cleanup.h"
#include "crypto/hash.h"
#include "policy/explain.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct policy *p)
{
	static const char *const targets[] = { "a.example.com:443", "github.com:443", "8.8.8.8:53",
					       "10.0.0.1:443" };

	for (size_t i = 0; i < 4; i++) {
		autobuf struct buf out = BUF_INIT;
		struct policy_request r = { .method = slice_of("GET"), .path = slice_of("/a/b") };
		struct policy_target t = { 0 };
		struct policy_verdict v;
		struct host h;

		BUG_ON(host_port_parse(targets[i], strlen(targets[i]), 0, &h, &t.port, NULL) < 0);
		t.name = &h;
		policy_explain(p, &t, &r, &out, &v);
		BUG_ON(i == 3 && policy_allows(&v));
		if (h.kind == HOST_NAME)
			policy_name(p, &h, &v);
		policy_address(p, &t, &(struct addr){ .b = { [15] = 1 } }, &v);
		BUG_ON(policy_allows(&v) && !v.terms.has_pin);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(policy_freep) struct policy *p = NULL;
	autofree char *bundle = malloc(sizeof(struct bundle_head) + size);
	struct bundle_head h = { .version = htole32(BUNDLE_VERSION), .body_len = htole64(size) };
	autobuf struct buf again = BUF_INIT;

	memcpy(h.magic, BUNDLE_MAGIC, sizeof(h.magic));
	hash_blake_once(data, size, h.digest);
	memcpy(bundle, &h, sizeof(h));
	memcpy(bundle + sizeof(h), data, size);
	if (policy_unpack(bundle, sizeof(h) + size, &p, NULL) < 0)
		return 0;
	BUG_ON(policy_pack(p, &again, NULL) < 0);
	BUG_ON(again.len != sizeof(h) + size || memcmp(again.data, bundle, again.len) != 0);
	ask(p);
	return 0;
}
