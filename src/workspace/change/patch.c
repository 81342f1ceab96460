/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows one change with its content as a unified diff, for the user to read before it is applied. Output is bounded and made
 * harmless for a terminal. No symlink is followed.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "workspace/change/changes.h"
#include "workspace/change/textdiff.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>

#define PATCH_FILE_MAX (1 << 20)

/* The content of a file, or the target of a symlink; empty for anything else. */
static int read_patch_side(int dir, const char *name, mode_t mode, bool upper, struct buf *ret)
{
	autoclose int fd = -1;

	if (dir < 0)
		return dir;
	if (S_ISLNK(mode)) {
		int r = layer_read_link(dir, name, ret);

		buf_addc(ret, '\n');
		return r;
	}
	if (upper)
		fd = layer_open_file(dir, name);
	else
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return upper ? fd : -errno;
	return fd_read_all(fd, PATCH_FILE_MAX, ret);
}

static bool has_patch_content(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

int workspace_patch(int upper_fd, struct base base, const struct change *c, struct buf *out)
{
	autobuf struct buf before = BUF_INIT, after = BUF_INIT;
	autoclose int lo = -1, up = -1;
	const char *name;
	struct stat st;
	int r = 0;

	if (has_patch_content(c->mode_before)) {
		lo = workspace_open_parent(base, c->path, &name, &st);
		r = read_patch_side(lo, name, c->mode_before, false, &before);
	}
	if (r == 0 && has_patch_content(c->mode_after)) {
		up = layer_open_parent(upper_fd, c->path, &name);
		r = read_patch_side(up, name, c->mode_after, true, &after);
	}
	if (r == -EFBIG) {
		buf_adds(out, "(too long to show)\n");
		return 0;
	}
	if (r < 0)
		return r;
	if (!textdiff_is_text(buf_cstr(&before), before.len) ||
	    !textdiff_is_text(buf_cstr(&after), after.len)) {
		buf_adds(out, "(not text)\n");
		return 0;
	}
	return textdiff(buf_cstr(&before), before.len, buf_cstr(&after), after.len, out);
}
