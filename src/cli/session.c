/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"

#include "base/fd.h"
#include "cli/run_say.h"
#include "cli/say.h"

#include <errno.h>
#include <fcntl.h>

static int open_report(const char *path, struct err *e)
{
	int fd;

	if (!path)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot write the report %s", path) : fd;
}

static int write_report(int fd, const char *path, const struct run *r, struct err *e)
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

static int refuse_without_net(const struct run_opts *o, struct err *e)
{
	const char *option = o->policy	      ? "--policy"
			     : o->allow.n     ? "--allow"
			     : o->secret.n    ? "--secret"
			     : o->resolvers.n ? "--resolver"
					      : NULL;

	return option ? err_set(e, -EINVAL, "%s does not go with --net none", option) : 0;
}

/* Which network, and what the policy says: all of it is known before anything is made. */
static int open_net(struct session *s, const struct run_opts *o, struct err *e)
{
	struct net_plan *p = &s->net;
	bool none = o->net ? str_eq(o->net, "none") : !o->has_net;
	int r = 0;

	if (none)
		return refuse_without_net(o, e);
	if (o->net)
		p->mode = str_eq(o->net, "observe") ? POLICY_OBSERVE : POLICY_ENFORCE;
	for (size_t i = 0; r == 0 && i < o->allow.n; i++)
		r = strv_add(&p->allow, o->allow.v[i]);
	for (size_t i = 0; r == 0 && i < o->resolvers.n; i++)
		r = strv_add(&p->resolvers, o->resolvers.v[i]);
	if (r < 0)
		return err_set(e, -ENOMEM, "out of memory");
	p->ask_timeout = o->ask_timeout;
	if (o->policy) {
		p->file = realpath(o->policy, NULL);
		if (!p->file)
			return err_sys(e, -errno, "cannot read the policy %s", o->policy);
	}
	r = net_plan_open(p, &s->spec, e);
	if (r == 0)
		r = net_secrets_plan(p, &s->spec, &o->secret, o->offers, &s->st, e);
	if (r == 0 && spec_has_ca(&s->spec))
		r = run_spec_trust(&s->spec, e);
	s->run.net = p;
	return r;
}

int session_open(struct session *s, const struct run_args *a, struct err *e)
{
	int r;

	s->report = open_report(a->report, e);
	r = s->report < 0 && a->report ? s->report : state_open(&s->st, e);
	if (r == 0)
		r = audit_open(&s->audit, s->st.fd, e);
	if (r == 0)
		r = run_spec_build(&s->spec, &a->o, &s->st, &s->note, e);
	s->run = (struct run){ .st = &s->st, .spec = &s->spec, .audit = s->audit, .map_ids = a->o.map_ids };
	if (r == 0)
		r = open_net(s, &a->o, e);
	if (r == 0)
		r = ports_open(&s->ports, &a->o.publish, a->o.public, &s->spec, e);
	s->run.ports = &s->ports;
	if (r == 0)
		r = choose_engine(a->engine, a->runsc, &s->st, &s->spec, &s->run.map_ids, &s->choice, e);
	s->run.engine = s->choice.engine;
	s->run.choice = &s->choice;
	return r;
}

void session_release(struct session *s)
{
	fd_close(s->report);
	choice_release(&s->choice);
	net_plan_release(&s->net);
	ports_release(&s->ports);
	buf_release(&s->run.net_report);
	audit_freep(&s->audit);
	spec_release(&s->spec);
	state_release(&s->st);
}

int session_end(struct session *s, const struct run_args *a)
{
	struct err e = ERR_INIT;

	run_say_after(&s->run);
	if (write_report(s->report, a->report, &s->run, &e) < 0)
		return say_error(&e);
	return s->run.end.exit_code;
}
