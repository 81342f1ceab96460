/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer cp: copies files between the host and a running sandbox. The stream from a sandbox is hostile
 * (sandbox/init/copy.h): nothing is written outside the destination, and nothing but files, directories and
 * symlinks is made.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/box/cp_hold.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "run/supervise/run_link.h"
#include "sandbox/init/copy.h"
#include "workspace/tree/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { OPT_FOLLOW = 1, OPT_MAX_SIZE, OPT_MAX_FILES, OPT_ALLOW, OPT_ALLOW_SPECIAL };

#define MAX_SIZE_DEFAULT (16ULL << 30)
#define MAX_FILES_DEFAULT 1000000

static const struct opt cp_opts[] = {
	{ "follow-link", 'L', NULL, "copy what SRC points to if it is a symlink", OPT_FOLLOW },
	{ "max-size", 0, "SIZE", "copy at most this much out of a sandbox (16g)", OPT_MAX_SIZE },
	{ "max-files", 0, "N", "copy at most this many files out of a sandbox (1000000)", OPT_MAX_FILES },
	{ "allow", 0, "PATH", "out of a sandbox: copy a file that the host may run or obey", OPT_ALLOW,
	  .many = true },
	{ "allow-special", 0, "PATH", "out of a sandbox: copy a symlink that leads outside of the copy",
	  OPT_ALLOW_SPECIAL, .many = true },
};

struct cp_want {
	bool follow;
	uint64_t max_size, max_files;
	const char *src, *dst; /* without the sandbox */
	char *ref;
	bool inwards;
	struct strv allow, allow_special;
};

/* Splits "REF:PATH". NULL if the text is a path of the host, which may contain a colon: "/x:y", "./x:y",
 * "../x:y". */
static const char *split_sandbox_path(const char *text, size_t *ret_len)
{
	const char *colon = strchr(text, ':');

	if (!colon || colon == text || text[0] == '.' || memchr(text, '/', (size_t)(colon - text)))
		return NULL;
	*ret_len = (size_t)(colon - text);
	return colon + 1;
}

static int parse_paths(struct cp_want *w, const char *src, const char *dst, struct err *e)
{
	size_t src_len = 0, dst_len = 0;
	const char *src_in = split_sandbox_path(src, &src_len), *dst_in = split_sandbox_path(dst, &dst_len);

	if (!src_in == !dst_in) {
		err_set(e, -EINVAL, "one of the two, and only one, must be in a sandbox: REF:PATH");
		return err_hint(e, -EINVAL, "a file here whose name has a colon is typed as ./NAME");
	}
	w->inwards = dst_in != NULL;
	w->ref = w->inwards ? strndup(dst, dst_len) : strndup(src, src_len);
	w->src = w->inwards ? src : src_in;
	w->dst = w->inwards ? dst_in : dst;
	if (!w->ref)
		return err_set(e, -ENOMEM, "out of memory");
	if (!w->src[0] || !w->dst[0])
		return err_set(e, -EINVAL, "the path after '%s:' is empty", w->ref);
	return 0;
}

static int set_copy_error(const struct copy_fail *f, struct err *e)
{
	char safe[PACK_NAME_MAX * 4 + 8];

	if (f->code == -EFBIG && !f->name[0]) {
		err_set(e, f->code, "the sandbox sends %s", f->what);
		return err_hint(e, f->code,
				"--max-size and --max-files raise the limits; the files copied "
				"so far remain");
	}
	return err_sys(e, f->code, "%s%s%s", f->what, f->name[0] ? " " : "",
		       str_safe(f->name, safe, sizeof(safe)));
}

/* Checks how the copying process inside ended. Its own messages, made safe for a terminal, become part of the
 * error. */
static int check_copy_end(const struct proto_exit *x, const struct buf *messages, struct err *e)
{
	autobuf struct buf safe = BUF_INIT;
	size_t len = messages->len;

	if (x->kind == PROTO_EXITED && x->value == 0)
		return 0;
	while (len && messages->data[len - 1] == '\n')
		len--;
	str_add_safe(&safe, messages->data, len, false);
	if (x->kind == PROTO_NOT_STARTED) {
		proto_exit_text(x, "the copy", "/", e);
		return e->code;
	}
	return err_set(e, -EIO, "in the sandbox: %s",
		       safe.len ? buf_cstr(&safe) : "the copy was interrupted");
}

