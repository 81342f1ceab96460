/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ends and is told to have ended: by itself, by us, by the kernel, by an init that lies. */
#include "supervise_job.h"

#include <sys/stat.h>

static void test_ends(void)
{
	static const struct {
		const char *argv[4];
		enum run_cause cause;
		int code;
	} cases[] = {
		{ { "true" }, CAUSE_EXIT, 0 },
		{ { "sh", "-c", "exit 42" }, CAUSE_EXIT, 42 },
		{ { "sh", "-c", "kill -SEGV $$" }, CAUSE_SIGNAL, 139 },
		{ { "no-such-command" }, CAUSE_NOT_STARTED, 127 },
		{ { "/etc/passwd" }, CAUSE_NOT_STARTED, 126 },
	};
	struct run_end end;
	struct job j;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		j = job_new(cases[i].argv);
		job_start(&j);
		end = job_wait(&j, NULL);
		CHECKF(is_end(&end, cases[i].cause, cases[i].code), "the command %s ends with code %d",
		       cases[i].argv[0], cases[i].code);
	}
	j = JOB("true");
	free(j.spec.cwd);
	j.spec.cwd = strdup("/no/such/dir");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_NOT_STARTED, 125) && end.claim.what == PROTO_WHAT_CWD &&
		       end.start_errno == ENOENT,
	       "a missing working directory is reported as such");
}

static void test_streams(void)
{
	autobuf struct buf out = BUF_INIT, err = BUF_INIT;
	struct job j = SH("cat; echo to-err >&2; exit 3");
	int in = give_pipe(&j, &j.io.in, false), o = give_pipe(&j, &j.io.out, true),
	    e = give_pipe(&j, &j.io.err, true);
	struct run_end end;
	static char block[100000];
	pid_t writer;

	job_start(&j);
	writer = fork();
	if (writer == 0) {
		memset(block, 'y', sizeof(block));
		for (int i = 0; i < 40; i++) {
			if (fd_write_all(in, block, sizeof(block)) < 0)
				_exit(1);
		}
		_exit(0);
	}
	close(in);
	usleep(100000); /* a slow reader */
	read_all(o, &out);
	read_all(e, &err);
	end = job_wait(&j, NULL);
	waitpid(writer, NULL, 0);
	CHECK(is_end(&end, CAUSE_EXIT, 3));
	CHECKF(out.len == 4000000, "4000000 bytes pass through the command (%zu)", out.len);
	CHECK_STR(buf_cstr(&err), "to-err\n");
	CHECK(end.output_bytes == 4000007 && !end.output_cut);
}

static void test_files(void)
{
	autobuf struct buf out = BUF_INIT;
	struct run_end end;
	struct job j;
	int o;

	/* stdin from a file, stdout to a file */
	j = JOB("wc", "-c");
	j.io.in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	o = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	j.io.out = o;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 0));
	{
		struct stat st;
		char text[32] = "";

		fstat(j.io.in, &st);
		CHECK(pread(o, text, sizeof(text) - 1, 0) > 0 && strtol(text, NULL, 10) == st.st_size);
		close(j.io.in);
		close(o);
	}
	/* /dev/null is not sent at all, and a command that does not read holds nobody up */
	j = SH("readlink /proc/self/fd/0");
	j.io.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	o = give_pipe(&j, &j.io.out, true);
	job_start(&j);
	close(j.io.in);
	read_all(o, &out);
	end = job_wait(&j, NULL);
	CHECK_STR(buf_cstr(&out), "/dev/null\n");
}

