/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans which host ids a sandbox gets, and writes the maps of its user namespace (ids.h). newuidmap and newgidmap are the
 * only programs that this file starts.
 */
#include "sandbox/spec/ids.h"

#include "base/fd.h"
#include "sys/ns.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The range that systemd reserves for containers: it has no accounts. */
#define BLOCK_FIRST 0x00080000u
#define BLOCK_COUNT ((0x6fff0000u - BLOCK_FIRST) / IDS_BLOCK)

/*
 * Reserves a block while the fd is open: one byte of STATE/ids per block, locked by open file description, so that the
 * kernel releases it with the last process that holds it.
 */
static int reserve_id_block(struct ids *ids, struct state *st, const char *run_id, struct err *e)
{
	autoclose int fd = openat(st->fd, "ids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint32_t start = 0;

	if (fd < 0)
		return err_sys(e, -errno, "cannot open %s/ids", st->path);
	for (const char *p = run_id; *p; p++)
		start = start * 31 + (unsigned char)*p;
	for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
		uint32_t block = (start + i) % BLOCK_COUNT;
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = block, .l_len = 1 };

		if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
			ids->out_uid = ids->out_gid = BLOCK_FIRST + block * IDS_BLOCK;
			ids->lock_fd = TAKE_FD(fd);
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_sys(e, -errno, "cannot take a range of user ids in %s/ids", st->path);
	}
	return err_set(e, -EBUSY, "every range of user ids is taken by a sandbox");
}

/* The fields of a line that colons separate, in place. Returns how many, at most `cap`. */
static size_t split_subid_fields(char *line, char **fields, size_t cap)
{
	size_t n = 0;

	while (line && n < cap)
		fields[n++] = strsep(&line, ":");
	return n;
}

/* The first subordinate range of at least a block for this user in /etc/subuid or /etc/subgid, by number or name. */
static int find_subid_range(const char *path, uid_t uid, const char *user, uint32_t *ret)
{
	autobuf struct buf b = BUF_INIT;
	char *line, *save = NULL, *f[3];
	int r = fd_read_file(AT_FDCWD, path, 1 << 20, &b);

	if (r < 0)
		return r;
	if (!b.data)
		return -ENOENT;
	for (line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t first, count, id;

		if (split_subid_fields(line, f, 3) != 3 || str_to_u64(f[1], &first) < 0 ||
		    str_to_u64(f[2], &count) < 0)
			continue;
		if (count < IDS_BLOCK || first > UINT32_MAX - IDS_BLOCK)
			continue;
		if ((str_to_u64(f[0], &id) == 0 && id == uid) || (user && str_eq(f[0], user))) {
			*ret = (uint32_t)first;
			return 0;
		}
	}
	return -ENOENT;
}

/* The login name of a uid, from /etc/passwd alone: this program is static and uses no name service. */
static char *login_name(uid_t uid)
{
	autobuf struct buf b = BUF_INIT;
	char *line, *save = NULL, *f[3];
	uint64_t id;

	if (fd_read_file(AT_FDCWD, "/etc/passwd", 1 << 20, &b) < 0 || !b.data)
		return NULL;
	for (line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (split_subid_fields(line, f, 3) == 3 && str_to_u64(f[2], &id) == 0 && id == uid)
			return strdup(f[0]);
	}
	return NULL;
}

static int plan_subids(struct ids *ids, struct err *e)
{
	autofree char *user = login_name(getuid());
	int r = find_subid_range("/etc/subuid", getuid(), user, &ids->sub_uid);

	if (r == 0)
		r = find_subid_range("/etc/subgid", getuid(), user, &ids->sub_gid);
	if (r == -ENOENT)
		r = err_set(e, r, "no subordinate ids for this user in /etc/subuid and /etc/subgid");
	else if (r < 0)
		r = err_sys(e, r,
			    "cannot read the subordinate ids of this user in /etc/subuid and /etc/subgid");
	if (r < 0) {
		return err_hint(e, r,
				"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s",
				user ? user : "USER");
	}
	return 0;
}

int ids_plan(struct ids *ret, struct state *st, const char *run_id, uid_t uid, gid_t gid, bool range,
	     struct err *e)
{
	struct ids ids = IDS_INIT;
	int r = 0;

	ids.host_root = state_is_host_root();
	ids.range = range || ids.host_root;
	ids.uid = uid;
	ids.gid = gid;
	if (ids.range && (uid >= IDS_BLOCK || gid >= IDS_BLOCK))
		return err_set(e, -ERANGE, "user and group inside must be below %u, not %u:%u", IDS_BLOCK,
			       uid, gid);
	if (ids.host_root) {
		r = reserve_id_block(&ids, st, run_id, e);
	} else {
		ids.out_uid = geteuid();
		ids.out_gid = getegid();
		if (range)
			r = plan_subids(&ids, e);
	}
	if (r < 0)
		return r;
	*ret = ids;
	return 0;
}

