/* SPDX-License-Identifier: Apache-2.0 */
/* For any request and any snapshot, each line of the answer is a sample of ours, or a comment. */
#include "base/str.h"
#include "daemon/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Name, labels in which every quote is escaped, a number. */
static void check_line(const char *l, size_t len)
{
	bool quoted = false;
	size_t i = 0;

	if (len && l[0] == '#')
		return;
	if (len < 8 || memcmp(l, "coffer_", 7) != 0)
		abort();
	for (; i < len; i++) {
		if ((unsigned char)l[i] < 0x20 || (unsigned char)l[i] >= 0x7f)
			abort();
		if (quoted && l[i] == '\\')
			i++;
		else if (l[i] == '"')
			quoted = !quoted;
		else if (l[i] == ' ' && !quoted)
			break;
	}
	if (quoted || i + 1 >= len || strcspn(l + i + 1, " \n") != len - i - 1)
		abort();
}

static void check_text(json_t *egress, json_t *dial)
{
	autobuf struct buf out = BUF_INIT;
	struct metrics_sandbox s = {
		.id = "0123456789ab", .name = "n", .engine = "ns", .egress = egress, .dial = dial
	};
	const struct metrics_all a = { .sandboxes = &s, .n = 1 };
	const char *p, *end;

	metrics_text(&a, &out);
	if (buf_error(&out) || !out.len || out.data[out.len - 1] != '\n')
		abort();
	for (p = buf_cstr(&out), end = p + out.len; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		check_line(p, (size_t)(nl - p));
		p = nl + 1;
	}
}

/* In pieces it is what it is at once; and never more than one answer. */
static void check_ask(const char *data, size_t size)
{
	unsigned whole, part;
	enum metrics_ask a = metrics_parse(data, size, &whole);

	if (a == METRICS_REFUSE && (whole < 400 || whole > 599))
		abort();
	if (a == METRICS_MORE && size >= METRICS_ASK_MAX)
		abort();
	for (size_t n = 0; n < size && n < 64; n++) {
		if (metrics_parse(data, n, &part) == METRICS_TEXT && a != METRICS_TEXT)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *o;

	check_ask((const char *)data, size);
	o = metrics_snapshot((const char *)data, size);
	if (o) {
		check_text(o, o);
		json_decref(o);
	}
	return 0;
}
