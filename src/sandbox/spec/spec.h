/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The specification of a sandbox: filled in from the command line, and later from the stack file; built by an engine.
 * Everything that can be refused is refused before a spec reaches an engine.
 */
#ifndef SANDBOX_SPEC_H
#define SANDBOX_SPEC_H

#include "base/str.h"
#include "sandbox/spec/ids.h"
#include "sandbox/spec/limits.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum ws_mode { WS_OVERLAY, WS_RO, WS_RW, WS_EPHEMERAL, WS_MODE_COUNT };

/* The source of the root file system. */
enum root_mode {
	ROOT_HOST,  /* a read-only view of the host's /usr and little else */
	ROOT_DIR,   /* a directory, under a layer of the run's own */
	ROOT_IMAGE, /* the layers of an image, under one */
	ROOT_MODE_COUNT
};

const char *root_mode_name(enum root_mode m); /* "host", "dir", "image" */

/* The sandbox's network. */
enum net_mode {
	NET_NONE,    /* loopback */
	NET_OBSERVE, /* a wall (wall.h); traffic that no rule denies is let through and logged */
	NET_ENFORCE, /* a wall; only traffic that a rule allows is let through */
	NET_MODE_COUNT
};

const char *net_mode_name(enum net_mode m); /* "none", "observe", "enforce" */

const char *ws_mode_name(enum ws_mode m); /* "overlay", "ro", "rw", "ephemeral" */

/* Socket of the ssh-agent inside. */
#define SPEC_AGENT_PATH "/tmp/.coffer-ssh/agent"

/* A file or directory of the host that is shown inside (-v). */
struct bind {
	int fd;	   /* O_PATH of the source, opened and checked by the caller */
	char *src; /* its real path: opened again inside the new mount namespace and compared with fd */
	char *dst; /* absolute path inside, normalised */
	bool writable;
	bool is_dir;
};

/* A small file that is made in the root, read-only and executable. With the root of an image or directory, all are below
 * SPEC_FILES_DIR, which hides the root's own directory of that name. */
#define SPEC_FILES_DIR "/opt/agent"
#define SPEC_FILES_MAX 512
#define SPEC_FILES_BYTES (4u << 20) /* of all together */
struct spec_file {
	char *path; /* absolute, normalised */
	char *text;
	size_t len;
};

struct spec_files {
	struct spec_file *v;
	size_t n;
	size_t bytes;
};

#define SPEC_FILES_INIT ((struct spec_files){ 0 })
int spec_files_add(struct spec_files *l, const char *path, const void *text, size_t len,
		   struct err *e) MUST_CHECK;
void spec_files_release(struct spec_files *l);

/* One read-only layer of the root. The fd of an image's layer carries a shared lock, which keeps the layer in the store. */
struct root_lower {
	int fd;	    /* directory */
	char *path; /* its real path: opened again inside the new mount namespace and compared with fd */
};

/* As many layers as docker allows, and one more. */
#define ROOT_LOWERS_MAX 128

/* A hidden file or directory of the workspace: an empty one, or a redacted copy, is shown in its place. */
struct mask {
	char *path; /* relative to the workspace */
	bool is_dir;
	char *content; /* NULL: empty */
	size_t content_len;
};

struct spec {
	char id[RUN_ID_LEN + 1];
	char *name;		   /* NULL: none */
	char from[RUN_ID_LEN + 1]; /* a call: the sandbox on whose behalf it is made; empty: none */
	char *hostname;
	struct strv argv;
	bool builtin; /* argv[0] is a function of coffer-init (init_file.c), not a program */
	struct strv env;
	char *cwd; /* absolute, inside */
	uid_t uid; /* inside */
	gid_t gid;
	struct ids ids; /* the ids outside */

	enum root_mode root_mode;
	char *root_name;	   /* the directory's real path, or the image's name; NULL: host */
	char *root_digest;	   /* of the image's manifest: "sha256:…"; NULL: no image */
	struct root_lower *lowers; /* topmost first; none with ROOT_HOST */
	size_t n_lowers;
	char *home_dir; /* HOME inside; NULL with ROOT_HOST: rootfs_home() */

	enum ws_mode ws_mode;
	char *ws_path; /* host path for messages; NULL when ephemeral */
	int ws_fd;     /* O_PATH directory; -1 when ephemeral */
	/* A call over the workspace of the run `over`: a copy of that run's layer is between the original and the call's own
	 * layer. ws_mode is then WS_OVERLAY, and there may be no original. */
	char over[RUN_ID_LEN + 1]; /* empty: none */
	uint64_t over_time;	   /* time of the copy (CLOCK_REALTIME ns) */
	int from_fd;		   /* the copy, LAYERS_FROM in the run's directory; -1: none */
	int run_fd;		   /* the run's directory */
	char *run_path;		   /* its real path */
	int layers_fd; /* directory of upper/ and work/: run_fd again, or a disk image's root (layers.h); -1: none */
	int home_fd;	 /* a named home, or -1 for an empty one */
	char *home_path; /* its real path; NULL: none */
	bool each;	 /* a checkpoint after every command that is started in it */
	uint64_t keep;	 /* number of checkpoints to keep; 0: all */
	struct bind *binds;
	size_t n_binds;
	struct mask *masks;
	size_t n_masks;
	struct spec_files files;
	char *profile; /* agent profile that it was started with; NULL: none */

	enum net_mode net;
	bool acts;	     /* its policy has rules for tools or apply, which are stored with the run */
	char *policy_digest; /* of the policy at its start; NULL: no network */
	char *ports;	     /* published ports as text for the user; NULL: none */
	char *known_hosts;   /* keys of SSH servers for known_hosts, in ssh's format; NULL: none */
	bool ca;	     /* its programs trust a certificate authority of the sandbox's own */
	bool ca_later; /* none yet, but a policy reload may add one: a place for its certificate is prepared */
	struct limits limits;
	uint64_t caps;
	bool nested;
	bool tty; /* the main command gets a terminal */
	bool detach;
	/* Started repeatedly over its own layers, until its owner (`coffer mcp`) ends the series: the layers are kept between
	 * starts, even those of an empty workspace. */
	bool series;
	char *restart;	   /* restart policy, as in meta.json; NULL: never */
	uint64_t restarts; /* number of restarts so far */
	int runsc_fd;	   /* engine gvisor: the program, checked; -1 otherwise */
	bool gv_hostnet; /* engine gvisor: its own network stack does not work here, so it uses the kernel's */
	unsigned
		patience; /* engine gvisor: timeout of its start in seconds; 0: the default, enough for any machine */
};

#define SPEC_INIT                        \
	((struct spec){ .ws_fd = -1,     \
			.from_fd = -1,   \
			.run_fd = -1,    \
			.layers_fd = -1, \
			.home_fd = -1,   \
			.runsc_fd = -1,  \
			.ids = { .lock_fd = -1 } })

void spec_release(struct spec *s);

/* Is the root an image or a directory, with a layer (root-upper) of the run's own over it? */
static inline bool spec_has_root_layer(const struct spec *s)
{
	return s->root_mode != ROOT_HOST;
}

/* Does the run need a place for layers at all? */
static inline bool spec_needs_layers(const struct spec *s)
{
	return s->ws_mode == WS_OVERLAY || s->ws_mode == WS_EPHEMERAL || spec_has_root_layer(s);
}

/* Is there a place inside for the certificate of an authority? */
static inline bool spec_has_ca(const struct spec *s)
{
	return s->ca || s->ca_later;
}

#endif
