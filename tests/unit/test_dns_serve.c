/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of the resolver on a clock of their own: what is asked and when, what coffer-dial is asked and says, what is
 * answered and written down. The other end of the dialler's socket is ours.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/core/dns_serve.h"
#include "ipc/fdpass.h"
#include "policy/build.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct egress eg;
static int dial, journal;

/* A client of a test; keeps the last response. */
struct asker {
	struct dns_client base;
	unsigned answers;
	int rcode;
	unsigned an;
	char addr[16];
	unsigned kept;
};

static void asker_send(struct dns_client *c, const uint8_t *msg, size_t len)
{
	struct asker *a = (struct asker *)c;

	a->answers++;
	a->rcode = msg[3] & 15;
	a->an = msg[7];
	a->addr[0] = '\0';
	/* An answer ends with its address; behind it nothing, for these queries have no EDNS. */
	if (a->an)
		snprintf(a->addr, sizeof(a->addr), "%u.%u.%u.%u", msg[len - 4], msg[len - 3], msg[len - 2],
			 msg[len - 1]);
}

static size_t asker_max(const struct dns_client *c, const struct dns_query *q)
{
	(void)c;
	(void)q;
	return 512;
}

static struct dns_client *asker_keep(struct dns_client *c)
{
	((struct asker *)c)->kept++;
	return c;
}

static void asker_drop(struct dns_client *c)
{
	((struct asker *)c)->kept--;
}

static const struct dns_client_ops ops = { asker_send, asker_max, asker_keep, asker_drop };

static void ask(struct asker *a, const char *name, uint16_t type)
{
	uint8_t msg[300] = { 1, 2, 1, 0, 0, 1 };
	size_t n = 12;

	a->base = (struct dns_client){ &ops, eg.dns };
	for (const char *p = name; *p;) {
		size_t len = strcspn(p, ".");

		msg[n++] = (uint8_t)len;
		memcpy(msg + n, p, len);
		n += len;
		p += len + (p[len] == '.');
	}
	msg[n++] = 0;
	msg[n++] = (uint8_t)(type >> 8);
	msg[n++] = (uint8_t)type;
	msg[n++] = 0;
	msg[n++] = 1;
	dns_serve_query(eg.dns, &a->base, msg, n);
}

/* The next request at dial, or false when there is none. */
static bool asked(struct dial_req *ret)
{
	return recv(dial, ret, sizeof(*ret), MSG_DONTWAIT) == (ssize_t)sizeof(*ret);
}

static void say(uint32_t id, int status)
{
	struct dial_rep rep = { .type = DIAL_REP, .id = id, .status = status, .ttl = 60 };

	if (status < 0)
		snprintf(rep.why, sizeof(rep.why), "said so");
	CHECK(send(dial, &rep, sizeof(rep), 0) == (ssize_t)sizeof(rep));
	CHECK(loop_round(&eg.loop, NULL) == 0);
	egress_settle(&eg);
}

static bool written(const char *text)
{
	static char all[4 << 20];
	ssize_t n = pread(journal, all, sizeof(all) - 1, 0);

	all[n > 0 ? n : 0] = '\0';
	return strstr(all, text) != NULL;
}

