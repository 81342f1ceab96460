/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world outside: a process of the caller's with everything that a sandbox must not reach. It listens,
 * holds a secret in its memory, its environment and its command line, owns System V and POSIX objects, a key,
 * a terminal, and counts what happens to each.
 *
 * It prints what it is (key=value lines for the probes, then "ready"), answers each line on stdin with its
 * counters ("event count" lines, then "end"), and ends, taking its objects along, when stdin ends. A sandbox
 * must not be believed: whether a probe that "asks" succeeded is decided by these counters alone.
 */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>

/* A polled descriptor: readable means that somebody reached it. */
struct watch {
	const char *event;
	int fd;
	long count;
};

static struct watch watches[16];
static size_t n_watches;
static volatile sig_atomic_t signals[65];
static char memory[256], scratch[64];
static int shm_id = -1, msg_id = -1, sem_id = -1;
static char *shm_at;
static long key_id = -1;
static char mq_name[64], shm_name[64];
static unsigned
	tag; /* of its own in all names: other worlds may have the same number in another PID namespace */

static void on_signal(int sig)
{
	signals[sig]++;
}

static void watch_add(const char *event, int fd)
{
	if (fd >= 0 && n_watches < ARRAY_SIZE(watches))
		watches[n_watches++] = (struct watch){ .event = event, .fd = fd };
}

static int listen_unix(const char *name, bool abstract, int type)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t skip = abstract ? 1 : 0;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sa.sun_path + skip, sizeof(sa.sun_path) - skip, "%s", name);
	if (!abstract)
		unlink(name);
	if (bind(fd, (struct sockaddr *)&sa,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + skip + strlen(name) +
			     (abstract ? 0 : 1))) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 16) < 0))
		return fd_close(fd);
	if (!abstract)
		chmod(name, 0666);
	return fd;
}

/* Binds to the port given, or to any when it is 0; sets *port. */
static int listen_inet(int family, const char *address, int type, int *port)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET, .sin_port = htons((in_port_t)*port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((in_port_t)*port) };
	struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6;
	socklen_t len = family == AF_INET ? sizeof(in4) : sizeof(in6);
	int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	inet_pton(family, address, family == AF_INET ? (void *)&in4.sin_addr : (void *)&in6.sin6_addr);
	if (fd < 0 || bind(fd, sa, len) < 0 || (type == SOCK_STREAM && listen(fd, 16) < 0) ||
	    getsockname(fd, sa, &len) < 0)
		return fd_close(fd);
	*port = ntohs(family == AF_INET ? in4.sin_port : in6.sin6_port);
	return fd;
}

static bool host_address(char out[INET_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		struct sockaddr_in *in4 = (struct sockaddr_in *)(void *)i->ifa_addr;

		if (in4 && in4->sin_family == AF_INET && ntohl(in4->sin_addr.s_addr) >> 24 != 127)
			found = inet_ntop(AF_INET, &in4->sin_addr, out, INET_ADDRSTRLEN) != NULL;
	}
	freeifaddrs(all);
	return found;
}

/* Hears broadcasts and a group, on loopback. */
static void join_group(void)
{
	struct ip_mreq group = { .imr_interface.s_addr = htonl(INADDR_LOOPBACK) };
	int port = 0, fd = listen_inet(AF_INET, "0.0.0.0", SOCK_DGRAM, &port);

	inet_pton(AF_INET, "239.77.77.77", &group.imr_multiaddr);
	if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) == 0)
		printf("group_port=%d\n", port);
	watch_add("group", fd);
}

static void make_network(void)
{
	char address[INET_ADDRSTRLEN];
	int tcp = 0, tcp6 = 0, udp = 0, fd;

	join_group();

	watch_add("tcp", listen_inet(AF_INET, "127.0.0.1", SOCK_STREAM, &tcp));
	watch_add("udp", listen_inet(AF_INET, "127.0.0.1", SOCK_DGRAM, &udp));
	printf("tcp_port=%d\nudp_port=%d\n", tcp, udp);
	fd = listen_inet(AF_INET6, "::1", SOCK_STREAM, &tcp6);
	if (fd >= 0) {
		watch_add("tcp6", fd);
		printf("tcp6_port=%d\n", tcp6);
	}
	if (!host_address(address))
		return;
	fd = listen_inet(AF_INET, address, SOCK_STREAM, &tcp);
	if (fd >= 0) {
		watch_add("tcp", fd);
		printf("address4=%s\n", address);
	}
}

