/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parsers of proc_text.h. They take text of the kernel and give numbers back; they must not open a file, nor believe that
 * a name in such a text is what it says.
 */
#include "posture/proc_text.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TCP_LISTEN 0x0a		/* column "st" of tcp and tcp6, as in net/tcp_states.h */
#define UNIX_ACCEPTS 0x00010000 /* __SO_ACCEPTCON of linux/net.h, column "Flags" of unix */

/* --- lines of "Key:\tvalue" ------------------------------------------------------------------------------------- */

/* The text after "KEY:" and blanks at the beginning of a line; NULL when there is no such line. */
static const char *find_line(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		if (strncmp(p, key, len) == 0 && p[len] == ':')
			return p + len + 1 + strspn(p + len + 1, " \t");
	}
	return NULL;
}

static int read_line_number(const char *text, const char *key, int base, uint64_t *ret)
{
	const char *p = find_line(text, key);
	char *end;

	if (!p)
		return -ENOENT;
	if (!strchr("0123456789abcdefABCDEF", *p) || !*p)
		return -EBADMSG;
	errno = 0;
	*ret = strtoull(p, &end, base);
	return errno || (*end && !strchr(" \t\n", *end)) ? -EBADMSG : 0;
}

/* The effective one of four: real, effective, saved, of the file system. */
static int read_effective_uid(const char *text, uid_t *ret)
{
	const char *p = find_line(text, "Uid");
	unsigned real, effective;

	// NOLINTNEXTLINE(cert-err34-c): the kernel wrote these fields, so their numbers fit
	if (!p || sscanf(p, "%u %u", &real, &effective) != 2)
		return -EBADMSG;
	*ret = effective;
	return 0;
}

/* "NSpid: 4245 1": its pids from the namespace of /proc inwards. */
static int read_levels(const char *text, struct proc_status *s)
{
	const char *p = find_line(text, "NSpid");
	char *end;

	if (!p)
		return -EBADMSG;
	for (; *p && *p != '\n'; p = end + strspn(end, " \t")) {
		s->innermost = (pid_t)strtol(p, &end, 10);
		if (end == p || s->innermost <= 0)
			return -EBADMSG;
		s->levels++;
	}
	return s->levels ? 0 : -EBADMSG;
}

static int read_name(const char *text, struct proc_status *s)
{
	const char *p = find_line(text, "Name"), *state = find_line(text, "State");
	size_t len;

	if (!p || !state || !*state || *state == '\n')
		return -EBADMSG;
	len = strcspn(p, "\n");
	len = len < sizeof(s->name) ? len : sizeof(s->name) - 1;
	memcpy(s->name, p, len);
	s->name[len] = '\0';
	s->state = *state;
	return 0;
}

int proc_text_status(const char *text, struct proc_status *ret)
{
	struct proc_status s = { .seccomp = -1 };
	uint64_t pid, parent, privs, seccomp;
	int r;

	if (read_line_number(text, "Pid", 10, &pid) < 0 || pid == 0 || pid > INT32_MAX ||
	    read_line_number(text, "PPid", 10, &parent) < 0 || parent > INT32_MAX ||
	    read_line_number(text, "CapPrm", 16, &s.permitted) < 0 ||
	    read_line_number(text, "CapEff", 16, &s.effective) < 0 ||
	    read_line_number(text, "NoNewPrivs", 10, &privs) < 0 || privs > 1 ||
	    read_effective_uid(text, &s.uid) < 0 || read_levels(text, &s) < 0 || read_name(text, &s) < 0)
		return -EBADMSG;
	r = read_line_number(text, "Seccomp", 10, &seccomp);
	if (r == -EBADMSG || (r == 0 && seccomp > 2))
		return -EBADMSG;
	s.seccomp = r == 0 ? (int)seccomp : -1;
	s.pid = (pid_t)pid;
	s.parent = (pid_t)parent;
	s.no_new_privs = privs;
	*ret = s;
	return 0;
}

/* --- rows of columns -------------------------------------------------------------------------------------------- */

/* The beginning of a column, counted from 0; NULL when the row ends before. */
static const char *find_column(const char *line, unsigned n)
{
	const char *p = line + strspn(line, " \t");

	for (; n && *p && *p != '\n'; n--) {
		p += strcspn(p, " \t\n");
		p += strspn(p, " \t");
	}
	return *p && *p != '\n' ? p : NULL;
}

static int read_column(const char *line, unsigned n, int base, uint64_t *ret)
{
	const char *p = find_column(line, n);
	char *end;

	if (!p || !strchr("0123456789abcdefABCDEF", *p))
		return -EBADMSG;
	errno = 0;
	*ret = strtoull(p, &end, base);
	return errno || (*end && !strchr(" \t\n", *end)) ? -EBADMSG : 0;
}

int proc_text_start(const char *text, uint64_t *ret)
{
	const char *rest = strrchr(text, ')');

	/* Field 22; the state, which is the first after the name, is field 3. */
	return rest ? read_column(rest + 1, 22 - 3, 10, ret) : -EBADMSG;
}

int proc_text_flags(const char *text, unsigned *ret)
{
	uint64_t v;

	if (read_line_number(text, "flags", 8, &v) < 0 || v > UINT32_MAX)
		return -EBADMSG;
	*ret = (unsigned)v;
	return 0;
}

bool proc_flags_may_write(unsigned flags)
{
	return !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
}

/* --- links ------------------------------------------------------------------------------------------------------ */

