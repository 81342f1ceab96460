/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe program: static, so that it runs the same in any root file system.
 *
 *   probe list                       every probe: name, control, flags
 *   probe run PARAMS NAME…           tries them, each in a process of its own
 *   probe control PARAMS NAME…       the same outside, with what each control needs around it
 *   probe world DIR SECRET           what there is to attack (world.c)
 *   probe bomb NAME [ARG]            use up one resource (bomb.c)
 *   probe spare                      is anything left for this user? (bomb.c)
 *   probe euid CAPS                  exit 42 when this program runs with more than its caller has
 *
 * A probe that hangs is killed and is an error, never "held".
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PROBE_TIMEOUT_MS 8000

static const struct probe *const themes[] = { probes_files, probes_workspace, probes_bind, probes_proc,
					      probes_ns,    probes_mount,     probes_sys,  probes_kernel,
					      probes_abi,   probes_net,	      probes_ipc,  probes_tty,
					      probes_wall };
static const char *const control_names[] = { "same", "userns", "root", "root-ns" };

bool in_control;
bool inherited[256];
static char verdict_text[700];
static char *params_text;

__attribute__((format(printf, 1, 0))) static void say(const char *fmt, va_list ap)
{
	vsnprintf(verdict_text, sizeof(verdict_text), fmt, ap);
	for (char *p = verdict_text; *p; p++) {
		if ((unsigned char)*p < 32)
			*p = ' ';
	}
}

#define VERDICT_FN(name, which)                 \
	enum verdict name(const char *fmt, ...) \
	{                                       \
		va_list ap;                     \
                                                \
		va_start(ap, fmt);              \
		say(fmt, ap);                   \
		va_end(ap);                     \
		return which;                   \
	}

VERDICT_FN(held_for, V_HELD)
VERDICT_FN(broken, V_BROKEN)
VERDICT_FN(not_here, V_NA)
VERDICT_FN(probe_error, V_ERROR)
VERDICT_FN(info, V_INFO)

enum verdict held(void)
{
	return held_for("%s", errno_name(errno));
}

enum verdict asks(const char *event)
{
	snprintf(verdict_text, sizeof(verdict_text), "%s", event);
	return V_OUTSIDE;
}

enum verdict judge(long r, const char *what)
{
	return r >= 0 ? broken("%s", what) : held();
}

enum verdict judge_permission(long r, int given1, int given2, const char *what)
{
	if (r < 0 && (errno == given1 || errno == given2))
		return broken("%s: the permission was given (%s)", what, errno_name(errno));
	return judge(r, what);
}

enum verdict judge_optional(long r, const char *what)
{
	if (r < 0 && in_control &&
	    (errno == ENOSYS || errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ENODEV ||
	     errno == ESOCKTNOSUPPORT))
		return not_here("this kernel does not have it (%s)", errno_name(errno));
	return judge(r, what);
}

const char *errno_name(int err)
{
	const char *n = strerrorname_np(err);

	return n ? n : "unknown error";
}

/* key=value lines; returns a copy of the value or NULL */
static char *find_param(const char *key)
{
	size_t n = strlen(key);

	for (const char *p = params_text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		if (strncmp(p, key, n) == 0 && p[n] == '=')
			return strndup(p + n + 1, strcspn(p + n + 1, "\n"));
	}
	return NULL;
}

static int report_fd = -1;

static void finish(enum verdict v)
{
	char line[sizeof(verdict_text)];
	int n = snprintf(line, sizeof(line), "%d %.600s", (int)v, verdict_text);

	if (write(report_fd, line, (size_t)n) < 0)
		_exit(126);
	_exit(0);
}

const char *param(const char *key)
{
	char *v = find_param(key);

	if (!v) {
		not_here("the world has no %s", key);
		finish(V_NA);
	}
	return v;
}

bool has_param(const char *key)
{
	autofree char *v = find_param(key);

	return v != NULL;
}

