/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's meta.json: written by the process that holds the run, read by any process of the same user. It is replaced by a
 * rename, so that a reader sees the old one or the new one.
 *
 * JSON holds text, but a path may have any bytes: a workspace whose path is not plain ASCII is written a second time as
 * bytes, and the reader uses that one.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/jsonget.h"
#include "sandbox/state/compat.h"
#include "sandbox/state/state.h"

#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#define META "meta.json"
#define META_MAX (1u << 20)
#define COMMAND_MAX 4096

/* The members that are strings. */
static const struct text_field {
	const char *key;
	size_t offset;
} texts[] = {
	{ "name", offsetof(struct run_meta, name) },
	{ "engine", offsetof(struct run_meta, engine) },
	{ "command", offsetof(struct run_meta, command) },
	{ "workspace", offsetof(struct run_meta, workspace) },
	{ "ws_mode", offsetof(struct run_meta, ws_mode) },
	{ "root", offsetof(struct run_meta, root) },
	{ "image", offsetof(struct run_meta, image) },
	{ "image_digest", offsetof(struct run_meta, image_digest) },
	{ "cause", offsetof(struct run_meta, cause) },
	{ "home", offsetof(struct run_meta, home) },
	{ "profile", offsetof(struct run_meta, profile) },
	{ "net", offsetof(struct run_meta, net) },
	{ "policy_digest", offsetof(struct run_meta, policy_digest) },
	{ "ports", offsetof(struct run_meta, ports) },
	{ "over", offsetof(struct run_meta, over) },
	{ "restart", offsetof(struct run_meta, restart) },
};

static char **meta_text_field(struct run_meta *m, const struct text_field *f)
{
	return (char **)(void *)((char *)m + f->offset);
}

void state_meta_release(struct run_meta *m)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(*meta_text_field(m, &texts[i]));
	*m = (struct run_meta){ 0 };
}

/* The length at which to cut a text without splitting a UTF-8 sequence. */
static size_t utf8_cut(const char *s, size_t max)
{
	size_t n = strnlen(s, max + 1);

	if (n <= max)
		return n;
	for (n = max; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

static bool is_plain_ascii(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s >= 0x80)
			return false;
	}
	return true;
}

static void write_meta_fields(struct json *j, const struct run_meta *m)
{
	json_obj(j, NULL);
	json_str(j, "id", m->id);
	json_str(j, "name", m->name);
	json_str(j, "engine", m->engine);
	if (m->command)
		json_strn(j, "command", m->command, utf8_cut(m->command, COMMAND_MAX));
	json_str(j, "workspace", m->workspace);
	if (m->workspace && !is_plain_ascii(m->workspace))
		json_bytes(j, "workspace_bytes", m->workspace, strlen(m->workspace));
	json_str(j, "ws_mode", m->ws_mode);
	json_str(j, "root", m->root);
	if (m->image) {
		json_str(j, "image", m->image);
		json_str(j, "image_digest", m->image_digest);
	}
	json_u64(j, "started", m->started);
	json_i64(j, "launcher", m->launcher);
	json_i64(j, "guard", m->guard);
	json_bool(j, "detached", m->detached);
	if (m->home)
		json_str(j, "home", m->home);
	if (m->profile)
		json_str(j, "profile", m->profile);
	json_str(j, "net", m->net);
	if (m->policy_digest)
		json_str(j, "policy_digest", m->policy_digest);
	if (m->ports)
		json_str(j, "ports", m->ports);
	if (m->over) {
		json_str(j, "over", m->over);
		json_u64(j, "over_time", m->over_time);
	}
	if (m->acts)
		json_bool(j, "acts", true);
	if (m->map_ids)
		json_bool(j, "map_ids", true);
	if (m->each)
		json_bool(j, "checkpoint_each", true);
	if (m->keep)
		json_u64(j, "checkpoint_keep", m->keep);
	if (m->disk)
		json_u64(j, "disk", m->disk);
	if (m->restart) {
		json_str(j, "restart", m->restart);
		json_u64(j, "restarts", m->restarts);
	}
	if (m->since)
		json_u64(j, "since", m->since);
	if (m->protocol > COMPAT_FIRST)
		json_u64(j, "protocol", m->protocol);
	if (m->ended) {
		json_u64(j, "ended", m->ended);
		json_i64(j, "exit_code", m->exit_code);
		json_str(j, "cause", m->cause);
		json_u64(j, "changes", m->changes);
	}
	json_end_obj(j);
}

