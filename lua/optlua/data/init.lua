--- data: datasets, files of data, and the loader that cuts them into batches.
local options = require "optlua.options"

local dataset = require "optlua.data.dataset"
local loader = require "optlua.data.loader"
local mnist = require "optlua.data.mnist"

return options.strict("data", {
  tensors = dataset.tensors,
  subset = dataset.subset,
  concat = dataset.concat,
  random_split = dataset.random_split,
  transformed = dataset.transformed,
  collate = loader.collate,
  loader = loader.loader,
  digits = require("optlua.data.digits").digits,
  idx = mnist.idx,
  mnist = mnist.mnist,
  fashion_mnist = mnist.fashion_mnist,
})
