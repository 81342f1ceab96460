/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool diff. It is the only tool that reads the original workspace on the host, so it must show nothing
 * of a file that is masked in the sandbox: such a change is named, without its content.
 */
#include "checkpoint/checkpoint.h"
#include "cli/common/changed.h"
#include "cli/mcp/mcp_tools.h"
#include "workspace/tree/path.h"
#include "workspace/view/mask.h"

#include <errno.h>
#include <string.h>

#define DIFF_MAX (256u << 10)
#define ENTRIES_MAX 2000

struct diff {
	struct changed run;
	struct ckpt_run ckpt;
	struct buf a, b;
	struct compare cmp;
	bool between; /* between two checkpoints, not against the original */
	struct changes l;
	struct mask *masks;
	size_t n_masks;
};

static void diff_release(struct diff *d)
{
	changes_release(&d->l);
	buf_release(&d->a);
	buf_release(&d->b);
	ckpt_release(&d->ckpt);
	cli_changed_release(&d->run);
	/* The masks are freed with the process. */
}

static int read_diff_side(struct ckpt_run *r, const char *name, struct buf *ret, struct err *e)
{
	const struct ckpt *c = NULL;
	int code;

	if (!name)
		return ckpt_scan_now(r, true, ret, e);
	if (!ckpt_is_name(name))
		return err_set(e, -EINVAL, "'%.16s' is not a valid checkpoint such as c3", name);
	code = ckpt_find(r, name, &c, e);
	return code < 0 ? code : ckpt_read(r, c, ret, e);
}

static int open_diff_of_points(struct diff *d, const struct mcp_box *b, const char *from, const char *to,
			       struct err *e)
{
	int r = cli_changed_open(&d->run, b->id, false, e);

	if (r == 0 && b->has_original)
		r = cli_changed_open_original(&d->run, e);
	if (r == 0)
		r = ckpt_open(&d->ckpt, b->id, !to, e);
	if (r == 0)
		r = read_diff_side(&d->ckpt, from, &d->a, e);
	if (r == 0)
		r = read_diff_side(&d->ckpt, to, &d->b, e);
	if (r < 0)
		return r;
	d->cmp = (struct compare){ .a = d->a.data,
				   .a_len = d->a.len,
				   .b = d->b.data,
				   .b_len = d->b.len,
				   .lower = d->run.lower,
				   .store = &d->ckpt.store };
	return tree_store_compare(&d->cmp, &d->l, e);
}

static int open_diff_to_original(struct diff *d, const struct mcp_box *b, struct err *e)
{
	int r = cli_changed_open(&d->run, b->id, false, e);

	if (r == 0)
		r = cli_changed_open_trees(&d->run, e);
	return r < 0 ? r
		     : workspace_changes(d->run.upper, changed_base(&d->run), changed_since(&d->run), &d->l,
					 e);
}

static bool is_hidden_change(const struct diff *d, const char *path)
{
	for (size_t i = 0; i < d->n_masks; i++) {
		if (path_covers(d->masks[i].path, path))
			return true;
	}
	return false;
}

static void add_change_text(const struct diff *d, const struct change *c, struct buf *out)
{
	int r;

	cli_change_format(c, out);
	buf_addc(out, '\n');
	if (is_hidden_change(d, c->path)) {
		buf_adds(out, "(hidden)\n");
		return;
	}
	if (change_is_dir(c) || c->kind == CHANGE_MODE)
		return;
	r = d->between ? tree_store_patch(&d->cmp, c, out)
		       : workspace_patch(d->run.upper, changed_base(&d->run), c, out);
	if (r < 0)
		buf_addf(out, "(cannot be read: %s)\n", strerror(-r));
}

static void add_diff_result(const struct diff *d, const char *path, struct buf *result)
{
	autobuf struct buf text = BUF_INIT;
	struct json j = JSON_INIT(result);
	size_t n = 0, shown = 0;

	for (size_t i = 0; i < d->l.n; i++) {
		if (path && !path_covers(path, d->l.v[i].path))
			continue;
		n++;
		if (text.len >= DIFF_MAX || shown >= ENTRIES_MAX)
			continue;
		add_change_text(d, &d->l.v[i], &text);
		shown++;
	}
	json_obj(&j, NULL);
	json_u64(&j, "changes", n);
	json_bool(&j, "truncated", shown < n || text.len > DIFF_MAX);
	json_strn(&j, "diff", buf_cstr(&text), text.len < DIFF_MAX ? text.len : DIFF_MAX);
	json_end_obj(&j);
}

static int tool_diff(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
		     struct err *e)
{
	CLEANUP(diff_release) struct diff d = { .run = CHANGED_INIT, .ckpt = CKPT_RUN_INIT };
	const struct mcp_box *b = ctx;
	const char *from = mcp_text(args, "from"), *to = mcp_text(args, "to"),
		   *typed = mcp_text(args, "path");
	autofree char *path = typed ? cli_mcp_path(typed, e) : NULL;
	int r = typed && !path ? e->code : cli_mcp_box_settle(b, e);

	(void)job;
	if (r == 0 && to && !from)
		r = err_set(e, -EINVAL, "to needs from");
	/* A workspace that began empty can only be compared with its first checkpoint. */
	if (!from && !b->has_original)
		from = "c1";
	d.between = from != NULL;
	if (r == 0)
		r = from ? open_diff_of_points(&d, b, from, to, e) : open_diff_to_original(&d, b, e);
	if (r == 0 && d.run.lower >= 0)
		r = workspace_find_masks(d.run.lower, &b->args->o.show, &d.masks, &d.n_masks, e);
	if (r < 0)
		return r;
	add_diff_result(&d, path, result);
	return 0;
}

static const struct mcp_param diff_params[] = {
	{ "from", MCP_TEXT, false, 16,
	  "A checkpoint such as c3; default: the workspace at the start of the session.", NULL },
	{ "to", MCP_TEXT, false, 16, "A later one; by default the workspace as it is now.", NULL },
	{ "path", MCP_TEXT, false, 4096, "Only changes at or below this path.", NULL },
};

const struct mcp_tool mcp_tool_diff = {
	.name = "diff",
	.title = "Show changes",
	.help = "Shows what changed in the workspace: since the beginning, since a checkpoint, or between two.",
	.params = diff_params,
	.n_params = ARRAY_SIZE(diff_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"changes\":{\"type\":\"integer\"},\"truncated\":{\"type\":"
		"\"boolean\"},\"diff\":{\"type\":\"string\"}},\"required\":[\"changes\",\"truncated\",\"diff\"]}",
	.read_only = true,
	.run = tool_diff,
};
