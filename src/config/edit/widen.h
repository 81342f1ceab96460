/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a rule that an agent asks for, into a rule (policy/build.h: policy_widen()). The text is hostile. Forms:
 *
 *	api.example.com			port 443
 *	api.example.com:8443		api.example.com:any, *.example.com, 93.184.216.34:22
 *	GET,POST https://api.example.com/v1	single requests, paths as in a policy; http:// is port 80
 *	GET http(s)://api.example.com:8080/v1	on other ports a rule opens both, and whichever was written, this is shown
 *
 * What a policy file could not say is refused, and so is what would need more than a host to be granted: names of private
 * networks, ranges of addresses, presets.
 */
#ifndef CONFIG_WIDEN_EDIT_H
#define CONFIG_WIDEN_EDIT_H

#include "base/buf.h"
#include "policy/build.h"

#define WIDEN_TEXT_MAX 512

/* *canon (may be NULL) gets the one spelling of it, in ASCII without control bytes: what people are shown. */
int widen_parse(const char *text, struct policy_rule *ret, struct buf *canon, struct err *e) MUST_CHECK;

#endif
