--- data: datasets, and the loader that cuts them into batches.
--
-- A dataset is a table with `n`, the number of items, and `get(i)`, which returns the values of item
-- i (1 … n): tensors or numbers. It may have `batch(positions)` too, which returns the values of many
-- items at once, stacked; positions is an int64 tensor that counts from 0.
return {
  tensors = require("optlua.data.dataset").tensors,
  subset = require("optlua.data.dataset").subset,
  collate = require("optlua.data.loader").collate,
  loader = require("optlua.data.loader").loader,
  digits = require("optlua.data.digits").digits,
}
