/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the engine for a run. It is made before anything of the run exists, and is final: an engine that was
 * chosen and then fails is an error, never a reason to take a weaker one.
 */
#ifndef SANDBOX_CHOOSE_H
#define SANDBOX_CHOOSE_H

#include "sandbox/engine/engine.h"
#include "sandbox/engine/runsc.h"

#define ENGINE_NAMES "auto ns gvisor"

struct choice {
	const struct engine *engine;
	bool by_itself;	    /* "auto": the caller gets a line about it */
	char why[256];	    /* of "auto" that is not gvisor: why not */
	bool named;	    /* the runsc was named, by the option or COFFER_RUNSC */
	struct runsc runsc; /* the program of engine gvisor */
};

#define CHOICE_INIT ((struct choice){ .runsc = RUNSC_INIT })

/*
 * `want` is one of ENGINE_NAMES, NULL: auto. `runsc` names one (runsc_open()), NULL: the one of COFFER_RUNSC, else the
 * usual one. Only where neither an engine nor a runsc was named may the choice fall back to ns; a named one that cannot be
 * used is an error. With gvisor the spec gets the program, and *map_ids is set where a range of ids is needed.
 */
int choose_engine(const char *want, const char *runsc, struct state *st, struct spec *s, bool *map_ids,
		  struct choice *ret, struct err *e) MUST_CHECK;
void choice_release(struct choice *c);

#endif
