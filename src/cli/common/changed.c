/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the layer of a run and the directory beneath it for diff, apply and discard, removes a run, and
 * formats a change for people. It never writes to the original directory: only workspace/apply does.
 */
#include "cli/common/changed.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "cli/common/look.h"
#include "cli/common/obeyed_files.h"
#include "cli/core/ref.h"
#include "codec/term/termrows.h"
#include "run/run.h"
#include "run/supervise/run_link.h"
#include "sandbox/state/layers.h"
#include "workspace/store/ckpt_list.h"
#include "workspace/tree/path.h"
#include "workspace/wipe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

/* A live sandbox whose layer is a disk image is frozen for at most this long while that layer is opened. */
#define IMAGE_STILL_MS 1000

int cli_changed_audit(struct audit **ret, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *a = NULL;
	int r = state_open(&st, e);

	if (r == 0)
		r = audit_open(&a, st.fd, e);
	if (r == 0) {
		audit_frees_space(a);
		r = run_sweep(&st, a, e);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(a);
	return 0;
}

bool cli_changed_nothing(const char *ref, char id[RUN_ID_LEN + 1])
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct look_end end = { 0 };
	struct err ignored = ERR_INIT;

	return state_open(&st, &ignored) == 0 && ref_resolve_logged(&st, ref, id, &ignored) == 0 &&
	       strlen(id) == RUN_ID_LEN && cli_look_end(&st, id, &end, &ignored) == 0 && end.changes == 0;
}

/* A rollback that a crash interrupted is finished before anyone reads the layer. */
static int finish_interrupted_rollback(struct changed *c, bool claimed, struct err *e)
{
	autoclose int fd = -1;
	struct stat sb;

	if (claimed)
		return ckpt_recover(&c->st, c->id, c->run_fd, e);
	if (c->alive || (fstatat(c->run_fd, "rollback", &sb, AT_SYMLINK_NOFOLLOW) < 0 &&
			 fstatat(c->run_fd, "upper.new", &sb, AT_SYMLINK_NOFOLLOW) < 0))
		return 0;
	fd = state_run_claim(&c->st, c->id, NULL);
	return fd < 0 ? err_set(e, -EBUSY, "%s is just being rolled back", c->id)
		      : ckpt_recover(&c->st, c->id, fd, e);
}

int cli_changed_open(struct changed *c, const char *ref, bool claim, struct err *e)
{
	int r = state_open(&c->st, e);

	if (r == 0)
		r = state_resolve(&c->st, ref, c->id, e);
	if (r < 0)
		return r;
	c->run_fd = claim ? state_run_claim(&c->st, c->id, e) : state_run_open(&c->st, c->id, &c->alive, e);
	if (c->run_fd == -EBUSY) {
		r = err_set(e, -EBUSY, "%s is still running, or in use by another coffer command", c->id);
		return err_hint(e, r, "coffer stop %s, then retry", c->id);
	}
	if (c->run_fd < 0)
		return c->run_fd;
	r = finish_interrupted_rollback(c, claim, e);
	return r < 0 ? r : state_meta_read(c->run_fd, &c->meta, e);
}

/* A run without a layer has no changes to show; the error message depends on the mode of its workspace. */
int cli_changed_has_layer(const struct changed *c, struct err *e)
{
	const char *mode = c->meta.ws_mode ? c->meta.ws_mode : "";

	if (str_eq(mode, "overlay") && (c->meta.workspace || c->meta.over))
		return 0;
	if (str_eq(mode, "rw"))
		err_set(e, -ENODATA, "%s wrote to its workspace directly (-C DIR:rw): nothing was held back",
			c->id);
	else if (str_eq(mode, "ro"))
		err_set(e, -ENODATA, "%s had its workspace read-only: there are no changes", c->id);
	else
		err_set(e, -ENODATA, "%s had an empty workspace of its own, which is wiped at its end",
			c->id);
	return err_hint(e, -ENODATA, "coffer rm %s forgets the run", c->id);
}

static int mount_upper(struct changed *c, struct err *e)
{
	int fd;

	c->layers = layers_open(c->run_fd, e);
	if (c->layers < 0) {
		fd = c->layers;
		c->layers = -1;
		return fd;
	}
	fd = openat(c->layers, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, -errno, "cannot open the run's layer") : fd;
}

