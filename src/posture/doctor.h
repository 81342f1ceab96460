/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor: what this host offers, tried out rather than read off. */
#ifndef POSTURE_DOCTOR_H
#define POSTURE_DOCTOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_INFO, /* not there, and nothing is worse for it */
	DOCTOR_WARN, /* coffer run works, with one layer or limit less, which it says */
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
	const char *meaning;	       /* what it is good for, and what follows where it is missing */
	const char *fix[DISTRO_COUNT]; /* exact commands; NULL: nothing to do */
};

struct finding {
	const struct doctor_check *check;
	enum doctor_status status;
	char detail[256]; /* what was found, one line */
};

/* For the probes. */
void finding_set(struct finding *f, enum doctor_status s, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct doctor {
	struct finding *findings;
	size_t n;
	char kernel[128]; /* "6.18.0" */
	char system[128]; /* "Debian GNU/Linux 12 (bookworm)" */
	const char *who;  /* "root", "root of a user namespace", "an ordinary user" */
	int distro;	  /* enum doctor_distro, -1: another one */
};

/* Runs every check; takes at most a few seconds on a host where many hang. */
int doctor_run(struct doctor *ret, struct err *e) MUST_CHECK;
void doctor_release(struct doctor *d);

/* No check failed. */
bool doctor_can_run(const struct doctor *d);

#endif
