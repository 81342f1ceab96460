/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the guard's as a person reads it. */
#include "gateway/net.h"

#include <stdio.h>

void net_say_format(const struct net_msg *m, char out[NET_MSG_TEXT])
{
	unsigned long long n = m->count;

	if (m->about == NET_SAY_REST)
		snprintf(out, NET_MSG_TEXT, "denied  %llu more  (coffer net log)", n);
	else if (m->about == NET_SAY_PLAIN)
		snprintf(out, NET_MSG_TEXT, "%s", m->text);
	else if (m->again)
		snprintf(out, NET_MSG_TEXT, "%.460s  (%llu more)", m->text, n);
	else if (n > 1)
		snprintf(out, NET_MSG_TEXT, "%.460s  (%llu times; coffer why)", m->text, n);
	else
		snprintf(out, NET_MSG_TEXT, "%.460s  (coffer why)", m->text);
}
