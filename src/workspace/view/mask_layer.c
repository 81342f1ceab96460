/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks for an original with a copied layer over it: entries to hide in either, as far as they are visible.
 *
 * A mask of the original stays even if the layer has another file in its place: a name is hidden whoever wrote the file. It
 * is dropped only where nothing of that name is visible any more, or only an entry without content.
 */
#include "base/buf.h"
#include "workspace/tree/owner.h"
#include "workspace/view/mask.h"

#include <errno.h>
#include <string.h>

struct search_both {
	struct base base;
	const char *path;
	const struct strv *show;
	const struct mask *masks; /* the original's */
	size_t n;
};

/* Packs one mask for the way from the child that may read the layer. */
struct head {
	uint32_t path_len, content_len;
	bool is_dir, has_content;
};

static void pack_mask(struct buf *out, const struct mask *m, bool is_dir)
{
	struct head h = { .path_len = (uint32_t)strlen(m->path),
			  .content_len = (uint32_t)m->content_len,
			  .is_dir = is_dir,
			  .has_content = m->content && !is_dir };

	buf_add(out, &h, sizeof(h));
	buf_add(out, m->path, h.path_len);
	if (h.has_content)
		buf_add(out, m->content, h.content_len);
}

/* Is there still an entry to hide at the original's mask? *ret_dir: it is a directory. */
static int mask_is_seen(struct base b, const struct mask *m, bool *ret_dir)
{
	const char *name;
	struct stat st = { 0 };
	int fd = workspace_open_parent(b, m->path, &name, &st);

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd < 0)
		return fd;
	fd_close(fd);
	*ret_dir = S_ISDIR(st.st_mode);
	return !S_ISLNK(st.st_mode);
}

static int search_copied_layer(void *ctx, struct buf *out, struct err *e)
{
	const struct search_both *s = ctx;
	struct mask *found = NULL;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < s->n; i++) {
		bool is_dir = s->masks[i].is_dir;

		r = mask_is_seen(s->base, &s->masks[i], &is_dir);
		if (r < 0)
			return err_sys(e, r, "cannot look for %s in the copied layer", s->masks[i].path);
		if (r > 0)
			pack_mask(out, &s->masks[i], is_dir);
	}
	r = mask_search(s->base.layer, s->show, s->path, &found, &n, e);
	for (size_t i = 0; r == 0 && i < n; i++)
		pack_mask(out, &found[i], found[i].is_dir);
	masks_free(r == 0 ? found : NULL, r == 0 ? n : 0);
	return r;
}

/* Unpacks the next mask; the bytes come from our own child. */
static int unpack_mask(const struct buf *b, size_t *at, struct mask *ret)
{
	struct head h;

	memcpy(&h, b->data + *at, sizeof(h));
	*at += sizeof(h);
	*ret = (struct mask){ .path = strndup(b->data + *at, h.path_len), .is_dir = h.is_dir };
	*at += h.path_len;
	if (!ret->path)
		return -ENOMEM;
	if (!h.has_content)
		return 0;
	ret->content = malloc((size_t)h.content_len + 1);
	if (!ret->content)
		return -ENOMEM;
	memcpy(ret->content, b->data + *at, h.content_len);
	ret->content_len = h.content_len;
	*at += h.content_len;
	return 0;
}

static size_t count_packed_masks(const struct buf *b)
{
	size_t n = 0;

	for (size_t at = 0; at < b->len; n++) {
		struct head h;

		memcpy(&h, b->data + at, sizeof(h));
		at += sizeof(h) + h.path_len + (h.has_content ? h.content_len : 0);
	}
	return n;
}

int workspace_merge_masks(struct base base, const char *path, const struct strv *show, bool mapped,
			  struct mask **masks, size_t *n_masks, struct err *e)
{
	struct search_both s = { base, path ? path : "", show, *masks, *n_masks };
	autobuf struct buf out = BUF_INIT;
	struct mask *v;
	size_t n, at = 0;
	int r = owner_call(mapped, search_copied_layer, &s, &out, e);

	if (r == 0 && buf_error(&out))
		r = err_set(e, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	n = count_packed_masks(&out);
	v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; v && i < n && r == 0; i++)
		r = unpack_mask(&out, &at, &v[i]);
	if (!v || r < 0) {
		masks_free(v, v ? n : 0);
		return err_set(e, -ENOMEM, "out of memory");
	}
	masks_tidy(v, &n);
	if (n > WORKSPACE_MASKS_MAX) {
		masks_free(v, n);
		return err_set(e, -E2BIG, "more than %d files in the workspace look like credentials",
			       WORKSPACE_MASKS_MAX);
	}
	masks_free(*masks, *n_masks);
	*masks = v;
	*n_masks = n;
	return 0;
}
