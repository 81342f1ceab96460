/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of the state's format: made, brought forward, refused when it is newer or no number, and disks that do not take it. */
#include "statedir.h"

#include <sched.h>
#include <sys/mount.h>

static bool mark_is(const struct state *st, const char *wanted)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(st->fd, "format", 64, &b) == 0 && same(buf_cstr(&b), wanted);
}

static void set_mark(const struct state *st, const char *text)
{
	CHECK(fd_replace_file(st->fd, "format", text, strlen(text), 0600) == 0);
}

static void present(char text[16])
{
	snprintf(text, 16, "%d\n", STATE_FORMAT);
}

static void test_made(void)
{
	struct state st, again = STATE_INIT;
	struct err e = ERR_INIT;
	char now[16];

	present(now);
	begin(&st);
	CHECKF(st.marked && mark_is(&st, now), "a new state directory gets the mark of the present format");
	CHECK(unlinkat(st.fd, "format", 0) == 0);
	CHECKF(state_open(&again, &e) == 0 && again.marked && mark_is(&st, now),
	       "a state of the release before the mark opens and gets one %s", e.msg);
	state_release(&again);
	set_mark(&st, "1\n");
	CHECKF(state_open(&again, &e) == 0 && again.marked && mark_is(&st, now),
	       "a state of an older format opens and gets the present mark %s", e.msg);
	state_release(&again);
	end(&st);
}

static void test_newer(void)
{
	struct state st, again = STATE_INIT;
	char newer[16], about[64];
	struct err e = ERR_INIT;

	begin(&st);
	snprintf(newer, sizeof(newer), "%d\n", STATE_FORMAT + 1);
	snprintf(about, sizeof(about), "(format %d, this one knows %d)", STATE_FORMAT + 1, STATE_FORMAT);
	set_mark(&st, newer);
	CHECK(unlinkat(st.fd, "runs", AT_REMOVEDIR) == 0);
	CHECKF(state_open(&again, &e) == -EPROTONOSUPPORT && again.fd == -1,
	       "a state of a newer format is refused");
	CHECKF(strstr(e.msg, "written by a newer coffer") && strstr(e.msg, about),
	       "the refusal of a newer format has a reason: %s", e.msg);
	CHECKF(strstr(e.hint, "install that version again") && strstr(e.hint, "COFFER_STATE"),
	       "the refusal of a newer format has a next step: %s", e.hint);
	CHECK(state_open(&again, NULL) == -EPROTONOSUPPORT);
	CHECKF(mark_is(&st, newer) && faccessat(st.fd, "runs", F_OK, 0) < 0,
	       "nothing is made or changed in a state that is refused");
	end(&st);
}

/* Each may be the mark of a program that we know nothing of. */
static void test_damaged(void)
{
	static const char *const bad[] = { "",	   "\n",  "2",	  "x\n",   "-1\n",
					   "02\n", "0\n", "2 \n", "2\n\n", "99999999999999\n" };
	struct state st, again = STATE_INIT;
	struct err e = ERR_INIT;

	begin(&st);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		set_mark(&st, bad[i]);
		CHECKF(state_open(&again, &e) == -EBADMSG && strstr(e.msg, "does not name the format") &&
			       *e.hint,
		       "a damaged mark is refused (%zu): %s", i, e.msg);
	}
	CHECK(unlinkat(st.fd, "format", 0) == 0 && symlinkat("/etc/hostname", st.fd, "format") == 0);
	CHECKF(state_open(&again, &e) == -EBADMSG, "a mark that is a symlink is refused");
	CHECK(unlinkat(st.fd, "format", 0) == 0 && mkdirat(st.fd, "format", 0700) == 0);
	CHECKF(state_open(&again, &e) == -EBADMSG, "a mark that is a directory is refused");
	end(&st);
}

/* A file system that cannot be written: the state can be looked at, and nothing new is made in it. */
static int in_read_only_state(void)
{
	char id[RUN_ID_LEN + 1] = "";
	struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	const char *path = getenv("COFFER_STATE"); // NOLINT(concurrency-mt-unsafe): one thread

	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(path, path, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		return 99;
	if (state_open(&st, &e) < 0 || st.marked)
		return 1;
	if (state_mark(&st, &e) != -EROFS || !strstr(e.msg, "mark the format"))
		return 2;
	return state_run_create(&st, id, &e) == -EROFS ? 0 : 3;
}

static void test_read_only(void)
{
	struct state st;
	pid_t pid;
	int code;

	begin(&st);
	CHECK(unlinkat(st.fd, "format", 0) == 0);
	pid = fork_child();
	if (pid == 0)
		_exit(in_read_only_state());
	code = reap(pid);
	if (code == 99)
		tap_skip("an older state on a read-only disk opens", "nothing can be mounted here");
	else
		CHECKF(code == 0, "an older state on a read-only disk opens, and nothing is made in it (%d)",
		       code);
	end(&st);
}

int main(void)
{
	test_made();
	test_newer();
	test_damaged();
	test_read_only();
	return tap_done();
}
