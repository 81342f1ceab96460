/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published ports (-p): sockets that listen on the host, each for one port on the sandbox's own loopback. For each
 * connection coffer-init connects to that port (supervise_port.c), so this works with every engine, and without a network.
 *
 * Invariant: an address that other machines can reach is opened only on request. Loopback is the default, a private
 * address must be typed, any other address also needs --public.
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

/* "[ADDR:]PORT:PORT"; port 0 takes any free port. The resulting addresses are described in spec->ports. */
int ports_open(struct ports *p, const struct strv *texts, bool public, struct spec *s,
	       struct err *e) MUST_CHECK;
void ports_release(struct ports *p);

#endif