/* How many lines of the journal have this in them. */
static unsigned times(const char *text)
{
	static char all[4 << 20];
	ssize_t len = pread(journal, all, sizeof(all) - 1, 0);
	unsigned n = 0;

	all[len > 0 ? len : 0] = '\0';
	for (const char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n"))
		n += strstr(line, text) != NULL;
	return n;
}

static struct policy *policy(const char *allow, const char *deny)
{
	const struct policy_layer_opts none = { 0 };
	struct policy_rule r = POLICY_RULE_INIT, d = POLICY_RULE_INIT;
	struct policy *p = NULL;
	unsigned layer = 0;

	r.action = POLICY_ALLOW;
	r.ports[r.n_ports++] = (struct policy_ports){ 443, 443 };
	d.action = POLICY_DENY;
	d.ports[d.n_ports++] = (struct policy_ports){ 1, 65535 };
	CHECK(policy_new(POLICY_ENFORCE, &p, NULL) == 0 && policy_add_layer(p, &none, &layer, NULL) == 0 &&
	      hostpat_parse(allow, strlen(allow), &r.host, NULL) == 0 &&
	      hostpat_parse(deny, strlen(deny), &d.host, NULL) == 0 &&
	      policy_add_rule(p, layer, &r, NULL) == 0 && policy_add_rule(p, layer, &d, NULL) == 0 &&
	      policy_seal(p, NULL) == 0);
	return p;
}

static void begin(void)
{
	int pair[2];
	struct err e = ERR_INIT;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	dial = pair[1];
	journal = memfd_create("journal", MFD_CLOEXEC);
	CHECKF(egress_init(&eg, journal, pair[0], &e) == 0 && egress_init_names(&eg, -1, &e) == 0,
	       "the DNS server starts %s", e.msg);
	eg.loop.clock = NULL;
	eg.now = 1000 * NSEC_PER_SEC;
	eg.policy = policy("*.example.test", "bad.example.test");
}

static void finish(void)
{
	policy_free(eg.policy);
	eg.policy = NULL;
	egress_release(&eg);
	close(dial);
	close(journal);
}

static void test_life(void)
{
	struct asker a = { 0 }, b = { 0 }, c = { 0 };
	struct dial_req req, more;
	char first[16];

	begin();
	ask(&a, "denied.test", DNS_A);
	CHECKF(a.rcode == DNS_NXDOMAIN && a.answers == 1, "a denied name is NXDOMAIN");
	ask(&a, "bad.example.test", DNS_A);
	CHECK(a.rcode == DNS_NXDOMAIN && a.answers == 2);
	egress_settle(&eg);
	CHECKF(!asked(&req), "a denied name is not looked up by dial");
	CHECK(written("\"name\":\"denied.test\",\"qtype\":\"A\",\"decision\":\"deny\""));
	ask(&a, "Www.Example.test", DNS_A);
	ask(&b, "www.example.TEST", DNS_AAAA);
	CHECKF(!asked(&req), "no lookup leaves before the journal is written");
	egress_settle(&eg);
	CHECKF(written("\"name\":\"www.example.test\",\"qtype\":\"A\",\"decision\":\"allow\"") &&
		       times("www.example.test") == 1,
	       "a new name has its line before its lookup");
	CHECK(asked(&req) && !asked(&more) && (req.flags & DIAL_RESOLVE_ONLY) && req.port == 0);
	CHECK_STR(req.host, "www.example.test");
	CHECKF(a.answers == 2 && a.kept == 1 && b.kept == 1, "two queries for one name wait for one lookup");
	say(req.id, 0);
	CHECK(a.answers == 3 && a.rcode == 0 && a.an == 1 && a.kept == 0);
	CHECKF(b.answers == 1 && b.rcode == 0 && b.an == 0 && b.kept == 0,
	       "AAAA of a name with A only is empty");
	CHECKF(times("\"name\":\"www.example.test\",\"qtype\":\"A\"") == 1,
	       "the log has one line for two questions about a name");
	memcpy(first, a.addr, sizeof(first));
	eg.now += 7200 * NSEC_PER_SEC;
	ask(&c, "www.example.test", DNS_A);
	CHECKF(c.answers == 1 && strcmp(c.addr, first) == 0,
	       "a name keeps its address for two hours without a lookup");
	finish();
}

static void test_failures(void)
{
	struct asker a = { 0 };
	struct dial_req req;

	begin();
	ask(&a, "gone.example.test", DNS_A);
	egress_settle(&eg);
	CHECK(asked(&req));
	say(req.id, -ENOENT);
	CHECKF(a.rcode == DNS_NXDOMAIN, "a name that does not exist is NXDOMAIN");
	ask(&a, "lan.example.test", DNS_A);
	egress_settle(&eg);
	CHECK(asked(&req));
	say(req.id, -EPERM);
	CHECKF(a.rcode == DNS_NXDOMAIN && written("said so"),
	       "a name with a forbidden address is NXDOMAIN, and the reason is written");
	ask(&a, "slow.example.test", DNS_A);
	egress_settle(&eg);
	CHECK(asked(&req));
	say(req.id, -ETIMEDOUT);
	CHECKF(a.rcode == DNS_SERVFAIL, "a name that cannot be resolved now is SERVFAIL");
	ask(&a, "late.example.test", DNS_A);
	egress_settle(&eg);
	CHECK(asked(&req));
	policy_free(eg.policy);
	eg.policy = policy("*.other.test", "bad.test");
	say(req.id, 0);
	CHECKF(a.rcode == DNS_NXDOMAIN && eg.names.n == 0,
	       "a name that a new policy denies during its lookup gets no address");
	policy_free(eg.policy);
	eg.policy = NULL;
	ask(&a, "www.other.test", DNS_A);
	CHECKF(a.rcode == DNS_NXDOMAIN, "without a policy everything is denied");
	CHECK(eg.dial.n_free == DIAL_IN_FLIGHT_MAX);
	finish();
}

static void test_bounds(void)
{
	static struct asker many[6000], later;
	struct dial_req req;
	unsigned at_dial = 0, failed = 0;
	char name[64];

	begin();
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++) {
		snprintf(name, sizeof(name), "n%u.example.test", i);
		ask(&many[i], name, DNS_A);
		failed += many[i].answers && many[i].rcode == DNS_SERVFAIL;
		if (i % 100 == 99)
			egress_settle(&eg); /* a round has no more than that */
	}
	CHECKF(failed == 6000 - DNS_RESOLVE_BURST,
	       "of 6000 names at once DNS_RESOLVE_BURST are looked up, the others fail at once");
	/* The socket to dial holds less than that: it is emptied as dial would. */
	for (int i = 0; i < 1000 && at_dial < DNS_RESOLVE_BURST; i++) {
		egress_settle(&eg);
		while (asked(&req))
			at_dial++;
	}
	CHECK(at_dial == DNS_RESOLVE_BURST);
	eg.now += NSEC_PER_SEC;
	ask(&later, "later.example.test", DNS_A);
	failed = later.answers;
	CHECKF(failed == 0, "a name is looked up again a second after the burst");
	many[0].answers = 0;
	for (unsigned i = 0; i < DNS_WAITERS_MAX; i++)
		ask(&many[0], "n0.example.test", DNS_A);
	CHECKF(many[0].kept < DNS_WAITERS_MAX && many[0].answers > 0,
	       "at most DNS_WAITERS_MAX queries wait for one name");
	finish();
}