static void make_unix(const char *dir)
{
	static const char *const places[] = { "host", "ws", "ro/sub" };
	static const char *const events[] = { "host_socket", "ws_socket", "ro_socket" };
	char path[4096], name[64];

	snprintf(name, sizeof(name), "coffer-escape-%u", tag);
	watch_add("abstract", listen_unix(name, true, SOCK_STREAM));
	printf("abstract=%s\n", name);
	snprintf(name, sizeof(name), "coffer-escape-%u-dgram", tag);
	watch_add("abstract_dgram", listen_unix(name, true, SOCK_DGRAM));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		watch_add(events[i],
			  listen_unix(path_f(path, "%s/%s/daemon.sock", dir, places[i]), false, SOCK_STREAM));
	path_f(path, "%s/ws/fifo", dir);
	unlink(path);
	if (mkfifo(path, 0666) == 0)
		watch_add("fifo", open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

static void make_ipc(void)
{
	key_t key = (key_t)(0x43000000 + (tag & 0xffffff));
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 8 };
	int fd;

	shm_id = shmget(key, 4096, IPC_CREAT | 0600);
	shm_at = shm_id >= 0 ? shmat(shm_id, NULL, 0) : NULL;
	msg_id = msgget(key, IPC_CREAT | 0600);
	sem_id = semget(key, 1, IPC_CREAT | 0600);
	printf("ipc_key=%d\nshm_id=%d\n", key, shm_id);

	snprintf(mq_name, sizeof(mq_name), "/coffer-escape-%u", tag);
	watch_add("mq", mq_open(mq_name, O_CREAT | O_RDONLY | O_NONBLOCK, 0600, &attr));
	printf("mq=%s\n", mq_name);

	snprintf(shm_name, sizeof(shm_name), "/coffer-escape-%u", tag);
	fd = shm_open(shm_name, O_CREAT | O_RDWR, 0600);
	if (fd >= 0)
		printf("posix_shm=%s\n", shm_name);
}

static void make_key(const char *secret)
{
	key_id = syscall(SYS_add_key, "user", mq_name, secret, strlen(secret), KEY_SPEC_USER_KEYRING);
	if (key_id < 0)
		return;
	/* everything to the owner and to whoever possesses it */
	syscall(SYS_keyctl, KEYCTL_SETPERM, key_id, 0x3f3f0000);
	printf("key=%ld\n", key_id);
}

static void make_terminal(void)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), slave;
	char name[64];

	if (fd < 0 || grantpt(fd) < 0 || unlockpt(fd) < 0 || ptsname_r(fd, name, sizeof(name)) != 0)
		return;
	/* kept open, so that the master does not hang up */
	slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave >= 0)
		printf("pts=%s\n", name);
	watch_add("pts", fd);
}

static void tell_files(const char *dir)
{
	static const char *const own[] = { "/etc/passwd", "/etc/group", "/etc/machine-id", "/etc/hostname",
					   "/etc/resolv.conf" };
	char path[4096];
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} fh = { .h.handle_bytes = MAX_HANDLE_SZ };
	struct stat st;
	int mount_id, fd;

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		unsigned long long h = fnv_file(own[i]);

		if (h)
			printf("fnv:%s=%llx\n", own[i], h);
	}
	if (name_to_handle_at(AT_FDCWD, path_f(path, "%s/host/secret.txt", dir), &fh.h, &mount_id, 0) == 0) {
		printf("handle_type=%d\nhandle=", fh.h.handle_type);
		for (unsigned i = 0; i < fh.h.handle_bytes; i++)
			printf("%02x", fh.bytes[i]);
		printf("\n");
	}
	fd = open(path_f(path, "%s/host/lock.txt", dir), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &st) == 0)
		printf("lock_ino=%lu\n", (unsigned long)st.st_ino);
}

