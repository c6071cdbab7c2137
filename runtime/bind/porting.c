/* porting: what stands here for names of PyTorch that are not here. */
#include "bind/porting.h"

#include <string.h>

#include <lauxlib.h>

#include "bind/native.h"

#define DTYPES "dtypes are float32, float64, int64, uint8, and bfloat16 to store"
#define CPU    "everything is in the memory of the CPU; leave it out"

/* A name of torch, torch.Tensor, torch.nn, torch.optim or torch.utils.data: what to write here. */
static const struct {
  const char *name, *instead;
} names[] = {
  { "AdamWScheduleFree", "ScheduleFreeAdamW" },
  { "AveragedModel", "optim.container's option ema, or optim.swa(class)" },
  { "ColorJitter", "a function (image, random) in data.transformed" },
  { "Conv3d", "only Conv1d and Conv2d are here" },
  { "DataLoader", "data.loader(dataset, { batch_size = 64, shuffle = true }):batches()" },
  { "Dataset", "a dataset is a table { n = count, get = function(i) … end }" },
  { "Dropout1d", "only Dropout is here" },
  { "Dropout2d", "only Dropout is here" },
  { "FloatTensor", "optlua.tensor(values)" },
  { "ImageFolder", "data.image_folder(path)" },
  { "LongTensor", "optlua.tensor(values, \"int64\")" },
  { "SGDScheduleFree", "ScheduleFreeSGD" },
  { "Subset", "data.subset(dataset, positions)" },
  { "Tensor", "optlua.tensor(values)" },
  { "TensorDataset", "data.tensors(x, y)" },
  { "ToTensor", "ToFloat()" },
  { "absolute", "abs" },
  { "bfloat16", ":to \"bfloat16\"; " DTYPES },
  { "bincount", "one_hot(ids, count):sum(1)" },
  { "bool", ":ne(0); masks are uint8" },
  { "byte", ":to \"uint8\"" },
  { "clip", "clamp" },
  { "compile", "nothing has to be compiled" },
  { "cpu", CPU },
  { "cuda", CPU },
  { "data", "detach() shares its memory" },
  { "device", CPU },
  { "double", ":to \"float64\"" },
  { "einsum", "matmul, or permute, * and sum" },
  { "float", ":to \"float32\"" },
  { "float16", "\"bfloat16\" stores in 16 bits; " DTYPES },
  { "float32", "dtypes are words: \"float32\"" },
  { "float64", "dtypes are words: \"float64\"" },
  { "from_numpy", "optlua.npy(path) reads a file of numpy's" },
  { "half", ":to \"bfloat16\" stores in 16 bits; " DTYPES },
  { "inference_mode", "optlua.no_grad(function() … end)" },
  { "int", ":to \"int64\"" },
  { "int16", DTYPES },
  { "int32", DTYPES },
  { "int64", "dtypes are words: \"int64\"" },
  { "int8", DTYPES },
  { "is_cuda", CPU },
  { "long", ":to \"int64\"" },
  { "median", "sort" },
  { "nelement", "numel" },
  { "numpy", "totable()" },
  { "param_groups", "groups.NAME.lr, groups[1].lr" },
  { "pin_memory", CPU },
  { "quantile", "sort" },
  { "save_image", "data.write_png(path, image)" },
  { "set_grad_enabled", "optlua.no_grad(function() … end)" },
  { "short", DTYPES },
  { "tolist", "totable()" },
  { "type", "the property dtype, or :to(dtype)" },
  { "uint8", "dtypes are words: \"uint8\"" },
};

const char *ol_porting(const char *name) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i].name, name) == 0) return names[i].instead;
  return NULL;
}

/* porting(name): what to write instead of a name of PyTorch's, or nil. */
static int porting(lua_State *L) {
  lua_pushstring(L, ol_porting(luaL_checkstring(L, 1)));
  return 1;
}

const ol_natives ol_porting_natives = {
  .name = "porting",
  .list = (const ol_native[]){ OL_HIDDEN("porting", porting), { { 0 } } },
};