static void test_output_limits(void)
{
	autobuf struct buf out = BUF_INIT;
	struct run_end end;
	struct job j = SH("head -c 3000000 /dev/zero; exit 4");
	int o = give_pipe(&j, &j.io.out, true);

	j.spec.limits.l[LIMIT_OUTPUT].value = 1000000;
	job_start(&j);
	read_all(o, &out);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 4));
	CHECKF(out.len == 1000000 && end.output_cut && end.output_bytes == 3000000,
	       "output is cut at its limit");

	j = SH("yes");
	o = give_pipe(&j, &j.io.out, true);
	job_start(&j);
	buf_clear(&out);
	CHECK(read(o, buf_reserve(&out, 100), 100) > 0);
	close(o);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_SIGNAL, 141), "a command whose reader goes away ends by SIGPIPE");

	j = SH("echo one; echo two >&2; head -c 100 /dev/zero | tr '\\0' x");
	o = open(dir, O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	j.io.log_fd = o;
	j.spec.limits.l[LIMIT_OUTPUT].value = 50;
	job_start(&j);
	end = job_wait(&j, NULL);
	lseek(o, 0, SEEK_SET);
	read_all(o, &out);
	CHECKF(end.output_cut && strstr(buf_cstr(&out), "one\n") && strstr(buf_cstr(&out), "xxx") &&
		       strstr(buf_cstr(&out), "thrown away"),
	       "a log is cut at its limit with a note");
}

static void test_time(void)
{
	uint64_t t = clock_nsec(CLOCK_MONOTONIC);
	struct run_end end;
	struct job j = SH("sleep 100");

	j.spec.limits.l[LIMIT_TIMEOUT].value = 200 * NSEC_PER_MSEC;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_TIMEOUT, 124) && since(t) < 60000,
	       "a command is ended at its time limit (%llu ms)", (unsigned long long)since(t));
	t = clock_nsec(CLOCK_MONOTONIC);
	j = SH("trap '' TERM; while :; do sleep 0.1; done");
	j.spec.limits.l[LIMIT_TIMEOUT].value = 200 * NSEC_PER_MSEC;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_TIMEOUT, 124) && since(t) >= 2000 && since(t) < 60000,
	       "a command that ignores SIGTERM is killed two seconds later");
}

/* Starts a command that says when it is ready, and waits for that. */
static int start_ready(struct job *j)
{
	int o = give_pipe(j, &j->io.out, true);
	char c;

	job_start(j);
	CHECK(read(o, &c, 1) == 1);
	return o;
}

static void test_signals(void)
{
	struct run_end end;
	struct job j = SH("echo; exec sleep 100");
	uint64_t t;
	int o = start_ready(&j);

	usleep(100000);
	kill(j.pid, SIGTERM);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 143), "a SIGTERM is passed on to the command");
	close(o);

	j = SH("trap 'exit 9' INT; echo; while :; do sleep 0.05; done");
	o = start_ready(&j);
	kill(j.pid, SIGINT);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 9), "a command that handles SIGINT gives its own code");
	close(o);

	j = SH("trap '' INT; echo; while :; do sleep 0.05; done");
	o = start_ready(&j);
	t = clock_nsec(CLOCK_MONOTONIC);
	/* Two that come before it looks are one. */
	do
		kill(j.pid, SIGINT);
	while (poll(&(struct pollfd){ .fd = j.result, .events = POLLIN }, 1, 300) == 0 && since(t) < 60000);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 130), "a second SIGINT kills the command");
	close(o);

	j = SH("echo; sleep 100");
	{
		int alive = give_pipe(&j, &j.io.alive_fd, false);

		o = start_ready(&j);
		close(alive);
	}
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_CALLER, 137), "a command ends with the process that started it");
	close(o);
}

static void test_kernel_says(void)
{
	struct run_end end;
	struct job j;

	fake_stat.oom_kills = 1;
	j = SH("kill -9 $$");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_OOM, 137));
	j = SH("exit 0");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_EXIT, 0), "a command that survives an out-of-memory kill has not failed");
	fake_stat.oom_kills = 0;
	fake_stat.pids_refused = 3;
	j = SH("exit 2");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_PIDS, 2) && end.pids_hit);
	fake_stat.pids_refused = 0;
}

