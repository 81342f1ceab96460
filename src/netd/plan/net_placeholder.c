/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files vault/mark and vault/placeholders/HOME of the state directory. Only the launcher reads and writes
 * them, before there is a guard.
 */
#include "netd/plan/net_placeholder.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "vault/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_PATIENCE_MS 5000	  /* the holder writes a small file */
#define REMEMBERED_MAX (1u << 20) /* bytes for one home */

/* --- the mark ------------------------------------------------------------------------------------------- */

static int read_mark_seed(int dir, uint8_t seed[MARK_SEED_LEN])
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(dir, MARK_FILE, MARK_SEED_LEN + 1, &b);

	if (r < 0)
		return r;
	if (b.len != MARK_SEED_LEN)
		return -EBADMSG;
	memcpy(seed, b.data, MARK_SEED_LEN);
	return 0;
}

/* If two processes make it at once, the first one wins. It is synced before it gets its name: an empty file
 * after a power failure would be an error for every run. */
static int make_mark_seed(int dir)
{
	uint8_t seed[MARK_SEED_LEN];
	autoclose int fd = -1;
	char tmp[32];
	int r;

	randombytes_buf(seed, sizeof(seed));
	snprintf(tmp, sizeof(tmp), ".mark-%08x%08x", randombytes_random(), randombytes_random());
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, seed, sizeof(seed));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && linkat(dir, tmp, dir, MARK_FILE, 0) < 0 && errno != EEXIST)
		r = -errno;
	unlinkat(dir, tmp, 0);
	return r < 0 ? r : fsync(dir) < 0 ? -errno : 0;
}

int net_marks_read(int dir, bool make, struct marks *ret, struct err *e)
{
	uint8_t seed[MARK_SEED_LEN];
	int r = read_mark_seed(dir, seed);

	*ret = (struct marks){ 0 };
	if (r == -ENOENT && !make)
		return 0;
	if (r == -ENOENT) {
		r = make_mark_seed(dir);
		if (r == 0)
			r = read_mark_seed(dir, seed);
	}
	if (r < 0) {
		err_set(e, r,
			"cannot read the mark of this state directory's placeholders (vault/" MARK_FILE
			"): %s",
			r == -EBADMSG ? "it is not 32 bytes long" : strerror(-r));
		return err_hint(e, r,
				"remove the file; the next run makes another mark, and new placeholders");
	}
	marks_make(seed, ret);
	return 0;
}

/* --- placeholders of a home ----------------------------------------------------------------------------- */

static int open_placeholder_dir(int vault, struct err *e)
{
	autoclose int dir = -1;

	if (mkdirat(vault, VAULT_PLACEHOLDERS_DIR, 0700) < 0 && errno != EEXIST)
		return err_sys(e, -errno, "cannot make a directory beside the vault");
	dir = openat(vault, VAULT_PLACEHOLDERS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return err_sys(e, -errno, "cannot open a directory beside the vault");
	/* Two runs that start at once with one home get the same placeholders. */
	for (int ms = 0; flock(dir, LOCK_EX | LOCK_NB) < 0; ms += 20) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "cannot lock the placeholders of homes");
		if (ms >= LOCK_PATIENCE_MS)
			return err_set(e, -EBUSY,
				       "another process holds the lock of vault/" VAULT_PLACEHOLDERS_DIR
				       " in the state directory for seconds");
		nanosleep(&(struct timespec){ .tv_nsec = 20 * (long)NSEC_PER_MSEC }, NULL);
	}
	return TAKE_FD(dir);
}

static bool is_distinct(const struct vault_grants *g, size_t but, struct slice p)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct vault_grant *v = &g->v[i];

		if (i != but && v->placeholder_len &&
		    (memmem(p.p, p.len, v->placeholder, v->placeholder_len) ||
		     memmem(v->placeholder, v->placeholder_len, p.p, p.len)))
			return false;
	}
	return true;
}

