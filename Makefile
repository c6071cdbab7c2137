# optlua: `make help` lists what can be made. Everything is made in build/.

# Options:  CC=clang  OPENMP=0  SANITIZE=address,undefined  BUILD=folder  V=1 (shows commands)
#           CFLAGS  LDFLAGS  BLAS_CFLAGS  BLAS_LIBS  LUA_CFLAGS  LUA_LIBS
#           NO_INSTALL=1 (only says what is missing)  QUICK=1 (shorter benchmarks)
BUILD ?= build
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC = gcc
endif

# clang's OpenMP would be a second team of threads beside OpenBLAS's, which is gcc's.
OPENMP ?= $(if $(findstring clang,$(CC)),0,1)

# OpenBLAS's OpenMP build shares the threads of our own loops; the rpath makes sure that it, and not
# another flavour, is loaded. Tools are asked late, when they are needed: setup may install them.
comma := ,
MULTIARCH = $(shell $(CC) -print-multiarch)
OPENBLAS ?= /usr/lib/$(MULTIARCH)/openblas-openmp
BLAS_CFLAGS ?= -I/usr/include/$(MULTIARCH)/openblas-openmp
BLAS_LIBS ?= -L$(OPENBLAS) -Wl$(comma)-rpath$(comma)$(OPENBLAS) -lopenblas
LUA_CFLAGS ?= $(shell pkg-config --cflags lua5.4)
# The interpreter holds all of Lua, as lua5.4 does, for modules in C to find; calls into it are shorter.
LUA_ARCHIVE = $(wildcard $(shell pkg-config --variable=libdir lua5.4)/liblua5.4.a)
LUA_LIBS ?= $(if $(LUA_ARCHIVE),-Wl$(comma)-E -Wl$(comma)--whole-archive $(LUA_ARCHIVE) \
  -Wl$(comma)--no-whole-archive -ldl,$(shell pkg-config --libs lua5.4))
LIBS = $(BLAS_LIBS) -lsleef -ljansson -lprotobuf-c -lcsv -lpng -ljpeg -lz -lm

GENERATED := $(BUILD)/gen
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Wno-missing-field-initializers -Werror
WARNINGS += $(if $(findstring clang,$(CC)),-Wno-pass-failed) # it may decline to vectorise
FLAGS := -std=gnu11 $(WARNINGS) -Iruntime -fPIC -fvisibility=hidden \
  -ffp-contract=off -fno-math-errno -fno-trapping-math
MODE := $(if $(filter 1,$(OPENMP)),-fopenmp)
ifdef SANITIZE
MODE += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
# Clones are chosen before the sanitizers are there; their checks make gcc see what is not so.
FLAGS += -DOL_NO_CLONES -fno-omit-frame-pointer -Wno-maybe-uninitialized
CFLAGS ?= -O1 -g
endif
CFLAGS ?= -O3 -g
COMPILE = $(CC) $(FLAGS) $(MODE) $(CPPFLAGS) $(CFLAGS)

