/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of API keys: a name, a SHA-256 hash and optional limits per line.
 *
 *   # NAME HASH [rate=N/UNIT] [burst=N] [max_requests=N]
 *   alice 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 rate=10/s
 */
#ifndef SL_CONFIG_API_KEYS_H
#define SL_CONFIG_API_KEYS_H

#include "config/config.h"

struct conf_diags;

enum { SL_API_KEY_HASH = 32, SL_API_KEY_NAME_MAX = 64 };

struct sl_api_key {
	uint8_t hash[SL_API_KEY_HASH];
	const char *name;
	uint64_t id;
	struct sl_cfg_bucket bucket; /* no tokens: the quota's */
	uint32_t max_requests;       /* 0: the quota's */
	int line;
};

/* Returns keys to be freed, and adds mistakes to m; NULL: no memory. */
struct sl_api_keys *sl_api_keys_parse(const char *text, struct conf_diags *m);
/* Frees keys. NULL is allowed. */
void sl_api_keys_free(struct sl_api_keys *k);
/* Returns NULL if no key has this hash. Takes the same time for all hashes of a slot. */
const struct sl_api_key *sl_api_keys_find(const struct sl_api_keys *k,
					  const uint8_t hash[SL_API_KEY_HASH]);

/*
 * Reads the files into c->keys, freed with c. Returns 0, or -1 and a line in err for each mistake.
 */
int sl_api_keys_load(struct sl_config *c, struct sl_err *err);

#endif
