/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a file of API keys: it is refused with a mistake, or all lines are found. Each line
 * is found by the hash that a simple reader reads, under its name.
 */
/* fuzz: max_len=1024 */
#include <stdlib.h>
#include <string.h>
#include "base/num.h"
#include "config/api_keys.h"
#include "config/diagnostics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_line(const struct sl_api_keys *k, char *line)
{
	const char *name = strtok(line, " \t"), *hex = name ? strtok(NULL, " \t") : NULL;
	const struct sl_api_key *key;
	uint8_t hash[SL_API_KEY_HASH];

	if (!name || name[0] == '#')
		return;
	must(hex && strlen(hex) == 64 && strlen(name) <= SL_API_KEY_NAME_MAX);
	for (size_t i = 0; i < sizeof(hash); i++)
		hash[i] = (uint8_t)(sl_hex_digit((uint8_t)hex[2 * i]) << 4 |
				    sl_hex_digit((uint8_t)hex[2 * i + 1]));
	key = sl_api_keys_find(k, hash);
	must(key && strcmp(key->name, name) == 0);
	must(!strpbrk(name, "\"\\\r\n:, ")); /* it goes into fields */
	must(!key->bucket.tokens == !key->bucket.burst);
	must(!key->bucket.tokens || (key->bucket.token_ns && key->bucket.depth_ns));
	hash[0] ^= 1;
	key = sl_api_keys_find(k, hash);
	must(!key || memcmp(key->hash, hash, sizeof(hash)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[SL_CFG_ERR_LEN];
	struct conf_diags mistakes = {.file = "keys"};
	struct sl_err err = {text, sizeof(text)};
	char *copy = malloc(size + 1);
	struct sl_api_keys *k;

	memcpy(copy, data, size);
	copy[size] = 0;
	k = sl_api_keys_parse(copy, &mistakes);
	must(k);
	if (mistakes.cnt) {
		conf_diags_print(&mistakes, &err);
		must(strncmp(text, "keys:", 5) == 0 && strstr(text, "; allowed: "));
	} else {
		for (char *line = copy, *end; *line; line = end) {
			end = line + strcspn(line, "\n");
			end += *end && (*end = 0, true);
			check_line(k, line);
		}
	}
	conf_diags_free(&mistakes);
	sl_api_keys_free(k);
	free(copy);
	return 0;
}
