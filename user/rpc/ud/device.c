/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/device.h"

#include <string.h>
#include "rpc/ud/near.h"
#include "rpc/ud/pair.h"
#include "rpc/ud/sidr.h"
#include "rpc/verbs/verbs.h"

enum { HOPS = 64 };

static void *way_new(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = l->port,
		.grh = {.sgid_index = l->gid_index, .hop_limit = HOPS, .traffic_class = tos}};

	memcpy(attr.grh.dgid.raw, gid, 16);
	return ibv_create_ah(l->device, &attr);
}

static void way_free(void *way)
{
	ibv_destroy_ah(way);
}

const struct ud_device ud_verbs_device = {
	.open = ud_pair_open,
	.close = ud_pair_close,
	.slot = ud_pair_slot,
	.send = ud_pair_send,
	.ring = ud_pair_ring,
	.poll = ud_pair_poll,
	.put_back = ud_pair_put_back,
	.is_from = ud_pair_is_from,
	.arm = ud_pair_arm,
	.take_bell = ud_pair_take_bell,
	.watch = vb_port_watch,
	.unwatch = vb_port_unwatch,
	.way_new = way_new,
	.way_free = way_free,
	.is_near = ud_is_near,
	.ask = ud_sidr_ask,
	.sign_new = ud_sidr_sign_new,
	.sign_answer = ud_sidr_sign_answer,
	.sign_free = ud_sidr_sign_free,
};

const struct ud_device *ud_device = &ud_verbs_device;
