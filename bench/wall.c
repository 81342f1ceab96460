/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare wall: the namespaces and mounts of a sandbox, and nothing else. No guard, no log, no control group, no
 * coffer-init, no filter, no supervision. Time that coffer takes beyond this is coffer's own; time
 * that this takes beyond vfork and exec is the kernel's.
 *
 *   wall LAYERS|- CMD…      LAYERS: an empty directory for upper/ and work/ of an overlay over the current directory
 */
#include "base/fd.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/state/layers.h"
#include "sys/mnt.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int map_self(unsigned uid, unsigned gid, struct err *e)
{
	char map[64];
	int r = ns_deny_setgroups("/proc/self", e);

	snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	if (r == 0)
		r = ns_map_ids("/proc/self", false, map, e);
	snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	return r < 0 ? r : ns_map_ids("/proc/self", true, map, e);
}

static int loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int build(struct spec *s, const char *layers, struct err *e)
{
	struct trees t = { .ws = -1, .run = -1, .home = -1, .from = -1 };
	int r = map_self(s->uid, s->gid, e);

	s->ws_mode = layers ? WS_OVERLAY : WS_RW;
	t.ws = mnt_tree(AT_FDCWD, ".", true);
	t.run = layers ? mnt_tree(AT_FDCWD, layers, true) : -1;
	if (r == 0)
		r = rootfs_begin(s, false, e);
	if (r == 0)
		r = rootfs_finish(s, &t, e);
	if (r == 0)
		r = loopback_up();
	if (r == 0)
		r = sethostname(s->hostname, 4);
	if (r == 0)
		r = ns_new_time("/proc", e);
	if (r == 0 && (unshare(CLONE_NEWCGROUP) < 0 || unshare(CLONE_NEWUSER) < 0))
		r = -errno;
	return r < 0 ? r : map_self(s->uid, s->gid, e);
}

static int make_layers(const char *layers)
{
	int fd = open(layers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || mkdirat(fd, "upper", 0755) < 0 || mkdirat(fd, "work", 0700) < 0) {
		perror(layers);
		return -1;
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct spec s = SPEC_INIT;
	struct err e = ERR_INIT;
	const char *layers = argc > 2 && argv[1][0] == '/' ? argv[1] : NULL;
	autoclose int fd = layers ? make_layers(layers) : -1, pidfd = -1;
	int status = 0;
	pid_t pid;

	if (argc < 3 || (layers && fd < 0))
		return 2;
	s.uid = geteuid();
	s.gid = getegid();
	s.hostname = (char *)"wall";
	limits_defaults(&s.limits);
	pid = ns_fork(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
		      -1, &pidfd);
	if (pid == 0) {
		int r = build(&s, layers, &e);

		if (r == 0)
			execv(argv[2], argv + 2);
		fprintf(stderr, "wall: %s: %s\n", e.msg, strerror(r < 0 ? -r : errno));
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 2;
	if (fd >= 0) {
		layers_drop_work(fd);
		unlinkat(fd, "upper", AT_REMOVEDIR);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
