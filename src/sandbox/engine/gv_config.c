/* SPDX-License-Identifier: Apache-2.0 */
/* Writing config.json of runsc's bundle. See gv_config.h. Nothing here reads a file. */
#include "sandbox/engine/gv_config.h"

#include "base/json.h"
#include "sandbox/engine/rootfs.h"
#include "sys/fence/caps.h"

#include <ctype.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>

#define MASK_MOUNTS 128 /* each costs runsc descriptors and a millisecond */

/* "net_raw" as "CAP_NET_RAW". */
static void add_cap_json(struct json *j, const char *name)
{
	char upper[40] = "CAP_";

	for (size_t i = 0; name[i] && i + 5 < sizeof(upper); i++)
		upper[4 + i] = (char)toupper((unsigned char)name[i]);
	json_str(j, NULL, upper);
}

static void add_caps_json(struct json *j, const char *set, uint64_t caps)
{
	json_arr(j, set);
	for (int cap = 0; cap < 64 && caps_name(cap); cap++) {
		if (caps & (1ULL << cap))
			add_cap_json(j, caps_name(cap));
	}
	json_end_arr(j);
}

static void add_rlimit_json(struct json *j, const char *type, uint64_t soft, uint64_t hard)
{
	json_obj(j, NULL);
	json_str(j, "type", type);
	json_u64(j, "soft", soft);
	json_u64(j, "hard", hard);
	json_end_obj(j);
}

/*
 * The limits of processes are the guest's own: a control group would count runsc's threads too, and when it refuses
 * one of those the whole sandbox dies.
 */
static void add_rlimits_json(struct json *j, const struct limits *l)
{
	json_arr(j, "rlimits");
	add_rlimit_json(j, "RLIMIT_CORE", 0, 0);
	add_rlimit_json(j, "RLIMIT_NOFILE", l->l[LIMIT_NOFILE_SOFT].value, l->l[LIMIT_NOFILE_HARD].value);
	add_rlimit_json(j, "RLIMIT_NPROC", l->l[LIMIT_PIDS].value, l->l[LIMIT_PIDS].value);
	add_rlimit_json(j, "RLIMIT_FSIZE", l->l[LIMIT_DISK].value, l->l[LIMIT_DISK].value);
	json_end_arr(j);
}

static void add_process_json(struct json *j, const struct spec *s)
{
	json_obj(j, "process");
	json_obj(j, "user");
	json_u64(j, "uid", s->uid);
	json_u64(j, "gid", s->gid);
	json_end_obj(j);
	json_arr(j, "args");
	json_str(j, NULL, "coffer-init");
	json_str(j, NULL, "now");
	json_end_arr(j);
	json_arr(j, "env");
	json_end_arr(j);
	json_str(j, "cwd", "/");
	json_bool(j, "noNewPrivileges", true);
	json_obj(j, "capabilities");
	add_caps_json(j, "bounding", s->caps);
	add_caps_json(j, "effective", s->caps);
	add_caps_json(j, "permitted", s->caps);
	add_caps_json(j, "inheritable", s->caps);
	add_caps_json(j, "ambient", s->caps);
	json_end_obj(j);
	add_rlimits_json(j, &s->limits);
	json_end_obj(j);
}

static void add_mount_json(struct json *j, const char *dst, const char *type, const char *src,
			   const char *const *options)
{
	json_obj(j, NULL);
	json_str(j, "destination", dst);
	json_str(j, "type", type);
	json_str(j, "source", src);
	json_arr(j, "options");
	for (; *options; options++)
		json_str(j, NULL, *options);
	json_end_arr(j);
	json_end_obj(j);
}

static void add_tmpfs_json(struct json *j, const struct spec *s, const char *dst, unsigned mode,
			   uint64_t bytes)
{
	char size[40], m[24], uid[24], gid[24];
	const char *const options[] = { size, m, uid, gid, "nosuid", "nodev", NULL };

	snprintf(size, sizeof(size), "size=%" PRIu64, bytes);
	snprintf(m, sizeof(m), "mode=%o", mode);
	snprintf(uid, sizeof(uid), "uid=%u", s->uid);
	snprintf(gid, sizeof(gid), "gid=%u", s->gid);
	add_mount_json(j, dst, "tmpfs", "tmpfs", options);
}

