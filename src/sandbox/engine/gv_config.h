/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox as an OCI bundle for runsc. Pure: a spec in, JSON out. Paths of the host's side are those of the little
 * root that runsc itself runs in (gv_inside.c), never the host's.
 */
#ifndef SANDBOX_GV_CONFIG_H
#define SANDBOX_GV_CONFIG_H

#include "base/buf.h"
#include "sandbox/spec/spec.h"

#define GV_ROOT "/guest"    /* the sandbox's root: nobody but it writes there while it runs */
#define GV_WORKSPACE "/ws"  /* a workspace that is not a layer, so that the host may change it meanwhile */
#define GV_HOME "/home"	    /* a named home */
#define GV_BIND "/bind-%zu" /* the spec's binds, by number */
#define GV_CA "/ca"	    /* certificates of a sandbox with an authority of its own */
#define GV_BUNDLE "/bundle"
#define GV_STATE "/state"
#define GV_STREAM_FD 3 /* the protocol's stream, the same number on both sides */

/* Whether the workspace stands in the root itself; otherwise it is a mount of its own. */
static inline bool gv_workspace_in_root(const struct spec *s)
{
	return s->ws_mode == WS_OVERLAY || s->ws_mode == WS_EPHEMERAL;
}

/*
 * Whether gVisor's kernel may use the host's files by itself, and not only through its gofer.
 *
 * What is hidden of the workspace is covered by a mount. gVisor's kernel has a mount namespace of its own, and there the
 * host's kernel would let it move or remove the covered name, with what is below. So each is a mount for gVisor's kernel
 * too; and where they are too many for that, have names that cannot be told, or the command may unmount them, all goes
 * through the gofer, for which they are mounts already.
 */
bool gv_directfs(const struct spec *s);

/*
 * How many tasks of the host the sandbox may have, for so many processes inside. gVisor keeps the limit itself, but not
 * for a command with a capability for it, which any command has in a user namespace that it makes; then this one ends the
 * sandbox. It has room for runsc's own threads, for when one of those is refused, all of runsc dies: sixty processes
 * inside were seen to need 160 tasks.
 */
static inline uint64_t gv_tasks(uint64_t pids)
{
	return pids * 4 + 512;
}

/* The whole of config.json. */
void gv_config(const struct spec *s, struct buf *out);

#endif
