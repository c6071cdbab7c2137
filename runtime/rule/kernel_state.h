/* kernel_state: a pass in progress: where its arrays are, and what is fetched ahead; part of the
 * template kernel_body.h. */

typedef struct NAME(state) NAME(state);
typedef struct NAME(op) NAME(op);

/* What an instruction does to n elements. */
typedef void NAME(action)(NAME(state) * s, const NAME(op) * op, int n);

/* What a slot holds: an array, which a pass goes through, or a tile, which stays where it is. */
typedef struct NAME(place) {
  char *base;
  uintptr_t moves; /* a mask of the offset in arrays: all bits, or none */
} NAME(place);

/* An instruction with all that it needs. */
struct NAME(op) {
  NAME(action) * act;
  NAME(place) place[1 + OL_FORM_ARRAYS]; /* of the result and of the operands */
  T number[OL_FORM_NUMBERS];
  int stream, last_stream; /* fetched ahead before it is executed */
  const ol_instruction *instruction;
};

struct NAME(state) {
  const ol_work *work;
  NAME(op) * op;
  int ops;
  int64_t position; /* of the elements at hand, in the shape of the pass */
  uintptr_t offset; /* the same in bytes */
  T (*tile)[TILE];
  double (*lanes)[OL_LANES]; /* of each accumulator */
  double *total;             /* of each column */
  T *band;                   /* of each turned access: rows that stand upright again */
  int64_t *band_row;         /* of each access: the first of them, or -1 */
  int64_t *row_at; /* of each gathered access: the place of position 0, if its row went on to
                      there; or NULL: elements do not come row by row */
  void *frame;     /* for machine code */
  T gradient_factor;
  const ol_noise_part *noise; /* of the elements at hand, or NULL: not looked for yet */
  ol_stream *stream;          /* the arrays that are fetched ahead */
  int streams;                /* how many; 0: nothing is fetched */
  int64_t ahead;              /* elements between those at hand and those that are fetched */
};

/* The elements at hand of the result (0) or of an operand (1 …). */
TARGET static inline T *NAME(at)(const NAME(state) * s, NAME(place) place) {
  return (T *)(place.base + (s->offset & place.moves));
}

TARGET static T NAME(number)(const ol_work *work, ol_factor factor) {
  if (factor.source == OL_FACTOR_NOTHING) return -(T)0;
  T value = factor.source == OL_FACTOR_ONE ? (T)1 : (T)work->numbers[factor.source];
  return factor.sign < 0 ? -value : value;
}

/* Whether a slot is the gradient, and is multiplied before it is used. */
TARGET static bool NAME(is_scaled)(const ol_work *work, const ol_pass_slot *slot) {
  return slot->kind == OL_SLOT_ARRAY && slot->index == 1 && work->gradient_factor &&
         work->pass->gradient >= 0;
}

TARGET static NAME(place) NAME(place_of)(const NAME(state) * s, int slot_index) {
  const ol_work *work = s->work;
  const ol_pass_slot *slot = &work->pass->slot[slot_index];
  if (NAME(is_scaled)(work, slot)) return (NAME(place)){ (char *)s->tile[work->pass->gradient], 0 };
  if (slot->kind == OL_SLOT_ARRAY) return (NAME(place)){ work->arrays[slot->index], UINTPTR_MAX };
  return (NAME(place)){ (char *)s->tile[slot->index], 0 };
}

TARGET static void NAME(fill_constants)(NAME(state) * s) {
  const ol_pass *pass = s->work->pass;
  for (int i = 0; i < pass->slots; i++) {
    if (pass->slot[i].kind != OL_SLOT_CONSTANT) continue;
    const T value = NAME(number)(s->work, pass->slot[i].factor);
    T *tile = s->tile[pass->slot[i].index];
    EACH(TILE, tile[k] = value);
  }
}

/* Whether an access before it has the same array: what is loaded and stored again. */
TARGET static bool NAME(is_fetched)(const ol_pass *pass, int index) {
  for (int i = 0; i < index; i++)
    if (pass->access[i].array == pass->access[index].array &&
        pass->access[i].layout == OL_ACCESS_STRAIGHT)
      return true;
  return false;
}

/* Notes the arrays that are fetched ahead, and shares them among the instructions: a processor
 * waits for a dozen lines at a time and runs a few hundred instructions ahead, so that neither all
 * at once nor nothing between divisions and roots keeps the memory busy. */
TARGET static void NAME(begin_streams)(NAME(state) * s) {
  const ol_pass *pass = s->work->pass;
  ol_stream *streams = s->stream;
  for (int i = 0; i < pass->slots; i++)
    if (pass->slot[i].kind == OL_SLOT_ARRAY)
      streams[s->streams++] = (ol_stream){ s->work->arrays[pass->slot[i].index], sizeof(T) };
  for (int i = 0; i < pass->accesses; i++) {
    const ol_access *access = &pass->access[i];
    if (access->layout == OL_ACCESS_STRAIGHT && !NAME(is_fetched)(pass, i))
      streams[s->streams++] = (ol_stream){ s->work->arrays[access->array],
                                           (int)ol_dtype_size((ol_dtype)access->dtype) };
  }
  if (s->streams > 0) s->ahead = AHEAD / s->streams;
  for (int i = 0; i < s->ops; i++) {
    s->op[i].stream = i * s->streams / s->ops;
    s->op[i].last_stream = (i + 1) * s->streams / s->ops;
  }
}

/* Asks for lines of streams … that hold the elements from a position on. */
TARGET static inline void NAME(fetch)(const NAME(state) * s, const NAME(op) * op, int n) {
  for (int i = op->stream; i < op->last_stream; i++) {
    const int64_t width = s->stream[i].width, from = (s->position + s->ahead) * width;
    for (int64_t line = 0; line < n * width; line += LINE) FETCH(s->stream[i].base, from + line);
  }
}
