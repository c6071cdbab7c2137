/* prepare: what a step needs before it can be committed: dense arrays, states, norms, runs. */
#include <math.h>

#include "optim/clip.h"
#include "optim/list.h"

static ol_status check_gradient(ol_error *error, const ol_member *m) {
  const ol_tensor *param = m->param, *grad = param->grad;
  if (grad->dtype == param->dtype && ol_shape_equal(&grad->shape, &param->shape)) return OL_OK;
  char own[OL_SHAPE_TEXT], other[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "the gradient of parameter '%s' is %s %s; %s %s was expected",
                 m->name, ol_dtype_name(grad->dtype), ol_shape_text(&grad->shape, other),
                 ol_dtype_name(param->dtype), ol_shape_text(&param->shape, own));
}

/* Finds, or makes, contiguous elements of a member's parameter. */
static ol_status look_up_param(ol_error *error, ol_entry *entry) {
  ol_member *m = entry->member;
  if (!ol_tensor_is_contiguous(m->param)) OL_TRY(ol_tensor_clone(error, m->param, &entry->packed));
  m->param_data = ol_tensor_data(entry->packed ? entry->packed : m->param);
  return OL_OK;
}

/* The same of its parameter and gradient. */
static ol_status look_up(ol_error *error, ol_entry *entry) {
  ol_member *m = entry->member;
  OL_TRY(check_gradient(error, m));
  OL_TRY(look_up_param(error, entry));
  OL_TRY(ol_tensor_contiguous(error, m->param->grad, &entry->grad));
  m->grad_data = ol_tensor_data(entry->grad);
  if (m->place < 0 || entry->packed || entry->grad != m->param->grad) return OL_OK;
  ol_release(m->seen);
  m->seen = entry->grad; /* its reference, too */
  entry->grad = NULL;
  return OL_OK;
}

static ol_status prepare_entry(ol_error *error, ol_step *step, ol_group *group, ol_entry *entry) {
  const ol_member *m = entry->member;
  bool known = m->seen && (!step->updates || m->seen == m->param->grad);
  if (!known) {
    step->holds = true;
    OL_TRY(step->updates ? look_up(error, entry) : look_up_param(error, entry));
  }
  return ol_member_grow(error, group, entry->member);
}

/* Lists the gradients, and where those of each group end. */
static ol_status list_gradients(ol_error *error, ol_step *step) {
  step->inputs.count = step->parts.count = 0;
  OL_TRY(ol_list_reserve(error, &step->inputs, step->entries.count, sizeof(ol_norm_input)));
  OL_TRY(ol_list_reserve(error, &step->parts, step->groups.count, sizeof(ol_norm_part)));
  for (int64_t i = 0; i < step->entries.count; i++) {
    const ol_member *m = ol_list_at(&step->entries, ol_entry, i)->member;
    *ol_list_at(&step->inputs, ol_norm_input, step->inputs.count++) =
        (ol_norm_input){ m->grad_data, m->dtype, m->numel };
  }
  for (int64_t g = 0, b = 0, end = 0; g < step->groups.count; g++) {
    for (; b < step->batches.count; b++) {
      const ol_step_batch *batch = ol_list_at(&step->batches, ol_step_batch, b);
      if (batch->group != *ol_list_at(&step->groups, ol_group *, g)) break;
      end = batch->end;
    }
    ol_list_at(&step->parts, ol_norm_part, step->parts.count++)->end = end;
  }
  return OL_OK;
}

static ol_status fail_nonfinite(ol_error *error, const ol_step *step, int64_t i, const char *when) {
  return ol_fail(error, OL_NONFINITE, "the gradient of parameter '%s' is not finite%s",
                 ol_list_at(&step->entries, ol_entry, i)->member->name, when);
}

/* Finite gradients that a factor above 1 makes infinite fail too. Each is looked at only where the
 * largest of all, as a float, would be infinite. */
