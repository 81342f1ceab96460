/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's manifest, as it comes back from a disk that somebody may have changed. */
#include "codec/file/manifest.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_content(const struct manifest_reader *r, const struct manifest_ent *e)
{
	if (e->type == MANIFEST_FILE)
		BUG_ON(!e->hash || e->hash < r->data || e->hash + MANIFEST_HASH > r->data + r->len);
	if (e->type == MANIFEST_LINK)
		BUG_ON(!e->target || strlen(e->target) != e->size);
	BUG_ON(e->group && (e->type != MANIFEST_FILE || e->group > r->n_groups));
}

static void check_attrs(const struct manifest_reader *r, const struct manifest_ent *e)
{
	struct manifest_attr a;
	uint32_t off = 0;

	while (manifest_next_attr(e->attrs, e->attrs_len, &off, &a) > 0)
		BUG_ON(a.value + a.len > r->data + r->len || !*a.name);
	BUG_ON(off != e->attrs_len);
}

static void check(const struct manifest_reader *r, const struct manifest_ent *e)
{
	BUG_ON(strlen(e->name) > MANIFEST_NAME_MAX || strchr(e->name, '/'));
	BUG_ON(strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0);
	BUG_ON(e->mode & ~07777u || e->nsec > 999999999u || r->trees > MANIFEST_TREES_MAX);
	check_content(r, e);
	check_attrs(r, e);
}

static void add(struct buf *out, const struct manifest_reader *r, const struct manifest_ent *e)
{
	if (e->type == MANIFEST_TREE)
		manifest_add_tree(out, e->name);
	else if (e->type == MANIFEST_LEAVE)
		manifest_add_leave(out);
	else if (e->type == MANIFEST_END)
		manifest_add_end(out, r->entries);
	else
		manifest_add_ent(out, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf again = BUF_INIT;
	struct manifest_reader r;
	struct manifest_ent e;
	int n;

	if (manifest_open(&r, data, size) < 0)
		return 0;
	manifest_add_head(&again, &r.head);
	while ((n = manifest_next(&r, &e)) > 0) {
		check(&r, &e);
		add(&again, &r, &e);
		/* A manifest that was read is written the same way. */
		BUG_ON(again.len != r.off || memcmp(again.data, data, r.off) != 0);
	}
	BUG_ON(n == 0 && r.off != size);
	manifest_close(&r);
	return 0;
}