static void test_journal_fails(void)
{
	struct asker a = { 0 };
	struct dial_req req;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (full < 0) {
		tap_skip("a lookup fails when the journal cannot be written", "no /dev/full");
		return;
	}
	begin();
	eg.journal.fd = full;
	ask(&a, "bad.example.test", DNS_A); /* its line cannot be written … */
	ask(&a, "www.example.test", DNS_A);
	egress_settle(&eg);
	CHECKF(!asked(&req) && a.rcode == DNS_SERVFAIL,
	       "an unwritten line of the journal stops all lookups of its round");
	eg.journal.fd = journal;
	egress_settle(&eg);
	CHECKF(written("bad.example.test"),
	       "a line of the journal is written later when it could not be at first");
	eg.journal.fd = full;
	a = (struct asker){ 0 };
	ask(&a, "alone.example.test", DNS_A);
	egress_settle(&eg);
	CHECKF(!asked(&req) && a.rcode == DNS_SERVFAIL,
	       "a new name is not looked up when its own line cannot be written");
	eg.journal.fd = journal;
	egress_settle(&eg);
	ask(&a, "alone.example.test", DNS_A);
	egress_settle(&eg);
	CHECKF(asked(&req) && strcmp(req.host, "alone.example.test") == 0,
	       "once the journal can be written the same name is looked up");
	CHECK(written("\"name\":\"alone.example.test\",\"qtype\":\"A\",\"decision\":\"allow\""));
	finish();
	close(full);
}

static void turn(uint64_t after)
{
	struct ledger *l = &eg.ledger;

	eg.now += after;
	loop_timer_off(&eg.loop, &l->turn);
	l->turn.fn(&l->turn);
	egress_settle(&eg);
}

