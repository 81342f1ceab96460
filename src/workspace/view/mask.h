/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by mask.c and mask_layer.c: the search for entries to hide. */
#ifndef WORKSPACE_MASK_H
#define WORKSPACE_MASK_H

#include "workspace/view/view.h"

/* `copy_of`: the directory that a copied layer was laid over, as a path ("" where there is none); NULL: this is one
 * itself. In a copy no link is followed, and pipes and sockets are left alone: they are new ones. */
int mask_search(int dir_fd, const struct strv *show, const char *copy_of, struct mask **ret_masks,
		size_t *ret_n, struct err *e) MUST_CHECK;

/* Sorted, each once, and nothing below a directory that is hidden as a whole. */
void masks_tidy(struct mask *v, size_t *n);

#endif
