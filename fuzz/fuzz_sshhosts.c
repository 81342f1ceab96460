/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a known_hosts file and as packed keys: what is taken is good, and is written and read back the same. */
#include "base/cleanup.h"
#include "vault/ssh/sshhosts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sshhosts *h)
{
	autobuf struct buf packed = BUF_INIT, text = BUF_INIT;
	autosshhosts struct sshhosts again = SSHHOSTS_INIT;

	for (size_t i = 0; i < h->n; i++)
		BUG_ON(!sshhosts_is_key((struct slice){ (const char *)h->v[i].key, h->v[i].len }));
	BUG_ON(sshhosts_pack(h, &packed) < 0 || sshhosts_unpack(&again, packed.data, packed.len) < 0 ||
	       again.n != h->n);
	sshhosts_text(h, &text);
	sshhosts_release(&again);
	for (size_t i = 0; i < h->n; i++)
		BUG_ON(sshhosts_add_file(&again, h->v[i].host, h->v[i].port,
					 (struct slice){ buf_cstr(&text), text.len }, NULL) < 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autosshhosts struct sshhosts h = SSHHOSTS_INIT, p = SSHHOSTS_INIT;

	if (size > 20000)
		return 0;
	(void)!sshhosts_add_file(&h, "git.example.com", 22, (struct slice){ (const char *)data, size }, NULL);
	(void)!sshhosts_add_file(&h, "git.example.com", 2222, (struct slice){ (const char *)data, size },
				 NULL);
	check(&h);
	if (sshhosts_unpack(&p, data, size) == 0)
		check(&p);
	return 0;
}
