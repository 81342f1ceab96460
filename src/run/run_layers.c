/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making or reopening the writable layers of a run, for each of its origins. See run_layers.h. Layers that
 * change the spec must be filled before the sandbox's first process is spawned.
 */
#include "run/run_layers.h"

#include "base/fd.h"
#include "sandbox/state/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Opens the place of the layers. For the host's root it is a disk image where a limit was named, and the kernel enforces
 * the limit; in all other cases it is the run's directory, and the launcher watches how much is written.
 */
static int open_layers_place(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	const struct limit *disk = &s->limits.l[LIMIT_DISK], *inodes = &s->limits.l[LIMIT_INODES];

	if (s->ids.host_root && (disk->named || inodes->named) && disk->value != LIMIT_NONE) {
		struct err why = ERR_INIT;

		s->layers_fd = layers_make_image(s->run_fd, disk->value, inodes->value, &why);
		if (s->layers_fd >= 0)
			return 0;
		snprintf(r->disk_watched, sizeof(r->disk_watched), "%.255s", why.msg);
	}
	s->layers_fd = layers_open(s->run_fd, e);
	return s->layers_fd < 0 ? s->layers_fd : 0;
}

/* The merged directory gets the mode and owner of the upper layer, so that is made with those of the original. */
static int make_upper(const struct spec *s, const char *name, const struct stat *st, struct err *e)
{
	mode_t mode = st->st_mode & 0777;

	if (mkdirat(s->layers_fd, name, mode) < 0 ||
	    ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	     fchownat(s->layers_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	     s->ids.host_root) ||
	    fchmodat(s->layers_fd, name, mode, 0) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	return 0;
}

/* Opens the layers of a run that is started again. Its upper layers have all that it wrote; the overlay's work directories
 * are made anew. */
static int reopen_layers(struct spec *s, struct err *e)
{
	static const char *const works[] = { "work", "root-work" };
	int ret;

	/* The root file system may have a layer where the workspace has none. */
	if (s->ws_mode != WS_OVERLAY && s->ws_mode != WS_EPHEMERAL &&
	    faccessat(s->run_fd, "root-upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    faccessat(s->run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	s->layers_fd = layers_open(s->run_fd, e);
	if (s->layers_fd < 0)
		return s->layers_fd;
	/* An ephemeral workspace was wiped at the end of the last start, and begins empty again. */
	if (s->ws_mode == WS_EPHEMERAL && faccessat(s->layers_fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		ret = make_upper(s, "upper",
				 &(struct stat){ .st_mode = 0755,
						 .st_uid = s->ids.host_root ? s->uid : geteuid(),
						 .st_gid = s->ids.host_root ? s->gid : getegid() },
				 e);
		if (ret < 0)
			return ret;
	}
	for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
		bool wanted = i == 0 ? s->ws_mode == WS_OVERLAY
				     : faccessat(s->layers_fd, "root-upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0;

		ret = fd_rm_rf(s->layers_fd, works[i], e);
		if (ret < 0)
			return ret;
		if (wanted && mkdirat(s->layers_fd, works[i], 0700) < 0)
			return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	}
	return 0;
}

static int make_root_layer(const struct spec *s, struct err *e)
{
	struct stat st;
	int ret;

	if (fstat(s->lowers[0].fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", s->lowers[0].path);
	ret = make_upper(s, LAYERS_ROOT_UPPER, &st, e);
	if (ret == 0 && mkdirat(s->layers_fd, LAYERS_ROOT_WORK, 0700) < 0)
		ret = err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	return ret;
}

static int make_layers(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	struct stat st = { .st_mode = 0755, .st_uid = geteuid(), .st_gid = getegid() };
	int ret;

	if (!spec_needs_layers(s))
		return 0;
	if (s->ws_fd >= 0 && fstat(s->ws_fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", s->ws_path);
	if (s->ws_mode == WS_EPHEMERAL && s->ids.host_root) {
		st.st_uid = s->uid;
		st.st_gid = s->gid;
	}
	ret = open_layers_place(r, e);
	if (ret == 0 && (s->ws_mode == WS_OVERLAY || s->ws_mode == WS_EPHEMERAL))
		ret = make_upper(s, "upper", &st, e);
	if (ret == 0 && s->ws_mode == WS_OVERLAY)
		ret = mkdirat(s->layers_fd, "work", 0700) < 0
			      ? err_sys(e, -errno, "cannot make a layer in %s", s->run_path)
			      : 0;
	if (ret == 0 && spec_has_root_layer(s))
		ret = make_root_layer(s, e);
	return ret;
}

int run_layers_begin(struct run *r, struct err *e)
{
	int ret;

	switch (r->origin.kind) {
	case RUN_NEW:
	case RUN_GIVEN:
		return 0;
	case RUN_COPIED:
		ret = make_layers(r, e);
		if (ret == 0)
			ret = r->origin.fill(r->origin.ctx, r, e);
		run_origin_close(&r->origin);
		return ret;
	case RUN_RESUMED:
		return reopen_layers(r->spec, e);
	}
	BUG("no such origin of a run");
}

int run_layers_complete(struct run *r, struct err *e)
{
	/* One that is resumed may have lost a layer that its end removed: that is made again, empty. */
	int ret = r->spec->layers_fd < 0 ? make_layers(r, e) : 0;

	return ret == 0 && r->origin.kind == RUN_GIVEN ? r->origin.fill(r->origin.ctx, r, e) : ret;
}

int run_layers_watched(const struct spec *s, const char *name)
{
	const char *how = s->limits.l[LIMIT_DISK].how;

	if (s->layers_fd < 0 || !how || !str_eq(how, "watched"))
		return -1;
	return openat(s->layers_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}
