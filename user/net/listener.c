/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing. Only the operator chooses keys, so the hash needs no key. */
#include <errno.h>
#include <stdlib.h>
#include "net/net.h"
#include "sluice/abi.h"

_Static_assert((SL_NET_LISTENER_SLOTS & (SL_NET_LISTENER_SLOTS - 1)) == 0, "mask");
_Static_assert((int)SL_NET_LISTENER_SLOTS >= 2 * (int)SL_MAX_LISTENERS, "runs end");

static const uint8_t any_addr[16];

static uint32_t first_slot(uint16_t port_be, uint8_t family, uint8_t protocol)
{
	uint32_t key = port_be | (uint32_t)family << 16 | (uint32_t)protocol << 24;

	return key * UINT32_C(0x9e3779b1) >> 22 & (SL_NET_LISTENER_SLOTS - 1);
}

int sl_net_set_listeners(struct sl_net *n, const struct sl_net_listener *l, uint32_t cnt)
{
	struct sl_net_listener *copy = NULL;

	if (cnt > SL_MAX_LISTENERS)
		return -EINVAL;
	if (cnt) {
		copy = malloc(cnt * sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		memcpy(copy, l, cnt * sizeof(*copy));
	}
	free(n->listeners);
	n->listeners = copy;
	n->listener_cnt = cnt;
	memset(n->listener_slot, 0, sizeof(n->listener_slot));
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t slot = first_slot(l[i].at.port_be, l[i].at.family, l[i].protocol);

		while (n->listener_slot[slot])
			slot = (slot + 1) % SL_NET_LISTENER_SLOTS;
		n->listener_slot[slot] = (uint16_t)(i + 1);
	}
	return 0;
}

static bool is_unicast(uint8_t family, const uint8_t *addr)
{
	return family == 4 ? addr[0] != 0 && addr[0] < 224 : addr[0] != 0xff;
}

static size_t addr_len(uint8_t family)
{
	return family == 4 ? 4 : 16;
}

static bool is_any(const struct sl_net_listener *l)
{
	return memcmp(l->at.addr, any_addr, addr_len(l->at.family)) == 0;
}

int sl_net_find_listener(const struct sl_net *n, uint8_t family, const uint8_t *addr,
			 uint16_t port_be, uint8_t protocol)
{
	uint32_t slot = first_slot(port_be, family, protocol);
	int found = -1;

	for (; n->listener_slot[slot]; slot = (slot + 1) % SL_NET_LISTENER_SLOTS) {
		const struct sl_net_listener *l = &n->listeners[n->listener_slot[slot] - 1];

		if (l->at.port_be != port_be || l->at.family != family || l->protocol != protocol)
			continue;
		if (memcmp(l->at.addr, addr, addr_len(family)) == 0)
			return l->listener;
		if (is_any(l) && is_unicast(family, addr))
			found = l->listener;
	}
	return found;
}

bool sl_net_serves(const struct sl_net *n, uint8_t family, const uint8_t *addr)
{
	for (uint32_t i = 0; i < n->listener_cnt; i++) {
		const struct sl_net_listener *l = &n->listeners[i];

		if (l->at.family == family && (memcmp(l->at.addr, addr, addr_len(family)) == 0 ||
					       (is_any(l) && is_unicast(family, addr))))
			return true;
	}
	return false;
}
