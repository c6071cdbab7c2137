/* schedule: readers of an old value before its writer; then tiles, by a scan over the order.
 *
 * A value that an array of its type wants is computed into that array. Where readers and writers
 * wait for each other in a circle (swaps), the old value is copied to a tile first. */
#include "rule/schedule.h"

#include <string.h>

#include "base/memory.h"
#include "rule/native.h"

enum { NONE = -1, SLOTS = 2 * OL_DRAFTS };

typedef struct schedule {
  const ol_plan *plan;
  ol_pass_key key;
  int count, done;
  ol_draft draft[OL_DRAFTS];
  bool finished[OL_DRAFTS];
  int16_t order[OL_DRAFTS];
  int16_t maker[OL_GRAPH_NODES]; /* the draft that computes the node, or NONE */
  int16_t place[OL_GRAPH_NODES]; /* the array where the node is read in place, or NONE */
  int16_t slot_of[OL_GRAPH_NODES];
  int16_t last_use[OL_GRAPH_NODES]; /* position in the order */
  int slots, accesses, accumulators, tiles, bands;
  bool tile_used[OL_DRAFTS];
  ol_pass_slot slot[SLOTS];
  ol_instruction instruction[OL_DRAFTS];
  ol_access access[OL_DRAFTS];
  ol_accumulator accumulator[OL_GRAPH_NODES];
  int16_t gradient;
} schedule;

static const ol_graph *graph_of(const schedule *s) { return s->plan->graph; }

static bool is_scalar(const schedule *s, int n) { return ol_plan_is_scalar(graph_of(s), n); }

static ol_dtype array_dtype(const schedule *s, int array) {
  const ol_graph *graph = graph_of(s);
  return array < graph->operands ? (ol_dtype)graph->operand[array].dtype : graph->dtype;
}

static int array_packing(const schedule *s, int array) {
  const ol_graph *graph = graph_of(s);
  return array < graph->operands ? graph->operand[array].packing : 0;
}

static ol_draft *add(schedule *s, int code, int value, int in, int array) {
  ol_draft *draft = &s->draft[s->count++];
  *draft = (ol_draft){ .code = (uint8_t)code,
                       .value = (int16_t)value,
                       .in = { (int16_t)in, NONE, NONE, NONE },
                       .array = (int16_t)array };
  if (value >= 0) s->maker[value] = (int16_t)(s->count - 1);
  return draft;
}

/* Reading: in place where type and shape are those of the pass, else through a tile. */

static void read_from(schedule *s, int n) {
  const ol_graph_node *node = &graph_of(s)->node[n];
  if (is_scalar(s, n) || s->maker[n] >= 0 || s->place[n] >= 0) return;
  int array = ol_plan_array(s->plan, n, s->key.level);
  bool turned = array < 0 && node->op == OL_RULE_T;
  if (turned) array = ol_plan_array(s->plan, ol_plan_strip(graph_of(s), node->in[0]), s->key.level);
  bool same = !turned && node->shape == s->key.shape;
  if (same && array_dtype(s, array) == graph_of(s)->dtype)
    s->place[n] = (int16_t)array;
  else
    add(s, OL_CODE_LOAD, n, NONE, array)->turned = turned;
}

static void read_all(schedule *s, const ol_root *roots, int count) {
  int drafts = s->count;
  for (int i = 0; i < drafts; i++)
    for (int k = 0; k < OL_FORM_ARRAYS; k++)
      if (s->draft[i].in[k] >= 0) read_from(s, s->draft[i].in[k]);
  for (int i = 0; i < count; i++) read_from(s, roots[i].node);
}

/* Writing: straight into the array, or by a move when the value has its place elsewhere. */

static void write_array(schedule *s, int n, int array) {
  int maker = s->maker[n];
  bool wide = array_dtype(s, array) == graph_of(s)->dtype;
  if (wide && maker >= 0 && s->draft[maker].code != OL_CODE_LOAD && s->draft[maker].array < 0)
    s->draft[maker].array = (int16_t)array;
  else
    add(s, wide ? OL_CODE_COPY : OL_CODE_STORE, NONE, n, array);
}

