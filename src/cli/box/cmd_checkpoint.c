/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer checkpoint: makes, lists and removes checkpoints; and makes those of `run --checkpoint each` around
 * each command. A checkpoint that is made automatically must never make the command fail: its errors are
 * warnings.
 */
#include "cli/box/cmd_checkpoint.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <stdio.h>

enum { OPT_LABEL = 1, OPT_KEEP, OPT_JSON };

static const struct opt checkpoint_opts[] = {
	{ "label", 'l', "TEXT", "a short description", OPT_LABEL },
	{ "keep", 0, "N", "keep only the newest N (default: as for the run)", OPT_KEEP },
	{ "json", 0, NULL, "print one JSON object", OPT_JSON },
};

#define GC_WAIT_MS 60000u
#define TIDY_EVERY 16 /* unused content is searched for after this many checkpoints, if --keep removed some */

struct checkpoint_want {
	const char *label;
	uint64_t keep;
	bool json;
	struct strv words;
};

/* --- making ------------------------------------------------------------------------------------------------------ */

static void warn_if_not_frozen(const struct ckpt_made *m)
{
	if (m->flags & MANIFEST_LIVE && !(m->flags & MANIFEST_FROZEN))
		say_warn(
			"its processes could not be frozen: files that they wrote meanwhile may be incomplete");
}

static void format_made_json(const struct ckpt_run *r, const struct ckpt_made *m, struct buf *out)
{
	struct json j = JSON_INIT(out);
	char name[16], hex[HASH_HEX_LEN + 1];

	snprintf(name, sizeof(name), "c%u", m->number);
	hash_hex(m->hash, HASH_LEN, hex);
	json_obj(&j, NULL);
	json_str(&j, "id", r->id);
	json_str(&j, "checkpoint", name);
	json_str(&j, "manifest", hex);
	json_u64(&j, "entries", m->entries);
	json_u64(&j, "files_read", m->files_read);
	json_u64(&j, "new_objects", m->new_objects);
	json_u64(&j, "new_bytes", m->new_bytes);
	json_bool(&j, "live", m->flags & MANIFEST_LIVE);
	json_bool(&j, "frozen", m->flags & MANIFEST_FROZEN);
	json_str(&j, "frozen_by",
		 !(m->flags & MANIFEST_FROZEN)	   ? NULL
		 : m->frozen == PROTO_FROZEN_GROUP ? "control group"
						   : "signals");
	json_u64(&j, "still_us", m->flags & MANIFEST_LIVE ? m->still_ns / 1000 : 0);
	json_u64(&j, "removed", m->pruned);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static bool wants_tidying(const struct ckpt_made *m)
{
	return m->pruned && m->number % TIDY_EVERY == 0;
}

static int make_checkpoint(const char *ref, const struct checkpoint_want *w)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	autobuf struct buf out = BUF_INIT;
	struct ckpt_want want = { .label = w->label ? w->label : "" };
	struct ckpt_made made = { 0 };
	struct err e = ERR_INIT;
	int code;

	if (ckpt_open(&r, ref, true, &e) < 0)
		return say_error(&e);
	want.keep = w->keep ? w->keep : r.meta.keep;
	if (ckpt_make(&r, &want, &made, &e) < 0)
		return say_error(&e);
	warn_if_not_frozen(&made);
	if (ckpt_room_is_low(&r))
		say_warn(
			"little space is left on the file system of the state directory: automatic checkpoints are "
			"not made; coffer checkpoint rm and coffer rm free space");
	if (w->json)
		format_made_json(&r, &made, &out);
	else
		buf_addf(&out, "c%u\n", made.number);
	code = say_out(&out);
	ckpt_release(&r);
	if (wants_tidying(&made))
		cli_checkpoint_tidy();
	return code;
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

/* The content that a checkpoint uses, and the part of it that no earlier checkpoint has. */
struct checkpoint_use {
	uint64_t entries;
	struct objects_use all, own;
};

static int read_checkpoint_hashes(const struct ckpt_run *r, const struct ckpt *c, struct hashes *h,
				  uint64_t *entries, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int ret = ckpt_read(r, c, &b, e);

	if (ret < 0)
		return ret;
	ret = tree_store_hashes(b.data, b.len, h);
	if (ret < 0)
		return err_set(e, ret, "checkpoint c%u is damaged", c->number);
	hashes_sort(h);
	*entries = 0;
	for (unsigned i = 0; i < 8; i++) /* a manifest ends with the number of entries, a little-endian u64 */
		*entries |= (uint64_t)(unsigned char)b.data[b.len - 8 + i] << (8 * i);
	return 0;
}

static void remove_hashes_in(struct hashes *h, const struct hashes *without)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (!hashes_have(without, h->v[i]))
			memmove(h->v[kept++], h->v[i], HASH_LEN);
	}
	h->n = kept;
}

