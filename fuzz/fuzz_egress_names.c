/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of names as an earlier process may have left it. An accepted table must be consistent: each name is found
 * by its address and each address by its name.
 */
#include "base/cleanup.h"
#include "egress/account/egress_names.h"

#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The counters are most of the file's head and nobody reads them: the input leaves them out. */
#define HEAD 32
#define RECORDS (HEAD + EGRESS_NAMES_COUNTERS * 16)

static void check(const struct egress_names *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		const struct egress_name *name = n->by_index[i];
		struct addr a = addr_from_v4(name->addr);
		struct host h = { .kind = HOST_NAME, .len = name->len };

		memcpy(h.text, name->text, name->len + 1u);
		BUG_ON(egress_names_at(n, &a) != name || egress_names_find(n, &h) != name ||
		       egress_names_index(n, name) != i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct addr_range r = { .base = addr_from_v4(11u << 24), .bits = 104 };
	static const uint8_t magic[8] = "CofName1";
	autoclose int fd = memfd_create("names", MFD_CLOEXEC);
	size_t head = size < HEAD - 8 ? size : HEAD - 8;
	const struct egress_name *added;
	struct host h = { .kind = HOST_NAME, .len = 8, .text = "new.test" };
	struct egress_names n;

	/* With the right magic in front, else nothing would ever be tried behind it. */
	BUG_ON(fd < 0 || ftruncate(fd, EGRESS_NAMES_FILE_SIZE) < 0 || pwrite(fd, magic, 8, 0) != 8 ||
	       pwrite(fd, data, head, 8) != (ssize_t)head ||
	       pwrite(fd, data + head, size - head, RECORDS) != (ssize_t)(size - head));
	if (egress_names_open(&n, fd, &r, 1, NULL) < 0)
		return 0;
	check(&n);
	if (egress_names_add(&n, &h, &added) == 0)
		check(&n);
	egress_names_close(&n);
	return 0;
}
