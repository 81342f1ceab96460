/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the table in doctor.c, by file. */
#ifndef POSTURE_CHECKS_H
#define POSTURE_CHECKS_H

#include "posture/doctor.h"

/* doctor_ns.c */
void check_userns(struct finding *f);
void check_userns_nested(struct finding *f);
void check_pidns(struct finding *f);
void check_mountns(struct finding *f);
void check_netns(struct finding *f);
void check_ipcns(struct finding *f);
void check_utsns(struct finding *f);
void check_cgroupns(struct finding *f);
void check_timens(struct finding *f);
void check_apparmor(struct finding *f);
void check_userns_sysctl(struct finding *f);

/* doctor_mount.c */
void check_proc(struct finding *f);
void check_private_fs(struct finding *f);
void check_overlay(struct finding *f);
void check_idmap(struct finding *f);

/* doctor_host.c */
void check_kernel(struct finding *f);
void check_syscalls(struct finding *f);
void check_seccomp(struct finding *f);
void check_landlock(struct finding *f);
void check_cgroup(struct finding *f);
void check_disk(struct finding *f);
void check_disk_limit(struct finding *f);
void check_kvm(struct finding *f);

/* doctor_net.c */
void check_wall(struct finding *f);
void check_wall_guest(struct finding *f);
void check_net_programs(struct finding *f);

/* doctor_tools.c */
void check_helper(struct finding *f);
void check_subids(struct finding *f);
void check_runsc(struct finding *f);

/* doctor_secrets.c */
void check_secrets(struct finding *f);

/* Is this process the host's real root, to whom the restrictions of ordinary users do not apply? */
bool check_is_root(void);
struct scratch;
/*
 * Creates a scratch directory for a check. True: it cannot be created, and the finding says so. The check's
 * own fix would not help then; the check of the state directory fails for the same reason.
 */
bool check_no_place(struct finding *f, struct scratch *s);
/* The number in a /proc/sys file; `missing` if there is no such file. */
long check_sysctl(const char *path, long missing);

#endif
