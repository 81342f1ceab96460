/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a sandbox of another release is sent. */
#include "sandbox/state/compat.h"
#include "statedir.h"

static void test_check(void)
{
	struct err e = ERR_INIT;

	for (int q = 0; q < RUN_REQUEST_COUNT; q++) {
		CHECKF(compat_check(COMPAT_PROTOCOL, (enum run_request)q, &e) == 0,
		       "request %d is served by this release", q);
		if (q == RUN_STOP)
			continue;
		e = ERR_INIT;
		CHECKF(compat_check(COMPAT_PROTOCOL + 1, (enum run_request)q, &e) == -EPROTONOSUPPORT &&
			       strstr(e.msg, "started by a newer coffer") && strstr(e.hint, "coffer stop"),
		       "request %d is not sent to a sandbox of a newer release: %s", q, e.msg);
		CHECKF(compat_check(0, (enum run_request)q, &e) == -EPROTONOSUPPORT &&
			       strstr(e.msg, "started by an older coffer: restart it"),
		       "request %d is not sent to a sandbox that is older than the table: %s", q, e.msg);
		CHECKF(compat_check(-EBADMSG, (enum run_request)q, &e) == -EBADMSG &&
			       strstr(e.msg, "meta.json"),
		       "request %d is not sent to a sandbox of an unknown release: %s", q, e.msg);
	}
	/* The promises of doc/adr/0034 about the release before. */
	CHECKF(compat_check(COMPAT_FIRST, RUN_COMMAND, &e) == 0,
	       "a command runs in a sandbox of the release before");
	CHECKF(compat_check(COMPAT_FIRST, RUN_STAT, &e) == 0,
	       "a sandbox of the release before says what it uses");
	CHECKF(compat_check(0, RUN_STOP, &e) == 0 && compat_check(COMPAT_PROTOCOL + 9, RUN_STOP, &e) == 0 &&
		       compat_check(-EBADMSG, RUN_STOP, &e) == 0,
	       "a sandbox of any release can be stopped");
}

static int protocol_of(int fd, const char *text)
{
	CHECK(fd_replace_file(fd, "meta.json", text, strlen(text), 0600) == 0);
	return compat_read(fd);
}

static void test_read(void)
{
	struct run_meta m = { .id = "aa0000000001", .protocol = COMPAT_PROTOCOL }, r = { 0 };
	struct state st;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001");
	fd = openat(st.runs_fd, "aa0000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(compat_read(fd) == -ENOENT);
	CHECKF(state_meta_write(fd, &m, NULL) == 0 && compat_read(fd) == COMPAT_PROTOCOL,
	       "the protocol's number is written and read back");
	CHECKF(protocol_of(fd, "{\"id\":\"aa0000000001\"}") == COMPAT_FIRST,
	       "a run without a number is of the release before");
	CHECK(state_meta_read(fd, &r, NULL) == 0 && r.protocol == COMPAT_FIRST &&
	      state_meta_write(fd, &r, NULL) == 0);
	CHECKF(compat_read(fd) == COMPAT_FIRST,
	       "a run without a number stays so when meta.json is written again");
	state_meta_release(&r);
	CHECK(protocol_of(fd, "{\"id\":\"aa0000000001\",\"protocol\":77}") == 77);
	CHECK(state_meta_read(fd, &r, NULL) == 0 && state_meta_write(fd, &r, NULL) == 0);
	CHECKF(compat_read(fd) == 77, "the number of a newer release stays when meta.json is written again");
	state_meta_release(&r);
	CHECKF(protocol_of(fd, "{\"id\":\"aa0000000001\",\"ended\":5}") == COMPAT_PROTOCOL,
	       "a run that has ended is served by programs of today");
	CHECK(protocol_of(fd, "{\"id\":\"aa0000000001\",\"protocol\":\"2\"}") == -EBADMSG);
	CHECK(protocol_of(fd, "{\"id\":\"aa0000000001\",\"protocol\":0}") == -EBADMSG);
	CHECK(protocol_of(fd, "{\"id\":\"aa0000000001\",\"protocol\":99999999999}") == -EBADMSG);
	fd_close(fd);
	end(&st);
}

int main(void)
{
	test_check();
	test_read();
	return tap_done();
}
