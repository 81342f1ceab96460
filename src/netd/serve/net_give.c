/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What coffer-egress and coffer-dial get in memory files: the policy bundle, and the credentials of proxies. The guard must
 * not read the latter: the process that compiles the policy does (net_compile_child.c).
 */
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CREDENTIALS_MAX (256u << 10)

static void wipe_buffer(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_release(b);
}

int net_give_bundle(struct net_guard *g, struct err *e)
{
	const struct net_plan *p = g->c.plan;
	autobuf struct buf b = BUF_INIT;
	int r, fd;

	policy_set_generation(p->cp.policy, p->generation);
	r = policy_pack(p->cp.policy, &b, e);
	if (r < 0)
		return r;
	fd = memfile_make("policy", b.data, b.len, true, e);
	if (fd < 0)
		return fd;
	fd_close(g->bundle);
	g->bundle = fd;
	g->generation = p->generation;
	return 0;
}

/* Reads the file of one proxy set, which only its owner may read: lines of "user:password". */
static int add_proxy_credentials(struct buf *b, const struct config_proxy_secret *s, struct err *e)
{
	autoclose int fd = open(s->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	CLEANUP(wipe_buffer) struct buf text = { .wipe = true };
	struct stat st;
	char *save = NULL;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot read the credentials of the proxy set %s, %s", s->proxy_set,
			       s->file);
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
			buf_addf(b, "%s\t%s\n", s->proxy_set, l);
	}
	return buf_error(b) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int net_give_proxies(int fd, const struct config_policy *cp, struct err *e)
{
	CLEANUP(wipe_buffer) struct buf b = { .wipe = true };
	int r = 0;

	for (size_t i = 0; r == 0 && i < cp->n_proxy_secrets; i++)
		r = add_proxy_credentials(&b, &cp->proxy_secrets[i], e);
	if (r < 0)
		return r;
	r = b.len ? fd_write_all(fd, b.data, b.len) : 0;
	return r < 0 ? err_sys(e, r, "cannot hand over the proxies' credentials") : 0;
}
