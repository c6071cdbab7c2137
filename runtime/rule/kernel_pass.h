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

/* Moves, and what enters a reduction. */

TARGET static void NAME(load_access)(NAME(state) * s, const NAME(op) * op, int n) {
  const ol_work *work = s->work;
  const int index = op->instruction->in[0];
  const ol_access *access = &work->pass->access[index];
  const ol_shape *shape = &work->code->shape[work->pass->shape];
  const ol_source from = { work->arrays[access->array], access, work->count };
  T *out = NAME(at)(s, op->place[0]);
  switch (access->layout) {
  case OL_ACCESS_GATHERED:
    if (s->row_at) {
      int64_t step = access->stride[shape->ndim - 1];
      NAME(stretch)(n, out, &from, s->row_at[index] + step * s->position, step);
    } else {
      NAME(gather)(n, out, &from, shape, s->position);
    }
    break;
  case OL_ACCESS_TURNED: NAME(load_turned)(s, index, n, out, &from, s->position); break;
  default: NAME(read)(n, out, &from, s->position);
  }
  if (access->array == 1 && work->gradient_factor) NAME(scale)(n, out, out, s->gradient_factor);
}

TARGET static void NAME(store_access)(NAME(state) * s, const NAME(op) * op, int n) {
  const ol_work *work = s->work;
  const ol_access *access = &work->pass->access[op->instruction->out];
  const int packing = access->packing;
  const T *x = NAME(at)(s, op->place[1]);
  char *array = work->arrays[access->array];
  void *to = array + s->position * (int64_t)ol_dtype_size((ol_dtype)access->dtype);
  const uint64_t salt = work->salt ? work->salt[access->array] : 0;
  if (packing & OL_PACK_CODES)
    NAME(store_codes)(n, array, x, packing, work, salt, s->position);
  else if (packing & OL_PACK_RANDOM)
    NAME(store_parts)(n, to, x, work, salt, s->position, &s->noise);
  else
    NAME(store)(n, to, x, (ol_dtype)access->dtype);
}

TARGET static void NAME(copy)(NAME(state) * s, const NAME(op) * op, int n) {
  OPERANDS(s, op);
  memcpy(out, x, (size_t)n * sizeof(T));
}

TARGET static void NAME(scale_gradient)(NAME(state) * s, const NAME(op) * op, int n) {
  OPERANDS(s, op);
  NAME(scale)(n, out, x, s->gradient_factor);
}

TARGET static void NAME(reduce)(NAME(state) * s, const NAME(op) * op, int n) {
  NAME(accumulate)
  ((ol_rule_op)op->instruction->in[1], s->position, n, NAME(at)(s, op->place[1]),
   s->lanes[op->instruction->out]);
}

/* The beginning. */

TARGET static NAME(action) * NAME(action_of)(const NAME(state) * s, const ol_instruction *op) {
  const ol_pass *pass = s->work->pass;
  switch (op->code) {
#define CASE(name, expression)                                                                     \
  case OL_FORM_##name: return NAME(form_##name);
    OL_FORMS(CASE)
#undef CASE
#define CASE(name, expression)                                                                     \
  case OL_CODE_OP + OL_RULE_##name: return NAME(plain_##name);
    PLAIN_OPS(CASE)
    FUNCTIONS(CASE)
#undef CASE
  case OL_CODE_OP + OL_RULE_POW: {
    const ol_pass_slot *exponent = &pass->slot[op->in[1]];
    return NAME(power)(exponent->kind == OL_SLOT_CONSTANT ? s->tile[exponent->index] : NULL);
  }
  case OL_CODE_LOAD: return NAME(load_access);
  case OL_CODE_STORE: return NAME(store_access);
  case OL_CODE_REDUCE: return NAME(reduce);
  default: return NAME(copy);
  }
}

TARGET static void NAME(begin_op)(NAME(state) * s, const ol_instruction *from) {
  NAME(op) *op = &s->op[s->ops++];
  *op = (NAME(op)){ .act = NAME(action_of)(s, from), .instruction = from };
  const bool ends = from->code == OL_CODE_STORE || from->code == OL_CODE_REDUCE;
  const int operands = from->code == OL_CODE_LOAD ? 0 : ends ? 1 : OL_FORM_ARRAYS;
  if (!ends) op->place[0] = NAME(place_of)(s, from->out);
  for (int i = 0; i < operands; i++) op->place[1 + i] = NAME(place_of)(s, from->in[i]);
  for (int i = 0; i < OL_FORM_NUMBERS; i++) op->number[i] = NAME(number)(s->work, from->factor[i]);
}

