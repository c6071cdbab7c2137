/* Norms of gradients: exact cases, no overflow, NaN and infinity found and named, the same bits on
 * any number of threads. */
#include "rule/norm.h"
#include "rule_build.h"

static ol_norm_result norm_of(const ol_norm_input *inputs, int64_t count) {
  ol_norm_result result = { -1, -1, -1 };
  ok(ol_norm(&error, inputs, count, &result));
  return result;
}

static void known_norms(void) {
  float three[] = { 3 }, four[] = { 0, -4 };
  double twelve[] = { 12 };
  ol_bf16 small[] = { ol_bf16_from_f32(-84) };
  const ol_norm_input inputs[] = { { three, OL_F32, 1 },
                                   { four, OL_F32, 2 },
                                   { NULL, OL_F32, 0 },
                                   { twelve, OL_F64, 1 },
                                   { small, OL_BF16, 1 } };
  CHECK(norm_of(inputs, 1).two == 3);
  CHECK(norm_of(inputs, 3).two == 5);
  CHECK(norm_of(inputs, 4).two == 13);
  ol_norm_result all = norm_of(inputs, 5);
  CHECK(all.two == 85 && all.infinity == 84 && all.nonfinite == -1);
}

static void nothing_has_norm_zero(void) {
  const ol_norm_input empty = { NULL, OL_F64, 0 };
  CHECK(norm_of(NULL, 0).two == 0 && norm_of(NULL, 0).infinity == 0);
  CHECK(norm_of(&empty, 1).two == 0 && norm_of(&empty, 1).infinity == 0);
}

/* A float sum of squares would be infinite; a double one, too, in the second case. */
static void large_and_small_values(void) {
  float large[100];
  double wide[2] = { 3e200, -4e200 }, tiny[2] = { 3e-200, 4e-200 }, least[1] = { 0x1p-1074 };
  for (int i = 0; i < 100; i++) large[i] = 1e20f;
  CHECK_NEAR(norm_of(&(ol_norm_input){ large, OL_F32, 100 }, 1).two, 1e21, 1e14);
  CHECK_NEAR(norm_of(&(ol_norm_input){ wide, OL_F64, 2 }, 1).two, 5e200, 1e186);
  CHECK_EQUAL(norm_of(&(ol_norm_input){ wide, OL_F64, 2 }, 1).nonfinite, -1);
  CHECK_NEAR(norm_of(&(ol_norm_input){ tiny, OL_F64, 2 }, 1).two, 5e-200, 1e-214);
  CHECK(norm_of(&(ol_norm_input){ least, OL_F64, 1 }, 1).two == 0x1p-1074);
  float zeros[5] = { 0 };
  const ol_norm_input with_tiny[] = { { zeros, OL_F32, 5 }, { tiny, OL_F64, 2 } };
  const ol_norm_input with_wide[] = { { large, OL_F32, 100 }, { wide, OL_F64, 2 } };
  CHECK_NEAR(norm_of(with_tiny, 2).two, 5e-200, 1e-214);
  CHECK_NEAR(norm_of(with_wide, 2).two, 5e200, 1e186);
}

static void nonfinite_values_are_named(void) {
  static const double bad[] = { NAN, INFINITY, -INFINITY };
  float good[300] = { 1 }, single[300] = { 0 };
  double wide[20] = { 0 };
  ol_bf16 narrow[20] = { 0 };
  for (int i = 0; i < 3; i++) {
    single[257] = (float)bad[i], wide[7] = bad[i], narrow[19] = ol_bf16_from_f32((float)bad[i]);
    const ol_norm_input inputs[] = {
      { good, OL_F32, 300 }, { single, OL_F32, 300 }, { wide, OL_F64, 20 }, { narrow, OL_BF16, 20 }
    };
    CHECK_EQUAL(norm_of(inputs, 1).nonfinite, -1);
    CHECK_EQUAL(norm_of(inputs, 4).nonfinite, 1);
    CHECK_EQUAL(norm_of(inputs + 2, 2).nonfinite, 0);
    CHECK_EQUAL(norm_of(inputs + 3, 1).nonfinite, 0);
    ol_norm_result all = norm_of(inputs, 4);
    CHECK(!isfinite(all.two) && !isfinite(all.infinity));
  }
}

