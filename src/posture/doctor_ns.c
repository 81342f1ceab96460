/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of namespaces. Each is created in a child and used, because some hosts allow the creation and then
 * refuse what the namespace is for.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "sandbox/state/state.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#define APPARMOR_SYSCTL "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define CLONE_SYSCTL "/proc/sys/kernel/unprivileged_userns_clone"
#define MAX_SYSCTL "/proc/sys/user/max_user_namespaces"

bool check_is_root(void)
{
	return state_is_host_root();
}

long check_sysctl(const char *path, long missing)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(AT_FDCWD, path, 4096, &b) < 0 ? missing : strtol(buf_cstr(&b), NULL, 10);
}

/*
 * Ubuntu lets an ordinary user create the namespace and then takes its capabilities away, so the probe uses
 * one.
 */
static int probe_userns(void *arg, struct err *e)
{
	(void)arg;
	if (getuid() != 0)
		return err_set(e, -EPERM, "the user namespace was made, but its ids were not mapped");
	if (unshare(CLONE_NEWUTS) < 0 || sethostname("doctor", 6) < 0)
		return err_sys(e, -errno, "the user namespace was made, but gives no capability");
	return 0;
}

static int probe_nested_userns(void *arg, struct err *e)
{
	(void)arg;
	return unshare(CLONE_NEWUSER) < 0 ? err_sys(e, -errno, "a user namespace inside one is refused") : 0;
}

static int probe_pidns(void *arg, struct err *e)
{
	(void)arg;
	return getpid() == 1 ? 0 : err_set(e, -EIO, "the first process inside is not process 1");
}

static int probe_mountns(void *arg, struct err *e)
{
	(void)arg;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, -errno, "the namespace was made, but nothing can be mounted in it");
	return 0;
}

static int probe_netns(void *arg, struct err *e)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)arg;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(e, -errno, "its loopback interface cannot be brought up");
	return 0;
}

static int probe_utsns(void *arg, struct err *e)
{
	(void)arg;
	return sethostname("doctor", 6) < 0 ? err_sys(e, -errno, "its host name cannot be set") : 0;
}

static int probe_timens(void *arg, struct err *e)
{
	(void)arg;
	return ns_new_time("/proc", e);
}

/* Makes a namespace and tries what it is for (`use`; NULL: making it is enough). `bad` is the status if it is missing. */
static void check_namespace(struct finding *f, uint64_t flags, int (*use)(void *, struct err *),
			    enum doctor_status bad)
{
	struct err e = ERR_INIT;
	int r = probe_run(CLONE_NEWUSER | flags, use, NULL, &e);

	if (r < 0)
		finding_set(f, bad, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "made and used");
}

void check_userns(struct finding *f)
{
	check_namespace(f, 0, probe_userns, DOCTOR_FAIL);
}

void check_userns_nested(struct finding *f)
{
	struct err e = ERR_INIT;
	long max = check_sysctl(MAX_SYSCTL, -1);
	int r = probe_run(CLONE_NEWUSER, probe_nested_userns, NULL, &e);

	if (r < 0 && max >= 0)
		finding_set(f, DOCTOR_FAIL, "%s (at most %ld for this user)", e.msg, max);
	else if (r < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else if (max >= 0 && max < 64) /* a sandbox needs two */
		finding_set(f, DOCTOR_WARN, "only %ld user namespaces: about %ld sandboxes at once", max,
			    max / 2);
	else
		finding_set(f, DOCTOR_OK, "nested ones work; at most %ld", max);
}

void check_pidns(struct finding *f)
{
	check_namespace(f, CLONE_NEWPID, probe_pidns, DOCTOR_FAIL);
}

void check_mountns(struct finding *f)
{
	check_namespace(f, CLONE_NEWNS, probe_mountns, DOCTOR_FAIL);
}

void check_netns(struct finding *f)
{
	check_namespace(f, CLONE_NEWNET, probe_netns, DOCTOR_FAIL);
}

void check_ipcns(struct finding *f)
{
	check_namespace(f, CLONE_NEWIPC, NULL, DOCTOR_FAIL);
}

void check_utsns(struct finding *f)
{
	check_namespace(f, CLONE_NEWUTS, probe_utsns, DOCTOR_FAIL);
}

void check_cgroupns(struct finding *f)
{
	check_namespace(f, CLONE_NEWCGROUP, NULL, DOCTOR_WARN);
}

void check_timens(struct finding *f)
{
	check_namespace(f, 0, probe_timens, DOCTOR_WARN);
}

void check_apparmor(struct finding *f)
{
	struct err e = ERR_INIT;
	long on = check_sysctl(APPARMOR_SYSCTL, 0);

	if (on == 0)
		finding_set(f, DOCTOR_OK, "no such restriction");
	else if (check_is_root())
		finding_set(f, DOCTOR_OK, "restricts ordinary users, not root");
	else if (probe_run(CLONE_NEWUSER, probe_userns, NULL, &e) == 0)
		finding_set(f, DOCTOR_OK, "restricts ordinary users; this program has a profile");
	else
		finding_set(f, DOCTOR_FAIL, "takes the capabilities of ordinary users' namespaces away");
}

void check_userns_sysctl(struct finding *f)
{
	if (check_sysctl(CLONE_SYSCTL, 1) != 0)
		finding_set(f, DOCTOR_OK, "ordinary users may make user namespaces");
	else if (check_is_root())
		finding_set(f, DOCTOR_OK, "forbids ordinary users to make user namespaces, not root");
	else
		finding_set(f, DOCTOR_FAIL, "forbids ordinary users to make user namespaces");
}
