/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds that the user made with -v. Read-only means read-only; on a read-write bind the files are the host's, so
 * that nothing may be left there which gives its next user more than he has: no setuid bit, file capability,
 * device or foreign owner. Inside, binds are at /ro, /rw, /nest and /nest-in; the world's parameters say
 * where they are.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static enum verdict p_ro_create(void)
{
	char path[4096];

	return judge(open(path_f(path, "%s/made", param("ro")), O_CREAT | O_WRONLY | O_CLOEXEC, 0644),
		     "made a file in a read-only bind");
}

static enum verdict p_ro_write(void)
{
	char path[4096];

	return judge(write_small(path_f(path, "%s/file.txt", param("ro")), "x"), "wrote to a read-only bind");
}

static enum verdict p_ro_chmod(void)
{
	char path[4096];

	return judge(chmod(path_f(path, "%s/file.txt", param("ro")), 0600),
		     "changed a mode in a read-only bind");
}

static enum verdict p_ro_link_out(void)
{
	char path[4096];

	return read_secret(path_f(path, "%s/link-rel", param("ro")));
}

static enum verdict p_ro_dotdot(void)
{
	char path[4096];

	return read_secret(path_f(path, "%s/../host/secret.txt", param("ro")));
}

static enum verdict p_rw_dotdot(void)
{
	char path[4096];

	return read_secret(path_f(path, "%s/../host/secret.txt", param("rw")));
}

/*
 * Two binds, one below the other: a directory moved out of the inner one through the outer one has no way up
 * within its mount, and ".." from it must not find the host's tree instead.
 */
static enum verdict p_nest_rename_escape(void)
{
	char inner[4096], moved[4096], away[4096];

	path_f(inner, "%s/c", param("nest_in"));
	path_f(moved, "%s/in/c", param("nest"));
	path_f(away, "%s/c", param("nest"));
	if ((mkdir(inner, 0755) < 0 && errno != EEXIST) || chdir(inner) < 0 || rename(moved, away) < 0)
		return held();
	return read_secret("../../host/secret.txt");
}

/* An ordinary file in the read-write bind, in its path buffer; false when that fails. */
static bool rw_file(char path[4096], const char *name)
{
	path_f(path, "%s/%s", param("rw"), name);
	unlink(path);
	return close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755)) == 0;
}

static enum verdict has_suid(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return held();
	if (st.st_mode & (S_ISUID | S_ISGID))
		return broken("left %s with mode %o", strrchr(path, '/') + 1, st.st_mode & 07777u);
	return held_for("the bit was taken off");
}

static enum verdict p_suid_chmod(void)
{
	char path[4096];

