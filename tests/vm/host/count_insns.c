/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin of QEMU: counts each CPU's instructions, user and kernel apart: `uint64_t [CPU][2]` in a
 * file. A block counts when it is entered, a repeated string instruction once, as in hardware.
 * Debian lacks the header; this is version 1 of QEMU 7.2.
 *
 * usage: -plugin count_insns.so,to=PATH
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CPUS_MAX   64
#define UPPER_HALF (1ULL << 63)
#define EXPORT     __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*on_translation)(plugin_id id, struct qemu_plugin_tb *tb);
typedef void (*on_execution)(unsigned cpu, void *arg);
enum { NO_REGISTERS };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, on_translation call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, on_execution call, int flags,
					  void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

struct block {
	uint64_t first;   /* address */
	uint64_t repeats; /* address of the last instruction, if repeated */
	uint32_t count;
	bool kernel;
};

static uint64_t (*counts)[2];
static uint64_t repeated[CPUS_MAX]; /* of the CPU's last block */

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

/* Only this CPU's thread writes its counts. */
static void enter(unsigned cpu, void *arg)
{
	const struct block *b = arg;
	uint64_t *count = &counts[cpu % CPUS_MAX][b->kernel];
	uint64_t *last = &repeated[cpu % CPUS_MAX];
	const uint64_t n = b->count - (*last == b->first);

	__atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
	*last = b->repeats;
}

/* Prefixes, F3 or F2 among them, then the opcode of a string instruction. */
static bool is_repeated(const struct qemu_plugin_insn *insn)
{
	const uint8_t *p = qemu_plugin_insn_data(insn);
	bool rep = false;
	uint8_t op;

	for (size_t i = 0; i + 1 < qemu_plugin_insn_size(insn); i++)
		rep |= p[i] == 0xf3 || p[i] == 0xf2;
	op = p[qemu_plugin_insn_size(insn) - 1];
	return rep && qemu_plugin_insn_size(insn) <= 4 &&
	       ((op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf));
}

static void translate(plugin_id id, struct qemu_plugin_tb *tb)
{
	const size_t n = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
	struct block *b = calloc(1, sizeof(*b)); /* stays: QEMU may still run a block it dropped */

	(void)id;
	if (!b)
		abort();
	b->first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	b->repeats = is_repeated(last) ? qemu_plugin_insn_vaddr(last) : 0;
	b->count = (uint32_t)n;
	b->kernel = b->first & UPPER_HALF;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, enter, NO_REGISTERS, b);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	const size_t len = CPUS_MAX * sizeof(*counts);
	int fd;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "to=", 3) != 0) {
		fprintf(stderr, "count_insns: expected to=PATH\n");
		return -1;
	}
	fd = open(argv[0] + 3, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)len)) {
		perror(argv[0] + 3);
		return -1;
	}
	counts = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (counts == MAP_FAILED) {
		perror(argv[0] + 3);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
