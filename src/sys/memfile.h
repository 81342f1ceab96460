/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files (memfd_create) with content. */
#ifndef SYS_MEMFILE_H
#define SYS_MEMFILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* A descriptor at offset 0 of a file with these bytes. With `seal` no process can change it any more. */
int memfile_make(const char *name, const void *data, size_t len, bool seal, struct err *e) MUST_CHECK;

#endif
