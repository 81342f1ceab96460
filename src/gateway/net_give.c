/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer-egress and coffer-dial are handed besides sockets: memory files, sealed where they are only to be read. */
#include "base/fd.h"
#include "gateway/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RESOLV_MAX (64u << 10)

int net_give_memfd(const char *name, const void *data, size_t len, bool seal, struct err *e)
{
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a memory file");
	r = len ? fd_write_all(fd, data, len) : 0;
	if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 ||
		       (seal && fcntl(fd, F_ADD_SEALS,
				      F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)))
		r = -errno;
	return r < 0 ? err_sys(e, r, "cannot fill a memory file") : TAKE_FD(fd);
}

int net_give_bundle(struct net_guard *g, struct err *e)
{
	const struct net_plan *p = g->r->net;
	autobuf struct buf b = BUF_INIT;
	int r, fd;

	policy_set_generation(p->cp.policy, p->generation);
	r = policy_pack(p->cp.policy, &b, e);
	if (r < 0)
		return r;
	fd = net_give_memfd("policy", b.data, b.len, true, e);
	if (fd < 0)
		return fd;
	fd_close(g->bundle);
	g->bundle = fd;
	g->generation = p->generation;
	return 0;
}

/* Whom to trust upstream: what the caller's other programs trust. None: then nothing can be verified, so nothing is. */
int net_give_store(void)
{
	static const char *const places[] = {
		"/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch, Gentoo */
		"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
		"/etc/ssl/ca-bundle.pem",	      /* SUSE */
		"/etc/ssl/cert.pem",		      /* Alpine */
	};
	const char *own = getenv("SSL_CERT_FILE"); // NOLINT(concurrency-mt-unsafe): one thread
	int fd = -1;

	if (own && *own)
		return open(own, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	for (size_t i = 0; fd < 0 && i < ARRAY_SIZE(places); i++)
		fd = open(places[i], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd;
}

/* As it stands now; a host without one has resolvers in its policy, or none. */
int net_give_resolv(struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? 0 : fd_read_all(fd, RESOLV_MAX, &b);

	if (r < 0)
		return err_sys(e, r, "cannot read /etc/resolv.conf");
	return net_give_memfd("resolv.conf", buf_cstr(&b), b.len, true, e);
}
