/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A settings file that anybody may have written, as JSON, TOML or plain text by its first byte: cleaning it ends, and what comes
 * out is clean: once more leaves nothing out.
 */
#include "base/cleanup.h"
#include "vault/client/settings.h"
#include "vault/common/shape.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "a.json", "a.toml", "a.md" };
	autobuf struct buf once = BUF_INIT, twice = BUF_INIT;
	struct shape_hit h;
	struct err e = ERR_INIT;
	size_t left_out = 0;
	const char *name;

	if (size < 1)
		return 0;
	name = names[data[0] % 3];
	if (settings_clean(name, (const char *)data + 1, size - 1, &once, &left_out, &e) < 0) {
		BUG_ON(!e.msg[0]);
		return 0;
	}
	if (name != names[2] && once.len && once.len < SETTINGS_FILE_MAX) {
		BUG_ON(settings_clean(name, once.data, once.len, &twice, &left_out, &e) < 0);
		BUG_ON(left_out != 0);
	}
	BUG_ON(name == names[2] && once.len && shape_find(once.data, once.len, 0, &h));
	return 0;
}
