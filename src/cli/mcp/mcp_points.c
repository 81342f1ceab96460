/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools checkpoint and rollback, and the automatic checkpoint after every call that changed something. A
 * rollback must not lose the state that it takes away.
 */
#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "cli/box/cmd_checkpoint.h"
#include "cli/common/changed.h"
#include "cli/core/say.h"
#include "cli/mcp/mcp_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define LISTED 20

/* --- after each call ---------------------------------------------------------------------------------------------------- */

/* Reads the last checkpoint, which is the state before the call. */
static int read_last_point(struct ckpt_run *r, struct buf *ret, struct err *e)
{
	return r->list.n ? ckpt_read(r, &r->list.v[r->list.n - 1], ret, e) : 0;
}

static void list_point_changes(const struct changes *l, struct mcp_changes *ret)
{
	struct json j = JSON_INIT(&ret->list);

	json_arr(&j, NULL);
	for (size_t i = 0; i < l->n && i < MCP_CHANGES_SHOWN; i++) {
		json_obj(&j, NULL);
		json_str(&j, "path", l->v[i].path);
		json_str(&j, "kind", change_kind_name(l->v[i].kind));
		json_end_obj(&j);
	}
	json_end_arr(&j);
	ret->n = l->n;
}

static int compare_with_point(struct ckpt_run *r, const struct buf *before, uint32_t number,
			      struct mcp_changes *ret, struct err *e)
{
	CLEANUP(changes_release) struct changes l = { 0 };
	autobuf struct buf now = BUF_INIT;
	autoclose int lower =
		r->meta.workspace ? open(r->meta.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	const struct ckpt *c = NULL;
	struct compare cmp = { .lower = lower, .store = &r->store };
	char name[16];
	int code;

	snprintf(name, sizeof(name), "c%u", number);
	code = ckpt_find(r, name, &c, e);
	if (code == 0)
		code = ckpt_read(r, c, &now, e);
	if (code < 0)
		return code;
	cmp.a = before->data;
	cmp.a_len = before->len;
	cmp.b = now.data;
	cmp.b_len = now.len;
	code = tree_store_compare(&cmp, &l, e);
	if (code == 0)
		list_point_changes(&l, ret);
	return code;
}

int cli_mcp_note_changes(const struct mcp_box *b, const char *label, struct mcp_changes *ret, struct err *e)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT, after = CKPT_RUN_INIT;
	struct ckpt_want want = { .label = label, .only_changed = true };
	struct ckpt_made made = { 0 };
	autobuf struct buf before = BUF_INIT;
	int code = cli_mcp_box_settle(b, e);

	if (code == 0)
		code = ckpt_open(&r, b->id, true, e);
	want.keep = r.meta.keep ? r.meta.keep : CHECKPOINT_KEEP;
	if (code == 0)
		code = read_last_point(&r, &before, e);
	if (code == 0)
		code = ckpt_make_automatic(&r, &want, &made, e);
	if (code == 0 && made.no_room && !made.told)
		say_warn("no checkpoint was made: %s", ckpt_no_room_text);
	if (code < 0 || !made.number)
		return code;
	ret->number = made.number;
	ckpt_release(&r);
	if (!before.len)
		return 0;
	code = ckpt_open(&after, b->id, false, e);
	return code < 0 ? code : compare_with_point(&after, &before, made.number, ret, e);
}

/* --- checkpoint --------------------------------------------------------------------------------------------------------- */

static void add_points_json(struct json *j, const struct ckpts *l)
{
	size_t from = l->n > LISTED ? l->n - LISTED : 0;

	json_arr(j, "checkpoints");
	for (size_t i = from; i < l->n; i++) {
		char name[16], when[CLOCK_TEXT_LEN];

		snprintf(name, sizeof(name), "c%u", l->v[i].number);
		json_obj(j, NULL);
		json_str(j, "id", name);
		json_str(j, "label", l->v[i].label);
		json_str(j, "time", clock_format(l->v[i].time, when));
		json_end_obj(j);
	}
	json_end_arr(j);
}

static int add_session_points(const struct mcp_box *b, struct json *j, struct err *e)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	int code = ckpt_open(&r, b->id, false, e);

	if (code == 0)
		add_points_json(j, &r.list);
	return code;
}

