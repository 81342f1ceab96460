/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the changes of a run to the original directory. Never writes outside it, and never runs a program.
 */
#ifndef WORKSPACE_APPLY_H
#define WORKSPACE_APPLY_H

#include "base/err.h"
#include "base/str.h"
#include "workspace/change/changes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Credentials found in one file. Those that are not the vault's are recorded by digest, so that a replaced one is noticed. */
#define APPLY_TOKENS_MAX 1000
#define APPLY_DIGEST_LEN 32
struct apply_token {
	const char *what; /* static text */
	unsigned char digest[APPLY_DIGEST_LEN];
};

struct apply_found {
	bool ours; /* one of the vault's */
	size_t n;  /* APPLY_TOKENS_MAX: there may be more */
	struct apply_token *tokens;
};

struct apply_plan {
	const struct changes *all;
	const unsigned char *go; /* for each: 1 when it will be applied */
	size_t n_go;
	const struct changes *refused; /* requested changes that will not be applied, with their reasons */
	/* With apply_opts.bind: over everything that will be written (digest.h). */
	unsigned char digest[APPLY_DIGEST_LEN];
};

/* Adds one; -ENOMEM. Entries beyond APPLY_TOKENS_MAX are left out. */
int apply_found_add(struct apply_found *f, const char *what,
		    const unsigned char digest[APPLY_DIGEST_LEN]) MUST_CHECK;

struct apply_opts {
	struct strv paths;	   /* only these (and below); empty: all */
	struct strv allow_special; /* --allow-special PATH */
	struct strv
		allow_trigger; /* --allow PATH: its own yes for what the host may run, or what is masked */
	struct strv force;     /* --force PATH: although the original changed */
	const struct obeyed *obeyed; /* files that coffer itself obeys (obeyed.h); NULL: none */
	bool dry_run;
	/* before() may take long: afterwards exactly the plan that it saw is written, by its digest, or nothing. */
	bool bind;
	/* Called after all decisions and before the first write; a negative return aborts. May be NULL. */
	int (*before)(void *arg, const struct apply_plan *plan, struct err *e);
	/* Searches a file that would be applied, and its original, for credentials: a credential that the original does not
	 * have, or any of the vault's, needs a yes (--allow PATH). An error aborts. May be NULL. */
	int (*look)(void *arg, int fd, struct apply_found *ret, struct err *e);
	void *arg;
};

struct apply_result {
	size_t total;		/* all changes of the run */
	size_t asked;		/* of those, within `paths` */
	size_t applied;		/* in a dry run: would be applied */
	struct changes refused; /* requested and not applied, with flags and reasons */
};

/*
 * Applies changes to the original directory. Never writes outside it, whatever the sandbox left in the layer and whatever
 * happens to the directory meanwhile. A change that cannot be applied is listed as refused with its reason; the others are
 * still applied. Applied changes are on the disk when it returns.
 */
int workspace_apply(int upper_fd, int lower_fd, uint64_t since, const struct apply_opts *o,
		    struct apply_result *ret, struct err *e) MUST_CHECK;
void apply_result_release(struct apply_result *r);

#endif
