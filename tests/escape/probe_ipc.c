/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that processes share without a file: abstract sockets, System V and POSIX objects, sockets that lie in a
 * bind. */
#include "probe.h"

#include <fcntl.h>
#include <mqueue.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

static int connect_to(const char *name, bool abstract, int type)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t skip = abstract ? 1 : 0;
	socklen_t len;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sa.sun_path + skip, sizeof(sa.sun_path) - skip, "%s", name);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + skip + strlen(name) + (abstract ? 0 : 1));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, len) < 0) {
		fd_close(fd);
		return -1;
	}
	return fd;
}

static enum verdict p_abstract_stream(void)
{
	if (connect_to(param("abstract"), true, SOCK_STREAM) < 0)
		return held();
	return asks("abstract");
}

static enum verdict p_abstract_dgram(void)
{
	char name[256];
	autoclose int fd = -1;

	snprintf(name, sizeof(name), "%s-dgram", param("abstract"));
	fd = connect_to(name, true, SOCK_DGRAM);
	if (fd < 0 || send(fd, "x", 1, 0) < 0)
		return held();
	return asks("abstract_dgram");
}

static enum verdict p_path_socket(void)
{
	char path[4096];

	if (connect_to(path_f(path, "%s/daemon.sock", param("host_dir")), false, SOCK_STREAM) < 0)
		return held();
	return asks("host_socket");
}

/* A daemon's socket below a directory that was bound read-only: connecting is not writing, and coffer looks
 * for sockets only at its top. */
static enum verdict p_bind_socket(void)
{
	char path[4096];

	if (connect_to(path_f(path, "%s/sub/daemon.sock", param("ro")), false, SOCK_STREAM) < 0)
		return held();
	return asks("ro_socket");
}

static enum verdict p_engine_sockets(void)
{
	static const char *const paths[] = {
		"/run/docker.sock",	   "/var/run/docker.sock",	  "/run/containerd/containerd.sock",
		"/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
		"/tmp/.X11-unix/X0"
	};
	char path[4096];

	if (in_control)
		return judge(
			connect_to(path_f(path, "%s/daemon.sock", param("host_dir")), false, SOCK_STREAM),
			"reached a daemon's socket");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (connect_to(paths[i], false, SOCK_STREAM) >= 0)
			return broken("reached %s", paths[i]);
	}
	return held();
}

static enum verdict p_shm_key(void)
{
	int id = shmget((key_t)param_num("ipc_key"), 0, 0);

	return judge(id, "found shared memory of the host by its key");
}

static enum verdict p_shm_attach(void)
{
	char *at = shmat((int)param_num("shm_id"), NULL, 0);

	if ((intptr_t)at == -1)
		return held();
	at[0] = 'X';
	return asks("shm");
}

static enum verdict p_msg_queue(void)
{
	struct {
		long type;
		char text[1];
	} m = { 1, { 'x' } };
	int id = msgget((key_t)param_num("ipc_key"), 0);

	if (id < 0 || msgsnd(id, &m, 1, IPC_NOWAIT) < 0)
		return held();
	return asks("sysv_msg");
}

static enum verdict p_semaphore(void)
{
	return judge(semget((key_t)param_num("ipc_key"), 0, 0), "found a semaphore of the host");
}

static enum verdict p_posix_mq(void)
{
	mqd_t q = mq_open(param("mq"), O_WRONLY | O_NONBLOCK);

	if (q < 0 || mq_send(q, "x", 1, 0) < 0)
		return in_control && errno == ENOSYS ? not_here("this kernel has no message queues") : held();
	return asks("mq");
}

static enum verdict p_posix_shm(void)
{
	return judge(shm_open(param("posix_shm"), O_RDWR, 0), "opened shared memory of the host");
}

static enum verdict p_sysv_list(void)
{
	static char text[1 << 18];
	char want[32];

	snprintf(want, sizeof(want), "%ld ", param_num("ipc_key"));
	if (read_small("/proc/sysvipc/shm", text, sizeof(text)) < 0)
		return held();
	return strstr(text, want) ? broken("shared memory of the host is listed") : held_for("not listed");
}

const struct probe probes_ipc[] = {
	{ "abstract_stream", p_abstract_stream, CTL_SAME },
	{ "abstract_dgram", p_abstract_dgram, CTL_SAME },
	{ "path_socket", p_path_socket, CTL_SAME },
	{ "bind_socket", p_bind_socket, CTL_SAME },
	{ "engine_sockets", p_engine_sockets, CTL_SAME },
	{ "shm_key", p_shm_key, CTL_SAME },
	{ "shm_attach", p_shm_attach, CTL_SAME },
	{ "msg_queue", p_msg_queue, CTL_SAME },
	{ "semaphore", p_semaphore, CTL_SAME },
	{ "posix_mq", p_posix_mq, CTL_SAME },
	{ "posix_shm", p_posix_shm, CTL_SAME },
	{ "sysv_list", p_sysv_list, CTL_SAME },
	{ 0 },
};
