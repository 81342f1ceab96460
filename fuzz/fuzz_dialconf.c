/* SPDX-License-Identifier: Apache-2.0 */
/* Files that coffer-dial is handed as text: resolv.conf, and the proxies' credentials. The first byte says which. */
#include "dial/connect/resolve.h"
#include "dial/proxy/proxy_credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolve_server s[RESOLVE_SERVERS_MAX];
	const char *text = (const char *)data + 1;
	struct slice user, password;

	if (size == 0)
		return 0;
	size--;
	if (data[0] % 2) {
		BUG_ON(resolver_read_conf(text, size, s) > RESOLVE_SERVERS_MAX);
		return 0;
	}
	if (proxy_credentials_check(text, size) != 0)
		return 0;
	for (size_t i = 0; i < 3; i++) {
		if (proxy_credentials_find(text, size, "p", i, &user, &password))
			BUG_ON(!user.len || user.len > PROXY_CREDENTIAL_MAX || !password.len ||
			       password.len > PROXY_CREDENTIAL_MAX);
	}
	return 0;
}
