/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for new names, in one second of CPU time. Prints the number. */
#include "crypto/mint.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
	uint64_t now = (uint64_t)time(NULL), n = 0;
	struct err e = ERR_INIT;
	struct mint *m = NULL;
	clock_t end;

	if (mint_new(&m, "bench", now, 30, &e) < 0)
		return 1;
	for (end = clock() + CLOCKS_PER_SEC; clock() < end; n++) {
		char name[64];
		X509 *x = NULL;

		snprintf(name, sizeof(name), "h%llu.example.test", (unsigned long long)n);
		if (mint_leaf_name(m, name, now, &x, &e) < 0)
			return 1;
		X509_free(x);
	}
	printf("%llu\n", (unsigned long long)n);
	mint_free(m);
	return 0;
}