CORE_FLOORS := base tensor autograd ops rule optim io
objects = $(patsubst runtime/%.c,$(BUILD)/obj/%.o,$(wildcard $(1:%=runtime/%/*.c)))
MESSAGES := $(GENERATED)/io/event.pb-c.h # and its .c
CORE := $(call objects,$(CORE_FLOORS)) $(BUILD)/obj/io/event.pb-c.o
BIND := $(call objects,bind)
MAIN := $(call objects,main)
LIBRARY := $(BUILD)/liboptlua.a
MODULE := $(BUILD)/lib/optlua/core.so
PROGRAM := $(BUILD)/optlua

SPECS := $(wildcard tests/*_spec.lua)
QUICK_SPECS := $(foreach noun,autograd data func nn optim_* tensor training,$(wildcard tests/$(noun)_spec.lua))
PLAIN_SPECS := $(patsubst %,tests/%_spec.lua,install stock_lua faults) # stock Lua has no sanitizers
FAULTS := $(BUILD)/test/faults.so # loaded before libc, see tests/c/faults.c
C_TESTS := $(patsubst tests/c/%.c,$(BUILD)/test/%,$(wildcard tests/c/*_test.c))
RUN_TESTS = lua5.4 tests/run.lua --build=$(BUILD) $(if $(SANITIZE),--lua=$(PROGRAM))
BENCH = LUA_CPATH='$(BUILD)/bench/?.so;;' OPTLUA='$(PROGRAM)' $(PROGRAM)
ASAN = ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
  $(MAKE) BUILD=$(BUILD)/asan SANITIZE=address,undefined

# All processors unless told otherwise; one thing after another when something is taken away.
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL)$(filter clean uninstall,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(V),1)
.SILENT:
endif

.PHONY: all help setup demo test test-long test-crash test-faults test-oom spec test-asan test-asan-quick lint layers format docs \
  bench bench-optim bench-peers install uninstall clean FORCE

all: $(LIBRARY) $(MODULE) $(PROGRAM) ## the interpreter, the loadable module, the static library

help: ## this list
	sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24
	sed -n '/^# Options/,/^[^#]/s/^# / /p' $(MAKEFILE_LIST)

setup: ## installs what is missing (Debian 12 and 13)
	scripts/setup

demo: setup all ## sets up, builds, trains a network on handwritten digits
	$(PROGRAM) scripts/01_quickstart.lua

test: setup all $(C_TESTS) $(FAULTS) ## sets up, builds, runs every test
	$(RUN_TESTS) $(C_TESTS) $(SPECS)

test-long: $(BUILD)/test/rule_random_test ## 20,000 random rules on each instruction set
	for isa in avx512f avx sse2 scalar; do OPTLUA_ISA=$$isa $< 20000 || exit 1; done

test-crash: all $(BUILD)/test/crash_test ## 300 kills at random moments of saves
	OPTLUA=$(PROGRAM) $(BUILD)/test/crash_test 300

test-faults: all $(FAULTS) ## every call that writes failed in turn, full devices
	$(RUN_TESTS) --verbose tests/faults_spec.lua

test-oom: all ## every allocation of a step, a save and a load failed in turn, limits of the address space
	$(RUN_TESTS) --verbose tests/oom_spec.lua

spec: all $(FAULTS) ## runs one spec: FILE=tests/x_spec.lua [FILTER=pattern]
	$(RUN_TESTS) --verbose $(if $(FILTER),--filter='$(FILTER)') $(FILE)

test-asan: ## the tests under the address, leak and undefined behaviour sanitizers
	+$(ASAN) test SPECS='$(filter-out $(PLAIN_SPECS),$(SPECS))'

test-asan-quick: ## the C tests and some of the specs under them
	+$(ASAN) test SPECS='$(QUICK_SPECS)'

lint: layers $(MESSAGES) ## warnings of two compilers, luacheck, clang-format, shell syntax, layers
	scripts/setup lint
	FLAGS='$(FLAGS) -I$(GENERATED) $(LUA_CFLAGS) $(BLAS_CFLAGS)' scripts/dev/lint.sh

layers: setup ## proves that each file includes only its own floor and lower ones
	lua5.4 scripts/dev/layers.lua

format: ## formats all C (the versions of clang-format differ: this one is in Debian 12 and 13)
	clang-format-19 -i $$(find runtime scripts tests/c -name '*.[ch]')

docs: all ## writes the reference from the registries and doc comments
	$(PROGRAM) scripts/dev/docs.lua

bench: all $(BUILD)/bench/floors.so ## measures ratios to floors of the same run: QUICK=1 PEER_PYTHON=a Python that has torch
	$(BENCH) scripts/bench/run.lua

bench-optim: all $(BUILD)/bench/floors.so ## the same for every optimizer: QUICK=1
	$(BENCH) scripts/bench/optim.lua

bench-peers: all $(BUILD)/bench/floors.so ## optimizers beside PyTorch's: PEER_PYTHON=a Python that has torch
	$(BENCH) scripts/bench/peers.lua

install: all ## PREFIX=/usr/local DESTDIR=
	LIBS='$(MODE) $(LIBS)' scripts/dev/install.sh install '$(DESTDIR)$(PREFIX)' $(BUILD)

uninstall: ## PREFIX=/usr/local DESTDIR=
	scripts/dev/install.sh uninstall '$(DESTDIR)$(PREFIX)'

clean: ## removes build/
	rm -rf $(BUILD)

# Whoever is made by `make demo` or `make test` waits until the tools are there, and is made anew when
# the way it is made has changed.
AFTER_SETUP := $(if $(filter demo test lint,$(MAKECMDGOALS)),| setup)
$(CORE) $(BIND) $(MAIN) $(C_TESTS): $(BUILD)/flags $(AFTER_SETUP)
$(BUILD)/flags: FORCE
	mkdir -p $(@D)
	echo '$(COMPILE) $(LDFLAGS)' | cmp -s - $@ || echo '$(COMPILE) $(LDFLAGS)' >$@

# Two floors see Lua's headers, one file those of BLAS.
$(BIND) $(MAIN): private FLAGS += $(LUA_CFLAGS)
$(BUILD)/obj/tensor/blas.o: private FLAGS += $(BLAS_CFLAGS)
$(BUILD)/obj/io/events.o $(BUILD)/obj/io/event.pb-c.o: private FLAGS += -I$(GENERATED)

# The messages of event files are C that protobuf-c writes.
$(GENERATED)/%.pb-c.c $(GENERATED)/%.pb-c.h &: runtime/%.proto $(AFTER_SETUP)
	echo "  PROTO $<"
	mkdir -p $(@D)
	protoc --proto_path=runtime --c_out=$(GENERATED) $<

$(BUILD)/obj/io/events.o: $(MESSAGES)

$(BUILD)/obj/%.o: $(GENERATED)/%.c
	echo "  CC    $<"
	mkdir -p $(@D)
	$(COMPILE) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: runtime/%.c
	echo "  CC    $<"
	mkdir -p $(@D)
	$(COMPILE) -MMD -MP -c $< -o $@

# What takes longest to compile comes first.
$(LIBRARY): $(BUILD)/obj/rule/kernel.o $(CORE)
	echo "  AR    $@"
	rm -f $@
	$(AR) rcs $@ $^

# Not to be unloaded when a Lua state closes: threads of the OpenMP team may still run its code.
$(MODULE): $(BIND) $(LIBRARY)
	echo "  LINK  $@"
	mkdir -p $(@D)
	$(CC) -shared -Wl,-z,nodelete $(MODE) $(LDFLAGS) $^ $(LIBS) -o $@

$(PROGRAM): $(MAIN) $(BIND) $(LIBRARY)
	echo "  LINK  $@"
	$(CC) $(MODE) $(LDFLAGS) $^ $(LIBS) $(LUA_LIBS) -ledit -o $@

$(BUILD)/bench/floors.so: scripts/bench/floors.c scripts/bench/updates.c scripts/bench/updates.h \
  $(wildcard runtime/base/*.h runtime/tensor/*.h)
	echo "  CC    $@"
	mkdir -p $(@D)
	$(COMPILE) $(LUA_CFLAGS) $(BLAS_CFLAGS) -shared $(filter %.c,$^) $(BLAS_LIBS) -o $@

$(BUILD)/test/%: tests/c/%.c tests/c/check.h $(LIBRARY)
	echo "  CC    $<"
	mkdir -p $(@D)
	$(COMPILE) $(LDFLAGS) $< $(LIBRARY) $(LIBS) -o $@

$(FAULTS): tests/c/faults.c
	echo "  CC    $<"
	mkdir -p $(@D)
	$(CC) $(FLAGS) $(LUA_CFLAGS) $(CFLAGS) -shared $< -ldl -o $@

$(BUILD)/bench/%: scripts/bench/c/%.c $(LIBRARY)
	echo "  CC    $<"
	mkdir -p $(@D)
	$(COMPILE) $(LDFLAGS) $< $(LIBRARY) $(LIBS) -o $@

-include $(patsubst %.o,%.d,$(CORE) $(BIND) $(MAIN))
