/* SPDX-License-Identifier: Apache-2.0 */
/* Every term of a verdict counts when two are compared. */
#include "policy/explain.h"
#include "tap.h"

#include <string.h>

/* Two verdicts that differ in every term. They have no names of members, so that a term which is added to the
 * struct and not here does not compile. */
#pragma GCC diagnostic error "-Wmissing-field-initializers"
static const struct policy_terms one = { { 1, 2, 3, 4 }, true,	   { { 1 } }, 443,  "ca",
					 "pool",	 "secret", "capture", true, true };
static const struct policy_terms other = { { 5, 6, 7, 8 }, false,    { { 2 } }, 444,   "CA",
					   "POOL",	   "SECRET", "CAPTURE", false, false };

/* clang-format off */
#define TERM(name) { #name, offsetof(struct policy_terms, name), sizeof(one.name) }
/* clang-format on */

static const struct {
	const char *name;
	size_t at, len;
} terms[] = {
	TERM(limits.bytes_up),
	TERM(limits.bandwidth),
	TERM(limits.requests_per_minute),
	TERM(limits.connections),
	TERM(pin),
	TERM(pin_port),
	TERM(has_pin), /* after the pin, which counts only with it */
	TERM(ca),
	TERM(proxy_set),
	TERM(secret),
	TERM(capture),
	TERM(secret_ask),
	TERM(credentials_only),
};

static void test_terms(void)
{
	static struct policy_verdict a, b, all;
	char ca[] = "ca";

	a.terms = one;
	all.terms = one;
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		const char *from = (const char *)&other + terms[i].at;

		b.terms = one;
		memcpy((char *)&b.terms + terms[i].at, from, terms[i].len);
		CHECKF(!policy_terms_eq(&a, &b) && !policy_terms_eq(&b, &a), "the term %s is compared",
		       terms[i].name);
		memcpy((char *)&all.terms + terms[i].at, from, terms[i].len);
	}
	// NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c): both are static, so their padding is zero
	CHECKF(memcmp(&all.terms, &other, sizeof(other)) == 0, "the table has every term");
	b = a;
	b.terms.ca = ca;
	CHECKF(policy_terms_eq(&a, &b), "equal texts at two places of memory are the same term");
	b.terms.ca = NULL;
	CHECKF(!policy_terms_eq(&a, &b) && !policy_terms_eq(&b, &a),
	       "a term that is not set differs from one that is");
	b = a;
	b.depth = POLICY_INSPECT;
	CHECKF(!policy_terms_eq(&a, &b), "two policies of different depth differ");
}

int main(void)
{
	test_terms();
	return tap_done();
}
