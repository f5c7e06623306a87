/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host name is resolved at first, then every 30 s and at each reload. A server without an address
 * is down.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

#define LOOK_UP_NS (30 * SL_NS_PER_SEC)

void agent_address_text(const struct agent_server *s, char *to, size_t len)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&s->addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&s->addr;
	char text[INET6_ADDRSTRLEN] = "";

	if (s->url.local)
		snprintf(to, len, "%s", s->url.path);
	else if (!s->addr_len)
		snprintf(to, len, "%s:%u", s->url.host, s->url.port);
	else if (s->addr.ss_family == AF_INET6)
		snprintf(to, len, "[%s]:%u",
			 inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text)), s->url.port);
	else
		snprintf(to, len, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)),
			 s->url.port);
}

static void use_address(struct agent_server *s, unsigned i)
{
	s->addr = s->query.addrs[i];
	s->addr_len = s->query.lens[i];
	s->tried = false;
}

void agent_address_begin(struct agent_server *s)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&s->addr;

	s->query = (struct agent_query){.owner = s, .host = s->url.host, .port = s->url.port};
	if (s->url.local) {
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, s->url.path, sizeof(un->sun_path));
		s->addr_len = sizeof(*un);
		return;
	}
	agent_names_resolve(&s->query, true);
	if (s->query.cnt) {
		use_address(s, 0);
		return;
	}
	s->named = true;
	agent_address_look_up(s);
}

void agent_address_look_up(struct agent_server *s)
{
	if (s->named)
		agent_names_ask(s->a->names, &s->query);
}

/* Returns the current address's index, or query.cnt. */
static unsigned index_of(const struct agent_server *s)
{
	unsigned i = 0;

	while (i < s->query.cnt && (s->addr_len != s->query.lens[i] ||
				    memcmp(&s->addr, &s->query.addrs[i], s->addr_len) != 0))
		i++;
	return i;
}

void agent_address_next(struct agent_server *s)
{
	unsigned next;

	if (!s->tried || s->query.asked || s->query.cnt < 2)
		return;
	next = index_of(s) + 1;
	use_address(s, next < s->query.cnt ? next : 0);
}

static void move_server(struct agent_server *s)
{
	bool first = !s->addr_len;
	char text[128];

	use_address(s, 0);
	agent_address_text(s, text, sizeof(text));
	if (!first)
		sl_log_info("agent: %s: %s has moved to %s", s->name, s->url.host, text);
	agent_server_retire(s, "its server has moved");
	s->found = true;
	origin_server_moved(&s->origin);
}

static void take_address(struct agent_server *s)
{
	struct agent *a = s->a;
	char why[sizeof(s->origin.why) + 96];

	origin_timer_set(&a->origin, &s->lookup,
			 a->origin.now_ns + LOOK_UP_NS - LOOK_UP_NS / 8 +
				 sl_prng_below(&a->prng, LOOK_UP_NS / 4));
	if (s->query.cnt) {
		s->lost_name = false;
		if (index_of(s) == s->query.cnt)
			move_server(s);
		return;
	}
	snprintf(why, sizeof(why), "%.64s: %s", s->url.host,
		 s->query.error[0] ? s->query.error : "it has no address");
	if (!s->addr_len) {
		origin_server_down(&s->origin, why);
	} else if (!s->lost_name) {
		s->lost_name = true;
		sl_log_warn("agent: %s: %s; its last address stays", s->name, why);
	}
}

void agent_address_answers(struct agent *a)
{
	struct agent_query *q;

	while ((q = agent_names_take(a->names)))
		take_address(q->owner);
}
