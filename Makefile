# optlua: build, test, install. Everything is made in build/.
#   make            build/optlua, the loadable module and the static library
#   make demo       set up, build, train the quickstart
#   make test       set up, build, run every test
# Options: CC=clang  OPENMP=0  SANITIZE=address,undefined  BUILD=dir  BLAS_CFLAGS=… BLAS_LIBS=…

BUILD ?= build
OPENMP ?= 1
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)

# OpenBLAS's OpenMP build shares the thread team of our own loops; the rpath makes sure that it, and
# not another flavour, is the one that is loaded.
OPENBLAS_DIR ?= $(wildcard /usr/lib/$(MULTIARCH)/openblas-openmp)
BLAS_CFLAGS ?= $(addprefix -I/usr/include/$(MULTIARCH)/,$(notdir $(OPENBLAS_DIR)))
BLAS_LIBS ?= $(addprefix -L,$(OPENBLAS_DIR)) $(addprefix -Wl$(comma)-rpath$(comma),$(OPENBLAS_DIR)) -lopenblas
comma := ,

LUA_CFLAGS ?= $(shell pkg-config --cflags lua5.4)
LUA_LIBS ?= $(shell pkg-config --libs lua5.4)

WARNINGS := -Wall -Wextra -Wshadow -Werror
CFLAGS ?= -O3 -g
override CFLAGS += -std=gnu11 $(WARNINGS) -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math
override CPPFLAGS += -Iruntime -MMD -MP $(LUA_CFLAGS) $(BLAS_CFLAGS)
LDLIBS := $(BLAS_LIBS) -lsleef -ljansson -lz -lm
ifeq ($(OPENMP),1)
  override CFLAGS += -fopenmp
  override LDFLAGS += -fopenmp
endif
ifdef SANITIZE
  override CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -O1
  override LDFLAGS += -fsanitize=$(SANITIZE)
endif

CORE_FLOORS := base tensor autograd ops rule optim io
CORE := $(foreach floor,$(CORE_FLOORS),$(wildcard runtime/$(floor)/*.c))
BIND := $(wildcard runtime/bind/*.c)
MAIN := $(wildcard runtime/main/*.c)
objects = $(patsubst runtime/%.c,$(BUILD)/obj/%.o,$(1))

LIBRARY := $(BUILD)/liboptlua.a
MODULE := $(BUILD)/lib/optlua/core.so
PROGRAM := $(BUILD)/optlua

.PHONY: all clean test spec
all: $(PROGRAM) $(MODULE) $(LIBRARY)

$(BUILD)/obj/%.o: runtime/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(LIBRARY): $(call objects,$(CORE))
	@rm -f $@
	$(AR) rcs $@ $^

$(MODULE): $(call objects,$(BIND)) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) $(call objects,$(BIND)) $(LIBRARY) $(LDLIBS) -o $@

$(PROGRAM): $(call objects,$(MAIN) $(BIND)) $(LIBRARY)
	$(CC) $(LDFLAGS) $^ $(LDLIBS) $(LUA_LIBS) -ledit -o $@

clean:
	rm -rf $(BUILD)

-include $(patsubst %.o,%.d,$(call objects,$(CORE) $(BIND) $(MAIN)))
