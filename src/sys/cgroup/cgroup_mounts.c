/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group mounts in the kernel's mount table (proc_pid_mountinfo(5)). A mount whose path is too
 * long is left out, never cut.
 */
#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>

#define TABLE_MAX (16u << 20)

/* One line of the mount table, taken apart. */
struct mount_line {
	char *root, *point, *type, *options;
};

/* Decodes octal escapes such as \040, in place. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
		    s[3] <= '7') {
			*out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

/* "31 23 0:28 ROOT POINT opts [tags] - TYPE source OPTIONS" */
static bool split_mount(char *line, struct mount_line *ret)
{
	char *tail = strstr(line, " - "), *save = NULL;

	*ret = (struct mount_line){ 0 };
	if (!tail)
		return false;
	*tail = '\0';
	for (int i = 0; i < 5; i++) {
		char *word = strtok_r(i ? NULL : line, " ", &save);

		if (!word)
			return false;
		if (i == 3)
			ret->root = word;
		if (i == 4)
			ret->point = word;
	}
	ret->type = strtok_r(tail + 3, " ", &save);
	if (!ret->type || !strtok_r(NULL, " ", &save))
		return false;
	ret->options = strtok_r(NULL, " ", &save);
	unescape(ret->root);
	unescape(ret->point);
	return ret->options != NULL;
}

/* False when it is no control group mount, or its path is too long. */
static bool take_mount(const struct mount_line *m, const char *prefix, struct cgroup_mount *ret)
{
	char *save = NULL;

	ret->unified = str_eq(m->type, "cgroup2");
	ret->ctls = 0;
	if (!ret->unified && !str_eq(m->type, "cgroup"))
		return false;
	for (char *w = strtok_r(m->options, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		for (int k = 0; k < CGROUP_CTL_COUNT; k++)
			ret->ctls |= str_eq(w, cgroup_ctl_name(k)) ? CGROUP_BIT(k) : 0;
	}
	if (!ret->unified && !ret->ctls)
		return false;
	return snprintf(ret->point, sizeof(ret->point), "%s%s", prefix, m->point) < CGROUP_DIR_MAX &&
	       snprintf(ret->root, sizeof(ret->root), "%s", m->root) < CGROUP_DIR_MAX;
}

int cgroup_mounts(const struct cgroup_source *src, struct cgroup_mount *ret, int max)
{
	autobuf struct buf text = BUF_INIT;
	struct mount_line m;
	char *save = NULL;
	int n = 0, r = fd_read_file(AT_FDCWD, src->mountinfo, TABLE_MAX, &text);

	if (r < 0 || !text.data)
		return r;
	for (char *line = strtok_r(text.data, "\n", &save); line && n < max;
	     line = strtok_r(NULL, "\n", &save)) {
		if (split_mount(line, &m) && take_mount(&m, src->prefix, &ret[n]))
			n++;
	}
	return n;
}
