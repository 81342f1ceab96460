/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: making, holding, listing and taking them over, many at once. */
#include "statedir.h"

static void test_runs(void)
{
	char id[RUN_ID_LEN + 1] = "", named[RUN_ID_LEN + 1] = "00ff00ff00ff",
			     bad[RUN_ID_LEN + 1] = "../../../etc";
	struct state st;
	struct err e = ERR_INIT;
	bool alive = false;
	int fd, other;

	begin(&st);
	fd = state_run_create(&st, id, &e);
	CHECKF(fd >= 0 && strlen(id) == RUN_ID_LEN, "the run %s is made %s", id, e.msg);
	CHECK(strspn(id, "0123456789abcdef") == RUN_ID_LEN && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && alive);
	fd_close(other);
	CHECK(state_run_claim(&st, id, &e) == -EBUSY && strstr(e.msg, "alive"));
	fd_close(fd);
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && !alive);
	/* who only asked holds nothing */
	fd = state_run_claim(&st, id, &e);
	CHECKF(fd >= 0, "a run without a holder can be claimed %s", e.msg);
	fd_close(other);
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && alive);
	fd_close(other);
	CHECK(unlinkat(st.runs_fd, id, AT_REMOVEDIR) == 0);
	fd_close(fd);
	CHECK(state_run_claim(&st, id, &e) == -ENOENT && state_run_open(&st, id, &alive, &e) == -ENOENT);

	fd = state_run_create(&st, named, &e);
	CHECK(fd >= 0 && strcmp(named, "00ff00ff00ff") == 0);
	CHECK(state_run_create(&st, named, &e) == -EEXIST);
	fd_close(fd);
	CHECK(state_run_create(&st, bad, &e) == -EINVAL);
	CHECK(state_run_open(&st, "../runs", &alive, &e) == -EINVAL &&
	      state_run_claim(&st, "", &e) == -EINVAL);
	CHECK(state_run_open(&st, "00FF00FF00FF", &alive, &e) == -EINVAL);
	end(&st);
}

/* A process that only looks whether a run is alive holds it for a moment, and is in nobody's way. */
static void test_lookers(void)
{
	char id[RUN_ID_LEN + 1] = "";
	struct state st;
	int fd, busy = 0;
	pid_t pid;

	begin(&st);
	fd_close(state_run_create(&st, id, NULL));
	pid = fork_child();
	if (pid == 0) {
		for (;;) {
			bool alive;

			fd_close(state_run_open(&st, id, &alive, NULL));
		}
	}
	for (int i = 0; i < 2000; i++) {
		fd = state_run_claim(&st, id, NULL);
		busy += fd == -EBUSY;
		fd_close(fd);
	}
	CHECKF(busy == 0, "a run without a holder can be claimed while others look: %d times not", busy);
	fd = state_run_claim(&st, id, NULL);
	CHECKF(fd >= 0 && state_run_claim(&st, id, NULL) == -EBUSY,
	       "control: a run with a holder cannot be claimed");
	fd_close(fd);
	kill(pid, SIGKILL);
	(void)reap(pid);
	end(&st);
}

/* The lock lives as long as any process that has the fd. */
static void test_lock_inherited(void)
{
	char id[RUN_ID_LEN + 1] = "";
	struct state st;
	bool alive = false;
	int fd, other;
	pid_t pid;

	begin(&st);
	fd = state_run_create(&st, id, NULL);
	pid = fork_child();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	fd_close(fd);
	other = state_run_open(&st, id, &alive, NULL);
	CHECK(other >= 0 && alive);
	kill(pid, SIGKILL);
	reap(pid);
	fd_close(other);
	other = state_run_open(&st, id, &alive, NULL);
	CHECK(other >= 0 && !alive);
	fd_close(other);
	end(&st);
}