static ol_status check_unscaled(ol_error *error, const ol_step *step, double unscale,
                                double infinity) {
  ol_norm_result one;
  if (isfinite((float)(infinity * unscale))) return OL_OK;
  for (int64_t i = 0; i < step->inputs.count; i++) {
    const ol_norm_input *input = ol_list_at(&step->inputs, ol_norm_input, i);
    OL_TRY(ol_norm(error, input, 1, &one));
    double largest = one.infinity * unscale;
    if (!isfinite(input->dtype == OL_F64 ? largest : (double)(float)largest))
      return fail_nonfinite(error, step, i, " when it is divided by grad_scale");
  }
  return OL_OK;
}

static double choose(const ol_norm_result *result, const ol_step_options *options) {
  return (options->infinity ? result->infinity : result->two) * options->unscale;
}

/* Gives each group its factor; the norm of all gradients after that. */
static double clip_groups(ol_step *step, const ol_step_options *options) {
  bool clipped = false;
  double norm = 0;
  for (int64_t g = 0; g < step->groups.count; g++) {
    ol_group *group = *ol_list_at(&step->groups, ol_group *, g);
    double own = choose(&ol_list_at(&step->parts, ol_norm_part, g)->result, options);
    double factor = ol_clip_factor(own, group->max_norm);
    group->factor *= factor;
    if (factor < 1) clipped = true;
    norm = options->infinity ? fmax(norm, own * factor) : hypot(norm, own * factor);
  }
  return clipped ? norm : step->norm;
}

/* Measures the gradients and says what each group's are multiplied with. */
static ol_status measure(ol_error *error, ol_step *step, const ol_step_options *options) {
  ol_norm_result all;
  OL_TRY(list_gradients(error, step));
  OL_TRY(ol_norm_of_parts(error, step->inputs.item, step->inputs.count, step->parts.item,
                          step->parts.count, &all));
  if (all.nonfinite >= 0) return fail_nonfinite(error, step, all.nonfinite, "");
  if (options->unscale > 1) OL_TRY(check_unscaled(error, step, options->unscale, all.infinity));
  step->norm = choose(&all, options);
  double factor = ol_clip_factor(clip_groups(step, options), options->max_norm);
  for (int64_t g = 0; g < step->groups.count; g++)
    (*ol_list_at(&step->groups, ol_group *, g))->factor *= factor;
  return OL_OK;
}

/* The addresses of the operands that a program touches. */
static void locate(const ol_program *program, const ol_member *m, void **array) {
  uint32_t used = program->reads | program->writes;
  array[0] = used & 1 ? m->param_data : NULL;
  array[1] = used & 2 ? m->grad_data : NULL;
  for (int k = 2; k < program->operands; k++)
    array[k] = used >> k & 1 ? ol_member_slot_data(m, k - 2) : NULL;
}

/* Whether arrays follow a run in memory, each of them. */
static bool follows(const ol_run *run, void *const *array, const size_t *size) {
  for (int k = 0; k < run->program->operands; k++)
    if (array[k] && (char *)run->arrays[k] + (size_t)run->count * size[k] != array[k]) return false;
  return true;
}

/* Adds the noise of a tensor to a run: the same for the same seed, parameter and count of updates.
 */
static void add_noise(ol_step *step, const ol_group *group, const ol_member *m, ol_run *run,
                      int64_t begin) {
  uint64_t key = ol_mix(ol_mix(group->seed ^ m->salt) + (uint64_t)m->steps);
  ol_noise_part *part = ol_list_at(&step->noise, ol_noise_part, step->noise.count++);
  *part = (ol_noise_part){ begin, key };
  if (begin == 0) run->noise = part;
  run->noise_parts++;
}

