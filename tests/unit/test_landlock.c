/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock for real, in children: what file permissions alone would allow is tried before the fence is up,
 * and again behind it. All of it in a directory of our own, as whoever runs the test.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sys/fence/landlock.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[] = "/tmp/test-landlock-XXXXXX";

/* Shared with the children, which report here how many of their checks failed. */
struct shared {
	int bad;
	char what[16][160];
};
static struct shared *shared;

__attribute__((format(printf, 2, 3))) static void expect(bool ok, const char *fmt, ...)
{
	__builtin_va_list ap;

	if (ok)
		return;
	__builtin_va_start(ap, fmt);
	if (shared->bad < 16)
		vsnprintf(shared->what[shared->bad], sizeof(shared->what[0]), fmt, ap);
	__builtin_va_end(ap);
	shared->bad++;
}

#define EXPECT(cond) expect((cond), "%s (%s)", #cond, strerror(errno))

typedef void child_fn(int abi);

static void in_child(child_fn *fn, int abi, const char *what)
{
	int status = -1;
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (chdir(top) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			_exit(99);
		fn(abi);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	CHECKF(status == 0 && shared->bad == 0, "under ABI %d the child is fenced: %s", abi, what);
	for (int i = 0; i < shared->bad && i < 16; i++)
		printf("#   not so: %s\n", shared->what[i]);
	if (status)
		printf("#   the child ended with status %x\n", (unsigned)status);
}

static const struct landlock_rule rules[] = {
	{ "/usr", LANDLOCK_READ_EXEC }, { "/lib", LANDLOCK_READ_EXEC },	  { "/lib64", LANDLOCK_READ_EXEC },
	{ "/bin", LANDLOCK_READ_EXEC }, { "a", LANDLOCK_WRITE },	  { "b", LANDLOCK_WRITE },
	{ "ro", LANDLOCK_READ_EXEC },	{ "file", LANDLOCK_WRITE },	  { "/dev", LANDLOCK_DEVICES },
	{ "/no/such", LANDLOCK_WRITE }, { "file/below", LANDLOCK_WRITE },
};

static void fence(int abi)
{
	struct err e = ERR_INIT;
	int r = landlock_apply_abi(abi, rules, ARRAY_SIZE(rules), &e);

	expect(r == abi, "the fence is up: %d, %s", r, e.msg);
}

static bool can_write(const char *path)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, "x", 1) == 1;
}

static bool can_read(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0;
}

static void check_outside(int abi)
{
	EXPECT(can_write("out/f") && can_read("out/f") && can_write("ro/f"));
	EXPECT(mkdir("out/d", 0700) == 0 && rmdir("out/d") == 0);
	fence(abi);
	EXPECT(!can_write("out/f") && errno == EACCES);
	EXPECT(!can_read("out/f") && errno == EACCES);
	EXPECT(!can_write("out/new") && errno == EACCES);
	EXPECT(mkdir("out/d", 0700) < 0 && errno == EACCES);
	EXPECT(unlink("out/f") < 0 && errno == EACCES);
	EXPECT(!can_read("."));
	EXPECT(!can_write("ro/f") && can_read("ro/f") && can_read("ro"));
	EXPECT(mkfifo("ro/p", 0600) < 0);
	EXPECT(symlink("x", "ro/s") < 0);
	if (abi >= 3)
		EXPECT(truncate("ro/f", 0) < 0 && errno == EACCES);
}

static void check_inside(int abi)
{
	struct stat st;

	fence(abi);
	EXPECT(can_write("a/f") && can_read("a/f") && can_write("b/f"));
	EXPECT(mkdir("a/d", 0700) == 0 && can_write("a/d/f"));
	EXPECT(mkfifo("a/p", 0600) == 0 && symlink("f", "a/s") == 0);
	EXPECT(rename("a/f", "b/g") == 0);
	EXPECT(link("b/g", "a/h") == 0);
	EXPECT(rename("a/d", "b/e") == 0 && stat("b/e/f", &st) == 0);
	EXPECT(truncate("b/g", 0) == 0);
	EXPECT(unlink("b/g") == 0 && unlink("a/h") == 0 && unlink("b/e/f") == 0 && rmdir("b/e") == 0);
	EXPECT(unlink("a/p") == 0 && unlink("a/s") == 0);
	EXPECT(link("ro/f", "a/stolen") < 0);
	EXPECT(rename("b/f", "out/f") < 0);
	EXPECT(can_write("file") && can_read("file"));
	EXPECT(mknod("a/dev", S_IFCHR | 0600, 0x103) < 0);
}

