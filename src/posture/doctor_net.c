/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the network wall: it is really built, in a child's own namespaces, and must intercept a
 * connection to an arbitrary address.
 */
#include "base/cleanup.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "sandbox/engine/helper.h"
#include "sandbox/wall/wall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#define STRANGER "9.8.7.6"
#define STRANGER_PORT 4711
#define WAIT_MS 5000

/* Does a connection arrive at the wall's own socket, with its original destination? */
static int try_connection(const struct wall *w, struct err *e)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(STRANGER_PORT) }, got = { 0 };
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), in = -1;
	struct pollfd p = { .fd = w->tcp4, .events = POLLIN };
	socklen_t len = sizeof(got);

	if (fd < 0 || inet_pton(AF_INET, STRANGER, &to.sin_addr) != 1)
		return err_sys(e, -errno, "no socket can be made in it");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return err_sys(e, -errno, "it was built, but nothing can be connected to in it");
	if (poll(&p, 1, WAIT_MS) != 1)
		return err_set(e, -ETIMEDOUT, "it was built, but a connection does not arrive (nft tproxy)");
	in = accept4(w->tcp4, NULL, NULL, SOCK_CLOEXEC);
	if (in < 0 || getsockname(in, (struct sockaddr *)&got, &len) < 0)
		return err_sys(e, -errno, "it was built, but a connection cannot be accepted");
	if (got.sin_addr.s_addr != to.sin_addr.s_addr || got.sin_port != to.sin_port)
		return err_set(
			e, -EIO,
			"it was built, but the test connection does not report its destination address");
	return 0;
}

static int probe_wall(void *arg, struct err *e)
{
	const bool *guest = arg;
	struct wall w;
	int r = wall_build(&w, *guest, e);

	/*
	 * With gVisor, processes are on the other side of the wall, whose addresses only gVisor configures:
	 * no connection can be tried from here.
	 */
	if (r == 0 && !*guest)
		r = try_connection(&w, e);
	if (r == 0)
		wall_release(&w);
	return r;
}

static void check_wall_on(struct finding *f, bool guest, const char *ok)
{
	struct err e = ERR_INIT;
	int r = probe_run(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS, probe_wall, &guest, &e);

	if (r < 0)
		finding_set(f, guest ? DOCTOR_WARN : DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "%s", ok);
}

void check_wall(struct finding *f)
{
	check_wall_on(f, false, "built, and a connection to " STRANGER " accepted by it");
}

void check_wall_guest(struct finding *f)
{
	check_wall_on(f, true, "built, with a pair of interfaces");
}

void check_net_programs(struct finding *f)
{
	static const char *const names[] = { "coffer-egress", "coffer-dial", "coffer-netd" };
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autoclose int fd = helper_open(names[i], &e);

		if (fd < 0) {
			finding_set(f, DOCTOR_FAIL, "%s", e.msg);
			return;
		}
	}
	finding_set(f, DOCTOR_OK, "coffer-egress, coffer-dial and coffer-netd found");
}
