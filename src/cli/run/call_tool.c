/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer call --tool: decides by the policies whether a tool's call may run, and asks a person if they say
 * so. It runs before the sandbox is made. An error at any step means that the call is not made.
 */
#include "cli/run/call_tool.h"

#include "approval/server/askhold.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"
#include "config/policy_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int cli_call_tool_open(struct call_tool *c, const char *policy, const struct changed *from, bool *ret_egress,
		       struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy cp = { 0 };
	const struct config_policy_args a = { .files = &policy, .n_files = policy ? 1 : 0, .mode = -1 };
	const struct acts *both[] = { &c->own, &c->of };
	int r;

	*ret_egress = true;
	c->usage = c->name || c->args;
	if (!c->name)
		return c->args ? err_set(e, -EINVAL, "--args needs --tool NAME") : 0;
	r = toolcall_parse(&c->t, c->name, c->args, c->args ? strlen(c->args) : 0, e);
	if (r < 0)
		return err_wrap(e, r, "--tool");
	c->usage = false;
	r = config_policy_load(&a, &cp, e);
	if (r < 0)
		return r;
	c->own = cp.acts;
	cp.acts = ACTS_INIT;
	c->file = policy ? realpath(policy, NULL) : NULL;
	*ret_egress = cp.says_egress;
	if (from)
		r = toolcall_read_acts(from->run_fd, from->id, &c->of, e);
	toolcall_decide(&c->t, both, ARRAY_SIZE(both), &c->v);
	return r;
}

void cli_call_tool_release(struct call_tool *c)
{
	toolcall_release(&c->t);
	acts_release(&c->own);
	acts_release(&c->of);
	free(c->file);
}

/* ---- A call without --from has no run yet that its question could belong to: a directory for it is made ahead. ---- */

static int make_ask_directory(const struct call_tool *c, struct session *s, struct err *e)
{
	const struct net_plan plan = { .mode = -1, .file = c->file };
	struct spec *sp = &s->spec;
	autobuf struct buf line = BUF_INIT;
	struct run_meta m = { .engine = (char *)s->choice.engine->name,
			      .started = clock_nsec(CLOCK_REALTIME) };
	int fd, r = sp->id[0] ? 0 : state_new_id(sp->id, e);

	if (r < 0)
		return r;
	fd = state_run_create_ahead(&s->st, sp->id, e);
	if (fd < 0)
		return fd;
	for (size_t i = 0; i < sp->argv.n; i++)
		buf_addf(&line, "%s%s", i ? " " : "", sp->argv.v[i]);
	memcpy(m.id, sp->id, sizeof(m.id));
	m.command = (char *)buf_cstr(&line);
	m.launcher = getpid();
	r = state_meta_write(fd, &m, e);
	/* `coffer approve --always` finds the policy file by this. If it cannot be stored, the approver is
	 * told that there is none. */
	if (r == 0)
		(void)!net_plan_store(&plan, fd);
	if (r == 0)
		return fd;
	fd_close(fd);
	return r;
}

/* The run's real directory, with the same id, is made when the sandbox starts. */
static int remove_ask_directory(struct session *s, struct err *e)
{
	char buried[RUN_BURIED_LEN];
	int r = state_run_bury(&s->st, s->spec.id, buried, e);

	return r < 0 ? r : fd_rm_rf(s->st.runs_fd, buried, e);
}

/* ---- Asking. ---- */

static int collect_bound_words(struct strv *all, char **argv, const char *from, struct err *e)
{
	autofree char *cwd = getcwd(NULL, 0);
	int r = cwd ? strv_add(all, cwd) : -errno;

	r = r < 0 ? r : strv_add(all, from ? from : "");
	for (; r == 0 && *argv; argv++)
		r = strv_add(all, *argv);
	return r < 0 ? err_sys(e, r, "cannot describe the command to be approved") : 0;
}

/* Quotes the words for a shell, so that the person sees where each word ends. */
static void add_shell_words(const struct strv *argv, struct buf *out)
{
	for (size_t i = 0; i < argv->n; i++) {
		const char *p = argv->v[i];
		bool plain = *p && !strpbrk(p, " \t\n\r'\"\\$`|&;<>()*?~#!{}[]");

		buf_adds(out, i ? " " : "");
		if (plain) {
			buf_adds(out, p);
			continue;
		}
		buf_addc(out, '\'');
		for (; *p; p++)
			*p == '\'' ? buf_adds(out, "'\\''") : buf_addc(out, *p);
		buf_addc(out, '\'');
	}
}

static int decide_or_ask(struct call_tool *c, struct session *s, struct askhold *h, char **argv,
			 const char *from, struct buf *why, struct err *e)
{
	autostrv struct strv all = STRV_INIT;
	autobuf struct buf command = BUF_INIT;
	struct toolcall_bound b = { .all = &all };
	int r = collect_bound_words(&all, argv, from, e);

	if (r < 0)
		return r;
	add_shell_words(&s->spec.argv, &command);
	b.shown = buf_cstr(&command);
	if (buf_error(&command))
		return err_set(e, -ENOMEM, "out of memory");
	r = toolcall_pass(&c->t, &c->v, &b, h, why, e);
	memcpy(c->ask, h->id, sizeof(c->ask));
	return r;
}

int cli_call_tool_pass(struct call_tool *c, struct session *s, const struct changed *from, char **argv)
{
	autobuf struct buf why = BUF_INIT;
	struct err e = ERR_INIT;
	struct askhold h = { .st = &s->st,
			     .run_fd = from ? from->run_fd : -1,
			     .run = from ? from->id : NULL,
			     .audit = s->audit,
			     .timeout_s = c->timeout_s,
			     .waits = cli_ask_say_waits };
	bool own = c->name && !from && c->v.action == POLICY_ASK;
	autoclose int place = -1;
	int r;

	if (!c->name)
		return 0;
	if (own) {
		place = make_ask_directory(c, s, &e);
		if (place < 0)
			return say_error(&e);
		h.run_fd = place;
		h.run = s->spec.id;
		h.claimed = true;
	}
	r = decide_or_ask(c, s, &h, argv, from ? from->id : NULL, &why, &e);
	if (own && remove_ask_directory(s, r < 0 ? NULL : &e) < 0 && r > 0)
		r = -EIO;
	if (r > 0)
		return 0;
	if (r == 0)
		err_set(&e, -EPERM, "%s", buf_cstr(&why));
	say_error(&e);
	return r == -EINTR ? 128 + SIGINT : EXIT_OURS;
}

int cli_call_tool_log(const struct call_tool *c, struct session *s, const char *run, struct err *e)
{
	return c->name ? toolcall_log(&c->t, &c->v, true, c->ask, s->audit, run, e) : 0;
}
