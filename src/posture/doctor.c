/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of checks, with the meaning of each and how to fix it on each distribution; and the detection
 * of the distribution. The checks themselves are in doctor_*.c. It must not try anything itself.
 */
#include "posture/doctor.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#define USERNS_MEANS "the sandbox's own users: root inside is nobody outside. Nothing runs without it"
#define NS_SYSCTL "sudo sysctl -w user.max_user_namespaces=28633"
#define NS_SYSCTL_KEEP \
	NS_SYSCTL " && echo user.max_user_namespaces=28633 | sudo tee /etc/sysctl.d/60-coffer.conf"
#define NEWER_KERNEL_DEB \
	"sudo apt-get install -t \"$(. /etc/os-release; echo $VERSION_CODENAME)-backports\" linux-image-amd64, then reboot"
#define NEWER_KERNEL_UBUNTU \
	"sudo apt-get install \"linux-generic-hwe-$(. /etc/os-release; echo $VERSION_ID)\", then reboot"
#define NEWER_KERNEL_FEDORA "sudo dnf upgrade kernel, then reboot"
#define NEWER_KERNEL                                                       \
	{                                                                  \
		NEWER_KERNEL_DEB, NEWER_KERNEL_UBUNTU, NEWER_KERNEL_FEDORA \
	}
#define IN_CONTAINER                                                                                                \
	"in a container, start that with --security-opt systempaths=unconfined --security-opt seccomp=unconfined; " \
	"on a host, look for a security module in 'journalctl -k | grep -i denied'"
#define FROM_CONTAINER                                   \
	{                                                \
		IN_CONTAINER, IN_CONTAINER, IN_CONTAINER \
	}
#define DELEGATE                                                       \
	"sudo mkdir -p /etc/systemd/system/user@.service.d && "        \
	"printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee " \
	"/etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, then log in again"
#define UNIFIED "; where version 1 is in use, first: "
#define DELEGATE_DEB                                                                                     \
	DELEGATE UNIFIED "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&systemd.unified_cgroup_hierarchy=1 /' " \
			 "/etc/default/grub && sudo update-grub, then reboot"
#define DELEGATE_FEDORA  \
	DELEGATE UNIFIED \
		"sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1, then reboot"
#define PROFILE                                                                                        \
	"sudo make install (it puts a profile for coffer into /etc/apparmor.d), or for all programs: " \
	"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
#define SUBIDS "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 \"$USER\""
#define LANDLOCK \
	"add landlock to the lsm= list on the kernel's command line (cat /sys/kernel/security/lsm shows it), then reboot"
#define LOOP_DEB "sudo apt-get install e2fsprogs && sudo modprobe loop"
#define NFT_MODULES \
	"sudo modprobe -a nf_tables nft_tproxy nf_tproxy_ipv4 nf_tproxy_ipv6 nft_log nfnetlink_log"
#define ROTATE "coffer secret rotate NAME --expires DATE"
#define REINSTALL "make, or sudo make install"
#define FREE_SPACE "free some space (coffer prune), or name another place with COFFER_STATE=/some/dir"

