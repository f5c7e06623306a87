/* SPDX-License-Identifier: Apache-2.0 */
/* Servers whose name has several addresses, of which one answers. */
#include <netdb.h>
#include <netinet/in.h>

#include "agent_bed.h"

static struct sockaddr_in found[2];
static struct addrinfo list[2];

/* The test's resolver. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **out)
{
	(void)host;
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	for (unsigned i = 0; i < 2; i++) {
		found[i].sin_family = AF_INET;
		found[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 - i);
		found[i].sin_port = htons((uint16_t)atoi(port));
		list[i] = (struct addrinfo){.ai_addr = (struct sockaddr *)&found[i],
					    .ai_addrlen = sizeof(found[i])};
	}
	list[0].ai_next = &list[1];
	*out = list;
	return 0;
}

void freeaddrinfo(struct addrinfo *l)
{
	(void)l;
}

/* The first one refuses connections. */
TEST(addresses_of_a_name_are_tried_in_turn)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	char to[64];

	bed.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(bed.listen_fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(bed.listen_fd, 16), 0);
	ck_assert_int_eq(getsockname(bed.listen_fd, (struct sockaddr *)&in, &len), 0);
	snprintf(to, sizeof(to), "http://two.test:%u", ntohs(in.sin_port));
	bed_open(to, (struct sl_agent_options){0});
	bed_go();
	for (unsigned i = 0; bed.unready && i < 60000; i++) {
		bed_turns(1);
		usleep(1000);
	}
	ck_assert(!bed.unready);
	bed_stop();
}
