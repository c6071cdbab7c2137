/* dropout: leaving out elements at random while a network trains (Srivastava et al., 2014). */
#include "ops/choose.h"
#include "ops/families.h"
#include "ops/generator.h"
#include "ops/pointwise.h"

/* A mask in the making: element i is 1 unless its 32 bits are below the threshold. */
typedef struct mask_job {
  ol_rng rng;
  uint64_t threshold;
  uint8_t *mask;
} mask_job;

static void draw_mask(int64_t begin, int64_t end, void *context) {
  enum { TILE = 256 };
  const mask_job *job = context;
  for (int64_t i = begin; i < end; i += TILE) {
    uint32_t bits[TILE];
    int64_t count = end - i < TILE ? end - i : TILE;
    ol_rng_blocks(job->rng.seed, job->rng.stream, job->rng.position + (uint64_t)i / 4,
                  (count + 3) / 4, bits);
    for (int64_t k = 0; k < count; k++) job->mask[i + k] = bits[k] >= job->threshold;
  }
}

/* A mask of shape that is 0 with probability p. Advances the generator. */
static ol_status new_mask(ol_error *error, const ol_shape *shape, double p, ol_tensor **out) {
  ol_rng *rng = ol_generator();
  OL_TRY(ol_tensor_new(error, OL_U8, shape, out));
  mask_job job = { *rng, (uint64_t)(p * 0x1p32), ol_tensor_data(*out) };
  ol_parallel_for((*out)->numel, OL_GRAIN, draw_mask, &job);
  rng->position += ((uint64_t)(*out)->numel + 3) / 4;
  return OL_OK;
}

/* What kept elements are multiplied by, so that sums stay the same in the mean. */
static double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

static ol_status dropout_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *mask;
  double p = call->arg[1].number;
  if (!(p >= 0 && p <= 1))
    return ol_fail(error, OL_ARGUMENT, "dropout: p is %g; a probability is from 0 to 1",
                   ol_shown(p));
  if (!ol_dtype_computes(x->dtype))
    return ol_fail(error, OL_DTYPE, "dropout: is not defined for %s", ol_dtype_name(x->dtype));
  if (p == 0 || !call->arg[2].flag) {
    call->out[0] = ol_retain(x);
    return OL_OK;
  }
  ol_rng before = *ol_generator();
  OL_TRY(new_mask(error, &x->shape, p, &mask));
  ol_status status = ol_keep_scaled(error, mask, x, scale_of(p), &call->out[0]);
  if (status != OL_OK) *ol_generator() = before;
  if (status == OL_OK && call->recording)
    call->kept[0] = mask;
  else
    ol_release(mask);
  return status;
}

static ol_status dropout_backward(ol_error *error, ol_back *back) {
  return ol_keep_scaled(error, back->kept[0], back->grad_out[0], scale_of(back->arg[1].number),
                        &back->grad[0]);
}

static const ol_op ops[] = {
  { .name = "dropout",
    .doc =
        "While training, each element with probability p replaced by 0 (whatever it was) and the "
        "others divided by 1 - p; else self.",
    .example = "print(optlua.ones(3):dropout(1)) --> tensor([0., 0., 0.])",
    .samples = "{ { t(3, 4) }, { t(3, 4), 0.2 }, { t(), 0.5 }, { t(0, 3) }, { t(4, 3):t(), 0.3 },"
               "  { t(3, 4), 1 }, { t(3, 4), 0 }, { t(3, 4), 0.5, false } }",
    .param = { { "self", OL_TENSOR },
               { "p", OL_NUMBER, .optional = true, .preset = 0.5,
                 .doc = "the probability of being dropped" },
               { "training", OL_FLAG, .optional = true, .preset = 1 } },
    .flags = OL_OP_RANDOM,
    .forward = dropout_forward,
    .backward = dropout_backward },
  { 0 },
};

const ol_family ol_dropout_ops = { .name = "dropout", .doc = "Dropout", .ops = ops };