int state_meta_write(int run_fd, const struct run_meta *m, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char tmp[32];
	int r;

	write_meta_fields(&j, m);
	buf_addc(&b, '\n');
	if (buf_error(&b))
		return err_set(e, buf_error(&b), "out of memory");
	/* The launcher and its guard may both write at once: each uses a temporary file of its own. */
	snprintf(tmp, sizeof(tmp), ".meta-%d", (int)getpid());
	autoclose int fd = openat(run_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, b.data, b.len);
	if (r == 0 && renameat(run_fd, tmp, run_fd, META) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(run_fd, tmp, 0);
		err_sys(e, r, "cannot save the state of run %s", m->id);
		return r == -ENOSPC || r == -EDQUOT
			       ? err_hint(e, r, "make room where the state directory is (coffer prune)")
			       : r;
	}
	return 0;
}

/* Decodes the output of json_bytes(): one byte for each character. NULL when it is something else, or without memory.
 */
static char *text_from_json_bytes(const char *s)
{
	char *out = malloc(strlen(s) + 1), *p = out;

	for (; out && *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == 0xc2 || c == 0xc3) {
			c = (unsigned char)((c & 3u) << 6 | ((unsigned char)*++s & 0x3f));
		} else if (c >= 0x80) {
			free(out);
			return NULL;
		}
		*p++ = (char)c;
	}
	if (out)
		*p = '\0';
	return out;
}

static int parse_meta_texts(json_t *root, struct run_meta *m)
{
	const char *bytes = jsonget_text_or_null(root, "workspace_bytes");

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *v = jsonget_text_or_null(root, texts[i].key);
		char **to = meta_text_field(m, &texts[i]);

		*to = v ? strdup(v) : NULL;
		if (v && !*to)
			return -ENOMEM;
	}
	if (bytes) {
		free(m->workspace);
		m->workspace = text_from_json_bytes(bytes);
		if (!m->workspace)
			return -EBADMSG;
	}
	return 0;
}

/* Absent in a meta.json of the release before the number. */
static int parse_meta_protocol(json_t *root, unsigned *ret)
{
	const json_t *v = json_object_get(root, "protocol");

	if (v && (!json_is_integer(v) || json_integer_value(v) < COMPAT_FIRST ||
		  json_integer_value(v) > INT32_MAX))
		return -EBADMSG;
	*ret = v ? (unsigned)json_integer_value(v) : COMPAT_FIRST;
	return 0;
}

static int parse_meta(json_t *root, struct run_meta *m)
{
	const char *id = jsonget_text_or_null(root, "id");

	if (!id || strlen(id) != RUN_ID_LEN || parse_meta_protocol(root, &m->protocol) < 0)
		return -EBADMSG;
	memcpy(m->id, id, sizeof(m->id));
	m->started = jsonget_u64(root, "started");
	m->ended = jsonget_u64(root, "ended");
	m->exit_code = (int)jsonget_i64(root, "exit_code");
	m->launcher = jsonget_i64(root, "launcher");
	m->guard = jsonget_i64(root, "guard");
	m->detached = jsonget_bool(root, "detached");
	m->changes = jsonget_u64(root, "changes");
	m->acts = jsonget_bool(root, "acts");
	m->map_ids = jsonget_bool(root, "map_ids");
	m->each = jsonget_bool(root, "checkpoint_each");
	m->keep = jsonget_u64(root, "checkpoint_keep");
	m->disk = jsonget_u64(root, "disk");
	m->over_time = jsonget_u64(root, "over_time");
	m->restarts = jsonget_u64(root, "restarts");
	m->since = jsonget_u64(root, "since");
	return parse_meta_texts(root, m);
}

int state_meta_read(int run_fd, struct run_meta *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct run_meta m = { 0 };
	json_error_t why;
	json_t *root;
	int r = fd_read_file(run_fd, META, META_MAX, &b);

	if (r == -ENOENT)
		return err_set(e, r, "nothing is known about this run: it has no " META);
	if (r < 0)
		return err_sys(e, r, "cannot read the record of this run (" META ")");
	root = json_loadb(buf_cstr(&b), b.len, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return err_set(e, -EBADMSG, META " of this run is damaged: %s", why.text);
	r = json_is_object(root) ? parse_meta(root, &m) : -EBADMSG;
	json_decref(root);
	if (r < 0) {
		state_meta_release(&m);
		return err_set(e, r, META " of this run is damaged: a member is missing or not valid");
	}
	*ret = m;
	return 0;
}
