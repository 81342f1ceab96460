/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a run from its options: state, audit log, spec, network plan, ports and engine, in this order.
 * Everything that can be refused is refused here; run_execute() makes the sandbox afterwards.
 */
#include "cli/run/session.h"

#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/run/run_say.h"

#include <errno.h>
#include <fcntl.h>

static int open_report_file(const char *path, struct err *e)
{
	int fd;

	if (!path)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot write the report %s", path) : fd;
}

static int write_report_file(int fd, const char *path, const struct run *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int ret;

	if (fd < 0)
		return 0;
	run_report(r, &b);
	ret = buf_error(&b);
	if (ret == 0)
		ret = fd_write_all(fd, buf_cstr(&b), b.len);
	return ret < 0 ? err_sys(e, ret, "cannot write the report %s", path) : 0;
}

static int refuse_net_options(const struct run_opts *o, struct err *e)
{
	const char *option = o->policy	      ? "--policy"
			     : o->allow.n     ? "--allow"
			     : o->secret.n    ? "--secret"
			     : o->resolvers.n ? "--resolver"
					      : NULL;

	return option ? err_set(e, -EINVAL, "%s and --net none exclude each other", option) : 0;
}

/* Stores the path as typed, made absolute, beside the resolved one: if a link in it is changed to lead to
 * another file, that is a change of the policy. */
static int set_policy_path(struct net_plan *p, const char *path, struct err *e)
{
	autofree char *cwd = path[0] == '/' ? strdup("") : getcwd(NULL, 0);

	p->real = realpath(path, NULL);
	if (!p->real)
		return err_sys(e, -errno, "cannot read the policy %s", path);
	if (!cwd)
		return err_sys(e, -errno, "cannot determine the current directory");
	if (asprintf(&p->file, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path) < 0) {
		p->file = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Are --allow and --resolver wrong without the policy file, too? (-ENOENT: an unknown preset.) Then it is a
 * usage error; otherwise the fault is in the file or on the machine. */
static bool arguments_are_wrong(const struct net_plan *p)
{
	struct config_policy_args a = net_plan_args(p);
	struct config_policy cp = { 0 };
	struct err ignored = ERR_INIT;
	int r;

	a.files = NULL;
	a.n_files = 0;
	r = config_policy_load(&a, &cp, &ignored);
	config_policy_release(&cp);
	return r == -EINVAL || r == -ENOENT;
}

/* Plans the network by options and policy, before anything is made. */
static int open_session_net(struct session *s, const struct run_opts *o, struct err *e)
{
	struct net_plan *p = &s->net;
	bool none = o->net ? str_eq(o->net, "none") : !o->has_net;
	int r = 0;

	if (none) {
		r = refuse_net_options(o, e);
		s->usage = r < 0;
		return r;
	}
	if (o->net)
		p->mode = str_eq(o->net, "observe") ? POLICY_OBSERVE : POLICY_ENFORCE;
	for (size_t i = 0; r == 0 && i < o->allow.n; i++)
		r = strv_add(&p->allow, o->allow.v[i]);
	for (size_t i = 0; r == 0 && i < o->resolvers.n; i++)
		r = strv_add(&p->resolvers, o->resolvers.v[i]);
	if (r < 0)
		return err_set(e, -ENOMEM, "out of memory");
	p->ask_timeout = o->ask_timeout;
	p->n_profile = o->n_profile;
	p->profile = o->profile ? strdup(o->profile) : NULL;
	for (size_t i = 0; !o->policy && i < o->allow.n; i++) {
		if (!str_eq(o->allow.v[i], "@policy"))
			continue;
		s->usage = true;
		return err_set(e, -EINVAL,
			       "--allow @policy means all that a policy file allows: it needs --policy");
	}
	if (o->policy) {
		r = set_policy_path(p, o->policy, e);
		if (r < 0)
			return r;
	}
	r = net_plan_open(p, &s->spec, e);
	if (r < 0)
		s->usage = arguments_are_wrong(p);
	if (r == 0) {
		r = net_secrets_plan(p, &s->spec, &o->secret, o->offers, &s->st, e);
		s->usage = r < 0 && net_secret_check(&o->secret) < 0;
	}
	if (r == 0 && spec_has_ca(&s->spec))
		r = cli_run_spec_trust(&s->spec, e);
	s->run.net = p;
	return r;
}

/* Records the host's files that this run obeys, by the paths as typed and as resolved. */
static int note_obeyed_files(struct session *s, const struct run_args *a, struct err *e)
{
	struct obeys *o = &s->obeys;
	const char *policy = a->o.policy ? a->o.policy : a->o.acts_policy;
	int r = policy ? obeys_add(&o->policies, policy) : 0;

	if (r == 0 && s->net.file)
		r = strv_add(&o->policies, s->net.file);
	if (r == 0)
		r = obeys_add_policy(o, &s->net.cp);
	if (r == 0 && a->profile && strchr(a->profile, '/'))
		r = obeys_add(&o->files, a->profile);
	if (r == 0 && s->choice.named)
		r = obeys_add(&o->files, s->choice.runsc.path);
	if (r == 0)
		r = obeys_add_spec(o, &s->spec);
	o->i_know = a->o.i_know;
	s->run.obeys = o;
	return r < 0 ? err_set(e, r, "out of memory") : obeys_note(o, &s->st, e);
}

int cli_session_open(struct session *s, const struct run_args *a, struct err *e)
{
	int r;

	s->report = open_report_file(a->report, e);
	r = s->report < 0 && a->report ? s->report : state_open(&s->st, e);
	if (r == 0)
		r = audit_open(&s->audit, s->st.fd, e);
	if (r == 0) {
		r = cli_run_spec_build(&s->spec, &a->o, &s->st, &s->note, e);
		s->usage = r == -EINVAL || r == -ERANGE;
	}
	s->run = (struct run){ .st = &s->st, .spec = &s->spec, .audit = s->audit, .map_ids = a->o.map_ids };
	if (r == 0)
		r = open_session_net(s, &a->o, e);
	if (r == 0) {
		r = ports_open(&s->ports, &a->o.publish, a->o.public, &s->spec, e);
		s->usage = r == -EINVAL || r == -EPERM || r == -E2BIG;
	}
	s->run.ports = &s->ports;
	if (r == 0) {
		r = choose_engine(a->engine, a->runsc, &s->st, &s->spec, &s->run.map_ids, &s->choice, e);
		s->usage = r == -EINVAL && a->runsc;
	}
	if (r == 0)
		r = note_obeyed_files(s, a, e);
	s->run.engine = s->choice.engine;
	s->run.choice = &s->choice;
	return r;
}

void cli_session_release(struct session *s)
{
	fd_close(s->report);
	choice_release(&s->choice);
	net_plan_release(&s->net);
	ports_release(&s->ports);
	obeys_release(&s->obeys);
	buf_release(&s->run.net_report);
	audit_freep(&s->audit);
	spec_release(&s->spec);
	state_release(&s->st);
}

int cli_session_end(struct session *s, const struct run_args *a)
{
	struct err e = ERR_INIT;

	cli_run_say_after(&s->run, !a->rm);
	if (write_report_file(s->report, a->report, &s->run, &e) < 0)
		return say_error(&e);
	return s->run.end.exit_code;
}