void ids_release(struct ids *ids)
{
	fd_close(ids->lock_fd);
	*ids = IDS_INIT;
}

uint32_t ids_outside_uid(const struct ids *ids)
{
	return ids->host_root ? ids->out_uid + ids->uid : ids->out_uid;
}

char *ids_outer_map(const struct ids *ids, bool groups, char out[IDS_MAP_LEN])
{
	if (ids->host_root)
		snprintf(out, IDS_MAP_LEN, "0 %u %u\n", groups ? ids->out_gid : ids->out_uid, IDS_BLOCK);
	else
		snprintf(out, IDS_MAP_LEN, "%u %u 1\n", groups ? ids->gid : ids->uid,
			 groups ? ids->out_gid : ids->out_uid);
	return out;
}

/* A line of the inner map must not span two lines of the outer map, where the command's own id splits the range. */
char *ids_inner_map(const struct ids *ids, bool groups, char out[IDS_MAP_LEN])
{
	unsigned own = groups ? ids->gid : ids->uid;
	size_t n = 0;

	if (ids->range && own > 0)
		n += (size_t)snprintf(out, IDS_MAP_LEN, "0 0 %u\n", own);
	n += (size_t)snprintf(out + n, IDS_MAP_LEN - n, "%u %u 1\n", own, own);
	if (ids->range && own + 1 < IDS_BLOCK)
		snprintf(out + n, IDS_MAP_LEN - n, "%u %u %u\n", own + 1, own + 1, IDS_BLOCK - own - 1);
	return out;
}

/* Runs newuidmap or newgidmap and waits for it. */
static int run_newidmap(const char *program, char *const *argv, struct err *e)
{
	const int fds[] = { SPAWN_NULL, 2, 2 };
	/* The program is setuid, which it needs to write the map. */
	const struct spawn s = { .path = program,
				 .argv = argv,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .flags = SPAWN_SAME_ID | SPAWN_MAY_GAIN };
	struct spawned got = SPAWNED_INIT;
	enum spawn_step step;
	int r = spawn_start_step(&s, &got, &step, e);

	if (r == -ENOENT && step == SPAWN_STEP_EXEC)
		return err_hint(e, err_set(e, -ENOENT, "%s is not installed", program),
				"install it (Debian, Ubuntu: uidmap; Fedora: shadow-utils)");
	if (r < 0)
		return r;
	return spawn_wait(&got) == 0 ? 0
				     : err_set(e, -EPERM, "%s refused to map the subordinate ids", program);
}

/* PID 0 SUB N  N OWN 1  N+1 SUB+N REST: the whole block, with the caller's own id at its place. */
static int run_map_of_subids(const char *program, pid_t child, uint32_t inside, uint32_t own, uint32_t sub,
			     struct err *e)
{
	autostrv struct strv a = STRV_INIT;
	int r = strv_add(&a, program);

	if (r == 0)
		r = strv_addf(&a, "%d", child);
	if (r == 0 && inside > 0)
		r = strv_add(&a, "0") < 0 || strv_addf(&a, "%u", sub) < 0 || strv_addf(&a, "%u", inside) < 0;
	if (r == 0)
		r = strv_addf(&a, "%u", inside) < 0 || strv_addf(&a, "%u", own) < 0 || strv_add(&a, "1") < 0;
	if (r == 0 && inside + 1 < IDS_BLOCK)
		r = strv_addf(&a, "%u", inside + 1) < 0 || strv_addf(&a, "%u", sub + inside) < 0 ||
		    strv_addf(&a, "%u", IDS_BLOCK - inside - 1) < 0;
	return r ? err_set(e, -ENOMEM, "out of memory") : run_newidmap(program, a.v, e);
}

int ids_write_maps(const struct ids *ids, pid_t child, struct err *e)
{
	char proc[32], map[IDS_MAP_LEN];
	int r;

	if (!ids->host_root) {
		r = run_map_of_subids("/usr/bin/newuidmap", child, ids->uid, ids->out_uid, ids->sub_uid, e);
		return r < 0 ? r
			     : run_map_of_subids("/usr/bin/newgidmap", child, ids->gid, ids->out_gid,
						 ids->sub_gid, e);
	}
	snprintf(proc, sizeof(proc), "/proc/%d", child);
	r = ns_map_ids(proc, false, ids_outer_map(ids, false, map), e);
	return r < 0 ? r : ns_map_ids(proc, true, ids_outer_map(ids, true, map), e);
}