static int add_checkpoint_row(struct table *t, const struct ckpt *c, const struct checkpoint_use *u,
			      uint64_t now)
{
	char name[16], text[CLOCK_TEXT_LEN], ago[CLOCK_TEXT_LEN + 8], entries[24], size[16], added[16];
	int r;

	snprintf(name, sizeof(name), "c%u", c->number);
	snprintf(ago, sizeof(ago), "%s ago", clock_span(now > c->time ? now - c->time : 0, text));
	snprintf(entries, sizeof(entries), "%llu", (unsigned long long)u->entries);
	r = table_add(t, name, 0);
	r = r < 0 ? r : table_add(t, ago, 0);
	r = r < 0 ? r : table_add(t, entries, 0);
	r = r < 0 ? r : table_add(t, str_from_size(u->all.bytes, size), 0);
	r = r < 0 ? r : table_add(t, str_from_size(u->own.bytes, added), 0);
	r = r < 0 ? r
		  : table_add(t, c->flags & MANIFEST_LIVE && !(c->flags & MANIFEST_FROZEN) ? "no" : "yes", 0);
	return r < 0 ? r : table_add(t, c->label, 0);
}

static void add_checkpoint_json(struct json *j, const struct ckpt *c, const struct checkpoint_use *u)
{
	char name[16], hex[HASH_HEX_LEN + 1], text[CLOCK_TEXT_LEN];

	snprintf(name, sizeof(name), "c%u", c->number);
	hash_hex(c->hash, HASH_LEN, hex);
	json_obj(j, NULL);
	json_str(j, "checkpoint", name);
	json_str(j, "manifest", hex);
	json_str(j, "time", clock_format(c->time, text));
	json_str(j, "label", c->label);
	json_bool(j, "undo", c->flags & MANIFEST_UNDO);
	json_bool(j, "consistent", !(c->flags & MANIFEST_LIVE) || c->flags & MANIFEST_FROZEN);
	json_u64(j, "entries", u->entries);
	json_u64(j, "bytes", u->all.bytes);
	json_u64(j, "new_bytes", u->own.bytes);
	json_end_obj(j);
}

struct checkpoint_listing {
	struct table table;
	struct buf out;
	struct json json;
	struct hashes seen;
	uint64_t now;
};

static int list_checkpoint(struct ckpt_run *r, const struct ckpt *c, bool json, struct checkpoint_listing *l,
			   struct err *e)
{
	CLEANUP(hashes_release) struct hashes h = { 0 };
	struct checkpoint_use u = { 0 };
	int ret = read_checkpoint_hashes(r, c, &h, &u.entries, e);

	if (ret < 0)
		return ret;
	objects_measure(&r->store, &h, &u.all);
	remove_hashes_in(&h, &l->seen);
	objects_measure(&r->store, &h, &u.own);
	for (size_t i = 0; i < h.n && ret == 0; i++)
		ret = hashes_add(&l->seen, h.v[i]);
	hashes_sort(&l->seen);
	if (json)
		add_checkpoint_json(&l->json, c, &u);
	else if (ret == 0)
		ret = add_checkpoint_row(&l->table, c, &u, l->now);
	return ret < 0 ? err_set(e, ret, "out of memory") : 0;
}

static int list_checkpoints(struct ckpt_run *r, bool json, struct checkpoint_listing *l, struct err *e)
{
	static const char *const titles[] = { "CHECKPOINT", "MADE",	  "ENTRIES", "SIZE",
					      "NEW",	    "CONSISTENT", "LABEL" };
	struct objects_use total;
	char size[16];
	int ret = 0;

	if (json) {
		json_obj(&l->json, NULL);
		json_str(&l->json, "id", r->id);
		json_arr(&l->json, "checkpoints");
	}
	for (size_t i = 0; !json && i < ARRAY_SIZE(titles) && ret == 0; i++)
		ret = table_add(&l->table, titles[i], 0);
	for (size_t i = 0; i < r->list.n && ret == 0; i++)
		ret = list_checkpoint(r, &r->list.v[i], json, l, e);
	if (ret < 0)
		return ret;
	objects_measure(&r->store, &l->seen, &total);
	if (json) {
		json_end_arr(&l->json);
		json_u64(&l->json, "bytes", total.bytes);
		json_end_obj(&l->json);
		buf_addc(&l->out, '\n');
	} else {
		table_format(&l->table, &l->out);
		buf_addf(&l->out, "%zu checkpoint%s, %s\n", r->list.n, r->list.n == 1 ? "" : "s",
			 str_from_size(total.bytes, size));
	}
	return 0;
}

