# SPDX-License-Identifier: Apache-2.0
# sluice: every target on one page. `make help` lists them.
#
#   make BUILD=dir  builds elsewhere      make CC=clang   the other compiler
#   make V=1        shows the commands    make DEBUG=1    frame and pool checks on, -O1
#   make SAN=1      ASan and UBSan (used by `make asan` with its own build folder)
#   make CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar SLUICE_HOST=FILE  a cross build; FILE: a `sluice` that runs here
#   make AEAD=openssl  TLS records by OpenSSL instead of libipsec-mb, which only x86-64 has
#   make DEV=1      development build in build/dev: -O1, no link-time optimisation; one changed .c file takes seconds

BUILD    ?= build$(if $(DEV),/dev)
$(if $(word 2,$(CURDIR)),$(error sluice cannot be built in a folder whose path has a blank: $(CURDIR)))
$(if $(word 2,$(BUILD)),$(error BUILD: found a path with a blank: $(BUILD); allowed: a path without one))
# One of the names that DEPENDS writes: x or /path/x.
override BUILD := $(if $(findstring ..,$(BUILD)),$(abspath $(BUILD)),$(patsubst %/,%,$(BUILD)))
CC       := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG    ?= clang
BPFTOOL  ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PREFIX   ?= /usr
LIBDIR   ?= $(PREFIX)/lib
UNITDIR  ?= $(PREFIX)/lib/systemd/system
VERSION  := $(shell sed -n 's/^.define SL_VERSION "\(.*\)"/\1/p' user/cli/cli.h)
MULTIARCH := $(or $(shell $(CC) -print-multiarch 2>/dev/null),$(shell uname -m)-linux-gnu)
Q        := $(if $(V),,@)

WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
# -O2 instead: 4 % more instructions a request, batches of 8 and 32 take 1.12 and 1.15 times as long, a seventh less text.
CFLAGS   ?= $(if $(DEV),-O1,-O3) -g
# CFLAGS, CPPFLAGS and LDFLAGS are the user's: they are appended to what the sources need.
SL_CPPFLAGS := -D_GNU_SOURCE -Iinclude -Iuser -I$(BUILD)/gen
SL_LDFLAGS :=
# Debug information and __FILE__ contain no path of this machine, so builds in different folders are identical.
PATH_MAPS := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(BUILD)/gen=gen
# x86-64-v2 and no more: csum picks wider code at run time. Frame pointers cost 2 % of a request's instructions:
# `make CFLAGS="-O3 -g -fno-omit-frame-pointer"` has them, for a profiler that follows no other trace.
SL_CFLAGS := -std=gnu17 $(WARN) -fno-strict-aliasing -pthread $(PATH_MAPS) $(CFLAGS)
# Those of these that the compiler has (clang 14 wants the long one); tests/support/hardening.sh looks at the program.
takes     = $(shell $(CC) -Werror $(1) -c -x c /dev/null -o /dev/null 2>/dev/null && echo '$(1)')
AUTO_INIT := -ftrivial-auto-var-init=zero
HARDEN   := $(call takes,-fstack-protector-strong) $(call takes,-fstack-clash-protection) \
	$(call takes,-fcf-protection) $(call takes,-mbranch-protection=standard) \
	$(or $(call takes,$(AUTO_INIT)),$(call takes,$(AUTO_INIT) -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang))
