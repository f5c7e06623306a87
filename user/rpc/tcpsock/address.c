/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "rpc/tcpsock/sock.h"

enum { HOST_MAX = 254 };

void sk_name(const struct sockaddr_storage *sa, char name[SK_NAME_LEN])
{
	const struct sockaddr_in6 *six = (const void *)sa;
	const struct sockaddr_in *four = (const void *)sa;
	char text[INET6_ADDRSTRLEN] = "?";

	if (sa->ss_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
		snprintf(name, SK_NAME_LEN, "[%s]:%u", text, ntohs(six->sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
		snprintf(name, SK_NAME_LEN, "%s:%u", text, ntohs(four->sin_port));
	}
}

bool sk_has_name(const char *text)
{
	return text[0] != '[' && strspn(text, "0123456789.") < strcspn(text, ":");
}

struct addrinfo *sk_resolve(const char *text, bool passive, const char **why)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char host[HOST_MAX];
	int rc;

	*why = "expected host:port or [IPv6]:port, as in tcp://10.0.0.2:7471";
	if (!len || !colon[1] || len >= sizeof(host))
		return NULL;
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
		hints.ai_flags |= AI_NUMERICHOST;
	} else if (memchr(text, ':', len)) {
		return NULL;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	rc = getaddrinfo(host, colon + 1, &hints, &found);
	if (rc)
		*why = gai_strerror(rc);
	return rc ? NULL : found;
}