static int make_named_point(const struct mcp_box *b, const char *label, uint32_t *ret, struct err *e)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	struct ckpt_want want = { .label = label };
	struct ckpt_made made = { 0 };
	int code = cli_mcp_box_settle(b, e);

	if (code == 0)
		code = ckpt_open(&r, b->id, true, e);
	want.keep = r.meta.keep ? r.meta.keep : CHECKPOINT_KEEP;
	if (code == 0)
		code = ckpt_make_automatic(&r, &want, &made, e);
	if (code == 0 && made.no_room)
		code = err_set(e, -ENOSPC, "no checkpoint was made: %s", ckpt_no_room_text);
	*ret = made.number;
	return code;
}

static int tool_checkpoint(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
			   struct err *e)
{
	const char *label = mcp_text(args, "label");
	struct json j = JSON_INIT(result);
	char name[16];
	uint32_t number;
	int r = make_named_point(ctx, label ? label : "", &number, e);

	(void)job;
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "c%u", number);
	json_obj(&j, NULL);
	json_str(&j, "checkpoint", name);
	r = add_session_points(ctx, &j, e);
	json_end_obj(&j);
	return r;
}

static const struct mcp_param checkpoint_params[] = {
	{ "label", MCP_TEXT, false, MANIFEST_LABEL_MAX, "A label for the checkpoint.", NULL },
};

#define POINTS_SCHEMA                                                                                          \
	"\"checkpoints\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":" \
	"\"string\"},\"label\":{\"type\":\"string\"},\"time\":{\"type\":\"string\"}},\"required\":[\"id\"]}}"

const struct mcp_tool mcp_tool_checkpoint = {
	.name = "checkpoint",
	.title = "Make a checkpoint",
	.help = "Makes a point that rollback can return the workspace to. Returns its id, and the latest ones with their labels.",
	.params = checkpoint_params,
	.n_params = ARRAY_SIZE(checkpoint_params),
	.output = "{\"type\":\"object\",\"properties\":{\"checkpoint\":{\"type\":\"string\"}," POINTS_SCHEMA
		  "},\"required\":[\"checkpoint\"]}",
	.run = tool_checkpoint,
};

/* --- rollback ----------------------------------------------------------------------------------------------------------- */

static int roll_back_session(const struct mcp_box *b, const char *id, struct ckpt_rolled *ret, struct err *e)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	const struct ckpt *to = NULL;
	int code = cli_mcp_box_settle(b, e);

	if (code == 0)
		code = ckpt_open(&r, b->id, true, e);
	if (code == 0)
		code = ckpt_find(&r, id, &to, e);
	return code < 0 ? code : ckpt_rollback(&r, to, ret, e);
}

static int tool_rollback(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
			 struct err *e)
{
	const char *id = mcp_text(args, "id");
	struct json j = JSON_INIT(result);
	struct ckpt_rolled rolled = { 0 };
	char label[64], name[16];
	uint32_t number;
	int r;

	(void)job;
	if (!ckpt_is_name(id))
		return err_set(e, -EINVAL, "id: expected a checkpoint such as c3");
	r = roll_back_session(ctx, id, &rolled, e);
	if (r < 0)
		return r;
	/* The changes of the next call are reported relative to this state, not to the abandoned one. */
	snprintf(label, sizeof(label), "back at c%u", rolled.to);
	r = make_named_point(ctx, label, &number, e);
	if (r < 0)
		return r;
	json_obj(&j, NULL);
	snprintf(name, sizeof(name), "c%u", rolled.to);
	json_str(&j, "checkpoint", name);
	snprintf(name, sizeof(name), "c%u", rolled.undo);
	json_str(&j, "undo", name);
	json_end_obj(&j);
	return 0;
}

static const struct mcp_param rollback_params[] = {
	{ "id", MCP_TEXT, true, 16, "The checkpoint to return to, such as c3.", NULL },
};

const struct mcp_tool mcp_tool_rollback = {
	.name = "rollback",
	.title = "Roll back",
	.help = "Makes the workspace exactly what it was at a checkpoint. The state before becomes a checkpoint, returned as undo.",
	.params = rollback_params,
	.n_params = ARRAY_SIZE(rollback_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"checkpoint\":{\"type\":\"string\"},\"undo\":{\"type\":\"string\"}},"
		"\"required\":[\"checkpoint\",\"undo\"]}",
	.destructive = true,
	.run = tool_rollback,
};
