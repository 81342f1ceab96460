/* SPDX-License-Identifier: Apache-2.0 */
/* The log gets JSON members of the table, each once, or nothing, for any packed bytes of coffer-netd. */
#include "netd/wire/netd_event.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf fields = BUF_INIT, o = BUF_INIT;
	enum net_ev ev = NET_EV_COUNT;
	json_t *parsed;

	if (netd_event_format(data, size, &ev, &fields) < 0)
		return 0;
	if (size > NETD_EVENT_MAX || ev >= NET_EV_COUNT)
		abort();
	buf_addc(&o, '{');
	buf_add(&o, fields.data, fields.len);
	buf_addc(&o, '}');
	parsed = json_loadb(o.data, o.len, JSON_REJECT_DUPLICATES, NULL);
	if (!parsed || json_object_get(parsed, "seq") || json_object_get(parsed, "type") ||
	    json_object_get(parsed, "sandbox") || json_object_get(parsed, "prev"))
		abort();
	json_decref(parsed);
	return 0;
}
