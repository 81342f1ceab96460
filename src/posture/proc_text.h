/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers of what the kernel writes about a process into /proc. Pure: they open nothing.
 *
 * The numbers are the kernel's. A name (comm) and the path of an open file are chosen by the process, which may be hostile: they
 * are kept as they came, and are made harmless where they are printed. In `status` the kernel escapes newlines in the name, so
 * a name cannot be a line of its own; in `stat` it is skipped up to the last ")".
 */
#ifndef POSTURE_PROC_TEXT_H
#define POSTURE_PROC_TEXT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_NAME_LEN \
	80 /* 15 bytes, each of which the kernel may write as \ooo, and more for a kernel thread */

struct proc_status {
	char name[PROC_NAME_LEN];
	char state; /* 'Z': a zombie */
	pid_t pid, parent;
	uid_t uid;		       /* effective, as the reader of /proc sees it */
	uint64_t effective, permitted; /* capabilities */
	bool no_new_privs;
	int seccomp;	 /* 0: none, 1: strict, 2: filter; -1: this kernel does not show it */
	unsigned levels; /* pid namespaces that it has a pid in, from that of /proc on: at least 1 */
	pid_t innermost; /* its pid in the last of them */
};

/* /proc/PID/status. -EBADMSG when a line is missing or malformed. */
int proc_text_status(const char *text, struct proc_status *ret) MUST_CHECK;

/* /proc/PID/stat: the start time, which tells a process from a later one with its pid. */
int proc_text_start(const char *text, uint64_t *ret) MUST_CHECK;

/* /proc/PID/fdinfo/N: the flags of open(2). */
int proc_text_flags(const char *text, unsigned *ret) MUST_CHECK;
bool proc_flags_may_write(unsigned flags);

/* A link of /proc/PID/ns: the number in "net:[4026531833]", which has to be of this type. */
int proc_text_ns(const char *link, const char *type, uint64_t *ret) MUST_CHECK;

/* A link of /proc/PID/fd. */
enum fd_sort {
	FD_SORT_FILE, /* a path: a file, a directory, a device, a named pipe */
	FD_SORT_PIPE,
	FD_SORT_MEMFILE,
	FD_SORT_SOCKET,
	FD_SORT_OTHER, /* epoll, pidfd, namespace, … */
	FD_SORT_COUNT
};
const char *fd_sort_name(enum fd_sort s); /* "file" */
/* *ret_ino is the number of a socket; 0 for all others. */
enum fd_sort proc_text_sort(const char *link, uint64_t *ret_ino);

/* The tables of /proc/PID/net that list sockets. */
enum socket_table {
	SOCKET_TABLE_TCP,
	SOCKET_TABLE_TCP6,
	SOCKET_TABLE_UDP,
	SOCKET_TABLE_UDP6,
	SOCKET_TABLE_RAW,
	SOCKET_TABLE_RAW6,
	SOCKET_TABLE_ICMP,
	SOCKET_TABLE_ICMP6,
	SOCKET_TABLE_UNIX,
	SOCKET_TABLE_NETLINK,
	SOCKET_TABLE_PACKET,
	SOCKET_TABLE_COUNT
};
const char *socket_table_name(enum socket_table t); /* "tcp6" */

enum socket_kind {
	SOCKET_TCP,
	SOCKET_TCP_LISTENING,
	SOCKET_UDP,
	SOCKET_RAW,
	SOCKET_ICMP,
	SOCKET_UNIX_STREAM,
	SOCKET_UNIX_STREAM_LISTENING,
	SOCKET_UNIX_DATAGRAM,
	SOCKET_UNIX_SEQPACKET,
	SOCKET_UNIX_SEQPACKET_LISTENING,
	SOCKET_NETLINK,
	SOCKET_PACKET,
	SOCKET_OTHER, /* in no table that was read */
	SOCKET_KIND_COUNT
};
const char *socket_kind_name(enum socket_kind k); /* "tcp listening" */

/* One line. -EBADMSG: it is no row of this table, such as its first line. */
int proc_text_socket(enum socket_table t, const char *line, uint64_t *ret_ino,
		     enum socket_kind *ret_kind) MUST_CHECK;

struct proc_lock {
	pid_t pid; /* the process that took it; a child with a copy of its descriptor holds it too */
	unsigned major, minor;
	uint64_t ino;
};

/* A line of /proc/locks that is an exclusive flock(2), held. -EBADMSG: another lock, or one that is waited for. */
int proc_text_lock(const char *line, struct proc_lock *ret) MUST_CHECK;

#endif
