/* dtype: names and sizes. */
#include "tensor/dtype.h"

static const struct {
  const char *name;
  size_t size;
} dtypes[OL_DTYPES] = {
  [OL_U8] = { "uint8", 1 },    [OL_I64] = { "int64", 8 },   [OL_BF16] = { "bfloat16", 2 },
  [OL_F32] = { "float32", 4 }, [OL_F64] = { "float64", 8 },
};

size_t ol_dtype_size(ol_dtype dtype) { return dtypes[dtype].size; }

const char *ol_dtype_name(ol_dtype dtype) { return dtypes[dtype].name; }

bool ol_dtype_parse(const char *name, ol_dtype *out) {
  for (int i = 0; i < OL_DTYPES; i++) {
    if (strcmp(dtypes[i].name, name) != 0) continue;
    *out = (ol_dtype)i;
    return true;
  }
  return false;
}
