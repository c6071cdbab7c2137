/* dtype: names. */
#include "tensor/dtype.h"

static const char *const names[OL_DTYPES] = {
  [OL_U8] = "uint8",    [OL_I64] = "int64",   [OL_BF16] = "bfloat16",
  [OL_F32] = "float32", [OL_F64] = "float64",
};

const char *ol_dtype_name(ol_dtype dtype) { return names[dtype]; }

bool ol_dtype_parse(const char *name, ol_dtype *out) {
  for (int i = 0; i < OL_DTYPES; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *out = (ol_dtype)i;
    return true;
  }
  return false;
}
