/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"
#include "tap.h"

int main(void)
{
	int digits = 0;

	for (int c = 0; c < 256; c++) {
		const char *l = c ? strchr(HEX_LOWER, c) : NULL, *u = c ? strchr(HEX_UPPER, c) : NULL;
		int want = l ? (int)(l - HEX_LOWER) : u ? (int)(u - HEX_UPPER) : -1;

		digits += hex_digit((char)c) >= 0;
		if (hex_digit((char)c) != want)
			CHECKF(false, "byte %d has the value of digit %d", c, want);
	}
	CHECKF(digits == 22, "22 bytes are digits, each with its value");
	CHECK(hex_byte("00") == 0 && hex_byte("fF") == 255 && hex_byte("1a") == 26);
	CHECK(hex_byte("g0") < 0 && hex_byte("0g") < 0 && hex_byte("") < 0);
	return tap_done();
}
