/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes touch a file that coffer obeys: by its way, by the links on it, by its inode. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "tap.h"
#include "workspace/change/obeyed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[PATH_MAX], ws[PATH_MAX + 8];

static bool put(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

/* Is a change of this kind at this path of the workspace flagged, when coffer obeys `file`? */
static bool touches(const char *file, const char *path, enum change_kind kind, mode_t after)
{
	CLEANUP(obeyed_release) struct obeyed o = OBEYED_INIT(ws);
	struct change c = { .path = (char *)path, .kind = kind, .mode_after = after };
	struct changes l = { .v = &c, .n = 1 };
	char full[2 * PATH_MAX];
	struct err e = ERR_INIT;
	struct stat st;

	snprintf(full, sizeof(full), "%s/%s", ws, path);
	if (lstat(full, &st) == 0) {
		c.mode_before = st.st_mode;
		c.before.dev = st.st_dev;
		c.before.ino = st.st_ino;
	}
	snprintf(full, sizeof(full), "%s/%s", top, file);
	CHECKF(obeyed_add(&o, full, &e) == 0 && obeyed_mark(&o, &l) == 0, "the policy %s is looked for",
	       file);
	if (c.obeyed)
		CHECKF(c.flags == CHANGE_TRIGGER && c.yes_beyond == strlen(path) - 1,
		       "a change of %s needs a yes for exactly its path", path);
	return c.obeyed;
}

static bool is_hit(const char *file, const char *path)
{
	return touches(file, path, CHANGE_MODIFIED, S_IFREG | 0644);
}

static void test_ways(void)
{
	CHECKF(is_hit("ws/policy.yaml", "policy.yaml"), "a change of the policy file itself is found");
	CHECKF(is_hit("ws/../ws/./conf//real.yaml", "conf/real.yaml"),
	       "a change of the policy is found when its path has dots");
	CHECKF(is_hit("ws/policy.yaml", "POLICY.YAML"),
	       "a change of the policy is found by its name in capitals");
	CHECKF(!is_hit("ws/policy.yaml", "policy.yaml.bak") && !is_hit("ws/policy.yaml", "conf/policy.yaml"),
	       "a change of a file with another name is not about the policy");
	CHECKF(is_hit("ws/link.yaml", "link.yaml") && is_hit("ws/link.yaml", "conf/real.yaml"),
	       "a change of a policy that is a link is found, and of its target");
	CHECKF(is_hit("away.yaml", "conf/real.yaml"),
	       "a change of the target of a link from outside is found");
	CHECKF(is_hit("ws/dirlink/real.yaml", "dirlink") && is_hit("ws/dirlink/real.yaml", "conf/real.yaml"),
	       "a change of a link to a directory above the policy is found");
	CHECKF(is_hit("hard.yaml", "policy.yaml"), "a change of a hard link of the policy is found");
	CHECKF(is_hit("ws/missing.yaml", "missing.yaml") && is_hit("ws/no/such.yaml", "no/such.yaml"),
	       "a change that makes a missing policy is found");
	CHECKF(!is_hit("outside.yaml", "policy.yaml"),
	       "a policy outside of the workspace is not touched by a change");
	CHECKF(is_hit("ws/loop", "loop"), "a change of a policy that is a link to itself is found");
}

static void test_directories(void)
{
	CHECKF(touches("ws/conf/real.yaml", "conf", CHANGE_TYPE, S_IFLNK | 0777),
	       "a link that replaces a directory above the policy is found");
	CHECKF(touches("ws/no/such.yaml", "no", CHANGE_ADDED, S_IFLNK | 0777),
	       "a new link above a missing policy is found");
	CHECKF(!touches("ws/no/such.yaml", "no", CHANGE_ADDED, S_IFDIR | 0755),
	       "a new directory above a missing policy is harmless");
	CHECKF(!touches("ws/conf/real.yaml", "conf", CHANGE_MODE, S_IFDIR | 0700),
	       "a change of mode of a directory above the policy is harmless");
	CHECKF(is_hit("ws/conf", "conf/anything") && !is_hit("ws/conf", "config"),
	       "a policy that is a directory stands for all files in it");
	CHECKF(is_hit("ws", "anything") && is_hit(".", "anything"),
	       "a policy that is above the workspace stands for all of it");
}

int main(void)
{
	char made[] = "/tmp/coffertest-obeyed-XXXXXX";
	struct err e = ERR_INIT;
	struct obeyed o = OBEYED_INIT("/x");

	if (!mkdtemp(made) || !realpath(made, top) || chdir(top) < 0)
		return 1;
	snprintf(ws, sizeof(ws), "%s/ws", top);
	CHECK(mkdir("ws", 0755) == 0 && mkdir("ws/conf", 0755) == 0 && put("ws/policy.yaml", "p") &&
	      put("ws/conf/real.yaml", "r") && put("outside.yaml", "o") &&
	      symlink("conf/real.yaml", "ws/link.yaml") == 0 && symlink("conf", "ws/dirlink") == 0 &&
	      symlink("ws/link.yaml", "away.yaml") == 0 && link("ws/policy.yaml", "hard.yaml") == 0 &&
	      symlink("loop", "ws/loop") == 0);
	test_ways();
	test_directories();
	CHECKF(obeyed_add(&o, "relative", &e) == -EINVAL, "a relative path of a policy is refused");
	CHECK(fd_rm_rf(AT_FDCWD, top, NULL) == 0);
	return tap_done();
}
