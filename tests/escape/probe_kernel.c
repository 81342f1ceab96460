/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that reach the kernel as a whole: its log, clock, code, keys, power; and the parts of it that are
 * attacked most. Where the deed would hurt the host, the act asks for it with arguments that cannot work:
 * what comes back tells whether the permission was there.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>

static enum verdict p_kernel_log(void)
{
	char text[256];

	return judge(klogctl(3, text, sizeof(text)), "read the kernel's log");
}

static enum verdict p_clock_set(void)
{
	struct timezone tz = { 0 };

	/* the time zone that the kernel has anyway: needs the same permission as the time */
	return judge(syscall(SYS_settimeofday, NULL, &tz), "set the clock");
}

static enum verdict p_clock_adjust(void)
{
	struct timex now = { 0 }, set = { .modes = ADJ_STATUS };

	if (syscall(SYS_adjtimex, &now) < 0)
		return held();
	set.status = now.status;
	return judge(syscall(SYS_adjtimex, &set), "adjusted the clock");
}

static enum verdict p_hostname_set(void)
{
	if (syscall(SYS_sethostname, "probe", 5) < 0)
		return held();
	return in_control ? broken("set the host name") : asks("hostname");
}

static enum verdict p_reboot(void)
{
	return judge_permission(
		syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, 0x12345678, NULL), EINVAL, 0,
		"reboot");
}

static enum verdict p_kexec(void)
{
	return judge_optional(syscall(SYS_kexec_load, 0, 0, NULL, 0), "loaded another kernel");
}

static enum verdict p_module_load(void)
{
	long r = syscall(SYS_init_module, "not a module", 12, "");

	if (r < 0 && in_control && errno == ENOSYS)
		return not_here("this kernel has no modules");
	return judge_permission(r, ENOEXEC, EINVAL, "loaded kernel code");
}

static enum verdict p_module_delete(void)
{
	long r = syscall(SYS_delete_module, "no_such_module", O_NONBLOCK);

	if (r < 0 && in_control && errno == ENOSYS)
		return not_here("this kernel has no modules");
	return judge_permission(r, ENOENT, EINVAL, "removed kernel code");
}

static enum verdict p_acct(void)
{
	return judge_permission(syscall(SYS_acct, "/nonexistent"), ENOENT, 0, "process accounting");
}

static enum verdict p_port_io(void)
{
	return judge_optional(ioperm(0x80, 1, 1), "got an I/O port");
}

static enum verdict p_io_privilege(void)
{
	return judge_optional(iopl(3), "got all I/O ports");
}

static enum verdict p_bpf_map(void)
{
	union bpf_attr a = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	return judge_optional(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a)), "made a BPF map");
}

static enum verdict p_bpf_prog(void)
{
	struct bpf_insn insns[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT } };
	union bpf_attr a = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
			     .insns = (unsigned long)insns,
			     .insn_cnt = 2,
			     .license = (unsigned long)"GPL" };

	return judge_optional(syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a)), "loaded a BPF program");
}

static enum verdict p_perf(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE,
				     .size = sizeof(a),
				     .config = PERF_COUNT_SW_CPU_CLOCK,
				     .exclude_kernel = 1 };

	return judge_optional(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0), "opened a performance counter");
}

static enum verdict p_userfaultfd(void)
{
	return judge_optional(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY),
			      "opened a userfaultfd");
}

static enum verdict p_io_uring(void)
{
	struct io_uring_params p = { 0 };
	long r = syscall(SYS_io_uring_setup, 4, &p);
	char text[16] = "0";

	read_small("/proc/sys/kernel/io_uring_disabled", text, sizeof(text));
	if (r < 0 && in_control && text[0] != '0')
		return not_here("io_uring is disabled on this host");
	return judge_optional(r, "made an io_uring");
}

static enum verdict p_fanotify(void)
{
	return judge_optional(fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY),
			      "watched a whole file system");
}

static enum verdict p_fanotify_fid(void)
{
	return judge_optional(fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC, O_RDONLY),
			      "made a fanotify group");
}

static enum verdict p_key_add(void)
{
	return judge_optional(syscall(SYS_add_key, "user", "coffer-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING),
			      "added a key");
}

static enum verdict p_key_read(void)
{
	char text[256] = "";
	const char *secret = param("secret");