static void write_all(schedule *s, const ol_root *roots, int count) {
  for (int i = 0; i < count; i++) {
    if (roots[i].kind == OL_ROOT_ARRAY) write_array(s, roots[i].node, roots[i].target);
    if (roots[i].kind != OL_ROOT_NUMBER) continue;
    int target = roots[i].target;
    s->accumulator[s->accumulators].op = graph_of(s)->node[target].op;
    s->accumulator[s->accumulators].number = s->plan->number[target];
    add(s, OL_CODE_REDUCE, NONE, roots[i].node, s->accumulators++);
  }
}

/* Order. */

static bool has_inputs(const schedule *s, const ol_draft *draft) {
  for (int k = 0; k < OL_FORM_ARRAYS; k++) {
    int n = draft->in[k];
    if (n < 0 || is_scalar(s, n)) continue;
    if (s->maker[n] >= 0 && !s->finished[s->maker[n]]) return false;
  }
  return true;
}

static bool reads_old(const schedule *s, const ol_draft *draft, int array) {
  if (draft->code == OL_CODE_LOAD) return draft->array == array;
  for (int k = 0; k < OL_FORM_ARRAYS; k++) {
    int n = draft->in[k];
    if (n >= 0 && !is_scalar(s, n) && s->maker[n] < 0 && s->place[n] == array) return true;
  }
  return false;
}

/* The array that a draft overwrites, or NONE. */
static int overwrites(const ol_draft *draft) {
  return draft->code == OL_CODE_LOAD || draft->code == OL_CODE_REDUCE ? NONE : draft->array;
}

static bool may_write(const schedule *s, int at) {
  int array = overwrites(&s->draft[at]);
  if (array < 0) return true;
  for (int i = 0; i < s->count; i++)
    if (i != at && !s->finished[i] && reads_old(s, &s->draft[i], array)) return false;
  return true;
}

static void finish(schedule *s, int at) {
  s->finished[at] = true;
  s->order[s->done++] = (int16_t)at;
}

/* Copies the old value of an array to a tile, from where the remaining readers take it. */
static void snapshot(schedule *s, int array) {
  for (int n = 0; n < graph_of(s)->nodes; n++) {
    if (s->place[n] != array || s->maker[n] >= 0) continue;
    int at = s->count;
    add(s, OL_CODE_LOAD, n, NONE, array);
    finish(s, at);
  }
}

static void put_in_order(schedule *s) {
  while (s->done < s->count) {
    int ready = NONE, blocked = NONE;
    for (int i = 0; i < s->count && ready < 0; i++) {
      if (s->finished[i] || !has_inputs(s, &s->draft[i])) continue;
      if (may_write(s, i))
        ready = i;
      else if (blocked < 0)
        blocked = i;
    }
    if (ready >= 0)
      finish(s, ready);
    else
      snapshot(s, overwrites(&s->draft[blocked]));
  }
}

/* Places. */

static int add_slot(schedule *s, ol_pass_slot slot) {
  for (int i = 0; i < s->slots; i++)
    if (s->slot[i].kind == slot.kind && s->slot[i].index == slot.index) return i;
  s->slot[s->slots] = slot;
  return s->slots++;
}

static int array_slot(schedule *s, int array) {
  if (array == 1 && s->gradient < 0) s->gradient = (int16_t)s->tiles++;
  return add_slot(s, (ol_pass_slot){ .kind = OL_SLOT_ARRAY, .index = (int16_t)array });
}

static void place_constant(schedule *s, int n) {
  if (n < 0 || !is_scalar(s, n) || s->slot_of[n] >= 0) return;
  ol_pass_slot slot = { .kind = OL_SLOT_CONSTANT,
                        .index = (int16_t)s->tiles++,
                        .factor = { s->plan->number[n], 1 } };
  s->slot_of[n] = (int16_t)add_slot(s, slot);
}

