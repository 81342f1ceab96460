/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json: what is written is read again, and what is damaged is not believed. */
#include "statedir.h"

static void test_meta(void)
{
	static char big[10 << 20];
	char odd[] = "/home/\xff\xfe/gr\xc3\xbc\xc3\x9f/a\nb\"\\";
	struct run_meta m = { .id = "aa0000000001",
			      .name = (char *)"web",
			      .engine = (char *)"ns",
			      .command = (char *)"sh -c 'a\nb'",
			      .workspace = odd,
			      .ws_mode = (char *)"overlay",
			      .started = 1700000000123456789,
			      .ended = 0,
			      .launcher = 12,
			      .guard = 13,
			      .detached = true };
	struct run_meta r = { 0 };
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001");
	fd = openat(st.runs_fd, "aa0000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(state_meta_read(fd, &r, &e) == -ENOENT && r.name == NULL);
	CHECKF(state_meta_write(fd, &m, &e) == 0 && state_meta_read(fd, &r, &e) == 0,
	       "meta.json is written and read %s", e.msg);
	CHECK(same(r.id, "aa0000000001"));
	CHECK(same(r.name, "web"));
	CHECK(same(r.engine, "ns"));
	CHECK(same(r.command, "sh -c 'a\nb'"));
	CHECK(same(r.workspace, odd));
	CHECK(same(r.ws_mode, "overlay"));
	CHECK(r.started == 1700000000123456789 && r.ended == 0 && r.launcher == 12 && r.guard == 13 &&
	      r.detached);
	CHECK(r.cause == NULL);
	state_meta_release(&r);
	CHECK(r.name == NULL);

	memset(big, 'x', sizeof(big) - 1);
	big[4095] = '\xc3'; /* a letter of two bytes, just where it would be cut */
	big[4096] = '\xbc';
	m = (struct run_meta){ .id = "aa0000000001",
			       .command = big,
			       .ended = 9,
			       .exit_code = 137,
			       .cause = (char *)"oom",
			       .changes = 3,
			       .workspace = (char *)"/w" };
	CHECK(state_meta_write(fd, &m, &e) == 0 && state_meta_read(fd, &r, &e) == 0);
	CHECK(r.name == NULL && r.ended == 9 && r.exit_code == 137 && r.changes == 3 &&
	      strlen(r.command) == 4095);
	CHECK(same(r.cause, "oom"));
	CHECK(same(r.workspace, "/w"));
	state_meta_release(&r);
	CHECK(faccessat(fd, "meta.json", F_OK, 0) == 0);
	fd_close(fd);
	end(&st);
}

static void test_meta_damaged(void)
{
	static const char *const bad[] = { "",
					   "{",
					   "[]",
					   "null",
					   "{}",
					   "{\"id\":5}",
					   "{\"id\":\"short\"}",
					   "{\"id\":\"aa0000000001\",\"id\":\"aa0000000002\"}",
					   "{\"id\":\"aa0000000001\",\"workspace_bytes\":\"\xe2\x82\xac\"}",
					   "{\"id\":\"aa0000000001\"} trailing" };
	struct run_meta r = { 0 };
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001");
	fd = openat(st.runs_fd, "aa0000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(fd_replace_file(fd, "meta.json", bad[i], strlen(bad[i]), 0600) == 0);
		CHECKF(state_meta_read(fd, &r, &e) == -EBADMSG && strstr(e.msg, "damaged") && !r.name,
		       "a damaged meta.json is refused: '%s': %s", bad[i], e.msg);
	}
	/* control: the least that is accepted */
	CHECK(fd_replace_file(fd, "meta.json", "{\"id\":\"aa0000000001\"}", 21, 0600) == 0);
	CHECK(state_meta_read(fd, &r, &e) == 0);
	state_meta_release(&r);
	CHECK(unlinkat(fd, "meta.json", 0) == 0 && symlinkat("/etc/passwd", fd, "meta.json") == 0);
	CHECK(state_meta_read(fd, &r, &e) < 0);
	fd_close(fd);
	end(&st);
}

int main(void)
{
	test_meta();
	test_meta_damaged();
	return tap_done();
}