static const struct doctor_check checks[] = {
	{ "kernel", "kernel", check_kernel, "coffer needs Linux 5.12 or newer", NEWER_KERNEL },
	{ "syscalls",
	  "system calls",
	  check_syscalls,
	  "calls without which sandboxes cannot be built or ended safely; a container may hide them",
	  { NEWER_KERNEL_DEB, NEWER_KERNEL_UBUNTU, NEWER_KERNEL_FEDORA } },
	{ "userns",
	  "user namespaces",
	  check_userns,
	  USERNS_MEANS,
	  { "sudo sysctl -w kernel.unprivileged_userns_clone=1", PROFILE, NS_SYSCTL_KEEP } },
	{ "userns-nested",
	  "user namespaces, nested",
	  check_userns_nested,
	  "each sandbox has two, so that even all capabilities inside give no power over its network",
	  { NS_SYSCTL_KEEP, NS_SYSCTL_KEEP, NS_SYSCTL_KEEP } },
	{ "userns-apparmor",
	  "AppArmor restriction",
	  check_apparmor,
	  "Ubuntu 23.10 and newer let only programs with a profile use user namespaces",
	  { PROFILE, PROFILE, NULL } },
	{ "userns-sysctl",
	  "user namespaces, policy",
	  check_userns_sysctl,
	  "Debian 10 and older, and some hardened kernels, forbid them to ordinary users",
	  { "sudo sysctl -w kernel.unprivileged_userns_clone=1 && echo kernel.unprivileged_userns_clone=1 | sudo tee "
	    "/etc/sysctl.d/60-coffer.conf",
	    "sudo sysctl -w kernel.unprivileged_userns_clone=1 && echo kernel.unprivileged_userns_clone=1 | sudo tee "
	    "/etc/sysctl.d/60-coffer.conf",
	    NULL } },
	{ "pidns", "process namespace", check_pidns, "the sandbox sees and signals only its own processes",
	  FROM_CONTAINER },
	{ "mountns", "mount namespace", check_mountns, "the sandbox has a file system of its own",
	  FROM_CONTAINER },
	{ "netns", "network namespace", check_netns, "the sandbox has no wire to the network",
	  FROM_CONTAINER },
	{ "wall",
	  "network wall (nft tproxy)",
	  check_wall,
	  "every connection of a sandbox is accepted and decided here; without it only --net none works",
	  { NFT_MODULES, NFT_MODULES, NFT_MODULES } },
	{ "wall-gvisor",
	  "network wall of gVisor (veth)",
	  check_wall_guest,
	  "the same for engine gvisor; without it only --net none works there",
	  { "sudo modprobe veth", "sudo modprobe veth", "sudo modprobe veth" } },
	{ "ipcns", "IPC namespace", check_ipcns, "no shared memory or queue of the host is seen inside",
	  FROM_CONTAINER },
	{ "utsns", "host name namespace", check_utsns, "the host's name is not seen inside", FROM_CONTAINER },
	{ "cgroupns", "cgroup namespace", check_cgroupns,
	  "the host's control groups are not named inside; without it their names can be read",
	  NEWER_KERNEL },
	{ "timens", "time namespace", check_timens,
	  "the host's uptime is not seen inside; without it it can be read", NEWER_KERNEL },
	{ "subids",
	  "subordinate ids",
	  check_subids,
	  "with them programs inside can have more than one user (apt, postgres, --user); without, only yours",
	  { "sudo apt-get install uidmap && " SUBIDS, "sudo apt-get install uidmap && " SUBIDS, SUBIDS } },
	{ "proc", "/proc", check_proc, "the sandbox's own view of its processes", FROM_CONTAINER },
	{ "private-fs", "private file systems", check_private_fs,
	  "/tmp, /dev and terminals of the sandbox's own", FROM_CONTAINER },
	{ "overlay",
	  "overlay",
	  check_overlay,
	  "the workspace can be written inside while the original stays untouched; the state directory must be on a "
	  "file system that can hold layers (ext4, xfs, btrfs, tmpfs)",
	  { "COFFER_STATE=/some/dir on such a file system", "COFFER_STATE=/some/dir on such a file system",
	    "COFFER_STATE=/some/dir on such a file system" } },
	{ "idmap", "idmapped mounts", check_idmap,
	  "files keep their owner although root's sandboxes have ids of nobody", NEWER_KERNEL },
	{ "seccomp",
	  "seccomp",
	  check_seccomp,
	  "the list of system calls that a sandbox may make",
	  { "use the distribution's own kernel (CONFIG_SECCOMP_FILTER)",
	    "use the distribution's own kernel (CONFIG_SECCOMP_FILTER)",
	    "use the distribution's own kernel (CONFIG_SECCOMP_FILTER)" } },
	{ "landlock",
	  "Landlock",
	  check_landlock,
	  "a second fence around files; without it the mounts alone decide",
	  { LANDLOCK, LANDLOCK, LANDLOCK } },
	{ "cgroup",
	  "control groups",
	  check_cgroup,
	  "keep memory, cpu and process limits; without them --memory and --cpus are refused, and the defaults are not kept",
	  { DELEGATE_DEB, DELEGATE_DEB, DELEGATE_FEDORA } },
	{ "disk",
	  "state directory",
	  check_disk,
	  "layers, logs and named homes are kept there",
	  { FREE_SPACE, FREE_SPACE, FREE_SPACE } },
	{ "disk-limit",
	  "disk limit",
	  check_disk_limit,
	  "how --disk is kept: by a file system of its own, which nothing can overrun, or by looking often",
	  { LOOP_DEB, LOOP_DEB, "sudo dnf install e2fsprogs && sudo modprobe loop" } },
	{ "helper",
	  "helper programs",
	  check_helper,
	  "coffer-init is process 1 of every sandbox",
	  { REINSTALL, REINSTALL, REINSTALL } },
	{ "net-programs",
	  "network programs",
	  check_net_programs,
	  "they decide about and make every connection of a sandbox; without them only --net none works",
	  { REINSTALL, REINSTALL, REINSTALL } },
	{ "secrets",
	  "dates of secrets",
	  check_secrets,
	  "an expired secret is not used any more, and runs that name it do not start",
	  { ROTATE, ROTATE, ROTATE } },
	{ "runsc",
	  "gVisor (runsc)",
	  check_runsc,
	  "another kernel around the command; the engine 'ns' works without it",
	  { "sudo apt-get install -t \"$(. /etc/os-release; echo $VERSION_CODENAME)-backports\" runsc",
	    "not packaged: follow gvisor.dev/docs/user_guide/install",
	    "not packaged: follow gvisor.dev/docs/user_guide/install" } },
	{ "kvm",
	  "KVM",
	  check_kvm,
	  "a faster platform for gVisor; nothing needs it",
	  { "sudo usermod -aG kvm \"$USER\", then log in again",
	    "sudo usermod -aG kvm \"$USER\", then log in again",
	    "sudo usermod -aG kvm \"$USER\", then log in again" } },
};

