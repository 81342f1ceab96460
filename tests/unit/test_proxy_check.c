/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the proxies of a set, and that none begins on sets that a new policy has replaced. */
#include "base/cleanup.h"
#include "dial/proxy/proxy.h"
#include "policy/build.h"
#include "tap.h"

#include <sodium.h>

static struct loop loop;

static struct policy *make_policy(void)
{
	static struct policy_proxy proxy = { .port = 1 };
	struct policy_proxies set = { .name = "p",
				      .proxies = &proxy,
				      .n_proxies = 1,
				      .sticky_seconds = 60,
				      .check = "check.test:443" };
	struct policy_layer_opts o = { 0 };
	struct policy *p = NULL;
	unsigned layer;

	if (host_canon("127.0.0.1", 9, &proxy.host, NULL) < 0 || policy_new(POLICY_ENFORCE, &p, NULL) < 0 ||
	    policy_add_layer(p, &o, &layer, NULL) < 0 || policy_add_proxies(p, &set, NULL) < 0 ||
	    policy_seal(p, NULL) < 0)
		return NULL;
	return p;
}

static struct proxy_sets *make_sets(const struct policy *p)
{
	const struct proxy_env env = { .loop = &loop };
	struct proxy_sets *s = NULL;

	CHECK(proxy_sets_new(&s, &env, p, NULL, 0, NULL, NULL) == 0);
	return s;
}

static void be_silent(struct proxy_set *p)
{
	proxy_outcome(p, 0, TUNNEL_SILENT, false, 7, 0, "the proxy did not respond in time");
}

int main(void)
{
	struct policy *policy = make_policy();
	struct proxy_sets *s;
	struct proxy_set *p;

	CHECK(sodium_init() >= 0 && policy && loop_open(&loop, NULL) == 0);
	s = make_sets(policy);
	be_silent(proxy_sets_find(s, "p"));
	CHECKF(proxy_sets_find(s, "p")->member[0].check, "a proxy without a response is checked again");
	CHECKF(loop.timers, "a proxy's check begins in the next round");
	proxy_sets_free(s);
	CHECKF(!loop.timers, "a check ends with its sets");

	s = make_sets(policy);
	p = proxy_sets_find(s, "p");
	proxy_ref(p); /* a connection through it is being made */
	proxy_sets_free(s);
	be_silent(p);
	CHECKF(!p->member[0].check && !loop.timers, "no check begins after its proxy sets were freed");
	proxy_unref(p);
	policy_free(policy);
	loop_close(&loop);
	return tap_done();
}
