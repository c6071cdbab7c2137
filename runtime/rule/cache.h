/* cache: the programs of one rule, found again by structure. */
#ifndef OL_RULE_CACHE_H
#define OL_RULE_CACHE_H

#include "rule/program.h"

typedef struct ol_program_cache ol_program_cache;

typedef struct ol_program_cache_stats {
  int64_t hits, compiled, evicted;
  int programs;  /* held now */
  bool restless; /* the last 64 look-ups all compiled: the structure of the rule never repeats */
} ol_program_cache_stats;

/* Makes an empty cache of at most capacity programs; the one used longest ago goes first. */
ol_status ol_program_cache_new(ol_error *error, int capacity, ol_program_cache **out);

/* Drops its programs; NULL is allowed. */
void ol_program_cache_free(ol_program_cache *cache);

/* The program of a finished graph: an old one with the same nodes, outputs and storage types, or a
 * new one. The numbers of the graph are not part of the key. Hands over one reference. */
ol_status ol_program_cache_get(ol_error *error, ol_program_cache *cache, const ol_graph *graph,
                               ol_program **out);

ol_program_cache_stats ol_program_cache_read(const ol_program_cache *cache);

#endif
