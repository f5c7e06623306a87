/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/websocket.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>

#include "base/rand.h"

enum { NONCE_LEN = 16, SHA1_LEN = 20 };

bool origin_ws_key(char key[ORIGIN_WS_KEY + 1])
{
	uint8_t nonce[NONCE_LEN];

	if (sl_rand_bytes(nonce, sizeof(nonce)))
		return false;
	return EVP_EncodeBlock((unsigned char *)key, nonce, sizeof(nonce)) == ORIGIN_WS_KEY;
}

bool origin_ws_accept(const char key[ORIGIN_WS_KEY + 1], char accept[ORIGIN_WS_ACCEPT + 1])
{
	static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[ORIGIN_WS_KEY + sizeof(magic)];
	uint8_t digest[SHA1_LEN];
	unsigned len = 0;

	memcpy(text, key, ORIGIN_WS_KEY);
	memcpy(text + ORIGIN_WS_KEY, magic, sizeof(magic));
	return EVP_Digest(text, sizeof(text) - 1, digest, &len, EVP_sha1(), NULL) &&
	       EVP_EncodeBlock((unsigned char *)accept, digest, (int)len) == ORIGIN_WS_ACCEPT;
}