/* Out of the sandbox */

struct outwards {
	struct unpacker u;
	struct cp_hold hold;
};

static int unpack_received(void *ctx, const void *data, size_t len)
{
	struct outwards *o = ctx;

	return unpacker_feed(&o->u, data, len);
}

static int copy_out_of_sandbox(struct run_link *l, const struct cp_want *w, struct state *st, struct err *e)
{
	static struct outwards o; /* large */
	static char name[] = "cp-out", follow[] = "follow";
	char *const argv[] = { name, (char *)w->src, w->follow ? follow : NULL, NULL };
	const struct run_link_cmd c = { .argv = argv, .cwd = "/", .flags = PROTO_F_BUILTIN };
	autobuf struct buf messages = BUF_INIT;
	const struct run_link_xfer x = { .consume = unpack_received, .ctx = &o, .messages = &messages };
	char source_name[PACK_NAME_MAX + 1];
	struct copy_fail fail = { 0 };
	struct copy_target t;
	struct proto_exit end = { .kind = PROTO_NOT_STARTED };
	int r = copy_source_name(w->src, source_name);

	if (r < 0)
		return err_sys(e, r, "cannot copy %.200s", w->src);
	r = copy_target_open(&t, AT_FDCWD, w->dst, source_name, &fail);
	if (r < 0)
		return set_copy_error(&fail, e);
	unpacker_init(&o.u, &t, w->max_files, w->max_size);
	o.u.may = cli_cp_hold_may;
	o.u.may_ctx = &o.hold;
	r = path_normalise_all(&w->allow, &o.hold.allow, e);
	if (r == 0)
		r = path_normalise_all(&w->allow_special, &o.hold.allow_special, e);
	if (r == 0)
		r = cli_cp_hold_open(&o.hold, t.dir, st, e);
	if (r == 0)
		r = run_link_transfer(l, &c, &x, &end, e);
	if (o.u.fail.code)
		r = set_copy_error(&o.u.fail, e);
	if (r == 0)
		r = check_copy_end(&end, &messages, e);
	if (r == 0 && (!unpacker_is_complete(&o.u) || o.u.cut))
		r = err_set(e, -EIO, "%.200s could not be read to its end in the sandbox", w->src);
	if (r == 0 && o.hold.held)
		r = err_set(e, -EPERM, "%llu files were not copied; the others were",
			    (unsigned long long)o.hold.held);
	unpacker_release(&o.u);
	cli_cp_hold_release(&o.hold);
	fd_close(t.dir);
	return r;
}

/* Into the sandbox */

static int pack_records(void *ctx, struct buf *out)
{
	int r = 1;

	/* Many small files are sent in one frame. */
	while (r > 0 && out->len < (32u << 10))
		r = packer_next(ctx, out);
	return r;
}

/* The first record was made by packer_open(). */
struct inwards {
	struct packer p;
	struct buf first;
};

static int pack_next(void *ctx, struct buf *out)
{
	struct inwards *i = ctx;

	if (i->first.len) {
		buf_add(out, i->first.data, i->first.len);
		buf_clear(&i->first);
	}
	return pack_records(&i->p, out);
}

static int copy_into_sandbox(struct run_link *l, const struct cp_want *w, struct err *e)
{
	static struct inwards i; /* large */
	static char name[] = "cp-in";
	char source_name[PACK_NAME_MAX + 1];
	char *const argv[] = { name, (char *)w->dst, source_name, NULL };
	const struct run_link_cmd c = { .argv = argv, .cwd = "/", .flags = PROTO_F_BUILTIN };
	autobuf struct buf messages = BUF_INIT;
	const struct run_link_xfer x = { .produce = pack_next, .ctx = &i, .messages = &messages };
	struct proto_exit end = { .kind = PROTO_NOT_STARTED };
	int r = copy_source_name(w->src, source_name);

	if (r < 0)
		return err_sys(e, r, "cannot copy %.200s", w->src);
	r = packer_open(&i.p, AT_FDCWD, w->src, w->follow, &i.first);
	if (r == 0)
		r = run_link_transfer(l, &c, &x, &end, e);
	else
		set_copy_error(&i.p.fail, e);
	if (r == 0)
		r = check_copy_end(&end, &messages, e);
	if (r == 0 && i.p.skipped) {
		r = set_copy_error(&i.p.fail, e);
		err_hint(e, r, "%llu were left out, the rest was copied", (unsigned long long)i.p.skipped);
	}
	packer_release(&i.p);
	buf_release(&i.first);
	return r;
}