	if (syscall(SYS_keyctl, KEYCTL_READ, param_num("key"), text, sizeof(text)) < 0)
		return held();
	return memmem(text, sizeof(text), secret, strlen(secret)) ? broken("read a key of the host")
								  : held_for("another key");
}

/* Asks a program of the host to make the key: it would run as root, outside. */
static enum verdict p_key_request(void)
{
	long r = syscall(SYS_request_key, "user", "coffer-probe-none", NULL, KEY_SPEC_PROCESS_KEYRING);

	return judge_permission(r, ENOKEY, 0, "asked for a key");
}

static enum verdict p_key_session(void)
{
	return judge(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1),
		     "has a session keyring");
}

static enum verdict p_realtime(void)
{
	struct sched_param sp = { .sched_priority = 1 };

	return judge(sched_setscheduler(0, SCHED_FIFO, &sp), "took a real-time priority");
}

static enum verdict p_nice_raise(void)
{
	return judge(setpriority(PRIO_PROCESS, 0, -5), "raised its priority");
}

static enum verdict p_io_realtime(void)
{
	return judge(syscall(SYS_ioprio_set, 1, 0, 1 << 13 | 0), "took the real-time I/O class");
}

static enum verdict p_rlimit_raise(void)
{
	struct rlimit none = { 0, 0 }, more = { 4096, 4096 };

	if (in_control && setrlimit(RLIMIT_CORE, &none) < 0)
		return probe_error("setrlimit: %s", errno_name(errno));
	return judge(setrlimit(RLIMIT_CORE, &more), "raised a hard limit");
}

static enum verdict p_handle_name(void)
{
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} fh = { .h.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;

	if (name_to_handle_at(AT_FDCWD, "/usr", &fh.h, &mount_id, 0) < 0)
		return info("file handles cannot be asked for (%s)", errno_name(errno));
	return info("a file's handle can be asked for; it cannot be opened (handle_open)");
}

const struct probe probes_kernel[] = {
	{ "kernel_log", p_kernel_log, CTL_ROOT, 0, CAP_SYSLOG },
	{ "clock_set", p_clock_set, CTL_ROOT, 0, CAP_SYS_TIME },
	{ "clock_adjust", p_clock_adjust, CTL_ROOT, 0, CAP_SYS_TIME },
	{ "hostname_set", p_hostname_set, CTL_USERNS, PF_GRANTABLE },
	{ "reboot", p_reboot, CTL_ROOT, PF_GRANTABLE, CAP_SYS_BOOT },
	{ "kexec", p_kexec, CTL_ROOT, 0, CAP_SYS_BOOT },
	{ "module_load", p_module_load, CTL_ROOT, 0, CAP_SYS_MODULE },
	{ "module_delete", p_module_delete, CTL_ROOT, 0, CAP_SYS_MODULE },
	{ "acct", p_acct, CTL_ROOT, 0, CAP_SYS_PACCT },
	{ "port_io", p_port_io, CTL_ROOT, 0, CAP_SYS_RAWIO },
	{ "io_privilege", p_io_privilege, CTL_ROOT, 0, CAP_SYS_RAWIO },
	{ "bpf_map", p_bpf_map, CTL_ROOT, 0, CAP_BPF },
	{ "bpf_prog", p_bpf_prog, CTL_ROOT, 0, CAP_BPF },
	{ "perf_event", p_perf, CTL_ROOT, PF_GRANTABLE },
	{ "userfaultfd", p_userfaultfd, CTL_SAME },
	{ "io_uring", p_io_uring, CTL_SAME },
	{ "fanotify", p_fanotify, CTL_ROOT },
	{ "fanotify_fid", p_fanotify_fid, CTL_SAME },
	{ "key_add", p_key_add, CTL_SAME },
	{ "key_read", p_key_read, CTL_SAME },
	{ "key_request", p_key_request, CTL_SAME },
	{ "key_session", p_key_session, CTL_SAME },
	{ "realtime", p_realtime, CTL_ROOT, 0, CAP_SYS_NICE },
	{ "nice_raise", p_nice_raise, CTL_ROOT, 0, CAP_SYS_NICE },
	{ "io_realtime", p_io_realtime, CTL_ROOT, 0, CAP_SYS_NICE },
	{ "rlimit_raise", p_rlimit_raise, CTL_ROOT, 0, CAP_SYS_RESOURCE },
	{ "handle_name", p_handle_name, CTL_SAME },
	{ 0 },
};
