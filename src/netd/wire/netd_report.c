/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what a run's network did (netd_report.h): made and formatted here. Its bytes are hostile: no number of rows in it
 * is believed, and no text in it ends where it claims to.
 */
#include "netd/wire/netd_report.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

int netd_report_make(struct err *e)
{
	autoclose int fd = memfd_create("network-report", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, sizeof(struct netd_report)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_sys(e, -errno, "cannot make a table for the network's report");
	return TAKE_FD(fd);
}

static void add_counts(struct json *j, const struct netd_counts *n)
{
	json_u64(j, "queries", n->queries);
	json_u64(j, "connections", n->connections);
	json_u64(j, "requests", n->requests);
	json_u64(j, "denied", n->denied);
	json_u64(j, "up", n->up);
	json_u64(j, "down", n->down);
}

void netd_report_format(const struct netd_report *r, struct json *j)
{
	const size_t n = r->n_names < NETD_REPORT_NAMES ? r->n_names : NETD_REPORT_NAMES;

	add_counts(j, &r->total);
	json_u64(j, "refused_packets", r->refused);
	json_u64(j, "alerts", r->alerts);
	json_u64(j, "garbled", r->garbled);
	json_arr(j, "names");
	for (size_t i = 0; i < n; i++) {
		const struct netd_report_row *row = &r->names[i];

		json_obj(j, NULL);
		json_strn(j, "name", row->name, strnlen(row->name, sizeof(row->name)));
		add_counts(j, &row->n);
		json_end_obj(j);
	}
	json_end_arr(j);
	if (r->rest.queries || r->rest.connections || r->rest.denied || r->rest.requests) {
		json_obj(j, "other_names");
		add_counts(j, &r->rest);
		json_end_obj(j);
	}
}
