/* cache: programs by the structure of their graph, the one used longest ago evicted first. */
#include "rule/cache.h"

#include <string.h>

#include "base/memory.h"

/* The structure of a graph: nodes, what is stored and added, types and, if it is bound, shapes. */
typedef struct key {
  uint64_t hash; /* of the bytes; 0: not known yet */
  size_t size;
  unsigned char *bytes;
} key;

typedef struct entry {
  key key;
  ol_program *program;
  int64_t used; /* the look-up that used it last */
} entry;

struct ol_program_cache {
  int capacity, count, misses_in_a_row;
  int last; /* the entry that was used last */
  int64_t clock, hits, compiled, evicted;
  unsigned char *scratch; /* a key being made */
  entry entries[];
};

enum {
  RESTLESS = 64,
  KEY_SIZE = sizeof(ol_graph) /* more than enough */
};

ol_status ol_program_cache_new(ol_error *error, int capacity, ol_program_cache **out) {
  ol_program_cache *self = ol_alloc(sizeof *self + sizeof(entry) * (size_t)capacity);
  unsigned char *scratch = ol_alloc(KEY_SIZE);
  if (!self || !scratch) {
    ol_free(self);
    ol_free(scratch);
    return ol_fail(error, OL_MEMORY, "out of memory for a cache of programs");
  }
  *self = (ol_program_cache){ .capacity = capacity, .scratch = scratch };
  *out = self;
  return OL_OK;
}

static void drop(entry *e) {
  ol_free(e->key.bytes);
  ol_release(e->program);
}

void ol_program_cache_free(ol_program_cache *cache) {
  if (!cache) return;
  for (int i = 0; i < cache->count; i++) drop(&cache->entries[i]);
  ol_free(cache->scratch);
  ol_free(cache);
}

/* Keys. */

static void append(key *k, const void *data, size_t size) {
  memcpy(k->bytes + k->size, data, size);
  k->size += size;
}

static uint64_t hash_of(const unsigned char *bytes, size_t size) {
  uint64_t hash = size, word;
  for (size_t i = 0; i < size; i += sizeof word) {
    word = 0;
    memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

static key key_of(const ol_graph *graph, unsigned char *scratch) {
  key k = { .bytes = scratch };
  int32_t head[] = { graph->nodes, graph->operands,    graph->totals,
                     graph->dtype, graph->shape_bound, graph->shape_bound ? graph->shapes : 0 };
  append(&k, head, sizeof head);
  append(&k, graph->node, sizeof *graph->node * (size_t)graph->nodes);
  append(&k, graph->total, sizeof *graph->total * (size_t)graph->totals);
  for (int i = 0; i < graph->operands; i++) {
    int16_t operand[] = { graph->operand[i].dtype, graph->operand[i].shape, graph->operand[i].store,
                          graph->operand[i].packing };
    append(&k, operand, sizeof operand);
  }
  for (int i = 0; graph->shape_bound && i < graph->shapes; i++) {
    const ol_shape *shape = &graph->shape[i];
    int64_t ndim = shape->ndim;
    append(&k, &ndim, sizeof ndim);
    append(&k, shape->size, sizeof *shape->size * (size_t)ndim);
  }
  return k;
}

static bool equal(const key *a, const key *b) {
  return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Look-up. */

/* Mostly it is the one of the last step; the hash is computed where it is not. */
static entry *find(ol_program_cache *cache, key *k) {
  entry *last = &cache->entries[cache->last];
  if (cache->count > 0 && equal(&last->key, k)) return last;
  k->hash = hash_of(k->bytes, k->size);
  for (entry *e = cache->entries; e < cache->entries + cache->count; e++)
    if (e->key.hash == k->hash && equal(&e->key, k)) return e;
  return NULL;
}

/* A free place; if there is none, that of the program used longest ago. */
static entry *make_room(ol_program_cache *cache) {
  if (cache->count < cache->capacity) return &cache->entries[cache->count++];
  entry *oldest = &cache->entries[0];
  for (int i = 1; i < cache->count; i++)
    if (cache->entries[i].used < oldest->used) oldest = &cache->entries[i];
  drop(oldest);
  cache->evicted++;
  return oldest;
}

static ol_status compile(ol_error *error, ol_program_cache *cache, const ol_graph *graph, key k,
                         ol_program **out) {
  ol_program *program;
  void *bytes;
  OL_TRY(ol_alloc_for(error, k.size, "a cache of programs", &bytes));
  ol_status status = ol_program_compile(error, graph, &program);
  if (status != OL_OK) {
    ol_free(bytes);
    return status;
  }
  memcpy(bytes, k.bytes, k.size);
  k.bytes = bytes;
  *make_room(cache) = (entry){ .key = k, .program = program, .used = cache->clock };
  cache->compiled++;
  cache->misses_in_a_row++;
  *out = ol_retain(program);
  return OL_OK;
}

ol_status ol_program_cache_get(ol_error *error, ol_program_cache *cache, const ol_graph *graph,
                               ol_program **out) {
  key k = key_of(graph, cache->scratch);
  entry *found = find(cache, &k);
  cache->clock++;
  if (!found) return compile(error, cache, graph, k, out);
  found->used = cache->clock;
  cache->last = (int)(found - cache->entries);
  cache->hits++;
  cache->misses_in_a_row = 0;
  *out = ol_retain(found->program);
  return OL_OK;
}

ol_program_cache_stats ol_program_cache_read(const ol_program_cache *cache) {
  return (ol_program_cache_stats){ .hits = cache->hits,
                                   .compiled = cache->compiled,
                                   .evicted = cache->evicted,
                                   .programs = cache->count,
                                   .restless = cache->misses_in_a_row >= RESTLESS };
}
