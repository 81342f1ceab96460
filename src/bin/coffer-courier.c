/* SPDX-License-Identifier: Apache-2.0 */
/* coffer-courier: carries one call of the gateway itself over verified TLS, and ends. See courier/courier.h. */
#include "courier/courier.h"

int main(int argc, char **argv)
{
	return courier_main(argc, argv);
}
