/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the text that a person types for a sandbox, and opens its directory in the state or the socket of
 * its launcher. Nothing is changed or locked here; a verb that needs the run for itself claims it
 * (state_run_claim()).
 */
#include "cli/core/ref.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

int ref_open(struct ref *r, const char *text, struct err *e)
{
	int ret;

	*r = REF_INIT;
	ret = state_open(&r->st, e);
	if (ret == 0)
		ret = state_resolve(&r->st, text, r->id, e);
	if (ret < 0)
		return ret;
	r->run_fd = state_run_open(&r->st, r->id, &r->alive, e);
	return r->run_fd < 0 ? r->run_fd : 0;
}

static bool may_be_run_id(const char *s)
{
	return strlen(s) >= 2 && strlen(s) <= RUN_ID_LEN && s[strspn(s, "0123456789abcdef")] == '\0';
}

int ref_resolve_logged(struct state *st, const char *text, char ret[RUN_ID_LEN + 1], struct err *e)
{
	int r = str_eq(text, "@last") ? state_last_id(st, ret) : state_resolve(st, text, ret, e);

	if (r < 0 && str_eq(text, "@last"))
		return err_sys(e, r, "cannot determine which run was the last");
	if (r == -ENOENT && may_be_run_id(text)) {
		snprintf(ret, RUN_ID_LEN + 1, "%s", text);
		return 0;
	}
	return r;
}

void ref_release(struct ref *r)
{
	fd_close(r->run_fd);
	state_release(&r->st);
	*r = REF_INIT;
}

int ref_link(struct ref *r, const char *text, struct run_link *l, struct err *e)
{
	int ret = r->run_fd < 0 ? ref_open(r, text, e) : 0;

	if (ret < 0)
		return ret;
	if (!r->alive) {
		err_set(e, -ESRCH, "sandbox %s is not running", text);
		return err_hint(e, -ESRCH, "coffer ps lists those that are");
	}
	ret = run_link_open(l, r->run_fd, e);
	if (ret == -ENOENT || ret == -ECONNREFUSED)
		return err_set(e, ret, "sandbox %s is just starting or ending", text);
	return ret;
}
