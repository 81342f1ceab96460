/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a private key: what parses has parts within its own memory, and a public key that a server could have. Also any
 * bytes as what stands within the text, for each form. */
#include "sshtest.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_inside(const struct sshkey *k, struct slice s)
{
	BUG_ON(s.len &&
	       ((const uint8_t *)s.p < k->mem.p || (const uint8_t *)s.p + s.len > k->mem.p + k->mem.len));
}

static void parse(const void *text, size_t len)
{
	CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;
	struct err e = ERR_INIT;

	if (sshkey_parse(text, len, &k, &e) < 0) {
		BUG_ON(!e.code || !*e.msg);
		return;
	}
	is_inside(&k, k.seed);
	is_inside(&k, k.d);
	is_inside(&k, k.q);
	is_inside(&k, k.n);
	is_inside(&k, k.e);
	BUG_ON(!sshhosts_is_key(sshtest_slice(k.blob, k.blob_len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const labels[] = { "OPENSSH PRIVATE KEY", "PRIVATE KEY", "RSA PRIVATE KEY",
					      "EC PRIVATE KEY" };
	static bool begun;
	char base64[12000], text[12200];

	if (size > 8000)
		return 0;
	if (!begun)
		BUG_ON(secmem_begin(NULL) < 0);
	begun = true;
	parse(data, size);
	if (size < 2)
		return 0;
	sodium_bin2base64(base64, sizeof(base64), data + 1, size - 1, sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, sizeof(text), "-----BEGIN %s-----\n%s\n-----END %s-----\n", labels[data[0] & 3],
		 base64, labels[data[0] & 3]);
	parse(text, strlen(text));
	return 0;
}
