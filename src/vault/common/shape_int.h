/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the search for credentials in text; see shape.h. */
#ifndef VAULT_SHAPE_INT_H
#define VAULT_SHAPE_INT_H

#include "vault/common/shape.h"

/* Is it an example that people write to show the format? */
bool shape_is_example(const char *body, size_t len);

/* shape_text.c: credentials that are recognised by their context or structure. The length from `s` on, 0:
 * none. */
size_t shape_text_at(const char *s, size_t len, const struct shape **ret);
/* The same for a "://" at `s`: a password before the host. */
size_t shape_url_at(const char *s, size_t len, const struct shape **ret);
/* The bytes that these credentials can begin with. */
#define SHAPE_TEXT_FIRST "aAsSMNOh"

#endif