/* Notes when each value is read last; numbers and arrays get their slots. */
static void survey(schedule *s, const ol_root *roots, int count) {
  for (int i = 0; i < s->count; i++) {
    const ol_draft *draft = &s->draft[s->order[i]];
    for (int k = 0; k < OL_FORM_ARRAYS; k++) {
      int n = draft->in[k];
      place_constant(s, n);
      if (n < 0 || is_scalar(s, n)) continue;
      s->last_use[n] = (int16_t)i;
      if (s->maker[n] < 0) array_slot(s, s->place[n]);
    }
  }
  for (int i = 0; i < count; i++) {
    int n = roots[i].node;
    if (roots[i].kind != OL_ROOT_DIM) continue;
    place_constant(s, n);
    if (s->place[n] >= 0) array_slot(s, s->place[n]);
    s->last_use[n] = INT16_MAX;
  }
}

static int take_tile(schedule *s, int first) {
  int tile = first;
  while (s->tile_used[tile]) tile++;
  s->tile_used[tile] = true;
  if (tile >= s->tiles) s->tiles = tile + 1;
  return tile;
}

static void release_tiles(schedule *s, const ol_draft *draft, int position) {
  for (int k = 0; k < OL_FORM_ARRAYS; k++) {
    int n = draft->in[k];
    if (n < 0 || s->slot_of[n] < 0 || s->last_use[n] != position) continue;
    const ol_pass_slot *slot = &s->slot[s->slot_of[n]];
    if (slot->kind == OL_SLOT_TILE) s->tile_used[slot->index] = false;
  }
}

/* Where an input is at this moment: made by a draft before, or in an array. */
static int input_slot(schedule *s, int n) {
  if (s->slot_of[n] >= 0) return s->slot_of[n];
  return array_slot(s, s->place[n]);
}

static void stride_over(const schedule *s, int n, bool turned, ol_access *access) {
  const ol_graph *graph = graph_of(s);
  const ol_shape *own = &graph->shape[graph->node[n].shape], *pass = &graph->shape[s->key.shape];
  int64_t stride[OL_MAX_DIMS];
  ol_shape_strides(own, stride);
  if (turned) stride[0] = 1, stride[1] = own->size[0];
  for (int d = 0; d < own->ndim; d++) {
    int to = d + pass->ndim - own->ndim;
    access->stride[to] = own->size[d] == 1 ? 0 : stride[d];
  }
}

static int add_access(schedule *s, const ol_draft *draft, int n) {
  ol_access access = { .array = draft->array,
                       .dtype = (uint8_t)array_dtype(s, draft->array),
                       .packing = (uint8_t)array_packing(s, draft->array) };
  bool same = draft->code == OL_CODE_STORE || graph_of(s)->node[n].shape == s->key.shape;
  if (!same) {
    access.layout = OL_ACCESS_GATHERED;
    stride_over(s, n, draft->turned, &access);
  } else if (draft->turned) {
    access.layout = OL_ACCESS_TURNED;
    access.band = (int16_t)s->bands++;
  }
  s->access[s->accesses] = access;
  return s->accesses++;
}

static int output_slot(schedule *s, const ol_draft *draft, int first) {
  if (draft->code == OL_CODE_STORE) return add_access(s, draft, draft->in[0]);
  if (draft->code == OL_CODE_REDUCE) return draft->array;
  int array = overwrites(draft);
  int slot = array >= 0 ? array_slot(s, array)
                        : add_slot(s, (ol_pass_slot){ .kind = OL_SLOT_TILE,
                                                      .index = (int16_t)take_tile(s, first) });
  if (draft->value >= 0) s->slot_of[draft->value] = (int16_t)slot;
  return slot;
}

