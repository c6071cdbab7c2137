--- data: datasets, files of data, and the loader that cuts them into batches.
local options = require "optlua.options"

local dataset = require "optlua.data.dataset"
local loader = require "optlua.data.loader"
local mnist = require "optlua.data.mnist"
local image = require "optlua.data.image"
local text = require "optlua.data.text"

return options.strict("data", {
  tensors = dataset.tensors,
  subset = dataset.subset,
  concat = dataset.concat,
  random_split = dataset.random_split,
  transformed = dataset.transformed,
  collate = loader.collate,
  pad_collate = loader.pad_collate,
  loader = loader.loader,
  digits = require("optlua.data.digits").digits,
  text = text.text,
  system_texts = text.system_texts,
  tokens = require("optlua.data.tokens").tokens,
  vocabulary = require("optlua.data.vocabulary").vocabulary,
  generate = require("optlua.data.generate").generate,
  csv = require("optlua.data.csv").csv,
  read_image = image.read_image,
  write_png = image.write_png,
  image_folder = image.image_folder,
  transforms = require "optlua.data.transforms",
  idx = mnist.idx,
  mnist = mnist.mnist,
  fashion_mnist = mnist.fashion_mnist,
})
