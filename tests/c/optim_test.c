/* Groups and steps: packing into slabs, batches and runs, what a failure undoes, twins. */
#include "base/memory.h"
#include "check.h"
#include "optim/step.h"

static ol_error error;

/* Stops counting on what follows a failure. */
static void ok(ol_status status) {
  if (!CHECK(status == OL_OK)) printf("  %s\n", error.message);
}

static ol_tensor *make_param(ol_dtype dtype, int64_t count, double value) {
  ol_tensor *p;
  ol_shape shape = { 1, { count } };
  ok(ol_tensor_new(&error, dtype, &shape, &p));
  ok(ol_tensor_fill(&error, p, value));
  p->requires_grad = true;
  return p;
}

/* Makes the gradient present. */
static void set_gradient(ol_tensor *p, double value) {
  if (!p->grad) ok(ol_tensor_new(&error, p->dtype, &p->shape, &p->grad));
  ok(ol_tensor_fill(&error, p->grad, value));
  p->has_grad = true;
}

/* One slot that begins with 0 and one that begins as the parameter. */
static void set_layout(ol_group *group) {
  int of_shape[16] = { 0 };
  ol_layout layout = { .count = 2 };
  layout.spec[1].init = OL_SLOT_PARAM;
  ok(ol_group_set_layouts(&error, group, &layout, 1, of_shape));
}

static ol_group *make_group(ol_tensor **params, int64_t count) {
  static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
  ol_group *group = NULL;
  ok(ol_group_new(&error, params, names, count, &group));
  set_layout(group);
  return group;
}

/* The rule p - 0.5*g; slot 0 = slot 0 + g. */
static void build(ol_graph *graph) {
  ol_symbol p, g, s, half, out;
  ok(ol_graph_read(&error, graph, 0, &p));
  ok(ol_graph_read(&error, graph, 1, &g));
  ok(ol_graph_read(&error, graph, 2, &s));
  ok(ol_graph_number(&error, graph, 0.5, &half));
  ok(ol_graph_apply(&error, graph, OL_RULE_ADD, (ol_symbol[]){ s, g }, &out));
  ok(ol_graph_store(&error, graph, 2, out));
  ok(ol_graph_apply(&error, graph, OL_RULE_MUL, (ol_symbol[]){ half, g }, &out));
  ok(ol_graph_apply(&error, graph, OL_RULE_SUB, (ol_symbol[]){ p, out }, &out));
  ok(ol_graph_store(&error, graph, 0, out));
}

static ol_step *step;
static ol_graph *graph;
static ol_program_cache *cache;

/* Traces all members with a gradient; how often the rule ran. */
static int trace(ol_group *group) {
  int64_t count;
  int runs = 0;
  const ol_member *member = NULL;
  ok(ol_step_collect(&error, step, group, &count));
  for (ok(ol_step_next(&error, step, graph, &member)); member; runs++) {
    build(graph);
    ok(ol_step_record(&error, step, cache, graph, false));
    ok(ol_step_next(&error, step, graph, &member));
  }
  return runs;
}

static ol_status prepare(void) {
  ol_step_options options = { .max_norm = 1, .unscale = 1 };
  return ol_step_prepare(&error, step, &options);
}

static void take_step(ol_group *group) {
  trace(group);
  ok(prepare());
  ol_step_commit(step);
}

static const char *address(const ol_tensor *tensor) { return ol_tensor_data(tensor); }