static int take_cp_option(struct cp_want *w, int id, const char *value, struct err *e)
{
	if (id == OPT_FOLLOW)
		w->follow = true;
	else if (id == OPT_MAX_SIZE && (str_to_size(value, &w->max_size) < 0 || !w->max_size))
		return err_set(e, -EINVAL, "'%.100s' is not a size such as 500m or 20g", value);
	else if (id == OPT_MAX_FILES && (str_to_u64(value, &w->max_files) < 0 || !w->max_files))
		return err_set(e, -EINVAL, "'%.100s' is not a number of files", value);
	else if ((id == OPT_ALLOW && strv_add(&w->allow, value) < 0) ||
		 (id == OPT_ALLOW_SPECIAL && strv_add(&w->allow_special, value) < 0))
		return err_set(e, -ENOMEM, "out of memory");
	return 0;
}

static int cmd_cp(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, cp_opts, ARRAY_SIZE(cp_opts));
	struct cp_want w = { .max_size = MAX_SIZE_DEFAULT, .max_files = MAX_FILES_DEFAULT };
	autofree char *ref_text = NULL;
	autoref struct ref ref = REF_INIT;
	autolink struct run_link l = RUN_LINK_INIT;
	struct err e = ERR_INIT;
	const char *value;
	int id, r;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_cp);
		if (take_cp_option(&w, id, value, &e) < 0)
			return say_usage(&verb_cp, &e);
	}
	if (id == 0 && p.index + 2 != p.argc)
		id = err_set(&e, -EINVAL, "cp needs a source and a destination");
	if (id == 0)
		id = parse_paths(&w, p.argv[p.index], p.argv[p.index + 1], &e);
	ref_text = w.ref;
	if (id < 0)
		return say_usage(&verb_cp, &e);
	r = ref_link(&ref, w.ref, &l, &e);
	if (r == 0)
		r = w.inwards ? copy_into_sandbox(&l, &w, &e) : copy_out_of_sandbox(&l, &w, &ref.st, &e);
	strv_release(&w.allow);
	strv_release(&w.allow_special);
	if (r < 0 && !e.msg[0])
		err_sys(&e, r, "cannot copy");
	return r < 0 ? (say_error(&e), 1) : 0;
}

const struct verb verb_cp = {
	.name = "cp",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] SRC REF:DST | REF:SRC DST",
	.help = "copy files into and out of a sandbox",
	.opts = cp_opts,
	.n_opts = ARRAY_SIZE(cp_opts),
	.run = cmd_cp,
	.text = "Copies a file, or a directory with everything below it, as *docker cp* does: if DST "
		"is an existing directory, the source is copied into it, otherwise DST is the new "
		"name; *SRC/.* means only the content of the directory. Paths in the sandbox start at "
		"its root. Modes and times are kept, minus the umask; the user who copies becomes the "
		"owner; symlinks stay symlinks.\n"
		"\n"
		"Nothing that comes out of a sandbox is trusted: it is never written outside of DST, "
		"no link is followed, existing files are replaced rather than written through, set-id "
		"bits, devices, sockets and pipes are left out, and the size and number of files are "
		"limited. A symlink that leads outside of the copied directory, and any symlink that SRC "
		"itself names, is left out and listed until *--allow-special* PATH names it: a later copy "
		"to the same place would follow it. DST may be a symlink of your own to a directory. "
		"Any other file that SRC itself names is copied to DST. Below a directory, files "
		"that the host may run or obey automatically, and files that coffer itself obeys, are "
		"left out and listed, as with coffer-apply(1); this includes files that become such by "
		"their destination (DST is _.github_, or in _.git_). The part that would complete a git "
		"repository is left out, even if SRC names it, until *--allow* names the files there "
		"that git would run or obey. *--allow* PATH copies one of them.",
	.examples = "coffer cp web:/workspace/report.html .\n"
		    "coffer cp data/. web:/tmp/data\n"
		    "\t# what is in data, not data itself\n",
	.args = "path",
};
