/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock rulesets without the system's newer headers, which may be older than the kernel: constants that they may
 * lack are defined here.
 *
 *  1. A ruleset takes away every right on files that its ABI knows, so only the rules give access. TCP is not
 *     restricted here: the network namespace does that.
 *  2. Rights that the ABI does not know are masked out of the ruleset and of its rules, because the kernel refuses
 *     unknown bits.
 *  3. Only a layer that is being unpacked gets the right to make devices, and there seccomp allows only device 0:0,
 *     which opens nothing. Only /dev gets device ioctls: without them a program cannot even read the size of a
 *     terminal that it has opened by name.
 */
#include "sys/fence/landlock.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	NR_CREATE_RULESET = 444, /* the same on every architecture */
	NR_ADD_RULE = 445,
	NR_RESTRICT_SELF = 446,
};

#define FS_REFER (1ULL << 13)	  /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */

#define FS_ABI_1 ((1ULL << 13) - 1)

#define FILE_RIGHTS                                                                                  \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	 FS_TRUNCATE | FS_IOCTL_DEV)
#define READ_EXEC_RIGHTS \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS                                                                                  \
	(READ_EXEC_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |           \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |  \
	 FS_REFER | FS_TRUNCATE)
#define DEVICE_RIGHTS                                                                                 \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	 FS_TRUNCATE | FS_IOCTL_DEV)

#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

/*
 * ABI 7: denials by rulesets that a program inside makes for itself are not logged, so it cannot fill the host's
 * audit log with them.
 */
#define RESTRICT_LOG_SUBDOMAINS_OFF (1u << 2)

/* struct landlock_ruleset_attr as of ABI 6. Earlier kernels get only its first member. */
struct ruleset {
	uint64_t fs;
	uint64_t net;	 /* ABI 4 */
	uint64_t scoped; /* ABI 6 */
};

int landlock_abi(void)
{
	long abi = syscall(NR_CREATE_RULESET, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

uint64_t landlock_handled(int abi)
{
	return FS_ABI_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
	       (abi >= 5 ? FS_IOCTL_DEV : 0);
}

uint64_t landlock_rights(int abi, enum landlock_access access)
{
	static const uint64_t rights[] = {
		[LANDLOCK_READ_EXEC] = READ_EXEC_RIGHTS,
		[LANDLOCK_WRITE] = WRITE_RIGHTS,
		[LANDLOCK_DEVICES] = DEVICE_RIGHTS,
		[LANDLOCK_LAYER] = WRITE_RIGHTS | LANDLOCK_ACCESS_FS_MAKE_CHAR,
	};
	_Static_assert(ARRAY_SIZE(rights) == LANDLOCK_ACCESS_COUNT, "one set of rights per access");

	return rights[access] & landlock_handled(abi);
}

static int add_path_rule(int ruleset, int abi, const struct landlock_rule *rule, struct err *e)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = landlock_rights(abi, rule->access) };
	autoclose int fd = open(rule->path, O_PATH | O_CLOEXEC);
	long r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_sys(e, -errno, "cannot open %s for a Landlock rule", rule->path);
	attr.parent_fd = fd;
	r = syscall(NR_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
	/* The kernel refuses rights of directories for a file. Then the path is a file; this saves an fstat(). */
	if (r < 0 && errno == EINVAL) {
		attr.allowed_access &= FILE_RIGHTS;
		r = syscall(NR_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
	}
	return r < 0 ? err_sys(e, -errno, "cannot add a Landlock rule for %s", rule->path) : 0;
}

static int create_ruleset(int abi, struct err *e)
{
	const struct ruleset attr = { .fs = landlock_handled(abi),
				      .scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL };
	long fd = syscall(NR_CREATE_RULESET, &attr, abi >= 6 ? sizeof(attr) : sizeof(attr.fs), 0);

	return fd < 0 ? err_sys(e, -errno, "cannot make a Landlock ruleset") : (int)fd;
}

int landlock_apply_abi(int abi, const struct landlock_rule *rules, size_t n, struct err *e)
{
	autoclose int ruleset = -1;
	int kernel = landlock_abi(), r;

	if (abi > kernel)
		abi = kernel;
	if (abi < LANDLOCK_MIN_ABI)
		return 0;
	ruleset = create_ruleset(abi, e); /* the kernel makes it CLOEXEC */
	if (ruleset < 0)
		return ruleset;
	for (size_t i = 0; i < n; i++) {
		r = add_path_rule(ruleset, abi, &rules[i], e);
		if (r < 0)
			return r;
	}
	if (syscall(NR_RESTRICT_SELF, ruleset, abi >= 7 ? RESTRICT_LOG_SUBDOMAINS_OFF : 0) < 0)
		return err_sys(e, -errno, "cannot enforce the Landlock ruleset");
	return abi;
}

int landlock_apply(const struct landlock_rule *rules, size_t n, struct err *e)
{
	return landlock_apply_abi(INT_MAX, rules, n, e);
}
