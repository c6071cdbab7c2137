/* cell: rows of gates, forward and backward. */
#include "ops/cell.h"

#include "base/parallel.h"
#include "base/vecmath.h"

#define DEFINE_SIGMOID(suffix, type)                                                               \
  OL_KERNEL static void negate_##suffix(int64_t n, type *x) {                                      \
    for (int64_t k = 0; k < n; k++) x[k] = -x[k];                                                  \
  }                                                                                                \
  OL_KERNEL static void invert_##suffix(int64_t n, type *x) {                                      \
    for (int64_t k = 0; k < n; k++) x[k] = 1 / (1 + x[k]);                                         \
  }                                                                                                \
  static void sigmoid_##suffix(int64_t n, type *x) {                                               \
    negate_##suffix(n, x);                                                                         \
    ol_vexp_##suffix(n, x, x);                                                                     \
    invert_##suffix(n, x);                                                                         \
  }
DEFINE_SIGMOID(f32, float)
DEFINE_SIGMOID(f64, double)

/* ---- one gate ---- */

#define DEFINE_PLAIN(name, suffix, type, RISE)                                                     \
  OL_KERNEL static void name##_back_##suffix(int64_t n, const void *row, const void *h,            \
                                             const void *c, const void *memory, void *dh,          \
                                             void *dc, void *slopes) {                             \
    const type *y = row;                                                                           \
    type *g = dh, *s = slopes;                                                                     \
    (void)h, (void)c, (void)memory, (void)dc;                                                      \
    OL_APART for (int64_t k = 0; k < n; k++) {                                                     \
      s[k] = g[k] * (RISE(y[k]));                                                                  \
      g[k] = 0;                                                                                    \
    }                                                                                              \
  }
#define TANH_RISE(y) (1 - (y) * (y))
#define RELU_RISE(y) ((y) > 0 ? 1 : 0)
DEFINE_PLAIN(tanh, f32, float, TANH_RISE)
DEFINE_PLAIN(tanh, f64, double, TANH_RISE)
DEFINE_PLAIN(relu, f32, float, RELU_RISE)
DEFINE_PLAIN(relu, f64, double, RELU_RISE)

#define DEFINE_PLAIN_FORWARD(suffix, type)                                                         \
  static void tanh_##suffix(int64_t n, void *row, void *h, void *c, void *memory) {                \
    (void)c, (void)memory;                                                                         \
    ol_vtanh_##suffix(n, row, row);                                                                \
    memcpy(h, row, (size_t)n * sizeof(type));                                                      \
  }                                                                                                \
  OL_KERNEL static void relu_##suffix(int64_t n, void *row, void *h, void *c, void *memory) {      \
    type *x = row, *y = h;                                                                         \
    (void)c, (void)memory;                                                                         \
    OL_APART for (int64_t k = 0; k < n; k++) y[k] = x[k] = x[k] < 0 ? 0 : x[k];                    \
  }
DEFINE_PLAIN_FORWARD(f32, float)
DEFINE_PLAIN_FORWARD(f64, double)

#define PLAIN(name)                                                                                \
  {                                                                                                \
    .gates = 1, .width = 1, .pieces = 1, .piece = { { 0, 1, 0 } },                                 \
    .forward = { name##_f32, name##_f64 }, .backward = {                                           \
      name##_back_f32,                                                                             \
      name##_back_f64                                                                              \
    }                                                                                              \
  }
const ol_cell ol_tanh_cell = PLAIN(tanh);
const ol_cell ol_relu_cell = PLAIN(relu);

/* ---- LSTM: rows i, f, g, o ---- */

