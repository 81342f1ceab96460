/* SPDX-License-Identifier: Apache-2.0 */
/* A policy file as the bundle that coffer-egress reads, for tests: mkpolicy GENERATION FILE > bundle */
#include "base/fd.h"
#include "config/policy_file.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	const char *file = argc == 3 ? argv[2] : NULL;
	struct config_policy_args args = { .files = &file, .n_files = 1, .mode = -1, .for_checking = true };
	struct config_policy cp = { 0 };
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t gen = 1;

	if (argc != 3 || str_to_u64(argv[1], &gen) < 0)
		return 2;
	if (config_policy_load(&args, &cp, &e) < 0) {
		fprintf(stderr, "mkpolicy: %s\n", e.msg);
		return 1;
	}
	policy_set_generation(cp.policy, (uint32_t)gen);
	if (policy_pack(cp.policy, &out, &e) < 0 || fd_write_all(1, out.data, out.len) < 0) {
		fprintf(stderr, "mkpolicy: %s\n", e.msg);
		return 1;
	}
	config_policy_release(&cp);
	return 0;
}
