/* SPDX-License-Identifier: Apache-2.0 */
/* The other way: what cofferd says to coffer-web. The first byte is how many descriptors came with it. */
#include "base/cleanup.h"
#include "web/wire/webproto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct webp_answer a;
	size_t fds = size ? data[0] % 4 : 0;
	bool takes_none;

	if (size < 1 || webp_answer_parse(data + 1, size - 1, fds, &a) < 0)
		return 0;
	takes_none = a.type == WEBP_ERROR || a.type == WEBP_EXIT || a.type == WEBP_OPEN || a.type == WEBP_END;
	if (a.magic != WEBP_MAGIC || strlen(a.code) >= sizeof(a.code) ||
	    strlen(a.message) >= sizeof(a.message) || strlen(a.hint) >= sizeof(a.hint) || fds > 2 ||
	    (takes_none && fds) || (a.type == WEBP_OUT && fds != 2) || a.type <= WEBP_STATS)
		abort();
	return 0;
}