static void small_parameters_lie_side_by_side(void) {
  ol_tensor *p[] = {
    make_param(OL_F32, 3, 1),  make_param(OL_F32, 16, 2), make_param(OL_F32, OL_SLAB_LIMIT, 3),
    make_param(OL_F32, 32, 4), make_param(OL_F64, 8, 5),  make_param(OL_F64, 2, 6)
  };
  const void *large = address(p[2]);
  set_gradient(p[3], 7);
  ol_group *group = make_group(p, 6);
  CHECK(address(p[1]) + 16 * 4 == address(p[3])); /* those that keep the next one aligned first */
  CHECK(address(p[3]) + 32 * 4 == address(p[0]));
  CHECK(address(p[4]) + 8 * 8 == address(p[5]));
  CHECK(address(p[2]) == large);
  CHECK(address(p[1]->grad) + 16 * 4 == address(p[3]->grad));
  CHECK(address(p[3]->grad) + 32 * 4 == address(p[0]->grad));
  CHECK(!p[1]->has_grad && p[3]->has_grad && !p[2]->grad);
  CHECK_NEAR(ol_tensor_get(p[3]->grad, 31), 7, 0);
  for (int i = 0; i < 6; i++) CHECK_NEAR(ol_tensor_get(p[i], p[i]->numel - 1), i + 1, 0);
  ol_release(group);
  for (int i = 0; i < 6; i++) CHECK_NEAR(ol_tensor_get(p[i], 0), i + 1, 0);
  for (int i = 0; i < 6; i++) ol_release(p[i]);
}

static void neighbours_are_one_run(void) {
  ol_tensor *p[5];
  for (int i = 0; i < 5; i++) p[i] = make_param(OL_F32, 10 + i, 1);
  ol_group *group = make_group(p, 5);
  for (int i = 0; i < 5; i++) set_gradient(p[i], 2);
  CHECK_EQUAL(trace(group), 1);
  ok(prepare());
  CHECK_EQUAL(step->runs.count, 1);
  ol_step_commit(step);
  p[2]->has_grad = false; /* a gap */
  CHECK_EQUAL(trace(group), 1);
  ok(prepare());
  CHECK_EQUAL(step->runs.count, 2);
  ol_step_commit(step);
  p[2]->has_grad = true;
  CHECK_EQUAL(trace(group), 2); /* another count of updates */
  ok(prepare());
  CHECK_EQUAL(step->runs.count, 3);
  ol_step_commit(step);
  for (int i = 0; i < 5; i++) {
    CHECK_NEAR(ol_tensor_get(p[i], 9), i == 2 ? -1 : -2, 0);
    CHECK_EQUAL(group->member[i].steps, i == 2 ? 2 : 3);
    ol_release(p[i]);
  }
  ol_release(group);
}

static void scattered_parameters_are_runs_of_their_own(void) {
  ol_tensor *p[] = { make_param(OL_F32, 4, 1), make_param(OL_F32, 4, 1) },
            *whole = make_param(OL_F32, 9, 1);
  ol_shape shape = { 1, { 4 } };
  int64_t stride = 2;
  ol_group *group = make_group(p, 2), *other;
  set_gradient(p[0], 1), set_gradient(p[1], 1);
  take_step(group);
  other = make_group(p, 1); /* nothing moves for one alone */
  trace(group);
  ok(prepare());
  CHECK_EQUAL(step->runs.count, 1);
  ol_step_commit(step);
  ol_release(other);
  ol_tensor *swapped[] = { p[1], p[0] };
  other = make_group(swapped, 2); /* moves both */
  trace(group);
  ok(prepare());
  CHECK_EQUAL(step->runs.count, 2);
  ol_step_commit(step);
  CHECK_NEAR(ol_tensor_get(p[0], 0), -0.5, 0);
  CHECK_NEAR(ol_tensor_get(p[1], 3), -0.5, 0);
  ol_release(other);
  ol_release(group);
  ol_tensor *strided;
  ok(ol_tensor_view(&error, whole, &shape, &stride, 1, &strided));
  strided->requires_grad = true;
  set_gradient(strided, 2);
  group = make_group(&strided, 1);
  take_step(group);
  for (int i = 0; i < 9; i++) CHECK_NEAR(ol_tensor_get(whole, i), i % 2 ? 0 : 1, 0);
  ol_release(group);
  ol_release(strided);
  ol_release(whole);
  ol_release(p[0]);
  ol_release(p[1]);
}

