/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses -p options and opens their listening sockets on the host (ports.h). An address that other machines can reach
 * needs --public. Connections are served by supervise_port.c. No address but loopback is opened that was not typed.
 */
#include "run/supervise/ports.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "codec/net/addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 128

static int refuse_port_syntax(const char *text, struct err *e)
{
	return err_set(e, -EINVAL, "-p %s: expected PORT:PORT or ADDRESS:PORT:PORT (this machine's first)",
		       text);
}

static int parse_port(const char *s, uint64_t least, uint16_t *ret)
{
	uint64_t v;

	if (str_to_u64(s, &v) < 0 || v < least || v > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)v;
	return 0;
}

/* "127.0.0.1" or "[::1]"; NULL means 127.0.0.1. */
static int parse_address(char *s, struct addr *ret)
{
	size_t n = s ? strlen(s) : 0;

	if (!s)
		return addr_parse("127.0.0.1", 9, ret, NULL);
	if (n > 2 && s[0] == '[' && s[n - 1] == ']')
		return addr_parse(s + 1, n - 2, ret, NULL);
	return strchr(s, ':') ? -EINVAL : addr_parse(s, n, ret, NULL);
}

static int split_port_spec(const char *text, struct addr *ret_addr, uint16_t *ret_port, uint16_t *ret_inside,
			   struct err *e)
{
	autofree char *copy = strdup(text);
	char *inside = copy ? strrchr(copy, ':') : NULL, *port;

	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	if (!inside)
		return refuse_port_syntax(text, e);
	*inside++ = '\0';
	port = strrchr(copy, ':');
	if (port)
		*port++ = '\0';
	if (parse_port(inside, 1, ret_inside) < 0 || parse_port(port ? port : copy, 0, ret_port) < 0 ||
	    parse_address(port ? copy : NULL, ret_addr) < 0)
		return refuse_port_syntax(text, e);
	return 0;
}

static bool is_private_class(enum addr_class c)
{
	return c == ADDR_LOOPBACK || c == ADDR_PRIVATE || c == ADDR_ULA || c == ADDR_LINK_LOCAL ||
	       c == ADDR_CGNAT;
}

static int port_listen_error(const char *text, uint16_t port, uint16_t inside, struct err *e)
{
	int r = err_sys(e, -errno, "-p %s: cannot listen there", text);

	if (r == -EADDRINUSE && port < UINT16_MAX)
		return err_hint(e, r, "another port of this machine, such as -p %u:%u", port + 1U, inside);
	if (r == -EACCES)
		return err_hint(e, r, "a port of this machine from 1024 on, such as -p 8080:%u", inside);
	return r;
}

static int open_port(struct port *p, const char *text, bool public, struct err *e)
{
	autoclose int fd = -1;
	uint16_t port = 0;
	struct addr a;
	union {
		struct sockaddr sa;
		uint8_t bytes[sizeof(struct sockaddr_storage)];
	} u = { 0 };
	socklen_t len;
	char addr[ADDR_TEXT_LEN];
	int r = split_port_spec(text, &a, &port, &p->inside, e), one = 1;

	if (r < 0)
		return r;
	p->is_public = !is_private_class(addr_special(&a));
	if (p->is_public && !public) {
		err_set(e, -EPERM, "-p %s: that address is reachable from other machines", text);
		return err_hint(e, -EPERM, "add --public if they may, or leave the address out: 127.0.0.1");
	}
	len = (socklen_t)addr_to_sockaddr(&a, port, u.bytes);
	fd = socket(u.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, &u.sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return port_listen_error(text, port, p->inside, e);
	len = sizeof(u);
	if (getsockname(fd, &u.sa, &len) < 0 || addr_from_sockaddr(u.bytes, len, &a, &port) < 0)
		return err_sys(e, -errno, "-p %s: cannot listen there", text);
	addr_format(&a, addr);
	snprintf(p->text, sizeof(p->text), strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, port);
	p->fd = TAKE_FD(fd);
	return 0;
}

int ports_open(struct ports *p, const struct strv *texts, bool public, struct spec *s, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	if (!texts->n)
		return 0;
	if (texts->n > PORTS_MAX)
		return err_set(e, -E2BIG, "too many -p options: at most %d", PORTS_MAX);
	p->v = calloc(texts->n, sizeof(*p->v));
	if (!p->v)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < texts->n; i++) {
		int r;

		p->v[i].fd = -1;
		r = open_port(&p->v[i], texts->v[i], public, e);
		if (r < 0)
			return r;
		p->n++;
		buf_addf(&b, "%s%s->%u%s", i ? ", " : "", p->v[i].text, p->v[i].inside,
			 p->v[i].is_public ? " (public)" : "");
	}
	s->ports = buf_take(&b);
	return s->ports ? 0 : err_set(e, -ENOMEM, "out of memory");
}

void ports_release(struct ports *p)
{
	for (size_t i = 0; i < p->n; i++)
		fd_close(p->v[i].fd);
	free(p->v);
	*p = (struct ports){ 0 };
}