long param_num(const char *key)
{
	return strtol(param(key), NULL, 0);
}

char *path_f(char out[4096], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out, 4096, fmt, ap);
	va_end(ap);
	return out;
}

long read_small(const char *path, char *out, size_t cap)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n, all = 0;

	if (fd < 0)
		return -1;
	while ((size_t)all < cap - 1 && (n = read(fd, out + all, cap - 1 - (size_t)all)) != 0) {
		if (n < 0)
			return -1;
		all += n;
	}
	out[all] = '\0';
	return all;
}

int write_small(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

unsigned long long fnv_file(const char *path)
{
	static char text[1 << 16];
	unsigned long long h = 0xcbf29ce484222325ULL;
	long n = read_small(path, text, sizeof(text));

	if (n <= 0)
		return 0;
	for (long i = 0; i < n; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return h;
}

int wait_exit(int pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

enum verdict read_secret_at(int dirfd, const char *path)
{
	static char text[1 << 16];
	const char *secret = param("secret");
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return held();
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return held();
	if (memmem(text, (size_t)n, secret, strlen(secret)))
		return broken("read the secret through %s", path);
	return held_for("there, without the secret");
}

enum verdict read_secret(const char *path)
{
	return read_secret_at(AT_FDCWD, path);
}

/* Controls that need it get namespaces of their own, whose pid 1 is an ordinary process of the same user. */
static void enter_namespaces(bool userns)
{
	int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC;
	unsigned uid = getuid(), gid = getgid();
	char map[64];
	pid_t pid;

	if (unshare(flags | (userns ? CLONE_NEWUSER : 0)) < 0) {
		not_here("this identity may not make namespaces (%s)", errno_name(errno));
		finish(V_NA);
	}
	if (userns) {
		write_small("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", uid);
		write_small("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "0 %u 1", gid);
		write_small("/proc/self/gid_map", map);
	}
	pid = fork();
	if (pid > 0)
		_exit(wait_exit(pid));
	if (pid < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		probe_error("namespaces of the control: %s", errno_name(errno));
		finish(V_ERROR);
	}
	mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	prctl(PR_SET_DUMPABLE, 1);
	pid = fork();
	if (pid > 0)
		_exit(wait_exit(pid));
}

static bool has_capability(int cap)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	if (syscall(SYS_capget, &h, d) < 0)
		return false;
	return (d[cap / 32].effective >> (cap % 32)) & 1;
}

static void probe_child(const struct probe *p)
{
	setpgid(0, 0);
	signal(SIGTTOU, SIG_IGN);
	if (in_control && p->needs && !has_capability(p->needs)) {
		not_here("the control needs a capability that this identity lacks");
		finish(V_NA);
	}
	if (in_control && (p->control == CTL_USERNS || p->control == CTL_ROOT_NS))
		enter_namespaces(p->control == CTL_USERNS);
	finish(p->act());
}

/* The verdict of a process that died without one: SIGSYS is seccomp, all else is the probe's fault. */
static enum verdict verdict_of_death(pid_t pid, bool timed_out)
{
	int status = wait_exit(pid);

	if (timed_out)
		return probe_error("no answer in %d seconds", PROBE_TIMEOUT_MS / 1000);
	if (status == 128 + SIGSYS)
		return held_for("SIGSYS");
	return probe_error("ended without a verdict, status %d", status);
}

static enum verdict probe_one(const struct probe *p)
{
	char line[sizeof(verdict_text)];
	int pipefd[2];
	struct pollfd pfd;
	enum verdict v;
	ssize_t n = 0;
	pid_t pid;
	int ready;

	if (pipe2(pipefd, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return probe_error("cannot start: %s", errno_name(errno));
	if (pid == 0) {
		close(pipefd[0]);
		report_fd = pipefd[1];
		probe_child(p);
	}
	close(pipefd[1]);
	pfd = (struct pollfd){ .fd = pipefd[0], .events = POLLIN };
	ready = poll(&pfd, 1, PROBE_TIMEOUT_MS);
	if (ready > 0)
		n = read(pipefd[0], line, sizeof(line) - 1);
	close(pipefd[0]);
	kill(-pid, n > 0 || ready <= 0 ? SIGKILL : 0);
	if (n <= 2)
		return verdict_of_death(pid, ready <= 0);
	line[n] = '\0';
	wait_exit(pid);
	v = (enum verdict)(line[0] - '0');
	snprintf(verdict_text, sizeof(verdict_text), "%s", line + 2);
	return v;
}

static int report(const char *name, enum verdict v)
{
	static const char *const words[] = { "held (", "BROKEN ", "asks ", "n/a ", "ERROR ", "info " };
	char line[800];
	int n = snprintf(line, sizeof(line), "probe %s: %s%s%s\n", name, words[v], verdict_text,
			 v == V_HELD ? ")" : "");

	if (write(STDOUT_FILENO, line, (size_t)n) < 0)
		return V_ERROR;
	return v == V_INFO ? 0 : (int)v;
}

static const struct probe *find_probe(const char *name)
{
	for (size_t t = 0; t < ARRAY_SIZE(themes); t++) {
		for (const struct probe *p = themes[t]; p->name; p++) {
			if (strcmp(p->name, name) == 0)
				return p;
		}
	}
	return NULL;
}

static int run_probes(const char *params, char **names)
{
	static char text[1 << 16];
	int worst = 0;

	if (read_small(params, text, sizeof(text)) < 0) {
		fprintf(stderr, "probe: cannot read %s: %s\n", params, strerror(errno));
		return 4;
	}
	params_text = text;
	for (; *names; names++) {
		const struct probe *p = find_probe(*names);
		int r;

		verdict_text[0] = '\0';
		r = p ? report(p->name, probe_one(p)) : report(*names, probe_error("no such probe"));
		if (r == V_BROKEN || (worst != V_BROKEN && r > worst))
			worst = r;
	}
	return worst;
}

static int list_probes(void)
{
	for (size_t t = 0; t < ARRAY_SIZE(themes); t++) {
		for (const struct probe *p = themes[t]; p->name; p++)
			printf("%s %s%s%s\n", p->name, control_names[p->control],
			       p->flags & PF_TTY ? " tty" : "", p->flags & PF_GRANTABLE ? " grantable" : "");
	}
	return 0;
}

/* `had` are the capabilities of who started this program, in hex. */
static int more_than_caller(const char *had)
{
	char text[8192] = "";
	const char *caps;

	if (getuid() != geteuid() || getgid() != getegid())
		return 42;
	read_small("/proc/self/status", text, sizeof(text));
	caps = strstr(text, "CapPrm:");
	return caps && (strtoull(caps + 7, NULL, 16) & ~strtoull(had, NULL, 16)) ? 42 : 0;
}

int main(int argc, char **argv)
{
	for (int fd = 3; fd < (int)ARRAY_SIZE(inherited); fd++)
		inherited[fd] = fcntl(fd, F_GETFD) >= 0;
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list_probes();
	if (argc == 3 && strcmp(argv[1], "euid") == 0)
		return more_than_caller(argv[2]);
	if (argc == 2 && strcmp(argv[1], "spare") == 0)
		return spare_main();
	if (argc == 4 && strcmp(argv[1], "world") == 0)
		return world_main(argv[2], argv[3]);
	if (argc >= 3 && strcmp(argv[1], "bomb") == 0)
		return bomb_main(argv[2], argc > 3 ? argv[3] : "");
	if (argc >= 4 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "control") == 0)) {
		in_control = argv[1][0] == 'c';
		return run_probes(argv[2], argv + 3);
	}
	fprintf(stderr, "usage: probe list | run PARAMS NAME… | control PARAMS NAME… | world DIR SECRET |\n"
			"             bomb NAME [ARG] | spare | euid CAPS\n");
	return 2;
}
