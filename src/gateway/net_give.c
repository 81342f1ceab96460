/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer-egress and coffer-dial are handed besides sockets: memory files, sealed where they are only to be read. */
#include "base/fd.h"
#include "gateway/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RESOLV_MAX (64u << 10)
#define CREDENTIALS_MAX (256u << 10)

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_release(b);
}

int net_give_memfd(const char *name, const void *data, size_t len, bool seal, struct err *e)
{
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a memory file");
	r = len ? fd_write_all(fd, data, len) : 0;
	if (r == 0 &&
	    (lseek(fd, 0, SEEK_SET) < 0 ||
	     (seal && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)))
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

/* One pool's file, which nobody but its owner may read: lines of "user:password". */
static int add_credentials(struct buf *b, const struct config_pool_secret *s, struct err *e)
{
	autoclose int fd = open(s->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	CLEANUP(wipe) struct buf text = { .wipe = true };
	struct stat st;
	char *save = NULL;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot read the credentials of pool %s, %s", s->pool, s->file);
	if (!S_ISREG(st.st_mode) || st.st_mode & 077 || (st.st_uid != geteuid() && st.st_uid != 0)) {
		err_set(e, -EPERM, "will not use the credentials in %s: others may read them", s->file);
		return err_hint(e, -EPERM, "chmod 600 %s", s->file);
	}
	r = fd_read_all(fd, CREDENTIALS_MAX, &text);
	if (r < 0)
		return err_sys(e, r, "cannot read %s", s->file);
	if (memchr(buf_cstr(&text), 0, text.len))
		return err_set(e, -EINVAL, "%s: expected lines of user:password", s->file);
	for (char *l = text.data ? strtok_r(text.data, "\r\n", &save) : NULL; l;
	     l = strtok_r(NULL, "\r\n", &save)) {
		if (*l != '#')
			buf_addf(b, "%s\t%s\n", s->pool, l);
	}
	return buf_error(b) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int net_give_pools(const struct config_policy *cp, struct err *e)
{
	CLEANUP(wipe) struct buf b = { .wipe = true };
	int r = 0;

	for (size_t i = 0; r == 0 && i < cp->n_pool_secrets; i++)
		r = add_credentials(&b, &cp->pool_secrets[i], e);
	return r < 0 ? r : net_give_memfd("pools", buf_cstr(&b), b.len, true, e);
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
