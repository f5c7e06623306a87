# SPDX-License-Identifier: Apache-2.0
# sluice: every target on one page. `make help` lists them.
#
#   make BUILD=dir  builds elsewhere      make CC=clang   the other compiler
#   make V=1        shows the commands    make DEBUG=1    frame and pool checks on, -O1
#   make SAN=1      ASan and UBSan (used by `make asan` with its own build folder)

BUILD    ?= build
CC       := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG    ?= clang
BPFTOOL  ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PREFIX   ?= /usr
Q        := $(if $(V),,@)

WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Iuser -I$(BUILD)/gen
# x86-64-v2 and no more: csum picks wider code at run time.
SL_CFLAGS := -std=gnu17 $(WARN) -fno-strict-aliasing -fno-omit-frame-pointer -pthread $(CFLAGS)
# Programs are optimised as a whole by gcc; tests, which are many, are linked as usual from the same objects.
ifeq ($(SAN)$(DEBUG)$(filter clang%,$(notdir $(CC))),)
SL_CFLAGS += -flto=auto -ffat-lto-objects
NO_LTO    := -fno-lto
endif
ifdef DEBUG
SL_CFLAGS += -DSL_DEBUG -O1
endif
ifdef SAN
SL_CFLAGS += -DSL_DEBUG -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS  += -fsanitize=address,undefined
endif

# Left never includes right (tests/support/layers.sh holds the exact table).
MODULES  := base config wire xio net tcp udp front rpc backend client core worker control load cli
SRC       = $(sort $(wildcard user/$(1)/*.c user/$(1)/*/*.c))
OBJ       = $(patsubst %.c,$(BUILD)/obj/%.o,$(call SRC,$(1)))
LIB       = $(BUILD)/lib/libsl_$(1).a
LIBS     := $(foreach m,$(MODULES),$(call LIB,$(m)))
# Each module's own system libraries; a test links those of its module and of all to the left.
LD_config  := -lconfuse
LD_xio     := -lxdp -lbpf -lelf -lz
LD_front   := -lnghttp2
LD_rpc     := -lrdmacm -libverbs -lcrypto
LD_control := -lmicrohttpd -ljansson -lcap-ng
LD_cli     := -lm
ALL_LD   := $(foreach m,$(MODULES),$(LD_$(m))) -lm
upto      = $(if $(filter $(1),$(firstword $(2))),$(1),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,99,$(2))))
link_libs = -Wl,--start-group $(foreach m,$(1),$(call LIB,$(m))) -Wl,--end-group $(foreach m,$(1),$(LD_$(m))) -lm

