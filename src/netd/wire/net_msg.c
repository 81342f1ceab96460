/* SPDX-License-Identifier: Apache-2.0 */
/* Formats a line of the guard for people. A line never has more than NET_MSG_TEXT bytes. */
#include "netd/wire/net_msg.h"
#include "base/str.h"

#include <stdio.h>

void net_say_format(const struct net_msg *m, char out[NET_MSG_TEXT])
{
	unsigned long long n = m->count;
	/* `coffer why` explains denials; a failure is not a denial. */
	bool failed = str_starts(m->text, "failed  ");

	if (m->about == NET_SAY_REST)
		snprintf(out, NET_MSG_TEXT, "denied  %llu more  (coffer net log)", n);
	else if (m->about == NET_SAY_PLAIN)
		snprintf(out, NET_MSG_TEXT, "%s", m->text);
	else if (m->again)
		snprintf(out, NET_MSG_TEXT, "%.460s  (%llu more)", m->text, n);
	else if (n > 1)
		snprintf(out, NET_MSG_TEXT, "%.460s  (%llu times%s)", m->text, n,
			 failed ? "" : "; coffer why");
	else
		snprintf(out, NET_MSG_TEXT, "%.460s%s", m->text, failed ? "" : "  (coffer why)");
}