/* A gradient that is multiplied as it is read goes through a tile of its own. */
TARGET static void NAME(begin_gradient)(NAME(state) * s) {
  const ol_work *work = s->work;
  for (int i = 0; i < work->pass->slots; i++) {
    if (!NAME(is_scaled)(work, &work->pass->slot[i])) continue;
    NAME(op) *op = &s->op[s->ops++];
    *op = (NAME(op)){ .act = NAME(scale_gradient), .place = { NAME(place_of)(s, i) } };
    for (int k = 0; k < OL_FORM_ARRAYS; k++)
      op->place[1 + k] = (NAME(place)){ work->arrays[1], UINTPTR_MAX };
  }
}

TARGET static void NAME(begin)(NAME(state) * s, const ol_work *work) {
  const ol_pass *pass = work->pass;
  ol_scratch layout = ol_kernel_layout(work->code, pass, sizeof(T));
  char *scratch = work->scratch;
  *s = (NAME(state)){ .work = work,
                      .op = (void *)(scratch + layout.ops),
                      .tile = (void *)scratch,
                      .frame = scratch + layout.frame,
                      .lanes = (void *)(scratch + layout.lanes),
                      .total = (void *)(scratch + layout.total),
                      .stream = (void *)(scratch + layout.streams),
                      .band = (void *)(scratch + layout.band),
                      .band_row = (void *)(scratch + layout.band_row),
                      .gradient_factor = work->gradient_factor ? (T)*work->gradient_factor : (T)1 };
  NAME(fill_constants)(s);
  NAME(begin_gradient)(s);
  for (int i = 0; i < pass->instructions; i++) NAME(begin_op)(s, &pass->instruction[i]);
  for (int i = 0; i < pass->accumulators; i++)
    for (int k = 0; k < OL_LANES; k++)
      s->lanes[i][k] = ol_reduce_identity((ol_rule_op)pass->accumulator[i].op);
  for (int i = 0; i < pass->accesses; i++) s->band_row[i] = -1;
  if (goes_by_rows(work->code, pass)) s->row_at = (void *)(scratch + layout.row_at);
  if (work->far && !has_codes(pass)) NAME(begin_streams)(s);
}

/* Executes the instructions on n elements from position on. */
TARGET static void NAME(execute)(NAME(state) * s, int n, int64_t position) {
  s->position = position;
  s->offset = (uintptr_t)position * sizeof(T);
  for (const NAME(op) *op = s->op, *end = op + s->ops; op < end; op++) {
    NAME(fetch)(s, op, n);
    op->act(s, op, n);
  }
}

/* Elements begin … end. From memory, half a tile at a time: so what is fetched ahead is asked for
 * more evenly. */
TARGET static void NAME(tiles)(NAME(state) * s, int64_t begin, int64_t end) {
  const int64_t step = s->streams > 0 ? TILE / 2 : TILE;
  for (int64_t at = begin; at < end; at += step)
    NAME(execute)(s, end - at < step ? (int)(end - at) : (int)step, at);
}

/* The same, by machine code where there is some. */
TARGET static void NAME(stretches)(NAME(state) * s, int64_t begin, int64_t end) {
  const ol_work *work = s->work;
  bool native;
  for (int64_t at = begin, n; at < end; at += n) {
    n = next_stretch(work, at, end, &native);
    if (native)
      ol_native_run(native_of(work),
                    &(ol_native_call){
                        .work = work, .at = at, .count = n, .lanes = s->lanes, .frame = s->frame });
    else
      NAME(tiles)(s, at, at + n);
  }
}

/* Row after row: what is spread over them has one place in each. */
TARGET static void NAME(row_by_row)(NAME(state) * s) {
  const ol_work *work = s->work;
  const ol_pass *pass = work->pass;
  const ol_shape *shape = &work->code->shape[pass->shape];
  const int64_t columns = shape->size[shape->ndim - 1];
  int64_t index[OL_MAX_DIMS];
  for (int64_t at = work->begin, end; at < work->end; at = end) {
    int64_t first = at - at % columns;
    end = first + columns < work->end ? first + columns : work->end;
    for (int i = 0; i < pass->accesses; i++)
      if (pass->access[i].layout == OL_ACCESS_GATHERED)
        s->row_at[i] = ol_kernel_place(&pass->access[i], shape, first, index) -
                       first * pass->access[i].stride[shape->ndim - 1];
    NAME(stretches)(s, at, end);
  }
}