static void test_disk(void)
{
	char script[256];
	struct run_end end;
	struct job j;

	snprintf(
		script, sizeof(script),
		"for i in 1 2 3 4 5 6 7 8 9 10; do head -c 300000 /dev/zero > %s/d$i; sleep 0.1; done; exec sleep $0",
		dir);
	fake_usage = 2000;
	j = JOB("sh", "-c", script, "100");
	j.io.usage_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	j.spec.limits.l[LIMIT_DISK].value = 1000;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_DISK, 137), "a command past the disk limit is killed");
	j = JOB("sh", "-c", script, "0");
	j.io.usage_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	j.spec.limits.l[LIMIT_DISK].value = 5000;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_EXIT, 0), "a command below the disk limit runs to its end");
	close(j.io.usage_fd);
}

/* A hostile program in the place of init. */
static void test_hostile(void)
{
#define HELLO "\\004\\000\\000\\000\\040\\000\\000\\000\\000\\000\\000\\000\\001\\000\\000\\000"
#define STARTED "\\004\\000\\000\\000\\041\\000\\000\\000\\001\\000\\000\\000\\005\\000\\000\\000"
	static const struct {
		const char *what, *script;
	} cases[] = {
		{ "one that says nothing and ends", "exit 0" },
		{ "one that dies", "kill -9 $$" },
		{ "garbage", "head -c 100000 /dev/urandom >&3; exec sleep 60" },
		{ "zeros", "head -c 100000 /dev/zero >&3; exec sleep 60" },
		{ "no greeting", "printf '" STARTED "' >&3; exec sleep 60" },
		{ "another version",
		  "printf '\\004\\000\\000\\000\\040\\000\\000\\000\\000\\000\\000\\000\\002\\000\\000\\000' >&3; exec sleep 60" },
		{ "a second greeting", "printf '" HELLO HELLO "' >&3; exec sleep 60" },
		{ "started twice", "printf '" HELLO STARTED STARTED "' >&3; exec sleep 60" },
		{ "output before the start",
		  "printf '" HELLO
		  "\\001\\000\\000\\000\\042\\000\\000\\000\\001\\000\\000\\000x' >&3; exec sleep 60" },
		{ "output of an unknown channel",
		  "printf '" HELLO STARTED
		  "\\001\\000\\000\\000\\042\\000\\000\\000\\002\\000\\000\\000x' >&3; exec sleep 60" },
		{ "a pong without a ping",
		  "printf '" HELLO
		  "\\000\\000\\000\\000\\047\\000\\000\\000\\000\\000\\000\\000' >&3; exec sleep 60" },
		{ "input credit that was not spent",
		  "printf '" HELLO STARTED
		  "\\004\\000\\000\\000\\044\\000\\000\\000\\001\\000\\000\\000\\000\\020\\000\\000' >&3; exec sleep 60" },
		{ "a frame of a client",
		  "printf '" HELLO
		  "\\000\\000\\000\\000\\101\\000\\000\\000\\000\\000\\000\\000' >&3; exec sleep 60" },
		{ "output past its credit",
		  "printf '" HELLO STARTED "' >&3; for i in 1 2 3 4 5 6 7 8 9; do "
		  "printf '\\000\\000\\001\\000\\042\\000\\000\\000\\001\\000\\000\\000' >&3; "
		  "head -c 65536 /dev/zero >&3; done; exec sleep 60" },
		{ "closing its stream", "exec 3>&- 3<&-; exec sleep 60" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char script[2048];
		uint64_t t = clock_nsec(CLOCK_MONOTONIC);
		struct job j = JOB("true");
		struct run_end end;
		int o;

		snprintf(script, sizeof(script), "#!/bin/bash\n%s\n", cases[i].script);
		j.fake_init = script;
		o = give_pipe(&j, &j.io.out, true); /* that nobody reads */
		job_start(&j);
		end = job_wait(&j, NULL);
		close(o);
		CHECKF(is_end(&end, CAUSE_BROKEN, 125) && end.broken[0] && since(t) < 50000,
		       "an init that breaks the protocol ends the run: %s: %s", cases[i].what, end.broken);
	}
}

int main(void)
{
	if (!supervise_job_begin())
		return 1;
	test_ends();
	test_streams();
	test_files();
	test_output_limits();
	test_time();
	test_signals();
	test_kernel_says();
	test_disk();
	test_hostile();
	return supervise_job_done();
}
