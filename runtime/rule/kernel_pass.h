/* kernel_pass: executes the instructions of a pass, tile by tile; part of the template
 * kernel_body.h. */

/* A turned array, a band of rows at a time; a tile takes its elements from it. */
TARGET static void NAME(load_turned)(NAME(state) * s, int index, int n, T *out,
                                     const ol_source *from, int64_t position) {
  const ol_access *access = &s->work->pass->access[index];
  const ol_shape *shape = &s->work->code->shape[s->work->pass->shape];
  int64_t rows = shape->size[0], columns = shape->size[1], pitch = columns + BAND;
  T *band = s->band + access->band * BAND * pitch;
  for (int done = 0; done < n;) {
    int64_t row = (position + done) / columns, column = (position + done) % columns;
    int64_t first = row - row % BAND, left = columns - column;
    int length = left < n - done ? (int)left : n - done;
    if (s->band_row[index] != first) {
      int height = rows - first < BAND ? (int)(rows - first) : BAND;
      NAME(turn)(height, band, from, first, rows, columns, pitch);
      s->band_row[index] = first;
    }
    memcpy(out + done, band + (row - first) * pitch + column, (size_t)length * sizeof(T));
    done += length;
  }
}

TARGET OUTLINE static void NAME(load_access)(NAME(state) * s, const ol_instruction *op, int n,
                                             int64_t position) {
  const ol_work *work = s->work;
  const ol_access *access = &work->pass->access[op->in[0]];
  const ol_shape *shape = &work->code->shape[work->pass->shape];
  const ol_source from = { work->arrays[access->array], access, work->count };
  T *out = s->at[op->out];
  switch (access->layout) {
  case OL_ACCESS_GATHERED: NAME(gather)(n, out, &from, shape, position); break;
  case OL_ACCESS_TURNED: NAME(load_turned)(s, op->in[0], n, out, &from, position); break;
  default: NAME(read)(n, out, &from, position);
  }
  if (access->array == 1 && work->gradient_factor) NAME(scale)(n, out, out, s->gradient_factor);
}

TARGET OUTLINE static void NAME(store_access)(NAME(state) * s, const ol_instruction *op, int n,
                                              int64_t position) {
  const ol_work *work = s->work;
  const ol_access *access = &work->pass->access[op->out];
  const int packing = access->packing;
  const T *x = s->at[op->in[0]];
  char *array = work->arrays[access->array];
  void *to = array + position * (int64_t)ol_dtype_size((ol_dtype)access->dtype);
  const uint64_t salt = work->salt ? work->salt[access->array] : 0;
  if (packing & OL_PACK_CODES)
    NAME(store_codes)(n, array, x, packing, work, salt, position);
  else if (packing & OL_PACK_RANDOM)
    NAME(store_parts)(n, to, x, work, salt, position, &s->noise);
  else
    NAME(store)(n, to, x, (ol_dtype)access->dtype);
}

