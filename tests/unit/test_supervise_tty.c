/* SPDX-License-Identifier: Apache-2.0 */
/* A run and the caller's terminal: what passes, what is made harmless, and that it is put back. */
#include "supervise_job.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

static void test_filter(void)
{
	struct job j = SH("printf 'a\\033[2Jb\\033[31mc\\n'");
	int master, slave;
	char text[128] = "";
	size_t n = 0;
	struct run_end end;

	if (openpty(&master, &slave, NULL, NULL, NULL) < 0) {
		tap_skip("a terminal is spared escape sequences", "no pty");
		return;
	}
	j.io.out = slave;
	job_start(&j);
	end = job_wait(&j, NULL);
	while (n < sizeof(text) - 1 && !memmem(text, n, "\033[0m", 4)) {
		ssize_t k = read(master, text + n, sizeof(text) - 1 - n);

		if (k <= 0)
			break;
		n += (size_t)k;
	}
	CHECK(is_end(&end, CAUSE_EXIT, 0));
	CHECK_STR(text, "a\\x1b[2Jb\033[31mc\r\n\033[0m");
	close(master);
	close(slave);
}

/* Waits for `want`; what was read behind it stays for the next call on the same fd. */
static bool expect(int fd, const char *want)
{
	static char text[16384];
	static size_t n;
	static int of = -1;

	if (of != fd)
		n = 0;
	of = fd;
	for (int i = 0; i < 600; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char *at = memmem(text, n, want, strlen(want));
		ssize_t k;

		if (at) {
			at += strlen(want);
			n -= (size_t)(at - text);
			memmove(text, at, n);
			return true;
		}
		if (poll(&p, 1, 100) <= 0)
			continue;
		k = read(fd, text + n, sizeof(text) - 1 - n);
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	printf("# got '%.*s'\n", (int)n, text);
	return false;
}

static bool same_modes(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
	       a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

static void test_tty(void)
{
	struct job j = SH(
		"stty size; trap 'stty size' WINCH; trap 'echo caught; exit 6' INT; printf '\\033[1mbold'; "
		"while :; do sleep 0.05; done");
	struct winsize ws = { .ws_row = 30, .ws_col = 100 };
	struct termios before, during, after;
	int master, slave;
	struct run_end end;

	if (openpty(&master, &slave, NULL, NULL, &ws) < 0) {
		tap_skip("a command has a terminal of its own", "no pty");
		return;
	}
	tcgetattr(slave, &before);
	j.io.in = j.io.out = j.io.err = j.io.tty = slave;
	j.io.out = dup(slave);
	j.io.err = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECKF(expect(master, "30 100\r\n"), "the command's terminal has the size of the caller's");
	CHECKF(expect(master, "\033[1mbold"), "escape sequences pass unchanged");
	tcgetattr(slave, &during);
	CHECKF(!(during.c_lflag & (ICANON | ECHO | ISIG)), "the caller's terminal is raw during the command");
	ws.ws_row = 50;
	ioctl(slave, TIOCSWINSZ, &ws);
	kill(j.pid, SIGWINCH);
	CHECKF(expect(master, "50 100\r\n"), "a resize is passed on to the command");
	CHECK(write(master, "\003", 1) == 1);
	CHECKF(expect(master, "caught"), "Ctrl-C reaches the command");
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 6));
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the caller's terminal is restored after the command");

	/* ended by SIGTERM from outside, and by a crash of ours: restored all the same */
	j = SH("echo up; sleep 100");
	j.io.in = j.io.tty = slave;
	j.io.out = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECK(expect(master, "up"));
	kill(j.pid, SIGTERM);
	end = job_wait(&j, NULL);
	CHECKF(end.cause == CAUSE_STOPPED, "SIGTERM ends a command with a terminal");
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the terminal is restored after SIGTERM");
	j = SH("echo up; sleep 100");
	j.io.in = j.io.tty = slave;
	j.io.out = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECK(expect(master, "up"));
	kill(j.pid, SIGABRT);
	{
		int rc;

		job_wait(&j, &rc);
		CHECK(rc == -SIGABRT);
	}
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the terminal is restored after a crash");
	close(master);
	close(slave);
}

static void say_line(enum net_level level, const char *text, struct buf *out)
{
	(void)level;
	buf_addf(out, "[said: %s]\r\n", text);
}

static void guard_says(int fd, const char *text)
{
	struct net_msg m = { .type = NET_ASKED, .level = NET_LEVEL_NOTE };

	snprintf(m.text, sizeof(m.text), "%s", text);
	CHECK(send(fd, &m, sizeof(m), MSG_NOSIGNAL) == (ssize_t)sizeof(m));
}

/* The only child of the supervisor; 0: it is not found. */
static pid_t init_of(const struct job *j)
{
	char path[64], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)j->pid, (int)j->pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return (pid_t)strtol(text, NULL, 10);
}

/* A sandbox that stops its init from answering must not keep a question from the person at the terminal. */
static void test_silent_init(void)
{
	struct job j = SH("echo up; sleep 100");
	int master, slave, pair[2];
	struct run_end end;
	pid_t init;

	if (openpty(&master, &slave, NULL, NULL, NULL) < 0) {
		tap_skip("a question is shown while init is silent", "no pty");
		return;
	}
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	j.io.in = j.io.tty = slave;
	j.io.out = dup(slave);
	j.io.err = dup(slave);
	j.io.guard_fd = pair[0];
	j.io.say = say_line;
	j.spec.tty = true;
	job_start(&j);
	CHECK(expect(master, "up"));
	guard_says(pair[1], "the first question");
	CHECKF(expect(master, "[said: the first question]"),
	       "a question is a line of its own while init responds");
	init = init_of(&j);
	CHECK(init > 1 && kill(init, SIGSTOP) == 0);
	guard_says(pair[1], "the second question");
	CHECKF(expect(master, "\033]2;coffer: the second question\007"),
	       "a question is put into the title when init does not answer");
	guard_says(pair[1], "the third question");
	CHECKF(expect(master, "\033]2;coffer: the third question\007"),
	       "the next question is put into the title when init does not answer");
	kill(init, SIGCONT);
	kill(j.pid, SIGTERM);
	end = job_wait(&j, NULL);
	CHECKF(end.cause == CAUSE_STOPPED, "a command that was shown a question ends as others do");
	close(pair[0]);
	close(pair[1]);
	close(master);
	close(slave);
}

int main(void)
{
	if (!supervise_job_begin())
		return 1;
	test_filter();
	test_tty();
	test_silent_init();
	return supervise_job_done();
}
