/* kernel_state: a pass in progress: where its arrays are, and what is fetched ahead; part of the
 * template kernel_body.h. */

typedef struct NAME(state) {
  const ol_work *work;
  T (*tile)[TILE];
  double (*lanes)[OL_LANES];
  T (*numbers)[OL_FORM_NUMBERS]; /* of each instruction */
  char **base;                   /* of each slot: where the array begins, or the tile */
  T **at;                        /* of each slot, for the tile at hand */
  T *band;                       /* of each turned access: rows that stand upright again */
  int64_t *band_row;             /* of each access: the first of them, or -1 */
  T *gradient;                   /* the tile for g, or NULL: g is read in place */
  T gradient_factor;
  const ol_noise_part *noise; /* of the tile at hand, or NULL: not looked for yet */
  ol_stream *stream;          /* the arrays that are fetched ahead */
  int streams;                /* how many; 0: nothing is fetched */
  int share, fetched;         /* of the tile: at a time; so far */
} NAME(state);

TARGET static T NAME(number)(const ol_work *work, ol_factor factor) {
  if (factor.source == OL_FACTOR_NOTHING) return -(T)0;
  T value = factor.source == OL_FACTOR_ONE ? (T)1 : (T)work->numbers[factor.source];
  return factor.sign < 0 ? -value : value;
}

TARGET static void NAME(begin_slots)(NAME(state) * s) {
  const ol_pass *pass = s->work->pass;
  for (int i = 0; i < pass->slots; i++) {
    const ol_pass_slot *slot = &pass->slot[i];
    bool array = slot->kind == OL_SLOT_ARRAY;
    s->base[i] = array ? s->work->arrays[slot->index] : (char *)s->tile[slot->index];
    s->at[i] = (T *)s->base[i];
    if (slot->kind != OL_SLOT_CONSTANT) continue;
    const T value = NAME(number)(s->work, slot->factor);
    EACH(TILE, s->at[i][k] = value);
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

/* Passes with codes compute for longer than their few bytes take to come: fetching ahead costs
 * AdamW a sixth of its time. */
TARGET static bool NAME(has_codes)(const ol_pass *pass) {
  for (int i = 0; i < pass->accesses; i++)
    if (pass->access[i].packing & OL_PACK_CODES) return true;
  return false;
}

/* Notes the arrays that are fetched ahead, and how many lines are asked for at a time: before each
 * instruction, and where an instruction is slow before each piece of it. A processor waits for a
 * dozen lines at a time and runs a few hundred instructions ahead, so that neither all at once nor
 * nothing between divisions and roots keeps the memory busy. AdamW from memory takes 1.19 of its
 * bytes without, 1.05-1.10 with it; in a cache up to 1.3 times as long. */
TARGET static void NAME(begin_streams)(NAME(state) * s) {
  const ol_pass *pass = s->work->pass;
  ol_stream *streams = s->stream;
  int turns = 0;
  for (int i = 0; i < pass->slots; i++)
    if (pass->slot[i].kind == OL_SLOT_ARRAY)
      streams[s->streams++] = (ol_stream){ s->base[i], sizeof(T) };
  for (int i = 0; i < pass->accesses; i++) {
    const ol_access *access = &pass->access[i];
    if (access->layout == OL_ACCESS_STRAIGHT && !NAME(is_fetched)(pass, i))
      streams[s->streams++] = (ol_stream){ s->work->arrays[access->array],
                                           (int)ol_dtype_size((ol_dtype)access->dtype) };
  }
  for (int i = 0; i < pass->instructions; i++)
    turns += pass->instruction[i].slow ? TILE / PIECE : 1;
  s->share = ((PARTS << 8) + turns - 1) / turns;
}

TARGET static void NAME(begin)(NAME(state) * s, const ol_work *work) {
  const ol_pass *pass = work->pass;
  ol_scratch layout = ol_kernel_layout(work->code, pass, sizeof(T));
  char *scratch = work->scratch;
  *s = (NAME(state)){ .work = work,
                      .tile = (void *)scratch,
                      .lanes = (void *)(scratch + layout.lanes),
                      .numbers = (void *)(scratch + layout.numbers),
                      .base = (void *)(scratch + layout.base),
                      .at = (void *)(scratch + layout.at),
                      .stream = (void *)(scratch + layout.streams),
                      .band = (void *)(scratch + layout.band),
                      .band_row = (void *)(scratch + layout.band_row) };
  NAME(begin_slots)(s);
  for (int i = 0; i < pass->instructions; i++)
    for (int k = 0; k < OL_FORM_NUMBERS; k++)
      s->numbers[i][k] = NAME(number)(work, pass->instruction[i].factor[k]);
  for (int i = 0; i < pass->accumulators; i++)
    for (int k = 0; k < OL_LANES; k++)
      s->lanes[i][k] = ol_reduce_identity((ol_rule_op)pass->accumulator[i].op);
  for (int i = 0; i < pass->accesses; i++) s->band_row[i] = -1;
  if (work->far && pass->dim < 0 && !NAME(has_codes)(pass)) NAME(begin_streams)(s);
  s->gradient_factor = work->gradient_factor ? (T)*work->gradient_factor : (T)1;
  s->gradient = work->gradient_factor && pass->gradient >= 0 ? s->tile[pass->gradient] : NULL;
}

/* Asks for the next share of the tile that begins at a position, of each array. */
TARGET static void NAME(fetch)(NAME(state) * s, int64_t position) {
  const int first = s->fetched >> 8, last = (s->fetched + s->share) >> 8;
  s->fetched += s->share;
  for (int i = 0; i < s->streams; i++) {
    const int64_t width = s->stream[i].width, part = width * TILE / PARTS;
    const int64_t tile = position * width;
    for (int64_t at = first * part; at < last * part; at += LINE)
      FETCH(s->stream[i].base, tile + at);
  }
}
