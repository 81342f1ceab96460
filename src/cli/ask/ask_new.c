/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ask new: submits a question about a sandbox, waits for the answer, and turns it into an exit code.
 * While it waits, this process may itself be the ask server of a sandbox that has ended
 * (approval/server/askhold.h). Without a yes the exit code must not be 0.
 */
#include "cli/ask/ask_new.h"

#include "approval/server/askhold.h"
#include "base/fd.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DENIED = 1 };

static int read_detail(const char *detail, struct buf *ret, struct err *e)
{
	int r = 0;

	if (detail && str_eq(detail, "-"))
		r = fd_read_all(STDIN_FILENO, ASK_PREVIEW_MAX, ret);
	else if (detail)
		buf_adds(ret, detail);
	if (r == -EFBIG)
		return err_set(e, r, "--detail has at most %d bytes", ASK_PREVIEW_MAX);
	if (r < 0)
		return err_sys(e, r, "cannot read standard input");
	if (memchr(buf_cstr(ret), '\0', ret->len))
		return err_set(e, -EINVAL, "--detail must be text: it contains a NUL byte");
	return buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int submit_and_wait(struct state *st, const struct ask_new *n, struct buf *why, struct err *e)
{
	CLEANUP(audit_freep) struct audit *audit = NULL;
	autobuf struct buf detail = BUF_INIT;
	autoclose int fd = -1;
	char id[RUN_ID_LEN + 1];
	bool alive;
	struct askhold h = { .st = st, .run = id, .timeout_s = n->timeout_s, .waits = cli_ask_say_waits };
	struct ask_question q = { .kind = ASK_QUESTION,
				  .host = "",
				  .method = "",
				  .path = "",
				  .what = n->what,
				  .type = "",
				  .rule = "",
				  .reason = n->reason ? n->reason : "" };
	int r = state_resolve(st, n->sandbox, id, e);

	r = r < 0 ? r : audit_open(&audit, st->fd, e);
	r = r < 0 ? r : read_detail(n->detail, &detail, e);
	if (r < 0)
		return r;
	fd = state_run_open(st, id, &alive, e);
	if (fd < 0)
		return fd;
	q.preview = buf_cstr(&detail);
	q.preview_len = detail.len;
	h.run_fd = fd;
	h.audit = audit;
	return askhold(&h, &q, why, e);
}

int cli_ask_new(struct state *st, const struct ask_new *n)
{
	autobuf struct buf why = BUF_INIT;
	struct err e = ERR_INIT;
	int r = submit_and_wait(st, n, &why, &e);

	if (r < 0) {
		say_error(&e);
		return r == -EINTR ? 128 + SIGINT : EXIT_OURS;
	}
	say_note(r ? "allowed%s" : "denied: %s", r ? "" : buf_cstr(&why));
	return r ? 0 : EXIT_DENIED;
}