static void encode(schedule *s, int position, int first) {
  const ol_draft *draft = &s->draft[s->order[position]];
  ol_instruction *to = &s->instruction[position];
  to->code = draft->code;
  memcpy(to->factor, draft->factor, sizeof to->factor);
  for (int k = 0; k < OL_FORM_ARRAYS; k++) {
    if (draft->in[k] >= 0)
      to->in[k] = (uint16_t)input_slot(s, draft->in[k]);
    else
      to->in[k] = to->in[0];
  }
  if (draft->code == OL_CODE_LOAD) to->in[0] = (uint16_t)add_access(s, draft, draft->value);
  if (draft->code == OL_CODE_REDUCE) to->in[1] = s->accumulator[draft->array].op;
  release_tiles(s, draft, position);
  to->out = (uint16_t)output_slot(s, draft, first);
}

/* The result. */

static void *copy_of(const void *from, size_t size) {
  void *block = ol_alloc(size);
  if (block && size) memcpy(block, from, size);
  return block;
}

static ol_status extract(ol_error *error, schedule *s, const ol_root *roots, ol_pass *out) {
  ol_pass pass = { .level = (int16_t)s->key.level,
                   .shape = (int8_t)s->key.shape,
                   .dim = -1,
                   .slots = (int16_t)s->slots,
                   .instructions = (int16_t)s->count,
                   .accesses = (int16_t)s->accesses,
                   .accumulators = (int16_t)s->accumulators,
                   .tiles = (int16_t)s->tiles,
                   .gradient = s->gradient };
  if (s->key.dim_node >= 0) {
    pass.dim = graph_of(s)->node[s->key.dim_node].dim;
    pass.op = graph_of(s)->node[s->key.dim_node].op;
    pass.result = (int16_t)input_slot(s, roots[0].node);
    pass.target = (int16_t)roots[0].target;
  }
  pass.slot = copy_of(s->slot, sizeof *s->slot * (size_t)s->slots);
  pass.instruction = copy_of(s->instruction, sizeof *s->instruction * (size_t)s->count);
  pass.access = copy_of(s->access, sizeof *s->access * (size_t)s->accesses);
  pass.accumulator = copy_of(s->accumulator, sizeof *s->accumulator * (size_t)s->accumulators);
  if (!pass.slot || !pass.instruction || !pass.access || !pass.accumulator) {
    ol_pass_clear(&pass);
    return ol_fail(error, OL_MEMORY, "out of memory for a program");
  }
  *out = pass;
  return OL_OK;
}

void ol_pass_clear(ol_pass *pass) {
  ol_native_free(pass->native);
  ol_free(pass->slot);
  ol_free(pass->instruction);
  ol_free(pass->access);
  ol_free(pass->accumulator);
}

static void begin(schedule *s, const ol_plan *plan, ol_pass_key key) {
  memset(s, 0, sizeof *s);
  s->plan = plan;
  s->key = key;
  s->gradient = NONE;
  memset(s->maker, 0xff, sizeof s->maker);
  memset(s->place, 0xff, sizeof s->place);
  memset(s->slot_of, 0xff, sizeof s->slot_of);
}

ol_status ol_schedule(ol_error *error, const ol_plan *plan, ol_pass_key key, const ol_root *roots,
                      int count, bool fused, ol_pass *out) {
  schedule *s;
  OL_TRY(OL_ALLOC(error, sizeof *s, "compiling a rule", &s));
  begin(s, plan, key);
  s->count = (fused ? ol_cover : ol_cover_plainly)(plan, key, roots, count, s->draft);
  for (int i = 0; i < s->count; i++) s->maker[s->draft[i].value] = (int16_t)i;
  read_all(s, roots, count);
  write_all(s, roots, count);
  put_in_order(s);
  survey(s, roots, count);
  int first = s->tiles;
  for (int i = 0; i < s->count; i++) encode(s, i, first);
  ol_status status = extract(error, s, roots, out);
  ol_free(s);
  return status;
}