SKEL     := $(BUILD)/gen/sluice.skel.h
BPF_OBJ  := $(BUILD)/sluice.bpf.o
BACKENDS := $(patsubst user/backend/programs/%.c,%,$(wildcard user/backend/programs/*.c))
CLIENTS  := $(patsubst user/client/programs/%.c,%,$(wildcard user/client/programs/*.c))
SDKS     := $(BUILD)/libsluice-backend.a $(BUILD)/libsluice-datagram.a
NO_PROGRAMS = $(filter-out $(BUILD)/obj/user/backend/programs/% $(BUILD)/obj/user/client/programs/%,$(1))

.PHONY: all deps help demo test test-unit test-stack test-bpf test-netns test-vm test-rpc asan fuzz lint \
        layers format bench bench-micro bench-rpc bench-batch bench-peers clean install
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/sluice $(foreach b,$(BACKENDS) $(CLIENTS),$(BUILD)/$(b)) $(SDKS) ## build everything
$(BUILD)/sluice: $(LIBS) $(BPF_OBJ)
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(LDFLAGS) -o $@ -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LD)

# The SDKs carry what they need of other modules, so that a backend or a client links one archive.
$(BUILD)/libsluice-backend.a: $(call NO_PROGRAMS,$(foreach m,base rpc backend,$(call OBJ,$(m))))
$(BUILD)/libsluice-datagram.a: $(call NO_PROGRAMS,$(foreach m,base client,$(call OBJ,$(m))))
$(SDKS):
	@echo "  AR      $@"
	$(Q)rm -f $@ && ar rcsD $@ $^
$(foreach b,$(BACKENDS),$(BUILD)/$(b)): $(BUILD)/%: $(BUILD)/obj/user/backend/programs/%.o $(BUILD)/libsluice-backend.a
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LD_rpc) -lopenblas -lprotobuf-c -lm
$(foreach b,$(CLIENTS),$(BUILD)/$(b)): $(BUILD)/%: $(BUILD)/obj/user/client/programs/%.o $(BUILD)/libsluice-datagram.a
	@echo "  LD      $@"
	$(Q)$(CC) $(SL_CFLAGS) $(LDFLAGS) -o $@ $^ -lm

define lib_rule
$(call LIB,$(1)): $(call NO_PROGRAMS,$(call OBJ,$(1)))
	@mkdir -p $$(@D)
	@echo "  AR      $$@"
	$$(Q)rm -f $$@ && ar rcsD $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call lib_rule,$(m))))

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(CPPFLAGS) $(SL_CFLAGS) -MMD -MP -c -o $@ $<
$(call OBJ,xio): | $(SKEL)
# The example with protobuf-c includes what is generated of its .proto.
$(BUILD)/gen/%.pb-c.c: user/backend/programs/%.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<
$(BUILD)/obj/user/backend/programs/interop.o: $(BUILD)/gen/interop.pb-c.c
$(BUILD)/obj/user/control/dashboard.o: user/control/dashboard.html
$(BUILD)/obj/user/control/dashboard.o: SL_CFLAGS += $(NO_LTO) # symbols of an asm at file level
# Descriptor sets that are built in, as bytes for an #include.
$(BUILD)/gen/grpc_own.pb.inc: $(shell find user/front/proto -name '*.proto' | sort)
$(BUILD)/gen/demo_echo.pb.inc: user/backend/programs/echo.proto
$(BUILD)/gen/%.pb.inc:
	@mkdir -p $(@D)
	$(Q)protoc-c -Iuser/front/proto -Iuser/backend/programs -o $(@:.inc=) $^
	$(Q)od -An -v -tx1 $(@:.inc=) | sed 's/ \(..\)/0x\1,/g' >$@
$(BUILD)/obj/user/front/grpc_descriptors.o: $(BUILD)/gen/grpc_own.pb.inc
$(BUILD)/obj/user/cli/demo_arena.o: $(BUILD)/gen/demo_echo.pb.inc

BPF_CFLAGS := -O2 -g -Wall -Wextra -target bpf -mcpu=v3 -Iinclude -Ibpf -I/usr/include/$(shell uname -m)-linux-gnu
$(BPF_OBJ): bpf/sluice.bpf.c $(wildcard bpf/*.h include/sluice/*.h)
	@mkdir -p $(@D)
	@echo "  BPF     $@"
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<
$(SKEL): $(BPF_OBJ)
	@mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name sluice_bpf >$@ 2>$@.err || { cat $@.err >&2; false; }
	@# libbpf says that it skips the section in which libxdp finds the program's priority: known, harmless
	@grep -v 'skipping unrecognized data section([0-9]*) \.xdp_run_config' $@.err >&2 || true

# tests/LAYER/MODULE/test_*.c: one libcheck program each, linked with the libraries up to MODULE.
TEST_SRC  = $(sort $(wildcard tests/$(1)/*/test_*.c))
TEST_BIN  = $(patsubst tests/%.c,$(BUILD)/tests/%,$(call TEST_SRC,$(1)))
SUPPORT  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
define test_rule
$(BUILD)/tests/$(1): $(BUILD)/obj/tests/$(1).o $(SUPPORT) \
		$(foreach m,$(call upto,$(word 2,$(subst /, ,$(1))),$(MODULES)),$(call LIB,$(m)))
	@mkdir -p $$(@D)
	@echo "  LD      $$@"
	$$(Q)$(CC) $(SL_CFLAGS) $(NO_LTO) $(LDFLAGS) -o $$@ $(BUILD)/obj/tests/$(1).o $(SUPPORT) \
		$(call link_libs,$(call upto,$(word 2,$(subst /, ,$(1))),$(MODULES))) -lcheck -lsubunit -lrt -lm