/* Fails each allocation of a preparation in turn. */
static void a_failure_undoes_states(void) {
  ol_tensor *p[] = { make_param(OL_F32, 4, 1), make_param(OL_F32, 4, 2),
                     make_param(OL_F32, OL_SLAB_LIMIT, 3) };
  ol_group *group = make_group(p, 3);
  for (int i = 0; i < 3; i++) set_gradient(p[i], 1);
  int64_t failures = 0;
  for (bool done = false; !done; failures++) {
    trace(group);
    ol_memory_fail_after(failures, true);
    done = prepare() == OL_OK;
    ol_memory_fail_after(-1, false);
    if (done)
      ol_step_commit(step);
    else
      ol_step_abort(step);
    for (int i = 0; i < 3; i++) CHECK_EQUAL(group->member[i].made, done ? 2 : 0);
  }
  CHECK(failures > 5);
  for (int i = 0; i < 3; i++) {
    ol_tensor *slot;
    ok(ol_member_slot(&error, group, &group->member[i], 1, &slot));
    CHECK_NEAR(ol_tensor_get(slot, 3), i + 1, 0);
    ol_release(slot);
    ol_release(p[i]);
  }
  ol_release(group);
}

static void growing_fails_whole(void) {
  ol_tensor *p[] = { make_param(OL_F32, OL_SLAB_LIMIT, 1) };
  ol_group *group = make_group(p, 1);
  int64_t failures = 0;
  for (bool done = false; !done; failures++) {
    ol_memory_fail_after(failures, true);
    done = ol_member_grow(&error, group, &group->member[0]) == OL_OK;
    ol_memory_fail_after(-1, false);
    CHECK_EQUAL(group->member[0].made, done ? 2 : 0);
  }
  CHECK(failures > 3);
  ol_release(group);
  ol_release(p[0]);
}

static void a_group_fails_whole(void) {
  int64_t failures = 0;
  static const char *const names[] = { "a", "b" };
  for (bool done = false; !done; failures++) {
    ol_group *group = NULL;
    ol_tensor *p[] = { make_param(OL_F32, 4, 1), make_param(OL_F64, 4, 2) };
    ol_memory_fail_after(failures, true);
    done = ol_group_new(&error, p, names, 2, &group) == OL_OK;
    ol_memory_fail_after(-1, false);
    CHECK(done == (group != NULL));
    for (int i = 0; i < 2; i++) {
      CHECK(done == (p[i]->storage->home != NULL));
      CHECK(done == (p[i]->grad != NULL));
    }
    ol_release(group);
    for (int i = 0; i < 2; i++) ol_release(p[i]);
  }
  CHECK(failures > 8);
}

static void twins_exchange_states(void) {
  ol_tensor *p[] = { make_param(OL_F32, 5, 1), make_param(OL_F32, 16, 2) };
  ol_group *group = make_group(p, 2), *twin = NULL;
  set_gradient(p[0], 1), set_gradient(p[1], 1);
  take_step(group);
  ok(ol_group_twin(&error, group, &twin));
  set_layout(twin);
  ol_tensor *states[] = { make_param(OL_F32, 5, 8), make_param(OL_F32, 5, 9) };
  ol_tensor *scales[] = { NULL, NULL };
  ol_member *member = &twin->member[twin->rank[0]];
  CHECK(ol_member_restore(&error, twin, member, 7, states, scales, 1) == OL_ARGUMENT);
  ok(ol_member_restore(&error, twin, member, 7, states, scales, 2));
  ol_group_exchange(group, twin);
  CHECK_EQUAL(group->member[group->rank[0]].steps, 7);
  CHECK_EQUAL(group->member[group->rank[1]].steps, 0);
  CHECK_EQUAL(twin->member[twin->rank[1]].steps, 1);
  CHECK_EQUAL(group->member[group->rank[1]].made, 0);
  ol_release(twin);
  take_step(group);
  ol_tensor *slot;
  ok(ol_member_slot(&error, group, &group->member[group->rank[0]], 0, &slot));
  CHECK_NEAR(ol_tensor_get(slot, 4), 9, 0);
  ol_release(slot);
  ol_release(group);
  for (int i = 0; i < 2; i++) {
    ol_release(states[i]);
    ol_release(p[i]);
  }
}

