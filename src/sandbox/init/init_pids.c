/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the limit of processes is what a command failed for, where only RLIMIT_NPROC keeps it: the kernel then tells
 * nobody that it refused a fork, and counts nothing. So we ask it ourselves, by starting processes that end at once.
 *
 * Asked when a command has failed (cmd_reap), and while it runs when its messages look as if something could not be
 * started. The words only say when to ask, never what to answer. What neither moment sees is not told: a command whose
 * processes are all gone again when it fails, and that said nothing.
 */
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#define PROBE_STACK (16u << 10)

static uint8_t stacks[2][PROBE_STACK] __attribute__((aligned(16)));

static bool start_probe(int (*fn)(void *), uint8_t *stack, bool *refused)
{
	pid_t pid = clone(fn, stack + PROBE_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, refused);

	if (pid < 0)
		return errno == EAGAIN;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return *refused;
}

/* Both run in our memory while we wait, and may touch nothing but *arg. */
static int inner(void *arg)
{
	(void)arg;
	return 0;
}

static int outer(void *arg)
{
	bool *refused = arg;

	*refused = start_probe(inner, stacks[1], refused);
	return 0;
}

bool pids_are_at_limit(bool after_one)
{
	bool refused = false;

	return start_probe(after_one ? outer : inner, stacks[0], &refused);
}

static bool mentions(const char *data, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = data; len >= n; p++, len--) {
		const char *at = memchr(p, word[0], len - n + 1);

		if (!at)
			return false;
		if (memcmp(at, word, n) == 0)
			return true;
		len -= (size_t)(at - p);
		p = at;
	}
	return false;
}

void pids_listen(struct cmd *c, const void *data, size_t len)
{
	if (!(c->flags & PROTO_F_PIDS) || c->pids_hit || c->state != CMD_RUNNING)
		return;
	/* "fork: Resource temporarily unavailable", "spawn EAGAIN", "can't start new thread" */
	if (!mentions(data, len, "fork") && !mentions(data, len, "unavailable") &&
	    !mentions(data, len, "EAGAIN") && !mentions(data, len, "thread"))
		return;
	/* The 1st, 2nd, 4th, 8th time: one that talks of nothing else must not keep us busy. */
	c->pids_asked++;
	if ((c->pids_asked & (c->pids_asked - 1)) == 0)
		c->pids_hit = pids_are_at_limit(false);
}