endef
ALL_TESTS := $(foreach l,unit stack rpc bpf,$(call TEST_SRC,$(l)))
$(foreach t,$(patsubst tests/%.c,%,$(ALL_TESTS)),$(eval $(call test_rule,$(t))))

deps: ## install what is missing (Debian packages of vendor/)
	$(Q)vendor/install.sh
test: ## everything, as CI runs it; under 25 minutes
	$(Q)tests/run.sh all
test-unit: $(call TEST_BIN,unit) ## each module by itself
	$(Q)tests/support/run_bins.sh unit $^
test-stack: $(call TEST_BIN,stack) ## packets in, packets out, fake clock
	$(Q)tests/support/run_bins.sh stack $^
test-rpc: all $(call TEST_BIN,rpc) ## the RPC suite over shared memory
	$(Q)tests/support/run_bins.sh rpc $(call TEST_BIN,rpc)
test-bpf: $(call TEST_BIN,bpf) $(BPF_OBJ) ## BPF_PROG_TEST_RUN; needs root
	$(Q)tests/support/run_bins.sh bpf $(call TEST_BIN,bpf)
test-netns: all ## the real gateway, real clients, namespaces; needs root
	$(Q)BUILD=$(abspath $(BUILD)) tests/netns/run.sh
test-vm: all $(call TEST_BIN,rpc) ## soft-RoCE, dispatcher, zero-copy in QEMU; needs root
	$(Q)BUILD=$(abspath $(BUILD)) tests/vm/run.sh
asan: ## the netns suite under ASan and UBSan (ASAN_TESTS="01 03": some of it)
	$(Q)$(MAKE) --no-print-directory SAN=1 BUILD=$(BUILD)/asan all
	$(Q)BUILD=$(abspath $(BUILD))/asan SL_SANITIZED=1 tests/netns/run.sh $(ASAN_TESTS)
fuzz: ## every fuzz target, FUZZ_SECONDS each (default 600)
	$(Q)BUILD=$(abspath $(BUILD)) tests/fuzz/run.sh
lint: layers ## clang-format, clang-tidy, cppcheck, spelling, layers
	$(Q)BUILD=$(abspath $(BUILD)) tests/support/lint.sh
layers: ## fail on an include against the dependency order
	$(Q)tests/support/layers.sh
format:
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i
demo: deps ## gateway, clients and backends in namespaces, with results; needs root
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(BUILD)/sluice demo
bench: bench-micro bench-rpc bench-batch bench-peers ## all benches
bench-micro bench-rpc bench-batch bench-peers: bench-%: all
	$(Q)BUILD=$(abspath $(BUILD)) bench/$*/run.sh
install: all ## to $(DESTDIR)$(PREFIX)
	install -D -m 755 $(BUILD)/sluice $(DESTDIR)$(PREFIX)/sbin/sluice
	install -D -m 644 $(BPF_OBJ) $(DESTDIR)$(PREFIX)/lib/bpf/sluice.bpf.o
	install -d $(foreach d,include/sluice bin lib,$(DESTDIR)$(PREFIX)/$(d))
	install -m 644 $(SDKS) $(DESTDIR)$(PREFIX)/lib/
	install -m 644 include/sluice/*.h $(DESTDIR)$(PREFIX)/include/sluice/
	$(foreach b,$(BACKENDS) $(CLIENTS),install -m 755 $(BUILD)/$(b) $(DESTDIR)$(PREFIX)/bin/sluice-$(b);)
clean: ## remove the build folder (keeps its cache of VM kernels)
	$(Q)find $(BUILD) -mindepth 1 -maxdepth 1 ! -name vm -exec rm -rf {} + 2>/dev/null || true
help:
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n",$$1,$$2}' Makefile

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
