/* SPDX-License-Identifier: Apache-2.0 */
#include "config/api_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/fnv.h"
#include "base/num.h"
#include "config/diagnostics.h"
#include "config/file.h"
#include "config/keys.h"

enum { FILE_MAX = 4 << 20, MOST_BURST = 1000000000, MOST_OPEN = 65535 };

struct sl_api_keys {
	struct conf_arena *arena;
	struct sl_api_key *list;
	uint32_t cnt;
	uint32_t *slots; /* index + 1; open addressing by the hash; 0: empty */
	uint32_t mask;
};

struct key_parser {
	struct sl_api_keys *keys;
	struct conf_diags *mistakes;
	int line;
};

static bool fail_line(struct key_parser *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static bool fail_line(struct key_parser *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	conf_diag_add(p->mistakes, p->line, NULL, fmt, ap);
	va_end(ap);
	return false;
}

static uint32_t slot_of(const struct sl_api_keys *k, const uint8_t *hash)
{
	return (uint32_t)sl_get_le64(hash) & k->mask;
}

static bool same_hash(const uint8_t *a, const uint8_t *b)
{
	uint64_t x[4], y[4];

	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]));
}

const struct sl_api_key *sl_api_keys_find(const struct sl_api_keys *k,
					  const uint8_t hash[SL_API_KEY_HASH])
{
	const struct sl_api_key *found = NULL;

	for (uint32_t i = slot_of(k, hash); k->slots[i]; i = (i + 1) & k->mask) {
		const struct sl_api_key *key = &k->list[k->slots[i] - 1];

		found = same_hash(key->hash, hash) ? key : found;
	}
	return found;
}

static struct sl_span next_word(struct sl_span *left)
{
	struct sl_span word;
	size_t n = 0;

	while (left->len && (left->ptr[0] == ' ' || left->ptr[0] == '\t'))
		*left = sl_span_skip(*left, 1);
	while (n < left->len && left->ptr[n] != ' ' && left->ptr[n] != '\t')
		n++;
	word = sl_span_first(*left, n);
	*left = sl_span_skip(*left, n);
	return word;
}

static bool parse_name(struct key_parser *p, struct sl_api_key *key, struct sl_span word)
{
	const char *name = conf_arena_strndup(p->keys->arena, (const char *)word.ptr, word.len);

	if (!name)
		return fail_line(p, "found too little memory");
	if (!conf_is_token(name, SL_API_KEY_NAME_MAX))
		return fail_line(
			p, "found an invalid name; allowed: up to 64 letters, digits and - _ .");
	key->name = name;
	key->id = sl_fnv64(SL_FNV64, word.ptr, word.len);
	return true;
}

/* The word could be a key, so no message contains it. */
static bool parse_hash(struct key_parser *p, struct sl_api_key *key, struct sl_span word)
{
	bool ok = word.len == 2 * sizeof(key->hash);

	for (size_t i = 0; ok && i < sizeof(key->hash); i++) {
		int high = sl_hex_digit(word.ptr[2 * i]), low = sl_hex_digit(word.ptr[2 * i + 1]);

		ok = high >= 0 && low >= 0;
		if (ok)
			key->hash[i] = (uint8_t)(high << 4 | low);
	}
	return ok || fail_line(p,
			       "found key \"%s\" with %s; allowed: its SHA-256 in 64 hexadecimal "
			       "digits",
			       key->name, word.len ? "an invalid hash" : "no hash");
}

static bool take_number(struct sl_span *word, const char *name, uint64_t max, uint64_t *n)
{
	const struct sl_span key = sl_span_cstr(name);

	return sl_span_starts(*word, key) &&
	       sl_parse_u64_max(sl_span_skip(*word, key.len), max, n) == 0 && *n;
}

static bool parse_limit(struct key_parser *p, struct sl_api_key *key, struct sl_span word)
{
	const struct sl_span rate = sl_span_str("rate=");
	uint64_t n;
	bool ok = false;

	if (sl_span_starts(word, rate))
		ok = !key->bucket.tokens &&
		     conf_parse_rate(sl_span_skip(word, rate.len), &key->bucket);
	else if (take_number(&word, "burst=", MOST_BURST, &n) && !key->bucket.burst)
		ok = (key->bucket.burst = (uint32_t)n);
	else if (take_number(&word, "max_requests=", MOST_OPEN, &n) && !key->max_requests)
		ok = (key->max_requests = (uint32_t)n);
	return ok || fail_line(p,
			       "found key \"%s\" with another word behind its hash; allowed: "
			       "rate=N/s (/min, /h, /d), burst=N, max_requests=N, each once",
			       key->name);
}

