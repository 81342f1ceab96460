/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, makes and removes the directories of a run's layers (layers.h). A disk image is mounted in no place; it is reached
 * through its fd only.
 */
#include "sandbox/state/layers.h"

#include "base/cleanup.h"
#include "sys/loopfs.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int layers_open(int run_fd, struct err *e)
{
	int fd;

	if (faccessat(run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return loopfs_mount(run_fd, LAYERS_IMAGE, e);
	fd = fcntl(run_fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? err_sys(e, -errno, "cannot open the run's layers") : fd;
}

int layers_make_image(int run_fd, uint64_t bytes, uint64_t inodes, struct err *e)
{
	autoclose int fd = -1, tree = -1;
	/* Inodes take space in the image, and more than one for each block is never needed. */
	uint64_t most = bytes / 4096;
	int r = loopfs_make(run_fd, LAYERS_IMAGE, bytes, inodes < most ? inodes : most, e);

	if (r == 0) {
		fd = loopfs_mount(run_fd, LAYERS_IMAGE, e);
		r = fd < 0 ? fd : 0;
	}
	/* A kernel that cannot clone a detached mount cannot show it inside. */
	if (r == 0) {
		tree = mnt_tree(fd, "", false);
		r = tree < 0 ? err_sys(e, tree, "this kernel cannot hand on a disk image") : 0;
	}
	if (r < 0) {
		unlinkat(run_fd, LAYERS_IMAGE, 0);
		return r;
	}
	return TAKE_FD(fd);
}

int layers_open_upper(int run_fd, struct err *e)
{
	autoclose int layers = layers_open(run_fd, e);
	int fd;

	if (layers < 0)
		return layers;
	fd = openat(layers, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, -errno, "cannot open the run's layer") : fd;
}

/*
 * The entries that the kernel makes there for an overlay mounted `volatile`, innermost first. The directories have mode 0,
 * so their owner must chmod them to reach their content. On a file system mounted with `discard`, each removal waits for
 * the disk.
 */
static void drop_work_dir(int layers_fd, const char *work)
{
	static const char *const dirs[] = { "work", "work/incompat", "work/incompat/volatile" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", work, dirs[i]);
		(void)!fchmodat(layers_fd, path, 0700, 0);
	}
	snprintf(path, sizeof(path), "%s/work/incompat/volatile/dirty", work);
	(void)unlinkat(layers_fd, path, 0);
	for (size_t i = ARRAY_SIZE(dirs); i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", work, dirs[i]);
		(void)unlinkat(layers_fd, path, AT_REMOVEDIR);
	}
	(void)unlinkat(layers_fd, work, AT_REMOVEDIR);
}

void layers_drop_work(int layers_fd)
{
	drop_work_dir(layers_fd, "work");
}

void layers_drop_root_work(int layers_fd)
{
	drop_work_dir(layers_fd, LAYERS_ROOT_WORK);
}
