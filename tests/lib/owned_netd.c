/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of coffer-netd: one that was taken over. What it does is the word in the file "owned" beside it:
 *
 *   exit      ends at once
 *   silent    says nothing, ever
 *   deaf      says that it is ready, and nothing else
 *   garbage   bytes without sense
 *   early     an event before it is ready
 *   beyond    a line that the journal does not have
 *   other     an event that no program of the network has
 *   counts    counts without end
 *   lines     lines for the terminal without end
 *   forge     one event about its own run that the guard has no reason to refuse
 *   fd        a descriptor with a message
 *
 * After the deed it reads what it is sent until its guard is gone: it does not give up by itself.
 */
#include "ipc/fdpass.h"
#include "netd/wire/netd_proto.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOREVER 1000000

static int tell(const void *m, size_t len)
{
	return fdpass_send(NETD_FD_CONTROL, m, len, NULL, 0);
}

static int head(uint32_t type, uint32_t from, uint64_t off)
{
	const struct netd_head h = { type, from, off };

	return tell(&h, sizeof(h));
}

static int event(uint32_t from, uint64_t off, unsigned ev, const char *name)
{
	char m[NETD_MESSAGE_MAX];
	const struct netd_head h = { NETD_EVENT, from, off };
	autobuf struct buf packed = BUF_INIT;

	netd_event_begin(&packed, (enum net_ev)ev);
	netd_event_text(&packed, NET_M_NAME, name, strlen(name));
	memcpy(m, &h, sizeof(h));
	memcpy(m + sizeof(h), packed.data, packed.len);
	return tell(m, sizeof(h) + packed.len);
}

static int line(void)
{
	struct {
		struct netd_head h;
		struct netd_said s;
	} m = { .h = { .type = NETD_SAYS }, .s = { .about = 1, .count = 1, .name = "owned.test" } };

	return tell(&m, sizeof(m));
}

static void do_it(const char *word)
{
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct netd_head ready = { .type = NETD_READY };

	if (strcmp(word, "silent") == 0)
		return;
	if (strcmp(word, "garbage") == 0) {
		(void)!tell("\xff\xff\xff\xff no sense in this at all", 30);
		return;
	}
	if (strcmp(word, "early") == 0) {
		(void)!event(NET_FROM_COUNT, 0, NET_EV_OPEN, "owned-early.test");
		return;
	}
	if (strcmp(word, "fd") == 0) {
		(void)!fdpass_send(NETD_FD_CONTROL, &ready, sizeof(ready), &null, 1);
		return;
	}
	(void)!head(NETD_READY, 0, 0);
	if (strcmp(word, "beyond") == 0)
		(void)!event(NET_FROM_DIAL, 1u << 30, NET_EV_OPEN, "owned-beyond.test");
	if (strcmp(word, "other") == 0)
		(void)!event(NET_FROM_COUNT, 0, NET_EV_COUNT, "owned-other.test");
	if (strcmp(word, "forge") == 0)
		(void)!event(NET_FROM_COUNT, 0, NET_EV_OPEN, "owned-forged.test");
	for (int i = 0; strcmp(word, "counts") == 0 && i < FOREVER; i++) {
		if (event(NET_FROM_COUNT, 0, NET_EV_FOLDED, "owned-count.test") < 0)
			return;
	}
	for (int i = 0; strcmp(word, "lines") == 0 && i < FOREVER; i++) {
		if (line() < 0)
			return;
	}
}

int main(void)
{
	char path[512], word[32] = "", message[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	FILE *f;

	path[n < 0 ? 0 : n] = '\0';
	if (n <= 0 || !strrchr(path, '/'))
		return 126;
	memcpy(strrchr(path, '/'), "/owned", sizeof("/owned"));
	f = fopen(path, "re");
	if (!f || fscanf(f, "%31s", word) != 1)
		return 126;
	fclose(f);
	if (strcmp(word, "exit") == 0)
		return 3;
	do_it(word);
	while (read(NETD_FD_CONTROL, message, sizeof(message)) > 0)
		;
	return 0;
}
