/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning of every connection, whatever kind of wall it comes from (intake.h): room for it, then its
 * first judgement. Reads nothing of it.
 */
#include "egress/core/intake.h"

#include "base/cleanup.h"
#include "egress/core/flow_int.h"
#include "egress/wire/fds.h"

#include <errno.h>
#include <sys/socket.h>

void intake_turn_away(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

/* A client on these ports would understand more than a reset. */
static bool is_http_port(uint16_t port)
{
	return port == 80 || port == 443;
}

static void judge_new_flow(struct flow *f)
{
	struct addr own = egress_names_own(&f->eg->names);
	struct policy_verdict v;

	if (addr_eq(&f->addr, &own) && f->port == 80) {
		page_begin(f);
		return;
	}
	flow_judge(f, &v);
	if (!policy_may_allow(&v)) {
		if (is_http_port(f->port))
			peek_refused(f, &v);
		else
			flow_refuse(f, &v, FLOW_REFUSE_RESET, 0, v.why, NULL);
		return;
	}
	if (v.depth != POLICY_TUNNEL) {
		peek_begin(f, &v);
		return;
	}
	f->depth = POLICY_TUNNEL;
	flow_open(f, &v);
}

bool intake_has_room(struct egress *eg)
{
	eg->stats.opened++;
	if (eg->n_flows < eg->max_flows)
		return true;
	eg->stats.shed++;
	egress_alert(eg, "connections", NULL, "%u connections are open: more are turned away", eg->n_flows);
	return false;
}

void intake_no_descriptor(struct egress *eg)
{
	eg->stats.shed++;
	egress_alert(eg, "descriptors", NULL, "no descriptor is free: connections are turned away");
}

void intake_take(struct egress *eg, int fd, const struct addr *asked, uint16_t port, bool handed)
{
	struct flow *f = flow_new(eg, fd, asked, port);

	if (!f)
		return;
	f->is_handed = handed;
	judge_new_flow(f);
}

int intake_open(struct egress *eg, uint32_t mask, struct err *e)
{
	bool is_here = mask & EGRESS_FDS_SOCKETS, is_elsewhere = mask & FDS_BIT(EGRESS_FD_WALL);

	if (!is_here && !is_elsewhere)
		return err_set(e, -EINVAL,
			       "it was given no wall: neither its sockets nor a forwarder's messages");
	if (is_elsewhere && (is_here || (mask & FDS_BIT(EGRESS_FD_NFLOG))))
		return err_set(e, -EINVAL,
			       "it was given two kinds of wall: its sockets and a forwarder's messages");
	eg->intake = is_here ? &intake_sockets : &intake_messages;
	return eg->intake->open(eg, mask, e);
}