static int run_ls(const char *ref, bool json)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	struct checkpoint_listing l = { .table = TABLE_INIT(7), .now = clock_nsec(CLOCK_REALTIME) };
	struct err e = ERR_INIT;
	int code;

	l.json = JSON_INIT(&l.out);
	if (ckpt_open(&r, ref, false, &e) < 0 || list_checkpoints(&r, json, &l, &e) < 0)
		code = say_error(&e);
	else
		code = say_out(&l.out);
	table_release(&l.table);
	buf_release(&l.out);
	hashes_release(&l.seen);
	return code;
}

/* --- removing ------------------------------------------------------------------------------------------------------ */

static int run_gc(void)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct objects_use gone = { 0 }, left = { 0 };
	struct err e = ERR_INIT;
	char a[16], b[16];

	if (state_open(&st, &e) < 0 || ckpt_gc(&st, GC_WAIT_MS, &gone, &left, &e) < 0)
		return say_error(&e);
	say_note("freed %s; checkpoints use %s", str_from_size(gone.bytes, a), str_from_size(left.bytes, b));
	return 0;
}

void cli_checkpoint_tidy(void)
{
	CLEANUP(state_release) struct state st = STATE_INIT;

	if (state_open(&st, NULL) == 0)
		ckpt_tidy(&st);
}

static int remove_checkpoints(struct ckpt_run *r, const struct strv *words, struct err *e)
{
	int ret = 0;

	for (size_t i = 2; i < words->n && ret == 0; i++) {
		const struct ckpt *c = NULL;

		ret = ckpt_find(r, words->v[i], &c, e);
		if (ret == 0)
			ret = ckpt_remove(r, c, e);
	}
	return ret;
}

static int run_rm(const struct strv *words)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	struct err e = ERR_INIT;

	if (ckpt_open(&r, words->v[1], true, &e) < 0 || remove_checkpoints(&r, words, &e) < 0)
		return say_error(&e);
	ckpt_release(&r);
	cli_checkpoint_tidy();
	return 0;
}

/* --- after each command ------------------------------------------------------------------------------------------------ */

static bool wants_each(const struct ref *ref)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };

	return state_meta_read(ref->run_fd, &m, NULL) == 0 && m.each;
}

/* Makes a checkpoint if the run was started with --checkpoint each. With `first`, only if it has none yet. */
static void make_automatic(const struct ref *ref, const char *label, bool first)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	struct ckpt_want want = { .label = label, .only_changed = true };
	struct ckpt_made made = { 0 };
	struct err e = ERR_INIT;
	int ret;

	if (!wants_each(ref))
		return;
	ret = ckpt_open(&r, ref->id, true, &e);
	if (ret == 0 && first && r.list.n)
		return;
	want.keep = r.meta.keep;
	if (ret == 0)
		ret = ckpt_make_automatic(&r, &want, &made, &e);
	if (ret < 0 || (made.no_room && !made.told))
		say_warn("no checkpoint was made: %s", ret < 0 ? e.msg : ckpt_no_room_text);
	if (ret < 0)
		return;
	warn_if_not_frozen(&made);
	ckpt_release(&r);
	if (wants_tidying(&made))
		cli_checkpoint_tidy();
}

int cli_checkpoint_make_now(const struct ref *ref, const char *label, uint32_t *ret, struct err *e)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	struct ckpt_want want = { .label = label, .only_changed = true };
	struct ckpt_made made = { 0 };
	int ret_code = ckpt_open(&r, ref->id, true, e);

	want.keep = r.meta.keep ? r.meta.keep : CHECKPOINT_KEEP;
	if (ret_code == 0)
		ret_code = ckpt_make(&r, &want, &made, e);
	if (ret_code < 0)
		return ret_code;
	warn_if_not_frozen(&made);
	*ret = made.number ? made.number : r.list.n ? r.list.v[r.list.n - 1].number : 0;
	ckpt_release(&r);
	if (wants_tidying(&made))
		cli_checkpoint_tidy();
	return 0;
}

void cli_checkpoint_before(const struct ref *ref)
{
	make_automatic(ref, "start", true);
}

void cli_checkpoint_after(const struct ref *ref, char *const *argv)
{
	autobuf struct buf label = BUF_INIT;
	char text[101];

	for (; *argv && label.len < sizeof(text); argv++) {
		if (label.len)
			buf_addc(&label, ' ');
		str_add_safe(&label, *argv, strnlen(*argv, sizeof(text)), false);
	}
	snprintf(text, sizeof(text), "%s", buf_cstr(&label));
	make_automatic(ref, text, false);
}

/* --- the command line -------------------------------------------------------------------------------------------------- */

