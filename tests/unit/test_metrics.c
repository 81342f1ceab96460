/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "daemon/metrics/metrics.h"
#include "tap.h"

#include <string.h>

static void test_ask(void)
{
	static const struct {
		const char *text;
		enum metrics_ask ask;
		unsigned status;
	} rows[] = {
		{ "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_TEXT, 0 },
		{ "GET /metrics HTTP/1.0\r\n\r\n", METRICS_TEXT, 0 },
		{ "GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_TEXT, 0 },
		{ "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_HEAD, 0 },
		{ "GET /metrics HTTP/1.1\r\nHost: x\r\n", METRICS_MORE, 0 },
		{ "", METRICS_MORE, 0 },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_REFUSE, 404 },
		{ "GET /metrics/../x HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_REFUSE, 404 },
		{ "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", METRICS_REFUSE, 405 },
		{ "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", METRICS_REFUSE, 400 },
		{ "GET /metrics HTTP/1.1\r\n\r\n", METRICS_REFUSE, 400 },
		{ "GET /metrics\r\n\r\n", METRICS_REFUSE, 400 },
		{ "\x16\x03\x01 hello\r\n\r\n", METRICS_REFUSE, 400 },
	};
	char long_one[METRICS_ASK_MAX + 1];
	unsigned status;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum metrics_ask a = metrics_parse(rows[i].text, strlen(rows[i].text), &status);

		CHECKF(a == rows[i].ask && (a != METRICS_REFUSE || status == rows[i].status),
		       "request %zu of the list gets its verdict: %u %u", i, a, status);
	}
	memset(long_one, 'a', sizeof(long_one));
	memcpy(long_one, "GET /", 5); // NOLINT(bugprone-not-null-terminated-result): it has no end
	CHECKF(metrics_parse(long_one, sizeof(long_one), &status) == METRICS_REFUSE,
	       "an endless request is refused: %u", status);
}

static bool has(const struct buf *b, const char *text)
{
	return strstr(buf_cstr(b), text) != NULL;
}

static json_t *of(const char *text)
{
	return metrics_snapshot(text, strlen(text));
}

static void test_text(void)
{
	autobuf struct buf out = BUF_INIT;
	json_t *egress = of(
		"{\"generation\":2,\"connections\":{\"open\":1,\"allowed\":7,\"denied\":\"no number\"},"
		"\"bytes\":{\"up\":12345678901,\"down\":-1},\"budget\":{\"bytes_up_max\":1000,\"bytes_up\":10},"
		"\"asking\":3,\"inspect\":{\"held_bytes\":4096}}");
	json_t *dial = of(
		"{\"proxies\":[{\"pool\":\"a\\\"b\\\\c\\nd\",\"proxy\":\"p:1\",\"state\":\"up\",\"score\":0.5,"
		"\"used\":3},7]}");
	json_t *asks = of("{\"pending\":2,\"asked\":9,\"allowed\":4,\"denied\":2,\"expired\":1,\"shed\":-3}");
	struct metrics_sandbox s[] = { { .id = "aaa",
					 .name = "one",
					 .engine = "ns",
					 .started = 5 * NSEC_PER_SEC,
					 .egress = egress,
					 .dial = dial,
					 .asks = asks },
				       { .id = "bbb", .engine = "gvisor" } };
	const struct metrics_all a = { .sandboxes = s,
				       .n = 2,
				       .pool = { 3, 1, 2, 4096 },
				       .audit_seq = 99,
				       .has_audit = true,
				       .web = { .stats = { .responses = { [0] = 12, [WEB_STATUS_COUNT] = 1 },
							   .streams = 5 },
						.deaths = 2 } };

	metrics_text(&a, &out);
	CHECK(egress && dial);
	CHECK(has(&out, "\ncoffer_sandboxes 2\n"));
	CHECK(has(&out,
		  "\ncoffer_sandbox_start_time_seconds{sandbox=\"aaa\",name=\"one\",engine=\"ns\"} 5\n"));
	CHECK(has(&out, "\ncoffer_egress_up{sandbox=\"aaa\",name=\"one\"} 1\n"));
	CHECK(has(&out, "\ncoffer_egress_up{sandbox=\"bbb\",name=\"\"} 0\n"));
	CHECK(has(&out,
		  "\ncoffer_egress_connections_total{sandbox=\"aaa\",name=\"one\",result=\"allowed\"} 7\n"));
	CHECKF(!has(&out, "result=\"denied\"} no"), "a value that is no number does not become a sample");
	CHECK(has(
		&out,
		"\ncoffer_egress_bytes_total{sandbox=\"aaa\",name=\"one\",direction=\"up\"} 12345678901\n"));
	CHECK(has(&out, "\ncoffer_egress_budget_bytes_up{sandbox=\"aaa\",name=\"one\",of=\"used\"} 10\n"));
	CHECKF(has(&out, "pool=\"a\\\"b\\\\c?d\",proxy=\"p:1\",state=\"up\"} 0.5\n"),
	       "special characters in a label are escaped");
	CHECK(has(&out, "\ncoffer_pool_ready 3\n") && has(&out, "\ncoffer_pool_memory_bytes 4096\n"));
	CHECK(has(&out, "\ncoffer_audit_events_total 99\n"));
	CHECK(has(&out, "\ncoffer_egress_held_bytes{sandbox=\"aaa\",name=\"one\"} 4096\n") &&
	      has(&out, "\ncoffer_egress_requests_asking{sandbox=\"aaa\",name=\"one\"} 3\n"));
	CHECK(has(&out, "\ncoffer_asks_pending{sandbox=\"aaa\",name=\"one\"} 2\n"));
	CHECK(has(&out, "\ncoffer_asks_answered_total{sandbox=\"aaa\",name=\"one\",verdict=\"allow\"} 4\n"));
	CHECK(has(&out, "\ncoffer_asks_answered_total{sandbox=\"aaa\",name=\"one\",verdict=\"deny\"} 2\n"));
	CHECK(has(&out, "\ncoffer_asks_expired_total{sandbox=\"aaa\",name=\"one\"} 1\n"));
	CHECK(has(
		&out,
		"\ncoffer_api_requests_total{status=\"200\"} 12\ncoffer_api_requests_total{status=\"other\"} 1\n"));
	CHECK(has(&out, "\ncoffer_api_streams 5\n") && has(&out, "\ncoffer_web_restarts_total 2\n"));
	CHECKF(of("[]") == NULL && of("{") == NULL && of("") == NULL && of("{\"a\":1,\"a\":2}") == NULL,
	       "a text that is no well-formed object is no snapshot");
	json_decref(egress);
	json_decref(dial);
	json_decref(asks);
}

int main(void)
{
	test_ask();
	test_text();
	return tap_done();
}
