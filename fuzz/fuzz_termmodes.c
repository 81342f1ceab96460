/* SPDX-License-Identifier: Apache-2.0 */
/* For any output of a program, cut anywhere, the result is a few sequences that set modes, and sets the same
 * modes again. */
#include "codec/term/termmodes.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct termmodes t = TERMMODES_INIT, u = TERMMODES_INIT, v = TERMMODES_INIT;
	autobuf struct buf whole = BUF_INIT, cut = BUF_INIT, again = BUF_INIT;
	size_t at = size ? data[0] % size : 0;

	termmodes_feed(&t, data, size);
	termmodes_restore(&t, &whole);
	termmodes_feed(&u, data, at);
	termmodes_feed(&u, data + at, size - at);
	termmodes_restore(&u, &cut);
	BUG_ON(whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, cut.len) != 0));
	BUG_ON(whole.len > 512);
	for (size_t i = 0; i < whole.len; i++)
		BUG_ON(whole.data[i] != '\033' && !strchr("[?>=;0123456789hlmu", whole.data[i]));
	if (whole.len)
		termmodes_feed(&v, whole.data, whole.len);
	termmodes_restore(&v, &again);
	BUG_ON(whole.len != again.len || (whole.len && memcmp(whole.data, again.data, again.len) != 0));
	return 0;
}