#define DEFINE_LSTM(suffix, type)                                                                  \
  OL_KERNEL static void remember_##suffix(int64_t n, const type *row, type *c, type *memory) {     \
    OL_APART for (int64_t k = 0; k < n; k++) memory[k] = c[k] =                                    \
        row[n + k] * c[k] + row[k] * row[2 * n + k];                                               \
  }                                                                                                \
  OL_KERNEL static void times_##suffix(int64_t n, const type *x, const type *y, type *z) {         \
    OL_APART for (int64_t k = 0; k < n; k++) z[k] = x[k] * y[k];                                   \
  }                                                                                                \
  static void lstm_##suffix(int64_t n, void *row, void *h, void *c, void *memory) {                \
    type *x = row, *m = memory;                                                                    \
    sigmoid_##suffix(2 * n, x);                                                                    \
    ol_vtanh_##suffix(n, x + 2 * n, x + 2 * n);                                                    \
    sigmoid_##suffix(n, x + 3 * n);                                                                \
    remember_##suffix(n, x, c, m);                                                                 \
    ol_vtanh_##suffix(n, m, m + n);                                                                \
    times_##suffix(n, x + 3 * n, m + n, h);                                                        \
  }                                                                                                \
  OL_KERNEL static void lstm_back_##suffix(int64_t n, const void *row, const void *h,              \
                                           const void *c, const void *memory, void *dh, void *dc,  \
                                           void *slopes) {                                         \
    const type *x = row, *before = c, *t = (const type *)memory + n;                               \
    type *gh = dh, *gc = dc, *s = slopes;                                                          \
    (void)h;                                                                                       \
    OL_APART for (int64_t k = 0; k < n; k++) {                                                     \
      const type i = x[k], f = x[n + k], g = x[2 * n + k], o = x[3 * n + k];                       \
      const type d = gc[k] + gh[k] * o * (1 - t[k] * t[k]);                                        \
      s[k] = d * g * i * (1 - i);                                                                  \
      s[n + k] = d * before[k] * f * (1 - f);                                                      \
      s[2 * n + k] = d * i * (1 - g * g);                                                          \
      s[3 * n + k] = gh[k] * t[k] * o * (1 - o);                                                   \
      gc[k] = d * f;                                                                               \
      gh[k] = 0;                                                                                   \
    }                                                                                              \
  }
DEFINE_LSTM(f32, float)
DEFINE_LSTM(f64, double)

const ol_cell ol_lstm_cell = { .gates = 4,
                               .width = 4,
                               .memory = true,
                               .pieces = 1,
                               .piece = { { 0, 4, 0 } },
                               .forward = { lstm_f32, lstm_f64 },
                               .backward = { lstm_back_f32, lstm_back_f64 } };

/* ---- GRU: rows r, z, n, q ---- */

#define DEFINE_GRU(suffix, type)                                                                   \
  OL_KERNEL static void reset_##suffix(int64_t n, type *row) {                                     \
    OL_APART for (int64_t k = 0; k < n; k++) row[2 * n + k] += row[k] * row[3 * n + k];            \
  }                                                                                                \
  OL_KERNEL static void mix_##suffix(int64_t n, const type *row, type *h) {                        \
    OL_APART for (int64_t k = 0; k < n; k++) h[k] =                                                \
        (1 - row[n + k]) * row[2 * n + k] + row[n + k] * h[k];                                     \
  }                                                                                                \
  static void gru_##suffix(int64_t n, void *row, void *h, void *c, void *memory) {                 \
    type *x = row;                                                                                 \
    (void)c, (void)memory;                                                                         \
    sigmoid_##suffix(2 * n, x);                                                                    \
    reset_##suffix(n, x);                                                                          \
    ol_vtanh_##suffix(n, x + 2 * n, x + 2 * n);                                                    \
    mix_##suffix(n, x, h);                                                                         \
  }                                                                                                \
  OL_KERNEL static void gru_back_##suffix(int64_t n, const void *row, const void *h,               \
                                          const void *c, const void *memory, void *dh, void *dc,   \
                                          void *slopes) {                                          \
    const type *x = row, *before = h;                                                              \
    type *g = dh, *s = slopes;                                                                     \
    (void)c, (void)memory, (void)dc;                                                               \
    OL_APART for (int64_t k = 0; k < n; k++) {                                                     \
      const type r = x[k], z = x[n + k], y = x[2 * n + k], q = x[3 * n + k];                       \
      const type d = g[k] * (1 - z) * (1 - y * y);                                                 \
      s[k] = d * q * r * (1 - r);                                                                  \
      s[n + k] = g[k] * (before[k] - y) * z * (1 - z);                                             \
      s[2 * n + k] = d;                                                                            \
      s[3 * n + k] = d * r;                                                                        \
      g[k] *= z;                                                                                   \
    }                                                                                              \
  }
DEFINE_GRU(f32, float)
DEFINE_GRU(f64, double)

const ol_cell ol_gru_cell = { .gates = 3,
                              .width = 4,
                              .pieces = 2,
                              .piece = { { 0, 2, 0 }, { 2, 1, 3 } },
                              .forward = { gru_f32, gru_f64 },
                              .backward = { gru_back_f32, gru_back_f64 } };
