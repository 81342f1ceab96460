/* SPDX-License-Identifier: Apache-2.0 */
/* What the search for credentials is made of; see shape.h. */
#ifndef VAULT_SHAPE_INT_H
#define VAULT_SHAPE_INT_H

#include "vault/common/shape.h"

/* One that people write to show what one looks like. */
bool shape_is_example(const char *body, size_t len);

/* shape_text.c: those that are told by what stands around them, or by how they are put together. Its length from `s` on, 0: none. */
size_t shape_text_at(const char *s, size_t len, const struct shape **ret);
/* The same for "://" at `s`: what lies between it and the host. */
size_t shape_url_at(const char *s, size_t len, const struct shape **ret);
/* With which bytes they may begin. */
#define SHAPE_TEXT_FIRST "aAsSMNOh"

#endif
