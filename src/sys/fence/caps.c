/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capget(), capset() and prctl() by hand: it is a dozen lines, and a library would be linked into every
 * start.
 *
 * The order matters. The bounding set and the securebits can be changed only while SETPCAP is effective, so the
 * permitted and effective sets are reduced last. The ambient set can be raised only before the securebits forbid it.
 * With nothing to keep, no call for the ambient set is needed: the kernel empties it with the inheritable set.
 */
#include "sys/fence/caps.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of fixed width, so that no pointer has to be relocated when a program starts. */
static const char names[][20] = {
	"chown",
	"dac_override",
	"dac_read_search",
	"fowner",
	"fsetid",
	"kill",
	"setgid",
	"setuid",
	"setpcap",
	"linux_immutable",
	"net_bind_service",
	"net_broadcast",
	"net_admin",
	"net_raw",
	"ipc_lock",
	"ipc_owner",
	"sys_module",
	"sys_rawio",
	"sys_chroot",
	"sys_ptrace",
	"sys_pacct",
	"sys_admin",
	"sys_boot",
	"sys_nice",
	"sys_resource",
	"sys_time",
	"sys_tty_config",
	"mknod",
	"lease",
	"audit_write",
	"audit_control",
	"setfcap",
	"mac_override",
	"mac_admin",
	"syslog",
	"wake_alarm",
	"block_suspend",
	"audit_read",
	"perfmon",
	"bpf",
	"checkpoint_restore",
};
_Static_assert(ARRAY_SIZE(names) == CAP_CHECKPOINT_RESTORE + 1, "one name per capability");

#define BIT(cap) (1ULL << (cap))

/*
 * uid 0 gains no capability by exec, a change of uids changes none, and the ambient set cannot be raised. The locks
 * make this permanent.
 */
#define LOCKED_BITS                                                                                      \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
	 SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

const char *caps_name(int cap)
{
	return cap >= 0 && (size_t)cap < ARRAY_SIZE(names) ? names[cap] : NULL;
}

int caps_parse(const char *name, uint64_t *ret_mask, struct err *e)
{
	const char *known[ARRAY_SIZE(names)], *bare = name, *near;
	char lower[64];
	size_t len;

	if (strncasecmp(name, "cap_", 4) == 0)
		bare += 4;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		known[i] = names[i];
		if (strcasecmp(bare, names[i]) == 0) {
			*ret_mask = BIT(i);
			return 0;
		}
	}
	err_set(e, -EINVAL, "there is no capability '%s'", name);
	len = strlen(bare);
	if (len >= sizeof(lower))
		return -EINVAL;
	for (size_t i = 0; i <= len; i++)
		lower[i] = (char)(bare[i] >= 'A' && bare[i] <= 'Z' ? bare[i] + ('a' - 'A') : bare[i]);
	near = str_nearest(lower, known, ARRAY_SIZE(known));
	return near ? err_hint(e, -EINVAL, "did you mean %s?", near) : -EINVAL;
}

struct sets {
	uint64_t effective, permitted, inheritable;
};

static int get_cap_sets(struct sets *ret, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct half[2] = { 0 };

	if (syscall(SYS_capget, &head, half) < 0)
		return err_sys(e, -errno, "cannot read the capabilities of this process");
	ret->effective = half[0].effective | (uint64_t)half[1].effective << 32;
	ret->permitted = half[0].permitted | (uint64_t)half[1].permitted << 32;
	ret->inheritable = half[0].inheritable | (uint64_t)half[1].inheritable << 32;
	return 0;
}

static int set_cap_sets(const struct sets *s, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct half[2];

	for (int i = 0; i < 2; i++) {
		half[i].effective = (uint32_t)(s->effective >> (32 * i));
		half[i].permitted = (uint32_t)(s->permitted >> (32 * i));
		half[i].inheritable = (uint32_t)(s->inheritable >> (32 * i));
	}
	if (syscall(SYS_capset, &head, half) < 0)
		return err_sys(e, -errno, "cannot drop capabilities");
	return 0;
}

int caps_effective(uint64_t *ret, struct err *e)
{
	struct sets s = { 0 };
	int r = get_cap_sets(&s, e);

	if (r < 0)
		return r;
	*ret = s.effective;
	return 0;
}

/*
 * The loop ends where PR_CAPBSET_READ fails, after the kernel's last capability. To read that number from /proc would
 * take longer than the whole loop.
 */
int caps_limit(uint64_t keep, struct err *e)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		int left;

		if (keep & BIT(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		/* Without SETPCAP the drop fails even for a capability that is not in the set: that is no error. */
		left = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
		if (left < 0)
			break;
		if (left)
			return err_sys(e, -EPERM, "cannot drop capability %lu (%s)", cap,
				       caps_name((int)cap) ? caps_name((int)cap) : "unknown");
	}
	return 0;
}

/*
 * Puts `keep` into the ambient set. Ambient capabilities must be inheritable, so the inheritable set is changed
 * first; the kernel removes from the ambient set all that is no longer inheritable.
 */
static int raise_ambient(uint64_t keep, struct err *e)
{
	struct sets s = { 0 };
	uint64_t missing;
	int r = get_cap_sets(&s, e);

	if (r < 0)
		return r;
	missing = keep & ~s.permitted;
	if (missing) {
		int cap = __builtin_ctzll(missing);

		return err_set(e, -EPERM, "cannot grant capability %d (%s): coffer does not hold it here",
			       cap, caps_name(cap) ? caps_name(cap) : "unknown");
	}
	s.inheritable = keep;
	r = set_cap_sets(&s, e);
	for (unsigned long cap = 0; r == 0 && cap < 64; cap++) {
		if (!(keep & BIT(cap)) || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			continue;
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			r = err_sys(e, -errno, "cannot raise ambient capability %s", caps_name((int)cap));
	}
	return r;
}

static int lock_securebits(struct err *e)
{
	if (prctl(PR_SET_SECUREBITS, LOCKED_BITS, 0, 0, 0) == 0 ||
	    prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == LOCKED_BITS)
		return 0;
	return err_sys(e, -EPERM, "cannot remove the special rights of uid 0");
}

int caps_give_up(uint64_t keep, struct err *e)
{
	const struct sets last = { keep, keep, keep };
	int r = keep ? raise_ambient(keep, e) : 0;

	if (r == 0)
		r = lock_securebits(e);
	if (r == 0)
		r = set_cap_sets(&last, e);
	return r;
}

/* A process without effective capabilities cannot lock the securebits, and needs no lock. */
int caps_give_up_all(struct err *e)
{
	const struct sets none = { 0 };
	struct sets s = { 0 };
	int r = get_cap_sets(&s, e);

	if (r == 0 && s.effective)
		return caps_give_up(0, e);
	return r == 0 && (s.permitted || s.inheritable) ? set_cap_sets(&none, e) : r;
}

int caps_drop_all_but(uint64_t keep, struct err *e)
{
	int r = caps_limit(keep, e);

	return r < 0 ? r : caps_give_up(keep, e);
}
