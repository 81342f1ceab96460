/* SPDX-License-Identifier: Apache-2.0 */
/* Which directories may be shown at all. Each refusal has a neighbour that is allowed. */
#include "overlay.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

static char state[128];

static int use(const char *path, struct err *e)
{
	autoclose int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*e = ERR_INIT;
	return fd < 0 ? -errno : workspace_may_use(fd, path, state, e);
}

static int bound(const char *path, struct err *e)
{
	autoclose int fd = open(path, O_PATH | O_CLOEXEC);

	*e = ERR_INIT;
	return fd < 0 ? -errno : workspace_may_bind(fd, path, state, e);
}

/* The workspace and the bind are refused, with the reason and the next step. */
static void refused(const char *path, const char *why)
{
	struct err e;

	if (access(path, X_OK) < 0) /* not there, or not to be entered: then nobody is shown it */
		return;
	CHECKF(use(path, &e) == -EPERM && strstr(e.msg, why) && e.hint[0], "%s is no workspace: %s", path,
	       e.msg);
	CHECKF(bound(path, &e) == -EPERM && e.hint[0], "%s is not bound: %s", path, e.msg);
}

static void no_bind(const char *path, const char *why)
{
	struct err e;

	CHECKF(bound(path, &e) == -EPERM && strstr(e.msg, why), "%s is not bound: %s", path, e.msg);
}

static void fine(const char *path)
{
	struct err e;

	CHECKF(use(path, &e) == 0, "%s may be a workspace %s", path, e.msg);
	CHECKF(bound(path, &e) == 0, "%s may be bound %s", path, e.msg);
}

static void may_bind(const char *path)
{
	struct err e;

	CHECKF(bound(path, &e) == 0, "%s may be bound %s", path, e.msg);
}

static char *at(const struct tree *t, const char *rest)
{
	static char path[4][256];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", t->path, rest);
	return p;
}

static void test_system(void)
{
	refused("/", "root of all files");
	refused("/proc", "processes");
	refused("/proc/self", "processes");
	refused("/proc/1/..", "processes");
	refused("/sys/kernel", "machine");
	refused("/dev", "devices");
	refused("/etc", "configuration");
	refused("/etc/../etc/.", "configuration");
	refused("/run", "sockets");
	refused("/var", "data");
	refused("/usr", "programs");
	refused("/home", "home");
	refused("/root", "home");
	fine("/usr/share");
}

static void test_home(const struct tree *t)
{
	refused(at(t, "people/me"), "home directory");
	refused(at(t, "people"), "below it");
	refused(at(t, "people/me/project/.."), "home directory");
	refused(at(t, "link-home"), "home directory");
	refused(at(t, "link-home/project/../.."), "below it");
	fine(at(t, "people/me/project"));
	fine(at(t, "link-home/project"));
	fine(at(t, "people/you"));
}

static void test_state(const struct tree *t)
{
	refused(at(t, "st/state"), "log");
	refused(at(t, "st/state/runs"), "log");
	refused(at(t, "st"), "log");
	refused(at(t, "link-state"), "log");
	no_bind(at(t, "st/state/meta"), "log");
	fine(at(t, "st/other"));
}

static bool make_socket(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	return fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;
}

static void test_binds(const struct tree *t)
{
	no_bind(at(t, "docker.sock"), "socket");
	no_bind(at(t, "with-socket"), "sockets");
	no_bind(at(t, "agent"), "sockets"); /* above $SSH_AUTH_SOCK */
	no_bind(at(t, "pipe"), "pipe");
	no_bind("/dev/null", "device");
	no_bind(at(t, "people/me/.ssh"), "keys");
	no_bind(at(t, "people/me/.ssh/known"), "keys");
	no_bind(at(t, "keys-elsewhere"), "keys"); /* ~/.aws is a link to it */
	no_bind(at(t, "people/me/.config"), "further down");
	no_bind(at(t, "people/me/.netrc"), "passwords");
	no_bind(at(t, "people/me/project/.kube"), "cloud");
	no_bind(at(t, "people/me/project/server.pem"), "key");
	may_bind(at(t, "people/me/project"));
	may_bind(at(t, "people/me/project/ca.pem"));
	may_bind(at(t, "people/me/.cache"));
	may_bind(at(t, "st/other"));
	may_bind("/etc/hostname");
	may_bind("/usr/share");
}

static bool fill(const struct tree *t)
{
	static const char *const dirs[] = { "people",
					    "people/me",
					    "people/me/project",
					    "people/me/project/.kube",
					    "people/me/.ssh",
					    "people/me/.config",
					    "people/me/.config/gh",
					    "people/me/.cache",
					    "people/you",
					    "st",
					    "st/state",
					    "st/state/runs",
					    "st/other",
					    "keys-elsewhere",
					    "with-socket",
					    "agent",
					    "agent/x" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdirat(t->base, dirs[i], 0755) < 0)
			return false;
	}
	return put(t->base, "people/me/.ssh/known", "x") && put(t->base, "people/me/.netrc", "x") &&
	       put(t->base, "people/me/project/server.pem", "BEGIN EC PRIVATE KEY") &&
	       put(t->base, "people/me/project/ca.pem", "BEGIN CERTIFICATE") &&
	       put(t->base, "st/state/meta", "x") && symlinkat("people/me", t->base, "link-home") == 0 &&
	       symlinkat("st/state", t->base, "link-state") == 0 &&
	       symlinkat("../../keys-elsewhere", t->base, "people/me/.aws") == 0 &&
	       mkfifoat(t->base, "pipe", 0644) == 0 && make_socket(at(t, "docker.sock")) &&
	       make_socket(at(t, "with-socket/s")) && make_socket(at(t, "agent/x/s")) &&
	       setenv("HOME", at(t, "people/me"), 1) == 0 &&
	       setenv("SSH_AUTH_SOCK", at(t, "agent/x/s"), 1) == 0;
}

static const struct tree *bind_tree;

/* A home that is mounted somewhere else is still a home. */
static bool bind_mounted(void)
{
	const struct tree *t = bind_tree;
	struct err e;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
	    mount(at(t, "people/me"), at(t, "outside"), NULL, MS_BIND, NULL) < 0)
		return false;
	return use(at(t, "outside"), &e) == -EPERM && strstr(e.msg, "home directory") &&
	       use(at(t, "outside/project"), &e) == 0;
}

static void test_mounted(const struct tree *t)
{
	int status = -1;
	pid_t pid;

	bind_tree = t;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(bind_mounted() ? 0 : 1);
	CHECKF(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	       "a bind mount of a home is refused as the home is");
}

int main(void)
{
	struct tree t;

	CHECK(tree_init(&t) && fill(&t));
	snprintf(state, sizeof(state), "%s/st/state", t.path);
	test_system();
	test_home(&t);
	test_state(&t);
	test_binds(&t);
	test_mounted(&t);
	CHECK(tree_release(&t));
	return tap_done();
}