static bool parse_key(struct key_parser *p, struct sl_api_key *key, struct sl_span text)
{
	struct sl_span word = next_word(&text);

	key->line = p->line;
	if (!parse_name(p, key, word) || !parse_hash(p, key, next_word(&text)))
		return false;
	for (word = next_word(&text); word.len; word = next_word(&text)) {
		if (!parse_limit(p, key, word))
			return false;
	}
	if (key->bucket.burst && !key->bucket.tokens)
		return fail_line(p,
				 "found key \"%s\" with burst but no rate; allowed: both, or "
				 "rate alone",
				 key->name);
	if (key->bucket.tokens && !conf_bucket_finish(&key->bucket))
		return fail_line(p,
				 "found key \"%s\" whose burst takes more than 366 days of its "
				 "rate; allowed: less",
				 key->name);
	return true;
}

static void parse_line(struct key_parser *p, struct sl_span text)
{
	struct sl_api_keys *k = p->keys;
	struct sl_span rest = text, word = next_word(&rest);
	struct sl_api_key *more;

	if (!word.len || word.ptr[0] == '#')
		return;
	more = conf_arena_grow(k->arena, k->list, k->cnt, sizeof(*more));
	if (!more) {
		fail_line(p, "found too little memory");
		return;
	}
	k->list = more;
	more[k->cnt] = (struct sl_api_key){0};
	k->cnt += parse_key(p, &more[k->cnt], text);
}

static bool index_keys(struct key_parser *p)
{
	struct sl_api_keys *k = p->keys;
	uint32_t slots = 16;

	while (slots < 2 * k->cnt)
		slots *= 2;
	k->slots = conf_arena_alloc(k->arena, slots * sizeof(*k->slots));
	k->mask = slots - 1;
	for (uint32_t i = 0; k->slots && i < k->cnt; i++) {
		const struct sl_api_key *other = sl_api_keys_find(k, k->list[i].hash);
		uint32_t at = slot_of(k, k->list[i].hash);

		p->line = k->list[i].line;
		if (other) {
			fail_line(p, "found the hash of line %d again; allowed: each once",
				  other->line);
			continue;
		}
		while (k->slots[at])
			at = (at + 1) & k->mask;
		k->slots[at] = i + 1;
	}
	return k->slots;
}

struct sl_api_keys *sl_api_keys_parse(const char *text, struct conf_diags *m)
{
	struct sl_api_keys *k = calloc(1, sizeof(*k));
	struct key_parser p = {.keys = k, .mistakes = m};

	if (!k || !(k->arena = conf_arena_create())) {
		free(k);
		return NULL;
	}
	while (*text && !conf_diags_full(m)) {
		const size_t len = strcspn(text, "\n");

		p.line++;
		parse_line(&p, sl_span_of(text, len));
		text += len + (text[len] == '\n');
	}
	/* A file that is being written must not lock all clients out. */
	if (!k->cnt && !m->cnt)
		fail_line(&p, "found no key; allowed: at least one");
	if (index_keys(&p))
		return k;
	sl_api_keys_free(k);
	return NULL;
}

void sl_api_keys_free(struct sl_api_keys *k)
{
	if (k)
		conf_arena_free(k->arena);
	free(k);
}

static void free_files(struct sl_config *c)
{
	for (uint32_t i = 0; i < c->key_cnt; i++)
		sl_api_keys_free(c->keys[i].keys);
}

static int fail_file(const struct sl_config *c, const struct sl_cfg_keys *k, const char *why,
		     struct sl_err *err)
{
	const struct sl_cfg_location at = sl_config_location(c, k->line);

	return sl_fail(err, -1, "%s:%d: found file \"%s\" as %s", at.file, at.line, k->file, why);
}

/* Hashes of weak keys can be inverted, so others must not read them. */
static bool is_private(const char *path, const struct conf_file_id *id)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == id->device && st.st_ino == id->inode &&
	       !(st.st_mode & S_IRWXO);
}

static int load_file(struct sl_config *c, struct sl_cfg_keys *k, struct sl_err *err)
{
	struct conf_diags mistakes = {.file = k->file};
	struct sl_err why = SL_ERR(300);
	struct conf_file_id id;
	char *text = conf_file_read(k->file, FILE_MAX, false, &id, &why);
	int rc = 0;

	if (!text)
		return fail_file(c, k, why.text, err);
	if (is_private(k->file, &id))
		k->keys = sl_api_keys_parse(text, &mistakes);
	else
		rc = fail_file(c, k, "a file that other accounts can read; allowed: chmod 640",
			       err);
	if (!rc && !k->keys)
		rc = fail_file(c, k, "more than there is memory for; allowed: less", err);
	if (mistakes.cnt) {
		conf_diags_print(&mistakes, err);
		conf_diags_free(&mistakes);
		rc = -1;
	}
	free(text);
	return rc;
}

int sl_api_keys_load(struct sl_config *c, struct sl_err *err)
{
	static char text[SL_CFG_ERR_LEN];
	struct sl_err more = {text, sizeof(text)};
	bool ok = true;

	sl_config_on_free(c, free_files);
	sl_err_set(err, "%s", "");
	for (uint32_t i = 0; i < c->key_cnt; i++) {
		if (load_file(c, &c->keys[i], &more) != 0)
			ok = sl_err_add(err, more.text);
	}
	return ok ? 0 : -1;
}