static void check_exec(int abi)
{
	int status = -1;
	pid_t pid;

	fence(abi);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c",
		      "test -r ro/f && ! test -e out/f/x && echo y > a/y && ! (echo z > ro/f) 2>/dev/null",
		      (char *)NULL);
		_exit(127);
	}
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(can_read("a/y") && unlink("a/y") == 0);
}

static void check_reopen(int abi)
{
	char path[64];
	autoclose int fd = open("out/f", O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	autoclose int mem = memfd_create("m", MFD_CLOEXEC);
	int pipefd[2];

	EXPECT(pipe2(pipefd, O_CLOEXEC) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXPECT(can_write(path));
	fence(abi);
	EXPECT(lseek(fd, 0, SEEK_SET) == 0);
	EXPECT(!can_write(path) && errno == EACCES);
	EXPECT(!can_read(path));
	/* An object without a place in the file system stays as it is. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem);
	EXPECT(can_write(path));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipefd[1]);
	EXPECT(can_write(path));
}

static void check_terminal(int abi)
{
	struct winsize w;
	char name[64];
	int master, slave, again;

	EXPECT(openpty(&master, &slave, name, NULL, NULL) == 0);
	fence(abi);
	again = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	EXPECT(again >= 0);
	EXPECT(ioctl(again, TIOCGWINSZ, &w) == 0);
	EXPECT(ioctl(slave, TIOCGWINSZ, &w) == 0);
	EXPECT(isatty(again));
	EXPECT(can_write("/dev/null") && can_read("/dev/urandom"));
	EXPECT(open("/dev/null", O_WRONLY | O_TRUNC | O_CLOEXEC) >= 0);
}

/* The same terminal under a rule that does not give the right to control devices. */
static void check_ioctl_dev(int abi)
{
	const struct landlock_rule dev = { "/dev", LANDLOCK_WRITE };
	struct err e = ERR_INIT;
	struct winsize w;
	char name[64];
	int master, slave, again;

	EXPECT(openpty(&master, &slave, name, NULL, NULL) == 0);
	EXPECT(landlock_apply_abi(abi, &dev, 1, &e) == abi);
	again = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	EXPECT(again >= 0 && ioctl(slave, TIOCGWINSZ, &w) == 0);
	if (abi >= 5)
		EXPECT(ioctl(again, TIOCGWINSZ, &w) < 0 && errno == EACCES);
	else
		EXPECT(ioctl(again, TIOCGWINSZ, &w) == 0);
}

static int abstract_connect(const struct sockaddr_un *addr, socklen_t len)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
}

static void check_scopes(int abi)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    (size_t)snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
						     "landlock-%d", getpid()));
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t parent = getppid(), child, outsider;

	EXPECT(bind(fd, (const struct sockaddr *)&addr, len) == 0 && listen(fd, 4) == 0);
	outsider = fork();
	if (outsider == 0) {
		pause();
		_exit(0);
	}
	EXPECT(kill(parent, 0) == 0 && kill(outsider, 0) == 0 && abstract_connect(&addr, len) == 0);
	child = fork();
	if (child == 0) {
		pid_t own;

		fence(abi);
		own = fork();
		if (own == 0) {
			pause();
			_exit(0);
		}
		EXPECT(kill(parent, 0) == 0 || (abi >= 6 && errno == EPERM));
		if (abi >= 6) {
			EXPECT(kill(outsider, SIGTERM) < 0 && errno == EPERM);
			EXPECT(abstract_connect(&addr, len) == -EPERM);
		}
		EXPECT(kill(own, SIGKILL) == 0 && waitpid(own, NULL, 0) == own);
		_exit(0);
	}
	EXPECT(waitpid(child, NULL, 0) == child);
	EXPECT(waitpid(outsider, NULL, WNOHANG) == 0);
	EXPECT(kill(outsider, SIGKILL) == 0 && waitpid(outsider, NULL, 0) == outsider);
}

static void check_errors(int abi)
{
	const struct landlock_rule loop = { "loop", LANDLOCK_WRITE };
	struct err e = ERR_INIT;
	int r;

	(void)abi;
	EXPECT(symlink("loop", "loop") == 0);
	r = landlock_apply(&loop, 1, &e);
	expect(r == -ELOOP && strstr(e.msg, "loop"), "a path that cannot be opened is named: %d, %s", r,
	       e.msg);
	EXPECT(can_write("out/f"));
	EXPECT(unlink("loop") == 0);
}

