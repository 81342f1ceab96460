/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net learn: writes a policy file that allows exactly the destinations seen in the log. An existing
 * file is never replaced.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/net/cmd_net.h"
#include "cli/net/net_seen.h"
#include "cli/net/net_ways.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static int write_new_file(const char *path, const struct buf *b, struct err *e)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r;

	if (fd < 0 && errno == EEXIST) {
		r = err_set(e, -EEXIST, "%s is there already", path);
		return err_hint(e, r,
				"a policy is not replaced: name another file, or look at both with "
				"'coffer policy diff'");
	}
	if (fd < 0)
		return err_sys(e, -errno, "cannot make %s", path);
	r = fd_write_all(fd, b->data, b->len);
	if (r == 0)
		return 0;
	unlink(path); /* half a policy may be a valid one */
	return err_sys(e, r, "cannot write %s", path);
}

static void count_learned(const struct learn *l, const struct learn_opts *o, size_t *ret_rules,
			  size_t *ret_odd)
{
	const char *odd[LEARN_ODD_MAX];

	*ret_rules = *ret_odd = 0;
	for (size_t i = 0; i < l->n; i++) {
		if (!l->dests[i].opens)
			continue;
		++*ret_rules;
		*ret_odd += learn_odd(l, &l->dests[i], o, odd) > 0;
	}
}

int cli_net_learn(struct state *st, const struct net_args *args)
{
	CLEANUP(cli_net_seen_release) struct net_seen seen = NET_SEEN_INIT;
	CLEANUP(cli_net_ways_release) struct net_ways ways = NET_WAYS_INIT;
	autobuf struct buf out = BUF_INIT;
	char source[128];
	struct learn_opts o = cli_net_seen_opts();
	struct err e = ERR_INIT;
	size_t rules, odd;
	int r;

	snprintf(source, sizeof(source), args->range.ref ? "sandbox %.64s" : "all sandboxes%.0s",
		 args->range.ref ? args->range.ref : "");
	o.source = source;
	o.http = args->http;
	r = cli_net_seen_gather(&seen, st, &args->range, &e);
	r = r < 0 ? r : cli_net_ways_read(&ways, st, &args->range, &e);
	if (r < 0)
		return say_error(&e);
	o.ways = cli_net_ways_write;
	o.ctx = &ways;
	learn_write(&seen.learn, &o, &out);
	count_learned(&seen.learn, &o, &rules, &odd);
	if (buf_error(&out))
		return say_error((err_set(&e, -ENOMEM, "out of memory"), &e));
	if (seen.folded)
		say_warn(
			"%llu events were counted, not logged one by one: each was like one that has a line or was denied, so where "
			"they went is in the file%s",
			(unsigned long long)seen.folded,
			args->http ? "; of repeated GETs not every path is" : "");
	for (size_t i = 0; i < ways.failed.n; i++)
		say_warn(
			"'to:' and 'ca:' of a policy that was in force are not in the file, because the policy cannot be used any more: %s",
			ways.failed.v[i]);
	if (!args->output)
		return say_out(&out) ? EXIT_OURS : 0;
	if (write_new_file(args->output, &out, &e) < 0)
		return say_error(&e);
	say_note(
		"%s: %zu destination%s, %zu to look at (LOOK); next: coffer policy check %s, then coffer run --policy %s",
		args->output, rules, rules == 1 ? "" : "s", odd + ways.looks, args->output, args->output);
	return 0;
}