/* The number in "PREFIX:[NUMBER]", which has to be all of the text. */
static int read_bracket(const char *link, const char *prefix, uint64_t *ret)
{
	size_t len = strlen(prefix);
	char *end;

	if (strncmp(link, prefix, len) != 0 || link[len] != ':' || link[len + 1] != '[' ||
	    link[len + 2] < '0' || link[len + 2] > '9')
		return -EBADMSG;
	errno = 0;
	*ret = strtoull(link + len + 2, &end, 10);
	return errno || !str_eq(end, "]") ? -EBADMSG : 0;
}

int proc_text_ns(const char *link, const char *type, uint64_t *ret)
{
	return read_bracket(link, type, ret);
}

static const char *const fd_sorts[] = { "file", "pipe", "memory file", "socket", "other" };
static_assert(sizeof(fd_sorts) / sizeof(*fd_sorts) == FD_SORT_COUNT, "a name for each");

const char *fd_sort_name(enum fd_sort s)
{
	return fd_sorts[s];
}

enum fd_sort proc_text_sort(const char *link, uint64_t *ret_ino)
{
	uint64_t ignored;

	*ret_ino = 0;
	if (strncmp(link, "/memfd:", 7) == 0)
		return FD_SORT_MEMFILE;
	if (*link == '/')
		return FD_SORT_FILE;
	if (read_bracket(link, "socket", ret_ino) == 0)
		return FD_SORT_SOCKET;
	return read_bracket(link, "pipe", &ignored) == 0 ? FD_SORT_PIPE : FD_SORT_OTHER;
}

/* --- sockets ---------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned inode; /* its column */
	enum socket_kind kind;
} socket_tables[] = {
	[SOCKET_TABLE_TCP] = { "tcp", 9, SOCKET_TCP },
	[SOCKET_TABLE_TCP6] = { "tcp6", 9, SOCKET_TCP },
	[SOCKET_TABLE_UDP] = { "udp", 9, SOCKET_UDP },
	[SOCKET_TABLE_UDP6] = { "udp6", 9, SOCKET_UDP },
	[SOCKET_TABLE_RAW] = { "raw", 9, SOCKET_RAW },
	[SOCKET_TABLE_RAW6] = { "raw6", 9, SOCKET_RAW },
	[SOCKET_TABLE_ICMP] = { "icmp", 9, SOCKET_ICMP },
	[SOCKET_TABLE_ICMP6] = { "icmp6", 9, SOCKET_ICMP },
	[SOCKET_TABLE_UNIX] = { "unix", 6, SOCKET_OTHER },
	[SOCKET_TABLE_NETLINK] = { "netlink", 9, SOCKET_NETLINK },
	[SOCKET_TABLE_PACKET] = { "packet", 8, SOCKET_PACKET },
};
static_assert(sizeof(socket_tables) / sizeof(*socket_tables) == SOCKET_TABLE_COUNT, "a row for each");

const char *socket_table_name(enum socket_table t)
{
	return socket_tables[t].name;
}

static const char *const socket_kinds[] = { "tcp",
					    "tcp listening",
					    "udp",
					    "raw",
					    "icmp",
					    "unix stream",
					    "unix stream listening",
					    "unix datagram",
					    "unix seqpacket",
					    "unix seqpacket listening",
					    "netlink",
					    "packet",
					    "other" };
static_assert(sizeof(socket_kinds) / sizeof(*socket_kinds) == SOCKET_KIND_COUNT, "a name for each");

const char *socket_kind_name(enum socket_kind k)
{
	return socket_kinds[k];
}

static int read_unix_kind(const char *line, enum socket_kind *ret)
{
	uint64_t flags, type;
	bool listens;

	if (read_column(line, 3, 16, &flags) < 0 || read_column(line, 4, 16, &type) < 0)
		return -EBADMSG;
	listens = flags & UNIX_ACCEPTS;
	*ret = SOCKET_OTHER;
	if (type == SOCK_STREAM)
		*ret = listens ? SOCKET_UNIX_STREAM_LISTENING : SOCKET_UNIX_STREAM;
	else if (type == SOCK_SEQPACKET)
		*ret = listens ? SOCKET_UNIX_SEQPACKET_LISTENING : SOCKET_UNIX_SEQPACKET;
	else if (type == SOCK_DGRAM)
		*ret = SOCKET_UNIX_DATAGRAM;
	return 0;
}

int proc_text_socket(enum socket_table t, const char *line, uint64_t *ret_ino, enum socket_kind *ret_kind)
{
	enum socket_kind kind = socket_tables[t].kind;
	uint64_t ino, state;

	if (read_column(line, socket_tables[t].inode, 10, &ino) < 0)
		return -EBADMSG;
	if (t == SOCKET_TABLE_UNIX && read_unix_kind(line, &kind) < 0)
		return -EBADMSG;
	if (kind == SOCKET_TCP) {
		if (read_column(line, 3, 16, &state) < 0)
			return -EBADMSG;
		kind = state == TCP_LISTEN ? SOCKET_TCP_LISTENING : SOCKET_TCP;
	}
	*ret_ino = ino;
	*ret_kind = kind;
	return 0;
}

/* --- locks ------------------------------------------------------------------------------------------------------ */

/* "2: FLOCK  ADVISORY  WRITE 1580 fe:00:12632069 0 EOF"; a lock that is waited for has "->" after the number. */
int proc_text_lock(const char *line, struct proc_lock *ret)
{
	struct proc_lock l;
	int pid, end = 0;

	// NOLINTNEXTLINE(cert-err34-c): the kernel wrote these fields, so their numbers fit
	if (sscanf(line, "%*u: FLOCK ADVISORY WRITE %d %x:%x:%" SCNu64 "%n", &pid, &l.major, &l.minor, &l.ino,
		   &end) != 4 ||
	    !end || pid <= 0)
		return -EBADMSG;
	l.pid = pid;
	*ret = l;
	return 0;
}
