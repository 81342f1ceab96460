/* SPDX-License-Identifier: Apache-2.0 */
/* Two texts, separated by the first NUL: their difference must come to an end, and be empty only for equal ones. */
#include "base/cleanup.h"
#include "workspace/change/textdiff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *a = (const char *)data;
	const char *sep = size ? memchr(a, '\0', size) : NULL;
	size_t a_len = sep ? (size_t)(sep - a) : size, b_len = sep ? size - a_len - 1 : 0;
	const char *b = sep ? sep + 1 : "";
	autobuf struct buf out = BUF_INIT;

	if (textdiff(a_len ? a : "", a_len, b, b_len, &out) < 0)
		abort();
	BUG_ON((a_len == b_len && memcmp(a_len ? a : "", b, a_len) == 0) != (out.len == 0));
	/* Nothing but lines and tabs may reach a terminal as a control. */
	for (size_t i = 0; i < out.len; i++)
		BUG_ON((unsigned char)out.data[i] < 0x20 && out.data[i] != '\n' && out.data[i] != '\t');
	return 0;
}
