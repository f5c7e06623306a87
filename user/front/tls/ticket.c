/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/ticket.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

enum { NAME = 16, SECRET = 32, KEYS_MAX = 8, IV = 16, LIFE_S = 3600 };

struct ticket_key {
	uint8_t name[NAME], hmac[SECRET], aes[SECRET];
};
_Static_assert(sizeof(struct ticket_key) == 80, "no padding");

struct sl_tls_tickets {
	_Atomic uint32_t refs;
	bool own;
	unsigned cnt;
	uint64_t since_ns; /* first key's start; 0: unused */
	pthread_mutex_t lock;
	struct ticket_key keys[KEYS_MAX];
};

/* Own pages, excluded from core dumps. */
static struct sl_tls_tickets *create_tickets(bool own)
{
	struct sl_tls_tickets *t =
		mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		return NULL;
	madvise(t, sizeof(*t), MADV_DONTDUMP);
	t->refs = 1;
	t->own = own;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

struct sl_tls_tickets *sl_tls_tickets_new(void)
{
	struct sl_tls_tickets *t = create_tickets(true);

	if (t && RAND_bytes((uint8_t *)&t->keys[0], sizeof(t->keys[0])) == 1) {
		t->cnt = 1;
		return t;
	}
	sl_tls_tickets_put(t);
	return NULL;
}

struct sl_tls_tickets *sl_tls_tickets_load(const struct sl_cfg_file *f, struct conf_diags *mistakes)
{
	struct sl_tls_diag to = {mistakes, f->line};
	struct sl_tls_tickets *t = create_tickets(false);
	int n = t ? sl_tls_read_secret(f, "ticket_keys", (uint8_t *)t->keys, sizeof(t->keys), &to)
		  : -1;

	if (n > 0 && n % (int)sizeof(struct ticket_key) == 0) {
		t->cnt = (unsigned)n / (unsigned)sizeof(struct ticket_key);
		return t;
	}
	if (n >= 0)
		sl_tls_diagnose(
			&to,
			"found %d bytes in ticket_keys \"%s\"; allowed: 80 for each of at most "
			"%d keys (openssl rand 80)",
			n, f->path, KEYS_MAX);
	sl_tls_tickets_put(t);
	return NULL;
}

struct sl_tls_tickets *sl_tls_tickets_get(struct sl_tls_tickets *t)
{
	atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
	return t;
}

void sl_tls_tickets_put(struct sl_tls_tickets *t)
{
	if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_destroy(&t->lock);
	OPENSSL_cleanse(t, sizeof(*t));
	munmap(t, sizeof(*t));
}

static void rotate_keys(struct sl_tls_tickets *t, uint64_t now_ns)
{
	struct ticket_key next;

	if (!t->since_ns)
		t->since_ns = now_ns;
	if (!t->own || now_ns - t->since_ns < LIFE_S * SL_NS_PER_SEC ||
	    RAND_bytes((uint8_t *)&next, sizeof(next)) != 1)
		return;
	/* After two idle hours the previous key has expired too. */
	t->cnt = now_ns - t->since_ns < 2 * LIFE_S * SL_NS_PER_SEC ? 2 : 1;
	t->keys[1] = t->keys[0];
	t->keys[0] = next;
	t->since_ns = now_ns;
	OPENSSL_cleanse(&next, sizeof(next));
}

static int find_key(const struct sl_tls_tickets *t, const uint8_t name[NAME])
{
	for (unsigned i = 0; i < t->cnt; i++) {
		if (memcmp(t->keys[i].name, name, NAME) == 0)
			return (int)i;
	}
	return -1;
}

bool sl_tls_tickets_know(struct sl_tls_tickets *t, const uint8_t name[NAME])
{
	bool known;

	pthread_mutex_lock(&t->lock);
	known = find_key(t, name) >= 0;
	pthread_mutex_unlock(&t->lock);
	return known;
}

int sl_tls_tickets_use(struct sl_tls_tickets *t, uint8_t name[NAME], uint8_t *iv, EVP_CIPHER_CTX *c,
		       EVP_MAC_CTX *h, int seal, uint64_t now_ns)
{
	char digest[] = "SHA256";
	struct ticket_key k;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k.hmac, SECRET),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	int at = 0, rc;

	pthread_mutex_lock(&t->lock);
	rotate_keys(t, now_ns);
	if (!seal)
		at = find_key(t, name);
	if (at >= 0)
		k = t->keys[at];
	pthread_mutex_unlock(&t->lock);
	if (at < 0)
		return 0;
	if (seal && RAND_bytes(iv, IV) != 1)
		return -1;
	if (seal)
		memcpy(name, k.name, NAME);
	rc = EVP_MAC_CTX_set_params(h, params) &&
			     EVP_CipherInit_ex(c, EVP_aes_256_cbc(), NULL, k.aes, iv, seal)
		     ? 1
		     : -1;
	OPENSSL_cleanse(&k, sizeof(k));
	/* RFC 8446 C.4: tickets are used once. */
	return rc == 1 && !seal ? 2 : rc;
}