TARGET static void NAME(execute)(NAME(state) * s, int index, int n, int64_t position) {
  const ol_pass *pass = s->work->pass;
  const ol_instruction *op = &pass->instruction[index];
  T **at = s->at;
  switch (op->code) {
#define CASE(name, expression)                                                                     \
  case OL_FORM_##name:                                                                             \
    NAME(form_##name)                                                                              \
    (n, at[op->out], at[op->in[0]], at[op->in[1]], at[op->in[2]], s->numbers[index]);              \
    break;
    OL_FORMS(CASE)
#undef CASE
#define CASE(name, expression)                                                                     \
  case OL_CODE_OP + OL_RULE_##name:                                                                \
    NAME(plain_##name)(n, at[op->out], at[op->in[0]], at[op->in[1]], at[op->in[2]]);               \
    break;
    PLAIN_OPS(CASE)
    FUNCTIONS(CASE)
#undef CASE
  case OL_CODE_OP + OL_RULE_POW:
    NAME(power)(n, at[op->out], at[op->in[0]], at[op->in[1]],
                pass->slot[op->in[1]].kind == OL_SLOT_CONSTANT);
    break;
  case OL_CODE_LOAD: NAME(load_access)(s, op, n, position); break;
  case OL_CODE_STORE: NAME(store_access)(s, op, n, position); break;
  case OL_CODE_REDUCE:
    NAME(accumulate)((ol_rule_op)op->in[1], 0, n, at[op->in[0]], s->lanes[op->out]);
    break;
  default: memcpy(at[op->out], at[op->in[0]], (size_t)n * sizeof(T)); /* COPY */
  }
}

/* Executes the instructions on a full tile, and asks meanwhile for what is AHEAD. */
TARGET static void NAME(execute_ahead)(NAME(state) * s, int64_t position) {
  const ol_pass *pass = s->work->pass;
  s->fetched = 0;
  for (int i = 0; i < pass->instructions; i++) {
    const bool slow = pass->instruction[i].slow;
    const int piece = slow ? PIECE : TILE;
    for (int done = 0; done < TILE; done += piece) {
      NAME(fetch)(s, position + AHEAD);
      NAME(execute)(s, i, piece, position + done);
      if (slow)
        for (int k = 0; k < pass->slots; k++) s->at[k] += PIECE;
    }
    if (slow)
      for (int k = 0; k < pass->slots; k++) s->at[k] -= TILE;
  }
}

/* Executes the instructions on n elements from position on. */
TARGET static void NAME(tile)(NAME(state) * s, int n, int64_t position) {
  const ol_pass *pass = s->work->pass;
  for (int i = 0; i < pass->slots; i++) {
    if (pass->slot[i].kind != OL_SLOT_ARRAY) continue;
    s->at[i] = (T *)s->base[i] + position;
    if (pass->slot[i].index != 1 || !s->gradient) continue;
    NAME(scale)(n, s->gradient, s->at[i], s->gradient_factor);
    s->at[i] = s->gradient;
  }
  if (s->streams > 0 && n == TILE) {
    NAME(execute_ahead)(s, position);
    return;
  }
  for (int i = 0; i < pass->instructions; i++) NAME(execute)(s, i, n, position);
}

TARGET static void NAME(elements)(NAME(state) * s) {
  const ol_work *work = s->work;
  for (int64_t at = work->begin; at < work->end; at += TILE)
    NAME(tile)(s, work->end - at < TILE ? (int)(work->end - at) : TILE, at);
  for (int i = 0; i < work->pass->accumulators; i++)
    work->partial[i] = ol_reduce_fold((ol_rule_op)work->pass->accumulator[i].op, s->lanes[i]);
}

/* Reductions over a dimension. */

TARGET static void NAME(put)(const ol_work *work, int64_t at, double total, int64_t size) {
  T *target = work->arrays[work->pass->target];
  target[at] = (T)ol_reduce_finish((ol_rule_op)work->pass->op, total, size);
}

/* Tiles along a stretch of elements, computed when somebody looks at them. */
typedef struct NAME(reel) {
  NAME(state) * s;
  int64_t begin, end; /* the tile at hand */
  int64_t last;       /* where the stretch ends */
} NAME(reel);

/* The values from position on; *length shrinks to how many there are. */
TARGET static const T *NAME(look)(NAME(reel) * reel, int64_t position, int64_t *length) {
  if (position >= reel->end) {
    int64_t left = reel->last - position;
    int n = left < TILE ? (int)left : TILE;
    NAME(tile)(reel->s, n, position);
    reel->begin = position, reel->end = position + n;
  }
  if (*length > reel->end - position) *length = reel->end - position;
  return reel->s->at[reel->s->work->pass->result] + (position - reel->begin);
}

TARGET static double NAME(chunk)(NAME(reel) * reel, ol_rule_op op, int64_t begin, int64_t end) {
  double lanes[OL_LANES];
  for (int k = 0; k < OL_LANES; k++) lanes[k] = ol_reduce_identity(op);
  for (int64_t at = begin, length; at < end; at += length) {
    length = end - at;
    const T *x = NAME(look)(reel, at, &length);
    NAME(accumulate)(op, at - begin, (int)length, x, lanes);
  }
  return ol_reduce_fold(op, lanes);
}

/* Rows, which follow each other in memory. */
TARGET static void NAME(rows)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  NAME(reel) reel = { .s = s, .last = work->end * units.size };
  for (int64_t row = work->begin; row < work->end; row++) {
    double total = ol_reduce_identity(op);
    int64_t first = row * units.size, last = first + units.size;
    for (int64_t at = first, end; at < last; at = end) {
      end = at + OL_MACHINE_CHUNK < last ? at + OL_MACHINE_CHUNK : last;
      total = ol_reduce_join(op, total, NAME(chunk)(&reel, op, at, end));
    }
    NAME(put)(work, row, total, units.size);
  }
}

/* Columns no wider than a tile: slabs (size, inner), which follow each other in memory. */
TARGET static void NAME(slabs)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double total[TILE];
  NAME(reel) reel = { .s = s, .last = work->end * units.size * units.inner };
  for (int64_t unit = work->begin; unit < work->end; unit++) {
    for (int k = 0; k < units.inner; k++) total[k] = ol_reduce_identity(op);
    for (int64_t row = unit * units.size; row < (unit + 1) * units.size; row++)
      for (int64_t column = 0, length; column < units.inner; column += length) {
        length = units.inner - column;
        const T *x = NAME(look)(&reel, row * units.inner + column, &length);
        NAME(join)(op, (int)length, x, total + column);
      }
    for (int k = 0; k < units.inner; k++)
      NAME(put)(work, unit * units.inner + k, total[k], units.size);
  }
}

/* Wider columns: a block of them at a time, row by row. */
TARGET static void NAME(columns)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double total[TILE];
  for (int64_t unit = work->begin; unit < work->end; unit++) {
    int64_t outer = unit / units.blocks, first = unit % units.blocks * TILE;
    int n = units.inner - first < TILE ? (int)(units.inner - first) : TILE;
    for (int k = 0; k < n; k++) total[k] = ol_reduce_identity(op);
    for (int64_t row = 0; row < units.size; row++) {
      NAME(tile)(s, n, (outer * units.size + row) * units.inner + first);
      NAME(join)(op, n, s->at[work->pass->result], total);
    }
    for (int k = 0; k < n; k++)
      NAME(put)(work, outer * units.inner + first + k, total[k], units.size);
  }
}

TARGET static void NAME(run)(const ol_work *work) {
  NAME(state) s;
  NAME(begin)(&s, work);
  if (work->pass->dim < 0) {
    NAME(elements)(&s);
    return;
  }
  ol_units units = ol_kernel_units(&work->code->shape[work->pass->shape], work->pass->dim);
  if (units.inner == 1)
    NAME(rows)(&s, units);
  else if (units.blocks == 1)
    NAME(slabs)(&s, units);
  else
    NAME(columns)(&s, units);
}
