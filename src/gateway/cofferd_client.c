/* SPDX-License-Identifier: Apache-2.0 */
/* Asking cofferd, and starting it. See cofferd.h. */
#include "base/fd.h"
#include "gateway/cofferd.h"
#include "gateway/cofferd_int.h"
#include "ipc/fdpass.h"
#include "sandbox/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MSEC 2000

int cofferd_build(int fd, struct cofferd_build *ret)
{
	struct stat st, usr, root;

	if ((fd >= 0 ? fstat(fd, &st) : stat("/proc/self/exe", &st)) < 0 || stat("/usr", &usr) < 0 ||
	    stat("/", &root) < 0)
		return -errno;
	*ret = (struct cofferd_build){ .usr_dev = usr.st_dev,
				       .usr_ino = usr.st_ino,
				       .root_dev = root.st_dev,
				       .root_ino = root.st_ino,
				       .dev = st.st_dev,
				       .ino = st.st_ino,
				       .size = (uint64_t)st.st_size,
				       .mtime = (uint64_t)st.st_mtim.tv_sec * 1000000000ULL +
						(uint64_t)st.st_mtim.tv_nsec };
	return 0;
}

/* By way of /proc/self/fd, since a state directory's path may be longer than a socket's. */
void cofferd_address(const struct state *st, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/cofferd.sock", st->fd);
}

int cofferd_pack(const struct strv *template, struct buf *out)
{
	for (size_t i = 0; i < template->n; i++)
		buf_add(out, template->v[i], strlen(template->v[i]) + 1);
	return buf_error(out) ? -ENOMEM : out->len > COFFERD_TEMPLATE_MAX ? -E2BIG : 0;
}

static int dial(const struct state *st)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;

	if (fd < 0)
		return -errno;
	cofferd_address(st, &a);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return errno == ENOENT ? -ECONNREFUSED : -errno;
	return TAKE_FD(fd);
}

/* One question, one answer. A cofferd that does not answer is as good as none. */
static int ask(struct state *st, enum cofferd_want want, const struct strv *template,
	       struct cofferd_reply *ret, int *ret_sock)
{
	struct cofferd_ask head = { .magic = COFFERD_MAGIC, .want = want };
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = dial(st);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len;
	int r = fd < 0 ? fd : cofferd_build(-1, &head.build), n;

	if (r < 0)
		return r;
	buf_add(&b, &head, sizeof(head));
	if (template)
		r = cofferd_pack(template, &b);
	if (r == 0)
		r = fdpass_send(fd, b.data, b.len, NULL, 0);
	if (r < 0)
		return r;
	do {
		n = poll(&p, 1, ANSWER_MSEC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -ETIMEDOUT;
	*ret_sock = -1;
	n = fdpass_recv_some(fd, ret, sizeof(*ret), &len, ret_sock, 1);
	if (n < 0)
		return n;
	if (len != sizeof(*ret) || ret->magic != COFFERD_MAGIC || ret->has != (n == 1)) {
		fd_close(*ret_sock);
		return -EPROTO;
	}
	ret->id[RUN_ID_LEN] = '\0';
	return 0;
}

int cofferd_take(struct state *st, const struct strv *template, int *ret_sock, char ret_id[RUN_ID_LEN + 1])
{
	struct cofferd_reply reply;
	int r = ask(st, COFFERD_TAKE, template, &reply, ret_sock);

	if (r < 0)
		return r;
	if (!reply.has)
		return -ENOENT;
	memcpy(ret_id, reply.id, RUN_ID_LEN + 1);
	return 0;
}

int cofferd_ask(struct state *st, enum cofferd_want want, struct cofferd_reply *ret)
{
	int sock, r = ask(st, want, NULL, ret, &sock);

	if (r == 0)
		fd_close(sock);
	return r;
}

/* In a grandchild, with nothing of the caller's but the coffer program itself on descriptor 3. */
_Noreturn static void become_cofferd(int program, int coffer, char *const *argv, char *const *envp)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (fork() != 0)
		_exit(0);
	program = fcntl(program, F_DUPFD_CLOEXEC, 16);
	if (null < 0 || program < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
	    dup2(coffer, 3) < 0 || chdir("/") < 0)
		_exit(1);
	if (coffer == 3)
		(void)!fcntl(3, F_SETFD, 0);
	syscall(SYS_close_range, 4, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
	_exit(1);
}

int cofferd_start(struct state *st, const struct strv *template)
{
	autostrv struct strv argv = STRV_INIT;
	autoclose int program = helper_open("cofferd", NULL), coffer = -1;
	autofree char *state = NULL, *memory = NULL;
	const char *text = getenv("COFFER_POOL_MEMORY");
	pid_t pid;
	int r = program < 0 ? program : strv_add(&argv, "cofferd");

	for (size_t i = 0; r == 0 && i < template->n; i++)
		r = strv_add(&argv, template->v[i]);
	if (r < 0)
		return r;
	coffer = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (coffer < 0)
		return -errno;
	if (asprintf(&state, "COFFER_STATE=%s", st->path) < 0 ||
	    (text && asprintf(&memory, "COFFER_POOL_MEMORY=%s", text) < 0))
		return -ENOMEM;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		char *envp[] = { state, memory, NULL };

		become_cofferd(program, coffer, argv.v, envp);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}
