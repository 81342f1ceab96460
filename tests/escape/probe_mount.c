/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts: new ones, moved ones, undone ones, by the old calls and the new, and leaving the root directory. */
#include "probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif

/* sys/mount.h and linux/mount.h cannot both be included with every glibc. */
static long do_mount(const char *src, const char *dst, const char *type, unsigned long flags,
		     const char *data)
{
	return syscall(SYS_mount, src, dst, type, flags, data);
}

static const char *spot(void)
{
	return in_control ? param("host_dir") : "/tmp";
}

static enum verdict p_mount_tmpfs(void)
{
	return judge(do_mount("tmpfs", spot(), "tmpfs", 0, NULL), "mounted a tmpfs");
}

static enum verdict p_mount_proc(void)
{
	return judge(do_mount("proc", spot(), "proc", 0, NULL), "mounted /proc anew");
}

static enum verdict p_mount_sysfs(void)
{
	return judge(do_mount("sysfs", spot(), "sysfs", 0, NULL), "mounted sysfs");
}

static enum verdict p_mount_devpts(void)
{
	return judge(do_mount("devpts", spot(), "devpts", 0, "newinstance"), "mounted devpts");
}

static enum verdict p_mount_mqueue(void)
{
	return judge_optional(do_mount("mqueue", spot(), "mqueue", 0, NULL), "mounted mqueue");
}

static enum verdict p_mount_cgroup(void)
{
	long r = do_mount("cgroup2", spot(), "cgroup2", 0, NULL);

	if (r < 0 && (errno == ENODEV || errno == EBUSY))
		r = do_mount("cgroup", spot(), "cgroup", 0, "none,name=coffer-probe");
	return judge_optional(r, "mounted a control group hierarchy");
}

static enum verdict p_mount_disk(void)
{
	char node[4096];

	if (!in_control)
		return judge(do_mount(param("disk"), "/tmp", param("disk_type"), MS_RDONLY, NULL),
			     "mounted the host's disk");
	if (access(param("disk"), F_OK) < 0)
		return not_here("the root file system is on no disk");
	/* The file system is mounted already, with the same flags: a second mount changes nothing on it. */
	if (do_mount(param("disk"), path_f(node, "%s", spot()), param("disk_type"), 0, NULL) < 0)
		return errno == EPERM ? held()
				      : not_here("the disk cannot be mounted twice (%s)", errno_name(errno));
	return broken("mounted the host's disk");
}

/* Of two directories below which nothing is mounted: the control would fail for that alone (on a machine with /etc/cofferdam, which
 * is hidden from the tests by a mount). */
static enum verdict p_mount_overlay(void)
{
	return judge_optional(do_mount("overlay", spot(), "overlay", 0, "lowerdir=/usr/bin:/usr/lib"),
			      "mounted an overlay");
}

static enum verdict p_mount_bind(void)
{
	return judge(do_mount("/proc", spot(), NULL, MS_BIND, NULL), "made a bind mount");
}

static enum verdict p_mount_propagation(void)
{
	return judge(do_mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL),
		     "changed the propagation of mounts");
}

static enum verdict p_mount_remount(void)
{
	return judge(do_mount(NULL, in_control ? "/" : "/usr", NULL, MS_REMOUNT | MS_BIND, NULL),
		     "remounted /usr");
}

static enum verdict p_mount_remount_proc(void)
{
	return judge(do_mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND, NULL), "remounted /proc");
}

static enum verdict p_mount_move(void)
{
	/* the control moves the /proc that was mounted for it */
	return judge(do_mount("/proc", spot(), NULL, MS_MOVE, NULL), "moved a mount");
}

static enum verdict p_umount_proc(void)
{
	return judge(syscall(SYS_umount2, "/proc", MNT_DETACH), "took /proc off");
}

/* Below a mask is what it masks. */
static enum verdict p_umount_masks(void)
{
	static const char *const masks[] = { "/proc/kcore", "/proc/keys",	   "/proc/timer_list",
					     "/proc/sys",   "/proc/sysrq-trigger", "/proc/acpi",
					     "/proc/scsi",  "/dev/null",	   "/sys/firmware",
					     "/etc/passwd" };

	if (in_control)
		return judge(syscall(SYS_umount2, "/proc", MNT_DETACH), "took a mask off");
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		if (syscall(SYS_umount2, masks[i], MNT_DETACH) == 0)
			return broken("took the mask off %s", masks[i]);
	}
	return held();
}

static enum verdict p_open_tree(void)
{
	return judge_optional(
		syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE),
		"made a detached copy of a mount");
}

static enum verdict p_fsopen(void)
{
	return judge_optional(syscall(SYS_fsopen, "tmpfs", 0), "opened a file system");
}