/* Each part is measured as if it were alone, though others overflow. */
static void parts_are_measured_apart(void) {
  float three[] = { 3 }, four[] = { 0, -4 };
  double wide[2] = { 3e200, -4e200 }, tiny[1] = { 3e-200 };
  const ol_norm_input inputs[] = {
    { three, OL_F32, 1 }, { four, OL_F32, 2 }, { wide, OL_F64, 2 }, { tiny, OL_F64, 1 }
  };
  ol_norm_part parts[] = { { 2 }, { 2 }, { 3 }, { 4 } };
  ol_norm_result all;
  ok(ol_norm_of_parts(&error, inputs, 4, parts, 4, &all));
  CHECK(parts[0].result.two == 5 && parts[0].result.infinity == 4);
  CHECK(parts[1].result.two == 0 && parts[1].result.infinity == 0);
  CHECK(same_number(parts[2].result.two, norm_of(inputs + 2, 1).two));
  CHECK(same_number(parts[3].result.two, norm_of(inputs + 3, 1).two));
  CHECK(same_number(all.two, norm_of(inputs, 4).two));
  four[0] = NAN;
  ok(ol_norm_of_parts(&error, inputs, 4, parts, 4, &all));
  CHECK_EQUAL(all.nonfinite, 1);
  CHECK_EQUAL(parts[0].result.nonfinite, 1);
  CHECK_EQUAL(parts[2].result.nonfinite, -1);
}

static void threads_do_not_matter(void) {
  enum { COUNT = 300001 };
  float *x = malloc(sizeof *x * COUNT);
  for (int i = 0; i < COUNT; i++) x[i] = (float)uniform(-1, 1);
  const ol_norm_input inputs[] = { { x, OL_F32, COUNT },
                                   { x + 5, OL_F32, 70000 },
                                   { x, OL_F32, 1 } };
  ol_set_threads(1);
  ol_norm_result one = norm_of(inputs, 3);
  double sum = 0;
  for (int k = 0; k < 3; k++)
    for (int64_t i = 0; i < inputs[k].count; i++)
      sum += (double)((const float *)inputs[k].data)[i] * ((const float *)inputs[k].data)[i];
  CHECK_NEAR(one.two, sqrt(sum), 1e-10);
  for (int threads = 2; threads <= 3; threads++) {
    ol_set_threads(threads);
    ol_norm_result more = norm_of(inputs, 3);
    CHECK(same_number(one.two, more.two) && same_number(one.infinity, more.infinity));
  }
  free(x);
}

static void errors(void) {
  int64_t labels[2] = { 1, 2 };
  float x[2] = { 1, 2 };
  ol_norm_result result = { 7, 7, 7 };
  CHECK_EQUAL(ol_norm(&error, &(ol_norm_input){ labels, OL_I64, 2 }, 1, &result), OL_DTYPE);
  CHECK_STRING(error.message, "norm: takes floats, not int64");
  for (int i = 0; i < 2; i++) {
    ol_memory_fail_after(i, false);
    CHECK_EQUAL(ol_norm(&error, &(ol_norm_input){ x, OL_F32, 2 }, 1, &result), OL_MEMORY);
    ol_memory_fail_after(-1, false);
    CHECK(result.two == 7 && result.infinity == 7 && result.nonfinite == 7);
  }
}

int main(void) {
  known_norms();
  nothing_has_norm_zero();
  large_and_small_values();
  nonfinite_values_are_named();
  parts_are_measured_apart();
  threads_do_not_matter();
  errors();
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
