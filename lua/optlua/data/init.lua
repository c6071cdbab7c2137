--- data: datasets, and the loader that cuts them into batches.
local options = require "optlua.options"

return options.strict("data", {
  tensors = require("optlua.data.dataset").tensors,
  subset = require("optlua.data.dataset").subset,
  collate = require("optlua.data.loader").collate,
  loader = require("optlua.data.loader").loader,
  digits = require("optlua.data.digits").digits,
})