static void test_rights(void)
{
	static const int bits[] = { 0, 13, 14, 15, 15, 16, 16, 16 };
	bool ok = true;

	for (int abi = 1; abi <= 7; abi++)
		ok = ok && landlock_handled(abi) == (1ULL << bits[abi]) - 1;
	CHECKF(ok, "every right of each ABI is handled");
	ok = true;
	for (int abi = 1; abi <= 9; abi++) {
		for (int a = 0; a < LANDLOCK_ACCESS_COUNT; a++)
			ok = ok &&
			     (landlock_rights(abi, (enum landlock_access)a) & ~landlock_handled(abi)) == 0;
		ok = ok && !(landlock_rights(abi, LANDLOCK_WRITE) & (1 << 6 | 1 << 11 | 1 << 15));
		ok = ok && !(landlock_rights(abi, LANDLOCK_READ_EXEC) & ~0xdULL);
		ok = ok && !(landlock_rights(abi, LANDLOCK_DEVICES) & 0x3ff1);
		ok = ok &&
		     landlock_rights(abi, LANDLOCK_LAYER) == (landlock_rights(abi, LANDLOCK_WRITE) | 1 << 6);
	}
	CHECKF(ok, "no rule gives rights unknown to its ABI, makes a device or controls one outside /dev");
}

static void test_speed(void)
{
	static const struct landlock_rule eight[] = {
		{ "/", LANDLOCK_READ_EXEC },	{ "/tmp", LANDLOCK_WRITE },   { "/run", LANDLOCK_WRITE },
		{ "/var/tmp", LANDLOCK_WRITE }, { "/dev", LANDLOCK_DEVICES }, { "/dev/shm", LANDLOCK_WRITE },
		{ "/proc", LANDLOCK_WRITE },	{ "/home", LANDLOCK_WRITE },
	};
	uint64_t best = UINT64_MAX, *took = (uint64_t *)(void *)shared;
	struct err e = ERR_INIT;

	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			uint64_t start;
			int r;

			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			start = clock_nsec(CLOCK_MONOTONIC);
			r = landlock_apply(eight, ARRAY_SIZE(eight), &e);
			*took = clock_nsec(CLOCK_MONOTONIC) - start;
			_exit(r > 0 ? 0 : 1);
		}
		waitpid(pid, NULL, 0);
		best = *took < best ? *took : best;
	}
	printf("# eight rules in %.1f us\n", (double)best / 1000);
	CHECKF(best < 1000000, "putting the fence up takes less than a millisecond");
}

static bool make_ground(void)
{
	static const char *const dirs[] = { "a", "b", "ro", "out" };

	if (!mkdtemp(top) || chdir(top) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdir(dirs[i], 0700) < 0)
			return false;
	}
	return can_write("file") && can_write("ro/f") && can_write("out/f");
}

int main(void)
{
	struct err e = ERR_INIT;
	int kernel = landlock_abi();

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || !make_ground()) {
		printf("Bail out! no ground to test on\n");
		return 1;
	}
	test_rights();
	CHECKF(landlock_apply_abi(1, rules, ARRAY_SIZE(rules), &e) == 0 && can_write("out/f"),
	       "the first ABI restricts nothing, and the caller is told");
	if (kernel < LANDLOCK_MIN_ABI)
		tap_skip("the fence restricts a child",
			 "this kernel has no Landlock, or only its first version");
	for (int abi = LANDLOCK_MIN_ABI; abi <= kernel && abi <= 7; abi++) {
		in_child(check_outside, abi, "outside the trees nothing can be read, written or made");
		in_child(check_inside, abi, "inside them files can be made, moved and linked between trees");
		in_child(check_exec, abi, "programs run, and are fenced in");
		in_child(check_reopen, abi, "a descriptor from outside cannot be opened again");
		in_child(check_terminal, abi, "terminals and the usual devices work below /dev");
		in_child(check_ioctl_dev, abi, "devices can be controlled below /dev only");
		in_child(check_scopes, abi, "signals and abstract sockets stay inside");
		in_child(check_errors, abi, "an unusable path is an error, and leaves no fence");
	}
	if (kernel >= LANDLOCK_MIN_ABI)
		test_speed();
	if (chdir("/") < 0 || fd_rm_rf(AT_FDCWD, top, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
