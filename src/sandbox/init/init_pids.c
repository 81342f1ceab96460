/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a command failed because of the limit of processes, where only RLIMIT_NPROC enforces it: the kernel
 * then neither reports nor counts refused forks. So we probe it, by starting processes that exit at once.
 *
 * The probe runs when a command has failed (cmd_reap), and while it runs when its output looks as if a process could not be
 * started. The output only decides when to probe, never the result. Neither moment sees a command whose processes are all
 * gone again when it fails and that printed nothing; that case is not reported.
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

/* Both run in our memory while we wait, and may write to nothing but *arg. */
static int probe_inner(void *arg)
{
	(void)arg;
	return 0;
}

static int probe_outer(void *arg)
{
	bool *refused = arg;

	*refused = start_probe(probe_inner, stacks[1], refused);
	return 0;
}

bool pids_are_at_limit(bool after_one)
{
	bool refused = false;

	return start_probe(after_one ? probe_outer : probe_inner, stacks[0], &refused);
}

static bool output_mentions(const char *data, size_t len, const char *word)
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
	if (!output_mentions(data, len, "fork") && !output_mentions(data, len, "unavailable") &&
	    !output_mentions(data, len, "EAGAIN") && !output_mentions(data, len, "thread"))
		return;
	/* Only the 1st, 2nd, 4th, 8th time: a command that prints nothing else must not keep us busy. */
	c->pids_asked++;
	if ((c->pids_asked & (c->pids_asked - 1)) == 0)
		c->pids_hit = pids_are_at_limit(false);
}