static enum verdict p_fspick(void)
{
	return judge_optional(syscall(SYS_fspick, AT_FDCWD, "/", 0), "picked a mounted file system");
}

static enum verdict p_move_mount(void)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 && !in_control)
		fd = open("/usr", O_PATH | O_CLOEXEC);
	return judge_optional(syscall(SYS_move_mount, fd, "", AT_FDCWD, spot(), MOVE_MOUNT_F_EMPTY_PATH),
			      "attached a mount");
}

static enum verdict p_mount_setattr(void)
{
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };

	return judge_optional(
		syscall(SYS_mount_setattr, AT_FDCWD, in_control ? "/" : "/usr", 0, &attr, sizeof(attr)),
		"made a mount writable");
}

static enum verdict p_pivot_root(void)
{
	const char *dir = spot();

	if (in_control && do_mount(dir, dir, NULL, MS_BIND, NULL) < 0)
		return probe_error("bind: %s", errno_name(errno));
	/* to itself: stacks the old root above the new one */
	if (chdir(dir) < 0)
		return held();
	return judge(syscall(SYS_pivot_root, ".", "."), "changed the root of the mount namespace");
}

static enum verdict p_chroot(void)
{
	return judge(syscall(SYS_chroot, spot()), "changed its root directory");
}

/* Leaves a root directory: a second chroot below it, then up from a directory that was kept open. */
static enum verdict p_fchdir_escape(void)
{
	const char *secret = param("secret_file");
	autoclose int kept = -1;

	param("secret");
	if (in_control && (syscall(SYS_chroot, ".") < 0 || chdir("/") < 0))
		return probe_error("the control's own chroot: %s", errno_name(errno));
	kept = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdir(in_control ? "/below" : "below", 0755);
	if (syscall(SYS_chroot, in_control ? "/below" : "below") < 0 || fchdir(kept) < 0)
		return held();
	for (int i = 0; i < 64; i++) {
		if (chdir("..") < 0)
			return held();
	}
	if (syscall(SYS_chroot, ".") < 0)
		return held();
	return read_secret(secret);
}

static enum verdict p_swapon(void)
{
	return judge_permission(syscall(SYS_swapon, "/nonexistent", 0), ENOENT, 0, "added swap");
}

const struct probe probes_mount[] = {
	{ "mount_tmpfs", p_mount_tmpfs, CTL_USERNS, PF_GRANTABLE },
	{ "mount_proc", p_mount_proc, CTL_USERNS, PF_GRANTABLE },
	{ "mount_sysfs", p_mount_sysfs, CTL_USERNS, PF_GRANTABLE },
	{ "mount_devpts", p_mount_devpts, CTL_USERNS, PF_GRANTABLE },
	{ "mount_mqueue", p_mount_mqueue, CTL_USERNS, PF_GRANTABLE },
	{ "mount_cgroup", p_mount_cgroup, CTL_ROOT_NS, PF_GRANTABLE },
	{ "mount_disk", p_mount_disk, CTL_ROOT_NS },
	{ "mount_overlay", p_mount_overlay, CTL_USERNS, PF_GRANTABLE },
	{ "mount_bind", p_mount_bind, CTL_USERNS, PF_GRANTABLE },
	{ "mount_propagation", p_mount_propagation, CTL_USERNS, PF_GRANTABLE },
	{ "mount_remount_usr", p_mount_remount, CTL_ROOT_NS },
	{ "mount_remount_proc", p_mount_remount_proc, CTL_ROOT_NS },
	{ "mount_move", p_mount_move, CTL_USERNS, PF_GRANTABLE },
	{ "umount_proc", p_umount_proc, CTL_USERNS, PF_GRANTABLE },
	{ "umount_masks", p_umount_masks, CTL_USERNS, PF_GRANTABLE },
	{ "open_tree_clone", p_open_tree, CTL_USERNS, PF_GRANTABLE },
	{ "fsopen", p_fsopen, CTL_USERNS, PF_GRANTABLE },
	{ "fspick", p_fspick, CTL_ROOT_NS, PF_GRANTABLE },
	{ "move_mount", p_move_mount, CTL_USERNS, PF_GRANTABLE },
	{ "mount_setattr", p_mount_setattr, CTL_ROOT_NS },
	{ "pivot_root", p_pivot_root, CTL_USERNS, PF_GRANTABLE },
	{ "chroot", p_chroot, CTL_USERNS, PF_GRANTABLE },
	{ "fchdir_escape", p_fchdir_escape, CTL_USERNS },
	{ "swapon", p_swapon, CTL_ROOT },
	{ 0 },
};
