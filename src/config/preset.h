/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presets: rules for well-known services, shipped as data (src/config/presets, in YAML, built in) with a version and
 * parameters. In a file:
 *	presets: [npm, {github-triage: {repos: [owner/name]}}]
 * and on the command line: --allow @npm, --allow '@github-triage(repos=owner/name,repos=owner/other)'.
 *
 * ${NAME} in a preset's text refers to a parameter. A list element that refers to a list parameter is
 * repeated for each value. A value has a type, and no type permits a pattern: a parameter never widens a rule.
 */
#ifndef CONFIG_PRESET_H
#define CONFIG_PRESET_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

struct preset {
	const char *name;
	const char *text; /* YAML */
};

extern const struct preset presets[];
extern const size_t n_presets;

const struct preset *preset_find(const char *name); /* NULL if there is none */

/* Its heading, for lists: the version, one sentence, its parameters as people write them ("repos,
 * [prefix]"). */
int preset_about(const struct preset *p, unsigned *ret_version, struct buf *about, struct buf *params,
		 struct err *e) MUST_CHECK;

/*
 * The same rules as a policy file of their own, to use or to change. A parameter gets its default, or an example if it has none,
 * and a comment at the top names it.
 */
int preset_as_policy(const struct preset *p, struct buf *out, struct err *e) MUST_CHECK;

#endif