static void add_run(ol_step *step, const ol_step_batch *batch, const ol_member *m, bool first,
                    const size_t *size) {
  void **array = ol_list_at(&step->arrays, void *, step->arrays.count);
  ol_run *run = ol_list_at(&step->runs, ol_run, step->runs.count);
  if (m->numel == 0) return;
  locate(batch->program, m, array);
  if (!first && batch->program->coalesces && follows(run - 1, array, size)) {
    if (batch->program->random) add_noise(step, batch->group, m, run - 1, run[-1].count);
    run[-1].count += m->numel;
    return;
  }
  step->arrays.count += batch->program->operands;
  step->runs.count++;
  *run = (ol_run){ .program = batch->program,
                   .numbers = ol_list_at(&step->numbers, double, batch->numbers),
                   .arrays = array,
                   .count = m->numel,
                   .totals = batch->group->total,
                   .salt = batch->group->layout[m->layout].salt };
  if (batch->program->random) add_noise(step, batch->group, m, run, 0);
}

/* One walk over the members does both: reading them takes longer than anything that is done. */
static ol_status prepare_batch(ol_error *error, ol_step *step, ol_step_batch *batch) {
  size_t size[OL_GRAPH_OPERANDS];
  const ol_member *m = ol_list_at(&step->entries, ol_entry, batch->begin)->member;
  int64_t before = step->runs.count;
  for (int k = 0; k < batch->program->operands; k++)
    size[k] = ol_dtype_size(k < 2 ? m->dtype : ol_member_slot_dtype(batch->group, m, k - 2));
  for (int64_t i = batch->begin; i < batch->end; i++) {
    ol_entry *entry = ol_list_at(&step->entries, ol_entry, i);
    if (i + OL_AHEAD < batch->end) __builtin_prefetch(&entry[OL_AHEAD].member->param->grad);
    OL_TRY(prepare_entry(error, step, batch->group, entry));
    add_run(step, batch, entry->member, step->runs.count == before, size);
  }
  batch->runs = step->runs.count;
  return OL_OK;
}

static ol_status reserve_runs(ol_error *error, ol_step *step) {
  int64_t arrays = 0;
  step->runs.count = step->arrays.count = step->noise.count = 0;
  for (int64_t b = 0; b < step->batches.count; b++) {
    const ol_step_batch *batch = ol_list_at(&step->batches, ol_step_batch, b);
    arrays += (batch->end - batch->begin) * batch->program->operands;
  }
  OL_TRY(ol_list_reserve(error, &step->runs, step->entries.count + 1, sizeof(ol_run)));
  OL_TRY(ol_list_reserve(error, &step->arrays, arrays + OL_GRAPH_OPERANDS, sizeof(void *)));
  return ol_list_reserve(error, &step->noise, step->entries.count, sizeof(ol_noise_part));
}

/* Tells the runs what their gradients are multiplied with. */
static void set_factors(ol_step *step) {
  for (int64_t b = 0, r = 0; b < step->batches.count; b++) {
    const ol_step_batch *batch = ol_list_at(&step->batches, ol_step_batch, b);
    const double *factor = &batch->group->factor;
    for (; r < batch->runs; r++)
      ol_list_at(&step->runs, ol_run, r)->gradient_factor = *factor == 1 ? NULL : factor;
  }
}

ol_status ol_step_prepare(ol_error *error, ol_step *step, const ol_step_options *options) {
  if (step->next < step->entries.count)
    return ol_fail(error, OL_STATE, "a step is prepared before all its parameters were traced");
  for (int64_t g = 0; g < step->groups.count; g++)
    (*ol_list_at(&step->groups, ol_group *, g))->factor = options->unscale;
  OL_TRY(reserve_runs(error, step));
  for (int64_t b = 0; b < step->batches.count; b++)
    OL_TRY(prepare_batch(error, step, ol_list_at(&step->batches, ol_step_batch, b)));
  if (options->measure) OL_TRY(measure(error, step, options));
  set_factors(step);
  OL_TRY(ol_machine_prepare(error, step->machine, step->runs.item, step->runs.count));
  step->prepared = true;
  return OL_OK;
}