const char *doctor_status_name(enum doctor_status s)
{
	static const char *const names[] = { "ok", "info", "warn", "fail" };

	static_assert(ARRAY_SIZE(names) == DOCTOR_STATUS_COUNT, "a name for each");
	return names[s];
}

const char *doctor_distro_name(enum doctor_distro d)
{
	static const char *const names[] = { "debian", "ubuntu", "fedora" };

	static_assert(ARRAY_SIZE(names) == DISTRO_COUNT, "a name for each");
	return names[d];
}

void finding_set(struct finding *f, enum doctor_status s, const char *fmt, ...)
{
	va_list ap;

	f->status = s;
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

/* The value of KEY=value or KEY="value" in os-release, truncated to fit. */
static bool os_release_value(const char *text, const char *key, char *out, size_t cap)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		size_t len;

		line += *line == '\n';
		if (strncmp(line, key, n) != 0 || line[n] != '=')
			continue;
		line += n + 1;
		len = *line == '"' ? strcspn(++line, "\"\n") : strcspn(line, "\n");
		snprintf(out, cap, "%.*s", (int)(len < cap ? len : cap - 1), line);
		return true;
	}
	return false;
}

/* Is `word` one of the words in `list`? */
static bool list_has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n) {
		if ((p == list || p[-1] == ' ') && (p[n] == '\0' || p[n] == ' '))
			return true;
	}
	return false;
}

/*
 * The nearest of the three families. Derivatives of Ubuntu name both Ubuntu and Debian, so Ubuntu is tested
 * first.
 */
static int distro_of(const char *id, const char *like)
{
	static const struct {
		const char *word;
		enum doctor_distro distro;
	} families[] = {
		{ "ubuntu", DISTRO_UBUNTU }, { "debian", DISTRO_DEBIAN }, { "fedora", DISTRO_FEDORA },
		{ "rhel", DISTRO_FEDORA },   { "centos", DISTRO_FEDORA },
	};

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		if (str_eq(id, families[i].word) || list_has_word(like, families[i].word))
			return (int)families[i].distro;
	}
	return -1;
}

static void read_system_info(struct doctor *d)
{
	autobuf struct buf b = BUF_INIT;
	char id[64] = "", like[128] = "";
	struct utsname u;

	if (uname(&u) == 0)
		snprintf(d->kernel, sizeof(d->kernel), "%s", u.release);
	if (fd_read_file(AT_FDCWD, "/etc/os-release", 65536, &b) < 0) {
		buf_clear(&b);
		if (fd_read_file(AT_FDCWD, "/usr/lib/os-release", 65536, &b) < 0)
			buf_clear(&b);
	}
	if (!os_release_value(buf_cstr(&b), "PRETTY_NAME", d->system, sizeof(d->system)))
		snprintf(d->system, sizeof(d->system), "Linux");
	os_release_value(buf_cstr(&b), "ID", id, sizeof(id));
	os_release_value(buf_cstr(&b), "ID_LIKE", like, sizeof(like));
	d->distro = distro_of(id, like);
}

int doctor_run(struct doctor *ret, struct err *e)
{
	struct doctor d = { .n = ARRAY_SIZE(checks) };

	d.findings = calloc(d.n, sizeof(*d.findings));
	if (!d.findings)
		return err_sys(e, -ENOMEM, "cannot start the checks");
	read_system_info(&d);
	d.who = check_is_root() ? "root" : geteuid() == 0 ? "root of a user namespace" : "an ordinary user";
	for (size_t i = 0; i < d.n; i++) {
		d.findings[i].check = &checks[i];
		checks[i].probe(&d.findings[i]);
	}
	*ret = d;
	return 0;
}

void doctor_release(struct doctor *d)
{
	free(d->findings);
	*d = (struct doctor){ 0 };
}

bool doctor_can_run(const struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->findings[i].status == DOCTOR_FAIL)
			return false;
	}
	return true;
}