# Checked copies want an optimising compiler, and sanitizers check more.
FORTIFY  := $(if $(SAN)$(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
# rep stos, gcc's way to clear small structures, takes longer to begin than the stores do: 11 % of an HTTP/1 request's parsing.
comma     := ,
CLEARING  := $(call takes,-mmemset-strategy=vector_loop:256:noalign$(comma)libcall:-1:noalign)
SL_CFLAGS += $(HARDEN) $(FORTIFY) $(CLEARING) -fPIE
SL_LDFLAGS += -pie -Wl,-z,relro,-z,now
# Programs are optimised as a whole by gcc; tests, which are many, are linked as usual from the same objects.
ifeq ($(DEV)$(SAN)$(DEBUG)$(WALK)$(filter clang%,$(notdir $(CC))),)
SL_CFLAGS += -flto=auto -ffat-lto-objects
NO_LTO    := -fno-lto
NO_LTO_interop := $(NO_LTO) # its speed does not matter
endif
ifdef DEBUG
SL_CFLAGS += -DSL_DEBUG -O1
endif
ifdef WALK
SL_CFLAGS += -finstrument-functions -fno-pie
SL_LDFLAGS += -no-pie
endif
ifdef SAN
SL_CFLAGS += -DSL_DEBUG -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SL_LDFLAGS += -fsanitize=address,undefined
endif

# Left never includes right (tests/support/layers.sh holds the exact table).
MODULES  := base sandbox wire http config xio net tcp udp front sock batch rpc sdk origin core worker gateway control agent tools cli
# Ciphers of TLS records: libipsec-mb if programs link with it, else OpenSSL.
has_ipsec_mb = $(shell echo 'int main(void) { return 0; }' | \
	$(CC) -include intel-ipsec-mb.h -o /dev/null -x c - -lIPSec_MB 2>/dev/null && echo yes)
AEAD     ?= $(if $(has_ipsec_mb),ipsec_mb,openssl)
override AEAD := $(or $(filter ipsec_mb openssl,$(AEAD)),$(error AEAD: found $(AEAD); allowed: ipsec_mb, openssl))
NOT_BUILT := user/sdk/backend/compat1.c user/sdk/programs/% user/sdk/python/% $(filter-out %_$(AEAD).c,$(wildcard user/front/tls/aead_*.c))
SRC       = $(filter-out $(NOT_BUILT),$(sort $(wildcard user/$(1)/*.c user/$(1)/*/*.c user/$(1)/*/*/*.c)))
OBJ       = $(patsubst %.c,$(BUILD)/obj/%.o,$(call SRC,$(1)))
LIB       = $(BUILD)/lib/libsl_$(1).a
LIBS     := $(foreach m,$(MODULES),$(call LIB,$(m)))
# Objects of two folders may have one name: q keeps both where r, which looks for names, would replace.
PACK      = rm -f $@ && $(AR) qcsD $@ $^
# Each module's own system libraries; a test links those of its module and of all to the left.
LD_sandbox := -lseccomp -lcap-ng
LD_config  := -lconfuse
LD_xio     := -lxdp -lbpf -lelf -lz
LD_front   := -lnghttp2 -lssl -lcrypto $(if $(filter ipsec_mb,$(AEAD)),-lIPSec_MB)
LD_rpc     := -lrdmacm -libverbs -lssl -lcrypto
LD_origin  := -lnghttp2 -lcrypto -lm
LD_control := -lmicrohttpd -ljansson
LD_cli     := -lm
ALL_LD   := $(foreach m,$(MODULES),$(LD_$(m))) -lm
upto      = $(if $(filter $(1),$(firstword $(2))),$(1),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,99,$(2))))
link_libs = -Wl,--start-group $(foreach m,$(1),$(call LIB,$(m))) -Wl,--end-group $(foreach m,$(1),$(LD_$(m))) -lm