static void test_list(void)
{
	static const char *const ids[] = { "ff0000000001", "000000000002", "770000000003" };
	autostrv struct strv all = STRV_INIT;
	struct state st;

	begin(&st);
	CHECK(state_run_list(&st, &all, NULL) == 0 && all.n == 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		make_run(&st, ids[i]);
	CHECK(mkdirat(st.runs_fd, "not-a-run", 0700) == 0 && mkdirat(st.runs_fd, "FF0000000001", 0700) == 0);
	CHECK(state_run_list(&st, &all, NULL) == 0 && all.n == 3);
	for (size_t i = 0; i < all.n && i < 3; i++)
		CHECK(same(all.v[i], ids[2 - i]));
	end(&st);
}

static void write_meta(struct state *st, const char *id, uint64_t ended)
{
	struct run_meta m = { .started = 5, .ended = ended };
	autoclose int fd = openat(st->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = ERR_INIT;

	memcpy(m.id, id, RUN_ID_LEN + 1);
	CHECKF(state_meta_write(fd, &m, &e) == 0, "the meta.json of %s is written %s", id, e.msg);
}

static void test_stale(void)
{
	autostrv struct strv stale = STRV_INIT;
	char alive[RUN_ID_LEN + 1] = "", path[64];
	struct state st;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001"); /* no meta.json: being made, for as long as that may take */
	make_run(&st, "aa0000000002");
	write_meta(&st, "aa0000000002", 0);
	make_run(&st, "aa0000000003");
	write_meta(&st, "aa0000000003", 77);
	make_run(&st, "aa0000000004");
	snprintf(path, sizeof(path), "aa0000000004/meta.json");
	CHECK(fd_replace_file(st.runs_fd, path, "{\"id\":", 6, 0600) == 0);
	fd = state_run_create(&st, alive, NULL);
	write_meta(&st, alive, 0);
	CHECK(state_run_stale(&st, &stale, NULL) == 0 && stale.n == 2);
	CHECK(same(stale.n > 0 ? stale.v[0] : "", "aa0000000004"));
	CHECK(same(stale.n > 1 ? stale.v[1] : "", "aa0000000002"));
	strv_release(&stale);
	pause_ms(2100);
	CHECK(state_run_stale(&st, &stale, NULL) == 0 && stale.n == 3);
	CHECK(same(stale.n > 2 ? stale.v[2] : "", "aa0000000001"));
	fd_close(fd);
	end(&st);
}

/* Makes runs while others do, and while a sweeper takes what it finds unlocked. */
static int create_many(struct state *st, int n)
{
	int failed = 0;

	for (int i = 0; i < n; i++) {
		char id[RUN_ID_LEN + 1] = "";
		struct stat a, b;
		int fd = state_run_create(st, id, NULL);

		failed += fd < 0 || fstat(fd, &a) < 0 || fstatat(st->runs_fd, id, &b, 0) < 0 ||
			  a.st_ino != b.st_ino;
		failed += state_run_claim(st, id, NULL) != -EBUSY;
		failed += unlinkat(st->runs_fd, id, AT_REMOVEDIR) < 0;
		fd_close(fd);
	}
	return failed > 100 ? 100 : failed;
}

static void sweep_greedily(struct state *st)
{
	for (;;) {
		autostrv struct strv ids = STRV_INIT;

		if (state_run_list(st, &ids, NULL) < 0)
			_exit(1);
		for (size_t i = 0; i < ids.n; i++) {
			int fd = state_run_claim(st, ids.v[i], NULL);

			if (fd >= 0)
				unlinkat(st->runs_fd, ids.v[i], AT_REMOVEDIR);
			fd_close(fd);
		}
	}
}

static void test_many(void)
{
	char last[RUN_ID_LEN + 1];
	struct state st;
	pid_t pids[6], sweeper;

	begin(&st);
	sweeper = fork_child();
	if (sweeper == 0)
		sweep_greedily(&st);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork_child();
		if (pids[i] == 0)
			_exit(create_many(&st, 100));
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		CHECKF(reap(pids[i]) == 0, "process %zu made 100 runs beside others and a sweeper", i);
	kill(sweeper, SIGKILL);
	reap(sweeper);
	CHECK(state_last_id(&st, last) == 0);
	end(&st);
}

/* A removal that is cut short leaves no half of a run, only something to sweep. */
static void test_bury(void)
{
	autostrv struct strv ids = STRV_INIT, buried = STRV_INIT, held = STRV_INIT;
	char id[RUN_ID_LEN + 1] = "", name[RUN_BURIED_LEN], other[RUN_ID_LEN + 1];
	struct state st;
	int fd, late;

	begin(&st);
	fd = state_run_create(&st, id, NULL);
	CHECK(fd >= 0);
	late = openat(st.runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(state_run_bury(&st, id, name, NULL) == 0);
	CHECK(state_run_list(&st, &ids, NULL) == 0 && ids.n == 0);
	CHECK(state_resolve(&st, id, other, NULL) == -ENOENT);
	CHECK(state_run_claim(&st, id, NULL) == -ENOENT);
	CHECK(state_run_bury(&st, id, name, NULL) < 0);
	CHECKF(state_run_buried(&st, &held, NULL) == 0 && held.n == 0,
	       "a run is not listed as buried while its remover holds it");
	fd_close(fd);
	CHECKF(state_run_buried(&st, &buried, NULL) == 0 && buried.n == 1,
	       "a run is listed as buried after its remover died");
	CHECK_STR(buried.n ? buried.v[0] : "", name);
	fd_close(late);
	CHECK(fd_rm_rf(st.runs_fd, name, NULL) == 0);
	end(&st);
}

int main(void)
{
	test_bury();
	test_runs();
	test_lookers();
	test_lock_inherited();
	test_list();
	test_stale();
	test_many();
	return tap_done();
}