static int parse_keep(const char *text, uint64_t *ret, struct err *e)
{
	if (str_to_u64(text, ret) < 0 || *ret == 0)
		return err_set(e, -EINVAL, "--keep %.40s: expected a number of checkpoints, from 1 on", text);
	return 0;
}

/* Options may be anywhere among the words. Returns 1 for --help. */
static int parse_checkpoint(struct checkpoint_want *w, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, checkpoint_opts, ARRAY_SIZE(checkpoint_opts));
	const char *value, *word;
	int id, r = 0;

	for (;;) {
		while ((id = opt_next(&p, &value, e)) > 0 && r == 0) {
			if (id == OPT_HELP)
				return 1;
			if (id == OPT_LABEL)
				w->label = value;
			w->json |= id == OPT_JSON;
			r = id == OPT_KEEP ? parse_keep(value, &w->keep, e) : 0;
		}
		if (id < 0 || r < 0)
			return id < 0 ? id : r;
		word = opt_take(&p);
		if (!word)
			break;
		if (strv_add(&w->words, word) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

static int refuse_missing_ref(struct err *e)
{
	err_set(e, -EINVAL, "checkpoint needs a sandbox: its name, id or @last");
	return say_usage(&verb_checkpoint, e);
}

static int dispatch_checkpoint(const struct checkpoint_want *w)
{
	const char *first = w->words.n ? w->words.v[0] : "";
	struct err e = ERR_INIT;

	if (w->label && strlen(w->label) > MANIFEST_LABEL_MAX) {
		err_set(&e, -EINVAL, "a label has at most %d bytes", MANIFEST_LABEL_MAX);
		return say_usage(&verb_checkpoint, &e);
	}
	if (str_eq(first, "gc") && w->words.n == 1)
		return run_gc();
	if (str_eq(first, "ls"))
		return w->words.n == 2 ? run_ls(w->words.v[1], w->json) : refuse_missing_ref(&e);
	if (str_eq(first, "rm") && w->words.n < 3) {
		err_set(&e, -EINVAL,
			"rm needs a sandbox and a checkpoint of it; `coffer checkpoint ls` shows them");
		return say_usage(&verb_checkpoint, &e);
	}
	if (str_eq(first, "rm"))
		return run_rm(&w->words);
	return w->words.n == 1 ? make_checkpoint(first, w) : refuse_missing_ref(&e);
}

static int cmd_checkpoint(int argc, char **argv)
{
	struct checkpoint_want w = { 0 };
	struct err e = ERR_INIT;
	int r = parse_checkpoint(&w, argc, argv, &e), code;

	if (r == 1)
		code = verb_print_help(&verb_checkpoint);
	else
		code = r < 0 ? say_usage(&verb_checkpoint, &e) : dispatch_checkpoint(&w);
	strv_release(&w.words);
	return code;
}

const struct verb verb_checkpoint = {
	.name = "checkpoint",
	.group = VERB_WORKSPACE,
	.synopsis = "[OPTIONS] REF | ls REF | rm REF ID… | gc",
	.help = "make, list and remove points to roll back to",
	.opts = checkpoint_opts,
	.n_opts = ARRAY_SIZE(checkpoint_opts),
	.run = cmd_checkpoint,
	.args = "sandbox",
	.text = "Makes a checkpoint of everything that a sandbox wrote: the layer of its workspace, "
		"the layer of its own root file system, and its named home, together. Prints its name: "
		"c1, c2, and so on. The original directory is not copied: the cost grows only with "
		"what the sandbox has changed, and content that several checkpoints share is stored "
		"once.\n"
		"\n"
		"A running sandbox is paused while its checkpoint is made, by its control group, or "
		"without one by stopping its processes one by one. If neither works, this is reported, "
		"and *ls* shows it.\n"
		"\n"
		"*ls* lists checkpoints: age, number of files and directories, their size on the disk, "
		"and how much of that no earlier checkpoint has. *rm* removes checkpoints. *gc* frees "
		"content that no checkpoint of any sandbox needs; removing a sandbox or a checkpoint "
		"does so too.\n"
		"\n"
		"coffer-rollback(1) goes back to a checkpoint, coffer-fork(1) starts another sandbox "
		"from one, coffer-diff(1) compares two. *coffer run --checkpoint each*, the default "
		"with *--profile*, makes one after every command. Such automatic checkpoints use at most "
		"four times the limit of *--disk* beside the newest one: the oldest are dropped first. "
		"They leave 3 % and at least 512 MiB of the file system of the state directory free (half "
		"of a smaller one); where that is not possible, none is made, which is reported once.",
	.examples = "coffer checkpoint web --label 'before the upgrade'\n"
		    "\t# prints c1\n"
		    "coffer checkpoint ls web\n"
		    "coffer rollback web c1\n",
};
