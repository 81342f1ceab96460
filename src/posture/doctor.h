/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor: what this host supports, found by trying instead of by reading versions. */
#ifndef POSTURE_DOCTOR_H
#define POSTURE_DOCTOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_INFO, /* missing, without a disadvantage */
	DOCTOR_WARN, /* coffer run works, with one layer or limit less, and says so */
	DOCTOR_FAIL, /* coffer run cannot work */
	DOCTOR_STATUS_COUNT
};
const char *doctor_status_name(enum doctor_status s); /* "ok", "info", "warn", "fail" */

enum doctor_distro { DISTRO_DEBIAN, DISTRO_UBUNTU, DISTRO_FEDORA, DISTRO_COUNT };
const char *doctor_distro_name(enum doctor_distro d); /* "debian", … */

struct finding;

/* One row of the table. */
struct doctor_check {
	const char *id;	   /* for --json: "userns" */
	const char *title; /* "user namespaces" */
	void (*probe)(struct finding *f);
	const char *meaning;	       /* what it is for, and the consequence if it is missing */
	const char *fix[DISTRO_COUNT]; /* exact commands; NULL: nothing to do */
};

struct finding {
	const struct doctor_check *check;
	enum doctor_status status;
	char detail[256]; /* the result, one line */
};

/* Sets status and result of a finding; for the checks. */
void finding_set(struct finding *f, enum doctor_status s, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct doctor {
	struct finding *findings;
	size_t n;
	char kernel[128]; /* "6.18.0" */
	char system[128]; /* "Debian GNU/Linux 12 (bookworm)" */
	const char *who;  /* "root", "root of a user namespace", "an ordinary user" */
	int distro;	  /* -1: unknown */
};

/* Runs every check. One that hangs is ended after PROBE_MSEC (probe.h), so that the others still run. */
int doctor_run(struct doctor *ret, struct err *e) MUST_CHECK;
void doctor_release(struct doctor *d);

/* True if no check failed. */
bool doctor_can_run(const struct doctor *d);

#endif
