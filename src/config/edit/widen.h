/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the text of a rule that an agent requests into a rule (policy/build.h: policy_widen()). The text is hostile. Forms:
 *
 *	api.example.com			port 443
 *	api.example.com:8443		api.example.com:any, *.example.com, 93.184.216.34:22
 *	GET,POST https://api.example.com/v1	single requests, paths as in a policy; http:// is port 80
 *	GET http(s)://api.example.com:8080/v1	on other ports a rule allows both; this spelling is shown in either case
 *
 * Refused are rules that a policy file could not have, and those that would need more than a host to be granted: names of private
 * networks, ranges of addresses, presets.
 */
#ifndef CONFIG_WIDEN_EDIT_H
#define CONFIG_WIDEN_EDIT_H

#include "base/buf.h"
#include "policy/build.h"

#define WIDEN_TEXT_MAX 512

/* *canon (may be NULL) gets its canonical spelling, in ASCII without control bytes, which is shown to
 * people. */
int widen_parse(const char *text, struct policy_rule *ret, struct buf *canon, struct err *e) MUST_CHECK;

#endif
