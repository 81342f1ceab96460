/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses: a job as coffer-courier gets it, a result as its starter does, or a server's answer in pieces. */
#include "courier/courier_http.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void job(const uint8_t *data, size_t size)
{
	autobuf struct buf again = BUF_INIT, out = BUF_INIT;
	struct courier_job j;

	for (size_t fds = 0; fds <= COURIER_FDS_MAX; fds++) {
		if (courier_job_parse(data, size, fds, &j) < 0)
			continue;
		BUG_ON(courier_job_pack(&j, &again) < 0);
		BUG_ON(again.len != size || memcmp(again.data, data, size) != 0);
		/* The request of any good job is one head and the body. */
		BUG_ON(courier_request(&j, slice_of("a-secret"), 1700000000, &out) < 0);
		struct http1_head h = HTTP1_HEAD_INIT;
		long n = http1_parse_request(&h, out.data, out.len);

		BUG_ON(n <= 0 || (size_t)n + j.body.len != out.len || !host_eq(&h.host, &j.host));
		return;
	}
}

static void compare(int r, int c, const struct courier_response *whole, const struct courier_response *cut)
{
	BUG_ON((r < 0) != (c < 0) && !whole->has_head);
	BUG_ON(r >= 0 && c >= 0 && whole->status != cut->status);
	BUG_ON(whole->text.len > RESPONSE_TEXT_MAX || cut->text.len > RESPONSE_TEXT_MAX);
	BUG_ON(r == 1 && (whole->status < 200 || whole->status > 999));
	BUG_ON(r < 0 && !whole->why);
}

static void answer(const uint8_t *data, size_t size)
{
	struct courier_response whole, cut;
	size_t step = size ? data[0] % 7 + 1 : 1;
	int r, c = 0;

	courier_response_init(&whole, "POST");
	courier_response_init(&cut, "POST");
	r = courier_response_feed(&whole, (const char *)data, size);
	for (size_t at = 0; at < size && c == 0; at += step)
		c = courier_response_feed(&cut, (const char *)data + at, size - at < step ? size - at : step);
	compare(r, c, &whole, &cut);
	courier_response_release(&whole);
	courier_response_release(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct courier_result res;

	if (size == 0)
		return 0;
	if (data[0] % 3 == 0)
		job(data + 1, size - 1);
	else if (data[0] % 3 == 1)
		(void)!courier_result_check(data + 1, size - 1, &res);
	else
		answer(data + 1, size - 1);
	return 0;
}