/* The disk image of a live run must not be mounted a second time: its launcher has it mounted, and passes a
 * descriptor of it. */
static int open_run_upper(struct changed *c, struct err *e)
{
	autolink struct run_link l = RUN_LINK_INIT;
	autoclose int layers = -1;
	unsigned how;
	int fd, r;

	if (!c->alive || faccessat(c->run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return mount_upper(c, e);
	r = run_link_open(&l, c->run_fd, e);
	if (r == 0)
		r = run_link_freeze(&l, IMAGE_STILL_MS, &how, &layers, e);
	if (r < 0)
		return r;
	fd = openat(layers, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, -errno, "cannot open the run's layer") : fd;
}

int cli_changed_open_original(struct changed *c, struct err *e)
{
	int r = cli_changed_has_layer(c, e);

	if (r < 0 || !c->meta.workspace)
		return r;
	/* The path was resolved when the run began. A symbolic link in it now means that it leads to another
	 * directory. */
	c->lower = fd_openat2(AT_FDCWD, c->meta.workspace, O_RDONLY | O_DIRECTORY, 0,
			      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (c->lower < 0) {
		r = c->lower;
		c->lower = -1;
		return err_sys(e, r, "cannot open the directory that %s worked on: %s", c->id,
			       c->meta.workspace);
	}
	return 0;
}

int cli_changed_open_trees(struct changed *c, struct err *e)
{
	int r = cli_changed_open_original(c, e);

	if (r < 0)
		return r;
	c->upper = open_run_upper(c, e);
	if (c->upper < 0) {
		r = c->upper;
		c->upper = -1;
		if (r != -ENOENT)
			return r;
		err_set(e, r, "%s has no changes any more", c->id);
		return err_hint(e, r, "coffer rm %s forgets the run", c->id);
	}
	if (c->meta.over) {
		c->layer = openat(c->run_fd, LAYERS_FROM, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (c->layer < 0)
			return err_sys(e, -errno, "cannot open the layer of %s beneath that of %s",
				       c->meta.over, c->id);
	}
	return 0;
}

int cli_changed_list(struct changed *c, struct changes *ret, struct err *e)
{
	CLEANUP(obeyed_release) struct obeyed o = OBEYED_INIT(c->meta.workspace ? c->meta.workspace : "//");
	int r = cli_obeyed_collect(&o, &c->st, e);

	if (r == 0)
		r = workspace_changes(c->upper, changed_base(c), changed_since(c), ret, e);
	if (r == 0 && obeyed_mark(&o, ret) < 0) {
		changes_release(ret);
		r = err_set(e, -ENOMEM, "out of memory");
	}
	return r;
}

int cli_changed_paths(const struct changed *c, struct strv *paths, const char *option, struct err *e)
{
	const char *ws = c->meta.workspace;

	for (size_t i = 0; i < paths->n; i++) {
		const char *typed = paths->v[i];
		char *path = NULL;
		int r;

		if (ws && path_covers(ws, typed))
			typed += strlen(ws) + (typed[strlen(ws)] == '/');
		r = path_normalise(typed, &path, e);
		if (r < 0)
			return r;
		free(paths->v[i]);
		paths->v[i] = path;
		if (option && !*path) {
			err_set(e, -EINVAL, "%s needs a path, not the whole workspace", option);
			return err_hint(e, -EINVAL, "coffer diff %s lists what needs it", c->id);
		}
	}
	return 0;
}

static int log_workspace_wiped(struct audit *a, const char *id, uint64_t n, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_u64(&j, "entries", n);
	json_bool(&j, "verified", true);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(a, "workspace.wiped", id, &b, e);
}

int cli_changed_remove(struct changed *c, struct audit *a, uint64_t *ret_n, struct err *e)
{
	char buried[RUN_BURIED_LEN];
	uint64_t upper = 0, rest = 0;
	bool had_checkpoints;
	int r;

	/* A disk image cannot be unmounted while its layer is open. */
	c->upper = fd_close(c->upper);
	c->layers = fd_close(c->layers);
	r = workspace_wipe(c->run_fd, "upper", -1, &upper, e);
	if (r < 0)
		return r;
	if (c->meta.name)
		state_name_clear(&c->st, c->meta.name, c->id);
	had_checkpoints = faccessat(c->run_fd, "checkpoints", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	r = state_run_bury(&c->st, c->id, buried, e);
	if (r == 0)
		r = workspace_wipe(c->st.runs_fd, buried, -1, &rest, e);
	if (r < 0)
		return r;
	/* Frees only content that no other checkpoint needs. An error is ignored: the next cleanup frees
	 * it. */
	if (had_checkpoints)
		ckpt_tidy(&c->st);
	*ret_n = upper;
	return log_workspace_wiped(a, c->id, upper, e);
}

void cli_changed_release(struct changed *c)
{
	fd_close(c->upper);
	fd_close(c->lower);
	fd_close(c->layer);
	fd_close(c->layers);
	fd_close(c->run_fd);
	state_meta_release(&c->meta);
	state_release(&c->st);
	*c = CHANGED_INIT;
}

char cli_change_letter(const struct change *c)
{
	static const char letters[] = { [CHANGE_ADDED] = 'A',
					[CHANGE_MODIFIED] = 'M',
					[CHANGE_DELETED] = 'D',
					[CHANGE_MODE] = 'm',
					[CHANGE_TYPE] = 'T' };

	static_assert(ARRAY_SIZE(letters) == CHANGE_KIND_COUNT, "a letter for each kind");
	return letters[c->kind];
}

static const char *file_type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "pipe";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

void cli_change_format(const struct change *c, struct buf *out)
{
	buf_addf(out, "%c ", cli_change_letter(c));
	termrows_plain(out, c->path, strlen(c->path));
	if (change_is_dir(c))
		buf_addc(out, '/');
	if (c->kind == CHANGE_TYPE)
		buf_addf(out, " (%s -> %s)", file_type_name(c->mode_before), file_type_name(c->mode_after));
	else if (c->mode_before && c->mode_after && (c->mode_before ^ c->mode_after) & 07777)
		buf_addf(out, " (%04o -> %04o)", c->mode_before & 07777, c->mode_after & 07777);
}

void cli_change_add_reasons(const struct change *c, struct buf *out)
{
	bool first = true;

	for (unsigned flag = 1; flag <= CHANGE_HELD; flag <<= 1) {
		const char *why = change_why(c, flag);

		if (!why)
			continue;
		buf_addf(out, "%s%s%s", first ? "" : "; ",
			 flag == CHANGE_SECRETIVE ? "usually holds "
			 : flag == CHANGE_LEAK	  ? "contains "
						  : "",
			 why);
		first = false;
	}
}

/* Quotes a name so that pasting it into a shell yields exactly that name. */
static void add_shell_quoted(struct buf *out, const char *s)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+=:@%,-";
	autobuf struct buf shown = BUF_INIT;

	if (*s && *s != '-' && !s[strspn(s, plain)]) {
		buf_adds(out, s);
		return;
	}
	termrows_plain(&shown, s, strlen(s));
	if (str_eq(buf_cstr(&shown), s)) {
		buf_addc(out, '\'');
		for (; *s; s++) {
			if (*s == '\'')
				buf_adds(out, "'\\''");
			else
				buf_addc(out, *s);
		}
		buf_addc(out, '\'');
		return;
	}
	buf_adds(out, "$'");
	for (; *s; s++) {
		if (strchr(plain, *s))
			buf_addc(out, *s);
		else
			buf_addf(out, "\\x%02x", (unsigned char)*s);
	}
	buf_addc(out, '\'');
}

void cli_change_add_options(const struct change *c, struct buf *out)
{
	static const struct {
		unsigned flags;
		const char *option;
	} ways[] = {
		{ CHANGE_SPECIAL, "--allow-special" },
		{ CHANGE_TRIGGER | CHANGE_SECRETIVE | CHANGE_LEAK, "--allow" },
		{ CHANGE_CONFLICT, "--force" },
	};
	size_t start = out->len;

	if (c->flags & CHANGE_HELD)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (!(c->flags & ways[i].flags))
			continue;
		buf_addf(out, "%s%s ", out->len > start ? " " : "", ways[i].option);
		add_shell_quoted(out, c->path);
	}
}