SKEL     := $(BUILD)/gen/sluice.skel.h
BPF_OBJ  := $(BUILD)/sluice.bpf.o
# The same, for the gateway to bind to a NIC that strips VLAN tags.
TAGS_SKEL := $(BUILD)/gen/sluice_tags.skel.h
BPF_TAGS_OBJ := $(BUILD)/gen/sluice_tags.bpf.o
CLIENTS  := datagram
CALLERS  := call
BACKENDS := $(filter-out $(CLIENTS) $(CALLERS),$(patsubst user/sdk/programs/%.c,%,$(wildcard user/sdk/programs/*.c)))
MANS     := $(patsubst user/cli/man/%.in,$(BUILD)/man/%,$(wildcard user/cli/man/*.in))
SDKS     := $(BUILD)/libsluice-backend.a $(BUILD)/libsluice-client.a $(BUILD)/libsluice-datagram.a
SDK_SOS  := $(BUILD)/libsluice-backend.so $(BUILD)/libsluice-client.so
SDK_ABI  := 1# changes when a program linked before does not run any more
# The package `sluice` of Debian's Python: within its stable ABI, so any later Python 3 can import it too.
PYTHON   := /usr/bin/python3
PY_SRC   := $(sort $(wildcard user/sdk/python/sluice/*))
PY_SO    := $(BUILD)/python/sluice/_backend.abi3.so
PY_CLIENT := $(BUILD)/python/sluice/_client.abi3.so
PY_FILES := $(PY_SO) $(PY_CLIENT) $(patsubst user/sdk/%,$(BUILD)/%,$(PY_SRC))
PY_DIR    = $(if $(filter /usr,$(PREFIX)),lib/python3,$(shell $(PYTHON) -c 'import sys; print("lib/python%d.%d" % sys.version_info[:2])'))/dist-packages/sluice

.PHONY: all deps help demo test test-long test-unit test-stack test-bpf test-netns test-volume test-vm test-rpc test-debian13 test-arm64 asan soak fuzz lint \
        netns-tools layers walk format bench clean install uninstall deb wheel man docs house mutate prose
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/sluice $(BUILD)/sluice-agent $(foreach b,$(BACKENDS) $(CLIENTS) $(CALLERS),$(BUILD)/$(b)) $(SDKS) $(SDK_SOS) $(PY_FILES) $(MANS) ## build everything
$(BUILD)/sluice: $(LIBS) $(BPF_OBJ)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(SL_LDFLAGS) $(LDFLAGS) -o $@ -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LD)

# The agent alone, for hosts without a gateway: it needs fewer libraries.
$(BUILD)/sluice-agent: $(BUILD)/obj/user/service/sluice-agent.o $(LIBS)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $< -Wl,--gc-sections -Wl,--as-needed -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LD)

# The SDKs carry what they need of other modules, so that a backend or a client links one archive.
$(BUILD)/libsluice-backend.a: $(foreach m,base rpc sdk/backend,$(call OBJ,$(m)))
$(BUILD)/libsluice-client.a: $(foreach m,base rpc sdk/client,$(call OBJ,$(m)))
$(BUILD)/libsluice-datagram.a: $(foreach m,base sdk/datagram,$(call OBJ,$(m)))
$(SDKS):
	@echo "  AR      $@"
	$(Q)$(PACK)
# The same for bindings and for programs that are not built again with it: position-independent, with
# the names of sluice/backend.h or sluice/client.h only.
define so_rule
$(BUILD)/libsluice-$(1).so: $(patsubst $(BUILD)/obj/%,$(BUILD)/pic/%,$(foreach m,base rpc sdk/$(1),$(call OBJ,$(m)))) \
		user/sdk/$(1)/libsluice-$(1).map
	@echo "  LD      $$@"
	$$(Q)$$(CC) $$(SL_CFLAGS) $$(NO_LTO) $$(filter-out -pie,$$(SL_LDFLAGS)) $$(LDFLAGS) -shared -Wl,-soname,$$(@F).$$(SDK_ABI) \
		$$(if $$(SAN),,-Wl,-z,defs) -Wl,--version-script=user/sdk/$(1)/libsluice-$(1).map -o $$@.$$(SDK_ABI) \
		$$(filter %.o,$$^) $$(LD_rpc) -lm
	$$(Q)ln -sf $$(@F).$$(SDK_ABI) $$@
endef
$(foreach l,backend client,$(eval $(call so_rule,$(l))))
$(BUILD)/libsluice-backend.so: $(BUILD)/pic/user/sdk/backend/compat1.o # names of earlier versions
# It finds the library beside itself (wheel), beside the build folder it lies in, and from dist-packages in the PREFIX of both.
PY_RPATH ?= -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../..:$$ORIGIN/../../..'
$(PY_SO): $(patsubst %.c,$(BUILD)/pic/%.o,$(wildcard user/sdk/python/*.c)) $(BUILD)/libsluice-backend.so
$(PY_CLIENT): $(patsubst %.c,$(BUILD)/pic/%.o,$(wildcard user/sdk/python/client/*.c)) $(BUILD)/libsluice-client.so
$(PY_SO) $(PY_CLIENT):
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(NO_LTO) $(filter-out -pie,$(SL_LDFLAGS)) $(LDFLAGS) -shared -o $@ $(filter %.o,$^) -L$(BUILD) \
		$(patsubst $(BUILD)/lib%.so,-l%,$(filter %.so,$^)) $(PY_RPATH)
$(BUILD)/pic/user/sdk/python/%.o: SL_CPPFLAGS += -isystem $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
$(BUILD)/python/sluice/%: user/sdk/python/sluice/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(foreach b,$(BACKENDS),$(BUILD)/$(b)): $(BUILD)/%: $(BUILD)/obj/user/sdk/programs/%.o $(BUILD)/libsluice-backend.a
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(NO_LTO_$*) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $^ $(LD_rpc) -lopenblas -lprotobuf-c -lm
$(foreach b,$(CLIENTS),$(BUILD)/$(b)): $(BUILD)/%: $(BUILD)/obj/user/sdk/programs/%.o $(BUILD)/libsluice-datagram.a
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $^ -lm

$(foreach b,$(CALLERS),$(BUILD)/$(b)): $(BUILD)/%: $(BUILD)/obj/user/sdk/programs/%.o $(BUILD)/libsluice-client.a
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $^ $(LD_rpc) -lm

define lib_rule
$(call LIB,$(1)): $(call OBJ,$(1))
	@mkdir -p $$(@D)
	@echo "  AR      $$@"
	$$(Q)$$(PACK)
endef
$(foreach m,$(MODULES),$(eval $(call lib_rule,$(m))))
# An archive that was made with another AEAD is made again.
AEAD_OLD := $(shell f=$(call LIB,front); [ ! -e $$f ] || $(AR) t $$f | grep -q '^aead_$(AEAD)\.o$$' || rm -f $$f)

# All names that an object can have, for any form of BUILD.
DEPENDS   = -MMD -MP $(addprefix -MT ,$(sort $@ $(abspath $@) $(patsubst $(CURDIR)/%,%,$(abspath $@))))
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(SL_CPPFLAGS) $(CPPFLAGS) $(SL_CFLAGS) $(DEPENDS) -c -o $@ $<
$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $< (shared)"
	$(Q)$(CC) $(SL_CPPFLAGS) $(CPPFLAGS) $(SL_CFLAGS) $(NO_LTO) -fPIC $(DEPENDS) -c -o $@ $<
$(call OBJ,xio): | $(SKEL) $(TAGS_SKEL)
# The example with protobuf-c includes what is generated of its .proto.
$(BUILD)/gen/%.pb-c.c: user/sdk/programs/%.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<
$(BUILD)/obj/user/sdk/programs/interop.o: $(BUILD)/gen/interop.pb-c.c
$(BUILD)/obj/user/control/dashboard.o: $(wildcard user/control/dashboard.[hcj]* vendor/uplot/*)
$(BUILD)/obj/user/control/dashboard.o: SL_CFLAGS += $(NO_LTO) # symbols of an asm at file level
# Descriptor sets that are built in, as bytes for an #include.
$(BUILD)/gen/grpc_own.pb.inc: $(shell find user/front/grpc/proto -name '*.proto' | sort)
$(BUILD)/gen/demo_echo.pb.inc: user/sdk/programs/echo.proto
$(BUILD)/gen/%.pb.inc:
	@mkdir -p $(@D)
	$(Q)protoc-c -Iuser/front/grpc/proto -Iuser/sdk/programs -o $(@:.inc=) $^
	$(Q)od -An -v -tx1 $(@:.inc=) | sed 's/ \(..\)/0x\1,/g' >$@
$(BUILD)/obj/user/front/grpc/descriptors.o: $(BUILD)/gen/grpc_own.pb.inc
$(BUILD)/gen/chat.py.inc: user/sdk/python/examples/chat.py
$(BUILD)/gen/netns.sh.inc: user/tools/demo/netns.sh
$(BUILD)/gen/chat.py.inc $(BUILD)/gen/netns.sh.inc:
	@mkdir -p $(@D)
	$(Q)od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' >$@
$(BUILD)/obj/user/tools/demo/testbed.o: $(addprefix $(BUILD)/gen/,demo_echo.pb.inc chat.py.inc netns.sh.inc)

BPF_CFLAGS := -O2 -g -Wall -Wextra -target bpf -mcpu=v3 $(PATH_MAPS) -fdebug-compilation-dir=. -Iinclude -Ibpf -I/usr/include/$(MULTIARCH)
$(BPF_OBJ): bpf/sluice.bpf.c $(wildcard bpf/*.h include/sluice/*.h)
	@mkdir -p $(@D)
	@echo "  BPF     $@"
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<
$(BPF_TAGS_OBJ): bpf/sluice.bpf.c $(wildcard bpf/*.h include/sluice/*.h)
	@mkdir -p $(@D)
	@echo "  BPF     $@"
	$(Q)$(CLANG) $(BPF_CFLAGS) -DSL_READ_TAGS -c -o $@ $<
$(SKEL): $(BPF_OBJ)
$(TAGS_SKEL): $(BPF_TAGS_OBJ)
$(SKEL) $(TAGS_SKEL):
	@mkdir -p $(@D)
	$(Q)echo '/* NOLINTBEGIN: generated */' >$@
	$(Q)$(BPFTOOL) gen skeleton $< name sluice_bpf >>$@ 2>$@.err || { cat $@.err >&2; rm $@; false; }
	$(Q)echo '/* NOLINTEND */' >>$@
	@# libbpf says that it skips the section in which libxdp finds the program's priority: known, harmless
	@grep -v 'skipping unrecognized data section([0-9]*) \.xdp_run_config' $@.err >&2 || true

# tests/LAYER/MODULE/test_*.c: one libcheck program each, linked with the libraries up to MODULE.
TEST_SRC  = $(sort $(wildcard tests/$(1)/*/test_*.c))
TEST_BIN  = $(patsubst tests/%.c,$(BUILD)/tests/%,$(call TEST_SRC,$(1)))
SUPPORT  := $(BUILD)/lib/libsl_support.a
$(SUPPORT): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
	@mkdir -p $(@D)
	$(Q)$(PACK)
$(BUILD)/obj/tests/%.o: SL_CPPFLAGS += -Itests/support
# They are many, and each runs once: to optimise them takes longer than they do.
$(BUILD)/obj/tests/unit/%.o: SL_CFLAGS += $(NO_LTO) -O0 -U_FORTIFY_SOURCE
$(foreach l,stack rpc bpf,$(eval $(BUILD)/obj/tests/$(l)/%.o: SL_CFLAGS += $(NO_LTO) -O1))
$(BUILD)/obj/tests/rpc/sdk/test_shared.o: user/sdk/backend/libsluice-backend.map
$(BUILD)/obj/tests/rpc/sdk/test_shared.o: SL_CFLAGS += $(NO_LTO) # symbols of an asm at file level
define test_rule
$(BUILD)/tests/$(1): $(BUILD)/obj/tests/$(1).o $(SUPPORT) \
		$(foreach m,$(call upto,$(word 2,$(subst /, ,$(1))),$(MODULES)),$(call LIB,$(m)))
	@mkdir -p $$(@D)
	@echo "  LD      $$@"
	$$(Q)$(CC) $(SL_CFLAGS) $(NO_LTO) $(SL_LDFLAGS) $(LDFLAGS) -o $$@ $(BUILD)/obj/tests/$(1).o $(SUPPORT) \
		$(call link_libs,$(call upto,$(word 2,$(subst /, ,$(1))),$(MODULES))) -lcheck -lsubunit -lrt -lm
endef
ALL_TESTS := $(foreach l,unit stack rpc bpf,$(call TEST_SRC,$(l)))
$(foreach t,$(patsubst tests/%.c,%,$(ALL_TESTS)) stack/core/walk,$(eval $(call test_rule,$(t))))

# Programs that netns tests run as clients and backends.
NETNS_TOOLS := $(patsubst tests/netns/tools/%.c,$(BUILD)/tests/netns/%,$(wildcard tests/netns/tools/*.c))
$(NETNS_TOOLS): $(BUILD)/tests/netns/%: $(BUILD)/obj/tests/netns/tools/%.o $(BUILD)/libsluice-backend.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(NO_LTO) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $^ $(LD_rpc) -lm

# Programs of the benches, bench/DIR/NAME.c each, with what they need of all modules; `make bench/DIR` builds those of one.
BENCH_SRC  := bench/batch/batch.c bench/rpc/rpc.c bench/connect/connect.c bench/connect/virtual.c \
	$(filter-out bench/batch/% bench/rpc/% bench/connect/%,$(wildcard bench/*/*.c))
BENCH_DIRS := $(patsubst %/,%,$(sort $(dir $(BENCH_SRC))))
BENCH_RUNS := $(patsubst bench/%/run.sh,bench-%,$(wildcard bench/*/run.sh))
BENCH_LTO  := bench/rpc/rpc bench/micro/request_insns# linked as the product is
LD_bench/micro/http1 := -w -I/usr/share/include/llhttp /usr/share/llhttp/*.c
LD_bench/peers/grpc_server := -lgrpc -lgpr
LD_bench/kv/grpc := -lgrpc -lgpr
LD_bench/ucx/ucx := -lucp -lucs
.PHONY: $(BENCH_DIRS) $(BENCH_RUNS) bench/servers bench/local
$(BUILD)/obj/bench/%.o: SL_CPPFLAGS += -Itests/support -isystem /usr/share/include/llhttp
$(BENCH_SRC:%.c=$(BUILD)/%): $(BUILD)/%: $(BUILD)/obj/%.o $(SUPPORT) $(LIBS)
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(if $(filter $(BENCH_LTO),$*),,$(NO_LTO)) $(SL_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(SUPPORT) \
		-Wl,--as-needed -Wl,--start-group $(LIBS) -Wl,--end-group $(LD_$*) $(ALL_LD)
$(foreach d,bench/batch bench/rpc,$(eval $(BUILD)/$(d)/$(notdir $(d)): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(d)/*.c))))
$(BUILD)/bench/connect/connect $(BUILD)/bench/connect/virtual: $(BUILD)/obj/bench/connect/ends.o
$(BUILD)/bench/connect/virtual: $(BUILD)/obj/bench/connect/crowd.o
$(foreach d,$(BENCH_DIRS),$(eval $(d): $(patsubst %.c,$(BUILD)/%,$(filter $(d)/%,$(BENCH_SRC)))))
bench/peers: bench/ceiling
bench/rpc: bench/ucx
bench/servers: bench/stream
bench/servers bench/local: $(BUILD)/bench/servers/grpc_server
$(BUILD)/bench/servers/grpc_server: bench/servers/grpc_server.cc
	@mkdir -p $(@D)
	@echo "  CXX     $@"
	$(Q)$(CXX) -O2 -o $@ $< -lgrpc++ -lgrpc -lgpr -labsl_synchronization
bench/tls bench/hostile: netns-tools

deps: ## install what is missing (Debian packages of vendor/)
	$(Q)vendor/install.sh
test: ## the same each time; needs root
	$(Q)tests/run.sh all
test-long: ## clang-tidy, load, sanitizers, virtual machines, Debian 13, arm64, timed fuzzing
	$(Q)tests/run.sh long
# Incompatible with sanitizers: a sandbox that forbids their calls, tests that count allocations.
NOT_SANITIZED := sandbox/% batch/test_queue front/test_grpc_descriptors
# Those that take longest begin first.
LONGEST  := $(addprefix rpc/sdk/test_,migrate liar load killed failure threads silence) \
	$(addprefix unit/rpc/test_,arq srq_credits rx_window ud_qp psk credits) \
	$(addprefix unit/,front/test_h2 front/test_h2_flood base/test_ring core/test_retry)
in_order  = $(filter $(LONGEST:%=$(BUILD)/tests/%),$(1)) $(filter-out $(LONGEST:%=$(BUILD)/tests/%),$(1))
test-unit: $(filter-out $(if $(SAN),$(NOT_SANITIZED:%=$(BUILD)/tests/unit/%)),$(call TEST_BIN,unit)) ## each module by itself
	$(Q)tests/support/run_bins.sh unit $(call in_order,$^)
test-stack: $(call TEST_BIN,stack) ## packets in, packets out, fake clock
	$(Q)tests/support/run_bins.sh stack $^
test-rpc: all $(call TEST_BIN,rpc) ## the RPC suite over shared memory and tcp
	$(Q)SL_TEST_JOBS=$${SL_TEST_JOBS:-$$(($$(nproc) * 3))} \
		tests/support/run_bins.sh rpc $(call in_order,$(call TEST_BIN,rpc)) # they wait much
test-bpf: $(call TEST_BIN,bpf) $(BPF_OBJ) ## BPF_PROG_TEST_RUN; needs root
	$(Q)tests/support/run_bins.sh bpf $(call TEST_BIN,bpf)
netns-tools: $(NETNS_TOOLS)
test-netns: all netns-tools ## the real gateway, real clients, namespaces; needs root
	$(Q)BUILD=$(abspath $(BUILD)) tests/netns/run.sh
test-vm: all $(call TEST_BIN,rpc) ## soft-RoCE, dispatcher, zero-copy in QEMU; needs root
	$(Q)BUILD=$(abspath $(BUILD)) tests/vm/run.sh
test-debian13 test-arm64: test-%: ## builds and tests in a Debian 13 chroot, for x86-64 and for arm64; needs root
	$(Q)tests/chroot/run.sh $*
test-volume: all netns-tools ## those of test-netns that are about load; needs root
	$(Q)BUILD=$(abspath $(BUILD)) VOLUME=1 tests/netns/run.sh
soak: all netns-tools ## two workers and 20,000 WebSockets over TLS (SOAK=N); needs root, some ten minutes
	$(Q)BUILD=$(abspath $(BUILD)) SL_TEST_TIMEOUT=7200 tests/netns/run.sh agent/soak
asan: ## the netns suite under ASan and UBSan (ASAN_TESTS="http h2/clients": some of it)
	$(Q)$(MAKE) --no-print-directory SAN=1 CFLAGS=-g1 BUILD=$(BUILD)/asan all netns-tools
	$(Q)BUILD=$(abspath $(BUILD))/asan SL_SANITIZED=1 tests/netns/run.sh $(ASAN_TESTS)
asan-unit asan-stack: asan-%: ## those layers under ASan and UBSan
	$(Q)$(MAKE) --no-print-directory SAN=1 CFLAGS=-g1 BUILD=$(BUILD)/asan test-$*
fuzz: ## every fuzz target, FUZZ_SECONDS each (default 600); FUZZ_REPLAY=1: its corpus only; FUZZ_SHOW=1: for how long so far
	$(Q)BUILD=$(abspath $(BUILD)) FUZZ_REPLAY=$(FUZZ_REPLAY) tests/fuzz/run.sh
lint: layers ## clang-format, clang-tidy, cppcheck, spelling, prose, links, layers
	$(Q)BUILD=$(abspath $(BUILD)) LINT_STEPS='$(LINT_STEPS)' tests/support/lint.sh
layers: ## fail on an include against the dependency order
	$(Q)tests/support/layers.sh
walk: ## how a small GET goes through the files: built for it, some minutes the first time
	$(Q)$(MAKE) --no-print-directory WALK=1 DEBUG= BUILD=$(BUILD)/walk $(BUILD)/walk/tests/stack/core/walk
	$(Q)tests/support/walk.py $(BUILD)/walk/tests/stack/core/walk $(BUILD)/walk/stops
house: walk ## figures of the house: longest function and file, circles, duplicates
	$(Q)tests/support/house.py
prose: ## language rules: figures per room, the worst places (PROSE="PATH...": only those)
	$(Q)tests/support/prose.py $(PROSE)
mutate: ## do the tests notice wrong code? SEED, N, FILES; takes half an hour
	$(Q)tests/support/mutate.py
format:
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i
demo: deps ## gateway, clients and backends in namespaces, with results; needs root
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(BUILD)/sluice demo
bench: $(BENCH_RUNS) ## all benches
$(BENCH_RUNS): bench-%: all bench/%
	$(Q)BUILD=$(abspath $(BUILD)) bench/$*/run.sh
man: $(MANS) ## manual pages; what is a table in the program is taken from it
# A cross build names a program that runs on this machine: SLUICE_HOST=FILE.
SLUICE_HOST ?= $(BUILD)/sluice
docs: $(SLUICE_HOST) ## the tables of keys in user/docs/configuration.md, taken from the program
	$(Q)user/cli/man/reference.py $(SLUICE_HOST) user/docs/configuration.md
$(BUILD)/man/%: user/cli/man/%.in user/cli/man/make.sh include/sluice/backend.h include/sluice/client.h $(SLUICE_HOST)
	@mkdir -p $(@D)
	$(Q)user/cli/man/make.sh $(SLUICE_HOST) $< >$@
# A package passes DESTDIR, and leaves the account to sysusers.d.
put_files = BUILD='$(BUILD)' DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' UNITDIR='$(UNITDIR)' \
	PYDIR='$(PREFIX)/$(PY_DIR)' VERSION='$(VERSION)' user/service/install.sh
install: all ## programs, the service and its user, libraries to $(DESTDIR)$(PREFIX), /etc/sluice if there is none
	$(Q)$(put_files) install
uninstall: ## remove what `make install` has put there; a configuration that was changed stays
	$(Q)$(put_files) uninstall
deb: ## Debian packages of the tracked files, in $(BUILD)/deb
	$(Q)BUILD='$(BUILD)' vendor/deb.sh
wheel: $(PY_FILES) ## the Python package for virtual environments, in $(BUILD)/wheel
	$(Q)user/sdk/python/wheel.py $(BUILD) $(VERSION) $(shell uname -m)
clean: ## remove the build folder (keeps its cache of VM kernels and chroots)
	$(Q)find $(BUILD) -mindepth 1 -maxdepth 1 ! -name vm ! -name chroot -exec rm -rf {} + 2>/dev/null || true
help:
	@awk -F':.*## ' '/^[a-z][a-z0-9 -]*:.*## /{printf "  make %-24s %s\n",$$1,$$2}' Makefile

-include $(shell find $(BUILD)/obj $(BUILD)/pic -name '*.d' 2>/dev/null)
