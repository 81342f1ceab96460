/* SPDX-License-Identifier: Apache-2.0 */
/* /proc and /sys as the kernel's switchboard: what can be written, and what tells of the host. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Opening for writing is the permission; nothing is written. */
static enum verdict opens_for_writing(const char *path)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && in_control && errno == ENOENT)
		return not_here("this kernel has no %s", path);
	return fd >= 0 ? broken("opened %s for writing", path) : held();
}

#define OPENS_FOR_WRITING(name, path)           \
	static enum verdict name(void)          \
	{                                       \
		return opens_for_writing(path); \
	}

OPENS_FOR_WRITING(p_core_pattern, "/proc/sys/kernel/core_pattern")
OPENS_FOR_WRITING(p_modprobe, "/proc/sys/kernel/modprobe")
OPENS_FOR_WRITING(p_poweroff_cmd, "/proc/sys/kernel/poweroff_cmd")
OPENS_FOR_WRITING(p_sysctl_hostname, "/proc/sys/kernel/hostname")
OPENS_FOR_WRITING(p_sysctl_shm, "/proc/sys/kernel/shmmax")
OPENS_FOR_WRITING(p_sysctl_ns_last_pid, "/proc/sys/kernel/ns_last_pid")
OPENS_FOR_WRITING(p_sysctl_forward, "/proc/sys/net/ipv4/ip_forward")
OPENS_FOR_WRITING(p_sysctl_vm, "/proc/sys/vm/drop_caches")
OPENS_FOR_WRITING(p_sysctl_userns, "/proc/sys/user/max_user_namespaces")
OPENS_FOR_WRITING(p_sysrq, "/proc/sysrq-trigger")
OPENS_FOR_WRITING(p_uevent_helper, "/sys/kernel/uevent_helper")
OPENS_FOR_WRITING(p_power_state, "/sys/power/state")
OPENS_FOR_WRITING(p_thp, "/sys/kernel/mm/transparent_hugepage/enabled")
OPENS_FOR_WRITING(p_irq_affinity, "/proc/irq/default_smp_affinity")

static enum verdict p_binfmt(void)
{
	if (access("/proc/sys/fs/binfmt_misc/register", F_OK) < 0 && in_control)
		return not_here("binfmt_misc is not mounted on this host");
	return opens_for_writing("/proc/sys/fs/binfmt_misc/register");
}

/* Any file of /proc outside the process directories, and of /sys, that can be opened for writing. */
static char sweep_hit[512];
static long sweep_seen;

static int sweep_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t had = strlen(sweep_hit);
	int fd;

	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return FTW_CONTINUE;
	sweep_seen++;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return FTW_CONTINUE;
	close(fd);
	/* a few are named; in a control, which may write to many, the first is enough */
	snprintf(sweep_hit + had, sizeof(sweep_hit) - had, " %s", path);
	return in_control || had > sizeof(sweep_hit) / 2 ? FTW_STOP : FTW_CONTINUE;
}

static enum verdict sweep(const char *dir)
{
	nftw(dir, sweep_one, 32, FTW_PHYS | FTW_ACTIONRETVAL | FTW_MOUNT);
	if (sweep_hit[0])
		return broken("opened for writing:%s", sweep_hit);
	return held_for("none of %ld files", sweep_seen);
}

static enum verdict p_proc_sweep(void)
{
	autoclosedir DIR *d = opendir("/proc");
	enum verdict v = V_HELD;

	for (struct dirent *de = d ? readdir(d) : NULL; de; de = readdir(d)) {
		char path[4096];

		if (de->d_name[0] == '.' || (de->d_name[0] >= '0' && de->d_name[0] <= '9') ||
		    strcmp(de->d_name, "self") == 0 || strcmp(de->d_name, "thread-self") == 0)
			continue;
		v = sweep(path_f(path, "/proc/%s", de->d_name));
		if (v == V_BROKEN && in_control)
			break;
	}
	return v;
}

static enum verdict p_sys_sweep(void)
{
	return sweep("/sys");
}

/* Control groups: making one, leaving one's own, and the agent that the host runs when one becomes empty. */
static enum verdict for_cgroup_mounts(const char *file, bool make_dir)
{
	static const char *const dirs[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified",
					    "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
					    "/sys/fs/cgroup/systemd" };
	char path[4096];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		path_f(path, "%s/%s", dirs[i], file);
		if (make_dir && mkdir(path, 0755) == 0) {
			rmdir(path);
			return broken("made the control group %s", path);
		}
		if (!make_dir) {
			autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

			if (fd >= 0)
				return broken("opened %s for writing", path);
		}
	}
	return held();
}

static enum verdict p_cgroup_mkdir(void)
{
	return for_cgroup_mounts("coffer-probe", true);
}

static enum verdict p_cgroup_leave(void)
{
	return for_cgroup_mounts("cgroup.procs", false);
}

static enum verdict p_cgroup_release_agent(void)
{
	enum verdict v = for_cgroup_mounts("release_agent", false);

	return v == V_HELD && in_control ? not_here("no v1 hierarchy is mounted") : v;
}

static enum verdict reads(const char *path)
{
	char text[4096];
	long n = read_small(path, text, sizeof(text));

	if (n < 0 && in_control && errno == ENOENT)
		return not_here("this kernel has no %s", path);
	/* EAGAIN and EINVAL come from reading: it was opened */
	if (n < 0 && errno != EAGAIN && errno != EINVAL)
		return held();
	return n == 0 ? held_for("empty") : broken("read %s", path);
}

