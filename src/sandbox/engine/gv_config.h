/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox as an OCI bundle for runsc. Pure: a spec in, JSON out. Paths of the host's side are those of the little
 * root that runsc itself runs in (gv_inside.c), never the host's.
 */
#ifndef SANDBOX_GV_CONFIG_H
#define SANDBOX_GV_CONFIG_H

#include "base/buf.h"
#include "sandbox/spec/spec.h"

#define GV_ROOT "/guest"    /* the sandbox's root: only the sandbox writes there while it runs */
#define GV_WORKSPACE "/ws"  /* a workspace without a layer, which the host may change meanwhile */
#define GV_HOME "/home"	    /* a named home */
#define GV_BIND "/bind-%zu" /* the spec's binds, by number */
#define GV_CA "/ca"	    /* the certificate of the sandbox's own authority */
#define GV_BUNDLE "/bundle"
#define GV_STATE "/state"
#define GV_STREAM_FD 3 /* the protocol's stream, the same number on both sides */

/* Whether the workspace is part of the root; otherwise it is a mount of its own for runsc. */
static inline bool gv_workspace_in_root(const struct spec *s)
{
	return s->ws_mode == WS_OVERLAY || s->ws_mode == WS_EPHEMERAL;
}

/*
 * Whether gVisor's kernel may use the host's files by itself, and not only through its gofer.
 *
 * Hidden files of the workspace are covered by mounts. gVisor's kernel has a mount namespace of its own, in which the host's
 * kernel would let it rename or remove the covered name and so uncover the file. So each cover is a mount for gVisor's kernel
 * too. Where there are too many for that, where a name cannot be written in JSON, or where the command may unmount them, all
 * access goes through the gofer, for which they are mounts already.
 */
bool gv_directfs(const struct spec *s);

/*
 * How many tasks of the host a sandbox may have that is limited to `pids` processes inside. gVisor enforces the inner limit,
 * but not against a command with the capability to exceed it, which any command has in a user namespace that it makes; then
 * this limit ends the sandbox. It has room for runsc's own threads, since all of runsc dies when one of those is refused:
 * sixty processes inside were seen to need 160 tasks.
 */
static inline uint64_t gv_tasks(uint64_t pids)
{
	return pids * 4 + 512;
}

/* The whole of config.json. */
void gv_config(const struct spec *s, struct buf *out);

#endif