/* The first lookup of a name has a line of its own, whatever comes of it, or waits for one. */
static void test_room(void)
{
	struct asker a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	struct dial_req req = { 0 }, more = { 0 };

	begin();
	eg.ledger.credit = 2 * NSEC_PER_SEC / LEDGER_RATE;
	eg.ledger.at = eg.now;
	ask(&a, "a.example.test", DNS_A);
	ask(&b, "nx.example.test", DNS_A);
	ask(&c, "c.example.test", DNS_A);
	egress_settle(&eg);
	CHECKF(asked(&req) && asked(&more) && c.kept == 1 && c.answers == 0,
	       "a new name waits when the log has no room for its line");
	CHECKF(times("nx.example.test") == 1 && times("\"decision\":\"allow\"") == 2 &&
		       times("\"first\":1") == 2 && times("c.example.test") == 0,
	       "a name with room has a line before its answer, a waiting name has none");
	say(req.id, 0);
	say(more.id, -ENOENT);
	CHECKF(!asked(&req), "a lookup without a line in the log does not leave");
	CHECK(a.rcode == 0 && a.an == 1 && b.rcode == DNS_NXDOMAIN);
	CHECKF(written("\"name\":\"nx.example.test\",\"qtype\":\"A\",\"decision\":\"error\",\"why\":\"there "
		       "is no such name\",\"first\":1"),
	       "a lookup that fails has a second line that says why");
	ask(&a, "a.example.test", DNS_A);
	CHECKF(a.answers == 2, "a known name is answered without a wait");
	ask(&d, "d.example.test", DNS_A);
	turn(NSEC_PER_SEC / LEDGER_RATE);
	CHECKF(asked(&req) && strcmp(req.host, "c.example.test") == 0 && d.answers == 0,
	       "waiting names are looked up in their order when there is room");
	say(req.id, 0);
	CHECK(c.answers == 1 && c.kept == 0);
	eg.ledger.at = UINT64_MAX;
	turn(LEDGER_WAIT);
	CHECKF(d.answers == 1 && d.rcode == DNS_SERVFAIL && d.kept == 0 && !asked(&req),
	       "a name that waited too long is SERVFAIL");
	eg.ledger.max = 1;
	ask(&d, "full.example.test", DNS_A);
	CHECKF(d.answers == 2 && d.rcode == DNS_SERVFAIL && !asked(&req),
	       "a new name is SERVFAIL when the log is full: that is not the name's fault, and is not cached");
	ask(&a, "a.example.test", DNS_A);
	CHECKF(a.answers == 3 && a.an == 1, "a known name is answered when the log is full");
	egress_settle(&eg);
	CHECK(written("\"kind\":\"log_full\"") && written(LEDGER_WHY_FULL));
	eg.ledger.max = LEDGER_BYTES;
	eg.ledger.credit = NSEC_PER_SEC;
	ask(&d, "last.example.test", DNS_A);
	ask(&c, "never.example.test", DNS_A);
	egress_settle(&eg);
	CHECK(d.kept == 1 && c.kept == 1);
	policy_free(eg.policy);
	eg.policy = NULL;
	egress_release(&eg);
	CHECKF(written("\"name\":\"last.example.test\",\"qtype\":\"A\",\"decision\":\"error\",\"why\":\"the run ended before the "
		       "lookup was answered\",\"first\":1"),
	       "a lookup that is open at the end of the run has its line");
	CHECK(d.kept == 0 && c.kept == 0);
	close(dial);
	close(journal);
}

/* In the journal "*" stands for many, and is never folded. */
static void test_star(void)
{
	struct asker a = { 0 };

	begin();
	ask(&a, "*", DNS_A);
	egress_settle(&eg);
	CHECK(a.answers == 1);
	CHECKF(written("\"name\":\"*.\"") && !written("\"name\":\"*\""),
	       "a lookup of the name '*' is not written as the sum of many lookups");
	finish();
}

int main(void)
{
	test_star();
	test_room();
	test_life();
	test_failures();
	test_bounds();
	test_journal_fails();
	return tap_done();
}
