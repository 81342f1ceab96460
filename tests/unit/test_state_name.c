/* SPDX-License-Identifier: Apache-2.0 */
/* The names by which a person may call a run. */
#include "statedir.h"

static void test_last(void)
{
	char a[RUN_ID_LEN + 1] = "", b[RUN_ID_LEN + 1] = "", got[RUN_ID_LEN + 1] = "";
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	CHECK(state_last_id(&st, got) == -ENOENT);
	CHECK(state_resolve(&st, "@last", got, &e) == -ENOENT && strstr(e.msg, "nothing was run yet"));
	fd = state_run_create(&st, a, &e);
	fd_close(fd);
	CHECK(state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, a));
	pause_ms(15);
	fd = state_run_create(&st, b, &e);
	fd_close(fd);
	CHECK(state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, b));
	CHECK(unlinkat(st.runs_fd, b, AT_REMOVEDIR) == 0);
	CHECK(state_resolve(&st, "@last", got, &e) == -ENOENT &&
	      strstr(e.msg, "nothing is kept of the last run") && strstr(e.msg, b));
	CHECK(state_last_id(&st, got) == 0);
	CHECK(same(got, b));
	/* a spoiled mark is not believed: the newest that is there */
	CHECK(fd_replace_file(st.fd, "last", "../../etc/pa\n", 13, 0600) == 0);
	CHECK(state_last_id(&st, got) == -ENOENT && state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, a));
	CHECK(fd_replace_file(st.fd, "last", "", 0, 0600) == 0 && state_last_id(&st, got) == -ENOENT);
	end(&st);
}

static void test_resolve(void)
{
	static const char *const bad[] = { "../x", "",	      "a/b",	 ".",  "..",	       "@first",
					   "zz",   "\033[2J", "abcdefg", "AB", "ab0000000001x" };
	static char huge[20000];
	char got[RUN_ID_LEN + 1] = "untouched";
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	CHECK(state_resolve(&st, "ab", got, &e) == -ENOENT && strstr(e.msg, "no runs are kept"));
	make_run(&st, "ab0000000001");
	make_run(&st, "ab0000000002");
	make_run(&st, "cd0000000003");
	CHECK(state_resolve(&st, "cd", got, &e) == 0);
	CHECK(same(got, "cd0000000003"));
	CHECK(state_resolve(&st, "ab0000000002", got, &e) == 0);
	CHECK(same(got, "ab0000000002"));
	CHECK(state_resolve(&st, "ab", got, &e) == -ENOTUNIQ && strstr(e.msg, "ab0000000001") &&
	      strstr(e.msg, "ab0000000002"));
	CHECK(state_resolve(&st, "c", got, &e) == -ENOENT && strstr(e.hint, "two digits"));
	CHECK(state_name_set(&st, "web", "cd0000000003", &e) == 0 && state_resolve(&st, "web", got, &e) == 0);
	CHECK(same(got, "cd0000000003"));
	CHECK(state_name_set(&st, "ab", "cd0000000003", &e) == 0 && state_resolve(&st, "ab", got, &e) == 0);
	CHECK(same(got, "cd0000000003")); /* a name goes before a prefix */
	CHECK(state_resolve(&st, "wbe", got, &e) == -ENOENT && strstr(e.hint, "web") &&
	      strstr(e.msg, "web") && !strstr(e.msg, "cd0000000003")); /* names, where there are any */
	strcpy(got, "untouched");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (strcmp(bad[i], "AB") == 0)
			continue;
		CHECKF(state_resolve(&st, bad[i], got, &e) == -ENOENT && !strchr(e.msg, '\033'),
		       "a name without a run is refused: %s", e.msg);
	}
	memset(huge, 'a', sizeof(huge) - 1);
	CHECK(state_resolve(&st, huge, got, &e) == -ENOENT);
	CHECK(same(got, "untouched"));
	end(&st);
}

static void test_names(void)
{
	char got[RUN_ID_LEN + 1];
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	make_run(&st, "ab0000000001");
	make_run(&st, "ab0000000002");
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0);
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0); /* it is ours already */
	CHECK(state_name_set(&st, "web", "ab0000000002", &e) == -EEXIST && strstr(e.msg, "ab0000000001"));
	CHECK(strstr(e.hint, "coffer rm web"));
	state_name_clear(&st, "web", "ab0000000002"); /* not its name */
	CHECK(state_resolve(&st, "web", got, &e) == 0);
	state_name_clear(&st, "web", "ab0000000001");
	CHECK(state_resolve(&st, "web", got, &e) == -ENOENT);
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0);
	CHECK(unlinkat(st.runs_fd, "ab0000000001", AT_REMOVEDIR) == 0);
	CHECK(state_resolve(&st, "web", got, &e) == -ENOENT); /* a name without its run is none */
	CHECK(state_name_set(&st, "web", "ab0000000002", &e) == 0 && state_resolve(&st, "web", got, &e) == 0);
	CHECK(same(got, "ab0000000002"));
	/* a link that was spoiled is not followed, and does not block the name */
	CHECK(symlinkat("../../../etc/passwd", st.fd, "names/odd") == 0);
	CHECK(state_resolve(&st, "odd", got, &e) == -ENOENT);
	CHECK(state_name_set(&st, "odd", "ab0000000002", &e) == 0 && state_resolve(&st, "odd", got, &e) == 0);
	CHECK(state_name_set(&st, "a/b", "ab0000000002", &e) == -EINVAL &&
	      state_name_set(&st, "", "x", &e) == -EINVAL);
	CHECK(state_name_set(&st, "../runs", "ab0000000002", &e) == -EINVAL && e.hint[0]);
	state_name_clear(&st, "../runs", "ab0000000002");
	end(&st);
}

/* Many want the name of a run that is gone: one gets it. */
static void test_name_race(void)
{
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	for (int round = 0; round < 20; round++) {
		int winners = 0, go[2];
		pid_t pids[8];

		CHECKF(pipe2(go, O_CLOEXEC) == 0 &&
			       symlinkat("ee0000000000", st.fd, round ? "names/x" : "gone") == 0,
		       "round %d of the race is prepared", round);
		if (round == 0 && state_name_set(&st, "x", "ee0000000000", &e) < 0)
			CHECKF(false, "a process of the race ran %s", e.msg);
		for (int i = 0; i < 8; i++) {
			pids[i] = fork_child();
			if (pids[i] == 0) {
				char id[RUN_ID_LEN + 1], c;

				snprintf(id, sizeof(id), "dd%02u%08u", (unsigned)round % 100u,
					 (unsigned)i % 100u);
				close(go[1]);
				if (mkdirat(st.runs_fd, id, 0700) < 0 || read(go[0], &c, 1) < 0)
					_exit(9);
				_exit(state_name_set(&st, "x", id, NULL) == 0);
			}
		}
		close(go[1]);
		for (int i = 0; i < 8; i++)
			winners += reap(pids[i]);
		close(go[0]);
		CHECKF(winners == 1, "in round %d one process gets the name: %d did", round, winners);
		unlinkat(st.fd, "names/x", 0);
	}
	end(&st);
}

int main(void)
{
	test_last();
	test_resolve();
	test_names();
	test_name_race();
	return tap_done();
}