	if (!rw_file(path, "suid-chmod") || chmod(path, 04755) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_sgid_chmod(void)
{
	char path[4096];

	if (!rw_file(path, "sgid-chmod") || chmod(path, 02755) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_fchmod(void)
{
	char path[4096];
	autoclose int fd = -1;

	if (!rw_file(path, "suid-fchmod"))
		return held();
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fchmod(fd, 04755) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_fchmodat(void)
{
	char path[4096];

	if (!rw_file(path, "suid-fchmodat") || syscall(SYS_fchmodat, AT_FDCWD, path, 04755) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_fchmodat2(void)
{
	char path[4096];

	if (!rw_file(path, "suid-fchmodat2"))
		return held();
	if (syscall(SYS_fchmodat2, AT_FDCWD, path, 04755, 0) < 0)
		return in_control && errno == ENOSYS ? not_here("this kernel has no fchmodat2") : held();
	return has_suid(path);
}

/* The kernel reads 32 bits of the mode: what stands above them must not fool a filter. */
static enum verdict p_suid_high_bits(void)
{
	char path[4096];

	if (!rw_file(path, "suid-high") || syscall(SYS_chmod, path, 0xffffffff00000000UL | 04755) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_open(void)
{
	char path[4096];

	path_f(path, "%s/suid-open", param("rw"));
	unlink(path);
	if (close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 04755)) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_creat(void)
{
	char path[4096];

	path_f(path, "%s/suid-creat", param("rw"));
	unlink(path);
	if (close((int)syscall(SYS_creat, path, 04755)) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_openat2(void)
{
	struct open_how how = { .flags = O_CREAT | O_WRONLY | O_CLOEXEC, .mode = 04755 };
	char path[4096];

	path_f(path, "%s/suid-openat2", param("rw"));
	unlink(path);
	if (close((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how))) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_mknod(void)
{
	char path[4096];

	path_f(path, "%s/suid-mknod", param("rw"));
	unlink(path);
	if (mknod(path, S_IFREG | 04755, 0) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_suid_tmpfile(void)
{
	char path[4096], from[64];
	autoclose int fd = open(param("rw"), O_TMPFILE | O_RDWR | O_CLOEXEC, 04755);

	if (fd < 0)
		return held();
	path_f(path, "%s/suid-tmpfile", param("rw"));
	unlink(path);
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return held();
	return has_suid(path);
}

static enum verdict p_rw_file_capability(void)
{
	/* VFS_CAP_REVISION_2, effective, cap_net_raw */
	static const unsigned cap[5] = { 0x02000001, 1u << CAP_NET_RAW, 0, 0, 0 };
	char path[4096];

	if (!rw_file(path, "fcap"))
		return held();
	return judge(setxattr(path, "security.capability", cap, sizeof(cap), 0), "gave a file a capability");
}

static enum verdict p_rw_chown(void)
{
	char path[4096];

	if (!rw_file(path, "chown"))
		return held();
	return judge(chown(path, getuid() + 1, (gid_t)-1), "gave a file to another user");
}

static enum verdict p_rw_device(void)
{
	char path[4096];

	path_f(path, "%s/node", param("rw"));
	unlink(path);
	return judge(mknod(path, S_IFCHR | 0666, makedev(1, 8)), "made a device node on the host");
}

static enum verdict p_rw_immutable(void)
{
	char path[4096];
	int flags = 0, fd;

	if (!rw_file(path, "immutable"))
		return held();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return in_control ? not_here("no file flags here") : held();
	flags |= FS_IMMUTABLE_FL;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
		return held();
	flags &= ~FS_IMMUTABLE_FL;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
	return broken("made a file of the host immutable");
}

static enum verdict p_ro_remount(void)
{
	if (mount(NULL, in_control ? "/" : param("ro"), NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
		return held();
	return broken("remounted a read-only bind");
}

const struct probe probes_bind[] = {
	{ "ro_create", p_ro_create, CTL_SAME },
	{ "ro_write", p_ro_write, CTL_SAME },
	{ "ro_chmod", p_ro_chmod, CTL_SAME },
	{ "ro_remount", p_ro_remount, CTL_ROOT_NS },
	{ "ro_link_out", p_ro_link_out, CTL_SAME },
	{ "ro_dotdot", p_ro_dotdot, CTL_SAME },
	{ "rw_dotdot", p_rw_dotdot, CTL_SAME },
	{ "nest_rename_escape", p_nest_rename_escape, CTL_SAME },
	{ "suid_chmod", p_suid_chmod, CTL_SAME },
	{ "sgid_chmod", p_sgid_chmod, CTL_SAME },
	{ "suid_fchmod", p_suid_fchmod, CTL_SAME },
	{ "suid_fchmodat", p_suid_fchmodat, CTL_SAME },
	{ "suid_fchmodat2", p_suid_fchmodat2, CTL_SAME },
	{ "suid_high_bits", p_suid_high_bits, CTL_SAME },
	{ "suid_open", p_suid_open, CTL_SAME },
	{ "suid_creat", p_suid_creat, CTL_SAME },
	{ "suid_openat2", p_suid_openat2, CTL_SAME },
	{ "suid_mknod", p_suid_mknod, CTL_SAME },
	{ "suid_tmpfile", p_suid_tmpfile, CTL_SAME },
	{ "rw_file_capability", p_rw_file_capability, CTL_ROOT, PF_GRANTABLE, CAP_SETFCAP },
	{ "rw_chown", p_rw_chown, CTL_ROOT, PF_GRANTABLE },
	{ "rw_device", p_rw_device, CTL_ROOT, 0, CAP_MKNOD },
	{ "rw_immutable", p_rw_immutable, CTL_ROOT, 0, CAP_LINUX_IMMUTABLE },
	{ 0 },
};
