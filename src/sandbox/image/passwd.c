/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds users and groups in /etc/passwd and /etc/group of a root file system, layer by layer (passwd.h). Opens files beneath
 * each layer, follows no symlink, and asks no name service.
 */
#include "sandbox/image/passwd.h"

#include "base/fd.h"
#include "sandbox/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#define FILE_MAX (1u << 20)
#define PASSWD_FIELDS 7
#define GROUP_FIELDS 4
#define HERE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)

void passwd_user_release(struct passwd_user *u)
{
	free(u->name);
	free(u->home);
	*u = (struct passwd_user){ 0 };
}

/*
 * Reads the file from one layer: 1 when the layer has it, 0 when a lower layer may have it, -ENOENT when the layer hides the
 * file of the lower ones (a whiteout, an opaque /etc, or something that is not a regular file). A symlink is not followed and
 * counts as such: its target may be in another layer, and only a mounted overlay resolves that.
 */
static int read_etc_of_layer(int layer, const char *name, struct buf *b)
{
	autoclose int etc = fd_openat2(layer, "etc", O_RDONLY | O_DIRECTORY, 0, HERE), fd = -1;
	struct stat st;
	int r;

	if (etc < 0)
		return etc == -ENOENT ? 0 : -ENOENT;
	fd = fd_openat2(etc, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, HERE);
	if (fd == -ENOENT)
		return image_dir_is_opaque(etc) ? -ENOENT : 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	r = fd_read_all(fd, FILE_MAX, b);
	return r < 0 ? r : 1;
}

static int read_etc_file(const struct root_lower *lowers, size_t n, const char *name, struct buf *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_etc_of_layer(lowers[i].fd, name, b);
	return r < 0 ? r : r == 1 && b->data ? 0 : -ENOENT;
}

static size_t split_passwd_fields(char *line, char **fields, size_t cap)
{
	size_t n = 0;

	while (line && n < cap)
		fields[n++] = strsep(&line, ":");
	/* Otherwise a short line would keep fields of the line before it. */
	for (size_t i = n; i < cap; i++)
		fields[i] = NULL;
	return n;
}

bool passwd_find(char *text, const char *name, uint64_t id, char **fields, size_t n_fields)
{
	char *line, *save = NULL;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t number;

		if (split_passwd_fields(line, fields, n_fields) < 3 || str_to_u64(fields[2], &number) < 0 ||
		    number >= UINT32_MAX)
			continue;
		if (name ? str_eq(fields[0], name) : number == id)
			return true;
	}
	return false;
}

/* Copies a home directory that is fit to be a variable's value and a mount point; NULL for any other. */
static char *copy_plain_home(const char *s)
{
	if (!s || *s != '/' || strlen(s) >= PATH_MAX || strstr(s, "/../") || str_ends(s, "/.."))
		return NULL;
	for (const char *p = s; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return NULL;
	}
	return strdup(s);
}

static int resolve_user(const struct root_lower *lowers, size_t n, const char *text, struct passwd_user *u,
			struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char *f[PASSWD_FIELDS] = { 0 }, shown[80];
	uint64_t uid = 0, gid = 0;
	bool numeric = str_to_u64(text, &uid) == 0;
	int r;

	if (numeric && uid >= UINT32_MAX)
		return err_set(e, -ERANGE, "user %s is not a user that can be mapped",
			       str_safe(text, shown, sizeof(shown)));
	r = read_etc_file(lowers, n, "passwd", &b);
	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read /etc/passwd of the root file system");
	if (r == 0 && passwd_find(b.data, numeric ? NULL : text, uid, f, PASSWD_FIELDS)) {
		if (str_to_u64(f[2], &uid) < 0 || !f[3] || str_to_u64(f[3], &gid) < 0 || gid >= UINT32_MAX)
			gid = 0;
		u->name = str_is_name(f[0]) ? strdup(f[0]) : NULL;
		u->home = copy_plain_home(f[5]);
	} else if (!numeric && !str_eq(text, "root")) {
		return err_set(e, -ENOENT, "there is no user '%s' in /etc/passwd of the root file system",
			       str_safe(text, shown, sizeof(shown)));
	}
	u->uid = (uid_t)uid;
	u->gid = (gid_t)gid;
	return 0;
}

static int resolve_group(const struct root_lower *lowers, size_t n, const char *text, struct passwd_user *u,
			 struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char *f[GROUP_FIELDS] = { 0 }, shown[80];
	uint64_t gid = 0;
	bool numeric = str_to_u64(text, &gid) == 0;
	int r = numeric ? 0 : read_etc_file(lowers, n, "group", &b);

	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read /etc/group of the root file system");
	if (!numeric &&
	    (r < 0 || !passwd_find(b.data, text, 0, f, GROUP_FIELDS) || str_to_u64(f[2], &gid) < 0))
		return err_set(e, -ENOENT, "there is no group '%s' in /etc/group of the root file system",
			       str_safe(text, shown, sizeof(shown)));
	if (gid >= UINT32_MAX)
		return err_set(e, -ERANGE, "group %s is not a group that can be mapped",
			       str_safe(text, shown, sizeof(shown)));
	u->gid = (gid_t)gid;
	return 0;
}

int passwd_resolve(const struct root_lower *lowers, size_t n, const char *text, struct passwd_user *ret,
		   struct err *e)
{
	CLEANUP(passwd_user_release) struct passwd_user u = { 0 };
	autofree char *copy = strdup(*text ? text : "0");
	char *group;
	int r;

	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	group = strchr(copy, ':');
	if (group)
		*group++ = '\0';
	r = resolve_user(lowers, n, *copy ? copy : "0", &u, e);
	if (r == 0 && group && *group)
		r = resolve_group(lowers, n, group, &u, e);
	if (r < 0)
		return r;
	/* The overflow id is the kernel's "nobody", not a user. */
	if (u.uid == 65534 || u.gid == 65534)
		return err_set(e, -ERANGE, "user %u:%u cannot be mapped: --user names another", u.uid, u.gid);
	*ret = u;
	u = (struct passwd_user){ 0 };
	return 0;
}
