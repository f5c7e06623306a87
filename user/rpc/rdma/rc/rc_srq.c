/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/rc_srq.h"

#include <errno.h>
#include <sys/mman.h>
#include "base/bytes.h"
#include "rpc/rdma/mr_pool.h"
#include "wire/rpc_wire.h"

enum {
	POST = 16,
	SRQ_LOW = 16, /* slots: fewer are left only if a peer exceeds its window */
};
#define CHUNK_LEN ((size_t)RC_SRQ_CHUNK * SL_RPC_SLOT_SIZE)

uint32_t rc_srq_size(const struct ibv_device_attr *caps)
{
	static const unsigned windows =
		IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	uint32_t most = caps->max_srq_wr > 0 ? (uint32_t)caps->max_srq_wr : 0;

	if (!(caps->device_cap_flags & windows) || caps->max_srq < 1)
		return 0;
	if (most > (caps->max_cqe > 0 ? (uint32_t)caps->max_cqe : 0))
		most = (uint32_t)caps->max_cqe;
	most = most < RC_SRQ_SLOTS ? most : RC_SRQ_SLOTS;
	return most / RC_SRQ_CHUNK * RC_SRQ_CHUNK;
}

uint8_t *rc_srq_slot(const struct rc_srq *s, uint32_t slot)
{
	return s->chunks[slot / RC_SRQ_CHUNK] + (size_t)(slot % RC_SRQ_CHUNK) * SL_RPC_SLOT_SIZE;
}

int rc_srq_post(struct rc_srq *s, const uint32_t *slots, unsigned cnt)
{
	while (cnt) {
		SL_UNINIT struct ibv_recv_wr wr[POST];
		SL_UNINIT struct ibv_sge sge[POST];
		struct ibv_recv_wr *bad;
		unsigned n = cnt < POST ? cnt : POST;

		for (unsigned i = 0; i < n; i++) {
			sge[i] = (struct ibv_sge){.addr = (uintptr_t)rc_srq_slot(s, slots[i]),
						  .length = SL_RPC_SLOT_SIZE,
						  .lkey = s->mrs[slots[i] / RC_SRQ_CHUNK]->lkey};
			wr[i] = (struct ibv_recv_wr){.wr_id = slots[i],
						     .next = i + 1 < n ? &wr[i + 1] : NULL,
						     .sg_list = &sge[i],
						     .num_sge = 1};
		}
		if (ibv_post_srq_recv(s->srq, wr, &bad))
			return -EIO;
		slots += n;
		cnt -= n;
	}
	return 0;
}

static int add_chunk(struct rc_srq *s)
{
	uint32_t slots[RC_SRQ_CHUNK];
	size_t map_len;
	uint8_t *mem = mr_map(CHUNK_LEN, s->numa_node, &map_len);
	struct ibv_mr *mr;

	if (!mem)
		return -ENOMEM;
	mr = ibv_reg_mr(s->pd, mem, CHUNK_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		munmap(mem, CHUNK_LEN);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < RC_SRQ_CHUNK; i++)
		slots[i] = s->chunk_cnt * RC_SRQ_CHUNK + i;
	s->chunks[s->chunk_cnt] = mem;
	s->mrs[s->chunk_cnt++] = mr;
	return rc_srq_post(s, slots, RC_SRQ_CHUNK);
}

void rc_srq_arm_limit(struct rc_srq *s)
{
	struct ibv_srq_attr attr = {.srq_limit = SRQ_LOW};

	(void)ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT);
}

int rc_srq_grow(struct rc_srq *s, uint32_t cnt)
{
	int rc = 0;

	while (!rc && s->chunk_cnt * RC_SRQ_CHUNK < cnt) {
		rc = add_chunk(s);
		if (!rc && s->chunk_cnt == 1)
			rc_srq_arm_limit(s);
	}
	return rc;
}

uint32_t rc_srq_slot_cnt(const struct rc_srq *s)
{
	return s->chunk_cnt * RC_SRQ_CHUNK;
}

void rc_srq_free_slots(struct rc_srq *s)
{
	for (uint32_t i = 0; i < s->chunk_cnt; i++) {
		ibv_dereg_mr(s->mrs[i]);
		munmap(s->chunks[i], CHUNK_LEN);
	}
}