/* The disk of the root file system, where it has one. */
static void tell_disk(void)
{
	static char text[1 << 16];
	char type[64], source[256];
	struct stat st;

	if (read_small("/proc/self/mountinfo", text, sizeof(text)) < 0)
		return;
	for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		char *dash = strstr(line, " - ");

		if (!dash || dash > line + strcspn(line, "\n") || sscanf(line, "%*d %*d %*s %*s / ") == EOF ||
		    !strstr(line, " / / ") || strstr(line, " / / ") > dash)
			continue;
		if (sscanf(dash, " - %63s %255s", type, source) == 2 && source[0] == '/' &&
		    stat(source, &st) == 0 && S_ISBLK(st.st_mode))
			printf("disk=%s\ndisk_type=%s\ndisk_dev=%lu\n", source, type,
			       (unsigned long)st.st_rdev);
	}
}

static void tell_self(const char *secret)
{
	static const char *const types[] = { "user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time" };
	char path[4096], text[256];
	struct timespec ts;

	snprintf(memory, sizeof(memory), "%s", secret);
	clock_gettime(CLOCK_BOOTTIME, &ts);
	printf("secret=%s\npid=%d\nuid=%u\naddress=%lx\nscratch=%lx\nuptime=%ld\n", secret, getpid(),
	       getuid(), (unsigned long)memory, (unsigned long)scratch, (long)ts.tv_sec - 1);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		ssize_t n = readlink(path_f(path, "/proc/self/ns/%s", types[i]), text, sizeof(text) - 1);

		if (n > 0)
			printf("ns:%s=%.*s\n", types[i], (int)n, text);
	}
	if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)) > 0)
		printf("boot_id=%.36s\n", text);
}

static void drain(struct watch *w)
{
	char text[256];
	int fd;

	w->count++;
	fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	else if (strcmp(w->event, "mq") == 0)
		mq_receive(w->fd, text, sizeof(text), NULL);
	else if (read(w->fd, text, sizeof(text)) < 0)
		return;
}

static void tell_events(void)
{
	char text[8];

	for (size_t i = 0; i < n_watches; i++)
		printf("%s %ld\n", watches[i].event, watches[i].count);
	printf("sigusr1 %d\nsigusr2 %d\nsigurg %d\nsigcont %d\nsigio %d\n", (int)signals[SIGUSR1],
	       (int)signals[SIGUSR2], (int)signals[SIGURG], (int)signals[SIGCONT], (int)signals[SIGIO]);
	printf("memory %d\n", scratch[0] != 0);
	printf("shm %d\n", shm_at && shm_at[0] != 0);
	printf("sysv_msg %d\n", msg_id >= 0 && msgrcv(msg_id, text, 0, 0, IPC_NOWAIT | MSG_NOERROR) >= 0);
	printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
	printf("end\n");
	fflush(stdout);
}

static void loop(void)
{
	for (;;) {
		struct pollfd p[ARRAY_SIZE(watches) + 1] = { { .fd = STDIN_FILENO, .events = POLLIN } };
		char line[64];

		for (size_t i = 0; i < n_watches; i++)
			p[i + 1] = (struct pollfd){ .fd = watches[i].fd, .events = POLLIN };
		if (poll(p, (nfds_t)n_watches + 1, -1) < 0)
			continue;
		for (size_t i = 0; i < n_watches; i++) {
			if (p[i + 1].revents & POLLIN)
				drain(&watches[i]);
		}
		if (p[0].revents) {
			if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
				return;
			tell_events();
		}
	}
}

static void take_along(void)
{
	if (shm_id >= 0)
		shmctl(shm_id, IPC_RMID, NULL);
	if (msg_id >= 0)
		msgctl(msg_id, IPC_RMID, NULL);
	if (sem_id >= 0)
		semctl(sem_id, 0, IPC_RMID);
	mq_unlink(mq_name);
	shm_unlink(shm_name);
	if (key_id >= 0)
		syscall(SYS_keyctl, KEYCTL_UNLINK, key_id, KEY_SPEC_USER_KEYRING);
}

int world_main(const char *dir, const char *secret)
{
	static const int caught[] = { SIGUSR1, SIGUSR2, SIGURG, SIGCONT, SIGIO };
	struct sigaction sa = { .sa_handler = on_signal };

	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaction(caught[i], &sa, NULL);
	/* where the host lets only parents trace, the control could not */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	tell_self(secret);
	tell_files(dir);
	tell_disk();
	make_network();
	if (getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
		return 1;
	make_unix(dir);
	make_ipc();
	make_key(secret);
	make_terminal();
	printf("ready\n");
	fflush(stdout);
	loop();
	take_along();
	return 0;
}
