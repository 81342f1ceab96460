/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer apply of a call's changes into the workspace of another sandbox. If that sandbox maps a range of
 * ids, the files are written by a child process that is root over them, and its result comes back through a
 * buffer. Checkpoints before and after make it reversible. Without the first, nothing is applied unless the
 * caller turned it off.
 */
#include "cli/change/apply_into.h"

#include "cli/box/cmd_checkpoint.h"
#include "cli/core/say.h"
#include "sandbox/state/layers.h"
#include "workspace/tree/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

struct into_job {
	struct into *into;
	uint64_t since;
	const struct apply_opts *o;
};

static int write_into(const struct into_job *job, struct apply_result *res, struct err *e)
{
	int r = workspace_apply(job->into->upper, job->into->tree, job->since, job->o, res, e);

	into_end(job->into);
	return r;
}

/*
 * The result of apply in the child process that is root over the subordinate ids. `struct change` is passed
 * with its pointers to reasons: they point to constants, which a forked child has at the same addresses.
 */
struct outcome {
	int code;
	struct err err;
	size_t total, asked, applied, refused;
};

static int apply_as_owner(void *ctx, struct buf *out, struct err *e)
{
	struct apply_result res = { 0 };
	struct outcome o = { .err = ERR_INIT };

	(void)e;
	o.code = write_into(ctx, &res, &o.err);
	o.total = res.total;
	o.asked = res.asked;
	o.applied = res.applied;
	o.refused = res.refused.n;
	buf_add(out, &o, sizeof(o));
	for (size_t i = 0; i < res.refused.n; i++) {
		buf_add(out, &res.refused.v[i], sizeof(struct change));
		buf_add(out, res.refused.v[i].path, strlen(res.refused.v[i].path) + 1);
	}
	apply_result_release(&res);
	return 0;
}

static int read_outcome(const struct buf *b, struct apply_result *res, struct err *e)
{
	struct outcome o;
	size_t at = sizeof(o);

	memcpy(&o, b->data, sizeof(o));
	res->total = o.total;
	res->asked = o.asked;
	res->applied = o.applied;
	res->refused.v = calloc(o.refused + 1, sizeof(struct change));
	if (!res->refused.v)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < o.refused; i++) {
		struct change *c = &res->refused.v[i];

		memcpy(c, b->data + at, sizeof(*c));
		at += sizeof(*c);
		c->path = strdup(b->data + at);
		if (!c->path)
			return err_set(e, -ENOMEM, "out of memory");
		res->refused.n++;
		at += strlen(c->path) + 1;
	}
	*e = o.err;
	return o.code;
}

int cli_apply_into(struct into *i, uint64_t since, const struct apply_opts *o, struct apply_result *res,
		   struct err *e)
{
	struct into_job job = { i, since, o };
	autobuf struct buf out = BUF_INIT;
	int r;

	if (!i->mapped)
		return write_into(&job, res, e);
	r = owner_call(true, apply_as_owner, &job, &out, e);
	if (r == 0 && buf_error(&out))
		r = err_set(e, -ENOMEM, "out of memory");
	return r < 0 ? r : read_outcome(&out, res, e);
}

int cli_apply_into_copy_again(struct into *i, struct changed *call, struct err *e)
{
	int r = borrow_copy(&i->n, call->run_fd, e);

	if (r < 0)
		return r;
	fd_close(call->layer);
	call->layer = openat(call->run_fd, LAYERS_FROM, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return call->layer < 0 ? err_sys(e, -errno, "cannot open the copied layer") : 0;
}

int cli_apply_into_before(const struct changed *call, uint32_t *ret, struct err *e)
{
	autoref struct ref ref = REF_INIT;
	char label[64];
	int r = ref_open(&ref, call->meta.over, e);

	/* The sandbox does not exist any more; into_open() reports that. */
	if (r == -ENOENT) {
		*e = ERR_INIT;
		*ret = 0;
		return 0;
	}
	snprintf(label, sizeof(label), "before apply %s", call->id);
	if (r == 0)
		r = cli_checkpoint_make_now(&ref, label, ret, e);
	if (r == 0)
		return 0;
	err_wrap(e, r, "cannot make a checkpoint of %s to go back to", call->meta.over);
	return err_hint(e, r, "coffer apply --checkpoint off %s applies without one", call->id);
}

void cli_apply_into_after(const struct changed *call, uint32_t before)
{
	autoref struct ref ref = REF_INIT;
	struct err e = ERR_INIT;
	char label[64];
	uint32_t now;
	int r = ref_open(&ref, call->meta.over, &e);

	snprintf(label, sizeof(label), "apply %s", call->id);
	if (r == 0)
		r = cli_checkpoint_make_now(&ref, label, &now, &e);
	if (r < 0)
		say_warn("no checkpoint of %s was made after the apply: %s", call->meta.over, e.msg);
	say_note("coffer rollback %s c%u takes it back", call->meta.over, before);
}