#define READS(name, path)              \
	static enum verdict name(void) \
	{                              \
		return reads(path);    \
	}

READS(p_proc_kmsg, "/proc/kmsg")
READS(p_proc_kcore, "/proc/kcore")
READS(p_proc_keys, "/proc/keys")
READS(p_proc_timer_list, "/proc/timer_list")
READS(p_proc_vmallocinfo, "/proc/vmallocinfo")
READS(p_proc_kpagecount, "/proc/kpagecount")
READS(p_sys_vmcoreinfo, "/sys/kernel/vmcoreinfo")

static enum verdict p_proc_locks(void)
{
	char text[1 << 16], want[64];

	snprintf(want, sizeof(want), ":%ld ", param_num("lock_ino"));
	if (read_small("/proc/locks", text, sizeof(text)) < 0)
		return held();
	return strstr(text, want) ? broken("a file lock of the host is visible") : held_for("not listed");
}

/* Without the right the addresses are shown as zero. */
static enum verdict p_proc_iomem(void)
{
	static char text[1 << 16];

	if (read_small("/proc/iomem", text, sizeof(text)) < 0)
		return held();
	for (const char *p = text; *p; p++) {
		if (strspn(p, "123456789abcdef") && strcspn(p, "-:\n") >= 8 && p[strcspn(p, "-:\n")] == '-')
			return broken("physical addresses are visible");
	}
	return held_for("all zero");
}

static enum verdict p_kallsyms(void)
{
	char text[4096];

	if (read_small("/proc/kallsyms", text, sizeof(text)) <= 0)
		return held();
	return strtoull(text, NULL, 16) ? broken("the kernel's addresses are visible") : held_for("all zero");
}

static enum verdict p_oom_score(void)
{
	return judge(write_small("/proc/self/oom_score_adj", "-1000\n"),
		     "exempted itself from the out-of-memory killer");
}

static enum verdict p_mountinfo_leak(void)
{
	static char text[1 << 16];
	const char *dir = param("host_dir");
	char base[4096];

	/* the directory above: where the world, its workspace and the state directory are */
	path_f(base, "%.*s", (int)(strrchr(dir, '/') - dir), dir);
	if (read_small("/proc/self/mountinfo", text, sizeof(text)) < 0)
		return held();
	return strstr(text, base) ? info("paths of the host can be read in /proc/self/mountinfo")
				  : info("no path of the host in /proc/self/mountinfo");
}

static enum verdict p_boot_id(void)
{
	char text[64];

	if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 0)
		return info("no boot id here (%s)", errno_name(errno));
	return info("%s",
		    strstr(text, param("boot_id")) ? "the host's boot id is visible" : "another boot id");
}

static enum verdict p_boot_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return info("%s",
		    ts.tv_sec > param_num("uptime") ? "the host's uptime is visible" : "its own boot time");
}

const struct probe probes_sys[] = {
	{ "core_pattern", p_core_pattern, CTL_ROOT },
	{ "modprobe_path", p_modprobe, CTL_ROOT },
	{ "poweroff_cmd", p_poweroff_cmd, CTL_ROOT },
	{ "sysctl_hostname", p_sysctl_hostname, CTL_ROOT },
	{ "sysctl_shm", p_sysctl_shm, CTL_ROOT },
	{ "sysctl_ns_last_pid", p_sysctl_ns_last_pid, CTL_ROOT },
	{ "sysctl_ip_forward", p_sysctl_forward, CTL_ROOT },
	{ "sysctl_vm", p_sysctl_vm, CTL_ROOT },
	{ "sysctl_userns", p_sysctl_userns, CTL_ROOT, 0, CAP_SYS_RESOURCE },
	{ "sysrq_trigger", p_sysrq, CTL_ROOT },
	{ "binfmt_register", p_binfmt, CTL_ROOT },
	{ "uevent_helper", p_uevent_helper, CTL_ROOT },
	{ "power_state", p_power_state, CTL_ROOT },
	{ "huge_pages", p_thp, CTL_ROOT },
	{ "irq_affinity", p_irq_affinity, CTL_ROOT },
	{ "proc_sweep", p_proc_sweep, CTL_ROOT },
	{ "sys_sweep", p_sys_sweep, CTL_ROOT },
	{ "cgroup_mkdir", p_cgroup_mkdir, CTL_ROOT },
	{ "cgroup_leave", p_cgroup_leave, CTL_ROOT },
	{ "cgroup_release_agent", p_cgroup_release_agent, CTL_ROOT },
	{ "proc_kmsg", p_proc_kmsg, CTL_ROOT },
	{ "proc_kcore", p_proc_kcore, CTL_ROOT },
	{ "proc_keys", p_proc_keys, CTL_ROOT },
	{ "proc_timer_list", p_proc_timer_list, CTL_ROOT },
	{ "proc_iomem", p_proc_iomem, CTL_ROOT },
	{ "proc_vmallocinfo", p_proc_vmallocinfo, CTL_ROOT },
	{ "proc_kpagecount", p_proc_kpagecount, CTL_ROOT },
	{ "sys_vmcoreinfo", p_sys_vmcoreinfo, CTL_SAME },
	{ "proc_locks", p_proc_locks, CTL_SAME },
	{ "kallsyms", p_kallsyms, CTL_ROOT },
	{ "oom_score", p_oom_score, CTL_ROOT, 0, CAP_SYS_RESOURCE },
	{ "mountinfo_leak", p_mountinfo_leak, CTL_SAME },
	{ "boot_id", p_boot_id, CTL_SAME },
	{ "boot_time", p_boot_time, CTL_SAME },
	{ 0 },
};
