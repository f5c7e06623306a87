/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

_Static_assert((int)SL_ADDR_TEXT == (int)INET6_ADDRSTRLEN, "what inet_ntop() writes at the most");

bool sl_addr_parse(struct sl_addr *a, const char *text)
{
	struct sl_addr found = {.family = 4};

	if (inet_pton(AF_INET, text, found.addr) != 1) {
		found.family = 6;
		if (inet_pton(AF_INET6, text, found.addr) != 1)
			return false;
	}
	*a = found;
	return true;
}

const char *sl_addr_text(const struct sl_addr *a, char text[SL_ADDR_TEXT])
{
	if (a->family)
		inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->addr, text, SL_ADDR_TEXT);
	else
		snprintf(text, SL_ADDR_TEXT, "*");
	return text;
}

socklen_t sl_addr_to_sockaddr(const struct sl_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (a->family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = a->port_be;
		memcpy(&v4->sin_addr, a->addr, sizeof(v4->sin_addr));
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = a->port_be;
	memcpy(&v6->sin6_addr, a->addr, sizeof(v6->sin6_addr));
	return sizeof(*v6);
}

bool sl_addr_from_sockaddr(struct sl_addr *a, const struct sockaddr *sa)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;

	*a = (struct sl_addr){0};
	if (sa->sa_family == AF_INET) {
		a->family = 4;
		a->port_be = v4->sin_port;
		memcpy(a->addr, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (sa->sa_family == AF_INET6) {
		a->family = 6;
		a->port_be = v6->sin6_port;
		memcpy(a->addr, &v6->sin6_addr, sizeof(v6->sin6_addr));
	}
	return a->family != 0;
}
