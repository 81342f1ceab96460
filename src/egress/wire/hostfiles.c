/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the host that fenced programs get as descriptors: the trusted certificates and the list of
 * resolvers. No other file is opened here.
 */
#include "egress/wire/hostfiles.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/memfile.h"

#include <fcntl.h>
#include <stdlib.h>

#define RESOLV_MAX (64u << 10)

/*
 * The same certificates that the host's other programs trust. Without any, no upstream can be verified, and
 * TLS to all of them fails.
 */
int hostfiles_store(void)
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

/* A host without the file has its resolvers in the policy, or none. */
int hostfiles_resolv(struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? 0 : fd_read_all(fd, RESOLV_MAX, &b);

	if (r < 0)
		return err_sys(e, r, "cannot read /etc/resolv.conf");
	return memfile_make("resolv.conf", buf_cstr(&b), b.len, true, e);
}
