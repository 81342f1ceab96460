/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escape probes: each attempts one forbidden act and says what the kernel answered.
 *
 *   probe NAME: held (EPERM)       the act was refused                                    exit 0
 *   probe NAME: BROKEN text        the act succeeded                                      exit 1
 *   probe NAME: asks EVENT         only the world outside can tell whether it succeeded   exit 2
 *   probe NAME: n/a text           it cannot be tried here                                exit 3
 *   probe NAME: info text          not a wall, only something worth knowing               exit 0
 *   probe NAME: ERROR text         the probe itself failed                                exit 4
 *
 * The same act runs outside the sandbox as its control, where it must say BROKEN: a probe that cannot succeed
 * anywhere proves nothing. A control of an act that would hurt the host runs in namespaces made for it, or
 * asks only for the permission and leaves the deed (`enum control`).
 *
 * What there is to attack (files, sockets, a process …) stands in the parameter file that the world wrote
 * (world.c).
 */
#ifndef ESCAPE_PROBE_H
#define ESCAPE_PROBE_H

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

enum verdict { V_HELD, V_BROKEN, V_OUTSIDE, V_NA, V_ERROR, V_INFO };

/* Where the act can succeed outside a sandbox. */
enum control {
	CTL_SAME,    /* anybody may do it */
	CTL_USERNS,  /* anybody in user, mount, network, IPC, UTS and pid namespaces of his own */
	CTL_ROOT,    /* the host's root */
	CTL_ROOT_NS, /* the host's root, in mount, network, IPC, UTS and pid namespaces made for it */
};

enum probe_flag {
	PF_TTY = 1, /* wants a terminal as stdin */
	PF_GRANTABLE =
		2 /* a capability given with --cap opens it, inside the sandbox's own namespaces only */
};

struct probe {
	const char *name;
	enum verdict (*act)(void);
	enum control control;
	unsigned flags;
	int needs; /* capability that its control needs besides; 0: none (nobody asks for CAP_CHOWN) */
};

/* One table per theme, ended by an empty entry. */
extern const struct probe probes_abi[], probes_bind[], probes_files[], probes_ipc[], probes_kernel[],
	probes_mount[], probes_net[], probes_ns[], probes_proc[], probes_sys[], probes_tty[], probes_wall[],
	probes_workspace[];

/* True while the act runs as a control. */
extern bool in_control;

/* A parameter of the world; the probe ends as n/a when it is not there. */
const char *param(const char *key);
long param_num(const char *key);
bool has_param(const char *key);

/* Verdicts; the text is shown behind the name. held() reads errno. */
enum verdict held(void);
enum verdict held_for(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict not_here(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict probe_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict asks(const char *event); /* the world counts it, see world.c and the runner's snapshots */

/* BROKEN when r >= 0, held with errno otherwise. */
enum verdict judge(long r, const char *what);

/* As judge(), but these errnos say that the permission was given and only the deed was missing. */
enum verdict judge_permission(long r, int given1, int given2, const char *what);

/* As judge(), but in a control ENOSYS and friends mean that this kernel does not have it. */
enum verdict judge_optional(long r, const char *what);

const char *errno_name(int err);

/* Opens and looks for the world's secret; BROKEN when it is there. */
enum verdict read_secret(const char *path);
enum verdict read_secret_at(int dirfd, const char *path);

/* Small things that several themes need. */
char *path_f(char out[4096], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
long read_small(const char *path, char *out, size_t cap); /* NUL-terminated; -1 and errno */
int write_small(const char *path, const char *text);	  /* opens an existing file and writes once */
unsigned long long fnv_file(const char *path);		  /* 0 when it cannot be read */
int wait_exit(int pid);					  /* exit status, or 128 + signal */

extern bool inherited[256]; /* which descriptors were open when the program began */

int world_main(const char *dir, const char *secret);
int bomb_main(const char *name, const char *arg);
int spare_main(void);

#endif
