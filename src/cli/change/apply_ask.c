/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer apply with approval: asks a person before anything is written, and binds the answer to a digest over
 * exactly what would be written. If the digest differs when the plan is made, nothing is applied.
 */
#include "cli/change/apply_ask.h"

#include "approval/toolcall.h"
#include "cli/common/ask_show.h"
#include "workspace/apply/digest.h"
#include "workspace/tree/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_apply_ask_policy(struct apply_ask *a, const struct changed *run, bool dry_run, struct err *e)
{
	struct acts acts = ACTS_INIT;
	int r = toolcall_read_acts(run->run_fd, run->id, &acts, e);

	if (r < 0)
		return r;
	if (a->wanted)
		snprintf(a->rule, sizeof(a->rule), "coffer apply --ask");
	if (acts.has_apply && acts.apply == POLICY_ASK) {
		a->wanted = true;
		snprintf(a->rule, sizeof(a->rule), "apply: ask");
	}
	if (acts.has_apply && acts.apply == POLICY_DENY && !dry_run) {
		r = err_set(e, -EPERM, "the policy that %s was started with says 'apply: deny'", run->id);
		err_hint(e, r, "coffer diff -p %s shows what it changed", run->id);
	}
	acts_release(&acts);
	return r;
}

/* ---- The question's preview. ---- */

#define LIST_ROOM 1900 /* bytes */

/* Called first for the changes that need a permission of their own: if the list is cut, it is the harmless
 * end that is missing. */
static void add_change_list(const struct changes *all, const unsigned char *go, bool flagged, struct buf *out,
			    size_t *left)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct change *c = &all->v[i];
		autobuf struct buf line = BUF_INIT;

		if (go[i] != 1 || (c->flags != 0) != flagged)
			continue;
		buf_adds(&line, flagged ? "! " : "  ");
		cli_change_format(c, &line);
		if (flagged) {
			buf_adds(&line, ": ");
			cli_change_add_reasons(c, &line);
		}
		buf_addc(&line, '\n');
		if (out->len + line.len > LIST_ROOM)
			++*left;
		else
			buf_add(out, buf_cstr(&line), line.len);
	}
}

static void add_apply_preview(const struct changes *all, const unsigned char *go, size_t behind,
			      struct buf *out)
{
	size_t guarded = 0, plain = 0;

	add_change_list(all, go, true, out, &guarded);
	add_change_list(all, go, false, out, &plain);
	if (guarded)
		buf_addf(out, "! … and %zu more that the host may run or obey\n", guarded);
	if (plain)
		buf_addf(out, "… and %zu more\n", plain);
	if (behind)
		buf_addf(out, "%zu are not applied\n", behind);
}

static uint64_t bytes_to_apply(const struct changes *all, const unsigned char *go)
{
	uint64_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += go[i] == 1 ? all->v[i].size_after : 0;
	return n;
}

struct asked_changes {
	const struct changes *all;
	const unsigned char *go;
	size_t n_go, behind;
	const unsigned char *digest;
};

static int ask_about_changes(struct apply_ask *a, struct changed *run, struct audit *audit,
			     const char *target, const struct asked_changes *s, struct err *e)
{
	autobuf struct buf preview = BUF_INIT, what = BUF_INIT, why = BUF_INIT;
	struct askhold h = { .st = &run->st,
			     .run_fd = run->run_fd,
			     .run = run->id,
			     .claimed = true,
			     .audit = audit,
			     .timeout_s = a->timeout_s,
			     .waits = cli_ask_say_waits };
	struct ask_question q = { .kind = ASK_APPLY,
				  .has_body = true,
				  .body_len = bytes_to_apply(s->all, s->go),
				  .host = "",
				  .method = "",
				  .path = "",
				  .type = "all that would be written",
				  .rule = a->rule,
				  .reason = "" };
	char hex[HASH_HEX_LEN + 1], dir[700];
	int r;

	hash_hex(s->digest, HASH_LEN, hex);
	memcpy(q.body, s->digest, HASH_LEN);
	/* The text of the question contains the digest, so that a grant for it holds for no other content. */
	buf_addf(&what, "%zu change%s to %s, sha256 %s", s->n_go, s->n_go == 1 ? "" : "s",
		 str_safe(target, dir, sizeof(dir)), hex);
	add_apply_preview(s->all, s->go, s->behind, &preview);
	if (buf_error(&what) || buf_error(&preview))
		return err_set(e, -ENOMEM, "out of memory");
	q.what = buf_cstr(&what);
	q.preview = buf_cstr(&preview);
	q.preview_len = preview.len;
	r = askhold(&h, &q, &why, e);
	memcpy(a->id, h.id, sizeof(a->id));
	if (r == 0)
		return err_set(e, -ECANCELED, "nothing was applied: %s", buf_cstr(&why));
	return r < 0 ? r : 0;
}

int cli_apply_ask_plan(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
		       const struct apply_plan *plan, struct err *e)
{
	const struct asked_changes s = { plan->all, plan->go, plan->n_go, plan->refused->n, plan->digest };

	return ask_about_changes(a, run, audit, target, &s, e);
}

/* ---- Changes of a call over another sandbox's workspace. ---- */

int cli_apply_ask_layer(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
			const struct strv *paths, struct err *e)
{
	struct asked_changes s = { .digest = a->digest };
	int r = cli_changed_list(run, &a->listed, e);

	if (r < 0)
		return r;
	a->go = calloc(a->listed.n + 1, 1);
	if (!a->go)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->listed.n; i++) {
		a->go[i] = paths->n == 0 || path_covered(paths, a->listed.v[i].path);
		s.n_go += a->go[i];
	}
	s.all = &a->listed;
	s.go = a->go;
	r = digest_changes(run->upper, &a->listed, a->go, a->digest, e);
	return r < 0 || s.n_go == 0 ? r : ask_about_changes(a, run, audit, target, &s, e);
}

int cli_apply_ask_still(const struct apply_ask *a, int upper_fd, struct err *e)
{
	unsigned char now[APPLY_DIGEST_LEN];
	int r = digest_changes(upper_fd, &a->listed, a->go, now, e);

	if (r == 0 && memcmp(now, a->digest, sizeof(now)) != 0)
		return err_set(e, -ESTALE, "the changes differ from those that were approved; ask again");
	return r;
}

void cli_apply_ask_release(struct apply_ask *a)
{
	changes_release(&a->listed);
	free(a->go);
	a->go = NULL;
}