static void add_bind_json(struct json *j, const char *dst, const char *src, bool writable)
{
	const char *const options[] = { "rbind", writable ? "rw" : "ro", "nosuid", "nodev", NULL };

	add_mount_json(j, dst, "bind", src, options);
}

bool gv_directfs(const struct spec *s)
{
	if (s->n_masks > MASK_MOUNTS)
		return false;
	/* A command that may unmount in gVisor could remove the mounts that hide files. */
	if (s->n_masks && s->caps & (1ULL << CAP_SYS_ADMIN))
		return false;
	/* JSON cannot have a name that is not UTF-8. Such names are rare enough to exclude all that are not ASCII. */
	for (size_t i = 0; i < s->n_masks; i++) {
		for (const char *p = s->masks[i].path; *p; p++) {
			if ((unsigned char)*p >= 0x80)
				return false;
		}
	}
	return true;
}

static void add_masks_json(struct json *j, const struct spec *s)
{
	autobuf struct buf src = BUF_INIT, dst = BUF_INIT;

	for (size_t i = 0; gv_directfs(s) && i < s->n_masks; i++) {
		buf_clear(&src);
		buf_clear(&dst);
		buf_addf(&src, "%s/%s", gv_workspace_in_root(s) ? GV_ROOT ROOTFS_WORKSPACE : GV_WORKSPACE,
			 s->masks[i].path);
		buf_addf(&dst, "%s/%s", ROOTFS_WORKSPACE, s->masks[i].path);
		add_bind_json(j, buf_cstr(&dst), buf_cstr(&src), false);
	}
}

static void add_mounts_json(struct json *j, const struct spec *s)
{
	static const char *const none[] = { NULL };
	uint64_t tmp = s->limits.l[LIMIT_TMP].value;
	const char *home = rootfs_home_of(s);
	bool image = spec_has_root_layer(s);
	char src[32];

	json_arr(j, "mounts");
	add_mount_json(j, "/proc", "proc", "proc", none);
	add_tmpfs_json(j, s, "/dev/shm", 01777, s->limits.l[LIMIT_SHM].value);
	add_tmpfs_json(j, s, "/tmp", 01777, tmp);
	/* The root of an image has these directories itself, and they are in its layer. */
	if (!image) {
		add_tmpfs_json(j, s, "/run", 0755, tmp);
		add_tmpfs_json(j, s, "/var/tmp", 01777, tmp);
	}
	if (s->home_fd >= 0)
		add_bind_json(j, home, GV_HOME, true);
	else if (!image)
		add_tmpfs_json(j, s, home, 0700, tmp);
	if (!gv_workspace_in_root(s))
		add_bind_json(j, ROOTFS_WORKSPACE, GV_WORKSPACE, s->ws_mode == WS_RW);
	add_masks_json(j, s);
	if (spec_has_ca(s))
		add_bind_json(j, ROOTFS_CA_DIR, GV_CA, false);
	for (size_t i = 0; i < s->n_binds; i++) {
		snprintf(src, sizeof(src), GV_BIND, i);
		add_bind_json(j, s->binds[i].dst, src, s->binds[i].writable);
	}
	json_end_arr(j);
}

void gv_config(const struct spec *s, struct buf *out)
{
	static const char *const namespaces[] = { "pid", "mount", "ipc", "uts", "network" };
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "ociVersion", "1.0.2");
	add_process_json(&j, s);
	json_obj(&j, "root");
	json_str(&j, "path", GV_ROOT);
	json_bool(&j, "readonly", false);
	json_end_obj(&j);
	json_str(&j, "hostname", s->hostname);
	add_mounts_json(&j, s);
	json_obj(&j, "linux");
	json_arr(&j, "namespaces");
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		json_obj(&j, NULL);
		json_str(&j, "type", namespaces[i]);
		/* The namespace that runsc is started in has one end of the wall's interface pair. */
		if (s->net != NET_NONE && str_eq(namespaces[i], "network"))
			json_str(&j, "path", "/proc/self/ns/net");
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_end_obj(&j);
	json_end_obj(&j);
}
