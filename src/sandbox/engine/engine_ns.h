/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of engine ns, as far as engine gvisor, which lives in the same namespaces, uses it too. */
#ifndef SANDBOX_ENGINE_NS_H
#define SANDBOX_ENGINE_NS_H

#include "sandbox/engine/engine.h"
#include "sandbox/engine/ns_inside.h"

/* spawn of either engine. gv: the child executes runsc with this instead of coffer-init; NULL: coffer-init. */
int ns_spawn_with(const struct spec *s, struct cgroup *cg, const struct gv_start *gv, struct engine_run *run,
		  struct err *e) MUST_CHECK;

/* release of either engine. */
int ns_release(const struct spec *s, const struct cgroup *cg, struct engine_run *run,
	       struct err *e) MUST_CHECK;

/* Waits until the child has executed its program. It fills in the members of run->layers that only the child knows. */
int ns_wait_exec(const struct spec *s, struct engine_run *run, struct err *e) MUST_CHECK;

#endif