static void layouts_only_gain_slots(void) {
  int of_shape[] = { 0 };
  ol_tensor *p[] = { make_param(OL_F32, 4, 1), make_param(OL_F32, 4, 2) };
  ol_group *group = make_group(p, 2);
  set_gradient(p[0], 1), set_gradient(p[1], 3);
  take_step(group);
  ol_layout layout = group->layout[0];
  layout.count = 1;
  CHECK(ol_group_set_layouts(&error, group, &layout, 1, of_shape) == OL_STATE);
  layout.count = 3;
  layout.spec[2] = (ol_slot_spec){ .value = 4 };
  ok(ol_group_set_layouts(&error, group, &layout, 1, of_shape));
  take_step(group);
  for (int i = 0; i < 2; i++) {
    const double first[] = { 2, 6 }, second[] = { 1, 2 };
    CHECK_EQUAL(group->member[i].made, 3);
    CHECK_NEAR(*(float *)ol_member_slot_data(&group->member[i], 0), first[i], 0);
    CHECK_NEAR(*(float *)ol_member_slot_data(&group->member[i], 1), second[i], 0);
    CHECK_NEAR(*(float *)ol_member_slot_data(&group->member[i], 2), 4, 0);
  }
  ol_release(group);
  for (int i = 0; i < 2; i++) ol_release(p[i]);
}

/* A group that had more slots than the twin whose states it takes gains them again. */
static void exchanged_slots_find_room(void) {
  int of_shape[] = { 0 };
  ol_group *twin;
  ol_tensor *p[] = { make_param(OL_F32, 4, 1), make_param(OL_F32, 4, 2) };
  ol_group *group = make_group(p, 2);
  set_gradient(p[0], 1), set_gradient(p[1], 3);
  ok(ol_group_twin(&error, group, &twin));
  set_layout(twin);
  ol_layout layout = group->layout[0];
  layout.count = 4;
  layout.spec[2] = layout.spec[3] = (ol_slot_spec){ .value = 4 };
  ok(ol_group_set_layouts(&error, group, &layout, 1, of_shape));
  ol_group_exchange(group, twin);
  ok(ol_group_set_layouts(&error, group, &layout, 1, of_shape));
  take_step(group);
  for (int i = 0; i < 2; i++) {
    const double first[] = { 1, 3 };
    CHECK_EQUAL(group->member[i].made, 4);
    CHECK_NEAR(*(float *)ol_member_slot_data(&group->member[i], 0), first[i], 0);
    CHECK_NEAR(*(float *)ol_member_slot_data(&group->member[i], 3), 4, 0);
  }
  ol_release(twin);
  ol_release(group);
  for (int i = 0; i < 2; i++) ol_release(p[i]);
}

static void overlaps_are_found(void) {
  int64_t first, second;
  ol_shape shape = { 1, { 4 } };
  int64_t one = 1;
  ol_tensor *base = make_param(OL_F32, 10, 1), *a, *b, *c, *empty = make_param(OL_F32, 0, 1);
  ok(ol_tensor_view(&error, base, &shape, &one, 0, &a));
  ok(ol_tensor_view(&error, base, &shape, &one, 4, &b));
  ok(ol_tensor_view(&error, base, &shape, &one, 6, &c));
  ok(ol_find_overlap(&error, (ol_tensor *[]){ b, empty, a }, 3, &first, &second));
  CHECK_EQUAL(first, -1);
  ok(ol_find_overlap(&error, (ol_tensor *[]){ c, a, empty, b }, 4, &first, &second));
  CHECK_EQUAL(first, 0);
  CHECK_EQUAL(second, 3);
  ok(ol_find_overlap(&error, (ol_tensor *[]){ a, b, base }, 3, &first, &second));
  CHECK_EQUAL(first, 0);
  CHECK_EQUAL(second, 2);
  ol_tensor *all[] = { base, a, b, c, empty };
  for (int i = 0; i < 5; i++) ol_release(all[i]);
}

int main(void) {
  ok(ol_step_new(&error, &step));
  ok(ol_graph_new(&error, &graph));
  ok(ol_program_cache_new(&error, 8, &cache));
  small_parameters_lie_side_by_side();
  neighbours_are_one_run();
  scattered_parameters_are_runs_of_their_own();
  a_failure_undoes_states();
  growing_fails_whole();
  a_group_fails_whole();
  twins_exchange_states();
  layouts_only_gain_slots();
  exchanged_slots_find_room();
  overlaps_are_found();
  ol_step_free(step);
  ol_graph_free(graph);
  ol_program_cache_free(cache);
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
