/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of this machine that lead inside (-p): sockets that listen here, each for one port of the sandbox's own loopback.
 * coffer-init dials there when a connection comes (supervise_port.c); so it works with every engine, and without a network.
 *
 * Invariant: what others than this machine can reach is opened only when somebody said so: loopback is free, a private
 * address is what was typed, anything else wants --public.
 */
#ifndef RUN_PORTS_H
#define RUN_PORTS_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

#define PORTS_MAX 64

struct port {
	int fd; /* listening, non-blocking */
	uint16_t inside;
	bool is_public;
	char text[64]; /* "127.0.0.1:8080" */
};

struct ports {
	struct port *v;
	size_t n;
};

/* "[ADDR:]PORT:PORT"; port 0 takes any that is free. What came of it stands in spec->ports. */
int ports_open(struct ports *p, const struct strv *texts, bool public, struct spec *s,
	       struct err *e) MUST_CHECK;
void ports_release(struct ports *p);

#endif