TARGET static void NAME(elements)(NAME(state) * s) {
  const ol_work *work = s->work;
  if (s->row_at)
    NAME(row_by_row)(s);
  else
    NAME(stretches)(s, work->begin, work->end);
  for (int i = 0; i < work->pass->accumulators; i++)
    work->partial[i] = ol_reduce_fold((ol_rule_op)work->pass->accumulator[i].op, s->lanes[i]);
}

/* Reductions over a dimension. */

TARGET static void NAME(put)(const ol_work *work, int64_t at, double total, int64_t size) {
  T *target = work->arrays[work->pass->target];
  target[at] = (T)ol_reduce_finish((ol_rule_op)work->pass->op, total, size);
}

/* What is reduced, of the elements at hand. */
TARGET static const T *NAME(result)(const NAME(state) * s) {
  return NAME(at)(s, NAME(place_of)(s, s->work->pass->result));
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
    NAME(execute)(reel->s, n, position);
    reel->begin = position, reel->end = position + n;
  }
  if (*length > reel->end - position) *length = reel->end - position;
  return NAME(result)(reel->s) + (position - reel->begin);
}

TARGET static double NAME(chunk)(NAME(reel) * reel, ol_rule_op op, int64_t begin, int64_t end) {
  const ol_work *work = reel->s->work;
  double lanes[OL_LANES];
  for (int k = 0; k < OL_LANES; k++) lanes[k] = ol_reduce_identity(op);
  const int64_t done = native_of(work) ? whole_rows(end - begin) : 0;
  if (done > 0)
    ol_native_run(
        native_of(work),
        &(ol_native_call){
            .work = work, .at = begin, .count = done, .lanes = &lanes, .frame = reel->s->frame });
  for (int64_t at = begin + done, length; at < end; at += length) {
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
      if (native_of(work)) reel.last = end; /* machine code does what is behind it */
      total = ol_reduce_join(op, total, NAME(chunk)(&reel, op, at, end));
    }
    NAME(put)(work, row, total, units.size);
  }
}

/* Columns no wider than a tile: slabs (size, inner), which follow each other in memory. */
TARGET static void NAME(slabs)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double *total = s->total;
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

/* Lines of wider columns: n elements of each, from a position on. */
TARGET static void NAME(lines)(NAME(state) * s, int64_t at, int64_t n, int lines, int64_t pitch) {
  const ol_work *work = s->work;
  const int64_t done = native_of(work) ? whole_rows(n) : 0;
  if (done > 0)
    ol_native_run(native_of(work), &(ol_native_call){ .work = work,
                                                      .at = at,
                                                      .count = done,
                                                      .totals = s->total,
                                                      .lines = lines,
                                                      .frame = s->frame });
  for (int line = 0; line < lines; line++)
    for (int64_t k = done; k < n; k += TILE) {
      int length = n - k < TILE ? (int)(n - k) : TILE;
      NAME(execute)(s, length, at + line * pitch + k);
      NAME(join)((ol_rule_op)work->pass->op, length, NAME(result)(s), s->total + k);
    }
}

/* Wider columns: row by row. */
TARGET static void NAME(columns)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double *total = s->total;
  for (int64_t unit = work->begin; unit < work->end; unit++) {
    int64_t outer = unit / units.blocks, first = unit % units.blocks * units.width;
    int64_t n = units.inner - first < units.width ? units.inner - first : units.width;
    for (int64_t k = 0; k < n; k++) total[k] = ol_reduce_identity(op);
    for (int64_t row = 0; row < units.size;) {
      int lines = units.size - row < OL_NATIVE_LINES ? 1 : OL_NATIVE_LINES;
      NAME(lines)(s, (outer * units.size + row) * units.inner + first, n, lines, units.inner);
      row += lines;
    }
    for (int64_t k = 0; k < n; k++)
      NAME(put)(work, outer * units.inner + first + k, total[k], units.size);
  }
}

TARGET static void NAME(run)(const ol_work *work) {
  NAME(state) s;
  if (ran_natively(work)) return;
  NAME(begin)(&s, work);
  if (work->pass->dim < 0) {
    NAME(elements)(&s);
    return;
  }
  ol_units units =
      ol_kernel_units(&work->code->shape[work->pass->shape], work->pass->dim, work->threads);
  if (units.inner == 1)
    NAME(rows)(&s, units);
  else if (units.inner <= TILE)
    NAME(slabs)(&s, units);
  else
    NAME(columns)(&s, units);
}
