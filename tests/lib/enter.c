/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enter NET UID:GID SOURCE:TARGET… -- PROGRAM ARG…: executes a program in the network namespace NET, with a mount
 * namespace of its own in which each SOURCE is bound over its TARGET, as that user and without other groups.
 * Tests start thousands of programs this way; nsenter, unshare, sh, mount and setpriv in a row would cost more than
 * many of the programs do.
 */
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char *end = NULL;
	uid_t uid = argc > 3 ? (uid_t)strtoul(argv[2], &end, 10) : 0;
	gid_t gid = end && *end == ':' ? (gid_t)strtoul(end + 1, &end, 10) : 0;
	int net, i = 3;

	if (argc < 4 || !end || *end != '\0')
		errx(125, "usage: enter NET UID:GID SOURCE:TARGET... -- PROGRAM ARG...");
	net = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (net < 0 || setns(net, CLONE_NEWNET) < 0)
		err(125, "%s", argv[1]);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		err(125, "a mount namespace");
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		char *target = strchr(argv[i], ':');

		if (!target)
			errx(125, "%s: no SOURCE:TARGET", argv[i]);
		*target++ = '\0';
		if (mount(argv[i], target, NULL, MS_BIND, NULL) < 0)
			err(125, "%s over %s", argv[i], target);
	}
	if (i + 1 >= argc)
		errx(125, "no program");
	if ((uid || gid) &&
	    (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
		err(125, "user %u:%u", uid, gid);
	execvp(argv[i + 1], argv + i + 1);
	err(127, "%s", argv[i + 1]);
}