/* The next line "NAME PLACEHOLDER"; malformed ones are skipped (net_placeholder.H4). */
static bool next_stored_line(struct slice *text, struct slice *ret_name, struct slice *ret_placeholder)
{
	while (text->len) {
		const char *end = memchr(text->p, '\n', text->len), *space;
		struct slice line = { text->p, end ? (size_t)(end - text->p) : text->len };

		text->p += line.len + (end != NULL);
		text->len -= line.len + (end != NULL);
		space = memchr(line.p, ' ', line.len);
		if (!space)
			continue;
		*ret_name = (struct slice){ line.p, (size_t)(space - line.p) };
		*ret_placeholder = (struct slice){ space + 1, line.len - ret_name->len - 1 };
		if (ret_name->len && ret_name->len <= GRANTS_NAME_MAX &&
		    grants_is_placeholder(ret_placeholder->p, ret_placeholder->len))
			return true;
	}
	return false;
}

static struct slice find_stored(struct slice text, const char *name, const struct marks *m)
{
	struct slice n, p;

	while (next_stored_line(&text, &n, &p)) {
		if (slice_eq(n, name) && marks_has(m, p.p, p.len))
			return p;
	}
	return SLICE_NONE;
}

static void set_placeholder(struct vault_grant *g, struct slice p)
{
	memcpy(g->placeholder, p.p, p.len);
	g->placeholder[p.len] = '\0';
	g->placeholder_len = p.len;
}

static void add_stored_line(struct buf *b, struct slice name, struct slice placeholder)
{
	buf_add(b, name.p, name.len);
	buf_addc(b, ' ');
	buf_add(b, placeholder.p, placeholder.len);
	buf_addc(b, '\n');
}

/* The placeholders of this run, and the lines of secrets that it was not given. */
static void format_stored(struct slice old, const struct vault_grants *g, struct buf *out)
{
	struct slice n, p;

	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].kind == GRANT_SECRET)
			add_stored_line(out, slice_of(g->v[i].name),
					(struct slice){ g->v[i].placeholder, g->v[i].placeholder_len });
	}
	while (next_stored_line(&old, &n, &p)) {
		bool is_ours = false;

		for (size_t i = 0; i < g->n; i++)
			is_ours |= g->v[i].kind == GRANT_SECRET && slice_eq(n, g->v[i].name);
		if (!is_ours)
			add_stored_line(out, n, p);
	}
}

static int use_stored_of_home(int dir, const char *home, const struct marks *m, struct vault_grants *g,
			      struct err *e)
{
	autobuf struct buf old = BUF_INIT, fresh = BUF_INIT;
	int r = fd_read_file(dir, home, REMEMBERED_MAX, &old);
	struct slice text = { old.data, old.len };
	bool is_new = false;

	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read the placeholders of the home '%s'", home);
	for (size_t i = 0; i < g->n; i++) {
		struct slice p =
			g->v[i].kind == GRANT_SECRET ? find_stored(text, g->v[i].name, m) : SLICE_NONE;

		if (p.len && is_distinct(g, i, p))
			set_placeholder(&g->v[i], p);
		else
			is_new |= g->v[i].kind == GRANT_SECRET;
	}
	if (!is_new)
		return 0;
	format_stored(text, g, &fresh);
	if (buf_error(&fresh))
		return err_set(e, -ENOMEM, "out of memory");
	r = fd_replace_file(dir, home, fresh.data, fresh.len, 0600);
	return r < 0 ? err_sys(e, r, "cannot remember the placeholders of the home '%s'", home) : 0;
}

int net_placeholders_put(int dir, const char *home, const struct marks *m, struct vault_grants *g,
			 struct err *e)
{
	autoclose int at = -1;

	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].kind == GRANT_SECRET)
			g->v[i].placeholder_len = marks_put(m, g->v[i].placeholder, g->v[i].placeholder_len);
	}
	if (!home)
		return 0;
	at = open_placeholder_dir(dir, e);
	return at < 0 ? at : use_stored_of_home(at, home, m, g, e);
}
