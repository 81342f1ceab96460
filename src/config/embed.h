/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the programs carry with them, as tools/embed writes them. */
#ifndef CONFIG_EMBED_H
#define CONFIG_EMBED_H

#include <stddef.h>

struct embed {
	const char *name, *text;
};

extern const struct embed embed_profiles[];
extern const size_t embed_profiles_n;

#endif
